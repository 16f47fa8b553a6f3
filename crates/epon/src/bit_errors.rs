//! Bit errors at a set rate, and noise, both repeated by a seed.
//!
//! Errors are independent of each other: the distance from one to the next is drawn from the
//! geometric distribution, so that work goes with the number of errors and not with that of bits.

pub use catena_measure::stats::random::Random;

/// Events along a line, each bit with the same chance and independent of each other.
#[derive(Clone, Debug)]
pub struct Events {
    random: Random,
    /// ln(1 - rate); zero for no events.
    ln_good: f64,
    /// Bits before the next event.
    left: u64,
}

impl Events {
    /// At `rate` events per bit, 0 to below 1.
    pub fn new(rate: f64, seed: u64) -> Self {
        let mut events = Self {
            random: Random::new(seed),
            ln_good: (-rate).ln_1p(),
            left: 0,
        };
        events.left = events.gap();
        events
    }

    /// Bits up to the next event.
    fn gap(&mut self) -> u64 {
        if self.ln_good == 0.0 {
            return u64::MAX;
        }
        // 53 bits, above 0 and up to 1; the quotient is not negative and saturates.
        let uniform = ((self.random.bits() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        (uniform.ln() / self.ln_good) as u64
    }

    /// Where the next event is, from bit `at` on of a stretch of `len` bits; the bit behind it is
    /// the next to be asked for. None if the stretch ends first: the next one goes on from there.
    #[inline]
    pub fn next_in(&mut self, at: usize, len: usize) -> Option<usize> {
        let rest = (len - at) as u64;
        if self.left < rest {
            // Fits: below `len`.
            let event = at + self.left as usize;
            self.left = self.gap();
            return Some(event);
        }
        if self.left != u64::MAX {
            self.left -= rest;
        }
        None
    }
}

/// Flips bits of a line at a set rate.
#[derive(Clone, Debug)]
pub struct BitErrors {
    events: Events,
}

impl BitErrors {
    /// At `rate` errors per bit, 0 to below 1.
    pub fn new(rate: f64, seed: u64) -> Self {
        Self {
            events: Events::new(rate, seed),
        }
    }

    /// Goes over bits `start..start + len`; returns how many were flipped.
    pub fn flip(&mut self, line: &mut [u8], start: usize, len: usize) -> u64 {
        let (mut at, mut flipped) = (0, 0);
        while let Some(event) = self.events.next_in(at, len) {
            let bit = start + event;
            line[bit / 8] ^= 1 << (bit % 8);
            flipped += 1;
            at = event + 1;
        }
        flipped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_come_at_the_rate_that_was_set() {
        for (rate, least, most) in [
            (0.0, 0, 0),
            (1e-4, 700, 900),
            (1e-2, 79_000, 81_000),
            (0.5, 3_990_000, 4_010_000),
        ] {
            let mut line = vec![0; 1_000_000];
            let flipped = BitErrors::new(rate, 1).flip(&mut line, 0, 8_000_000);
            let ones: u64 = line.iter().map(|byte| u64::from(byte.count_ones())).sum();
            assert_eq!(ones, flipped);
            assert!((least..=most).contains(&flipped), "{rate}: {flipped}");
        }
    }

    #[test]
    fn errors_do_not_depend_on_how_the_line_is_cut() {
        let mut whole = vec![0; 1000];
        BitErrors::new(0.01, 7).flip(&mut whole, 3, 7990);
        let (mut pieces, mut errors) = (vec![0; 1000], BitErrors::new(0.01, 7));
        let mut at = 3;
        for len in (0..50).cycle() {
            let len = usize::min(len, 7993 - at);
            errors.flip(&mut pieces, at, len);
            at += len;
            if at == 7993 {
                break;
            }
        }
        assert_eq!(pieces, whole);
    }
}
