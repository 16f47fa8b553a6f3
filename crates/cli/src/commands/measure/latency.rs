//! `catena measure latency`: latency and its variation at one load, and what the tester held up.

use std::process::ExitCode;
use std::time::Duration;

use catena_engine::units::Rate;
use catena_measure::device::{LOOPS, Outcome as TrialOutcome};
use catena_measure::latency::stall::Attribution;
use catena_measure::latency::standing;
use catena_measure::latency::steady::{self, Steadiness};
use catena_measure::latency::{Direction, Distribution, Latency, Sample, quantile_intervals};
use catena_measure::report::{LatencyResult, OverTime, rate, time};
use catena_measure::stats::bootstrap::Resampling;
use catena_measure::stats::histogram::Histogram;
use catena_measure::study::record::RECOVERY_NS;

use super::{Common, Folder, Under, load_of, parse_count};
use crate::commands::probe::DEFAULT_GAP;
use crate::commands::{Failure, Outcome};
use crate::measuring::bench::Measured;
use crate::measuring::probing::Probing;
use crate::quantity;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    under: Under,
    /// Load; without it, the profile's
    #[arg(long, value_name = "RATE", value_parser = quantity::rate)]
    rate: Option<Rate>,
    /// How long a trial is
    #[arg(long, value_name = "SPAN", default_value = "2s", value_parser = quantity::length)]
    trial: Duration,
    /// Number of trials, each with the chain started anew
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = parse_count)]
    trials: u32,
    /// Most samples of a trial; beyond, they are evenly thinned and neighbours are gone
    #[arg(long, value_name = "COUNT", default_value_t = 1 << 20)]
    samples: usize,
    /// Follow packets through the chain: which component takes the time, and what finding that out
    /// costs
    #[arg(long)]
    probes: bool,
    /// With --probes: packets from one followed to the next, on average
    #[arg(long, value_name = "PACKETS", default_value_t = DEFAULT_GAP, requires = "probes",
          value_parser = clap::value_parser!(u32).range(1..))]
    gap: u32,
    #[command(flatten)]
    folder: Folder,
    #[command(flatten)]
    common: Common,
}

/// Length of the slices by which intervals are found; ten are a block of a second.
const SLICE_NS: u64 = 100_000_000;
/// Slices in a block.
const BLOCK: usize = 10;
/// Quantiles with intervals.
const QUANTILES: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 0.9999];

pub(crate) fn run(args: &Args) -> Outcome {
    let profile = args.under.profile()?;
    let load = load_of(args.rate, &profile, "latency is measured at a load")?;
    let chain = args.under.chain()?;
    let title = format!("Latency of {}: {}", chain.name, profile.title());
    let name = format!("{} at {}", chain.name, rate(load));
    let mut bench = args.common.begin(&title, args.folder.create()?)?;
    let mut device = bench.device(chain)?;
    let mut probing = args.probes.then(|| Probing::begin(&mut device, args.gap));
    let offer = bench.offer(Some(load), args.trial, args.samples);
    bench.baseline(&device, None, &profile, &offer)?;
    let mut trials = Vec::new();
    let mut cut = None;
    for trial in 0..args.trials {
        let share = f64::from(trial) / f64::from(args.trials.max(1));
        let text = format!("latency: trial {} of {}", trial + 1, args.trials);
        bench.progress.show(&text, share);
        match bench.measure(&mut device, &profile, &offer, &name)? {
            Measured::Valid(outcome) => {
                if let Some(probing) = &mut probing {
                    probing.take(&mut device, &outcome);
                }
                trials.push(*outcome);
            }
            Measured::GeneratorLimited => {
                cut = Some(format!("the generator does not sustain {}", rate(load)));
            }
            Measured::Invalid(why) => cut = Some(why),
            Measured::Interrupted => cut = Some("interrupted".to_owned()),
        }
        if cut.is_some() {
            break;
        }
    }
    if let Some(probing) = probing {
        probing.finish(&mut bench, &mut device, &profile, &name, cut.is_none())?;
    }
    let document = &mut bench.document;
    let result = pooled(&name, &trials);
    document.summary = format!(
        "{} Latency from the time each packet was due, one way on one clock, over {} trials of \
         {:?}.",
        headline(&result),
        trials.len(),
        args.trial
    );
    if trials.iter().any(|trial| trial.received.samples.is_empty()) {
        document.summary += " No packet came back in some trial.";
    }
    document.results.extend(rows(&result));
    let steadiness = steadiness(&trials);
    let (row, words) = steady_words(steadiness);
    document
        .results
        .push(("steady state".to_owned(), row.to_owned()));
    document.summary += words;
    let tagged = trials.iter().map(|trial| trial.received.samples.len());
    let stride = trials.iter().map(|trial| trial.received.stride).max();
    let tagged = tagged.min().unwrap_or(0);
    document.results.extend(standing::rows(
        trials.len(),
        args.trial,
        tagged,
        stride.unwrap_or(1),
    ));
    document.latency.push(result);
    if let Some(why) = &cut {
        document.summary += &format!(" Cut short: {why}.");
    }
    bench.finish(&device, args.common.json)?;
    match cut {
        None => Ok(ExitCode::SUCCESS),
        Some(why) => Err(Failure::running(format!(
            "the measurement was cut short: {why}; what was found is in the report"
        ))),
    }
}

/// All trials as one distribution. Trials are laid one after the other on the axis of time, with a
/// slice between them, so that no packet of one is a neighbour of another's and no stall reaches
/// over.
fn pooled(name: &str, trials: &[TrialOutcome]) -> LatencyResult {
    let (mut samples, mut flights, mut stalls) = (Vec::new(), Vec::new(), Vec::new());
    let mut slices = Vec::new();
    let mut offset = 0;
    for (index, trial) in (0_u64..).zip(trials) {
        let found = trial.samples();
        slices.extend(sliced(&found));
        let last = found.iter().map(|sample| sample.received_ns).max();
        samples.extend(found.into_iter().map(|sample| Sample {
            // Far from the numbers of the trial before.
            sequence: sample.sequence.wrapping_add(index << 61),
            intended_ns: sample.intended_ns + offset,
            sent_ns: sample.sent_ns + offset,
            received_ns: sample.received_ns + offset,
        }));
        flights.extend(trial.flights().into_iter().map(|mut flight| {
            flight.begin += offset;
            flight.end += offset;
            flight
        }));
        stalls.extend(trial.stalls().into_iter().map(|mut stall| {
            stall.begin += offset;
            stall.end += offset;
            stall
        }));
        offset += last.unwrap_or(0) + SLICE_NS;
    }
    let mut histogram = Histogram::new();
    slices.iter().for_each(|slice| histogram.merge(slice));
    LatencyResult {
        name: name.to_owned(),
        latency: Latency::of(Direction::OneWay, &samples),
        histogram,
        intervals_ns: quantile_intervals(&slices, &QUANTILES, &Resampling::with_block(BLOCK)),
        attribution: Some(Attribution::of(&flights, &stalls, &LOOPS, RECOVERY_NS)),
        over_time: trials.first().and_then(over_time),
    }
}

/// The numbers that most readers came for.
fn headline(result: &LatencyResult) -> String {
    let latency = &result.latency;
    let value = |ns: Option<i64>| ns.map_or_else(|| "n/a".to_owned(), |ns| time(ns as f64));
    let with_interval = |q: f64| {
        let mut intervals = result.intervals_ns.iter();
        let interval = intervals.find(|(of, _)| (of - q).abs() < 1e-9);
        let interval = interval.map_or_else(String::new, |(_, interval)| {
            let [low, high] = [interval.low, interval.high].map(time);
            format!(" (95 % interval {low} to {high})")
        });
        format!("{}{interval}", value(latency.delay.quantile(q)))
    };
    format!(
        "Median {}, p99 {}, PDV (RFC 8219) {}.",
        with_interval(0.5),
        with_interval(0.99),
        value(latency.pdv_rfc8219_ns)
    )
}

/// Whether what comes first in the trials differs from what comes later.
fn steadiness(trials: &[TrialOutcome]) -> Steadiness {
    let samples: Vec<_> = trials
        .iter()
        .map(|trial| {
            let length_ns = u64::try_from(trial.offer.duration.as_nanos()).unwrap_or(u64::MAX);
            (trial.samples(), length_ns)
        })
        .collect();
    steady::judge(
        samples
            .iter()
            .map(|(found, length_ns)| (found.as_slice(), *length_ns)),
    )
}

/// What is said of it: in its row, and in the summary.
const fn steady_words(steadiness: Steadiness) -> (&'static str, &'static str) {
    match steadiness {
        Steadiness::Steady => ("yes: no transient and no drift could be shown", ""),
        Steadiness::Transient => (
            "no: the beginning of the trials differs from the rest",
            " NOT STEADY: the beginning of the trials differs from the rest; lengthen --warmup.",
        ),
        Steadiness::Drift => (
            "no: delays rise or fall along the trials",
            " NOT STEADY: delays rise or fall along the trials; lengthen --trial, and look at the \
             machine.",
        ),
        Steadiness::TooFew => (
            "not known: give 3 trials or more, of 400 packets or more",
            "",
        ),
    }
}

/// A trial's delays in slices of time.
fn sliced(samples: &[Sample]) -> Vec<Histogram> {
    let mut slices = Vec::new();
    for sample in samples {
        let slice = (sample.intended_ns / SLICE_NS) as usize;
        if slices.len() <= slice {
            slices.resize_with(slice + 1, Histogram::new);
        }
        slices[slice].record(sample.delay_ns().max(0).cast_unsigned());
    }
    slices
}

/// The first trial as a map of delay over time.
fn over_time(trial: &TrialOutcome) -> Option<OverTime> {
    OverTime::of(&trial.samples(), &trial.stalls(), trial.offer.duration)
}

/// The numbers for people, each by the name of its definition.
fn rows(result: &LatencyResult) -> Vec<(String, String)> {
    let ns = |value: Option<f64>| value.map_or_else(|| "n/a".to_owned(), time);
    let whole = |value: Option<i64>| ns(value.map(|value| value as f64));
    let latency = &result.latency;
    let mut rows = vec![
        (
            "mean latency (after RFC 2544)".to_owned(),
            ns(latency.delay.mean_ns),
        ),
        (
            "typical latency, median (RFC 8219)".to_owned(),
            whole(latency.delay.quantile(0.5)),
        ),
        (
            "worst-case latency, p99.9 (RFC 8219)".to_owned(),
            whole(latency.delay.quantile(0.999)),
        ),
        (
            "PDV, p99.9 less least (RFC 8219)".to_owned(),
            whole(latency.pdv_rfc8219_ns),
        ),
        (
            "mean |IPDV| (RFC 3393)".to_owned(),
            ns(latency.ipdv_rfc3393.mean_absolute_ns),
        ),
        (
            "interarrival jitter (RFC 3550)".to_owned(),
            ns(latency.interarrival_jitter_rfc3550_ns),
        ),
    ];
    let line = |found: &Distribution| {
        let quantile = |q| whole(found.quantile(q));
        let (median, p99, p999) = (quantile(0.5), quantile(0.99), quantile(0.999));
        format!(
            "{} packets, p50 {median}, p99 {p99}, p99.9 {p999}, longest {}",
            found.count,
            whole(found.max_ns)
        )
    };
    rows.push((
        "latency from when the tester was ready".to_owned(),
        line(&latency.delay_from_sent),
    ));
    rows.push((
        "generator's lateness".to_owned(),
        line(&latency.tester_lateness),
    ));
    if let Some(attribution) = &result.attribution {
        rows.push(("raw".to_owned(), line(&attribution.raw)));
        rows.push((
            "held up by the tester".to_owned(),
            line(&attribution.stalled),
        ));
        rows.push(("clean".to_owned(), line(&attribution.clean)));
        rows.push((
            "net of the stalls' overlap".to_owned(),
            line(&attribution.net),
        ));
    }
    for (q, interval) in &result.intervals_ns {
        rows.push((
            format!("p{} with its 95 % interval", q * 100.0),
            format!(
                "{} ({} to {})",
                time(interval.estimate),
                time(interval.low),
                time(interval.high)
            ),
        ));
    }
    rows
}
