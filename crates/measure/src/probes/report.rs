//! What probes found, as it is shown and written: the end of a journey through a chain.

use std::collections::BTreeMap;

use catena_engine::probe::{NodeCost, ProbeSettings, Tier};
use catena_engine::supervisor::probing::ProbeMap;
use catena_engine::supervisor::status::Status;
use catena_shm::pmc::ThreadCounters;
use serde::{Deserialize, Serialize};

use super::collector::Collector;
use super::journey::{Journey, Journeys};
use super::little::little;
use super::parts::{Component, KINDS, components, counts_of, times_of};
use super::tax::Tax;
use crate::blame::{Blame, LittleCheck, PartCount, Trace};
use crate::stats::quantile::{quantile, rank};

/// Version of the form; goes up when a reader of the old form would err.
pub const SCHEMA: &str = "catena.probes/1";
/// Paths that are shown, the most frequent ones.
const PATHS_MAX: usize = 8;

/// What probes found in a running chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeReport {
    /// [`SCHEMA`].
    pub schema: String,
    /// The chain.
    pub chain: String,
    /// How much was noted.
    pub tier: Tier,
    /// Packets from one followed to the next, on average.
    pub gap: u32,
    /// For how long.
    pub seconds: f64,
    /// Sums of tier 0 by worker.
    pub workers: Vec<WorkerCost>,
    /// Sums of tier 0 by node.
    pub nodes: Vec<NodeRow>,
    /// Ways that packets took, the most frequent first.
    pub paths: Vec<PathReport>,
    /// Little's law for each ring.
    pub rings: Vec<RingCheck>,
    /// Journeys that are complete.
    pub journeys: u64,
    /// Journeys without an end.
    pub unfinished: u64,
    /// Visits that belong to no journey.
    pub broken: u64,
    /// Records that were overwritten before they were read.
    pub lost: u64,
    /// Records that no honest worker would write.
    pub refused: u64,
    /// Whether cycles and instructions were counted, or why not.
    #[serde(default)]
    pub counters: String,
    /// What the probes cost; absent where it was not measured.
    pub tax: Option<Tax>,
}

/// A worker's time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerCost {
    /// Its name.
    pub name: String,
    /// Share of the time in turns that moved packets.
    pub busy: f64,
    /// Share of the time asleep.
    pub asleep: f64,
    /// Turns per second that moved packets.
    pub busy_turns: f64,
}

/// What a node costs, by timed turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeRow {
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Sums over the bursts that were timed.
    pub timed: NodeCost,
    /// Packets per burst; 0 if none was timed.
    pub burst: f64,
    /// Taking a packet out of its link or receiving it, ns.
    pub take_ns: f64,
    /// The NF, or sending to the world, ns a packet.
    pub work_ns: f64,
    /// Passing it on, ns a packet.
    pub send_ns: f64,
}

/// One way through the chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathReport {
    /// Names of its nodes.
    pub nodes: Vec<String>,
    /// Whether packets are dropped at its end.
    pub is_dropped: bool,
    /// Journeys that took it.
    pub journeys: u64,
    /// Residence: median, p99 (if there are enough) and longest, ns.
    pub residence_ns: Spread,
    /// Each component's time.
    pub parts: Vec<PartRow>,
    /// Shares by component.
    pub blame: Blame,
    /// Shares by kind of component, summed over the path.
    pub by_kind: Blame,
}

/// How values spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Median.
    pub p50: f64,
    /// 99th percentile, if there are enough.
    pub p99: Option<f64>,
    /// Largest.
    pub max: f64,
}

/// One component's time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartRow {
    /// Its name.
    pub component: String,
    /// Its kind.
    pub kind: String,
    /// Its times, ns.
    pub ns: Spread,
}

/// Little's law for one ring: how many wait, by counting, and by rate times residency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RingCheck {
    /// The link.
    pub link: String,
    /// Packets per second; 0, as the other numbers, where both counts cannot be compared.
    pub rate_pps: f64,
    /// Mean residency of those followed, ns.
    pub residency_ns: f64,
    /// Half of the 95 % interval of the difference of both counts, as a residency: by 20 parts of
    /// the time, since packets that wait together wait alike.
    pub residency_error_ns: f64,
    /// Both counts; absent where they cannot be compared.
    pub check: Option<LittleCheck>,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}

impl Spread {
    fn of(values: &mut [f64]) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        let at = |q| values.get(rank(values.len(), q)).copied().unwrap_or(0.0);
        Self {
            p50: at(0.5),
            p99: quantile(values, 0.99),
            max: values.last().copied().unwrap_or(0.0),
        }
    }
}

impl ProbeReport {
    /// The report of what `collector` has taken between two statuses of the chain.
    pub fn new(
        collector: &Collector,
        settings: &ProbeSettings,
        before: &Status,
        after: &Status,
    ) -> Self {
        let map = collector.map();
        let journeys = Journeys::of(map, collector.visits.clone());
        let seconds = (after.uptime_s - before.uptime_s).max(1e-9);
        Self {
            schema: SCHEMA.to_owned(),
            chain: map.chain.clone(),
            tier: settings.tier,
            gap: settings.gap,
            seconds,
            workers: workers(before, after, seconds),
            nodes: nodes(before, after),
            paths: paths(map, &journeys.whole),
            rings: rings(collector, &journeys.whole, before, after),
            journeys: journeys.whole.len() as u64,
            unfinished: journeys.unfinished,
            broken: journeys.broken,
            lost: collector.lost(),
            refused: collector.refused(),
            counters: counters(&journeys.whole),
            tax: None,
        }
    }
}

fn workers(before: &Status, after: &Status, seconds: f64) -> Vec<WorkerCost> {
    let each = after.workers.iter().map(|worker| {
        let earlier = before.workers.iter().find(|old| old.name == worker.name);
        let (busy, asleep, turns) = earlier.map_or((0.0, 0.0, 0), |old| {
            (old.busy_s, old.sleep_s, old.busy_turns)
        });
        WorkerCost {
            name: worker.name.clone(),
            busy: (worker.busy_s - busy).max(0.0) / seconds,
            asleep: (worker.sleep_s - asleep).max(0.0) / seconds,
            busy_turns: worker.busy_turns.saturating_sub(turns) as f64 / seconds,
        }
    });
    each.collect()
}

fn nodes(before: &Status, after: &Status) -> Vec<NodeRow> {
    let each = after.nodes.iter().map(|node| {
        let earlier = before.nodes.iter().find(|old| old.name == node.name);
        let timed = node
            .cost
            .since(&earlier.map_or_else(NodeCost::default, |old| old.cost));
        let per_packet = |ns: u64| ns as f64 / timed.packets.max(1) as f64;
        NodeRow {
            name: node.name.clone(),
            type_name: node.type_name.clone(),
            burst: timed.packets as f64 / timed.bursts.max(1) as f64,
            take_ns: per_packet(timed.take_ns),
            work_ns: per_packet(timed.work_ns),
            send_ns: per_packet(timed.send_ns),
            timed,
        }
    });
    each.collect()
}

/// The most frequent paths.
fn paths(map: &ProbeMap, journeys: &[Journey]) -> Vec<PathReport> {
    let mut groups: BTreeMap<(Vec<u16>, bool), Vec<&Journey>> = BTreeMap::new();
    for journey in journeys {
        let key = (journey.path(), journey.is_dropped());
        groups.entry(key).or_default().push(journey);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.len()));
    groups.truncate(PATHS_MAX);
    let reports = groups
        .iter()
        .filter_map(|((path, is_dropped), group)| path_report(map, path, *is_dropped, group));
    reports.collect()
}

fn path_report(
    map: &ProbeMap,
    path: &[u16],
    is_dropped: bool,
    journeys: &[&Journey],
) -> Option<PathReport> {
    let components = components(map, journeys);
    let traces: Vec<Trace> = journeys.iter().map(|journey| times_of(journey)).collect();
    let names: Vec<_> = components.iter().map(|one| one.name.as_str()).collect();
    let counts: Vec<_> = journeys.iter().map(|journey| counts_of(journey)).collect();
    let blame = Blame::of(&names, &traces).ok()?.with_counts(&counts);
    let by_kind = Blame::of(&KINDS, &summed(&components, &traces)).ok()?;
    let by_kind = by_kind.with_counts(&counts_summed(&components, &counts));
    let parts = components.iter().enumerate().map(|(index, component)| {
        let mut times: Vec<_> = traces.iter().map(|trace| trace.parts_ns[index]).collect();
        PartRow {
            component: component.name.clone(),
            kind: KINDS[component.kind].to_owned(),
            ns: Spread::of(&mut times),
        }
    });
    let mut residence: Vec<_> = traces.iter().map(|trace| trace.residence_ns).collect();
    let name = |node: &u16| {
        let node = map.nodes[usize::from(*node)].as_ref();
        node.map_or_else(String::new, |node| node.name.clone())
    };
    Some(PathReport {
        nodes: path.iter().map(name).collect(),
        is_dropped,
        journeys: journeys.len() as u64,
        residence_ns: Spread::of(&mut residence),
        parts: parts.collect(),
        blame,
        by_kind,
    })
}

/// The same traces with components of one kind added up.
fn summed(components: &[Component], traces: &[Trace]) -> Vec<Trace> {
    let sum = |trace: &Trace| {
        let mut parts_ns = vec![0.0; KINDS.len()];
        for (component, time) in components.iter().zip(&trace.parts_ns) {
            parts_ns[component.kind] += time;
        }
        Trace {
            parts_ns,
            residence_ns: trace.residence_ns,
        }
    };
    traces.iter().map(sum).collect()
}

/// What was counted, with components of one kind added up.
fn counts_summed(components: &[Component], counts: &[Vec<PartCount>]) -> Vec<Vec<PartCount>> {
    let sum = |found: &Vec<PartCount>| {
        let mut by_kind: Vec<PartCount> = vec![None; KINDS.len()];
        for (component, count) in components.iter().zip(found) {
            if let Some((cycles, instructions)) = count {
                let (sum_cycles, sum_instructions) = by_kind[component.kind].unwrap_or_default();
                by_kind[component.kind] =
                    Some((sum_cycles + cycles, sum_instructions + instructions));
            }
        }
        by_kind
    };
    counts.iter().map(sum).collect()
}

/// Whether cycles and instructions were counted, or why not.
fn counters(journeys: &[Journey]) -> String {
    let visits = journeys.iter().flat_map(|journey| &journey.visits);
    let counted = visits
        .clone()
        .filter(|visit| !visit.counts.is_empty())
        .count();
    if counted > 0 {
        return format!("counted in {counted} of {} visits", visits.count());
    }
    match ThreadCounters::open() {
        Ok(_) if journeys.is_empty() => "no packet was followed".to_owned(),
        Ok(_) => "not counted: this process may read them, the workers may not, as behind the \
                  system call filter of a container"
            .to_owned(),
        Err(why) => format!("unsupported: {why}"),
    }
}

/// Little's law for each ring.
fn rings(
    collector: &Collector,
    journeys: &[Journey],
    before: &Status,
    after: &Status,
) -> Vec<RingCheck> {
    let links = collector.map().links.iter().enumerate();
    let checks = links.filter_map(|(index, link)| {
        let link = link.as_ref().filter(|link| link.is_ring)?;
        let number = index + 1;
        let hops = journeys
            .iter()
            .flat_map(|journey| journey.visits.windows(2));
        let over = hops.filter(|hop| usize::from(hop[1].input) == number);
        let followed: Vec<_> = over.map(|hop| (hop[0].sent, hop[1].begin)).collect();
        let spans = collector.cursors.iter();
        let spans = spans.filter(|span| usize::from(span.link) == number);
        let spans: Vec<_> = spans.copied().collect();
        let discarded = |status: &Status| {
            let found = status.links.iter().find(|found| found.name == link.name);
            found.map_or(0, |found| found.discarded)
        };
        let found = if discarded(after) > discarded(before) {
            Err("packets were discarded from it, which nobody followed".to_owned())
        } else {
            little(&spans, &followed)
        };
        Some(match found {
            Ok(found) => RingCheck {
                link: link.name.clone(),
                rate_pps: found.rate_pps,
                residency_ns: found.residency_ns,
                residency_error_ns: found.error_ns,
                check: Some(found.check),
                why_not: None,
            },
            Err(why) => RingCheck {
                link: link.name.clone(),
                rate_pps: 0.0,
                residency_ns: 0.0,
                residency_error_ns: 0.0,
                check: None,
                why_not: Some(why),
            },
        })
    });
    checks.collect()
}
