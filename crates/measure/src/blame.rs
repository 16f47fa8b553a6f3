//! Blame: which component of a path takes the time, in the mean, in the tail and in the variation.
//!
//! Probes in the path give for each traced packet the time it spent in each component (ring wait,
//! copy, network function and so on) and, measured apart, its whole residence. Shares are:
//!
//! - *mean*: the component's mean over the mean residence;
//! - *p99*: over packets at or above the 99th percentile, by how much the component exceeds its
//!   value in median packets, over by how much the residence does;
//! - *variance*: cov(component, residence) / var(residence), which adds up to one.
//!
//! What components do not explain is a component of its own, [`UNATTRIBUTED`], so that each kind of
//! share adds up to one and a gap between probes cannot hide.

use serde::{Deserialize, Serialize};

use crate::stats::mean;
use crate::stats::quantile;

/// Name of what no component accounts for.
pub const UNATTRIBUTED: &str = "unattributed";

/// Name of what a packet's latency has beyond its residence between the first and the last probe.
pub const OUTSIDE: &str = "outside residence";
/// A part of the latency that lies outside the residence and is not remarkable.
pub const OUTSIDE_MAX: f64 = 0.1;

/// One traced packet.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Time in each component, in the order of their names, in ns.
    pub parts_ns: Vec<f64>,
    /// Whole residence, by the first and the last stamp, in ns.
    pub residence_ns: f64,
}

/// Shares of one component.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// Its name.
    pub component: String,
    /// Its mean, in ns.
    pub mean_ns: f64,
    /// Its share of the mean residence.
    pub of_mean: f64,
    /// Its share of what slow packets take longer; `None` with too few packets for a p99.
    pub of_p99: Option<f64>,
    /// Its share of the variance of residence; `None` if residence does not vary.
    pub of_variance: Option<f64>,
    /// Cycles of user space in it, mean over the packets where they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles: Option<f64>,
    /// Instructions likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<f64>,
}

/// Cycles and instructions of a packet's burst in a component, where they were counted.
pub type PartCount = Option<(f64, f64)>;

/// The blame table of a path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Blame {
    /// One row for each component, [`UNATTRIBUTED`] last.
    pub shares: Vec<Share>,
    /// Number of traces.
    pub traces: u64,
    /// Mean residence, in ns.
    pub residence_ns: f64,
    /// Sum-closure: mean absolute difference of residence and the sum of components, as a share of
    /// the mean residence.
    pub closure_error: f64,
}

/// Components must explain residence to this share, or the probes are wrong.
pub const CLOSURE_ERROR_MAX: f64 = 0.01;
/// Occupancy by counting and by Little's law may differ by this share.
pub const LITTLE_ERROR_MAX: f64 = 0.05;

/// Why traces give no blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlameError {
    /// Nothing to compute from.
    #[error("no packet was traced; trace longer, or more packets")]
    NoTrace,
    /// Traces of another path.
    #[error("trace {index} has {found} parts for {components} components")]
    Parts {
        /// Number of the trace.
        index: usize,
        /// Parts in it.
        found: usize,
        /// Components named.
        components: usize,
    },
    /// A value that cannot be.
    #[error("trace {index} has a time that is not finite; was a stamp missing?")]
    NotFinite {
        /// Number of the trace.
        index: usize,
    },
}

impl Blame {
    /// Computes the table.
    ///
    /// # Errors
    ///
    /// No traces, or traces that do not fit the components.
    pub fn of(components: &[&str], traces: &[Trace]) -> Result<Self, BlameError> {
        check(components.len(), traces)?;
        let residence: Vec<_> = traces.iter().map(|trace| trace.residence_ns).collect();
        let columns = columns(components.len(), traces);
        let names = components.iter().copied().chain([UNATTRIBUTED]);
        let residence_mean = mean(&residence).unwrap_or(0.0);
        let tail = Tail::of(&residence);
        let variance = covariance(&residence, &residence);
        let shares = names.zip(&columns).map(|(component, column)| {
            let mean_ns = mean(column).unwrap_or(0.0);
            Share {
                component: component.to_owned(),
                mean_ns,
                of_mean: ratio(mean_ns, residence_mean).unwrap_or(0.0),
                of_p99: tail
                    .as_ref()
                    .and_then(|tail| tail.share(column, &residence)),
                of_variance: ratio(covariance(column, &residence), variance),
                cycles: None,
                instructions: None,
            }
        });
        let shares = shares.collect();
        let unexplained = columns.last().into_iter().flatten().map(|rest| rest.abs());
        let closure = unexplained.sum::<f64>() / traces.len() as f64;
        Ok(Self {
            shares,
            traces: traces.len() as u64,
            residence_ns: residence_mean,
            closure_error: ratio(closure, residence_mean).unwrap_or(0.0),
        })
    }

    /// The same table held against the mean latency that was measured at both ends, apart from the
    /// probes: what they do not see, before the first and behind the last of them, is a row of its
    /// own, and shares of the mean are shares of that latency. Components and residence alone add
    /// up by construction, whatever they miss.
    #[must_use]
    pub fn against(mut self, measured_ns: f64) -> Self {
        if !(measured_ns.is_finite() && measured_ns > 0.0) {
            return self;
        }
        for share in &mut self.shares {
            share.of_mean = share.mean_ns / measured_ns;
        }
        let outside_ns = measured_ns - self.residence_ns;
        self.shares.push(Share {
            component: OUTSIDE.to_owned(),
            mean_ns: outside_ns,
            of_mean: outside_ns / measured_ns,
            of_p99: None,
            of_variance: None,
            cycles: None,
            instructions: None,
        });
        self
    }

    /// The part of the measured latency that lies outside the residence, if it was held against
    /// one; below 0 if packets that were followed stayed longer than all did.
    pub fn outside(&self) -> Option<f64> {
        let mut shares = self.shares.iter();
        let outside = shares.find(|share| share.component == OUTSIDE)?;
        Some(outside.of_mean)
    }

    /// The same table with what the processor counted: for each trace, in each component.
    #[must_use]
    pub fn with_counts(mut self, counts: &[Vec<PartCount>]) -> Self {
        for (component, share) in self.shares.iter_mut().enumerate() {
            let of_trace = |trace: &Vec<PartCount>| trace.get(component).copied().flatten();
            let found: Vec<_> = counts.iter().filter_map(of_trace).collect();
            let mean_of = |which: fn(&(f64, f64)) -> f64| {
                let values: Vec<_> = found.iter().map(which).collect();
                mean(&values)
            };
            share.cycles = mean_of(|found| found.0);
            share.instructions = mean_of(|found| found.1);
        }
        self
    }

    /// Whether any component has cycles and instructions.
    pub fn has_counts(&self) -> bool {
        self.shares.iter().any(|share| share.cycles.is_some())
    }

    /// Whether components add up to residence, as they must.
    pub fn closes(&self) -> bool {
        self.closure_error <= CLOSURE_ERROR_MAX
    }

    /// The component whose mean grew most since `before`, and by how many ns: what to look at when
    /// something was changed. `None` if nothing grew.
    pub fn grown_since(&self, before: &Self) -> Option<(&str, f64)> {
        let growth = self.shares.iter().filter_map(|share| {
            let mut known = before.shares.iter();
            let earlier = known.find(|earlier| earlier.component == share.component);
            let grown = share.mean_ns - earlier.map_or(0.0, |earlier| earlier.mean_ns);
            (grown > 0.0).then_some((share.component.as_str(), grown))
        });
        growth.max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

fn check(components: usize, traces: &[Trace]) -> Result<(), BlameError> {
    if traces.is_empty() {
        return Err(BlameError::NoTrace);
    }
    for (index, trace) in traces.iter().enumerate() {
        let found = trace.parts_ns.len();
        if found != components {
            return Err(BlameError::Parts {
                index,
                found,
                components,
            });
        }
        let mut times = trace.parts_ns.iter().chain([&trace.residence_ns]);
        if !times.all(|time| time.is_finite()) {
            return Err(BlameError::NotFinite { index });
        }
    }
    Ok(())
}

/// Values by component, and what they leave of the residence.
fn columns(components: usize, traces: &[Trace]) -> Vec<Vec<f64>> {
    let part = |component| {
        traces
            .iter()
            .map(move |trace: &Trace| trace.parts_ns[component])
    };
    let rest = traces
        .iter()
        .map(|trace| trace.residence_ns - trace.parts_ns.iter().sum::<f64>());
    let parts = (0..components).map(|component| part(component).collect());
    parts.chain([rest.collect()]).collect()
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

fn covariance(a: &[f64], b: &[f64]) -> f64 {
    let (mean_a, mean_b) = (mean(a).unwrap_or(0.0), mean(b).unwrap_or(0.0));
    let products = a.iter().zip(b).map(|(x, y)| (x - mean_a) * (y - mean_b));
    products.sum::<f64>() / a.len().max(1) as f64
}

/// Which packets are slow, and which are ordinary: the tenth around the median.
struct Tail {
    slow: Vec<usize>,
    ordinary: Vec<usize>,
}

impl Tail {
    fn of(residence: &[f64]) -> Option<Self> {
        let count = residence.len();
        if !quantile::is_enough(count as u64, 0.99) {
            return None;
        }
        let mut order: Vec<_> = (0..count).collect();
        order.sort_by(|a, b| residence[*a].total_cmp(&residence[*b]));
        Some(Self {
            slow: order[quantile::rank(count, 0.99)..].to_vec(),
            ordinary: order[count * 45 / 100..count * 55 / 100].to_vec(),
        })
    }

    fn excess(&self, values: &[f64]) -> f64 {
        let average = |indices: &[usize]| {
            let sum: f64 = indices.iter().map(|index| values[*index]).sum();
            sum / indices.len().max(1) as f64
        };
        average(&self.slow) - average(&self.ordinary)
    }

    fn share(&self, column: &[f64], residence: &[f64]) -> Option<f64> {
        ratio(self.excess(column), self.excess(residence))
    }
}

/// Little's law for one ring: mean occupancy is arrival rate times mean residence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LittleCheck {
    /// Occupancy as counted, in packets.
    pub counted: f64,
    /// Occupancy as rate and residence imply.
    pub implied: f64,
    /// Their difference as a share of the larger one.
    pub error: f64,
}

impl LittleCheck {
    /// Compares occupancy as counted at the ring with rate (packets/s) times residence (ns).
    pub fn of(mean_occupancy: f64, rate_pps: f64, mean_residence_ns: f64) -> Self {
        let implied = rate_pps * mean_residence_ns * 1e-9;
        let larger = mean_occupancy.abs().max(implied.abs());
        Self {
            counted: mean_occupancy,
            implied,
            error: ratio((mean_occupancy - implied).abs(), larger).unwrap_or(0.0),
        }
    }

    /// Whether the probes agree with themselves.
    pub fn holds(&self) -> bool {
        self.error <= LITTLE_ERROR_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::random::Random;

    const COMPONENTS: [&str; 4] = ["ring wait", "copy", "nf", "wake-up"];

    /// Traces with exponential-like noise in every component and a delay added to one.
    fn traces(seed: u64, delayed: Option<usize>) -> Vec<Trace> {
        let mut random = Random::new(seed);
        let trace = |_| {
            let mut parts_ns: Vec<_> = [400.0, 120.0, 300.0, 900.0]
                .iter()
                .map(|scale| scale * (0.5 - (1.0 - random.unit()).ln()))
                .collect();
            if let Some(component) = delayed {
                parts_ns[component] += 500.0;
            }
            let residence_ns = parts_ns.iter().sum::<f64>() + 2.0 * random.unit();
            Trace {
                parts_ns,
                residence_ns,
            }
        };
        (0..2000).map(trace).collect()
    }

    /// Goal: a delay of 500 ns lands on its component in 95 of 100 runs.
    #[test]
    fn an_added_delay_is_blamed_on_its_component() {
        let is_right = |run: &u64| {
            let component = (*run % 4) as usize;
            let before = Blame::of(&COMPONENTS, &traces(run * 2, None)).unwrap();
            let after = Blame::of(&COMPONENTS, &traces(run * 2 + 1, Some(component))).unwrap();
            let (name, grown) = after.grown_since(&before).unwrap();
            name == COMPONENTS[component] && (grown - 500.0).abs() < 100.0
        };
        let right = (0..100).filter(is_right).count();
        assert!(right >= 95, "{right} of 100");
    }

    #[test]
    fn each_kind_of_share_adds_up_to_one() {
        let blame = Blame::of(&COMPONENTS, &traces(1, None)).unwrap();
        assert!(blame.closes());
        let sum = |of: fn(&Share) -> Option<f64>| blame.shares.iter().filter_map(of).sum::<f64>();
        for total in [
            sum(|share| Some(share.of_mean)),
            sum(|share| share.of_p99),
            sum(|share| share.of_variance),
        ] {
            assert!((total - 1.0).abs() < 1e-9, "{total}");
        }
        let wake_up = &blame.shares[3];
        assert!(wake_up.of_variance.unwrap() > 0.6 && wake_up.of_p99.unwrap() > 0.6);
    }

    #[test]
    fn counts_are_means_of_where_something_was_counted() {
        let packets = traces(1, None);
        let mut counts = vec![vec![None; COMPONENTS.len()]; packets.len()];
        counts[0][2] = Some((300.0, 900.0));
        counts[7][2] = Some((100.0, 700.0));
        let blame = Blame::of(&COMPONENTS, &packets).unwrap();
        assert!(!blame.has_counts());
        let blame = blame.with_counts(&counts);
        let (wait, nf) = (&blame.shares[0], &blame.shares[2]);
        assert!(blame.has_counts());
        assert_eq!((nf.cycles, nf.instructions), (Some(200.0), Some(800.0)));
        assert_eq!((wait.cycles, wait.instructions), (None, None));
    }

    #[test]
    fn a_gap_between_probes_is_seen() {
        let mut packets = traces(1, None);
        for packet in &mut packets {
            packet.residence_ns += 100.0;
        }
        let blame = Blame::of(&COMPONENTS, &packets).unwrap();
        assert!(!blame.closes(), "{}", blame.closure_error);
        let last = blame.shares.last().unwrap();
        assert_eq!(last.component, UNATTRIBUTED);
        assert!((last.mean_ns - 101.0).abs() < 1.0);
    }

    #[test]
    fn few_or_wrong_traces_say_so() {
        assert_eq!(Blame::of(&COMPONENTS, &[]), Err(BlameError::NoTrace));
        let mut packets = traces(1, None);
        let few = Blame::of(&COMPONENTS, &packets[..999]).unwrap();
        assert_eq!(few.shares[0].of_p99, None);
        packets[3].parts_ns.pop();
        let error = Blame::of(&COMPONENTS, &packets).unwrap_err();
        assert_eq!(error.to_string(), "trace 3 has 3 parts for 4 components");
        packets[1].residence_ns = f64::NAN;
        let error = Blame::of(&COMPONENTS, &packets).unwrap_err();
        assert_eq!(error, BlameError::NotFinite { index: 1 });
    }

    /// Goal: the law holds on a queue and fails on a wrong probe. Method: a single server at 80 %
    /// load by Lindley's recursion; occupancy is the area under arrivals less departures.
    #[test]
    fn littles_law_holds_on_a_queue() {
        let mut random = Random::new(5);
        let (mut now, mut free_at, mut residence) = (0.0f64, 0.0f64, 0.0);
        let count = 20_000;
        for _ in 0..count {
            now += -(1.0 - random.unit()).ln() * 100.0;
            free_at = free_at.max(now) + 80.0;
            residence += free_at - now;
        }
        let duration_ns = free_at;
        let occupancy = residence / duration_ns;
        let rate_pps = f64::from(count) / duration_ns * 1e9;
        let residence_ns = residence / f64::from(count);
        assert!(LittleCheck::of(occupancy, rate_pps, residence_ns).holds());
        assert!(!LittleCheck::of(occupancy, rate_pps, residence_ns * 1.1).holds());
    }

    /// A delay that no probe sees: 1 ms behind a residence of 20 us.
    #[test]
    fn what_lies_outside_the_probes_is_a_row_of_its_own() {
        let trace = Trace {
            parts_ns: vec![15_000.0, 5000.0],
            residence_ns: 20_000.0,
        };
        let blame = Blame::of(&["ring wait", "NF"], &[trace]).unwrap();
        assert!(blame.closes() && blame.outside().is_none());
        let held = blame.against(1_020_000.0);
        assert!((held.outside().unwrap() - 1.0 / 1.02).abs() < 1e-12);
        assert!(held.outside().unwrap() > OUTSIDE_MAX);
        let sum: f64 = held.shares.iter().map(|share| share.of_mean).sum();
        assert!((sum - 1.0).abs() < 1e-12, "{sum}");
    }
}
