//! What a `nat44` that runs is asked: mappings, sessions, blocks, a subscriber, and its log.
//!
//! Beside packets, between two bursts. Answers are of a bounded part: at most [`SHOWN_MAX`] rows of
//! as many places that are looked at, and where to go on.
//!
//! | request | answer |
//! |---|---|
//! | `{"show": "mappings", "from": N}`, `"sessions"`, `"blocks"` | those from N on, and `next` |
//! | `{"show": "subscriber", "inside": ADDRESS}` | its blocks and how many sessions it has |
//! | `{"events": N}` | up to N notes of blocks and refusals, which are then gone |

use std::net::Ipv4Addr;

use catena_engine::nf::Nanos;
use serde_json::{Value, json};

use super::endpoint::{Endpoint, protocol_name, shown};
use super::log::What;
use super::tcp::Progress;
use super::translator::Nat;
use crate::{Cursor, Entry, FlowTable, Memory};

/// Rows of an answer, and places that are looked at for them.
const SHOWN_MAX: u32 = 1000;

fn end(word: u64) -> Value {
    let end = Endpoint::of_word(word);
    json!(format!("{}:{}", shown(end.address), end.port))
}

fn protocol(word: u64) -> &'static str {
    protocol_name(Endpoint::of_word(word).protocol)
}

/// Rows of a table from a place on.
fn rows<M: Memory>(
    table: &FlowTable<M>,
    name: &str,
    from: u32,
    mut row: impl FnMut(Entry<'_>) -> Value,
) -> Value {
    let mut all = Vec::new();
    let mut cursor = Cursor::at(from);
    let is_end = table.walk(&mut cursor, SHOWN_MAX, |_, entry| all.push(row(entry)));
    let next = (!is_end).then(|| cursor.place());
    json!({name: all, "next": next})
}

/// Answers a control request.
///
/// # Errors
/// A sentence for who asked.
pub(super) fn answer<M: Memory>(
    nat: &mut Nat<M>,
    request: &Value,
    now: Nanos,
) -> Result<Value, String> {
    if let Some(count) = request.get("events") {
        let count = count.as_u64().ok_or("events: write how many, like 100")?;
        return Ok(events(nat, count, now));
    }
    let from = match request.get("from") {
        None => 0,
        Some(from) => from
            .as_u64()
            .and_then(|from| u32::try_from(from).ok())
            .ok_or("from: write the place that `next` said")?,
    };
    match request.get("show").and_then(Value::as_str) {
        Some("mappings") => Ok(rows(&nat.mappings, "mappings", from, |entry| {
            json!({
                "protocol": protocol(entry.key(0)),
                "inside": end(entry.key(0)),
                "outside": end(entry.state(0)),
                "sessions": entry.state(1),
            })
        })),
        Some("sessions") => Ok(rows(&nat.sessions, "sessions", from, |entry| {
            let mut row = json!({
                "protocol": protocol(entry.key(0)),
                "inside": end(entry.key(0)),
                "outside": end(entry.state(0)),
                "remote": end(entry.key(1)),
                "idle_ms": now.0.saturating_sub(entry.used_ns()) / 1_000_000,
            });
            if row["protocol"] == "tcp" {
                row["state"] = Progress((entry.state(0) >> 8) as u8).name().into();
            }
            row
        })),
        Some("blocks") => Ok(blocks(nat, from)),
        Some("subscriber") => subscriber(nat, request),
        _ => Err(
            "ask for {\"show\": \"mappings\"}, sessions, blocks, a subscriber, or {\"events\": N}"
                .to_owned(),
        ),
    }
}

fn block<M: Memory>(nat: &Nat<M>, number: u32) -> Value {
    json!({
        "outside": shown(nat.pool.address(number)),
        "ports": nat.pool.ports(number),
        "used": nat.pool.used(number),
    })
}

fn blocks<M: Memory>(nat: &Nat<M>, from: u32) -> Value {
    let mut all = Vec::new();
    let next = nat.pool.walk(from, SHOWN_MAX, |number, owner| {
        let mut row = block(nat, number);
        row["inside"] = json!(shown(owner));
        all.push(row);
    });
    json!({"blocks": all, "next": next})
}

fn subscriber<M: Memory>(nat: &Nat<M>, request: &Value) -> Result<Value, String> {
    let address = request.get("inside").and_then(Value::as_str);
    let address = address.and_then(|text| text.parse::<Ipv4Addr>().ok());
    let address = address.ok_or("inside: write the subscriber's address, like \"10.0.0.1\"")?;
    let found = nat.subscribers.find(address.to_bits());
    let numbers = found.map(|flow| nat.subscribers.blocks(flow));
    let blocks = numbers.iter().flat_map(|blocks| blocks.all());
    let blocks: Vec<Value> = blocks.map(|number| block(nat, *number)).collect();
    let sessions = found.map_or(0, |flow| nat.subscribers.sessions(flow));
    Ok(json!({"inside": address, "sessions": sessions, "blocks": blocks}))
}

fn events<M: Memory>(nat: &mut Nat<M>, count: u64, now: Nanos) -> Value {
    let count = count.min(SHOWN_MAX.into()) as usize;
    let taken: Vec<Value> = nat
        .log
        .take(count)
        .map(|event| {
            let mut row = json!({
                "at_ns": event.at_ns,
                "event": event.what.name(),
                "inside": shown(event.inside),
                "outside": event.block.map(|(outside, _)| shown(outside)),
                "ports": event.block.map(|(_, ports)| ports),
            });
            if let What::Refused(why, count) = event.what {
                row["reason"] = json!(why.name());
                row["count"] = json!(count);
            }
            row
        })
        .collect();
    json!({
        "now_ns": now.0,
        "events": taken,
        "waiting": nat.log.len(),
        "lost": nat.log.lost,
    })
}
