//! Trials of a study: each in its P and C states, over its wires, on its chain, at its load.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use catena_engine::chain::Mode;
use catena_engine::probe::{ProbeSettings, Tier};
use catena_measure::blame::Blame;
use catena_measure::device::{Baseline, DeviceError, Offer, TrialProfile};
use catena_measure::doctor::Tree;
use catena_measure::doctor::residency::Residency;
use catena_measure::doctor::states::{self, StateGuard, StatePlan, States};
use catena_measure::probes::ProbeReport;
use catena_measure::probes::report::PathReport;
use catena_measure::stats::quantile::median;
use catena_measure::study::cell::{Cell, FACTORS, LoadLevel, MODE, PORT, STATES};
use catena_measure::study::chain::TESTER_PORTS;
use catena_measure::study::document::LINK;
use catena_measure::study::wire::{WireKind, Wires};
use catena_measure::study::{Measured as Kept, Record, Study, Unit};

use super::bench::{Bench, Measured};
use super::environment;
use super::probing::measured_ns;
use super::row::row;
use crate::commands::Failure;
use crate::registry::registry;

/// How many packets are followed in a trial with probes, about.
const FOLLOWED: f64 = 2500.0;

/// Longest trial of the tester without a device: a study has many blocks.
const BASELINE_MAX: Duration = Duration::from_secs(1);

/// Why no further trial is run.
pub(crate) enum Ended {
    /// The user asked for the end.
    Interrupted,
}

/// Where P and C states are, and where they are noted while they are changed.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) root: PathBuf,
    pub(crate) journal: PathBuf,
}

impl Machine {
    /// Sets states, with a process that restores them should this one be killed.
    pub(crate) fn hold(&self, plan: &StatePlan) -> Result<StateGuard, Failure> {
        let mut guardian = Command::new(std::env::current_exe().map_err(Failure::running)?);
        guardian.arg("doctor").arg("--guard").arg(&self.journal);
        guardian.arg("--root").arg(&self.root);
        let tree = Tree::new(&self.root);
        StateGuard::apply(&tree, plan, &self.journal, Some(guardian)).map_err(Failure::running)
    }

    /// What a setting means here.
    pub(crate) fn plan(&self, states: States) -> StatePlan {
        states::plan(&Tree::new(&self.root), states)
    }
}

/// What a study's trials run in.
pub(crate) struct Laboratory<'a> {
    study: &'a Study,
    cells: Vec<Cell>,
    machine: Machine,
    watts: Option<f64>,
    command: String,
    wires: Option<(String, Wires)>,
    states: Option<(String, StateGuard)>,
    /// Rates at `max` of the trials so far.
    rates: BTreeMap<Cell, Vec<f64>>,
    /// Combinations whose chain does not run, and why.
    broken: BTreeMap<Cell, String>,
    /// Blocks and settings of states in which the tester was measured by itself.
    based: BTreeSet<(u32, String)>,
}

impl<'a> Laboratory<'a> {
    /// One in which `done` has been measured.
    pub(crate) fn new(
        study: &'a Study,
        machine: Machine,
        watts: Option<f64>,
        command: String,
        done: &[Record],
    ) -> Self {
        let cells = study.cells();
        let mut laboratory = Self {
            study,
            machine,
            watts,
            command,
            wires: None,
            states: None,
            rates: BTreeMap::new(),
            broken: BTreeMap::new(),
            based: BTreeSet::new(),
            cells,
        };
        let has_baseline = |record: &&Record| !record.baselines.is_empty();
        for record in done.iter().filter(has_baseline) {
            let states = record.cell.get(FACTORS[STATES]).cloned();
            let key = (record.block, states.unwrap_or_default());
            laboratory.based.insert(key);
        }
        for cell in laboratory.cells.clone() {
            let key = study.key(&cell);
            let rates = done.iter().filter(|record| record.cell == key);
            let rates = rates.filter_map(|record| record.result.as_ref().ok());
            let rates: Vec<_> = rates.map(|measured| measured.rate_pps).collect();
            laboratory.rates.insert(cell, rates);
        }
        laboratory
    }

    /// Runs a trial, and says what is to be kept of it.
    pub(crate) fn run(
        &mut self,
        unit: Unit,
        bench: &mut Bench,
    ) -> Result<Result<Record, Ended>, Failure> {
        let cell = self.cells[unit.cell];
        let first = bench.document.trials.len();
        let mut record = Record {
            block: unit.block,
            cell: self.study.key(&cell),
            began: environment::now(),
            command: self.command.clone(),
            load_pps: None,
            attempts: Vec::new(),
            result: Err(String::new()),
            blame: None,
            probe_tax: None,
            idle_shares: BTreeMap::new(),
            waiting: None,
            build: Some(environment::build()),
            baselines: Vec::new(),
        };
        if let Some(why) = self.broken.get(&cell) {
            record.result = Err(why.clone());
            return Ok(Ok(record));
        }
        self.set_states(&cell)?;
        record.baselines = match self.baselines(unit.block, &cell, bench)? {
            Ok(found) => found,
            Err(ended) => return Ok(Err(ended)),
        };
        let tree = Tree::new(&self.machine.root);
        let (idled, began) = (Residency::read(&tree), Instant::now());
        let found = self.measure(&cell, unit.block, bench, &mut record)?;
        let elapsed_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        record.idle_shares = Residency::read(&tree).shares_since(&idled, elapsed_us);
        record.result = match found {
            Ok(Ok(kept)) => {
                self.rates.entry(cell).or_default().push(kept.rate_pps);
                Ok(kept)
            }
            Ok(Err(why)) => Err(why),
            Err(ended) => {
                // Of a trial without a record, the journal has no attempts either.
                bench.document.trials.truncate(first);
                return Ok(Err(ended));
            }
        };
        record.attempts = bench.document.trials[first..].to_vec();
        Ok(Ok(record))
    }

    /// The tester by itself, once in each block and setting of states: as each mode of the study
    /// has it, at the highest load and at the least rate, where combinations have them. A share of
    /// a device's rate is none of the tester's.
    fn baselines(
        &mut self,
        block: u32,
        cell: &Cell,
        bench: &mut Bench,
    ) -> Result<Result<Vec<Baseline>, Ended>, Failure> {
        let mut found = Vec::new();
        let key = (block, self.study.level(cell, STATES).to_owned());
        if block >= self.study.blocks || !self.based.insert(key) {
            return Ok(Ok(found));
        }
        let length = Duration::from_nanos(self.study.trial_ns).min(BASELINE_MAX);
        for mode in [Mode::Process, Mode::Inline] {
            let of_mode = |cell: &&Cell| {
                let is_inline = self.study.level(cell, MODE) == "inline"
                    && self.study.level(cell, PORT) == LINK;
                is_inline == (mode == Mode::Inline)
            };
            let cells: Vec<_> = self.cells.iter().filter(of_mode).collect();
            let profile = cells.first().map(|cell| self.study.cell_profile(cell));
            // What is wrong with it is said by the trials themselves.
            let Some(Ok(profile)) = profile.map(|text| TrialProfile::of_document(&text)) else {
                continue;
            };
            let loads = cells.iter().filter_map(|cell| match self.study.load(cell) {
                LoadLevel::Max => Some(None),
                LoadLevel::Rate(rate) => Some(Some(profile.profile().packets_per_second(rate))),
                LoadLevel::Share(_) => None,
            });
            let loads: Vec<Option<f64>> = loads.collect();
            let least = loads.iter().flatten().copied().reduce(f64::min);
            let highest = loads.contains(&None).then_some(None);
            for load in highest.into_iter().chain(least.map(Some)) {
                let offer = bench.offer(load, length, self.study.samples as usize);
                let alone = row(&[], Some(mode))?;
                found.push(match bench.try_baseline(alone, &profile, &offer) {
                    Ok(baseline) => baseline,
                    Err(DeviceError::Interrupted) => return Ok(Err(Ended::Interrupted)),
                    Err(error) => Baseline::new(mode, load, Err(error.to_string())),
                });
            }
        }
        Ok(Ok(found))
    }

    fn set_states(&mut self, cell: &Cell) -> Result<(), Failure> {
        let wanted = self.study.level(cell, STATES);
        if self.states.as_ref().is_some_and(|(held, _)| held == wanted) {
            return Ok(());
        }
        if let Some((_, guard)) = self.states.take() {
            guard.restore().map_err(Failure::running)?;
        }
        let Ok(states) = wanted.parse::<States>() else {
            return Ok(());
        };
        let guard = self.machine.hold(&self.machine.plan(states))?;
        self.states = Some((wanted.to_owned(), guard));
        Ok(())
    }

    fn lay_wires(&mut self, cell: &Cell) -> Result<(), String> {
        let kind = self.study.wire_of(cell);
        let port = self.study.level(cell, PORT);
        if self.wires.as_ref().is_some_and(|(laid, _)| laid == port) {
            return Ok(());
        }
        self.wires = None;
        if kind != WireKind::None {
            let wires = Wires::lay(kind).map_err(|error| error.to_string())?;
            self.wires = Some((port.to_owned(), wires));
        }
        Ok(())
    }

    /// Packets per second to offer; none at `max`.
    fn load(&self, cell: &Cell, profile: &TrialProfile) -> Result<Option<f64>, String> {
        match self.study.load(cell) {
            LoadLevel::Max => Ok(None),
            LoadLevel::Rate(rate) => Ok(Some(profile.profile().packets_per_second(rate))),
            LoadLevel::Share(share) => {
                let reference = self.study.reference_of(cell);
                let rates = reference.and_then(|reference| self.rates.get(&reference));
                let rate = rates.and_then(|rates| median(rates));
                let missing = || "its rate at max is not known, of which its load is a share";
                rate.map(|rate| Some(rate * share))
                    .ok_or_else(|| missing().to_owned())
            }
        }
    }

    /// What a trial gave, or why it gave nothing; the outer error ends the study.
    #[allow(
        clippy::type_complexity,
        reason = "three ways to end, told apart by the caller"
    )]
    fn measure(
        &mut self,
        cell: &Cell,
        block: u32,
        bench: &mut Bench,
        record: &mut Record,
    ) -> Result<Result<Result<Kept, String>, Ended>, Failure> {
        let profile = TrialProfile::of_document(&self.study.cell_profile(cell));
        let profile = match profile {
            Ok(profile) => profile,
            Err(errors) => {
                let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
                return Ok(Ok(Err(errors.join("; "))));
            }
        };
        record.load_pps = match self.load(cell, &profile) {
            Ok(load) => load,
            Err(why) => return Ok(Ok(Err(why))),
        };
        if let Err(why) = self.lay_wires(cell) {
            self.broken.insert(*cell, why.clone());
            return Ok(Ok(Err(why)));
        }
        let chain = self
            .study
            .chain_of(cell, &registry())
            .map_err(Failure::input)?
            .chain;
        let mut device = bench.device(chain)?.over_ports(&TESTER_PORTS);
        let duration = Duration::from_nanos(self.study.trial_ns);
        let offer = bench.offer(record.load_pps, duration, self.study.samples as usize);
        let frame_len = profile.profile().mean_frame_len();
        let is_probed = block == self.study.blocks;
        let title = if is_probed {
            format!("{} with probes", self.study.title(cell))
        } else {
            format!("{} block {}", self.study.title(cell), block + 1)
        };
        let unit_seed = self.study.seed ^ u64::from(block);
        device.set_probes(is_probed.then(|| probes(&offer)));
        let measured = bench.try_measure(&mut device, &profile, &offer, &title);
        record.waiting = device.waiting().map(str::to_owned);
        Ok(match measured {
            Ok(Measured::Valid(outcome)) => {
                let measured_ns = measured_ns(&outcome);
                let report = device.take_probe_report();
                record.blame = report.and_then(|report| blame(report, measured_ns));
                if is_probed {
                    let load = offer.load_pps;
                    record.probe_tax =
                        match device.probe_tax(&profile, probes(&offer), load, unit_seed) {
                            Err(DeviceError::Interrupted) => {
                                return Ok(Err(Ended::Interrupted));
                            }
                            found => Some(found.map_err(|error| error.to_string())),
                        };
                }
                Ok(Ok(Kept::of(&outcome, frame_len, block == 0, self.watts)))
            }
            Ok(Measured::GeneratorLimited) => {
                Ok(Err("the generator does not sustain this load".to_owned()))
            }
            Ok(Measured::Invalid(why)) => Ok(Err(why)),
            Ok(Measured::Interrupted) => Err(Ended::Interrupted),
            Err(error) => {
                // A chain that does not start will not start in the next block either.
                self.broken.insert(*cell, error.to_string());
                Ok(Err(error.to_string()))
            }
        })
    }
}

/// Some thousand packets of a trial are followed.
fn probes(offer: &Offer) -> ProbeSettings {
    let packets = offer.load_pps.unwrap_or(0.0) * offer.duration.as_secs_f64();
    ProbeSettings {
        tier: Tier::Sampled,
        gap: (packets / FOLLOWED).clamp(1.0, 1e6) as u32,
        // The chain ends before.
        duration_ns: u64::MAX,
        marks: (0, 0),
    }
}

/// The table of the way that leads through the device, by kind of component, held against the
/// latency that was measured in the same trial.
fn blame(report: ProbeReport, measured_ns: Option<f64>) -> Option<Blame> {
    let mut paths = report.paths.into_iter();
    let is_device = |path: &PathReport| path.nodes.iter().any(|node| node == "nf1");
    let blame = paths.find(is_device)?.by_kind;
    Some(match measured_ns {
        Some(measured_ns) => blame.against(measured_ns),
        None => blame,
    })
}

/// Where P and C states of the machine below `root` are noted.
pub(crate) fn machine(root: &Path) -> Machine {
    let runtime = catena_engine::supervisor::runtime_dir::default_root();
    Machine {
        root: root.to_owned(),
        journal: states::journal_path(&runtime),
    }
}
