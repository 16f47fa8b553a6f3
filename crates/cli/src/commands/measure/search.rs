//! `catena measure search`: the throughput of a chain, by trials whose loads a search decides.

use std::process::ExitCode;
use std::time::Duration;

use catena_engine::units::Rate;
use catena_measure::device::{Device, Offer, TrialProfile};
use catena_measure::report::{Throughput, rate};
use catena_measure::search::back_to_back::{self, BackToBackSearch};
use catena_measure::search::held::HeldLoads;
use catena_measure::search::mlr::{self, MlrSearch};
use catena_measure::search::mrr::{self, MrrSearch};
use catena_measure::search::preset::{Conditions, Preset, Standing};
use catena_measure::search::soak::SoakSearch;
use catena_measure::search::{Search, Trial, TrialResult, steady};

use super::{Common, Folder, Under, headline, parse_count, pps, row};
use crate::commands::{Failure, Outcome};
use crate::measuring::bench::{Bench, Measured};
use crate::measuring::settled;
use crate::quantity;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    under: Under,
    /// How to search
    #[arg(long, value_enum, default_value_t = Method::Mlr)]
    method: Method,
    /// Goals of MLRsearch
    #[arg(long, value_enum, default_value_t = Goals::Vm)]
    preset: Goals,
    /// Final trial duration instead of the preset's; for other methods, how long a trial is
    #[arg(long, value_name = "SPAN", value_parser = quantity::length)]
    trial: Option<Duration>,
    /// Duration sum instead of the preset's; for soak, how long it takes in all
    #[arg(long, value_name = "SPAN", value_parser = quantity::length)]
    sum: Option<Duration>,
    /// Goal width instead of the preset's, as a share of the upper bound
    #[arg(long, value_name = "SHARE",
          value_parser = |text: &str| quantity::share(text, 0.0..=1.0))]
    width: Option<f64>,
    /// Least load
    #[arg(long, value_name = "RATE", value_parser = quantity::rate)]
    min: Option<Rate>,
    /// Highest load, or the only one of mrr and soak; without it, what the tester sustains without
    /// a device
    #[arg(long, value_name = "RATE", value_parser = quantity::rate)]
    max: Option<Rate>,
    /// Throughput that back-to-back starts from, as found before
    #[arg(long, value_name = "RATE", value_parser = quantity::rate)]
    throughput: Option<Rate>,
    /// Number of trials of mrr, and of repetitions of back-to-back
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = parse_count)]
    trials: u32,
    #[command(flatten)]
    folder: Folder,
    #[command(flatten)]
    common: Common,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Method {
    /// MLRsearch: throughput for several loss ratios
    Mlr,
    /// Forwarding rate at the highest load
    Mrr,
    /// Longest burst at line rate without loss (RFC 9004)
    BackToBack,
    /// Loss over a long time at one load
    Soak,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Goals {
    /// Short trials, many of them
    Vm,
    /// FD.io CSIT's NDR and PDR
    Csit,
    /// ETSI GS NFV-TST 009
    Tst009,
    /// RFC 2544 section 26.1
    Rfc2544,
}

impl Goals {
    const fn preset(self) -> Preset {
        match self {
            Self::Vm => Preset::Vm,
            Self::Csit => Preset::Csit,
            Self::Tst009 => Preset::Tst009,
            Self::Rfc2544 => Preset::Rfc2544,
        }
    }
}

/// Loads below what the tester sustains alone, so that it still keeps up with a device's rhythm.
const TESTER_MARGIN: f64 = 0.95;
/// A generator that fell short is asked for less by this factor.
const BACK_OFF: f64 = 0.9;
/// How often it is.
const BACK_OFF_COUNT: usize = 20;
/// Trials by which the tester's own limit is found.
const TESTER_TRIALS: usize = 3;

/// Length of the trial without a device, at least where nothing else is said, and at most.
const BASELINE: Duration = Duration::from_millis(200);
const BASELINE_MAX: Duration = Duration::from_secs(1);
/// Its samples of latency.
const BASELINE_SAMPLES: usize = 1 << 16;

/// How a search ended.
enum Ended<T> {
    Whole(T),
    /// Cut short, and why.
    Cut(T, String),
    /// The generator cannot offer this load.
    GeneratorLimited(f64),
}

pub(crate) fn run(args: &Args) -> Outcome {
    let profile = args.under.profile()?;
    let chain = args.under.chain()?;
    let title = format!("Throughput of {}: {}", chain.name, profile.title());
    let mut bench = args.common.begin(&title, args.folder.create()?)?;
    let mut device = bench.device(chain)?;
    let mut search = Searching {
        args,
        profile: &profile,
        bench: &mut bench,
        device: &mut device,
        told: None,
        how: Vec::new(),
        held: HeldLoads::default(),
        tried: Vec::new(),
    };
    let verdict = match args.method {
        Method::Mlr => search.mlr(),
        Method::Mrr => search.mrr(),
        Method::BackToBack => search.back_to_back(),
        Method::Soak => search.soak(),
    };
    let (cut, told, how) = (verdict?, search.told, search.how);
    bench.document.results.extend(how);
    if let Some(load) = told {
        let length = args.trial.unwrap_or(BASELINE).min(BASELINE_MAX);
        let offer = bench.offer(Some(load), length, BASELINE_SAMPLES);
        bench.baseline(&device, None, &profile, &offer)?;
    }
    if let Some(why) = &cut {
        bench.document.summary += &format!(" Cut short: {why}.");
    }
    bench.finish(&device, args.common.json)?;
    match cut {
        None => Ok(ExitCode::SUCCESS),
        Some(why) => Err(Failure::running(format!(
            "the search was cut short: {why}; what was found is in the report"
        ))),
    }
}

/// A search that is going on.
struct Searching<'a> {
    args: &'a Args,
    profile: &'a TrialProfile,
    bench: &'a mut Bench,
    device: &'a mut Device,
    /// The load that the result is told at: what the tester does there by itself is its bias.
    told: Option<f64>,
    /// How it was found, which a report says behind what was found.
    how: Vec<(String, String)>,
    /// What the device held in trials that count.
    held: HeldLoads,
    /// Trials of this search that count, in order.
    tried: Vec<(Trial, TrialResult)>,
}

/// Why a search was cut short, if it was.
type Cut = Option<String>;

impl Searching<'_> {
    /// Runs the trials that a search asks for.
    fn drive<S: Search>(
        &mut self,
        mut search: S,
        name: &str,
        done_share: impl Fn(&S, usize) -> f64,
    ) -> Result<Ended<S::Outcome>, Failure> {
        let mut count = 0;
        while let Some(trial) = search.next() {
            let share = done_share(&search, count);
            let text = format!("{name}: trial {} at {}", count + 1, rate(trial.load_pps));
            self.bench.progress.show(&text, share);
            // A burst ends by its count.
            let duration = match trial.packet_count {
                Some(_) => trial.duration + Duration::from_millis(1),
                None => trial.duration,
            };
            let offer = Offer {
                packet_count: trial.packet_count,
                ..self.bench.offer(Some(trial.load_pps), duration, 2)
            };
            match self
                .bench
                .measure(self.device, self.profile, &offer, name)?
            {
                Measured::Valid(outcome) => {
                    self.held
                        .add(trial.load_pps, outcome.result(), outcome.held());
                    self.tried.push((trial, outcome.result()));
                    search.report(&outcome.result()).map_err(Failure::running)?;
                }
                Measured::GeneratorLimited => return Ok(Ended::GeneratorLimited(trial.load_pps)),
                Measured::Invalid(why) => return Ok(Ended::Cut(search.finish(), why)),
                Measured::Interrupted => {
                    return Ok(Ended::Cut(search.finish(), "interrupted".to_owned()));
                }
            }
            count += 1;
        }
        Ok(Ended::Whole(search.finish()))
    }

    /// What generator and receiver sustain in one loop without a device.
    fn tester_limit(&mut self) -> Result<Result<f64, String>, Failure> {
        let mut alone = self.bench.device(row(&[], self.args.under.mode)?)?;
        let duration = self.args.trial.unwrap_or(Duration::from_millis(200));
        let offer = self.bench.offer(None, duration, 2);
        let mut best = 0.0_f64;
        for _ in 0..TESTER_TRIALS {
            self.bench.progress.show("the tester without a device", 0.0);
            let name = "tester without a device";
            match self.bench.measure(&mut alone, self.profile, &offer, name)? {
                Measured::Valid(outcome) => best = best.max(outcome.forwarding_rate_pps()),
                Measured::GeneratorLimited => {}
                Measured::Invalid(why) => return Ok(Err(why)),
                Measured::Interrupted => return Ok(Err("interrupted".to_owned())),
            }
        }
        self.note("tester without a device", rate(best));
        Ok(Ok(best))
    }

    /// Says what was found, and then how.
    fn conclude(&mut self, found: String, method: &str) {
        self.bench.document.summary += &format!("{found} {method}");
    }

    fn add(&mut self, name: &str, value: String) {
        self.bench.document.results.push((name.to_owned(), value));
    }

    /// The same of what was not asked for, but leads to it.
    fn note(&mut self, name: &str, value: String) {
        self.how.push((name.to_owned(), value));
    }

    /// Whether the end of the search was what its beginning was, in row and summary.
    fn settle(&mut self, (row, words): (String, String)) {
        self.add("steady state", row);
        self.bench.document.summary += &words;
    }

    /// The highest load: as asked for, or what the tester sustains and the line carries.
    fn max_load(&mut self) -> Result<Result<f64, String>, Failure> {
        if let Some(max) = self.args.max {
            return pps(max, self.profile).map(Ok);
        }
        let limit = self.tester_limit()?;
        let line = self.profile.line_pps().unwrap_or(f64::INFINITY);
        Ok(limit.map(|limit| (limit * TESTER_MARGIN).min(line)))
    }

    fn mlr(&mut self) -> Result<Cut, Failure> {
        let mut max = match self.max_load()? {
            Ok(max) => max,
            Err(why) => return Ok(Some(why)),
        };
        for _ in 0..BACK_OFF_COUNT {
            let input = self.input(max)?;
            let limits = format!("{} to {}", rate(input.min_load_pps), rate(max));
            let search = MlrSearch::new(input).map_err(Failure::input)?;
            self.tried.clear();
            let remaining = |search: &MlrSearch, _| 1.0 - search.remaining();
            let (outcome, cut) = match self.drive(search, "MLRsearch", remaining)? {
                Ended::Whole(outcome) => (outcome, None),
                Ended::Cut(outcome, why) => (outcome, Some(why)),
                Ended::GeneratorLimited(load) => {
                    max = self.back_off(load);
                    continue;
                }
            };
            self.note("load limits", limits);
            let goals = outcome.goals.iter();
            let found = goals.filter_map(|goal| goal.conditional_throughput_pps);
            self.told = Some(found.reduce(f64::max).unwrap_or(max));
            self.describe_throughput(outcome, cut.as_deref());
            return Ok(cut);
        }
        Ok(Some("the generator kept up with no load".to_owned()))
    }

    fn input(&self, max: f64) -> Result<mlr::Input, Failure> {
        let mut goals = self.args.preset.preset().goals();
        for goal in &mut goals {
            if let Some(trial) = self.args.trial {
                goal.final_trial_duration = trial;
                let initial = goal.initial_trial_duration().min(trial);
                goal.initial_trial_duration = Some(initial);
            }
            goal.duration_sum = self.args.sum.unwrap_or(goal.duration_sum);
            goal.width = self.args.width.or(goal.width);
        }
        let min = match self.args.min {
            Some(min) => pps(min, self.profile)?,
            // A trial of 0.2 s has packets enough to tell its loss ratio.
            None => (max / 1000.0).max(1000.0).min(max / 2.0),
        };
        let warmup = goals.first().map(|goal| goal.initial_trial_duration());
        Ok(mlr::Input {
            goals,
            min_load_pps: min,
            max_load_pps: max,
            warmup,
            duration_limit: None,
        })
    }

    fn describe_throughput(&mut self, outcome: mlr::Outcome, cut: Option<&str>) {
        let preset = self.args.preset.preset();
        let conditions = Conditions {
            is_constant_load: self.profile.is_constant(),
            offered_load_error: Some(self.bench.load_error),
            ..Conditions::default()
        };
        let mut standing = preset.standing(&conditions, &outcome);
        let mut reasons = Vec::new();
        if self.args.trial.or(self.args.sum).is_some() || self.args.width.is_some() {
            reasons.push("durations or width are not those of the preset".to_owned());
        }
        reasons.extend(cut.map(|why| format!("the search was cut short: {why}")));
        let held = outcome.goals.iter().map(|goal| {
            let load = goal.relevant_lower_bound_pps?;
            self.held.at(load)
        });
        let held: Vec<_> = held.collect();
        let of_goals = outcome.goals.iter().zip(&held);
        reasons.extend(of_goals.filter_map(|(goal, held)| held.as_ref()?.reason(goal)));
        if !reasons.is_empty() {
            standing = match standing {
                Standing::Complete => Standing::Partial(reasons),
                Standing::Partial(mut more) => {
                    more.extend(reasons);
                    Standing::Partial(more)
                }
                invalid @ Standing::Invalid(_) => invalid,
            };
        }
        for (goal, held) in outcome.goals.iter().zip(held) {
            let found = goal.conditional_throughput_pps;
            let value = found.map_or_else(|| "none".to_owned(), rate);
            let marks: Vec<_> = goal
                .irregularities
                .iter()
                .map(|why| format!("{why:?}"))
                .collect();
            let marks = if marks.is_empty() {
                String::new()
            } else {
                format!(" (IRREGULAR: {})", marks.join(", "))
            };
            let loss = goal.goal.loss_ratio * 100.0;
            self.add(
                &format!("throughput at {loss} % loss"),
                format!("{value}{marks}"),
            );
            if let Some(held) = held {
                self.add(&format!("held at {loss} % loss"), held.describe());
            }
        }
        self.conclude(
            headline::mlr(&outcome.goals),
            &format!(
                "MLRsearch ({}) over {} trials. {}",
                preset.name(),
                outcome.trial_count,
                headline::standing(&standing)
            ),
        );
        // The first is the warm-up.
        let counted = self.tried.get(1..).unwrap_or_default();
        let change = steady::change(counted);
        self.settle(settled::of_search(change.as_ref()));
        self.bench.document.throughput.push(Throughput {
            system: self.device.name().to_owned(),
            traffic: self.profile.title(),
            preset,
            standing,
            goals: outcome.goals,
            interval: None,
        });
    }

    fn mrr(&mut self) -> Result<Cut, Failure> {
        let mut max = match self.max_load()? {
            Ok(max) => max,
            Err(why) => return Ok(Some(why)),
        };
        let length = self.args.trial.unwrap_or(mrr::DURATION_DEFAULT);
        let trials = self.args.trials as usize;
        for _ in 0..BACK_OFF_COUNT {
            let search = MrrSearch::new(max, trials, length);
            let share = |_: &MrrSearch, count: usize| count as f64 / trials.max(1) as f64;
            match self.drive(search, "MRR", share)? {
                Ended::Whole(outcome) => {
                    self.describe_mrr(&outcome);
                    return Ok(None);
                }
                Ended::Cut(outcome, why) => {
                    self.describe_mrr(&outcome);
                    return Ok(Some(why));
                }
                // A load that was asked for is not replaced by another.
                Ended::GeneratorLimited(load) if self.args.max.is_some() => {
                    return Ok(Some(limited(load)));
                }
                Ended::GeneratorLimited(load) => max = self.back_off(load),
            }
        }
        Ok(Some(limited(max)))
    }

    fn describe_mrr(&mut self, outcome: &mrr::MrrOutcome) {
        self.told = Some(outcome.offered_pps);
        self.note("offered", rate(outcome.offered_pps));
        if let Some(mean) = outcome.mean_pps {
            let deviation = outcome.deviation_pps;
            let deviation = deviation.map_or_else(|| "n/a".to_owned(), rate);
            let value = format!("{}, standard deviation {deviation}", rate(mean));
            self.add("MRR", value);
        }
        let count = outcome.rates_pps.len();
        let method = format!("MRR, at the highest load, over {count} trials.");
        self.conclude(headline::mrr(outcome), &method);
        self.settle(headline::mrr_settled(outcome));
        let value = headline::mrr_valued(outcome);
        self.bench.document.values.extend(value);
    }

    /// The load to go on with after the generator did not sustain `load`.
    fn back_off(&mut self, load: f64) -> f64 {
        let value = format!("{}; gone on with {BACK_OFF} of that", rate(load));
        self.note("generator-limited", value);
        load * BACK_OFF
    }

    fn back_to_back(&mut self) -> Result<Cut, Failure> {
        let (Some(line), Some(throughput)) = (self.profile.line_pps(), self.args.throughput) else {
            return Err(Failure::input(
                "back-to-back sends bursts at line rate and needs to know the throughput: give \
                 `line` in the profile, and --throughput",
            ));
        };
        let input = back_to_back::Input {
            max_theoretical_pps: line,
            throughput_pps: pps(throughput, self.profile)?,
            longest_burst: self.args.trial.unwrap_or(Duration::from_secs(2)),
            resolution_packets: 1,
            repetitions: self.args.trials,
            tries: 2,
        };
        self.told = Some(input.throughput_pps);
        let search = BackToBackSearch::new(input).map_err(Failure::input)?;
        let halvings = (line * input.longest_burst.as_secs_f64()).max(2.0).log2();
        let whole = (f64::from(input.repetitions) * halvings * 1.5).max(1.0);
        let share = |_: &BackToBackSearch, count: usize| (count as f64 / whole).min(0.99);
        let (outcome, cut) = match self.drive(search, "back-to-back", share)? {
            Ended::Whole(outcome) => (outcome, None),
            Ended::Cut(outcome, why) => (outcome, Some(why)),
            Ended::GeneratorLimited(load) => return Ok(Some(limited(load))),
        };
        self.add(
            "longest bursts without loss",
            format!("{:?} packets", outcome.bursts),
        );
        self.add(
            "of these as long as any tried",
            outcome.unbounded.to_string(),
        );
        let seconds = |value: Option<f64>| {
            value.map_or_else(|| "n/a".to_owned(), |s| format!("{:.1} us", s * 1e6))
        };
        self.add("implied buffer time", seconds(outcome.implied_buffer_s));
        self.add("corrected buffer time", seconds(outcome.corrected_buffer_s));
        let mut standing = input.standing(&outcome);
        if let (Standing::Partial(reasons), Some(why)) = (&mut standing, &cut) {
            reasons.push(format!("the search was cut short: {why}"));
        }
        let standing = headline::standing(&standing);
        let row = "standing: back-to-back frames after RFC 9004";
        self.add(row, standing.trim_end_matches('.').to_owned());
        let method = format!("Back-to-back frames after RFC 9004. {standing}");
        self.conclude(headline::back_to_back(&outcome), &method);
        Ok(cut)
    }

    fn soak(&mut self) -> Result<Cut, Failure> {
        let Some(load) = self.args.max else {
            return Err(Failure::input(
                "a soak test is at one load: give it as --max",
            ));
        };
        let load = pps(load, self.profile)?;
        self.told = Some(load);
        let slice = self.args.trial.unwrap_or(Duration::from_secs(1));
        let whole = self.args.sum.unwrap_or(Duration::from_secs(1800));
        let slices = (whole.as_secs_f64() / slice.as_secs_f64()).ceil().max(1.0);
        let search = SoakSearch::new(load, whole, slice);
        let share = |_: &SoakSearch, count: usize| count as f64 / slices;
        let (outcome, cut) = match self.drive(search, "soak", share)? {
            Ended::Whole(outcome) => (outcome, None),
            Ended::Cut(outcome, why) => (outcome, Some(why)),
            Ended::GeneratorLimited(load) => return Ok(Some(limited(load))),
        };
        let share = |value: Option<f64>| {
            value.map_or_else(|| "n/a".to_owned(), |share| format!("{share:.3e}"))
        };
        self.note("load", rate(load));
        self.add("loss ratio", share(outcome.loss_ratio));
        let highest = share(outcome.lossy_slice_probability_max);
        self.add("chance of a lossy slice, at most (95 %)", highest);
        self.add(
            "loss of the second half less the first",
            share(outcome.drift),
        );
        let count = outcome.loss_ratios.len();
        let method = format!("Soak at one load over {count} slices.");
        self.conclude(headline::soak(&outcome, slice), &method);
        let value = headline::soak_valued(&outcome);
        self.bench.document.values.extend(value);
        Ok(cut)
    }
}

fn limited(load: f64) -> String {
    format!(
        "the generator does not sustain {}, which says nothing of the device",
        rate(load)
    )
}
