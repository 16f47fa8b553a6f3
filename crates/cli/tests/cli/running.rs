//! Chains that run until somebody ends them: status, list, top, plan, nf control, stop, signals.

use rustix::process::Signal;
use serde_json::Value;

use super::harness::{Place, assert_conserved, named, until};

/// `in -> swap -> tally -> out`, from a generator into a sink that checks its numbers.
pub(crate) fn generating(place: &Place, name: &str) -> String {
    let text = format!(
        "name: {name}\nports:\n  in: {{ generator: {{ rate: 20kpps }} }}\n  \
         out: {{ sink: {{ verify: true }} }}\nnfs:\n  swap: {{ type: macswap }}\n  \
         tally: {{ type: count }}\nlinks: [in -> swap, swap -> tally, tally -> out]\n\
         run: {{ mode: process }}\n"
    );
    let file = format!("{name}.yaml");
    place.write(&file, text);
    file
}

fn status(place: &Place, chain: &str) -> Value {
    let ended = place.catena(&["status", "--json", chain]);
    ended.assert_code(0).json()
}

/// Waits until packets come out at the end.
pub(crate) fn await_packets(place: &Place, chain: &str) {
    until("packets come out", || {
        let status = status(place, chain);
        let sent = named(&status["nodes"], "out")["tx_packets"].as_u64();
        (sent > Some(100)).then_some(())
    });
}

#[test]
fn a_running_chain_can_be_looked_at_and_stopped() {
    let place = Place::new();
    let file = generating(&place, "gen");
    let running = place.start("gen", &["--json", &file]);
    await_packets(&place, "gen");

    let list = place.catena(&["list", "--json"]).json();
    assert_eq!(list["chains"][0]["chain"], "gen");
    assert_eq!(
        (&list["chains"][0]["nodes"], &list["chains"][0]["links"]),
        (&4.into(), &3.into())
    );
    let list = place.catena(&["list"]);
    let row = list.stdout.lines().nth(1).unwrap();
    assert!(row.starts_with("gen "), "{list:?}");

    let text = place.catena(&["status"]);
    let text = text.assert_code(0).stdout.as_str();
    assert!(text.contains("swap -> tally"), "{text}");
    assert!(text.contains("wait policy: "), "{text}");

    let frame = place.catena(&["top", "--once", "--interval", "0.2"]);
    let frame = frame.assert_code(0).stdout.as_str();
    assert!(frame.starts_with("catena top: gen"), "{frame}");
    assert!(frame.contains("swap -> tally"), "{frame}");
    assert!(!frame.contains('\x1b'), "{frame}");

    let stopped = place.catena(&["stop", "--json", "gen"]);
    let stopped = stopped.assert_code(0).json();
    assert_conserved(&stopped);
    // Who stops a chain may start it again at once.
    assert_eq!(std::fs::read_dir(place.runtime()).unwrap().count(), 0);
    let ended = running.end();
    assert_eq!(ended.assert_code(0).json(), stopped);
    place.assert_nothing_left();
}

#[test]
fn rates_are_those_of_the_generator() {
    let place = Place::new();
    let file = generating(&place, "gen");
    let running = place.start("gen", &[&file]);
    await_packets(&place, "gen");
    // On a loaded machine an interval may hold a pause or what is caught up after one, fall
    // between the two counts of one burst, or see a worker that stands still.
    until("rates of up to 20 kpps of 64 bytes each", || {
        let ended = place.catena(&["top", "--json", "--interval", "0.5", "gen"]);
        let rates = ended.assert_code(0).json();
        let swap = named(&rates["nodes"], "swap");
        let pps = swap["rx_pps"].as_f64().unwrap();
        let bits = swap["rx_l2_bps"].as_f64().unwrap() / pps;
        let workers = rates["workers"].as_array().unwrap();
        let awake = |worker: &Value| {
            let share = worker["awake_share"].as_f64();
            share.is_some_and(|share| (0.0..=1.0).contains(&share))
        };
        // It makes up for 100 us at most, so that a worker which is seldom run makes fewer.
        let near = (500.0..=25e3).contains(&pps) && (bits - 512.0).abs() < 8.0;
        (near && !workers.is_empty() && workers.iter().all(awake)).then_some(())
    });
    running.signal(Signal::TERM);
    running.end().assert_code(0);
}

#[test]
fn a_signal_drains_the_chain_and_prints_the_last_counters() {
    for signal in [Signal::TERM, Signal::INT] {
        let place = Place::new();
        let file = generating(&place, "gen");
        let running = place.start("gen", &["--json", &file]);
        await_packets(&place, "gen");
        let workers = status(&place, "gen")["workers"].as_array().unwrap().len();
        // The supervisor, its workers, and perhaps a spare: the search finds what it looks for.
        assert!((1 + workers..=2 + workers).contains(&place.processes().len()));
        running.signal(signal);
        let status = running.end().assert_code(0).json();
        assert_conserved(&status);
        let out = named(&status["nodes"], "out");
        let made = &named(&status["nodes"], "in")["rx_packets"];
        assert_eq!(&out["tx_packets"], made, "drained: {status:#}");
        let counters = &out["counters"];
        for trouble in ["lost", "duplicated", "corrupted"] {
            assert_eq!(counters[trouble], 0, "{counters}");
        }
        place.assert_nothing_left();
    }
}

#[test]
fn a_second_chain_of_the_same_name_is_refused() {
    let place = Place::new();
    let file = generating(&place, "gen");
    let running = place.start("gen", &[&file]);
    let second = place.catena(&["run", &file]);
    second.assert_code(1);
    assert!(
        second.stderr.contains("already running"),
        "{}",
        second.stderr
    );
    assert!(
        second.stderr.contains("catena stop gen"),
        "{}",
        second.stderr
    );
    await_packets(&place, "gen");
    place.catena(&["stop"]).assert_code(0);
    running.end().assert_code(0);
    place.assert_nothing_left();
}

#[test]
fn of_several_chains_one_must_be_named() {
    let place = Place::new();
    let (a, b) = (generating(&place, "a"), generating(&place, "b"));
    let first = place.start("a", &["--quiet", &a]);
    let second = place.start("b", &["--quiet", &b]);
    let ended = place.catena(&["status"]);
    ended.assert_code(2);
    assert!(ended.stderr.contains("a, b"), "{}", ended.stderr);
    let ended = place.catena(&["status", "c"]);
    ended.assert_code(1);
    assert!(ended.stderr.contains("running: a, b"), "{}", ended.stderr);
    for (name, running) in [("a", first), ("b", second)] {
        place.catena(&["stop", name]).assert_code(0);
        running.end().assert_code(0);
    }
    place.assert_nothing_left();
    for args in [
        &["status", "a"][..],
        &["stop", "a"],
        &["top", "--once", "a"],
    ] {
        place.catena(args).assert_code(1);
    }
    assert_eq!(
        place.catena(&["list"]).assert_code(0).stdout,
        "no chain is running\n"
    );
    assert_eq!(
        place.catena(&["list", "--json"]).json()["chains"],
        Value::Array(Vec::new())
    );
}

#[test]
fn a_plan_is_what_would_change() {
    let place = Place::new();
    let file = generating(&place, "gen");
    let running = place.start("gen", &["--mode", "thread", &file]);
    let same = place.catena(&["plan", &file]);
    assert!(
        same.assert_code(0).stdout.starts_with("nothing to do"),
        "{same:?}"
    );
    let same = place.catena(&["plan", "--json", &file, "gen"]).json();
    assert_eq!(same["actions"], Value::Array(Vec::new()));

    let text = std::fs::read_to_string(place.path(&file)).unwrap();
    let text = text.replace("swap -> tally, tally -> out", "swap -> out");
    // The file may change while the chain runs: the plan is against what runs.
    place.write(&file, text.replace("  tally: { type: count }\n", ""));
    let plan = place.catena(&["plan", &file]);
    let wanted = "- link swap -> tally\n- node tally\n- link tally -> out\n+ link swap -> out\n";
    let mut lines: Vec<_> = plan.assert_code(0).stdout.lines().collect();
    let mut wanted: Vec<_> = wanted.lines().collect();
    lines.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(lines, wanted);
    let plan = place.catena(&["plan", "--json", &file]).json();
    assert_eq!(plan["actions"].as_array().unwrap().len(), wanted.len());

    // What `apply` would refuse, `plan` does not call possible.
    let text = text.replace("  tally: { type: count }\n", "");
    let text = text.replace("{ mode: process }", "{ mode: process, burst: 7 }");
    place.write("burst.yaml", text);
    for verb in ["plan", "apply"] {
        let refused = place.catena(&[verb, "burst.yaml"]);
        let why = &refused.assert_code(1).stderr;
        assert!(why.contains("run.burst would change"), "{verb}: {why}");
    }

    place.write("wrong.yaml", "name: gen\n");
    place.catena(&["plan", "wrong.yaml"]).assert_code(2);
    let other = generating(&place, "other");
    place.catena(&["plan", &other]).assert_code(1);
    place.catena(&["plan", &other, "gen"]).assert_code(2);
    place.catena(&["stop"]).assert_code(0);
    running.end().assert_code(0);
}

#[test]
fn a_network_function_answers_requests() {
    let place = Place::new();
    let file = generating(&place, "gen");
    let running = place.start("gen", &[&file]);
    await_packets(&place, "gen");
    let counts = place.catena(&["nf", "control", "gen", "tally", r#"{"show": "counts"}"#]);
    let counts = counts.assert_code(0).json();
    assert!(counts["packets"].as_u64() > Some(0), "{counts}");
    for (node, word) in [
        ("tally", "answers"),
        ("swap", "no control"),
        ("nobody", "nobody"),
    ] {
        let ended = place.catena(&["nf", "control", "gen", node, "{}"]);
        ended.assert_code(1);
        assert!(ended.stderr.contains(word), "{}", ended.stderr);
    }
    place.catena(&["stop"]).assert_code(0);
    running.end().assert_code(0);
}
