//! The interpreter: what the intermediate representation means.
//!
//! Runs a piece of code on an [`Env`], operation by operation. It is the oracle that other backends
//! are compared with, it is always there, and it shows a [`Watch`] what happens on the way. All
//! code ends, since jumps go forward only; what a verified program cannot do (read a slot that is
//! not there, say) ends the code here, and never panics.

use super::arithmetic::binary;
use super::env::{Env, Exit, FlowWords};
use super::field::ones;
use super::ir::{Block, Code, End, Op, Slot, Unary, Value, Width};
use super::queue::NOTICE_VALUE_COUNT_MAX;
use super::table::KEY_PART_COUNT_MAX;
use super::template::TEMPLATE_FIELD_COUNT_MAX;
use crate::Timeouts;

/// Looks on while code runs.
pub trait Watch {
    /// Whether there is anything to see: then code is interpreted, not compiled.
    const LOOKS_ON: bool = true;
    /// A packet's flow was looked up: element, key, whether there is an entry, its registers.
    fn flow(&mut self, _element: usize, _key: &[u64], _is_found: bool, _words: &FlowWords) {}
    /// The registers behind the element's code.
    fn written(&mut self, _words: &FlowWords) {}
    /// A branch with a note was decided.
    fn branch(&mut self, note: u16, taken: bool);
    /// A mark was passed.
    fn mark(&mut self, note: u16);
    /// A table was looked up.
    fn looked_up(&mut self, table: u16, key: &[u128], hit: bool);
    /// A register of the program was read, or written.
    fn global(&mut self, _global: u16, _index: u128, _value: u128, _is_written: bool) {}
}

/// Nobody looks on.
#[derive(Clone, Copy, Debug)]
pub struct Unwatched;

impl Watch for Unwatched {
    const LOOKS_ON: bool = false;
    #[inline(always)]
    fn branch(&mut self, _: u16, _: bool) {}
    #[inline(always)]
    fn mark(&mut self, _: u16) {}
    #[inline(always)]
    fn looked_up(&mut self, _: u16, _: &[u128], _: bool) {}
}

/// Most values that an operation is given.
pub const VALUE_COUNT_MAX: usize = 16;
const _: () = assert!(TEMPLATE_FIELD_COUNT_MAX <= VALUE_COUNT_MAX);
const _: () = assert!(NOTICE_VALUE_COUNT_MAX <= VALUE_COUNT_MAX);
const _: () = assert!(KEY_PART_COUNT_MAX <= VALUE_COUNT_MAX);

/// Runs code. `slots` has a place for each of its slots, metadata first; they hold what they held
/// before for metadata, and the others are zero.
pub fn run(code: &Code, slots: &mut [u128], env: &mut Env<'_>, watch: &mut impl Watch) -> Exit {
    let mut block = 0;
    // Each block at most once.
    for _ in 0..code.blocks.len() {
        let Some(Block { ops, end }) = code.blocks.get(block) else {
            break;
        };
        let mut machine = Machine {
            widths: &code.slots,
            slots: &mut *slots,
        };
        for op in ops {
            if !machine.step(op, env, watch) {
                return Exit::NoHeadroom;
            }
        }
        block = match end {
            End::Jump(to) => usize::from(*to),
            End::Branch {
                when,
                then,
                otherwise,
                note,
            } => {
                let taken = machine.slot(*when) != 0;
                if let Some(note) = note {
                    watch.branch(*note, taken);
                }
                usize::from(if taken { *then } else { *otherwise })
            }
            End::Switch { on, cases, default } => {
                let value = machine.slot(*on);
                let case = cases.iter().find(|(case, _)| *case == value);
                usize::from(case.map_or(*default, |(_, to)| *to))
            }
            End::Next => return Exit::Next,
            End::Done => return Exit::Done,
        };
    }
    Exit::Next
}

/// As [`run`], with whatever is left in slots behind the metadata.
#[inline(never)]
pub(super) fn run_anew(
    code: &Code,
    slots: &mut [u128],
    env: &mut Env<'_>,
    watch: &mut impl Watch,
) -> Exit {
    let metadata = env.program.metadata.len();
    slots.get_mut(metadata..).unwrap_or_default().fill(0);
    run(code, slots, env, watch)
}

struct Machine<'a> {
    widths: &'a [Width],
    slots: &'a mut [u128],
}

/// Values of an operation, in a row.
struct Row([u128; VALUE_COUNT_MAX], usize);

impl Row {
    fn all(&self) -> &[u128] {
        &self.0[..self.1]
    }
}

impl Machine<'_> {
    #[inline]
    fn slot(&self, slot: Slot) -> u128 {
        self.slots.get(usize::from(slot)).copied().unwrap_or(0)
    }

    #[inline]
    fn set(&mut self, slot: Slot, value: u128) {
        if let Some(to) = self.slots.get_mut(usize::from(slot)) {
            *to = value;
        }
    }

    #[inline]
    fn width(&self, slot: Slot) -> Width {
        self.widths.get(usize::from(slot)).copied().unwrap_or(1)
    }

    #[inline]
    fn value(&self, value: Value) -> u128 {
        match value {
            Value::Slot(slot) => self.slot(slot),
            Value::Const(number, _) => number,
        }
    }

    fn width_of(&self, value: Value) -> Width {
        match value {
            Value::Slot(slot) => self.width(slot),
            Value::Const(_, width) => width,
        }
    }

    fn row(&self, values: &[Value]) -> Row {
        let mut row = Row([0; VALUE_COUNT_MAX], values.len().min(VALUE_COUNT_MAX));
        for (to, from) in row.0.iter_mut().zip(values) {
            *to = self.value(*from);
        }
        row
    }

    /// One operation; `false` if there was no room for a header.
    fn step(&mut self, op: &Op, env: &mut Env<'_>, watch: &mut impl Watch) -> bool {
        match op {
            Op::Set { to, from } => self.set(*to, self.value(*from)),
            Op::Unary { to, op, a } => {
                let (a, most) = (self.value(*a), ones(self.width(*to)));
                let value = match op {
                    Unary::Not => !a,
                    Unary::Negate => a.wrapping_neg(),
                };
                self.set(*to, value & most);
            }
            Op::Binary { to, op, a, b } => {
                let width = self.width_of(*a);
                self.set(*to, binary(*op, self.value(*a), self.value(*b), width));
            }
            Op::Select {
                to,
                when,
                then,
                otherwise,
            } => {
                let from = if self.value(*when) != 0 {
                    then
                } else {
                    otherwise
                };
                self.set(*to, self.value(*from));
            }
            Op::Resize {
                to,
                from,
                is_signed,
            } => {
                let (mut value, from) = (self.value(*from), self.width_of(*from));
                if *is_signed && value >> (from - 1) & 1 == 1 {
                    value |= !ones(from);
                }
                self.set(*to, value & ones(self.width(*to)));
            }
            Op::Slice { to, from, low } => {
                let value = self.value(*from) >> low;
                self.set(*to, value & ones(self.width(*to)));
            }
            Op::Concat { to, high, low } => {
                let shift = u32::from(self.width_of(*low));
                let high = self.value(*high).checked_shl(shift).unwrap_or(0);
                self.set(*to, high | self.value(*low));
            }
            Op::Hash { to, of } => {
                let hash = env.hash(of.iter().map(|value| self.value(*value)));
                self.set(*to, u128::from(hash) & ones(self.width(*to)));
            }
            Op::Mark { note } => {
                env.outcome.mark = Some(*note);
                watch.mark(*note);
            }
            Op::Verdict(verdict) => env.outcome.verdict = Some(*verdict),
            _ => return self.touch(op, env, watch),
        }
        true
    }

    /// An operation on the packet, the flow or the program.
    fn touch(&mut self, op: &Op, env: &mut Env<'_>, watch: &mut impl Watch) -> bool {
        match op {
            Op::Field { to, field } => self.set(*to, env.field(*field)),
            Op::SetField { field, from } => env.set_field(*field, self.value(*from)),
            Op::Valid { to, header } => self.set(*to, u128::from(env.valid(*header))),
            Op::Bytes { to, at } => {
                let count = usize::from(self.width(*to) / 8);
                self.set(*to, env.packet_bytes(self.value(*at), count));
            }
            Op::SetBytes { at, from } => {
                let count = usize::from(self.width_of(*from) / 8);
                env.set_packet_bytes(self.value(*at), count, self.value(*from));
            }
            Op::Splice { at, count } => return env.splice(self.value(*at), *count),
            Op::Parse => env.parse(),
            Op::Fact { to, fact } => self.set(*to, env.fact(*fact)),
            Op::Flow { to, register } => self.set(*to, env.register(*register)),
            Op::SetFlow { register, from } => env.set_register(*register, self.value(*from)),
            Op::Global { to, global, index } => {
                let index = self.value(*index);
                let value = env.global(*global, index);
                watch.global(*global, index, value, false);
                self.set(*to, value);
            }
            Op::SetGlobal {
                global,
                index,
                from,
            } => {
                let (index, value) = (self.value(*index), self.value(*from));
                env.set_global(*global, index, value);
                watch.global(*global, index, value, true);
            }
            Op::StepGlobal {
                old,
                global,
                index,
                op,
                by,
            } => {
                let (index, by) = (self.value(*index), self.value(*by));
                let before = env.step_global(*global, index, *op, by);
                let width = self.width(*old);
                watch.global(*global, index, before, false);
                watch.global(*global, index, binary(*op, before, by, width), true);
                self.set(*old, before);
            }
            Op::Lookup {
                table,
                key,
                hit,
                data,
            } => {
                let key = self.row(key);
                let (is_hit, found) = env.look_up(*table, key.all());
                watch.looked_up(*table, key.all(), is_hit);
                for (to, value) in data.iter().zip(found) {
                    self.set(*to, *value);
                }
                self.set(*hit, u128::from(is_hit));
            }
            Op::Meter {
                to,
                meter,
                register,
                cost,
                before,
            } => {
                let (cost, before) = (self.value(*cost), self.value(*before));
                self.set(*to, env.meter(*meter, *register, cost, before));
            }
            _ => return self.act(op, env),
        }
        true
    }

    /// An operation whose effect is seen behind the code.
    fn act(&mut self, op: &Op, env: &mut Env<'_>) -> bool {
        match op {
            Op::Clone { output } => env.outcome.clones |= 1 << (output & 63),
            Op::Mirror { output } => env.outcome.mirrors |= 1 << (output & 63),
            Op::Emit {
                template,
                values,
                output,
            } => env.emit(*template, self.row(values).all(), *output),
            Op::Notify { event, values } => env.notify(*event, self.row(values).all()),
            Op::Encap { tunnel, values } => return env.encap(*tunnel, self.row(values).all()),
            Op::Decap { tunnel } => env.decap(*tunnel),
            Op::Timeouts { idle_ns, hard_ns } => {
                env.outcome.timeouts = Some(Timeouts {
                    idle_ns: self.value(*idle_ns) as u64,
                    hard_ns: self.value(*hard_ns) as u64,
                });
            }
            Op::Forget => env.outcome.forgets = true,
            // All others have been dealt with.
            _ => {}
        }
        true
    }
}
