//! Flows that control requests show, set and end.
//!
//! Beside packets, by the data half, between two bursts. A key is written as `{"show": "flows"}`
//! prints it, part by part or as a list; registers by their names, a state by its own.
//!
//! | request | does |
//! |---|---|
//! | `{"show": "flows", "element": NAME, "from": N, "count": N}` | shows entries from place N on |
//! | `{"set_flow": ELEMENT, "key": {...}, "state": {...}}` | sets registers of a flow, which is made if there is none |
//! | `{"end_flow": ELEMENT, "key": {...}}` | ends it |
//!
//! Both take `"entries": [...]` in place of a key: all or none, 256 at most. In shards they are
//! refused, since a request goes to all of them and a flow is in one.

use catena_shm::state::StateWords;
use serde_json::{Map, Value, json};

use super::request::entries;
use crate::efsm::pattern;
use crate::program::env::FlowWords;
use crate::program::ir::{Element, Flows, KeyPart, Width};
use crate::program::layout::Portion;
use crate::program::outside::FlowSetting;
use crate::program::run::Running;
use crate::program::table::{Match, Pattern};
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
        Some(name) => number_of(running, name)?,
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

/// Sets registers of flows of an element, by name.
pub(super) fn set(
    running: &mut Program,
    element: &str,
    request: &Value,
    now_ns: u64,
) -> Result<Value, String> {
    let number = number_of(running, element)?;
    let of = &running.program().elements[number];
    let flows = flows_of(of)?;
    let settings = entries(request)?.map(|one| {
        Ok(FlowSetting {
            key: key(of, flows, one)?,
            registers: state(flows, one)?,
        })
    });
    let settings = settings.collect::<Result<Vec<_>, String>>()?;
    let made = running.set_flows(number, &settings, now_ns);
    let made = made.map_err(|error| error.to_string())?;
    let count = running.flows(number).map_or(0, crate::FlowTable::len);
    Ok(json!({"set": settings.len(), "made": made, "count": count}))
}

/// Ends flows of an element, by name.
pub(super) fn end(
    running: &mut Program,
    element: &str,
    request: &Value,
    now_ns: u64,
) -> Result<Value, String> {
    let number = number_of(running, element)?;
    let of = &running.program().elements[number];
    let flows = flows_of(of)?;
    let keys = entries(request)?.map(|one| key(of, flows, one));
    let keys = keys.collect::<Result<Vec<_>, _>>()?;
    let ended = running.end_flows(number, &keys, now_ns);
    ended.map_err(|error| error.to_string())?;
    let count = running.flows(number).map_or(0, crate::FlowTable::len);
    Ok(json!({"ended": keys.len(), "count": count}))
}

fn number_of(running: &Program, name: &str) -> Result<usize, String> {
    let elements = &running.program().elements;
    let found = elements.iter().position(|one| one.name == name);
    found.ok_or_else(|| {
        let names = elements.iter().filter(|one| one.flows.is_some());
        let names: Vec<&str> = names.map(|one| &*one.name).collect();
        let known = names.join(", ");
        format!("there is no element {name}; those that have flows are: {known}")
    })
}

fn flows_of(element: &Element) -> Result<&Flows, String> {
    let flows = element.flows.as_ref();
    flows.ok_or_else(|| format!("the element {} has no flows", element.name))
}

/// The words of the key that a request names.
fn key(element: &Element, flows: &Flows, request: &Value) -> Result<Vec<u64>, String> {
    let parts = &element.key.parts;
    let names = || {
        let names: Vec<&str> = parts.iter().map(|part| &*part.name).collect();
        names.join(", ")
    };
    let given: Vec<&Value> = match request.get("key") {
        Some(Value::Array(values)) => values.iter().collect(),
        Some(Value::Object(named)) => {
            if let Some(name) = named.keys().find(|name| is_unknown(parts, name)) {
                return Err(format!("no part of the key is {name}; it has {}", names()));
            }
            let values = parts.iter().filter_map(|part| named.get(&part.name));
            values.collect()
        }
        _ => return Err(format!("add \"key\" with {}", names())),
    };
    if given.len() != parts.len() {
        return Err(format!("the key has the parts {}", names()));
    }
    let mut words = vec![0; flows.shape.key_words as usize];
    let mut put = |at: usize, bits: u64| {
        if let Some(word) = words.get_mut(at) {
            *word |= bits;
        }
    };
    for (part, value) in parts.iter().zip(given) {
        let value = number(value, part.width, &part.name)?;
        let at = usize::from(part.word);
        put(at, (value as u64) << part.shift);
        if part.width > 64 {
            put(at + 1, (value >> 64) as u64);
        }
    }
    Ok(words)
}

fn is_unknown(parts: &[KeyPart], name: &str) -> bool {
    parts.iter().all(|part| part.name != name)
}

/// The registers that a request names, by their numbers.
fn state(flows: &Flows, request: &Value) -> Result<Vec<(u8, u128)>, String> {
    let given = request.get("state").and_then(Value::as_object);
    let given = given.ok_or("add \"state\": {REGISTER: VALUE, ...}")?;
    let mut found = Vec::new();
    for (name, value) in given {
        let at = flows.registers.iter().position(|one| one.name == *name);
        let Some(at) = at else {
            let names: Vec<&str> = flows.registers.iter().map(|one| &*one.name).collect();
            let known = names.join(", ");
            return Err(format!("there is no register {name}; there are: {known}"));
        };
        let label = match value {
            Value::String(text) if at == 0 => flows.states.iter().position(|one| one == text),
            _ => None,
        };
        let value = match label {
            Some(label) => label as u128,
            None if at == 0 && !flows.states.is_empty() => {
                let known = flows.states.join(", ");
                return Err(format!("there is no state {value}; there are: {known}"));
            }
            None => number(value, flows.registers[at].width, name)?,
        };
        found.push((u8::try_from(at).unwrap_or(u8::MAX), value));
    }
    Ok(found)
}

/// A number or an address, as tables take them.
fn number(value: &Value, width: Width, name: &str) -> Result<u128, String> {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match pattern(&text, Match::Exact, width) {
        Ok(Pattern::Masked(number, _)) => Ok(number),
        Ok(Pattern::Range(..)) => Err(format!("{name} is one number")),
        Err(error) => Err(format!("{name}: {error}")),
    }
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
