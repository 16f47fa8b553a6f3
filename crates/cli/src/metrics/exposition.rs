//! A status as Prometheus text, format 0.0.4. Pure.
//!
//! Every family is in [`FAMILIES`], from which docs/reference/metrics.md is made as well. Counters
//! that a dead worker leaves are in the sums, except the worker's own, which start again with each
//! life.

use std::fmt::Write;

use catena_engine::drop_reason::DropReason;
use catena_engine::supervisor::status::{LinkStatus, NodeStatus, Status, WorkerStatus};
use catena_upf::tally::DROP_REASONS;
use serde_json::Value;

/// What a family of metrics is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Counter,
    Gauge,
    Histogram,
}

impl Type {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// Metrics of one name.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) kind: Type,
    /// Labels, beside `chain`.
    pub(super) labels: &'static [&'static str],
    /// A sentence without its full stop.
    pub(super) help: &'static str,
    write: fn(&mut Samples<'_>, &Status),
}

const NODE: &[&str] = &["node", "type"];
const LINK: &[&str] = &["link", "trust"];
const WORKER: &[&str] = &["worker", "mode"];

/// All families, in the order of the text.
pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "catena_uptime_seconds",
        kind: Type::Gauge,
        labels: &[],
        help: "Time since the chain started",
        write: |samples, status| samples.add_float(&[], status.uptime_s),
    },
    Family {
        name: "catena_worker_deaths_total",
        kind: Type::Counter,
        labels: &[],
        help: "Deaths of workers",
        write: |samples, status| samples.add(&[], status.deaths),
    },
    Family {
        name: "catena_buffers",
        kind: Type::Gauge,
        labels: &["state"],
        help: "Packet buffers: free at home, in flight, held by their owners, unread of the dead",
        write: |samples, status| {
            samples.add(&["free"], status.buffers.free);
            samples.add(&["in_flight"], status.buffers.in_flight);
            samples.add(&["held"], status.buffers.held);
            samples.add(&["unread"], status.buffers.unread);
        },
    },
    Family {
        name: "catena_node_rx_packets_total",
        kind: Type::Counter,
        labels: NODE,
        help: "Packets that arrived at a port from the world, or at an NF",
        write: |samples, status| nodes(samples, status, |node| node.rx_packets),
    },
    Family {
        name: "catena_node_rx_bytes_total",
        kind: Type::Counter,
        labels: NODE,
        help: "Bytes that arrived, without FCS",
        write: |samples, status| nodes(samples, status, |node| node.rx_bytes),
    },
    Family {
        name: "catena_node_tx_packets_total",
        kind: Type::Counter,
        labels: NODE,
        help: "Packets that left by a port to the world, or an NF",
        write: |samples, status| nodes(samples, status, |node| node.tx_packets),
    },
    Family {
        name: "catena_node_tx_bytes_total",
        kind: Type::Counter,
        labels: NODE,
        help: "Bytes that left, without FCS",
        write: |samples, status| nodes(samples, status, |node| node.tx_bytes),
    },
    Family {
        name: "catena_node_drops_total",
        kind: Type::Counter,
        labels: &["node", "type", "reason"],
        help: "Packets dropped, by reason",
        write: |samples, status| {
            for node in &status.nodes {
                let own = node.own_drop_reasons.iter().map(String::as_str);
                for reason in DropReason::ALL.map(DropReason::name).into_iter().chain(own) {
                    let count = node.drops.get(reason).copied().unwrap_or(0);
                    samples.add(&[&node.name, &node.type_name, reason], count);
                }
            }
        },
    },
    Family {
        name: "catena_node_own",
        kind: Type::Gauge,
        labels: &["node", "type", "counter"],
        help: "What a port or an NF counts itself, by name, over all its lives",
        write: |samples, status| {
            for node in &status.nodes {
                for (counter, value) in &node.counters {
                    samples.add(&[&node.name, &node.type_name, counter], *value);
                }
            }
        },
    },
    Family {
        name: "catena_node_held_packets",
        kind: Type::Gauge,
        labels: NODE,
        help: "Packets that the node holds",
        write: |samples, status| nodes(samples, status, |node| node.held),
    },
    Family {
        name: "catena_node_killed_packets_total",
        kind: Type::Counter,
        labels: NODE,
        help: "Packets that were lost with the node's worker",
        write: |samples, status| nodes(samples, status, |node| node.killed),
    },
    Family {
        name: "catena_link_packets_total",
        kind: Type::Counter,
        labels: LINK,
        help: "Packets taken from a link",
        write: |samples, status| links(samples, status, |link| link.rx_packets),
    },
    Family {
        name: "catena_link_bytes_total",
        kind: Type::Counter,
        labels: LINK,
        help: "Bytes taken from a link, without FCS",
        write: |samples, status| links(samples, status, |link| link.rx_bytes),
    },
    Family {
        name: "catena_link_occupancy",
        kind: Type::Gauge,
        labels: LINK,
        help: "Packets in a link",
        write: |samples, status| links(samples, status, |link| link.occupancy),
    },
    Family {
        name: "catena_link_slots",
        kind: Type::Gauge,
        labels: LINK,
        help: "Packets that a link has room for",
        write: |samples, status| links(samples, status, |link| u64::from(link.slot_count)),
    },
    Family {
        name: "catena_link_wakes_total",
        kind: Type::Counter,
        labels: LINK,
        help: "Times the sender woke the receiver",
        write: |samples, status| links(samples, status, |link| link.wakes),
    },
    Family {
        name: "catena_link_blocked_turns_total",
        kind: Type::Counter,
        labels: LINK,
        help: "Turns in which the sender held back because the link was full",
        write: |samples, status| links(samples, status, |link| link.blocked),
    },
    Family {
        name: "catena_link_discarded_packets_total",
        kind: Type::Counter,
        labels: LINK,
        help: "Packets the receiver discarded: too old, or no buffer to copy into",
        write: |samples, status| links(samples, status, |link| link.discarded),
    },
    Family {
        name: "catena_link_bundles_total",
        kind: Type::Counter,
        labels: LINK,
        help: "Aggregated bundles the sender sent",
        write: |samples, status| links(samples, status, |link| link.aggregation.bundles),
    },
    Family {
        name: "catena_link_bundled_packets_total",
        kind: Type::Counter,
        labels: LINK,
        help: "Packets that travelled in bundles",
        write: |samples, status| links(samples, status, |link| link.aggregation.bundled_packets),
    },
    Family {
        name: "catena_link_packed_bytes_total",
        kind: Type::Counter,
        labels: LINK,
        help: "Bytes copied to pack packets into bundles",
        write: |samples, status| links(samples, status, |link| link.aggregation.packed_bytes),
    },
    Family {
        name: "catena_link_packing",
        kind: Type::Gauge,
        labels: LINK,
        help: "1 while the sender packs, 0 while not",
        write: |samples, status| {
            links(samples, status, |link| {
                u64::from(link.aggregation.is_packing)
            });
        },
    },
    Family {
        name: "catena_link_violations_total",
        kind: Type::Counter,
        labels: LINK,
        help: "Descriptors and cursors that no honest peer would write",
        write: |samples, status| links(samples, status, |link| link.violations),
    },
    Family {
        name: "catena_link_pull_packets",
        kind: Type::Histogram,
        labels: LINK,
        help: "Packets taken in one pull",
        write: |samples, status| {
            for link in status.links.iter().filter(|link| is_counted(link)) {
                samples.histogram(&[&link.name, &link.trust], &link.pulls, link.rx_packets);
            }
        },
    },
    Family {
        name: "catena_worker_up",
        kind: Type::Gauge,
        labels: WORKER,
        help: "1 if the worker runs, 0 if not",
        write: |samples, status| {
            workers(samples, status, |worker| {
                u64::from(worker.state == "running")
            });
        },
    },
    Family {
        name: "catena_worker_restarts_total",
        kind: Type::Counter,
        labels: WORKER,
        help: "Times the worker was started again",
        write: |samples, status| workers(samples, status, |worker| u64::from(worker.restarts)),
    },
    Family {
        name: "catena_worker_turns_total",
        kind: Type::Counter,
        labels: &["worker", "mode", "result"],
        help: "Passes of the worker's loop: busy ones moved packets",
        write: |samples, status| {
            for worker in &status.workers {
                let labels = |result| [worker.name.as_str(), worker.mode.as_str(), result];
                samples.add(&labels("busy"), worker.busy_turns);
                samples.add(&labels("idle"), worker.idle_turns);
            }
        },
    },
    Family {
        name: "catena_worker_yields_total",
        kind: Type::Counter,
        labels: WORKER,
        help: "Times the worker gave way to others",
        write: |samples, status| workers(samples, status, |worker| worker.yields),
    },
    Family {
        name: "catena_worker_sleeps_total",
        kind: Type::Counter,
        labels: WORKER,
        help: "Times the worker slept",
        write: |samples, status| workers(samples, status, |worker| worker.sleeps),
    },
    Family {
        name: "catena_worker_sleep_seconds_total",
        kind: Type::Counter,
        labels: WORKER,
        help: "Time the worker slept",
        write: |samples, status| {
            for worker in &status.workers {
                samples.add_float(&[&worker.name, &worker.mode], worker.sleep_s);
            }
        },
    },
    Family {
        name: "catena_worker_violations_total",
        kind: Type::Counter,
        labels: WORKER,
        help: "Descriptors and returned buffers the worker refused: no honest peer would send them",
        write: |samples, status| workers(samples, status, |worker| worker.violations),
    },
];

/// What UPFs say of themselves (`{"show": "metrics"}`), by node: of one whose control half does not
/// answer there are no samples.
pub(super) type Upfs = Vec<(String, Value)>;

/// Metrics that UPFs are asked for.
#[derive(Debug)]
pub(super) struct UpfFamily {
    pub(super) name: &'static str,
    pub(super) kind: Type,
    pub(super) labels: &'static [&'static str],
    pub(super) help: &'static str,
    /// The list of the answer, and what of each entry is told: with the value of the last label,
    /// where that is `direction` or `reason`.
    list: &'static str,
    fields: &'static [(&'static str, &'static str)],
}

const INSTANCE: &[&str] = &["node", "network_instance", "direction"];
const SLICE: &[&str] = &["node", "slice", "direction"];
const PACKETS: &[(&str, &str)] = &[("uplink", "ul_packets"), ("downlink", "dl_packets")];
const BYTES: &[(&str, &str)] = &[("uplink", "ul_bytes"), ("downlink", "dl_bytes")];
const DROPS: &[(&str, &str)] = &{
    let mut fields = [("", ""); DROP_REASONS.len()];
    let mut at = 0;
    while at < fields.len() {
        fields[at] = (DROP_REASONS[at], DROP_REASONS[at]);
        at += 1;
    }
    fields
};

/// Families of UPFs, in the order of the text behind [`FAMILIES`].
pub(super) const UPF_FAMILIES: &[UpfFamily] = &[
    UpfFamily {
        name: "catena_upf_instance_packets_total",
        kind: Type::Counter,
        labels: INSTANCE,
        help: "UEs' packets that left a UPF, by network instance",
        list: "network_instances",
        fields: PACKETS,
    },
    UpfFamily {
        name: "catena_upf_instance_bytes_total",
        kind: Type::Counter,
        labels: INSTANCE,
        help: "Their bytes, from the IP header on",
        list: "network_instances",
        fields: BYTES,
    },
    UpfFamily {
        name: "catena_upf_instance_drops_total",
        kind: Type::Counter,
        labels: &["node", "network_instance", "reason"],
        help: "Packets of a UPF's sessions that were dropped, by network instance",
        list: "dropped",
        fields: DROPS,
    },
    UpfFamily {
        name: "catena_upf_slice_packets_total",
        kind: Type::Counter,
        labels: SLICE,
        help: "UEs' packets that left a UPF, by S-NSSAI",
        list: "slices",
        fields: PACKETS,
    },
    UpfFamily {
        name: "catena_upf_slice_bytes_total",
        kind: Type::Counter,
        labels: SLICE,
        help: "Their bytes, from the IP header on",
        list: "slices",
        fields: BYTES,
    },
    UpfFamily {
        name: "catena_upf_slice_sessions",
        kind: Type::Gauge,
        labels: &["node", "slice"],
        help: "Sessions of a UPF, by S-NSSAI",
        list: "slices",
        fields: &[("", "sessions")],
    },
];

impl UpfFamily {
    fn write(&self, samples: &mut Samples<'_>, upfs: &Upfs) {
        for (node, answer) in upfs {
            for entry in answer[self.list].as_array().into_iter().flatten() {
                let name = entry["name"].as_str().unwrap_or_default();
                for (last, field) in self.fields {
                    let labels = [node.as_str(), name, last];
                    let value = entry[field].as_u64().unwrap_or(0);
                    samples.add(&labels[..self.labels.len()], value);
                }
            }
        }
    }
}

/// An edge inside a worker is a function call: nothing is counted on it.
fn is_counted(link: &LinkStatus) -> bool {
    link.kind != "inline"
}

fn nodes(samples: &mut Samples<'_>, status: &Status, value: fn(&NodeStatus) -> u64) {
    for node in &status.nodes {
        samples.add(&[&node.name, &node.type_name], value(node));
    }
}

fn links(samples: &mut Samples<'_>, status: &Status, value: fn(&LinkStatus) -> u64) {
    for link in status.links.iter().filter(|link| is_counted(link)) {
        samples.add(&[&link.name, &link.trust], value(link));
    }
}

fn workers(samples: &mut Samples<'_>, status: &Status, value: fn(&WorkerStatus) -> u64) {
    for worker in &status.workers {
        samples.add(&[&worker.name, &worker.mode], value(worker));
    }
}

/// Writes the samples of one family.
struct Samples<'a> {
    text: String,
    chain: &'a str,
    name: &'static str,
    labels: &'static [&'static str],
}

impl Samples<'_> {
    fn add(&mut self, values: &[&str], number: u64) {
        self.line("", values, None, &number);
    }

    fn add_float(&mut self, values: &[&str], number: f64) {
        self.line("", values, None, &number);
    }

    /// `counts[0]` is of 0 packets, `counts[i]` of those below `2^i`, the last of all others.
    fn histogram(&mut self, values: &[&str], counts: &[u64], sum: u64) {
        let mut total = 0;
        for (class, count) in counts.iter().enumerate() {
            total += count;
            if class + 1 < counts.len() {
                let below = ((1_u64 << class) - 1).to_string();
                self.line("_bucket", values, Some(&below), &total);
            }
        }
        self.line("_bucket", values, Some("+Inf"), &total);
        self.line("_sum", values, None, &sum);
        self.line("_count", values, None, &total);
    }

    fn line(
        &mut self,
        suffix: &str,
        values: &[&str],
        le: Option<&str>,
        number: &dyn std::fmt::Display,
    ) {
        debug_assert_eq!(values.len(), self.labels.len(), "{}", self.name);
        let _ = write!(self.text, "{}{suffix}{{chain=\"", self.name);
        escape(&mut self.text, self.chain);
        self.text.push('"');
        let le = le.map(|le| ("le", le));
        let labels = self.labels.iter().copied().zip(values.iter().copied());
        for (name, value) in labels.chain(le) {
            let _ = write!(self.text, ",{name}=\"");
            escape(&mut self.text, value);
            self.text.push('"');
        }
        let _ = writeln!(self.text, "}} {number}");
    }
}

/// Label values may hold anything but these three as they are.
fn escape(text: &mut String, value: &str) {
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            c => text.push(c),
        }
    }
}

/// The status as text.
pub(super) fn exposition(status: &Status, upfs: &Upfs) -> String {
    let mut samples = Samples {
        text: String::new(),
        chain: &status.chain,
        name: "",
        labels: &[],
    };
    for family in FAMILIES {
        let (name, kind) = (family.name, family.kind.name());
        let _ = writeln!(samples.text, "# HELP {name} {}.", family.help);
        let _ = writeln!(samples.text, "# TYPE {name} {kind}");
        (samples.name, samples.labels) = (name, family.labels);
        (family.write)(&mut samples, status);
    }
    // A chain without a UPF has none of its metrics.
    for family in UPF_FAMILIES.iter().filter(|_| !upfs.is_empty()) {
        let (name, kind) = (family.name, family.kind.name());
        let _ = writeln!(samples.text, "# HELP {name} {}.", family.help);
        let _ = writeln!(samples.text, "# TYPE {name} {kind}");
        (samples.name, samples.labels) = (name, family.labels);
        family.write(&mut samples, upfs);
    }
    samples.text
}

#[cfg(test)]
#[path = "exposition_tests.rs"]
mod tests;
