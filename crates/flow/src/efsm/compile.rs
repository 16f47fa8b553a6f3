//! A document to a program: names first, then each element, then what is suspicious.
//!
//! Control path. All that is wrong is told at once, each with its path; a program comes out only if
//! nothing is.

use crate::program::field::ones;
use crate::program::ir::{Global, Meter, Program, Scope, Slot, Verdict, Width};
use crate::program::verify::verify;

use super::check;
use super::element::{ElementLowering, FORGET, Parsed, Transition, conjuncts, registers};
use super::expression::Statement;
use super::meters::meter;
use super::model::{Document, ElementModel, Malformed, On, ScopeModel, Text};
use super::names::{ElementNames, ProgramNames};
use super::pattern::{fold, pattern_nodes};
use super::problem::{Problem, Problems};
use super::syntax;

/// Most branches of an element: far below what jumps can tell apart.
const BRANCH_COUNT_MAX: usize = 10_000;

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
        assignments: check::Assignments::default(),
        last: None,
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

/// A program in the making.
pub(super) struct Compiling<'a> {
    pub(super) document: &'a Document,
    pub(super) problems: &'a mut Problems,
    pub(super) names: ProgramNames,
    widths: Vec<Width>,
    assignments: check::Assignments,
    /// The first element that decides about every packet.
    last: Option<usize>,
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
        self.derived_tables();
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
            self.problems
                .error("elements", "there is no element", repair);
        }
        let used = (&read, &written);
        let assignments = &self.assignments;
        check::shared(self.document, used, assignments, self.last, self.problems);
        is_whole.then(|| Program {
            metadata: self.widths,
            elements,
            globals: self.names.globals,
            tables: self.names.tables,
            meters: self.names.meters,
            templates: self.names.templates,
            hash_seed: self.document.hash_seed,
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
            self.problems
                .error("outputs", "there are 1 to 64 outputs", "name one at least");
        }
        for (number, name) in self.document.outputs.iter().enumerate() {
            if self.document.outputs[..number].contains(name) {
                let path = format!("outputs[{number}]");
                self.problems
                    .error(&path, format!("{name} is named twice"), "remove one");
            }
        }
    }

    fn constants(&mut self) {
        for (name, text) in &self.document.constants {
            let path = format!("constants.{name}");
            if name.contains('.') || name == "now" {
                self.problems
                    .error(&path, "this is no name for a constant", "use letters and _");
            }
            let node = syntax::expression(&text.text());
            if let Some(node) = self.problems.take(&path, node) {
                self.names.constants.insert(name.clone(), node);
            }
        }
    }

    /// A number that a string stands for.
    pub(super) fn number(&mut self, path: &str, text: &Text) -> Option<u128> {
        let node = self.problems.take(path, syntax::expression(&text.text()))?;
        let value = fold(&self.names, &node, 0);
        if value.is_none() {
            let repair = "write a number, an address, or a constant";
            self.problems
                .error(path, format!("{node} is no number"), repair);
        }
        value
    }

    fn globals(&mut self) {
        for (name, model) in &self.document.globals {
            let path = format!("globals.{name}");
            if !(1..=64).contains(&model.width) {
                let repair = "write a width from 1 to 64";
                self.problems
                    .error(&format!("{path}.width"), "it has 1 to 64 bits", repair);
            } else if u128::from(model.initial) > ones(model.width) {
                let repair = "write a smaller number, or more bits";
                self.problems
                    .error(&format!("{path}.initial"), "it does not fit", repair);
            }
            if model.count == 0 || model.count > 1 << 24 {
                let repair = "write 1 or more";
                self.problems
                    .error(&format!("{path}.count"), "there are 1 to 2^24", repair);
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
                self.problems
                    .error(&path, "a width is 1 to 128", "write another one");
            }
            self.widths.push(width.clamp(1, 128));
            self.names
                .metadata
                .insert(name, ((self.widths.len() - 1) as Slot, width.clamp(1, 128)));
        }
        let swaps = |element: &ElementModel| !element.biflow.is_empty();
        let count = self
            .document
            .elements
            .iter()
            .filter(|one| swaps(one))
            .count();
        self.widths.extend((0..count).map(|_| 1));
        if self.widths.len() > crate::program::ir::METADATA_COUNT_MAX {
            let repair = "use fewer names, or tables with less data";
            self.problems.error(
                "metadata",
                "metadata and tables have over 64 values",
                repair,
            );
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
            self.problems
                .error(&format!("{path}.name"), message, "rename one of the two");
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
            self.problems
                .error(&path, "a flow has at most 256 bytes of state", repair);
            return None;
        };
        for (name, width) in &model.registers {
            let path = format!("{path}.registers.{name}");
            if !(1..=128).contains(width) {
                self.problems.error(
                    &path,
                    "a register has 1 to 128 bits",
                    "write a width of these",
                );
                return None;
            }
            if ["found", "full", "reversed", "state"].contains(&name.as_str()) {
                let message = format!("flow.{name} is something else");
                self.problems
                    .error(&path, message, "name the register otherwise");
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
        let known = check::Known {
            program: &self.names,
            element: &names,
        };
        if check::element(model, &parsed, known, self.problems) {
            self.last = self.last.or(Some(number));
        }
        self.assignments.note(&parsed, known);
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
                    names
                        .meters
                        .insert(name.clone(), (number, register as u8, is_of_bytes));
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
            let repair = format!(
                "write initial: {}",
                states.first().map_or("NAME", String::as_str)
            );
            self.problems.error(
                &format!("{path}.initial"),
                "the initial state is not named",
                repair,
            );
            return None;
        };
        if states.iter().any(|state| state == FORGET) {
            let message = "forget is no state: it ends a flow's entry";
            self.problems.error(
                &format!("{path}.states.forget"),
                message,
                "name it otherwise",
            );
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
        let otherwise = model
            .otherwise
            .as_ref()
            .map(|texts| statements(self, "otherwise", texts));
        let mut transitions = Vec::new();
        for (number, transition) in model.transitions.iter().enumerate() {
            let path = format!("{path}.transitions[{number}]");
            transitions.extend(self.transition(path, transition, &ordered));
        }
        // Each state has its own branches for each transition from it.
        let branches = |one: &Transition| one.from.len() * (one.conditions.len() + 3);
        if transitions.iter().map(branches).sum::<usize>() > BRANCH_COUNT_MAX {
            let repair = "use fewer states or transitions, or another element";
            self.problems.error(
                &format!("{path}.transitions"),
                "it has too many transitions from too many states",
                repair,
            );
            return None;
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
                this.problems
                    .error(&path, format!("there is no state {name}"), repair);
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
            if names.is_empty() {
                "any".to_owned()
            } else {
                names.join(", ")
            },
            if model.on == On::Timeout {
                ", on timeout"
            } else {
                ""
            },
            model.next.as_deref().unwrap_or("same"),
            if shown.is_empty() {
                String::new()
            } else {
                format!(", if {}", shown.join(" && "))
            },
        );
        let statements = self.statements(&format!("{path}.do"), &model.statements);
        Some(Transition {
            path,
            is_from_some: !names.is_empty(),
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
