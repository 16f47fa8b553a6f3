//! A status for tests: a port, a policer whose successor is fused with it, and a copying link.

use catena_engine::supervisor::status::{
    BufferStatus, LinkStatus, NodeStatus, RecoveryStatus, Status, WorkerStatus,
};

fn worker(name: &str, pid: u32, sleep_s: f64) -> WorkerStatus {
    WorkerStatus {
        name: name.to_owned(),
        mode: "process".to_owned(),
        pid: Some(pid),
        state: "running".to_owned(),
        epoch: 0,
        restarts: 0,
        busy_turns: 20,
        idle_turns: 100,
        yields: 30,
        sleeps: 10,
        sleep_s,
        busy_s: 1.5,
        violations: 0,
    }
}

fn node(name: &str, type_name: &str, worker: &str, rx: u64, tx: u64) -> NodeStatus {
    NodeStatus {
        name: name.to_owned(),
        kind: if worker == "ports" { "port" } else { "nf" }.to_owned(),
        type_name: type_name.to_owned(),
        worker: worker.to_owned(),
        rx_packets: rx,
        rx_bytes: rx * 100,
        tx_packets: tx,
        tx_bytes: tx * 100,
        drops: [].into(),
        own_drop_reasons: Vec::new(),
        counters: [].into(),
        held: 0,
        killed: 0,
        cost: catena_engine::probe::NodeCost::default(),
        error: None,
    }
}

fn link(name: &str, kind: &str, trust: &str, packets: u64, occupancy: u64) -> LinkStatus {
    let is_ring = kind != "inline";
    let mut pulls = vec![0; 12];
    if is_ring {
        (pulls[1], pulls[2], pulls[7]) = (2, 3, 15);
    }
    LinkStatus {
        name: name.to_owned(),
        kind: kind.to_owned(),
        trust: trust.to_owned(),
        overflow: "block".to_owned(),
        slot_count: if is_ring { 512 } else { 0 },
        tx_packets: packets + occupancy,
        rx_packets: packets,
        rx_bytes: packets * 100,
        occupancy,
        waiting: catena_engine::probe::Occupancy::default(),
        pulls,
        wakes: 7,
        blocked: 0,
        discarded: 0,
        violations: 0,
        aggregation: catena_engine::supervisor::status::AggregationStatus::default(),
    }
}

/// A chain that has run for 12.5 s.
pub(crate) fn status() -> Status {
    let mut police = node("police", "policer", "police", 1000, 960);
    police.drops = [("policer_red".to_owned(), 40)].into();
    police.own_drop_reasons = vec!["policer_red".to_owned()];
    police.counters = [("marked".to_owned(), 3)].into();
    Status {
        chain: "web".to_owned(),
        pid: 4242,
        uptime_s: 12.5,
        wait: "yield 3x, then sleep (2 pollers on 2 cores; yield 274 ns, wake 1433 ns)".to_owned(),
        workers: vec![worker("ports", 4243, 2.0), worker("police", 4244, 6.0)],
        nodes: vec![
            node("in", "pcap", "ports", 1000, 0),
            node("out", "pcap", "ports", 0, 950),
            police,
            node("swap", "macswap", "police", 960, 960),
        ],
        links: vec![
            link("in -> police", "ring", "shared", 1000, 0),
            link("police -> swap", "inline", "shared", 0, 0),
            link("swap -> out", "ring", "copy", 950, 10),
        ],
        buffers: BufferStatus {
            allocated: 4096,
            free: 4000,
            in_flight: 90,
            held: 6,
            unread: 0,
        },
        deaths: 0,
        recovery: RecoveryStatus {
            deaths: 0,
            restarts: 0,
            gap_p50_ms: 0.0,
            gap_p99_ms: 0.0,
            gap_max_ms: 0.0,
            kept_buffers: 0,
            searches: 0,
        },
        detached: Vec::new(),
        accusations: Vec::new(),
        left: [].into(),
        amended: [].into(),
    }
}

/// The same chain half a second later: 500 packets more, 20 of them dropped.
pub(crate) fn later() -> Status {
    let mut status = status();
    status.uptime_s += 0.5;
    status.workers[0].sleep_s += 0.125;
    status.workers[1].sleep_s += 0.4;
    for worker in &mut status.workers {
        worker.busy_turns += 50;
        worker.idle_turns += 150;
        worker.sleeps += 25;
    }
    for node in &mut status.nodes {
        if node.rx_packets > 0 {
            node.rx_packets += 500;
            node.rx_bytes += 500 * 100;
        }
        if node.tx_packets > 0 {
            node.tx_packets += 480;
            node.tx_bytes += 480 * 100;
        }
    }
    status.nodes[2].drops = [("policer_red".to_owned(), 60)].into();
    status.links[0].rx_packets += 500;
    status.links[0].rx_bytes += 50_000;
    status.links[2].rx_packets += 480;
    status.links[2].rx_bytes += 48_000;
    status.links[2].occupancy = 384;
    status
}
