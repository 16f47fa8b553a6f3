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

use crate::advertisement;
use crate::application::Look;
use crate::application::flows::Marks;
use crate::ceilings::Ceilings;
use crate::copies;
use crate::decision::{Decision, Found, Hold, Why};
use crate::enforce::{Ruled, Triggers, charge, count_dropped, guarantee, instance, ruled};
use crate::forward::{Departure, Unfit, depart, forward, join};
use crate::frame;
use crate::group::{Member, SWITCH};
use crate::headers;
use crate::icmp::Long;
use crate::marking::Marking;
use crate::model::{Image, Key};
use crate::monitoring;
use crate::redirect;
use crate::rules::NONE;
use crate::settings::{Exit, Settings};
use crate::tally::drop_kind;
use crate::trace::Fitting;
use crate::tunnel::Signal;
use crate::upf::Upf;

mod find;
mod noted;

impl Upf {
    /// What becomes of a packet, which is changed accordingly; `signals` gets what is answered.
    pub fn packet(
        &mut self,
        packet: &mut Packet,
        signals: &mut VecDeque<Signal>,
        now_ns: u64,
    ) -> Decision {
        match self.usual_packet(packet, now_ns) {
            Some(decision) => decision,
            None => self.whole_way(packet, signals, now_ns),
        }
    }

    /// What becomes of a packet of any kind.
    pub(crate) fn whole_way(
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
                    // Of one in another one, the outer one came in parts.
                    found.is_joined = found.teid == 0 && found.removal.is_none();
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
            removal: None,
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
            // Put together, it would no longer be known by what it came.
            return match found.removal {
                None => (join(found.at, found.teid, found.came), None),
                Some(_) => (Decision::Drop(Why::Fragment), None),
            };
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
            // Its group may have gone with a change of the settings.
            let is_of_group =
                one.far.interface != SWITCH || self.settings.groups.contains(&one.far.instance);
            if !is_of_group || !found.member.may_leave_by(&one.far) {
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
                image.count_dropped(drop_kind(why));
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
        .and_then(|exit| depart(packet, found, ruled, exit))
        .and_then(|departure| {
            let of_ceilings = match ceilings.is_empty() {
                true => None,
                false => {
                    let whose = (image.slice(), ruled.instance(settings));
                    let guarantee = guarantee(image, ruled);
                    let what = (ruled.is_uplink(), len);
                    let charged = ceilings.charge(whose, guarantee, what, now_ns);
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
