//! What registers, keys and tables of an element hold, by where their values come from and go to.
//!
//! For traces, beside packets: a program says widths alone, and people want to see addresses. What
//! is copied or compared has one kind; arithmetic has none. Bounded by the length of the code.

use super::ir::{Code, Element, Op, Program, Value};
use super::value::Kind;

/// Rounds over the code: what is known late reaches what came before.
const ROUND_COUNT: usize = 3;

/// The kinds of what an element works on.
#[derive(Debug, Default)]
pub struct Kinds {
    /// Of the parts of its key.
    pub key: Vec<Kind>,
    /// Of its flows' registers.
    pub registers: Vec<Kind>,
    /// Of the program's registers.
    pub globals: Vec<Kind>,
    /// Of each table's key.
    pub table_keys: Vec<Vec<Kind>>,
}

impl Kinds {
    /// Those of an element of a program.
    pub fn of(program: &Program, element: &Element) -> Self {
        let registers = element.flows.as_ref().map_or(0, |one| one.registers.len());
        let tables = program.tables.iter();
        let mut kinds = Self {
            key: Vec::new(),
            registers: vec![Kind::Number; registers],
            globals: vec![Kind::Number; program.globals.len()],
            table_keys: tables
                .map(|one| vec![Kind::Number; one.key.len()])
                .collect(),
        };
        let mut metadata = vec![Kind::Number; program.metadata.len()];
        for _ in 0..ROUND_COUNT {
            let slots = kinds.scan(&element.key.code, &mut metadata);
            let slot = |part: &super::ir::KeyPart| slots.get(usize::from(part.slot)).copied();
            let parts = element.key.parts.iter();
            kinds.key = parts.map(|part| slot(part).unwrap_or_default()).collect();
            for code in [&element.body, &element.keyless, &element.timeout] {
                kinds.scan(code, &mut metadata);
            }
        }
        kinds
    }

    /// One pass over a piece of code. Gives the kinds of its slots.
    fn scan(&mut self, code: &Code, metadata: &mut [Kind]) -> Vec<Kind> {
        let mut slots = vec![Kind::Number; code.slots.len().max(metadata.len())];
        slots[..metadata.len()].copy_from_slice(metadata);
        for op in code.ops().chain(code.ops()) {
            self.step(op, &mut slots);
        }
        metadata.copy_from_slice(&slots[..metadata.len()]);
        slots
    }

    fn step(&mut self, op: &Op, slots: &mut [Kind]) {
        let slot = |value: &Value| match value {
            Value::Slot(slot) => Some(usize::from(*slot)),
            Value::Const(..) => None,
        };
        match op {
            Op::Field { to, field } => join(slots.get_mut(usize::from(*to)), &mut Kind::of(*field)),
            Op::SetField { field, from } => {
                let place = slot(from).and_then(|at| slots.get_mut(at));
                join(place, &mut Kind::of(*field));
            }
            Op::Set { to, from } | Op::Resize { to, from, .. } => {
                alike(slots, Some(usize::from(*to)), slot(from));
            }
            Op::Select {
                to,
                then,
                otherwise,
                ..
            } => {
                for from in [then, otherwise, then] {
                    alike(slots, Some(usize::from(*to)), slot(from));
                }
            }
            Op::Binary { op, a, b, .. } if op.is_comparison() => alike(slots, slot(a), slot(b)),
            Op::Flow { to, register } => known(slots, *to, &mut self.registers, *register),
            Op::SetFlow {
                register,
                from: Value::Slot(from),
            } => known(slots, *from, &mut self.registers, *register),
            Op::Global { to, global, .. }
            | Op::StepGlobal {
                old: to, global, ..
            } => known(slots, *to, &mut self.globals, *global),
            Op::SetGlobal {
                global,
                from: Value::Slot(from),
                ..
            } => known(slots, *from, &mut self.globals, *global),
            Op::Lookup { table, key, .. } => {
                let kinds = self.table_keys.get_mut(usize::from(*table));
                for (kind, value) in kinds.into_iter().flatten().zip(key) {
                    join(slot(value).and_then(|at| slots.get_mut(at)), kind);
                }
            }
            _ => {}
        }
    }
}

/// Two places hold the same.
fn join(one: Option<&mut Kind>, other: &mut Kind) {
    if let Some(one) = one {
        *one = one.with(*other);
        *other = *one;
    }
}

fn alike(slots: &mut [Kind], one: Option<usize>, other: Option<usize>) {
    let (Some(one), Some(other)) = (one, other) else {
        return;
    };
    let (Some(a), Some(b)) = (slots.get(one), slots.get(other)) else {
        return;
    };
    let kind = a.with(*b);
    (slots[one], slots[other]) = (kind, kind);
}

fn known(slots: &mut [Kind], slot: u16, of: &mut [Kind], number: impl Into<u64>) {
    let place = usize::try_from(number.into()).ok();
    if let Some(kind) = place.and_then(|at| of.get_mut(at)) {
        join(slots.get_mut(usize::from(slot)), kind);
    }
}
