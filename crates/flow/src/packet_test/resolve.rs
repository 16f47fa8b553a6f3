//! Holds a test file to its program: names become numbers, packets bytes.
//!
//! Between reading a file and running it. All that is wrong is told, each with its line: an output
//! that the program has not, a value that is too wide, a packet that is none.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use catena_engine::chain::document::Located;
use catena_engine::chain::{ChainErrors, Position};
use catena_engine::config::parse_config;

use super::model::{Emits as EmitsModel, Events as EventsModel, StepModel, TestFile};
use super::packet::{self, Names, number};
use crate::efsm::model::Text;
use crate::program::header::Field;
use crate::program::ir::{Element, FlowRegister, KeyPart, Program};
use crate::program::table::TableEntry;

/// Steps of a file, at most.
const STEP_COUNT_MAX: usize = 100_000;
/// Packets of a file, each as often as it comes, at most.
pub const PACKET_COUNT_MAX: u64 = 50_000_000;
/// Reasons for which packets are dropped, whatever the program says.
const OWN_REASONS: [&str; 3] = ["malformed", "no_headroom", "flow_full"];

/// A test file that fits its program, ready to run.
#[derive(Debug)]
pub struct Plan<'a> {
    pub(super) steps: Vec<Step>,
    located: Located<'a>,
}

/// A field with the value that it must have.
pub(super) type Wanted = (String, Field, u128);

/// A packet that must have left, or have been made.
#[derive(Debug, Default)]
pub(super) struct Leaves {
    pub(super) output: Option<String>,
    pub(super) bytes: Option<Vec<u8>>,
    pub(super) fields: Vec<Wanted>,
}

/// How many, or which.
#[derive(Debug)]
pub(super) enum Many<T> {
    Count(usize),
    Each(Vec<T>),
}

#[derive(Debug)]
pub(super) struct FlowWanted {
    pub(super) element: usize,
    pub(super) key: Vec<(KeyPart, u128)>,
    /// Registers, with what each must be; a state by its label.
    pub(super) is: Vec<(FlowRegister, u128, String)>,
    pub(super) absent: bool,
}

#[derive(Debug)]
pub(super) struct EventWanted {
    pub(super) name: String,
    pub(super) values: Option<Vec<u128>>,
    /// Parts of the flow's key, with what each must be.
    pub(super) key: Vec<(KeyPart, u128)>,
    /// For people: names of states, if values are labels.
    pub(super) states: Vec<String>,
}

#[derive(Debug)]
pub(super) struct EntryWanted {
    pub(super) table: usize,
    pub(super) entry: TableEntry,
    /// Which of its data must be as there.
    pub(super) data: Vec<usize>,
    pub(super) absent: bool,
}

/// A step with numbers for names.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) at_ns: u64,
    pub(super) input: u8,
    pub(super) packet: Option<Vec<u8>>,
    pub(super) times: u32,
    pub(super) set: Vec<EntryWanted>,
    pub(super) remove: Vec<EntryWanted>,
    pub(super) leaves: Leaves,
    pub(super) copies: Option<Vec<String>>,
    pub(super) emits: Option<Many<Leaves>>,
    pub(super) events: Option<Many<EventWanted>>,
    pub(super) flows: Vec<(String, usize, u32)>,
    pub(super) registers: Vec<FlowWanted>,
    pub(super) globals: Vec<(String, usize, u32, u64)>,
    pub(super) tables: Vec<EntryWanted>,
}

impl<'a> Plan<'a> {
    /// Reads the text of a file of this name as a test of a program.
    ///
    /// # Errors
    /// All that is wrong with it, with lines.
    pub fn read(file: &str, text: &'a str, program: &Program) -> Result<Self, ChainErrors> {
        let mut located = Located::parse(file, text)?;
        let mut steps = Vec::new();
        match parse_config::<TestFile>(&located.json()) {
            Ok(model) => {
                let mut resolving = Resolving {
                    program,
                    model: &model,
                    located: &mut located,
                };
                steps = resolving.steps();
            }
            Err(errors) => {
                for error in errors {
                    let repair = error
                        .repair
                        .as_deref()
                        .unwrap_or("see catena schema --flow-test");
                    located.error(&error.path, 0, &error.message, repair);
                }
            }
        }
        if located.has_errors() {
            return Err(located.finish().err().unwrap_or_else(|| ChainErrors {
                errors: Vec::new(),
                warnings: Vec::new(),
            }));
        }
        Ok(Self { steps, located })
    }

    /// How many steps it has.
    pub fn step_count(&self) -> usize {
        self.steps.len()
    }

    /// How many packets it sends.
    pub fn packet_count(&self) -> u64 {
        let sending = self.steps.iter().filter(|step| step.packet.is_some());
        sending.map(|step| u64::from(step.times)).sum()
    }

    /// Where something stands in the file.
    pub(super) fn place(&self, path: &str) -> Position {
        self.located.place(path, 0)
    }
}

pub(super) struct Resolving<'a, 'b> {
    pub(super) program: &'a Program,
    model: &'a TestFile,
    located: &'a mut Located<'b>,
}

/// What is wrong, and what there is instead.
pub(super) type Fault = (String, String);

/// The place of a name among those that there are.
pub(super) fn find<'a>(
    what: &str,
    name: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> Result<usize, Fault> {
    let at = known.clone().position(|one| one == name);
    at.ok_or_else(|| {
        let known: Vec<&str> = known.collect();
        let repair = match known.as_slice() {
            [] => format!("the program has no {what}"),
            known => format!("there is: {}", known.join(", ")),
        };
        (format!("the program has no {what} {name}"), repair)
    })
}

pub(super) fn plainly(message: String) -> Fault {
    (message, "see docs/reference/flow-test.md".to_owned())
}

impl Resolving<'_, '_> {
    /// What was found, or nothing, with the fault noted at its place.
    pub(super) fn noted<T>(&mut self, path: &str, found: Result<T, Fault>) -> Option<T> {
        match found {
            Ok(found) => Some(found),
            Err((message, repair)) => {
                self.located.error(path, 0, &message, &repair);
                None
            }
        }
    }

    fn steps(&mut self) -> Vec<Step> {
        let model = self.model;
        if model.steps.len() > STEP_COUNT_MAX {
            let message = format!("a file has at most {STEP_COUNT_MAX} steps");
            self.located
                .error("steps", 0, &message, "use times, or several files");
            return Vec::new();
        }
        for name in model.packets.keys() {
            let text = &model.packets[name];
            self.packet(&format!("packets.{name}"), text, None);
        }
        let mut steps = Vec::new();
        let mut sent = 0;
        for (number, step) in model.steps.iter().enumerate() {
            let path = format!("steps[{number}]");
            sent += step.packet.as_ref().map_or(0, |_| u64::from(step.times));
            if sent > PACKET_COUNT_MAX {
                let message = format!("a file sends at most {PACKET_COUNT_MAX} packets");
                let path = format!("{path}.times");
                self.located.error(&path, 0, &message, "send fewer");
                return Vec::new();
            }
            steps.push(self.step(&path, step));
        }
        steps
    }

    fn step(&mut self, path: &str, model: &StepModel) -> Step {
        let packet = model.packet.as_ref();
        let packet = packet.and_then(|text| self.packet(&format!("{path}.packet"), text, None));
        self.of_a_packet(path, model);
        let came = packet.as_deref();
        let leaves = Leaves {
            output: model.expect.clone(),
            ..self.leaves(path, model.bytes.as_ref(), &model.fields, came)
        };
        if let Some(expected) = &model.expect {
            let known = self.verdict(expected);
            self.noted(&format!("{path}.expect"), known);
        }
        for (number, name) in model.copies.iter().flatten().enumerate() {
            let known = self.output(name);
            self.noted(&format!("{path}.copies[{number}]"), known);
        }
        Step {
            at_ns: model.at.ns,
            input: model.input,
            times: model.times,
            set: self.entries(&format!("{path}.set"), &model.set),
            remove: self.entries(&format!("{path}.remove"), &model.remove),
            leaves,
            copies: model.copies.clone(),
            emits: self.emits(path, model.emits.as_ref(), came),
            events: self.events(path, model.events.as_ref()),
            flows: self.flows(path, model),
            registers: self.registers(path, &model.registers),
            globals: self.globals(path, model),
            tables: self.entries(&format!("{path}.tables"), &model.tables),
            packet,
        }
    }

    /// What is expected of a packet needs one.
    fn of_a_packet(&mut self, path: &str, model: &StepModel) {
        let wants = [
            ("expect", model.expect.is_some()),
            ("bytes", model.bytes.is_some()),
            ("fields", !model.fields.is_empty()),
            ("copies", model.copies.is_some()),
        ];
        for (key, _) in wants
            .iter()
            .filter(|(_, is_there)| *is_there && model.packet.is_none())
        {
            let message = "this step has no packet of which that could be expected";
            self.located
                .error(&format!("{path}.{key}"), 0, message, "add packet: ...");
        }
        if model.times == 0 {
            let message = "a packet comes at least once";
            self.located
                .error(&format!("{path}.times"), 0, message, "leave the packet out");
        }
    }

    fn packet(&mut self, path: &str, text: &str, came: Option<&[u8]>) -> Option<Vec<u8>> {
        let packets = &self.model.packets;
        let made = packet::packet(Names { packets, came }, text);
        let repair = "write hexadecimal digits, or words: udp 10.0.0.1:5 > 10.0.0.2:53";
        self.noted(path, made.map_err(|message| (message, repair.to_owned())))
    }

    fn output(&self, name: &str) -> Result<usize, Fault> {
        find(
            "output",
            name,
            self.program.outputs.iter().map(String::as_str),
        )
    }

    fn verdict(&self, name: &str) -> Result<usize, Fault> {
        let Some(reason) = name.strip_prefix('!') else {
            return self.output(name);
        };
        let reasons = self.program.reasons.iter().map(String::as_str);
        find("drop reason", reason, reasons.chain(OWN_REASONS))
    }

    fn leaves(
        &mut self,
        path: &str,
        bytes: Option<&String>,
        fields: &BTreeMap<String, Text>,
        came: Option<&[u8]>,
    ) -> Leaves {
        let bytes = bytes.and_then(|text| self.packet(&format!("{path}.bytes"), text, came));
        let mut wanted = Vec::new();
        for (name, value) in fields {
            let found = packet::field(name).and_then(|(field, _)| {
                let value = number(&value.text(), field.width)?;
                Ok((name.clone(), field, value))
            });
            // A name with a dot is no path: the list is what can be pointed at.
            let path = format!("{path}.fields");
            wanted.extend(self.noted(&path, found.map_err(plainly)));
        }
        Leaves {
            output: None,
            bytes,
            fields: wanted,
        }
    }

    fn emits(
        &mut self,
        path: &str,
        model: Option<&EmitsModel>,
        came: Option<&[u8]>,
    ) -> Option<Many<Leaves>> {
        Some(match model? {
            EmitsModel::Count(count) => Many::Count(*count),
            EmitsModel::Each(all) => {
                let each = all.iter().enumerate().map(|(number, one)| {
                    let path = format!("{path}.emits[{number}]");
                    if let Some(name) = &one.output {
                        let known = self.output(name);
                        self.noted(&format!("{path}.output"), known);
                    }
                    Leaves {
                        output: one.output.clone(),
                        ..self.leaves(&path, one.bytes.as_ref(), &one.fields, came)
                    }
                });
                Many::Each(each.collect())
            }
        })
    }

    fn events(&mut self, path: &str, model: Option<&EventsModel>) -> Option<Many<EventWanted>> {
        let all = match model? {
            EventsModel::Count(count) => return Some(Many::Count(*count)),
            EventsModel::Each(all) => all,
        };
        let mut each = Vec::new();
        for (number, one) in all.iter().enumerate() {
            let path = format!("{path}.events[{number}]");
            let names = self.program.events.iter().map(String::as_str);
            let event = find("event", &one.event, names);
            let event = self.noted(&format!("{path}.event"), event);
            let element = event.and_then(|event| self.program.changes_of(event as u16));
            let states = element.and_then(|element| element.flows.as_ref());
            let states = states.map_or_else(Vec::new, |flows| flows.states.clone());
            let value = |value: &Text| match states.as_slice() {
                [] => {
                    // A value tells no width: an address of IPv4 is one of 32 bits.
                    let text = value.text();
                    let is_ipv4 = text.parse::<Ipv4Addr>().is_ok();
                    packet::number(&text, if is_ipv4 { 32 } else { 128 }).map_err(plainly)
                }
                _ => find("state", &value.text(), states.iter().map(String::as_str))
                    .map(|label| label as u128),
            };
            let values = one.values.as_ref();
            let values = values.map(|values| values.iter().map(value).collect());
            let values = values.and_then(|values| self.noted(&format!("{path}.values"), values));
            let key = self.noted(&format!("{path}.key"), key_of(element, &one.key));
            each.push(EventWanted {
                name: one.event.clone(),
                values,
                key: key.unwrap_or_default(),
                states,
            });
        }
        Some(Many::Each(each))
    }
}

/// Parts of a key, with their values.
pub(super) fn key_of(
    element: Option<&Element>,
    wanted: &BTreeMap<String, Text>,
) -> Result<Vec<(KeyPart, u128)>, Fault> {
    let parts = element.map_or(&[][..], |element| &element.key.parts);
    let mut key = Vec::new();
    for (name, value) in wanted {
        let names = parts.iter().map(|part| &*part.name);
        let part = &parts[find("part of this key", name, names)?];
        let value = number(&value.text(), part.width).map_err(plainly)?;
        key.push((part.clone(), value));
    }
    Ok(key)
}
