//! Journeys as a trace for Perfetto, `chrome://tracing` and others (Trace Event Format, "JSON
//! Object Format").
//!
//! Each node is a thread of the process that its worker is; a visit is a slice on it. What lies
//! between two visits is an asynchronous slice of the packet. Times are in microseconds with three
//! decimals, from the first visit on.

use std::fmt::Write;

use catena_engine::supervisor::probing::ProbeMap;

use super::journey::Journey;
use super::parts::{components, times_of};

/// The journeys as a document.
pub fn trace(map: &ProbeMap, journeys: &[Journey]) -> String {
    let mut events = Vec::new();
    for (index, node) in map.nodes.iter().enumerate() {
        let Some(node) = node else { continue };
        let worker = map.workers.get(node.worker).map_or("", String::as_str);
        for (what, name) in [("process_name", worker), ("thread_name", &node.name)] {
            events.push(format!(
                "{{\"ph\":\"M\",\"name\":\"{what}\",\"pid\":{},\"tid\":{index},\
                 \"args\":{{\"name\":{}}}}}",
                node.worker,
                serde_json::Value::from(name)
            ));
        }
    }
    let begins = journeys.iter().filter_map(|journey| journey.visits.first());
    let zero = begins.map(|visit| visit.begin).min().unwrap_or(0);
    for (number, journey) in journeys.iter().enumerate() {
        events.extend(events_of(map, number, journey, zero));
    }
    let mut text = String::from("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    let _ = write!(text, "{}", events.join(",\n"));
    text.push_str("\n]}\n");
    text
}

/// A journey's slices, in the order of its parts.
fn events_of(map: &ProbeMap, number: usize, journey: &Journey, zero: u64) -> Vec<String> {
    let names = components(map, &[journey]);
    let times = times_of(journey).parts_ns;
    let mut parts = names.iter().zip(times);
    let mut events = Vec::new();
    for (hop, visit) in journey.visits.iter().enumerate() {
        let Some((component, time)) = parts.next() else {
            break;
        };
        let node = map.nodes[usize::from(visit.node)].as_ref();
        let worker = node.map_or(0, |node| node.worker);
        let since = visit.left as f64 - time;
        events.push(format!(
            "{{\"ph\":\"X\",\"name\":{},\"cat\":\"node\",\"pid\":{worker},\"tid\":{},\"ts\":{},\
             \"dur\":{},\"args\":{{\"packet\":{number},\"burst\":{}}}}}",
            serde_json::Value::from(component.name.as_str()),
            visit.node,
            micros(since - zero as f64),
            micros(time),
            visit.burst
        ));
        if hop + 1 == journey.visits.len() {
            break;
        }
        let mut from = visit.left as f64;
        for (component, time) in parts.by_ref().take(5) {
            if time > 0.0 {
                let name = serde_json::Value::from(component.name.as_str());
                for (phase, at) in [("b", from), ("e", from + time)] {
                    events.push(format!(
                        "{{\"ph\":\"{phase}\",\"name\":{name},\"cat\":\"link\",\"id\":{number},\
                         \"pid\":{worker},\"tid\":{},\"ts\":{}}}",
                        visit.node,
                        micros(at - zero as f64)
                    ));
                }
            }
            from += time;
        }
    }
    events
}

fn micros(ns: f64) -> String {
    format!("{:.3}", ns / 1e3)
}
