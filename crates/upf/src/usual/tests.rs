//! The usual way and the whole one, side by side: random rules, random packets, one result.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, Ipv6Addr};

use catena_wire::gtpu::pdu_session::{PduSession, Uplink};
use catena_wire::pfcp::value::flags::{
    ApplyAction, MeasurementInformation, MeasurementMethod, ReportingTriggers,
};
use catena_wire::pfcp::value::forwarding::OuterHeaders;
use catena_wire::pfcp::value::qos::Rate;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::model::{Detection, Session};
use crate::public_failures::new;
use crate::routes::Route;
use crate::rules::{Copied, Head, Redirection, UrrTerms, Volumes};
use crate::sdf::{Filter, parse_flow};
use crate::served::Pool;
use crate::settings::Settings;
use crate::tunnel::Signal;

mod filters;
mod frames;

use frames::{Made, OddFrame, a_frame, frame_of};

const N3: Ipv4Addr = Ipv4Addr::new(10, 3, 0, 1);
const N4: Ipv4Addr = Ipv4Addr::new(10, 4, 0, 1);
const GNB: Ipv4Addr = Ipv4Addr::new(10, 3, 0, 2);
const UE: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 2);
const HOST: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);
const N3_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 3, 0, 0, 0, 0, 1);
const N4_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 4, 0, 0, 0, 0, 1);
/// What the session has of it, and what its packets have.
const PREFIX_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x45, 2, 0, 0, 0, 0);
const UE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x45, 2, 0, 0, 0, 9);
const OTHER_UE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x45, 3, 0, 0, 0, 9);
const HOST_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 9);
const TEID: u32 = 0x1000;
const FLOWS: [&[u8]; 5] = [
    b"permit out ip from any to assigned",
    b"permit out 17 from 203.0.113.0/24 80 to assigned",
    b"permit out 6 from any 443-445 to any",
    b"permit out 17 from any to assigned 40000",
    b"permit out ip from 2001:db8:9::/48 80 to 2001:db8:45::/56",
];

fn flow(text: &[u8]) -> Filter {
    parse_flow(text).unwrap()
}

fn labelled(label: u32) -> Filter {
    Filter {
        flow_label: Some(label),
        ..Filter::all()
    }
}

/// A session as SMFs make them: a PDR each way, two QERs and two URRs.
fn ordinary() -> Session {
    let detection = |id: u16, source: u8, far_id: u32| {
        let mut pdr = Pdr::empty(id);
        (pdr.precedence, pdr.source_interface, pdr.far_id) = (100, source, far_id);
        (pdr.ue_v4, pdr.ue_v6) = (Some(UE), Some(PREFIX_V6));
        pdr.ue_is_destination = source != 0;
        pdr.teid = if source == 0 { TEID } else { 0 };
        let mut ids = [1, 2].into_iter();
        assert!(ids.all(|id| pdr.qer_ids.push(id) && pdr.urr_ids.push(id)));
        Detection {
            pdr,
            filters: vec![flow(FLOWS[2]), flow(FLOWS[0])],
            routes: Vec::new(),
            frames: Vec::new(),
        }
    };
    let far = |id, destination, headers: OuterHeaders| Far {
        action: ApplyAction::FORW.bits(),
        destination,
        interface: destination,
        headers: headers.bits(),
        teid: 0x77,
        v4: (destination == 0).then_some(GNB),
        ..Far::empty(id)
    };
    let mut session = Session::new(Head::empty());
    (session.head.ue_v4, session.head.ue_v6) = (Some(UE), Some(PREFIX_V6));
    session.head.slice = 7;
    session.pdrs = vec![detection(1, 0, 1), detection(2, 1, 2)];
    session.fars = vec![
        far(1, 1, OuterHeaders::NONE),
        far(2, 0, OuterHeaders::GTP_U_UDP_IPV4),
    ];
    session.qers = [1, 2].map(Qer::open).to_vec();
    (session.qers[0].mbr_kbps, session.qers[1].qfi) = (Some([1_000_000; 2]), Some(9));
    session.urrs = [1, 2].map(|id| Urr::new(id, UrrTerms::NONE, 0)).to_vec();
    session.urrs[0].terms.volume_threshold.total = Some(1 << 40);
    session
}

/// What makes a session unusual, or no more than another one.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Odd {
    Route,
    RouteAlone,
    FromCore,
    Redirection,
    Inactive,
    Ethernet,
    NoUe,
    OtherUe,
    OfOneVersion(bool),
    OtherPrefix,
    Label(u32),
    PdrOfGroup,
    PdrOfOtherTunnel,
    PdrOfOtherUe,
    PdrOfNoUe,
    TurnedUe,
    Qfis(u64),
    Filters(usize),
    AnotherPdr,
    Action(ApplyAction),
    Destination(u8),
    Interface(u8),
    Headers(OuterHeaders),
    NoPeer,
    Marking,
    ClosedGate(bool),
    Mbr(u64),
    Window,
    Ppi,
    Rqi,
    QfiOfFirst,
    PacketRate,
    Qers(usize),
    Urrs(usize),
    Method(MeasurementMethod),
    Threshold(Volumes),
    Quota(Volumes),
    Exhausted,
    Time,
    TimeQuota,
    Inactivity,
    BeforeQos,
    Held,
}

fn an_odd() -> impl Strategy<Value = Odd> {
    let few = |total, ul, dl| Volumes { total, ul, dl };
    let odd = vec![
        Odd::Route,
        Odd::RouteAlone,
        Odd::FromCore,
        Odd::Redirection,
        Odd::Inactive,
        Odd::Ethernet,
        Odd::NoUe,
        Odd::OtherUe,
        Odd::OfOneVersion(false),
        Odd::OfOneVersion(true),
        Odd::OtherPrefix,
        Odd::Label(7),
        Odd::Label(8),
        Odd::PdrOfGroup,
        Odd::PdrOfOtherTunnel,
        Odd::PdrOfOtherUe,
        Odd::PdrOfNoUe,
        Odd::TurnedUe,
        Odd::Qfis(1 << 9),
        Odd::Qfis(1 << 5),
        Odd::Filters(0),
        Odd::Filters(1),
        Odd::Filters(2),
        Odd::Filters(3),
        Odd::AnotherPdr,
        Odd::Action(ApplyAction::DROP),
        Odd::Action(ApplyAction::BUFF),
        Odd::Action(ApplyAction::FORW | ApplyAction::DUPL),
        Odd::Destination(0),
        Odd::Destination(1),
        Odd::Interface(SWITCH),
        Odd::Interface(9),
        Odd::Interface(0),
        Odd::Headers(OuterHeaders::GTP_U_UDP_IPV4),
        Odd::Headers(OuterHeaders::GTP_U_UDP_IPV6),
        Odd::Headers(OuterHeaders::UDP_IPV4),
        Odd::Headers(OuterHeaders::IPV4),
        Odd::NoPeer,
        Odd::Marking,
        Odd::ClosedGate(true),
        Odd::ClosedGate(false),
        Odd::Mbr(0),
        Odd::Mbr(10),
        Odd::Window,
        Odd::Ppi,
        Odd::Rqi,
        Odd::QfiOfFirst,
        Odd::PacketRate,
        Odd::Qers(0),
        Odd::Qers(1),
        Odd::Qers(3),
        Odd::Urrs(0),
        Odd::Urrs(3),
        Odd::Method(MeasurementMethod::DURAT),
        Odd::Method(MeasurementMethod::EVENT),
        Odd::Threshold(few(Some(1000), None, None)),
        Odd::Threshold(few(None, Some(900), None)),
        Odd::Quota(few(None, None, Some(900))),
        Odd::Quota(few(Some(1000), None, None)),
        Odd::Exhausted,
        Odd::Time,
        Odd::TimeQuota,
        Odd::Inactivity,
        Odd::BeforeQos,
        Odd::Held,
    ];
    select(odd)
}

/// Makes one of both directions of a session odd.
fn apply(session: &mut Session, odd: Odd, at: usize) {
    let one = &mut session.pdrs[at];
    let pdr = &mut one.pdr;
    let (far, qer) = (&mut session.fars[at], &mut session.qers[at]);
    let urr = &mut session.urrs[at];
    match odd {
        Odd::Route => one.routes = vec![Route::parse(pdr.id, b"10.45.0.0/28", false).unwrap()],
        Odd::RouteAlone => {
            (pdr.ue_v4, pdr.ue_v6) = (None, None);
            one.routes = vec![Route::parse(pdr.id, b"192.0.2.0/24", false).unwrap()];
        }
        // From another UPF, on its way to the access network.
        Odd::FromCore => {
            let pdr = &mut session.pdrs[0].pdr;
            (pdr.source_interface, pdr.ue_v4, pdr.ue_v6) = (1, None, None);
            session.fars[0] = Far {
                id: 1,
                ..session.fars[1]
            };
        }
        Odd::Redirection => {
            let location = List::default();
            session.redirections = vec![Redirection {
                far_id: 1,
                location,
            }];
        }
        Odd::Inactive => {
            (session.head.is_inactive, session.head.inactivity_s) = (true, Some(60));
        }
        Odd::Ethernet => {
            (session.head.is_ethernet, session.head.is_unstructured) = (true, true);
            session.pdrs.iter_mut().for_each(|one| one.filters.clear());
        }
        Odd::NoUe => (session.head.ue_v4, session.head.ue_v6) = (None, None),
        Odd::OtherUe => {
            (session.head.ue_v4, session.head.ue_v6) = (Some(HOST), Some(OTHER_UE_V6));
        }
        Odd::OfOneVersion(is_v6) => {
            let head = &mut session.head;
            (head.ue_v4, head.ue_v6) =
                (head.ue_v4.filter(|_| !is_v6), head.ue_v6.filter(|_| is_v6));
            for one in &mut session.pdrs {
                (one.pdr.ue_v4, one.pdr.ue_v6) = (head.ue_v4, head.ue_v6);
            }
        }
        // Another one than that of the session.
        Odd::OtherPrefix => pdr.ue_v6 = Some(OTHER_UE_V6),
        Odd::Label(label) => one.filters = vec![labelled(label), flow(FLOWS[1])],
        Odd::PdrOfGroup => pdr.source_interface = FROM_GROUP,
        Odd::PdrOfOtherTunnel => pdr.teid ^= 0x3000,
        Odd::PdrOfOtherUe => (pdr.ue_v4, pdr.ue_v6) = (Some(HOST), Some(OTHER_UE_V6)),
        Odd::PdrOfNoUe => (pdr.ue_v4, pdr.ue_v6) = (None, None),
        Odd::TurnedUe => pdr.ue_is_destination ^= true,
        Odd::Qfis(qfis) => pdr.qfis = qfis,
        Odd::Filters(from) => one.filters = FLOWS[from..].iter().map(|text| flow(text)).collect(),
        Odd::AnotherPdr => {
            let mut another = one.clone();
            another.filters = vec![flow(FLOWS[1])];
            (another.pdr.id, another.pdr.precedence) = (9, 50);
            another.pdr.qer_ids = List::default();
            session.pdrs.push(another);
        }
        Odd::Action(action) => far.action = action.bits(),
        Odd::Destination(destination) => far.destination = destination,
        Odd::Interface(interface) => far.interface = interface,
        Odd::Headers(headers) => {
            (far.headers, far.v4) = (headers.bits(), Some(GNB));
        }
        Odd::NoPeer => far.v4 = None,
        Odd::Marking => far.marking = Some([0xb8, 0xfc]),
        Odd::ClosedGate(ul) => (qer.ul_open, qer.dl_open) = (ul, !ul),
        Odd::Mbr(kbps) => qer.mbr_kbps = Some([kbps, kbps]),
        Odd::Window => (qer.window_ms, qer.mbr_kbps) = (Some(20), Some([500, 700])),
        Odd::Ppi => qer.ppi = Some(3),
        Odd::Rqi => qer.rqi = true,
        Odd::QfiOfFirst => session.qers[0].qfi = Some(5),
        Odd::PacketRate => {
            qer.counts_packets = true;
            let rate = Rate {
                unit: 0,
                packets: 3,
            };
            qer.ul_packets.set(Some(rate));
            qer.dl_packets.set(Some(rate));
        }
        Odd::Qers(count) => pdr.qer_ids = ids(count),
        Odd::Urrs(count) => pdr.urr_ids = ids(count),
        Odd::Method(method) => urr.terms.method |= method.bits(),
        Odd::Threshold(volumes) => urr.terms.volume_threshold = volumes,
        Odd::Quota(volumes) => urr.terms.volume_quota = volumes,
        Odd::Exhausted => urr.is_exhausted = true,
        Odd::Time => urr.terms.time_threshold = Some(5),
        Odd::TimeQuota => urr.terms.time_quota = Some(5),
        Odd::Inactivity => urr.terms.inactivity = Some(7),
        Odd::BeforeQos => urr.terms.information = MeasurementInformation::MBQE.bits(),
        Odd::Held => {}
    }
}

fn ids<const N: usize>(count: usize) -> List<u32, N> {
    let mut list = List::default();
    (0..count).for_each(|at| assert!(list.push(at as u32 + 1)));
    list
}

/// An ordinary session with a few oddities, and whether packets of it are held.
fn a_session() -> impl Strategy<Value = (Session, bool)> {
    let odds = prop::collection::vec((an_odd(), 0usize..2), 0..3);
    odds.prop_map(|odds| {
        let mut session = ordinary();
        session.qers.push(Qer::open(3));
        session.urrs.push(Urr::new(3, UrrTerms::NONE, 0));
        for (odd, at) in &odds {
            apply(&mut session, *odd, *at);
        }
        let triggers = ReportingTriggers::VOLTH | ReportingTriggers::VOLQU;
        session
            .urrs
            .iter_mut()
            .for_each(|urr| urr.terms.triggers = triggers.bits());
        let is_copied = |far: &&Far| far.does(ApplyAction::DUPL);
        let copied = session.fars.iter().filter(is_copied);
        session.copies = copied.map(|far| Copied::of(far.id)).collect();
        let is_held = odds.iter().any(|(odd, _)| *odd == Odd::Held);
        (session, is_held)
    })
}

/// Addresses of N3 and N4 in IPv6, too.
fn settings_of_v6(settings: &mut Settings) {
    (settings.interfaces[0].v6, settings.n4_v6) = (Some(N3_V6), Some(N4_V6));
}

/// A UPF with one session, and all that its packets can change.
struct Side {
    upf: Upf,
    signals: VecDeque<Signal>,
}

impl Side {
    fn new(session: &Session, (is_held, clamps): (bool, bool)) -> Self {
        let mut upf = new(None);
        let settings = &mut upf.settings;
        if clamps {
            (settings.clamps, settings.interfaces[1].tcp_mss) = (true, Some(1300));
        }
        let mut session = session.clone();
        let (slot, seid) = upf.store.next().unwrap();
        session.head.seid = seid;
        session.link().unwrap();
        upf.store.insert(&session);
        upf.tally.enter(&session);
        settings_of_v6(&mut upf.settings);
        for key in [Key::Teid(TEID), Key::V4(UE), Key::of_v6(UE_V6)] {
            upf.index.insert(key, slot).unwrap();
        }
        if is_held {
            upf.holding.insert(slot);
        }
        Self {
            upf,
            signals: VecDeque::new(),
        }
    }

    /// All that a packet can change of a UPF.
    fn state(&self) -> impl PartialEq + std::fmt::Debug + use<> {
        let upf = &self.upf;
        let shown = upf.tally.shown(&upf.settings).to_string();
        let rest = (upf.ident, upf.counters().values(), upf.timers.next_ns());
        let waits = (self.signals.len(), upf.outbox.len(), upf.untold.len());
        (upf.store.session(0), shown, rest, waits)
    }
}

/// Sends frames both ways; gives how many were usual.
fn compare(session: &Session, frames: &[Vec<u8>], how: (bool, bool)) -> usize {
    let mut pool = Pool::new();
    let [mut usual, mut whole] = [(); 2].map(|()| Side::new(session, how));
    let mut count = 0;
    for (at, frame) in frames.iter().enumerate() {
        let now_ns = 1_000_000 * (at as u64 + 1);
        let [mut one, mut other] = [(); 2].map(|()| pool.packet(frame));
        let before = usual.state();
        let decision = usual.upf.usual_packet(&mut one, now_ns).unwrap_or_else(|| {
            assert_eq!(one.bytes(), frame, "it is as it came");
            assert_eq!(usual.state(), before, "nothing has changed");
            count -= 1;
            usual.upf.whole_way(&mut one, &mut usual.signals, now_ns)
        });
        count += 1;
        let wanted = whole.upf.whole_way(&mut other, &mut whole.signals, now_ns);
        assert_eq!(decision, wanted, "packet {at}");
        assert_eq!(one.bytes(), other.bytes(), "packet {at}");
        assert_eq!(usual.state(), whole.state(), "packet {at}");
        pool.0.free(one);
        pool.0.free(other);
    }
    count as usize
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn a_usual_packet_has_what_the_whole_way_gives_it(
        (session, is_held) in a_session(),
        frames in prop::collection::vec(a_frame(), 1..12),
        clamps in any::<bool>(),
    ) {
        // Not every oddity may be in a session with every other.
        prop_assume!(session.clone().link().is_ok());
        let frames: Vec<_> = frames.iter().map(frame_of).collect();
        compare(&session, &frames, (is_held, clamps));
    }
}

fn made(is_uplink: bool, is_v6: bool) -> Made {
    let qfi = PduSession::Uplink(Uplink {
        qfi: 9,
        ..Uplink::default()
    });
    Made {
        is_uplink,
        is_v6,
        protocol: 17,
        len: 300,
        host_port: 80,
        container: Some(qfi),
        has_sequence: false,
        odd: OddFrame::None,
    }
}

fn ordinary_frame((is_uplink, is_v6): (bool, bool)) -> Vec<u8> {
    frame_of(&made(is_uplink, is_v6))
}

/// What few other oddities would show: no QER marks a packet, and no URR has its first one go the
/// whole way.
#[test]
fn what_is_odd_alone_goes_the_whole_way() {
    let odds = [
        (Odd::RouteAlone, 0),
        (Odd::FromCore, 0),
        (Odd::Redirection, 0),
        // The first packet, with which it is active again.
        (Odd::Inactive, 2),
        (Odd::Ethernet, 0),
    ];
    for (odd, wanted) in odds {
        let mut session = ordinary();
        for one in &mut session.pdrs {
            (one.pdr.qer_ids, one.pdr.urr_ids) = Default::default();
        }
        apply(&mut session, odd, 0);
        let frames = [(); 3].map(|()| ordinary_frame((true, false)));
        let count = compare(&session, &frames, (false, false));
        assert_eq!(count, wanted, "{odd:?}");
    }
}

/// Whatever addresses its UEs have, what is for the UPF itself is of no session.
#[test]
fn what_is_for_the_upf_itself_is_not_usual() {
    let mut session = ordinary();
    for one in &mut session.pdrs {
        (one.pdr.ue_v4, one.pdr.ue_v6) = (None, None);
    }
    let keys = [N3, N4].map(Key::V4);
    let keys = [keys, [N3_V6, N4_V6].map(Key::of_v6)].concat();
    for odd in [OddFrame::ToN3, OddFrame::ToN4, OddFrame::TunnelToN4] {
        for is_v6 in [false, true] {
            let made = Made {
                odd,
                ..made(odd == OddFrame::TunnelToN4, is_v6)
            };
            let mut side = Side::new(&session, (false, false));
            for key in &keys {
                side.upf.index.insert(*key, 0).unwrap();
            }
            // Traffic has started, by which a session's packets become usual.
            let mut pool = Pool::new();
            let first = ordinary_frame((made.is_uplink, is_v6));
            for (frame, wanted) in [(&first, false), (&first, true), (&frame_of(&made), false)] {
                let mut packet = pool.packet(frame);
                let decision = side.upf.usual_packet(&mut packet, 1);
                assert_eq!(decision.is_some(), wanted, "{made:?}");
                if !wanted {
                    side.upf.whole_way(&mut packet, &mut side.signals, 1);
                }
                pool.0.free(packet);
            }
        }
    }
}

/// Most packets are usual, or the usual way would be of no use: all but the first one, by which
/// traffic starts.
#[test]
fn packets_of_an_ordinary_session_are_usual() {
    let session = ordinary();
    for is_v6 in [false, true] {
        let frames = [true, false].map(|is_uplink| ordinary_frame((is_uplink, is_v6)));
        let frames: Vec<_> = frames.iter().cycle().take(40).cloned().collect();
        assert_eq!(compare(&session, &frames, (false, false)), 39);
        // Where segments are clamped, what opens no connection is as usual as before.
        assert_eq!(compare(&session, &frames, (false, true)), 39);
        let held = compare(&session, &frames, (true, false));
        assert_eq!(held, 0, "some are held");
    }
}
