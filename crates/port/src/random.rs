//! Pseudo-random numbers that a seed repeats: for faults and fillings, never for secrets.
//!
//! xoshiro256++ (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2019), its
//! state filled by splitmix64 as the authors advise.

/// A generator of numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The numbers that `seed` stands for.
    pub fn new(seed: u64) -> Self {
        let mut mixed = seed;
        let state = [(); 4].map(|()| {
            mixed = mixed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut word = mixed;
            word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            word ^ (word >> 31)
        });
        Self { state }
    }

    /// The next 64 bits.
    #[inline]
    #[expect(
        clippy::should_implement_trait,
        reason = "it has no end, so it is no iterator"
    )]
    pub fn next(&mut self) -> u64 {
        let [s0, s1, s2, s3] = self.state;
        let result = s0.wrapping_add(s3).rotate_left(23).wrapping_add(s0);
        let mut state = [s0, s1, s2 ^ s0, s3 ^ s1];
        state[1] ^= state[2];
        state[0] ^= state[3];
        state[2] ^= s1 << 17;
        state[3] = state[3].rotate_left(45);
        self.state = state;
        result
    }

    /// A number below `end`, which is not 0. Its bias is below `end` in 2^64.
    #[inline]
    pub fn below(&mut self, end: u64) -> u64 {
        let product = u128::from(self.next()) * u128::from(end);
        // Fits: the upper half of a product is below each factor.
        (product >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs for the state 1, 2, 3, 4, which other implementations test against too.
    #[test]
    fn known_state_gives_the_known_numbers() {
        let mut random = Random {
            state: [1, 2, 3, 4],
        };
        let first = [(); 4].map(|()| random.next());
        assert_eq!(
            first,
            [
                41_943_041,
                58_720_359,
                3_588_806_011_781_223,
                3_591_011_842_654_386
            ]
        );
    }

    #[test]
    fn numbers_below_an_end_cover_it_evenly() {
        let mut random = Random::new(1);
        let mut counts = [0_u32; 10];
        for _ in 0..100_000 {
            counts[usize::try_from(random.below(10)).unwrap()] += 1;
        }
        assert!(
            counts.iter().all(|count| (9_600..10_400).contains(count)),
            "{counts:?}"
        );
    }
}
