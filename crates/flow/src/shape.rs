//! The shape of a table: widths, capacity, and where each part lies in its memory.
//!
//! Before any packet: a shape says how many words to ask for, and attaching compares it with the
//! header that it finds.
//!
//! | part | words | holds |
//! |---|---|---|
//! | header | [`HEADER_WORDS`] | who wrote this and in which shape, counters, the wheel's lists |
//! | buckets | 8 each | tags, entry numbers and overflow count: one cache line |
//! | entries | stride each | key, stamp, state; one cache line up to 64 bytes, whole lines beyond |
//! | timers | 4 each | links of a list, idle timeout, hard deadline, place in the wheel |

use crate::hash::KEY_WORDS_MAX;

/// Most words of state in an entry.
pub const STATE_WORDS_MAX: usize = 32;
/// Most entries in a table.
pub const CAPACITY_MAX: u32 = 1 << 30;
/// Words of the header, whole lines.
pub const HEADER_WORDS: usize = 704;
/// Slots of a bucket.
pub(crate) const SLOTS: usize = 10;
/// Slots of a bucket that are in use, on average, when a table is full.
const SLOTS_FILLED: u32 = 7;
/// Words of a line.
pub(crate) const LINE_WORDS: usize = 8;
/// Words of a timer record.
pub(crate) const TIMER_WORDS: usize = 4;

/// What a table holds and how much of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Words of 8 bytes in a key: 1 to 8.
    pub key_words: u32,
    /// Words of 8 bytes of state in an entry: 1 to 32.
    pub state_words: u32,
    /// Entries: 1 to 2³⁰.
    pub capacity: u32,
    /// How finely time is told apart by the timer wheel: entries end at most this late. A power of
    /// two from 16 ns to 2⁴⁰ ns.
    pub tick_ns: u64,
    /// What the state's words mean, as a number of the caller's own: a table with another number
    /// is not attached to.
    pub schema: u64,
}

/// Why a shape is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// Too few or many words in a key.
    #[error("a key has 1 to 8 words, not {0}")]
    Key(u32),
    /// Too few or many words of state.
    #[error("an entry has 1 to 32 words of state, not {0}")]
    State(u32),
    /// Too few or many entries.
    #[error("a table has 1 to 2^30 entries, not {0}")]
    Capacity(u32),
    /// The tick is no power of two, or out of range.
    #[error("a tick is a power of two from 16 ns to 2^40 ns, not {0} ns")]
    Tick(u64),
}

impl Shape {
    /// A shape with ticks of 2²⁰ ns (about a millisecond) and schema 0.
    pub const fn new(key_words: u32, state_words: u32, capacity: u32) -> Self {
        Self {
            key_words,
            state_words,
            capacity,
            tick_ns: 1 << 20,
            schema: 0,
        }
    }

    /// Words of memory that such a table needs.
    ///
    /// # Errors
    /// What is out of range.
    pub fn words(&self) -> Result<usize, ShapeError> {
        Geometry::new(self).map(|geometry| geometry.words)
    }

    /// A number that differs, but for chance, where anything in the header's identity does.
    pub(crate) fn digest(&self) -> u64 {
        let parts = [
            u64::from(self.key_words) << 32 | u64::from(self.state_words),
            u64::from(self.capacity),
            self.tick_ns,
            self.schema,
            (SLOTS as u64) << 32 | u64::from(SLOTS_FILLED),
        ];
        // FNV-1a over words: it tells mistakes apart, not attackers.
        parts.iter().fold(0xcbf2_9ce4_8422_2325, |digest, part| {
            (digest ^ part)
                .wrapping_mul(0x0000_0100_0000_01b3)
                .rotate_left(29)
        })
    }
}

/// Offsets, in words from the start of the memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    pub(crate) key_words: usize,
    pub(crate) state_words: usize,
    pub(crate) capacity: u32,
    pub(crate) tick_shift: u32,
    pub(crate) buckets: u32,
    /// Words from one entry to the next.
    pub(crate) stride: usize,
    pub(crate) buckets_at: usize,
    pub(crate) entries_at: usize,
    pub(crate) timers_at: usize,
    pub(crate) words: usize,
}

impl Geometry {
    pub(crate) fn new(shape: &Shape) -> Result<Self, ShapeError> {
        let (key_words, state_words) = (shape.key_words as usize, shape.state_words as usize);
        if !(1..=KEY_WORDS_MAX).contains(&key_words) {
            return Err(ShapeError::Key(shape.key_words));
        }
        if !(1..=STATE_WORDS_MAX).contains(&state_words) {
            return Err(ShapeError::State(shape.state_words));
        }
        if !(1..=CAPACITY_MAX).contains(&shape.capacity) {
            return Err(ShapeError::Capacity(shape.capacity));
        }
        let tick_shift = shape.tick_ns.trailing_zeros();
        if !shape.tick_ns.is_power_of_two() || !(4..=40).contains(&tick_shift) {
            return Err(ShapeError::Tick(shape.tick_ns));
        }
        let used = key_words + 1 + state_words;
        // Up to a line, a power of two: then no entry lies across two lines.
        let stride = if used <= LINE_WORDS {
            used.next_power_of_two()
        } else {
            used.next_multiple_of(LINE_WORDS)
        };
        // Small tables vary more about the mean, so they get a bucket more.
        let buckets = shape.capacity.div_ceil(SLOTS_FILLED) + 1;
        let entries = shape.capacity as usize;
        let buckets_at = HEADER_WORDS;
        let entries_at = buckets_at + buckets as usize * LINE_WORDS;
        let timers_at = (entries_at + entries * stride).next_multiple_of(LINE_WORDS);
        Ok(Self {
            key_words,
            state_words,
            capacity: shape.capacity,
            tick_shift,
            buckets,
            stride,
            buckets_at,
            entries_at,
            timers_at,
            words: timers_at + entries * TIMER_WORDS,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_lie_in_as_few_lines_as_they_can() {
        for key_words in 1..=8 {
            for state_words in 1..=32 {
                let shape = Shape::new(key_words, state_words, 100);
                let geometry = Geometry::new(&shape).expect("a shape");
                let used = (key_words + state_words + 1) as usize;
                assert!(geometry.stride >= used && geometry.stride < 2 * used.max(8));
                for entry in 0..100 {
                    let first = geometry.entries_at + entry * geometry.stride;
                    let lines = (first + used - 1) / LINE_WORDS - first / LINE_WORDS + 1;
                    assert_eq!(lines, used.div_ceil(LINE_WORDS));
                }
            }
        }
    }

    #[test]
    fn shapes_out_of_range_are_refused() {
        let shape = Shape::new(2, 4, 1000);
        assert!(shape.words().is_ok());
        for key_words in [0, 9, u32::MAX] {
            assert_eq!(
                Shape { key_words, ..shape }.words(),
                Err(ShapeError::Key(key_words))
            );
        }
        for words in [0, 33, u32::MAX] {
            let wrong = Shape {
                state_words: words,
                ..shape
            };
            assert_eq!(wrong.words(), Err(ShapeError::State(words)));
        }
        for capacity in [0, CAPACITY_MAX + 1] {
            let wrong = Shape { capacity, ..shape };
            assert_eq!(wrong.words(), Err(ShapeError::Capacity(capacity)));
        }
        for tick_ns in [0, 8, 1000, 1 << 41] {
            assert_eq!(
                Shape { tick_ns, ..shape }.words(),
                Err(ShapeError::Tick(tick_ns))
            );
        }
    }

    #[test]
    fn a_million_small_flows_take_a_hundred_and_six_bytes_each() {
        let words = Shape::new(2, 4, 1_000_000).words().expect("a shape");
        assert_eq!(words * 8 / 1_000_000, 105);
    }
}
