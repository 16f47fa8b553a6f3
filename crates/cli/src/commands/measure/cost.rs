//! `catena measure cost`: what packets cost at steps of a load: core time, cycles, energy, and how
//! much of the time workers sleep.
//!
//! A step is trials at a share of the load. Core time is that of the device's workers while packets
//! count, whether they move packets or look for some: so a chain that polls costs the less per
//! packet the more packets there are, and one that sleeps costs about the same at each step.

use std::process::ExitCode;
use std::time::Duration;

use catena_engine::units::Rate;
use catena_measure::device::{Outcome as TrialOutcome, Spent};
use catena_measure::report::rate;
use catena_shm::tsc;

use super::{Common, Folder, Under, headline, load_of, parse_count};
use crate::commands::{Failure, Outcome};
use crate::measuring::bench::Measured;
use crate::quantity;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    under: Under,
    /// Load of the step of 100 %, as `measure search` finds it; without it, the profile's
    #[arg(long, value_name = "RATE", value_parser = quantity::rate)]
    rate: Option<Rate>,
    /// Steps, as shares of the load
    #[arg(long, value_name = "SHARE", value_delimiter = ',', default_value = "10%,30%,100%",
          value_parser = |text: &str| quantity::share(text, 0.001..=1.0))]
    steps: Vec<f64>,
    /// How long a trial is
    #[arg(long, value_name = "SPAN", default_value = "2s", value_parser = quantity::length)]
    trial: Duration,
    /// Number of trials of each step, each with the chain started anew
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = parse_count)]
    trials: u32,
    #[command(flatten)]
    folder: Folder,
    #[command(flatten)]
    common: Common,
}

/// To tell how fast the time stamp counter goes.
const CALIBRATION: Duration = Duration::from_millis(20);
/// Packets of a trial whose latency is kept: none is told.
const SAMPLES: usize = 2;

/// What trials at a step have found.
#[derive(Debug, Default)]
struct Step {
    forwarded: f64,
    intended: f64,
    seconds: f64,
    /// Packets that came back while workers were looked at.
    watched: f64,
    spent: Spent,
    /// Packets that came back for what was metered, and joules.
    metered: f64,
    joules: f64,
    /// Nanoseconds of core time for a packet, by trial.
    core_ns: Vec<f64>,
}

impl Step {
    fn add(&mut self, outcome: &TrialOutcome, watts: Option<f64>) {
        let seconds = outcome.offer.duration.as_secs_f64();
        let forwarded = outcome.forwarded() as f64;
        self.forwarded += forwarded;
        self.intended += outcome.intended() as f64;
        self.seconds += seconds;
        if let Some(spent) = outcome.spent {
            let span_s = spent.passed_ns / spent.workers.max(1) as f64 / 1e9;
            let watched = forwarded / seconds.max(1e-9) * span_s;
            self.watched += watched;
            if watched > 0.0 {
                self.core_ns.push(spent.ran_ns / watched);
            }
            self.spent += spent;
        }
        if let Some(watts) = watts.or(outcome.energy.map(|energy| energy.watts())) {
            self.metered += forwarded;
            self.joules += watts * seconds;
        }
    }

    /// Nanoseconds of core time for a packet.
    fn core_ns(&self) -> Option<f64> {
        (self.watched > 0.0).then(|| self.spent.ran_ns / self.watched)
    }

    fn packets_per_joule(&self) -> Option<f64> {
        (self.joules > 0.0).then(|| self.metered / self.joules)
    }

    /// In words, for a row of the report.
    fn words(&self, ns_per_tick: f64) -> String {
        let mut words = vec![format!(
            "{} forwarded",
            rate(self.forwarded / self.seconds.max(1e-9))
        )];
        let lost = self.intended - self.forwarded;
        if lost > 0.0 {
            words.push(format!("{lost:.0} lost"));
        }
        words.push(match self.core_ns() {
            Some(ns) => format!(
                "{ns:.1} ns of core time a packet, {:.0} cycles of the time stamp counter",
                ns / ns_per_tick
            ),
            None => UNKNOWN.to_owned(),
        });
        if let (Some(ran), Some(slept)) = (self.spent.ran_share(), self.spent.slept_share()) {
            let percent = |share: f64| format!("{:.1} %", share * 100.0);
            let workers = match self.spent.workers {
                1 => "its worker".to_owned(),
                count => format!("its {count} workers"),
            };
            words.push(format!(
                "{workers} on cores for {} of the time, asleep for {}",
                percent(ran),
                percent(slept)
            ));
        }
        if let Some(packets) = self.packets_per_joule() {
            words.push(format!("{packets:.0} packets a joule"));
        }
        words.join("; ")
    }
}

const UNKNOWN: &str = "core time not known: the device shares processes with the tester";

pub(crate) fn run(args: &Args) -> Outcome {
    let profile = args.under.profile()?;
    let load = load_of(args.rate, &profile, "a cost is measured at loads")?;
    let chain = args.under.chain()?;
    let title = format!("Cost of packets in {}: {}", chain.name, profile.title());
    let mut bench = args.common.begin(&title, args.folder.create()?)?;
    let mut device = bench.device(chain)?;
    let offer = bench.offer(Some(load), args.trial, SAMPLES);
    bench.baseline(&device, None, &profile, &offer)?;
    let ns_per_tick = tsc::ns_per_tick(CALIBRATION);
    let (mut cut, mut found) = (None, Vec::new());
    let all = args.steps.len() as u32 * args.trials;
    'steps: for (at, share) in (0..).zip(&args.steps) {
        let (pps, percent) = (load * share, share * 100.0);
        let name = format!("{} at {percent} %, {}", device.name(), rate(pps));
        let offer = bench.offer(Some(pps), args.trial, SAMPLES);
        let mut step = Step::default();
        for trial in 0..args.trials {
            let share = f64::from(at * args.trials + trial) / f64::from(all.max(1));
            let text = format!(
                "cost at {percent} %: trial {} of {}",
                trial + 1,
                args.trials
            );
            bench.progress.show(&text, share);
            cut = match bench.measure(&mut device, &profile, &offer, &name)? {
                Measured::Valid(outcome) => {
                    step.add(&outcome, args.common.watts);
                    None
                }
                Measured::GeneratorLimited => {
                    Some(format!("the generator does not sustain {}", rate(pps)))
                }
                Measured::Invalid(why) => Some(why),
                Measured::Interrupted => Some("interrupted".to_owned()),
            };
            if cut.is_some() {
                break 'steps;
            }
        }
        found.push((percent, step));
    }
    let document = &mut bench.document;
    for (percent, step) in &found {
        let row = format!("at {percent} % of {}", rate(load));
        document.results.push((row, step.words(ns_per_tick)));
        if let Some(value) = step.core_ns() {
            let name = format!("{percent} %");
            let value = headline::core_time_valued(&name, value, &step.core_ns);
            document.values.push(value);
        }
    }
    document.summary = summary(&found);
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

/// What the first step costs beside the last one.
fn summary(found: &[(f64, Step)]) -> String {
    let costs = found
        .iter()
        .map(|(percent, step)| (percent, step.core_ns()));
    let costs: Option<Vec<_>> = costs.map(|(percent, ns)| Some((percent, ns?))).collect();
    match costs.as_deref() {
        Some([(first, a), .., (last, b)]) => format!(
            "A packet costs {a:.1} ns of core time at {first} % of the load and {b:.1} ns at {last} %: \
             {:.2} times as much.",
            a / b
        ),
        Some([(only, ns)]) => format!("A packet costs {ns:.1} ns of core time at {only} %."),
        Some([]) => "No step was measured.".to_owned(),
        None => format!("The {UNKNOWN}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(packets: f64, ran_ns: f64, slept_ns: f64) -> Step {
        Step {
            forwarded: packets,
            intended: packets + 5.0,
            seconds: 1.0,
            watched: packets,
            spent: Spent {
                workers: 1,
                ran_ns,
                slept_ns,
                passed_ns: 1e9,
            },
            metered: packets,
            joules: 10.0,
            core_ns: vec![ran_ns / packets],
        }
    }

    #[test]
    fn a_step_says_what_its_packets_cost() {
        let words = step(1_000_000.0, 4e8, 6e8).words(0.5);
        for wanted in [
            "1.000 Mpps forwarded",
            "5 lost",
            "400.0 ns of core time a packet, 800 cycles",
            "its worker on cores for 40.0 % of the time, asleep for 60.0 %",
            "100000 packets a joule",
        ] {
            assert!(words.contains(wanted), "{words}: {wanted}");
        }
        assert!(Step::default().words(0.5).contains(UNKNOWN));
        let found = [(10.0, step(1e5, 1e9, 0.0)), (100.0, step(1e6, 1e9, 0.0))];
        let text = summary(&found);
        assert!(
            text.contains("10000.0 ns") && text.contains("10.00 times"),
            "{text}"
        );
        assert!(summary(&[]).contains("No step"));
    }
}
