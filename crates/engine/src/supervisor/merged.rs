//! Status by the names of the chain file: shards of a node as one, links between them too.
//!
//! For people. Pure: made of a status in which every shard is a node, and less than that.

use std::collections::BTreeMap;

use super::status::{LinkStatus, NodeStatus, Status};
use crate::shard::{is_splitter, name_in_file};

impl Status {
    /// The status with a node's shards added up under its name in the file, and links between
    /// shards likewise. Splitters are left out; what they count is their senders'. Workers stay as
    /// they are.
    pub fn by_name_in_file(&self) -> Self {
        let is_sharded = |name: &str| name != name_in_file(name);
        if !self.nodes.iter().any(|node| is_sharded(&node.name)) {
            return self.clone();
        }
        Self {
            nodes: merged_nodes(&self.nodes),
            links: merged_links(&self.links),
            ..self.clone()
        }
    }
}

fn merged_nodes(nodes: &[NodeStatus]) -> Vec<NodeStatus> {
    let mut merged: Vec<NodeStatus> = Vec::new();
    for node in nodes.iter().filter(|node| !is_splitter(&node.name)) {
        let name = name_in_file(&node.name);
        match merged.iter_mut().find(|other| other.name == name) {
            Some(sum) => add_node(sum, node),
            None => merged.push(NodeStatus {
                name: name.to_owned(),
                worker: name_in_file(&node.worker).to_owned(),
                ..node.clone()
            }),
        }
    }
    for splitter in nodes.iter().filter(|node| is_splitter(&node.name)) {
        let name = name_in_file(&splitter.name);
        if let Some(sender) = merged.iter_mut().find(|node| node.name == name) {
            // Packets pass it within the sender's loop, and are counted there.
            add_up(&mut sender.drops, &splitter.drops);
            add_up(&mut sender.counters, &splitter.counters);
        }
    }
    merged
}

fn add_node(sum: &mut NodeStatus, node: &NodeStatus) {
    for (all, one) in [
        (&mut sum.rx_packets, node.rx_packets),
        (&mut sum.rx_bytes, node.rx_bytes),
        (&mut sum.tx_packets, node.tx_packets),
        (&mut sum.tx_bytes, node.tx_bytes),
        (&mut sum.held, node.held),
        (&mut sum.killed, node.killed),
    ] {
        *all = all.saturating_add(one);
    }
    add_up(&mut sum.drops, &node.drops);
    add_up(&mut sum.counters, &node.counters);
    sum.cost.add(&node.cost);
    if sum.error.is_none() {
        sum.error.clone_from(&node.error);
    }
}

fn add_up(sums: &mut BTreeMap<String, u64>, values: &BTreeMap<String, u64>) {
    for (name, value) in values {
        let sum = sums.entry(name.clone()).or_default();
        *sum = sum.saturating_add(*value);
    }
}

/// Links by the nodes of the file that they join; one inside a sender's loop is left out.
fn merged_links(links: &[LinkStatus]) -> Vec<LinkStatus> {
    let mut merged: Vec<LinkStatus> = Vec::new();
    for link in links {
        let Some((from, to)) = link.name.split_once(" -> ") else {
            continue;
        };
        if is_splitter(to) {
            continue;
        }
        let name = format!("{} -> {}", sender_in_file(from), name_in_file(to));
        match merged.iter_mut().find(|other| other.name == name) {
            Some(sum) => add_link(sum, link),
            None => merged.push(LinkStatus {
                name,
                ..link.clone()
            }),
        }
    }
    merged
}

/// `sort/3.red:split.7` is `sort.red`, and `nf/3` is `nf`.
fn sender_in_file(from: &str) -> String {
    let from = from.split_once(":split").map_or(from, |(sender, _)| sender);
    let output = from.split_once('.').map(|(_, output)| output);
    match output {
        Some(output) => format!("{}.{output}", name_in_file(from)),
        None => name_in_file(from).to_owned(),
    }
}

fn add_link(sum: &mut LinkStatus, link: &LinkStatus) {
    for (all, one) in [
        (&mut sum.tx_packets, link.tx_packets),
        (&mut sum.rx_packets, link.rx_packets),
        (&mut sum.rx_bytes, link.rx_bytes),
        (&mut sum.occupancy, link.occupancy),
        (&mut sum.wakes, link.wakes),
        (&mut sum.blocked, link.blocked),
        (&mut sum.discarded, link.discarded),
        (&mut sum.violations, link.violations),
    ] {
        *all = all.saturating_add(one);
    }
    for (all, one) in sum.pulls.iter_mut().zip(&link.pulls) {
        *all = all.saturating_add(*one);
    }
    sum.waiting.add(&link.waiting);
    let (all, one) = (&mut sum.aggregation, &link.aggregation);
    all.is_packing |= one.is_packing;
    all.bundles = all.bundles.saturating_add(one.bundles);
    all.bundled_packets = all.bundled_packets.saturating_add(one.bundled_packets);
    all.packed_bytes = all.packed_bytes.saturating_add(one.packed_bytes);
    #[expect(clippy::cast_precision_loss, reason = "a mean for people")]
    let mean = all.bundled_packets as f64 / all.bundles.max(1) as f64;
    all.packets_per_bundle = mean;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_are_named_as_in_the_file() {
        for (from, file) in [
            ("sort/3.red:split.7", "sort.red"),
            ("sort.red", "sort.red"),
            ("in:split.7", "in"),
            ("nf/3", "nf"),
            ("in", "in"),
        ] {
            assert_eq!(sender_in_file(from), file);
        }
    }
}
