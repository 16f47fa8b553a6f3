//! Every scenario of the example library, in simulated time; and that a wrong one is found out.

use std::path::{Path, PathBuf};

use catena_engine::nf::Verdict;
use catena_engine::nf_bench::NfBench;
use catena_wire::gtpu;
use serde_json::json;

use super::scenario::{Act, Scenario, Step};
use super::simulation::{Outcome, Simulation};
use super::{Player, Turn, wire};
use crate::headers::{Outer, outer};

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
        "home-routed",
        "i-upf",
        "qos-monitoring",
        "malformed",
        "replaced-rules",
        "thresholds",
        "monitoring-time",
        "regressions-accepted",
        "regressions-restart",
    ] {
        let mut simulation = Simulation::new(Scenario::parse(&text(name)).unwrap()).unwrap();
        simulation.replace(|settings| settings["buffered"] = json!(5000));
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
        let flushes = matches!(name, "paging" | "unstructured" | "ethernet" | "home-routed");
        assert_eq!(of("flushed") > 0, flushes, "{account}");
    }
}

/// Sessions name interfaces, network instances and policies by places: an apply that orders them
/// otherwise, or adds some in front, leaves sessions as they are.
#[test]
fn an_apply_that_orders_interfaces_otherwise_leaves_sessions_as_they_are() {
    for name in [
        "steering",
        "duplicate",
        "vn-group",
        "home-routed",
        "traffic-endpoints",
    ] {
        let mut simulation = Simulation::new(Scenario::parse(&text(name)).unwrap()).unwrap();
        simulation.replace(|settings| {
            let interfaces = settings["interfaces"].as_array_mut().unwrap();
            interfaces.reverse();
            if interfaces.iter().all(|one| one["name"] != "new") {
                let new = json!({ "name": "new", "side": "sgi", "network_instance": "another" });
                interfaces.insert(0, new);
            }
            let policies = settings.get_mut("forwarding_policies");
            if let Some(policies) = policies.and_then(|all| all.as_array_mut()) {
                policies.reverse();
                if policies.len() == 1 {
                    policies.insert(0, json!({ "name": "first", "interface": "new" }));
                }
            }
        });
        let played = simulation.play();
        assert!(played.is_ok(), "{name}: {:?}", played.err());
    }
}

/// A scenario whose settings change once so many sessions are there, as by an apply: what is
/// counted at its end.
fn changed_behind(
    text: &str,
    sessions: u64,
    change: fn(&mut serde_json::Value),
) -> Result<serde_json::Value, String> {
    let mut simulation = Simulation::new(Scenario::parse(text).unwrap()).unwrap();
    while simulation.ask(&json!({ "show": "sessions" })).unwrap()["count"] != sessions {
        assert!(
            simulation.turn()?.is_none(),
            "there are {sessions} sessions"
        );
    }
    simulation.replace(change);
    Ok(simulation.play()?.counters)
}

const GROUPED: &str = "about: A UE of a 5G VN group, and one of the data network.
upf:
  node_id: 10.4.0.1
  n4: { address: 10.4.0.1, heartbeat: 0s }
  interfaces:
    - { name: n3, side: access, address: 10.3.0.1 }
    - { name: n6, side: core, network_instance: internet }
  groups: [factory]
smf: 10.4.0.2
n4: 10.4.0.1
ran: 10.3.0.2
n3: 10.3.0.1
host: 203.0.113.9
steps:
  - { do: associate, expect: [ answer: {} ] }
  - do:
      establish:
        session: 1
        pdrs:
          - { id: 1, precedence: 1, source: access, choose_teid: true, ue: 10.45.0.1, removal: 0,
              far: 1 }
        fars: [ { id: 1, action: forward, to: group, network_instance: factory } ]
    expect: [ answer: {} ]
  - do:
      establish:
        session: 2
        pdrs:
          - { id: 1, precedence: 1, source: core, network_instance: internet, ue: 10.45.0.2,
              far: 1 }
        fars: [ { id: 1, action: forward, to: access, teid: 0x201 } ]
    expect: [ answer: {} ]
  # The first burst takes the old settings with it.
  - { do: { downlink: { session: 2, ue: 10.45.0.2 } }, expect: [ packets: { teid: 0x201 } ] }
  - { do: { uplink: { session: 1, peer: 10.45.0.2, count: 3 } } }
";

/// Where a group goes, its UEs reach nobody by it: not those of the data network either.
#[test]
fn a_group_that_an_apply_takes_away_leads_nowhere() {
    let stays = changed_behind(GROUPED, 2, |_| {}).unwrap();
    assert_eq!(
        (&stays["no_pdr"], &stays["far_drop"]),
        (&json!(3), &json!(null))
    );
    let changes: [fn(&mut serde_json::Value); 3] = [
        |settings| settings["groups"] = json!([]),
        |settings| settings["groups"] = json!(["another"]),
        // Its network instance stays.
        |settings| {
            settings["groups"] = json!([]);
            settings["pools"] = json!([{ "network_instance": "factory", "v4": "10.46.0.0/16" }]);
        },
    ];
    for change in changes {
        let counters = changed_behind(GROUPED, 2, change).unwrap();
        assert_eq!(counters["far_drop"], 3, "{counters}");
    }
}

/// A policy that leads elsewhere now leads there, and one that is gone leads nowhere.
#[test]
fn a_policy_that_an_apply_changes_leads_where_it_says() {
    let whole = text("steering");
    let (head, _) = whole
        .split_once("  - do: { uplink: { session: 1, count: 3 } }")
        .unwrap();
    let play = |expected: &str, change| {
        let steps = format!(
            "  - {{ do: {{ downlink: {{ session: 1 }} }}, expect: [ packets: {{ teid: 0x101 }} ] }}\n  \
             - {{ do: {{ uplink: {{ session: 1, port: 554 }} }}, expect: [ {expected} ] }}\n"
        );
        changed_behind(&format!("{head}{steps}"), 1, change)
    };
    let by = |mac: &str| format!("packets: {{ next_hop: \"{mac}\" }}");
    play(&by("02:00:00:00:06:02"), |_| {}).unwrap();
    play(&by("02:00:00:00:06:01"), |settings| {
        settings["forwarding_policies"][0]["interface"] = json!("n6");
    })
    .unwrap();
    let gone = play("", |settings| settings["forwarding_policies"] = json!([])).unwrap();
    assert_eq!(gone["far_drop"], 1, "{gone}");
}

/// Why packets of a session were dropped is said of the session: as much as the UPF counts in all,
/// where there is no other one.
#[test]
fn a_session_says_why_its_packets_were_dropped() {
    for (name, reasons) in [
        ("gates", &["gate_closed"][..]),
        ("averaging-window", &["rate_exceeded"]),
        ("filters", &["far_drop", "no_pdr"]),
        ("paging-limit", &["buffer_full"]),
    ] {
        let mut scenario = Scenario::parse(&text(name)).unwrap();
        let is_deletion = |step: &Step| matches!(step.act, Some(Act::Delete(_)));
        scenario.steps.retain(|step| !is_deletion(step));
        let mut simulation = Simulation::new(scenario).unwrap();
        let counters = simulation.play().unwrap().counters;
        let sessions = simulation.ask(&json!({ "show": "sessions" })).unwrap();
        let mut shown = |one: &serde_json::Value| {
            let request = json!({ "show": "session", "seid": one["seid"] });
            simulation.ask(&request).unwrap()["drops"].clone()
        };
        let sessions = sessions["sessions"].as_array().unwrap();
        let drops: Vec<_> = sessions.iter().map(&mut shown).collect();
        for reason in reasons {
            let of = |one: &serde_json::Value| one[reason].as_u64().unwrap_or(0);
            let sum: u64 = drops.iter().map(of).sum();
            let all = of(&counters);
            assert!(sum == all && all > 0, "{name}, {reason}: {sum} of {all}");
        }
        for (one, drops) in sessions.iter().zip(&drops) {
            let each = drops.as_object().unwrap().values();
            let sum: u64 = each.filter_map(serde_json::Value::as_u64).sum();
            assert_eq!(one["dropped"], sum, "{name}");
        }
    }
}

/// What is held of a group says its place: where that is another one's now, or no group's, nothing
/// of it leaves.
#[test]
fn what_is_held_of_a_group_that_gets_another_place_is_dropped() {
    let changes: [fn(&mut serde_json::Value); 2] = [
        |settings| {
            let groups = settings["groups"].as_array_mut().unwrap();
            if groups[0] != "first" {
                groups.insert(0, json!("first"));
            }
        },
        |settings| settings["groups"] = json!([]),
    ];
    for change in changes {
        let scenario = Scenario::parse(&text("vn-group")).unwrap();
        let mut simulation = Simulation::new(scenario).unwrap();
        while simulation.buffers().0 == 0 {
            assert!(simulation.turn().unwrap().is_none(), "something is held");
        }
        simulation.replace(change);
        let account = |simulation: &mut Simulation| {
            let reports = simulation.ask(&json!({"show": "reports"})).unwrap();
            let buffer = &reports["buffer"];
            ["held", "discarded", "flushed"].map(|name| buffer[name].as_u64().unwrap())
        };
        let [held, discarded, flushed] = account(&mut simulation);
        // The next burst takes the old settings with it.
        while account(&mut simulation)[0] > 0 {
            let _ = simulation.turn();
        }
        assert_eq!(account(&mut simulation), [0, discarded + held, flushed]);
        assert_eq!(simulation.buffers(), (0, 0));
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
        // One that should not be there, one that is not, and the rule.
        (
            "refusals",
            "cause: 65",
            "cause: 65, offending: 57",
            "offending IE None",
        ),
        ("refusals", ", offending: 42", "", "offending IE Some(42)"),
        (
            "contradictions",
            "rule: { far: 99 }",
            "rule: { far: 98 }",
            "failed rule Some(Far(FarId(99)))",
        ),
        (
            "paging",
            "count: 8, first: 1,",
            "count: 8, first: 2,",
            "nobody expected packet 1",
        ),
        ("load", "load: 75", "load: 50", "a load of Some(75)"),
        ("pool", "cause: 79", "cause: 75", "cause 79 instead of 75"),
        // Which UPF a packet goes to, and how it is marked.
        (
            "ul-cl",
            "first: 1, teid: 0x901, upf: 10.9.0.2",
            "first: 1, teid: 0x901, upf: 10.9.0.3",
            "nobody expected packet 1 ",
        ),
        (
            "ul-cl",
            "qfi: 9, rqi: false",
            "qfi: 9, rqi: true",
            "nobody expected packet 8 ",
        ),
        (
            "home-routed",
            "container: false",
            "container: true",
            "nobody expected packet 6 ",
        ),
        (
            "marking",
            "dscp: 46",
            "dscp: 45",
            "nobody expected packet 1 ",
        ),
        (
            "marking",
            "ppi: 2, dscp",
            "ppi: 3, dscp",
            "nobody expected packet 1 ",
        ),
        (
            "i-upf",
            "message: 254, teid: 0x901, upf: 10.9.0.2",
            "message: 254, teid: 0x901",
            "nobody expected",
        ),
        ("qos-monitoring", "marked: 1", "marked: 0", "is marked"),
        ("qos-monitoring", "marked: 0", "marked: 1", "too few are"),
        ("qos-monitoring", "dl: 7, ul", "dl: 6, ul", "instead of"),
        (
            "path-qos",
            "average: 11, ",
            "average: 12, ",
            "nobody expected",
        ),
        ("path-qos", "dscp: 46, after", "dscp: 45, after", "nobody"),
    ] {
        let text = text(name);
        assert!(text.contains(right), "{name}");
        let fault = play(&text.replacen(right, wrong, 1)).unwrap_err();
        assert!(fault.contains(says), "{name}: {fault}");
    }
}

/// Packets that were dropped have a named reason, which scenarios expect: one that expects another
/// number, or what nobody counts, is told of all of it.
#[test]
fn what_was_counted_otherwise_is_told_at_the_end() {
    let right = text("gates");
    for (wrong, says) in [
        ("gate_closed: 3", "gate_closed is 2 instead of 3"),
        ("gate_shut: 2", "the UPF counts no gate_shut"),
        ("unknown_ue: 1", "unknown_ue is 0 instead of 1"),
        ("gate_closed: 2, spoofed: 0", ""),
    ] {
        let text = right.replace("gate_closed: 2", wrong);
        assert_ne!(text, right);
        let said = play(&text).err().unwrap_or_default();
        assert_eq!(said.is_empty(), says.is_empty(), "{wrong}: {said}");
        assert!(said.contains(says), "{wrong}: {said}");
    }
}

/// The numbers of users' packets in tunnels, in their order.
fn numbers(frames: impl IntoIterator<Item = Vec<u8>>) -> Vec<u32> {
    let number = |frame: Vec<u8>| match outer(&frame) {
        Outer::Udp {
            dst_port: gtpu::PORT,
            from,
            to,
            ..
        } => wire::number(gtpu::View::parse(&frame[from..to]).ok()?.payload()),
        _ => None,
    };
    frames.into_iter().filter_map(number).collect()
}

/// What another UPF sends right behind the message that lets held packets go leaves behind them,
/// though its rules no longer hold it.
#[test]
fn a_packet_of_n9_does_not_overtake_those_that_are_held() {
    let mut scenario = Scenario::parse(&text("home-routed")).unwrap();
    let is_release = |step: &Step| match &step.act {
        Some(Act::Modify(rules)) => rules.update_fars.iter().any(|far| far.teid == Some(0x202)),
        _ => false,
    };
    let at = scenario.steps.iter().position(is_release).unwrap();
    let behind = scenario.steps.split_off(at);
    let mut settings = scenario.upf.clone().unwrap();
    settings["simulated_epoch"] = json!(1_700_000_000);
    settings["sessions"] = json!(4);
    let mut bench = NfBench::new(&crate::nf::KIND, &settings, &[]).unwrap();
    let mut player = Player::new(scenario.clone());
    loop {
        match player.turn(0) {
            Turn::Done => break,
            Turn::Send(frames) => {
                for frame in &frames {
                    let processed = bench.process_one(frame);
                    if let Verdict::Output(_) = processed.verdict {
                        player.frame(&processed.bytes);
                    }
                }
                let emitted = bench.emit(32, false).0;
                emitted.iter().for_each(|one| player.frame(&one.bytes));
            }
            turn => panic!("{turn:?}"),
        }
    }
    let mut frames = Vec::new();
    // The release, and two more packets, as the last step had them.
    for act in [&behind[0].act, &scenario.steps[at - 1].act] {
        frames.extend(player.act(act.as_ref().unwrap(), 0).unwrap());
    }
    let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
    let processed = bench.process(&frames).packets.into_iter();
    let sent = processed.filter(|one| matches!(one.verdict, Verdict::Output(_)));
    let sent: Vec<_> = sent.map(|one| one.bytes).collect();
    let emitted = bench.emit(32, false).0.into_iter().map(|one| one.bytes);
    let left = sent.into_iter().chain(emitted);
    assert_eq!(numbers(left), [8, 9, 10, 11, 12]);
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
    for folder in [
        "src",
        "../flow/src",
        "../flow/tests",
        "../cli/tests",
        "../wire/tests",
    ] {
        read_sources(&root.join(folder), &mut sources);
    }
    for name in names {
        let is_test = sources.contains(&format!("fn {name}("));
        let is_scenario = scenarios.iter().any(|scenario| scenario == name);
        assert!(is_test || is_scenario, "there is no {name}");
    }
}

/// The rows of `docs/reference/upf.md` about scenarios of others name what holds each, or say why
/// nothing does; none of OAI's numbers and of gtp-guard's names is left out.
#[test]
fn scenarios_of_others_are_held_or_it_is_said_why_not() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("../../docs/reference/upf.md")).unwrap();
    let (_, table) = page.split_once("### Scenarios of others").unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| "));
    let rows = rows.filter_map(|row| row.trim_end_matches(" |").split_once(" | "));
    let rows: Vec<_> = rows.filter(|(theirs, _)| *theirs != "scenario").collect();
    for (theirs, ours) in &rows {
        let is_said = ["does not apply", "not here: ", "otherwise here: "];
        let is_said = is_said.iter().any(|word| ours.starts_with(word));
        assert!(ours.contains('`') || is_said, "{theirs}: {ours}");
    }
    // What stands in front of the colon: a source, and its numbers or names.
    let named: Vec<&str> = rows
        .iter()
        .filter_map(|(theirs, _)| theirs.split_once(": "))
        .flat_map(|(source, _)| source.split([' ', ',']))
        .collect();
    for number in 1..=16 {
        assert!(named.contains(&number.to_string().as_str()), "OAI {number}");
    }
    for name in [
        "volth1", "volth2", "volth3", "volth4", "volth5", "volth10", "all1", "volqu1", "timth1",
        "timqu1", "quht", "period1", "period2", "pkt",
    ] {
        assert!(named.contains(&name), "gtp-guard {name}");
    }
    let of = |source| named.iter().filter(|one| **one == source).count();
    assert!(of("UPG") >= 40 && of("osmo-upf") == 6, "{named:?}");
}

fn read_sources(folder: &Path, to: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            read_sources(&path, to);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            to.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}
