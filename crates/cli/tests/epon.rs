//! A 10G-EPON in processes whose functions are killed: chunks in hand are lost and counted, lock is
//! found again, frames go on, and none is wrong.
//!
//! No test waits for a time: each waits for a state (see `support`).

#[path = "support/joined.rs"]
mod joined;
mod support;

use std::process::Command;

use joined::Joined;
use rustix::process::Signal;
use serde_json::Value;
use support::*;

fn chain(direction: &str, protocol: &str) -> String {
    let (from, to) = match direction {
        "downstream" => ("olt", "onu"),
        _ => ("onu", "olt"),
    };
    format!(
        "
ports:
  loop: {{ pktgenrcv: {{ chunk: 4KiB, size: [64, 900], window: 2, timeout: 50ms }} }}
nfs:
  sender:   {{ type: epon_phy, role: {from}, direction: transmit }}
  fibre:    {{ type: l1sim, ber: 1e-4 }}
  receiver: {{ type: epon_phy, role: {to}, direction: receive }}
links:
  - {{ link: loop -> sender, protocol: {protocol} }}
  - {{ link: sender -> fibre, protocol: {protocol} }}
  - {{ link: fibre -> receiver, protocol: {protocol} }}
  - {{ link: receiver -> loop, protocol: {protocol} }}
run: {{ mode: process }}
"
    )
}

/// What an NF counts now, in its present life; null while it does not answer.
fn counts(chain: &Running, name: &str, node: &str) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_catena"))
        .args(["nf", "control", name, node, "{\"show\": \"counts\"}"])
        .env("CATENA_RUNTIME_DIR", chain.dir.path().join("run"))
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

/// The receiver gives frames out: more than before.
fn frames_flow(chain: &Running, name: &str) {
    frames_flow_at(chain, name, "receiver");
}

fn frames_flow_at(chain: &Running, name: &str, receiver: &str) {
    let frames = || number(&counts(chain, name, receiver)["counts"]["frames"]);
    let before = frames();
    chain.until("frames flow", |_| {
        let now = frames();
        // A new life counts from zero.
        now > before || (now > 0 && now < before)
    });
}

fn killed_functions_are_replaced(direction: &str, protocol: &str) {
    let name = format!("pon-{direction}-{protocol}");
    let chain = Running::start(&name, &self::chain(direction, protocol));
    let mut random = Random::new(0xe907);
    for round in 0..9 {
        frames_flow(&chain, &name);
        let victim = ["receiver", "sender", "fibre"][round % 3];
        let status = chain.until("an answer", |_| true);
        dither(&mut random, 300_000);
        chain.revive(&status, &[victim]);
    }
    frames_flow(&chain, &name);
    let state = counts(&chain, &name, "receiver")["state"].clone();
    assert!(state == "in_step" || state == "between_bursts", "{state}");
    let status = chain.stop();
    assert_conserved(&status);
    let counters = &node(&status, "loop")["counters"];
    let count = |name: &str| number(&counters[name]);
    assert_eq!(count("frames_corrupted"), 0, "{counters}");
    assert_eq!(count("frames_duplicated"), 0, "{counters}");
    // Two chunks under way: no kill can cost more.
    assert!(count("chunks_lost") <= 18, "{counters}");
    let back = count("frames_returned") + count("frames_lost");
    assert_eq!(back, count("frames"), "{counters}");
    assert!(
        count("frames_returned") > count("frames_lost"),
        "{counters}"
    );
}

/// A chunk that is copied from process to process lies in as large a buffer as before, so that a
/// burst finds room for what stands around it.
#[test]
fn chunks_grow_behind_links_that_copy() {
    for direction in ["downstream", "upstream"] {
        let text = chain(direction, "ring")
            .replace("chunk: 4KiB", "chunk: 1KiB")
            .replace("window: 2, timeout: 50ms", "count: 300")
            .replace("protocol: ring", "trust: copy")
            .replacen("ports:", "name: copies\nports:", 1);
        assert!(text.contains("trust: copy") && text.contains("count: 300"));
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("copies.yaml");
        std::fs::write(&file, text).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_catena"))
            .args(["run", "--json"])
            .arg(&file)
            .env("CATENA_RUNTIME_DIR", dir.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{direction}: {said}");
        let status: Value = serde_json::from_slice(&output.stdout).unwrap();
        let counters = &node(&status, "loop")["counters"];
        let count = |name: &str| number(&counters[name]);
        assert_eq!(count("chunks"), 300, "{direction}: {counters}");
        for lost in ["chunks_lost", "frames_lost", "frames_corrupted"] {
            assert_eq!(count(lost), 0, "{direction}: {lost}: {counters}");
        }
        assert!(
            count("frames") > 300 && count("chunks_measured") == 300,
            "{counters}"
        );
        assert_conserved(&status);
    }
}

#[test]
fn killed_functions_are_replaced_downstream() {
    killed_functions_are_replaced("downstream", "ring");
}

#[test]
fn killed_functions_are_replaced_upstream() {
    killed_functions_are_replaced("upstream", "ring");
}

#[test]
fn killed_functions_are_replaced_on_links_with_the_update_flag() {
    killed_functions_are_replaced("downstream", "flag");
}

/// Ends by itself, and well, once its workers have been stopped.
fn end(mut joined: Joined) {
    let start = std::time::Instant::now();
    while start.elapsed() < PATIENCE {
        if let Some(status) = joined.0.try_wait().unwrap() {
            assert!(status.success(), "{status}");
            return;
        }
    }
    panic!("it waits for another chain");
}

fn join(workers: &std::path::Path, names: &[&str]) -> Joined {
    let command = Command::new(env!("CARGO_BIN_EXE_catena"));
    Joined::start(command, workers.to_str().unwrap(), names)
}

/// The chain of containers/epon.yaml, with processes in place of containers: the supervisor starts
/// none of them, and knows each by its token. One is killed and started again.
#[test]
fn workers_that_others_start_join_their_chain_and_join_again() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../chains/epon/compose.yaml"
    );
    let text = std::fs::read_to_string(path).unwrap();
    let text = text
        .replace("name: epon-compose\n", "")
        .replace("count: 2000", "timeout: 50ms");
    let dir = tempfile::tempdir().unwrap();
    let workers = dir.path().join("run/joined/workers");
    let first = join(&workers, &["ports"]);
    let both = join(&workers, &["olt", "onu"]);
    let fibre = join(&workers, &["fibre"]);
    let chain = Running::start_joined("joined", &text, dir);
    frames_flow_at(&chain, "joined", "onu");
    let status = chain.until("an answer", |_| true);
    assert!(!workers.join("olt.token").exists(), "a token is used once");
    assert!(signal(&status, "olt", Signal::KILL));
    let before = epoch(&status, "olt");
    chain.until("it joins again", |now| runs_after(now, "olt", before));
    frames_flow_at(&chain, "joined", "onu");
    let status = chain.stop();
    for joined in [first, both, fibre] {
        end(joined);
    }
    assert_conserved(&status);
    assert_eq!(number(&status["deaths"]), 1);
    let counters = &node(&status, "loop")["counters"];
    assert_eq!(number(&counters["frames_corrupted"]), 0, "{counters}");
}
