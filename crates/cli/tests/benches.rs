//! Every benchmark that a document prints runs: its least form, Catena's sides only; and so does
//! the comparison of programs with their models. What is measured is for quiet machines. A file of
//! its own, since benchmarks keep both cores busy.

mod chores;

use std::collections::BTreeSet;
use std::path::Path;

use chores::{limited, repository};
use serde_json::Value;

/// What a row may say that has no figure: time is short, others run, or peers are left out.
const EXCUSES: [&str; 9] = [
    "left out of a brief run",
    "no time was left",
    "time limit",
    "disturbed",
    "too few chunks",
    "pairs are too few to compare",
    "no trial counts",
    "needs two cores",
    "one core only",
];

/// Names of benchmarks in documents.
fn printed(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            printed(&path, names);
        } else if name.ends_with(".md") && name != "CHANGELOG.md" {
            let text = std::fs::read_to_string(&path).unwrap();
            let behind = text.split("cargo xtask bench ").skip(1);
            let is_name = |c: char| c.is_ascii_lowercase() || c == '-';
            let words = behind.map(|rest| rest.split(|c| !is_name(c)).next().unwrap_or_default());
            names.extend(
                words
                    .filter(|word| word.len() > 1 && !word.starts_with('-'))
                    .map(str::to_owned),
            );
        }
    }
}

/// Runs a benchmark, and gives its rows.
fn brief(name: &str, folder: &Path) -> Vec<Value> {
    let file = folder.join(format!("{name}.json"));
    let output = limited(env!("CARGO"))
        .args(["xtask", "bench", name, "--brief", "--catena"])
        .arg(env!("CARGO_BIN_EXE_catena"))
        .arg("--json")
        .arg(&file)
        .env("CATENA_RUNTIME_DIR", folder.join("run"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {errors}");
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(table.lines().count() > 3, "{name}: {table}");
    let report: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    report["results"].as_array().unwrap().clone()
}

/// The same; something was measured, and what was not has an excuse.
#[track_caller]
fn excused(name: &str, folder: &Path) -> Vec<Value> {
    let rows = brief(name, folder);
    let measured = rows.iter().filter(|row| row["value"].is_f64()).count();
    assert!(measured > 0, "{name}: nothing was measured: {rows:#?}");
    for row in &rows {
        let error = row["error"].as_str().unwrap_or_default();
        let is_excused = EXCUSES.iter().any(|excuse| error.contains(excuse));
        assert!(error.is_empty() || is_excused, "{name}: {row:#}");
    }
    rows
}

/// What is known is told right: a brief run judges only what no busy machine changes. What has no
/// figure, because no trial of it counted, is excused elsewhere.
#[track_caller]
fn assert_true(rows: &[Value]) {
    let of = |part: &'static str| {
        let has = move |row: &&Value| row["metric"].as_str().unwrap().contains(part);
        rows.iter().filter(has)
    };
    let wrong: Vec<_> = rows.iter().filter(|row| row["met"] == false).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(of("simulated").all(|row| row["met"] == true), "{rows:#?}");
    for part in [
        "delay box",
        "by chance",
        "links block",
        "policer",
        "freeze",
        "hog",
        "study",
        "compare --together",
        "signs right",
        "outside residence",
        "Little's law",
    ] {
        assert!(of(part).count() > 0, "{part} of {rows:#?}");
    }
}

/// A test of its own, so that it can be asked for alone.
#[test]
fn known_truths_are_told_right() {
    let place = tempfile::tempdir().unwrap();
    assert_true(&excused("truth", place.path()));
}

#[test]
fn every_printed_benchmark_runs() {
    let mut names = BTreeSet::new();
    printed(&repository(), &mut names);
    // A search that finds nothing must not pass: a benchmark of each of three documents.
    for known in ["link", "epon", "upf"] {
        assert!(names.contains(known), "{known} of {names:?}");
    }
    let place = tempfile::tempdir().unwrap();
    // It has a test of its own.
    assert!(names.remove("truth"), "{names:?}");
    for name in names {
        excused(&name, place.path());
    }
}

#[test]
fn exactness_is_compared_and_finds_no_difference() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("exactness.json");
    let output = limited(env!("CARGO"))
        .args(["xtask", "exactness", "--brief", "--json"])
        .arg(&file)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let report: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let rows = report["results"].as_array().unwrap();
    for part in ["policer", "marker", "load balancer", "offload"] {
        let is_of = |row: &&Value| row["function"].as_str().unwrap().contains(part);
        let of_it: Vec<&Value> = rows.iter().filter(is_of).collect();
        assert!(!of_it.is_empty(), "{part} of {report:#}");
        for row in of_it {
            assert_eq!(row["differences"], 0, "{row:#}");
            assert!(row["number"].as_u64().unwrap() > 1000, "{row:#}");
        }
    }
}
