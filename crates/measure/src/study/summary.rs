//! What a study's trials say: each combination with intervals, and what each factor does.
//!
//! Blocks are repetitions: values of one block resemble each other more than those of different
//! blocks, so that intervals come from the blocks' values alone, by Student's t. Rates and times
//! are averaged by their logarithms.
//!
//! The effect of a level is its ratio to the first level of its factor. Within a block, every
//! combination with it is paired with the one that differs from it in this factor alone; the mean
//! of the logarithms of the ratios is the block's value. What disturbs a whole block falls out.
//!
//! A study makes many comparisons. Their p-values are corrected for their number (Holm), and only a
//! corrected one says that a level makes a difference: the chance of any false one in the whole
//! report is 5 %.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Study;
use super::cell::{Cell, FACTORS, MODE, PORT, SIZE, STATES};
use super::journal::latest;
use super::record::{Measured, Record};
use super::suspicion::Suspicion;
use crate::blame::Blame;
use crate::compare::{Verdict, holm};
use crate::doctor::energy::gbps_per_watt;
use crate::latency::steady;
use crate::probes::tax::Tax;
use crate::stats::histogram::Histogram;
use crate::stats::student::t_quantile;
use crate::stats::{Interval, deviation, mean};

pub use super::cell_result::{CellResult, Spread};
pub use super::effect::{Effect, MARGIN};

/// Confidence of all intervals.
const CONFIDENCE: f64 = 0.95;
/// Most maps of delay over time in a report.
const MAPS_MAX: usize = 2;

/// Results of a study, as a part of a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudyResults {
    /// Factors and their levels.
    pub factors: Vec<(String, Vec<String>)>,
    /// Trials of each combination.
    pub blocks: u32,
    /// Trials that were planned, and those that are done.
    pub planned: usize,
    /// How many of them have a result.
    pub done: usize,
    /// Combinations.
    pub cells: Vec<CellResult>,
    /// What each level does against the first of its factor.
    pub effects: Vec<Effect>,
    /// Rates that stay the same over factors that must matter; see [`super::suspicion`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suspicions: Vec<Suspicion>,
}

/// A value that trials have.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name in reports.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Whether levels are compared by it.
    pub is_compared: bool,
    /// The value of a trial.
    of: fn(&Measured) -> Option<f64>,
}

fn quantile(measured: &Measured, q: f64) -> Option<f64> {
    let latency = measured.latency.as_ref()?;
    latency.raw.quantile(q).map(|value| value as f64)
}

fn rate_at_max(measured: &Measured) -> Option<f64> {
    measured.latency.is_none().then_some(measured.rate_pps)
}

/// All values, in the order of tables.
pub const METRICS: [Metric; 17] = [
    metric("rate at max", "packets/s", true, rate_at_max),
    metric("Gbit/s at max", "Gbit/s", false, |measured| {
        rate_at_max(measured).map(|_| measured.bits_per_second() / 1e9)
    }),
    metric("loss", "share", false, |measured| {
        let lost = measured.intended.saturating_sub(measured.forwarded);
        let is_loaded = measured.latency.is_some() && measured.intended > 0;
        is_loaded.then(|| lost as f64 / measured.intended as f64)
    }),
    metric("latency p50", "ns", true, |measured| {
        quantile(measured, 0.5)
    }),
    metric("latency p90", "ns", false, |measured| {
        quantile(measured, 0.9)
    }),
    metric("latency p99", "ns", true, |measured| {
        quantile(measured, 0.99)
    }),
    metric("latency p99.9", "ns", true, |measured| {
        quantile(measured, 0.999)
    }),
    metric("clean p99", "ns", false, |measured| {
        let latency = measured.latency.as_ref()?;
        latency.clean.quantile(0.99).map(|value| value as f64)
    }),
    metric("PDV (RFC 8219)", "ns", true, |measured| {
        measured.latency.as_ref()?.pdv_rfc8219_ns
    }),
    metric("mean |IPDV| (RFC 3393)", "ns", false, |measured| {
        measured.latency.as_ref()?.ipdv_rfc3393_ns
    }),
    metric("interarrival jitter (RFC 3550)", "ns", false, |measured| {
        measured.latency.as_ref()?.interarrival_jitter_rfc3550_ns
    }),
    metric("touched by stalls", "share", false, |measured| {
        Some(measured.latency.as_ref()?.excluded_share)
    }),
    metric("generator lateness p50", "ns", false, |measured| {
        measured.latency.as_ref()?.lateness?.p50_ns
    }),
    metric("generator lateness p99", "ns", false, |measured| {
        measured.latency.as_ref()?.lateness?.p99_ns
    }),
    metric("generator lateness max", "ns", false, |measured| {
        Some(measured.latency.as_ref()?.lateness?.max_ns)
    }),
    metric("power", "W", false, |measured| measured.watts),
    metric("Gbit/s per watt", "Gbit/s/W", false, |measured| {
        gbps_per_watt(measured.bits_per_second(), measured.watts?)
    }),
];

const fn metric(
    name: &'static str,
    unit: &'static str,
    is_compared: bool,
    of: fn(&Measured) -> Option<f64>,
) -> Metric {
    Metric {
        name,
        unit,
        is_compared,
        of,
    }
}

impl Spread {
    /// Of one value for each block.
    fn of(values: &[f64]) -> Option<Self> {
        let centre = mean(values)?;
        let half = deviation(values).map(|spread| {
            let count = values.len();
            let t = t_quantile(0.5 + CONFIDENCE / 2.0, count - 1);
            t * spread / (count as f64).sqrt()
        });
        Some(Self {
            estimate: centre,
            interval: half.map(|half| Interval {
                estimate: centre,
                low: centre - half,
                high: centre + half,
                confidence: CONFIDENCE,
            }),
        })
    }

    /// The same by logarithms, for values above zero; otherwise as they are.
    fn of_ratios(values: &[f64]) -> Option<Self> {
        if values.iter().any(|value| *value <= 0.0) {
            return Self::of(values);
        }
        let logarithms: Vec<_> = values.iter().map(|value| value.ln()).collect();
        let spread = Self::of(&logarithms)?;
        Some(Self {
            estimate: spread.estimate.exp(),
            interval: spread.interval.map(|interval| Interval {
                estimate: interval.estimate.exp(),
                low: interval.low.exp(),
                high: interval.high.exp(),
                confidence: interval.confidence,
            }),
        })
    }
}

/// The trials of a study by block and cell.
struct Trials<'a> {
    study: &'a Study,
    cells: Vec<Cell>,
    by_cell: BTreeMap<Cell, BTreeMap<u32, &'a Measured>>,
    failures: BTreeMap<Cell, String>,
    taxes: BTreeMap<Cell, Tax>,
}

impl<'a> Trials<'a> {
    fn of(study: &'a Study, records: &'a [Record]) -> Self {
        let cells = study.cells();
        let by_key: BTreeMap<_, Cell> = cells.iter().map(|cell| (study.key(cell), *cell)).collect();
        let (mut by_cell, mut failures) = (BTreeMap::new(), BTreeMap::new());
        let mut taxes = BTreeMap::new();
        for ((block, key), record) in latest(records) {
            let Some(cell) = by_key.get(&key) else {
                continue;
            };
            if let Some(Ok(tax)) = &record.probe_tax {
                taxes.insert(*cell, *tax);
            }
            // A trial with probes is none of the repetitions.
            if block >= study.blocks {
                continue;
            }
            match &record.result {
                Ok(measured) => {
                    let blocks: &mut BTreeMap<u32, &Measured> = by_cell.entry(*cell).or_default();
                    blocks.insert(block, measured);
                }
                Err(why) => {
                    failures.insert(*cell, why.clone());
                }
            }
        }
        Self {
            study,
            cells,
            by_cell,
            failures,
            taxes,
        }
    }

    fn of_cell(&self, cell: &Cell) -> impl Iterator<Item = (u32, &'a Measured)> {
        let blocks = self.by_cell.get(cell).into_iter().flatten();
        blocks.map(|(block, measured)| (*block, *measured))
    }

    fn result(&self, cell: &Cell) -> CellResult {
        let values = METRICS.iter().filter_map(|metric| {
            let values: Vec<_> = self
                .of_cell(cell)
                .filter_map(|(_, m)| (metric.of)(m))
                .collect();
            // A value that some trials lack is no mean over blocks.
            let is_whole = values.len() == self.of_cell(cell).count();
            let spread = Spread::of_ratios(&values).filter(|_| is_whole)?;
            Some((metric.name.to_owned(), spread))
        });
        let mut latency: Option<Histogram> = None;
        for found in self.of_cell(cell).filter_map(|(_, m)| m.latency.as_ref()) {
            latency.get_or_insert_default().merge(&found.raw);
        }
        let mut maps = self
            .of_cell(cell)
            .filter_map(|(_, m)| m.latency.as_ref()?.over_time.clone());
        let levels = (0..FACTORS.len()).map(|place| self.study.level(cell, place).to_owned());
        CellResult {
            levels: levels.collect(),
            trials: u32::try_from(self.of_cell(cell).count()).unwrap_or(u32::MAX),
            values: values.collect(),
            latency,
            over_time: maps.next(),
            failure: self.failures.get(cell).cloned(),
            probe_tax: self.taxes.get(cell).copied(),
            steadiness: self.steadiness(cell),
        }
    }

    fn steadiness(&self, cell: &Cell) -> Option<steady::Steadiness> {
        let latencies = self.of_cell(cell).filter_map(|(_, m)| m.latency.as_ref());
        let all: Vec<_> = latencies.map(|latency| latency.ranks).collect();
        let found: Vec<_> = all.iter().copied().flatten().collect();
        (!found.is_empty()).then(|| match found.len() == all.len() {
            true => steady::judge_ranks(&found),
            false => steady::Steadiness::TooFew,
        })
    }

    /// What `level` of the factor at `place` does against its first level, among `cells`.
    fn effect(
        &self,
        place: usize,
        level: usize,
        metric: &Metric,
        within: &[(usize, usize)],
    ) -> Option<Effect> {
        let is_within = |cell: &&Cell| {
            cell[place] == level && within.iter().all(|(other, at)| cell[*other] == *at)
        };
        let mut by_block: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for cell in self.cells.iter().filter(is_within) {
            let mut base = *cell;
            base[place] = 0;
            let bases: BTreeMap<_, _> = self.of_cell(&base).collect();
            for (block, measured) in self.of_cell(cell) {
                let pair = bases.get(&block).and_then(|base| (metric.of)(base));
                let pair = pair.zip((metric.of)(measured));
                if let Some((base, value)) = pair.filter(|(a, b)| *a > 0.0 && *b > 0.0) {
                    by_block.entry(block).or_default().push((value / base).ln());
                }
            }
        }
        let pairs = by_block.values().map(Vec::len).sum();
        let blocks: Vec<_> = by_block
            .values()
            .filter_map(|logs| mean(logs))
            .map(f64::exp)
            .collect();
        let ratio = Spread::of_ratios(&blocks)?;
        let levels = &self.study.levels[place];
        let mut places = within.iter().map(|(other, at)| {
            let level = self.study.levels[*other][*at].text.clone();
            (FACTORS[*other].to_owned(), level)
        });
        Some(Effect {
            factor: FACTORS[place].to_owned(),
            level: levels[level].text.clone(),
            against: levels[0].text.clone(),
            within: places.next(),
            and_within: places.collect(),
            metric: metric.name.to_owned(),
            verdict: Verdict::Inconclusive,
            // As it is; all of them are corrected together.
            p_corrected: ratio
                .interval
                .map(|interval| holm::p_value(&interval, blocks.len() - 1)),
            ratio,
            pairs,
        })
    }

    /// Factors, each with the factors within whose levels it is compared.
    fn comparisons(&self) -> Vec<(usize, Vec<usize>)> {
        let varies = |place: &usize| self.study.levels[*place].len() > 1;
        let mut all = Vec::new();
        for place in 0..FACTORS.len() {
            all.push((place, Vec::new()));
            // Where functions run may matter more over one kind of port than over another, and up
            // to some size of frames only.
            let split = [PORT, SIZE].into_iter().filter(|_| place == MODE);
            all.extend(split.filter(varies).map(|other| (place, vec![other])));
        }
        for (place, within) in self.study.compared() {
            let within: Vec<_> = within.into_iter().filter(varies).collect();
            if !all.contains(&(place, within.clone())) {
                all.push((place, within));
            }
        }
        all
    }

    /// Every level of each of these factors with every other.
    fn crossed(&self, places: &[usize]) -> Vec<Vec<(usize, usize)>> {
        let mut all = vec![Vec::new()];
        for place in places {
            let longer = all.iter().flat_map(|one: &Vec<_>| {
                let levels = 0..self.study.levels[*place].len();
                levels.map(|level| [one.as_slice(), &[(*place, level)]].concat())
            });
            all = longer.collect();
        }
        all
    }

    fn effects(&self) -> Vec<Effect> {
        let mut effects = Vec::new();
        for (place, places) in self.comparisons() {
            for within in self.crossed(&places) {
                for level in 1..self.study.levels[place].len() {
                    let compared = METRICS.iter().filter(|metric| metric.is_compared);
                    effects.extend(
                        compared.filter_map(|metric| self.effect(place, level, metric, &within)),
                    );
                }
            }
        }
        Effect::judge_together(&mut effects);
        effects
    }
}

/// Results of the trials so far.
pub fn summarise(study: &Study, records: &[Record]) -> StudyResults {
    let trials = Trials::of(study, records);
    let factors = FACTORS.iter().zip(&study.levels);
    let mut cells: Vec<_> = trials
        .cells
        .iter()
        .map(|cell| trials.result(cell))
        .collect();
    keep_some_maps(&mut cells);
    let factors: Vec<(String, Vec<String>)> = factors
        .map(|(factor, levels)| {
            let levels = levels.iter().map(|level| level.text.clone());
            ((*factor).to_owned(), levels.collect())
        })
        .collect();
    StudyResults {
        // They depend on the machine's kernel, which is not in the records.
        suspicions: Vec::new(),
        factors,
        blocks: study.blocks,
        planned: trials.cells.len() * study.blocks as usize,
        done: trials.by_cell.values().map(BTreeMap::len).sum(),
        cells,
        effects: trials.effects(),
    }
}

/// Which kind of component takes the time, of every combination whose packets were followed.
pub fn blamed(study: &Study, records: &[Record]) -> Vec<(String, Blame)> {
    let latest = latest(records);
    let cells = study.cells().into_iter();
    let blamed = cells.filter_map(|cell| {
        let record = latest.get(&(study.blocks, study.key(&cell)))?;
        Some((study.title(&cell), record.blame.clone()?))
    });
    blamed.collect()
}

/// Share of the cores' time in each idle state, by setting of P and C states: whether a setting
/// took effect.
pub fn idle_shares(study: &Study, records: &[Record]) -> Vec<(String, BTreeMap<String, f64>)> {
    let mut by_level: BTreeMap<&str, Vec<&BTreeMap<String, f64>>> = BTreeMap::new();
    let latest = latest(records);
    for record in latest.values().filter(|one| !one.idle_shares.is_empty()) {
        if let Some(level) = record.cell.get(FACTORS[STATES]) {
            by_level.entry(level).or_default().push(&record.idle_shares);
        }
    }
    let levels = study.levels[STATES].iter();
    let found = levels.filter_map(|level| {
        let trials = by_level.get(level.text.as_str())?;
        let mut means: BTreeMap<String, f64> = BTreeMap::new();
        for (state, share) in trials.iter().copied().flatten() {
            *means.entry(state.clone()).or_default() += share / trials.len() as f64;
        }
        Some((level.text.clone(), means))
    });
    found.collect()
}

/// What following packets cost, of every combination where it was to be found, or why it was not.
pub fn taxed(study: &Study, records: &[Record]) -> Vec<(String, Result<Tax, String>)> {
    let latest = latest(records);
    let cells = study.cells().into_iter();
    let taxed = cells.filter_map(|cell| {
        let record = latest.get(&(study.blocks, study.key(&cell)))?;
        Some((study.title(&cell), record.probe_tax.clone()?))
    });
    taxed.collect()
}

/// Keeps the map of delay over time of one combination for each of the first two modes: the others'
/// are in the journal, and would make the report ten times as large.
fn keep_some_maps(cells: &mut [CellResult]) {
    let mut modes: Vec<String> = Vec::new();
    for cell in cells {
        let mode = cell.levels.get(MODE).cloned().unwrap_or_default();
        if modes.contains(&mode) || modes.len() == MAPS_MAX {
            cell.over_time = None;
        } else if cell.over_time.is_some() {
            modes.push(mode);
        }
    }
}
