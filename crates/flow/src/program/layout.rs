//! Where a program's state lies in its memory, and the number that says whether two are alike.
//!
//! Before any packet. Registers and keys are packed into words here; the memory of a program is a
//! line that says who made it, then the words of its global registers, then its flow tables, each
//! from the beginning of a line on. The layout number hashes whatever gives a word its meaning:
//! two programs with the same number can take over each other's memory.
//!
//! Registers that all shards share lie in a memory of their own, with a number of its own: a line
//! that holds the number, then their words. Zeros are a right beginning ([`Scope::Shared`]), so
//! nobody makes it anew, and shards come to it and leave it in any order.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::shape::{LINE_WORDS, STATE_WORDS_MAX};
use crate::{AttachError, FlowTable, Memory};

use super::ir::{FlowRegister, Global, KeyPart, Program, Scope, Width};

/// Words of the memory's first line that are used.
mod at {
    /// Says that all else was written.
    pub(super) const MAGIC: usize = 0;
    /// The layout number.
    pub(super) const NUMBER: usize = 1;
    /// Seed of the program's hash.
    pub(super) const SEED: usize = 2;
}

/// `CATPROG` and a 1.
const MAGIC: u64 = u64::from_le_bytes(*b"CATPROG\x01");

/// What a running program stands on.
#[derive(Debug)]
pub struct Ground<M> {
    /// A flow table for each element that has flows, of its shape.
    pub flows: Vec<Option<FlowTable<M>>>,
    /// Words of global registers that are its own, as many as [`Layout`] says.
    pub globals: M,
    /// Seed of the program's hash.
    pub seed: [u64; 2],
}

/// Where everything lies, in words.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Global registers that no other shard uses.
    pub globals: Range<usize>,
    /// The flow table of each element that has one.
    pub tables: Vec<Option<Range<usize>>>,
    /// All words.
    pub words: usize,
    /// The layout number.
    pub number: u64,
    /// All words of the memory that shards share; none without such registers.
    pub shared_words: usize,
    /// The layout number of that memory.
    pub shared_number: u64,
}

/// Layout numbers of both memories: programs with the same ones can take over each other's state.
pub type Numbers = [u64; 2];

impl Layout {
    /// The layout of a verified program.
    pub fn of(program: &Program) -> Self {
        let count = |is_shared: bool| {
            let registers = program.globals.iter();
            let alike = registers.filter(|one| (one.scope == Scope::Shared) == is_shared);
            alike.map(|one| one.count as usize).sum::<usize>()
        };
        let (start, shared) = (LINE_WORDS, count(true));
        let globals = start..start + count(false);
        let mut end = globals.end.next_multiple_of(LINE_WORDS);
        let mut tables = Vec::new();
        for element in &program.elements {
            let words = element
                .flows
                .as_ref()
                .map(|flows| flows.shape.words().unwrap_or(0));
            tables.push(words.map(|words| end..end + words));
            end = (end + words.unwrap_or(0)).next_multiple_of(LINE_WORDS);
        }
        Self {
            globals,
            tables,
            words: end,
            number: number_of(program),
            shared_words: if shared == 0 { 0 } else { LINE_WORDS + shared },
            shared_number: fnv(&globals_text(program, true)),
        }
    }

    /// The numbers of both memories.
    pub fn numbers(&self) -> Numbers {
        [self.number, self.shared_number]
    }

    /// Where each global register begins, within the words of all that are shared, or that are not.
    pub fn global_starts(program: &Program) -> Vec<u32> {
        let mut next = [0; 2];
        let start = |global: &Global| {
            let next = &mut next[usize::from(global.scope == Scope::Shared)];
            let start = *next;
            *next += global.count;
            start
        };
        program.globals.iter().map(start).collect()
    }

    /// The words of shared registers in a memory that was zero at first, whoever else uses it now
    /// or has used it before.
    ///
    /// # Errors
    /// The memory is too short, or a program of another layout has used it.
    pub fn share<M: Memory>(&self, memory: &Arc<M>) -> Result<Portion<M>, AttachError> {
        let range = LINE_WORDS.min(self.shared_words)..self.shared_words;
        let words = memory.words();
        if words.len() < self.shared_words {
            return Err(AttachError::TooSmall {
                needed: self.shared_words,
                present: words.len(),
            });
        }
        if let Some(number) = words.first().filter(|_| !range.is_empty()) {
            // The first one writes it, and all find the same: nothing else depends on its order.
            let order = Ordering::Relaxed;
            let found = number.compare_exchange(0, self.shared_number, order, order);
            if found.is_err_and(|found| found != self.shared_number) {
                return Err(AttachError::OtherShape);
            }
        }
        Ok(Portion::new(memory, range))
    }

    /// Makes the state of a program anew in `memory`, whatever was there. `seeds` are random, one
    /// for the program and one for each table.
    ///
    /// # Errors
    /// The memory is too short or not aligned.
    pub fn create<M: Memory>(
        &self,
        program: &Program,
        memory: &Arc<M>,
        mut seed: impl FnMut() -> [u64; 2],
        now_ns: u64,
    ) -> Result<Ground<Portion<M>>, AttachError> {
        let words = self.header(memory)?;
        // Release here and below: a kill leaves stores in order, so that the magic number is
        // there only if all else is. Pairs with `Layout::attach`.
        words[at::MAGIC].store(0, Ordering::Release);
        let own = seed();
        words[at::NUMBER].store(self.number, Ordering::Release);
        words[at::SEED].store(own[0], Ordering::Release);
        words[at::SEED + 1].store(own[1], Ordering::Release);
        let starts = Self::global_starts(program);
        let globals = program.globals.iter().zip(starts);
        for (global, start) in globals.filter(|(global, _)| global.scope != Scope::Shared) {
            for index in 0..global.count {
                let word = &words[self.globals.start + (start + index) as usize];
                word.store(global.initial, Ordering::Release);
            }
        }
        let mut flows = Vec::new();
        for (element, range) in program.elements.iter().zip(&self.tables) {
            flows.push(match (&element.flows, range) {
                (Some(of), Some(range)) => {
                    let portion = Portion::new(memory, range.clone());
                    Some(FlowTable::create(portion, &of.shape, seed(), now_ns)?)
                }
                _ => None,
            });
        }
        words[at::MAGIC].store(MAGIC, Ordering::Release);
        Ok(self.ground(memory, flows, own))
    }

    /// Takes over the state that a program of the same layout has left in `memory`.
    ///
    /// # Errors
    /// There is none, or it is of another layout; nothing has changed then.
    pub fn attach<M: Memory>(
        &self,
        program: &Program,
        memory: &Arc<M>,
        now_ns: u64,
    ) -> Result<Ground<Portion<M>>, AttachError> {
        let words = self.header(memory)?;
        // Pairs with the stores in `Layout::create`; whoever wrote them has ended.
        let word = |at: usize| words[at].load(Ordering::Acquire);
        if word(at::MAGIC) != MAGIC {
            return Err(AttachError::NoTable);
        }
        if word(at::NUMBER) != self.number {
            return Err(AttachError::OtherShape);
        }
        let seed = [word(at::SEED), word(at::SEED + 1)];
        let mut flows = Vec::new();
        for (element, range) in program.elements.iter().zip(&self.tables) {
            flows.push(match (&element.flows, range) {
                (Some(of), Some(range)) => {
                    let portion = Portion::new(memory, range.clone());
                    Some(FlowTable::attach(portion, &of.shape, now_ns)?.0)
                }
                _ => None,
            });
        }
        Ok(self.ground(memory, flows, seed))
    }

    fn header<'a, M: Memory>(&self, memory: &'a Arc<M>) -> Result<&'a [AtomicU64], AttachError> {
        let words = memory.words();
        if words.len() < self.words {
            return Err(AttachError::TooSmall {
                needed: self.words,
                present: words.len(),
            });
        }
        Ok(words)
    }

    fn ground<M: Memory>(
        &self,
        memory: &Arc<M>,
        flows: Vec<Option<FlowTable<Portion<M>>>>,
        seed: [u64; 2],
    ) -> Ground<Portion<M>> {
        Ground {
            flows,
            globals: Portion::new(memory, self.globals.clone()),
            seed,
        }
    }
}

/// Part of a memory.
#[derive(Debug)]
pub struct Portion<M> {
    memory: Arc<M>,
    range: Range<usize>,
}

impl<M> Portion<M> {
    fn new(memory: &Arc<M>, range: Range<usize>) -> Self {
        Self {
            memory: memory.clone(),
            range,
        }
    }
}

impl<M: Memory> Memory for Portion<M> {
    #[inline(always)]
    fn words(&self) -> &[AtomicU64] {
        let words = self.memory.words();
        words.get(self.range.clone()).unwrap_or_default()
    }
}

/// A number that differs where the meaning of any word does.
fn number_of(program: &Program) -> u64 {
    let mut text = globals_text(program, false);
    for element in &program.elements {
        text += &format!("element {};", element.name);
        let Some(flows) = &element.flows else {
            continue;
        };
        let shape = &flows.shape;
        text += &format!(
            "{} {} {} {};",
            shape.key_words, shape.state_words, shape.capacity, shape.tick_ns
        );
        for part in &element.key.parts {
            text += &format!("{} {} {} {};", part.name, part.width, part.word, part.shift);
        }
        for one in &flows.registers {
            text += &format!("{} {} {} {};", one.name, one.width, one.word, one.shift);
        }
        for state in &flows.states {
            text += &format!("state {state};");
        }
    }
    fnv(&text)
}

/// What gives words of registers their meaning. Of shared ones that is also what a word of zero
/// stands for.
fn globals_text(program: &Program, is_shared: bool) -> String {
    let registers = program.globals.iter();
    let alike = registers.filter(|one| (one.scope == Scope::Shared) == is_shared);
    let text = alike.map(|one| {
        let begins = match is_shared {
            true => format!(" {}", one.initial),
            false => String::new(),
        };
        format!("global {} {} {}{begins};", one.name, one.width, one.count)
    });
    text.collect()
}

/// FNV-1a: it tells programs apart, not attackers.
fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Where things of these widths lie when packed into words, in their order; and how many words that
/// takes. What is wider than 64 bits begins a word; each other one goes into the first word that
/// has room for it.
fn pack(widths: &[Width]) -> (Vec<(u8, u8)>, usize) {
    let mut used: Vec<u8> = Vec::new();
    let mut places = Vec::new();
    for width in widths {
        if *width > 64 {
            places.push((used.len() as u8, 0));
            used.extend([64, width - 64]);
            continue;
        }
        let at = used
            .iter()
            .position(|used| used + width <= 64)
            .unwrap_or(used.len());
        if at == used.len() {
            used.push(0);
        }
        places.push((at as u8, used[at]));
        used[at] += width;
    }
    (places, used.len())
}

/// Packs registers of a flow, in the order in which they are given; with the number of words. None
/// if an entry cannot have so many.
pub fn pack_registers(named: &[(String, Width)]) -> Option<(Vec<FlowRegister>, usize)> {
    let widths: Vec<Width> = named.iter().map(|(_, width)| *width).collect();
    if widths.len() > usize::from(u8::MAX) {
        return None;
    }
    let (places, words) = pack(&widths);
    let registers = named
        .iter()
        .zip(places)
        .map(|((name, width), (word, shift))| FlowRegister {
            name: name.clone(),
            width: *width,
            word,
            shift,
        });
    (words <= STATE_WORDS_MAX).then(|| (registers.collect(), words.max(1)))
}

/// Packs the parts of a key: slot, width and name of each; with the number of words. None if a key
/// cannot be so long.
pub fn pack_key(parts: &[(u16, Width, String)]) -> Option<(Vec<KeyPart>, usize)> {
    let widths: Vec<Width> = parts.iter().map(|(_, width, _)| *width).collect();
    if widths.len() > usize::from(u8::MAX) {
        return None;
    }
    let (places, words) = pack(&widths);
    let parts = parts
        .iter()
        .zip(places)
        .map(|((slot, width, name), (word, shift))| KeyPart {
            slot: *slot,
            word,
            shift,
            width: *width,
            name: name.clone(),
        });
    (words <= crate::KEY_WORDS_MAX).then(|| (parts.collect(), words.max(1)))
}
