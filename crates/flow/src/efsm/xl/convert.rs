//! An XL tree to a document.
//!
//! Third step of the importer. The document is JSON with the keys of a program's YAML, checked and
//! compiled as any other one.

use std::collections::{BTreeMap, BTreeSet};

use catena_engine::config::parse_config;
use serde_json::{Value as Json, json};

use super::super::compile::compile;
use super::super::model::Document;

use super::XlError;
use super::fields::bytes;
use super::lexer::tokens;
use super::parser::{Action, Condition, Definitions, If, Stage, State, Step, Term, Tree, parse};

/// Most files that import each other.
const IMPORT_COUNT_MAX: usize = 32;
/// Most levels of macro actions.
const MACRO_DEPTH_MAX: usize = 8;
/// Most actions and conditions, with macros written out.
const WRITTEN_MAX: usize = 20_000;

pub(super) fn convert(
    file: &str,
    text: &str,
    mut read: impl FnMut(&str) -> Result<String, String>,
) -> Result<Json, XlError> {
    let mut tree = parse(file, tokens(file, text)?)?;
    let mut wanted: Vec<(String, usize)> = std::mem::take(&mut tree.imports);
    let mut seen = BTreeSet::new();
    let mut names = Names::default();
    names.add(file, &tree)?;
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
        let own = &other.definitions;
        let is_more = !(other.stages.is_empty()
            && own.registers.is_empty()
            && own.events.is_empty()
            && own.macros.is_empty());
        if is_more {
            let message = format!("{name} has more than packet fields and constants");
            let repair = "move the rest into the file that imports it";
            return Err(XlError::new(file, line, message, repair));
        }
        names.add(&name, &other)?;
        wanted.extend(other.imports);
    }
    let mut converter = Converter::new(file, names);
    let document = converter.document(&tree)?;
    compiled(file, &document, &converter.places)?;
    Ok(document)
}

/// Compiles what was made; the first error by its line of the program.
fn compiled(file: &str, document: &Json, places: &[(String, usize)]) -> Result<(), XlError> {
    let problems = match parse_config::<Document>(document) {
        Ok(document) => match compile(&document) {
            Ok(_) => return Ok(()),
            Err(problems) => problems
                .into_iter()
                .filter(|one| one.is_error)
                .map(|one| (one.path, one.message, one.repair))
                .collect(),
        },
        Err(errors) => {
            let repair = "write that part as a program".to_owned();
            let told = |one: catena_engine::config::ConfigError| {
                let repair = one.repair.unwrap_or_else(|| repair.clone());
                (one.path, one.message, repair)
            };
            errors.into_iter().map(told).collect::<Vec<_>>()
        }
    };
    let located = problems.into_iter().map(|(path, message, repair)| {
        let is_in = |place: &&(String, usize)| {
            let behind = path.strip_prefix(place.0.as_str());
            behind.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let place = places
            .iter()
            .filter(is_in)
            .max_by_key(|(path, _)| path.len());
        let line = place.map_or(1, |(_, line)| *line);
        XlError::new(file, line, message, repair)
    });
    Err(located
        .min_by_key(|error| error.line)
        .unwrap_or_else(|| XlError::new(file, 1, "it is no program", "simplify it")))
}

/// What files declare for all stages.
#[derive(Default)]
pub(super) struct Names {
    /// Text and bytes of a field.
    pub(super) fields: BTreeMap<(String, String), (String, u64)>,
    pub(super) constants: BTreeMap<String, Term>,
}

impl Names {
    fn add(&mut self, file: &str, tree: &Tree) -> Result<(), XlError> {
        for field in &tree.fields {
            let text = bytes(file, field.line, field.from, field.count)?;
            let key = (field.container.clone(), field.name.clone());
            let shown = format!("{}.{}", field.container, field.name);
            let before = self.fields.insert(key, (text, field.count));
            once(file, field.line, &shown, before.is_some())?;
        }
        for (name, value, line) in &tree.constants {
            let before = self.constants.insert(name.clone(), value.clone());
            once(file, *line, name, before.is_some())?;
        }
        Ok(())
    }
}

/// Refuses what was declared before.
fn once(file: &str, line: usize, name: &str, is_known: bool) -> Result<(), XlError> {
    if !is_known {
        return Ok(());
    }
    let message = format!("{name} is declared twice");
    Err(XlError::new(
        file,
        line,
        message,
        "rename or remove one of the two",
    ))
}

/// Statements and their lines.
type Lines = Vec<(String, usize)>;

fn is_verdict(statement: &str) -> bool {
    statement.starts_with("output(") || statement.starts_with("drop(")
}

pub(super) struct Converter<'a> {
    pub(super) file: &'a str,
    pub(super) names: Names,
    pub(super) globals: BTreeSet<String>,
    /// Registers of the stage at hand.
    pub(super) registers: BTreeSet<String>,
    macros: BTreeMap<String, Vec<Step>>,
    events: BTreeMap<String, Vec<Condition>>,
    outputs: BTreeSet<u64>,
    /// Paths of the document and the lines that they come from.
    places: Vec<(String, usize)>,
    /// How many actions and conditions may still be written out.
    left: usize,
}

pub(super) type Converted<T> = Result<T, XlError>;

impl<'a> Converter<'a> {
    fn new(file: &'a str, names: Names) -> Self {
        Self {
            file,
            names,
            globals: BTreeSet::new(),
            registers: BTreeSet::new(),
            macros: BTreeMap::new(),
            events: BTreeMap::new(),
            outputs: BTreeSet::new(),
            places: Vec::new(),
            left: WRITTEN_MAX,
        }
    }

    fn place(&mut self, path: String, line: usize) {
        self.places.push((path, line));
    }

    /// Takes of what may be written out: macros, and what stands in front of each `if`, multiply.
    fn take(&mut self, count: usize, line: usize) -> Converted<()> {
        match self.left.checked_sub(count) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                let message = format!("over {WRITTEN_MAX} actions, with macros written out");
                self.fail(line, message, "use fewer macros, states or ifs")
            }
        }
    }

    pub(super) fn fail<T>(
        &self,
        line: usize,
        message: impl Into<String>,
        repair: &str,
    ) -> Converted<T> {
        Err(XlError::new(self.file, line, message, repair))
    }

    fn define(&mut self, definitions: &Definitions, number: usize) -> Converted<()> {
        for (name, is_global, line) in &definitions.registers {
            let path = match is_global {
                true => format!("globals.{name}"),
                false => format!("elements[{number}].registers.{name}"),
            };
            // What stands in front of all stages is declared anew for each of them.
            let is_again = self.places.contains(&(path.clone(), *line)) && *is_global;
            let is_known = self.registers.contains(name) || self.globals.contains(name);
            once(self.file, *line, name, is_known && !is_again)?;
            self.place(path, *line);
            let to = match is_global {
                true => &mut self.globals,
                false => &mut self.registers,
            };
            to.insert(name.clone());
        }
        for (name, body, line) in &definitions.macros {
            let before = self.macros.insert(name.clone(), body.clone());
            once(self.file, *line, name, before.is_some())?;
        }
        for (name, conditions, line) in &definitions.events {
            let before = self.events.insert(name.clone(), conditions.clone());
            once(self.file, *line, name, before.is_some())?;
        }
        Ok(())
    }

    fn document(&mut self, tree: &Tree) -> Converted<Json> {
        if tree.stages.is_empty() {
            return self.fail(
                1,
                "there is no stage and no state",
                "write Stage NAME { ... }",
            );
        }
        let mut elements = Vec::new();
        for (number, stage) in tree.stages.iter().enumerate() {
            self.registers.clear();
            self.macros.clear();
            self.events.clear();
            self.define(&tree.definitions, number)?;
            self.define(&stage.definitions, number)?;
            elements.push(self.element(stage, number)?);
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

    fn element(&mut self, stage: &Stage, number: usize) -> Converted<Json> {
        let path = format!("elements[{number}]");
        self.place(path.clone(), stage.line);
        self.states_once(stage, &path)?;
        let (mut key, mut update_key) = (Vec::new(), Vec::new());
        for step in &stage.body {
            match &step.action {
                Action::Call(name, terms) if name == "setFlowKey" || name == "setUpdateKey" => {
                    let (to, member) = match name.as_str() {
                        "setFlowKey" => (&mut key, "key"),
                        _ => (&mut update_key, "update_key"),
                    };
                    once(self.file, step.line, name, !to.is_empty())?;
                    for term in terms {
                        to.push(self.term(term, step.line)?);
                    }
                    self.place(format!("{path}.{member}"), step.line);
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
            self.state(state, stage, (&path, &mut transitions))?;
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

    /// States have names of their own, and one of them is the first.
    fn states_once(&mut self, stage: &Stage, path: &str) -> Converted<()> {
        for (at, state) in stage.states.iter().enumerate() {
            let before = &stage.states[..at];
            let is_known = before.iter().any(|other| other.name == state.name);
            once(self.file, state.line, &state.name, is_known)?;
            if state.is_initial && before.iter().any(|other| other.is_initial) {
                return self.fail(state.line, "two states are initial", "leave initial at one");
            }
            if state.is_initial && state.name == "any" {
                let repair = "name another state: any stands for all of them";
                return self.fail(state.line, "any is no state to begin in", repair);
            }
            self.place(format!("{path}.states.{}", state.name), state.line);
        }
        Ok(())
    }

    /// Transitions of a state: one for each `if`, then one for what is done in any case.
    fn state(
        &mut self,
        state: &State,
        stage: &Stage,
        (path, all): (&str, &mut Vec<Json>),
    ) -> Converted<()> {
        let is_any = state.name == "any";
        let mut add = |this: &mut Self, when: &[Condition], steps: Vec<&Step>, line: usize| {
            this.take(steps.len() + when.len() + 1, line)?;
            let steps: Vec<Step> = steps.into_iter().cloned().collect();
            let (statements, next) = this.steps(&steps, stage)?;
            let path = format!("{path}.transitions[{}]", all.len());
            for (at, (_, line)) in statements.iter().enumerate() {
                this.place(format!("{path}.do[{at}]"), *line);
            }
            this.place(path, line);
            let statements: Vec<&String> = statements.iter().map(|(text, _)| text).collect();
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

    /// Statements with their lines, and the state that follows.
    fn steps(&mut self, steps: &[Step], stage: &Stage) -> Converted<(Lines, Option<String>)> {
        let mut flat = Vec::new();
        self.expand(steps, 0, &mut flat)?;
        let (mut statements, mut next) = (Lines::new(), None);
        for step in &flat {
            match &step.action {
                Action::Assign(name, value) => {
                    let target = self.register(name, step.line)?;
                    let value = self.value(value, step.line)?;
                    statements.push((format!("{target} = {value}"), step.line));
                }
                Action::Call(name, terms) => {
                    if name == "setNextState" {
                        next = Some(self.next_state(terms, stage, step.line)?);
                        continue;
                    }
                    let text = self.call(name, terms, step.line)?;
                    if is_verdict(&text) {
                        // A later one takes its place: those of an `if` those of its state.
                        statements.retain(|(other, _)| !is_verdict(other));
                    }
                    statements.push((text, step.line));
                }
            }
        }
        Ok((statements, next))
    }

    /// Macro actions written out.
    fn expand(&mut self, steps: &[Step], depth: usize, flat: &mut Vec<Step>) -> Converted<()> {
        for step in steps {
            self.take(1, step.line)?;
            let Action::Call(name, _) = &step.action else {
                flat.push(step.clone());
                continue;
            };
            let Some(body) = self.macros.get(name).cloned() else {
                flat.push(step.clone());
                continue;
            };
            if let Action::Call(_, terms) = &step.action
                && !terms.is_empty()
            {
                let message = format!("{name} is an action of the program's, without arguments");
                return self.fail(step.line, message, "write it without them");
            }
            if depth == MACRO_DEPTH_MAX {
                return self.fail(step.line, format!("{name} calls itself"), "write it out");
            }
            self.expand(&body, depth + 1, flat)?;
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
}
