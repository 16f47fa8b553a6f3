//! An element to code: its key, its switch over states, a branch for each transition.
//!
//! Conditions are looked at in the order of priorities until one holds; what they read is as it was
//! before the packet, but for what `before` has written. Then the transition's mark, state and
//! timeouts, then its statements.

use crate::program::ir::{
    Code, Element, End, FlowRegister, Flows, Key, Op, Slot, Value, WhenFull, Width,
};
use crate::program::layout::{pack_key, pack_registers};
use crate::{Shape, Timeouts};

use super::builder::{Builder, Label};
use super::expression::{Expression, Infix, Node, Statement};
use super::lower::Lowering;
use super::model::{ElementModel, On, StateModel};
use super::names::{ElementNames, ProgramNames, either_headers};
use super::problem::Problems;
use super::statement::{Decided, Place};
use super::syntax;
use crate::program::header::Header;

/// What `next` says to end a flow's entry.
pub(super) const FORGET: &str = "forget";

/// A transition whose strings are parsed.
#[derive(Debug)]
pub(super) struct Transition {
    pub(super) path: String,
    /// Numbers of states; all, where the file names none.
    pub(super) from: Vec<usize>,
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
#[derive(Debug)]
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
    pub(super) fn from_state(&self, state: usize, on: On) -> Vec<&Transition> {
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
        })
    }

    fn lower<T>(
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
        let state_words = self.names.registers.iter().map(|one| {
            usize::from(one.word) + 1 + usize::from(one.width > 64)
        });
        let state_words = state_words.max().unwrap_or(1);
        let initial = self.parsed.states.get(self.parsed.initial).map(String::as_str);
        let timeouts = self.timeouts_of(initial.unwrap_or_default());
        let when_full = self.when_full(path)?;
        Some(Flows {
            shape: Shape::new(key_words as u32, state_words as u32, self.model.flows),
            registers: self.names.registers.clone(),
            states: self.parsed.states.clone(),
            timeouts,
            when_full,
        })
    }

    fn when_full(&mut self, path: &str) -> Option<WhenFull> {
        let text = self.model.when_full.as_deref().unwrap_or("drop");
        let words: Vec<&str> = text.split_whitespace().collect();
        let register = |name: &str| {
            let at = self.names.registers.iter().position(|one| one.name == name);
            at.filter(|at| self.names.registers[*at].width <= 64).map(|at| at as u8)
        };
        let found = match words.as_slice() {
            ["drop"] => Some(WhenFull::Drop),
            ["pass"] => Some(WhenFull::Pass),
            ["evict", "oldest"] => Some(WhenFull::EvictOldest),
            ["evict", "lowest", name] => register(name).map(WhenFull::EvictLowest),
            ["evict", "highest", name] => register(name).map(WhenFull::EvictHighest),
            _ => None,
        };
        if found.is_none() {
            self.problems.error(
                &format!("{path}.when_full"),
                format!("\"{text}\" is no policy"),
                "write drop, pass, evict oldest, evict lowest REGISTER or evict highest REGISTER",
            );
        }
        found
    }

    /// When a flow's time in a state is over.
    fn timeouts_of(&self, state: &str) -> Timeouts {
        let own = self.model.states.get(state).copied().flatten().unwrap_or_default();
        let StateModel { idle, hard } = own;
        let ns = |own: Option<catena_engine::units::Span>, all: Option<_>| {
            own.or(all).map_or(0, |span: catena_engine::units::Span| span.ns)
        };
        Timeouts {
            idle_ns: ns(idle, self.model.idle),
            hard_ns: ns(hard, self.model.hard),
        }
    }

    fn key(&mut self, is_keyed: bool) -> Option<(Key, usize)> {
        let mut builder = Some(Builder::new(self.widths));
        if !is_keyed {
            let key = Key {
                code: Code::empty(self.widths),
                ..Key::default()
            };
            return Some((key, 1));
        }
        let path = self.parsed.path.clone();
        let kinds = [
            !self.model.keys.is_empty(),
            !self.model.key.is_empty() || !self.model.biflow.is_empty(),
        ];
        if kinds == [true, true] {
            let repair = "write either keys, or key and biflow";
            self.problems.error(&format!("{path}.keys"), "there are two kinds of keys", repair);
            return None;
        }
        let (present, parts) = if self.model.keys.is_empty() {
            let (present, mut parts) = self.parts(&path, "key", &self.model.key.clone(), &mut builder)?;
            let (other, more) = self.biflow(&path, &mut builder)?;
            let present = self.both(present, other, &mut builder);
            parts.extend(more);
            (present, parts)
        } else {
            self.cases(&path, &mut builder)?
        };
        self.finish_key(builder?, present, &parts, &path)
    }

    fn finish_key(
        &mut self,
        mut builder: Builder,
        present: Value,
        parts: &[(Value, Width, String)],
        path: &str,
    ) -> Option<(Key, usize)> {
        let mut slot = |value: Value, width: Width| match value {
            Value::Slot(slot) => slot,
            Value::Const(..) => {
                let to = builder.slot(width);
                builder.op(Op::Set { to, from: value });
                to
            }
        };
        let present = slot(present, 1);
        let parts: Vec<(Slot, Width, String)> = parts
            .iter()
            .map(|(value, width, name)| (slot(*value, *width), *width, name.clone()))
            .collect();
        let Some((parts, words)) = pack_key(&parts) else {
            let repair = "take fewer fields, or hash(...) of some";
            self.problems.error(&format!("{path}.key"), "a key has at most 64 bytes", repair);
            return None;
        };
        let key = Key {
            code: builder.finish(),
            present,
            parts,
        };
        Some((key, words))
    }

    fn both(&mut self, a: Value, b: Value, builder: &mut Option<Builder>) -> Value {
        let op = crate::program::ir::Binary::And;
        match builder {
            Some(builder) => builder.value(1, |to| Op::Binary { to, op, a, b }),
            None => a,
        }
    }

    /// Key parts of strings: whether the packet has all their headers, and their values.
    fn parts(
        &mut self,
        path: &str,
        field: &str,
        texts: &[String],
        builder: &mut Option<Builder>,
    ) -> Option<(Value, Vec<(Value, Width, String)>)> {
        let mut present = Value::Const(1, 1);
        let mut parts = Vec::new();
        for (number, text) in texts.iter().enumerate() {
            let path = format!("{path}.{field}[{number}]");
            let node = self.problems.take(&path, syntax::expression(text))?;
            let (value, width, is_there) = self.lower(&path, builder, |lowering| {
                let (value, width) = lowering.sized(&node)?;
                Ok((value, width, presence(lowering, &node)))
            })?;
            present = self.both(present, is_there, builder);
            parts.push((value, width, node.to_string()));
        }
        Some((present, parts))
    }

    /// Pairs of which the smaller comes first; metadata says whether they were swapped.
    fn biflow(
        &mut self,
        path: &str,
        builder: &mut Option<Builder>,
    ) -> Option<(Value, Vec<(Value, Width, String)>)> {
        use crate::program::ir::Binary;
        let mut present = Value::Const(1, 1);
        let (mut ones, mut others) = (Vec::new(), Vec::new());
        for (number, pair) in self.model.biflow.clone().iter().enumerate() {
            let (there, mut parts) = self.parts(path, &format!("biflow[{number}]"), pair, builder)?;
            present = self.both(present, there, builder);
            let (other, one) = (parts.pop()?, parts.pop()?);
            if one.1 != other.1 {
                let path = format!("{path}.biflow[{number}]");
                self.problems.error(&path, "the two have different widths", "pair alike fields");
                return None;
            }
            ones.push(one);
            others.push(other);
        }
        let Some(reversed) = self.names.reversed.filter(|_| !ones.is_empty()) else {
            return Some((present, Vec::new()));
        };
        let builder = builder.as_mut()?;
        // From the last pair to the first: whether what comes from there on is greater.
        let mut greater = Value::Const(0, 1);
        for (one, other) in ones.iter().zip(&others).rev() {
            let (a, b) = (one.0, other.0);
            let less = |to, op, a, b| Op::Binary { to, op, a, b };
            let is_greater = builder.value(1, |to| less(to, Binary::Lt, b, a));
            let is_equal = builder.value(1, |to| less(to, Binary::Eq, a, b));
            greater = builder.value(1, |to| Op::Select {
                to,
                when: is_equal,
                then: greater,
                otherwise: is_greater,
            });
        }
        builder.op(Op::Set {
            to: reversed,
            from: greater,
        });
        let mut parts = Vec::new();
        for (one, other) in ones.into_iter().zip(others) {
            let (a, b, width) = (one.0, other.0, one.1);
            for (then, otherwise, name) in [(b, a, one.2), (a, b, other.2)] {
                let value = builder.value(width, |to| Op::Select {
                    to,
                    when: greater,
                    then,
                    otherwise,
                });
                parts.push((value, width, name));
            }
        }
        Some((present, parts))
    }

    /// The first key whose condition holds.
    fn cases(
        &mut self,
        path: &str,
        builder: &mut Option<Builder>,
    ) -> Option<(Value, Vec<(Value, Width, String)>)> {
        let mut chosen: Option<(Value, Vec<(Value, Width, String)>)> = None;
        for (number, case) in self.model.keys.clone().iter().enumerate().rev() {
            let path = format!("{path}.keys[{number}]");
            let (there, parts) = self.parts(&path, "key", &case.key, builder)?;
            let when_path = format!("{path}.if");
            let node = self.problems.take(&when_path, syntax::expression(&case.when))?;
            let when = self.lower(&when_path, builder, |lowering| lowering.condition(&node))?;
            let (other_there, others) =
                chosen.unwrap_or_else(|| (Value::Const(0, 1), parts.clone()));
            let widths = |parts: &[(Value, Width, String)]| -> Vec<Width> {
                parts.iter().map(|(_, width, _)| *width).collect()
            };
            if widths(&parts) != widths(&others) {
                let repair = "give all keys of an element the same parts, in the same order";
                self.problems.error(&path, "the keys have different widths", repair);
                return None;
            }
            let builder = builder.as_mut()?;
            let mut select = |then, otherwise, width| {
                builder.value(width, |to| Op::Select {
                    to,
                    when,
                    then,
                    otherwise,
                })
            };
            let present = select(there, other_there, 1);
            let parts = parts.into_iter().zip(others).map(|((then, width, name), other)| {
                (select(then, other.0, width), width, name)
            });
            chosen = Some((present, parts.collect()));
        }
        chosen
    }

    fn update_key(&mut self, parts: &[String], key: &Key, key_words: usize) -> Option<Key> {
        let path = self.parsed.path.clone();
        let mut builder = Some(Builder::new(self.widths));
        let (present, parts) = self.parts(&path, "update_key", parts, &mut builder)?;
        let (update, words) = self.finish_key(builder?, present, &parts, &path)?;
        let widths = |key: &Key| key.parts.iter().map(|part| part.width).collect::<Vec<_>>();
        if words != key_words || widths(&update) != widths(key) {
            let repair = "give it the same parts as the key, in the same order";
            self.problems.error(
                &format!("{path}.update_key"),
                "it has other widths than the key",
                repair,
            );
            return None;
        }
        Some(update)
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
        let place = if is_keyed { Place::Packet } else { Place::Keyless };
        self.machine(On::Packet, place, &mut builder);
        builder.map_or_else(Code::default, Builder::finish)
    }

    fn timeout(&mut self) -> Code {
        if self.parsed.transitions.iter().all(|one| one.on != On::Timeout) {
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
            for transition in self.parsed.from_state(state, on) {
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
        let timeouts = self.timeouts_of(&self.parsed.states[next]);
        let before = self.timeouts_of(&self.parsed.states[state]);
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

/// Whether the packet has all headers that an expression names.
fn presence(lowering: &mut Lowering<'_>, node: &Node) -> Value {
    use crate::program::ir::Binary;
    let mut groups: Vec<Vec<Header>> = Vec::new();
    node.names(&mut |name, _| {
        let scope = name.rsplit_once('.').map_or(name, |(scope, _)| scope);
        let group = match (either_headers(scope), Header::named(scope)) {
            (Some(headers), _) => headers.to_vec(),
            (None, Some(header)) => vec![header],
            (None, None) => return,
        };
        if !groups.contains(&group) {
            groups.push(group);
        }
    });
    let mut present = Value::Const(1, 1);
    for group in groups {
        let mut any = Value::Const(0, 1);
        for header in group {
            let is_there = lowering.code.value(1, |to| Op::Valid { to, header });
            let (a, b, op) = (any, is_there, Binary::Or);
            any = lowering.code.value(1, |to| Op::Binary { to, op, a, b });
        }
        let (a, b, op) = (present, any, Binary::And);
        present = lowering.code.value(1, |to| Op::Binary { to, op, a, b });
    }
    present
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
    named.extend(model.registers.iter().map(|(name, width)| (name.clone(), *width)));
    pack_registers(&named)
}
