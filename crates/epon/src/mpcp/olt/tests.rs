//! The OLT against ONUs that are honest, lossy or hostile, as far as a script can be. How it works
//! with real ones is the matter of `simulate`.

use proptest::prelude::*;

use super::super::QUANTA_PER_SECOND;
use super::*;

pub(super) const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

pub(super) fn params() -> Params {
    Params {
        onus_max: 4,
        discovery_period: 1_000_000,
        ..Params::default()
    }
}

pub(super) fn request() -> Message {
    Message::RegisterReq(RegisterReq {
        flags: RegisterReq::REGISTER,
        pending_grants: 8,
        information: DiscoveryInformation::UPSTREAM_10G,
        laser_on_time: 32,
        laser_off_time: 32,
    })
}

pub(super) fn report(demand: u16) -> Message {
    let mut report = Report::new();
    report.push(&[Some(demand), None, None, None, None, None, None, None]);
    Message::Report(report)
}

/// A message that arrives at `arrival` from an ONU `rtt` away.
pub(super) fn pdu(message: Message, arrival: u64, rtt: u32) -> Header {
    Header {
        timestamp: (arrival as u32).wrapping_sub(rtt),
        message,
    }
}

pub(super) fn drain(olt: &mut Olt, now: u64) -> Vec<Outgoing> {
    std::iter::from_fn(|| olt.poll(now)).collect()
}

pub(super) fn slot_of(olt: &Olt, llid: u16) -> Slot {
    *olt.station(llid).unwrap().slots().last().unwrap()
}

/// An OLT with one registered ONU, LLID 1, 5000 quanta away; gives the time.
pub(super) fn with_one() -> (Olt, u64) {
    with_one_of(params())
}

/// The same with other properties.
pub(super) fn with_one_of(params: Params) -> (Olt, u64) {
    let mut olt = Olt::new(params, 0).unwrap();
    let sent = drain(&mut olt, 0);
    assert!(
        matches!(sent[..], [Outgoing { llid: BROADCAST_LLID, message: Message::Gate(gate), .. }]
        if gate.discovery.is_some())
    );
    let arrival = 8_000 + u64::from(olt.params().lead);
    assert!(olt.is_in_window(arrival));
    olt.handle(
        BROADCAST_LLID,
        MAC,
        &pdu(request(), arrival, 5_000),
        arrival,
        arrival,
    );
    let sent = drain(&mut olt, arrival);
    assert!(matches!(
        sent[0],
        Outgoing {
            llid: BROADCAST_LLID,
            dst: MAC,
            message: Message::Register(Register {
                flags: Register::ACK,
                assigned_port: 1,
                ..
            })
        }
    ));
    assert!(matches!(
        sent[1],
        Outgoing {
            llid: 1,
            message: Message::Gate(_),
            ..
        }
    ));
    let slot = slot_of(&olt, 1);
    let ack = Message::RegisterAck(RegisterAck {
        flags: RegisterAck::ACK,
        echoed_assigned_port: 1,
        echoed_sync_time: 50,
    });
    let arrival = slot.from + 82;
    olt.handle(1, MAC, &pdu(ack, arrival, 5_000), arrival, arrival);
    assert_eq!(olt.registered(), 1);
    let event = olt.next_event();
    assert_eq!(
        event,
        Some(Event::Registered {
            llid: 1,
            mac: MAC,
            rtt: 5_000
        })
    );
    drain(&mut olt, arrival);
    (olt, arrival)
}

#[test]
fn a_slot_follows_each_report_and_grows_with_it() {
    let (mut olt, _) = with_one();
    for demand in [0, 1_000, 3_000] {
        let arrival = slot_of(&olt, 1).from + 82;
        olt.handle(
            1,
            MAC,
            &pdu(report(demand), arrival, 5_000),
            arrival,
            arrival,
        );
        let due = olt.next_due();
        let sent = drain(&mut olt, due);
        let [
            Outgoing {
                message: Message::Gate(gate),
                ..
            },
        ] = sent[..]
        else {
            panic!("{sent:?}")
        };
        let grant = gate.grants()[0];
        let slot = slot_of(&olt, 1);
        assert_eq!(grant.start_time, slot.from as u32 - 5_000);
        assert_eq!(u64::from(grant.length), slot.to - slot.from);
        assert_eq!(grant.length, 64 + 50 + 13 + demand);
        assert!(u64::from(grant.start_time) >= due + 1024, "time to answer");
    }
    assert_eq!(olt.counters().reports, 3);
}

#[test]
fn a_lost_gate_or_report_is_made_good() {
    let (mut olt, _) = with_one();
    for lost in 1..=3 {
        let slot = slot_of(&olt, 1);
        let due = olt.next_due();
        assert_eq!(due, slot.to + u64::from(olt.params().report_margin));
        assert_eq!(drain(&mut olt, due - 1), []);
        assert_eq!(drain(&mut olt, due).len(), 1);
        assert_eq!(olt.counters().reports_missed, lost);
        assert!(slot_of(&olt, 1).from > slot.to);
    }
}

#[test]
fn a_silent_onu_is_deregistered_after_the_timeout() {
    let (mut olt, heard) = with_one();
    let mut now = heard;
    while olt.registered() == 1 {
        now = olt.next_due().max(now + 1);
        drain(&mut olt, now);
        assert!(now < heard + QUANTA_PER_SECOND + 1_000_000);
    }
    assert!(now > heard + QUANTA_PER_SECOND);
    let ending = Ending::Timeout;
    assert_eq!(
        olt.next_event(),
        Some(Event::Deregistered { llid: 1, ending })
    );
    assert!(olt.counters().reports_missed > 1000);
}

#[test]
fn an_onu_that_never_confirms_loses_its_place() {
    let mut olt = Olt::new(params(), 0).unwrap();
    drain(&mut olt, 0);
    olt.handle(
        BROADCAST_LLID,
        MAC,
        &pdu(request(), 8_000, 5_000),
        8_000,
        8_000,
    );
    let mut registers = 0;
    let mut now = 8_000;
    while olt.station(1).is_some() {
        let sent = drain(&mut olt, now);
        registers += sent
            .iter()
            .filter(|out| matches!(out.message, Message::Register(_)))
            .count();
        now = olt.next_due().max(now + 1);
    }
    assert_eq!(registers, 3 + 1, "and one that ends it");
    let ending = Ending::Unconfirmed;
    assert_eq!(
        olt.next_event(),
        Some(Event::Deregistered { llid: 1, ending })
    );
}

#[test]
fn no_more_onus_than_places() {
    let mut olt = Olt::new(params(), 0).unwrap();
    drain(&mut olt, 0);
    for last in 0..6 {
        let mac = MacAddr([2, 0, 0, 0, 1, last]);
        let arrival = 8_000 + 400 * u64::from(last);
        olt.handle(
            BROADCAST_LLID,
            mac,
            &pdu(request(), arrival, 100),
            arrival,
            arrival,
        );
    }
    assert_eq!(olt.stations().count(), 4);
    assert_eq!(olt.counters().refused, 2);
    let nacks = drain(&mut olt, 10_000).into_iter().filter(|out| {
        matches!(out.message, Message::Register(register) if register.flags == Register::NACK)
    });
    assert_eq!(nacks.count(), 2);
}

#[test]
fn a_drifting_clock_ends_a_registration_and_a_slow_change_does_not() {
    let (mut olt, _) = with_one();
    for rtt in (5_000..5_120).step_by(12) {
        let arrival = slot_of(&olt, 1).from + 82;
        olt.handle(1, MAC, &pdu(report(0), arrival, rtt), arrival, arrival);
        assert_eq!(olt.station(1).unwrap().rtt, rtt);
        let due = olt.next_due();
        drain(&mut olt, due);
    }
    let arrival = slot_of(&olt, 1).from + 82;
    olt.handle(1, MAC, &pdu(report(0), arrival, 5_000), arrival, arrival);
    assert_eq!(olt.registered(), 0);
    let sent = drain(&mut olt, arrival);
    assert!(matches!(sent[0].message, Message::Register(register)
        if register.flags == Register::DEREGISTER));
}

#[test]
fn an_onu_that_was_switched_off_and_on_keeps_its_place() {
    let (mut olt, now) = with_one();
    let due = 1_000_001.max(now);
    drain(&mut olt, due);
    let arrival = olt.window_end().unwrap() - 100;
    olt.handle(
        BROADCAST_LLID,
        MAC,
        &pdu(request(), arrival, 5_001),
        arrival,
        arrival,
    );
    assert_eq!(olt.stations().count(), 1);
    assert_eq!(olt.registered(), 0);
}

#[test]
fn reports_of_strangers_and_outside_the_slot_give_nothing() {
    let (mut olt, now) = with_one();
    let before = slot_of(&olt, 1);
    let stranger = MacAddr([6; 6]);
    let arrival = before.from + 82;
    olt.handle(
        1,
        stranger,
        &pdu(report(9_000), arrival, 5_000),
        arrival,
        arrival,
    );
    olt.handle(
        3,
        MAC,
        &pdu(report(9_000), arrival, 5_000),
        arrival,
        arrival,
    );
    olt.handle(1, MAC, &pdu(report(9_000), now, 5_000), now, now);
    assert_eq!(slot_of(&olt, 1), before);
    assert_eq!(
        (
            olt.counters().unexpected,
            olt.counters().reports_unsolicited
        ),
        (2, 1)
    );
    // Who uses the LLID of another is told that it is not its own.
    let told = drain(&mut olt, now)
        .into_iter()
        .filter(|out| out.dst == stranger)
        .count();
    assert_eq!(told, 1);
    assert!(olt.is_granted(1, before.from, before.to));
    assert!(!olt.is_granted(1, before.from, before.to + 13));
    assert!(!olt.is_granted(2, before.from, before.to));
}

#[test]
fn a_near_onu_does_not_wait_for_a_far_one() {
    let near_and_far = [(1_u16, 100_u32), (2, 12_000)];
    let mut olt = Olt::new(
        Params {
            cycle_min: 0,
            ..params()
        },
        0,
    )
    .unwrap();
    drain(&mut olt, 0);
    let mac = |llid: u16| MacAddr([2, 0, 0, 0, 1, llid as u8]);
    let mut now = 8_000;
    for (llid, rtt) in near_and_far {
        now += 500;
        let pdu = pdu(request(), now, rtt);
        olt.handle(BROADCAST_LLID, mac(llid), &pdu, now, now);
    }
    drain(&mut olt, now);
    let mut say = |llid: u16, rtt: u32, message: Message| {
        let arrival = slot_of(&olt, llid).from + 82;
        now = now.max(arrival);
        olt.handle(llid, mac(llid), &pdu(message, arrival, rtt), arrival, now);
        drain(&mut olt, now);
        (slot_of(&olt, llid), now)
    };
    for (llid, rtt) in near_and_far {
        let ack = Message::RegisterAck(RegisterAck {
            flags: 1,
            echoed_assigned_port: llid,
            echoed_sync_time: 0,
        });
        say(llid, rtt, ack);
    }
    for _ in 0..10 {
        let (far, asked) = say(2, 12_000, report(3_000));
        assert!(far.from >= asked + 12_000);
        let (near, asked) = say(1, 100, report(1_000));
        if near.from < far.from {
            assert!(near.from <= asked + 1024 + 100 + 50, "{near:?} at {asked}");
            return;
        }
    }
    panic!("slots of the near ONU come after those of the far one");
}

/// What comes from the PON, honest or not.
#[derive(Clone, Debug)]
enum Input {
    /// An MPCPDU as it is, from anybody, at any time.
    Anything(u16, u8, Message, i32),
    /// A REPORT of an ONU in its slot; what a well-meaning one sends.
    Report(u16, u16),
    /// A REGISTER_REQ in the window.
    Request(u8, u32),
    /// A REGISTER_ACK in the slot.
    Confirm(u16),
    /// Time goes by.
    Pause(u64),
}

fn inputs() -> impl Strategy<Value = Input> {
    let message = prop_oneof![
        any::<u16>().prop_map(report),
        Just(request()),
        any::<(u8, u16)>().prop_map(|(flags, llid)| {
            Message::RegisterAck(RegisterAck {
                flags,
                echoed_assigned_port: llid,
                echoed_sync_time: 0,
            })
        }),
    ];
    prop_oneof![
        1 => (0_u16..6, 0_u8..6, message, -20_000_i32..20_000)
            .prop_map(|(llid, mac, message, off)| Input::Anything(llid, mac, message, off)),
        6 => (1_u16..5, any::<u16>()).prop_map(|(llid, demand)| Input::Report(llid, demand)),
        2 => (0_u8..6, 0_u32..12_000).prop_map(|(mac, rtt)| Input::Request(mac, rtt)),
        3 => (1_u16..5).prop_map(Input::Confirm),
        3 => (0_u64..200_000).prop_map(Input::Pause),
    ]
}

/// The grants of a GATE at the receiver, as a model that knows nothing but the round trips.
fn arrivals(out: &Outgoing, rtt: u32, now: u64, window: u64) -> Vec<(u64, u64)> {
    let Message::Gate(gate) = out.message else {
        return Vec::new();
    };
    let slots = gate.grants().iter().map(|grant| {
        let wait = u64::from(grant.start_time.wrapping_sub(now as u32));
        let extra = if gate.discovery.is_some() { window } else { 0 };
        let from = now + wait + u64::from(rtt);
        (from, from + u64::from(grant.length) + extra)
    });
    slots.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// Goal: no two slots overlap at the receiver, whatever arrives; memory is bounded; an honest
    /// REPORT is answered. Method: GATEs are read back as their ONUs would read them.
    #[test]
    fn slots_never_overlap_whatever_arrives(
        script in prop::collection::vec(inputs(), 1..120), start in 0_u64..1 << 33,
    ) {
        let mut olt = Olt::new(params(), start).unwrap();
        let mut now = start;
        let mut taken: Vec<(u64, u64)> = Vec::new();
        let rtt_max = u64::from(olt.params().rtt_max);
        let mac = |last: u8| MacAddr([2, 0, 0, 0, 2, last]);
        for input in script {
            let mut reported = None;
            match input {
                Input::Anything(llid, from, message, off) => {
                    let llid = if llid == 5 { BROADCAST_LLID } else { llid };
                    let pdu = Header {
                        timestamp: (now as u32).wrapping_add_signed(off),
                        message,
                    };
                    olt.handle(llid, mac(from), &pdu, now, now);
                }
                Input::Report(llid, demand) => {
                    let Some(station) = olt.station(llid) else { continue };
                    let Some(slot) = station.slots().last() else { continue };
                    let (arrival, rtt, from) = (slot.from + 82, station.rtt, station.mac);
                    now = now.max(arrival);
                    let before = olt.counters().reports;
                    olt.handle(llid, from, &pdu(report(demand), arrival, rtt), arrival, now);
                    reported = (olt.counters().reports > before).then_some(llid);
                }
                Input::Request(from, rtt) => {
                    let Some(end) = olt.window_end() else { continue };
                    let arrival = end - 1;
                    now = now.max(arrival);
                    let pdu = pdu(request(), arrival, rtt);
                    olt.handle(BROADCAST_LLID, mac(from), &pdu, arrival, now);
                }
                Input::Confirm(llid) => {
                    let Some(station) = olt.station(llid) else { continue };
                    let Some(slot) = station.slots().last() else { continue };
                    let (arrival, rtt, from) = (slot.from + 82, station.rtt, station.mac);
                    now = now.max(arrival);
                    let ack = Message::RegisterAck(RegisterAck {
                        flags: 1,
                        echoed_assigned_port: llid,
                        echoed_sync_time: 0,
                    });
                    olt.handle(llid, from, &pdu(ack, arrival, rtt), arrival, now);
                }
                Input::Pause(pause) => now += pause,
            }
            if let Some(llid) = reported {
                now = now.max(olt.station(llid).unwrap().due(0));
            }
            let mut answered = false;
            while let Some(out) = olt.poll(now) {
                let rtt = olt.station(out.llid).map_or(0, |station| station.rtt);
                if out.llid != BROADCAST_LLID && olt.station(out.llid).is_none() {
                    continue;
                }
                answered |= Some(out.llid) == reported && matches!(out.message, Message::Gate(_));
                taken.extend(arrivals(&out, rtt, now, rtt_max));
            }
            prop_assert!(reported.is_none() || answered, "a report without an answer");
            prop_assert!(olt.queue.is_empty() && olt.events.len() <= 4 * ONU_COUNT_MAX);
        }
        taken.sort_unstable();
        for pair in taken.windows(2) {
            prop_assert!(pair[0].1 + 16 <= pair[1].0, "{pair:?}");
        }
    }
}
