//! Checks of source files: what is absent on purpose, by ARCHITECTURE.md's invariants.
//!
//! Words are looked for, and calls in their order; it is no proof, and it is what a reviewer would
//! look for.

use crate::{File, Finding, at, report, repository, sample, whole};

/// Lines of a file's code, with their index: neither comments nor tests at its end.
fn code(file: &File) -> impl Iterator<Item = (usize, &str)> {
    let is_code = |line: &&str| *line != "mod tests {";
    let lines = file.text.lines().take_while(is_code).enumerate();
    lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// Lines of files in `places` with one of `words`.
fn words_in(files: &[File], places: &[&str], words: &[&str], message: &str) -> Vec<Finding> {
    let is_there = |file: &&File| {
        file.is(".rs")
            && !file.path.contains("test")
            && places.iter().any(|place| file.path.starts_with(place))
    };
    let mut findings = Vec::new();
    for file in files.iter().filter(is_there) {
        let lines = code(file).filter(|(_, line)| words.iter().any(|word| line.contains(word)));
        findings.extend(lines.map(|(index, _)| at(file, index, message)));
    }
    findings
}

/// What packets pass, turn after turn.
const DATA_PATH: &[&str] = &[
    "crates/engine/src/aggregation.rs",
    "crates/engine/src/link/ring_rx",
    "crates/engine/src/link/ring_tx",
    "crates/engine/src/load.rs",
    "crates/engine/src/nf/burst.rs",
    "crates/engine/src/nf/keep.rs",
    "crates/engine/src/pools/bundles.rs",
    "crates/engine/src/pools/lanes.rs",
    "crates/engine/src/pools/returns.rs",
    "crates/engine/src/port/rx_burst.rs",
    "crates/engine/src/port/tx_burst.rs",
    "crates/engine/src/worker/seal.rs",
    "crates/engine/src/worker/split.rs",
    "crates/engine/src/worker/turn.rs",
    "crates/engine/src/worker/turn/",
    "crates/shm/src/pool/units.rs",
    "crates/shm/src/pool/view.rs",
    "crates/shm/src/ring/consumer.rs",
    "crates/shm/src/ring/producer.rs",
    "crates/shm/src/ring/slot.rs",
];
/// How code locks, logs, formats, reads a clock, or makes something anew. Lists that are made once
/// and kept are of another kind.
const NOT_PER_PACKET: &[&str] = &[
    "Mutex",
    "RwLock",
    ".lock()",
    "print!(",
    "println!(",
    "format!(",
    "write!(",
    "writeln!(",
    "Instant::now(",
    "SystemTime::now(",
    ".now_ns(",
    "Box::new(",
    "vec![",
    ".collect()",
    ".collect::<",
    ".to_owned()",
    ".to_string()",
    ".to_vec()",
    "String::",
];

fn busy_with_else(files: &[File]) -> Vec<Finding> {
    let message = "packets pass here: do this before the first of them, or in the control thread";
    words_in(files, DATA_PATH, NOT_PER_PACKET, message)
}

#[test]
fn the_data_path_does_not_lock_log_or_format() {
    let files = repository();
    for place in DATA_PATH {
        let is_there = files.iter().any(|file| file.path.starts_with(place));
        assert!(is_there, "{place} has moved; name where packets pass now");
    }
    report(&busy_with_else(&files));
    let text = "// vec![]\nlet kept = Vec::new();\nlet all = it.collect();\nmod tests {\nvec![]\n";
    let found = busy_with_else(&[
        sample("crates/engine/src/worker/turn.rs", text),
        sample("crates/engine/src/worker/turn_tests.rs", text),
        sample("crates/engine/src/worker/build.rs", text),
    ]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].line, 3);
}

/// Protocols and state machines, which take bytes or values, and return decisions.
const OF_NO_WORLD: &[&str] = &[
    "crates/engine/src/nfs/",
    "crates/engine/src/placement",
    "crates/engine/src/shard/",
    "crates/engine/src/supervisor/reclaim.rs",
    "crates/flow/src/",
    "crates/pcs/src/",
    "crates/wire/src/",
];
const INPUT_AND_OUTPUT: &[&str] = &[
    "std::fs",
    "std::io",
    "File::open(",
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "UnixStream",
    "print!(",
    "println!(",
];

fn doers(files: &[File]) -> Vec<Finding> {
    let message = "no input or output stands here; take bytes or values, and return a decision";
    words_in(files, OF_NO_WORLD, INPUT_AND_OUTPUT, message)
}

#[test]
fn protocols_and_state_machines_do_no_io() {
    report(&doers(&repository()));
    let text = "use std::fs::File;\n";
    let found = doers(&[
        sample("crates/wire/src/tcp.rs", text),
        sample("crates/port/src/capture/reader.rs", text),
    ]);
    assert_eq!(found.len(), 1, "{found:?}");
}

/// How a word is read and changed in one step.
const READ_AND_CHANGED: &[&str] = &[
    "compare_exchange",
    ".fetch_add(",
    ".fetch_sub(",
    ".fetch_and(",
    ".fetch_or(",
    ".fetch_xor(",
    ".fetch_max(",
    ".fetch_min(",
    ".fetch_update(",
    ".swap(",
];
/// A mark of one process, by which it hands its state out once.
const OF_ONE_PROCESS: &str = "self.0.is_taken.swap(";

fn contended(files: &[File]) -> Vec<Finding> {
    let places = &["crates/shm/src/"];
    let message = "a word of shared memory has one writer, which stores it; give each its own";
    let mut findings = words_in(files, places, READ_AND_CHANGED, message);
    findings.retain(|finding| {
        let file = files.iter().find(|file| file.path == finding.path);
        let line = file.and_then(|file| file.text.lines().nth(finding.line - 1));
        !line.is_some_and(|line| line.contains(OF_ONE_PROCESS))
    });
    findings
}

#[test]
fn no_word_of_shared_memory_is_compared_and_swapped() {
    report(&contended(&repository()));
    let text = "word.store(1);\nself.0.is_taken.swap(true);\nword.fetch_add(1);\n";
    let found = contended(&[
        sample("crates/shm/src/ring/producer.rs", text),
        sample("crates/engine/src/worker/doorbell.rs", text),
    ]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].line, 3);
}

/// Where a turn is made final, and by which calls, in this order.
const SEAL: &str = "crates/engine/src/worker/seal.rs";
const END_OF_A_TURN: &[&str] = &[
    "pools.publish_returns();",
    "commit_inputs(graph);",
    "pools.commit_home_lanes();",
    "link.settle();",
    "pools.settle_return_lanes();",
    "bell::full_fence();",
    "link.wake_peer();",
];

fn out_of_order(files: &[File]) -> Vec<Finding> {
    let Some(file) = files.iter().find(|file| file.path == SEAL) else {
        return vec![whole(SEAL, "name where a turn is made final now")];
    };
    let body = file
        .text
        .split_once("fn seal(")
        .map_or("", |(_, body)| body);
    let body = body.split("\n}\n").next().unwrap_or_default();
    let places: Vec<_> = END_OF_A_TURN.iter().map(|call| body.find(call)).collect();
    let is_in_order = places.iter().all(Option::is_some) && places.is_sorted();
    let message = "recovery needs the order of ARCHITECTURE.md: tails before heads";
    let wrong = (!is_in_order).then(|| whole(SEAL, message));
    wrong.into_iter().collect()
}

#[test]
fn a_turn_commits_tails_before_it_settles_heads() {
    report(&out_of_order(&repository()));
    let body = |calls: &[&str]| {
        let text = format!(
            "fn seal() {{\n{}\n}}\n\nfn commit_inputs() {{\n}}\n",
            calls.join("\n")
        );
        out_of_order(&[sample(SEAL, &text)]).len()
    };
    let mut calls = END_OF_A_TURN.to_vec();
    assert_eq!(body(&calls), 0);
    calls.swap(1, 3);
    assert_eq!(body(&calls), 1, "heads first");
    assert_eq!(body(&END_OF_A_TURN[1..]), 1, "one is missing");
}
