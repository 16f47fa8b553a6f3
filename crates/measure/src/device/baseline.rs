//! The tester measured by itself, in a trial without a device: what it adds to every result.
//!
//! Nothing of it is subtracted. A latency through a device holds the tester's own, so that ratios
//! of latencies are drawn towards 1; a rate cannot be above what the tester sustains, and where
//! tester and device share a loop the tester's time is part of every packet's.

use catena_engine::chain::Mode;
use serde::{Deserialize, Serialize};

use super::outcome::Outcome;
use crate::latency::{Direction, Latency};
use crate::report::units::{rate, time};

/// A trial of the tester without a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// How generator and receiver ran: `inline`, `thread` or `process`.
    pub mode: String,
    /// Offered load, packets per second; none at the highest.
    pub load_pps: Option<f64>,
    /// What it gave, or why it says nothing.
    pub found: Result<Own, String>,
}

/// What the tester does without a device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Own {
    /// Packets that should have been offered.
    pub intended: u64,
    /// Packets that came back.
    pub forwarded: u64,
    /// Packets per second that came back.
    pub rate_pps: f64,
    /// Median of the delay from intended sending, ns.
    pub p50_ns: Option<f64>,
    /// 99th percentile of it, if there are enough samples.
    pub p99_ns: Option<f64>,
    /// Longest.
    pub max_ns: Option<f64>,
    /// 99th percentile of the generator's lateness alone.
    pub late_p99_ns: Option<f64>,
}

/// What was measured with a device, against which the tester's own part is held.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Extremes {
    /// Least median of latency, ns.
    pub p50_ns: Option<f64>,
    /// Highest rate without a load, packets per second.
    pub rate_pps: Option<f64>,
    /// Largest error of the offered load, as a share, of trials at a load.
    pub load_error: Option<f64>,
}

impl Extremes {
    /// With a further median of latency.
    pub fn add_median(&mut self, ns: f64) {
        self.p50_ns = Some(self.p50_ns.map_or(ns, |least| least.min(ns)));
    }

    /// With a further rate.
    pub fn add_rate(&mut self, pps: f64) {
        self.rate_pps = Some(self.rate_pps.map_or(pps, |most| most.max(pps)));
    }
}

impl Baseline {
    /// Of a trial without a device.
    pub fn of(mode: Mode, outcome: &Outcome) -> Self {
        let latency = Latency::of(Direction::OneWay, &outcome.samples());
        let ns = |value: Option<i64>| value.map(|ns| ns as f64);
        let found = match outcome.fate().name() {
            Some(why) => Err(why),
            None => Ok(Own {
                intended: outcome.intended(),
                forwarded: outcome.forwarded(),
                rate_pps: outcome.forwarding_rate_pps(),
                p50_ns: ns(latency.delay.quantile(0.5)),
                p99_ns: ns(latency.delay.quantile(0.99)),
                max_ns: ns(latency.delay.max_ns),
                late_p99_ns: ns(latency.tester_lateness.quantile(0.99)),
            }),
        };
        Self::new(mode, outcome.offer.load_pps, found)
    }

    /// One that ended so.
    pub fn new(mode: Mode, load_pps: Option<f64>, found: Result<Own, String>) -> Self {
        Self {
            mode: format!("{mode:?}").to_lowercase(),
            load_pps,
            found,
        }
    }

    /// What it is one of: trials alike are told together.
    fn is_like(&self, other: &Self) -> bool {
        self.mode == other.mode && self.load_pps == other.load_pps
    }

    fn place(&self) -> String {
        let load = self
            .load_pps
            .map_or_else(|| "the highest load".to_owned(), rate);
        format!("mode {} at {load}", self.mode)
    }
}

/// Trials alike, as one.
struct Group<'a> {
    first: &'a Baseline,
    found: Vec<Own>,
    why: Option<&'a str>,
}

/// The middle one of what is known.
fn middle(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    crate::stats::quantile::median(&values.flatten().collect::<Vec<_>>())
}

fn ns(value: Option<f64>) -> String {
    value.map_or_else(|| "n/a".to_owned(), time)
}

impl Group<'_> {
    fn of(baselines: &[Baseline]) -> Vec<Group<'_>> {
        let mut groups: Vec<Group<'_>> = Vec::new();
        for one in baselines {
            let at = groups.iter().position(|group| group.first.is_like(one));
            let at = at.unwrap_or_else(|| {
                groups.push(Group {
                    first: one,
                    found: Vec::new(),
                    why: None,
                });
                groups.len() - 1
            });
            match &one.found {
                Ok(found) => groups[at].found.push(*found),
                Err(why) => groups[at].why = Some(why),
            }
        }
        groups
    }

    fn p50_ns(&self) -> Option<f64> {
        middle(self.found.iter().map(|own| own.p50_ns))
    }

    fn rate_pps(&self) -> Option<f64> {
        middle(self.found.iter().map(|own| Some(own.rate_pps)))
    }

    fn lost(&self) -> (u64, u64) {
        let intended: u64 = self.found.iter().map(|own| own.intended).sum();
        let forwarded: u64 = self.found.iter().map(|own| own.forwarded).sum();
        (intended.saturating_sub(forwarded), intended)
    }

    /// What the tester did.
    fn own(&self) -> String {
        if self.found.is_empty() {
            let why = self.why.unwrap_or("no trial");
            return format!("{}: not known: {why}", self.first.place());
        }
        let trials = match self.found.len() {
            1 => "one trial".to_owned(),
            count => format!("{count} trials"),
        };
        let what = if self.first.load_pps.is_none() {
            format!(
                "{} come back",
                self.rate_pps().map_or_else(|| "n/a".to_owned(), rate)
            )
        } else {
            let (lost, intended) = self.lost();
            let longest = self.found.iter().filter_map(|own| own.max_ns);
            let longest = longest.reduce(f64::max);
            format!(
                "p50 {}, p99 {}, longest {}, of which the generator's lateness is p99 {}; {lost} \
                 of {intended} packets lost",
                ns(self.p50_ns()),
                ns(middle(self.found.iter().map(|own| own.p99_ns))),
                ns(longest),
                ns(middle(self.found.iter().map(|own| own.late_p99_ns))),
            )
        };
        format!(
            "{}: {what}, in {trials} without a device",
            self.first.place()
        )
    }

    /// What of a result is the tester's.
    fn bias(&self, measured: &Extremes) -> Option<String> {
        let place = self.first.place();
        if self.first.load_pps.is_none() {
            let own = self.rate_pps()?;
            if self.first.mode == "inline" {
                // One loop: the device's packets wait for the tester's work.
                return Some(format!(
                    "{place}: the tester's {} a packet are in every rate, which draws ratios of \
                     rates towards 1",
                    time(1e9 / own.max(1e-9))
                ));
            }
            let share = measured.rate_pps.map_or_else(String::new, |rate| {
                format!("; the highest here is {:.0} % of that", 100.0 * rate / own)
            });
            return Some(format!("{place}: no rate above {} shows{share}", rate(own)));
        }
        let own = self.p50_ns();
        let (lost, _) = self.lost();
        let share = own
            .zip(measured.p50_ns)
            .map_or_else(String::new, |(own, all)| {
                format!(
                    ", at most {:.0} % of a median here",
                    100.0 * own / all.max(1e-9)
                )
            });
        let latency = own.map(|own| {
            format!(
                "{place}: latencies hold {} of the tester{share}, which draws their ratios \
                 towards 1",
                time(own)
            )
        });
        let loss = (lost > 0).then(|| format!("{place}: the tester loses packets by itself"));
        let all: Vec<_> = latency.into_iter().chain(loss).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

/// What the tester does without a device, and by what that biases the results: rows of a report.
/// None where it was not measured by itself.
pub fn rows(baselines: &[Baseline], measured: &Extremes) -> Vec<(String, String)> {
    if baselines.is_empty() {
        return Vec::new();
    }
    let groups = Group::of(baselines);
    let own: Vec<_> = groups.iter().map(Group::own).collect();
    let biases = groups.iter().filter_map(|group| group.bias(measured));
    let mut biases: Vec<_> = biases.collect();
    if biases.is_empty() {
        biases.push("not known: the tester's own baseline gave nothing".to_owned());
    }
    if let Some(error) = measured.load_error {
        biases.push(format!(
            "the offered load was off by at most {:.3} %",
            error.abs() * 100.0
        ));
    }
    [
        ("tester's own baseline", own.join("; ") + "; not subtracted"),
        ("bias", biases.join("; ")),
    ]
    .map(|(name, text)| (name.to_owned(), text))
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(p50_ns: f64, rate_pps: f64, forwarded: u64) -> Own {
        Own {
            intended: 1000,
            forwarded,
            rate_pps,
            p50_ns: Some(p50_ns),
            p99_ns: Some(p50_ns * 2.0),
            max_ns: Some(p50_ns * 4.0),
            late_p99_ns: Some(500.0),
        }
    }

    fn baseline(mode: &str, load_pps: Option<f64>, found: Result<Own, String>) -> Baseline {
        Baseline {
            mode: mode.to_owned(),
            load_pps,
            found,
        }
    }

    fn text(baselines: &[Baseline], measured: &Extremes) -> [String; 2] {
        let rows = rows(baselines, measured);
        assert_eq!(rows[0].0, "tester's own baseline");
        assert_eq!(rows[1].0, "bias");
        [rows[0].1.clone(), rows[1].1.clone()]
    }

    #[test]
    fn trials_alike_are_one_and_the_tester_s_share_of_a_median_is_told() {
        let at = |p50, forwarded| baseline("process", Some(1e4), Ok(own(p50, 1e4, forwarded)));
        let mut measured = Extremes {
            load_error: Some(-0.001),
            ..Extremes::default()
        };
        measured.add_median(9000.0);
        measured.add_median(4000.0);
        let all = [at(1000.0, 1000), at(3000.0, 990), at(2000.0, 1000)];
        let [own, bias] = text(&all, &measured);
        assert_eq!(
            own,
            "mode process at 10.00 kpps: p50 2.00 us, p99 4.00 us, longest 12.0 us, of which the \
             generator's lateness is p99 500 ns; 10 of 3000 packets lost, in 3 trials without a \
             device; not subtracted"
        );
        for part in [
            "latencies hold 2.00 us of the tester, at most 50 % of a median here",
            "the tester loses packets by itself",
            "off by at most 0.100 %",
        ] {
            assert!(bias.contains(part), "{part}: {bias}");
        }
    }

    #[test]
    fn rates_have_a_bound_where_loops_are_apart_and_a_price_where_they_are_one() {
        let mut measured = Extremes::default();
        measured.add_rate(4e6);
        let max = |mode| baseline(mode, None, Ok(own(0.0, 5e6, 1000)));
        let [own, bias] = text(&[max("process"), max("inline")], &measured);
        assert!(
            own.contains("mode process at the highest load: 5.000 Mpps come back"),
            "{own}"
        );
        assert!(
            bias.contains("no rate above 5.000 Mpps shows; the highest here is 80 % of that")
                && bias.contains("mode inline at the highest load: the tester's 200 ns a packet"),
            "{bias}"
        );
    }

    #[test]
    fn what_is_not_known_is_said_to_be_so() {
        let failed = baseline("thread", Some(1e3), Err("disturbed: Steal".to_owned()));
        let [own, bias] = text(std::slice::from_ref(&failed), &Extremes::default());
        assert!(own.contains("not known: disturbed: Steal"), "{own}");
        assert!(bias.starts_with("not known"), "{bias}");
        assert!(rows(&[], &Extremes::default()).is_empty());
        let json = serde_json::to_string(&failed).unwrap();
        assert_eq!(serde_json::from_str::<Baseline>(&json).unwrap(), failed);
    }
}
