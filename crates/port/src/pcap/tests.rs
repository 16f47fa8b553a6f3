//! Captures in and out, with damage, full disks and too few buffers.

use std::path::Path;

use catena_engine::nf::{DropReason, Nanos};
use catena_engine::port::{Opening, RxState};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::capture::{CaptureFormat, CaptureReader, CaptureWriter};
use crate::port_bench::PortBench;
use crate::small_disk::SmallDisk;
use crate::wall_clock::WallClock;

fn frame(index: usize, len: usize) -> Vec<u8> {
    (0..len).map(|byte| (byte + index) as u8).collect()
}

/// Writes `records` (time, length) to `name` in a fresh folder.
fn file(name: &str, records: &[(u64, usize)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    let mut writer = CaptureWriter::create(&path, CaptureFormat::from_path(&path)).unwrap();
    for (index, (time, len)) in records.iter().enumerate() {
        writer.write(*time, &frame(index, *len), 0).unwrap();
    }
    writer.finish().unwrap();
    dir
}

fn open(dir: &Path, config: &Value) -> PortBench {
    PortBench::open(&KIND, config, dir).unwrap()
}

fn times(packets: &[(Nanos, Vec<u8>)]) -> Vec<u64> {
    packets.iter().map(|(time, _)| time.0).collect()
}

const START: u64 = 1_700_000_000_000_000_000;

#[test]
fn a_file_is_received_whole_and_in_order() {
    let records: Vec<_> = (0..300)
        .map(|index| (START + index, 60 + index as usize * 4))
        .collect();
    for name in ["a.pcap", "a.pcapng"] {
        let dir = file(name, &records);
        let mut bench = open(dir.path(), &json!({ "read": name }));
        let (packets, state) = bench.rx_all(64);
        assert_eq!(state, RxState::Finished);
        assert_eq!(packets.len(), 300);
        for (index, (_, bytes)) in packets.iter().enumerate() {
            assert_eq!(*bytes, frame(index, 60 + index * 4));
        }
        assert_eq!(bench.rx(64).state, RxState::Finished);
        assert_eq!(bench.close(), Ok(()));
    }
}

#[test]
fn recorded_gaps_are_kept_over_laps_and_backward_times_are_due_at_once() {
    let records = [
        (START, 60),
        (START + 3000, 61),
        (START + 1000, 62),
        (START + 9000, 63),
    ];
    let dir = file("a.pcap", &records);
    let config = json!({ "read": "a.pcap", "pace": "recorded", "loop": 2 });
    let mut bench = open(dir.path(), &config);
    bench.now = Nanos(500);
    let (packets, state) = bench.rx_all(64);
    assert_eq!(state, RxState::Finished);
    // The mean gap, 3000, separates the laps.
    let lap = [500, 3500, 3500, 9500];
    let expected: Vec<_> = lap
        .into_iter()
        .chain(lap.map(|time| time + 12_000))
        .collect();
    assert_eq!(times(&packets), expected);
    let lens: Vec<_> = packets.iter().map(|(_, bytes)| bytes.len()).collect();
    assert_eq!(lens, [60, 61, 62, 63, 60, 61, 62, 63]);
    assert_eq!(bench.counter("laps"), 2);
}

#[test]
fn a_rate_replaces_the_recorded_times() {
    let dir = file("a.pcap", &[(START, 60); 5]);
    for pace in ["1Mpps", "480Mbps"] {
        let mut bench = open(dir.path(), &json!({ "read": "a.pcap", "pace": pace }));
        let (packets, _) = bench.rx_all(64);
        assert_eq!(times(&packets), [0, 1000, 2000, 3000, 4000], "{pace}");
    }
}

#[test]
fn a_limit_ends_an_endless_loop_and_an_empty_file_ends_by_itself() {
    let dir = file("a.pcap", &[(START, 60), (START, 61)]);
    let config = json!({ "read": "a.pcap", "loop": "forever", "limit": 7 });
    let (packets, state) = open(dir.path(), &config).rx_all(3);
    assert_eq!((packets.len(), state), (7, RxState::Finished));
    let dir = file("b.pcap", &[]);
    let config = json!({ "read": "b.pcap", "loop": "forever" });
    let (packets, state) = open(dir.path(), &config).rx_all(3);
    assert_eq!((packets.len(), state), (0, RxState::Finished));
}

/// A lap that gives nothing is the last: the next would give nothing either, at once, for ever.
#[test]
fn records_without_bytes_are_counted_and_a_lap_of_them_is_the_last() {
    let dir = file("a.pcap", &[(START, 0), (START, 60), (START, 0)]);
    let config = json!({ "read": "a.pcap", "loop": 3 });
    let mut bench = open(dir.path(), &config);
    let (packets, state) = bench.rx_all(8);
    assert_eq!((packets.len(), state), (3, RxState::Finished));
    assert_eq!((bench.counter("empty"), bench.counter("laps")), (6, 3));
    let dir = file("b.pcap", &[(START, 0); 5000]);
    let config = json!({ "read": "b.pcap", "loop": "forever" });
    let mut bench = open(dir.path(), &config);
    assert_eq!(bench.rx(8).state, RxState::More, "a turn has its end");
    let (packets, state) = bench.rx_all(8);
    assert_eq!((packets.len(), state), (0, RxState::Finished));
    assert_eq!((bench.counter("empty"), bench.counter("laps")), (5000, 1));
}

#[test]
fn nothing_is_lost_when_buffers_run_out() {
    let records: Vec<_> = (0..900).map(|index| (START, 60 + index)).collect();
    let dir = file("a.pcap", &records);
    let mut bench = open(dir.path(), &json!({ "read": "a.pcap" }));
    bench.exhaust(60);
    bench.exhaust(1800);
    for _ in 0..10 {
        let received = bench.rx(64);
        assert_eq!((received.packets.len(), received.state), (0, RxState::More));
    }
    let mut packets = Vec::new();
    while bench.buffers_in_use() > 0 {
        bench.relieve(3);
        packets.extend(bench.rx(2).packets);
    }
    packets.extend(bench.rx_all(64).0.into_iter().map(|(_, bytes)| bytes));
    assert_eq!(packets.len(), 900);
    for (index, bytes) in packets.iter().enumerate() {
        assert_eq!(*bytes, frame(index, 60 + index));
    }
    assert_eq!(bench.drops_total(), 0);
}

#[test]
fn a_record_that_no_pool_holds_is_counted_and_the_rest_is_received() {
    let dir = file("a.pcap", &[(START, 60), (START, 5000), (START, 61)]);
    let config: Config = serde_json::from_value(json!({ "read": "a.pcap" })).unwrap();
    let reading = Reading::open(&config, &dir.path().join("a.pcap")).unwrap();
    let mut bench = PortBench::with_buffers(Box::new(reading), &[(11, 8)]);
    let (packets, state) = bench.rx_all(64);
    assert_eq!((packets.len(), state), (2, RxState::Finished));
    assert_eq!(
        (bench.drops(DropReason::TooLarge), bench.drops_total()),
        (1, 1)
    );
}

#[test]
fn everything_before_the_damage_is_received_then_the_port_fails() {
    let dir = file("a.pcap", &[(START, 60); 20]);
    let path = dir.path().join("a.pcap");
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    let mut bench = open(dir.path(), &json!({ "read": "a.pcap", "loop": 3 }));
    let (packets, state) = bench.rx_all(64);
    assert_eq!((packets.len(), state), (19, RxState::Failed));
    assert_eq!(bench.rx(64).state, RxState::Failed);
    let error = bench.close().unwrap_err().to_string();
    assert!(
        error.contains("record 20") && error.contains("cut short"),
        "{error}"
    );
}

#[test]
fn a_missing_or_foreign_file_is_refused_at_open_and_not_at_check() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("text"), "no packets here").unwrap();
    for (name, reason) in [("none.pcap", "cannot be opened"), ("text", "not a capture")] {
        let config = json!({ "read": name });
        assert!((KIND.check)(&config).is_ok());
        let opened = (KIND.open)(&config, &Opening::alone(dir.path()));
        let error = opened.err().unwrap().to_string();
        assert!(error.contains(name) && error.contains(reason), "{error}");
    }
    let config = json!({ "write": "no/such/folder.pcap" });
    let opened = (KIND.open)(&config, &Opening::alone(dir.path()));
    let error = opened.err().unwrap().to_string();
    assert!(error.contains("cannot be created"), "{error}");
}

#[test]
fn written_packets_carry_the_wall_clock_time_and_are_cut_to_the_snaplen() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a.pcap", "a.pcapng"] {
        let config = json!({ "write": name, "snaplen": 100 });
        let mut bench = open(dir.path(), &config);
        for step in 0..3 {
            bench.now = Nanos(1_000_000_000 * step);
            assert_eq!(bench.tx(&[frame(0, 60), frame(1, 1500)]), 2);
        }
        assert!(bench.counter("in_file") >= 4, "flushed every second");
        assert_eq!(bench.close(), Ok(()));
        assert_eq!(bench.counter("in_file"), 6);
        let mut reader = CaptureReader::open(dir.path().join(name)).unwrap();
        let mut records = Vec::new();
        while let Some(record) = reader.next().unwrap() {
            records.push((record.timestamp_ns, record.data.len(), record.original_len));
        }
        assert_eq!(records.len(), 6);
        assert_eq!(records[0].1, 60);
        assert_eq!((records[1].1, records[1].2), (100, 1500));
        assert_eq!(records[4].0 - records[0].0, 2_000_000_000);
        assert!(records[0].0 > START);
    }
}

#[test]
fn a_file_that_was_cut_off_is_whole_in_the_end_also_if_no_packet_came() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a.pcap", "a.pcapng"] {
        let (config, path) = (json!({ "write": name }), dir.path().join(name));
        let mut old = open(dir.path(), &config);
        old.tx(&[frame(0, 60), frame(1, 60), frame(2, 60)]);
        old.close().unwrap();
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        let opening = Opening {
            goes_on: &[name.to_owned()],
            ..Opening::alone(dir.path())
        };
        let mut new = PortBench::new((KIND.open)(&config, &opening).unwrap());
        assert_eq!(new.close(), Ok(()));
        assert_eq!(new.counter("in_file"), 0, "its own");
        let mut reader = CaptureReader::open(&path).unwrap();
        while reader.next().unwrap().is_some() {}
    }
}

/// A file that another port of the chain reads or writes is neither cut off nor gone on with.
#[test]
fn a_file_of_another_port_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcap");
    let mut other = open(dir.path(), &json!({ "write": "a.pcap" }));
    other.tx(&[frame(0, 60)]);
    other.close().unwrap();
    let before = std::fs::read(&path).unwrap();
    std::os::unix::fs::symlink("a.pcap", dir.path().join("link.pcap")).unwrap();
    let taken = [catena_engine::chain::files::id(&path).unwrap()];
    for goes_on in [vec![], vec!["link.pcap".to_owned()]] {
        let opening = Opening {
            goes_on: &goes_on,
            taken: &taken,
            ..Opening::alone(dir.path())
        };
        let opened = (KIND.open)(&json!({ "write": "link.pcap" }), &opening);
        let Err(error) = opened else {
            panic!("it was opened, going on in {goes_on:?}");
        };
        assert!(error.0.contains("another port of the chain"), "{error}");
        assert!(error.0.contains("link.pcap"), "{error}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn format_follows_the_extension_unless_it_is_named() {
    let dir = tempfile::tempdir().unwrap();
    for (config, magic) in [
        (json!({ "write": "x.pcap" }), [0x4d, 0x3c]),
        (json!({ "write": "x.pcapng" }), [0x0a, 0x0d]),
        (
            json!({ "write": "x.pcap", "format": "pcapng" }),
            [0x0a, 0x0d],
        ),
    ] {
        open(dir.path(), &config).close().unwrap();
        let bytes = std::fs::read(dir.path().join(config["write"].as_str().unwrap())).unwrap();
        assert_eq!(bytes[..2], magic, "{config}");
    }
}

#[test]
fn a_full_disk_refuses_packets_and_is_told_at_the_end() {
    let disk = SmallDisk::new(100_000);
    let writer = CaptureWriter::start(
        "small".into(),
        Box::new(disk.clone()),
        CaptureFormat::Pcap,
        "",
    );
    let writing = Writing::new(writer.unwrap(), usize::MAX, WallClock::read());
    let mut bench = PortBench::new(Box::new(writing));
    let frames = vec![frame(0, 1000); 64];
    let sent: usize = (0..4).map(|_| bench.tx(&frames)).sum();
    assert!((98..256).contains(&sent), "{sent}");
    assert_eq!(bench.tx(&frames), 0);
    assert_eq!(bench.counter("refused"), 320 - sent as u64);
    let error = bench.close().unwrap_err().to_string();
    // 98 records of 1016 bytes fit behind the header.
    assert!(error.contains("98 records"), "{error}");
    assert_eq!(bench.counter("in_file"), 98);
    assert_eq!(disk.len(), 24 + 98 * 1016);
}

#[test]
fn wrong_configurations_name_the_field() {
    for (config, path) in [
        (json!({}), ""),
        (json!({ "read": "a", "write": "b" }), "write"),
        (json!({ "read": "a", "snaplen": 5 }), "snaplen"),
        (json!({ "write": "a", "pace": "max" }), "pace"),
        (json!({ "write": "a", "loop": 2 }), "loop"),
        (json!({ "write": "a", "snaplen": 0 }), "snaplen"),
        (json!({ "read": "a", "loop": 0 }), "loop"),
        (json!({ "read": "a", "loop": "ever" }), "loop"),
        (json!({ "read": "a", "pace": "10" }), "pace"),
        (json!({ "write": "a", "format": "snoop" }), "format"),
        (json!({ "reed": "a" }), "reed"),
    ] {
        let errors = (KIND.check)(&config).unwrap_err();
        assert!(
            errors[0].path == path || errors[0].message.contains(path),
            "{config}: {errors:?}"
        );
    }
}
