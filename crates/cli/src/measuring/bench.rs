//! Trials that count: each is repeated until it says something of the device, and all are noted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use catena_engine::chain::Chain;
use catena_engine::chain::WaitChoice;
use catena_engine::supervisor::runtime_dir::default_root;
use catena_measure::device::{
    Baseline, Device, DeviceError, Extremes, Fate, Offer, Outcome as TrialOutcome, Setting,
    TrialProfile, Turns, baseline_rows,
};
use catena_measure::flow_quality::Quality;
use catena_measure::latency::stall::{NoiseBracket, NoiseFloor};
use catena_measure::report::{Document, TrialRow, time};
use catena_measure::stats::quantile::median;
use catena_measure::study::{Record, bias};
use catena_measure::traffic::send_record::SendRecord;

use super::environment;
use super::output::Output;
use super::power::Power;
use super::progress::Progress;
use super::row::row;
use super::starts::Starts;
use crate::commands::Failure;
use crate::registry::registry;

/// How often a trial is repeated because the generator fell short: if that was no accident, it will
/// do so again.
const GENERATOR_REPEATS: u32 = 2;

/// How often a trial without a device is repeated: it is a matter of a moment, and says so if it
/// gave nothing.
const BASELINE_REPEATS: u32 = 2;
/// Row of the environment on how trials are run.
const TRIALS: &str = "trials";
/// Samples from which on a median is one.
const MEDIAN_SAMPLES: usize = 50;

/// A trial that counts, or why there is none.
pub(crate) enum Measured {
    /// It says something of the device.
    Valid(Box<TrialOutcome>),
    /// The generator did not keep up, however often it was tried.
    GeneratorLimited,
    /// It was disturbed, however often it was tried: by what.
    Invalid(String),
    /// The user asked for the end.
    Interrupted,
}

/// How trials are run, and which of them count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrialSetting {
    /// How often a trial that does not count is repeated.
    pub(crate) repeats: u32,
    /// How long is sent before each.
    pub(crate) warmup: Duration,
    /// Share of a trial that other work may take from its workers.
    pub(crate) rivals_max: f64,
    /// How long the noise floor is watched before and after all of them.
    pub(crate) noise: Duration,
    /// The reading of a wattmeter.
    pub(crate) watts: Option<f64>,
}

/// A measurement: its document, and what happened so far.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) document: Document,
    pub(crate) output: Output,
    pub(crate) progress: Progress,
    setting: Setting,
    trials: TrialSetting,
    starts: Starts,
    before: Option<NoiseFloor>,
    /// Largest error of the offered load over all trials that count.
    pub(crate) load_error: f64,
    quality: Quality,
    power: Power,
    /// What the generator sent in trials at a load that count, by how late.
    sent: SendRecord,
    /// The tester by itself.
    baselines: Vec<Baseline>,
    /// What its part is held against.
    extremes: Extremes,
}

/// SIGINT and SIGTERM end the trial that runs; what was found until then is written.
fn interruption() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, flag.clone()).map_err(Failure::running)?;
    }
    Ok(flag)
}

impl Bench {
    /// Begins with the noise floor, if `noise` is above 0.
    pub(crate) fn begin(
        title: &str,
        output: Output,
        trials: TrialSetting,
    ) -> Result<Self, Failure> {
        let setting = Setting {
            registry: registry(),
            program: std::env::current_exe().map_err(Failure::running)?,
            runtime_root: default_root(),
            is_interrupted: interruption()?,
            rivals_max: trials.rivals_max,
        };
        let noise = trials.noise;
        let before = (!noise.is_zero()).then(|| environment::noise_floor(noise));
        let mut document = environment::document(title);
        if !noise.is_zero() {
            document.environment.push(environment::wakeups());
        }
        Ok(Self {
            document,
            output,
            progress: Progress::new(),
            setting,
            trials,
            starts: Starts::ForEachTrial,
            before,
            load_error: 0.0,
            quality: Quality::default(),
            sent: SendRecord::default(),
            baselines: Vec::new(),
            extremes: Extremes::default(),
            power: Power::metered(trials.watts),
        })
    }

    /// What to offer in a trial of this measurement.
    pub(crate) const fn offer(
        &self,
        load_pps: Option<f64>,
        duration: Duration,
        samples: usize,
    ) -> Offer {
        Offer {
            load_pps,
            warmup: self.trials.warmup,
            duration,
            packet_count: None,
            samples,
        }
    }

    /// Chains stay up and take turns: how they do it, for so many pairs that count.
    pub(crate) fn turns(&mut self, pairs: usize, slice: Duration, seed: u64) -> Turns {
        let turns = Turns {
            warmup: self.trials.warmup,
            pairs: u32::try_from(pairs).unwrap_or(u32::MAX),
            slice,
            seed,
        };
        let left_out = turns.left_out();
        self.starts = Starts::ForAllSlices { left_out, slice };
        turns
    }

    /// A chain as a device of this measurement.
    pub(crate) fn device(&self, chain: Chain) -> Result<Device, Failure> {
        Device::new(chain, self.setting.clone(), self.output.trial()).map_err(Failure::input)
    }

    /// Runs a trial, again if it says nothing, and notes each; `name` is what it belongs to.
    pub(crate) fn measure(
        &mut self,
        device: &mut Device,
        profile: &TrialProfile,
        offer: &Offer,
        name: &str,
    ) -> Result<Measured, Failure> {
        self.try_measure(device, profile, offer, name)
            .map_err(Failure::running)
    }

    /// The same, for who goes on after a chain has failed.
    pub(crate) fn try_measure(
        &mut self,
        device: &mut Device,
        profile: &TrialProfile,
        offer: &Offer,
        name: &str,
    ) -> Result<Measured, DeviceError> {
        let mut last = Fate::Valid;
        let mut limited = 0;
        for _ in 0..=self.trials.repeats {
            let outcome = match device.run(profile, offer) {
                Ok(outcome) => outcome,
                Err(DeviceError::Interrupted) => return Ok(Measured::Interrupted),
                Err(error) => return Err(error),
            };
            last = outcome.fate();
            self.note(&outcome, &last, name);
            if last == Fate::Valid {
                self.power.add(&outcome, profile.profile().mean_frame_len());
            }
            if last == Fate::Valid {
                return Ok(Measured::Valid(Box::new(outcome)));
            }
            limited += u32::from(last == Fate::GeneratorLimited);
            if limited > GENERATOR_REPEATS {
                break;
            }
        }
        Ok(match last {
            Fate::GeneratorLimited => Measured::GeneratorLimited,
            other => Measured::Invalid(other.name().unwrap_or_default()),
        })
    }

    /// Measures what the tester adds by itself, as it runs with `device`, and waits like it unless
    /// told otherwise: in one trial that is none of the report's, nor subtracted from any.
    pub(crate) fn baseline(
        &mut self,
        device: &Device,
        wait: Option<WaitChoice>,
        profile: &TrialProfile,
        offer: &Offer,
    ) -> Result<(), Failure> {
        let run = &device.chain().run;
        let mut alone = row(&[], Some(device.tester_mode()))?;
        (alone.run.wait, alone.run.burst) = (wait.unwrap_or(run.wait), run.burst);
        match self.try_baseline(alone, profile, offer) {
            Ok(found) => self.baselines.push(found),
            Err(DeviceError::Interrupted) => {}
            Err(error) => return Err(Failure::running(error)),
        }
        Ok(())
    }

    /// The same of a tester that is given as a chain without a device, for who keeps it.
    pub(crate) fn try_baseline(
        &mut self,
        alone: Chain,
        profile: &TrialProfile,
        offer: &Offer,
    ) -> Result<Baseline, DeviceError> {
        self.progress.show("the tester without a device", 0.0);
        let mut alone = Device::new(alone, self.setting.clone(), self.output.trial())?;
        let mode = alone.tester_mode();
        let mut found = Baseline::of(mode, &alone.run(profile, offer)?);
        for _ in 0..self.trials.repeats.min(BASELINE_REPEATS) {
            if found.found.is_ok() {
                break;
            }
            found = Baseline::of(mode, &alone.run(profile, offer)?);
        }
        Ok(found)
    }

    /// Tells of a study's trials by what its journal keeps of them, so that whoever draws the
    /// report again says the same. `wattmeter` is the reading that stood for the machine's own.
    pub(crate) fn keep_records(&mut self, records: &[Record], wattmeter: Option<f64>) {
        (self.baselines, self.extremes) = bias::baselines(records);
        self.sent = bias::sent(records).0;
        self.power = Power::metered(wattmeter);
        for record in records {
            self.power.add_record(record);
        }
    }

    /// The noise floor before the first trial, if it was watched; whoever takes it tells it.
    pub(crate) const fn take_noise(&mut self) -> Option<NoiseFloor> {
        self.before.take()
    }

    /// The noise floor now.
    pub(crate) fn noise_now(&self) -> NoiseFloor {
        self.progress.clear();
        environment::noise_floor(self.trials.noise)
    }

    /// How trials are run, for the environment of a report.
    pub(crate) fn trials_row(&self) -> (String, String) {
        let how = self
            .starts
            .describe(self.trials.warmup, self.trials.rivals_max);
        (TRIALS.to_owned(), how)
    }

    /// Puts the noise floors around some trials into the report.
    pub(crate) fn tell_noise(&mut self, brackets: Vec<(String, NoiseBracket)>) {
        if brackets.iter().any(|(_, bracket)| bracket.is_noisy) {
            let word = " The machine's noise changed by more than a factor of 2 meanwhile.";
            self.document.summary += word;
        }
        self.document.noise.extend(brackets);
    }

    fn note(&mut self, outcome: &TrialOutcome, fate: &Fate, name: &str) {
        let duration_s = outcome.offer.duration.as_secs_f64();
        let offered = outcome.intended() as f64 / duration_s.max(1e-9);
        self.document.trials.push(TrialRow {
            name: name.to_owned(),
            load_pps: outcome.offer.load_pps.unwrap_or(offered),
            duration_s,
            intended: outcome.intended(),
            forwarded: outcome.forwarded(),
            invalid: fate.name(),
        });
        if *fate == Fate::Valid {
            self.load_error = self.load_error.max(outcome.offered_load_error());
            self.quality.add(&outcome.quality());
            if outcome.offer.load_pps.is_none() {
                self.extremes.add_rate(outcome.forwarding_rate_pps());
                return;
            }
            self.sent.add_lateness(&outcome.sent.record);
            self.extremes.load_error = Some(self.load_error);
            // Searches keep two samples, which are no median.
            if outcome.received.samples.len() >= MEDIAN_SAMPLES {
                let delays = outcome.samples().into_iter();
                let delays: Vec<_> = delays.map(|sample| sample.delay_ns() as f64).collect();
                median(&delays)
                    .into_iter()
                    .for_each(|ns| self.extremes.add_median(ns));
            }
        }
    }

    /// Adds what holds of all trials of a device, and the noise floor after them, and writes the
    /// report.
    pub(crate) fn finish(self, device: &Device, as_json: bool) -> Result<(), Failure> {
        self.finish_all(&[(device, "")], as_json)
    }

    /// The same of several devices, each with what stands before the names of its rows.
    pub(crate) fn finish_all(
        mut self,
        devices: &[(&Device, &str)],
        as_json: bool,
    ) -> Result<(), Failure> {
        let quality = std::mem::take(&mut self.quality);
        let mut add = |name: &str, value: String| {
            self.document.results.push((name.to_owned(), value));
        };
        add("duplicated", quality.duplicates.to_string());
        add("corrupted", quality.corrupted.to_string());
        let extent = format!("{}, by at most {}", quality.reordered, quality.extent_max);
        add("reordered (RFC 4737)", extent);
        let pinned = devices.iter().map(|(device, _)| device.is_pinned());
        // None where any has run no trial, and not held where any is not.
        let pinned = pinned.collect::<Option<Vec<_>>>();
        let held = match pinned.map(|all| all.into_iter().all(|one| one)) {
            Some(true) => "every worker is held on one core",
            Some(false) => "not held on cores: the scheduler's work is part of the result",
            None => "no trial was run",
        };
        let environment = &mut self.document.environment;
        environment.push(("workers".to_owned(), held.to_owned()));
        for (device, name) in devices {
            self.describe(device, name);
        }
        self.conclude(as_json)
    }

    /// Puts what a device is into the environment, where there are several each by a name before
    /// its rows.
    pub(crate) fn describe(&mut self, device: &Device, name: &str) {
        let device_row = ("device".to_owned(), describe_chain(device));
        let rows = std::iter::once(device_row).chain(device.description());
        let rows = rows.map(|(row, value)| (format!("{name}{row}"), value));
        self.document.environment.extend(rows);
    }

    /// Adds what holds of all trials, of whatever device, and writes the report.
    pub(crate) fn conclude(mut self, as_json: bool) -> Result<(), Failure> {
        self.progress.clear();
        if let Some(before) = self.before.take() {
            let bracket = NoiseBracket::of(before, environment::noise_floor(self.trials.noise));
            self.tell_noise(vec![("all".to_owned(), bracket)]);
        }
        self.describe_packets();
        let rows = baseline_rows(&self.baselines, &self.extremes);
        self.document.results.extend(rows);
        let environment = &self.document.environment;
        if !environment.iter().any(|(name, _)| name == TRIALS) {
            let row = self.trials_row();
            self.document.environment.push(row);
        }
        self.output.write(&self.document)?;
        if as_json {
            return crate::document::print_whole(&self.document);
        }
        outln!("{}", self.document.summary.trim());
        for (name, value) in &self.document.results {
            outln!("{name:<38} {value}");
        }
        outln!("report: {}", self.output.page().display());
        Ok(())
    }

    fn describe_packets(&mut self) {
        let trials = &self.document.trials;
        let valid = trials.iter().filter(|row| row.invalid.is_none());
        let count = valid.clone().count();
        let intended: u64 = valid.clone().map(|row| row.intended).sum();
        let lost: u64 = valid
            .map(|row| row.intended.saturating_sub(row.forwarded))
            .sum();
        let invalid = trials.len() - count;
        let mut rows = vec![
            (
                "packets of trials that count".to_owned(),
                intended.to_string(),
            ),
            ("lost".to_owned(), lost.to_string()),
            ("trials that do not count".to_owned(), invalid.to_string()),
        ];
        rows.extend(causes(trials));
        rows.extend(lateness_row(&self.sent));
        rows.extend(held_row(&self.sent));
        rows.extend(self.power.rows());
        self.document.results.extend(rows);
    }
}

/// How many trials do not count for each cause.
fn causes(trials: &[TrialRow]) -> Vec<(String, String)> {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for why in trials.iter().filter_map(|row| row.invalid.as_deref()) {
        match why.strip_prefix("disturbed: ") {
            Some(all) => all
                .split(", ")
                .for_each(|one| *counts.entry(one).or_default() += 1),
            None => {
                // Numbers differ from trial to trial.
                let cause = why.split(':').next().unwrap_or(why);
                *counts.entry(cause).or_default() += 1;
            }
        }
    }
    let rows = counts.into_iter();
    rows.map(|(cause, count)| {
        (
            format!("trials that do not count: {cause}"),
            count.to_string(),
        )
    })
    .collect()
}

/// How late the generator was with all packets that it sent at a load, lost ones among them.
fn lateness_row(sent: &SendRecord) -> Option<(String, String)> {
    let quantile = |q| match sent.lateness_at_most(q) {
        Some(0) => "in time".to_owned(),
        Some(ns) => format!("at most {}", time(ns as f64)),
        None => "n/a".to_owned(),
    };
    (sent.sent > 0).then(|| {
        let text = format!(
            "p50 {}, p99 {}, longest {}",
            quantile(0.5),
            quantile(0.99),
            time(sent.late_max_ns as f64)
        );
        ("generator's lateness, all packets sent".to_owned(), text)
    })
}

/// What the device did not take in when it was due.
fn held_row(sent: &SendRecord) -> Option<(String, String)> {
    (sent.held + sent.entry_lost > 0).then(|| {
        let text = format!(
            "{} packets, longest {}; {} more lost because the entry was full",
            sent.held,
            time(sent.held_max_ns as f64),
            sent.entry_lost
        );
        ("held back by the device at its entry".to_owned(), text)
    })
}

fn describe_chain(device: &Device) -> String {
    let chain = device.chain();
    let nodes = chain.nodes.iter().map(|node| {
        let mode = format!("{:?}", node.mode).to_lowercase();
        format!("{} ({}, {mode})", node.name, node.type_name())
    });
    let nodes: Vec<_> = nodes.collect();
    format!(
        "chain {} of {}; {} links; bursts of {}",
        chain.name,
        nodes.join(", "),
        chain.links.len(),
        chain.run.burst
    )
}
