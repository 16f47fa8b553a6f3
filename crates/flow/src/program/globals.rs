//! Registers of a program in their words: those of a shard, and those that all shards share.
//!
//! While a packet's code runs. Words may outlive the process that writes them. Those of shared
//! registers are read and written by several threads or processes at once, each access by itself
//! atomic; nobody takes a lock, so a kill at any point leaves a word as it was before a step or as
//! it is behind it.

use std::sync::atomic::{AtomicU64, Ordering};

use super::arithmetic::binary;
use super::field::ones;
use super::ir::{Binary, Global, Scope};

/// Registers of a program, in words that may outlive it.
#[derive(Clone, Copy, Debug)]
pub struct Globals<'a> {
    /// The words of those that are this shard's.
    pub words: &'a [AtomicU64],
    /// The words of those that all shards share.
    pub shared: &'a [AtomicU64],
    /// Where each register begins, among the words of its kind.
    pub starts: &'a [u32],
}

impl<'a> Globals<'a> {
    /// The word of a register, or of element `index` of an array, and how a value lies there.
    #[inline]
    pub fn word(
        &self,
        global: u16,
        index: u128,
        globals: &[Global],
    ) -> Option<(&'a AtomicU64, Raised)> {
        let register = globals.get(usize::from(global))?;
        let index = u32::try_from(index)
            .ok()
            .filter(|at| *at < register.count)?;
        let start = self.starts.get(usize::from(global))?;
        let words = match register.scope {
            Scope::Shared => self.shared,
            Scope::PerCore | Scope::Merged => self.words,
        };
        let word = words.get((start + index) as usize)?;
        Some((word, Raised::of(register)))
    }
}

/// How values of a register lie in its words: less what the word of a shared one stands for when it
/// is zero ([`Scope::Shared`]), modulo 2^64; what is above the width counts for nothing.
#[derive(Clone, Copy, Debug)]
pub struct Raised {
    /// What a word of zero stands for.
    pub by: u64,
    width: u8,
}

impl Raised {
    /// That of a register.
    #[inline]
    pub fn of(register: &Global) -> Self {
        let by = match register.scope {
            Scope::Shared => register.initial,
            Scope::PerCore | Scope::Merged => 0,
        };
        let width = register.width;
        Self { by, width }
    }

    /// The value of a word.
    #[inline]
    pub fn value(self, word: u64) -> u64 {
        word.wrapping_add(self.by) & ones(self.width) as u64
    }

    /// The word of a value.
    #[inline]
    pub fn word(self, value: u64) -> u64 {
        value.wrapping_sub(self.by)
    }

    /// Changes a word in one step; gives the value that it had.
    pub fn step(self, word: &AtomicU64, op: Binary, by: u64) -> u64 {
        // Relaxed reads and Release writes, as in `Env::global` and `Env::set_global`: a step is of
        // one word, and orders no others.
        let old = match op {
            // Both go round at 2^64, so what is below the width goes round there.
            Binary::Add => word.fetch_add(by, Ordering::Release),
            Binary::Sub => word.fetch_sub(by, Ordering::Release),
            _ => {
                let new = |old: u64| {
                    let old = u128::from(self.value(old));
                    self.word(binary(op, old, u128::from(by), self.width) as u64)
                };
                // Goes round again only if another shard has come through meanwhile.
                let changed =
                    word.fetch_update(Ordering::Release, Ordering::Relaxed, |old| Some(new(old)));
                changed.unwrap_or_else(|old| old)
            }
        };
        self.value(old)
    }
}
