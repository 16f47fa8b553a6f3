//! As many nodes as a chain may have, each NF in a container of its own.

use super::{Bench, node, number};

/// With two ports, [`NODES_MAX`](catena_engine::chain).
const NFS: usize = 62;

/// By one engine: what it takes is mostly the engine's.
#[test]
fn sixty_four_nodes_run_in_containers() {
    let Some(bench) = Bench::new("sixty_four_nodes_run_in_containers", "podman") else {
        return;
    };
    let names: Vec<String> = (0..NFS).map(|number| format!("f{number}")).collect();
    let nfs = names
        .iter()
        .map(|name| format!("  {name}: {{ type: count }}\n"));
    let nfs: String = nfs.collect();
    let mut chain = bench.start(&format!(
        "name: box\nports:\n  in: {{ generator: {{ rate: 1kpps }}, mode: process }}\n  \
         out: {{ sink: {{}}, mode: process }}\nnfs:\n{nfs}links: [in -> {} -> out]\n\
         run: {{ mode: container, wait: sleep, buffers: {{ 128: 512, 2048: 64 }} }}\n",
        names.join(" -> ")
    ));
    let status = chain.await_status("packets through all of them", |status| {
        number(node(status, "out"), "tx_packets") > 100
    });
    let workers = status["workers"].as_array().unwrap();
    let boxed = workers
        .iter()
        .filter(|worker| worker["mode"] == "container");
    assert_eq!(boxed.count(), NFS, "{status:#}");
    assert_eq!(bench.containers().lines().count(), NFS);
    assert!(bench.command(&["stop", "box"]).status().unwrap().success());
    let status = chain.finish();
    assert_eq!(number(&status, "deaths"), 0, "{status:#}");
    let made = number(node(&status, "in"), "rx_packets");
    assert_eq!(number(node(&status, "out"), "tx_packets"), made);
    assert_eq!(status["buffers"]["in_flight"], 0, "{status:#}");
    assert_eq!(status["buffers"]["free"], status["buffers"]["allocated"]);
    assert_eq!(bench.containers(), "");
}
