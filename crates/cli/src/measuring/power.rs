//! Power while packets moved, and throughput by power: from trials that count, for the report.

use catena_measure::device::Outcome as TrialOutcome;
use catena_measure::doctor::energy::gbps_per_watt;
use catena_measure::study::Record;

/// What trials that count moved, and what that took.
#[derive(Debug, Default)]
pub(super) struct Power {
    /// The reading of a wattmeter, which replaces the machine's own.
    watts: Option<f64>,
    bits: f64,
    joules: f64,
    seconds: f64,
    is_metered: bool,
}

impl Power {
    /// By the reading of a wattmeter, if there is one.
    pub(super) fn metered(watts: Option<f64>) -> Self {
        Self {
            watts,
            ..Self::default()
        }
    }

    /// Adds a trial that counts.
    pub(super) fn add(&mut self, outcome: &TrialOutcome, frame_len: f64) {
        let seconds = outcome.offer.duration.as_secs_f64();
        let own = outcome.energy.map(|energy| energy.watts());
        let bits = outcome.forwarded() as f64 * frame_len * 8.0;
        self.add_trial(self.watts.or(own), bits, seconds);
    }

    /// Adds a trial of a study, as its journal keeps it.
    pub(super) fn add_record(&mut self, record: &Record) {
        if let (Ok(found), Some(trial)) = (&record.result, record.attempts.last()) {
            let bits = found.forwarded as f64 * found.frame_len * 8.0;
            self.add_trial(found.watts, bits, trial.duration_s);
        }
    }

    fn add_trial(&mut self, watts: Option<f64>, bits: f64, seconds: f64) {
        let Some(watts) = watts else {
            return;
        };
        self.is_metered = true;
        self.bits += bits;
        self.joules += watts * seconds;
        self.seconds += seconds;
    }

    /// Power, and throughput by power, with what measured it.
    pub(super) fn rows(&self) -> Vec<(String, String)> {
        if !self.is_metered || self.seconds <= 0.0 {
            return Vec::new();
        }
        let watts = self.joules / self.seconds;
        let source = match self.watts {
            Some(_) => "as --watts says",
            None => "RAPL, packages only",
        };
        let per_watt = gbps_per_watt(self.bits / self.seconds, watts);
        let per_watt = per_watt.map_or_else(|| "n/a".to_owned(), |value| format!("{value:.4}"));
        vec![
            ("power".to_owned(), format!("{watts:.1} W ({source})")),
            ("Gbit/s per watt".to_owned(), per_watt),
        ]
    }
}
