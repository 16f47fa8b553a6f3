//! `catena measure compare`: whether chain B differs from chain A.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use catena_engine::chain::{Mode, WaitChoice};
use catena_engine::units::Rate;
use catena_measure::compare::power::Power;
use catena_measure::compare::{Interleaving, Plan, Side, Verdict, firsts};
use catena_measure::device::{Device, Offer, Outcome as TrialOutcome, TrialProfile};
use catena_measure::stats::quantile::median;

use super::{Common, Folder, load_chain, load_profile, pps};
use crate::commands::{Failure, Outcome};
use crate::measuring::bench::{Bench, Measured};
use crate::measuring::settled;
use crate::quantity;

mod together;

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
    #[arg(long, value_name = "RATE", value_parser = quantity::rate)]
    rate: Option<Rate>,
    /// Keep both chains up and let them take turns in slices, instead of starting one for each
    /// trial; for rates, not for containers
    #[arg(long, conflicts_with = "rate")]
    together: bool,
    /// How long a trial is, or a slice of --together [default: 50ms, or 5ms]
    #[arg(long, value_name = "SPAN", value_parser = quantity::length)]
    trial: Option<Duration>,
    /// Pairs of trials; at least 100 [default: what --resolve needs, up to --within]
    #[arg(long, value_name = "COUNT")]
    pairs: Option<usize>,
    /// Difference that is to be seen in 4 of 5 cases, as a share; a few pairs that do not count say
    /// before the run how many it takes
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = parse_resolve)]
    resolve: f64,
    /// How long the pairs may take
    #[arg(long, value_name = "SPAN", default_value = "60s", value_parser = quantity::length)]
    within: Duration,
    /// Differences below this share do not matter
    #[arg(long, value_name = "SHARE", default_value = "1%",
          value_parser = |text: &str| quantity::share(text, 0.0..=1.0))]
    margin: f64,
    /// Decides the order of A and B
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Run nodes of both chains that name no mode in this one
    #[arg(long, value_name = "MODE", value_parser = crate::commands::run::parse_mode)]
    mode: Option<Mode>,
    #[command(flatten)]
    folder: Folder,
    #[command(flatten)]
    common: Common,
}

/// Chance of a verdict of difference between equals.
const FALSE_ALARMS: f64 = 0.05;
/// Length of a trial, unless told otherwise.
const TRIAL: Duration = Duration::from_millis(50);
/// Length of a trial without a device.
const BASELINE: Duration = Duration::from_millis(200);
/// Length of a slice, unless told otherwise.
const SLICE: Duration = Duration::from_millis(5);
/// Samples of latency in a trial: enough for a median.
const SAMPLES: usize = 1 << 16;
/// Share of a side's packets that may come in the other's turn without a word.
const STRAYS_MAX: f64 = 0.01;
/// Pairs of trials, and of slices, that say what the others are going to show.
const PILOT_TRIALS: usize = 10;
const PILOT_SLICES: usize = 100;

fn parse_resolve(text: &str) -> Result<f64, String> {
    match quantity::share(text, 0.0..=1.0) {
        Ok(share) if share > 0.0 && share < 1.0 => Ok(share),
        _ => Err("give a share above 0 and below 1, like 0.02".to_owned()),
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let profile = match &args.profile {
        Some(file) => load_profile(file)?,
        None => TrialProfile::empty().map_err(Failure::input)?,
    };
    let load = args.rate.map(|rate| pps(rate, &profile)).transpose()?;
    if let Some(pairs) = args.pairs {
        // Refused before anything starts.
        Interleaving::new(args.plan(pairs)).map_err(Failure::input)?;
    }
    let chains = [
        load_chain(&args.a, args.mode)?,
        load_chain(&args.b, args.mode)?,
    ];
    let title = format!("{} against {}", args.b.display(), args.a.display());
    let mut bench = args.common.begin(&title, args.folder.create()?)?;
    let names = names([&args.a, &args.b], [&chains[0].name, &chains[1].name]);
    let [a, b] = chains.map(|chain| bench.device(chain));
    let mut devices = [a?, b?];
    let cut = if args.together {
        together::together(&mut bench, &mut devices, &names, &profile, args)?
    } else {
        let offer = bench.offer(load, args.trial.unwrap_or(TRIAL), SAMPLES);
        baselines(&mut bench, &devices, None, &profile, load)?;
        in_turns(&mut bench, &mut devices, &names, &profile, &offer, args)?
    };
    if let Some(why) = &cut {
        bench.document.summary += &format!("No verdict, cut short: {why}.");
    }
    let [a, b] = &devices;
    let of = ["A", "B"].map(|side| side.to_owned());
    let [of_a, of_b] = [0, 1].map(|side| match &names[side] {
        name if *name == of[side] => format!("{name}: "),
        name => format!("{} ({name}): ", of[side]),
    });
    bench.finish_all(&[(a, &of_a), (b, &of_b)], args.common.json)?;
    match cut {
        None => Ok(ExitCode::SUCCESS),
        Some(why) => Err(Failure::running(format!("there is no verdict: {why}"))),
    }
}

/// Measures the tester without a device: at the load of the trials, in each mode that it has in the
/// two chains.
fn baselines(
    bench: &mut Bench,
    devices: &[Device; 2],
    wait: Option<WaitChoice>,
    profile: &TrialProfile,
    load: Option<f64>,
) -> Result<(), Failure> {
    let offer = bench.offer(load, BASELINE, SAMPLES);
    let [a, b] = devices;
    bench.baseline(a, wait, profile, &offer)?;
    if a.tester_mode() != b.tester_mode() {
        bench.baseline(b, wait, profile, &offer)?;
    }
    Ok(())
}

/// What the two chains are called: their names, or those of their files where both are called
/// alike, with folders where that takes them.
fn names(files: [&Path; 2], chains: [&str; 2]) -> [String; 2] {
    let last = files.map(|file| file.file_name().unwrap_or(file.as_os_str()));
    [
        chains.map(str::to_owned),
        last.map(|name| name.to_string_lossy().into_owned()),
        files.map(|file| file.display().to_string()),
    ]
    .into_iter()
    .find(|[a, b]| a != b)
    .unwrap_or_else(|| ["A", "B"].map(str::to_owned))
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

impl Args {
    const fn plan(&self, pairs: usize) -> Plan {
        Plan {
            pairs,
            false_alarms: FALSE_ALARMS,
            margin: self.margin,
            seed: self.seed,
        }
    }

    /// The plan of a comparison whose pairs differ as those of a pilot, of which each takes `pair`
    /// behind `left_out` that do not count; says before it is run what it will show.
    fn planned(&self, bench: &mut Bench, power: &Power, (pair, left_out): (Duration, u32)) -> Plan {
        let affordable = self.within.as_secs_f64() / pair.as_secs_f64().max(1e-6);
        let affordable = (affordable as usize).saturating_sub(left_out as usize);
        let plan = match self.pairs {
            Some(pairs) => self.plan(pairs),
            None => power.plan(self.resolve, affordable, self.margin, self.seed),
        };
        let text = power_text(power, &plan, self.resolve, (pair, pair * left_out));
        errln!("power: {text}");
        let row = "power, said before the run".to_owned();
        bench.document.results.push((row, text));
        plan
    }
}

/// What a plan will show, and what a difference of `resolve` would take where that is more; each
/// pair takes `pair`, and the warm-up `before`.
fn power_text(
    power: &Power,
    plan: &Plan,
    resolve: f64,
    (pair, before): (Duration, Duration),
) -> String {
    let seconds = |pairs: usize| (before + pair.mul_f64(pairs as f64)).as_secs_f64();
    let detectable = power.detectable(plan.pairs);
    let mut text = format!(
        "{} pairs, some {:.0} s, show differences from {:.2} % on in 4 of 5 cases",
        plan.pairs,
        seconds(plan.pairs),
        detectable * 100.0
    );
    if detectable > resolve * 1.001 {
        let needed = power.pairs_for(resolve);
        text += &format!(
            "; {:.2} % would take {needed} pairs, some {:.0} s, since the ratios of single pairs \
             spread by {:.1} %",
            resolve * 100.0,
            seconds(needed),
            power.deviation.exp_m1() * 100.0
        );
    }
    text
}

/// Runs one trial of a side; gives its value, or why there is none.
fn trial(
    bench: &mut Bench,
    device: &mut Device,
    profile: &TrialProfile,
    offer: &Offer,
    name: &str,
) -> Result<Result<f64, String>, Failure> {
    Ok(match bench.measure(device, profile, offer, name)? {
        Measured::Valid(outcome) => value(&outcome).map_err(|why| format!("{name}: {why}")),
        Measured::GeneratorLimited => Err("the generator does not sustain the load".to_owned()),
        Measured::Invalid(why) => Err(why),
        Measured::Interrupted => Err("interrupted".to_owned()),
    })
}

/// Runs a few pairs that do not count; gives their ratios and how long one took.
fn pilot(
    bench: &mut Bench,
    devices: &mut [Device; 2],
    names: &[String; 2],
    profile: &TrialProfile,
    offer: &Offer,
    seed: u64,
) -> Result<Result<(Vec<f64>, Duration), String>, Failure> {
    let mut ratios = Vec::new();
    let began = Instant::now();
    for (count, first) in firsts(!seed, PILOT_TRIALS).into_iter().enumerate() {
        let text = format!("pilot pair {} of {PILOT_TRIALS}", count + 1);
        bench.progress.show(&text, 0.0);
        let order = match first {
            Side::A => [0, 1],
            Side::B => [1, 0],
        };
        let mut values = [0.0; 2];
        for side in order {
            let name = format!("{}, pilot", names[side]);
            match trial(bench, &mut devices[side], profile, offer, &name)? {
                Ok(value) => values[side] = value,
                Err(why) => return Ok(Err(why)),
            }
        }
        ratios.push(values[1] / values[0]);
    }
    let pair = began.elapsed() / u32::try_from(PILOT_TRIALS).unwrap_or(1);
    Ok(Ok((ratios, pair)))
}

/// Runs the pairs; gives why it was cut short, if it was.
fn in_turns(
    bench: &mut Bench,
    devices: &mut [Device; 2],
    names: &[String; 2],
    profile: &TrialProfile,
    offer: &Offer,
    args: &Args,
) -> Result<Option<String>, Failure> {
    let what = if offer.load_pps.is_some() {
        "median latency"
    } else {
        "back-pressured capacity"
    };
    let (ratios, pair) = match pilot(bench, devices, names, profile, offer, args.seed)? {
        Ok(pilot) => pilot,
        Err(why) => return Ok(Some(why)),
    };
    let power = match Power::of(&ratios, FALSE_ALARMS) {
        Ok(power) => power,
        Err(error) => return Ok(Some(error.to_string())),
    };
    let plan = args.planned(bench, &power, (pair, 0));
    let pairs = plan.pairs;
    let mut interleaving = Interleaving::new(plan).map_err(Failure::input)?;
    let mut count = 0_usize;
    while let Some(side) = interleaving.next() {
        let share = count as f64 / (2 * pairs) as f64;
        let text = format!("pair {} of {pairs}", count / 2 + 1);
        bench.progress.show(&text, share);
        let side = match side {
            Side::A => 0,
            Side::B => 1,
        };
        let (device, name) = (&mut devices[side], &names[side]);
        let value = match trial(bench, device, profile, offer, name)? {
            Ok(value) => value,
            Err(why) => return Ok(Some(why)),
        };
        interleaving
            .report(value)
            .map_err(|error| Failure::running(format!("{name}: {error}")))?;
        count += 1;
    }
    describe(bench, &interleaving, names, what)
}

/// Puts the verdict into the document; gives why there is none, if so.
fn describe(
    bench: &mut Bench,
    interleaving: &Interleaving,
    [a, b]: &[String; 2],
    what: &str,
) -> Result<Option<String>, Failure> {
    let Some(found) = interleaving.result() else {
        return Ok(Some("no pair was measured".to_owned()));
    };
    let verdict = match found.verdict {
        Verdict::Higher => format!("{b} is higher than {a}"),
        Verdict::Lower => format!("{b} is lower than {a}"),
        Verdict::Same => format!("{b} is the same as {a} within the margin"),
        Verdict::Inconclusive => "no difference could be shown, nor its absence".to_owned(),
    };
    let (steady, words) = settled::words("the ratio", interleaving.change().as_ref());
    bench
        .document
        .results
        .push(("steady state".to_owned(), steady));
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    let ratio = &found.ratio;
    bench.document.summary = format!(
        "{b} is {:+.2} % from {a} ({:.0} % interval {:+.2} to {:+.2} %) in {what}: {verdict}. \
         Over {} pairs; these data would have shown {:.2} %.{words}",
        percent(ratio.estimate),
        ratio.confidence * 100.0,
        percent(ratio.low),
        percent(ratio.high),
        found.pairs,
        found.detectable * 100.0
    );
    let name = format!("{what}: {b} over {a}");
    let found_row = format!(
        "{:.4} ({:.0} % interval {:.4} to {:.4})",
        ratio.estimate,
        ratio.confidence * 100.0,
        ratio.low,
        ratio.high
    );
    // What was asked for stands in front of what was said on the way to it.
    bench.document.results.insert(0, (name.clone(), found_row));
    bench.document.comparisons.push((name, *found));
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is promised before the run is what it takes: pairs and warm-up, none of them spared.
    #[test]
    fn the_time_that_is_promised_has_the_warm_up() {
        let power = Power {
            deviation: 0.1,
            pilot_pairs: 100,
            false_alarms: FALSE_ALARMS,
        };
        let plan = power.plan(0.02, 300, 0.01, 1);
        let times = (Duration::from_millis(10), Duration::from_secs(2));
        let text = power_text(&power, &plan, 0.02, times);
        assert!(
            text.starts_with("300 pairs, some 5 s, show differences"),
            "{text}"
        );
        let needed = power.pairs_for(0.02);
        let more = format!(
            "would take {needed} pairs, some {:.0} s",
            2.0 + needed as f64 / 100.0
        );
        assert!(text.contains(&more), "{text}");
    }

    #[test]
    fn chains_are_called_by_their_names_or_those_of_their_files() {
        for (files, chains, expected) in [
            (["a.yaml", "b.yaml"], ["old", "new"], ["old", "new"]),
            (["x/a.yaml", "y/b.yaml"], ["web"; 2], ["a.yaml", "b.yaml"]),
            (
                ["x/a.yaml", "y/a.yaml"],
                ["web"; 2],
                ["x/a.yaml", "y/a.yaml"],
            ),
            (["a.yaml", "a.yaml"], ["web"; 2], ["A", "B"]),
        ] {
            assert_eq!(names(files.map(Path::new), chains), expected);
        }
    }
}
