//! The ONU against GATEs and REGISTERs of a made-up OLT, at times of the test's choosing.

use catena_wire::mpcp::{GateDiscovery, Grant};
use proptest::prelude::*;

use super::*;

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 7]);
const SYNC: u16 = 50;

fn onu() -> Onu {
    Onu::new(Params {
        mac: MAC,
        ..Params::default()
    })
}

fn at(timestamp: u32, message: Message) -> Header {
    Header { timestamp, message }
}

fn discovery(start_time: u32, length: u16) -> Message {
    let grant = Grant {
        start_time,
        length,
        force_report: false,
    };
    Message::Gate(Gate::of_discovery(
        grant,
        GateDiscovery {
            sync_time: SYNC,
            information: DiscoveryInformation::UPSTREAM_10G.with(DiscoveryInformation::WINDOW_10G),
        },
    ))
}

fn gate(slots: &[(u32, u16)]) -> Message {
    let grants: Vec<Grant> = slots
        .iter()
        .map(|&(start_time, length)| Grant {
            start_time,
            length,
            force_report: true,
        })
        .collect();
    Message::Gate(Gate::new(&grants).unwrap())
}

fn register(flags: u8, llid: u16) -> Message {
    Message::Register(Register {
        assigned_port: llid,
        flags,
        sync_time: SYNC,
        ..Register::default()
    })
}

/// Registered under LLID 3; its oscillator is 1000 behind the OLT's clock.
pub(in super::super) fn registered() -> (Onu, u64) {
    let mut onu = onu();
    onu.handle(
        BROADCAST_LLID,
        catena_wire::mpcp::DST,
        &at(5_000, discovery(8_000, 400)),
        4_000,
    );
    assert_eq!(onu.state(), State::Requested);
    let start = onu.next_slot().unwrap();
    assert_eq!(onu.take_burst(start).unwrap().purpose, Purpose::Request);
    onu.handle(
        BROADCAST_LLID,
        MAC,
        &at(11_000, register(Register::ACK, 3)),
        10_000,
    );
    assert_eq!(onu.state(), State::Confirming);
    onu.handle(
        3,
        catena_wire::mpcp::DST,
        &at(11_001, gate(&[(13_000, 300)])),
        10_001,
    );
    let burst = onu.take_burst(12_000).unwrap();
    assert_eq!(burst.purpose, Purpose::Confirm);
    assert_eq!(onu.state(), State::Registered);
    (onu, 12_000)
}

#[test]
fn the_request_lies_within_the_window_and_carries_the_olts_time() {
    for seed in 0..200 {
        let mut onu = Onu::new(Params {
            mac: MAC,
            seed,
            ..Params::default()
        });
        let pdu = at(u32::MAX - 10, discovery(2_000, 1_000));
        onu.handle(BROADCAST_LLID, catena_wire::mpcp::DST, &pdu, 77);
        let start = onu.next_slot().unwrap();
        // The window opens 2011 after the GATE, behind the wrap of the clock.
        assert!(start >= 77 + 2_011, "{start}");
        let burst = onu.take_burst(start).unwrap();
        assert!(burst.laser_off <= 77 + 2_011 + 1_000, "{burst:?}");
        assert_eq!(burst.first_octet, start + 32 + u64::from(SYNC));
        assert!(burst.octets >= frame_octets(60));
        let request = onu.message(&burst, 0);
        assert_eq!(
            u64::from(request.timestamp),
            burst.first_octet - 77 - 11,
            "the clock of the OLT, which wrapped"
        );
    }
}

#[test]
fn requests_of_different_seeds_spread_over_the_window() {
    let starts: std::collections::BTreeSet<u64> = (0..64)
        .map(|seed| {
            let mut onu = Onu::new(Params {
                seed,
                ..Params::default()
            });
            let pdu = at(0, discovery(2_000, 16_000));
            onu.handle(BROADCAST_LLID, catena_wire::mpcp::DST, &pdu, 0);
            onu.next_slot().unwrap()
        })
        .collect();
    assert!(starts.len() > 60, "{}", starts.len());
    assert!(starts.last().unwrap() - starts.first().unwrap() > 12_000);
}

#[test]
fn a_lost_request_is_repeated_in_the_next_window() {
    let mut onu = onu();
    let dst = catena_wire::mpcp::DST;
    onu.handle(BROADCAST_LLID, dst, &at(0, discovery(2_000, 400)), 0);
    let first = onu.next_slot().unwrap();
    // Before its slot, a second window changes nothing.
    onu.handle(BROADCAST_LLID, dst, &at(10, discovery(9_000, 400)), 10);
    assert_eq!(onu.next_slot(), Some(first));
    onu.take_burst(first).unwrap();
    onu.handle(
        BROADCAST_LLID,
        dst,
        &at(50_000, discovery(60_000, 400)),
        50_000,
    );
    assert!(onu.next_slot().unwrap() >= 60_000);
    assert_eq!(onu.take_burst(61_000).unwrap().purpose, Purpose::Request);
    assert_eq!(onu.counters().requests, 2);
}

#[test]
fn windows_for_others_and_small_ones_are_let_pass() {
    let mut onu = onu();
    let dst = catena_wire::mpcp::DST;
    let Message::Gate(mut for_1g) = discovery(3_000, 400) else {
        unreachable!()
    };
    for_1g.discovery.as_mut().unwrap().information = DiscoveryInformation::WINDOW_1G;
    onu.handle(BROADCAST_LLID, dst, &at(0, Message::Gate(for_1g)), 0);
    onu.handle(BROADCAST_LLID, dst, &at(0, discovery(3_000, 100)), 0);
    onu.handle(BROADCAST_LLID, dst, &at(0, discovery(500, 400)), 0);
    assert_eq!(onu.state(), State::Unregistered);
    assert_eq!(onu.next_slot(), None);
    assert_eq!(
        (onu.counters().grants_refused, onu.counters().grants_late),
        (1, 1)
    );
}

#[test]
fn frames_are_reported_with_what_is_left() {
    let (mut onu, now) = registered();
    let clock = onu.clock(now);
    onu.handle(
        3,
        catena_wire::mpcp::DST,
        &at(clock, gate(&[(clock + 2_000, 1_000)])),
        now,
    );
    assert_eq!(onu.take_burst(now + 1_999), None);
    let burst = onu.take_burst(now + 2_000).unwrap();
    assert_eq!(burst.purpose, Purpose::Frames);
    assert_eq!(burst.octets, octets_in(1_000 - 64 - u64::from(SYNC)));
    let Message::Report(report) = onu.message(&burst, 50_000).message else {
        panic!("a report opens the burst")
    };
    let expected = Some(quanta_for(50_000) as u16);
    assert_eq!(report.queue_sets().next().unwrap()[0], expected);
    // More than a REPORT can say.
    let Message::Report(report) = onu.message(&burst, u64::MAX / 1000).message else {
        panic!("a report opens the burst")
    };
    assert_eq!(report.queue_sets().next().unwrap()[0], Some(u16::MAX));
}

#[test]
fn a_registration_ends_by_word_silence_and_drift() {
    let (mut onu, now) = registered();
    assert_eq!(onu.poll(10_001 + QUANTA_PER_SECOND), None);
    assert_eq!(onu.poll(10_002 + QUANTA_PER_SECOND), Some(Ending::Timeout));
    assert_eq!((onu.state(), onu.llid()), (State::Unregistered, None));

    let (mut told, _) = registered();
    let pdu = at(told.clock(now), register(Register::DEREGISTER, 3));
    assert_eq!(told.handle(3, MAC, &pdu, now), Some(Ending::Told));

    for (off, ending) in [
        (8, None),
        (-8_i32, None),
        (9, Some(Ending::Drift)),
        (-9, Some(Ending::Drift)),
    ] {
        let (mut onu, now) = registered();
        let clock = onu.clock(now).wrapping_add_signed(off);
        let dst = catena_wire::mpcp::DST;
        assert_eq!(
            onu.handle(3, dst, &at(clock, gate(&[])), now),
            ending,
            "{off}"
        );
        if ending.is_none() {
            assert_eq!(onu.clock(now), clock, "the clock follows");
        }
    }
}

#[test]
fn what_was_not_asked_for_is_ignored() {
    let mut onu = onu();
    let ack = at(0, register(Register::ACK, 3));
    assert_eq!(onu.handle(BROADCAST_LLID, MAC, &ack, 0), None);
    assert_eq!(onu.state(), State::Unregistered);
    let (mut onu, now) = registered();
    let other = MacAddr([2, 0, 0, 0, 0, 9]);
    let clock = onu.clock(now);
    onu.handle(
        BROADCAST_LLID,
        other,
        &at(clock, register(Register::DEREGISTER, 3)),
        now,
    );
    onu.handle(
        4,
        catena_wire::mpcp::DST,
        &at(clock, gate(&[(clock + 2_000, 1_000)])),
        now,
    );
    assert_eq!(onu.state(), State::Registered);
    assert_eq!(onu.next_slot(), None);
    assert_eq!(onu.counters().unexpected, 2);
}

/// Grants as the OLT times them, to a registered ONU; gives how many it keeps.
fn kept(slots: &[(u32, u16)]) -> (Onu, u64) {
    let (mut onu, now) = registered();
    let clock = onu.clock(now);
    for (wait, length) in slots {
        let message = gate(&[(clock + wait, *length)]);
        onu.handle(3, catena_wire::mpcp::DST, &at(clock, message), now);
    }
    let kept = onu.slots.len() as u64;
    (onu, kept)
}

#[test]
fn a_grant_has_room_for_a_control_frame_and_comes_in_time() {
    // Laser on and off, sync pattern, and a codeword.
    let least = 32 + 32 + SYNC + 13;
    let (onu, count) = kept(&[(2_000, least - 1)]);
    assert_eq!((count, onu.counters().grants_refused), (0, 1));
    assert_eq!(kept(&[(2_000, least)]).1, 1);
    let (onu, count) = kept(&[(1_023, 1_000)]);
    assert_eq!((count, onu.counters().grants_late), (0, 1));
    assert_eq!(kept(&[(1_024, 1_000)]).1, 1);
}

#[test]
fn grants_do_not_overlap_and_are_as_many_as_were_announced() {
    for second in [(2_999, 1_000), (1_001 + 1_000, 1_000), (2_500, 200)] {
        let (onu, count) = kept(&[(2_000, 1_000), second]);
        assert_eq!((count, onu.counters().grants_refused), (1, 1), "{second:?}");
    }
    assert_eq!(kept(&[(3_000, 1_000), (2_000, 1_000), (4_000, 200)]).1, 3);
    // In the order of their times, in whatever order they are told.
    for slots in [[(3_000, 200), (2_000, 200)], [(2_000, 200), (3_000, 200)]] {
        let starts: Vec<u64> = kept(&slots).0.slots.iter().map(|slot| slot.start).collect();
        assert_eq!(starts, [14_000, 15_000]);
    }
    assert_eq!(kept(&[(3_000, 1_000), (2_000, 1_001)]).1, 1);
    let many: Vec<(u32, u16)> = (0..9).map(|slot| (2_000 + 1_000 * slot, 500)).collect();
    let (onu, count) = kept(&many);
    assert_eq!((count, onu.counters().grants_refused), (8, 1));
}

#[test]
fn a_grant_within_the_burst_under_way_is_refused() {
    let (mut onu, _) = kept(&[(2_000, 5_000)]);
    let start = onu.next_slot().unwrap();
    onu.take_burst(start).unwrap();
    let clock = onu.clock(start);
    for (wait, refused) in [(4_999, 1), (5_000, 1)] {
        let message = gate(&[(clock + wait, 1_000)]);
        onu.handle(3, catena_wire::mpcp::DST, &at(clock, message), start);
        assert_eq!(onu.counters().grants_refused, refused, "{wait}");
    }
    assert_eq!(onu.next_slot(), Some(start + 5_000));
}

#[test]
fn only_its_own_registration_and_grants_concern_an_onu() {
    let mut onu = onu();
    let dst = catena_wire::mpcp::DST;
    onu.handle(BROADCAST_LLID, dst, &at(0, discovery(2_000, 400)), 0);
    // An LLID of which nobody may have.
    let all = at(500, register(Register::ACK, BROADCAST_LLID));
    onu.handle(BROADCAST_LLID, MAC, &all, 500);
    assert_eq!(onu.state(), State::Requested);
    let (mut onu, now) = registered();
    let clock = onu.clock(now);
    for (flags, llid) in [
        (Register::ACK, 4),
        (Register::DEREGISTER, 4),
        (Register::REREGISTER, 2),
    ] {
        onu.handle(BROADCAST_LLID, MAC, &at(clock, register(flags, llid)), now);
        assert_eq!((onu.state(), onu.llid()), (State::Registered, Some(3)));
    }
    // A discovery GATE to one ONU, and its grant to all.
    let other = at(clock, discovery(clock + 2_000, 400));
    onu.handle(3, dst, &other, now);
    let other = at(clock, gate(&[(clock + 2_000, 400)]));
    onu.handle(BROADCAST_LLID, dst, &other, now);
    assert_eq!(onu.next_slot(), None);
    assert_eq!(onu.counters().unexpected, 5);
}

#[test]
fn a_request_is_for_a_discovery_window() {
    let mut onu = onu();
    let dst = catena_wire::mpcp::DST;
    // To the quantum as long as a request.
    let length = 32 + 32 + SYNC + 13;
    onu.handle(BROADCAST_LLID, dst, &at(0, discovery(2_000, length - 1)), 0);
    assert_eq!(onu.next_slot(), None);
    onu.handle(BROADCAST_LLID, dst, &at(0, discovery(2_000, length)), 0);
    assert_eq!(onu.next_slot(), Some(2_000));
    assert_eq!(onu.take_burst(1_999), None);
    let burst = onu.take_burst(2_000).unwrap();
    assert_eq!(burst.laser_off, 2_000 + u64::from(length));
}

#[test]
fn a_request_is_sent_at_any_time_that_leaves_it_whole_and_at_no_other() {
    let length = 32 + 32 + SYNC + 13;
    for slack in [0, 1] {
        let waits: std::collections::BTreeSet<u64> = (0..64)
            .map(|seed| {
                let mut onu = Onu::new(Params {
                    seed,
                    ..Params::default()
                });
                let window = at(0, discovery(2_000, length + slack));
                onu.handle(BROADCAST_LLID, catena_wire::mpcp::DST, &window, 0);
                onu.next_slot().unwrap() - 2_000
            })
            .collect();
        assert!(waits.into_iter().eq(0..=u64::from(slack)), "{slack}");
    }
}

#[test]
fn every_llid_below_that_of_all_can_be_assigned() {
    let mut onu = onu();
    let dst = catena_wire::mpcp::DST;
    onu.handle(BROADCAST_LLID, dst, &at(0, discovery(2_000, 400)), 0);
    let last = at(500, register(Register::ACK, BROADCAST_LLID - 1));
    onu.handle(BROADCAST_LLID, MAC, &last, 500);
    assert_eq!(onu.llid(), Some(BROADCAST_LLID - 1));
}

#[test]
fn grants_end_with_what_they_were_given_for() {
    let dst = catena_wire::mpcp::DST;
    // A second request waits when the first is answered.
    let mut asking = onu();
    asking.handle(BROADCAST_LLID, dst, &at(0, discovery(2_000, 400)), 0);
    let first = asking.next_slot().unwrap();
    asking.take_burst(first).unwrap();
    let window = at(5_000, discovery(9_000, 400));
    asking.handle(BROADCAST_LLID, dst, &window, 5_000);
    assert!(asking.next_slot().is_some());
    let answer = at(5_500, register(Register::ACK, 3));
    asking.handle(BROADCAST_LLID, MAC, &answer, 5_500);
    assert_eq!(asking.next_slot(), None);
    // A registration that ends, and one that the OLT repeats.
    for (flags, state) in [
        (Register::DEREGISTER, State::Unregistered),
        (Register::ACK, State::Confirming),
    ] {
        let (mut onu, now) = registered();
        let clock = onu.clock(now);
        onu.handle(3, dst, &at(clock, gate(&[(clock + 2_000, 1_000)])), now);
        assert!(onu.next_slot().is_some());
        onu.handle(BROADCAST_LLID, MAC, &at(clock, register(flags, 3)), now);
        assert_eq!((onu.next_slot(), onu.state()), (None, state));
    }
}

fn messages() -> impl Strategy<Value = Message> {
    prop_oneof![
        (any::<u32>(), any::<u16>()).prop_map(|(start, length)| discovery(start, length)),
        prop::collection::vec((any::<u32>(), any::<u16>()), 0..4).prop_map(|slots| gate(&slots)),
        prop::collection::vec((0_u32..200_000, any::<u16>()), 0..4).prop_map(|slots| gate(&slots)),
        (0_u8..6, 0_u16..5).prop_map(|(flags, llid)| register(flags, llid)),
    ]
}

proptest! {
    /// Goal: whatever an OLT says, bursts follow one another, none is sent in the past and the
    /// ONU keeps no more grants than it says.
    #[test]
    fn bursts_of_an_onu_never_overlap(
        pdus in prop::collection::vec((messages(), 0_u16..5, 0_u64..30_000, any::<bool>()), 1..60),
    ) {
        let (mut onu, mut now) = registered();
        let mut end = 0;
        for (message, llid, pause, is_honest) in pdus {
            now += pause;
            onu.poll(now);
            while let Some(burst) = onu.take_burst(now) {
                prop_assert!(burst.laser_on >= end && burst.laser_on <= now);
                prop_assert!(burst.laser_on < burst.laser_off);
                end = burst.laser_off;
            }
            let llid = if llid == 4 { BROADCAST_LLID } else { llid };
            let timestamp = if is_honest { onu.clock(now) } else { 0 };
            onu.handle(llid, MAC, &at(timestamp, message), now);
            prop_assert!(onu.slots.len() <= 8);
        }
    }
}
