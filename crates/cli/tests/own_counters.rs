//! What ports and NFs count themselves, and the drop reasons of their own: seen while the chain
//! runs, and summed over the lives of a worker that was killed.

mod support;

use rustix::process::Signal;
use serde_json::Value;
use support::{Running, node, number, worker};

/// Packets in a burst, unless a chain says otherwise.
const BURST: u64 = 128;

const CHAIN: &str = "ports:
  in:  { generator: { rate: 20kpps, size: 64 } }
  out: { sink: {} }
nfs:
  police: { type: policer, rate: 500pps, burst: 10 }
links:
  - in -> police
  - police -> out
run: { mode: process }
";

fn counted(status: &Value) -> [u64; 3] {
    let count = |value: &Value| value.as_u64().unwrap_or(0);
    [
        count(&node(status, "in")["counters"]["made"]),
        count(&node(status, "police")["drops"]["policer_red"]),
        count(&node(status, "out")["counters"]["packets"]),
    ]
}

#[test]
fn own_counters_and_reasons_are_live_and_outlive_a_kill() {
    let running = Running::start("own", CHAIN);
    let before = running.until("all three are seen", |status| {
        counted(status).iter().all(|count| *count > 100)
    });
    let victims = ["police", "ports"];
    for victim in victims {
        assert!(support::signal(&before, victim, Signal::KILL));
    }
    let passed = counted(&before);
    let after = running.until("both run again and count on", |status| {
        let again = |name: &&str| number(&worker(status, name)["restarts"]) == 1;
        let more = |(now, then): (&u64, &u64)| *now > *then + 1000;
        victims.iter().all(again) && counted(status).iter().zip(&passed).all(more)
    });
    assert_eq!(number(&after["deaths"]), 2, "{after:#}");
    let last = running.stop();
    let out = node(&last, "out");
    // The engine's count of the first life comes from cursors, the sink's own from what it stored
    // last, which is a burst less at most.
    let (sent, own) = (
        number(&out["tx_packets"]),
        number(&out["counters"]["packets"]),
    );
    assert!(own <= sent && sent - own <= BURST, "{last:#}");
    assert_eq!(out.get("report"), None, "each count stands in one place");
}
