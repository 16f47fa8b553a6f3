//! Random numbers that a seed repeats exactly (SplitMix64): for resampling, random orders and
//! simulated noise. Not for secrets.

/// A generator of random numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A generator that gives the same numbers for the same seed, on every machine.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Uniform from 0 to below 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform from 0 to below `limit`; 0 for a limit of 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        // The upper half of a product: uneven by less than limit / 2^64.
        ((u128::from(self.bits()) * u128::from(limit)) >> 64) as u64
    }

    /// Normal with mean 0 and deviation 1 (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Puts items into random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            let other = self.below(index as u64 + 1) as usize;
            items.swap(index, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_moments_they_should() {
        let mut random = Random::new(3);
        let count = 100_000;
        let mean = (0..count).map(|_| random.unit()).sum::<f64>() / f64::from(count);
        assert!((mean - 0.5).abs() < 0.005, "{mean}");
        let normals: Vec<_> = (0..count).map(|_| random.normal()).collect();
        let square = normals.iter().map(|x| x * x).sum::<f64>() / f64::from(count);
        assert!((square - 1.0).abs() < 0.02, "{square}");
        let mut order: Vec<_> = (0..100).collect();
        random.shuffle(&mut order);
        assert_ne!(order, (0..100).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
        assert!((0..1000).all(|_| random.below(7) < 7));
    }
}
