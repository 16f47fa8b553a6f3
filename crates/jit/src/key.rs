//! Keys that generated code makes by itself: packed where the lookup reads them.
//!
//! The end of a function whose operations are all plain (`plain`). Where one cannot be done after
//! all, since a field crosses the packet's end, the function gives up; it has changed nothing then.

use catena_flow::KEY_WORDS_MAX;
use catena_flow::program::ir::Key;
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use std::mem::offset_of;

use crate::edge::Context;
use crate::generate::{Generator, PLAIN, outcome};
use crate::wrong::{Wrong, is_made};

impl Generator<'_, '_> {
    /// Writes the words of a key; gives whether the packet has it, as a bit of what is decided.
    pub(crate) fn write_key(&mut self, key: &Key) -> Value {
        let flows = self.element.flows.as_ref();
        let count = flows.map_or(0, |flows| flows.shape.key_words as usize);
        let mut words: Vec<Option<Value>> = vec![None; count.min(KEY_WORDS_MAX)];
        let mut put = |this: &mut Self, at: usize, bits: Value| {
            if let Some(word) = words.get_mut(at) {
                *word = Some(match *word {
                    Some(other) => this.builder.ins().bor(other, bits),
                    None => bits,
                });
            }
        };
        for part in &key.parts {
            let (value, at) = (self.slot(part.slot), usize::from(part.word));
            if part.width > 64 {
                let (low, high) = self.builder.ins().isplit(value);
                put(self, at, low);
                put(self, at + 1, high);
            } else {
                let shift = if is_made(Wrong::KeyPart) {
                    0
                } else {
                    part.shift
                };
                let shift = self.int(u64::from(shift));
                let bits = self.builder.ins().ishl(value, shift);
                put(self, at, bits);
            }
        }
        let to = self.pointer(offset_of!(Context, key));
        for (at, word) in words.into_iter().enumerate() {
            let word = word.unwrap_or_else(|| self.int(0));
            self.builder.ins().store(PLAIN, word, to, at as i32 * 8);
        }
        let (present, by) = (self.slot(key.present), outcome::HAS_KEY.trailing_zeros());
        let by = self.int(u64::from(by));
        self.builder.ins().ishl(present, by)
    }

    /// Where code of a plain key goes when it can do no more by itself.
    pub(crate) fn refusal(&mut self) -> Block {
        let builder = &mut self.builder;
        *self.refusal.get_or_insert_with(|| {
            let block = builder.create_block();
            builder.set_cold_block(block);
            block
        })
    }
}
