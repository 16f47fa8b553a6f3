//! Flows that control requests show: `{"show": "flows", "element": NAME, "from": N, "count": N}`
//! gives entries from place N on.
//!
//! Beside packets, by the data half, between two bursts.

use catena_shm::state::StateWords;
use serde_json::{Map, Value, json};

use super::outside::number_of;
use crate::program::env::FlowWords;
use crate::program::ir::Element;
use crate::program::layout::Portion;
use crate::program::run::Running;
use crate::program::trace::{NamedValue, key_values, registers};
use crate::{Cursor, Entry};

type Program = Running<Portion<StateWords>>;

/// Entries of an element from place `from` on, and where to go on.
pub(super) fn shown(
    running: &Program,
    element: Option<&str>,
    from: u64,
    count: u64,
) -> Result<Value, String> {
    let elements = &running.program().elements;
    let number = match element {
        Some(name) => number_of(elements, name)?,
        None => {
            let first = elements.iter().position(|one| one.flows.is_some());
            first.unwrap_or(0)
        }
    };
    let (Some(table), Some(of)) = (running.flows(number), elements.get(number)) else {
        return Err("this element has no flows".to_owned());
    };
    let mut cursor = Cursor::at(u32::try_from(from).unwrap_or(u32::MAX));
    let mut found = Vec::new();
    let count = u32::try_from(count).unwrap_or(0);
    let is_end = table.walk(&mut cursor, count, |_, entry| {
        found.push(json!({
            "key": values(&key_of(of, &entry)),
            "state": values(&state_of(of, &entry)),
            "used_ns": entry.used_ns(),
        }));
    });
    let next = (!is_end).then(|| cursor.place());
    Ok(json!({"flows": found, "next": next, "count": table.len()}))
}

fn key_of(element: &Element, entry: &Entry<'_>) -> Vec<NamedValue> {
    let words = 0..crate::KEY_WORDS_MAX;
    let key: Vec<u64> = words.map(|word| entry.key(word)).collect();
    key_values(element, &key)
}

fn state_of(element: &Element, entry: &Entry<'_>) -> Vec<NamedValue> {
    let mut words = FlowWords::default();
    words.load(entry.state_words());
    registers(element, &words)
}

pub(super) fn values(named: &[NamedValue]) -> Map<String, Value> {
    named
        .iter()
        .map(|one| (one.name.clone(), one.value.clone().into()))
        .collect()
}
