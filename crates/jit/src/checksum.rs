//! Fields that generated code writes, with the checksums that cover them.
//!
//! In line for the fields of outer headers that programs write for each packet; what lies in a
//! tunnel, is quoted or would cross the packet's end is left to a call back. The arithmetic is that
//! of `field::write`, to the bit: a checksum changes by the complement of the old words' sum and by
//! the new words (RFC 1624, equation 3). Sums do not mind the order of bytes (RFC 1071, 2 B), so
//! words are added as the processor loads them.

use catena_flow::program::field::ones;
use catena_flow::program::header::{Field, Header, NONE};
use catena_flow::program::ir::{Op, Value as Operand};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Type, Value, types};
use std::mem::offset_of;

use crate::edge::Context;
use crate::generate::{Generator, PLAIN};
use crate::wrong::{Wrong, is_made};

/// Where a checksum lies behind the beginning of its header.
const OF_IPV4: u64 = 10;
const OF_TCP: u64 = 16;
const OF_UDP: u64 = 6;
const OF_ICMP: u64 = 2;

/// Whole 16-bit words of a header that hold a field.
#[derive(Clone, Copy, Debug)]
struct Span {
    from: usize,
    /// 2, 4, 8 or 16.
    size: usize,
    /// Bits behind the field in its last word.
    below: usize,
}

impl Span {
    /// None for what is left to a call back.
    fn of(field: Field) -> Option<Self> {
        let end = usize::from(field.bit) + usize::from(field.width);
        let from = usize::from(field.bit) / 16 * 2;
        let size = end.div_ceil(16) * 2 - from;
        let is_outer = matches!(
            field.header,
            Header::Ethernet
                | Header::Vlan
                | Header::Vlan2
                | Header::Arp
                | Header::Ipv4
                | Header::Ipv6
                | Header::Tcp
                | Header::Udp
                | Header::Icmp
                | Header::Ports
        );
        let fits = matches!(size, 2 | 4 | 8) || (size == 16 && field.width == 128);
        (is_outer && fits).then_some(Self {
            from,
            size,
            below: (from + size) * 8 - end,
        })
    }
}

/// Words of a span: as one number, or as two of 64 bits.
#[derive(Clone, Copy, Debug)]
enum Words {
    One(Value),
    Two([Value; 2]),
}

impl Generator<'_, '_> {
    /// [`Op::SetField`].
    pub(crate) fn set_field(&mut self, op: &Op, field: Field, from: Operand) {
        let (Some(span), (value, _)) = (Span::of(field), self.value(from)) else {
            return self.call(op, 128);
        };
        let [inside, outside, left, on] = [(); 4].map(|()| self.builder.create_block());
        self.builder.set_cold_block(left);
        let at = self.header(field.header);
        let reach = self.pointer(offset_of!(Context, reach));
        let behind = self.int((span.from + span.size) as u64);
        let behind = self.builder.ins().iadd(at, behind);
        // Of a longer packet `reach` does not say how long it is.
        let most = self.int(u64::from(u16::MAX));
        let is_inside = self
            .builder
            .ins()
            .icmp(IntCC::UnsignedLessThanOrEqual, behind, reach);
        let is_known = self
            .builder
            .ins()
            .icmp(IntCC::UnsignedLessThan, reach, most);
        let is_inside = self.builder.ins().band(is_inside, is_known);
        self.builder
            .ins()
            .brif(is_inside, inside, &[], outside, &[]);
        self.begin_block(outside);
        let none = self.int(u64::from(NONE));
        let is_none = self.builder.ins().icmp(IntCC::Equal, at, none);
        self.builder.ins().brif(is_none, on, &[], left, &[]);
        self.begin_block(left);
        self.call(op, 128);
        self.builder.ins().jump(on, &[]);
        self.begin_block(inside);
        let change = self.put(at, field, span, value);
        self.mend(at, field, change);
        self.builder.ins().jump(on, &[]);
        self.begin_block(on);
    }

    /// Writes a field of a header that begins at `at`; gives what that adds to a sum over it.
    fn put(&mut self, at: Value, field: Field, span: Span, value: Value) -> Value {
        let bytes = self.pointer(offset_of!(Context, bytes));
        let base = self.builder.ins().iadd(bytes, at);
        let from = span.from as i32;
        let (old, new) = if span.size == 16 {
            let (low, high) = self.builder.ins().isplit(value);
            let old = [0, 8].map(|by| {
                let load = self.builder.ins();
                load.load(types::I64, PLAIN, base, from + by)
            });
            let new = [high, low].map(|half| self.builder.ins().bswap(half));
            for (by, half) in [0, 8].into_iter().zip(new) {
                self.builder.ins().store(PLAIN, half, base, from + by);
            }
            (Words::Two(old), Words::Two(new))
        } else {
            let kind = match span.size {
                2 => types::I16,
                4 => types::I32,
                _ => types::I64,
            };
            let old = self.builder.ins().load(kind, PLAIN, base, from);
            let new = self.placed(old, kind, field, span, value);
            self.builder.ins().store(PLAIN, new, base, from);
            (Words::One(old), Words::One(new))
        };
        let (old, new) = (self.sum(old), self.sum(new));
        let old = self.folded(old);
        if is_made(Wrong::OldWords) {
            return new;
        }
        let taken = self.complement(old);
        self.builder.ins().iadd(taken, new)
    }

    /// The words of a span with a field's value in them, as they lie in memory.
    fn placed(&mut self, old: Value, kind: Type, field: Field, span: Span, value: Value) -> Value {
        let wide = kind == types::I64;
        let below = self.int(span.below as u64);
        let mut bits = self.builder.ins().ishl(value, below);
        if usize::from(field.width) < span.size * 8 {
            let keep = !((ones(field.width) << span.below) as u64);
            let keep = self.int(keep);
            let mut was = self.builder.ins().bswap(old);
            if !wide {
                was = self.builder.ins().uextend(types::I64, was);
            }
            let was = self.builder.ins().band(was, keep);
            bits = self.builder.ins().bor(bits, was);
        }
        if !wide {
            bits = self.builder.ins().ireduce(kind, bits);
        }
        self.builder.ins().bswap(bits)
    }

    /// The sum of 16-bit words, or of larger ones: below 2^36.
    fn sum(&mut self, words: Words) -> Value {
        match words {
            Words::Two([one, other]) => {
                let (one, other) = (self.halves(one), self.halves(other));
                self.builder.ins().iadd(one, other)
            }
            Words::One(value) if self.builder.func.dfg.value_type(value) == types::I64 => {
                self.halves(value)
            }
            Words::One(value) => self.builder.ins().uextend(types::I64, value),
        }
    }

    fn halves(&mut self, value: Value) -> Value {
        let (most, by) = (self.int(u64::from(u32::MAX)), self.int(32));
        let low = self.builder.ins().band(value, most);
        let high = self.builder.ins().ushr(value, by);
        self.builder.ins().iadd(low, high)
    }

    /// A sum below 2^40 in 16 bits, with carries from the top added at the bottom.
    fn folded(&mut self, mut sum: Value) -> Value {
        let (most, by) = (self.int(0xffff), self.int(16));
        if is_made(Wrong::Carry) {
            return self.builder.ins().band(sum, most);
        }
        // To 2^24 and a little, to 2^16 and a little, to 2^16.
        for _ in 0..3 {
            let low = self.builder.ins().band(sum, most);
            let high = self.builder.ins().ushr(sum, by);
            sum = self.builder.ins().iadd(low, high);
        }
        sum
    }

    fn complement(&mut self, sum: Value) -> Value {
        let most = self.int(0xffff);
        self.builder.ins().bxor(sum, most)
    }

    /// Mends the checksums that cover a field whose header begins at `at`.
    fn mend(&mut self, at: Value, field: Field, change: Value) {
        match field.header {
            Header::Ipv4 => {
                self.mend_behind(at, OF_IPV4, change);
                if field.bit >= 96 && !is_made(Wrong::PseudoHeader) {
                    self.mend_under(change, false);
                }
            }
            Header::Ipv6 if field.bit >= 64 => self.mend_under(change, true),
            Header::Tcp => self.mend_behind(at, OF_TCP, change),
            Header::Udp => {
                let (by, is_udp) = (self.int(OF_UDP), self.int(1));
                let place = self.builder.ins().iadd(at, by);
                self.mend_at(place, Some(is_udp), change);
            }
            Header::Icmp => self.mend_behind(at, OF_ICMP, change),
            Header::Ports => self.mend_under(change, true),
            _ => {}
        }
    }

    fn mend_behind(&mut self, at: Value, by: u64, change: Value) {
        let by = self.int(by);
        let place = self.builder.ins().iadd(at, by);
        self.mend_at(place, None, change);
    }

    /// Mends the transport header's, if there is one; ICMP's only if it covers addresses.
    fn mend_under(&mut self, change: Value, mends_icmp: bool) {
        let none = self.int(u64::from(NONE));
        let [tcp, udp, icmp] = [Header::Tcp, Header::Udp, Header::Icmp].map(|header| {
            let at = self.header(header);
            let is_there = self.builder.ins().icmp(IntCC::NotEqual, at, none);
            (at, is_there)
        });
        let [of_tcp, of_udp, of_icmp] =
            [(tcp, OF_TCP), (udp, OF_UDP), (icmp, OF_ICMP)].map(|((at, _), by)| {
                let by = self.int(by);
                self.builder.ins().iadd(at, by)
            });
        // What is not there lies beyond all reach.
        let rest = if mends_icmp { of_icmp } else { none };
        let place = self.builder.ins().select(udp.1, of_udp, rest);
        let mut place = self.builder.ins().select(tcp.1, of_tcp, place);
        if !mends_icmp {
            place = self.builder.ins().select(icmp.1, none, place);
        }
        let zero = self.int(0);
        let is_udp = self.builder.ins().uextend(types::I64, udp.1);
        let is_udp = self.builder.ins().select(tcp.1, zero, is_udp);
        self.mend_at(place, Some(is_udp), change);
    }

    /// Brings the checksum at a place in line with a change, if it lies within the packet. Where
    /// `is_udp` is not 0, one of zero stays, and none becomes zero.
    fn mend_at(&mut self, place: Value, is_udp: Option<Value>, change: Value) {
        let [inside, on] = [(); 2].map(|()| self.builder.create_block());
        let (two, reach) = (self.int(2), self.pointer(offset_of!(Context, reach)));
        let behind = self.builder.ins().iadd(place, two);
        let how = IntCC::UnsignedLessThanOrEqual;
        let is_inside = self.builder.ins().icmp(how, behind, reach);
        self.builder.ins().brif(is_inside, inside, &[], on, &[]);
        self.begin_block(inside);
        let bytes = self.pointer(offset_of!(Context, bytes));
        let to = self.builder.ins().iadd(bytes, place);
        let old = self.builder.ins().uload16(types::I64, PLAIN, to, 0);
        let sum = self.complement(old);
        let sum = self.builder.ins().iadd(sum, change);
        let sum = self.folded(sum);
        let mut new = self.complement(sum);
        if let Some(is_udp) = is_udp {
            let (zero, most) = (self.int(0), self.int(0xffff));
            let is_zero = self.builder.ins().icmp(IntCC::Equal, new, zero);
            let shown = self.builder.ins().select(is_zero, most, new);
            let is_used = self.builder.ins().icmp(IntCC::NotEqual, old, zero);
            let unused = if is_made(Wrong::NoChecksum) {
                shown
            } else {
                zero
            };
            let shown = self.builder.ins().select(is_used, shown, unused);
            new = self.builder.ins().select(is_udp, shown, new);
        }
        self.builder.ins().istore16(PLAIN, new, to, 0);
        self.builder.ins().jump(on, &[]);
        self.begin_block(on);
    }
}
