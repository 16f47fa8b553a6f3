//! Every benchmark that a document prints runs: its least form, Catena's sides only. What it
//! measures is for quiet machines. A file of its own, since benchmarks keep both cores busy.

mod chores;

use std::collections::BTreeSet;
use std::path::Path;

use chores::{limited, repository};
use serde_json::Value;

/// What a row may say that has no figure: time is short, others run, or peers are left out.
const EXCUSES: [&str; 7] = [
    "left out of a brief run",
    "no time was left",
    "time limit",
    "disturbed",
    "too few chunks",
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

/// What is known is told right where no busy machine changes it: the statistics of simulated ones,
/// and the least that a packet waits in a box, if any trial of it counted.
#[track_caller]
fn assert_true(rows: &[Value]) {
    let of = |part: &'static str| {
        let has = move |row: &&Value| row["metric"].as_str().unwrap().contains(part);
        rows.iter().filter(has)
    };
    assert!(of("simulated").all(|row| row["met"] == true), "{rows:#?}");
    assert!(of("delay box").all(|row| row["met"] != false), "{rows:#?}");
    for part in ["delay box", "by chance", "links block", "policer", "freeze"] {
        assert!(of(part).count() > 0, "{part} of {rows:#?}");
    }
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
    for name in names {
        let rows = brief(&name, place.path());
        let measured = rows.iter().filter(|row| row["value"].is_f64()).count();
        assert!(measured > 0, "{name}: nothing was measured: {rows:#?}");
        if name == "truth" {
            assert_true(&rows);
        }
        for row in rows {
            let error = row["error"].as_str().unwrap_or_default();
            let is_excused = EXCUSES.iter().any(|excuse| error.contains(excuse));
            assert!(error.is_empty() || is_excused, "{name}: {row:#}");
        }
    }
}
