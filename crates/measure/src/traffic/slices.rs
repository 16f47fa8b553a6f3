//! Slices: two generators, each of a chain of its own, take turns so that both chains can stay up.
//!
//! Both are told the same beginning, on the time-stamp counter that they share, and the same seed;
//! so each knows without a word whose turn it is. A pair is a slice of each side in random order.
//!
//! What is counted is what *arrives*, at the receiver. What leaves the generator says little: it
//! fills buffers and links as well, however slow the device behind them is. A slice has three
//! parts: in the first the buffers fill, and what they held back in the other side's turn goes (a
//! token bucket); in the second the device works at its limit and arrivals are counted; in the
//! third the generator is silent and the device drains, so that it leaves the core to the other.

use catena_engine::units::Span;
use schemars::JsonSchema;
use serde::Deserialize;

use super::tick_rate::TickRate;
use crate::compare::{Side, firsts};

/// Tenths of a slice before arrivals are counted.
const SETTLING_TENTHS: u64 = 3;
/// Tenths of a slice at whose end the generator falls silent, and counting ends.
const SENDING_TENTHS: u64 = 8;
/// Most pairs.
const PAIR_COUNT_MAX: u32 = 1 << 20;

/// How slices are written.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SliceConfig {
    /// Which side this generator is.
    #[schemars(with = "String")]
    pub side: Side,
    /// Pairs of slices.
    pub pairs: u32,
    /// Length of a slice.
    pub length: Span,
    /// Decides which side comes first in each pair.
    pub seed: u64,
    /// Tick of the time-stamp counter at which the first slice begins.
    pub start: u64,
}

/// What a tick is for one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Its turn.
    Own,
    /// Not its turn before this tick.
    Wait(u64),
    /// All slices are over.
    Over,
}

/// The slices of one side.
#[derive(Clone, Debug)]
pub struct Slices {
    side: Side,
    firsts: Vec<Side>,
    start: u64,
    length: u64,
    /// Seconds in which arrivals are counted in each slice.
    seconds: f64,
    counts: Vec<u64>,
    strays: u64,
}

impl Slices {
    /// Slices of which none has begun.
    pub fn new(config: &SliceConfig, rate: TickRate) -> Self {
        let pairs = config.pairs.min(PAIR_COUNT_MAX) as usize;
        Self {
            side: config.side,
            firsts: firsts(config.seed, pairs),
            start: config.start,
            length: rate.ticks(config.length.ns).max(10),
            seconds: config.length.ns as f64 / 1e10 * (SENDING_TENTHS - SETTLING_TENTHS) as f64,
            counts: vec![0; pairs],
            strays: 0,
        }
    }

    /// The pair of a slice, and whether the slice is this side's.
    fn slice(&self, number: u64) -> Option<(usize, bool)> {
        let pair = usize::try_from(number / 2).ok()?;
        let first = *self.firsts.get(pair)?;
        let is_first = number.is_multiple_of(2);
        Some((pair, (first == self.side) == is_first))
    }

    /// What `now` is.
    pub fn at(&self, now: u64) -> Moment {
        let begun = now.saturating_sub(self.start) / self.length;
        let mut number = if now < self.start { 0 } else { begun };
        loop {
            match self.slice(number) {
                None => return Moment::Over,
                Some((_, true)) => {
                    let begin = self.start + number * self.length;
                    if now < begin {
                        return Moment::Wait(begin);
                    }
                    if now - begin < self.length / 10 * SENDING_TENTHS {
                        return Moment::Own;
                    }
                    number += 1;
                }
                Some((_, false)) => number += 1,
            }
        }
    }

    /// Counts packets that arrived at `now`.
    pub fn count(&mut self, now: u64, packets: u64) {
        let since = now.saturating_sub(self.start);
        let (number, within) = (since / self.length, since % self.length);
        match self.slice(number) {
            Some((pair, true)) => {
                let tenth = self.length / 10;
                if (tenth * SETTLING_TENTHS..tenth * SENDING_TENTHS).contains(&within) {
                    self.counts[pair] += packets;
                }
            }
            Some((_, false)) | None => self.strays += packets,
        }
    }

    /// Packets that arrived in the other side's turn: the device had not drained.
    pub const fn strays(&self) -> u64 {
        self.strays
    }

    /// Packets per second in the counted part of each pair's own slice.
    pub fn rates_pps(&self) -> Vec<f64> {
        let counts = self.counts.iter();
        counts.map(|count| *count as f64 / self.seconds).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slices(side: Side) -> Slices {
        let config = SliceConfig {
            side,
            pairs: 50,
            length: Span { ns: 1000 },
            seed: 3,
            start: 10_000,
        };
        Slices::new(&config, TickRate::from_ns_per_tick(1.0))
    }

    #[test]
    fn never_both_send_and_each_falls_silent_before_its_turn_ends() {
        let (a, b) = (slices(Side::A), slices(Side::B));
        let mut sending = 0;
        for now in (10_000..110_000).step_by(100) {
            let own = [a.at(now), b.at(now)].map(|moment| moment == Moment::Own);
            let is_draining = now % 1000 >= 800;
            assert_eq!(
                own,
                [own[0] && !is_draining, !own[0] && !is_draining],
                "{now}"
            );
            sending += u64::from(own[0] | own[1]);
        }
        assert_eq!(sending, 800);
        assert_eq!([a.at(110_000), b.at(110_000)], [Moment::Over; 2]);
        for side in [&a, &b] {
            let Moment::Wait(first) = side.at(0) else {
                panic!("{:?}", side.at(0));
            };
            assert!(first == 10_000 || first == 11_000);
            assert_eq!(side.at(first), Moment::Own);
        }
    }

    #[test]
    fn what_arrives_in_the_middle_of_the_own_slice_is_counted() {
        let mut a = slices(Side::A);
        for now in (10_000..110_000).step_by(10) {
            a.count(now, 1);
        }
        // 50 packets in 500 ns of each pair.
        assert!(
            a.rates_pps()
                .iter()
                .all(|rate| (rate / 1e8 - 1.0).abs() < 1e-9)
        );
        assert_eq!(a.strays(), 50 * 100);
    }
}

#[cfg(test)]
#[path = "slices_tests.rs"]
mod turns;
