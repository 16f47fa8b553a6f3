//! Registers in generated code: those of the flow, which are values of the compiler's, and those of
//! the program, which are words of memory.
//!
//! A flow's words that the code touches are read when a function begins. What is written goes into
//! these values, with the bits that were written, and into memory when the function ends: no call
//! back works on them.

use catena_flow::STATE_WORDS_MAX;
use catena_flow::program::field::ones;
use catena_flow::program::globals::Raised;
use catena_flow::program::ir::{Binary, FlowRegister, Op, Scope, Slot, Value as Operand};
use catena_flow::program::layout::Layout;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{AtomicRmwOp, InstBuilder, Value, types};
use std::mem::offset_of;

use crate::edge::Context;
use crate::generate::{FlowWord, Generator, PLAIN};
use crate::wrong::{Wrong, is_made};

/// The registers that an operation touches, from the first on, and whether it may write them.
fn touched(op: &Op, words_of: impl Fn(u16) -> usize) -> Option<(u8, usize, bool)> {
    match op {
        Op::Flow { register, .. } => Some((*register, 1, false)),
        Op::SetFlow { register, .. } => Some((*register, 1, true)),
        Op::Meter {
            meter, register, ..
        } => Some((*register, words_of(*meter), true)),
        _ => None,
    }
}

impl Generator<'_, '_> {
    /// Reads the words of the flow that the code touches.
    pub(crate) fn read_flow(&mut self) {
        let (program, code) = (self.program, self.code);
        let words_of = |meter: u16| {
            let meter = program.meters.get(usize::from(meter));
            meter.map_or(0, |meter| meter.kind.words())
        };
        for op in code.ops() {
            let Some((first, count, is_written)) = touched(op, words_of) else {
                continue;
            };
            for register in (first..=u8::MAX).take(count) {
                let Some(register) = self.register(register) else {
                    continue;
                };
                for word in [register.word, register.word + u8::from(register.width > 64)] {
                    self.declare_word(word, is_written);
                }
            }
        }
        let zero = self.int(0);
        self.builder.def_var(self.dirty, zero);
        for word in self.words.clone().into_values() {
            if let Some(mask) = word.mask {
                self.builder.def_var(mask, zero);
            }
        }
        if self.words.is_empty() {
            return;
        }
        let from = self.pointer(offset_of!(Context, words));
        for (at, word) in self.words.clone() {
            let value = self
                .builder
                .ins()
                .load(types::I64, PLAIN, from, i32::from(at) * 8);
            self.builder.def_var(word.value, value);
        }
    }

    fn declare_word(&mut self, word: u8, is_written: bool) {
        let builder = &mut self.builder;
        let new = |value| FlowWord { value, mask: None };
        let word = self
            .words
            .entry(word)
            .or_insert_with(|| new(builder.declare_var(types::I64)));
        if is_written && word.mask.is_none() {
            word.mask = Some(builder.declare_var(types::I64));
        }
    }

    /// Puts what was written into memory, with what else stands in these words.
    pub(crate) fn write_flow(&mut self) {
        let written: Vec<_> = self
            .words
            .iter()
            .filter_map(|(at, word)| Some((i32::from(*at) * 8, word.value, word.mask?)))
            .collect();
        if written.is_empty() {
            return;
        }
        let (words, masks) = (
            self.pointer(offset_of!(Context, words)),
            self.pointer(offset_of!(Context, mask)),
        );
        for (at, value, mask) in written {
            for (row, variable) in [(words, value), (masks, mask)] {
                let value = self.builder.use_var(variable);
                self.builder.ins().store(PLAIN, value, row, at);
            }
        }
        let dirty = self.builder.use_var(self.dirty);
        let to = self.pointer(offset_of!(Context, dirty));
        self.builder.ins().store(PLAIN, dirty, to, 0);
    }

    /// A register of the flow, if it lies within what a flow can have.
    pub(crate) fn register(&self, number: u8) -> Option<FlowRegister> {
        let flows = self.element.flows.as_ref()?;
        let register = flows.registers.get(usize::from(number))?;
        let last = usize::from(register.word) + usize::from(register.width > 64);
        (last < STATE_WORDS_MAX).then(|| register.clone())
    }

    /// A word of the flow; `read_flow` has read all that the code names.
    fn word(&mut self, word: u8) -> Value {
        match self.words.get(&word) {
            Some(word) => self.builder.use_var(word.value),
            None => self.int(0),
        }
    }

    pub(crate) fn flow(&mut self, register: &FlowRegister) -> Value {
        let low = self.word(register.word);
        if register.width > 64 {
            let high = self.word(register.word + 1);
            let value = self.builder.ins().iconcat(low, high);
            return self.masked(value, register.width);
        }
        let shift = self.int(u64::from(register.shift));
        let value = self.builder.ins().ushr(low, shift);
        self.masked(value, register.width)
    }

    pub(crate) fn set_flow(&mut self, register: &FlowRegister, value: Value) {
        if register.width > 64 {
            let (low, high) = self.builder.ins().isplit(value);
            self.set_flow_bits(register.word, (0, 64), low);
            self.set_flow_bits(register.word + 1, (0, register.width - 64), high);
        } else {
            self.set_flow_bits(register.word, (register.shift, register.width), value);
        }
    }

    /// Writes bits of a word of the flow, from a shift on.
    fn set_flow_bits(&mut self, word: u8, (shift, width): (u8, u8), value: Value) {
        let Some(FlowWord {
            value: variable,
            mask: Some(written),
        }) = self.words.get(&word).copied()
        else {
            return;
        };
        let mask = (ones(width) as u64) << shift;
        let by = self.int(u64::from(shift));
        let mut bits = self.builder.ins().ishl(value, by);
        if mask != u64::MAX && !is_made(Wrong::Neighbours) {
            let old = self.builder.use_var(variable);
            let keep = self.int(!mask);
            let old = self.builder.ins().band(old, keep);
            bits = self.builder.ins().bor(old, bits);
        }
        self.builder.def_var(variable, bits);
        let dirty = if is_made(Wrong::Written) {
            0
        } else {
            1 << word
        };
        for (variable, bits) in [(written, mask), (self.dirty, dirty)] {
            let (old, more) = (self.builder.use_var(variable), self.int(bits));
            let new = self.builder.ins().bor(old, more);
            self.builder.def_var(variable, new);
        }
    }

    /// Address of a word of a global register, and whether there is one.
    fn global_word(&mut self, global: u16, index: Operand) -> (Value, Value) {
        let number = usize::from(global);
        let register = self.program.globals.get(number);
        let starts = Layout::global_starts(self.program);
        let start = starts.get(number).copied().unwrap_or(0);
        let is_shared = register.is_some_and(|one| one.scope == Scope::Shared);
        let (words, present) = match is_shared {
            true => (
                offset_of!(Context, shared),
                offset_of!(Context, shared_count),
            ),
            false => (
                offset_of!(Context, globals),
                offset_of!(Context, global_count),
            ),
        };
        let count = register.map_or(0, |one| {
            u64::from(one.count) - u64::from(is_made(Wrong::Array))
        });
        let (index, width) = self.value(index);
        let limit = self.constant(u128::from(count), width);
        let how = IntCC::UnsignedLessThan;
        let is_element = self.builder.ins().icmp(how, index, limit);
        let index = self.fitted(index, width, 64);
        let start = self.int(start.into());
        let at = self.builder.ins().iadd(index, start);
        let present = self.pointer(present);
        let is_present = self.builder.ins().icmp(how, at, present);
        let is_there = self.builder.ins().band(is_element, is_present);
        let size = self.int(8);
        let at = self.builder.ins().imul(at, size);
        let words = self.pointer(words);
        (self.builder.ins().iadd(words, at), is_there)
    }

    /// What a word of zero stands for.
    fn raised(&self, global: u16) -> u64 {
        let register = self.program.globals.get(usize::from(global));
        register.map_or(0, |register| Raised::of(register).by)
    }

    /// The value of a word, in a slot of the register's width.
    fn value_of_word(&mut self, word: Value, global: u16, to: Slot) -> Value {
        let raised = match self.raised(global) {
            0 => word,
            by => {
                let by = self.int(by);
                self.builder.ins().iadd(word, by)
            }
        };
        self.masked(raised, self.width(to))
    }

    /// [`Op::StepGlobal`] by a sum or a difference, which no other shard comes between.
    pub(crate) fn step_global(
        &mut self,
        old: Slot,
        (global, index): (u16, Operand),
        op: Binary,
        by: Operand,
    ) {
        let (at, is_there) = self.global_word(global, index);
        let (by, _) = self.value(by);
        let [inside, on] = [(); 2].map(|()| self.builder.create_block());
        self.builder.append_block_param(on, types::I64);
        let zero = self.int(0);
        self.builder
            .ins()
            .brif(is_there, inside, &[], on, &[zero.into()]);
        self.begin_block(inside);
        let how = match op {
            Binary::Sub => AtomicRmwOp::Sub,
            _ => AtomicRmwOp::Add,
        };
        let word = if is_made(Wrong::Step) {
            let word = self.builder.ins().load(types::I64, PLAIN, at, 0);
            self.builder.ins().store(PLAIN, by, at, 0);
            word
        } else {
            self.builder
                .ins()
                .atomic_rmw(types::I64, PLAIN, how, at, by)
        };
        let value = self.value_of_word(word, global, old);
        self.builder.ins().jump(on, &[value.into()]);
        self.begin_block(on);
        let value = self.builder.block_params(on)[0];
        self.set(old, value);
    }

    pub(crate) fn global(&mut self, to: Slot, global: u16, index: Operand) {
        let (at, is_there) = self.global_word(global, index);
        let [inside, on] = [(); 2].map(|()| self.builder.create_block());
        self.builder.append_block_param(on, types::I64);
        let zero = self.int(0);
        self.builder
            .ins()
            .brif(is_there, inside, &[], on, &[zero.into()]);
        self.begin_block(inside);
        // As a relaxed load is on this processor.
        let value = self.builder.ins().load(types::I64, PLAIN, at, 0);
        let value = self.value_of_word(value, global, to);
        self.builder.ins().jump(on, &[value.into()]);
        self.begin_block(on);
        let value = self.builder.block_params(on)[0];
        self.set(to, value);
    }

    pub(crate) fn set_global(&mut self, global: u16, index: Operand, from: Operand) {
        let (at, is_there) = self.global_word(global, index);
        let (value, _) = self.value(from);
        let [inside, on] = [(); 2].map(|()| self.builder.create_block());
        self.builder.ins().brif(is_there, inside, &[], on, &[]);
        self.begin_block(inside);
        let value = match self.raised(global) {
            0 => value,
            by => {
                let by = self.int(by);
                self.builder.ins().isub(value, by)
            }
        };
        // As a release store is on this processor; the generator keeps stores in their order.
        self.builder.ins().store(PLAIN, value, at, 0);
        self.builder.ins().jump(on, &[]);
        self.begin_block(on);
    }
}
