//! Stalls of the machine, and what they did to packets.
//!
//! A poll loop that has a time stamp per turn sees when it did not run. Such a gap is recorded as a
//! [`Stall`]; a packet that was under way meanwhile, on a core of its path, carries the machine's
//! latency and not the network function's. [`Attribution`] tells them apart: *raw* is all packets,
//! *clean* those that no stall touched, *stalled* the others, and *net* all packets less the time
//! that stalls overlapped. Clean alone is never published: it leaves out what users will see.
//!
//! Times are of one clock, such as ticks of the TSC; results are in its unit.

use serde::{Deserialize, Serialize};

use super::Distribution;
use crate::stats::histogram::Histogram;

/// Why a core did not run the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StallCause {
    /// The kernel ran something else: the thread's count of context switches moved.
    ContextSwitch,
    /// The hypervisor ran another machine: steal time moved.
    Steal,
    /// Neither moved: an interrupt, or a hypervisor that does not say.
    InterruptOrHypervisor,
    /// Nobody looked at the counters.
    Unknown,
}

impl StallCause {
    /// All causes, in the order of [`Attribution::overlap_by_cause`].
    pub const ALL: [Self; 4] = [
        Self::ContextSwitch,
        Self::Steal,
        Self::InterruptOrHypervisor,
        Self::Unknown,
    ];

    /// The cause, from what the counters around a gap did.
    pub fn from_counters(context_switches: u64, steal: u64) -> Self {
        match (context_switches, steal) {
            (1.., _) => Self::ContextSwitch,
            (0, 1..) => Self::Steal,
            (0, 0) => Self::InterruptOrHypervisor,
        }
    }
}

/// A stretch of time in which a core did not run its loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stall {
    /// Last stamp before it.
    pub begin: u64,
    /// First stamp after it.
    pub end: u64,
    /// Which core.
    pub core: u16,
    /// Why.
    pub cause: StallCause,
    /// Whether it was the packets' source that did not run: those that it sent before are beyond
    /// it, and only those are touched that were due from its beginning on.
    #[serde(default)]
    pub is_source: bool,
}

impl Stall {
    /// Whether it touches a packet, if it did not end before that was due.
    const fn touches(&self, flight: &Flight) -> bool {
        self.begin < flight.end && (!self.is_source || self.begin <= flight.begin)
    }
}

/// The gap between two stamps of a loop from which on it is a stall: well above the loop's own
/// work, and at least `least` (5 µs, in the clock's unit).
pub fn threshold(median_turn: u64, least: u64) -> u64 {
    least.max(median_turn.saturating_mul(10))
}

/// The time a packet was under way: from its intended sending to its reception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// Intended sending.
    pub begin: u64,
    /// Reception.
    pub end: u64,
}

/// Latency with the machine's stalls told apart from the rest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attribution {
    /// All packets.
    pub raw: Distribution,
    /// Packets that no stall touched.
    pub clean: Distribution,
    /// Packets that a stall touched, with all their latency.
    pub stalled: Distribution,
    /// All packets, less the time that stalls overlapped.
    pub net: Distribution,
    /// Share of packets that are not in `clean`.
    pub excluded_share: f64,
    /// Total overlap of packets and stalls, for each of [`StallCause::ALL`].
    pub overlap_by_cause: [u64; 4],
}

/// Stalls of the given cores as disjoint stretches in ascending order. Where cores stall together,
/// the time counts once, for the one that stalled first.
fn disjoint(stalls: &[Stall], cores: &[u16]) -> Vec<Stall> {
    let of_path = stalls.iter().filter(|stall| cores.contains(&stall.core));
    let mut sorted: Vec<_> = of_path.copied().collect();
    sorted.sort_by_key(|stall| (stall.begin, stall.end));
    let mut covered = 0;
    let mut pieces = Vec::with_capacity(sorted.len());
    for mut stall in sorted {
        stall.begin = stall.begin.max(covered);
        if stall.begin < stall.end {
            covered = stall.end;
            pieces.push(stall);
        }
    }
    pieces
}

/// Which packets a stall of the given cores touched; `recovery` as in [`Attribution::of`].
pub fn touched(flights: &[Flight], stalls: &[Stall], cores: &[u16], recovery: u64) -> Vec<bool> {
    let stalls = disjoint(stalls, cores);
    let is_touched = |flight: &Flight| {
        let first =
            stalls.partition_point(|stall| stall.end.saturating_add(recovery) <= flight.begin);
        let near = stalls[first..].iter();
        let mut near = near.take_while(|stall| stall.begin < flight.end);
        near.any(|stall| stall.touches(flight))
    };
    flights.iter().map(is_touched).collect()
}

impl Attribution {
    /// Attributes packets to stalls of the cores on their path.
    ///
    /// `recovery` is how long after a stall the queue that it left still delays packets; packets of
    /// that time count as stalled, but nothing is subtracted from them.
    pub fn of(flights: &[Flight], stalls: &[Stall], cores: &[u16], recovery: u64) -> Self {
        let stalls = disjoint(stalls, cores);
        let (mut clean, mut stalled) = (Vec::new(), Vec::new());
        let mut net = Vec::with_capacity(flights.len());
        let mut overlap_by_cause = [0; 4];
        for flight in flights {
            let latency = flight.end.saturating_sub(flight.begin);
            let first =
                stalls.partition_point(|stall| stall.end.saturating_add(recovery) <= flight.begin);
            let touching = stalls[first..]
                .iter()
                .take_while(|stall| stall.begin < flight.end)
                .filter(|stall| stall.touches(flight));
            let (mut overlap, mut is_touched) = (0, false);
            for stall in touching {
                is_touched = true;
                let end = stall.end.min(flight.end);
                let part = end.saturating_sub(stall.begin.max(flight.begin));
                overlap += part;
                overlap_by_cause[stall.cause as usize] += part;
            }
            let side = if is_touched { &mut stalled } else { &mut clean };
            side.push(latency.cast_signed());
            net.push(latency.saturating_sub(overlap).cast_signed());
        }
        let raw = flights
            .iter()
            .map(|flight| flight.end.saturating_sub(flight.begin).cast_signed());
        Self {
            raw: Distribution::of(raw.collect()),
            excluded_share: stalled.len() as f64 / flights.len().max(1) as f64,
            clean: Distribution::of(clean),
            stalled: Distribution::of(stalled),
            net: Distribution::of(net),
            overlap_by_cause,
        }
    }
}

/// The machine's own noise on one core over a stretch of time in which nothing else was done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NoiseFloor {
    /// Length of the measurement.
    pub duration: u64,
    /// Lengths of stalls.
    pub stalls: Histogram,
    /// Share of the time that stalls took.
    pub lost_share: f64,
    /// The longest stall.
    pub longest: u64,
}

impl NoiseFloor {
    /// Of the stalls of one core within a measurement of this duration.
    pub fn of(stalls: &[Stall], core: u16, duration: u64) -> Self {
        let mut histogram = Histogram::new();
        let (mut lost, mut longest) = (0u64, 0);
        for stall in stalls.iter().filter(|stall| stall.core == core) {
            let length = stall.end.saturating_sub(stall.begin);
            histogram.record(length);
            lost = lost.saturating_add(length);
            longest = longest.max(length);
        }
        Self {
            duration,
            stalls: histogram,
            lost_share: lost as f64 / duration.max(1) as f64,
            longest,
        }
    }

    fn stalls_per_tick(&self) -> f64 {
        self.stalls.count() as f64 / self.duration.max(1) as f64
    }
}

/// What the noise floors before and after a trial say about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NoiseBracket {
    /// Floor before the trial.
    pub before: NoiseFloor,
    /// Floor after it.
    pub after: NoiseFloor,
    /// The floor moved by more than [`NOISE_RATIO_MAX`]: repeat the trial.
    pub is_noisy: bool,
}

/// The floors on both sides of a trial may differ by this factor.
pub const NOISE_RATIO_MAX: f64 = 2.0;
/// Lost shares below this are as good as none: a ratio of two of them says nothing.
const LOST_SHARE_FLOOR: f64 = 1e-4;

impl NoiseBracket {
    /// Compares the floors by lost time, and by number of stalls where there were at least 20.
    pub fn of(before: NoiseFloor, after: NoiseFloor) -> Self {
        let moved = |a: f64, b: f64| a.max(b) > NOISE_RATIO_MAX * a.min(b);
        let lost = [&before, &after].map(|floor| floor.lost_share.max(LOST_SHARE_FLOOR));
        let has_counts = before.stalls.count().max(after.stalls.count()) >= 20;
        let counts = [&before, &after].map(NoiseFloor::stalls_per_tick);
        Self {
            is_noisy: moved(lost[0], lost[1]) || (has_counts && moved(counts[0], counts[1])),
            before,
            after,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stall(begin: u64, end: u64, core: u16, cause: StallCause) -> Stall {
        Stall {
            begin,
            end,
            core,
            cause,
            is_source: false,
        }
    }

    /// Goal: a 50 µs stall is attributed and its effect subtracted. Method: packets every 100 ns
    /// with a latency of 300 ns; those that arrive within the stall leave after it.
    #[test]
    fn an_injected_stall_is_found_and_taken_out() {
        use StallCause::Steal;
        let (begin, end) = (1_000_000, 1_050_000);
        let flights: Vec<_> = (0..200_000u64)
            .map(|index| {
                let sent = index * 100;
                let is_held = sent + 300 > begin && sent < end;
                let received = if is_held {
                    sent.max(end) + 300
                } else {
                    sent + 300
                };
                Flight {
                    begin: sent,
                    end: received,
                }
            })
            .collect();
        let elsewhere = stall(0, 20_000_000, 7, StallCause::ContextSwitch);
        let stalls = [stall(begin, end, 1, Steal), elsewhere];
        let result = Attribution::of(&flights, &stalls, &[0, 1], 0);
        assert_eq!(result.clean.max_ns, Some(300));
        assert!(result.raw.quantile(0.999).unwrap() > 10_000);
        assert!(result.net.quantile(0.999).unwrap() <= 330);
        assert!((result.excluded_share - 502.0 / 200_000.0).abs() < 2e-5);
        assert_eq!(
            result.overlap_by_cause[StallCause::ContextSwitch as usize],
            0
        );
        assert!(result.overlap_by_cause[Steal as usize] > 0);
        assert_eq!(result.raw.count, result.clean.count + result.stalled.count);
    }

    #[test]
    fn time_after_a_stall_counts_as_stalled_but_is_not_subtracted() {
        let flights = [
            Flight {
                begin: 120,
                end: 150,
            },
            Flight {
                begin: 400,
                end: 430,
            },
        ];
        let stalls = [stall(50, 100, 0, StallCause::Steal)];
        let result = Attribution::of(&flights, &stalls, &[0], 100);
        assert_eq!((result.stalled.count, result.clean.count), (1, 1));
        assert_eq!(result.net.mean_ns, Some(30.0));
    }

    /// A generator that did not run holds up what was due meanwhile, and nothing that it had sent.
    #[test]
    fn a_source_s_stall_touches_what_was_due_in_it() {
        let flights = [(50, 150), (100, 260), (120, 260), (205, 260), (215, 260)];
        let flights = flights.map(|(begin, end)| Flight { begin, end });
        let mut stall = stall(100, 200, 0, StallCause::Unknown);
        assert_eq!(
            touched(&flights, &[stall], &[0], 10),
            [true, true, true, true, false]
        );
        stall.is_source = true;
        let expected = [false, true, true, true, false];
        assert_eq!(touched(&flights, &[stall], &[0], 10), expected);
        let result = Attribution::of(&flights, &[stall], &[0], 10);
        assert_eq!((result.clean.count, result.stalled.count), (2, 3));
        assert_eq!(result.overlap_by_cause.iter().sum::<u64>(), 100 + 80);
    }

    #[test]
    fn causes_follow_the_counters() {
        assert_eq!(StallCause::from_counters(1, 5), StallCause::ContextSwitch);
        assert_eq!(StallCause::from_counters(0, 5), StallCause::Steal);
        assert_eq!(
            StallCause::from_counters(0, 0),
            StallCause::InterruptOrHypervisor
        );
        assert_eq!(
            (threshold(100, 5000), threshold(10_000, 5000)),
            (5000, 100_000)
        );
    }

    #[test]
    fn a_floor_that_moves_makes_a_trial_noisy() {
        let floor = |lengths: u64, count: u64| {
            let stalls: Vec<_> = (0..count)
                .map(|index| {
                    let begin = index * 1_000_000;
                    stall(begin, begin + lengths, 0, StallCause::InterruptOrHypervisor)
                })
                .collect();
            NoiseFloor::of(&stalls, 0, 1_000_000_000)
        };
        assert!(!NoiseBracket::of(floor(10_000, 400), floor(12_000, 390)).is_noisy);
        assert!(NoiseBracket::of(floor(10_000, 400), floor(25_000, 400)).is_noisy);
        assert!(NoiseBracket::of(floor(10_000, 400), floor(3000, 950)).is_noisy);
        assert!(
            !NoiseBracket::of(floor(100, 0), floor(100, 5)).is_noisy,
            "next to nothing"
        );
    }

    proptest! {
        /// Against a model that looks at each tick of time.
        #[test]
        fn overlap_is_the_number_of_stalled_ticks(
            stalls in proptest::collection::vec((0u64..60, 0u64..20, 0u16..3), 0..12),
            flights in proptest::collection::vec((0u64..60, 1u64..30), 1..8),
        ) {
            let stalls: Vec<_> = stalls
                .iter()
                .map(|(begin, length, core)| {
                    stall(*begin, begin + length, *core, StallCause::ALL[*core as usize])
                })
                .collect();
            let flights: Vec<_> = flights
                .iter()
                .map(|(begin, length)| Flight { begin: *begin, end: begin + length })
                .collect();
            let result = Attribution::of(&flights, &stalls, &[0, 2], 0);
            let is_stalled = |tick: u64| {
                let mut of_path = stalls.iter().filter(|stall| stall.core != 1);
                of_path.any(|stall| stall.begin <= tick && tick < stall.end)
            };
            let ticks = |flight: &Flight| flight.begin..flight.end;
            let overlap = |flight: &Flight| ticks(flight).filter(|tick| is_stalled(*tick)).count();
            let total: usize = flights.iter().map(overlap).sum();
            prop_assert_eq!(result.overlap_by_cause.iter().sum::<u64>(), total as u64);
            let touched = flights.iter().filter(|flight| overlap(flight) > 0).count();
            prop_assert_eq!(result.stalled.count, touched as u64);
        }
    }
}
