//! What the MACs refuse: each limit by itself.

use catena_engine::nf::{DropReason, Nanos, Verdict};
use catena_engine::nf_bench::NfBench;
use catena_pcs::llid::{BROADCAST, MODE};
use catena_wire::ethernet::MacAddr;
use catena_wire::mpcp::{Message, Register, RegisterAck, RegisterReq};
use serde_json::{Value, json};

use super::pon_packet::{MPCPDU_PACKET_LEN, PON_HEADER_LEN, PonPacket, write_frame, write_mpcpdu};
use super::sides::{PON_INPUT, USER};
use super::stream_time::{nanos_at, quanta_at};
use super::tests::{Pon, frame};
use super::*;

/// A PON whose ONUs are registered.
fn served(count: usize) -> Pon {
    let mut pon = Pon::new(count, 20_000);
    pon.run_ms(60);
    assert_eq!(pon.registered(), count as u64);
    pon
}

fn verdict(node: &mut NfBench, input: u8, packet: &[u8]) -> Verdict {
    node.process_from(input, &[packet]).packets[0].verdict
}

fn pon_frame(instant: u32, llid: u16, frame: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; PON_HEADER_LEN + frame.len()];
    write_frame(&mut bytes, (instant, llid), (frame, &[]));
    bytes
}

fn pon_mpcpdu(instant: u32, llid: u16, message: Message) -> Vec<u8> {
    let mut bytes = vec![0; MPCPDU_PACKET_LEN];
    let (dst, src) = (catena_wire::mpcp::DST, MacAddr([2, 0, 0, 0, 9, 1]));
    write_mpcpdu(&mut bytes, (instant, llid), dst, src, instant, message);
    bytes
}

fn show(node: &mut NfBench) -> Value {
    node.nf().control(&json!("show")).unwrap()
}

#[test]
fn frames_have_the_lengths_that_a_pon_carries() {
    let mut pon = served(1);
    for (len, taken) in [(13, false), (14, true), (1996, true), (1997, false)] {
        let wanted = match taken {
            true => DropReason::Consumed,
            false => DropReason::TooLarge,
        };
        for node in 0..2 {
            let found = verdict(&mut pon.nodes[node], 1, &vec![2; len]);
            assert_eq!(found, Verdict::Drop(wanted), "{len} at {node}");
        }
        let bytes = pon_frame(0, 1, &vec![2; len.max(14)]);
        let parsed = PonPacket::parse(&bytes[..PON_HEADER_LEN + len]);
        assert_eq!(parsed.is_ok(), taken, "{len}");
    }
}

#[test]
fn what_comes_outside_slots_and_windows_is_dropped() {
    let mut pon = served(1);
    let far = quanta_at(pon.nodes[0].now) as u32 + 1_000_000;
    let llid = show(&mut pon.nodes[1])["llid"].as_u64().unwrap() as u16;
    let request = Message::RegisterReq(RegisterReq {
        flags: RegisterReq::REGISTER,
        ..RegisterReq::default()
    });
    let packets = [
        pon_frame(far, llid, &frame(1, 7, 100)),
        pon_mpcpdu(far, BROADCAST, request),
        pon_mpcpdu(far, BROADCAST, Message::RegisterAck(RegisterAck::default())),
    ];
    for packet in &packets {
        let found = verdict(&mut pon.nodes[0], PON_INPUT, packet);
        assert_eq!(found, Verdict::Drop(DropReason::Malformed));
    }
    assert_eq!(pon.report(0, "outside_slot"), 3);
    pon.run_ms(3);
    assert!(pon.received[0].is_empty());
}

#[test]
fn in_a_window_only_requests_are_heard() {
    let mut olt = NfBench::new(&olt_mac::KIND, &json!({}), &["pon", "net"]).unwrap();
    olt.now = Nanos(1 << 40);
    let (sent, _) = olt.emit(4, false);
    let gate = PonPacket::parse(&sent[0].bytes).unwrap().mpcpdu.unwrap();
    let Message::Gate(gate) = gate.message else {
        panic!("{gate:?}")
    };
    let instant = gate.grants()[0].start_time + 2_000;
    for (flags, reason) in [
        (RegisterReq::DEREGISTER, DropReason::Malformed),
        (RegisterReq::REGISTER, DropReason::Consumed),
    ] {
        let message = Message::RegisterReq(RegisterReq {
            flags,
            ..RegisterReq::default()
        });
        let found = verdict(
            &mut olt,
            PON_INPUT,
            &pon_mpcpdu(instant, BROADCAST, message),
        );
        assert_eq!(found, Verdict::Drop(reason), "{flags}");
    }
}

#[test]
fn frames_downstream_leave_a_little_ahead_of_the_clock_and_not_before_all_are_there() {
    let mut pon = served(1);
    let long = frame(9, 0, 1900);
    for _ in 0..200 {
        pon.nodes[0].process_from(1, &[&long]);
    }
    let now = quanta_at(pon.nodes[0].now);
    let (sent, _) = pon.nodes[0].emit(256, false);
    let last = sent
        .iter()
        .map(|packet| PonPacket::parse(&packet.bytes).unwrap().instant);
    let ahead = last
        .map(|instant| instant.wrapping_sub(now as u32))
        .max()
        .unwrap();
    assert!((6_000..6_500).contains(&ahead), "{ahead} quanta");
    // It waits for two, and there is one.
    let config = json!({"discovery_period": "5ms", "onus_max": 8, "lead": "500us", "wait_for": 2});
    let mut pon = Pon::new(1, 20_000);
    pon.nodes[0] = NfBench::new(&olt_mac::KIND, &config, &["pon", "net"]).unwrap();
    pon.nodes[0].process_from(1, &[&frame(9, 0, 100)]);
    pon.run_ms(60);
    assert_eq!((pon.registered(), pon.received[1].len()), (1, 0));
}

#[test]
fn users_are_remembered_up_to_a_limit_and_groups_never() {
    let mut pon = served(2);
    let user = |number: u32, source: u8| {
        let mut frame = frame(0, number, 60);
        frame[6..12].copy_from_slice(&[
            source,
            9,
            0,
            (number >> 16) as u8,
            (number >> 8) as u8,
            number as u8,
        ]);
        frame
    };
    for number in 0..8_193 {
        pon.nodes[1].process_from(1, &[&user(number, 2)]);
        if number % 2_000 == 1_999 {
            pon.run_ms(12);
        }
    }
    pon.nodes[1].process_from(1, &[&user(0, 3)]);
    pon.run_ms(12);
    assert_eq!(pon.received[0].len(), 8_194);
    let mut reached = |number: u32, destination: u8| {
        let before = pon.received[2].len();
        let mut down = frame(9, number, 80);
        let source = user(number, destination);
        down[..6].copy_from_slice(&source[6..12]);
        pon.nodes[0].process_from(1, &[&down]);
        pon.run_ms(3);
        pon.received[2].len() > before
    };
    assert!(
        !reached(0, 2),
        "the other ONU gets nothing of a known user's"
    );
    assert!(!reached(8_191, 2));
    assert!(reached(8_192, 2), "one more than is remembered");
    assert!(reached(0, 3), "a group has no place");
}

#[test]
fn frames_for_an_onu_that_is_gone_go_to_all() {
    let mut pon = served(2);
    pon.nodes[1].process_from(1, &[&frame(1, 0, 100)]);
    pon.run_ms(5);
    let gone = onu_of("02:00:00:00:07:07", &json!({}));
    pon.nodes[1] = gone;
    pon.run_ms(1_300);
    let mut down = frame(9, 1, 80);
    down[..6].copy_from_slice(&[2, 0, 0, 0, 8, 1]);
    let before = pon.received[2].len();
    pon.nodes[0].process_from(1, &[&down]);
    pon.run_ms(3);
    assert_eq!(pon.received[2].len(), before + 1);
}

fn onu_of(mac: &str, more: &Value) -> NfBench {
    let mut config = json!({"mac": mac});
    config
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    NfBench::new(&onu_mac::KIND, &config, &["pon", "user"]).unwrap()
}

#[test]
fn an_onu_takes_its_own_frames_when_it_is_registered_and_when_light_has_come() {
    let mut pon = served(2);
    let (now, llid) = (
        quanta_at(pon.nodes[2].now),
        show(&mut pon.nodes[2])["llid"].as_u64(),
    );
    let llid = llid.unwrap() as u16;
    let packet = |instant: u64, llid: u16| pon_frame(instant as u32, llid, &frame(1, 5, 100));
    let onu = &mut pon.nodes[2];
    verdict(onu, PON_INPUT, &packet(now, llid + 1));
    onu.now = nanos_at(now + 20_000);
    assert!(
        onu.emit(8, false)
            .0
            .iter()
            .all(|packet| packet.output != USER)
    );
    verdict(onu, PON_INPUT, &packet(now + 30_000, llid));
    // 5 km: 24.5 us of light, 1530 quanta.
    onu.now = nanos_at(now + 31_529);
    assert!(
        onu.emit(8, false)
            .0
            .iter()
            .all(|packet| packet.output != USER)
    );
    onu.now = nanos_at(now + 31_530);
    assert!(
        onu.emit(8, false)
            .0
            .iter()
            .any(|packet| packet.output == USER)
    );
    let mut fresh = onu_of("02:00:00:00:01:09", &json!({}));
    verdict(&mut fresh, PON_INPUT, &packet(0, BROADCAST | MODE));
    fresh.now = Nanos(1 << 30);
    assert!(fresh.emit(8, false).0.is_empty());
    assert_eq!(fresh.counter("foreign"), 1);
}

#[test]
fn a_round_trip_is_that_of_the_fibre() {
    let mut pon = served(4);
    let shown = show(&mut pon.nodes[0]);
    for onu in shown["onus"].as_array().unwrap() {
        let mac = onu["mac"].as_str().unwrap();
        let index: u64 = mac[mac.len() - 2..].parse().unwrap();
        let metres = 20_000 * index / 8;
        let wanted = 2.0 * metres as f64 * 4.897 / 16.0;
        let found = onu["rtt_quanta"].as_f64().unwrap();
        assert!(
            (found - wanted).abs() <= 2.0,
            "{metres} m: {found} of {wanted}"
        );
    }
}

#[test]
fn a_burst_holds_frames_that_came_before_its_slot() {
    let mut queue = frame_queue::FrameQueue::new(10_000);
    for at in [10, 20, 30] {
        assert!(queue.push(&[0; 100], at, 0));
    }
    assert_eq!(queue.fitting(10_000, 9).0, 0);
    assert_eq!(queue.fitting(10_000, 20).0, 2);
    assert_eq!(queue.fitting(10_000, 30).0, 3);
    assert_eq!(queue.fitting(2 * 124, 30).0, 2);
    assert_eq!(queue.fitting(2 * 124 - 1, 30).0, 1);
}

#[test]
fn settings_have_limits_on_either_side() {
    let is_right = |config: Value| NfBench::new(&onu_mac::KIND, &config, &[]).is_ok();
    let onu = |key: &str, value: Value| is_right(json!({"mac": "02:00:00:00:00:01", key: value}));
    for (key, right, wrong) in [
        ("distance_m", json!(100_000), json!(100_001)),
        ("queue", json!("16KiB"), json!("16383B")),
        ("queue", json!("64MiB"), json!("67108865B")),
        ("laser_on", json!("4080ns"), json!("4081ns")),
        ("laser_off", json!("4080ns"), json!("4081ns")),
    ] {
        assert!(onu(key, right), "{key}");
        assert!(!onu(key, wrong), "{key}");
    }
    for mac in ["00:00:00:00:00:00", "x", "01:00:00:00:00:01"] {
        assert!(!is_right(json!({"mac": mac})), "{mac}");
    }
    let olt = |key: &str, value: Value| {
        NfBench::new(&olt_mac::KIND, &json!({"cycle": "100ms", key: value}), &[]).is_ok()
    };
    let mac = |number: u8| json!({"mac": format!("02:00:00:00:00:{number:02}")});
    for (key, right, wrong) in [
        (
            "mac",
            json!("02:00:00:00:00:01"),
            json!("03:00:00:00:00:01"),
        ),
        ("onus_max", json!(1), json!(0)),
        ("onus_max", json!(32), json!(33)),
        ("wait_for", json!(32), json!(33)),
        ("cycle", json!("1s"), json!("1000000001ns")),
        ("cycle_min", json!("1s"), json!("1000000001ns")),
        ("cycle_min", json!("0us"), json!("1000000001ns")),
        ("guard", json!("32ns"), json!("31ns")),
        ("guard", json!("100us"), json!("100001ns")),
        ("sync_time", json!("16ns"), json!("15ns")),
        ("sync_time", json!("100us"), json!("100001ns")),
        ("laser_max", json!("0ns"), json!("4081ns")),
        ("laser_max", json!("4080ns"), json!("4081ns")),
        ("discovery_period", json!("1ms"), json!("999999ns")),
        ("discovery_period", json!("60s"), json!("60000000001ns")),
        ("discovery_window", json!("10us"), json!("9999ns")),
        ("discovery_window", json!("1ms"), json!("1000001ns")),
        ("distance_m_max", json!(100_000), json!(100_001)),
        ("lead", json!("0us"), json!("1000000001ns")),
        ("lead", json!("1s"), json!("1000000001ns")),
        ("timeout", json!("10ms"), json!("9999999ns")),
        ("timeout", json!("10s"), json!("10000000001ns")),
        ("credit", json!("0us"), json!("1000001ns")),
        ("credit", json!("1ms"), json!("1000001ns")),
        ("onus", json!([mac(1), mac(2)]), json!([mac(1), mac(1)])),
        (
            "onus",
            json!([{"mac": "02:00:00:00:00:01", "guaranteed": "1Mbps"}]),
            json!([{"mac": "02:00:00:00:00:01", "guaranteed": "1kpps"}]),
        ),
    ] {
        assert!(olt(key, right.clone()), "{key} {right}");
        assert!(!olt(key, wrong.clone()), "{key} {wrong}");
    }
    for (places, right) in [(2, true), (1, false)] {
        let listed = json!({"onus_max": places, "onus": [mac(1), mac(2)]});
        assert_eq!(NfBench::new(&olt_mac::KIND, &listed, &[]).is_ok(), right);
    }
}

#[test]
fn an_onu_that_hears_nothing_is_no_longer_registered() {
    let mut pon = served(1);
    let onu = &mut pon.nodes[1];
    onu.now = onu.now.plus(900_000_000);
    onu.emit(8, false);
    assert_eq!(show(onu)["state"], "registered");
    onu.now = onu.now.plus(200_000_000);
    onu.emit(8, false);
    assert_eq!(show(onu)["state"], "unregistered");
}

#[test]
fn a_burst_ends_where_its_registration_ends() {
    let mut pon = served(1);
    for number in 0..260 {
        pon.nodes[1].process_from(1, &[&frame(1, number, 1000)]);
    }
    let mut steps = 0;
    while pon.report(1, "frames_up") == 0 {
        pon.run_us(7);
        steps += 1;
        assert!(steps < 10_000);
    }
    let sent = pon.report(1, "frames_up");
    assert!(sent < 260, "the burst goes on");
    let llid = show(&mut pon.nodes[1])["llid"].as_u64().unwrap() as u16;
    let message = Message::Register(Register {
        assigned_port: llid,
        flags: Register::DEREGISTER,
        ..Register::default()
    });
    let mut bytes = vec![0; MPCPDU_PACKET_LEN];
    let (dst, src) = (MacAddr([2, 0, 0, 0, 1, 1]), MacAddr([2, 0, 0, 0, 0, 0xfe]));
    write_mpcpdu(&mut bytes, (0, BROADCAST | MODE), dst, src, 0, message);
    verdict(&mut pon.nodes[1], PON_INPUT, &bytes);
    assert_eq!(show(&mut pon.nodes[1])["state"], "unregistered");
    let (more, _) = pon.nodes[1].emit(64, false);
    assert!(more.is_empty(), "{}", more.len());
}

#[test]
fn the_latest_of_all_packets_and_bursts_is_told() {
    let mut pon = served(1);
    let now = quanta_at(pon.nodes[0].now);
    let llid = show(&mut pon.nodes[1])["llid"].as_u64().unwrap() as u16;
    for quanta in [100_000, 50_000] {
        let packet = pon_frame((now - quanta) as u32, llid, &frame(1, 7, 100));
        verdict(&mut pon.nodes[0], PON_INPUT, &packet);
        assert_eq!(pon.report(0, "late_us_max"), 1_600);
    }
    // A turn that comes 1.5 ms after the one before is late for the slot that lay between.
    pon.run_us(1_500);
    pon.run_ms(2);
    let late = pon.report(1, "late_us_max");
    assert!((20..=1_500).contains(&late), "{late}");
}
