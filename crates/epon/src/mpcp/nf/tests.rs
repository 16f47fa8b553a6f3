//! `olt_mac` and `onu_mac` together, over links that take their time, on a clock of the test's.

use catena_engine::nf::{DropReason, Nanos, Verdict};
use catena_engine::nf_bench::{Emitted, NfBench};
use catena_port::random::Random;
use catena_wire::mpcp::{MPCPDU_LEN, Message};
use proptest::prelude::*;
use serde_json::json;

use super::pon_packet::{PonPacket, write_frame, write_mpcpdu};
use super::pon_phy::tests::Line;
use super::sides::{PON_INPUT, USER};
use super::stream_time::quanta_at;
use super::*;

const MS: u64 = 1_000_000;

/// A packet on a link.
struct Travelling {
    due: u64,
    order: u64,
    from: usize,
    packet: Emitted,
}

/// An OLT and its ONUs; node 0 is the OLT.
pub(super) struct Pon {
    pub(super) nodes: Vec<NfBench>,
    links: Vec<Travelling>,
    random: Random,
    latency_ns: u64,
    order: u64,
    now: u64,
    /// What left by the users' side, per node.
    pub(super) received: Vec<Vec<Vec<u8>>>,
    is_draining: bool,
    /// The next packet that an ONU sends is lost when this is reached.
    lose_every: u64,
    /// What lies between the MACs, if packets do not go as they are.
    pub(super) line: Option<Line>,
}

fn onu_config(index: usize) -> serde_json::Value {
    json!({
        "mac": format!("02:00:00:00:01:{index:02x}"),
        "distance_m": 20_000 * index / 8,
        "queue": "256KiB",
    })
}

impl Pon {
    pub(super) fn new(count: usize, latency_ns: u64) -> Self {
        let olt = json!({"discovery_period": "5ms", "onus_max": 8, "lead": "500us"});
        let mut nodes = vec![NfBench::new(&olt_mac::KIND, &olt, &["pon", "net"]).unwrap()];
        for index in 1..=count {
            let onu = NfBench::new(&onu_mac::KIND, &onu_config(index), &["pon", "user"]);
            nodes.push(onu.unwrap());
        }
        Self {
            received: vec![Vec::new(); nodes.len()],
            nodes,
            links: Vec::new(),
            random: Random::new(5),
            latency_ns,
            order: 0,
            // Where the 32-bit clock wraps soon.
            now: (1_u64 << 36) - 20 * MS,
            is_draining: false,
            lose_every: u64::MAX,
            line: None,
        }
    }

    pub(super) fn report(&self, node: usize, name: &str) -> u64 {
        self.nodes[node].counter(name)
    }

    /// Packets of a link keep their order, as those of a ring do.
    fn step(&mut self, step_ns: u64) {
        self.now += step_ns;
        for node in 0..self.nodes.len() {
            self.nodes[node].now = Nanos(self.now);
            let (emitted, _) = self.nodes[node].emit(64, self.is_draining);
            for packet in emitted {
                self.order += 1;
                if packet.output == USER {
                    self.received[node].push(packet.bytes);
                    continue;
                }
                if self.order.is_multiple_of(self.lose_every) {
                    continue;
                }
                let due = self.now + self.random.below(self.latency_ns + 1);
                let before = self.links.iter().filter(|other| other.from == node);
                let due = before.map(|other| other.due).max().unwrap_or(0).max(due);
                let order = self.order;
                self.links.push(Travelling {
                    due,
                    order,
                    from: node,
                    packet,
                });
            }
        }
        self.links.sort_by_key(|link| (link.due, link.order));
        let arrived = self.links.partition_point(|link| link.due <= self.now);
        for link in self.links.drain(..arrived).collect::<Vec<_>>() {
            let to = match link.from {
                0 => 1..self.nodes.len(),
                _ => 0..1,
            };
            let sent = vec![link.packet];
            let mut line = self.line.as_mut();
            let sent = match &mut line {
                Some(line) => line.send(link.from, sent),
                None => sent,
            };
            for node in to {
                let station = if node == 0 { link.from } else { node };
                let arriving = match &mut line {
                    Some(line) => line.arrive(node, station, &sent),
                    None => sent.clone(),
                };
                for packet in arriving {
                    self.nodes[node].process_from(PON_INPUT, &[&packet.bytes]);
                }
            }
        }
    }

    /// One step of so many microseconds.
    pub(super) fn run_us(&mut self, us: u64) {
        self.step(1_000 * us);
    }

    pub(super) fn run_ms(&mut self, ms: u64) {
        let end = self.now + ms * MS;
        while self.now < end {
            self.step(7_000);
        }
    }

    pub(super) fn registered(&mut self) -> u64 {
        self.report(0, "registered")
    }
}

/// A user's frame with a number.
pub(super) fn frame(user: u8, number: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![0; len];
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 9, 9, 2, 0, 0, 0, 8, user]);
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    frame
}

pub(super) fn numbers(frames: &[Vec<u8>]) -> Vec<u32> {
    let number = |frame: &Vec<u8>| u32::from_be_bytes([frame[14], frame[15], frame[16], frame[17]]);
    frames.iter().map(number).collect()
}

#[test]
fn frames_pass_in_granted_slots_only_however_links_delay_them() {
    for latency in [0, 100_000, 450_000] {
        let mut pon = Pon::new(4, latency);
        // Before registration, frames wait.
        for onu in 1..5 {
            pon.nodes[onu].process_from(1, &[&frame(onu as u8, 0, 100)]);
        }
        pon.run_ms(60);
        assert_eq!(pon.registered(), 4, "{latency}");
        for number in 1..400_u32 {
            for onu in 1..5 {
                let len = 60 + (number as usize * 37 * onu) % 1400;
                pon.nodes[onu].process_from(1, &[&frame(onu as u8, number, len)]);
            }
            pon.run_ms(1);
            pon.step(number as u64 * 13);
        }
        pon.run_ms(20);
        for user in 1..5 {
            let theirs: Vec<Vec<u8>> = pon.received[0]
                .iter()
                .filter(|frame| frame[11] == user)
                .cloned()
                .collect();
            assert_eq!(numbers(&theirs), (0..400).collect::<Vec<_>>(), "{latency}");
        }
        for counter in ["overlaps", "outside_slot", "malformed", "deregistrations"] {
            assert_eq!(pon.report(0, counter), 0, "{counter} {latency}");
        }
        assert!(pon.report(0, "reports") > 500);
    }
}

#[test]
fn frames_downstream_go_to_all_until_their_user_is_known() {
    let mut pon = Pon::new(3, 50_000);
    pon.run_ms(60);
    let to_user = |user: u8, number| {
        let mut frame = frame(9, number, 80);
        frame[..6].copy_from_slice(&[2, 0, 0, 0, 8, user]);
        frame
    };
    pon.nodes[0].process_from(1, &[&to_user(2, 1)]);
    pon.run_ms(2);
    assert_eq!(
        pon.received[1..].iter().map(Vec::len).collect::<Vec<_>>(),
        [1, 1, 1]
    );
    pon.nodes[2].process_from(1, &[&frame(2, 7, 60)]);
    pon.run_ms(5);
    pon.nodes[0].process_from(1, &[&to_user(2, 2)]);
    pon.run_ms(2);
    assert_eq!(
        pon.received[1..].iter().map(Vec::len).collect::<Vec<_>>(),
        [1, 2, 1]
    );
}

#[test]
fn lost_control_frames_are_made_good() {
    let mut pon = Pon::new(4, 50_000);
    pon.run_ms(60);
    pon.lose_every = 23;
    pon.run_ms(200);
    assert_eq!(pon.registered(), 4);
    assert!(pon.report(0, "reports_missed") > 10);
    assert_eq!(pon.report(0, "overlaps"), 0);
}

#[test]
fn an_olt_that_was_replaced_finds_its_onus_again() {
    let mut pon = Pon::new(3, 50_000);
    pon.run_ms(60);
    let olt = json!({"discovery_period": "5ms", "onus_max": 8, "lead": "500us"});
    pon.nodes[0] = NfBench::new(&olt_mac::KIND, &olt, &["pon", "net"]).unwrap();
    pon.run_ms(1_200);
    assert_eq!(pon.registered(), 3);
    assert_eq!(pon.report(0, "overlaps"), 0);
}

#[test]
fn onus_register_where_gates_take_longer_than_from_window_to_window() {
    let mut pon = Pon::new(2, 50_000);
    let olt = json!({"discovery_period": "5ms", "onus_max": 8, "lead": "100ms"});
    pon.nodes[0] = NfBench::new(&olt_mac::KIND, &olt, &["pon", "net"]).unwrap();
    pon.run_ms(700);
    assert_eq!(pon.registered(), 2);
    assert_eq!(pon.report(0, "outside_slot"), 0);
}

#[test]
fn a_silent_onu_is_given_up_and_found_again() {
    let mut pon = Pon::new(2, 50_000);
    pon.run_ms(60);
    pon.nodes[2] = NfBench::new(&onu_mac::KIND, &onu_config(2), &["pon", "user"]).unwrap();
    pon.run_ms(100);
    assert_eq!(pon.registered(), 2);
    assert_eq!(pon.report(0, "registrations"), 3);
    assert_eq!(pon.report(0, "deregistrations"), 1);
}

#[test]
fn at_the_end_of_a_chain_all_that_waits_goes_out_and_grants_end() {
    let mut pon = Pon::new(2, 50_000);
    pon.run_ms(60);
    for number in 0..100 {
        pon.nodes[1].process_from(1, &[&frame(1, number, 1000)]);
    }
    pon.is_draining = true;
    let holds = |pon: &mut Pon| pon.nodes.iter_mut().any(|node| node.nf().holds_packets());
    assert!(holds(&mut pon));
    let mut waited = 0;
    while holds(&mut pon) {
        pon.run_ms(1);
        waited += 1;
        let states = pon
            .nodes
            .iter_mut()
            .map(|node| node.nf().control(&json!("show")));
        assert!(waited < 200, "{:?}", states.collect::<Vec<_>>());
    }
    assert_eq!(numbers(&pon.received[0]), (0..100).collect::<Vec<_>>());
    let grants = pon.report(0, "grants");
    pon.run_ms(20);
    assert_eq!(pon.report(0, "grants"), grants);
    assert!(pon.links.is_empty());
}

#[test]
fn at_the_end_of_a_chain_onus_are_heard_that_a_long_lead_keeps_from_registering() {
    let mut pon = Pon::new(2, 50_000);
    let olt = json!({"discovery_period": "5ms", "onus_max": 8, "lead": "200ms"});
    pon.nodes[0] = NfBench::new(&olt_mac::KIND, &olt, &["pon", "net"]).unwrap();
    for number in 0..100 {
        pon.nodes[1].process_from(1, &[&frame(1, number, 1000)]);
    }
    pon.is_draining = true;
    let mut waited_ms = 0;
    loop {
        pon.run_ms(1);
        waited_ms += 1;
        if !pon.nodes.iter_mut().any(|node| node.nf().holds_packets()) {
            break;
        }
        assert!(waited_ms < 5_000, "{}", pon.received[0].len());
    }
    assert_eq!(numbers(&pon.received[0]), (0..100).collect::<Vec<_>>());
}

#[test]
fn a_full_queue_drops_and_counts() {
    let mut onu = NfBench::new(&onu_mac::KIND, &onu_config(1), &["pon", "user"]).unwrap();
    let frames: Vec<Vec<u8>> = (0..300).map(|number| frame(1, number, 1000)).collect();
    let mut dropped = 0;
    for frame in &frames {
        let verdict = onu.process_from(1, &[frame]).packets[0].verdict;
        dropped += u64::from(verdict == Verdict::Drop(DropReason::NoBuffer));
    }
    assert_eq!(dropped, 300 - (256 << 10) / 1000);
    let long = onu.process_from(1, &[&[0; 3000]]).packets[0].verdict;
    assert_eq!(long, Verdict::Drop(DropReason::TooLarge));
}

#[test]
fn wrong_settings_are_refused_with_the_field() {
    let olt = |config: serde_json::Value| {
        let error = NfBench::new(&olt_mac::KIND, &config, &[]).unwrap_err();
        error[0].to_string()
    };
    let onu = |config: serde_json::Value| {
        let error = NfBench::new(&onu_mac::KIND, &config, &[]).unwrap_err();
        error[0].to_string()
    };
    assert!(olt(json!({"onus_max": 33})).contains("onus_max: 0 ONUs"));
    assert!(olt(json!({"cycle": "10s"})).contains("cycle: "));
    assert!(olt(json!({"cycle": "100us"})).contains("make it longer"));
    assert!(olt(json!({"onus": [{"mac": "x"}]})).contains("onus[0].mac"));
    assert!(olt(json!({"onus_max": 2, "wait_for": 3})).contains("wait_for"));
    let twice = json!({"onus": [{"mac": "02:00:00:00:00:01"}, {"mac": "02:00:00:00:00:01"}]});
    assert!(olt(twice).contains("listed twice"));
    let much = json!({"onus": [{"mac": "02:00:00:00:00:01", "guaranteed": "10Gbps"}]});
    assert!(olt(much).contains("guarantee less"));
    assert!(onu(json!({})).contains("mac"));
    assert!(onu(json!({"mac": "01:00:00:00:00:01"})).contains("address of a station"));
    let far = json!({"mac": "02:00:00:00:00:01", "distance_m": 200_000});
    assert!(onu(far).contains("distance_m"));
    let small = json!({"mac": "02:00:00:00:00:01", "queue": "1KiB"});
    assert!(onu(small).contains("queue"));
}

#[test]
fn control_shows_who_is_there() {
    let mut pon = Pon::new(2, 1_000);
    pon.run_ms(60);
    let shown = pon.nodes[0].nf().control(&json!("show")).unwrap();
    assert_eq!(shown["onus"].as_array().unwrap().len(), 2);
    assert_eq!(shown["onus"][0]["registered"], true);
    let shown = pon.nodes[1].nf().control(&json!("show")).unwrap();
    assert_eq!(shown["state"], "registered");
    assert!(pon.nodes[1].nf().control(&json!("reset")).is_err());
}

fn packets() -> impl Strategy<Value = (Vec<u8>, u32, bool)> {
    let control = (
        any::<u16>(),
        prop::collection::vec(any::<u8>(), MPCPDU_LEN),
        0_u8..8,
    )
        .prop_map(|(llid, mut body, opcode)| {
            body[..2].copy_from_slice(&[0, opcode]);
            let mut frame = vec![1, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 1, 1, 0x88, 8];
            frame.extend(body);
            let mut bytes = vec![0; frame.len() + pon_packet::PON_HEADER_LEN];
            write_frame(&mut bytes, (0, llid % 40), (&frame, &[]));
            bytes
        });
    let noise = prop::collection::vec(any::<u8>(), 1..200);
    (prop_oneof![control, noise], any::<u32>(), any::<bool>())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 32,
        failure_persistence: None,
        ..Default::default()
    })]

    /// Goal: garbage from the PON costs neither panics nor buffers nor the other ONUs' slots.
    #[test]
    fn garbage_is_counted_and_changes_nothing_for_others(
        garbage in prop::collection::vec(packets(), 1..200),
    ) {
        let mut pon = Pon::new(2, 20_000);
        pon.run_ms(60);
        for (mut bytes, instant, to_olt) in garbage {
            let near = quanta_at(Nanos(pon.now)) as u32;
            let instant = if instant & 1 == 0 { near } else { instant };
            if let Some(place) = bytes.first_chunk_mut() {
                *place = instant.to_le_bytes();
            }
            let node = usize::from(!to_olt);
            pon.nodes[node].process_from(PON_INPUT, &[&bytes]);
            pon.step(20_000);
        }
        pon.run_ms(60);
        prop_assert!(pon.registered() >= 1);
        for node in &pon.nodes {
            prop_assert_eq!(node.buffers_in_use(), 0);
        }
    }
}

#[test]
fn a_packet_is_read_as_it_was_written() {
    let message = Message::RegisterAck(catena_wire::mpcp::RegisterAck::default());
    let mut bytes = vec![0; pon_packet::MPCPDU_PACKET_LEN];
    let (dst, src) = (
        catena_wire::mpcp::DST,
        catena_wire::ethernet::MacAddr([2; 6]),
    );
    write_mpcpdu(&mut bytes, (9, 5), dst, src, 77, message);
    let packet = PonPacket::parse(&bytes).unwrap();
    assert_eq!((packet.instant, packet.llid), (9, 5));
    assert_eq!((packet.dst, packet.src), (dst, src));
    assert_eq!(
        packet.mpcpdu.map(|pdu| (pdu.timestamp, pdu.message)),
        Some((77, message))
    );
    for len in 0..bytes.len() {
        assert!(PonPacket::parse(&bytes[..len]).is_err());
    }
    bytes[10] ^= 1;
    assert_eq!(
        PonPacket::parse(&bytes),
        Err(pon_packet::Malformed::Preamble)
    );
}
