//! When the MACs act between their links and the PON: each instant by itself, to the quantum.

use catena_engine::nf::{DropReason, Verdict};
use catena_engine::nf_bench::{Emitted, NfBench};
use catena_pcs::llid::{BROADCAST, MODE};
use catena_wire::ethernet::MacAddr;
use catena_wire::mpcp::{
    self, DiscoveryInformation, Gate, GateDiscovery, Grant, Message, Register, RegisterReq,
};
use serde_json::{Value, json};

use super::super::burst_time::{frame_octets, quanta_to};
use super::pon_packet::{MPCPDU_PACKET_LEN, PonPacket, write_mpcpdu};
use super::sides::{PON_INPUT, USER};
use super::stream_time::nanos_at;
use super::tests::{Pon, frame};
use super::*;

/// When a station of these tests starts.
const START: u64 = 1 << 26;
const ONU: MacAddr = MacAddr([2, 0, 0, 0, 1, 1]);
const OLT: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xfe]);

fn olt(config: &Value) -> NfBench {
    NfBench::new(&olt_mac::KIND, config, &["pon", "net"]).unwrap()
}

/// A turn at `now` with this much room at each output.
fn turn(node: &mut NfBench, now: u64, room: usize) -> (Vec<Emitted>, Option<u64>) {
    node.now = nanos_at(now);
    let (sent, next) = node.emit(room, false);
    (sent, next.map(|next| next.0 / mpcp::QUANTUM_NS))
}

/// The same at the end of a chain.
fn last_turn(node: &mut NfBench, now: u64) -> (usize, Option<u64>) {
    node.now = nanos_at(now);
    let (sent, next) = node.emit(8, true);
    (sent.len(), next.map(|next| next.0 / mpcp::QUANTUM_NS))
}

fn instants(sent: &[Emitted]) -> Vec<u64> {
    let instant = |packet: &Emitted| PonPacket::parse(&packet.bytes).unwrap().instant;
    sent.iter().map(instant).map(u64::from).collect()
}

/// Gives a message to a node, as of `instant`.
fn tell(node: &mut NfBench, instant: u64, llid: u16, message: Message) {
    let mut bytes = vec![0; MPCPDU_PACKET_LEN];
    let (dst, src) = match &message {
        Message::Register(_) => (ONU, OLT),
        Message::RegisterReq(_) => (mpcp::DST, ONU),
        _ => (mpcp::DST, OLT),
    };
    let instant = instant as u32;
    write_mpcpdu(&mut bytes, (instant, llid), dst, src, instant, message);
    let verdict = node.process_from(PON_INPUT, &[&bytes]).packets[0].verdict;
    assert_eq!(verdict, Verdict::Drop(DropReason::Consumed), "{message:?}");
}

fn ask() -> Message {
    Message::RegisterReq(RegisterReq {
        flags: RegisterReq::REGISTER,
        ..RegisterReq::default()
    })
}

fn grant_of(start: u64, length: u16) -> Grant {
    Grant {
        start_time: start as u32,
        length,
        force_report: false,
    }
}

/// A discovery window as long as a request of an ONU: laser on and off, sync pattern, codeword.
fn discovery(start: u64) -> Message {
    let discovery = GateDiscovery {
        sync_time: 50,
        information: DiscoveryInformation::UPSTREAM_10G.with(DiscoveryInformation::WINDOW_10G),
    };
    Message::Gate(Gate::of_discovery(
        grant_of(start, 32 + 32 + 50 + 13),
        discovery,
    ))
}

fn gate(start: u64, length: u16) -> Message {
    Message::Gate(Gate::new(&[grant_of(start, length)]).unwrap())
}

/// An ONU beside its OLT.
fn onu() -> NfBench {
    let config = json!({"mac": ONU.to_string(), "distance_m": 0});
    NfBench::new(&onu_mac::KIND, &config, &["pon", "user"]).unwrap()
}

#[test]
fn mpcpdus_leave_now_or_behind_the_one_before() {
    let mut olt = olt(&json!({"lead": "0us"}));
    assert_eq!(instants(&turn(&mut olt, START, 8).0), [START]);
    // A request is judged behind the window: REGISTER and GATE, a codeword apart.
    let (_, due) = turn(&mut olt, START + 100, 8);
    let within = START + 2_000;
    olt.now = nanos_at(within);
    tell(&mut olt, within, BROADCAST, ask());
    let (sent, judged) = turn(&mut olt, within, 8);
    assert_eq!((sent.len(), judged < due), (0, true), "{judged:?} {due:?}");
    let judged = judged.unwrap();
    assert_eq!(
        instants(&turn(&mut olt, judged, 8).0),
        [judged, judged + 13]
    );
}

#[test]
fn requests_are_judged_when_the_window_and_the_lead_are_over() {
    // Windows are 250 us long, and open 1,024 quanta, a lead and 14 quanta behind their GATE.
    for lead in [0, 31_250] {
        let config = json!({"lead": format!("{}ns", 16 * lead), "distance_m_max": 20_000});
        let mut olt = olt(&config);
        let (sent, _) = turn(&mut olt, START, 8);
        let begin = START + 1_024 + lead + 14;
        let opened = PonPacket::parse(&sent[0].bytes).unwrap().mpcpdu.unwrap();
        assert!(matches!(opened.message, Message::Gate(gate)
            if u64::from(gate.grants()[0].start_time) == begin));
        // The round trip of 20 km is 12,242 quanta, and 16 are left for rounding.
        let end = begin + 15_625 + 12_242 + 16;
        olt.now = nanos_at(begin + 600);
        tell(&mut olt, begin + 600, BROADCAST, ask());
        let (sent, next) = turn(&mut olt, begin + 601, 8);
        assert_eq!((sent.len(), next), (0, Some(end + lead + 1)));
        assert_eq!(turn(&mut olt, end + lead, 8).0.len(), 0);
        assert_eq!(turn(&mut olt, end + lead + 1, 8).0.len(), 2);
    }
}

#[test]
fn what_found_no_room_is_tried_again_in_the_next_quantum() {
    let mut olt = olt(&json!({}));
    assert_eq!(turn(&mut olt, START, 0), (vec![], Some(START + 1)));
    let (sent, next) = turn(&mut olt, START + 1, 1);
    assert_eq!(instants(&sent), [START + 1]);
    assert!(next > Some(START + 2));
}

#[test]
fn frames_leave_up_to_100_us_ahead_of_the_clock() {
    let mut olt = olt(&json!({}));
    let long = frame(9, 0, 1_900);
    for _ in 0..200 {
        olt.process_from(1, &[&long]);
    }
    let (sent, _) = turn(&mut olt, START, 256);
    let last = *instants(&sent).last().unwrap();
    let free = last + quanta_to(frame_octets(1_900)) + 1;
    assert!(free > START + 6_250);
    assert_eq!(turn(&mut olt, free - 6_251, 256).0.len(), 0);
    assert_eq!(instants(&turn(&mut olt, free - 6_250, 256).0), [free]);
}

#[test]
fn frames_wait_for_as_many_onus_as_they_are_to_and_for_no_more() {
    for (wait_for, arrived) in [(1, 1), (2, 0)] {
        let mut pon = Pon::new(1, 20_000);
        pon.nodes[0] = olt(&json!({
            "discovery_period": "5ms", "onus_max": 8, "lead": "500us", "wait_for": wait_for,
        }));
        pon.nodes[0].process_from(1, &[&frame(9, 0, 100)]);
        pon.run_ms(60);
        assert_eq!((pon.registered(), pon.received[1].len()), (1, arrived));
    }
}

#[test]
fn queues_of_an_olt_hold_4_mib_to_the_octet() {
    let mut olt = olt(&json!({}));
    let frames = vec![[2_u8; 256]; 127];
    let burst: Vec<&[u8]> = frames.iter().map(<[u8; 256]>::as_slice).collect();
    // 16,383 frames of 256 octets leave room for another.
    for _ in 0..129 {
        olt.process_from(1, &burst);
    }
    let mut verdict = |len: usize| olt.process_from(1, &[&vec![2; len]]).packets[0].verdict;
    assert_eq!(verdict(257), Verdict::Drop(DropReason::NoBuffer));
    assert_eq!(verdict(256), Verdict::Drop(DropReason::Consumed));
    assert_eq!(verdict(60), Verdict::Drop(DropReason::NoBuffer));
}

/// At the end of a chain an OLT without ONUs waits for 50 ms, two windows and five leads.
#[test]
fn an_olt_is_quiet_when_each_onu_had_time_to_say_that_it_has_more() {
    for (lead, period_us, windows) in [(62, 100_000, 6_250_000), (312_500, 1_000, 625_000)] {
        let config = json!({
            "lead": format!("{}ns", 16 * lead), "discovery_period": format!("{period_us}us"),
        });
        let since = START + 1_000_000;
        let pause = 3_125_000 + 2 * windows + 5 * lead;
        let draining = || {
            let mut olt = olt(&config);
            turn(&mut olt, START, 8);
            last_turn(&mut olt, since);
            olt
        };
        // Not yet: it opens the window that is due.
        let (sent, _) = last_turn(&mut draining(), since + pause);
        assert_eq!(sent, 1, "{lead}");
        let (mut olt, now) = (draining(), since + pause + 1);
        let until = now + lead + 625_000;
        assert_eq!(last_turn(&mut olt, now), (0, Some(until + 1)), "{lead}");
        // What was said last may still be on its way.
        assert_eq!(last_turn(&mut olt, until), (0, Some(until + 1)));
        assert!(olt.nf().holds_packets());
        assert_eq!(last_turn(&mut olt, until + 1), (0, None));
        assert!(!olt.nf().holds_packets());
    }
}

#[test]
fn timers_of_an_onu_are_looked_at_each_10_ms_and_a_slot_does_not_put_that_off() {
    let mut onu = onu();
    let timer = START + 625_000;
    for now in [START, START + 1, timer - 1] {
        assert_eq!(turn(&mut onu, now, 8).1, Some(timer), "{now}");
    }
    tell(
        &mut onu,
        timer - 1,
        BROADCAST | MODE,
        discovery(timer + 5_000),
    );
    assert_eq!(turn(&mut onu, timer - 1, 8).1, Some(timer));
    assert_eq!(turn(&mut onu, timer, 8).1, Some(timer + 5_000));
    assert_eq!(turn(&mut onu, timer + 4_999, 8).0.len(), 0);
    let (sent, next) = turn(&mut onu, timer + 5_000, 8);
    assert_eq!((sent.len(), next), (1, Some(timer + 625_000)));
}

/// Goal: the PHY sees from tags where a burst ends. Method: an ONU under LLID 3 and three grants.
#[test]
fn each_packet_of_a_burst_but_the_last_says_that_more_follow() {
    let mut onu = onu();
    onu.now = nanos_at(START);
    tell(&mut onu, START, BROADCAST | MODE, discovery(START + 2_000));
    assert_eq!(turn(&mut onu, START + 2_000, 8).0.len(), 1);
    let register = Message::Register(Register {
        assigned_port: 3,
        flags: Register::ACK,
        sync_time: 50,
        ..Register::default()
    });
    onu.now = nanos_at(START + 3_000);
    tell(&mut onu, START + 3_000, BROADCAST | MODE, register);
    for (start, frames, tags) in [
        // It confirms, without frames.
        (START + 6_000, 1, vec![0]),
        (START + 9_000, 0, vec![1, 0]),
        (START + 12_000, 2, vec![1, 1, 0]),
        (START + 15_000, 0, vec![0]),
    ] {
        for number in 0..frames {
            onu.process_from(1, &[&frame(1, number, 100)]);
        }
        onu.now = nanos_at(start - 2_000);
        tell(&mut onu, start - 2_000, 3, gate(start, 1_000));
        let (sent, _) = turn(&mut onu, start, 8);
        assert!(sent.iter().all(|packet| packet.output != USER));
        let found: Vec<u16> = sent.iter().map(|packet| packet.tag).collect();
        assert_eq!(found, tags, "{start}");
    }
}
