//! A study whose functions run in processes and in containers.

use std::fs;

use serde_json::Value;

use super::Bench;

const STUDY: &str = "\
name: boxed
blocks: 1
trial: 100ms
factors: { mode: [process, container], rate: [max, 2kpps] }
";

pub(super) fn a_study_crosses_processes_and_containers(engine: &'static str) {
    let Some(bench) = Bench::new("a_study_crosses_processes_and_containers", engine) else {
        return;
    };
    let (file, out) = (bench.path("study.yaml"), bench.path("out"));
    fs::write(&file, STUDY).unwrap();
    let mut args = vec!["measure", "study", file.to_str().unwrap(), "--probes"];
    // However busy the machine is: what is measured is not looked at here.
    args.extend(["--rivals", "1", "--noise", "0s", "--repeats", "40"]);
    args.extend(["--json", "--out"]);
    args.push(out.to_str().unwrap());
    let output = bench.command(&args).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let study = &document["study"];
    assert_eq!((&study["planned"], &study["done"]), (&4.into(), &4.into()));
    for (cell, metric) in [
        (0, "rate at max"),
        (1, "latency p50"),
        (2, "rate at max"),
        (3, "latency p50"),
    ] {
        let cell = &study["cells"][cell];
        assert!(
            cell["values"][metric]["estimate"].as_f64().unwrap() > 0.0,
            "{cell:#}"
        );
    }
    // Packets were followed through the container, and that has its price.
    let blamed = document["blame"].as_array().unwrap();
    assert_eq!(blamed.len(), 2, "{errors}");
    for (cell, blamed) in [(1, &blamed[0]), (3, &blamed[1])] {
        assert!(blamed[1]["traces"].as_u64().unwrap() > 50, "{blamed:#}");
        let tax = &study["cells"][cell]["probe_tax"];
        assert_eq!(tax["measure"], "busy_time_per_packet", "{document:#}");
        assert_eq!(tax["comparison"]["pairs"], 100);
    }
    assert_eq!(bench.containers(), "");
}
