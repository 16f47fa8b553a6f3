//! Runs a test file's steps on a program, and tells what is not as expected.
//!
//! Behind [`Plan::read`]. An expectation that fails many times within a step is told once, with how
//! often.

use std::fmt::Display;

use serde::Serialize;

use super::difference;
use super::resolve::{EntryWanted, EventWanted, FlowWanted, Leaves, Many, Plan, Step};
use crate::Cursor;
use crate::program::env::FlowWords;
use crate::program::field;
use crate::program::header::Headers;
use crate::program::ir::FlowRegister;
use crate::program::queue::Notice;
use crate::program::run::Arrival;
use crate::program::trace::key_part;
use crate::program::value::Kind;
use crate::simulate::{Passed, Simulation};

/// Packets and events of a step that are kept to be compared; more are counted only.
const KEPT_COUNT_MAX: usize = 4096;
/// Places of a flow table that are looked at in one go.
const WALK_COUNT: u32 = 4096;

/// An expectation that was not met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Number of the step, from 0.
    pub step: usize,
    /// What was expected, as a path in the file: `steps[3].bytes`.
    pub path: String,
    /// Its line in the file.
    pub line: u32,
    /// Its column.
    pub column: u32,
    /// What should have been.
    pub expected: String,
    /// What was.
    pub found: String,
    /// More lines about it: bytes and fields that differ.
    pub detail: Vec<String>,
    /// How often it failed, of the packets of the step.
    pub times: u32,
}

impl Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            path,
            expected,
            found,
            ..
        } = self;
        write!(f, "{path}: expected {expected}, came {found}")?;
        if self.times > 1 {
            write!(f, " ({} times)", self.times)?;
        }
        self.detail
            .iter()
            .try_for_each(|line| write!(f, "\n    {line}"))
    }
}

/// What a program has sent beside verdicts since the step before.
#[derive(Default)]
struct Sent {
    emitted: Vec<(String, Vec<u8>)>,
    emitted_count: usize,
    events: Vec<(String, Notice)>,
    event_count: usize,
}

impl Sent {
    fn take(&mut self, simulation: &mut Simulation) {
        let emitted = simulation.emitted();
        self.emitted_count += emitted.len();
        let room = KEPT_COUNT_MAX - self.emitted.len();
        self.emitted.extend(emitted.into_iter().take(room));
        let events = simulation.events();
        self.event_count += events.len();
        let room = KEPT_COUNT_MAX - self.events.len();
        self.events.extend(events.into_iter().take(room));
    }
}

impl Plan<'_> {
    /// Runs all steps on a program that has no flows yet. `progress` is told of each packet.
    pub fn run(&self, simulation: &mut Simulation, mut progress: impl FnMut()) -> Vec<Failure> {
        let mut failures = Vec::new();
        for (number, step) in self.steps.iter().enumerate() {
            let mut checking = Checking {
                plan: self,
                number,
                failures: Vec::new(),
            };
            checking.step(simulation, step, &mut progress);
            failures.append(&mut checking.failures);
        }
        failures
    }
}

struct Checking<'a, 'b> {
    plan: &'a Plan<'b>,
    number: usize,
    failures: Vec<Failure>,
}

impl Checking<'_, '_> {
    fn step(&mut self, simulation: &mut Simulation, step: &Step, progress: &mut impl FnMut()) {
        let mut sent = Sent::default();
        simulation.expire(step.at_ns);
        sent.take(simulation);
        self.change(simulation, step);
        if let Some(packet) = &step.packet {
            let arrival = Arrival {
                now_ns: step.at_ns,
                input: step.input,
            };
            for _ in 0..step.times {
                let passed = simulation.packet(packet, arrival);
                self.passed(step, &passed);
                sent.take(simulation);
                progress();
            }
        }
        self.sent(step, &sent);
        self.state(simulation, step);
    }

    /// An expectation that was not met; once more, if it is the one before.
    fn failed(&mut self, key: &str, expected: impl Display, found: impl Display) -> &mut Failure {
        let path = format!("steps[{}].{key}", self.number);
        let at = match self.failures.iter().position(|one| one.path == path) {
            Some(at) => {
                self.failures[at].times += 1;
                at
            }
            None => {
                let place = self.plan.place(&path);
                self.failures.push(Failure {
                    step: self.number,
                    path,
                    line: place.line,
                    column: place.column,
                    expected: expected.to_string(),
                    found: found.to_string(),
                    detail: Vec::new(),
                    times: 1,
                });
                self.failures.len() - 1
            }
        };
        &mut self.failures[at]
    }

    fn equal<T: PartialEq + Display>(&mut self, key: &str, expected: &T, found: &T) {
        if expected != found {
            self.failed(key, expected, found);
        }
    }

    /// What somebody beside the program does to its tables.
    fn change(&mut self, simulation: &mut Simulation, step: &Step) {
        let running = simulation.running();
        for (number, one) in step.set.iter().enumerate() {
            if let Err(error) = running.set_entry(one.table, one.entry.clone()) {
                self.failed(&format!("set[{number}]"), "that it can be set", error);
            }
        }
        for (number, one) in step.remove.iter().enumerate() {
            if let Err(error) = running.remove_entry(one.table, &one.entry.key) {
                self.failed(
                    &format!("remove[{number}]"),
                    "that it can be removed",
                    error,
                );
            }
        }
    }

    fn passed(&mut self, step: &Step, passed: &Passed) {
        if let Some(expected) = &step.leaves.output {
            self.equal("expect", expected, &passed.verdict);
        }
        self.packet("", &step.leaves, &passed.bytes);
        if let Some(copies) = &step.copies {
            let (mut expected, mut found) = (copies.clone(), passed.copies.clone());
            expected.sort();
            found.sort();
            self.equal("copies", &list(&expected), &list(&found));
        }
    }

    /// Bytes and fields of a packet; `at` is what stands before their keys.
    fn packet(&mut self, at: &str, leaves: &Leaves, found: &[u8]) {
        if let Some(expected) = leaves
            .bytes
            .as_deref()
            .filter(|expected| *expected != found)
        {
            let differing = expected.iter().zip(found).filter(|(a, b)| a != b).count();
            let length = |bytes: &[u8]| format!("{} bytes", bytes.len());
            let found_text = if expected.len() == found.len() {
                format!("{differing} of them otherwise")
            } else {
                length(found)
            };
            let failure = self.failed(&format!("{at}bytes"), length(expected), found_text);
            if failure.times == 1 {
                failure.detail = difference::lines(expected, found);
            }
        }
        let headers = Headers::parse(found);
        for (name, field, expected) in &leaves.fields {
            // As a path it could not be found: the name has dots.
            let key = format!("{at}fields");
            let show = |value| format!("{name} {}", Kind::of(*field).show(value));
            let expected_text = show(*expected);
            if !headers.has(field.header) {
                let found = format!("a packet without {}", field.header.name());
                self.failed(&key, expected_text, found);
                continue;
            }
            let found = field::read(found, &headers, *field);
            if found != *expected {
                self.failed(&key, expected_text, show(found));
            }
        }
    }

    fn sent(&mut self, step: &Step, sent: &Sent) {
        match &step.emits {
            Some(Many::Count(count)) => {
                self.equal("emits", &packets(*count), &packets(sent.emitted_count));
            }
            Some(Many::Each(each)) => {
                self.equal("emits", &packets(each.len()), &packets(sent.emitted_count));
                for (number, (wanted, found)) in each.iter().zip(&sent.emitted).enumerate() {
                    if let Some(output) = &wanted.output {
                        self.equal(&format!("emits[{number}].output"), output, &found.0);
                    }
                    self.packet(&format!("emits[{number}]."), wanted, &found.1);
                }
            }
            None => {}
        }
        let shown: Vec<String> = sent.events.iter().take(8).map(event).collect();
        match &step.events {
            Some(Many::Count(count)) if *count != sent.event_count => {
                self.failed("events", count, list(&shown));
            }
            Some(Many::Each(each)) => {
                if each.len() != sent.event_count {
                    self.failed("events", each.len(), list(&shown));
                }
                for (number, (wanted, found)) in each.iter().zip(&sent.events).enumerate() {
                    self.event(number, wanted, found);
                }
            }
            _ => {}
        }
    }

    fn event(&mut self, number: usize, wanted: &EventWanted, (found, notice): &(String, Notice)) {
        let at = format!("events[{number}]");
        self.equal(&format!("{at}.event"), &wanted.name, found);
        let found = notice.values();
        if let Some(values) = wanted.values.as_deref().filter(|values| *values != found) {
            let named = |values: &[u128]| match wanted.states.as_slice() {
                [] => numbers(values),
                states => {
                    let label = |value: &u128| states.get(*value as usize).cloned();
                    list(&values.iter().filter_map(label).collect::<Vec<_>>())
                }
            };
            self.failed(&format!("{at}.values"), named(values), named(found));
        }
        for (part, value) in &wanted.key {
            let show = |value: u128| format!("{} {value}", part.name);
            let found = show(key_part(part, &notice.key));
            self.equal(&format!("{at}.key"), &show(*value), &found);
        }
    }

    /// What is remembered behind the step.
    fn state(&mut self, simulation: &mut Simulation, step: &Step) {
        let running = simulation.running();
        for (name, element, expected) in &step.flows {
            let found = running.flows(*element).map_or(0, |flows| flows.len());
            if found != *expected {
                let found = format!("{found} of {name}");
                self.failed("flows", format!("{expected} of {name}"), found);
            }
        }
        for (name, global, index, expected) in &step.globals {
            let found = simulation.running().global(*global, *index).unwrap_or(0);
            if found != *expected {
                let found = format!("{name} {found}");
                self.failed("globals", format!("{name} {expected}"), found);
            }
        }
        for (number, wanted) in step.tables.iter().enumerate() {
            self.entry(simulation, number, wanted);
        }
        for (number, wanted) in step.registers.iter().enumerate() {
            self.flow(simulation, number, wanted);
        }
    }

    fn entry(&mut self, simulation: &mut Simulation, number: usize, wanted: &EntryWanted) {
        let Some(table) = simulation.running().tables().get(wanted.table) else {
            return;
        };
        let shape = table.shape().clone();
        let mut entries = table.entries();
        let entry = entries.find(|entry| entry.key == wanted.entry.key);
        drop(entries);
        let at = format!("tables[{number}]");
        match entry {
            None if !wanted.absent => {
                self.failed(
                    &at,
                    format!("an entry of {}", shape.name),
                    "none with this key",
                );
            }
            Some(_) if wanted.absent => {
                self.failed(&at, format!("no such entry of {}", shape.name), "one");
            }
            Some(entry) => {
                for place in &wanted.data {
                    let (name, _) = &shape.data[*place];
                    let show = |data: &[u128]| format!("{name} {}", data[*place]);
                    let (expected, found) = (show(&wanted.entry.data), show(&entry.data));
                    self.equal(&at, &expected, &found);
                }
            }
            None => {}
        }
    }

    fn flow(&mut self, simulation: &mut Simulation, number: usize, wanted: &FlowWanted) {
        let at = format!("registers[{number}]");
        let found = flows(simulation, wanted);
        match (found.as_slice(), wanted.absent) {
            ([], true) => {}
            ([_, ..], true) => {
                self.failed(&at, "no such flow", "one");
            }
            ([words], false) => {
                let states = simulation.running().program().elements[wanted.element]
                    .flows
                    .as_ref()
                    .map_or(&[][..], |flows| &flows.states)
                    .to_vec();
                for (register, expected, text) in &wanted.is {
                    let value = words.get(register);
                    if value != *expected {
                        let found = shown(register, value, &states);
                        let name = &register.name;
                        self.failed(&at, format!("{name} {text}"), format!("{name} {found}"));
                    }
                }
            }
            (found, false) => {
                let found = match found.len() {
                    0 => "none".to_owned(),
                    count => format!("{count}: name more of the key"),
                };
                self.failed(&at, "one flow with this key", found);
            }
        }
    }
}

/// A register's value; the state by its name.
fn shown(register: &FlowRegister, value: u128, states: &[String]) -> String {
    let state = (register.name == "state").then(|| states.get(value as usize));
    state
        .flatten()
        .cloned()
        .unwrap_or_else(|| value.to_string())
}

/// Registers of the flows that are meant.
fn flows(simulation: &mut Simulation, wanted: &FlowWanted) -> Vec<FlowWords> {
    let running = simulation.running();
    let Some(table) = running.flows(wanted.element) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut cursor = Cursor::default();
    loop {
        let is_end = table.walk(&mut cursor, WALK_COUNT, |_, entry| {
            let key: Vec<u64> = (0..crate::KEY_WORDS_MAX)
                .map(|word| entry.key(word))
                .collect();
            let mut wanted = wanted.key.iter();
            if wanted.all(|(part, value)| key_part(part, &key) == *value) {
                let mut words = FlowWords::default();
                words.load(entry.state_words());
                found.push(words);
            }
        });
        if is_end || found.len() > 1 {
            return found;
        }
    }
}

fn packets(count: usize) -> String {
    match count {
        1 => "1 packet".to_owned(),
        count => format!("{count} packets"),
    }
}

fn numbers(values: &[u128]) -> String {
    let values: Vec<String> = values.iter().map(ToString::to_string).collect();
    list(&values)
}

fn list(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    }
}

fn event((name, notice): &(String, Notice)) -> String {
    format!("{name}({})", numbers(notice.values()))
}
