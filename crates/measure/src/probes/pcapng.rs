//! Visits as a capture file (draft-ietf-opsawg-pcapng): one interface per node, one record per
//! visit, with the time at which the node had the packet, and its parts as a comment.
//!
//! Probes do not copy packets, so records hold no bytes: the comment says which packet, by the
//! number of its journey.

use catena_engine::supervisor::probing::ProbeMap;
use catena_port::capture::{Record, pcapng};

use super::journey::Journey;
use super::parts::{components, times_of};

/// The journeys as a file's bytes. `wall_offset_ns` is what the wall clock is ahead of the chain's.
pub fn file(map: &ProbeMap, journeys: &[Journey], wall_offset_ns: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    pcapng::section(&mut bytes);
    for node in &map.nodes {
        let name = node.as_ref().map_or("", |node| node.name.as_str());
        pcapng::interface(&mut bytes, name);
    }
    let mut records: Vec<_> = journeys
        .iter()
        .enumerate()
        .flat_map(|(number, journey)| records_of(map, number, journey))
        .collect();
    records.sort_by_key(|(time, ..)| *time);
    for (time, node, comment) in records {
        let record = Record {
            timestamp_ns: time.saturating_add_signed(wall_offset_ns),
            original_len: 0,
            data: &[],
        };
        let comment = (pcapng::COMMENT, comment.as_bytes());
        pcapng::packet(&mut bytes, node.into(), &record, &[comment]);
    }
    bytes
}

/// Time, node and comment of each visit.
fn records_of(map: &ProbeMap, number: usize, journey: &Journey) -> Vec<(u64, u16, String)> {
    let names = components(map, &[journey]);
    let times = times_of(journey).parts_ns;
    let parts: Vec<_> = names.iter().zip(times).collect();
    let mut records = Vec::new();
    let mut from = 0;
    for (hop, visit) in journey.visits.iter().enumerate() {
        // What led here since the last visit, and the work here.
        let to = (hop * 6 + 1).min(parts.len());
        let led = parts[from.min(to)..to]
            .iter()
            .filter(|(_, time)| *time > 0.0);
        let words = led.map(|(component, time)| format!("{} {time:.0} ns", component.name));
        let words: Vec<_> = words.collect();
        let comment = format!(
            "packet {number}, visit {}, burst of {}: {}",
            hop + 1,
            visit.burst,
            words.join(", ")
        );
        records.push((visit.entered, visit.node, comment));
        from = to;
    }
    records
}
