//! Buckets: where an entry's number is found by its key's hash.
//!
//! First memory that a lookup touches. A bucket is one cache line with ten slots:
//!
//! | word | bits | holds |
//! |---|---|---|
//! | 0, 1 | all | tags of slots 0 to 7, 16 bits each; 0: empty |
//! | 2 | 0-31 | tags of slots 8 and 9 |
//! | 2 | 32-37 | how many entries belong here first and live elsewhere; 63: once so many |
//! | 2 | 38-47 | which slots hold entries that are spared: who asked them to give way was told no |
//! | 2 | 48-57 | which slots hold guests: entries that belong first to their other bucket |
//! | 2 | 58-63 | the era of bits 38-47: in another era nobody is spared |
//! | 3-7 | all | entry numbers of slots, 32 bits each |
//!
//! A key's other bucket follows from either bucket and the tag, so that entries are moved without
//! reading their keys. A lookup goes to the other bucket only if the first has sent somebody there.
//!
//! Marks of who is spared are hints: one may be missing, none is wrong
//! ([`evict`](crate::table::evict)).

use std::sync::atomic::{AtomicU64, Ordering};

use crate::flow::Flow;
use crate::hash::below;
use crate::raw::{Raw, at};
use crate::shape::{LINE_WORDS, SLOTS};

/// A set of slots: slot s is bit 16 (s mod 4) + s / 4, which is where comparing four tags at a time
/// leaves it.
pub(crate) const ALL_SLOTS: u64 = {
    let (mut all, mut slot) = (0, 0);
    while slot < SLOTS {
        all |= 1 << (16 * (slot % 4) + slot / 4);
        slot += 1;
    }
    all
};
const TAG_WORD: usize = 2;
const AWAY_SHIFT: u32 = 32;
/// From here on it is not counted how many are away.
pub(crate) const AWAY_MAX: u64 = 63;
const SPARED_SHIFT: u32 = 38;
const GUESTS_SHIFT: u32 = 48;
const ERA_SHIFT: u32 = 58;
/// The last era: after it, all marks are taken away and eras begin anew.
pub(crate) const ERA_MAX: u64 = 63;
const SPARED: u64 = ((1 << SLOTS) - 1) << SPARED_SHIFT;
const ERA: u64 = ERA_MAX << ERA_SHIFT;
const NUMBERS_AT: usize = 3;

/// Where a hash leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Home {
    pub(crate) bucket: u32,
    pub(crate) tag: u16,
}

impl Home {
    #[inline(always)]
    pub(crate) fn new(hash: u64, buckets: u32) -> Self {
        Self {
            bucket: below(hash, buckets),
            tag: (hash as u16).max(1),
        }
    }

    #[inline(always)]
    pub(crate) fn other(self, buckets: u32) -> u32 {
        other_bucket(self.bucket, self.tag, buckets)
    }
}

/// The other bucket of a key with this tag, from either of its two.
#[inline(always)]
pub(crate) fn other_bucket(bucket: u32, tag: u16, buckets: u32) -> u32 {
    // The two buckets of a tag add up to the same number, modulo the number of buckets.
    let sum = below(u64::from(tag).wrapping_mul(0x9e37_79b9_7f4a_7c15), buckets);
    if sum >= bucket {
        sum - bucket
    } else {
        sum + (buckets - bucket)
    }
}

/// The set of slots whose tag is `tag`. Tag 0 asks for empty slots.
#[inline(always)]
pub(crate) fn slots_with(bucket: &[AtomicU64; LINE_WORDS], tag: u16) -> u64 {
    let wanted = u64::from(tag) * 0x0001_0001_0001_0001;
    let lanes = |at: usize| equal_lanes(bucket[at].load(Ordering::Relaxed) ^ wanted);
    (lanes(0) >> 15 | lanes(1) >> 14 | lanes(TAG_WORD) >> 13) & ALL_SLOTS
}

/// The top bit of each lane of 16 bits that is zero.
#[inline(always)]
fn equal_lanes(differs: u64) -> u64 {
    const LOW: u64 = 0x7fff_7fff_7fff_7fff;
    !(((differs & LOW) + LOW) | differs) & !LOW
}

/// The first slot of a set that is not empty.
#[inline(always)]
pub(crate) fn first_slot(set: u64) -> u32 {
    let bit = set.trailing_zeros();
    (bit & 3) * 4 + bit / 16
}

/// Entry number in a slot.
#[inline(always)]
pub(crate) fn flow_in(bucket: &[AtomicU64; LINE_WORDS], slot: u32) -> Option<Flow> {
    // Masks say to the compiler what is so: a slot is below 10.
    let word = bucket[(NUMBERS_AT + slot as usize / 2) & 7].load(Ordering::Relaxed);
    Flow::from_low(word >> (32 * (slot & 1)))
}

/// Whether somebody who belongs here first lives in another bucket.
#[inline(always)]
pub(crate) fn has_sent_away(bucket: &[AtomicU64; LINE_WORDS]) -> bool {
    (bucket[TAG_WORD].load(Ordering::Relaxed) >> AWAY_SHIFT) & AWAY_MAX != 0
}

/// The set of slots of which a word has a bit each, slot 0 the lowest.
#[inline(always)]
fn set_of(bits: u64) -> u64 {
    // Each bit of four goes to the lane of its number; what falls beside is masked.
    let lanes = |four: u64| four.wrapping_mul(0x2000_4000_8001) & 0x0001_0001_0001_0001;
    lanes(bits & 15) | lanes(bits >> 4 & 15) << 1 | lanes(bits >> 8 & 3) << 2
}

impl<'a> Raw<'a> {
    /// A bucket's line; none if it lies nowhere.
    #[inline(always)]
    pub(crate) fn bucket(self, bucket: u32) -> Option<&'a [AtomicU64; LINE_WORDS]> {
        let at = self.geometry.buckets_at + bucket as usize * LINE_WORDS;
        self.words.get(at..)?.first_chunk()
    }

    #[inline]
    fn bucket_word(self, bucket: u32, word: usize) -> usize {
        self.geometry.buckets_at + bucket as usize * LINE_WORDS + word
    }

    /// The lowest empty slot of a bucket.
    pub(crate) fn empty_slot(self, bucket: u32) -> Option<u32> {
        let empty = slots_with(self.bucket(bucket)?, 0);
        (empty != 0).then(|| first_slot(empty))
    }

    pub(crate) fn tag_in(self, bucket: u32, slot: u32) -> u16 {
        let word = self.get(self.bucket_word(bucket, slot as usize / 4));
        (word >> (16 * (slot % 4))) as u16
    }

    pub(crate) fn is_guest(self, bucket: u32, slot: u32) -> bool {
        self.get(self.bucket_word(bucket, TAG_WORD)) >> (GUESTS_SHIFT + slot) & 1 != 0
    }

    pub(crate) fn away(self, bucket: u32) -> u64 {
        self.get(self.bucket_word(bucket, TAG_WORD)) >> AWAY_SHIFT & AWAY_MAX
    }

    /// The set of slots whose entries are spared.
    #[inline(always)]
    pub(crate) fn spared(self, bucket: &[AtomicU64; LINE_WORDS]) -> u64 {
        let word = bucket[TAG_WORD].load(Ordering::Relaxed);
        if word >> ERA_SHIFT == self.get(at::ERA) {
            set_of(word >> SPARED_SHIFT)
        } else {
            0
        }
    }

    /// Marks the entry in a slot as spared.
    pub(crate) fn spare(self, bucket: u32, slot: u32) {
        let at = self.bucket_word(bucket, TAG_WORD);
        let (word, era) = (self.get(at), self.get(at::ERA) & ERA_MAX);
        let spared = match word >> ERA_SHIFT == era {
            true => word & SPARED,
            false => 0,
        };
        let marks = spared | 1 << (SPARED_SHIFT + slot) | era << ERA_SHIFT;
        self.set(at, word & !(SPARED | ERA) | marks);
    }

    /// Takes the mark of the entry in a slot away, of whatever era.
    pub(crate) fn unspare(self, bucket: u32, slot: u32) {
        let at = self.bucket_word(bucket, TAG_WORD);
        let (word, mark) = (self.get(at), 1 << (SPARED_SHIFT + slot));
        if word & mark != 0 {
            self.set(at, word & !mark);
        }
    }

    /// Takes all marks away.
    pub(crate) fn unspare_all(self) {
        for bucket in 0..self.geometry.buckets {
            let at = self.bucket_word(bucket, TAG_WORD);
            let word = self.get(at);
            if word & (SPARED | ERA) != 0 {
                self.set(at, word & !(SPARED | ERA));
            }
        }
    }

    /// One more or one less entry of `bucket` lives elsewhere.
    fn count_away(self, bucket: u32, is_more: bool) {
        let at = self.bucket_word(bucket, TAG_WORD);
        let (word, away) = (self.get(at), self.away(bucket));
        let away = match is_more {
            _ if away == AWAY_MAX => return,
            true => away + 1,
            false => away.saturating_sub(1),
        };
        let mask = AWAY_MAX << AWAY_SHIFT;
        self.set(at, word & !mask | away << AWAY_SHIFT);
    }

    /// Puts an entry into an empty slot; `home` is where it belongs first.
    pub(crate) fn occupy(self, home: Home, bucket: u32, slot: u32, flow: Flow) {
        let at = self.bucket_word(bucket, NUMBERS_AT + slot as usize / 2);
        let shift = 32 * (slot & 1);
        let number = (flow.index() as u64 + 1) << shift;
        self.set(at, self.get(at) & !(0xffff_ffff << shift) | number);
        if bucket != home.bucket {
            let at = self.bucket_word(bucket, TAG_WORD);
            self.set(at, self.get(at) | 1 << (GUESTS_SHIFT + slot));
            self.count_away(home.bucket, true);
        }
        let at = self.bucket_word(bucket, slot as usize / 4);
        self.set(at, self.get(at) | u64::from(home.tag) << (16 * (slot % 4)));
    }

    /// Empties a slot.
    pub(crate) fn vacate(self, bucket: u32, slot: u32) {
        let tag = self.tag_in(bucket, slot);
        self.unspare(bucket, slot);
        if self.is_guest(bucket, slot) {
            self.count_away(other_bucket(bucket, tag, self.geometry.buckets), false);
            let at = self.bucket_word(bucket, TAG_WORD);
            self.set(at, self.get(at) & !(1 << (GUESTS_SHIFT + slot)));
        }
        let at = self.bucket_word(bucket, slot as usize / 4);
        self.set(at, self.get(at) & !(0xffff << (16 * (slot % 4))));
    }

    /// Moves what is in a slot to an empty slot of its other bucket. It is not spared there.
    pub(crate) fn move_slot(self, bucket: u32, slot: u32, to: u32, to_slot: u32) {
        let Some(flow) = self.bucket(bucket).and_then(|line| flow_in(line, slot)) else {
            return;
        };
        let home = Home {
            bucket: if self.is_guest(bucket, slot) {
                to
            } else {
                bucket
            },
            tag: self.tag_in(bucket, slot),
        };
        self.occupy(home, to, to_slot, flow);
        self.vacate(bucket, slot);
    }

    /// The slot that holds an entry.
    pub(crate) fn slot_of(self, home: Home, flow: Flow) -> Option<(u32, u32)> {
        [home.bucket, home.other(self.geometry.buckets)]
            .into_iter()
            .find_map(|bucket| {
                let line = self.bucket(bucket)?;
                slots(slots_with(line, home.tag))
                    .find(|slot| flow_in(line, *slot) == Some(flow))
                    .map(|slot| (bucket, slot))
            })
    }
}

/// Slots of a set, the first first.
#[inline]
pub(crate) fn slots(mut set: u64) -> impl Iterator<Item = u32> + Clone {
    std::iter::from_fn(move || {
        let slot = (set != 0).then(|| first_slot(set));
        set &= set.wrapping_sub(1);
        slot
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Random;

    #[test]
    fn tags_are_found_where_they_are() {
        let mut random = Random(8);
        for _ in 0..10_000 {
            // Few values, so that many are equal; or any, and neighbours of what is asked for.
            let is_few = random.below(2) == 0;
            let tags: [u16; 12] = std::array::from_fn(|_| match is_few {
                true => random.below(3) as u16,
                false => random.next() as u16,
            });
            let mut line = [0u64; LINE_WORDS];
            for (at, tag) in tags.iter().enumerate() {
                line[at / 4] |= u64::from(*tag) << (16 * (at % 4));
            }
            let line = line.map(AtomicU64::new);
            for tag in [0, 1, tags[4], tags[9], tags[0] ^ 0x8000, tags[1] ^ 1] {
                let mut found: Vec<u32> = slots(slots_with(&line, tag)).collect();
                found.sort_unstable();
                let is_it = |slot: &u32| tags[*slot as usize] == tag;
                assert_eq!(found, (0..SLOTS as u32).filter(is_it).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn bits_of_slots_become_a_set() {
        for bits in 0..1u64 << SLOTS {
            // Whatever stands above.
            let mut found: Vec<u32> = slots(set_of(bits | !0 << SLOTS)).collect();
            found.sort_unstable();
            let is_in = |slot: &u32| bits >> slot & 1 == 1;
            assert_eq!(found, (0..SLOTS as u32).filter(is_in).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_other_bucket_of_the_other_bucket_is_the_first() {
        let mut random = Random(9);
        for _ in 0..10_000 {
            let buckets = (random.next() >> (34 + random.below(30))) as u32 + 1;
            let bucket = random.below(u64::from(buckets)) as u32;
            let tag = (random.next() as u16).max(1);
            let other = other_bucket(bucket, tag, buckets);
            assert!(other < buckets);
            assert_eq!(other_bucket(other, tag, buckets), bucket);
        }
    }

    #[test]
    fn hashes_spread_over_buckets_and_their_others() {
        let mut counts = [[0u32; 2]; 50];
        for key in 0..50_000u64 {
            let home = Home::new(crate::KeyedHash::new([3, 4]).hash(&[key]), 50);
            counts[home.bucket as usize][0] += 1;
            counts[home.other(50) as usize][1] += 1;
        }
        // A thousand each, give or take five standard deviations.
        let far = counts
            .iter()
            .flatten()
            .find(|count| count.abs_diff(1000) > 160);
        assert_eq!(far, None, "{counts:?}");
    }
}
