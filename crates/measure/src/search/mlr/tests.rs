//! MLRsearch against devices whose throughput is known.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::search::preset::Preset;
use crate::search::run;
use crate::search::simulated_device::{Curve, SimulatedDevice};
use crate::stats::random::Random;

fn input(goals: Vec<Goal>) -> Input {
    Input {
        goals,
        min_load_pps: 10_000.0,
        max_load_pps: 10_000_000.0,
        warmup: None,
        duration_limit: None,
    }
}

/// The highest load at which a device that forwards `capacity` loses no more than `loss_ratio`.
fn threshold(capacity: f64, loss_ratio: f64) -> f64 {
    capacity / (1.0 - loss_ratio)
}

#[test]
fn hard_devices_are_found_within_the_goal_width_in_100_of_100_runs() {
    let mut random = Random::new(1);
    for seed in 0..100 {
        let capacity = 20_000.0 * 400f64.powf(random.unit());
        let mut device = SimulatedDevice::new(capacity, Curve::Hard, seed);
        let search = MlrSearch::new(input(Preset::Csit.goals())).unwrap();
        let outcome = run(search, |trial| device.measure(trial)).unwrap();
        for result in &outcome.goals {
            assert!(result.is_regular(), "{result:?}");
            let (goal, width) = (result.goal, result.goal.width());
            let threshold = threshold(capacity, goal.loss_ratio);
            let lower = result.relevant_lower_bound_pps.unwrap();
            let upper = result.relevant_upper_bound_pps.unwrap();
            assert!(lower <= threshold * 1.000_01 && threshold <= upper * 1.000_01);
            assert!((upper - lower) / upper <= width, "{lower} {upper}");
            let throughput = result.conditional_throughput_pps.unwrap();
            assert!(
                (throughput / capacity - 1.0).abs() <= width,
                "{throughput} {capacity}"
            );
        }
    }
}

/// With noise the true value is that of the median trial, since the exceed ratio is one half.
#[test]
fn noisy_devices_are_found_within_width_and_noise_in_100_of_100_runs() {
    for (curve, slack) in [
        (Curve::Noisy(0.002), 0.004),
        (
            Curve::Spikes {
                chance: 0.1,
                loss: 0.02,
            },
            0.0,
        ),
    ] {
        for seed in 0..100 {
            let mut device = SimulatedDevice::new(3_210_000.0, curve, seed);
            let search = MlrSearch::new(input(Preset::Vm.goals())).unwrap();
            let outcome = run(search, |trial| device.measure(trial)).unwrap();
            for result in &outcome.goals {
                let throughput = result.conditional_throughput_pps.unwrap();
                let error = (throughput / device.capacity_pps - 1.0).abs();
                let allowed = result.goal.width() + result.goal.loss_ratio + slack;
                assert!(error <= allowed, "run {seed}: {error} of {result:?}");
            }
        }
    }
}

#[test]
fn a_device_faster_than_the_tester_gives_an_irregular_result() {
    let mut device = SimulatedDevice::new(1e9, Curve::Hard, 0);
    let search = MlrSearch::new(input(Preset::Vm.goals())).unwrap();
    let outcome = run(search, |trial| device.measure(trial)).unwrap();
    for result in outcome.goals {
        assert_eq!(result.irregularities, [Irregularity::MaxLoadIsLowerBound]);
        assert_eq!(result.relevant_upper_bound_pps, None);
        assert_eq!(result.conditional_throughput_pps, Some(1e7));
    }
}

#[test]
fn a_device_slower_than_the_least_load_fails_early() {
    let mut device = SimulatedDevice::new(100.0, Curve::Hard, 0);
    let search = MlrSearch::new(input(Preset::Vm.goals())).unwrap();
    let outcome = run(search, |trial| device.measure(trial)).unwrap();
    for result in &outcome.goals {
        assert_eq!(result.irregularities, [Irregularity::MinLoadIsUpperBound]);
        assert_eq!(result.conditional_throughput_pps, None);
    }
    assert!(outcome.trial_count < 40, "{}", outcome.trial_count);
}

#[test]
fn warm_up_does_not_count_and_time_ends_a_search() {
    let mut device = SimulatedDevice::new(3e6, Curve::Hard, 0);
    let mut limited = input(Preset::Vm.goals());
    limited.warmup = Some(Duration::from_secs(1));
    limited.duration_limit = Some(Duration::from_millis(1900));
    let mut search = MlrSearch::new(limited).unwrap();
    assert!((search.remaining() - 1.0).abs() < f64::EPSILON);
    let warmup = search.next().unwrap();
    assert_eq!(
        (warmup.load_pps, warmup.duration),
        (1e7, Duration::from_secs(1))
    );
    search.report(&device.measure(&warmup)).unwrap();
    assert!(search.database.is_empty());
    let outcome = run(search, |trial| device.measure(trial)).unwrap();
    assert!(outcome.duration >= Duration::from_millis(1900));
    let irregular = outcome.goals.iter().filter(|result| !result.is_regular());
    assert!(irregular.count() > 0);
}

#[test]
fn impossible_results_are_refused_and_the_trial_stays_due() {
    let mut search = MlrSearch::new(input(Preset::Vm.goals())).unwrap();
    let result = TrialResult {
        intended_packets: 10,
        forwarded_packets: 10,
        effective_duration: Duration::from_secs(1),
    };
    assert_eq!(search.report(&result), Err(ReportError::NoTrialDue));
    let trial = search.next().unwrap();
    let more = TrialResult {
        forwarded_packets: 11,
        ..result
    };
    assert!(
        search
            .report(&more)
            .unwrap_err()
            .to_string()
            .contains("negative loss")
    );
    let none = TrialResult {
        intended_packets: 0,
        ..result
    };
    assert_eq!(search.report(&none), Err(ReportError::NothingIntended));
    let timeless = TrialResult {
        effective_duration: Duration::ZERO,
        ..result
    };
    assert_eq!(search.report(&timeless), Err(ReportError::NoDuration));
    assert_eq!(search.next(), Some(trial));
}

#[test]
fn inputs_that_cannot_be_searched_are_refused() {
    let refused = |input: Input| MlrSearch::new(input).unwrap_err().to_string();
    assert!(refused(input(Vec::new())).contains("at least one goal"));
    let goal = Preset::Vm.goals()[0];
    let bad = |goal| refused(input(vec![goal]));
    assert!(
        bad(Goal {
            loss_ratio: 1.0,
            ..goal
        })
        .contains("loss ratio is 1")
    );
    assert!(
        bad(Goal {
            exceed_ratio: -0.1,
            ..goal
        })
        .contains("exceed ratio")
    );
    assert!(
        bad(Goal {
            width: Some(0.0),
            ..goal
        })
        .contains("width")
    );
    assert!(
        bad(Goal {
            width: Some(1e-9),
            ..goal
        })
        .contains("widen the goal")
    );
    let zero = Duration::ZERO;
    assert!(
        bad(Goal {
            duration_sum: zero,
            ..goal
        })
        .contains("duration sum")
    );
    let longer = Some(Duration::from_secs(9));
    assert!(
        bad(Goal {
            initial_trial_duration: longer,
            ..goal
        })
        .contains("initial")
    );
    let mut upside_down = input(vec![goal]);
    upside_down.min_load_pps = 2e7;
    assert!(refused(upside_down).contains("min below max"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever devices answer, a search ends, and regular results keep what RFC 9971 asks.
    #[test]
    fn any_device_ends_and_regular_results_are_regular(
        seed in any::<u64>(),
        exceed_ratio in 0.0f64..0.9,
        loss_ratio in 0.0f64..0.3,
        sum in 1u64..8,
    ) {
        let goal = Goal {
            loss_ratio,
            exceed_ratio,
            final_trial_duration: Duration::from_secs(1),
            duration_sum: Duration::from_secs(sum),
            initial_trial_duration: Some(Duration::from_millis(100)),
            width: Some(0.05),
        };
        let strict = Goal { loss_ratio: 0.0, exceed_ratio: 0.0, width: Some(0.02), ..goal };
        let mut random = Random::new(seed);
        let mut search = MlrSearch::new(input(vec![goal, strict])).unwrap();
        let mut count = 0;
        while let Some(trial) = search.next() {
            prop_assert!(trial.load_pps >= 1e4 && trial.load_pps <= 1e7);
            count += 1;
            prop_assert!(count < 20_000, "no end");
            let forwarded = if random.unit() < 0.5 { 1000 } else { random.below(1001) };
            search.report(&TrialResult {
                intended_packets: 1000,
                forwarded_packets: forwarded,
                effective_duration: trial.duration,
            }).unwrap();
        }
        for result in search.finish().goals {
            if result.is_regular() {
                let upper = result.relevant_upper_bound_pps.unwrap();
                let lower = result.relevant_lower_bound_pps.unwrap();
                prop_assert!(lower < upper);
                prop_assert!((upper - lower) / upper <= result.goal.width() + 1e-12);
                let throughput = result.conditional_throughput_pps.unwrap();
                prop_assert!(throughput >= lower * (1.0 - result.goal.loss_ratio) - 1e-6);
            }
        }
    }
}
