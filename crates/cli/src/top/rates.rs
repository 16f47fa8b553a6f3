//! What changed between two statuses of a chain, per second. Pure.
//!
//! Bits are those of frames without FCS, preamble and gap (layer 2). Counters of a worker start
//! again with its life, so its share of a CPU is unknown for an interval in which it was replaced.

use catena_engine::supervisor::status::{
    AggregationStatus, BufferStatus, LinkStatus, NodeStatus, Status, WorkerStatus,
};
use serde::Serialize;

/// A chain over an interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Rates {
    pub(crate) chain: String,
    pub(crate) pid: u32,
    pub(crate) uptime_s: f64,
    /// How long the interval was.
    pub(crate) interval_s: f64,
    pub(crate) wait: String,
    pub(crate) workers: Vec<WorkerRates>,
    pub(crate) nodes: Vec<NodeRates>,
    pub(crate) links: Vec<LinkRates>,
    pub(crate) drops: Vec<DropRates>,
    /// What ports count themselves, and NFs as far as it is not 0.
    pub(crate) counters: Vec<CounterRates>,
    pub(crate) buffers: BufferStatus,
    pub(crate) deaths: u64,
}

/// A worker over an interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct WorkerRates {
    pub(crate) name: String,
    pub(crate) mode: String,
    pub(crate) pid: Option<u32>,
    pub(crate) state: String,
    pub(crate) restarts: u32,
    /// Part of the interval in which it did not sleep, 0 to 1.
    pub(crate) awake_share: Option<f64>,
    /// Part of its turns that moved packets, 0 to 1.
    pub(crate) busy_share: Option<f64>,
    pub(crate) sleeps_per_s: f64,
    /// Since it started.
    pub(crate) violations: u64,
}

/// A port or NF over an interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct NodeRates {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) type_name: String,
    pub(crate) worker: String,
    pub(crate) rx_pps: f64,
    pub(crate) rx_l2_bps: f64,
    pub(crate) tx_pps: f64,
    pub(crate) tx_l2_bps: f64,
    pub(crate) drops_pps: f64,
    /// Drops since the start, with those killed.
    pub(crate) drops: u64,
}

/// A link over an interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LinkRates {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) trust: String,
    pub(crate) overflow: String,
    pub(crate) pps: f64,
    pub(crate) l2_bps: f64,
    /// Packets in it at the end.
    pub(crate) occupancy: u64,
    pub(crate) slot_count: u32,
    pub(crate) violations: u64,
    /// How packets share bundles, since the start.
    pub(crate) aggregation: AggregationStatus,
}

impl LinkRates {
    /// How full it is, 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "a share for people")]
    pub(crate) fn fill(&self) -> f64 {
        self.occupancy as f64 / f64::from(self.slot_count.max(1))
    }
}

/// Drops of one node for one reason.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct DropRates {
    pub(crate) node: String,
    pub(crate) reason: String,
    pub(crate) pps: f64,
    pub(crate) total: u64,
}

/// One of what a port or an NF counts itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct CounterRates {
    pub(crate) node: String,
    pub(crate) counter: String,
    pub(crate) per_s: f64,
    pub(crate) total: u64,
}

/// Turns differences of counters into rates.
#[derive(Clone, Copy)]
struct Interval {
    seconds: f64,
}

impl Interval {
    /// A counter that went back was started again: what it counted since is not known.
    #[expect(clippy::cast_precision_loss, reason = "rates for people")]
    fn rate(self, before: u64, after: u64) -> f64 {
        if self.seconds > 0.0 {
            after.saturating_sub(before) as f64 / self.seconds
        } else {
            0.0
        }
    }
}

/// What changed from `before` to `after`, two statuses of the same chain. Nodes, links and workers
/// that are new count from 0.
pub(crate) fn rates(before: &Status, after: &Status) -> Rates {
    let is_same_run = before.pid == after.pid && before.uptime_s <= after.uptime_s;
    let interval = Interval {
        seconds: if is_same_run {
            after.uptime_s - before.uptime_s
        } else {
            0.0
        },
    };
    let workers = after.workers.iter().map(|worker| {
        let old = before.workers.iter().find(|old| old.name == worker.name);
        worker_rates(old, worker, interval)
    });
    let nodes = after.nodes.iter().map(|node| {
        let old = before.nodes.iter().find(|old| old.name == node.name);
        node_rates(old, node, interval)
    });
    let links = after.links.iter().map(|link| {
        let old = before.links.iter().find(|old| old.name == link.name);
        link_rates(old, link, interval)
    });
    let drops = after.nodes.iter().flat_map(|node| {
        let old = before.nodes.iter().find(|old| old.name == node.name);
        drop_rates(old, node, interval)
    });
    let counters = after.nodes.iter().flat_map(|node| {
        let old = before.nodes.iter().find(|old| old.name == node.name);
        counter_rates(old, node, interval)
    });
    Rates {
        chain: after.chain.clone(),
        pid: after.pid,
        uptime_s: after.uptime_s,
        interval_s: interval.seconds,
        wait: after.wait.clone(),
        workers: workers.collect(),
        nodes: nodes.collect(),
        links: links.collect(),
        drops: drops.collect(),
        counters: counters.collect(),
        buffers: after.buffers,
        deaths: after.deaths,
    }
}

fn worker_rates(
    before: Option<&WorkerStatus>,
    after: &WorkerStatus,
    interval: Interval,
) -> WorkerRates {
    let before = before.filter(|old| old.epoch == after.epoch && interval.seconds > 0.0);
    let awake_share = before.map(|old| {
        let asleep = (after.sleep_s - old.sleep_s) / interval.seconds;
        (1.0 - asleep).clamp(0.0, 1.0)
    });
    let busy_share = before.and_then(|old| {
        let busy = interval.rate(old.busy_turns, after.busy_turns);
        let all = busy + interval.rate(old.idle_turns, after.idle_turns);
        (all > 0.0).then(|| busy / all)
    });
    WorkerRates {
        name: after.name.clone(),
        mode: after.mode.clone(),
        pid: after.pid,
        state: after.state.clone(),
        restarts: after.restarts,
        awake_share: awake_share.filter(|_| after.state == "running"),
        busy_share: busy_share.filter(|_| after.state == "running"),
        sleeps_per_s: before.map_or(0.0, |old| interval.rate(old.sleeps, after.sleeps)),
        violations: after.violations,
    }
}

fn all_drops(node: &NodeStatus) -> u64 {
    node.drops.values().sum::<u64>() + node.killed
}

fn node_rates(before: Option<&NodeStatus>, after: &NodeStatus, interval: Interval) -> NodeRates {
    let rate = |value: fn(&NodeStatus) -> u64| interval.rate(before.map_or(0, value), value(after));
    NodeRates {
        name: after.name.clone(),
        type_name: after.type_name.clone(),
        worker: after.worker.clone(),
        rx_pps: rate(|node| node.rx_packets),
        rx_l2_bps: 8.0 * rate(|node| node.rx_bytes),
        tx_pps: rate(|node| node.tx_packets),
        tx_l2_bps: 8.0 * rate(|node| node.tx_bytes),
        drops_pps: rate(all_drops),
        drops: all_drops(after),
    }
}

fn link_rates(before: Option<&LinkStatus>, after: &LinkStatus, interval: Interval) -> LinkRates {
    let rate = |value: fn(&LinkStatus) -> u64| interval.rate(before.map_or(0, value), value(after));
    LinkRates {
        name: after.name.clone(),
        kind: after.kind.clone(),
        trust: after.trust.clone(),
        overflow: after.overflow.clone(),
        pps: rate(|link| link.rx_packets),
        l2_bps: 8.0 * rate(|link| link.rx_bytes),
        occupancy: after.occupancy,
        slot_count: after.slot_count,
        violations: after.violations,
        aggregation: after.aggregation.clone(),
    }
}

fn counter_rates(
    before: Option<&NodeStatus>,
    after: &NodeStatus,
    interval: Interval,
) -> Vec<CounterRates> {
    // Those of a port are few, and 0 of one says something; NFs have many.
    let is_port = after.kind == "port";
    let counted = after.counters.iter();
    let counted = counted.filter(|(_, total)| is_port || **total > 0);
    let rates = counted.map(|(counter, total)| CounterRates {
        node: after.name.clone(),
        counter: counter.clone(),
        per_s: interval.rate(
            before
                .and_then(|old| old.counters.get(counter))
                .copied()
                .unwrap_or(0),
            *total,
        ),
        total: *total,
    });
    rates.collect()
}

fn drop_rates(
    before: Option<&NodeStatus>,
    after: &NodeStatus,
    interval: Interval,
) -> Vec<DropRates> {
    let count = |node: &NodeStatus, reason: &str| match reason {
        "killed" => node.killed,
        reason => node.drops.get(reason).copied().unwrap_or(0),
    };
    let killed = (after.killed > 0).then_some("killed");
    let reasons = after.drops.keys().map(String::as_str).chain(killed);
    let rows = reasons.map(|reason| {
        let total = count(after, reason);
        DropRates {
            node: after.name.clone(),
            reason: reason.to_owned(),
            pps: interval.rate(before.map_or(0, |old| count(old, reason)), total),
            total,
        }
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn counters_become_rates_per_second() {
        let rates = rates(&sample::status(), &sample::later());
        assert_eq!(rates.interval_s, 0.5);
        let police = &rates.nodes[2];
        assert_eq!((police.rx_pps, police.tx_pps), (1000.0, 960.0));
        assert_eq!(police.rx_l2_bps, 800_000.0);
        assert_eq!((police.drops_pps, police.drops), (40.0, 60));
        assert_eq!((rates.links[0].pps, rates.links[0].l2_bps), (1000.0, 8e5));
        let drop = &rates.drops[0];
        assert_eq!(
            (drop.reason.as_str(), drop.pps, drop.total),
            ("policer_red", 40.0, 60)
        );
        assert_eq!(rates.workers[0].awake_share, Some(0.75));
    }

    #[test]
    fn a_worker_that_was_replaced_has_no_share() {
        let mut after = sample::later();
        after.workers[1].epoch = 1;
        after.workers[1].sleep_s = 0.0;
        let rates = rates(&sample::status(), &after);
        assert_eq!(rates.workers[1].awake_share, None);
        assert_eq!(rates.workers[1].sleeps_per_s, 0.0);
    }

    #[test]
    fn a_chain_that_was_started_again_has_no_rates_yet() {
        let mut after = sample::later();
        (after.pid, after.uptime_s) = (1, 0.1);
        let rates = rates(&sample::status(), &after);
        assert_eq!(rates.interval_s, 0.0);
        assert!(rates.nodes.iter().all(|node| node.rx_pps == 0.0));
        assert!(
            rates
                .workers
                .iter()
                .all(|worker| worker.awake_share.is_none())
        );
    }
}
