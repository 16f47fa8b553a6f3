//! The usual packet, in one pass: IP of a session with plain rules, in or out of one tunnel.
//!
//! In front of a packet's way through the UPF (`path`), and in place of it for nearly all packets:
//! the same records are read, and the same is said and changed, but nothing is kept between steps
//! that are not there. Whatever is not usual (options and extension headers, parts of packets, a
//! tunnel over IPv6, a session that redirects, copies, holds, monitors or learns, a limit that is
//! reached, anything dropped) is left as it came, before anything is changed, and goes the whole
//! way. A test holds both ways to the same result for random packets and rules.
//! JUSTIFICATION: `cargo xtask bench upf`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use catena_engine::packet::Packet;
use catena_wire::gtpu::{self, plain};
use catena_wire::pfcp::value::flags::ApplyAction;
use catena_wire::pfcp::value::forwarding::OuterHeaders;

use crate::decision::Decision;
use crate::enforce::instance;
use crate::group::{FROM_GROUP, SWITCH};
use crate::headers::{Datagram, Frame};
use crate::model::{Image, Key, share_prefix};
use crate::qer::Meter;
use crate::rules::{Far, Pdr, QERS_MAX, Qer, URRS_MAX, Urr};
use crate::sdf::Filter;
use crate::settings::Interface;
use crate::stored::{Fields, List};
use crate::upf::Upf;

mod frame;

use frame::{ETHERNET, Outer, User, bare_v6, strip};

type P = Fields<Pdr>;
type F = Fields<Far>;
type Q = Fields<Qer>;

/// An address of a packet: code for one of IPv4 has nothing of IPv6 in it.
trait Address: Copy + Into<IpAddr> {}

impl<A: Copy + Into<IpAddr>> Address for A {}

/// QERs, and URRs, of most PDRs: one of the session and one of the flow. Others are not usual.
const FEW: usize = 2;

/// What the PDR of a packet has it do, as far as that is usual.
struct Rules {
    /// The PDR.
    place: u8,
    /// Its source interface and network instance.
    source: (u8, u8),
    /// How packets leave: by which interface, and in which tunnel.
    interface: u8,
    tunnel: Option<Tunnel>,
    qers: List<u8, QERS_MAX>,
    urrs: List<u8, URRS_MAX>,
}

/// A tunnel to the access network.
struct Tunnel {
    teid: u32,
    peer: Ipv4Addr,
    traffic_class: u8,
    /// QFI and RQI of its packets.
    marks: (Option<u8>, bool),
}

impl Rules {
    #[inline(always)]
    const fn is_uplink(&self) -> bool {
        self.source.0 == 0
    }

    /// Length of all headers in front of the user's packet.
    #[inline(always)]
    fn header_len(&self) -> usize {
        const OUTER: usize = catena_wire::ipv4::HEADER_LEN_MIN + catena_wire::udp::HEADER_LEN;
        let tunnel = self.tunnel.as_ref();
        ETHERNET + tunnel.map_or(0, |one| OUTER + plain::header_len(one.marks.0.is_some()))
    }

    /// What a packet's first PDR by precedence that fits says; none if it is not usual.
    #[inline(always)]
    fn of<A: Address>(image: &Image<'_>, user: &User<A>) -> Option<Self> {
        let mut places = 0..image.pdr_count();
        let fits = |place: &u8| {
            let record = image.record::<Pdr>(*place);
            record.is_some_and(|record| fits(image, record, user))
        };
        let place = places.find(fits)?;
        let record = image.record::<Pdr>(place)?;
        let source = (P::source_interface().get(record), P::instance().get(record));
        let far = image.record::<Far>(P::far_at().get(record))?;
        let interface = F::interface().get(far);
        let action = F::action().get(far);
        if action != ApplyAction::FORW.bits() || interface == SWITCH {
            return None;
        }
        let is_spoofed = source.0 == 0 && user.teid != 0 && !image.is_ue(user.src.into());
        if is_spoofed {
            return None;
        }
        let qers = P::qers_at().get(record);
        let tunnel = match F::headers().get(far) {
            0 => None,
            _ => Some(Tunnel::of(
                image,
                far,
                user,
                (source.0 == 0, qers.as_slice()),
            )?),
        };
        Some(Self {
            place,
            source,
            interface,
            tunnel,
            qers,
            urrs: P::urrs_at().get(record),
        })
    }
}

/// Whether a PDR fits a packet, as in the whole way: of a session that does not look inside, and
/// has no routes.
#[inline(always)]
fn fits<A: Address>(image: &Image<'_>, record: &[u8], user: &User<A>) -> bool {
    let source = P::source_interface().get(record);
    if P::teid().get(record) != user.teid || source == FROM_GROUP {
        return false;
    }
    let qfis = P::qfis().get(record);
    if qfis != 0 && user.qfi.is_none_or(|qfi| qfis >> (qfi & 63) & 1 == 0) {
        return false;
    }
    let is_uplink = source == 0;
    if !is_of_ue(record, user) {
        return false;
    }
    let [from, count] = P::filters().get(record);
    let mut filters = image.filters(from, count);
    count == 0 || filters.any(|filter| Filter::fits_at(filter, &user.ends(), is_uplink))
}

/// Whether a packet's address is that of a PDR's UE, if it names one.
#[inline(always)]
fn is_of_ue<A: Address>(record: &[u8], user: &User<A>) -> bool {
    let v4 = P::ue_v4().get(record);
    if v4.is_none() && P::ue_v6().get(record).is_none() {
        return true;
    }
    let ue = match P::ue_is_destination().get(record) {
        true => user.dst,
        false => user.src,
    };
    match ue.into() {
        IpAddr::V4(ue) => v4 == Some(ue),
        IpAddr::V6(ue) => P::ue_v6()
            .get(record)
            .is_some_and(|own| share_prefix(own, ue)),
    }
}

impl Tunnel {
    /// The tunnel of a FAR for packets that came by none, or by one without a QFI.
    #[inline(always)]
    fn of<A>(
        image: &Image<'_>,
        far: &[u8],
        user: &User<A>,
        (is_uplink, qers): (bool, &[u8]),
    ) -> Option<Self> {
        let is_usual = F::headers().get(far) == OuterHeaders::GTP_U_UDP_IPV4.bits()
            && F::destination().get(far) == 0
            && user.qfi.is_none();
        let peer = F::v4().get(far)?;
        if !is_usual || is_uplink {
            return None;
        }
        let mut marks = (None, false);
        for place in qers {
            let record = image.record::<Qer>(*place)?;
            if Q::ppi().get(record).is_some() {
                return None;
            }
            marks.0 = marks.0.or(Q::qfi().get(record));
            marks.1 |= Q::rqi().get(record);
        }
        let [value, mask] = F::marking().get(far).unwrap_or([0; 2]);
        Some(Self {
            teid: F::teid().get(far),
            peer,
            traffic_class: value & mask,
            marks,
        })
    }
}

/// What the meter of a QER, if there is one, would remember behind a packet that it lets pass; none
/// if it does not. Nothing is charged.
#[inline(always)]
fn passed(
    image: &Image<'_>,
    place: Option<u8>,
    is_uplink: bool,
    packet: (usize, u64),
) -> Option<Option<[u64; 2]>> {
    let Some(place) = place else {
        return Some(None);
    };
    Meter::passed_plainly(image.record::<Qer>(place)?, is_uplink, packet)
}

/// Charges a packet that can leave to its QERs and URRs and counts it; none, and nothing is
/// charged, if any of them has more to say than yes.
#[inline(always)]
fn charge(image: &mut Image<'_>, rules: &Rules, len: usize, now_ns: u64) -> Option<()> {
    let (qers, urrs) = (rules.qers.as_slice(), rules.urrs.as_slice());
    // As many as FEW, without an array: values in one wait to be read until they are written.
    let (first, second) = match *qers {
        [] => (None, None),
        [first] => (Some(first), None),
        [first, second] => (Some(first), Some(second)),
        _ => return None,
    };
    if urrs.len() > FEW {
        return None;
    }
    let is_uplink = rules.is_uplink();
    for place in urrs {
        let record = image.record::<Urr>(*place)?;
        if !Urr::has_room(record, len) {
            return None;
        }
    }
    let one = passed(image, first, is_uplink, (len, now_ns))?;
    let other = passed(image, second, is_uplink, (len, now_ns))?;
    if let (Some(place), Some(words)) = (first, one) {
        Meter::remember(image.record_mut::<Qer>(place)?, is_uplink, words);
    }
    if let (Some(place), Some(words)) = (second, other) {
        Meter::remember(image.record_mut::<Qer>(place)?, is_uplink, words);
    }
    for place in urrs {
        Urr::add_plainly(image.record_mut::<Urr>(*place)?, is_uplink, len, now_ns);
    }
    let record = image.record_mut::<Pdr>(rules.place)?;
    let packets = P::packets().get(record);
    P::packets().set(record, &(packets + 1));
    image.count_passed(is_uplink, len, now_ns);
    Some(())
}

/// Puts a user's packet into the frame, and the tunnel, in which it leaves.
#[inline(always)]
fn forward(
    packet: &mut Packet,
    rules: &Rules,
    out: &Interface,
    (len, is_v6): (usize, bool),
    ident: u16,
) {
    let frame = Frame {
        src: out.mac,
        dst: out.next_hop,
    };
    let bytes = packet.bytes_mut();
    let (Some(tunnel), Some(own)) = (&rules.tunnel, out.v4) else {
        return frame.emit(bytes, is_v6);
    };
    let datagram = Datagram {
        frame,
        src: IpAddr::V4(own),
        dst: IpAddr::V4(tunnel.peer),
        ports: Some((gtpu::PORT, gtpu::PORT)),
        traffic_class: tunnel.traffic_class,
        ident,
    };
    plain::emit(
        &mut bytes[datagram.header_len()..],
        tunnel.teid,
        tunnel.marks,
        len,
    );
    datagram.emit(bytes);
}

impl Upf {
    /// What becomes of a usual packet, which is changed accordingly; none of any other, which is
    /// left as it is, and has changed nothing.
    #[inline(always)]
    pub(crate) fn usual_packet(&mut self, packet: &mut Packet, now_ns: u64) -> Option<Decision> {
        let is_watched = !self.traces.is_idle() || !self.ceilings.is_empty();
        if is_watched || !self.stations.is_empty() {
            return None;
        }
        match self.user(packet.bytes()) {
            Some(user) => self.user_packet(packet, &user, now_ns),
            None => self.user_packet_v6(packet, now_ns),
        }
    }

    /// Apart, and from the start: with both in one, or the check that both begin with in front of
    /// them, code for IPv4 takes a sixth longer (`docs/adr/0024-the-upf.md`).
    #[inline(never)]
    fn user_packet_v6(&mut self, packet: &mut Packet, now_ns: u64) -> Option<Decision> {
        let user = self.user_v6(packet.bytes())?;
        self.user_packet(packet, &user, now_ns)
    }

    #[inline(always)]
    fn user_packet<A: Address>(
        &mut self,
        packet: &mut Packet,
        user: &User<A>,
        now_ns: u64,
    ) -> Option<Decision> {
        let (len, dst) = (user.len, user.dst.into());
        let slot = self.slot_of(match user.teid {
            0 => Key::of_ue(dst),
            teid => Key::Teid(teid),
        })?;
        if !self.holding.is_empty() && self.holding.contains(&slot) {
            return None;
        }
        let mut image = self.store.image(slot).filter(Image::is_plain)?;
        let rules = Rules::of(&image, user)?;
        let out = self.settings.interfaces.get(usize::from(rules.interface))?;
        let header_len = rules.header_len();
        let fits = header_len - ETHERNET + len <= out.mtu
            && header_len <= packet.headroom() + user.at
            && packet.is_writable();
        let is_clamped = user.opens_tcp && self.settings.clamps;
        if !fits || is_clamped || rules.tunnel.is_some() && out.v4.is_none() {
            return None;
        }
        charge(&mut image, &rules, len, now_ns)?;
        let ident = self.ident;
        self.ident = ident.wrapping_add(1);
        let place = instance(&self.settings, rules.source, Some(rules.interface));
        self.tally
            .count(image.slice(), place, rules.is_uplink(), len);
        let is_stripped = strip(packet, user, header_len);
        debug_assert!(is_stripped, "there was room");
        forward(packet, &rules, out, (len, dst.is_ipv6()), ident);
        Some(Decision::Send(rules.interface))
    }

    /// The user's packet of a usual frame: in a tunnel that ends here, or none of the UPF's own.
    #[inline(always)]
    fn user(&self, bytes: &[u8]) -> Option<User<Ipv4Addr>> {
        if self.member_of(bytes).is_some() {
            return None;
        }
        let outer = Outer::parse(bytes)?;
        match self.is_own_v4(outer.dst()) {
            true => outer.tunnelled(),
            false if self.settings.n4_v4 == Some(outer.dst()) => None,
            false => outer.bare(),
        }
    }

    /// The same of IPv6: its tunnel is over IPv4.
    fn user_v6(&self, bytes: &[u8]) -> Option<User<Ipv6Addr>> {
        if self.member_of(bytes).is_some() {
            return None;
        }
        let Some(outer) = Outer::parse(bytes) else {
            let user = bare_v6(bytes)?;
            let dst = user.dst.into();
            let is_own = self.tunnel_end(dst).is_some() || self.is_n4(dst);
            return (!is_own).then_some(user);
        };
        let is_own = self.is_own_v4(outer.dst());
        is_own.then(|| outer.tunnelled_v6())?
    }

    #[inline(always)]
    fn is_own_v4(&self, address: Ipv4Addr) -> bool {
        let mut interfaces = self.settings.interfaces.iter();
        interfaces.any(|one| one.v4 == Some(address))
    }
}

#[cfg(test)]
mod tests;
