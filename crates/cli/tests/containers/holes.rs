//! Workers that try to cut holes into the memory that they share with their neighbours: one in a
//! container and one in a process, each by all of its threads (`holes.py`). All is refused, and the
//! neighbours, a sink that looks at every byte among them, notice nothing.

use std::process::Command;

use serde_json::Value;

use super::{Bench, node, number, worker};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/containers/holes.py");
/// `EPERM`.
const REFUSED: i64 = 1;

pub(super) fn holes_are_refused_from_inside(engine: &'static str) {
    let Some(bench) = Bench::new("holes_are_refused_from_inside", engine) else {
        return;
    };
    if !(cfg!(target_arch = "x86_64") && rustix::process::geteuid().is_root()) {
        println!("SKIP holes_are_refused_from_inside: it takes root and x86-64 to be an intruder");
        return;
    }
    let mut chain = bench.start(
        "name: box\nports:\n  in: { generator: { rate: 20kpps } }\n  \
         out: { sink: { verify: true } }\nnfs:\n  boxed: { type: count, mode: container }\n  \
         plain: { type: count }\nlinks: [in -> boxed -> plain -> out]\nrun: { mode: process }\n",
    );
    let status = chain.await_status("the first packets", |status| {
        number(node(status, "out"), "tx_packets") > 1000
    });
    for name in ["boxed", "plain"] {
        let pid = number(worker(&status, name), "pid").to_string();
        let output = Command::new("python3").args([SCRIPT, &pid]).output();
        let output = output.unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {errors}");
        let threads: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(threads.len(), 2, "{threads:?}");
        for said in threads {
            let said = said.as_object().unwrap();
            // What harms nobody is allowed: the calls are made.
            for call in ["madvise WILLNEED", "madvise DONTNEED"] {
                assert_eq!(said[call], 0, "{name}: {said:?}");
            }
            let harmful: Vec<_> = said
                .iter()
                .filter(|(call, _)| !call.ends_with("NEED"))
                .collect();
            assert!(harmful.len() >= 3, "{name}: {said:?}");
            for (call, result) in harmful {
                assert_eq!(*result, REFUSED, "{name}: {call}: {said:?}");
            }
        }
    }
    let sent = number(node(&chain.status().unwrap(), "out"), "tx_packets");
    chain.await_status("packets go on", |status| {
        number(node(status, "out"), "tx_packets") > sent + 1000
    });
    assert!(bench.command(&["stop", "box"]).status().unwrap().success());
    let status = chain.finish();
    assert_eq!(number(&status, "deaths"), 0);
    let counters = &node(&status, "out")["counters"];
    for wrong in ["lost", "corrupted"] {
        assert_eq!(number(counters, wrong), 0, "{wrong}: {status:#}");
    }
    assert_eq!(status["buffers"]["free"], status["buffers"]["allocated"]);
}
