//! `catena measure compare`: whether chain B differs from chain A.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use catena_engine::chain::Mode;
use catena_engine::units::Rate;
use catena_measure::compare::{Interleaving, Plan, Side, Verdict};
use catena_measure::device::{Device, Offer, Outcome as TrialOutcome, TrialProfile};
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
    /// How long a trial is
    #[arg(long, value_name = "SPAN", default_value = "50ms", value_parser = parse_length)]
    trial: Duration,
    /// Pairs of trials at most; at least 100
    #[arg(long, value_name = "COUNT", default_value_t = 200)]
    pairs: usize,
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
/// Samples of latency in a trial: enough for a median.
const SAMPLES: usize = 1 << 16;

pub(crate) fn run(args: &Args) -> Outcome {
    let profile = match &args.profile {
        Some(file) => load_profile(file)?,
        None => TrialProfile::empty().map_err(Failure::input)?,
    };
    let load = args.rate.map(|rate| pps(rate, &profile)).transpose()?;
    let plan = Plan {
        pairs_max: args.pairs,
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
    let offer = Offer {
        load_pps: load,
        duration: args.trial,
        packet_count: None,
        samples: SAMPLES,
    };
    let cut = compare(
        args,
        &mut bench,
        &mut devices,
        &profile,
        &offer,
        interleaving,
    )?;
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

/// Runs the pairs; gives why it was cut short, if it was.
fn compare(
    args: &Args,
    bench: &mut Bench,
    devices: &mut [Device; 2],
    profile: &TrialProfile,
    offer: &Offer,
    mut interleaving: Interleaving,
) -> Result<Option<String>, Failure> {
    let what = if offer.load_pps.is_some() {
        "median latency"
    } else {
        "forwarding rate at the highest load"
    };
    let mut count = 0_usize;
    while let Some(side) = interleaving.next() {
        let share = count as f64 / (2 * args.pairs) as f64;
        bench
            .progress
            .show(&format!("pair {} of {}", count / 2 + 1, args.pairs), share);
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
