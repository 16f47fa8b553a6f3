//! `catena measure compare`: whether chain B differs from chain A.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use catena_engine::chain::Mode;
use catena_engine::units::Rate;
use catena_measure::compare::{Interleaving, Plan, Side, Verdict};
use catena_measure::device::{
    Device, DeviceError, Offer, Outcome as TrialOutcome, TrialProfile, Turns, take_turns,
};
use catena_measure::stats::quantile::median;

use super::{Common, load_chain, load_profile, parse_length, parse_rate, pps};
use crate::commands::{Failure, Outcome};
use crate::measuring::bench::{Bench, Measured};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Chain file that is compared with
    a: PathBuf,
    /// Chain file that may differ
    b: PathBuf,
    /// Traffic profile; without it, 64-byte UDP frames of one flow
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Compare the median latency at this load, instead of the rate at the highest
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    rate: Option<Rate>,
    /// Keep both chains up and let them take turns in slices, instead of starting one for each
    /// trial; for rates, not for containers
    #[arg(long, conflicts_with = "rate")]
    together: bool,
    /// How long a trial is, or a slice of --together [default: 50ms, or 5ms]
    #[arg(long, value_name = "SPAN", value_parser = parse_length)]
    trial: Option<Duration>,
    /// Pairs of trials at most; at least 100 [default: 200, or 800 with --together]
    #[arg(long, value_name = "COUNT")]
    pairs: Option<usize>,
    /// Differences below this share do not matter
    #[arg(long, value_name = "SHARE", default_value_t = 0.01)]
    margin: f64,
    /// Decides the order of A and B
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Run nodes of both chains that name no mode in this one
    #[arg(long, value_name = "MODE", value_parser = crate::commands::run::parse_mode)]
    mode: Option<Mode>,
    #[command(flatten)]
    common: Common,
}

/// Chance of a verdict of difference between equals.
const FALSE_ALARMS: f64 = 0.05;
/// Length of a trial, unless told otherwise.
const TRIAL: Duration = Duration::from_millis(50);
/// Length of a slice, unless told otherwise.
const SLICE: Duration = Duration::from_millis(5);
/// Samples of latency in a trial: enough for a median.
const SAMPLES: usize = 1 << 16;

pub(crate) fn run(args: &Args) -> Outcome {
    let profile = match &args.profile {
        Some(file) => load_profile(file)?,
        None => TrialProfile::empty().map_err(Failure::input)?,
    };
    let load = args.rate.map(|rate| pps(rate, &profile)).transpose()?;
    let pairs = args.pairs.unwrap_or(if args.together { 800 } else { 200 });
    let plan = Plan {
        pairs_max: pairs,
        false_alarms: FALSE_ALARMS,
        margin: args.margin,
        seed: args.seed,
    };
    let interleaving = Interleaving::new(plan).map_err(Failure::input)?;
    let chains = [
        load_chain(&args.a, args.mode)?,
        load_chain(&args.b, args.mode)?,
    ];
    let title = format!("{} against {}", args.b.display(), args.a.display());
    let mut bench = args.common.begin(&title)?;
    let [a, b] = chains.map(|chain| bench.device(chain));
    let mut devices = [a?, b?];
    let cut = if args.together {
        let length = args.trial.unwrap_or(SLICE);
        together(&mut bench, &devices, &profile, (plan, length))?
    } else {
        let offer = Offer {
            load_pps: load,
            duration: args.trial.unwrap_or(TRIAL),
            packet_count: None,
            samples: SAMPLES,
        };
        in_turns(
            &mut bench,
            &mut devices,
            &profile,
            (&offer, pairs),
            interleaving,
        )?
    };
    if let Some(why) = &cut {
        bench.document.summary += &format!("No verdict, cut short: {why}.");
    }
    let [a, _] = devices;
    bench.finish(&a, args.common.json)?;
    match cut {
        None => Ok(ExitCode::SUCCESS),
        Some(why) => Err(Failure::running(format!("there is no verdict: {why}"))),
    }
}

/// What is compared: a rate, or a time.
fn value(outcome: &TrialOutcome) -> Result<f64, String> {
    if outcome.offer.load_pps.is_none() {
        return Ok(outcome.forwarding_rate_pps());
    }
    let delays = outcome.samples().into_iter().map(|s| s.delay_ns() as f64);
    let delays: Vec<_> = delays.collect();
    median(&delays).ok_or_else(|| "no packet came back".to_owned())
}

/// Keeps both chains up while they take turns; gives why there is no verdict, if there is none.
fn together(
    bench: &mut Bench,
    devices: &[Device; 2],
    profile: &TrialProfile,
    (mut plan, slice): (Plan, Duration),
) -> Result<Option<String>, Failure> {
    let [a, b] = devices;
    let is_contained = |device: &Device| {
        let mut nodes = device.chain().nodes.iter();
        nodes.any(|node| node.mode == Mode::Container)
    };
    if is_contained(a) || is_contained(b) {
        let why = "--together starts both chains at once, which containers are too slow for; leave \
                   it out";
        return Err(Failure::input(why));
    }
    let turns = Turns {
        pairs: u32::try_from(plan.pairs_max).unwrap_or(u32::MAX),
        slice,
        seed: plan.seed,
    };
    let whole = slice * 2 * turns.pairs;
    let text = format!("{} pairs of slices of {slice:?}", plan.pairs_max);
    bench.progress.show_left(&text, Some(whole));
    let rates = match take_turns([a, b], profile, &turns) {
        Ok(rates) => rates,
        Err(DeviceError::Interrupted) => return Ok(Some("interrupted".to_owned())),
        Err(error) => return Err(Failure::running(error)),
    };
    // Where the machine took the core for a whole slice there is no ratio.
    let pairs = rates[0].iter().zip(&rates[1]);
    let pairs: Vec<_> = pairs.filter(|(a, b)| **a > 0.0 && **b > 0.0).collect();
    let missing = plan.pairs_max - pairs.len();
    let row = "pairs without a value, because one side moved nothing".to_owned();
    bench.document.results.push((row, missing.to_string()));
    plan.pairs_max = pairs.len();
    let mut interleaving = match Interleaving::new(plan) {
        Ok(interleaving) => interleaving,
        Err(error) => return Ok(Some(error.to_string())),
    };
    for (a, b) in pairs {
        for _ in 0..2 {
            let value = match interleaving.next() {
                Some(Side::A) => *a,
                Some(Side::B) => *b,
                None => break,
            };
            interleaving.report(value).map_err(Failure::running)?;
        }
    }
    describe(
        bench,
        &interleaving,
        "forwarding rate at the highest load, in slices",
    )
}

/// Runs the pairs; gives why it was cut short, if it was.
fn in_turns(
    bench: &mut Bench,
    devices: &mut [Device; 2],
    profile: &TrialProfile,
    (offer, pairs): (&Offer, usize),
    mut interleaving: Interleaving,
) -> Result<Option<String>, Failure> {
    let what = if offer.load_pps.is_some() {
        "median latency"
    } else {
        "forwarding rate at the highest load"
    };
    let mut count = 0_usize;
    while let Some(side) = interleaving.next() {
        let share = count as f64 / (2 * pairs) as f64;
        let text = format!("pair {} of {pairs}", count / 2 + 1);
        bench.progress.show(&text, share);
        let (device, name) = match side {
            Side::A => (&mut devices[0], "A"),
            Side::B => (&mut devices[1], "B"),
        };
        let outcome = match bench.measure(device, profile, offer, name)? {
            Measured::Valid(outcome) => outcome,
            Measured::GeneratorLimited => {
                return Ok(Some("the generator does not sustain the load".to_owned()));
            }
            Measured::Invalid(why) => return Ok(Some(why)),
            Measured::Interrupted => return Ok(Some("interrupted".to_owned())),
        };
        let value = match value(&outcome) {
            Ok(value) => value,
            Err(why) => return Ok(Some(format!("{name}: {why}"))),
        };
        interleaving
            .report(value)
            .map_err(|error| Failure::running(format!("{name}: {error}")))?;
        count += 1;
    }
    describe(bench, &interleaving, what)
}

/// Puts the verdict into the document; gives why there is none, if so.
fn describe(
    bench: &mut Bench,
    interleaving: &Interleaving,
    what: &str,
) -> Result<Option<String>, Failure> {
    let Some(found) = interleaving.result() else {
        return Ok(Some("no pair was measured".to_owned()));
    };
    let verdict = match found.verdict {
        Verdict::Higher => "B is higher than A",
        Verdict::Lower => "B is lower than A",
        Verdict::Same => "B is the same as A within the margin",
        Verdict::Inconclusive => "no difference could be shown, nor its absence",
    };
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    let ratio = &found.ratio;
    bench.document.summary = format!(
        "{what}: {verdict}. B is {:+.2} % from A ({:+.2} to {:+.2} %) over {} pairs; these data \
         would have shown {:.2} %.",
        percent(ratio.estimate),
        percent(ratio.low),
        percent(ratio.high),
        found.pairs,
        found.detectable * 100.0
    );
    bench.document.comparisons.push((what.to_owned(), *found));
    Ok(None)
}
