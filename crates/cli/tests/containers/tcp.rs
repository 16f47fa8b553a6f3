//! Links over TCP between containers, by the engine's bridge.

use std::fs;
use std::process::Command;

use rustix::process::{Signal, kill_process};

use super::{Bench, nf_pid, node, number};

/// Gives podman's bridge the address that it has, for good. Else it takes another when a container
/// comes or goes, and those that stay send to the old one until the kernel asks anew: a minute.
fn keep_bridge_address() {
    for bridge in ["cni-podman0", "podman0"] {
        let Ok(address) = fs::read_to_string(format!("/sys/class/net/{bridge}/address")) else {
            continue;
        };
        let arguments = ["link", "set", "dev", bridge, "address", address.trim()];
        assert!(
            Command::new("ip")
                .args(arguments)
                .status()
                .unwrap()
                .success()
        );
    }
}

/// From the host into a container, from there into another, and back to the host, by the engine's
/// bridge; one of them is killed on the way.
pub(super) fn tcp_links_cross_containers(engine: &'static str) {
    let Some(bench) = Bench::new("tcp_links_cross_containers", engine) else {
        return;
    };
    let link = |path: &str| format!("  - {{ link: {path}, protocol: tcp }}\n");
    let links = link("in -> swap") + &link("swap -> again") + &link("again -> out");
    let nf = "{ type: macswap, mode: container }";
    let text = format!(
        "name: box\nports:\n  in: {{ generator: {{ rate: 200pps, size: 1000 }} }}\n  \
         out: {{ sink: {{ verify: true }} }}\nnfs:\n  swap: {nf}\n  again: {nf}\nlinks:\n{links}\
         run: {{ mode: process }}\n"
    );
    let mut chain = bench.start(&text);
    let status = chain.await_status("the first packets", |status| {
        nf_pid(status).is_some() && number(node(status, "out"), "tx_packets") > 100
    });
    keep_bridge_address();
    let first = nf_pid(&status).unwrap();
    kill_process(first, Signal::KILL).unwrap();
    let sent = number(node(&status, "out"), "tx_packets");
    chain.await_status("the restart", |status| {
        let out = number(node(status, "out"), "tx_packets");
        nf_pid(status).is_some_and(|pid| pid != first) && out > sent + 200
    });
    assert!(bench.command(&["stop", "box"]).status().unwrap().success());
    let status = chain.finish();
    assert_eq!(
        node(&status, "out")["counters"]["corrupted"],
        0,
        "{status:#}"
    );
    assert_eq!(status["buffers"]["in_flight"], 0, "{status:#}");
    assert_eq!(status["buffers"]["free"], status["buffers"]["allocated"]);
}
