//! An XL tree to a document.
//!
//! Third step of the importer. The document is JSON with the keys of a program's YAML, checked and
//! compiled as any other one.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value as Json, json};

use super::XlError;
use super::lexer::tokens;
use super::parser::{
    Action, Condition, Definitions, If, Stage, State, Step, Term, Tree, Value, parse,
};

/// Most files that import each other.
const IMPORT_COUNT_MAX: usize = 32;
/// Most levels of macro actions.
const MACRO_DEPTH_MAX: usize = 8;

/// Fields of an untagged Ethernet frame with IPv4 of 20 bytes: first byte, count, name.
const FIELDS: [(u64, u64, &str); 22] = [
    (0, 6, "eth.dst"),
    (6, 6, "eth.src"),
    (12, 2, "eth.type"),
    (15, 1, "ipv4.tos"),
    (16, 2, "ipv4.len"),
    (18, 2, "ipv4.id"),
    (22, 1, "ipv4.ttl"),
    (23, 1, "ipv4.protocol"),
    (24, 2, "ipv4.checksum"),
    (26, 4, "ipv4.src"),
    (30, 4, "ipv4.dst"),
    (34, 2, "l4.src_port"),
    (36, 2, "l4.dst_port"),
    (38, 4, "tcp.seq"),
    (42, 4, "tcp.ack_seq"),
    (47, 1, "tcp.flags"),
    (48, 2, "tcp.window"),
    (50, 2, "tcp.checksum"),
    (52, 2, "tcp.urgent"),
    (34, 1, "icmp.type"),
    (35, 1, "icmp.code"),
    (38, 2, "udp.len"),
];

pub(super) fn convert(
    file: &str,
    text: &str,
    mut read: impl FnMut(&str) -> Result<String, String>,
) -> Result<Json, XlError> {
    let mut tree = parse(file, tokens(file, text)?)?;
    let mut wanted: Vec<(String, usize)> = std::mem::take(&mut tree.imports);
    let mut seen = BTreeSet::new();
    while let Some((name, line)) = wanted.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        if seen.len() > IMPORT_COUNT_MAX {
            return Err(XlError::new(
                file,
                line,
                "too many imports",
                "join some files",
            ));
        }
        let text = read(&name)
            .map_err(|error| XlError::new(file, line, format!("{name}: {error}"), "name a file"))?;
        let other = parse(&name, tokens(&name, &text)?)?;
        tree.fields.extend(other.fields);
        tree.constants.extend(other.constants);
        wanted.extend(other.imports);
    }
    Converter::new(file, &tree)?.document(&tree)
}

struct Converter<'a> {
    file: &'a str,
    fields: BTreeMap<(String, String), String>,
    constants: BTreeMap<String, Term>,
    globals: BTreeSet<String>,
    /// Registers of the stage at hand.
    registers: BTreeSet<String>,
    macros: BTreeMap<String, Vec<Step>>,
    events: BTreeMap<String, Vec<Condition>>,
    outputs: BTreeSet<u64>,
}

type Converted<T> = Result<T, XlError>;

impl<'a> Converter<'a> {
    fn new(file: &'a str, tree: &Tree) -> Converted<Self> {
        let mut fields = BTreeMap::new();
        for (container, name, from, count) in &tree.fields {
            let text = bytes(file, 1, *from, *count)?;
            fields.insert((container.clone(), name.clone()), text);
        }
        Ok(Self {
            file,
            fields,
            constants: tree.constants.iter().cloned().collect(),
            globals: BTreeSet::new(),
            registers: BTreeSet::new(),
            macros: BTreeMap::new(),
            events: BTreeMap::new(),
            outputs: BTreeSet::new(),
        })
    }

    fn fail<T>(&self, line: usize, message: impl Into<String>, repair: &str) -> Converted<T> {
        Err(XlError::new(self.file, line, message, repair))
    }

    fn define(&mut self, definitions: &Definitions) {
        for (name, is_global, _) in &definitions.registers {
            let to = if *is_global {
                &mut self.globals
            } else {
                &mut self.registers
            };
            to.insert(name.clone());
        }
        self.macros.extend(definitions.macros.iter().cloned());
        self.events.extend(definitions.events.iter().cloned());
    }

    fn document(mut self, tree: &Tree) -> Converted<Json> {
        if tree.stages.is_empty() {
            return self.fail(
                1,
                "there is no stage and no state",
                "write Stage NAME { ... }",
            );
        }
        let mut elements = Vec::new();
        for stage in &tree.stages {
            self.registers.clear();
            self.macros.clear();
            self.events.clear();
            self.define(&tree.definitions);
            self.define(&stage.definitions);
            elements.push(self.element(stage)?);
        }
        let global = |name: &String| (name.clone(), json!({"width": 64, "scope": "per_core"}));
        let globals: serde_json::Map<String, Json> = self.globals.iter().map(global).collect();
        let mut outputs: Vec<String> = self
            .outputs
            .iter()
            .map(|port| format!("port_{port}"))
            .collect();
        if outputs.is_empty() {
            outputs.push("out".to_owned());
        }
        Ok(json!({
            "outputs": outputs,
            "globals": globals,
            "elements": elements,
        }))
    }

    fn element(&mut self, stage: &Stage) -> Converted<Json> {
        let (mut key, mut update_key) = (Vec::new(), Vec::new());
        for step in &stage.body {
            match &step.action {
                Action::Call(name, terms) if name == "setFlowKey" || name == "setUpdateKey" => {
                    let to = if name == "setFlowKey" {
                        &mut key
                    } else {
                        &mut update_key
                    };
                    for term in terms {
                        to.push(self.term(term, step.line)?);
                    }
                }
                _ => {
                    let repair = "write it in a state; a stage's own actions set its keys";
                    return self.fail(step.line, "a stage does not act", repair);
                }
            }
        }
        if key.is_empty() {
            let repair = "write setFlowKey(ipv4.src);";
            return self.fail(stage.line, "the stage has no flow key", repair);
        }
        let own = |state: &&State| state.name != "any";
        let initial = stage
            .states
            .iter()
            .find(|state| state.is_initial && own(state));
        let Some(initial) = initial.or_else(|| stage.states.iter().find(own)) else {
            return self.fail(
                stage.line,
                "the stage has no state",
                "write State initial NAME {}",
            );
        };
        let mut transitions = Vec::new();
        for state in stage
            .states
            .iter()
            .filter(own)
            .chain(stage.states.iter().filter(|one| !own(one)))
        {
            self.state(state, stage, &mut transitions)?;
        }
        let states = stage
            .states
            .iter()
            .filter(own)
            .map(|state| (state.name.clone(), json!({})));
        let registers = self.registers.iter().map(|name| (name.clone(), json!(64)));
        let mut element = json!({
            "name": stage.name,
            "key": key,
            "registers": Json::Object(registers.collect()),
            "initial": initial.name,
            "states": Json::Object(states.collect()),
            "transitions": transitions,
            "otherwise": ["drop(no_transition)"],
            "keyless": ["drop(no_key)"],
        });
        if !update_key.is_empty() {
            element["update_key"] = json!(update_key);
        }
        Ok(element)
    }

    /// Transitions of a state: one for each `if`, then one for what is done in any case.
    fn state(&mut self, state: &State, stage: &Stage, all: &mut Vec<Json>) -> Converted<()> {
        let is_any = state.name == "any";
        let mut add = |this: &mut Self, when: &[Condition], steps: Vec<&Step>, line: usize| {
            let steps: Vec<Step> = steps.into_iter().cloned().collect();
            let (statements, next) = this.steps(&steps, stage)?;
            let mut transition = json!({"do": statements});
            if !is_any {
                transition["from"] = json!([state.name]);
            }
            if !when.is_empty() {
                transition["if"] = json!(this.conditions(when, line)?);
            }
            if let Some(next) = next {
                transition["next"] = json!(next);
            }
            all.push(transition);
            Ok::<(), XlError>(())
        };
        if state.events.is_empty() {
            return add(self, &[], state.body.iter().collect(), state.line);
        }
        for event in &state.events {
            let own = match event.event.as_str() {
                "pktRcvd" => Vec::new(),
                name => match self.events.get(name) {
                    Some(conditions) => conditions.clone(),
                    None => {
                        let message = format!("the event {name} is not mapped");
                        let repair = "only pktRcvd and events that the program defines are; for \
                                      timeouts write a program with idle or hard";
                        return self.fail(event.line, message, repair);
                    }
                },
            };
            let always: Vec<&Step> = state.body.iter().chain(&event.body).collect();
            for If {
                line,
                conditions,
                body,
            } in &event.ifs
            {
                let when = [&own[..], &conditions[..]].concat();
                let steps = always.iter().copied().chain(body).collect();
                add(self, &when, steps, *line)?;
            }
            if event.ifs.is_empty() || !always.is_empty() {
                add(self, &own, always, event.line)?;
            }
        }
        Ok(())
    }

    fn conditions(&self, conditions: &[Condition], line: usize) -> Converted<String> {
        let mut parts = Vec::new();
        for Condition { left, sign, right } in conditions {
            let (left, right) = (self.term(left, line)?, self.term(right, line)?);
            parts.push(format!("{left} {sign} {right}"));
        }
        Ok(parts.join(" && "))
    }

    /// Statements, and the state that follows.
    fn steps(&mut self, steps: &[Step], stage: &Stage) -> Converted<(Vec<String>, Option<String>)> {
        let mut flat = Vec::new();
        self.expand(steps, 0, &mut flat)?;
        let (mut statements, mut next) = (Vec::new(), None);
        for step in &flat {
            match &step.action {
                Action::Assign(name, value) => {
                    let target = self.register(name, step.line)?;
                    let value = self.value(value, step.line)?;
                    statements.push(format!("{target} = {value}"));
                }
                Action::Call(name, terms) => {
                    if name == "setNextState" {
                        next = Some(self.next_state(terms, stage, step.line)?);
                    } else {
                        statements.push(self.call(name, terms, step.line)?);
                    }
                }
            }
        }
        Ok((statements, next))
    }

    /// Macro actions written out.
    fn expand(&self, steps: &[Step], depth: usize, flat: &mut Vec<Step>) -> Converted<()> {
        for step in steps {
            let Action::Call(name, _) = &step.action else {
                flat.push(step.clone());
                continue;
            };
            let Some(body) = self.macros.get(name) else {
                flat.push(step.clone());
                continue;
            };
            if depth == MACRO_DEPTH_MAX {
                return self.fail(step.line, format!("{name} calls itself"), "write it out");
            }
            self.expand(body, depth + 1, flat)?;
        }
        Ok(())
    }

    fn next_state(&self, terms: &[Term], stage: &Stage, line: usize) -> Converted<String> {
        match terms {
            [Term::Name(name)] if stage.states.iter().any(|state| state.name == *name) => {
                Ok(name.clone())
            }
            _ => self.fail(
                line,
                "this is no state of the stage",
                "write setNextState(NAME);",
            ),
        }
    }

    fn call(&mut self, name: &str, terms: &[Term], line: usize) -> Converted<String> {
        match (name, terms) {
            ("sendPacket", [packet, port]) => {
                self.current(packet, line)?;
                match self.number(port) {
                    Some(0) => Ok("drop(no_port)".to_owned()),
                    Some(port) if port < 64 => {
                        self.outputs.insert(port);
                        Ok(format!("output(port_{port})"))
                    }
                    _ => self.fail(line, "the port is no number below 64", "write a number"),
                }
            }
            ("setField", [field, packet, value]) => {
                self.current(packet, line)?;
                let (field, value) = (self.term(field, line)?, self.term(value, line)?);
                Ok(format!("{field} = {value}"))
            }
            ("deletePacket", [packet]) => {
                self.current(packet, line)?;
                Ok("drop(deleted)".to_owned())
            }
            ("deleteInstance", []) => Ok("forget()".to_owned()),
            _ => {
                let repair = "sendPacket, setField, setNextState, deletePacket and deleteInstance \
                              are; write the rest as a program";
                self.fail(
                    line,
                    format!("{name} with these arguments is not mapped"),
                    repair,
                )
            }
        }
    }

    /// Packets are the one at hand: 255.
    fn current(&self, packet: &Term, line: usize) -> Converted<()> {
        if self.number(packet) == Some(255) {
            return Ok(());
        }
        let repair =
            "write 255: the packet at hand; for packets of a program's own write templates";
        self.fail(line, "stored packets are not mapped", repair)
    }

    fn number(&self, term: &Term) -> Option<u64> {
        match term {
            Term::Number(number) => Some(*number),
            Term::Name(name) => match self.constants.get(name) {
                Some(Term::Number(number)) => Some(*number),
                _ => None,
            },
            _ => None,
        }
    }

    fn register(&self, name: &str, line: usize) -> Converted<String> {
        if self.registers.contains(name) {
            Ok(format!("flow.{name}"))
        } else if self.globals.contains(name) {
            Ok(format!("global.{name}"))
        } else {
            self.fail(
                line,
                format!("there is no register {name}"),
                "write Register NAME;",
            )
        }
    }

    fn value(&self, value: &Value, line: usize) -> Converted<String> {
        Ok(match value {
            Value::One(term) => self.term(term, line)?,
            Value::Two(sign, one, other) => {
                // Registers have 64 bits, and so has what is computed of them.
                let wide = |term: &Term| {
                    let text = self.term(term, line)?;
                    Ok::<String, XlError>(match term {
                        Term::Number(_) => format!("({text} as 64)"),
                        _ => text,
                    })
                };
                let (one, other) = (wide(one)?, wide(other)?);
                match sign.as_str() {
                    "min" | "max" => format!("{sign}({one}, {other})"),
                    sign => format!("{one} {sign} {other}"),
                }
            }
        })
    }

    fn term(&self, term: &Term, line: usize) -> Converted<String> {
        match term {
            Term::Number(number) => Ok(number.to_string()),
            Term::Address(text) => Ok(text.clone()),
            Term::Name(name) if name == "currentTime" => Ok("(now / 1000)".to_owned()),
            Term::Name(name) => match self.constants.get(name) {
                Some(constant) => self.term(constant, line),
                None => self.register(name, line),
            },
            Term::Field(event, field) if event == "pktRcvd" => match field.as_str() {
                "port" => Ok("((packet.input as 16) + 1)".to_owned()),
                "length" | "len" => Ok("packet.len".to_owned()),
                _ => self.fail(line, format!("pktRcvd.{field} is not mapped"), "use port"),
            },
            Term::Field(container, field) => {
                let key = (container.clone(), field.clone());
                match self.fields.get(&key) {
                    Some(text) => Ok(text.clone()),
                    None => {
                        let message = format!("{container}.{field} is not declared");
                        self.fail(
                            line,
                            message,
                            "write PacketField, or import a file that does",
                        )
                    }
                }
            }
            Term::Bytes(container, field, from, count)
                if container == "packet" && field == "data" =>
            {
                bytes(self.file, line, *from, *count)
            }
            Term::Bytes(container, field, ..) => {
                let message = format!("{container}.{field}[...] is not mapped");
                self.fail(line, message, "use packet.data")
            }
        }
    }
}

/// Bytes of a packet: a field by its name where they are one.
fn bytes(file: &str, line: usize, from: u64, count: u64) -> Converted<String> {
    if !(1..=16).contains(&count) || from > 9000 {
        return Err(XlError::new(
            file,
            line,
            "fields have 1 to 16 bytes",
            "split the field",
        ));
    }
    let found = FIELDS
        .iter()
        .find(|(at, len, _)| (*at, *len) == (from, count));
    Ok(match found {
        Some((.., name)) => (*name).to_owned(),
        None => format!("packet[{from}:+{count}]"),
    })
}
