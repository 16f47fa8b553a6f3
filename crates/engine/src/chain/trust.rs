//! What each link's two sides may do to each other's memory, where the file leaves it open.
//!
//! Packets lie in pools. A pool is made by one worker (a loop, see [`fusion`](super::fusion))
//! and is either *open*, so that other workers may map it for writing, or *sealed*, so that the
//! kernel refuses every writable mapping but its maker's. A worker's pools are all of one sort.
//! From this follows everything below.
//!
//! | link | packets that cross it | pool they lie in | receiver may |
//! |---|---|---|---|
//! | `shared` | stay where they are | open | write |
//! | `ro` | stay where they are | sealed | read |
//! | `copy` | are copied | the receiver's own, afterwards | write |
//! | fused | stay where they are, in one worker | as before | as before |
//!
//! A node is *read-only fed* if an `ro` link arrives at it, or a fused link from an NF that is. A
//! worker is a *sealer* if an `ro` link leaves one of its nodes: its pools must be sealed.
//!
//! Rules:
//! 1. An NF that writes packets is not read-only fed: the MMU would stop it.
//! 2. A link that leaves a read-only fed NF is `ro` or `copy`: what it may not write, it cannot
//!    give others to write.
//! 3. No `shared` link touches a sealer. One that leaves it would need an open pool of the
//!    sealer's; one that arrives brings packets of an open pool, which then could not leave over
//!    the `ro` link.
//!
//! Defaults, for links that are not fused: `copy` where rule 2 or 3 forbids `shared`; else `shared`
//! inside a trust group and `copy` between groups. A default is never `ro`, and `copy` is right
//! everywhere, so resolving needs no search: what the file says decides what is left, at once. A
//! link that says `shared` against rule 2 or 3 is an error, as is rule 1.

use super::fusion::Fusion;
use super::model::Trust;

/// A node, as far as trust is concerned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Party<'a> {
    pub(super) group: &'a str,
    pub(super) is_port: bool,
    /// Whether it is an NF that changes packets.
    pub(super) writes: bool,
}

/// A link, as far as trust is concerned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) to: usize,
    /// What the file says.
    pub(super) said: Option<Trust>,
}

/// A rule that the file breaks. Links are indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Breach {
    /// Rule 1: NF `node` writes, and its packets came over the `ro` link.
    WritesReadOnly { node: usize, ro: usize },
    /// Rule 2: the link says `shared`, and its packets came over the `ro` link.
    SharesReadOnly { link: usize, ro: usize },
    /// Rule 3: the link says `shared` and touches the worker that the `ro` link leaves.
    OpensSealed { link: usize, ro: usize },
}

/// Trust of every link (`shared` for fused ones), and the rules that are broken, in link order.
pub(super) fn resolve(
    parties: &[Party<'_>],
    edges: &[Edge],
    fusion: &Fusion,
) -> (Vec<Trust>, Vec<Breach>) {
    let is_fused = |edge: &Edge| fusion.is_fused(edge.from, edge.to);
    let fed = read_only_fed(parties, edges, fusion);
    let sealer = sealers(edges, fusion);
    let mut breaches = Vec::new();
    let mut trust = Vec::with_capacity(edges.len());
    for (link, edge) in edges.iter().enumerate() {
        if is_fused(edge) {
            trust.push(Trust::Shared);
            continue;
        }
        let seal = sealer[fusion.leader[edge.from]].or(sealer[fusion.leader[edge.to]]);
        let breach = match (fed[edge.from], seal) {
            (Some(ro), _) => Some(Breach::SharesReadOnly { link, ro }),
            (_, Some(ro)) => Some(Breach::OpensSealed { link, ro }),
            (None, None) => None,
        };
        let same_group = parties[edge.from].group == parties[edge.to].group;
        trust.push(match (edge.said, breach) {
            (Some(Trust::Shared), Some(breach)) => {
                breaches.push(breach);
                Trust::Copy
            }
            (Some(said), _) => said,
            (None, Some(_)) => Trust::Copy,
            (None, None) if same_group => Trust::Shared,
            (None, None) => Trust::Copy,
        });
    }
    let nodes = parties.iter().zip(&fed).enumerate();
    breaches.extend(nodes.filter_map(|(node, (party, fed))| {
        let ro = fed.filter(|_| party.writes)?;
        Some(Breach::WritesReadOnly { node, ro })
    }));
    (trust, breaches)
}

/// Per node, the `ro` link that its packets came over, if any did. Ports end packets.
fn read_only_fed(parties: &[Party<'_>], edges: &[Edge], fusion: &Fusion) -> Vec<Option<usize>> {
    let mut fed = vec![None; parties.len()];
    let mut frontier: Vec<(usize, usize)> = Vec::new();
    for (link, edge) in edges.iter().enumerate() {
        if edge.said == Some(Trust::Ro) && !fusion.is_fused(edge.from, edge.to) {
            frontier.push((edge.to, link));
        }
    }
    frontier.reverse();
    while let Some((node, ro)) = frontier.pop() {
        if parties[node].is_port || fed[node].is_some() {
            continue;
        }
        fed[node] = Some(ro);
        for edge in edges.iter().filter(|edge| edge.from == node) {
            if fusion.is_fused(edge.from, edge.to) {
                frontier.push((edge.to, ro));
            }
        }
    }
    fed
}

/// Per leader, an `ro` link that leaves its worker.
fn sealers(edges: &[Edge], fusion: &Fusion) -> Vec<Option<usize>> {
    let mut sealer = vec![None; fusion.leader.len()];
    for (link, edge) in edges.iter().enumerate() {
        if edge.said == Some(Trust::Ro) && !fusion.is_fused(edge.from, edge.to) {
            sealer[fusion.leader[edge.from]].get_or_insert(link);
        }
    }
    sealer
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::chain::model::Mode;

    type Graph = (Vec<(bool, Mode)>, Vec<(usize, usize, Option<Trust>)>);

    /// Nodes in two groups and two modes; links lead to later nodes and never say `shared`.
    fn graphs() -> impl Strategy<Value = Graph> {
        let mode = prop::sample::select(vec![Mode::Inline, Mode::Process]);
        let said = prop::sample::select(vec![None, None, Some(Trust::Ro), Some(Trust::Copy)]);
        let link = (0_usize..7, 1_usize..8, said).prop_map(|(from, step, said)| {
            let to = (from + step).min(7);
            (from, to, said)
        });
        (
            prop::collection::vec((any::<bool>(), mode), 8),
            prop::collection::vec(link, 0..16),
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        /// Goal: what is left open is never resolved into a breach. Method: the rules, said again
        /// over the resolved links.
        #[test]
        fn defaults_break_no_rule((nodes, links) in graphs()) {
            let modes: Vec<Mode> = nodes.iter().map(|(_, mode)| *mode).collect();
            let pairs: Vec<_> = links.iter().map(|&(from, to, _)| (from, to)).collect();
            let fusion = Fusion::of(&modes, &pairs);
            let party = |&(left, _): &(bool, Mode)| Party {
                group: if left { "left" } else { "right" },
                is_port: false,
                writes: false,
            };
            let parties: Vec<Party<'_>> = nodes.iter().map(party).collect();
            let edge = |&(from, to, said): &(usize, usize, Option<Trust>)| Edge { from, to, said };
            let edges: Vec<Edge> = links.iter().map(edge).collect();
            let (trust, breaches) = resolve(&parties, &edges, &fusion);
            prop_assert_eq!(breaches, []);
            let rings: Vec<_> = edges.iter().zip(&trust)
                .filter(|(edge, _)| !fusion.is_fused(edge.from, edge.to))
                .collect();
            for (edge, trust) in &rings {
                if let Some(said) = edge.said {
                    prop_assert_eq!(said, **trust);
                }
                for (other, _) in rings.iter().filter(|(_, other)| **other == Trust::Ro) {
                    let sealer = fusion.leader[other.from];
                    let touches = [edge.from, edge.to].map(|node| fusion.leader[node]);
                    prop_assert!(**trust != Trust::Shared || !touches.contains(&sealer));
                    prop_assert!(**trust != Trust::Shared || other.to != edge.from);
                }
            }
        }
    }
}
