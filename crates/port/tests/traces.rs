//! The captures under `chains/traces` are sound, and their README says what they hold.

use std::fs;
use std::path::{Path, PathBuf};

use catena_port::capture::CaptureReader;

fn traces() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../chains/traces")
}

/// What the README's first table says of a file.
struct Trace {
    name: String,
    packet_count: u64,
    file_len: u64,
    frame_len_max: usize,
}

fn described_traces() -> Vec<Trace> {
    let readme = fs::read_to_string(traces().join("README.md")).unwrap();
    let rows = readme.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        Trace {
            name: cells[1].trim_matches('`').to_string(),
            packet_count: cells[2].parse().unwrap(),
            file_len: cells[3].parse().unwrap(),
            frame_len_max: cells[4].parse().unwrap(),
        }
    })
    .collect()
}

#[test]
fn traces_are_what_their_readme_says() {
    let traces_described = described_traces();
    assert_eq!(traces_described.len(), 2);
    for trace in traces_described {
        let path = traces().join(&trace.name);
        assert_eq!(
            fs::metadata(&path).unwrap().len(),
            trace.file_len,
            "{}",
            trace.name
        );
        let mut reader = CaptureReader::open(&path).unwrap();
        let (mut frame_len_max, mut timestamp_ns_last) = (0, 0);
        while let Some(record) = reader.next().unwrap() {
            assert_eq!(
                record.data.len(),
                record.original_len as usize,
                "a frame is cut"
            );
            assert!(record.data.len() >= 42, "shorter than an ARP request");
            // Times come from several processors, which differ by less than a microsecond.
            assert!(
                record.timestamp_ns + 1_000 > timestamp_ns_last,
                "times go backwards"
            );
            frame_len_max = frame_len_max.max(record.data.len());
            timestamp_ns_last = record.timestamp_ns;
        }
        assert_eq!(reader.record_count(), trace.packet_count, "{}", trace.name);
        assert_eq!(frame_len_max, trace.frame_len_max, "{}", trace.name);
    }
}
