//! A PON in processes whose ONU and then whose OLT is killed: the survivors notice, all register
//! again, frames go on, and nothing overlaps.
//!
//! No test waits for a time: each waits for a state (see `support`).

mod support;

use std::process::Command;

use serde_json::Value;
use support::*;

const CHAIN: &str = "
ports:
  load1:  { generator: { rate: 2kpps } }
  load2:  { generator: { rate: 2kpps, size: 1000 } }
  uplink: { sink: {} }
nfs:
  olt:     { type: olt_mac, lead: 5ms, cycle: 5ms, discovery_period: 30ms, timeout: 200ms }
  split:   { type: tee }
  onu1:    { type: onu_mac, mac: \"02:00:00:00:01:01\", distance_m: 1000 }
  onu2:    { type: onu_mac, mac: \"02:00:00:00:01:02\", distance_m: 20000 }
  combine: { type: merge }
links:
  - olt.pon -> split
  - split.a -> onu1
  - split.b -> onu2
  - onu1.pon -> combine
  - onu2.pon -> combine
  - combine -> olt
  - olt.net -> uplink
  - load1 -> onu1
  - load2 -> onu2
run: { mode: process }
";

/// What a node shows now, in its present life; null while it does not answer.
fn shown(chain: &Running, node: &str) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_catena"))
        .args(["nf", "control", "pon-kills", node, "\"show\""])
        .env("CATENA_RUNTIME_DIR", chain.dir.path().join("run"))
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

/// Both ONUs are registered, and more frames come from each.
fn both_send(chain: &Running) {
    chain.until("both registered", |_| {
        shown(chain, "olt")["counters"]["registered"] == 2
    });
    for onu in ["onu1", "onu2"] {
        let sent = || shown(chain, onu)["counters"]["frames_up"].as_u64();
        let before = sent();
        chain.until("frames flow", |_| sent() > before);
    }
}

#[test]
fn stations_that_are_killed_register_again() {
    let chain = Running::start("pon-kills", CHAIN);
    both_send(&chain);
    for victim in ["onu2", "olt", "onu1"] {
        let status = chain.until("an answer", |_| true);
        chain.revive(&status, &[victim]);
        both_send(&chain);
    }
    let status = chain.stop();
    assert_conserved(&status);
    let counters = &node(&status, "olt")["counters"];
    assert_eq!(number(&counters["overlaps"]), 0, "{counters}");
    assert_eq!(number(&counters["malformed"]), 0, "{counters}");
}
