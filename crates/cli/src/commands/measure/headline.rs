//! What a search found, in a sentence with its number, unit and interval: the first of a report.

use std::time::Duration;

use catena_measure::report::{Unit, Valued, rate, time};
use catena_measure::search::back_to_back::BackToBackOutcome;
use catena_measure::search::mlr::GoalResult;
use catena_measure::search::mrr::MrrOutcome;
use catena_measure::search::preset::Standing;
use catena_measure::search::soak::SoakOutcome;
use catena_measure::stats::student::t_quantile;
use catena_measure::stats::{Interval, deviation, halves};

use crate::measuring::settled;

/// Half of the 95 % interval of a mean of so many values.
fn half_width(deviation: Option<f64>, count: usize) -> Option<f64> {
    let freedom = count.checked_sub(1).filter(|freedom| *freedom > 0)?;
    Some(t_quantile(0.975, freedom) * deviation? / (count as f64).sqrt())
}

/// A mean with its interval, where there is one; none of these values is below 0.
fn with_interval(mean: f64, half: Option<f64>, text: impl Fn(f64) -> String) -> String {
    let interval = half.map_or_else(
        || "no interval from one value".to_owned(),
        |half| {
            let (low, high) = ((mean - half).max(0.0), mean + half);
            format!("95 % interval {} to {}", text(low), text(high))
        },
    );
    format!("{} ({interval})", text(mean))
}

/// A share as a percentage.
fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".to_owned(),
        small if small.abs() < 0.01 => format!("{small:.1e} %"),
        percent => format!("{percent:.2} %"),
    }
}

/// How far a result keeps to the document that it is named after.
pub(super) fn standing(standing: &Standing) -> String {
    match standing {
        Standing::Complete => "COMPLETE.".to_owned(),
        Standing::Partial(reasons) => format!("PARTIAL: {}.", reasons.join("; ")),
        Standing::Invalid(reasons) => format!("INVALID: {}.", reasons.join("; ")),
    }
}

/// The throughput for each loss ratio, between its bounds.
pub(super) fn mlr(goals: &[GoalResult]) -> String {
    let of = |found: &GoalResult| {
        let loss = found.goal.loss_ratio * 100.0;
        let Some(pps) = found.conditional_throughput_pps else {
            return format!("none at {loss} % loss");
        };
        let bounds = found
            .relevant_lower_bound_pps
            .zip(found.relevant_upper_bound_pps);
        let bounds = match (bounds, found.is_regular()) {
            (Some((low, high)), true) => format!("between {} and {}", rate(low), rate(high)),
            (Some((low, high)), false) => {
                format!("between {} and {}, IRREGULAR", rate(low), rate(high))
            }
            (None, _) => "with a bound on one side only, IRREGULAR".to_owned(),
        };
        format!("{} at {loss} % loss ({bounds})", rate(pps))
    };
    let goals: Vec<_> = goals.iter().map(of).collect();
    format!("Conditional throughput {}.", goals.join(", "))
}

/// A mean of several as a value of the report; none of these values is below 0.
fn valued(name: &str, unit: Unit, mean: f64, half: Option<f64>) -> Valued {
    Valued {
        name: name.to_owned(),
        unit,
        value: mean,
        interval: half.map(|half| Interval {
            estimate: mean,
            low: (mean - half).max(0.0),
            high: mean + half,
            confidence: 0.95,
        }),
    }
}

/// The same rate as a value of the report.
pub(super) fn mrr_valued(outcome: &MrrOutcome) -> Option<Valued> {
    let half = half_width(outcome.deviation_pps, outcome.rates_pps.len());
    let mean = outcome.mean_pps?;
    Some(valued("MRR", Unit::PacketsPerSecond, mean, half))
}

/// The loss of a soak as a value of the report, its interval by slices.
pub(super) fn soak_valued(outcome: &SoakOutcome) -> Option<Valued> {
    let half = half_width(deviation(&outcome.loss_ratios), outcome.loss_ratios.len());
    let loss = outcome.loss_ratio?;
    Some(valued("loss of a soak", Unit::Share, loss, half))
}

/// Core time for a packet as a value of the report, its interval by trials.
pub(super) fn core_time_valued(name: &str, ns: f64, by_trial: &[f64]) -> Valued {
    let half = half_width(deviation(by_trial), by_trial.len());
    valued(name, Unit::CoreNsPerPacket, ns, half)
}

/// The rate that comes back at the highest load.
pub(super) fn mrr(outcome: &MrrOutcome) -> String {
    let Some(mean) = outcome.mean_pps else {
        return "No rate was measured.".to_owned();
    };
    let half = half_width(outcome.deviation_pps, outcome.rates_pps.len());
    format!(
        "{} come back of {} that are offered.",
        with_interval(mean, half, rate),
        rate(outcome.offered_pps)
    )
}

/// The longest burst without loss, and the buffer that this says.
pub(super) fn back_to_back(outcome: &BackToBackOutcome) -> String {
    let Some(mean) = outcome.mean_packets else {
        return "No burst was measured to its end.".to_owned();
    };
    let half = half_width(outcome.deviation_packets, outcome.bursts.len());
    let burst = with_interval(mean, half, |packets| format!("{packets:.0} frames"));
    let buffer = outcome
        .corrected_buffer_s
        .map_or_else(|| "n/a".to_owned(), |seconds| time(seconds * 1e9));
    format!("The longest burst without loss is {burst}; corrected buffer time {buffer}.")
}

/// The loss over all slices, and how often a slice may lose anything.
pub(super) fn soak(outcome: &SoakOutcome, slice: Duration) -> String {
    let Some(loss) = outcome.loss_ratio else {
        return "No loss was measured.".to_owned();
    };
    let (least, most) = outcome
        .loss_ratios
        .iter()
        .fold((1.0_f64, 0.0_f64), |so, one| {
            (so.0.min(*one), so.1.max(*one))
        });
    let lossy = outcome
        .lossy_slice_probability_max
        .map_or_else(|| "n/a".to_owned(), percent);
    format!(
        "{} of the packets are lost at {} ({} to {} by slice); with 95 % confidence, at most \
         {lossy} of the slices of {slice:?} lose any.",
        percent(loss),
        rate(outcome.load_pps),
        percent(least),
        percent(most)
    )
}

/// Whether the trials' rates stayed the same from the first to the last, in row and summary.
pub(super) fn mrr_settled(outcome: &MrrOutcome) -> (String, String) {
    let logs: Vec<_> = outcome.rates_pps.iter().map(|pps| pps.ln()).collect();
    let change = halves::change(&logs).filter(|change| change.estimate.is_finite());
    let change = change.map(|change| Interval {
        estimate: change.estimate.exp(),
        low: change.low.exp(),
        high: change.high.exp(),
        ..change
    });
    settled::words("the rate", change.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_that_fall_along_the_trials_are_told() {
        let of = |rates_pps: Vec<f64>| {
            mrr_settled(&MrrOutcome {
                offered_pps: 2e7,
                rates_pps,
                mean_pps: None,
                deviation_pps: None,
            })
        };
        let steady = of(vec![1.0e6, 1.01e6, 0.99e6, 1.0e6, 0.99e6, 1.01e6]);
        assert!(
            steady.0.starts_with("yes") && steady.1.is_empty(),
            "{steady:?}"
        );
        let falls = of(vec![1.0e6, 1.01e6, 0.99e6, 0.81e6, 0.8e6, 0.79e6]);
        assert!(falls.0.starts_with("no: the rate"), "{falls:?}");
        assert!(falls.1.contains("NOT STEADY"), "{falls:?}");
        assert!(of(vec![1e6, 0.0]).0.starts_with("not known"));
        assert!(
            of(vec![0.0, 1e6, 1e6, 1e6, 1e6, 1e6])
                .0
                .starts_with("not known")
        );
    }

    #[test]
    fn a_mean_has_its_interval_and_one_value_has_none() {
        let mut outcome = MrrOutcome {
            offered_pps: 2e7,
            rates_pps: vec![9.9e6, 1e7, 1.01e7],
            mean_pps: Some(1e7),
            deviation_pps: Some(1e5),
        };
        // 4.303 * 100,000 / sqrt(3).
        assert_eq!(
            mrr(&outcome),
            "10.00 Mpps (95 % interval 9.752 Mpps to 10.25 Mpps) come back of 20.00 Mpps that are \
             offered."
        );
        let value = mrr_valued(&outcome).unwrap();
        let interval = value.interval.unwrap();
        assert!((interval.low - 9.752e6).abs() < 1e3 && (interval.high - 1.0248e7).abs() < 1e3);
        (outcome.rates_pps, outcome.deviation_pps) = (vec![1e7], None);
        assert_eq!(mrr_valued(&outcome).unwrap().interval, None);
        assert!(mrr(&outcome).starts_with("10.00 Mpps (no interval from one value)"));
    }

    #[test]
    fn a_burst_is_in_frames_and_its_buffer_in_time() {
        let outcome = BackToBackOutcome {
            bursts: vec![90, 110],
            unbounded: 0,
            mean_packets: Some(100.0),
            deviation_packets: Some(14.142),
            implied_buffer_s: Some(1e-4),
            corrected_buffer_s: Some(2.5e-5),
        };
        assert_eq!(
            back_to_back(&outcome),
            "The longest burst without loss is 100 frames (95 % interval 0 frames to 227 frames); \
             corrected buffer time 25.0 us."
        );
    }

    #[test]
    fn no_loss_in_few_slices_promises_little() {
        let outcome = SoakOutcome {
            load_pps: 1e4,
            loss_ratios: vec![0.0, 0.001],
            loss_ratio: Some(0.0005),
            lossy_slice_probability_max: Some(0.975),
            drift: None,
            is_complete: true,
        };
        let value = soak_valued(&outcome).unwrap();
        // 12.706 * 0.000,707 / sqrt(2), and no loss is below none.
        let interval = value.interval.unwrap();
        assert!(
            (interval.high - 6.853e-3).abs() < 1e-5 && interval.low == 0.0,
            "{value:?}"
        );
        assert_eq!(
            soak(&outcome, Duration::from_millis(30)),
            "0.05 % of the packets are lost at 10.00 kpps (0 % to 0.10 % by slice); with 95 % \
             confidence, at most 97.50 % of the slices of 30ms lose any."
        );
    }
}
