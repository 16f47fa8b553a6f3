//! Visits as a capture file (draft-ietf-opsawg-pcapng): one interface per node, one record per
//! visit, with the time at which the node had the packet, and its parts as a comment.
//!
//! Probes do not copy packets, so records hold no bytes: the comment says which packet, by the
//! number of its journey.

use catena_engine::supervisor::probing::ProbeMap;

use super::journey::Journey;
use super::parts::{components, times_of};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const LINKTYPE_ETHERNET: u16 = 1;
const OPTION_END: u16 = 0;
const OPTION_COMMENT: u16 = 1;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
/// Length of a section that is not known.
const UNKNOWN: u64 = u64::MAX;

/// The journeys as a file's bytes. `wall_offset_ns` is what the wall clock is ahead of the chain's.
pub fn file(map: &ProbeMap, journeys: &[Journey], wall_offset_ns: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut body = BYTE_ORDER.to_le_bytes().to_vec();
    body.extend(1_u16.to_le_bytes());
    body.extend(0_u16.to_le_bytes());
    body.extend(UNKNOWN.to_le_bytes());
    block(&mut bytes, SECTION, &body);
    for node in &map.nodes {
        let name = node.as_ref().map_or("", |node| node.name.as_str());
        let mut body = LINKTYPE_ETHERNET.to_le_bytes().to_vec();
        body.extend([0; 6]);
        option(&mut body, IF_NAME, name.as_bytes());
        option(&mut body, IF_TSRESOL, &[9]);
        option(&mut body, OPTION_END, &[]);
        block(&mut bytes, INTERFACE, &body);
    }
    let mut records: Vec<_> = journeys
        .iter()
        .enumerate()
        .flat_map(|(number, journey)| records_of(map, number, journey))
        .collect();
    records.sort_by_key(|(time, ..)| *time);
    for (time, node, comment) in records {
        let time = time.saturating_add_signed(wall_offset_ns);
        let mut body = u32::from(node).to_le_bytes().to_vec();
        #[expect(clippy::cast_possible_truncation, reason = "the halves of the time")]
        for half in [(time >> 32) as u32, time as u32, 0, 0] {
            body.extend(half.to_le_bytes());
        }
        option(&mut body, OPTION_COMMENT, comment.as_bytes());
        option(&mut body, OPTION_END, &[]);
        block(&mut bytes, ENHANCED_PACKET, &body);
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

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend(code.to_le_bytes());
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    body.extend(u16::try_from(value.len()).unwrap_or(0).to_le_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

fn block(bytes: &mut Vec<u8>, kind: u32, body: &[u8]) {
    let len = u32::try_from(body.len() + 12).unwrap_or(u32::MAX);
    bytes.extend(kind.to_le_bytes());
    bytes.extend(len.to_le_bytes());
    bytes.extend(body);
    bytes.extend(len.to_le_bytes());
}
