//! Meters in generated code: what [`catena_flow::meter`] decides, as instructions.
//!
//! While a packet's code runs. A meter's terms are constants of the code and its words are values
//! of the compiler's, so that nothing is called and no word goes through memory. There are no
//! branches: what a colour changes is chosen by selects, since which it is changes from packet to
//! packet.

use catena_flow::meter::{Gcra, SECOND_NS, SrTcm, TrTcm, Window};
use catena_flow::program::ir::{FlowRegister, MeterKind, Slot, Value as Operand};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};
use std::mem::offset_of;

use crate::edge::Context;
use crate::generate::Generator;
use crate::wrong::{Wrong, is_made};

/// What a packet brings to a meter.
#[derive(Clone, Copy)]
struct Charge {
    now: Value,
    cost: Operand,
    /// Whether it has come as a green one, and as no red one.
    is_green: Value,
    is_not_red: Value,
}

/// An instant or a span: nanoseconds and a fraction of one.
#[derive(Clone, Copy)]
struct Span {
    ns: Value,
    fraction: Value,
}

/// Codes of colours, as [`Op::Meter`](catena_flow::program::ir::Op::Meter) has them.
const GREEN: u64 = 0;
const YELLOW: u64 = 1;
const RED: u64 = 2;

impl Generator<'_, '_> {
    /// Charges a meter whose words are the flow's registers from `register` on. A verified program
    /// has the meter, and the flow these registers, of 64 bits each.
    pub(crate) fn meter(
        &mut self,
        to: Slot,
        (meter, register): (u16, u8),
        cost: Operand,
        before: Operand,
    ) {
        let program = self.program;
        let Some(meter) = program.meters.get(usize::from(meter)) else {
            return;
        };
        let numbers = (register..=u8::MAX).take(meter.kind.words());
        let registers: Vec<FlowRegister> = numbers.filter_map(|one| self.register(one)).collect();
        let words: Vec<Value> = registers.iter().map(|one| self.flow(one)).collect();
        let now = self.pointer(offset_of!(Context, now_ns));
        let (before, _) = self.value(before);
        let [green, yellow] = [GREEN, YELLOW].map(|colour| self.int(colour));
        let charge = Charge {
            now,
            cost,
            is_green: self.holds(IntCC::Equal, before, green),
            is_not_red: self.holds(IntCC::UnsignedLessThanOrEqual, before, yellow),
        };
        let (words, colour) = match (&meter.kind, &*words) {
            (MeterKind::Gcra(gcra), &[ns, fraction]) => {
                self.gcra(gcra, Span { ns, fraction }, charge)
            }
            (MeterKind::Window(window), &[t_min, t_max]) => {
                self.window(window, [t_min, t_max], charge)
            }
            (MeterKind::SrTcm(marker), &[at, committed, excess]) => {
                self.single_rate(marker, [at, committed, excess], charge)
            }
            (MeterKind::TrTcm(marker), &[at, committed, peak]) => {
                self.two_rate(marker, [at, committed, peak], charge)
            }
            _ => return,
        };
        for (register, word) in registers.iter().zip(words) {
            self.set_flow(register, word);
        }
        self.set(to, colour);
    }

    fn holds(&mut self, how: IntCC, a: Value, b: Value) -> Value {
        self.builder.ins().icmp(how, a, b)
    }

    fn both(&mut self, a: Value, b: Value) -> Value {
        self.builder.ins().band(a, b)
    }

    fn either(&mut self, a: Value, b: Value) -> Value {
        self.builder.ins().bor(a, b)
    }

    /// The later of a meter's instant and now.
    fn later(&mut self, at: Value, now: Value) -> Value {
        self.builder.ins().umax(at, now)
    }

    /// Green or red by whether the packet passes.
    fn passed(&mut self, passes: Value) -> Value {
        let [green, red] = [GREEN, RED].map(|colour| self.int(colour));
        self.pick(passes, green, red)
    }

    /// A cost in credits: below 2^62, as a cost has 32 bits.
    fn credits(&mut self, cost: Operand) -> Value {
        let ((cost, _), second) = (self.value(cost), self.int(SECOND_NS));
        self.builder.ins().imul(cost, second)
    }

    fn gcra(&mut self, gcra: &Gcra, state: Span, charge: Charge) -> (Vec<Value>, Value) {
        let (rate, _, limit) = gcra.terms();
        let [most, zero] = [rate - 1, 0].map(|number| self.int(number));
        let stored = self.builder.ins().umin(state.fraction, most);
        let is_ahead = self.holds(IntCC::UnsignedGreaterThanOrEqual, state.ns, charge.now);
        let begin = Span {
            ns: self.later(state.ns, charge.now),
            fraction: self.pick(is_ahead, stored, zero),
        };
        let span = self.span(gcra, charge.cost);
        let next = self.sum_of(rate, begin, span);
        let [limit_ns, limit_fraction] = limit.map(|part| self.int(part));
        let last_ns = self.sum_at_most(charge.now, limit_ns, 64);
        let is_before = self.holds(IntCC::UnsignedLessThan, next.ns, last_ns);
        let is_same = self.holds(IntCC::Equal, next.ns, last_ns);
        let how = IntCC::UnsignedLessThanOrEqual;
        let is_within = self.holds(how, next.fraction, limit_fraction);
        let is_within = self.both(is_same, is_within);
        let passes = self.either(is_before, is_within);
        let passes = self.both(passes, charge.is_not_red);
        let words = [(next.ns, state.ns), (next.fraction, state.fraction)];
        let words = words.map(|(new, old)| self.pick(passes, new, old));
        (words.into(), self.passed(passes))
    }

    /// What a cost takes of a rate: a constant for meters of packets.
    fn span(&mut self, gcra: &Gcra, cost: Operand) -> Span {
        let (rate, one, _) = gcra.terms();
        if let Operand::Const(1, _) = cost {
            let [ns, fraction] = one.map(|part| self.int(part));
            return Span { ns, fraction };
        }
        let (credits, rate) = (self.credits(cost), self.int(rate));
        let ns = self.builder.ins().udiv(credits, rate);
        let whole = self.builder.ins().imul(ns, rate);
        let fraction = self.builder.ins().isub(credits, whole);
        Span { ns, fraction }
    }

    /// The sum of two whose fractions are below the rate; at most the last instant there is.
    fn sum_of(&mut self, rate: u64, one: Span, other: Span) -> Span {
        let rate = self.int(rate);
        let sum = self.builder.ins().iadd(one.fraction, other.fraction);
        // Both are below the rate; their sum may not fit.
        let is_over = self.holds(IntCC::UnsignedLessThan, sum, one.fraction);
        let is_whole = self.holds(IntCC::UnsignedGreaterThanOrEqual, sum, rate);
        let carry = self.either(is_over, is_whole);
        let rest = self.builder.ins().isub(sum, rate);
        let fraction = self.pick(carry, rest, sum);
        let ns = self.sum_at_most(one.ns, other.ns, 64);
        let more = if is_made(Wrong::Meter) {
            self.int(0)
        } else {
            self.bit(carry)
        };
        let ns = self.sum_at_most(ns, more, 64);
        Span { ns, fraction }
    }

    fn window(
        &mut self,
        window: &Window,
        [t_min, t_max]: [Value; 2],
        charge: Charge,
    ) -> (Vec<Value>, Value) {
        let [interval, length, last, first] = {
            let [interval, length] = window.terms();
            [interval, length, i64::MAX, i64::MIN].map(|ns| self.int(ns.cast_unsigned()))
        };
        let now = self.builder.ins().umin(charge.now, last);
        let is_new = self.holds(IntCC::Equal, t_min, t_max);
        let is_past = self.holds(IntCC::SignedGreaterThan, now, t_max);
        let opens = self.either(is_new, is_past);
        let how = match is_made(Wrong::Window) {
            true => IntCC::SignedGreaterThanOrEqual,
            false => IntCC::SignedGreaterThan,
        };
        let slides = self.holds(how, now, t_min);
        let from = self.pick(opens, now, t_max);
        // An interval and a length are above 0, so that a sum that went round is below.
        let sum = self.builder.ins().iadd(from, interval);
        let is_round = self.holds(IntCC::SignedLessThan, sum, from);
        let new_max = self.pick(is_round, last, sum);
        let difference = self.builder.ins().isub(new_max, length);
        let is_round = self.holds(IntCC::SignedGreaterThan, difference, new_max);
        let new_min = self.pick(is_round, first, difference);
        let passes = self.either(opens, slides);
        let passes = self.both(passes, charge.is_not_red);
        let words = [(new_min, t_min), (new_max, t_max)];
        let words = words.map(|(new, old)| self.pick(passes, new, old));
        (words.into(), self.passed(passes))
    }

    fn single_rate(
        &mut self,
        marker: &SrTcm,
        [at, committed, excess]: [Value; 3],
        charge: Charge,
    ) -> (Vec<Value>, Value) {
        let [cir, cbs, ebs] = marker.terms();
        let elapsed = self.elapsed(at, charge.now);
        let earned = self.earned(elapsed, cir);
        let (committed, over) = self.refilled(committed, earned);
        let (excess, _) = match is_made(Wrong::Excess) {
            true => (excess, over),
            false => self.refilled(excess, over),
        };
        let (cost, zero) = (self.credits(charge.cost), self.int(0));
        let fits = self.has_left(cbs, committed, cost);
        let is_green = self.both(charge.is_green, fits);
        let fits = self.has_left(ebs, excess, cost);
        let is_yellow = self.both(charge.is_not_red, fits);
        let [yellow, red] = [YELLOW, RED].map(|colour| self.int(colour));
        let other = self.pick(is_yellow, yellow, red);
        let paid = self.pick(is_yellow, cost, zero);
        // What is green leaves the excess bucket alone.
        let paid = self.pick(is_green, zero, paid);
        let excess = self.builder.ins().iadd(excess, paid);
        let (committed, colour) = self.paid_green(is_green, (committed, cost), other);
        let at = self.later(at, charge.now);
        (vec![at, committed, excess], colour)
    }

    fn two_rate(
        &mut self,
        marker: &TrTcm,
        [at, committed, peak]: [Value; 3],
        charge: Charge,
    ) -> (Vec<Value>, Value) {
        let [(cir, cbs), (pir, pbs)] = marker.terms();
        let elapsed = self.elapsed(at, charge.now);
        let earned = [cir, pir].map(|rate| self.earned(elapsed, rate));
        let (committed, _) = self.refilled(committed, earned[0]);
        let (peak, _) = self.refilled(peak, earned[1]);
        let (cost, zero) = (self.credits(charge.cost), self.int(0));
        let fits = self.has_left(pbs, peak, cost);
        let is_not_red = self.both(charge.is_not_red, fits);
        let paid = self.pick(is_not_red, cost, zero);
        let peak = self.builder.ins().iadd(peak, paid);
        let fits = self.has_left(cbs, committed, cost);
        let mut is_green = self.both(is_not_red, fits);
        if !is_made(Wrong::Colour) {
            is_green = self.both(is_green, charge.is_green);
        }
        let [yellow, red] = [YELLOW, RED].map(|colour| self.int(colour));
        let other = self.pick(is_not_red, yellow, red);
        let (committed, colour) = self.paid_green(is_green, (committed, cost), other);
        let at = self.later(at, charge.now);
        (vec![at, committed, peak], colour)
    }

    /// The committed bucket behind a packet, and the packet's colour: `other` if it is not green.
    fn paid_green(
        &mut self,
        is_green: Value,
        (committed, cost): (Value, Value),
        other: Value,
    ) -> (Value, Value) {
        let (zero, green) = (self.int(0), self.int(GREEN));
        let paid = self.pick(is_green, cost, zero);
        let committed = self.builder.ins().iadd(committed, paid);
        (committed, self.pick(is_green, green, other))
    }

    /// Nanoseconds since `at`; none if that is still to come.
    fn elapsed(&mut self, at: Value, now: Value) -> Value {
        let later = self.later(at, now);
        self.builder.ins().isub(later, at)
    }

    /// What a rate earns in a time: 128 bits, the low ones first.
    fn earned(&mut self, elapsed: Value, rate: u64) -> (Value, Value) {
        let rate = self.int(rate);
        let low = self.builder.ins().imul(elapsed, rate);
        (low, self.builder.ins().umulhi(elapsed, rate))
    }

    /// What a bucket misses when credits have gone into it, and those that did not fit.
    fn refilled(&mut self, missing: Value, (low, high): (Value, Value)) -> (Value, (Value, Value)) {
        let zero = self.int(0);
        let is_wide = self.holds(IntCC::NotEqual, high, zero);
        let is_more = self.holds(IntCC::UnsignedGreaterThan, low, missing);
        let fills = self.either(is_wide, is_more);
        let taken = self.pick(fills, missing, low);
        let missing = self.builder.ins().isub(missing, taken);
        let borrows = self.holds(IntCC::UnsignedLessThan, low, taken);
        let borrow = self.bit(borrows);
        let high = self.builder.ins().isub(high, borrow);
        (missing, (self.builder.ins().isub(low, taken), high))
    }

    /// Whether a bucket of `depth` credits that misses some has those of a cost.
    fn has_left(&mut self, depth: u64, missing: Value, cost: Value) -> Value {
        let depth = self.int(depth);
        // One that another rate has left may miss more than there can be.
        let missing = self.builder.ins().umin(missing, depth);
        let left = self.builder.ins().isub(depth, missing);
        self.holds(IntCC::UnsignedGreaterThanOrEqual, left, cost)
    }
}
