//! Paths in simulated time: whose delays are measured, what is told of them when, and for how long.
//! The scenario `path-qos` has the messages.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use catena_wire::gtpu;
use catena_wire::pfcp::value::address::NodeId;
use catena_wire::pfcp::value::flags::{QosReportTrigger, UpFunctionFeatures};
use catena_wire::pfcp::value::forwarding::TrafficClass;
use catena_wire::pfcp::value::node::Timer;
use catena_wire::pfcp::value::{Milliseconds, Seconds, Time};
use catena_wire::pfcp::{Cause, Full, IeType, MessageType, View, Writer, key};

use super::control::{CONTROLS_MAX, MARKINGS_MAX, PEERS_MAX, PathTerms};
use super::measured::News;
use super::*;
use crate::echoes::remote_peer;
use crate::headers::{Outer, inner, outer};
use crate::paths::EchoTerms;
use crate::public_failures::{Smf, new};
use crate::transactions::PENDING_COUNT_MAX;
use crate::tunnel::Signal;
use crate::upf::Upf;

const MS_NS: u64 = 1_000_000;
const S_NS: u64 = 1000 * MS_NS;
const GROUP: IeType = IeType::GTP_U_PATH_QOS_CONTROL_INFORMATION;
const PER: QosReportTrigger = QosReportTrigger::PER;
const THR: QosReportTrigger = QosReportTrigger::THR;
const IRE: QosReportTrigger = QosReportTrigger::IRE;

fn terms(trigger: QosReportTrigger) -> PathTerms {
    PathTerms {
        trigger: trigger.bits(),
        period_s: Some(10),
        thresholds_ms: [Some(5), None, Some(20)],
        wait_s: Some(3),
    }
}

fn news(trigger: QosReportTrigger, since_ms: Option<u64>, delays: &[(u8, [u64; 3])]) -> News {
    News {
        trigger,
        since_ns: since_ms.map(|ms| ms * MS_NS),
        delays: delays.to_vec(),
    }
}

/// Average and maximum have thresholds; a DSCP waits for itself alone.
#[test]
fn a_path_has_an_event_above_a_threshold_behind_the_waiting_time() {
    let mut monitor = Monitor::new(terms(THR), &[0, 46], 0);
    for (dscp, us, at_ms, is_event) in [
        (0, 5000, 100, false),
        (0, 5002, 1100, true),
        (0, 90_000, 2100, false),
        (46, 21_000, 2150, true),
        (0, 1000, 4099, false),
        // Of 90, 1 and 1 ms: those since the event.
        (0, 1000, 4100, true),
        (0, 4000, 7100, false),
        (0, 4000, 8100, false),
    ] {
        let is_new = monitor.take(dscp, us, at_ms * MS_NS);
        assert_eq!(is_new, is_event, "{dscp} {at_ms}");
        match at_ms {
            1100 => assert_eq!(
                monitor.news(),
                [news(THR, None, &[(0, [5001, 5000, 5002])])]
            ),
            4100 => {
                let of_both = [(0, [30_666, 1000, 90_000]), (46, [21_000; 3])];
                assert_eq!(monitor.news(), [news(THR, None, &of_both)]);
            }
            _ => {}
        }
        if !matches!(at_ms, 2150 | 4099) {
            monitor.told(at_ms * MS_NS);
        }
    }
    assert!(monitor.news().is_empty() && monitor.next_ns().is_none());
    // Of 0: each one is told; without an end: one alone.
    for (wait_s, is_event) in [(Some(0), true), (Some(u32::MAX), false), (None, true)] {
        let terms = PathTerms {
            wait_s,
            ..terms(THR)
        };
        let mut monitor = Monitor::new(terms, &[0], 0);
        assert!(monitor.take(0, 9000, S_NS));
        monitor.told(S_NS);
        assert_eq!(monitor.take(0, 9000, 2 * S_NS), is_event, "{wait_s:?}");
    }
}

/// One outlier is forgotten behind ten others.
#[test]
fn an_event_is_judged_by_the_last_delays_of_a_path() {
    let limits = PathTerms {
        thresholds_ms: [Some(50), None, None],
        ..terms(THR)
    };
    let mut monitor = Monitor::new(limits, &[0], 0);
    assert!(!monitor.take(0, 50_000, 0));
    (1..10).for_each(|at| assert!(!monitor.take(0, 1000, at * S_NS)));
    assert!(!monitor.take(0, 1000, 10 * S_NS));
    // Nine of 1 ms and this: 50.9 in the mean; with the first one it would be 50.8.
    assert!(monitor.take(0, 500_000, 11 * S_NS));
    assert_eq!(monitor.news()[0].delays, [(0, [50_900, 1000, 500_000])]);
}

#[test]
fn the_period_of_a_path_tells_mean_least_and_greatest_and_begins_anew() {
    let mut monitor = Monitor::new(terms(PER | IRE), &[0, 46], 0);
    assert!(monitor.take(0, 1000, S_NS), "the first at once");
    assert_eq!(monitor.news(), [news(IRE, None, &[(0, [1000; 3])])]);
    monitor.told(S_NS);
    assert!(!monitor.take(0, 4000, 2 * S_NS) && !monitor.wake(10 * S_NS - 1));
    assert_eq!(monitor.next_ns(), Some(10 * S_NS));
    assert!(monitor.wake(10 * S_NS));
    let due = news(PER, Some(0), &[(0, [2500, 1000, 4000])]);
    assert_eq!(
        monitor.news(),
        [due],
        "of no other marking anything was measured"
    );
    // What waits to be told goes on.
    assert!(!monitor.take(0, 10_000, 11 * S_NS));
    monitor.told(12 * S_NS);
    assert!(
        !monitor.wake(20 * S_NS),
        "nothing was measured, nothing is told"
    );
    assert!(
        monitor.take(46, 7000, 21 * S_NS),
        "the first of that marking"
    );
    assert!(monitor.wake(45 * S_NS) && monitor.next_ns() == Some(50 * S_NS));
    let both = [
        news(IRE, None, &[(46, [7000; 3])]),
        news(PER, Some(20_000), &[(46, [7000; 3])]),
    ];
    assert_eq!(monitor.news(), both);
    let mut once = Monitor::new(terms(IRE), &[0], 0);
    assert!(once.wants_more() && once.take(0, 5, 0));
    once.told(0);
    assert!(!once.wants_more() && !once.take(0, 5, 0));
}

fn peer(last: u8) -> IpAddr {
    [10, 3, 0, last].into()
}

type Written = Result<(), Full>;

/// Control information of these peers by these triggers, with what goes with them.
fn control(writer: &mut Writer<'_>, peers: &[IpAddr], trigger: QosReportTrigger) -> Written {
    writer.group(GROUP, |writer| {
        for peer in peers {
            writer.put(key::REMOTE_GTP_U_PEER, &remote_peer(*peer, None))?;
        }
        writer.put(key::QOS_REPORT_TRIGGER, &trigger)?;
        let period = trigger.contains(PER).then_some(Seconds(10));
        writer.put_some(key::MEASUREMENT_PERIOD, period.as_ref())?;
        let limit = trigger.contains(THR).then_some(Milliseconds(5));
        writer.put_some(key::AVERAGE_PACKET_DELAY, limit.as_ref())
    })
}

fn update(smf: &mut Smf, fill: impl FnOnce(&mut Writer<'_>) -> Written) -> (Cause, Option<IeType>) {
    let kind = MessageType::ASSOCIATION_UPDATE_REQUEST;
    let (cause, offending, _) = smf.ask(kind, None, |writer| {
        writer.put(key::NODE_ID, &NodeId::V4(Ipv4Addr::new(10, 4, 0, 2)))?;
        fill(writer)
    });
    (cause, offending)
}

fn accepted(smf: &mut Smf, fill: impl FnOnce(&mut Writer<'_>) -> Written) {
    assert_eq!(update(smf, fill), (Cause::REQUEST_ACCEPTED, None));
}

/// Echo Requests that leave at an instant: to whom, with which DSCP and number.
fn asked(upf: &mut Upf, at_ns: u64) -> Vec<(IpAddr, u8, u16)> {
    let mut signals: VecDeque<Signal> = VecDeque::new();
    upf.check_paths(&mut signals, at_ns);
    let read = |signal: &Signal| match outer(&signal.frame) {
        Outer::Udp {
            dst, l3, from, to, ..
        } => {
            let view = gtpu::View::parse(&signal.frame[from..to]).unwrap();
            let outside = inner(&signal.frame[l3..]).unwrap();
            let sequence = view.sequence().unwrap();
            (dst, outside.traffic_class >> 2, sequence)
        }
        other => panic!("{other:?}"),
    };
    signals.iter().map(read).collect()
}

fn answer(upf: &mut Upf, from: IpAddr, sequence: u16, at_ns: u64) {
    let own = [10, 3, 0, 1].into();
    upf.hear_echo((from, gtpu::PORT, own), sequence, at_ns);
}

/// The averages of the Node Report Requests that leave.
fn told(upf: &mut Upf) -> Vec<(QosReportTrigger, Vec<u32>)> {
    let mut all = Vec::new();
    while let Some(request) = upf.next_message() {
        let view = View::parse(&request.bytes[..]).unwrap();
        if view.header().message_type != MessageType::NODE_REPORT_REQUEST {
            continue;
        }
        assert_eq!(view.check(), Ok(()), "{view}");
        for report in view.ies().groups(IeType::GTP_U_PATH_QOS_REPORT) {
            let delays = report.groups(IeType::QOS_INFORMATION);
            let average = |one: catena_wire::pfcp::Group<'_>| {
                one.require(key::AVERAGE_PACKET_DELAY).unwrap().0
            };
            let trigger = report.require(key::QOS_REPORT_TRIGGER).unwrap();
            all.push((trigger, delays.map(average).collect()));
        }
    }
    all
}

/// Each marking has Echo Requests of its own, and half of a round trip is the delay: 7 ms are 3.5,
/// which is 4 as a whole number.
#[test]
fn a_paths_delay_is_half_of_the_round_trip_of_its_marking() {
    let mut smf = Smf::new();
    accepted(&mut smf, |writer| {
        writer.group(GROUP, |writer| {
            writer.put(key::REMOTE_GTP_U_PEER, &remote_peer(peer(2), None))?;
            writer.put(key::QOS_REPORT_TRIGGER, &IRE)?;
            for value in [46 << 2, 46 << 2 | 3, 10 << 2] {
                let marking = TrafficClass { value, mask: 0xfc };
                writer.put(key::TRANSPORT_LEVEL_MARKING, &marking)?;
            }
            Ok(())
        })
    });
    let upf = &mut smf.upf;
    assert_eq!(asked(upf, 0), [(peer(2), 46, 1)]);
    assert_eq!(asked(upf, 10 * MS_NS), [(peer(2), 10, 2)]);
    answer(upf, peer(2), 1, 7 * MS_NS);
    let shown = upf.show_path_qos();
    assert_eq!(shown[0]["average_us"], 3500, "{shown}");
    assert_eq!(told(upf), [(IRE, vec![4])]);
    // From somebody else, of another number, again: none is an answer.
    answer(upf, peer(3), 2, 11 * MS_NS);
    answer(upf, peer(2), 3, 12 * MS_NS);
    answer(upf, peer(2), 1, 13 * MS_NS);
    assert_eq!(told(upf), []);
    answer(upf, peer(2), 2, 30 * MS_NS);
    assert_eq!(told(upf), [(IRE, vec![10])]);
    for at_s in 1..9 {
        assert_eq!(asked(upf, at_s * S_NS), [], "nothing more is wanted");
    }
}

/// An answer that takes too long is none, and who does not answer is asked on.
#[test]
fn a_path_is_asked_each_second_and_not_while_an_answer_is_awaited() {
    let mut smf = Smf::new();
    accepted(&mut smf, |writer| control(writer, &[peer(2)], PER));
    let upf = &mut smf.upf;
    assert_eq!(asked(upf, 0), [(peer(2), 0, 1)]);
    answer(upf, peer(2), 1, 3 * MS_NS);
    assert_eq!(asked(upf, S_NS - 1), []);
    assert_eq!(asked(upf, S_NS), [(peer(2), 0, 2)]);
    assert_eq!(asked(upf, 3 * S_NS - 1), []);
    answer(upf, peer(2), 2, 3 * S_NS - 1);
    assert_eq!(asked(upf, 3 * S_NS), [(peer(2), 0, 3)]);
    assert_eq!(asked(upf, 5 * S_NS), [(peer(2), 0, 4)]);
    answer(upf, peer(2), 3, 5 * S_NS + 1);
    assert_eq!(upf.show_path_qos()[0]["measured"], 2);
}

#[test]
fn what_an_update_says_of_paths_takes_the_place_of_all_before() {
    let mut smf = Smf::new();
    accepted(&mut smf, |writer| control(writer, &[peer(2), peer(3)], PER));
    assert_eq!(asked(&mut smf.upf, 0).len(), 1);
    assert_eq!(asked(&mut smf.upf, 20 * MS_NS).len(), 1);
    answer(&mut smf.upf, peer(2), 1, 30 * MS_NS);
    // One that says nothing of paths leaves them; one that says the same goes on.
    accepted(&mut smf, |_| Ok(()));
    accepted(&mut smf, |writer| control(writer, &[peer(2)], PER));
    assert_eq!(asked(&mut smf.upf, S_NS), [(peer(2), 0, 3)]);
    let shown = smf.upf.show_path_qos();
    assert_eq!(shown.as_array().unwrap().len(), 1, "{shown}");
    assert_eq!(shown[0]["measured"], 1, "{shown}");
    accepted(&mut smf, |writer| writer.group(GROUP, |_| Ok(())));
    assert_eq!(asked(&mut smf.upf, 5 * S_NS), []);
    let mut signals = VecDeque::new();
    assert_eq!(smf.upf.check_paths(&mut signals, 60 * S_NS), None);
    assert_eq!(smf.upf.store.path_controls(0), Default::default());
}

#[test]
fn an_association_that_ends_has_no_paths_followed() {
    let node = NodeId::V4(Ipv4Addr::new(10, 4, 0, 2));
    let setup = MessageType::ASSOCIATION_SETUP_REQUEST;
    for (kind, recovery) in [
        (MessageType::ASSOCIATION_RELEASE_REQUEST, None),
        (setup, Some(Time(2))),
    ] {
        let mut smf = Smf::new();
        accepted(&mut smf, |writer| control(writer, &[peer(2)], PER));
        assert_eq!(asked(&mut smf.upf, 0).len(), 1);
        answer(&mut smf.upf, peer(2), 1, MS_NS);
        let (cause, ..) = smf.ask(kind, None, |writer| {
            writer.put(key::NODE_ID, &node)?;
            writer.put_some(key::RECOVERY_TIME_STAMP, recovery.as_ref())
        });
        assert_eq!(cause, Cause::REQUEST_ACCEPTED);
        for at_s in 1..30 {
            assert_eq!(asked(&mut smf.upf, at_s * S_NS), []);
        }
        assert_eq!(told(&mut smf.upf), []);
        assert_eq!(smf.upf.store.path_controls(0), Default::default());
    }
}

/// What is wanted lies with the association; what was measured begins anew.
#[test]
fn what_is_wanted_of_paths_outlives_a_kill_and_a_snapshot() {
    let mut smf = Smf::new();
    accepted(&mut smf, |writer| control(writer, &[peer(2)], PER));
    let page = smf.upf.snapshot(0, 0);
    let mut next = new(Some(smf.upf.into_memory()));
    assert_eq!(asked(&mut next, 0), [(peer(2), 0, 1)]);
    answer(&mut next, peer(2), 1, 8 * MS_NS);
    assert_eq!(asked(&mut next, 10 * S_NS).len(), 1);
    assert_eq!(told(&mut next), [(PER, vec![4])]);
    let head = page["lines"][0].as_str().unwrap();
    assert!(head.contains("\"path_controls\":[[0,"), "{head}");
}

/// A request that nobody answers is repeated as others are, and one for which there is no room
/// waits with what is measured meanwhile.
#[test]
fn what_there_is_no_room_to_tell_of_paths_waits_and_requests_are_repeated() {
    let mut smf = Smf::new();
    accepted(&mut smf, |writer| control(writer, &[peer(2)], PER));
    let upf = &mut smf.upf;
    asked(upf, 0);
    answer(upf, peer(2), 1, 2 * MS_NS);
    let full = |upf: &mut Upf| {
        while upf.transactions.has_room() {
            let kind = MessageType::HEARTBEAT_REQUEST;
            let subject = crate::transactions::Subject::Heartbeat(0);
            upf.request(peer(9), kind, None, subject, 0, |_| Ok(()));
        }
        assert_eq!(upf.transactions.pending(), PENDING_COUNT_MAX);
        while upf.next_message().is_some() {}
    };
    full(upf);
    let sequence = asked(upf, 10 * S_NS)[0].2;
    assert_eq!(told(upf), []);
    answer(upf, peer(2), sequence, 10 * S_NS + 10 * MS_NS);
    upf.transactions.answered(peer(9), 1).unwrap();
    asked(upf, 11 * S_NS);
    assert_eq!(told(upf), [(PER, vec![3])], "of 1 and 5 ms");
    // T1, and as often as N1 says.
    let (t1_ns, n1) = (upf.settings.t1_ns, upf.settings.n1);
    let mut times = 1;
    for again in 1..10 {
        upf.wake(11 * S_NS + again * t1_ns);
        times += told(upf).len() as u32;
    }
    assert_eq!(times, n1);
}

#[test]
fn what_contradicts_itself_about_paths_is_refused_by_its_ie() {
    let mut smf = Smf::new();
    let missing = Cause::CONDITIONAL_IE_MISSING;
    let rejected = Cause::REQUEST_REJECTED;
    let full = Cause::NO_RESOURCES_AVAILABLE;
    type Fill = fn(&mut Writer<'_>) -> Written;
    fn named(writer: &mut Writer<'_>, trigger: QosReportTrigger) -> Written {
        writer.put(key::REMOTE_GTP_U_PEER, &remote_peer(peer(2), None))?;
        writer.put(key::QOS_REPORT_TRIGGER, &trigger)
    }
    let table: [(Cause, IeType, Fill); 10] = [
        (missing, IeType::REMOTE_GTP_U_PEER, |writer| {
            writer.put(key::QOS_REPORT_TRIGGER, &IRE)
        }),
        (missing, IeType::MEASUREMENT_PERIOD, |writer| {
            named(writer, PER)
        }),
        (
            Cause::MANDATORY_IE_INCORRECT,
            IeType::MEASUREMENT_PERIOD,
            |writer| {
                named(writer, PER)?;
                writer.put(key::MEASUREMENT_PERIOD, &Seconds(0))
            },
        ),
        (missing, IeType::AVERAGE_PACKET_DELAY, |writer| {
            named(writer, THR)
        }),
        (rejected, IeType::MEASUREMENT_PERIOD, |writer| {
            named(writer, IRE)?;
            writer.put(key::MEASUREMENT_PERIOD, &Seconds(1))
        }),
        (rejected, IeType::MAXIMUM_PACKET_DELAY, |writer| {
            named(writer, IRE)?;
            writer.put(key::MAXIMUM_PACKET_DELAY, &Milliseconds(1))
        }),
        (rejected, IeType::TIMER, |writer| {
            named(writer, IRE)?;
            writer.put(key::TIMER, &Timer::at_least(2))
        }),
        // No interface has an address of version 6, or this network instance.
        (rejected, IeType::REMOTE_GTP_U_PEER, |writer| {
            let other = remote_peer(std::net::Ipv6Addr::LOCALHOST.into(), None);
            writer.put(key::REMOTE_GTP_U_PEER, &other)?;
            writer.put(key::QOS_REPORT_TRIGGER, &IRE)
        }),
        (rejected, IeType::REMOTE_GTP_U_PEER, |writer| {
            let other = remote_peer(peer(2), Some(b"elsewhere"));
            writer.put(key::REMOTE_GTP_U_PEER, &other)?;
            writer.put(key::QOS_REPORT_TRIGGER, &IRE)
        }),
        (full, IeType::TRANSPORT_LEVEL_MARKING, |writer| {
            named(writer, IRE)?;
            (0..=MARKINGS_MAX as u8).try_for_each(|dscp| {
                let value = dscp << 2;
                let marking = TrafficClass { value, mask: 0xfc };
                writer.put(key::TRANSPORT_LEVEL_MARKING, &marking)
            })
        }),
    ];
    for (cause, offending, fill) in table {
        let said = update(&mut smf, |writer| writer.group(GROUP, fill));
        assert_eq!(said, (cause, Some(offending)));
    }
    let peers: Vec<IpAddr> = (0..=PEERS_MAX as u8).map(peer).collect();
    let said = update(&mut smf, |writer| control(writer, &peers, PER));
    assert_eq!(said, (full, Some(IeType::REMOTE_GTP_U_PEER)));
    let said = update(&mut smf, |writer| {
        (0..=CONTROLS_MAX).try_for_each(|_| control(writer, &[peer(2)], PER))
    });
    assert_eq!(said, (full, Some(GROUP)));
    assert_eq!(smf.upf.store.path_controls(0), Default::default());
}

/// Shards do not follow paths: they do not say so, and refuse it.
#[test]
fn a_upf_of_one_shard_alone_follows_paths() {
    let mut smf = Smf::new();
    assert!(smf.upf.features().contains(UpFunctionFeatures::GPQM));
    smf.upf.settings.shard = (0, 2);
    assert!(!smf.upf.features().contains(UpFunctionFeatures::GPQM));
    let said = update(&mut smf, |writer| control(writer, &[peer(2)], PER));
    assert_eq!(said, (Cause::SERVICE_NOT_SUPPORTED, Some(GROUP)));
}

/// Those that are named come first, and those of interfaces as long as there is room.
#[test]
fn so_many_paths_are_followed_and_not_all_at_one_instant() {
    let upf = new(None);
    let terms = EchoTerms {
        interval_ns: 0,
        t3_ns: S_NS,
        n3: 3,
    };
    let mut paths = Paths::new(terms, 0);
    let many = (0..2000_u32).map(|number| (0, IpAddr::from((0x0a00_0000 + number).to_be_bytes())));
    let many: Vec<End> = many.collect();
    let mut control = PathControl {
        interfaces: GtpUPathInterfaceType::N3.bits(),
        ..PathControl::default()
    };
    control.terms.trigger = IRE.bits();
    let mut controls = PathControls::default();
    controls.push(control);
    let mut monitors = PathMonitors::new();
    monitors.set(0, &controls);
    monitors.look(&paths, &upf.settings, 0);
    assert_eq!((monitors.monitors.len(), monitors.probes.len()), (0, 0));
    paths.enter(&many);
    monitors.look(&paths, &upf.settings, LOOK_NS - 1);
    assert_eq!(monitors.monitors.len(), 0, "not more often than that");
    assert_eq!(monitors.next_ns(&paths), Some(LOOK_NS));
    monitors.look(&paths, &upf.settings, LOOK_NS);
    assert_eq!(
        (monitors.monitors.len(), monitors.probes.len()),
        (2000, PROBES_MAX)
    );
    let mut at_once = 0;
    let mut all = 0;
    let mut now_ns = LOOK_NS;
    while now_ns < LOOK_NS + PROBE_NS + TICK_NS {
        let due = monitors.due(&mut paths, now_ns).len();
        at_once = at_once.max(due);
        all += due;
        now_ns = monitors.next_ns(&paths).unwrap();
    }
    assert_eq!(all, PROBES_MAX);
    assert!(at_once <= 11, "{at_once} at one instant");
    for number in 1..8 {
        monitors.set(number, &controls);
    }
    let named: IpAddr = [192, 0, 2, 1].into();
    controls = PathControls::default();
    control.interfaces = 0;
    control.peers.push(control::PathPeer {
        v4: Some(Ipv4Addr::new(192, 0, 2, 1)),
        v6: None,
        interface: NONE,
    });
    controls.push(control);
    monitors.set(63, &controls);
    monitors.look(&paths, &upf.settings, now_ns);
    assert_eq!(monitors.monitors.len(), MONITORS_MAX);
    assert!(monitors.monitors.contains_key(&((0, named), 63, 0)));
    paths.leave(&many);
    for number in 0..8 {
        monitors.set(number, &PathControls::default());
    }
    monitors.look(&paths, &upf.settings, now_ns + S_NS);
    assert_eq!((monitors.monitors.len(), monitors.probes.len()), (1, 1));
}
