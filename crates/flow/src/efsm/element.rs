//! An element to code: its key, its switch over states, a branch for each transition.
//!
//! Conditions are looked at in the order of priorities until one holds; what they read is as it was
//! before the packet, but for what `before` has written. Then the transition's mark, state and
//! timeouts, then its statements.

use catena_engine::units::Span;

use crate::program::ir::{Code, Element, End, FlowRegister, Flows, Op, Value, WhenFull, Width};
use crate::program::layout::pack_registers;
use crate::{Shape, Timeouts};

use super::builder::{Builder, Label};
use super::expression::{Expression, Infix, Node, Statement};
use super::lower::Lowering;
use super::model::{ElementModel, On, StateModel};
use super::names::{ElementNames, ProgramNames};
use super::problem::Problems;
use super::statement::{Decided, Place};
use super::syntax;

/// What `next` says to end a flow's entry.
pub(super) const FORGET: &str = "forget";

/// A transition whose strings are parsed.
#[derive(Clone, Debug)]
pub(super) struct Transition {
    pub(super) path: String,
    /// Numbers of states; all, where the file names none.
    pub(super) from: Vec<usize>,
    /// Whether the file names some.
    pub(super) is_from_some: bool,
    pub(super) on: On,
    /// What must hold, all of it.
    pub(super) conditions: Vec<Node>,
    pub(super) priority: Option<i64>,
    pub(super) statements: Vec<(String, Statement)>,
    /// The state that follows.
    pub(super) next: Option<usize>,
    pub(super) forgets: bool,
    /// For people.
    pub(super) text: String,
}

/// An element whose strings are parsed.
#[derive(Clone, Debug)]
pub(super) struct Parsed {
    pub(super) path: String,
    pub(super) states: Vec<String>,
    pub(super) initial: usize,
    pub(super) transitions: Vec<Transition>,
    pub(super) otherwise: Option<Vec<(String, Statement)>>,
    pub(super) before: Vec<(String, Statement)>,
    pub(super) keyless: Vec<(String, Statement)>,
}

impl Parsed {
    /// Transitions from a state, in the order in which they are looked at.
    pub(super) fn leaving(&self, state: usize, on: On) -> Vec<&Transition> {
        let from = |one: &&Transition| one.on == on && one.from.contains(&state);
        let mut found: Vec<&Transition> = self.transitions.iter().filter(from).collect();
        found.sort_by_key(|one| std::cmp::Reverse(one.priority.unwrap_or(0)));
        found
    }
}

/// Makes an element's code.
pub(super) struct ElementLowering<'a> {
    pub(super) program: &'a mut ProgramNames,
    pub(super) names: &'a mut ElementNames,
    pub(super) problems: &'a mut Problems,
    pub(super) model: &'a ElementModel,
    pub(super) parsed: &'a Parsed,
    pub(super) widths: &'a [Width],
}

impl ElementLowering<'_> {
    pub(super) fn element(mut self) -> Option<Element> {
        let is_keyed = !self.model.key.is_empty()
            || !self.model.biflow.is_empty()
            || !self.model.keys.is_empty();
        let (key, key_words) = self.key(is_keyed)?;
        let update = match self.model.update_key.as_slice() {
            [] => None,
            parts => Some(self.update_key(parts, &key, key_words)?),
        };
        let changes = self.changes();
        let body = self.body(is_keyed);
        let keyless = self.list(&self.parsed.keyless, Place::Keyless);
        let timeout = self.timeout();
        let flows = match is_keyed {
            true => Some(self.flows(key_words)?),
            false => None,
        };
        Some(Element {
            name: self.model.name.clone(),
            flows,
            key,
            update,
            body,
            keyless,
            timeout,
            changes,
        })
    }

    /// The event of `changes`.
    fn changes(&mut self) -> Option<u16> {
        let name = self.model.changes.as_ref()?;
        let path = format!("{}.changes", self.parsed.path);
        if self.parsed.states.is_empty() {
            let repair = "write states, or tell the event by notify";
            self.problems
                .error(&path, "its flows have no states", repair);
            return None;
        }
        let events = &mut self.program.events;
        if events.contains(name) {
            let message = format!("{name} is told elsewhere");
            self.problems
                .error(&path, message, "name this event otherwise");
            return None;
        }
        let event = events.len() as u16;
        events.push(name.clone());
        self.program.changes.push(event);
        Some(event)
    }

    pub(super) fn lower<T>(
        &mut self,
        path: &str,
        builder: &mut Option<Builder>,
        lower: impl FnOnce(&mut Lowering<'_>) -> Result<T, syntax::SyntaxError>,
    ) -> Option<T> {
        let mut lowering = Lowering {
            program: &mut *self.program,
            element: &mut *self.names,
            code: builder.take()?,
            depth: 0,
        };
        let result = lower(&mut lowering);
        *builder = Some(lowering.code);
        self.problems.take(path, result)
    }

    fn flows(&mut self, key_words: usize) -> Option<Flows> {
        let path = &self.parsed.path;
        let state_words = self
            .names
            .registers
            .iter()
            .map(|one| usize::from(one.word) + 1 + usize::from(one.width > 64));
        let state_words = state_words.max().unwrap_or(1);
        let initial = self
            .parsed
            .states
            .get(self.parsed.initial)
            .map(String::as_str);
        let timeouts = timeouts_of(self.model, initial.unwrap_or_default());
        let when_full = self.when_full(path)?;
        let states = self.parsed.states.iter();
        Some(Flows {
            shape: Shape::new(key_words as u32, state_words as u32, self.model.flows),
            registers: self.names.registers.clone(),
            states: self.parsed.states.clone(),
            timeouts,
            state_timeouts: states.map(|state| timeouts_of(self.model, state)).collect(),
            when_full,
        })
    }

    fn when_full(&mut self, path: &str) -> Option<WhenFull> {
        let text = self.model.when_full.as_deref().unwrap_or("drop");
        let words: Vec<&str> = text.split_whitespace().collect();
        let register = |name: &str| {
            let at = self.names.registers.iter().position(|one| one.name == name);
            at.filter(|at| self.names.registers[*at].width <= 64)
                .map(|at| at as u8)
        };
        let found = match words.as_slice() {
            ["drop"] => Some(WhenFull::Drop),
            ["pass"] => Some(WhenFull::Pass),
            ["evict", "oldest"] => Some(WhenFull::EvictOldest),
            ["evict", "oldest", "in", states @ ..] => self.labels(states),
            ["evict", "lowest", name] => register(name).map(WhenFull::EvictLowest),
            ["evict", "highest", name] => register(name).map(WhenFull::EvictHighest),
            _ => None,
        };
        if found.is_none() {
            self.problems.error(
                &format!("{path}.when_full"),
                format!("\"{text}\" is no policy"),
                "write drop, pass, evict oldest, evict oldest in STATE, ..., evict lowest \
                 REGISTER or evict highest REGISTER",
            );
        }
        found
    }

    /// Names of states, with commas, as a bit for each label.
    fn labels(&self, names: &[&str]) -> Option<WhenFull> {
        let mut labels = 0;
        for name in names {
            let name = name.trim_end_matches(',');
            let at = self.parsed.states.iter().position(|state| state == name)?;
            labels |= 1_u64.checked_shl(u32::try_from(at).ok()?)?;
        }
        (labels != 0).then_some(WhenFull::EvictOldestIn(labels))
    }

    /// Statements as code.
    fn list(&mut self, statements: &[(String, Statement)], place: Place) -> Code {
        let mut builder = Some(Builder::new(self.widths));
        self.statements(statements, place, &mut builder);
        builder.map_or_else(Code::default, Builder::finish)
    }

    fn statements(
        &mut self,
        statements: &[(String, Statement)],
        place: Place,
        builder: &mut Option<Builder>,
    ) {
        let mut decided = Decided::default();
        for (path, statement) in statements {
            self.lower(path, builder, |lowering| {
                lowering.statement(statement, place, &mut decided)
            });
        }
        self.lower("", builder, |lowering| {
            lowering.finish(decided);
            Ok(())
        });
    }

    fn body(&mut self, is_keyed: bool) -> Code {
        let mut builder = Some(Builder::new(self.widths));
        for (path, statement) in &self.parsed.before {
            let mut decided = Decided::default();
            self.lower(path, &mut builder, |lowering| {
                lowering.statement(statement, Place::Before, &mut decided)
            });
        }
        let place = if is_keyed {
            Place::Packet
        } else {
            Place::Keyless
        };
        self.machine(On::Packet, place, &mut builder);
        builder.map_or_else(Code::default, Builder::finish)
    }

    fn timeout(&mut self) -> Code {
        if self
            .parsed
            .transitions
            .iter()
            .all(|one| one.on != On::Timeout)
        {
            return Code::empty(self.widths);
        }
        let mut builder = Some(Builder::new(self.widths));
        self.machine(On::Timeout, Place::Timeout, &mut builder);
        builder.map_or_else(Code::default, Builder::finish)
    }

    /// The switch over states, and what stands behind it where no transition was taken.
    fn machine(&mut self, on: On, place: Place, builder: &mut Option<Builder>) {
        let Some(code) = builder.as_mut() else { return };
        let count = self.parsed.states.len().max(1);
        let labels: Vec<Label> = (0..count).map(|_| code.label()).collect();
        let otherwise = code.label();
        if self.parsed.states.is_empty() {
            code.jump(labels[0]);
        } else {
            let width = self.names.registers.first().map_or(1, |label| label.width);
            let to = code.slot(width);
            code.op(Op::Flow { to, register: 0 });
            let cases = (0_u128..).zip(labels.iter().copied()).collect();
            code.switch(to, cases, otherwise);
        }
        for (state, label) in labels.into_iter().enumerate() {
            if let Some(code) = builder.as_mut() {
                code.place(label);
            }
            for transition in self.parsed.leaving(state, on) {
                self.transition(transition, state, place, builder);
            }
            if let Some(code) = builder.as_mut() {
                code.jump(otherwise);
            }
        }
        if let Some(code) = builder.as_mut() {
            code.place(otherwise);
        }
        match on {
            On::Packet => {
                let statements = self.parsed.otherwise.as_deref().unwrap_or_default();
                self.statements(statements, place, builder);
            }
            On::Timeout => {
                if let Some(code) = builder.as_mut() {
                    code.op(Op::Forget);
                    code.end(End::Next);
                }
            }
        }
    }

    fn transition(
        &mut self,
        transition: &Transition,
        state: usize,
        place: Place,
        builder: &mut Option<Builder>,
    ) {
        let Some(code) = builder.as_mut() else { return };
        let (taken, next) = (code.label(), code.label());
        // Each condition by itself: the cheapest first is up to the author.
        for condition in &transition.conditions {
            let when = self.lower(&format!("{}.if", transition.path), builder, |lowering| {
                lowering.condition(condition)
            });
            let note = self.note(condition.to_string());
            let (Some(code), Some(when)) = (builder.as_mut(), when) else {
                continue;
            };
            let holds = code.label();
            code.branch(when, [holds, next], Some(note));
            code.place(holds);
        }
        if let Some(code) = builder.as_mut() {
            code.jump(taken);
            code.place(taken);
        }
        self.take_transition(transition, state, builder);
        self.statements(&transition.statements, place, builder);
        if let Some(code) = builder.as_mut() {
            code.place(next);
        }
    }

    /// Mark, state and timeouts.
    fn take_transition(
        &mut self,
        transition: &Transition,
        state: usize,
        builder: &mut Option<Builder>,
    ) {
        let note = self.note(transition.text.clone());
        let Some(code) = builder.as_mut() else { return };
        code.op(Op::Mark { note });
        if transition.forgets {
            code.op(Op::Forget);
            return;
        }
        let Some(next) = transition.next else { return };
        let Some(FlowRegister { width, .. }) = self.names.registers.first() else {
            return;
        };
        code.op(Op::SetFlow {
            register: 0,
            from: Value::Const(next as u128, *width),
        });
        let timeouts = timeouts_of(self.model, &self.parsed.states[next]);
        let before = timeouts_of(self.model, &self.parsed.states[state]);
        // A flow that stays keeps its hard timeout; one whose time is over needs a new one.
        if next != state || transition.on == On::Timeout || timeouts != before {
            code.op(Op::Timeouts {
                idle_ns: Value::Const(u128::from(timeouts.idle_ns), 64),
                hard_ns: Value::Const(u128::from(timeouts.hard_ns), 64),
            });
        }
    }

    fn note(&mut self, text: String) -> u16 {
        let notes = &mut self.program.notes;
        let known = notes.iter().position(|note| *note == text);
        let at = known.unwrap_or_else(|| {
            notes.push(text);
            notes.len() - 1
        });
        u16::try_from(at).unwrap_or(u16::MAX)
    }
}

/// When a flow's time in a state is over.
pub(super) fn timeouts_of(model: &ElementModel, state: &str) -> Timeouts {
    let own = model.states.get(state).copied().flatten();
    let StateModel { idle, hard } = own.unwrap_or_default();
    let ns = |own: Option<Span>, all: Option<Span>| own.or(all).map_or(0, |span| span.ns);
    Timeouts {
        idle_ns: ns(idle, model.idle),
        hard_ns: ns(hard, model.hard),
    }
}

/// The parts of a condition that are joined by `&&`.
pub(super) fn conjuncts(node: Node, parts: &mut Vec<Node>) {
    match node.kind {
        Expression::Binary(Infix::Both, one, other) => {
            conjuncts(*one, parts);
            conjuncts(*other, parts);
        }
        _ => parts.push(node),
    }
}

/// Registers of an element: the state's label, words of meters, then the others by name.
pub(super) fn registers(
    model: &ElementModel,
    states: usize,
    meters: &[(String, usize)],
) -> Option<(Vec<FlowRegister>, usize)> {
    let mut named = Vec::new();
    if states > 0 {
        let bits = (usize::BITS - (states - 1).leading_zeros()).max(1);
        named.push(("state".to_owned(), bits as Width));
    }
    for (meter, words) in meters {
        named.extend((0..*words).map(|word| (format!("{meter}.{word}"), 64)));
    }
    named.extend(
        model
            .registers
            .iter()
            .map(|(name, width)| (name.clone(), *width)),
    );
    pack_registers(&named)
}
