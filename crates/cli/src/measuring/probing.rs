//! Probes in the trials of a measurement: their reports, and their cost.

use catena_engine::probe::{ProbeSettings, Tier};
use catena_measure::device::{Device, DeviceError, Outcome as TrialOutcome, TrialProfile};
use catena_measure::probes::ProbeReport;
use catena_measure::stats::mean;

use super::bench::Bench;
use super::probe_text;
use crate::commands::Failure;

/// What probes found so far.
#[derive(Debug)]
pub(crate) struct Probing {
    settings: ProbeSettings,
    reports: Vec<ProbeReport>,
}

impl Probing {
    /// From now on, packets are followed in trials of `device`, one in `gap`.
    pub(crate) fn begin(device: &mut Device, gap: u32) -> Self {
        let settings = ProbeSettings {
            tier: Tier::Sampled,
            gap,
            // The chain ends before.
            duration_ns: u64::MAX,
            marks: (0, 0),
        };
        device.set_probes(Some(settings));
        Self {
            settings,
            reports: Vec::new(),
        }
    }

    /// Takes what was found in the trial that has just ended, and holds it against the latency that
    /// was measured in it.
    pub(crate) fn take(&mut self, device: &mut Device, outcome: &TrialOutcome) {
        let measured_ns = measured_ns(outcome);
        self.reports
            .extend(device.take_probe_report().map(|mut report| {
                if let (Some(path), Some(measured_ns)) = (report.paths.first_mut(), measured_ns) {
                    path.blame = path.blame.clone().against(measured_ns);
                    path.by_kind = path.by_kind.clone().against(measured_ns);
                }
                report
            }));
    }

    /// Finds what the probes cost, unless the measurement was cut short, and adds everything to the
    /// document: the table of blame of each trial's most frequent path, and `probes.json`.
    pub(crate) fn finish(
        mut self,
        bench: &mut Bench,
        device: &mut Device,
        profile: &TrialProfile,
        name: &str,
        is_whole: bool,
    ) -> Result<(), Failure> {
        device.set_probes(None);
        if is_whole {
            bench.progress.show("cost of the probes", 1.0);
            match device.probe_tax(profile, self.settings, None, 1) {
                Ok(tax) => {
                    bench.document.probe_tax = Some(tax.comparison);
                    let share = tax.share() * 100.0;
                    let cost = format!("{share:+.2} % of throughput; {}", tax.describe());
                    let row = ("cost of the probes".to_owned(), cost);
                    bench.document.results.push(row);
                    for report in &mut self.reports {
                        report.tax = Some(tax);
                    }
                }
                Err(DeviceError::Interrupted) => {}
                Err(error) => {
                    let row = (
                        "cost of the probes".to_owned(),
                        format!("not found: {error}"),
                    );
                    bench.document.results.push(row);
                }
            }
        }
        for (index, report) in self.reports.iter().enumerate() {
            let trial = format!("{name}, trial {}", index + 1);
            if let Some(path) = report.paths.first() {
                bench
                    .document
                    .blame
                    .push((trial.clone(), path.blame.clone()));
            }
            bench
                .document
                .results
                .extend(probe_text::rows(&trial, report));
        }
        bench.output.write_probes(&self.reports)
    }
}

/// The mean latency of a trial as its tester measured it, apart from the probes.
pub(crate) fn measured_ns(outcome: &TrialOutcome) -> Option<f64> {
    let samples = outcome.samples();
    let delays = samples
        .iter()
        .map(|sample| sample.delay_from_sent_ns() as f64);
    mean(&delays.collect::<Vec<_>>())
}
