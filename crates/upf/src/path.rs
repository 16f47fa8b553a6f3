//! Packets: which session, which PDR, what its rules say.
//!
//! The data path, one packet at a time: tunnel or UE address -> slot -> the first PDR by
//! precedence that fits -> gates and rates, quotas -> counted -> forwarded. Each packet that does
//! not leave has a named reason. Specification: TS 29.244 5.2; TS 29.281 5.2.
//!
//! Parts of packets are put together first where they have to be ([`Decision::Join`]), and packets
//! above an interface's MTU leave in parts ([`Decision::Cut`]) or are told of (`icmp`).

use std::collections::VecDeque;
use std::net::IpAddr;

use catena_engine::packet::Packet;
use catena_wire::gtpu::pdu_session::PduSession;
use catena_wire::gtpu::{self, ExtensionType, MessageType, Role};
use catena_wire::pfcp::PORT as PFCP_PORT;

use crate::advertisement;
use crate::application::Look;
use crate::application::flows::Marks;
use crate::ceilings::Ceilings;
use crate::copies;
use crate::decision::{Decision, Found, Hold, Why};
use crate::enforce::{Ruled, Triggers, charge, count_dropped, instance, ruled};
use crate::forward::{Departure, Unfit, depart, forward, join};
use crate::frame;
use crate::group::{Member, SWITCH};
use crate::headers::{self, Outer};
use crate::icmp::Long;
use crate::marking::{Marking, UNMARKED, marking_of};
use crate::model::{Image, Key};
use crate::monitoring;
use crate::redirect;
use crate::rules::NONE;
use crate::settings::{Exit, Settings};
use crate::trace::Fitting;
use crate::transactions::Peer;
use crate::tunnel::Signal;
use crate::upf::Upf;

mod noted;

impl Upf {
    /// What becomes of a packet, which is changed accordingly; `signals` gets what is answered.
    pub fn packet(
        &mut self,
        packet: &mut Packet,
        signals: &mut VecDeque<Signal>,
        now_ns: u64,
    ) -> Decision {
        // Nobody may say so: it is what the UPF notes of packets that it holds.
        if self.member_of(packet.bytes()).is_some() {
            return Decision::Drop(Why::NotForUs);
        }
        match self.find(packet.bytes(), signals, now_ns) {
            Ok(found) => self.found(packet, &found, signals, now_ns),
            Err(decision) => decision,
        }
    }

    /// What becomes of a packet that came in parts: the frame of a whole one, by the tunnel that a
    /// user's parts came by, and what the container of the first one says.
    pub fn joined_packet(
        &mut self,
        packet: &mut Packet,
        (teid, came): (u32, Marking),
        signals: &mut VecDeque<Signal>,
        now_ns: u64,
    ) -> Decision {
        const ETHERNET: usize = catena_wire::ethernet::HEADER_LEN;
        if teid == 0 {
            return match self.find(packet.bytes(), signals, now_ns) {
                Ok(mut found) => {
                    found.is_joined = found.teid == 0;
                    self.found(packet, &found, signals, now_ns)
                }
                Err(decision) => decision,
            };
        }
        let Some(slot) = self.index.find(Key::Teid(teid)) else {
            return Decision::Drop(Why::UnknownTeid);
        };
        let Some(inner) = headers::inner(&packet.bytes()[ETHERNET..]) else {
            return Decision::Drop(Why::Malformed);
        };
        let found = Found {
            at: ETHERNET,
            inner,
            slot,
            teid,
            came,
            is_joined: true,
            is_opaque: false,
            is_frame: false,
            member: Member::NONE,
        };
        self.found(packet, &found, signals, now_ns)
    }

    fn found(
        &mut self,
        packet: &mut Packet,
        found: &Found,
        signals: &mut VecDeque<Signal>,
        now_ns: u64,
    ) -> Decision {
        // Behind packets that are held already, so that they keep their order.
        if self.holding.contains(&found.slot) && self.is_for_ue(found) {
            let hold = Decision::Hold(Hold::behind(found.slot));
            if !self.traces.is_idle() {
                self.note(packet, found, hold, now_ns);
            }
            return hold;
        }
        if self.is_of_link(packet, found, signals, now_ns) {
            if !self.traces.is_idle() {
                self.note(packet, found, Decision::Consumed, now_ns);
            }
            return Decision::Consumed;
        }
        self.rule(packet, found, signals, now_ns)
    }

    /// Whether a packet goes to its UE: one that came by no tunnel, or by one of another UPF.
    fn is_for_ue(&mut self, found: &Found) -> bool {
        if found.teid == 0 {
            return true;
        }
        let Some(image) = self.store.image(found.slot) else {
            return false;
        };
        let mut pdrs = (0..image.pdr_count()).filter_map(|place| image.pdr(place));
        pdrs.any(|pdr| pdr.teid == found.teid && !pdr.is_uplink())
    }

    /// Whether a packet is of the link between a UE and its UPF, and was taken care of.
    fn is_of_link(
        &mut self,
        packet: &Packet,
        found: &Found,
        signals: &mut VecDeque<Signal>,
        now_ns: u64,
    ) -> bool {
        let Found { at, inner, .. } = found;
        found.teid != 0
            && inner.dst == IpAddr::V6(advertisement::ALL_ROUTERS)
            && self.advertise(
                found.slot,
                &packet.bytes()[*at..at + inner.len],
                signals,
                now_ns,
            )
    }

    /// What becomes of a packet that was held, now.
    pub fn held_packet(
        &mut self,
        packet: &mut Packet,
        signals: &mut VecDeque<Signal>,
        now_ns: u64,
    ) -> Decision {
        if let Some(member) = self.member_of(packet.bytes()) {
            return match self.find_member(packet.bytes(), member) {
                Ok(found) => self.switched(packet, &found, signals, now_ns),
                Err(why) => Decision::Drop(why),
            };
        }
        match self.find(packet.bytes(), signals, now_ns) {
            Ok(found) => self.rule(packet, &found, signals, now_ns),
            Err(decision) => decision,
        }
    }

    /// As [`Upf::packet`] as far as bytes alone decide: whether its session was found.
    #[cfg(test)]
    pub(crate) fn look(
        &mut self,
        bytes: &[u8],
        signals: &mut VecDeque<Signal>,
        now_ns: u64,
    ) -> bool {
        self.find(bytes, signals, now_ns).is_ok()
    }

    /// Finds the session of a packet.
    fn find(
        &mut self,
        bytes: &[u8],
        signals: &mut VecDeque<Signal>,
        now_ns: u64,
    ) -> Result<Found, Decision> {
        let drop = |why| Err(Decision::Drop(why));
        let outer = headers::outer(bytes);
        if !self.stations.is_empty()
            && !self.is_own(&outer)
            && let Some(found) = self.find_frame(bytes, signals, now_ns)
        {
            return found;
        }
        match outer {
            Outer::Malformed => drop(Why::Malformed),
            Outer::Other => drop(Why::NotForUs),
            Outer::Udp {
                src,
                dst,
                src_port,
                dst_port,
                from,
                to,
                ..
            } if dst_port == PFCP_PORT && self.is_n4(dst) => {
                let peer = Peer {
                    address: src,
                    port: src_port,
                };
                if !self.traces.is_idle() && self.settings.is_peer(src) {
                    self.traces.heard(bytes, from..to, src, now_ns);
                }
                self.datagram(&bytes[from..to], peer, now_ns);
                Err(Decision::Consumed)
            }
            Outer::Udp {
                src,
                dst,
                src_port,
                dst_port: gtpu::PORT,
                from,
                to,
                ..
            } if self.tunnel_end(dst).is_some() => {
                let peer = (src, src_port, dst);
                self.find_tunnel(&bytes[from..to], from, peer, signals, now_ns)
            }
            Outer::Part { dst, l3 } if self.tunnel_end(dst).is_some() || self.is_n4(dst) => {
                Err(join(l3, 0, UNMARKED))
            }
            Outer::Udp { dst, l3, .. } | Outer::Ip { dst, l3 } | Outer::Part { dst, l3 } => {
                if self.tunnel_end(dst).is_some() {
                    return drop(Why::NotForUs);
                }
                let slot = self.slot_of(Key::of_ue(dst));
                let Some(slot) = slot.or_else(|| self.index.find_route(dst)) else {
                    return drop(Why::UnknownUe);
                };
                if self.store.is_unstructured(slot) {
                    return self.find_datagram(bytes, slot);
                }
                let inner = headers::inner(&bytes[l3..]);
                let inner = inner.ok_or(Decision::Drop(Why::Malformed))?;
                Ok(Found {
                    at: l3,
                    inner,
                    slot,
                    teid: 0,
                    came: UNMARKED,
                    is_joined: false,
                    is_opaque: false,
                    is_frame: false,
                    member: Member::NONE,
                })
            }
        }
    }

    /// The slot of the session with this key.
    #[inline]
    pub(crate) fn slot_of(&self, key: Key) -> Option<u32> {
        match self.hint {
            Some((words, slot)) if words == key.words() => Some(slot),
            _ => self.index.find(key),
        }
    }

    /// Whether a frame is for an address of the UPF's own.
    fn is_own(&self, outer: &Outer) -> bool {
        match *outer {
            Outer::Udp { dst, .. } | Outer::Ip { dst, .. } | Outer::Part { dst, .. } => {
                self.is_n4(dst) || self.tunnel_end(dst).is_some()
            }
            Outer::Other | Outer::Malformed => false,
        }
    }

    fn is_n4(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.settings.n4_v4 == Some(address),
            IpAddr::V6(address) => self.settings.n4_v6 == Some(address),
        }
    }

    /// The interface whose tunnels end at an address.
    pub(crate) fn tunnel_end(&self, address: IpAddr) -> Option<u8> {
        let mut interfaces = self.settings.interfaces.iter();
        let place = interfaces.position(|interface| match address {
            IpAddr::V4(address) => interface.v4 == Some(address),
            IpAddr::V6(address) => interface.v6 == Some(address),
        });
        place.and_then(|place| u8::try_from(place).ok())
    }

    fn find_tunnel(
        &mut self,
        message: &[u8],
        from: usize,
        peer: (IpAddr, u16, IpAddr),
        signals: &mut VecDeque<Signal>,
        now_ns: u64,
    ) -> Result<Found, Decision> {
        let Ok(view) = gtpu::View::parse(message) else {
            return Err(Decision::Drop(Why::Malformed));
        };
        match view.message_type() {
            MessageType::G_PDU => {}
            MessageType::ECHO_REQUEST => {
                self.counters.echoes += 1;
                self.echo(view.sequence().unwrap_or(0), peer, signals);
                return Err(Decision::Consumed);
            }
            MessageType::ECHO_RESPONSE => {
                self.hear_echo(peer, view.sequence().unwrap_or(0), now_ns);
                return Err(Decision::Consumed);
            }
            MessageType::ERROR_INDICATION => {
                self.hear_error_indication(view.payload(), peer.0, now_ns);
                return Err(Decision::Consumed);
            }
            MessageType::END_MARKER => {
                self.pass_end_marker(view.teid(), signals);
                return Err(Decision::Consumed);
            }
            _ => return Err(Decision::Consumed),
        }
        let is_understood = |one| one == ExtensionType::PDU_SESSION_CONTAINER;
        let extensions = view.extensions();
        if extensions
            .not_understood(Role::Endpoint, is_understood)
            .is_some()
        {
            return Err(Decision::Drop(Why::Extension));
        }
        let Ok(container) = extensions.pdu_session() else {
            return Err(Decision::Drop(Why::Malformed));
        };
        let teid = view.teid();
        let Some(slot) = self.slot_of(Key::Teid(teid)) else {
            // What came in fragments may be another shard's: its tunnel is none that is unknown.
            if !self.is_mine(Key::Teid(teid)) {
                return Err(Decision::Drop(Why::Fragment));
            }
            self.error_indication(teid, peer, signals, now_ns);
            return Err(Decision::Drop(Why::UnknownTeid));
        };
        if let Some(PduSession::Uplink(frame)) = &container
            && frame.times.is_some()
        {
            self.hear_delays(slot, frame, now_ns);
            // Where no packet of the UE's comes for long, an answer comes alone.
            if view.payload().is_empty() {
                return Err(Decision::Consumed);
            }
        }
        let inner = self.inner_of(slot, view.payload());
        let (inner, is_opaque) = inner.ok_or(Decision::Drop(Why::Malformed))?;
        Ok(Found {
            at: from + view.header_len(),
            inner,
            slot,
            teid,
            came: container.as_ref().map_or(UNMARKED, marking_of),
            is_joined: false,
            is_opaque,
            is_frame: is_opaque && self.store.is_ethernet(slot),
            member: Member::NONE,
        })
    }

    /// What becomes of a packet of a session, and of the one of its group to which it goes.
    fn rule(
        &mut self,
        packet: &mut Packet,
        found: &Found,
        signals: &mut VecDeque<Signal>,
        now_ns: u64,
    ) -> Decision {
        match self.ask_rules(packet, found, signals, now_ns) {
            Decision::Send(SWITCH) => {
                let member = self.member;
                self.switch(packet, (found.slot, member), signals, now_ns)
            }
            decision => decision,
        }
    }

    /// What the rules of its session say of a packet.
    pub(crate) fn ask_rules(
        &mut self,
        packet: &mut Packet,
        found: &Found,
        signals: &mut VecDeque<Signal>,
        now_ns: u64,
    ) -> Decision {
        match self.traces.is_idle() {
            true => self.judge(packet, found, signals, now_ns).0,
            false => self.judge_and_note(packet, found, signals, now_ns),
        }
    }

    #[inline]
    fn judge(
        &mut self,
        packet: &mut Packet,
        found: &Found,
        signals: &mut VecDeque<Signal>,
        now_ns: u64,
    ) -> (Decision, Option<Fitting>) {
        let Some(mut image) = self.store.image(found.slot) else {
            return (Decision::Drop(Why::NoPdr), None);
        };
        // Filters want to see ports, which only a whole packet has.
        if found.inner.is_part && (image.has_filters() || image.looks_inside()) {
            return (join(found.at, found.teid, found.came), None);
        }
        let mut triggers = Triggers::default();
        let mut look = Look {
            session: image.seid(),
            applications: &mut self.applications,
            packet: found.user(packet.bytes()),
            now_ns,
            marks: Marks::default(),
            named: Marks::default(),
        };
        let mut ruled = ruled(&mut image, found, &mut look, &mut triggers);
        let is_of_ue = found.is_frame && found.teid != 0;
        if is_of_ue && ruled.as_ref().is_ok_and(Ruled::is_uplink) {
            let src = frame::Header::parse(found.user(packet.bytes())).map(|one| one.src);
            let owner = src.and_then(|src| self.index.find(Key::Mac(src)));
            let known = match (src, owner) {
                (None, _) => Err(Why::Malformed),
                (_, Some(owner)) if owner == found.slot => Ok(()),
                (_, Some(_)) => Err(Why::Spoofed),
                (Some(src), None) => self.stations.learn(image.seid(), src, now_ns),
            };
            if let Err(why) = known {
                triggers.copied_by = None;
                ruled = Err(Decision::Drop(why));
            }
        }
        if let Ok(one) = &ruled {
            self.member = Member {
                group: one.far.instance,
                is_n19: found.teid != 0 && !one.is_uplink(),
            };
            if !found.member.may_leave_by(&one.far) {
                ruled = Err(Decision::Drop(Why::FarDrop));
            }
        }
        let ident = self.ident;
        self.ident = self.ident.wrapping_add(1);
        let mut departure = match &ruled {
            Ok(ruled) if !ruled.is_redirected => {
                let exit = self.settings.exit(ruled.source, &ruled.far, ident);
                let all = (&mut image, &mut triggers);
                let above = (&mut self.ceilings, &self.settings);
                Some(admit(packet, found, ruled, exit, all, above, now_ns))
            }
            _ => None,
        };
        if image.monitor_count() > 0
            && let (Ok(ruled), Some(Ok(departure))) = (&ruled, &mut departure)
        {
            let now = (self.clock, now_ns);
            monitoring::mark(&mut image, (packet, found), ruled, departure, now);
        }
        if let Some(far_id) = triggers.copied_by {
            let copied = (found.user(packet.bytes()), found.came.0);
            let counts = copies::send(
                &image,
                far_id,
                copied,
                &self.settings,
                &mut self.ident,
                signals,
            );
            self.counters.copied += counts[0];
            self.counters.uncopied += counts[1];
        }
        let mut said = None;
        let decision = match (&ruled, &departure) {
            (Err(decision), _) => *decision,
            (Ok(_), Some(Ok(departure))) => forward(packet, found, departure),
            (Ok(_), Some(Err(unfit))) => Decision::Drop(unfit.why()),
            (Ok(ruled), None) => {
                let user = found.user(packet.bytes());
                said = image.redirection(ruled.far.id).and_then(|redirection| {
                    redirect::answer(user, redirection.location.as_slice(), self.settings.seed)
                });
                match &said {
                    Some(_) => Decision::Consumed,
                    None => Decision::Drop(Why::NotRedirected),
                }
            }
        };
        let long = match (&ruled, departure) {
            (Ok(ruled), Some(Err(Unfit::TooLong(mtu)))) if found.member == Member::NONE => {
                Some(Long {
                    slot: found.slot,
                    is_uplink: ruled.is_uplink(),
                    is_tunnelled: found.teid != 0,
                    source: ruled.source,
                    mtu,
                })
            }
            _ => None,
        };
        match decision {
            Decision::Send(_) | Decision::Cut { .. } => {
                let (is_uplink, len) =
                    (ruled.as_ref().is_ok_and(Ruled::is_uplink), found.inner.len);
                triggers.wakes |= image.count_passed(is_uplink, len, now_ns);
                if let Ok(ruled) = &ruled {
                    let instance = ruled.instance(&self.settings);
                    self.tally.count(image.slice(), instance, is_uplink, len);
                }
            }
            Decision::Drop(why) => {
                image.count_dropped();
                let source = triggers.fits.map_or((0, NONE), |(_, source)| source);
                let instance = instance(&self.settings, source, triggers.out);
                self.tally.count_dropped(instance, why);
            }
            Decision::Consumed | Decision::Hold(_) | Decision::Join { .. } => {}
        }
        if let Some(said) = said {
            self.tell_location(found.slot, &said, signals);
        }
        self.counters.untold_events += triggers.untold_events;
        if !triggers.told.is_empty() {
            self.report_usage(found.slot, &triggers.told, now_ns);
        }
        if triggers.wakes {
            self.arm(found.slot, now_ns);
        }
        if let Some(long) = long {
            self.tell_too_big(found.user(packet.bytes()), long, signals, now_ns);
        }
        (decision, triggers.fits)
    }
}

/// How a packet leaves that its rules let through: only then it is charged; else it is no more than
/// a dropped one.
#[inline]
fn admit<'a>(
    packet: &Packet,
    found: &Found,
    ruled: &Ruled,
    exit: Option<Exit<'a>>,
    (image, triggers): (&mut Image<'_>, &mut Triggers),
    (ceilings, settings): (&mut Ceilings, &Settings),
    now_ns: u64,
) -> Result<Departure<'a>, Unfit> {
    let len = found.inner.len;
    let departure = exit.ok_or(Unfit::Dropped(Why::FarDrop));
    let departure = departure
        .and_then(|exit| depart(packet, found, (&ruled.far, &ruled.marking), exit))
        .and_then(|departure| {
            let of_ceilings = match ceilings.is_empty() {
                true => None,
                false => {
                    let whose = (image.slice(), ruled.instance(settings));
                    let charged = ceilings.charge(whose, ruled.is_uplink(), len, now_ns);
                    Some(charged.ok_or(Unfit::Dropped(Why::Ceiling))?)
                }
            };
            let charged = charge(image, ruled, len, now_ns, triggers);
            if let (Err(_), Some(given)) = (&charged, &of_ceilings) {
                ceilings.give_back(given);
            }
            charged.map(|()| departure).map_err(Unfit::Dropped)
        });
    if departure.is_err() {
        triggers.copied_by = None;
        count_dropped(image, ruled, len, triggers);
    }
    departure
}
