//! `catena measure study`: small studies that run, are killed, go on, and say what they found.

use std::collections::BTreeMap;
use std::process::Stdio;

use serde_json::Value;

use super::harness::{Ended, Place, until};
use super::idle_states::{disabled, machine};

/// Options that make a study short, and patient with a busy machine.
const SHORT: [&str; 12] = [
    "--noise",
    "0s",
    "--repeats",
    "40",
    "--warmup",
    "10ms",
    "--rivals",
    "1",
    "--out",
    "out",
    "--force",
    "--json",
];

const SMALL: &str = "\
name: small
blocks: 2
trial: 30ms
factors:
  mode: [process, inline]
  size: [64, imix]
  rate: [max, 5kpps, 10%]
without: [{ size: imix, rate: 10% }]
";

fn arguments<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let mut all = vec!["measure", "study", "study.yaml"];
    all.extend(SHORT);
    all.extend(more);
    all
}

fn study(place: &Place, more: &[&str]) -> Ended {
    place.catena(&arguments(more))
}

fn journal(place: &Place) -> String {
    std::fs::read_to_string(place.path("out/study.jsonl")).unwrap_or_default()
}

/// How many trials stand in a journal.
fn trials(journal: &str) -> usize {
    let is_trial = |line: &&str| line.starts_with("{\"block\"") && line.ends_with('}');
    journal.lines().filter(is_trial).count()
}

/// All files of a report, by name.
fn report(place: &Place) -> BTreeMap<String, Vec<u8>> {
    let folder = std::fs::read_dir(place.path("out")).unwrap().flatten();
    let files = folder.filter(|entry| entry.file_name() != "study.jsonl");
    files
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, std::fs::read(entry.path()).unwrap())
        })
        .collect()
}

/// Latencies that bear the names of RFCs say what those ask for beyond.
#[track_caller]
fn assert_partial(document: &Value, blocks: usize) {
    let mut cells = document["study"]["cells"].as_array().unwrap().iter();
    let is_expected = cells.any(|cell| !cell["latency"].is_null());
    let mut rows = document["results"].as_array().unwrap().iter();
    let row = rows.find(|row| row[0] == "standing: PDV after RFC 8219 7.3.1");
    assert_eq!(row.is_some(), is_expected, "{row:?}");
    if let Some(row) = row {
        let text = row[1].as_str().unwrap();
        let trials = format!("; {blocks} trials, not 20; trials of ");
        assert!(
            text.starts_with("PARTIAL: ") && text.contains(&trials),
            "{text}"
        );
        let summary = document["summary"].as_str().unwrap();
        assert!(summary.contains("PARTIAL"), "{summary}");
    }
}

/// Reports say what the tester adds, how workers waited and what was built; the journal has it once
/// in each block, also where a study was gone on with.
#[track_caller]
fn assert_tester(place: &Place, document: &Value, blocks: usize) {
    let value = |part: &str, name: &str| {
        let mut rows = document[part].as_array().unwrap().iter();
        let row = rows.find(|row| row[0].as_str().unwrap().starts_with(name));
        let row = row.unwrap_or_else(|| panic!("no {name}: {document:#}"));
        row[1].as_str().unwrap().to_owned()
    };
    assert!(!value("results", "tester's own baseline").is_empty());
    assert!(!value("results", "bias").is_empty());
    assert!(!value("environment", "wait policy, mode ").is_empty());
    assert!(value("environment", "build of the trials").starts_with("profile "));
    let journal = journal(place);
    let with = journal
        .lines()
        .filter(|line| line.contains("\"baselines\":["));
    assert_eq!(with.count(), blocks);
    let findings = std::fs::read_to_string(place.path("out/findings.md")).unwrap();
    assert_eq!(
        findings.contains("PARTIAL: "),
        document["summary"].as_str().unwrap().contains("PARTIAL")
    );
}

/// What holds of every report of a whole study.
#[track_caller]
fn assert_whole(place: &Place, document: &Value, cells: usize, blocks: usize) {
    let study = &document["study"];
    assert_eq!(study["planned"], cells * blocks);
    assert_eq!(study["done"], cells * blocks, "{document:#}");
    assert_eq!(study["cells"].as_array().unwrap().len(), cells);
    for cell in study["cells"].as_array().unwrap() {
        assert_eq!(cell["trials"], blocks);
        let is_max = cell["levels"][3] == "max";
        let metric = if is_max { "rate at max" } else { "latency p50" };
        let value = &cell["values"][metric];
        assert!(value["estimate"].as_f64().unwrap() > 0.0, "{cell:#}");
        assert_eq!(value["interval"].is_object(), blocks > 1);
    }
    assert_partial(document, blocks);
    assert_tester(place, document, blocks);
    let lines = std::fs::read_to_string(place.path("out/cells.csv")).unwrap();
    assert_eq!(lines.lines().count(), cells + 1);
    let page = std::fs::read_to_string(place.path("out/report.html")).unwrap();
    for part in [
        "<h2>Study</h2>",
        "What each factor does",
        "Every combination",
        "<svg",
        "<p>standing: PDV after RFC 8219 7.3.1: PARTIAL: ",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let is_alone = |scheme: &str| {
        !page
            .replace("http://www.w3.org/2000/svg", "")
            .contains(scheme)
    };
    assert!(is_alone("http://") && is_alone("https://") && !page.contains("<script"));
    place.assert_nothing_left();
}

#[test]
fn a_study_is_killed_goes_on_and_keeps_every_trial() {
    let place = Place::new();
    place.write("study.yaml", SMALL);
    let mut command = place.command(&arguments(&[]));
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    until("three trials are done", || {
        (trials(&journal(&place)) >= 3).then_some(())
    });
    child.kill().unwrap();
    child.wait().unwrap();
    until("its workers are gone", || {
        place.processes().is_empty().then_some(())
    });
    // The killed supervisor's own folder; `assert_nothing_left` looks at what later ones leave.
    for entry in std::fs::read_dir(place.runtime()).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            std::fs::remove_dir_all(path).unwrap();
        } else {
            std::fs::remove_file(path).unwrap();
        }
    }
    let before = journal(&place);
    // What a crash in the midst of a line leaves.
    let mut half = before.clone();
    let kept = before.rfind('\n').unwrap() + 1;
    half.truncate(kept);
    half.push_str("{\"block\":0,\"cell\":{\"mo");
    place.write("out/study.jsonl", &half);

    let ended = study(&place, &[]);
    assert!(ended.stderr.contains("not written whole"), "{ended:?}");
    let document = ended.assert_code(0).json();
    let after = journal(&place);
    assert!(
        after.starts_with(&before[..kept]),
        "finished trials are kept"
    );
    // Beside the trials, the beginning of the run that was killed, and of this one.
    assert_eq!(trials(&after), 20);
    assert_eq!(after.lines().count(), 1 + 20 + 2);
    assert_whole(&place, &document, 10, 2);
    assert_eq!(
        document["commands"].as_array().unwrap().len(),
        1,
        "the same command twice"
    );

    // All is done: nothing is run again.
    let again = study(&place, &[]).assert_code(0).json();
    assert_eq!(journal(&place), after);
    assert_eq!(again["study"], document["study"]);
    // The document alone makes the same page and tables.
    let render = ["measure", "render", "out/report.json", "--out", "again"];
    place.catena(&render).assert_code(0);
    for file in [
        "report.html",
        "report.json",
        "cells.csv",
        "findings.md",
        "trials.csv",
    ] {
        let read = |folder: &str| std::fs::read(place.path(&format!("{folder}/{file}"))).unwrap();
        assert!(read("again") == read("out"), "{file}");
    }
    let render = ["measure", "render", "study.yaml", "--out", "no"];
    let refused = place.catena(&render);
    assert!(
        refused
            .assert_code(2)
            .stderr
            .contains("not a report document"),
        "{refused:?}"
    );
    assert!(!place.path("no").exists());
    // Another study does not mix with it.
    let other = study(&place, &["--trial", "40ms"]);
    assert!(
        other.assert_code(2).stderr.contains("trial_ns differ"),
        "{other:?}"
    );
    let part = study(&place, &["--only", "size=64", "--plan"]);
    assert!(
        part.assert_code(0)
            .stdout
            .contains("6 combinations in 2 blocks are 12 trials")
    );
}

/// Noise, lateness, power and settings are those of the trials, whoever draws their report.
#[test]
fn a_report_drawn_again_from_its_journal_is_the_same() {
    let place = Place::new();
    let text = "name: again\nblocks: 2\ntrial: 30ms\nfactors: { rate: [max, 5kpps] }\n";
    place.write("study.yaml", text);
    let run = |more: &[&str]| {
        let mut all = vec!["measure", "study", "study.yaml", "--out", "out", "--json"];
        all.extend(more);
        place.catena(&all).assert_code(0).json()
    };
    let patient = ["--repeats", "40", "--warmup", "10ms", "--rivals", "1"];
    let measured = ["--noise", "20ms", "--watts", "50"];
    let document = run(&[patient.as_slice(), &measured].concat());
    for row in [
        "generator's lateness, all packets sent",
        "as --watts says",
        "Gbit/s per watt",
    ] {
        assert!(document["results"].to_string().contains(row), "{row}");
    }
    assert_eq!(document["noise"][0][0], "all");
    assert!(document["environment"].to_string().contains("wake-up"));
    let (first, journal_before) = (report(&place), journal(&place));
    let blocks = String::from_utf8(first["blocks.csv"].clone()).unwrap();
    assert!(blocks.starts_with("block,rate,rate_pps,p50_ns,p99_ns,pdv_ns\n1,max,"));
    assert_eq!(blocks.lines().count(), 1 + 4);
    // None of these options is of a trial.
    run(&["--report", "--warmup", "70ms"]);
    assert!(report(&place) == first, "--report");
    run(&["--noise", "10ms"]);
    assert!(report(&place) == first, "nothing is due");
    assert_eq!(journal(&place), journal_before);

    // A journal of the first version has none of it, and is read all the same.
    let without = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        if let Some(measured) = line.pointer_mut("/result/Ok") {
            measured.as_object_mut().unwrap().remove("sent");
        }
        line.to_string() + "\n"
    };
    let lines = journal_before.lines();
    let lines = lines.filter(|line| !line.starts_with("{\"run\""));
    let old: String = lines.map(without).collect();
    place.write("out/study.jsonl", old.replace("study/2", "study/1"));
    let document = run(&["--report"]);
    assert_eq!(document["study"]["done"], 4);
    let results = document["results"].to_string();
    assert!(
        results.contains("not known of 2 trials at a load, which are of an older version")
            && !results.contains("all packets sent"),
        "{results}"
    );
    place.assert_nothing_left();
}

#[test]
fn a_port_that_needs_what_is_not_there_is_left_out_with_a_word() {
    let place = Place::new();
    let file = |levels: &str| {
        let port = "dpdk: { device: { dpdk: { device: net_null0 } } }";
        place.write(
            "study.yaml",
            format!("name: without\nfactors: {{ port: [{levels}] }}\nports: {{ {port} }}\n"),
        );
        let mut plan = place.command(&arguments(&["--plan"]));
        let output = plan.env("CATENA_DPDK", place.path("nowhere.so")).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}");
        (
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (plan, said) = file("link, dpdk");
    assert!(plan.contains(": 1 combinations"), "{plan}");
    assert!(said.contains("port dpdk: unsupported here: "), "{said}");
    // Where nothing would be left, trials say why they fail.
    let (plan, said) = file("dpdk");
    assert!(plan.contains(": 1 combinations"), "{plan}");
    assert_eq!(said, "");
}

#[test]
fn wrong_studies_start_nothing() {
    let place = Place::new();
    place.write(
        "study.yaml",
        "name: wrong\nfactors: { mode: [vm], size: 20 }\n",
    );
    let ended = study(&place, &[]);
    for words in [
        "study.yaml:2:19: error",
        "study.yaml:2:30: error",
        "nothing was started",
    ] {
        assert!(
            ended.assert_code(2).stderr.contains(words),
            "{words}: {ended:?}"
        );
    }
    place.write("study.yaml", SMALL);
    for (option, words) in [
        ("size", "write it like"),
        ("size=65", "it has 64, imix"),
        ("colour=red", "the factors are"),
    ] {
        let ended = study(&place, &["--only", option]);
        assert!(
            ended.assert_code(2).stderr.contains(words),
            "{option}: {ended:?}"
        );
    }
    assert!(!place.path("out").exists());
    place.assert_nothing_left();
}

#[test]
fn states_are_crossed_and_restored_even_after_kills() {
    let place = Place::new();
    machine(&place);
    place.write("study.yaml", "name: states\nblocks: 1\ntrial: 20ms\n");
    let options = ["--states", "+c,-c", "--root", "tree"];
    let document = study(&place, &options).assert_code(0).json();
    assert_eq!(disabled(&place), "000");
    let effects = document["study"]["effects"].as_array().unwrap();
    assert!(
        effects.iter().any(|effect| effect["factor"] == "states"),
        "{effects:?}"
    );
    let unsupported = document["unsupported"].to_string();
    assert!(
        unsupported.contains("cpu_dma_latency (C states)"),
        "{unsupported}"
    );

    // Both the study and its guardian are killed in the midst: the next start restores.
    place.write("study.yaml", "name: states\nblocks: 1\ntrial: 60s\n");
    let mut all = vec![
        "measure",
        "study",
        "study.yaml",
        "--noise",
        "0s",
        "--out",
        "other",
    ];
    all.extend(["--states", "-c", "--root", "tree"]);
    let mut command = place.command(&all);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let child = command.stderr(Stdio::null()).spawn().unwrap();
    until("the states are set", || {
        (disabled(&place) == "011").then_some(())
    });
    let kill = |pid: &str| {
        let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    };
    // The guardian first, so that it does not restore.
    let guardian = until("the guardian runs", || {
        let is_guardian = |pid: &&String| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains("--guard")
        };
        place.processes().iter().find(is_guardian).cloned()
    });
    kill(&guardian);
    kill(&child.id().to_string());
    let mut child = child;
    child.wait().unwrap();
    until("all are gone", || {
        place.processes().iter().for_each(|pid| kill(pid));
        place.processes().is_empty().then_some(())
    });
    assert_eq!(disabled(&place), "011", "nobody was left to restore");
    let restored = place.catena(&["doctor", "--restore", "--root", "tree"]);
    assert!(
        restored.assert_code(0).stdout.contains("are restored"),
        "{restored:?}"
    );
    assert_eq!(disabled(&place), "000");
    let again = place.catena(&["doctor", "--restore", "--root", "tree"]);
    assert!(again.assert_code(0).stdout.contains("nothing to restore"));
}

#[test]
fn a_machine_without_states_is_measured_once_and_says_why() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("tree/sys")).unwrap();
    place.write("study.yaml", "name: none\nblocks: 1\ntrial: 20ms\n");
    let options = ["--states", "+pc,-pc", "--root", "tree", "--watts", "50"];
    let ended = study(&place, &options);
    for setting in [
        "governor",
        "turbo",
        "idle states",
        "cpu_dma_latency",
        "states +pc, -pc",
    ] {
        assert!(ended.stderr.contains(setting), "{setting}: {ended:?}");
    }
    let document = ended.assert_code(0).json();
    assert_eq!(document["study"]["planned"], 1);
    let power = &document["study"]["cells"][0]["values"]["power"];
    assert!((power["estimate"].as_f64().unwrap() - 50.0).abs() < 1e-6);
    assert!(document["results"].to_string().contains("Gbit/s per watt"));
}

#[test]
fn ports_of_the_kernel_join_by_a_line() {
    let place = Place::new();
    let probe = place.run(
        "unshare",
        &["--user", "--map-root-user", "--net", "--", "ip", "link"],
    );
    if probe.is_none_or(|ended| ended.code != 0) {
        println!("SKIP ports_of_the_kernel_join_by_a_line: no network namespace for this user");
        return;
    }
    let text = "\
name: wired
blocks: 1
trial: 50ms
factors: { mode: [process, inline], port: [packet_socket, tap], rate: 2kpps }
ports:
  packet_socket: { device: { packet_socket: { interface: $device, delivery: frames } } }
  tap:
    device: { tap: { name: $device } }
    tester: { packet_socket: { interface: $device, delivery: frames } }
    wire: tap
";
    place.write("study.yaml", text);
    let ended = study(&place, &[]);
    let document = ended.assert_code(0).json();
    assert_whole(&place, &document, 4, 1);
    for cell in document["study"]["cells"].as_array().unwrap() {
        assert!(
            cell["values"]["loss"]["estimate"].as_f64().unwrap() < 0.5,
            "{cell:#}"
        );
    }
}

/// Chunks larger than any network's frame arrive by ring, flag and TCP, and none is lost.
#[test]
fn chunks_of_128_kib_are_handed_over_by_every_protocol() {
    let place = Place::new();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../chains/studies/ntt.yaml");
    place.write("study.yaml", std::fs::read_to_string(file).unwrap());
    let part = ["--only", "mode=process", "--only", "size=131072"];
    let short = ["--blocks", "1", "--trial", "100ms"];
    let document = study(&place, &[part, short].concat()).assert_code(0).json();
    let cells = document["study"]["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 3);
    for (cell, protocol) in cells.iter().zip(["ring", "flag", "tcp"]) {
        assert_eq!(cell["levels"][2], "131072");
        assert_eq!(cell["levels"][8], protocol);
        let loss = &cell["values"]["loss"]["estimate"];
        assert!(loss.as_f64().unwrap() < 0.2, "{cell:#}");
        let median = &cell["values"]["latency p50"]["estimate"];
        assert!(median.as_f64().unwrap() > 1_000.0, "{cell:#}");
    }
    place.assert_nothing_left();
}

#[test]
fn a_study_with_probes_says_what_they_cost_and_how_late_its_generator_was() {
    let place = Place::new();
    let text =
        "name: probed\nblocks: 1\ntrial: 100ms\nfactors: { mode: [inline, thread], rate: 5kpps }\n";
    place.write("study.yaml", text);
    let document = study(&place, &["--probes"]).assert_code(0).json();
    let cells = document["study"]["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 2);
    for cell in cells {
        let tax = &cell["probe_tax"];
        assert_eq!(tax["measure"], "busy_time_per_packet", "{cell:#}");
        let ratio = &tax["comparison"]["ratio"];
        let [low, estimate, high] = ["low", "estimate", "high"].map(|key| ratio[key].as_f64());
        assert!(
            low < estimate && estimate < high && low > Some(0.0),
            "{ratio:#}"
        );
        let late = |which: &str| {
            let value = &cell["values"][format!("generator lateness{which}")];
            value["estimate"].as_f64().unwrap()
        };
        assert!(
            late(" p50") <= late(" max") && late(" max") > 0.0,
            "{cell:#}"
        );
    }
    // What the probes do not see is a row of its own, so that the table meets what was measured.
    let outside = document.to_string().matches("outside residence").count();
    assert!(outside >= 2, "{outside}: {document:#}");
    let results = document["results"].to_string();
    for row in [
        "cost of the probes",
        "over 2 combinations",
        "generator's lateness",
    ] {
        assert!(results.contains(row), "{row}: {results}");
    }
    let page = std::fs::read_to_string(place.path("out/report.html")).unwrap();
    assert!(page.contains("<h3>Cost of the probes</h3>") && !page.contains("was not measured"));
    let table = std::fs::read_to_string(place.path("out/cells.csv")).unwrap();
    let (head, row) = table.split_once('\n').unwrap();
    let place_of = head
        .split(',')
        .position(|name| name == "cost of probes (share)")
        .unwrap();
    let cost = row
        .lines()
        .next()
        .unwrap()
        .split(',')
        .nth(place_of)
        .unwrap();
    assert!(cost.parse::<f64>().unwrap() > -1.0, "{table}");
    place.assert_nothing_left();
}
