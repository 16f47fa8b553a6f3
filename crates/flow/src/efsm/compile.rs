//! A document to a program: names first, then each element, then what is suspicious.
//!
//! Control path. All that is wrong is told at once, each with its path; a program comes out only if
//! nothing is.

use catena_engine::units::Rate;

use crate::meter::{Gcra, MeterError, SrTcm, TrTcm, Window};
use crate::program::field::ones;
use crate::program::header::Header;
use crate::program::ir::{Global, Meter, MeterKind, Program, Scope, Slot, Verdict, Width};
use crate::program::table::{Match, Pattern, TableEntry, TableShape};
use crate::program::template::Template;
use crate::program::verify::verify;

use super::check;
use super::element::{ElementLowering, FORGET, Parsed, Transition, conjuncts, registers};
use super::expression::{Expression, Infix, Node, Statement};
use super::model::{
    Document, ElementModel, EntryModel, Malformed, MeterModel, On, ScopeModel, TableModel, Text,
};
use super::names::{ElementNames, Meaning, ProgramNames};
use super::problem::{Problem, Problems};
use super::syntax;

/// A program and what is suspicious about it.
#[derive(Debug)]
pub struct Compiled {
    /// The program, verified.
    pub program: Program,
    /// What its author may want to look at.
    pub warnings: Vec<Problem>,
}

/// Makes a program of a document.
///
/// # Errors
/// All that is wrong with it, warnings among it.
pub fn compile(document: &Document) -> Result<Compiled, Vec<Problem>> {
    let mut problems = Problems::default();
    let program = Compiling {
        document,
        problems: &mut problems,
        names: ProgramNames::default(),
        widths: Vec::new(),
    }
    .program();
    match program {
        Some(program) if !problems.has_errors() => {
            if let Err(fault) = verify(&program) {
                // A rule that the steps above ought to have told in the author's words.
                problems.error("", fault.to_string(), "simplify the element");
                return Err(problems.found);
            }
            Ok(Compiled {
                program,
                warnings: problems.found,
            })
        }
        _ => Err(problems.found),
    }
}

struct Compiling<'a> {
    document: &'a Document,
    problems: &'a mut Problems,
    names: ProgramNames,
    widths: Vec<Width>,
}

impl Compiling<'_> {
    fn program(mut self) -> Option<Program> {
        self.outputs();
        self.constants();
        self.globals();
        let tables = &self.document.tables;
        for (name, table) in tables {
            self.table(name, table);
        }
        self.templates();
        self.metadata();
        let mut elements = Vec::new();
        let mut is_whole = true;
        let (mut read, mut written) = Default::default();
        for (number, model) in self.document.elements.iter().enumerate() {
            match self.element(number, model, (&mut read, &mut written)) {
                Some(element) => elements.push(element),
                None => is_whole = false,
            }
        }
        if self.document.elements.is_empty() {
            let repair = "write at least one element";
            self.problems.error("elements", "there is no element", repair);
        }
        check::globals(self.document, &read, &written, self.problems);
        is_whole.then(|| Program {
            metadata: self.widths,
            elements,
            globals: self.names.globals,
            tables: self.names.tables,
            meters: self.names.meters,
            templates: self.names.templates,
            outputs: self.names.outputs,
            reasons: self.names.reasons,
            events: self.names.events,
            notes: self.names.notes,
            verdict: Verdict::Output(0),
            takes_malformed: self.document.malformed == Malformed::Pass,
        })
    }

    fn outputs(&mut self) {
        self.names.outputs.clone_from(&self.document.outputs);
        let count = self.document.outputs.len();
        if count == 0 || count > crate::program::verify::OUTPUT_COUNT_MAX {
            self.problems.error("outputs", "there are 1 to 64 outputs", "name one at least");
        }
        for (number, name) in self.document.outputs.iter().enumerate() {
            if self.document.outputs[..number].contains(name) {
                let path = format!("outputs[{number}]");
                self.problems.error(&path, format!("{name} is named twice"), "remove one");
            }
        }
    }

    fn constants(&mut self) {
        for (name, text) in &self.document.constants {
            let path = format!("constants.{name}");
            if name.contains('.') || name == "now" {
                self.problems.error(&path, "this is no name for a constant", "use letters and _");
            }
            let node = syntax::expression(&text.text());
            if let Some(node) = self.problems.take(&path, node) {
                self.names.constants.insert(name.clone(), node);
            }
        }
    }

    /// A number that a string stands for.
    fn number(&mut self, path: &str, text: &Text) -> Option<u128> {
        let node = self.problems.take(path, syntax::expression(&text.text()))?;
        let value = fold(&self.names, &node, 0);
        if value.is_none() {
            let repair = "write a number, an address, or a constant";
            self.problems.error(path, format!("{node} is no number"), repair);
        }
        value
    }

    fn globals(&mut self) {
        for (name, model) in &self.document.globals {
            let path = format!("globals.{name}");
            if !(1..=64).contains(&model.width) {
                let repair = "write a width from 1 to 64";
                self.problems.error(&format!("{path}.width"), "it has 1 to 64 bits", repair);
            } else if u128::from(model.initial) > ones(model.width) {
                let repair = "write a smaller number, or more bits";
                self.problems.error(&format!("{path}.initial"), "it does not fit", repair);
            }
            if model.count == 0 || model.count > 1 << 24 {
                let repair = "write 1 or more";
                self.problems.error(&format!("{path}.count"), "there are 1 to 2^24", repair);
            }
            self.names.globals.push(Global {
                name: name.clone(),
                width: model.width.clamp(1, 64),
                count: model.count.clamp(1, 1 << 24),
                initial: model.initial,
                scope: match model.scope {
                    ScopeModel::Shared => Scope::Shared,
                    ScopeModel::PerCore => Scope::PerCore,
                    ScopeModel::Merged => Scope::Merged,
                },
            });
        }
    }

    fn table(&mut self, name: &str, model: &TableModel) {
        let path = format!("tables.{name}");
        if Header::named(name).is_some() || ["flow", "global", "meta", "packet"].contains(&name) {
            let message = format!("{name} is a name of something else");
            self.problems.error(&path, message, "name the table otherwise");
        }
        let mut key = Vec::new();
        for (number, text) in model.key.iter().enumerate() {
            let mut words = text.split_whitespace();
            let kind = match words.next() {
                Some("exact") => Some(Match::Exact),
                Some("prefix") => Some(Match::Prefix),
                Some("ternary") => Some(Match::Ternary),
                Some("range") => Some(Match::Range),
                _ => None,
            };
            let width = words.next().and_then(|word| word.parse().ok());
            match (kind, width.filter(|width| (1..=128).contains(width)), words.next()) {
                (Some(kind), Some(width), None) => key.push((kind, width)),
                _ => self.problems.error(
                    &format!("{path}.key[{number}]"),
                    format!("\"{text}\" is no key"),
                    "write exact, prefix, ternary or range, and a number of bits",
                ),
            }
        }
        let data: Vec<(String, Width)> =
            model.data.iter().map(|(name, width)| (name.clone(), *width)).collect();
        let mut shape = TableShape {
            name: name.to_owned(),
            key,
            default: vec![0; data.len()],
            data,
            entries: Vec::new(),
            capacity: model.size,
        };
        let default = self.data(&format!("{path}.default"), &shape, &model.default);
        shape.default = default.unwrap_or_else(|| vec![0; shape.data.len()]);
        for (number, entry) in model.entries.iter().enumerate() {
            let path = format!("{path}.entries[{number}]");
            if let Some(entry) = self.entry(&path, &shape, entry) {
                shape.entries.push(entry);
            }
        }
        if shape.entries.len() > shape.capacity {
            self.problems.error(&path, "it has more entries than its size", "write a larger size");
        }
        self.names.tables.push(shape);
    }

    fn data(
        &mut self,
        path: &str,
        shape: &TableShape,
        given: &std::collections::BTreeMap<String, Text>,
    ) -> Option<Vec<u128>> {
        let mut data = shape.default.clone();
        let mut is_right = true;
        for (name, text) in given {
            let path = format!("{path}.{name}");
            let value = self.number(&path, text);
            let Some(at) = shape.data.iter().position(|(known, _)| known == name) else {
                let repair = "name one of the table's data";
                self.problems.error(&path, format!("the table has no {name}"), repair);
                is_right = false;
                continue;
            };
            match value {
                Some(value) if value <= ones(shape.data[at].1) => data[at] = value,
                Some(_) => {
                    let message = format!("it does not fit {} bits", shape.data[at].1);
                    self.problems.error(&path, message, "write a smaller number");
                    is_right = false;
                }
                None => is_right = false,
            }
        }
        is_right.then_some(data)
    }

    fn entry(&mut self, path: &str, shape: &TableShape, model: &EntryModel) -> Option<TableEntry> {
        let mut key = Vec::new();
        for (number, (text, (kind, width))) in model.key.iter().zip(&shape.key).enumerate() {
            let path = format!("{path}.key[{number}]");
            match pattern(&self.names, &text.text(), *kind, *width) {
                Ok(pattern) => key.push(pattern),
                Err(message) => {
                    let repair = "write 80, 10.0.0.0/8, 0x02/0x12, 1024-65535 or any";
                    self.problems.error(&path, message, repair);
                }
            }
        }
        let data = self.data(&format!("{path}.data"), shape, &model.data)?;
        let entry = TableEntry {
            key,
            priority: model.priority,
            data,
        };
        match shape.check(&entry) {
            Ok(()) => Some(entry),
            Err(error) => {
                let repair = "give a pattern for each part of the table's key";
                self.problems.error(path, error.to_string(), repair);
                None
            }
        }
    }

    fn templates(&mut self) {
        for (name, model) in &self.document.templates {
            let path = format!("templates.{name}");
            let Some(bytes) = hex(&model.packet) else {
                let repair = "write pairs of hexadecimal digits";
                self.problems.error(&format!("{path}.packet"), "these are no bytes", repair);
                continue;
            };
            let mut fields = Vec::new();
            let mut names = Vec::new();
            for (number, field) in model.fields.iter().enumerate() {
                match self.names.meaning(&ElementNames::default(), field) {
                    Some(Meaning::Field(found, true)) => {
                        fields.push(found);
                        names.push(field.clone());
                    }
                    _ => {
                        let path = format!("{path}.fields[{number}]");
                        let message = format!("{field} is no field that is written");
                        self.problems.error(&path, message, "name one like ipv4.dst");
                    }
                }
            }
            match Template::new(name, bytes, fields) {
                Some(template) => {
                    self.names.templates.push(template);
                    self.names.template_fields.push(names);
                }
                None => self.problems.error(
                    &path,
                    "the packet is malformed, too long, or lacks a header of its fields",
                    "write a whole packet of at most 1514 bytes, and at most 16 fields",
                ),
            }
        }
    }

    /// Metadata of the author's, then what tables say, then what keys leave.
    fn metadata(&mut self) {
        let mut all: Vec<(String, Width, String)> = Vec::new();
        for (name, width) in &self.document.metadata {
            all.push((name.clone(), *width, format!("metadata.{name}")));
        }
        for table in &self.names.tables {
            let path = format!("tables.{}.data", table.name);
            all.push((format!("{}.hit", table.name), 1, path.clone()));
            for (name, width) in &table.data {
                all.push((format!("{}.{name}", table.name), *width, path.clone()));
            }
        }
        for (name, width, path) in all {
            if !(1..=128).contains(&width) {
                self.problems.error(&path, "a width is 1 to 128", "write another one");
            }
            self.widths.push(width.clamp(1, 128));
            self.names.metadata.insert(name, ((self.widths.len() - 1) as Slot, width.clamp(1, 128)));
        }
        let swaps = |element: &ElementModel| !element.biflow.is_empty();
        let count = self.document.elements.iter().filter(|one| swaps(one)).count();
        self.widths.extend((0..count).map(|_| 1));
        if self.widths.len() > crate::program::ir::METADATA_COUNT_MAX {
            let repair = "use fewer names, or tables with less data";
            self.problems.error("metadata", "metadata and tables have over 64 values", repair);
        }
    }

    fn element(
        &mut self,
        number: usize,
        model: &ElementModel,
        (read, written): (&mut check::Used, &mut check::Used),
    ) -> Option<crate::program::ir::Element> {
        let path = format!("elements[{number}]");
        let earlier = &self.document.elements[..number];
        if earlier.iter().any(|one| one.name == model.name) {
            let message = format!("{} is named twice", model.name);
            self.problems.error(&format!("{path}.name"), message, "rename one of the two");
        }
        let parsed = self.parse(&path, model)?;
        let mut names = ElementNames {
            reversed: self.reversed(number),
            ..ElementNames::default()
        };
        let meters = self.meters(&path, model, &mut names, parsed.states.len());
        let Some((registers, _)) = registers(model, parsed.states.len(), &meters) else {
            let repair = "use fewer or narrower registers";
            let path = format!("{path}.registers");
            self.problems.error(&path, "a flow has at most 256 bytes of state", repair);
            return None;
        };
        for (name, width) in &model.registers {
            let path = format!("{path}.registers.{name}");
            if !(1..=128).contains(width) {
                self.problems.error(&path, "a register has 1 to 128 bits", "write a width of these");
                return None;
            }
            if ["found", "full", "reversed", "state"].contains(&name.as_str()) {
                let message = format!("flow.{name} is something else");
                self.problems.error(&path, message, "name the register otherwise");
            }
        }
        names.registers = registers;
        for (name, text) in &model.conditions {
            let path = format!("{path}.conditions.{name}");
            if let Some(node) = self.problems.take(&path, syntax::expression(text)) {
                names.conditions.insert(name.clone(), node);
            }
        }
        let element = ElementLowering {
            program: &mut self.names,
            names: &mut names,
            problems: &mut *self.problems,
            model,
            parsed: &parsed,
            widths: &self.widths,
        }
        .element();
        check::element(model, &parsed, &names, self.problems);
        read.extend(names.read);
        written.extend(names.written);
        element
    }

    /// The metadata slot in which an element's key says that it was swapped.
    fn reversed(&self, number: usize) -> Option<Slot> {
        let swaps = |element: &&ElementModel| !element.biflow.is_empty();
        let elements = &self.document.elements;
        let all = elements.iter().filter(swaps).count();
        let before = elements[..number].iter().filter(swaps).count();
        let first = self.widths.len() - all;
        swaps(&&elements[number]).then(|| (first + before) as Slot)
    }

    fn meters(
        &mut self,
        path: &str,
        model: &ElementModel,
        names: &mut ElementNames,
        states: usize,
    ) -> Vec<(String, usize)> {
        let mut found = Vec::new();
        let mut register = usize::from(states > 0);
        for (name, model) in &model.meters {
            let path = format!("{path}.meters.{name}");
            match meter(model) {
                Ok((kind, is_of_bytes)) => {
                    let number = self.names.meters.len() as u16;
                    names.meters.insert(name.clone(), (number, register as u8, is_of_bytes));
                    register += kind.words();
                    found.push((name.clone(), kind.words()));
                    self.names.meters.push(Meter {
                        name: name.clone(),
                        kind,
                    });
                }
                Err(message) => {
                    let repair = "write other rates or bursts";
                    self.problems.error(&path, message, repair);
                }
            }
        }
        found
    }

    /// Parses an element's strings.
    fn parse(&mut self, path: &str, model: &ElementModel) -> Option<Parsed> {
        let states: Vec<String> = model.states.keys().cloned().collect();
        let initial = match &model.initial {
            Some(name) => states.iter().position(|state| state == name),
            None if states.is_empty() => Some(0),
            None => None,
        };
        let Some(initial) = initial else {
            let repair = format!("write initial: {}", states.first().map_or("NAME", String::as_str));
            self.problems.error(&format!("{path}.initial"), "the initial state is not named", repair);
            return None;
        };
        if states.iter().any(|state| state == FORGET) {
            let message = "forget is no state: it ends a flow's entry";
            self.problems.error(&format!("{path}.states.forget"), message, "name it otherwise");
        }
        // A flow without an entry reads as zeros: the initial state comes first.
        let mut ordered = states.clone();
        if !ordered.is_empty() {
            let first = ordered.remove(initial);
            ordered.insert(0, first);
        }
        let statements = |this: &mut Self, field: &str, texts: &[String]| {
            this.statements(&format!("{path}.{field}"), texts)
        };
        let before = statements(self, "before", &model.before);
        let keyless = statements(self, "keyless", &model.keyless);
        let otherwise =
            model.otherwise.as_ref().map(|texts| statements(self, "otherwise", texts));
        let mut transitions = Vec::new();
        for (number, transition) in model.transitions.iter().enumerate() {
            let path = format!("{path}.transitions[{number}]");
            transitions.extend(self.transition(path, transition, &ordered));
        }
        Some(Parsed {
            path: path.to_owned(),
            states: ordered,
            initial: 0,
            transitions,
            otherwise,
            before,
            keyless,
        })
    }

    fn statements(&mut self, path: &str, texts: &[String]) -> Vec<(String, Statement)> {
        let mut statements = Vec::new();
        for (number, text) in texts.iter().enumerate() {
            let path = format!("{path}[{number}]");
            if let Some(statement) = self.problems.take(&path, syntax::statement(text)) {
                statements.push((path, statement));
            }
        }
        statements
    }

    fn transition(
        &mut self,
        path: String,
        model: &super::model::TransitionModel,
        states: &[String],
    ) -> Option<Transition> {
        let state = |this: &mut Self, field: &str, name: &str| {
            let found = states.iter().position(|state| state == name);
            if found.is_none() {
                let near = catena_engine::chain::registry::nearest(
                    name,
                    states.iter().map(String::as_str),
                );
                let repair = match near {
                    Some(near) => format!("write {near}"),
                    None => format!("name one of: {}", states.join(", ")),
                };
                let path = format!("{path}.{field}");
                this.problems.error(&path, format!("there is no state {name}"), repair);
            }
            found
        };
        let mut from = Vec::new();
        for name in model.from.all() {
            from.push(state(self, "from", name)?);
        }
        if model.from.all().is_empty() {
            from = (0..states.len().max(1)).collect();
        }
        let forgets = model.next.as_deref() == Some(FORGET);
        let next = match model.next.as_deref() {
            None | Some(FORGET) => None,
            Some(name) => Some(state(self, "next", name)?),
        };
        let mut conditions = Vec::new();
        if let Some(text) = &model.when {
            let path = format!("{path}.if");
            let node = self.problems.take(&path, syntax::expression(text))?;
            conjuncts(node, &mut conditions);
        }
        for (key, text) in &model.patterns {
            let path = format!("{path}.match");
            let node = self.problems.take(&path, syntax::expression(key))?;
            match pattern_nodes(&self.names, node, &text.text()) {
                Ok(nodes) => conditions.extend(nodes),
                Err(message) => {
                    let repair = "write 80, 10.0.0.0/8, 0x02/0x12, 1024-65535 or any";
                    self.problems.error(&path, message, repair);
                }
            }
        }
        let names: Vec<&str> = model.from.all().iter().map(String::as_str).collect();
        let shown: Vec<String> = conditions.iter().map(ToString::to_string).collect();
        let text = format!(
            "{}{} -> {}{}",
            if names.is_empty() { "any".to_owned() } else { names.join(", ") },
            if model.on == On::Timeout { ", on timeout" } else { "" },
            model.next.as_deref().unwrap_or("same"),
            if shown.is_empty() { String::new() } else { format!(", if {}", shown.join(" && ")) },
        );
        let statements = self.statements(&format!("{path}.do"), &model.statements);
        Some(Transition {
            path,
            from,
            on: model.on,
            conditions,
            priority: model.priority,
            statements,
            next,
            forgets,
            text,
        })
    }
}

/// The number that an expression of numbers and constants stands for.
fn fold(names: &ProgramNames, node: &Node, depth: usize) -> Option<u128> {
    match &node.kind {
        Expression::Number(number, _) => Some(*number),
        Expression::Name(name) if depth < 16 => {
            fold(names, names.constants.get(name)?, depth + 1)
        }
        Expression::Binary(infix, one, other) if depth < 16 => {
            let a = fold(names, one, depth + 1)?;
            let b = fold(names, other, depth + 1)?;
            match infix {
                Infix::Add => a.checked_add(b),
                Infix::Sub => a.checked_sub(b),
                Infix::Mul => a.checked_mul(b),
                Infix::Div => a.checked_div(b),
                Infix::Or => Some(a | b),
                Infix::And => Some(a & b),
                _ => None,
            }
        }
        _ => None,
    }
}

/// A pattern as text, in the form that a key part compares.
///
/// # Errors
/// What does not fit, as a sentence.
pub(crate) fn pattern_of(text: &str, kind: Match, width: Width) -> Result<Pattern, String> {
    pattern(&ProgramNames::default(), text, kind, width)
}

fn pattern(
    names: &ProgramNames,
    text: &str,
    kind: Match,
    width: Width,
) -> Result<Pattern, String> {
    let (a, b, sign) = numbers(names, text, width)?;
    let most = ones(width);
    let prefix = |len: u128| match u32::try_from(len) {
        Ok(len) if len <= u32::from(width) => {
            Ok(most & u128::MAX.checked_shl(u32::from(width) - len).unwrap_or(0))
        }
        _ => Err(format!("a prefix has at most {width} bits")),
    };
    let found = match (kind, sign) {
        (Match::Range, None) => Pattern::Range(a, a),
        (Match::Range, Some('*')) => Pattern::Range(0, most),
        (Match::Range, Some('-')) => Pattern::Range(a, b),
        (Match::Exact, None) => Pattern::Masked(a, most),
        (Match::Ternary | Match::Prefix, None) => Pattern::Masked(a, most),
        (Match::Ternary | Match::Prefix, Some('*')) => Pattern::Masked(0, 0),
        (Match::Prefix, Some('/')) => {
            let mask = prefix(b)?;
            Pattern::Masked(a & mask, mask)
        }
        (Match::Ternary, Some('/')) => Pattern::Masked(a & b, b),
        _ => return Err(format!("\"{text}\" is not what this part of the key compares")),
    };
    match found {
        Pattern::Masked(a, b) | Pattern::Range(a, b) if a > most || b > most => {
            Err(format!("\"{text}\" does not fit {width} bits"))
        }
        found => Ok(found),
    }
}

/// The numbers of a pattern and the sign between them: `/`, `-`, or `*` for any.
fn numbers(
    names: &ProgramNames,
    text: &str,
    width: Width,
) -> Result<(u128, u128, Option<char>), String> {
    let text = text.trim();
    if text == "any" {
        return Ok((0, 0, Some('*')));
    }
    let number = |part: &str| {
        let node = syntax::expression(part).map_err(|error| error.message)?;
        fold(names, &node, 0).ok_or_else(|| format!("\"{part}\" is no number"))
    };
    let split = text.split_once('/').map(|parts| (parts, '/'));
    let split = split.or_else(|| text.split_once('-').map(|parts| (parts, '-')));
    match split {
        Some(((a, b), sign)) => Ok((number(a)?, number(b)?, Some(sign))),
        None => {
            let value = number(text)?;
            if value > ones(width) {
                return Err(format!("\"{text}\" does not fit {width} bits"));
            }
            Ok((value, 0, None))
        }
    }
}

/// A pattern of a transition as conditions on a value.
fn pattern_nodes(names: &ProgramNames, node: Node, text: &str) -> Result<Vec<Node>, String> {
    let (a, b, sign) = numbers(names, text, 128)?;
    let at = node.at;
    let is_address = text.contains('.') || text.contains(':');
    let number = |value: u128| Node {
        at,
        kind: Expression::Number(value, None),
    };
    let join = |infix, one: Node, other: Node| Node {
        at,
        kind: Expression::Binary(infix, Box::new(one), Box::new(other)),
    };
    Ok(match sign {
        None => vec![join(Infix::Equal, node, number(a))],
        Some('*') => Vec::new(),
        Some('-') => vec![
            join(Infix::GreaterEqual, node.clone(), number(a)),
            join(Infix::LessEqual, node, number(b)),
        ],
        Some(_) => {
            let width: Width = match (is_address, text.contains(':')) {
                (true, true) => 128,
                (true, false) => 32,
                (false, _) => 0,
            };
            let mask = match width {
                0 => b,
                width if b <= u128::from(width) => {
                    let zeros = u32::from(width) - b as u32;
                    ones(width) & u128::MAX.checked_shl(zeros).unwrap_or(0)
                }
                width => return Err(format!("a prefix has at most {width} bits")),
            };
            let masked = join(Infix::And, node, number(mask));
            vec![join(Infix::Equal, masked, number(a & mask))]
        }
    })
}

fn meter(model: &MeterModel) -> Result<(MeterKind, bool), String> {
    let wrong = |error: MeterError| error.to_string();
    // Bytes are what bursts and costs count, so a rate in bits is one of bytes.
    let rate = |rate: Rate| {
        let (value, is_of_bytes) = match rate {
            Rate::PacketsPerSecond(value) => (value, false),
            Rate::BitsPerSecond(value) => (value / 8.0, true),
        };
        if value.fract() != 0.0 || value < 1.0 || value > 1e13 {
            return Err("a meter's rate is a whole number of packets or bytes per second".to_owned());
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole and within 1 and 10^13"
        )]
        Ok((value as u64, is_of_bytes))
    };
    Ok(match model {
        MeterModel::Gcra { rate: one, burst } => {
            let (one, is_of_bytes) = rate(*one)?;
            (MeterKind::Gcra(Gcra::new(one, *burst).map_err(wrong)?), is_of_bytes)
        }
        MeterModel::Window { interval, burst } => {
            (MeterKind::Window(Window::new(interval.ns, *burst).map_err(wrong)?), false)
        }
        MeterModel::SrTcm { cir, cbs, ebs } => {
            let (cir, is_of_bytes) = rate(*cir)?;
            (MeterKind::SrTcm(SrTcm::new(cir, *cbs, *ebs).map_err(wrong)?), is_of_bytes)
        }
        MeterModel::TrTcm { pir, pbs, cir, cbs } => {
            let ((pir, is_of_bytes), (cir, other)) = (rate(*pir)?, rate(*cir)?);
            if is_of_bytes != other {
                return Err("one rate is of packets, the other of bits".to_owned());
            }
            (MeterKind::TrTcm(TrTcm::new(cir, *cbs, pir, *pbs).map_err(wrong)?), is_of_bytes)
        }
    })
}

/// Bytes in hexadecimal, blanks between them.
fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).map(|digit| digit as u8))
        .collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}
