//! Oscillators of simulated stations: quanta over picoseconds of simulated time.

/// Picoseconds of a quantum.
pub const QUANTUM_PS: u64 = 16_000;
/// Picoseconds of a second.
pub const SECOND_PS: u64 = 1_000_000_000_000;
const BILLION: i128 = 1_000_000_000;

/// An oscillator that runs a little fast or slow and started at any time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Oscillator {
    /// What it shows at the start of the simulation, in picoseconds.
    phase_ps: u64,
    /// How much faster than nominal it runs, in thousandths of a millionth.
    ppb: i64,
}

impl Oscillator {
    /// An oscillator that is `ppb` thousandths of a millionth fast.
    pub(super) const fn new(phase_ps: u64, ppb: i64) -> Self {
        Self { phase_ps, ppb }
    }

    /// Own picoseconds at `time_ps`.
    fn own_ps(self, time_ps: u64) -> i128 {
        i128::from(time_ps) * (BILLION + i128::from(self.ppb)) / BILLION + i128::from(self.phase_ps)
    }

    /// Its count at `time_ps`: what is latched when a frame arrives. To the nearest quantum.
    pub(super) fn quanta(self, time_ps: u64) -> u64 {
        let own = self.own_ps(time_ps) + i128::from(QUANTUM_PS / 2);
        u64::try_from(own / i128::from(QUANTUM_PS)).unwrap_or(0)
    }

    /// When it shows `quanta`: when what is to happen then happens.
    pub(super) fn time_ps(self, quanta: u64) -> u64 {
        let own = i128::from(quanta) * i128::from(QUANTUM_PS) - i128::from(self.phase_ps);
        let rate = BILLION + i128::from(self.ppb);
        u64::try_from(own.max(0) * BILLION / rate).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_happens_at_a_count_is_latched_as_that_count(
            phase in 0..SECOND_PS, ppb in -100_000_i64..100_000, after in 0_u64..10_000_000_000,
        ) {
            let oscillator = Oscillator::new(phase, ppb);
            let quanta = phase.div_ceil(QUANTUM_PS) + after;
            prop_assert_eq!(oscillator.quanta(oscillator.time_ps(quanta)), quanta);
        }
    }

    #[test]
    fn counts_that_were_shown_before_the_start_are_over() {
        assert_eq!(Oscillator::new(SECOND_PS, 0).time_ps(0), 0);
    }

    #[test]
    fn a_fast_oscillator_gains() {
        let fast = Oscillator::new(0, 100_000);
        assert_eq!(fast.quanta(SECOND_PS), 62_506_250);
    }
}
