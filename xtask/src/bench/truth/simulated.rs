//! Known truths for the statistics: simulated machines, distributions and studies.
//!
//! SPDX-License-Identifier: Apache-2.0

use catena_measure::compare::power::Power;
use catena_measure::compare::{Interleaving, Side, Verdict, firsts};
use catena_measure::stats::histogram::Histogram;
use catena_measure::stats::random::Random;
use catena_measure::study::summary::{Effect, summarise};
use catena_measure::study::{Measured, Record, Study};

use super::super::extent::Extent;
use super::Case;

/// All of them, or in a brief run those that take no time.
pub(super) fn cases(extent: Extent) -> Vec<Case> {
    let mut cases = if extent == Extent::Brief {
        Vec::new()
    } else {
        comparisons()
    };
    cases.extend(percentiles());
    cases.extend(studies());
    cases
}

/// The two ways in which `compare` takes pairs.
#[derive(Clone, Copy, Debug)]
enum Path {
    /// Trials that start a chain each, whose luck differs by several per cent.
    InTurns,
    /// Slices of chains that stay up, on a machine whose speed wanders, and that stalls in one
    /// slice of a hundred.
    Together,
}

impl Path {
    const fn name(self) -> &'static str {
        match self {
            Self::InTurns => "compare",
            Self::Together => "compare --together",
        }
    }

    /// Pairs of the pilot, as the command has them, and what a minute has time for, or 200 s of
    /// slices, which 0.2 % take.
    const fn pairs(self) -> (usize, usize) {
        match self {
            Self::InTurns => (10, 150),
            Self::Together => (100, 20_000),
        }
    }
}

/// A machine that measures one side after the other.
struct Machine {
    path: Path,
    random: Random,
    drift: f64,
}

impl Machine {
    fn new(path: Path, seed: u64) -> Self {
        Self {
            path,
            random: Random::new(seed),
            drift: 0.0,
        }
    }

    /// What it says of a device of this speed.
    fn measure(&mut self, pps: f64) -> f64 {
        let random = &mut self.random;
        let (noise, stall) = match self.path {
            Path::InTurns => (0.04 * random.normal(), 1.0),
            Path::Together => {
                self.drift = 0.98 * self.drift + 0.01 * random.normal();
                let stall = if random.unit() < 0.01 { 0.5 } else { 1.0 };
                (self.drift + 0.02 * random.normal(), stall)
            }
        };
        pps * noise.exp() * stall
    }
}

/// Compares as the command does: a pilot says how many pairs it takes to see `resolve`, so many are
/// run, and looked at once. B is faster by a share.
fn simulate(path: Path, seed: u64, effect: f64, resolve: f64) -> Option<(Verdict, [f64; 2])> {
    let mut machine = Machine::new(path, seed);
    let (pilot_pairs, pairs_max) = path.pairs();
    let speeds = [1e6, 1e6 * (1.0 + effect)];
    let pilot = firsts(!seed, pilot_pairs).into_iter().map(|first| {
        let order = if first == Side::A { [0, 1] } else { [1, 0] };
        let mut found = [0.0; 2];
        for side in order {
            found[side] = machine.measure(speeds[side]);
        }
        found[1] / found[0]
    });
    let power = Power::of(&pilot.collect::<Vec<_>>(), 0.05).ok()?;
    let plan = power.plan(resolve, pairs_max, 1e-9, seed);
    let mut comparison = Interleaving::new(plan).ok()?;
    while let Some(side) = comparison.next() {
        let value = machine.measure(speeds[usize::from(side == Side::B)]);
        comparison.report(value).ok()?;
    }
    let result = comparison.result()?;
    Some((result.verdict, [result.ratio.low, result.ratio.high]))
}

/// Differences that the command has time to see, signs, alarms and intervals of both paths.
fn comparisons() -> Vec<Case> {
    let shares: [(Path, &[f64]); 2] = [
        (Path::InTurns, &[0.05, 0.2, 999.0]),
        (Path::Together, &[0.002, 0.02, 0.05, 0.2, 999.0]),
    ];
    let mut cases = Vec::new();
    for (path, shares) in shares {
        for share in shares {
            for effect in [*share, 1.0 / (1.0 + share) - 1.0] {
                cases.push(signs(path, effect));
            }
        }
        cases.push(alarms(path));
        cases.push(coverage(path));
    }
    cases
}

/// How often the sign of a difference is told, of 20; twice as fine as it is, so that all are.
fn signs(path: Path, effect: f64) -> Case {
    let wanted = if effect > 0.0 {
        Verdict::Higher
    } else {
        Verdict::Lower
    };
    let resolve = (effect.abs() / 2.0).min(0.02);
    let found = (0..20).filter(|seed| {
        let found = simulate(path, *seed, effect, resolve);
        found.is_some_and(|(verdict, _)| verdict == wanted)
    });
    Case {
        name: format!(
            "{}: signs of {:+.2} % right, simulated",
            path.name(),
            effect * 100.0
        ),
        unit: "%",
        truth: 100.0,
        said: Ok(found.count() as f64 * 5.0),
        right: (100.0, 100.0),
    }
}

fn alarms(path: Path) -> Case {
    let alarms = (0..1000).filter(|seed| {
        let found = simulate(path, 10_000 + seed, 0.0, 0.02);
        found.is_some_and(|(verdict, _)| matches!(verdict, Verdict::Higher | Verdict::Lower))
    });
    Case {
        name: format!(
            "{}: alarms of 1000 comparisons of equals, simulated",
            path.name()
        ),
        unit: "%",
        truth: 5.0,
        said: Ok(alarms.count() as f64 / 10.0),
        right: (0.0, 7.0),
    }
}

fn coverage(path: Path) -> Case {
    let covered = (0..3000).filter(|seed| {
        let effect = 0.0001 * (*seed as f64 - 1500.0);
        let found = simulate(path, 20_000 + seed, effect, 0.02);
        found.is_some_and(|(_, [low, high])| (low..=high).contains(&(1.0 + effect)))
    });
    Case {
        name: format!(
            "{}: 95 % intervals that cover the truth, of 3000, simulated",
            path.name()
        ),
        unit: "%",
        truth: 95.0,
        said: Ok(covered.count() as f64 / 30.0),
        right: (93.0, 97.0),
    }
}

/// Delays of an exponential distribution with a mean of 100 us: its quantiles are known.
fn percentiles() -> Vec<Case> {
    const MEAN_NS: f64 = 100_000.0;
    let (mut random, mut histogram) = (Random::new(9), Histogram::new());
    for _ in 0..200_000 {
        histogram.record((-MEAN_NS * (1.0 - random.unit()).ln()) as u64);
    }
    let case = |(q, name): (f64, &str)| {
        let truth = -MEAN_NS * (1.0 - q).ln() / 1e3;
        Case {
            name: format!("latency: {name} of 200,000 exponential delays, simulated"),
            unit: "us",
            truth,
            said: histogram
                .quantile(q)
                .map(|ns| ns as f64 / 1e3)
                .ok_or_else(|| "too few".to_owned()),
            // A bucket is 3 % wide at most; the rest is three deviations of a sample's quantile.
            right: (truth * 0.96, truth * 1.04),
        }
    };
    let all = [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9")];
    all.map(case).into()
}

/// What a study of frame sizes and chain lengths says, whose blocks have a luck of their own and in
/// which a chain of two does `effect` more.
fn study_of(seed: u64, effect: f64) -> Result<Vec<Effect>, String> {
    let text = format!(
        "name: known\nseed: {seed}\nblocks: 6\n\
         factors: {{ size: [64, 512, 1024, 1500], nfs: [1, 2], rate: max }}\n"
    );
    let study = Study::KIND.parse(&text, "known");
    let study = study.map_err(|errors| errors.to_string())?;
    let (cells, mut random) = (study.cells(), Random::new(seed));
    let luck: Vec<_> = (0..study.blocks)
        .map(|_| 1.0 + 0.3 * random.unit())
        .collect();
    let records = study.order().into_iter().map(|unit| {
        let cell = study.key(&cells[unit.cell]);
        let factor = if cell["nfs"] == "2" {
            1.0 + effect
        } else {
            1.0
        };
        let noise = luck[unit.block as usize] * (0.03 * random.normal()).exp();
        Record {
            block: unit.block,
            cell,
            began: String::new(),
            command: String::new(),
            load_pps: None,
            attempts: Vec::new(),
            result: Ok(Measured {
                rate_pps: 1e6 * factor * noise,
                intended: 1,
                forwarded: 1,
                tester_lost: 0,
                frame_len: 64.0,
                latency: None,
                watts: None,
                sent: None,
            }),
            blame: None,
            probe_tax: None,
            idle_shares: std::collections::BTreeMap::new(),
            waiting: None,
            build: None,
            baselines: Vec::new(),
        }
    });
    let records: Vec<_> = records.collect();
    Ok(summarise(&study, &records).effects)
}

/// Whether a study named a difference, of a factor or of any but it.
fn names(effects: &[Effect], is_meant: impl Fn(&Effect) -> bool) -> bool {
    let differs = |effect: &&Effect| matches!(effect.verdict, Verdict::Higher | Verdict::Lower);
    effects.iter().filter(differs).any(is_meant)
}

fn studies() -> Vec<Case> {
    let case = |name: &str, right, truth, said| Case {
        name: format!("study: {name}, simulated"),
        unit: "%",
        truth,
        said,
        right,
    };
    let share = |seeds: std::ops::Range<u64>, found: &dyn Fn(u64) -> Result<bool, String>| {
        let count = seeds.end - seeds.start;
        let found = seeds.map(found).collect::<Result<Vec<_>, _>>()?;
        let found = found.into_iter().filter(|found| *found).count();
        Ok(found as f64 / count as f64 * 100.0)
    };
    let invented = share(0..200, &|seed| Ok(names(&study_of(seed, 0.0)?, |_| true)));
    let found = share(0..50, &|seed| {
        Ok(names(&study_of(1000 + seed, -0.2)?, |effect| {
            effect.factor == "nfs" && effect.verdict == Verdict::Lower
        }))
    });
    let wrong = share(0..50, &|seed| {
        Ok(names(&study_of(1000 + seed, -0.2)?, |effect| {
            effect.factor == "nfs" && effect.verdict == Verdict::Higher
        }))
    });
    vec![
        case(
            "differences named in 200 of equals",
            (0.0, 7.0),
            5.0,
            invented,
        ),
        case(
            "a factor of -20 % found, of 50",
            (100.0, 100.0),
            100.0,
            found,
        ),
        case("its sign wrong, of 50", (0.0, 0.0), 0.0, wrong),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_simulated_truth_is_told_right() {
        for case in cases(Extent::Whole) {
            assert_eq!(
                case.is_right(),
                Some(true),
                "{}: {:?}",
                case.name,
                case.said
            );
        }
    }
}
