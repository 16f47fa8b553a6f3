// SPDX-License-Identifier: Apache-2.0
//! Goal: what `ipfix` tells of flows is what has passed, and tshark reads it without a complaint.
//! Method: frames through the NF on its bench; its messages are read by a decoder that knows no
//! more than RFC 7011 section 3 and the templates that came before.

#[path = "ipfix/collector.rs"]
mod collector;
#[path = "../../../fuzz/src/ipfix.rs"]
#[allow(
    unreachable_pub,
    dead_code,
    reason = "public for the fuzz targets, private to this test"
)]
mod entries;
#[path = "ipfix/frames.rs"]
mod frames;
mod random;

use std::path::Path;
use std::process::Command;

use catena_engine::nf::{Nanos, Verdict};
use catena_engine::nf_bench::NfBench;
use catena_flow::ipfix::KIND;
use serde_json::{Value, json};

use collector::{Collector, Record};
use frames::{gtpu, tcp, udp};
use random::Random;

/// A second, in nanoseconds.
const S: u64 = 1_000_000_000;

fn bench(more: Value) -> NfBench {
    let mut config = json!({
        "collector": {"address": "192.0.2.9", "mac": "02:00:00:00:00:09"},
        "exporter": {"address": "192.0.2.1", "port": 5000, "mac": "02:00:00:00:00:01"},
        "simulated_epoch": 1_700_000_000, "domain": 7,
    });
    let fields = config.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    NfBench::new(&KIND, &config, &["out", "export"]).unwrap()
}

/// Passes frames; they leave as they came.
fn pass(bench: &mut NfBench, frames: &[&[u8]]) {
    for (packet, frame) in bench.process(frames).packets.iter().zip(frames) {
        assert_eq!(
            (packet.verdict, &packet.bytes[..]),
            (Verdict::Output(0), *frame)
        );
    }
}

/// Later by so much, with all that is told until then.
fn later(bench: &mut NfBench, collector: &mut Collector, ns: u64) {
    bench.now = Nanos(bench.now.0 + ns);
    told(bench, collector, false);
}

fn told(bench: &mut NfBench, collector: &mut Collector, is_draining: bool) {
    for _ in 0..400 {
        let (sent, _) = bench.emit(1000, is_draining);
        for frame in &sent {
            assert_eq!(frame.output, 1);
            collector.take(&frame.bytes);
        }
    }
}

/// All that is left is told, as when the chain ends.
fn drained(bench: &mut NfBench, collector: &mut Collector) {
    told(bench, collector, true);
    assert!(!bench.nf().holds_packets());
    assert_eq!((bench.counter("flows"), bench.buffers_in_use()), (0, 0));
}

fn sums(records: &[Record]) -> (u64, u64) {
    let sum = |value: fn(&Record) -> u64| records.iter().map(value).sum();
    (sum(|one| one.packets), sum(|one| one.octets))
}

#[test]
fn a_flow_is_told_when_it_is_idle_with_its_key_times_and_sums() {
    let mut bench = bench(json!({}));
    let mut collector = Collector::default();
    later(&mut bench, &mut collector, 0);
    assert_eq!(collector.templates.len(), 3, "told first");
    let frame = udp("10.0.0.1", "203.0.113.5", (4000, 53), 100);
    pass(&mut bench, &[&frame, &frame]);
    later(&mut bench, &mut collector, 2 * S);
    pass(&mut bench, &[&frame]);
    later(&mut bench, &mut collector, 14 * S);
    assert_eq!(collector.records.len(), 0);
    later(&mut bench, &mut collector, 2 * S);
    later(&mut bench, &mut collector, S);
    let [record] = &collector.records[..] else {
        panic!("{:?}", collector.records);
    };
    assert_eq!(
        (&record.src[..], &record.dst[..]),
        ("10.0.0.1", "203.0.113.5")
    );
    assert_eq!(
        (record.ports, record.protocol, record.reason),
        ((4000, 53), 17, 1)
    );
    assert_eq!((record.packets, record.octets), (3, 3 * 128));
    let epoch_ms = 1_700_000_000_000;
    assert_eq!(
        (record.start_ms, record.end_ms),
        (epoch_ms, epoch_ms + 2000)
    );
    drained(&mut bench, &mut collector);
}

#[test]
fn a_flow_that_goes_on_is_told_every_minute_and_a_closed_connection_at_once() {
    let mut bench = bench(json!({}));
    let mut collector = Collector::default();
    let frame = udp("10.0.0.1", "203.0.113.5", (4000, 53), 1);
    for _ in 0..130 {
        pass(&mut bench, &[&frame]);
        later(&mut bench, &mut collector, S);
    }
    let reasons: Vec<u8> = collector.records.iter().map(|one| one.reason).collect();
    assert_eq!(reasons, [2, 2]);
    collector.records.clear();
    pass(&mut bench, &[&tcp("10.0.0.1", "10.0.0.2", (1, 2), 0x02)]);
    pass(&mut bench, &[&tcp("10.0.0.1", "10.0.0.2", (1, 2), 0x11)]);
    later(&mut bench, &mut collector, 2 * S);
    later(&mut bench, &mut collector, 2 * S);
    let [closed] = &collector.records[..] else {
        panic!("{:?}", collector.records);
    };
    assert_eq!(
        (closed.reason, closed.tcp_flags, closed.packets),
        (3, 0x13, 2)
    );
    collector.records.clear();
    drained(&mut bench, &mut collector);
    assert_eq!(collector.records[0].reason, 4);
}

/// Any packets of few and many flows, at any times, through tables that are too small, too.
#[test]
fn records_sum_up_to_all_that_has_passed() {
    for seed in 1..=60 {
        let mut random = Random(seed);
        let capacity = [5, 40, 4000][random.below(3) as usize];
        let mut bench = bench(json!({"flows": capacity, "message_bytes": 512}));
        let mut collector = Collector::default();
        later(&mut bench, &mut collector, 0);
        let mut passed = (0, 0);
        for _ in 0..300 {
            let port = random.below(60) as u16;
            let len = random.below(900) as usize;
            let frame = match random.below(3) {
                0 => udp("10.0.0.1", "203.0.113.5", (port, 53), len),
                1 => tcp("10.0.0.1", "203.0.113.5", (port, 80), 0x10),
                _ => udp("2001:db8::1", "2001:db8::2", (port, 53), len),
            };
            // Who was used at this instant does not give way.
            bench.now = Nanos(bench.now.0 + 1000);
            pass(&mut bench, &[&frame]);
            passed = (passed.0 + 1, passed.1 + frame.len() as u64 - 14);
            if random.below(3) == 0 {
                let ns = random.below(9 * S);
                later(&mut bench, &mut collector, ns);
            }
        }
        drained(&mut bench, &mut collector);
        let metered = ["packets_metered", "octets_metered"].map(|name| bench.counter(name));
        assert_eq!(
            sums(&collector.records),
            (metered[0], metered[1]),
            "seed {seed}"
        );
        // Of a table that is too small a place may be full of which nobody can give way.
        let unmetered = bench.counter("unmetered");
        assert_eq!(metered[0] + unmetered, passed.0, "seed {seed}");
        if capacity == 4000 {
            assert_eq!((metered[0], metered[1]), passed, "seed {seed}");
        }
        assert_eq!(bench.counter("records_lost"), 0);
        assert_eq!(bench.counter("records"), collector.records.len() as u64);
        let gave_way = collector.records.iter().any(|one| one.reason == 5);
        assert!(gave_way || capacity > 5, "seed {seed}");
    }
}

#[test]
fn one_packet_of_so_many_is_looked_at_and_the_collector_is_told() {
    let mut bench = bench(json!({"sample": 4}));
    let mut collector = Collector::default();
    let frame = udp("10.0.0.1", "203.0.113.5", (4000, 53), 1);
    for _ in 0..10 {
        pass(&mut bench, &[&frame[..]; 10]);
    }
    drained(&mut bench, &mut collector);
    assert_eq!(sums(&collector.records).0, 25);
    // Domain, algorithm, interval, space.
    assert_eq!(collector.selections, [(7, 1, 1, 3)]);
}

#[test]
fn flows_within_gtp_u_are_told_where_they_are_asked_for() {
    let user = udp("10.45.0.2", "203.0.113.5", (4000, 53), 100);
    let frame = gtpu("10.3.0.2", "10.3.0.1", &user[14..]);
    for (inner, key, octets) in [
        (true, ("10.45.0.2", (4000, 53)), 128),
        (false, ("10.3.0.2", (2152, 2152)), 128 + 36),
    ] {
        let mut bench = bench(json!({"inner": inner}));
        let mut collector = Collector::default();
        pass(&mut bench, &[&frame]);
        drained(&mut bench, &mut collector);
        let record = &collector.records[0];
        assert_eq!((&record.src[..], record.ports), key);
        assert_eq!(record.octets, octets);
    }
}

#[test]
fn templates_are_told_again_and_what_is_no_ip_passes() {
    let mut bench = bench(json!({"template_refresh": "60s"}));
    let mut collector = Collector::default();
    pass(&mut bench, &[&[2; 60], &[3; 14]]);
    assert_eq!(bench.counter("unmetered"), 2);
    for _ in 0..5 {
        later(&mut bench, &mut collector, 60 * S);
    }
    assert_eq!(collector.times_told, 5);
    drained(&mut bench, &mut collector);
}

/// While nothing leaves, no flow ends by its timeouts; what gives way is lost, and counted.
#[test]
fn without_room_messages_wait_and_losses_are_counted() {
    let mut bench = bench(json!({"flows": 50, "message_bytes": 512}));
    let mut collector = Collector::default();
    for port in 0..2000 {
        pass(
            &mut bench,
            &[&udp("10.0.0.1", "203.0.113.5", (port, 53), 1)],
        );
        bench.now = Nanos(bench.now.0 + S);
        bench.emit(0, false);
    }
    let lost = bench.counter("records_lost");
    assert!(lost > 100, "{lost}");
    let (_, next) = bench.emit(0, false);
    assert!(next > Some(bench.now), "it does not ask again and again");
    drained(&mut bench, &mut collector);
    assert_eq!(sums(&collector.records).0 + lost, 2000);
}

#[test]
fn flows_outlive_the_nf() {
    let mut bench = bench(json!({}));
    let mut collector = Collector::default();
    let frame = udp("10.0.0.1", "203.0.113.5", (4000, 53), 1);
    pass(&mut bench, &[&frame]);
    let config = json!({
        "collector": {"address": "192.0.2.9", "mac": "02:00:00:00:00:09"},
        "exporter": {"address": "192.0.2.1", "mac": "02:00:00:00:00:01"},
        "simulated_epoch": 1_700_000_000, "idle_timeout": "9s",
    });
    bench.replace(&KIND, &config).unwrap();
    pass(&mut bench, &[&frame]);
    drained(&mut bench, &mut collector);
    assert_eq!(
        (collector.records.len(), sums(&collector.records).0),
        (1, 2)
    );
}

#[test]
fn wrong_settings_are_refused_with_the_field() {
    for (more, path) in [
        (json!({"sample": 0}), "sample"),
        (json!({"flows": 0}), "flows"),
        (json!({"message_bytes": 100}), "message_bytes"),
        (json!({"idle_timeout": "0s"}), "idle_timeout"),
        (
            json!({"collector": {"address": "192.0.2.9", "mac": "2:0:0:0:0:9"}}),
            "collector.mac",
        ),
        (
            json!({"collector": {"address": "192.0.2.9", "mac": "+2:00:00:00:00:09"}}),
            "collector.mac",
        ),
        (
            json!({"exporter": {"address": "x", "mac": "02:00:00:00:00:01"}}),
            "exporter.address",
        ),
    ] {
        let mut config = json!({
            "collector": {"address": "192.0.2.9", "mac": "02:00:00:00:00:09"},
            "exporter": {"address": "192.0.2.1", "mac": "02:00:00:00:00:01"},
        });
        let fields = config.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        let errors = NfBench::new(&KIND, &config, &[]).unwrap_err();
        assert_eq!(errors[0].path, path, "{errors:?}");
    }
}

#[test]
fn tshark_reads_the_same_and_has_nothing_to_complain_of() {
    if Command::new("tshark").arg("--version").output().is_err() {
        println!("SKIP tshark_reads_the_same_and_has_nothing_to_complain_of: no tshark");
        return;
    }
    let mut bench = bench(json!({"sample": 1}));
    let mut collector = Collector::default();
    for port in 1..100 {
        pass(
            &mut bench,
            &[&udp("10.0.0.1", "203.0.113.5", (port, 53), port.into())],
        );
        pass(
            &mut bench,
            &[&udp("2001:db8::1", "2001:db8::2", (port, 53), 9)],
        );
        pass(
            &mut bench,
            &[&tcp("10.0.0.1", "10.0.0.2", (port, 80), 0x02)],
        );
    }
    drained(&mut bench, &mut collector);
    let capture = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ipfix.pcap");
    std::fs::write(&capture, frames::capture(&collector.frames)).unwrap();
    let tshark = |more: &[&str]| {
        let mut tshark = Command::new("tshark");
        tshark.args([
            "-d",
            "udp.port==4739,cflow",
            "-o",
            "udp.check_checksum:TRUE",
            "-r",
        ]);
        let output = tshark.arg(&capture).args(more).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        String::from_utf8(output.stdout).unwrap()
    };
    let wrong = "_ws.malformed || _ws.expert.severity >= 0x600000 || udp.checksum.status == 0";
    assert_eq!(tshark(&["-Y", wrong, "-V"]), "");
    let field = |name: &str| {
        let text = tshark(&["-Y", "cflow.version == 10", "-T", "fields", "-e", name]);
        let values = text.split(['\n', ',']).filter(|one| !one.is_empty());
        values.map(|one| one.parse::<u64>().unwrap()).sum::<u64>()
    };
    assert_eq!(
        (field("cflow.packets"), field("cflow.octets")),
        sums(&collector.records)
    );
    assert_eq!(sums(&collector.records).0, 297);
}

/// Fuzz smoke: the entry function of the fuzz target holds on generated bytes.
#[test]
fn the_fuzz_target_holds_on_generated_bytes() {
    let mut random = Random(0x0ca7_e4a0);
    for _ in 0..300 {
        let len = 1 + random.below(2000) as usize;
        let mut input = random.bytes(len);
        input[0] &= 0x43;
        let [(name, entry)] = entries::ALL;
        let held = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| entry(&input)));
        assert!(held.is_ok(), "{name} fails on {input:02x?}");
    }
}
