//! Known truths for the statistics: simulated machines, distributions and studies.
//!
//! SPDX-License-Identifier: Apache-2.0

use catena_measure::compare::{Interleaving, Plan, Side, Verdict};
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

/// A machine whose speed wanders and that stalls in one slice of a hundred; B is faster by a share.
fn simulate(seed: u64, effect: f64, pairs: usize, is_whole: bool) -> Option<(Verdict, [f64; 2])> {
    let plan = Plan {
        pairs_max: pairs,
        false_alarms: 0.05,
        margin: 1e-9,
        seed: !seed,
    };
    let mut comparison = Interleaving::new(plan).ok()?;
    if is_whole {
        comparison = comparison.whole();
    }
    let (mut random, mut drift) = (Random::new(seed), 0.0);
    while let Some(side) = comparison.next() {
        drift = 0.98 * drift + 0.01 * random.normal();
        let stall = if random.unit() < 0.01 { 0.5 } else { 1.0 };
        let factor = if side == Side::B { 1.0 + effect } else { 1.0 };
        let noise = (drift + 0.02 * random.normal()).exp();
        comparison.report(1e6 * factor * noise * stall).ok()?;
    }
    let result = comparison.result()?;
    Some((result.verdict, [result.ratio.low, result.ratio.high]))
}

fn comparisons() -> Vec<Case> {
    let mut cases = Vec::new();
    for (share, pairs) in [
        (0.002, 20_000),
        (0.02, 1000),
        (0.05, 300),
        (0.2, 100),
        (999.0, 100),
    ] {
        for effect in [share, 1.0 / (1.0 + share) - 1.0] {
            let wanted = if effect > 0.0 {
                Verdict::Higher
            } else {
                Verdict::Lower
            };
            let found = (0..20).filter(|seed| {
                let found = simulate(*seed, effect, pairs, false);
                found.is_some_and(|(verdict, _)| verdict == wanted)
            });
            cases.push(Case {
                name: format!(
                    "compare: signs of {:+.2} % right, simulated",
                    effect * 100.0
                ),
                unit: "%",
                truth: 100.0,
                said: Ok(found.count() as f64 * 5.0),
                right: (100.0, 100.0),
            });
        }
    }
    let alarms = (0..200).filter(|seed| {
        let found = simulate(1000 + seed, 0.0, 500, false);
        found.is_some_and(|(verdict, _)| matches!(verdict, Verdict::Higher | Verdict::Lower))
    });
    cases.push(Case {
        name: "compare: alarms of 200 comparisons of equals, simulated".to_owned(),
        unit: "%",
        truth: 5.0,
        said: Ok(alarms.count() as f64 / 2.0),
        right: (0.0, 7.0),
    });
    let covered = (0..300).filter(|seed| {
        let effect = 0.001 * (*seed as f64 - 150.0);
        let found = simulate(5000 + seed, effect, 400, true);
        found.is_some_and(|(_, [low, high])| (low..=high).contains(&(1.0 + effect)))
    });
    cases.push(Case {
        name: "compare: 95 % intervals that cover the truth, of 300, simulated".to_owned(),
        unit: "%",
        truth: 95.0,
        said: Ok(covered.count() as f64 / 3.0),
        right: (93.0, 97.0),
    });
    cases
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
            }),
            blame: None,
            probe_tax: None,
            idle_shares: std::collections::BTreeMap::new(),
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
