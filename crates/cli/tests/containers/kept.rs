//! A chain that outlives its supervisor, with a worker in a container.

use rustix::process::{Signal, kill_process};

use super::{Bench, Running, endless, nf_pid, node, number};

/// The supervisor is killed, packets go on, another takes the container over; its worker is killed
/// and replaced, and at the end nothing is left.
pub(super) fn containers_go_on_without_a_supervisor(engine: &'static str) {
    let Some(bench) = Bench::new("containers_go_on_without_a_supervisor", engine) else {
        return;
    };
    let chain = endless("rate: 20kpps").replace("mode: process", "mode: process, orphan: keep");
    let mut first = bench.start(&chain);
    let runs = |status: &serde_json::Value| {
        nf_pid(status).is_some() && number(node(status, "out"), "tx_packets") > 1000
    };
    let status = first.await_status("the first packets", runs);
    let worker = nf_pid(&status).unwrap();
    let name = bench.containers();
    first.child.kill().unwrap();
    first.child.wait().unwrap();

    let file = bench.path("chain.yaml");
    let run = ["run", "--json", "--adopt", file.to_str().unwrap()];
    let child = bench.command(&run).spawn().unwrap();
    let bench = &bench;
    let mut second = Running { bench, child };
    let before = number(node(&status, "out"), "tx_packets");
    let status = second.await_status("packets under another supervisor", |status| {
        nf_pid(status).is_some() && number(node(status, "out"), "tx_packets") > before + 10_000
    });
    assert_eq!(nf_pid(&status), Some(worker), "the same worker: {status:#}");
    assert_eq!(number(&status, "deaths"), 0);
    assert_eq!(bench.containers(), name);

    kill_process(worker, Signal::KILL).unwrap();
    let before = number(node(&status, "out"), "tx_packets");
    second.await_status("the restart", |status| {
        let out = number(node(status, "out"), "tx_packets");
        nf_pid(status).is_some_and(|pid| pid != worker) && out > before + 10_000
    });
    assert!(bench.command(&["stop", "box"]).status().unwrap().success());
    let status = second.finish();
    assert_eq!(number(&status, "deaths"), 1);
    let swap = node(&status, "swap");
    let gone = number(swap, "tx_packets") + number(swap, "killed");
    assert_eq!(number(swap, "rx_packets"), gone);
    assert_eq!(status["buffers"]["free"], status["buffers"]["allocated"]);
    assert_eq!(bench.containers(), "");

    // Nobody takes this one over: it is ended without a supervisor.
    let mut third = bench.start(&chain);
    third.await_status("the first packets", runs);
    third.child.kill().unwrap();
    third.child.wait().unwrap();
    assert!(bench.command(&["stop", "box"]).status().unwrap().success());
    let deadline = std::time::Instant::now() + super::PATIENCE;
    while !bench.containers().is_empty() {
        assert!(
            std::time::Instant::now() < deadline,
            "{}",
            bench.containers()
        );
    }
}
