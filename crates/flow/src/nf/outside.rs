//! Control requests that set and end flows.
//!
//! Beside packets. The control half reads them, since text takes its time; the data half does what
//! they say between two bursts, and answers. A key is written as `{"show": "flows"}` prints it,
//! part by part or as a list, the sides of pairs in either order; registers by their names, a state
//! by its own.
//!
//! | request | does |
//! |---|---|
//! | `{"set_flow": ELEMENT, "key": {...}, "state": {...}}` | sets registers of a flow, which is made if there is none |
//! | `{"end_flow": ELEMENT, "key": {...}}` | ends it |
//!
//! Both take `"entries": [...]` in place of a key: all or none, [`OUTSIDE_COUNT_MAX`] at most. In
//! shards they are refused, since a request goes to all of them and a flow is in one.

use std::cmp::Ordering;
use std::collections::VecDeque;

use serde_json::{Value, json};

use super::request::{entries, text_of};
use crate::efsm::pattern;
use crate::program::ir::{Element, Flows, Key, KeyPart, Width};
use crate::program::outside::{FlowSetting, OUTSIDE_COUNT_MAX, OutsideError};
use crate::program::run::Running;
use crate::program::table::{Match, Pattern};
use crate::{FlowTable, KEY_WORDS_MAX, Memory};

/// What the data half is to do with flows of an element, by its number.
#[derive(Debug)]
pub(super) enum FlowChange {
    /// Sets registers.
    Set(usize, Vec<FlowSetting>),
    /// Ends those of these keys.
    End(usize, Vec<Vec<u64>>),
}

/// What a request asks for, if it is one of these.
pub(super) fn is_asked(request: &Value) -> Option<(&'static str, &str)> {
    let verbs = ["set_flow", "end_flow"].into_iter();
    let mut named = verbs.filter_map(|verb| Some((verb, request.get(verb)?.as_str()?)));
    named.next()
}

/// Reads a request about flows of an element.
pub(super) fn change(
    elements: &[Element],
    (verb, element): (&str, &str),
    request: &Value,
) -> Result<FlowChange, String> {
    let number = number_of(elements, element)?;
    let of = &elements[number];
    let flows = of.flows.as_ref();
    let flows = flows.ok_or_else(|| format!("the element {} has no flows", of.name))?;
    let entries = entries(request)?;
    if entries.len() > OUTSIDE_COUNT_MAX {
        return Err(OutsideError::Count(entries.len()).to_string());
    }
    if verb == "end_flow" {
        let keys: Result<_, String> = entries.map(|one| key(of, flows, one)).collect();
        return Ok(FlowChange::End(number, keys?));
    }
    let settings = entries.map(|one| {
        Ok(FlowSetting {
            key: key(of, flows, one)?,
            registers: state(flows, one)?,
        })
    });
    let settings: Result<_, String> = settings.collect();
    Ok(FlowChange::Set(number, settings?))
}

/// What became of a change.
#[derive(Debug)]
enum Done {
    /// So many were set, and so many of them made.
    Set(usize, usize),
    Ended(usize),
}

/// Answers of changes, until they are asked for: each request asks behind its change, in order, so
/// there are never more of them than requests that wait for the data half.
#[derive(Debug, Default)]
pub(super) struct Changes(VecDeque<Result<(Done, u32), OutsideError>>);

impl Changes {
    /// Does what a request has asked for.
    pub(super) fn make<M: Memory>(
        &mut self,
        change: &FlowChange,
        running: &mut Running<M>,
        now_ns: u64,
    ) {
        let (element, done) = match change {
            FlowChange::Set(element, settings) => {
                let made = running.set_flows(*element, settings, now_ns);
                (*element, made.map(|made| Done::Set(settings.len(), made)))
            }
            FlowChange::End(element, keys) => {
                let ended = running.end_flows(*element, keys, now_ns);
                (*element, ended.map(|()| Done::Ended(keys.len())))
            }
        };
        let count = running.flows(element).map_or(0, FlowTable::len);
        self.0.push_back(done.map(|done| (done, count)));
    }

    /// The answer to a request whose change has been made.
    pub(super) fn answer(&mut self) -> Result<Value, String> {
        let again = "it was not done, since the program began again meanwhile: ask again";
        let done = self.0.pop_front().ok_or(again)?;
        let (done, count) = done.map_err(|error| error.to_string())?;
        Ok(match done {
            Done::Set(set, made) => json!({"set": set, "made": made, "count": count}),
            Done::Ended(ended) => json!({"ended": ended, "count": count}),
        })
    }
}

/// The element of a name.
pub(super) fn number_of(elements: &[Element], name: &str) -> Result<usize, String> {
    let found = elements.iter().position(|one| one.name == name);
    found.ok_or_else(|| {
        let names = elements.iter().filter(|one| one.flows.is_some());
        let names: Vec<&str> = names.map(|one| &*one.name).collect();
        let known = names.join(", ");
        format!("there is no element {name}; those that have flows are: {known}")
    })
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
    let values = parts.iter().zip(given);
    let values = values.map(|(part, value)| number(value, part.width, &part.name));
    let mut values = values.collect::<Result<Vec<_>, _>>()?;
    put_smaller_first(&element.key, &mut values);
    let mut words = [0; KEY_WORDS_MAX];
    for (part, value) in parts.iter().zip(values) {
        part.put(value, &mut words);
    }
    let count = flows.shape.key_words as usize;
    Ok(words.into_iter().take(count).collect())
}

/// Orders the sides of pairs as the key's code does: by the first pair that differs.
fn put_smaller_first(key: &Key, values: &mut [u128]) {
    let first = values.len().saturating_sub(2 * key.pairs);
    let (pairs, _) = values[first..].as_chunks_mut::<2>();
    let order = pairs.iter().map(|[one, other]| one.cmp(other));
    if order.fold(Ordering::Equal, Ordering::then) == Ordering::Greater {
        pairs.iter_mut().for_each(|pair| pair.swap(0, 1));
    }
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
    match pattern(&text_of(value), Match::Exact, width) {
        Ok(Pattern::Masked(number, _)) => Ok(number),
        Ok(Pattern::Range(..)) => Err(format!("{name} is one number")),
        Err(error) => Err(format!("{name}: {error}")),
    }
}
