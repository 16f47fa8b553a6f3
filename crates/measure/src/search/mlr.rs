//! MLRsearch: throughput for several goals in one search (RFC 9971).
//!
//! This is the RFC's Controller (4.9.2). Every trial counts for every goal. For each goal the
//! search goes from coarse to fine: short trials, wide intervals and little time per load first,
//! each phase beginning with the bounds of the one before. Loads lie on a geometric grid whose step
//! is the narrowest goal's width, so that widths are relative and no load is missed by rounding.
//!
//! Of the trials that goals ask for, the shortest goes first, and of those the one with the least
//! load, after which buffers of the device recover most quickly.
//!
//! The order of trials is this implementation's own, as the RFC allows (4.1.3); what is specified
//! (classification, relevant bounds, conditional throughput, regular and irregular results) is in
//! [`super::classification`] and [`GoalResult`].

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::classification::{Classification, TrialRecord, classify, conditional_throughput};
use super::goal::{Goal, GoalError, LOADS_MAX};
use super::{ReportError, Search, Trial, TrialResult, nanos};

/// What a search is given: Controller Input (RFC 9971 4.6.8).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Input {
    /// Search Goals.
    pub goals: Vec<Goal>,
    /// Min Load in packets per second; above zero, so that loss ratios have a value.
    pub min_load_pps: f64,
    /// Max Load in packets per second: what the tester sustains without a device.
    pub max_load_pps: f64,
    /// A first trial at Max Load whose result is ignored.
    pub warmup: Option<Duration>,
    /// The search ends, with irregular results, when its trials have taken this long.
    pub duration_limit: Option<Duration>,
}

/// Why a goal's result is irregular.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Irregularity {
    /// Max Load is a lower bound: the device may do better than the tester can ask for.
    MaxLoadIsLowerBound,
    /// Min Load is an upper bound, so no lower bound is relevant (RFC 9971 4.7.2.2).
    MinLoadIsUpperBound,
    /// The search was cut short before the bounds came within the goal width.
    WiderThanGoal,
}

/// What was found for one goal: Goal Result (RFC 9971 4.8.4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GoalResult {
    /// The goal.
    pub goal: Goal,
    /// Relevant Upper Bound: the least load that is an upper bound, in packets per second.
    pub relevant_upper_bound_pps: Option<f64>,
    /// Relevant Lower Bound: the highest lower bound below it. Without an upper bound, the highest
    /// lower bound, which is then "effective" only.
    pub relevant_lower_bound_pps: Option<f64>,
    /// Conditional Throughput at the relevant lower bound: the number to quote.
    pub conditional_throughput_pps: Option<f64>,
    /// Empty for a regular result.
    pub irregularities: Vec<Irregularity>,
}

impl GoalResult {
    /// Whether all that RFC 9971 4.8.4.1 asks of a Regular Goal Result holds.
    pub fn is_regular(&self) -> bool {
        self.irregularities.is_empty()
    }
}

/// What a search gives: Controller Output (RFC 9971 4.8.6).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// One result for each goal, in order.
    pub goals: Vec<GoalResult>,
    /// Number of trials, the warm-up included.
    pub trial_count: u64,
    /// Sum of effective durations, the warm-up included.
    pub duration: Duration,
}

/// Loads by number: from Min Load (0) to Max Load, by equal factors.
#[derive(Clone, Debug)]
struct Grid {
    min: f64,
    max: f64,
    last: usize,
}

impl Grid {
    fn new(input: &Input) -> Result<Self, GoalError> {
        let (min, max) = (input.min_load_pps, input.max_load_pps);
        if !(min > 0.0 && max > min && max.is_finite()) {
            return Err(GoalError::Loads { min, max });
        }
        let width = input.goals.iter().map(Goal::width).fold(1.0, f64::min);
        let count = ((max / min).ln() / -(1.0 - width).ln()).ceil().max(1.0);
        if count > LOADS_MAX as f64 {
            return Err(GoalError::TooFine {
                width,
                min,
                max,
                count,
            });
        }
        let last = count as usize;
        Ok(Self { min, max, last })
    }

    fn load(&self, index: usize) -> f64 {
        if index == self.last {
            return self.max;
        }
        self.min * (self.max / self.min).powf(index as f64 / self.last as f64)
    }

    /// The highest load on the grid that is not above `pps`.
    fn index_below(&self, pps: f64) -> usize {
        if pps <= self.min {
            return 0;
        }
        let share = (pps / self.min).ln() / (self.max / self.min).ln();
        ((share * self.last as f64) as usize).min(self.last)
    }

    /// How many steps a relative width holds.
    fn steps(&self, width: f64) -> usize {
        let step = (self.max / self.min).ln() / self.last as f64;
        ((-(1.0 - width).ln() / step) as usize).max(1)
    }
}

type Database = BTreeMap<usize, Vec<TrialRecord>>;

/// Numbers of relevant bounds on the grid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bounds {
    lower: Option<usize>,
    upper: Option<usize>,
}

/// Relevant bounds: the least upper bound, and the highest lower bound below it.
fn relevant_bounds(goal: &Goal, database: &Database) -> Bounds {
    let mut bounds = Bounds::default();
    for (index, trials) in database {
        match classify(goal, trials) {
            Classification::UpperBound => {
                bounds.upper = Some(*index);
                break;
            }
            Classification::LowerBound => bounds.lower = Some(*index),
            Classification::Undecided => {}
        }
    }
    bounds
}

/// Coarser searches before the final one of each goal.
const PHASES_BEFORE: i32 = 2;

/// How one goal is being searched for.
#[derive(Clone, Debug)]
struct Pursuit {
    /// Goals to meet one after the other, the last being the real one.
    phases: Vec<Goal>,
    phase: usize,
    /// Where to look first in this phase: the bounds of the one before.
    hints: Bounds,
    /// Steps to the next load while one of the bounds is missing, and from which load: the
    /// distance doubles each time.
    stride: Option<(usize, usize)>,
}

impl Pursuit {
    fn new(goal: &Goal, start: usize) -> Self {
        let interpolate = |from: Duration, to: Duration, share: f64| {
            let (from, to) = (from.as_secs_f64(), to.as_secs_f64());
            Duration::from_secs_f64(from * (to / from).powf(share))
        };
        let initial = goal.initial_trial_duration();
        let coarse = (0..PHASES_BEFORE).map(|phase| {
            let share = f64::from(phase) / f64::from(PHASES_BEFORE);
            let width = goal.width() * f64::from(1 << (PHASES_BEFORE - phase));
            Goal {
                final_trial_duration: interpolate(initial, goal.final_trial_duration, share),
                duration_sum: interpolate(initial.min(goal.duration_sum), goal.duration_sum, share),
                width: Some(width.min(0.5)),
                ..*goal
            }
        });
        Self {
            phases: coarse.chain([*goal]).collect(),
            phase: 0,
            hints: Bounds {
                lower: Some(start),
                upper: None,
            },
            stride: None,
        }
    }

    /// The load to measure next and for how long; `None` once the goal is met as far as it can be.
    fn nominate(&mut self, database: &Database, grid: &Grid) -> Option<(Duration, usize)> {
        loop {
            let goal = self.phases[self.phase];
            let bounds = relevant_bounds(&goal, database);
            if let Some(index) = self.candidate(&goal, bounds, grid) {
                return Some((goal.final_trial_duration, index));
            }
            if self.phase + 1 == self.phases.len() {
                return None;
            }
            self.phase += 1;
            self.hints = bounds;
            self.stride = None;
        }
    }

    fn candidate(&mut self, goal: &Goal, bounds: Bounds, grid: &Grid) -> Option<usize> {
        let width = grid.steps(goal.width());
        match (bounds.lower, bounds.upper) {
            (Some(lower), Some(upper)) if upper - lower <= width => None,
            (Some(lower), Some(upper)) => Some(usize::midpoint(lower, upper)),
            (None, Some(0)) => None,
            (None, Some(upper)) => Some(match self.hints.lower {
                Some(hint) if hint < upper => hint,
                _ => upper.saturating_sub(self.stride_from(upper, width)),
            }),
            (Some(lower), None) if lower == grid.last => None,
            (Some(lower), None) => Some(match self.hints.upper {
                Some(hint) if hint > lower => hint,
                _ => (lower + self.stride_from(lower, width)).min(grid.last),
            }),
            (None, None) => self.hints.lower.or(self.hints.upper).or(Some(grid.last)),
        }
    }

    /// The distance from a bound towards the missing one; the same as long as the bound is.
    fn stride_from(&mut self, bound: usize, width: usize) -> usize {
        let stride = match self.stride {
            Some((from, stride)) if from == bound => stride,
            Some((_, stride)) => stride.saturating_mul(2),
            None => width,
        };
        self.stride = Some((bound, stride));
        stride
    }
}

/// What the trial that is due is for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Warmup(Duration),
    /// The first trial that counts, at Max Load: its forwarding rate says where to look.
    First(Duration),
    Pursuit,
}

/// A running MLRsearch.
#[derive(Clone, Debug)]
pub struct MlrSearch {
    input: Input,
    grid: Grid,
    database: Database,
    pursuits: Vec<Pursuit>,
    stage: Stage,
    /// The trial that is due, with the number of its load.
    due: Option<(Trial, usize)>,
    trial_count: u64,
    duration: Duration,
}

impl MlrSearch {
    /// A search that has run no trial yet.
    ///
    /// # Errors
    ///
    /// Goals or limits of load that allow no search.
    pub fn new(input: Input) -> Result<Self, GoalError> {
        for (index, goal) in input.goals.iter().enumerate() {
            goal.check(index)?;
        }
        let initial = input.goals.iter().map(Goal::initial_trial_duration);
        let first = initial.max().ok_or(GoalError::NoGoal)?;
        let grid = Grid::new(&input)?;
        let warmup = input.warmup.filter(|warmup| !warmup.is_zero());
        Ok(Self {
            grid,
            database: Database::new(),
            pursuits: Vec::new(),
            stage: warmup.map_or(Stage::First(first), Stage::Warmup),
            due: None,
            trial_count: 0,
            duration: Duration::ZERO,
            input,
        })
    }

    /// Share of the loads that remain possible, averaged over goals, on a logarithmic scale: for
    /// showing progress. 1 at the start, 0 when done.
    pub fn remaining(&self) -> f64 {
        if self.pursuits.is_empty() {
            return 1.0;
        }
        let whole = ((self.grid.last + 1) as f64).ln();
        let remaining = self.input.goals.iter().map(|goal| {
            let bounds = relevant_bounds(goal, &self.database);
            let upper = bounds.upper.unwrap_or(self.grid.last);
            let steps = upper.saturating_sub(bounds.lower.unwrap_or(0)) + 1;
            let target = self.grid.steps(goal.width()) + 1;
            (steps as f64 / target as f64).max(1.0).ln() / whole
        });
        remaining.sum::<f64>() / self.input.goals.len() as f64
    }

    fn is_out_of_time(&self) -> bool {
        self.input
            .duration_limit
            .is_some_and(|limit| self.duration >= limit)
    }

    fn choose(&mut self) -> Option<(Trial, usize)> {
        let at_max = |duration| Some((Trial::new(self.grid.max, duration), self.grid.last));
        match self.stage {
            _ if self.is_out_of_time() => None,
            Stage::Warmup(duration) | Stage::First(duration) => at_max(duration),
            Stage::Pursuit => {
                let (database, grid) = (&self.database, &self.grid);
                let nominated = self.pursuits.iter_mut();
                let (duration, index) = nominated
                    .filter_map(|pursuit| pursuit.nominate(database, grid))
                    .min()?;
                Some((Trial::new(grid.load(index), duration), index))
            }
        }
    }

    /// Where all goals begin: the forwarding rate at Max Load, raised by the loss that the
    /// strictest goal allows.
    fn start_pursuits(&mut self, loss_ratio: f64) {
        let allowed = self.input.goals.iter().map(|goal| goal.loss_ratio);
        let allowed = allowed.fold(1.0, f64::min);
        let hint = self.grid.max * (1.0 - loss_ratio) / (1.0 - allowed);
        let start = self.grid.index_below(hint);
        let goals = self.input.goals.iter();
        self.pursuits = goals.map(|goal| Pursuit::new(goal, start)).collect();
    }

    fn goal_result(&self, goal: &Goal) -> GoalResult {
        let bounds = relevant_bounds(goal, &self.database);
        let mut irregularities = Vec::new();
        match (bounds.lower, bounds.upper) {
            (Some(lower), None) if lower == self.grid.last => {
                irregularities.push(Irregularity::MaxLoadIsLowerBound);
            }
            (None, Some(0)) => irregularities.push(Irregularity::MinLoadIsUpperBound),
            (Some(lower), Some(upper)) if upper - lower <= self.grid.steps(goal.width()) => {}
            _ => irregularities.push(Irregularity::WiderThanGoal),
        }
        let throughput = bounds.lower.map(|index| {
            conditional_throughput(goal, self.grid.load(index), &self.database[&index])
        });
        GoalResult {
            goal: *goal,
            relevant_upper_bound_pps: bounds.upper.map(|index| self.grid.load(index)),
            relevant_lower_bound_pps: bounds.lower.map(|index| self.grid.load(index)),
            conditional_throughput_pps: throughput,
            irregularities,
        }
    }
}

impl Search for MlrSearch {
    type Outcome = Outcome;

    fn next(&mut self) -> Option<Trial> {
        if self.due.is_none() {
            self.due = self.choose();
        }
        self.due.map(|(trial, _)| trial)
    }

    fn report(&mut self, result: &TrialResult) -> Result<(), ReportError> {
        let (trial, index) = self.due.ok_or(ReportError::NoTrialDue)?;
        let loss_ratio = result.loss_ratio()?;
        if result.effective_duration.is_zero() {
            return Err(ReportError::NoDuration);
        }
        self.due = None;
        self.trial_count += 1;
        self.duration = self.duration.saturating_add(result.effective_duration);
        if let Stage::Warmup(_) = self.stage {
            let initial = self.input.goals.iter().map(Goal::initial_trial_duration);
            self.stage = Stage::First(initial.max().unwrap_or_default());
            return Ok(());
        }
        self.database.entry(index).or_default().push(TrialRecord {
            duration_ns: nanos(trial.duration),
            effective_duration_ns: nanos(result.effective_duration),
            loss_ratio,
        });
        if let Stage::First(_) = self.stage {
            self.start_pursuits(loss_ratio);
            self.stage = Stage::Pursuit;
        }
        Ok(())
    }

    fn finish(self) -> Outcome {
        let goals = self.input.goals.iter();
        Outcome {
            goals: goals.map(|goal| self.goal_result(goal)).collect(),
            trial_count: self.trial_count,
            duration: self.duration,
        }
    }
}

#[cfg(test)]
mod tests;
