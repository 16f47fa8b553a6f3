//! Compares MLRsearch with the package of its authors on the same devices.
//!
//! Needs a Python with the package MLRsearch 1.2.1: `CATENA_MLRSEARCH_PYTHON`, or the one that
//! `tests/setup/mlrsearch.sh` makes.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use catena_measure::search::classification::{Classification, TrialRecord, classify};
use catena_measure::search::goal::Goal;
use catena_measure::search::mlr::{Input, MlrSearch};
use catena_measure::search::{TrialResult, run};
use catena_measure::stats::random::Random;

/// Where the set-up of the tests puts its Python.
const PYTHON: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../target/oracles/mlrsearch/bin/python"
);
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/mlrsearch.py");

/// Answers of the package, or `None` with a word about what is missing.
fn ask(test: &str, questions: &[String]) -> Option<Vec<String>> {
    let python = std::env::var("CATENA_MLRSEARCH_PYTHON").unwrap_or_else(|_| PYTHON.to_owned());
    let has_package = Command::new(&python)
        .args(["-c", "import MLRsearch"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !has_package {
        println!("SKIP {test}: no Python with MLRsearch; run tests/setup/mlrsearch.sh");
        return None;
    }
    let mut child = Command::new(&python)
        .arg(SCRIPT)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let text = questions.join("\n") + "\n";
    // Written beside reading, or both sides could wait for a full pipe.
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "{SCRIPT} failed");
    let text = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<_> = text.lines().map(str::to_owned).collect();
    assert_eq!(answers.len(), questions.len());
    Some(answers)
}

fn goal(random: &mut Random) -> Goal {
    let seconds = Duration::from_secs;
    let loss_ratio = [0.0, 0.001, 0.005][random.below(3) as usize];
    Goal {
        loss_ratio,
        exceed_ratio: [0.0, 0.2, 0.5][random.below(3) as usize],
        final_trial_duration: seconds(1),
        duration_sum: seconds(1 + random.below(21)),
        initial_trial_duration: None,
        width: Some(0.005),
    }
}

#[test]
fn bounds_agree_with_the_package_of_the_authors() {
    let mut random = Random::new(7);
    let cases: Vec<_> = (0..40)
        .map(|_| (goal(&mut random), 50_000.0 * 100f64.powf(random.unit())))
        .collect();
    let question = |(goal, capacity): &(Goal, f64)| {
        let (last, sum) = (goal.final_trial_duration, goal.duration_sum);
        format!(
            "search {capacity} 10000 10000000 {} {} {} {} {}",
            goal.loss_ratio,
            goal.exceed_ratio,
            last.as_secs_f64(),
            sum.as_secs_f64(),
            goal.width()
        )
    };
    let questions: Vec<_> = cases.iter().map(question).collect();
    let Some(answers) = ask("bounds_agree_with_the_package_of_the_authors", &questions) else {
        return;
    };
    for ((goal, capacity), answer) in cases.into_iter().zip(answers) {
        let search = MlrSearch::new(Input {
            goals: vec![goal],
            min_load_pps: 1e4,
            max_load_pps: 1e7,
            warmup: None,
            duration_limit: None,
        });
        let outcome = run(search.unwrap(), |trial| {
            let sent = (trial.load_pps * trial.duration.as_secs_f64()).round();
            let lost = ((1.0 - capacity / trial.load_pps).max(0.0) * sent).ceil();
            TrialResult {
                intended_packets: sent as u64,
                forwarded_packets: (sent - lost) as u64,
                effective_duration: trial.duration,
            }
        });
        let result = &outcome.unwrap().goals[0];
        assert!(result.is_regular(), "{result:?}");
        let theirs: Vec<f64> = answer
            .split(' ')
            .map(|word| word.parse().unwrap())
            .collect();
        let ours = [
            result.relevant_lower_bound_pps.unwrap(),
            result.relevant_upper_bound_pps.unwrap(),
            result.conditional_throughput_pps.unwrap(),
        ];
        for (ours, theirs) in ours.into_iter().zip(theirs) {
            let difference = (ours / theirs - 1.0).abs();
            assert!(
                difference <= goal.width() * 1.01,
                "{ours} {theirs} for {capacity} {goal:?}"
            );
        }
    }
}

#[test]
fn classifications_agree_with_the_package_of_the_authors() {
    let mut random = Random::new(11);
    let mut cases = Vec::new();
    for _ in 0..500 {
        let goal = goal(&mut random);
        let trials: Vec<_> = (0..random.below(30))
            .map(|_| {
                // Halves and quarters of seconds: sums are exact on both sides.
                let duration_ns = (1 + random.below(6)) * 250_000_000;
                let loss_ratio = [0.0, 0.002, 0.01][random.below(3) as usize];
                TrialRecord {
                    duration_ns,
                    effective_duration_ns: duration_ns,
                    loss_ratio,
                }
            })
            .collect();
        cases.push((goal, trials));
    }
    // Point 5 of the example of RFC 9971 (C.3.5), at which its table and its code disagree.
    let (seconds, ns) = (Duration::from_secs, 1_000_000_000);
    let record = |duration_s: u64, loss_ratio| TrialRecord {
        duration_ns: duration_s * ns,
        effective_duration_ns: duration_s * ns,
        loss_ratio,
    };
    let mut point5 = vec![record(1, 0.0); 60];
    point5.extend(vec![record(1, 0.01); 60]);
    point5.push(record(60, 0.001));
    let goal4 = Goal {
        loss_ratio: 0.005,
        exceed_ratio: 0.2,
        final_trial_duration: seconds(60),
        duration_sum: seconds(60),
        initial_trial_duration: None,
        width: None,
    };
    cases.push((goal4, point5));
    let question = |(goal, trials): &(Goal, Vec<TrialRecord>)| {
        let (last, sum) = (goal.final_trial_duration, goal.duration_sum);
        let mut text = format!(
            "classify {} {} {} {}",
            goal.loss_ratio,
            goal.exceed_ratio,
            last.as_secs_f64(),
            sum.as_secs_f64()
        );
        for trial in trials {
            let duration_s = trial.duration_ns as f64 / 1e9;
            text.push_str(&format!(" {duration_s} {}", trial.loss_ratio));
        }
        text
    };
    let questions: Vec<_> = cases.iter().map(question).collect();
    let name = "classifications_agree_with_the_package_of_the_authors";
    let Some(answers) = ask(name, &questions) else {
        return;
    };
    for ((goal, trials), answer) in cases.iter().zip(answers) {
        let ours = match classify(goal, trials) {
            Classification::LowerBound => "lower",
            Classification::UpperBound => "upper",
            Classification::Undecided => "undecided",
        };
        assert_eq!(ours, answer, "{goal:?} {trials:?}");
    }
}
