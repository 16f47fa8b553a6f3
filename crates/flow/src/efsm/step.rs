//! Registers of the program that change in one step, which no other shard comes between.
//!
//! | statement | does |
//! |---|---|
//! | `global.x = global.x + ...`, of a `shared` register; `-`, `&`, `|`, `^`, `min`, `max` and `sat_sub` alike | one step |
//! | `meta.y = fetch_add(global.x, ...)` | one step, which gives what `global.x` was before |
//!
//! A register that is no other shard's is read, computed with and written as it stands there.

use crate::program::ir::{Binary, Op, Scope, Value, Width};

use super::expression::{Expression, FETCH_ADD, Infix, Node};
use super::lower::{Lowered, Lowering, Typed, fail};
use super::names::Meaning;

/// The step that an assignment is, and by what: the target beside something that does not read it.
pub(super) fn step_of<'n>(target: &Node, value: &'n Node) -> Option<(Binary, &'n Node)> {
    let (op, one, other) = match &value.kind {
        Expression::Binary(infix, one, other) => {
            let op = match infix {
                Infix::Add => Binary::Add,
                Infix::Sub => Binary::Sub,
                Infix::And => Binary::And,
                Infix::Or => Binary::Or,
                Infix::Xor => Binary::Xor,
                _ => return None,
            };
            (op, &**one, &**other)
        }
        Expression::Call(name, arguments) => {
            let op = match name.as_str() {
                "min" => Binary::Min,
                "max" => Binary::Max,
                "sat_sub" => Binary::SubSat,
                _ => return None,
            };
            let [one, other] = &arguments[..] else {
                return None;
            };
            (op, one, other)
        }
        _ => return None,
    };
    let is_target = |node: &Node| node.to_string() == target.to_string();
    let by = match op {
        _ if is_target(one) => other,
        Binary::Sub | Binary::SubSat => return None,
        _ if is_target(other) => one,
        _ => return None,
    };
    (!reads(by, register_of(target)?)).then_some((op, by))
}

/// The register that a name, or an element of an array, is.
pub(super) fn register_of(node: &Node) -> Option<&str> {
    match &node.kind {
        Expression::Name(name) | Expression::Index(name, _) => Some(name),
        _ => None,
    }
}

/// Whether an expression reads this register.
pub(super) fn reads(node: &Node, register: &str) -> bool {
    let mut found = false;
    node.names(&mut |name, _| found |= name == register);
    found
}

/// A register of the program: its number, its width, and which of an array.
struct Place {
    global: u16,
    width: Width,
    index: Value,
}

impl Lowering<'_> {
    /// A change of a shared register in one step; `false` if the assignment is none.
    pub(super) fn step(&mut self, target: &Node, value: &Node) -> Lowered<bool> {
        let is_shared = |this: &Self, name: &str| {
            let meaning = this.program.meaning(this.element, name);
            let Some(Meaning::Global(global, ..)) = meaning else {
                return false;
            };
            this.program.globals[usize::from(global)].scope == Scope::Shared
        };
        match (register_of(target), step_of(target, value)) {
            (Some(name), Some((op, by))) if is_shared(self, name) => {
                let place = self.place_of(target)?;
                self.step_by(place, op, by).map(|_| true)
            }
            _ => Ok(false),
        }
    }

    /// A value that is assigned: an expression, or what a register was before a step.
    pub(super) fn assigned(&mut self, value: &Node, width: Width) -> Lowered<Value> {
        let Expression::Call(name, arguments) = &value.kind else {
            return self.of_width(value, width);
        };
        if name != FETCH_ADD {
            return self.of_width(value, width);
        }
        let [register, by] = &arguments[..] else {
            let repair = "write fetch_add(global.REGISTER, VALUE)";
            return fail(value.at, "fetch_add has other arguments", repair);
        };
        let place = self.place_of(register)?;
        let found = place.width;
        let old = self.step_by(place, Binary::Add, by)?;
        self.fit(Typed::Of(old, found), width, value.at)
    }

    fn step_by(&mut self, place: Place, op: Binary, by: &Node) -> Lowered<Value> {
        let by = self.of_width(by, place.width)?;
        let Place {
            global,
            width,
            index,
        } = place;
        Ok(self.code.value(width, |old| Op::StepGlobal {
            old,
            global,
            index,
            op,
            by,
        }))
    }

    /// A register that is read and written.
    fn place_of(&mut self, node: &Node) -> Lowered<Place> {
        let repair = "name a register of globals";
        let Some(name) = register_of(node) else {
            return fail(node.at, format!("{node} is no register"), repair);
        };
        let Meaning::Global(global, width, count) = self.meaning(name, node.at)? else {
            return fail(node.at, format!("{name} is not of the program"), repair);
        };
        let index = match &node.kind {
            Expression::Index(_, index) => self.index(name, index, count)?,
            _ if count > 1 => {
                let repair = format!("write {name}[INDEX]");
                return fail(node.at, format!("{name} is an array"), repair);
            }
            _ => Value::Const(0, 32),
        };
        for names in [&mut self.element.read, &mut self.element.written] {
            names.insert(name.to_owned());
        }
        Ok(Place {
            global,
            width,
            index,
        })
    }
}

#[cfg(test)]
#[path = "step_tests.rs"]
mod tests;
