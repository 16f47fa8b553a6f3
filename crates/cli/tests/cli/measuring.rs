//! `catena doctor`, and chains whose ports measure.

use std::process::Stdio;

use serde_json::Value;

use super::harness::{Place, until};
use super::idle_states::{disabled, machine};

#[test]
fn the_doctor_examines_this_machine_and_changes_nothing() {
    let place = Place::new();
    let ended = place.catena(&["doctor", "--seconds", "0.05", "--json"]);
    let report = ended.assert_code(0).json();
    let findings = report["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 20);
    // What decides how long a packet waits here: RFC 9971 4.9.3 asks reports for it.
    for name in [
        "kernel command line",
        "mitigations",
        "preemption",
        "kernel tick",
        "cpuidle",
        "tsc",
        "steal",
        "cgroup_quota",
    ] {
        let found = findings.iter().find(|finding| finding["name"] == name);
        let seen = found.and_then(|finding| finding["seen"].as_str());
        assert!(
            seen.is_some_and(|seen| !seen.is_empty()),
            "{name}: {found:?}"
        );
    }
    let wakeups = report["wakeups"].as_array().unwrap();
    assert!(
        !wakeups.is_empty() && wakeups.iter().all(|core| core["p50_ns"].is_u64()),
        "{report}"
    );
    for finding in findings {
        let is_warning = finding["verdict"] == "warning";
        assert_eq!(finding["repair"].is_string(), is_warning, "{finding}");
    }
    let cores = report["noise"][0]["cores"].as_array().unwrap();
    assert!(!cores.is_empty());
    // Steal stands beside the stalls that it explains; null where the hypervisor does not say.
    let of_core = cores[0].as_object().unwrap();
    assert!(of_core.contains_key("stolen_share") && of_core.contains_key("stalled_share"));
    assert!(cores[0]["watched_ns"].as_u64().unwrap() >= 49_000_000);
    let text = place.catena(&["doctor", "--seconds", "0.01"]);
    let text = text.assert_code(0).stdout.as_str();
    assert!(
        text.contains("cgroup_quota") && text.contains("noise"),
        "{text}"
    );
    let wrong = place.catena(&["doctor", "--states", "fast"]);
    assert!(
        wrong.assert_code(2).stderr.contains("write it like +pc"),
        "{wrong:?}"
    );
}

#[test]
fn states_are_restored_after_a_run_and_after_a_kill() {
    let place = Place::new();
    machine(&place);
    let doctor = |seconds| {
        let arguments = [
            "doctor",
            "--root",
            "tree",
            "--states",
            "-c,+c",
            "--seconds",
            seconds,
        ];
        let mut command = place.command(&arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.spawn().unwrap()
    };
    let ended = doctor("0.05").wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&ended.stdout);
    assert!(
        ended.status.success() && text.contains("noise in -c"),
        "{text}"
    );
    assert_eq!(disabled(&place), "000");

    let mut killed = doctor("600");
    until("the states are set", || {
        (disabled(&place) == "011").then_some(())
    });
    killed.kill().unwrap();
    killed.wait().unwrap();
    until("the guardian restores", || {
        (disabled(&place) == "000").then_some(())
    });
    until("the guardian ends", || {
        place.processes().is_empty().then_some(())
    });
}

#[test]
fn a_chain_measures_what_passes_it() {
    let place = Place::new();
    let chain = "\
name: measured
ports:
  in:
    traffic:
      profile: { sizes: [64, 200], flows: { count: 7 }, load: { rate: 100kpps } }
      duration: 100ms
      trial: 5
      results: sent.json
  out:
    receiver: { trial: 5, results: received.json }
nfs:
  swap: { type: macswap }
links: [in -> swap -> out]
run: { mode: process }
";
    place.write("measured.yaml", chain);
    place.catena(&["run", "measured.yaml"]).assert_code(0);
    let read = |name: &str| -> Value {
        let text = std::fs::read_to_string(place.path(name)).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let (sent, received) = (read("sent.json"), read("received.json"));
    let count = |results: &Value, name: &str| results["record"][name].as_u64().unwrap();
    // A busy machine may let the chain stand still until its entry is full.
    let due = ["sent", "unsent", "entry_lost"].map(|name| count(&sent, name));
    assert_eq!(due.iter().sum::<u64>(), 10_000);
    let arrived = count(&received, "stamped");
    assert_eq!(arrived, count(&sent, "sent"));
    assert_eq!(
        count(&received, "corrupted") + count(&received, "other_trial"),
        0
    );
    assert_eq!(
        received["samples"].as_array().unwrap().len() as u64,
        arrived
    );
    assert!(
        received["range"][0].as_i64().unwrap() > 0,
        "{}",
        received["range"]
    );

    let wrong = place.write("wrong.yaml", chain.replace("64, 200", "50, 200"));
    let ended = place.catena(&["check", wrong.to_str().unwrap()]);
    let text = ended.assert_code(2).stderr.as_str();
    assert!(
        text.contains("wrong.yaml:5:26") && text.contains("give 64 or more"),
        "{text}"
    );
}
