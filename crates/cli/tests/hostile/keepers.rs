//! Workers that keep buffers which are not theirs any more: what they kept comes home, and nobody
//! waits for them.

use std::time::Duration;

use crate::programs::GREED;
use crate::{Running, node, start};

/// A chain with a keeper: an honest branch beside it, and an honest function behind it.
fn with_keeper(name: &str, trust: &str) -> Running {
    start(&format!(
        "name: {name}
ports:
  in:   {{ generator: {{ rate: 100kpps }} }}
  out:  {{ sink: {{ verify: true }} }}
  end:  {{ sink: {{}} }}
nfs:
  split: {{ type: tee }}
  good:  {{ type: merge }}
  evil:  {{ type: merge }}
  last:  {{ type: merge }}
links:
  - in -> split
  - {{ link: split.good -> good, trust: {trust} }}
  - {{ link: split.evil -> evil, trust: {trust}, overflow: drop_tail }}
  - {{ link: evil -> last, trust: {trust} }}
  - {{ link: good -> out, trust: {trust} }}
  - {{ link: last -> end, trust: {trust} }}
run: {{ mode: process }}
"
    ))
    .unwrap_or_else(|error| panic!("{error}"))
}

/// One keeper ends by itself, one is found to be lying. Either way, its successor is honest.
pub(crate) fn kept() {
    for (end, trust) in [
        ("exits", "ro"),
        ("lies", "ro"),
        ("exits", "shared"),
        ("lies", "shared"),
    ] {
        let mut running = with_keeper(&format!("keep-{end}-{trust}"), trust);
        let patience = Duration::from_secs(20);
        running.until("what it kept is home", patience, |status| {
            status.recovery.kept_buffers >= GREED as u64
        });
        let before = node(&running.supervisor.status(), "last").tx_packets;
        running.until("packets pass its successor", patience, |status| {
            node(status, "last").tx_packets > before
        });
        let status = running.stop();
        let was_detached = status.detached.iter().any(|who| who.starts_with("evil: "));
        assert_eq!(was_detached, end == "lies", "{status:#?}");
        assert_eq!(status.deaths, 1, "{status:#?}");
        // Exactly what it kept: nothing is missing, and nothing was freed twice.
        assert_eq!(status.recovery.kept_buffers, GREED as u64, "{status:#?}");
        assert_eq!(status.buffers.in_flight, 0, "{status:#?}");
        assert_eq!(status.buffers.free, status.buffers.allocated, "{status:#?}");
        // And what it dropped for want of room, which it has not told.
        let killed = node(&status, "evil").killed;
        assert!(killed >= GREED as u64, "{status:#?}");
        for worker in &status.workers {
            assert_eq!(worker.violations, 0, "{status:#?}");
        }
        let (made, out) = (node(&status, "in").rx_packets, node(&status, "out"));
        assert_eq!(out.counters["verified"], made, "{status:#?}");
    }
}

/// The owner of sealed pools dies while a keeper lives: it neither waits for what is kept, nor for
/// the keeper's answer.
pub(crate) fn kept_from_an_heir() {
    let mut running = with_keeper("keep-stays-ro", "ro");
    let patience = Duration::from_secs(30);
    // Not by buffers: where links pack, one holds many packets.
    running.until("it has kept a lot", patience, |status| {
        let link = |name: &str| status.links.iter().find(|link| link.name == name).unwrap();
        let (taken, sent) = (link("split.evil -> evil"), link("evil -> last"));
        taken.rx_packets == sent.tx_packets + GREED as u64
    });
    let status = running.supervisor.status();
    let split = status.workers.iter().find(|worker| worker.name == "split");
    let pid = i32::try_from(split.unwrap().pid.unwrap()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    running.until("its successor runs", patience, |status| {
        let split = status.workers.iter().find(|worker| worker.name == "split");
        split.is_some_and(|split| split.epoch > 0 && split.state == "running")
    });
    let before = node(&running.supervisor.status(), "out").tx_packets;
    running.until("packets flow", patience, |status| {
        node(status, "out").tx_packets > before
    });
    let status = running.stop();
    // Whether the answer is missed first or the turns depends on how fast the machine is.
    let evil = |who: &String| {
        who.starts_with("evil: its data path did not answer")
            || who.starts_with("evil: its data path has not turned")
    };
    assert!(status.detached.iter().any(evil), "{status:#?}");
}
