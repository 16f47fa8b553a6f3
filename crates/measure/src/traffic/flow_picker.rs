//! Which flow the next packet belongs to: in turn or by chance, while flows come and go.
//!
//! Flows at a time have slots; churn gives the oldest slot the next number of the pool. Which slot
//! it is, uniform or Zipf, does not depend on the numbers.

use catena_port::random::Random;

use crate::profile::{Flows, Pick};

/// Picks flows.
#[derive(Clone, Debug)]
pub(super) struct FlowPicker {
    count: u32,
    pick: Choice,
    churn: Option<Churning>,
}

#[derive(Clone, Debug)]
enum Choice {
    Cycle { next: u32 },
    Uniform,
    Zipf(AliasTable),
}

#[derive(Clone, Debug)]
struct Churning {
    per_ns: f64,
    pool: u32,
    /// Replacements so far.
    done: u64,
    /// Flow number of each slot.
    slots: Vec<u32>,
}

impl FlowPicker {
    pub(super) fn new(flows: &Flows) -> Self {
        let count = flows.count;
        Self {
            count,
            pick: match flows.pick {
                Pick::Cycle => Choice::Cycle { next: 0 },
                Pick::Uniform => Choice::Uniform,
                Pick::Zipf => Choice::Zipf(AliasTable::zipf(count, flows.exponent)),
            },
            churn: flows.churn.as_ref().map(|churn| Churning {
                per_ns: churn.per_second / 1e9,
                pool: churn.pool,
                done: 0,
                slots: (0..count).collect(),
            }),
        }
    }

    /// The flow of the packet that is due at `due_ns`.
    #[inline]
    pub(super) fn pick(&mut self, due_ns: u64, random: &mut Random) -> u32 {
        let slot = match &mut self.pick {
            Choice::Cycle { next } => {
                let slot = *next;
                *next += 1;
                if *next == self.count {
                    *next = 0;
                }
                slot
            }
            // Fits: below a 32-bit number.
            Choice::Uniform => random.below(u64::from(self.count)) as u32,
            Choice::Zipf(table) => table.pick(random),
        };
        match &mut self.churn {
            None => slot,
            Some(churn) => {
                churn.replace_until(due_ns);
                churn.slots[slot as usize]
            }
        }
    }
}

impl Churning {
    fn replace_until(&mut self, due_ns: u64) {
        let wanted = (due_ns as f64 * self.per_ns) as u64;
        let count = self.slots.len() as u64;
        // More than all of them in one gap leaves the same as one round less.
        if wanted - self.done.min(wanted) > 2 * count {
            self.done = wanted - (wanted - self.done) % count - count;
        }
        while self.done < wanted {
            // Both fit: the remainders are below 32-bit numbers.
            let slot = (self.done % count) as usize;
            self.slots[slot] = ((count + self.done) % u64::from(self.pool)) as u32;
            self.done += 1;
        }
    }
}

/// Walker's alias method in Vose's form ("A linear algorithm for generating random numbers with a
/// given distribution", 1991): one random number and one look per pick.
#[derive(Clone, Debug)]
struct AliasTable {
    /// Share of the cell that is its own, in parts of 2^32, and whose the rest is.
    cells: Vec<(u32, u32)>,
}

impl AliasTable {
    fn zipf(count: u32, exponent: f64) -> Self {
        let weights: Vec<f64> = (1..=count)
            .map(|rank| f64::from(rank).powf(-exponent))
            .collect();
        let scale = f64::from(count) / weights.iter().sum::<f64>();
        let mut left: Vec<f64> = weights.iter().map(|weight| weight * scale).collect();
        let (mut small, mut large): (Vec<u32>, Vec<u32>) =
            (0..count).partition(|&index| left[index as usize] < 1.0);
        let mut cells: Vec<(u32, u32)> = (0..count).map(|index| (u32::MAX, index)).collect();
        while let (Some(less), Some(&more)) = (small.pop(), large.last()) {
            let own = left[less as usize];
            cells[less as usize] = ((own * 4_294_967_296.0) as u32, more);
            left[more as usize] -= 1.0 - own;
            if left[more as usize] < 1.0 {
                large.pop();
                small.push(more);
            }
        }
        Self { cells }
    }

    #[inline]
    fn pick(&self, random: &mut Random) -> u32 {
        let number = random.next();
        // The upper half picks the cell, the lower decides within it.
        let index = (((number >> 32) * self.cells.len() as u64) >> 32) as u32;
        let (own, alias) = self.cells[index as usize];
        if (number as u32) < own { index } else { alias }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Churn;

    fn counts(flows: &Flows, picks: u32) -> Vec<u32> {
        let mut picker = FlowPicker::new(flows);
        let mut random = Random::new(5);
        let mut counts = vec![0; flows.count as usize];
        for _ in 0..picks {
            counts[picker.pick(0, &mut random) as usize] += 1;
        }
        counts
    }

    fn flows(count: u32, pick: Pick) -> Flows {
        Flows {
            count,
            pick,
            ..Flows::default()
        }
    }

    #[test]
    fn turns_are_equal_and_chance_nearly_so() {
        assert_eq!(counts(&flows(3, Pick::Cycle), 9), [3, 3, 3]);
        let uniform = counts(&flows(10, Pick::Uniform), 100_000);
        assert!(uniform.iter().all(|count| (9_600..10_400).contains(count)));
    }

    #[test]
    fn zipf_gives_each_rank_its_share() {
        let harmonic: f64 = (1..=100).map(|rank| 1.0 / f64::from(rank)).sum();
        let found = counts(&flows(100, Pick::Zipf), 1_000_000);
        for rank in [1_u32, 2, 3, 10, 50, 100] {
            let expected = 1e6 / f64::from(rank) / harmonic;
            let count = f64::from(found[rank as usize - 1]);
            // Five standard deviations.
            assert!(
                (count - expected).abs() < 5.0 * expected.sqrt(),
                "rank {rank}: {count} of {expected}"
            );
        }
    }

    #[test]
    fn churn_replaces_the_oldest_by_new_numbers() {
        let churned = Flows {
            churn: Some(Churn {
                per_second: 1000.0,
                pool: 6,
            }),
            ..flows(3, Pick::Cycle)
        };
        let mut picker = FlowPicker::new(&churned);
        let mut random = Random::new(0);
        let mut round = |ms: u64| [(); 3].map(|()| picker.pick(ms * 1_000_000, &mut random));
        assert_eq!(round(0), [0, 1, 2]);
        assert_eq!(round(1), [3, 1, 2]);
        assert_eq!(round(3), [3, 4, 5]);
        assert_eq!(round(4), [0, 4, 5]);
        // Long after: as if each replacement had been made.
        let mut one_by_one = FlowPicker::new(&churned);
        for ms in 0..=100_001 {
            one_by_one.pick(ms * 1_000_000, &mut random);
        }
        let mut leap = FlowPicker::new(&churned);
        let mut random = Random::new(0);
        leap.pick(100_001_000_000, &mut random);
        let slots = |picker: &FlowPicker| picker.churn.as_ref().map(|churn| churn.slots.clone());
        assert_eq!(slots(&leap), slots(&one_by_one));
    }
}
