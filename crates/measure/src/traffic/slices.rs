//! Slices: two generators, each of a chain of its own, take turns so that both chains can stay up.
//!
//! Both are told the same beginning, on the time-stamp counter that they share, and the same seed;
//! so each knows without a word whose turn it is. A pair is a slice of each side in random order.
//! What is counted is what left in a slice after its first fifth, in which the other chain's last
//! packets go and this one's workers wake up. At the highest load, over links that block, that is
//! what the chain took.

use catena_engine::units::Span;
use schemars::JsonSchema;
use serde::Deserialize;

use super::tick_rate::TickRate;
use crate::compare::{Side, firsts};

/// Part of a slice that is not counted, as its inverse.
const SETTLING_PART: u64 = 5;
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
    seconds: f64,
    counts: Vec<u64>,
}

impl Slices {
    /// Slices of which none has begun.
    pub fn new(config: &SliceConfig, rate: TickRate) -> Self {
        let pairs = config.pairs.min(PAIR_COUNT_MAX) as usize;
        Self {
            side: config.side,
            firsts: firsts(config.seed, pairs),
            start: config.start,
            length: rate.ticks(config.length.ns).max(SETTLING_PART),
            seconds: config.length.ns as f64 / 1e9,
            counts: vec![0; pairs],
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
                    let is_now = now >= begin;
                    return if is_now {
                        Moment::Own
                    } else {
                        Moment::Wait(begin)
                    };
                }
                Some((_, false)) => number += 1,
            }
        }
    }

    /// Counts packets that left at `now`.
    pub fn count(&mut self, now: u64, packets: u64) {
        let since = now.saturating_sub(self.start);
        let (number, within) = (since / self.length, since % self.length);
        if within >= self.length / SETTLING_PART
            && let Some((pair, true)) = self.slice(number)
        {
            self.counts[pair] += packets;
        }
    }

    /// Packets per second in the counted part of each pair's own slice.
    pub fn rates_pps(&self) -> Vec<f64> {
        let counted = self.seconds * (1.0 - 1.0 / SETTLING_PART as f64);
        let counts = self.counts.iter();
        counts.map(|count| *count as f64 / counted).collect()
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
    fn at_every_tick_it_is_exactly_one_sides_turn() {
        let (a, b) = (slices(Side::A), slices(Side::B));
        for now in (10_000..110_000).step_by(100) {
            let own = [a.at(now), b.at(now)].map(|moment| moment == Moment::Own);
            assert!(own[0] != own[1], "{now}");
        }
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
    fn what_leaves_in_the_own_slice_after_its_first_fifth_is_counted() {
        let mut a = slices(Side::A);
        for now in (10_000..110_000).step_by(10) {
            a.count(now, 1);
        }
        // 80 packets in 800 ns of each pair.
        assert!(
            a.rates_pps()
                .iter()
                .all(|rate| (rate / 1e8 - 1.0).abs() < 1e-9)
        );
    }
}
