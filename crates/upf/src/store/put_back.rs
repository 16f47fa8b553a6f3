//! Sessions that come back from a file, to the slots that they had.
//!
//! Beside the store's own work: only in memory that nobody has used yet.

use super::{AT_FRESH, AT_MAGIC, AT_RECOVERY, MAGIC, Store, USES_MASK};
use crate::model::Session;
use crate::rules::Head;
use crate::stored::Fields;

impl Store {
    /// Whether nothing was kept in its memory.
    pub(crate) const fn is_new(&self) -> bool {
        self.is_new
    }

    /// Has the next one who opens its memory find what is in it.
    pub(crate) fn remember(&mut self) {
        self.set_word(AT_MAGIC, MAGIC);
    }

    /// The slot that a SEID has.
    pub(crate) const fn slot_in(seid: u64) -> Option<u32> {
        #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
        (seid as u32).checked_sub(1)
    }

    /// When the node started, where sessions come from.
    pub(crate) fn set_recovery(&mut self, recovery: u32) {
        self.set_word(AT_RECOVERY, recovery.into());
    }

    /// Puts a session into its slot; slots in front of it that were never used are free. Slots come
    /// in their order.
    pub(crate) fn put_back(&mut self, slot: u32, session: &Session) {
        for free in self.fresh..slot {
            self.set_word(self.uses_at(free), 1);
            self.set_word(self.seid_at(free), 0);
        }
        let at = self.slot_at(slot);
        self.set_word(self.uses_at(slot), session.head.seid >> 32 & USES_MASK);
        let image = at..at + self.slot_bytes;
        let table = self.table();
        session.write(&mut self.memory[image.clone()]);
        Fields::<Head>::places().set(&mut self.memory[image], &table);
        self.fresh = slot + 1;
        self.set_word(AT_FRESH, self.fresh.into());
        self.live += 1;
    }
}
