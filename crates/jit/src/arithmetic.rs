//! Numbers in generated code: what [`Binary`] and [`Unary`] mean, as instructions.
//!
//! Values of up to 64 bits are in one register, wider ones in two; every value stays below 2^width,
//! as in the interpreter, so that a result is cut off where an operation may leave more.

use catena_flow::program::field::ones;
use catena_flow::program::ir::{Binary, Unary, Width};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};

use crate::generate::Generator;
use crate::wrong::{Wrong, is_made};

impl Generator<'_, '_> {
    /// A number of 64 bits.
    pub(crate) fn int(&mut self, number: u64) -> Value {
        self.builder.ins().iconst(types::I64, number.cast_signed())
    }

    /// A number of a width.
    pub(crate) fn constant(&mut self, number: u128, width: Width) -> Value {
        let low = self.int(number as u64);
        if width <= 64 {
            return low;
        }
        let high = self.int((number >> 64) as u64);
        self.builder.ins().iconcat(low, high)
    }

    /// Cuts off what is above a width.
    pub(crate) fn masked(&mut self, value: Value, width: Width) -> Value {
        if width == 64 || width == 128 || is_made(Wrong::Width) {
            return value;
        }
        let most = self.constant(ones(width), width);
        self.builder.ins().band(value, most)
    }

    /// A comparison as a number.
    pub(crate) fn bit(&mut self, holds: Value) -> Value {
        self.builder.ins().uextend(types::I64, holds)
    }

    /// A comparison of two numbers, as a number.
    pub(crate) fn compare(&mut self, how: IntCC, a: Value, b: Value) -> Value {
        let holds = self.builder.ins().icmp(how, a, b);
        self.bit(holds)
    }

    /// In two's complement, with copies of its highest bit above the width.
    fn signed(&mut self, value: Value, width: Width) -> Value {
        let above = u64::from(if width > 64 { 128 - width } else { 64 - width });
        if above == 0 {
            return value;
        }
        let above = self.int(above);
        let high = self.builder.ins().ishl(value, above);
        self.builder.ins().sshr(high, above)
    }

    /// A value of one width in another, its bits cut off above, or zeros above them.
    pub(crate) fn fitted(&mut self, value: Value, from: Width, to: Width) -> Value {
        let value = match (from > 64, to > 64) {
            (true, false) => self.builder.ins().ireduce(types::I64, value),
            (false, true) => self.builder.ins().uextend(types::I128, value),
            _ => value,
        };
        if to < from {
            self.masked(value, to)
        } else {
            value
        }
    }

    /// [`Op::Resize`](catena_flow::program::ir::Op::Resize).
    pub(crate) fn resized(&mut self, value: Value, from: Width, to: Width, signed: bool) -> Value {
        if !signed || to <= from {
            return self.fitted(value, from, to);
        }
        let mut value = self.signed(value, from);
        if from <= 64 && to > 64 {
            value = self.builder.ins().sextend(types::I128, value);
        }
        self.masked(value, to)
    }

    /// [`Op::Slice`](catena_flow::program::ir::Op::Slice).
    pub(crate) fn slice(&mut self, value: Value, from: Width, low: Width, to: Width) -> Value {
        let shift = self.int(u64::from(low));
        let value = self.builder.ins().ushr(value, shift);
        self.fitted(value, from, to)
    }

    /// [`Op::Concat`](catena_flow::program::ir::Op::Concat).
    pub(crate) fn concat(&mut self, high: (Value, Width), low: (Value, Width)) -> Value {
        let to = high.1 + low.1;
        let wide = self.fitted(high.0, high.1, to);
        let shift = self.int(u64::from(low.1));
        let wide = self.builder.ins().ishl(wide, shift);
        let low = self.fitted(low.0, low.1, to);
        self.builder.ins().bor(wide, low)
    }

    /// [`Unary`].
    pub(crate) fn unary(&mut self, op: Unary, a: Value, width: Width) -> Value {
        let value = match op {
            Unary::Not => self.builder.ins().bnot(a),
            Unary::Negate => self.builder.ins().ineg(a),
        };
        self.masked(value, width)
    }

    /// [`Binary`] on arguments of a width; the second one of a shift has its own. None for what is
    /// not done in line.
    pub(crate) fn binary(
        &mut self,
        op: Binary,
        a: (Value, Width),
        b: (Value, Width),
    ) -> Option<Value> {
        let (a, width) = a;
        if let Some(how) = comparison(op) {
            let is_signed = matches!(op, Binary::LtSigned | Binary::LeSigned);
            let (mut a, mut b) = (a, b.0);
            if is_signed && !is_made(Wrong::Sign) {
                (a, b) = (self.signed(a, width), self.signed(b, width));
            }
            return Some(self.compare(how, a, b));
        }
        if op.is_shift() {
            return Some(self.shift(op, a, width, b));
        }
        let b = b.0;
        let value = match op {
            Binary::Add => self.builder.ins().iadd(a, b),
            Binary::Sub => self.builder.ins().isub(a, b),
            Binary::Mul => self.builder.ins().imul(a, b),
            Binary::And => self.builder.ins().band(a, b),
            Binary::Or => self.builder.ins().bor(a, b),
            Binary::Xor => self.builder.ins().bxor(a, b),
            Binary::Div | Binary::Mod if width > 64 => return None,
            Binary::Div | Binary::Mod => return Some(self.quotient(op, a, b)),
            Binary::AddSat => return Some(self.sum_at_most(a, b, width)),
            Binary::SubSat => {
                let difference = self.builder.ins().isub(a, b);
                let least = match is_made(Wrong::Saturation) {
                    true => difference,
                    false => self.constant(0, width),
                };
                return Some(self.choose(IntCC::UnsignedLessThan, (a, b), least, difference));
            }
            Binary::Min => return Some(self.choose(IntCC::UnsignedLessThan, (a, b), a, b)),
            Binary::Max => return Some(self.choose(IntCC::UnsignedLessThan, (a, b), b, a)),
            _ => return None,
        };
        let may_exceed = matches!(op, Binary::Add | Binary::Sub | Binary::Mul);
        Some(if may_exceed {
            self.masked(value, width)
        } else {
            value
        })
    }

    /// One of two values by a comparison of two others.
    fn choose(&mut self, how: IntCC, (a, b): (Value, Value), then: Value, other: Value) -> Value {
        let holds = self.builder.ins().icmp(how, a, b);
        self.pick(holds, then, other)
    }

    /// One of two values. Wide ones in halves: the generator makes a minimum of a choice by
    /// comparison, and has none of 128 bits.
    pub(crate) fn pick(&mut self, when: Value, then: Value, other: Value) -> Value {
        if self.builder.func.dfg.value_type(then) != types::I128 {
            return self.builder.ins().select(when, then, other);
        }
        let (then, other) = (
            self.builder.ins().isplit(then),
            self.builder.ins().isplit(other),
        );
        let low = self.builder.ins().select(when, then.0, other.0);
        let high = self.builder.ins().select(when, then.1, other.1);
        self.builder.ins().iconcat(low, high)
    }

    /// The sum, or the largest value of the width.
    pub(crate) fn sum_at_most(&mut self, a: Value, b: Value, width: Width) -> Value {
        let sum = self.builder.ins().iadd(a, b);
        let most = self.constant(ones(width), width);
        // Where the width is that of the register, a sum that went round is below what was added.
        let (left, right) = if width == 64 || width == 128 {
            (sum, a)
        } else {
            (most, sum)
        };
        self.choose(IntCC::UnsignedLessThan, (left, right), most, sum)
    }

    /// Quotient or remainder of up to 64 bits.
    fn quotient(&mut self, op: Binary, a: Value, b: Value) -> Value {
        let (zero, one) = (self.int(0), self.int(1));
        let is_zero = self.builder.ins().icmp(IntCC::Equal, b, zero);
        // The processor faults on a zero.
        let divisor = self.builder.ins().select(is_zero, one, b);
        if op == Binary::Div {
            let quotient = self.builder.ins().udiv(a, divisor);
            let none = if is_made(Wrong::QuotientByZero) {
                a
            } else {
                zero
            };
            self.builder.ins().select(is_zero, none, quotient)
        } else {
            let rest = self.builder.ins().urem(a, divisor);
            self.builder.ins().select(is_zero, a, rest)
        }
    }

    /// Shifts by any number: from the register's width on, all has been moved out.
    fn shift(&mut self, op: Binary, a: Value, width: Width, (b, by): (Value, Width)) -> Value {
        let bits: u64 = if width > 64 { 128 } else { 64 };
        let limit = self.constant(u128::from(bits), by);
        let is_inside = self.builder.ins().icmp(IntCC::UnsignedLessThan, b, limit);
        let low = self.fitted(b, by, 64);
        if op == Binary::ShrSigned {
            let most = self.int(bits - 1);
            let by = self.builder.ins().select(is_inside, low, most);
            let value = self.signed(a, width);
            let value = self.builder.ins().sshr(value, by);
            return self.masked(value, width);
        }
        let moved = if op == Binary::Shl {
            self.builder.ins().ishl(a, low)
        } else {
            self.builder.ins().ushr(a, low)
        };
        let outside = match is_made(Wrong::Shift) {
            true => moved,
            false => self.constant(0, width),
        };
        let value = self.pick(is_inside, moved, outside);
        self.masked(value, width)
    }
}

fn comparison(op: Binary) -> Option<IntCC> {
    Some(match op {
        Binary::Eq => IntCC::Equal,
        Binary::Ne => IntCC::NotEqual,
        Binary::Lt => IntCC::UnsignedLessThan,
        Binary::Le => IntCC::UnsignedLessThanOrEqual,
        Binary::LtSigned => IntCC::SignedLessThan,
        Binary::LeSigned => IntCC::SignedLessThanOrEqual,
        _ => return None,
    })
}
