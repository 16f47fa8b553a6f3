//! The two lists of a worker's nodes: its ports, and its NFs as a turn comes to them.
//!
//! Beside the path of a packet: made once, so that a turn asks no node what it is.

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
    /// Of what a chain's nodes do; ends of links are in neither list.
    pub fn of<'a>(works: impl Iterator<Item = &'a Work>) -> Self {
        let (mut ports, mut nfs, mut ending) = (Vec::new(), Vec::new(), Vec::new());
        for (position, work) in works.enumerate() {
            match work {
                Work::Port { .. } => ports.push(position),
                work if work.ends_paths() => ending.push(position),
                Work::Nf(_) | Work::Bypass => nfs.push(position),
            }
        }
        let passing_count = nfs.len();
        nfs.extend(ending);
        Self {
            ports,
            nfs,
            passing_count,
        }
    }
}
