//! Slots of a ring, and where a ring's words lie: what both sides and the undertaker agree on.

use crate::sync::{AtomicU64, Ordering};

/// Most slots a ring may have.
pub const SLOT_COUNT_MAX: u32 = 1 << 20;

/// No honest cursor gets here: 2^62 packets take a century at 1 Gpps.
pub const INDEX_MAX: u64 = 1 << 62;

/// One slot; four share a cache line.
#[derive(Debug)]
#[repr(C, align(16))]
pub struct Slot {
    pub(super) word0: AtomicU64,
    pub(super) word1: AtomicU64,
}

impl Slot {
    /// The words as they are now: for whoever inspects a ring without taking part in it.
    pub fn words(&self) -> [u64; 2] {
        let (word0, word1) = (&self.word0, &self.word1);
        [word0.load(Ordering::Acquire), word1.load(Ordering::Relaxed)]
    }

    /// A slot that no consumer takes for valid.
    pub fn empty() -> Self {
        Self {
            word0: AtomicU64::new(0),
            word1: AtomicU64::new(0),
        }
    }
}

/// Where a ring's words live: two sealed regions in production, the heap in models and tests.
pub trait RingMemory {
    /// Number of slots, a power of two.
    fn slot_count(&self) -> u32;
    /// Slot `position`, below `slot_count`. Written by the producer.
    fn slot(&self, position: u32) -> &Slot;
    /// Written by the producer at the end of a turn; read by the undertaker.
    fn settled(&self) -> &AtomicU64;
    /// Written by the consumer; pairs with [`Producer::room`](super::Producer::room).
    fn tail(&self) -> &AtomicU64;
    /// Written by the consumer before it acts on a burst; read by the undertaker.
    fn read(&self) -> &AtomicU64;
}

/// The sequence of the slot for `index` on a ring of `2^log2` slots: its lap, with the top bit set
/// so that zeroed memory is never valid.
#[expect(clippy::cast_possible_truncation, reason = "takes 15 bits of the lap")]
pub(super) fn sequence(index: u64, log2: u32) -> u16 {
    0x8000 | ((index >> log2) as u16 & 0x7fff)
}

pub(super) fn position(index: u64, slot_count: u32) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "masked to the slot count")]
    let position = (index & u64::from(slot_count - 1)) as u32;
    position
}

pub(super) fn log2_of(slot_count: u32) -> u32 {
    assert!(
        slot_count.is_power_of_two() && slot_count <= SLOT_COUNT_MAX,
        "a ring has a power of two of slots, at most {SLOT_COUNT_MAX}"
    );
    slot_count.trailing_zeros()
}
