//! Devices with known loss curves: what searches are tested on, without a packet or a clock.

use super::{Trial, TrialResult};
use crate::stats::random::Random;

/// How a device loses packets.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Curve {
    /// Forwards up to its capacity, exactly.
    Hard,
    /// The capacity of each trial varies by this share (standard deviation), as with noise.
    Noisy(f64),
    /// Loses this share of trials' packets in addition, in this share of trials: spikes.
    Spikes { chance: f64, loss: f64 },
}

/// A device that forwards `capacity_pps`, in simulated time.
#[derive(Debug)]
pub(crate) struct SimulatedDevice {
    pub(crate) capacity_pps: f64,
    curve: Curve,
    random: Random,
}

impl SimulatedDevice {
    pub(crate) fn new(capacity_pps: f64, curve: Curve, seed: u64) -> Self {
        Self {
            capacity_pps,
            curve,
            random: Random::new(seed),
        }
    }

    pub(crate) fn measure(&mut self, trial: &Trial) -> TrialResult {
        let intended = (trial.load_pps * trial.duration.as_secs_f64())
            .round()
            .max(1.0);
        let (mut capacity_pps, mut extra) = (self.capacity_pps, 0.0);
        match self.curve {
            Curve::Hard => {}
            Curve::Noisy(deviation) => capacity_pps *= 1.0 + deviation * self.random.normal(),
            Curve::Spikes { chance, loss } => {
                extra = if self.random.unit() < chance {
                    loss
                } else {
                    0.0
                };
            }
        }
        let share = (1.0 - capacity_pps / trial.load_pps).max(0.0) + extra;
        let lost = (intended * share.min(1.0)).ceil();
        TrialResult {
            intended_packets: intended as u64,
            forwarded_packets: (intended - lost).max(0.0) as u64,
            effective_duration: trial.duration,
        }
    }
}
