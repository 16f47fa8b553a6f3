//! Traffic of a simulated ONU: frames, one after the other, by a model and a seed.

use catena_port::random::Random;

use super::super::burst_time::frame_octets;

/// How frames arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Model {
    /// At random, independently of each other.
    #[default]
    Poisson,
    /// At equal gaps in octets.
    Constant,
    /// In bursts at the rate of the user's port, with lengths and pauses of a Pareto distribution:
    /// what aggregates to self-similar traffic (Taqqu, Willinger, Sherman, 1997).
    Bursty,
}

impl Model {
    /// The name used on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Poisson => "poisson",
            Self::Constant => "constant",
            Self::Bursty => "bursty",
        }
    }
}

/// Lengths of frames without check sequence and how many of eleven have them: a common mixture of
/// 64, 594 and 1518 octets.
const LENGTHS: [(u16, u64); 3] = [(60, 6), (590, 4), (1514, 1)];

/// Rate at which bursts come, in bits per second; a quicker source sends at ten times this.
const PORT_RATE_BPS: f64 = 1e9;
/// Exponents of the lengths of bursts and pauses.
const BURST_EXPONENT: f64 = 1.4;
const PAUSE_EXPONENT: f64 = 1.2;
/// Shortest burst in frames, and the longest as a multiple of it: a source that may be silent for
/// the whole simulation has no mean.
const BURST_FRAMES_MIN: f64 = 4.0;
const TAIL_MAX: f64 = 1000.0;

/// A frame that wants to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// When it comes, in picoseconds.
    pub at_ps: u64,
    /// Its length without check sequence.
    pub len: u16,
}

/// A source of frames.
#[derive(Clone, Debug)]
pub struct Source {
    model: Model,
    random: Random,
    /// Picoseconds that an octet takes on average, gaps between frames included.
    ps_per_octet: f64,
    /// The same within a burst.
    ps_per_octet_in_burst: f64,
    /// Frames that are left of the burst.
    burst_left: u64,
    at_ps: f64,
}

impl Source {
    /// A source of `load_bps` bits per second of frames with preamble, check sequence and gap.
    pub fn new(model: Model, load_bps: f64, seed: u64) -> Self {
        let port = if load_bps > PORT_RATE_BPS / 2.0 {
            10.0 * PORT_RATE_BPS
        } else {
            PORT_RATE_BPS
        };
        Self {
            model,
            random: Random::new(seed),
            ps_per_octet: 8e12 / load_bps,
            ps_per_octet_in_burst: 8e12 / port,
            burst_left: 0,
            at_ps: 0.0,
        }
    }

    /// The next frame, if there is traffic at all.
    pub fn next_frame(&mut self) -> Option<Frame> {
        if !self.ps_per_octet.is_finite() {
            return None;
        }
        let len = self.length();
        let octets = frame_octets(usize::from(len)) as f64;
        self.at_ps += match self.model {
            Model::Constant => octets * self.ps_per_octet,
            Model::Poisson => -self.uniform().ln() * mean_octets() * self.ps_per_octet,
            Model::Bursty => self.pause() + octets * self.ps_per_octet_in_burst,
        };
        Some(Frame {
            at_ps: self.at_ps as u64,
            len,
        })
    }

    fn length(&mut self) -> u16 {
        let all: u64 = LENGTHS.iter().map(|(_, weight)| weight).sum();
        let mut pick = self.random.below(all);
        for (len, weight) in LENGTHS {
            if pick < weight {
                return len;
            }
            pick -= weight;
        }
        LENGTHS[0].0
    }

    /// Above 0, up to 1.
    fn uniform(&mut self) -> f64 {
        (self.random.below(1 << 53) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Pareto with this exponent, from 1 to [`TAIL_MAX`].
    fn pareto(&mut self, exponent: f64) -> f64 {
        let lowest = TAIL_MAX.powf(-exponent);
        let share = lowest + (1.0 - lowest) * self.uniform();
        share.powf(-1.0 / exponent)
    }

    /// What comes in front of a frame of a bursty source.
    fn pause(&mut self) -> f64 {
        if self.burst_left > 0 {
            self.burst_left -= 1;
            return 0.0;
        }
        let frames = (self.pareto(BURST_EXPONENT) * BURST_FRAMES_MIN).round();
        self.burst_left = frames as u64 - 1;
        // On average a burst and its pause take what the load allows.
        let burst = BURST_FRAMES_MIN * pareto_mean(BURST_EXPONENT) * mean_octets();
        let idle = (self.ps_per_octet - self.ps_per_octet_in_burst).max(0.0) * burst;
        self.pareto(PAUSE_EXPONENT) / pareto_mean(PAUSE_EXPONENT) * idle
    }
}

/// Octets of a frame on average.
fn mean_octets() -> f64 {
    let weights: u64 = LENGTHS.iter().map(|(_, weight)| weight).sum();
    let octets: u64 = LENGTHS
        .iter()
        .map(|&(len, weight)| frame_octets(usize::from(len)) * weight)
        .sum();
    octets as f64 / weights as f64
}

/// Mean of the Pareto distribution from 1 to [`TAIL_MAX`].
fn pareto_mean(exponent: f64) -> f64 {
    let lowest = TAIL_MAX.powf(-exponent);
    exponent / (exponent - 1.0) * (1.0 - TAIL_MAX.powf(1.0 - exponent)) / (1.0 - lowest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_model_offers_its_load() {
        for model in [Model::Poisson, Model::Constant, Model::Bursty] {
            for load in [50e6, 270e6, 4e9] {
                let mut source = Source::new(model, load, 7);
                let mut octets = 0;
                let mut last = 0;
                for _ in 0..400_000 {
                    let frame = source.next_frame().unwrap();
                    assert!(frame.at_ps >= last);
                    last = frame.at_ps;
                    octets += frame_octets(usize::from(frame.len));
                }
                let offered = octets as f64 * 8e12 / last as f64;
                let off = offered / load - 1.0;
                assert!(off.abs() < 0.05, "{model:?} {load}: {off}");
            }
        }
    }

    #[test]
    fn a_quick_source_has_a_quick_port_and_its_bursts_no_pause_beyond_it() {
        for (load, ps_per_octet) in [(5e8_f64, 8_000.0), (5e8_f64.next_up(), 800.0)] {
            let source = Source::new(Model::Bursty, load, 1);
            assert_eq!(source.ps_per_octet_in_burst, ps_per_octet, "{load}");
        }
        // More is offered than the port carries: it sends without a pause.
        let mut source = Source::new(Model::Bursty, 2e10, 1);
        let mut octets = 0;
        for frame in (0..1_000).map_while(|_| source.next_frame()) {
            octets += frame_octets(usize::from(frame.len));
            assert_eq!(frame.at_ps, 800 * octets);
        }
    }

    #[test]
    fn lengths_are_as_frequent_as_their_weights() {
        let mut source = Source::new(Model::Constant, 1e9, 3);
        let lens: Vec<u16> = (0..11_000).map(|_| source.length()).collect();
        for (len, wanted) in [(60, 6_000_u64), (590, 4_000), (1514, 1_000)] {
            let found = lens.iter().filter(|here| **here == len).count() as u64;
            assert!(found.abs_diff(wanted) < 200, "{found} of {len} octets");
        }
    }

    #[test]
    fn a_seed_repeats_its_frames_and_no_load_has_none() {
        let frames = |seed| -> Vec<Frame> {
            let mut source = Source::new(Model::Bursty, 1e8, seed);
            (0..100).filter_map(|_| source.next_frame()).collect()
        };
        assert_eq!(frames(3), frames(3));
        assert_ne!(frames(3), frames(4));
        assert_eq!(Source::new(Model::Poisson, 0.0, 1).next_frame(), None);
    }
}
