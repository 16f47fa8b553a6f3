//! What an OLT refuses: each limit by itself, on both sides of it.

use super::tests::{MAC, drain, params, pdu, report, request, slot_of, with_one};
use super::*;

fn register_req(laser_on_time: u8, laser_off_time: u8) -> RegisterReq {
    RegisterReq {
        flags: RegisterReq::REGISTER,
        pending_grants: 8,
        information: DiscoveryInformation::UPSTREAM_10G,
        laser_on_time,
        laser_off_time,
    }
}

/// Whether an OLT whose window is open registers who asks like this, at `arrival`.
fn takes(request: RegisterReq, rtt: u32, arrival: u64) -> bool {
    let mut olt = Olt::new(params(), 0).unwrap();
    drain(&mut olt, 0);
    let asked = pdu(Message::RegisterReq(request), arrival, rtt);
    olt.handle(BROADCAST_LLID, MAC, &asked, arrival, arrival);
    olt.stations().count() == 1
}

#[test]
fn a_request_has_limits() {
    let rtt_max = params().rtt_max;
    let right = register_req(32, 32);
    assert!(takes(right, rtt_max, 20_000));
    assert!(!takes(right, rtt_max + 1, 20_000), "too far");
    assert!(!takes(register_req(33, 32), 100, 8_000), "laser on");
    assert!(!takes(register_req(32, 33), 100, 8_000), "laser off");
    let flags = RegisterReq::DEREGISTER;
    assert!(!takes(RegisterReq { flags, ..right }, 100, 8_000));
    let mut olt = Olt::new(params(), 0).unwrap();
    drain(&mut olt, 0);
    let (from, to) = olt.window.unwrap();
    assert_eq!(to - from, 16_000 + u64::from(rtt_max));
    assert!(takes(right, 100, from) && takes(right, 100, to));
    assert!(!takes(right, 100, from - 1) && !takes(right, 100, to + 1));
}

/// An OLT that waits for the REGISTER_ACK of LLID 1, and when it would come.
fn waiting() -> (Olt, u64) {
    let mut olt = Olt::new(params(), 0).unwrap();
    drain(&mut olt, 0);
    olt.handle(
        BROADCAST_LLID,
        MAC,
        &pdu(request(), 8_000, 5_000),
        8_000,
        8_000,
    );
    drain(&mut olt, 8_000);
    let arrival = slot_of(&olt, 1).from + 82;
    (olt, arrival)
}

fn ack(flags: u8, llid: u16) -> Message {
    Message::RegisterAck(RegisterAck {
        flags,
        echoed_assigned_port: llid,
        echoed_sync_time: 50,
    })
}

#[test]
fn a_registration_is_confirmed_once_in_its_slot_and_under_its_own_name() {
    let (_, arrival) = waiting();
    for (message, arrival, registered, known) in [
        (ack(RegisterAck::ACK, 1), arrival, 1, 1),
        (ack(RegisterAck::ACK, 2), arrival, 0, 1),
        (ack(RegisterAck::ACK, 1), arrival + 200, 0, 1),
        (ack(RegisterAck::ACK, 1), arrival - 200, 0, 1),
        (ack(0, 1), arrival, 0, 0),
    ] {
        let (mut olt, _) = waiting();
        olt.handle(1, MAC, &pdu(message, arrival, 5_000), arrival, arrival);
        assert_eq!(
            (olt.registered(), olt.stations().count()),
            (registered, known),
            "{message:?}"
        );
    }
    let (mut olt, _) = with_one();
    let arrival = slot_of(&olt, 1).from + 82;
    let again = pdu(ack(RegisterAck::ACK, 1), arrival, 5_000);
    olt.handle(1, MAC, &again, arrival, arrival);
    assert_eq!(
        (olt.counters().registrations, olt.counters().unexpected),
        (1, 1)
    );
}

#[test]
fn who_is_not_registered_cannot_report() {
    let (mut olt, arrival) = waiting();
    olt.handle(
        1,
        MAC,
        &pdu(report(5_000), arrival, 5_000),
        arrival,
        arrival,
    );
    assert_eq!(olt.counters().reports_unsolicited, 1);
    assert_eq!(olt.station(1).unwrap().demand(), 0);
}

#[test]
fn a_slot_has_one_report_and_drift_is_its_margin() {
    let drift = u64::from(params().drift_max);
    for (off, answered) in [(-83 - drift as i64, 0), (-82 - drift as i64, 1)] {
        let (mut olt, _) = with_one();
        let arrival = (slot_of(&olt, 1).from + 82).saturating_add_signed(off);
        olt.handle(1, MAC, &pdu(report(0), arrival, 5_000), arrival, arrival);
        assert_eq!(olt.counters().reports, answered, "{off}");
    }
    for (off, answered) in [(drift + 1, 0), (drift, 1)] {
        let (mut olt, _) = with_one();
        let arrival = slot_of(&olt, 1).to + off;
        olt.handle(1, MAC, &pdu(report(0), arrival, 5_000), arrival, arrival);
        assert_eq!(olt.counters().reports, answered, "{off}");
        olt.handle(
            1,
            MAC,
            &pdu(report(9_000), arrival, 5_000),
            arrival,
            arrival,
        );
        assert_eq!(olt.counters().reports, answered, "the second of a slot");
    }
}

#[test]
fn what_is_granted_is_known_to_the_quantum_and_for_some_slots() {
    let (olt, _) = with_one();
    let (slot, drift) = (slot_of(&olt, 1), 12);
    for (from, to, granted) in [
        (slot.from - drift, slot.to + drift, true),
        (slot.from - drift - 1, slot.to, false),
        (slot.from, slot.to + drift + 1, false),
    ] {
        assert_eq!(olt.is_granted(1, from, to), granted, "{from} {to}");
    }
    let (mut olt, _) = with_one();
    let first = slot_of(&olt, 1);
    for round in 1..20 {
        let arrival = slot_of(&olt, 1).from + 82;
        olt.handle(1, MAC, &pdu(report(0), arrival, 5_000), arrival, arrival);
        let due = olt.next_due();
        drain(&mut olt, due);
        let station = olt.station(1).unwrap();
        assert!(station.slots().count() <= 8);
        // That of the registration was one more.
        assert_eq!(
            olt.is_granted(1, first.from, first.to),
            round < 8,
            "{round}"
        );
    }
}

#[test]
fn a_grant_is_no_longer_than_a_gate_can_say() {
    let mut params = params();
    params.dba.cycle_max = 4_000_000;
    params.dba.discipline = super::super::ipact::Discipline::Gated;
    let (mut olt, _) = super::tests::with_one_of(params);
    let arrival = slot_of(&olt, 1).from + 82;
    olt.handle(
        1,
        MAC,
        &pdu(report(u16::MAX), arrival, 5_000),
        arrival,
        arrival,
    );
    let due = olt.next_due();
    let sent = drain(&mut olt, due);
    let Message::Gate(gate) = sent[0].message else {
        panic!("{sent:?}")
    };
    let slot = slot_of(&olt, 1);
    assert_eq!(u64::from(gate.grants()[0].length), slot.to - slot.from);
    assert!(slot.to - slot.from > 65_000, "{slot:?}");
}

#[test]
fn polls_are_a_shortest_cycle_apart_and_a_gate_has_its_lead() {
    for (cycle_min, lead) in [(20_000, 0), (0, 0), (0, 7_000)] {
        let (mut olt, _) = super::tests::with_one_of(Params {
            cycle_min,
            lead,
            ..params()
        });
        let before = slot_of(&olt, 1);
        let arrival = before.from + 82;
        olt.handle(1, MAC, &pdu(report(0), arrival, 5_000), arrival, arrival);
        let due = olt.next_due();
        drain(&mut olt, due.max(arrival));
        let slot = slot_of(&olt, 1);
        let apart = u64::from(cycle_min.max(82 + 1024 + lead + 5_000));
        assert!(
            (apart..apart + 40).contains(&(slot.from - before.from)),
            "{slot:?} {before:?}"
        );
    }
}

/// Times at which an OLT acts: none of them is a quantum early or late.
#[test]
fn a_gate_has_the_time_of_those_before_it_and_a_report_is_answered_at_once() {
    let (mut olt, _) = super::tests::with_one_of(Params {
        cycle_min: 0,
        ..params()
    });
    let arrival = slot_of(&olt, 1).from + 82;
    olt.handle(1, MAC, &pdu(report(0), arrival, 5_000), arrival, arrival);
    assert_eq!(olt.next_due(), arrival);
    drain(&mut olt, arrival);
    assert_eq!(slot_of(&olt, 1).from, arrival + 1_024 + 5_000 + 14);
    let earliest = olt.earliest(100, 1_000);
    olt.send(1, MAC, report(0));
    assert_eq!(earliest, 1_000 + 1_024 + 100 + 14);
    assert_eq!(olt.earliest(100, 1_000), earliest + 14);
}

#[test]
fn what_is_due_is_a_window_or_a_slot_whichever_is_first() {
    let (mut olt, _) = with_one();
    let missed = slot_of(&olt, 1).to + 625;
    for window in [missed - 1, missed, missed + 1] {
        olt.next_window = window;
        assert_eq!(olt.next_due(), window.min(missed));
    }
}

#[test]
fn windows_open_a_period_apart_and_not_before_the_last_is_judged() {
    for (discovery_period, lead) in [(1_000_000, 7_000), (1_000, 7_000)] {
        let wanted = Params {
            discovery_period,
            lead,
            ..params()
        };
        let mut olt = Olt::new(wanted, 0).unwrap();
        drain(&mut olt, 0);
        let judged = olt.window.unwrap().1 + 7_000 + 1;
        let next = discovery_period.max(judged);
        assert_eq!((olt.next_due(), olt.counters().windows), (next, 1));
        drain(&mut olt, next - 1);
        assert_eq!(olt.counters().windows, 1);
        drain(&mut olt, next);
        assert_eq!(olt.counters().windows, 2);
    }
}

#[test]
fn what_waits_and_what_is_told_is_bounded() {
    let (mut olt, now) = with_one();
    for number in 0..10_000_u32 {
        let stranger = MacAddr([6, 0, 0, 0, (number >> 8) as u8, number as u8]);
        olt.handle(1, stranger, &pdu(report(0), now, 5_000), now, now);
    }
    assert_eq!(olt.queue.len(), 72);
    for _ in 0..1000 {
        olt.tell(Event::Deregistered {
            llid: 1,
            ending: Ending::Told,
        });
    }
    assert_eq!(olt.events.len(), 128);
}

#[test]
fn who_asks_again_before_it_was_registered_has_lost_no_registration() {
    let (mut olt, _) = waiting();
    let again = pdu(request(), 9_000, 5_000);
    olt.handle(BROADCAST_LLID, MAC, &again, 9_000, 9_000);
    assert_eq!(olt.counters().deregistrations, 0);
    assert_eq!(olt.next_event(), None);
}

#[test]
fn a_round_trip_may_change_by_the_drift_and_no_more() {
    let drift = params().drift_max;
    for (change, registered) in [(drift, 1), (drift + 1, 0)] {
        let (mut olt, _) = with_one();
        let arrival = slot_of(&olt, 1).from + 82;
        let late = pdu(report(0), arrival, 5_000 + change);
        olt.handle(1, MAC, &late, arrival, arrival);
        assert_eq!(olt.registered(), registered, "{change}");
    }
}

#[test]
fn a_request_is_for_all_and_under_an_llid_only_the_end_can_be_asked_for() {
    for (flags, registered) in [(RegisterReq::REGISTER, 1), (RegisterReq::DEREGISTER, 0)] {
        let (mut olt, _) = with_one();
        let arrival = slot_of(&olt, 1).from + 82;
        let asked = RegisterReq {
            flags,
            ..register_req(32, 32)
        };
        let asked = pdu(Message::RegisterReq(asked), arrival, 5_000);
        olt.handle(1, MAC, &asked, arrival, arrival);
        assert_eq!(olt.registered(), registered, "{flags}");
        assert_eq!(olt.counters().unexpected, registered as u64);
    }
}

#[test]
fn the_largest_queue_set_of_a_report_is_granted() {
    let mut said = Report::new();
    for quanta in [100, 900, 300] {
        said.push(&[Some(quanta), None, None, None, None, None, None, Some(7)]);
    }
    assert_eq!(demand_of(&said), 907);
    assert_eq!(demand_of(&Report::new()), 0);
}

#[test]
fn a_silent_onu_is_kept_for_its_timeout_to_the_quantum() {
    for (late, registered) in [(0, 1), (1, 0)] {
        let (mut olt, heard) = with_one();
        olt.next_window = u64::MAX;
        let over = heard + olt.params.timeout + late;
        drain(&mut olt, over);
        assert_eq!(olt.registered(), registered, "{late}");
    }
}

#[test]
fn an_onu_that_missed_its_slot_is_asked_again_before_it_is_granted_frames() {
    let (mut olt, _) = with_one();
    let arrival = slot_of(&olt, 1).from + 82;
    let full = pdu(report(30_000), arrival, 5_000);
    olt.handle(1, MAC, &full, arrival, arrival);
    let granted = |olt: &mut Olt| {
        let due = olt.next_due();
        drain(olt, due);
        let slot = slot_of(olt, 1);
        slot.to - slot.from
    };
    assert!(granted(&mut olt) > 10_000);
    // No REPORT comes from it.
    let least = u64::from(64 + u32::from(olt.params.sync_time) + report_length());
    assert_eq!(granted(&mut olt), least);
}

#[test]
fn each_life_of_an_olt_has_llids_of_its_own_below_that_of_all() {
    let mut olt = Olt::new(params(), 0).unwrap();
    let last = |life: u64, olt: &mut Olt| {
        olt.start(life << 18);
        olt.params.first_llid + ONU_COUNT_MAX as u16 - 1
    };
    assert_eq!(last(0, &mut olt), 32);
    // 1023 lives of 32 have room below 7FFE.
    assert_eq!(last(1022, &mut olt), 0x7fe0);
    assert_eq!(last(1023, &mut olt), 32);
}

#[test]
fn a_slot_takes_laser_sync_report_and_guard_beside_its_frames() {
    let params = params();
    assert_eq!(params.overhead(), 16 + 32 + 32 + 50 + 13);
}
