//! Status of a running chain: counters summed over the lives of its workers, for people and
//! machines.
//!
//! One value serves `status`, `top`, JSON, Prometheus and the final table. For every NF,
//! `rx_packets = tx_packets + sum of drops + held + killed` once the chain is at rest.

use std::collections::BTreeMap;

use catena_shm::counters::Counters;
use catena_shm::ring::RingMemory;
use catena_shm::sync::Ordering;
use serde::{Deserialize, Serialize};

use crate::aggregation::PackCounters;
use crate::chain::model::{is_gone, is_link_gone};
use crate::chain::ways::longest_way;
use crate::chain::{Aggregate, NodeKind};
use crate::drop_reason::DropReason;
use crate::link::OCCUPANCY_CLASSES;
use crate::probe::{NodeCost, Occupancy};
use crate::stats::{
    NODE_WORDS, NodeCounters, PageLayout, RX_WORDS, RxCounters, TX_WORDS, TxCounters, WORKER_WORDS,
    WorkerCounters,
};
use crate::supervisor::Supervisor;
use crate::supervisor::body::Body;
use crate::supervisor::instance::{Instance, State};
use crate::supervisor::memory::rings;
pub use crate::supervisor::out::BufferStatus;
use crate::supervisor::past::{NamedCounts, Past};

/// Status of a chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Name of the chain.
    pub chain: String,
    /// Process id of its supervisor.
    pub pid: u32,
    /// Seconds since it started.
    pub uptime_s: f64,
    /// How workers wait, and why.
    pub wait: String,
    /// Workers.
    pub workers: Vec<WorkerStatus>,
    /// Ports and NFs.
    pub nodes: Vec<NodeStatus>,
    /// Links.
    pub links: Vec<LinkStatus>,
    /// Buffers.
    pub buffers: BufferStatus,
    /// Deaths of workers since the start.
    pub deaths: u64,
    /// How long restarts took.
    #[serde(default)]
    pub recovery: RecoveryStatus,
    /// Workers that were ended for breaking the rules, in order; the last [`DETACHED_MAX`].
    #[serde(default)]
    pub detached: Vec<String>,
    /// Who accused a neighbour of breaking the rules, without evidence; the last [`DETACHED_MAX`].
    #[serde(default)]
    pub accusations: Vec<String>,
    /// Packets that were killed in all lives of nodes which have left the chain since, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub left: BTreeMap<String, u64>,
    /// NFs that control requests have changed, and how many of these are kept.
    #[serde(default)]
    pub amended: BTreeMap<String, usize>,
}

/// How many detached workers are remembered by name and reason.
pub const DETACHED_MAX: usize = 16;

/// How long packets waited for the successor of a dead worker: from the moment its exit was known
/// to the first turn of the next instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecoveryStatus {
    /// Deaths of workers since the start.
    pub deaths: u64,
    /// Times a worker ran again.
    pub restarts: u64,
    /// Median, in milliseconds.
    pub gap_p50_ms: f64,
    /// 99th percentile.
    pub gap_p99_ms: f64,
    /// Longest.
    pub gap_max_ms: f64,
    /// Buffers that dead workers had kept without saying so, and that are home again.
    #[serde(default)]
    pub kept_buffers: u64,
    /// Searches for such buffers that have ended; one follows each death.
    #[serde(default)]
    pub searches: u64,
}

impl RecoveryStatus {
    fn of(past: &Past) -> Self {
        let mut sorted = past.gaps.clone();
        sorted.sort_unstable();
        let at = |permille: usize| {
            let index = (sorted.len() * permille).div_ceil(1000).saturating_sub(1);
            sorted.get(index).map_or(0.0, |gap| gap.as_secs_f64() * 1e3)
        };
        Self {
            deaths: past.deaths,
            restarts: sorted.len() as u64,
            gap_p50_ms: at(500),
            gap_p99_ms: at(990),
            gap_max_ms: at(1000),
            kept_buffers: past.recovered,
            searches: past.searches,
        }
    }
}

/// Status of a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerStatus {
    /// Its name.
    pub name: String,
    /// thread, process or container.
    pub mode: String,
    /// Process id, where it has one.
    pub pid: Option<u32>,
    /// How far its instance has come; `stuck` if its data path runs and does not turn,
    /// or its control thread does not answer.
    pub state: String,
    /// Which instance this is, from 0.
    pub epoch: u32,
    /// Times it was started again.
    pub restarts: u32,
    /// Turns that moved packets, in this life.
    pub busy_turns: u64,
    /// Turns that moved none.
    pub idle_turns: u64,
    /// Times it gave way.
    pub yields: u64,
    /// Times it slept.
    pub sleeps: u64,
    /// Seconds asleep.
    pub sleep_s: f64,
    /// Seconds in turns that moved packets.
    #[serde(default)]
    pub busy_s: f64,
    /// Descriptors and returned buffers it refused, in this life, because no honest peer would have
    /// sent them.
    #[serde(default)]
    pub violations: u64,
}

/// Status of a port or NF.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// `port` or `nf`.
    pub kind: String,
    /// Its type.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Its worker.
    pub worker: String,
    /// Packets that arrived (for a port: from the world).
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Packets that left (for a port: to the world).
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Drops by reason; reasons that never occurred are left out.
    pub drops: BTreeMap<String, u64>,
    /// Names of the drop reasons of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own_drop_reasons: Vec<String>,
    /// What it counts itself, by name: sums over the lives of its worker. What is too much for
    /// every turn (percentiles) is of the last life, and there once the chain has ended.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
    /// Packets it holds now.
    #[serde(default)]
    pub held: u64,
    /// Packets it held when it was killed.
    pub killed: u64,
    /// What timed bursts cost here, in this life of its worker.
    #[serde(default)]
    pub cost: NodeCost,
    /// What a port said when it closed, if something failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Status of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkStatus {
    /// Its name.
    pub name: String,
    /// `ring`, `flag`, `tcp`, or `inline` for an edge inside a worker.
    pub kind: String,
    /// shared, ro or copy.
    pub trust: String,
    /// block, drop_tail or drop_head.
    pub overflow: String,
    /// Slots.
    pub slot_count: u32,
    /// Packets sent into it.
    pub tx_packets: u64,
    /// Packets taken from it.
    pub rx_packets: u64,
    /// Bytes taken from it.
    pub rx_bytes: u64,
    /// Packets in it now.
    pub occupancy: u64,
    /// How many waited in it, at random moments.
    #[serde(default)]
    pub waiting: Occupancy,
    /// Pulls by how many packets they took: 0, 1, 2-3, 4-7, ...
    pub pulls: Vec<u64>,
    /// Times the receiver was woken.
    pub wakes: u64,
    /// Turns in which the sender held back.
    pub blocked: u64,
    /// Packets discarded by the receiver (too old, or no buffer).
    pub discarded: u64,
    /// Descriptors and cursors no honest peer would write.
    pub violations: u64,
    /// How small packets share bundles.
    pub aggregation: AggregationStatus,
}

/// Aggregation on a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AggregationStatus {
    /// auto, off or on.
    pub mode: String,
    /// Whether packets are being packed now.
    pub is_packing: bool,
    /// Why, or why not.
    pub reason: String,
    /// Bundles sent.
    pub bundles: u64,
    /// Packets in them.
    pub bundled_packets: u64,
    /// Packets per bundle on average; 0 without bundles.
    pub packets_per_bundle: f64,
    /// Bytes copied to pack them.
    pub packed_bytes: u64,
}

fn is_engines(reason: &str) -> bool {
    DropReason::ALL.iter().any(|one| one.name() == reason)
}

fn words<const N: usize>(counters: &Counters, first: usize) -> [u64; N] {
    std::array::from_fn(|n| counters.load(first + n))
}

/// The block of `id` among `count` blocks, the n-th of which starts at `at(n)`.
fn block(
    counters: &Counters,
    count: usize,
    at: impl Fn(usize) -> usize,
    id: usize,
) -> Option<usize> {
    let starts = (0..count).map(at);
    let mut found = starts.filter(|start| counters.load(*start) == id as u64 + 1);
    found.next().map(|start| start + 1)
}

pub(super) fn node_counters(counters: &Counters, layout: PageLayout, node: usize) -> NodeCounters {
    block(counters, layout.node_count, |n| layout.node(n), node)
        .map(|at| NodeCounters::from_words(&words::<NODE_WORDS>(counters, at)))
        .unwrap_or_default()
}

fn node_cost(counters: &Counters, layout: PageLayout, node: usize) -> NodeCost {
    block(counters, layout.node_count, |n| layout.cost(n), node)
        .map(|at| NodeCost::from_words(&words::<{ NodeCost::WORDS }>(counters, at)))
        .unwrap_or_default()
}

fn occupancy(counters: &Counters, layout: PageLayout, link: usize) -> Occupancy {
    block(counters, layout.rx_count, |n| layout.occupancy(n), link)
        .map(|at| Occupancy::from_words(&words::<{ Occupancy::WORDS }>(counters, at)))
        .unwrap_or_default()
}

pub(super) fn tx_counters(counters: &Counters, layout: PageLayout, link: usize) -> TxCounters {
    block(counters, layout.tx_count, |n| layout.tx(n), link)
        .map(|at| TxCounters::from_words(&words::<TX_WORDS>(counters, at)))
        .unwrap_or_default()
}

pub(super) fn rx_counters(counters: &Counters, layout: PageLayout, link: usize) -> RxCounters {
    block(counters, layout.rx_count, |n| layout.rx(n), link)
        .map(|at| RxCounters::from_words(&words::<RX_WORDS>(counters, at)))
        .unwrap_or_default()
}

impl Supervisor {
    /// The chain's status now.
    pub fn status(&self) -> Status {
        Status {
            chain: self.chain.name.clone(),
            pid: std::process::id(),
            uptime_s: self.started.elapsed().as_secs_f64(),
            wait: self.wait.describe(),
            workers: (0..self.instances.len())
                .filter(|worker| !self.placement.workers[*worker].nodes.is_empty())
                .map(|worker| self.worker_status(worker))
                .collect(),
            nodes: (0..self.chain.nodes.len())
                .filter(|node| !is_gone(&self.chain.nodes[*node]))
                .map(|node| self.node_status(node))
                .collect(),
            links: self.link_statuses(),
            buffers: self.buffer_status(),
            deaths: self.past.deaths,
            recovery: RecoveryStatus::of(&self.past),
            detached: self.past.detached.iter().cloned().collect(),
            accusations: self.past.accusations.iter().cloned().collect(),
            left: self
                .past
                .killed_with_left(|name| self.chain.node_index(name).is_some()),
            amended: self.amended_counts(),
        }
    }

    /// Times packets of a dead worker waited for its successor.
    pub fn service_gaps(&self) -> &[std::time::Duration] {
        &self.past.gaps
    }

    /// Whether nothing is taken in any more and no packet is on any link: nothing more will happen.
    ///
    /// A packet is published further on before its slot is given back, so looking at links in the
    /// order packets take them cannot miss one that moves meanwhile.
    pub fn is_empty(&self) -> bool {
        self.is_still() && self.holds_nothing()
    }

    /// Whether nothing is taken in and no packet is on any link, as far as workers have said.
    pub(super) fn is_still(&self) -> bool {
        if self
            .present()
            .any(|instance| instance.state != State::Running || self.is_taking_in(instance))
        {
            return false;
        }
        let all = rings(&self.placement);
        let mut order: Vec<_> = self.placement.rings.iter().collect();
        // Ports come first, whatever they also send.
        let ends = |link: usize| self.chain.nodes[self.chain.links[link].to].ends_paths();
        let ways = order.iter().filter(|ring| !ends(ring.link));
        let ways: Vec<_> = ways.map(|ring| (ring.from, ring.to)).collect();
        order.sort_by_cached_key(|ring| longest_way(ring.from, &ways));
        order.iter().all(|link| {
            if link.tcp.is_some() {
                return self.is_tcp_link_empty(link);
            }
            let Some(ring) = all.iter().find(|ring| ring.link == Some(link.link)) else {
                return false;
            };
            let Some(latest) = self.memory.ring(ring, None) else {
                return false;
            };
            let tail = latest.tail().load(Ordering::Acquire);
            let Some(at_tail) = self.memory.ring(ring, Some(tail)) else {
                return false;
            };
            catena_shm::ring::published_since(&at_tail, tail).is_empty()
                && latest.settled().load(Ordering::Acquire) <= tail
        })
    }

    /// Whether a worker may still take packets in.
    fn is_taking_in(&self, instance: &Instance) -> bool {
        !self.is_drained(instance) && (self.is_draining() || !instance.is_finished)
    }

    fn worker_status(&self, worker: usize) -> WorkerStatus {
        let instance = &self.instances[worker];
        let spec = &self.placement.workers[worker];
        let counters = instance
            .counters
            .as_ref()
            .map_or_else(WorkerCounters::default, |page| {
                WorkerCounters::from_words(&words::<WORKER_WORDS>(page, 0))
            });
        #[expect(clippy::cast_precision_loss, reason = "seconds for people")]
        let (sleep_s, busy_s) = (
            counters.sleep_ns as f64 / 1e9,
            counters.busy_ns as f64 / 1e9,
        );
        WorkerStatus {
            name: spec.name.clone(),
            mode: format!("{:?}", spec.mode).to_lowercase(),
            pid: instance.body.as_ref().and_then(Body::pid),
            state: match instance.is_stuck() && instance.state == State::Running {
                true => "stuck".to_owned(),
                false => format!("{:?}", instance.state).to_lowercase(),
            },
            epoch: instance.epoch,
            restarts: self.restarts_counted(worker),
            busy_turns: counters.busy_turns,
            idle_turns: counters.idle_turns,
            yields: counters.yields,
            sleeps: counters.sleeps,
            sleep_s,
            busy_s,
            violations: counters.violations,
        }
    }

    fn node_status(&self, node: usize) -> NodeStatus {
        let worker = self.placement.worker_of[node];
        let NamedCounts {
            counters,
            drops,
            killed,
        } = self.named_counts(node);
        let instance = &self.instances[worker];
        let spec = &self.chain.nodes[node];
        // Also those that it had under another type.
        let mut own_drop_reasons = spec.kind.drop_reason_names();
        let others = drops.keys().filter(|reason| !is_engines(reason));
        let others: Vec<String> = others
            .filter(|reason| !own_drop_reasons.contains(reason))
            .cloned()
            .collect();
        own_drop_reasons.extend(others);
        let mut own_counters = counters.own_by_name(&spec.kind.counter_names());
        let closing = self.instances[worker]
            .closings
            .iter()
            .find(|closing| closing.node == node);
        if let Some(closing) = closing {
            own_counters.extend(closing.counters.iter().cloned());
        }
        NodeStatus {
            name: spec.name.clone(),
            kind: match spec.kind {
                NodeKind::Port { .. } => "port".to_owned(),
                NodeKind::Nf { .. } => "nf".to_owned(),
            },
            type_name: spec.type_name().to_owned(),
            worker: self.placement.workers[worker].name.clone(),
            rx_packets: counters.rx_packets,
            rx_bytes: counters.rx_bytes,
            tx_packets: counters.tx_packets,
            tx_bytes: counters.tx_bytes,
            drops,
            own_drop_reasons,
            counters: own_counters,
            held: counters.held,
            killed,
            cost: instance
                .counters
                .as_ref()
                .map_or_else(NodeCost::default, |page| {
                    node_cost(page, instance.layout, node)
                }),
            error: closing.and_then(|closing| closing.error.clone()),
        }
    }

    fn link_statuses(&self) -> Vec<LinkStatus> {
        let all = rings(&self.placement);
        (0..self.chain.links.len())
            .filter(|link| !is_link_gone(&self.chain.links[*link]))
            .map(|link| {
                let ring = all.iter().find(|ring| ring.link == Some(link));
                self.link_status(link, ring)
            })
            .collect()
    }

    fn link_status(&self, link: usize, ring: Option<&super::memory::RingName>) -> LinkStatus {
        let spec = &self.chain.links[link];
        let mut status = LinkStatus {
            name: spec.name.clone(),
            kind: "inline".to_owned(),
            trust: format!("{:?}", spec.trust).to_lowercase(),
            overflow: serde_json::to_value(spec.overflow)
                .ok()
                .and_then(|value| value.as_str().map(str::to_owned))
                .unwrap_or_default(),
            slot_count: 0,
            tx_packets: 0,
            rx_packets: 0,
            rx_bytes: 0,
            occupancy: 0,
            waiting: Occupancy::default(),
            pulls: vec![0; OCCUPANCY_CLASSES],
            wakes: 0,
            blocked: 0,
            discarded: 0,
            violations: 0,
            aggregation: AggregationStatus::default(),
        };
        let placed = self.placement.rings.iter().find(|ring| ring.link == link);
        let Some(placed) = placed else { return status };
        status.kind = format!("{:?}", spec.protocol).to_lowercase();
        status.slot_count = placed.slot_count;
        let (now_tx, now_rx) = self.counted(placed);
        if placed.tcp.is_some() {
            (status.tx_packets, status.rx_packets) = (now_tx.packets, now_rx.packets);
        } else if let Some(mapped) = ring.and_then(|ring| self.memory.ring(ring, None)) {
            status.tx_packets = mapped.settled().load(Ordering::Acquire);
            status.rx_packets = mapped.tail().load(Ordering::Acquire);
        }
        status.occupancy = status.tx_packets.saturating_sub(status.rx_packets);
        let former = self.past.links.get(&spec.name).copied().unwrap_or_default();
        status.tx_packets = status.tx_packets.saturating_add(former.sent);
        status.rx_packets = status.rx_packets.saturating_add(former.taken);
        let (mut tx, mut rx) = (former.tx, former.rx);
        tx.add(&now_tx);
        rx.add(&now_rx);
        let receiver = &self.instances[placed.to];
        if let Some(page) = &receiver.counters {
            status.waiting = occupancy(page, receiver.layout, link);
        }
        status.rx_bytes = rx.bytes;
        status.pulls = rx.occupancy.to_vec();
        status.wakes = tx.wakes;
        status.blocked = tx.blocked;
        status.discarded = rx.discarded;
        status.violations = rx.violations.saturating_add(tx.violations);
        status.aggregation = aggregation_status(placed.aggregate, &tx.packed);
        status
    }
}

fn aggregation_status(mode: Aggregate, packed: &PackCounters) -> AggregationStatus {
    #[expect(clippy::cast_precision_loss, reason = "means for people")]
    let (mean, burst, len) = (
        packed.bundled_packets as f64 / packed.bundles.max(1) as f64,
        packed.burst_mean_x16 as f64 / 16.0,
        packed.len_mean_x16 as f64 / 16.0,
    );
    AggregationStatus {
        mode: format!("{mode:?}").to_lowercase(),
        is_packing: packed.is_packing != 0,
        reason: match mode {
            Aggregate::Off => "packets go one by one on this link".to_owned(),
            Aggregate::On => "asked for by the chain file".to_owned(),
            Aggregate::Auto => format!("{burst:.1} packets per burst of {len:.0} B on average"),
        },
        bundles: packed.bundles,
        bundled_packets: packed.bundled_packets,
        packets_per_bundle: mean,
        packed_bytes: packed.packed_bytes,
    }
}
