//! Every scenario of the example library, in simulated time; and that a wrong one is found out.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::scenario::Scenario;
use super::simulation::{Outcome, Simulation};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../chains/upf/scenarios")
}

fn text(name: &str) -> String {
    std::fs::read_to_string(folder().join(format!("{name}.yaml"))).unwrap()
}

fn play(text: &str) -> Result<(Outcome, Simulation), String> {
    let mut simulation = Simulation::new(Scenario::parse(text)?)?;
    let outcome = simulation.play()?;
    Ok((outcome, simulation))
}

#[test]
fn every_scenario_plays_to_its_end_and_loses_no_buffer() {
    let mut names: Vec<_> = std::fs::read_dir(folder()).unwrap().flatten().collect();
    names.sort_by_key(|entry| entry.path());
    assert!(names.len() >= 15);
    let mut failures = Vec::new();
    for entry in names {
        let path = entry.path();
        let text = std::fs::read_to_string(&path).unwrap();
        match play(&text) {
            Ok((_, mut simulation)) => {
                let (held, in_use) = simulation.buffers();
                assert_eq!(held, u64::from(in_use), "{}", path.display());
                let account =
                    simulation.ask(&json!({"show": "reports"})).unwrap()["buffer"].clone();
                let of = |name: &str| account[name].as_u64().unwrap();
                let ends = of("flushed") + of("discarded") + of("expired") + of("held");
                assert_eq!(of("stored"), ends, "{}: {account}", path.display());
            }
            Err(what) => failures.push(format!("{}: {what}", path.display())),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Another UPF takes over behind each burst: what the one before held leaves in its order, parts
/// become whole, what it had to say is said, and each packet has one end; requests and answers are
/// known.
#[test]
fn what_is_held_outlives_an_apply() {
    for name in [
        "paging",
        "paging-limit",
        "fragments",
        "fragments-outside",
        "duplicate",
        "repetition",
        "volume-threshold",
        "packet-rate",
        "guarantees",
        "traffic-endpoints",
        "unstructured",
        "ethernet",
        "qos-monitoring",
    ] {
        let mut simulation = Simulation::new(Scenario::parse(&text(name)).unwrap()).unwrap();
        simulation.replace("buffered", json!(5000));
        let outcome = simulation
            .play()
            .unwrap_or_else(|what| panic!("{name}: {what}"));
        assert_eq!(outcome.counters.get("unsent"), None, "{name}");
        let (held, in_use) = simulation.buffers();
        assert_eq!(held, u64::from(in_use), "{name}");
        let account = simulation.ask(&json!({"show": "reports"})).unwrap()["buffer"].clone();
        let of = |name: &str| account[name].as_u64().unwrap();
        let ends = of("flushed") + of("discarded") + of("expired") + of("held");
        assert_eq!(of("stored"), ends, "{name}: {account}");
        let flushes = matches!(name, "paging" | "unstructured" | "ethernet");
        assert_eq!(of("flushed") > 0, flushes, "{account}");
    }
}

/// A scenario that expects something else fails at that step: else the test above says nothing.
#[test]
fn a_wrong_expectation_is_found_out() {
    for (name, right, wrong, says) in [
        (
            "first",
            "first: 6, teid: 0x101",
            "first: 6, teid: 0x102",
            "nobody expected",
        ),
        (
            "first",
            "packets: { count: 5, first: 1 }",
            "packets: { count: 6 }",
            "did not come",
        ),
        (
            "volume-threshold",
            "ul: 800",
            "ul: 801",
            "ul is Some(800) instead of Some(801)",
        ),
        (
            "refusals",
            "offending: 42",
            "offending: 43",
            "offending IE Some(42)",
        ),
        (
            "paging",
            "count: 8, first: 1,",
            "count: 8, first: 2,",
            "nobody expected packet 1",
        ),
        ("load", "load: 75", "load: 50", "a load of Some(75)"),
        ("pool", "cause: 79", "cause: 75", "cause 79 instead of 75"),
        ("qos-monitoring", "marked: 1", "marked: 0", "is marked"),
        ("qos-monitoring", "marked: 0", "marked: 1", "too few are"),
        ("qos-monitoring", "dl: 7, ul", "dl: 6, ul", "instead of"),
    ] {
        let text = text(name);
        assert!(text.contains(right), "{name}");
        let fault = play(&text.replacen(right, wrong, 1)).unwrap_err();
        assert!(fault.contains(says), "{name}: {fault}");
    }
}

#[test]
fn what_was_dropped_has_a_named_reason() {
    let drops = |name: &str, reason: &str| {
        let (outcome, _) = play(&text(name)).unwrap();
        outcome.counters[reason].as_u64().unwrap_or(0)
    };
    assert_eq!(drops("first", "unknown_ue"), 1);
    assert_eq!(drops("gates", "gate_closed"), 2);
    assert_eq!(drops("gates", "rate_exceeded"), 10);
    assert_eq!(drops("quota", "quota_exhausted"), 2);
    assert_eq!(drops("ceilings", "ceiling_exceeded"), 10 + 10 + 3);
    assert_eq!(drops("filters", "far_drop"), 1);
    assert_eq!(drops("filters", "no_pdr"), 1);
    assert_eq!(drops("tunnels", "unknown_teid"), 1);
    assert_eq!(drops("tunnels", "no_pdr"), 1);
    assert_eq!(drops("paging-limit", "buffer_full"), 3);
    assert_eq!(drops("ipv6", "no_pdr"), 1, "of another prefix");
    assert_eq!(drops("ipv6", "unknown_ue"), 2);
    assert_eq!(drops("ipv6", "far_drop"), 1);
    assert_eq!(drops("ipv6-outside", "spoofed"), 2);
    // Two in three parts, three in two; then two and one of four parts of users.
    assert_eq!(drops("fragments", "reassembled"), 2 * 3 + 3 * 2 + 4 * 4);
    assert_eq!(drops("fragments", "fragmented"), 2 + 3);
    assert_eq!(drops("fragments", "too_big"), 4);
    assert_eq!(drops("fragments", "icmp_errors"), 4);
    assert_eq!(drops("charging", "too_big"), 4);
    assert_eq!(drops("charging", "rate_exceeded"), 1);
    assert_eq!(drops("charging", "far_drop"), 3);
    assert_eq!(drops("fragments-outside", "fragmented"), 2);
    assert_eq!(drops("repetition", "pfcp_repeated"), 1);
    assert_eq!(drops("framed-routes", "unknown_ue"), 3);
    assert_eq!(drops("framed-routes", "no_pdr"), 3);
    assert_eq!(drops("redirect", "not_redirected"), 2);
    assert_eq!(drops("redirect", "requests_redirected"), 5);
    assert_eq!(drops("redirect", "gate_closed"), 1);
    assert_eq!(
        drops("duplicate", "packets_copied"),
        3 * 2 + 2 + 1 + 1 + 1 + 1
    );
    assert_eq!(drops("duplicate", "copies_unsent"), 0);
    assert_eq!(drops("applications", "far_drop"), 1);
    assert_eq!(drops("qos-monitoring", "malformed_packet"), 0);
    assert_eq!(drops("qos-monitoring", "reports"), 4);
}

/// The catalogue of `docs/reference/upf.md` names what is there, and no scenario is left out of it.
#[test]
fn the_catalogue_has_every_scenario_and_nothing_that_is_not_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("../../docs/reference/upf.md")).unwrap();
    let (_, catalogue) = page.split_once("## What the scenarios prove").unwrap();
    let (catalogue, _) = catalogue.split_once("\n## ").unwrap_or((catalogue, ""));
    let rows = catalogue.lines().filter(|line| line.starts_with("| "));
    let held_by = rows.filter_map(|row| row.trim_end_matches(" |").rsplit(" | ").next());
    let names: Vec<&str> = held_by
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect();
    let entries = std::fs::read_dir(folder()).unwrap().flatten();
    let scenarios: Vec<String> = entries
        .filter_map(|entry| Some(entry.path().file_stem()?.to_str()?.to_owned()))
        .collect();
    for scenario in &scenarios {
        assert!(
            names.contains(&scenario.as_str()),
            "{scenario} is in no row"
        );
    }
    let mut sources = String::new();
    for folder in ["src", "../flow/src", "../flow/tests", "../cli/tests/upf"] {
        read_sources(&root.join(folder), &mut sources);
    }
    for name in names {
        let is_test = sources.contains(&format!("fn {name}("));
        let is_scenario = scenarios.iter().any(|scenario| scenario == name);
        assert!(is_test || is_scenario, "there is no {name}");
    }
}

fn read_sources(folder: &Path, to: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            read_sources(&path, to);
        } else {
            to.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}
