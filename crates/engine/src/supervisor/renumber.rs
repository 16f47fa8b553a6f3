//! A changed chain, numbered so that what stays keeps its number. Pure.
//!
//! Regions, ledgers and counter blocks of a running chain name nodes and links by number. So a new
//! chain is not used as it was read: nodes and links that stay keep the numbers they have, new ones
//! are appended, and places of those that go stay empty ([`is_gone`], [`is_link_gone`]).

use crate::chain::model::{Chain, Link, Node, NodeKind, WrapSpec, is_gone, is_link_gone};

/// Whether a node can stay where it runs: only its settings and links may differ.
pub(super) fn stays(old: &Node, new: &Node) -> bool {
    old.name == new.name
        && old.is_port() == new.is_port()
        && (old.mode, old.core, &old.netns) == (new.mode, new.core, &new.netns)
        && old.group == new.group
}

/// Whether two nodes have the same settings. How many shards there are beside one is one of them.
pub fn same_settings(old: &Node, new: &Node) -> bool {
    if old.shard != new.shard {
        return false;
    }
    match (&old.kind, &new.kind) {
        (
            NodeKind::Port {
                kind: a,
                config: x,
                wraps: v,
                ..
            },
            NodeKind::Port {
                kind: b,
                config: y,
                wraps: w,
                ..
            },
        ) => {
            let same_wrap =
                |(l, r): (&WrapSpec, &WrapSpec)| l.kind.name == r.kind.name && l.config == r.config;
            a.name == b.name && x == y && v.len() == w.len() && v.iter().zip(w).all(same_wrap)
        }
        (
            NodeKind::Nf {
                kind: a,
                config: x,
                plan: v,
            },
            NodeKind::Nf {
                kind: b,
                config: y,
                plan: w,
            },
        ) => a.name == b.name && x == y && v == w,
        _ => false,
    }
}

/// Whether packets would be told apart by another key among shards that stay: what one shard knows
/// of a flow, another one would be asked for, beginning with packets that are on the way.
pub(super) fn splits_otherwise(old: &Node, new: &Node) -> bool {
    match (&old.kind, &new.kind) {
        (
            NodeKind::Nf {
                kind: a, plan: v, ..
            },
            NodeKind::Nf {
                kind: b, plan: w, ..
            },
        ) => {
            let are_shards = old.shard.is_some() && new.shard.is_some();
            are_shards && a.name == b.name && v.splits_by != w.splits_by
        }
        _ => false,
    }
}

/// `new`, numbered as a successor of `old`.
pub fn renumber(old: &Chain, new: &Chain) -> Chain {
    let mut nodes: Vec<Node> = old.nodes.clone();
    for node in &mut nodes {
        match new.nodes.iter().find(|candidate| stays(node, candidate)) {
            Some(same) if !is_gone(node) => *node = same.clone(),
            _ => node.name.clear(),
        }
    }
    let added = new
        .nodes
        .iter()
        .filter(|node| !old.nodes.iter().any(|o| stays(o, node)));
    nodes.extend(added.cloned());
    let number = |name: &str| {
        nodes
            .iter()
            .position(|node| node.name == name)
            .unwrap_or(usize::MAX)
    };
    let placed = |link: &Link| Link {
        from: number(&new.nodes[link.from].name),
        to: number(&new.nodes[link.to].name),
        ..link.clone()
    };
    let wanted: Vec<Link> = new.links.iter().map(placed).collect();
    let same_ring = |a: &Link, b: &Link| {
        (&a.name, a.from, a.to, a.trust) == (&b.name, b.from, b.to, b.trust)
            && (a.overflow, a.slot_count) == (b.overflow, b.slot_count)
            && (a.protocol, a.aggregate) == (b.protocol, b.aggregate)
    };
    let mut links: Vec<Link> = old.links.clone();
    for link in &mut links {
        match wanted.iter().find(|candidate| same_ring(link, candidate)) {
            Some(same) => *link = same.clone(),
            None => {
                link.from = usize::MAX;
                link.to = usize::MAX;
            }
        }
    }
    let is_new = |link: &&Link| !old.links.iter().any(|other| same_ring(other, link));
    links.extend(wanted.iter().filter(is_new).cloned());
    Chain {
        name: new.name.clone(),
        dir: new.dir.clone(),
        nodes,
        links,
        run: new.run.clone(),
    }
}

/// `chain` without empty places, as it would be read from a file.
pub fn compact(chain: &Chain) -> Chain {
    let kept: Vec<usize> = (0..chain.nodes.len())
        .filter(|node| !is_gone(&chain.nodes[*node]))
        .collect();
    let number = |node: usize| {
        kept.iter()
            .position(|here| *here == node)
            .unwrap_or(usize::MAX)
    };
    let links = chain.links.iter().filter(|link| !is_link_gone(link));
    Chain {
        name: chain.name.clone(),
        dir: chain.dir.clone(),
        nodes: kept.iter().map(|node| chain.nodes[*node].clone()).collect(),
        links: links
            .map(|link| Link {
                from: number(link.from),
                to: number(link.to),
                ..link.clone()
            })
            .collect(),
        run: chain.run.clone(),
    }
}
