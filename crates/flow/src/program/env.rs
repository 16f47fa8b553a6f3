//! What a piece of code works on: one packet, its flow, the program's registers and tables, and
//! what is to be done behind it.
//!
//! Made for each packet (or for each flow whose time is over) and handed to the interpreter or to
//! compiled code. Operations that are more than arithmetic are methods here, so that all backends
//! do the same.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::hash::KeyedHash;
use crate::meter::{Colour, GcraState, SrTcmState, TrTcmState, WindowState};
use crate::shape::STATE_WORDS_MAX;
use crate::{KEY_WORDS_MAX, Timeouts};

use super::field;
use super::field::{number, ones};
use super::frame::{Frame, close, open};
use super::globals::Globals;
use super::header::{Field, Header, Headers};
use super::ir::{Binary, Fact, FlowRegister, MeterKind, Program, Verdict};
use super::queue::{Emissions, Notices};
use super::table::MatchTable;
use super::tunnel::{EncapError, Tunnel, decap, encap};

/// How a piece of code ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The packet goes on to the next element.
    Next,
    /// It has its verdict.
    Done,
    /// A header could not be put on: the packet is dropped.
    NoHeadroom,
}

/// The registers of a flow while its code runs.
#[derive(Clone, Copy, Debug)]
pub struct FlowWords {
    /// Values, as in the entry, zeros without one; and what was written.
    pub words: [u64; STATE_WORDS_MAX],
    /// Bits that were written, of a word that was.
    mask: [u64; STATE_WORDS_MAX],
    /// Words of which something was written, a bit for each. A bit beyond stands for none.
    dirty: u64,
}

const _: () = assert!(STATE_WORDS_MAX <= u64::BITS as usize);

impl Default for FlowWords {
    fn default() -> Self {
        Self {
            words: [0; STATE_WORDS_MAX],
            mask: [0; STATE_WORDS_MAX],
            dirty: 0,
        }
    }
}

impl FlowWords {
    /// The words of an entry, none of them written.
    #[inline]
    pub fn load(&mut self, state: &[AtomicU64]) {
        for (word, from) in self.words.iter_mut().zip(state) {
            // Pairs with the Release stores of `Running::store` in this thread, or before the table
            // was attached to.
            *word = from.load(Ordering::Relaxed);
        }
        self.dirty = 0;
    }

    /// So many words of zero, none of them written: there is no entry.
    #[inline]
    pub fn clear(&mut self, count: usize) {
        self.words.iter_mut().take(count).for_each(|word| *word = 0);
        self.dirty = 0;
    }

    /// The value of a register, with what was written.
    #[inline]
    pub fn get(&self, register: &FlowRegister) -> u128 {
        let at = usize::from(register.word);
        let low = u128::from(self.words[at] >> register.shift);
        let value = if register.width > 64 {
            u128::from(self.words[at + 1]) << 64 | low
        } else {
            low
        };
        value & ones(register.width)
    }

    /// Writes a register.
    #[inline]
    pub fn set(&mut self, register: &FlowRegister, value: u128) {
        let at = usize::from(register.word);
        let width = register.width.min(64);
        self.set_bits(at, register.shift, width, value as u64);
        if register.width > 64 {
            self.set_bits(at + 1, 0, register.width - 64, (value >> 64) as u64);
        }
    }

    #[inline]
    fn set_bits(&mut self, at: usize, shift: u8, width: u8, value: u64) {
        let mask = (ones(width) as u64) << shift;
        self.words[at] = self.words[at] & !mask | value << shift & mask;
        // What stands there is left from another flow.
        let before = if self.dirty >> at & 1 == 0 {
            0
        } else {
            self.mask[at]
        };
        self.mask[at] = before | mask;
        self.dirty |= 1 << at;
    }

    /// For compiled code: values, the bits of each that were written, and, a bit for each, the
    /// words whose bits these are. What is written to a register goes into all three, as
    /// [`FlowWords::set`] does it.
    #[inline]
    pub fn parts_mut(
        &mut self,
    ) -> (
        &mut [u64; STATE_WORDS_MAX],
        &mut [u64; STATE_WORDS_MAX],
        &mut u64,
    ) {
        (&mut self.words, &mut self.mask, &mut self.dirty)
    }

    /// Whether anything was written.
    #[inline]
    pub fn is_written(&self) -> bool {
        self.dirty != 0
    }

    /// Words that were written, a bit for each.
    #[inline]
    pub fn written(&self) -> u64 {
        self.dirty
    }

    /// Puts what was written of a word, which is one of [`FlowWords::written`], over that of an
    /// entry.
    #[inline]
    pub fn over(&self, at: usize, old: u64) -> u64 {
        let mask = self.mask[at];
        old & !mask | self.words[at] & mask
    }
}

/// What code has decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The packet's verdict, if one was set.
    pub verdict: Option<Verdict>,
    /// Outputs that get a copy, a bit for each.
    pub clones: u64,
    /// Outputs that get a copy of what came, a bit for each.
    pub mirrors: u64,
    /// When the flow's entry ends, if that was set.
    pub timeouts: Option<Timeouts>,
    /// Whether the entry ends now.
    pub forgets: bool,
    /// The last mark: a number of the program's notes.
    pub mark: Option<u16>,
}

/// All that code works on.
pub struct Env<'a> {
    /// The program.
    pub program: &'a Program,
    /// The packet; none in timeout code.
    pub frame: Option<&'a mut dyn Frame>,
    /// Its headers.
    pub headers: &'a mut Headers,
    /// The time, in ns.
    pub now_ns: u64,
    /// Number of the input link.
    pub input: u8,
    /// Whether the flow has an entry.
    pub is_found: bool,
    /// Whether the flow has none and the table is full.
    pub is_full: bool,
    /// Registers of the element's flows.
    pub registers: &'a [FlowRegister],
    /// The flow's registers.
    pub flow: &'a mut FlowWords,
    /// The program's registers.
    pub globals: Globals<'a>,
    /// The program's tables.
    pub tables: &'a [MatchTable],
    /// The hash of [`Op::Hash`](super::ir::Op::Hash).
    pub hash: &'a KeyedHash,
    /// What is decided.
    pub outcome: &'a mut Outcome,
    /// Packets of the program's own making.
    pub emissions: &'a mut Emissions,
    /// Events.
    pub notices: &'a mut Notices,
}

impl std::fmt::Debug for Env<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Env")
            .field("now_ns", &self.now_ns)
            .field("headers", &self.headers)
            .field("outcome", &self.outcome)
            .finish_non_exhaustive()
    }
}

impl Env<'_> {
    /// The packet's bytes; none in timeout code.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.frame.as_ref().map_or(&[], |frame| frame.bytes())
    }

    /// [`Op::Field`](super::ir::Op::Field).
    #[inline]
    pub fn field(&self, field: Field) -> u128 {
        field::read(self.bytes(), self.headers, field)
    }

    /// [`Op::SetField`](super::ir::Op::SetField).
    #[inline]
    pub fn set_field(&mut self, field: Field, value: u128) {
        if let Some(frame) = &mut self.frame {
            field::write(frame.bytes_mut(), self.headers, field, value);
        }
    }

    /// [`Op::Valid`](super::ir::Op::Valid).
    #[inline]
    pub fn valid(&self, header: Header) -> bool {
        self.headers.has(header)
    }

    /// [`Op::Bytes`](super::ir::Op::Bytes): `count` bytes, at most 16.
    pub fn packet_bytes(&self, at: u128, count: usize) -> u128 {
        match usize::try_from(at) {
            Ok(at) if at < self.bytes().len() => number(self.bytes(), at, count.min(16)),
            _ => 0,
        }
    }

    /// [`Op::SetBytes`](super::ir::Op::SetBytes): `count` bytes, at most 16.
    pub fn set_packet_bytes(&mut self, at: u128, count: usize, value: u128) {
        let (Some(frame), Ok(at)) = (&mut self.frame, usize::try_from(at)) else {
            return;
        };
        let value = value.to_be_bytes();
        let from = value.len() - count.min(16);
        let bytes = frame.bytes_mut().get_mut(at..).unwrap_or_default();
        for (byte, new) in bytes.iter_mut().zip(&value[from..]) {
            *byte = *new;
        }
    }

    /// [`Op::Splice`](super::ir::Op::Splice); `false` without room.
    pub fn splice(&mut self, at: u128, count: i16) -> bool {
        let (Some(frame), Ok(at)) = (&mut self.frame, usize::try_from(at)) else {
            return false;
        };
        let size = usize::from(count.unsigned_abs());
        if count < 0 {
            return at < frame.bytes().len() && close(&mut **frame, at, size);
        }
        let is_open = open(&mut **frame, at, size);
        if is_open {
            frame.bytes_mut()[at..at + size].fill(0);
        }
        is_open
    }

    /// [`Op::Parse`](super::ir::Op::Parse).
    pub fn parse(&mut self) {
        *self.headers = Headers::parse(self.bytes());
    }

    /// [`Op::Fact`](super::ir::Op::Fact).
    #[inline]
    pub fn fact(&self, fact: Fact) -> u128 {
        match fact {
            Fact::Now => u128::from(self.now_ns),
            Fact::Len => self.bytes().len().min(usize::from(u16::MAX)) as u128,
            Fact::Input => u128::from(self.input),
            Fact::Tag => self
                .frame
                .as_ref()
                .map_or(0, |frame| u128::from(frame.tag())),
            Fact::Found => u128::from(self.is_found),
            Fact::Full => u128::from(self.is_full),
        }
    }

    /// [`Op::Flow`](super::ir::Op::Flow).
    #[inline]
    pub fn register(&self, register: u8) -> u128 {
        let register = self.registers.get(usize::from(register));
        register.map_or(0, |register| self.flow.get(register))
    }

    /// [`Op::SetFlow`](super::ir::Op::SetFlow).
    #[inline]
    pub fn set_register(&mut self, register: u8, value: u128) {
        if let Some(register) = self.registers.get(usize::from(register)) {
            self.flow.set(register, value);
        }
    }

    /// [`Op::Global`](super::ir::Op::Global).
    #[inline]
    pub fn global(&self, global: u16, index: u128) -> u128 {
        let word = self.globals.word(global, index, &self.program.globals);
        // Pairs with the stores in `set_global` and `step_global`; who looks from outside, or is
        // another shard, may see an older value.
        word.map_or(0, |(word, raised)| {
            u128::from(raised.value(word.load(Ordering::Relaxed)))
        })
    }

    /// [`Op::SetGlobal`](super::ir::Op::SetGlobal).
    #[inline]
    pub fn set_global(&mut self, global: u16, index: u128, value: u128) {
        let word = self.globals.word(global, index, &self.program.globals);
        if let Some((word, raised)) = word {
            // Release, as all stores to memory that outlives the process: a kill leaves them in
            // order. Pairs with the load in `global`.
            word.store(raised.word(value as u64), Ordering::Release);
        }
    }

    /// [`Op::StepGlobal`](super::ir::Op::StepGlobal): what it was before; 0 where there is none.
    #[inline]
    pub fn step_global(&mut self, global: u16, index: u128, op: Binary, by: u128) -> u128 {
        let word = self.globals.word(global, index, &self.program.globals);
        word.map_or(0, |(word, raised)| {
            u128::from(raised.step(word, op, by as u64))
        })
    }

    /// [`Op::Lookup`](super::ir::Op::Lookup): whether an entry matches, and its data or the
    /// default's.
    #[inline]
    pub fn look_up(&self, table: u16, key: &[u128]) -> (bool, &[u128]) {
        let Some(table) = self.tables.get(usize::from(table)) else {
            return (false, &[]);
        };
        match table.lookup(key) {
            Some(data) => (true, data),
            None => (false, &table.shape().default),
        }
    }

    /// [`Op::Hash`](super::ir::Op::Hash): each value is two words.
    pub fn hash(&self, values: impl Iterator<Item = u128>) -> u64 {
        let mut words = [0; KEY_WORDS_MAX];
        let mut count = 0;
        let mut hash = 0;
        for value in values {
            words[count] = value as u64;
            words[count + 1] = (value >> 64) as u64;
            count += 2;
            if count == KEY_WORDS_MAX - 2 {
                words[count] = hash;
                hash = self.hash.hash_words(&words);
                (words, count) = ([0; KEY_WORDS_MAX], 0);
            }
        }
        words[KEY_WORDS_MAX - 1] = count as u64 + 1;
        words[KEY_WORDS_MAX - 2] = hash;
        self.hash.hash_words(&words)
    }

    /// [`Op::Meter`](super::ir::Op::Meter): 0 green, 1 yellow, 2 red.
    pub fn meter(&mut self, meter: u16, register: u8, cost: u128, before: u128) -> u128 {
        let Some(meter) = self.program.meters.get(usize::from(meter)) else {
            return 0;
        };
        let cost = u32::try_from(cost).unwrap_or(u32::MAX);
        let before = match before {
            0 => Colour::Green,
            1 => Colour::Yellow,
            _ => Colour::Red,
        };
        let word = |at: u8| self.register(register.saturating_add(at)) as u64;
        let passes = |passes: bool| if passes { Colour::Green } else { Colour::Red };
        let (a, b) = (word(0), word(1));
        let (words, colour) = match &meter.kind {
            MeterKind::Gcra(gcra) => {
                let mut state = GcraState::from_words([a, b]);
                let passed = before != Colour::Red && gcra.passes(&mut state, self.now_ns, cost);
                let [a, b] = state.words();
                ([a, b, 0], passes(passed))
            }
            MeterKind::Window(window) => {
                let mut state = WindowState::from_words([a, b]);
                let passed = before != Colour::Red && window.passes(&mut state, self.now_ns);
                let [a, b] = state.words();
                ([a, b, 0], passes(passed))
            }
            MeterKind::SrTcm(marker) => {
                let mut state = SrTcmState::from_words([a, b, word(2)]);
                let colour = marker.colour(&mut state, self.now_ns, cost, before);
                (state.words(), colour)
            }
            MeterKind::TrTcm(marker) => {
                let mut state = TrTcmState::from_words([a, b, word(2)]);
                let colour = marker.colour(&mut state, self.now_ns, cost, before);
                (state.words(), colour)
            }
        };
        let count = meter.kind.words();
        for (at, value) in (0..).zip(words).take(count) {
            self.set_register(register.saturating_add(at), u128::from(value));
        }
        match colour {
            Colour::Green => 0,
            Colour::Yellow => 1,
            Colour::Red => 2,
        }
    }

    /// [`Op::Emit`](super::ir::Op::Emit).
    pub fn emit(&mut self, template: u16, values: &[u128], output: u8) {
        self.emissions.ask(template, output, values);
    }

    /// [`Op::Notify`](super::ir::Op::Notify).
    pub fn notify(&mut self, event: u16, values: &[u128]) {
        self.notices.push(self.now_ns, event, values);
    }

    /// [`Op::Encap`](super::ir::Op::Encap); `false` without room. What a tunnel cannot carry goes
    /// on as it is.
    pub fn encap(&mut self, tunnel: Tunnel, values: &[u128]) -> bool {
        let Some(frame) = &mut self.frame else {
            return true;
        };
        let done = encap(&mut **frame, self.headers, tunnel, values);
        if done.is_ok() {
            self.parse();
        }
        done != Err(EncapError::NoRoom)
    }

    /// [`Op::Decap`](super::ir::Op::Decap).
    pub fn decap(&mut self, tunnel: Tunnel) {
        if let Some(frame) = &mut self.frame
            && decap(&mut **frame, self.headers, tunnel)
        {
            self.parse();
        }
    }
}
