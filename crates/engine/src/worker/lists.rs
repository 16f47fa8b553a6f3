//! The two lists of a worker's nodes: its ports, and its NFs as a turn comes to them.
//!
//! Beside the path of a packet: made once, so that a turn asks no node what it is.

use crate::worker::graph::WorkerNode;
use crate::worker::work::Work;

/// Ports and NFs of a worker, by their positions in its graph and in their order there.
#[derive(Debug, Default)]
pub struct Lists {
    /// Ports.
    pub ports: Vec<usize>,
    /// NFs that pass packets on, and what stands in for one; behind them those at which paths end.
    pub nfs: Vec<usize>,
    /// How many of `nfs` pass packets on.
    pub passing_count: usize,
}

impl Lists {
    /// Of a chain's nodes; ends of links are in neither list.
    pub fn of(nodes: &[WorkerNode]) -> Self {
        let positions = |belongs: fn(&WorkerNode) -> bool| {
            let nodes = nodes.iter().enumerate();
            let belonging = nodes.filter(move |(_, node)| belongs(node));
            belonging.map(|(position, _)| position)
        };
        let is_port = |node: &WorkerNode| matches!(node.work, Work::Port { .. });
        let mut nfs: Vec<usize> =
            positions(|node| !matches!(node.work, Work::Port { .. }) && !node.is_end).collect();
        let passing_count = nfs.len();
        nfs.extend(positions(|node| node.is_end));
        Self {
            ports: positions(is_port).collect(),
            nfs,
            passing_count,
        }
    }
}
