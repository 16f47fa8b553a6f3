//! What one packet went through: keys, entries, conditions, transitions, registers.
//!
//! Beside a packet's life, on demand: for `catena flow trace` and for control requests to a running
//! NF. The packet is interpreted while it is traced, whatever else runs.

use serde::Serialize;

use super::env::FlowWords;
use super::interpret::Watch;
use super::ir::{Element, Program};

/// A value by its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NamedValue {
    /// What it is.
    pub name: String,
    /// Its value, in hexadecimal if it is large.
    pub value: String,
}

impl NamedValue {
    fn new(name: &str, value: u128) -> Self {
        let value = if value < 1 << 32 {
            value.to_string()
        } else {
            format!("{value:#x}")
        };
        Self {
            name: name.to_owned(),
            value,
        }
    }
}

/// A condition and what it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decided {
    /// Its text.
    pub condition: String,
    /// Whether it held.
    pub held: bool,
}

/// What an element did with a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ElementTrace {
    /// Its name.
    pub element: String,
    /// The packet's key; empty if it has none.
    pub key: Vec<NamedValue>,
    /// Whether the flow had an entry.
    pub found: bool,
    /// State and registers before.
    pub before: Vec<NamedValue>,
    /// Tables that were looked up: name, key, and whether an entry matched.
    pub lookups: Vec<Decided>,
    /// Conditions, in the order in which they were looked at.
    pub conditions: Vec<Decided>,
    /// The transition that was taken.
    pub transition: Option<String>,
    /// State and registers behind it.
    pub after: Vec<NamedValue>,
}

/// Notes down what it sees.
#[derive(Debug)]
pub struct Tracer<'a> {
    program: &'a Program,
    current: ElementTrace,
    element: usize,
}

impl<'a> Tracer<'a> {
    /// For a packet at an element.
    pub fn new(program: &'a Program, element: usize) -> Self {
        let name = program.elements.get(element).map(|one| one.name.clone());
        Self {
            program,
            element,
            current: ElementTrace {
                element: name.unwrap_or_default(),
                ..ElementTrace::default()
            },
        }
    }

    /// What it has seen.
    pub fn finish(self) -> ElementTrace {
        self.current
    }

    fn note(&self, note: u16) -> String {
        let note = self.program.notes.get(usize::from(note));
        note.cloned().unwrap_or_default()
    }

    fn registers(&self, words: &FlowWords) -> Vec<NamedValue> {
        let element = self.program.elements.get(self.element);
        element
            .map(|element| registers(element, words))
            .unwrap_or_default()
    }
}

/// The registers of a flow by name, the state by its own.
pub fn registers(element: &Element, words: &FlowWords) -> Vec<NamedValue> {
    let Some(flows) = &element.flows else {
        return Vec::new();
    };
    let named = flows
        .registers
        .iter()
        .enumerate()
        .map(|(number, register)| {
            let value = words.get(register);
            let state = usize::try_from(value)
                .ok()
                .and_then(|label| flows.states.get(label));
            match state {
                Some(state) if number == 0 => NamedValue {
                    name: register.name.clone(),
                    value: state.clone(),
                },
                _ => NamedValue::new(&register.name, value),
            }
        });
    named.collect()
}

/// A key by the names of its parts.
pub fn key_values(element: &Element, key: &[u64]) -> Vec<NamedValue> {
    let parts = element.key.parts.iter().map(|part| {
        let at = usize::from(part.word);
        let word = |at: usize| u128::from(key.get(at).copied().unwrap_or(0));
        let value = word(at) >> part.shift;
        let value = if part.width > 64 {
            word(at + 1) << 64 | value
        } else {
            value
        };
        NamedValue::new(&part.name, value & super::field::ones(part.width))
    });
    parts.collect()
}

impl Watch for Tracer<'_> {
    fn flow(&mut self, element: usize, key: &[u64], is_found: bool, words: &FlowWords) {
        let of = self.program.elements.get(element);
        self.current.key = of.map(|of| key_values(of, key)).unwrap_or_default();
        self.current.found = is_found;
        self.current.before = self.registers(words);
    }

    fn written(&mut self, words: &FlowWords) {
        self.current.after = self.registers(words);
    }

    fn branch(&mut self, note: u16, taken: bool) {
        let condition = self.note(note);
        self.current.conditions.push(Decided {
            condition,
            held: taken,
        });
    }

    fn mark(&mut self, note: u16) {
        self.current.transition = Some(self.note(note));
    }

    fn looked_up(&mut self, table: u16, key: &[u128], hit: bool) {
        let name = self
            .program
            .tables
            .get(usize::from(table))
            .map(|table| &*table.name);
        let key: Vec<String> = key.iter().map(ToString::to_string).collect();
        self.current.lookups.push(Decided {
            condition: format!("{}[{}]", name.unwrap_or_default(), key.join(", ")),
            held: hit,
        });
    }
}
