//! Which nodes run in one loop: `inline` nodes are fused with the node before them.
//!
//! A worker is a set of nodes that one loop runs to completion; links inside one have no ring.
//! Every node of another mode has a worker of its own and leads it. An inline node joins the worker
//! of the nodes before it; inline nodes with nothing before them (the ports where a chain of mode
//! `inline` begins) share one worker, led by the first of them. An inline node whose packets come
//! from several workers has no place.

use super::model::{Chain, Mode};

/// Who runs in whose loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fusion {
    /// Per node, the node that leads its worker: the one that is not inline, or the first inline
    /// one.
    pub leader: Vec<usize>,
    /// Inline nodes whose packets come from several workers; they lead a worker of their own here.
    pub torn: Vec<usize>,
}

impl Fusion {
    /// Places nodes of these modes, joined by these links (from, to).
    pub fn of(modes: &[Mode], links: &[(usize, usize)]) -> Self {
        let is_inline = |node: usize| modes[node] == Mode::Inline;
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); modes.len()];
        for &(from, to) in links {
            before[to].push(from);
        }
        let is_root = |node: usize| is_inline(node) && before[node].is_empty();
        let first_root = (0..modes.len()).find(|&node| is_root(node));
        let mut leader: Vec<Option<usize>> = (0..modes.len())
            .map(|node| match is_inline(node) {
                false => Some(node),
                true if is_root(node) => first_root,
                true => None,
            })
            .collect();
        let mut torn = Vec::new();
        while let Some(node) = next_to_place(&leader, &before) {
            let mut leaders = before[node].iter().filter_map(|&from| leader[from]);
            let first = leaders.next();
            let one = leaders.all(|other| Some(other) == first);
            leader[node] = match (first, one) {
                (Some(worker), true) => Some(worker),
                (Some(_), false) => {
                    torn.push(node);
                    Some(node)
                }
                // A loop of inline nodes through a port: it begins at its first node.
                (None, _) => Some(first_root.unwrap_or(node)),
            };
        }
        torn.sort_unstable();
        let leader = leader
            .into_iter()
            .enumerate()
            .map(|(node, leader)| leader.unwrap_or(node))
            .collect();
        Self { leader, torn }
    }

    /// Whether two nodes run in one loop.
    pub fn is_fused(&self, from: usize, to: usize) -> bool {
        self.leader[from] == self.leader[to]
    }
}

/// A node without a place: best one behind placed nodes only, else the first.
fn next_to_place(leader: &[Option<usize>], before: &[Vec<usize>]) -> Option<usize> {
    let mut open = (0..leader.len()).filter(|&node| leader[node].is_none());
    let first = open.clone().next()?;
    let ready = open.find(|&node| before[node].iter().all(|&from| leader[from].is_some()));
    Some(ready.unwrap_or(first))
}

impl Chain {
    /// Which nodes run in one loop.
    pub fn fusion(&self) -> Fusion {
        let modes: Vec<Mode> = self.nodes.iter().map(|node| node.mode).collect();
        let links: Vec<_> = self.links.iter().map(|link| (link.from, link.to)).collect();
        Fusion::of(&modes, &links)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Mode::{Inline, Process};

    #[test]
    fn nodes_that_are_not_inline_lead_themselves() {
        let fusion = Fusion::of(&[Process, Process, Process], &[(0, 1), (1, 2)]);
        assert_eq!(fusion.leader, [0, 1, 2]);
        assert!(!fusion.is_fused(0, 1));
    }

    #[test]
    fn an_inline_chain_is_one_worker_even_with_two_entries() {
        let fusion = Fusion::of(&[Inline; 4], &[(0, 1), (2, 3)]);
        assert_eq!(fusion.leader, [0, 0, 0, 0]);
    }

    #[test]
    fn inline_nodes_join_the_node_before_them() {
        let modes = [Process, Process, Inline, Inline];
        let fusion = Fusion::of(&modes, &[(0, 1), (1, 2), (2, 3)]);
        assert_eq!(fusion.leader, [0, 1, 1, 1]);
    }

    #[test]
    fn an_inline_node_behind_two_workers_is_torn() {
        let fusion = Fusion::of(&[Process, Process, Inline], &[(0, 2), (1, 2)]);
        assert_eq!(fusion.torn, [2]);
        assert_eq!(fusion.leader, [0, 1, 2]);
    }

    #[test]
    fn an_inline_loop_through_a_port_is_one_worker() {
        // A tap whose packets come back to it: port 0 -> NF 1 -> port 0.
        let fusion = Fusion::of(&[Inline, Inline], &[(0, 1), (1, 0)]);
        assert_eq!(fusion.leader, [0, 0]);
        assert!(fusion.torn.is_empty());
    }

    #[test]
    fn inline_taps_around_two_processes_join_what_sends_to_them() {
        // Tap 0 -> NF 2 -> tap 1, and tap 1 -> NF 3 -> tap 0.
        let modes = [Inline, Inline, Process, Process];
        let fusion = Fusion::of(&modes, &[(0, 2), (2, 1), (1, 3), (3, 0)]);
        assert_eq!(fusion.leader, [3, 2, 2, 3]);
    }
}
