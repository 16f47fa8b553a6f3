//! Keyed hashing of flow keys, so that nobody outside can choose keys that meet in one bucket.
//!
//! The sum of products (m₀+k₀)(m₁+k₁) + (m₂+k₂)(m₃+k₃) + ... over 64-bit words, with 128-bit
//! products, is NH of RFC 4418 section 5 in wider words: for any two different keys chosen without
//! knowledge of the k, the chance that their sums are equal is at most 2⁻⁶⁴. One more product with
//! two more secrets folds the sum into 64 bits of which each depends on all of it. The k come from
//! the seed, which is drawn anew whenever a table is made and never leaves the machine.

use std::hash::{BuildHasher, RandomState};

/// Most words in a key.
pub const KEY_WORDS_MAX: usize = 8;

/// A hash function that its seed selects.
#[derive(Clone, Debug)]
pub struct KeyedHash {
    keys: [u64; KEY_WORDS_MAX],
    fold: [u64; 2],
}

impl KeyedHash {
    /// The function of a seed. Seeds of different uses, such as buckets and shards, must differ.
    pub fn new(seed: [u64; 2]) -> Self {
        let mut state = seed[0];
        let mut next = || {
            // splitmix64, with the second half of the seed in its output function.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state ^ seed[1].rotate_left(23);
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (z ^ (z >> 31)) ^ seed[1]
        };
        let keys = std::array::from_fn(|_| next());
        let fold = [next(), next() | 1];
        Self { keys, fold }
    }

    /// Hash of a key of `K` words, `K` at most [`KEY_WORDS_MAX`]; longer keys do not compile.
    #[inline(always)]
    pub fn hash_words<const K: usize>(&self, key: &[u64; K]) -> u64 {
        const { assert!(K >= 1 && K <= KEY_WORDS_MAX) };
        let mut sum = 0u128;
        let mut at = 0;
        while at + 1 < K {
            sum = sum.wrapping_add(product(
                key[at].wrapping_add(self.keys[at]),
                key[at + 1].wrapping_add(self.keys[at + 1]),
            ));
            at += 2;
        }
        if at < K {
            // An odd word is paired with a word of zero.
            let other = self.keys[(at + 1) % KEY_WORDS_MAX];
            sum = sum.wrapping_add(product(key[at].wrapping_add(self.keys[at]), other));
        }
        self.folded(sum)
    }

    /// Hash of a key of 1 to [`KEY_WORDS_MAX`] words, the same as [`KeyedHash::hash_words`] gives.
    /// All other lengths have the hash 0.
    #[inline]
    pub fn hash(&self, key: &[u64]) -> u64 {
        match *key {
            [a] => self.hash_words(&[a]),
            [a, b] => self.hash_words(&[a, b]),
            [a, b, c] => self.hash_words(&[a, b, c]),
            [a, b, c, d] => self.hash_words(&[a, b, c, d]),
            [a, b, c, d, e] => self.hash_words(&[a, b, c, d, e]),
            [a, b, c, d, e, f] => self.hash_words(&[a, b, c, d, e, f]),
            [a, b, c, d, e, f, g] => self.hash_words(&[a, b, c, d, e, f, g]),
            [a, b, c, d, e, f, g, h] => self.hash_words(&[a, b, c, d, e, f, g, h]),
            _ => 0,
        }
    }

    /// Which of `count` shards a key belongs to, from 0; 0 if there are none.
    #[inline]
    pub fn shard(&self, key: &[u64], count: u32) -> u32 {
        below(self.hash(key), count)
    }

    #[inline(always)]
    fn folded(&self, sum: u128) -> u64 {
        let (low, high) = (sum as u64, (sum >> 64) as u64);
        let mixed = product(low ^ self.fold[0], high ^ self.fold[1]);
        (mixed as u64) ^ ((mixed >> 64) as u64) ^ high
    }
}

/// Random numbers that nobody outside knows.
pub(crate) fn random_seed() -> [u64; 2] {
    // The standard library takes its keys from the kernel's random numbers.
    [1, 2].map(|number| RandomState::new().hash_one(number))
}

#[inline(always)]
fn product(one: u64, other: u64) -> u128 {
    u128::from(one) * u128::from(other)
}

/// The upper half of a hash as a number below `count`, each about equally often.
#[inline(always)]
pub(crate) fn below(hash: u64, count: u32) -> u32 {
    (((hash >> 32) * u64::from(count)) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_the_sum_of_products_folded() {
        let hash = KeyedHash::new([7, 9]);
        let key = [1, u64::MAX, 3, 4, 5, 6, 7, 8];
        for len in 1..=KEY_WORDS_MAX {
            let mut padded = [0; KEY_WORDS_MAX];
            padded[..len].copy_from_slice(&key[..len]);
            let word = |at: usize| u128::from(padded[at].wrapping_add(hash.keys[at]));
            let pairs = (0..len).step_by(2).map(|at| word(at) * word(at + 1));
            let sum = pairs.fold(0u128, u128::wrapping_add);
            assert_eq!(hash.hash(&key[..len]), hash.folded(sum), "{len} words");
        }
        assert_eq!((hash.hash(&[]), hash.hash(&[1; 9])), (0, 0));
    }

    /// Changes a bit of seed or key.
    type Change<'a> = &'a dyn Fn(u32, &mut [u64; 2], &mut [u64; 3]);

    #[test]
    fn each_bit_of_seed_and_key_changes_about_half_of_the_hash() {
        let flips = |change: Change<'_>| {
            let mut sum = 0;
            for round in 0..1000u64 {
                let (mut seed, mut key) = ([round, !round], [round * 3, 1, 0]);
                let before = KeyedHash::new(seed).hash(&key);
                change((round % 64) as u32, &mut seed, &mut key);
                sum += (KeyedHash::new(seed).hash(&key) ^ before).count_ones();
            }
            f64::from(sum) / 1000.0
        };
        for word in 0..2 {
            let changed = flips(&|bit, seed, _| seed[word] ^= 1 << bit);
            assert!((30.0..34.0).contains(&changed), "seed: {changed}");
        }
        for word in 0..3 {
            let changed = flips(&|bit, _, key| key[word] ^= 1 << bit);
            assert!((30.0..34.0).contains(&changed), "key: {changed}");
        }
    }

    #[test]
    fn keys_in_sequence_fill_shards_alike() {
        let hash = KeyedHash::new([1, 2]);
        let mut counts = [0u32; 7];
        for key in 0..70_000u64 {
            counts[hash.shard(&[key << 16, key % 3], 7) as usize] += 1;
        }
        // 10,000 each, give or take five standard deviations.
        assert!(
            counts.iter().all(|count| count.abs_diff(10_000) < 470),
            "{counts:?}"
        );
        assert_eq!(hash.shard(&[1], 0), 0);
    }
}
