//! What one packet went through: keys, entries, conditions, transitions, registers.
//!
//! Beside a packet's life, on demand: for `catena flow trace` and for control requests to a running
//! NF. The packet is interpreted while it is traced, whatever else runs.

use serde::Serialize;

use super::env::FlowWords;
use super::interpret::Watch;
use super::ir::{Element, KeyPart, Program};
use super::kind::Kinds;
use super::value::Kind;

/// Registers of the program that are noted for a packet, at most.
const GLOBAL_COUNT_MAX: usize = 64;

/// A value by its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NamedValue {
    /// What it is.
    pub name: String,
    /// Its value: an address as such, other large numbers in hexadecimal.
    pub value: String,
}

impl NamedValue {
    fn new(name: &str, value: u128) -> Self {
        Self::of(Kind::Number, name, value)
    }

    fn of(kind: Kind, name: &str, value: u128) -> Self {
        Self {
            name: name.to_owned(),
            value: kind.show(value),
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
    /// Registers of the program that were read, with what was read first.
    pub globals_before: Vec<NamedValue>,
    /// Those that were written, with what they are behind it.
    pub globals_after: Vec<NamedValue>,
}

/// Notes down what it sees.
#[derive(Debug)]
pub struct Tracer<'a> {
    program: &'a Program,
    current: ElementTrace,
    element: usize,
    kinds: Kinds,
}

impl<'a> Tracer<'a> {
    /// For a packet at an element.
    pub fn new(program: &'a Program, element: usize) -> Self {
        let of = program.elements.get(element);
        let name = of.map(|one| one.name.clone());
        Self {
            program,
            element,
            kinds: of.map(|of| Kinds::of(program, of)).unwrap_or_default(),
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
            .map(|element| shown(element, words, &self.kinds.registers))
            .unwrap_or_default()
    }

    /// A register of the program by name, in an array with its place.
    fn global_value(&self, global: u16, index: u128, value: u128) -> Option<NamedValue> {
        let at = usize::from(global);
        let of = self.program.globals.get(at)?;
        let name = match of.count {
            1 => of.name.clone(),
            _ => format!("{}[{index}]", of.name),
        };
        Some(NamedValue::of(self.kinds.globals[at], &name, value))
    }
}

/// The registers of a flow by name, the state by its own.
pub fn registers(element: &Element, words: &FlowWords) -> Vec<NamedValue> {
    shown(element, words, &[])
}

fn shown(element: &Element, words: &FlowWords, kinds: &[Kind]) -> Vec<NamedValue> {
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
                _ => {
                    let kind = kinds.get(number).copied().unwrap_or_default();
                    NamedValue::of(kind, &register.name, value)
                }
            }
        });
    named.collect()
}

/// A key by the names of its parts.
pub fn key_values(element: &Element, key: &[u64]) -> Vec<NamedValue> {
    let parts = element
        .key
        .parts
        .iter()
        .map(|part| NamedValue::new(&part.name, key_part(part, key)));
    parts.collect()
}

/// The value of a part of a key.
pub fn key_part(part: &KeyPart, key: &[u64]) -> u128 {
    let at = usize::from(part.word);
    let word = |at: usize| u128::from(key.get(at).copied().unwrap_or(0));
    let low = word(at) >> part.shift;
    let value = if part.width > 64 {
        word(at + 1) << 64 | low
    } else {
        low
    };
    value & super::field::ones(part.width)
}

impl Watch for Tracer<'_> {
    fn flow(&mut self, element: usize, key: &[u64], is_found: bool, words: &FlowWords) {
        let of = self.program.elements.get(element);
        let parts = of.map_or(&[][..], |of| &of.key.parts);
        let named = parts.iter().zip(&self.kinds.key);
        self.current.key = named
            .map(|(part, kind)| NamedValue::of(*kind, &part.name, key_part(part, key)))
            .collect();
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
        let kinds = self.kinds.table_keys.get(usize::from(table));
        let kind = |part: usize| kinds.and_then(|kinds| kinds.get(part)).copied();
        let key = key.iter().enumerate();
        let key: Vec<String> = key
            .map(|(part, value)| kind(part).unwrap_or_default().show(*value))
            .collect();
        self.current.lookups.push(Decided {
            condition: format!("{}[{}]", name.unwrap_or_default(), key.join(", ")),
            held: hit,
        });
    }

    fn global(&mut self, global: u16, index: u128, value: u128, is_written: bool) {
        let Some(named) = self.global_value(global, index, value) else {
            return;
        };
        let list = if is_written {
            &mut self.current.globals_after
        } else {
            &mut self.current.globals_before
        };
        let known = list.iter().position(|one| one.name == named.name);
        match known {
            Some(at) if is_written => list[at] = named,
            None if list.len() < GLOBAL_COUNT_MAX => list.push(named),
            Some(_) | None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::efsm::source::load;
    use crate::program::run::Arrival;
    use crate::simulate::Simulation;

    const PROGRAM: &str = r#"
globals: { next: { width: 8, scope: per_core }, last: { width: 32, count: 2, scope: per_core } }
tables:
  servers: { key: [exact 32], data: { addr: 32 } }
elements:
  - name: e
    key: [ipv4.src, udp.src_port]
    registers: { peer: 32, mac: 48, count: 32 }
    before: ["lookup(servers, ipv4.dst)"]
    transitions:
      - do: [flow.peer = ipv4.dst, flow.mac = eth.src, flow.count = flow.count + 1,
             global.next = global.next + 1, "global.last[1] = flow.peer", output(out)]
"#;

    #[test]
    fn addresses_and_registers_of_the_program_are_shown() {
        let (mut found, _) = load("program", PROGRAM).unwrap_or_else(|errors| panic!("{errors}"));
        let mut simulation = Simulation::new(found.remove(0).compiled.program).unwrap();
        let packet = crate::packet_test::tests::frame();
        let mut elements = Vec::new();
        for _ in 0..2 {
            elements = simulation.traced(&packet, Arrival::default()).1;
        }
        let pairs = |values: &[NamedValue]| {
            let pairs = values
                .iter()
                .map(|one| format!("{} {}", one.name, one.value));
            pairs.collect::<Vec<_>>()
        };
        let seen = &elements[0];
        assert_eq!(pairs(&seen.key), ["ipv4.src 10.0.0.1", "udp.src_port 5"]);
        let after = pairs(&seen.after);
        for wanted in ["peer 10.0.0.2", "mac 02:00:00:00:00:02", "count 2"] {
            assert!(after.contains(&wanted.to_owned()), "{wanted}: {after:?}");
        }
        assert_eq!(seen.lookups[0].condition, "servers[10.0.0.2]");
        assert_eq!(pairs(&seen.globals_before), ["next 1"]);
        assert_eq!(pairs(&seen.globals_after), ["next 2", "last[1] 10.0.0.2"]);
    }
}
