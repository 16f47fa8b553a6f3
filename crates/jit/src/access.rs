//! Operations in generated code: fields of the packet, and what is known of it.
//!
//! What is read or written for most packets is done in line, with its bounds compared; what would
//! cross them, and all that is rare, is left to a call back.

use catena_flow::program::header::{Field, Header, NONE};
use catena_flow::program::ir::{Binary, Fact, Op, Slot, Verdict};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use std::mem::offset_of;

use crate::edge::Context;
use crate::generate::{Generator, PLAIN, kind, outcome};
use crate::plain::{bytes_of, is_read_inline};
use crate::wrong::{Wrong, is_made};

impl Generator<'_, '_> {
    /// One operation.
    pub(crate) fn op(&mut self, op: &Op) {
        match op {
            Op::Set { to, from } => {
                let (value, _) = self.value(*from);
                self.set(*to, value);
            }
            Op::Unary { to, op, a } => {
                let (a, width) = self.value(*a);
                let value = self.unary(*op, a, width);
                self.set(*to, value);
            }
            Op::Binary { to, op: how, a, b } => {
                let (a, b) = (self.value(*a), self.value(*b));
                match self.binary(*how, a, b) {
                    Some(value) => self.set(*to, value),
                    None => self.call_for(op, *to, a.1),
                }
            }
            Op::Select {
                to,
                when,
                then,
                otherwise,
            } => {
                let (when, then) = (self.value(*when).0, self.value(*then).0);
                let otherwise = self.value(*otherwise).0;
                let value = self.pick(when, then, otherwise);
                self.set(*to, value);
            }
            Op::Resize {
                to,
                from,
                is_signed,
            } => {
                let ((value, from), width) = (self.value(*from), self.width(*to));
                let value = self.resized(value, from, width, *is_signed);
                self.set(*to, value);
            }
            Op::Slice { to, from, low } => {
                let ((value, from), width) = (self.value(*from), self.width(*to));
                let value = self.slice(value, from, *low, width);
                self.set(*to, value);
            }
            Op::Concat { to, high, low } => {
                let (high, low) = (self.value(*high), self.value(*low));
                let value = self.concat(high, low);
                self.set(*to, value);
            }
            Op::Verdict(Verdict::Output(number)) => self.verdict(outcome::OUTPUT, *number),
            Op::Verdict(Verdict::Drop(number)) => self.verdict(outcome::DROP, *number),
            Op::Mark { note } => {
                let mark = u64::from(*note) << outcome::MARK_AT;
                self.decide(outcome::MARK, outcome::HAS_MARK | mark);
            }
            Op::Forget => self.decide(outcome::FORGETS, outcome::FORGETS),
            _ => self.touch(op),
        }
    }

    fn verdict(&mut self, kind: u64, number: u8) {
        let mask = outcome::VERDICT | outcome::NUMBER;
        self.decide(mask, kind | u64::from(number) << outcome::NUMBER_AT);
    }

    /// An operation on the packet, the flow or the program.
    fn touch(&mut self, op: &Op) {
        match op {
            Op::Field { to, field } => self.field(op, *to, *field),
            Op::Valid { to, header } => {
                let at = self.header(*header);
                let none = self.int(u64::from(NONE));
                let is_there = self.compare(IntCC::NotEqual, at, none);
                self.set(*to, is_there);
            }
            Op::Fact { to, fact } => self.fact(op, *to, *fact),
            Op::Flow { to, register } => match self.register(*register) {
                Some(register) => {
                    let value = self.flow(&register);
                    self.set(*to, value);
                }
                None => self.call_for(op, *to, 128),
            },
            Op::SetFlow { register, from } => {
                let (value, _) = self.value(*from);
                if let Some(register) = self.register(*register) {
                    self.set_flow(&register, value);
                }
            }
            Op::Global { to, global, index } => self.global(*to, *global, *index),
            Op::SetGlobal {
                global,
                index,
                from,
            } => self.set_global(*global, *index, *from),
            Op::StepGlobal {
                old,
                global,
                index,
                op: how @ (Binary::Add | Binary::Sub),
                by,
            } => self.step_global(*old, (*global, *index), *how, *by),
            Op::StepGlobal { old, .. } => self.call_for(op, *old, self.width(*old)),
            Op::Clone { output } => self.copies_to(offset_of!(Context, clones), *output),
            Op::Mirror { output } => self.copies_to(offset_of!(Context, mirrors), *output),
            Op::Lookup { hit, data, .. } => {
                self.call(op, 128);
                for (at, to) in data.iter().enumerate() {
                    let value = self.result(at + 1, self.width(*to));
                    self.set(*to, value);
                }
                let value = self.result(0, 1);
                self.set(*hit, value);
            }
            Op::Meter {
                to,
                meter,
                register,
                cost,
                before,
            } => self.meter(*to, (*meter, *register), *cost, *before),
            Op::Hash { to, .. } | Op::Bytes { to, .. } => {
                self.call_for(op, *to, self.width(*to));
            }
            Op::Timeouts { idle_ns, hard_ns } => {
                let mut values = [*idle_ns, *hard_ns];
                if is_made(Wrong::Timeouts) {
                    values.reverse();
                }
                let places = [offset_of!(Context, idle_ns), offset_of!(Context, hard_ns)];
                for (at, value) in places.into_iter().zip(values) {
                    let (value, _) = self.value(value);
                    self.builder
                        .ins()
                        .store(PLAIN, value, self.context, at as i32);
                }
                self.decide(outcome::HAS_TIMEOUTS, outcome::HAS_TIMEOUTS);
            }
            Op::SetField { field, from } => self.set_field(op, *field, *from),
            Op::SetBytes { from, .. } => {
                let (_, width) = self.value(*from);
                self.call(op, width);
            }
            _ => self.call(op, 128),
        }
    }

    /// Adds an output to those that get a copy, which stand in the context.
    fn copies_to(&mut self, at: usize, output: u8) {
        let (outputs, one) = (self.pointer(at), self.int(1 << (output & 63)));
        let outputs = self.builder.ins().bor(outputs, one);
        self.builder
            .ins()
            .store(PLAIN, outputs, self.context, at as i32);
    }

    /// Calls back for an operation with one result.
    fn call_for(&mut self, op: &Op, to: Slot, width: u8) {
        self.call(op, width);
        let value = self.result(0, self.width(to));
        self.set(to, value);
    }

    /// Where a header begins.
    pub(crate) fn header(&mut self, header: Header) -> Value {
        let offsets = self.pointer(offset_of!(Context, offsets));
        let at = header as i32 * size_of::<u16>() as i32;
        self.builder.ins().uload16(types::I64, PLAIN, offsets, at)
    }

    fn field(&mut self, op: &Op, to: Slot, field: Field) {
        let (first, behind) = bytes_of(field);
        if !is_read_inline(field) {
            return self.call_for(op, to, field.width);
        }
        let [inside, lacking, crossing, on] = [(); 4].map(|()| self.builder.create_block());
        self.builder.append_block_param(on, kind(field.width));
        self.builder.set_cold_block(crossing);
        let at = self.header(field.header);
        let reach = self.pointer(offset_of!(Context, reach));
        let behind = self.int(behind as u64);
        let end_at = self.builder.ins().iadd(at, behind);
        let how = IntCC::UnsignedLessThanOrEqual;
        let is_inside = self.builder.ins().icmp(how, end_at, reach);
        self.builder
            .ins()
            .brif(is_inside, inside, &[], lacking, &[]);
        // A header that is not there begins beyond all reach.
        self.begin_block(lacking);
        let none = self.int(u64::from(NONE));
        let is_none = self.builder.ins().icmp(IntCC::Equal, at, none);
        let zero = self.constant(u128::from(is_made(Wrong::Absent)), field.width);
        self.builder
            .ins()
            .brif(is_none, on, &[zero.into()], crossing, &[]);
        self.begin_block(crossing);
        if self.plain_key.is_some() {
            let refusal = self.refusal();
            self.builder.ins().jump(refusal, &[]);
        } else {
            self.call(op, field.width);
            let value = self.result(0, field.width);
            self.builder.ins().jump(on, &[value.into()]);
        }
        self.begin_block(inside);
        let bytes = self.pointer(offset_of!(Context, bytes));
        let from = self.builder.ins().iadd(bytes, at);
        let value = self.bits(from, field, first);
        self.builder.ins().jump(on, &[value.into()]);
        self.begin_block(on);
        let value = self.builder.block_params(on)[0];
        self.set(to, value);
    }

    /// The bits of a field whose header begins at `from`, and whose first byte lies `first` behind.
    fn bits(&mut self, from: Value, field: Field, first: usize) -> Value {
        let end = usize::from(field.bit) + usize::from(field.width);
        let count = end.div_ceil(8) - first;
        let below = match is_made(Wrong::FieldEnd) {
            true => 0,
            false => (8 - end % 8) % 8,
        };
        let (touched, value) = if count <= 8 {
            (64, self.number(from, first, count))
        } else {
            let high = self.number(from, first, count - 8);
            let low = self.number(from, first + count - 8, 8);
            (128, self.builder.ins().iconcat(low, high))
        };
        let below = self.int(below as u64);
        let value = self.builder.ins().ushr(value, below);
        self.fitted(value, touched, field.width)
    }

    /// Up to 8 bytes, the first one highest.
    fn number(&mut self, from: Value, mut at: usize, mut count: usize) -> Value {
        let mut value = None;
        while count > 0 {
            let size = 1 << count.ilog2().min(3);
            let part = self.turned(from, at as i32, size);
            value = Some(match value {
                Some(above) => {
                    let bits = self.int(8 * size as u64);
                    let above = self.builder.ins().ishl(above, bits);
                    self.builder.ins().bor(above, part)
                }
                None => part,
            });
            (at, count) = (at + size, count - size);
        }
        value.unwrap_or_else(|| self.int(0))
    }

    /// 1, 2, 4 or 8 bytes, the first one highest.
    fn turned(&mut self, from: Value, at: i32, size: usize) -> Value {
        let kind = match size {
            1 => return self.builder.ins().uload8(types::I64, PLAIN, from, at),
            2 => types::I16,
            4 => types::I32,
            _ => types::I64,
        };
        let value = self.builder.ins().load(kind, PLAIN, from, at);
        let value = self.builder.ins().bswap(value);
        if kind == types::I64 {
            value
        } else {
            self.builder.ins().uextend(types::I64, value)
        }
    }

    fn fact(&mut self, op: &Op, to: Slot, fact: Fact) {
        let at = match fact {
            Fact::Now => offset_of!(Context, now_ns),
            // No more than 65535 in both.
            Fact::Len => offset_of!(Context, reach),
            Fact::Input => offset_of!(Context, input),
            Fact::Found => offset_of!(Context, found),
            Fact::Full => offset_of!(Context, full),
            Fact::Tag => return self.call_for(op, to, fact.width()),
        };
        let value = self.pointer(at);
        self.set(to, value);
    }
}
