//! The difference of two chains: what `catena plan` prints and `catena apply` does, in order.
//!
//! Pure: a plan is made of two values and touches nothing. Both chains have the same name; what
//! stays the same in both is not in the plan, and an apply loop leaves it alone. Nodes and links
//! are known by their names; a link whose name changes because its node now has several outputs is
//! another.
//!
//! An apply loop that takes the actions in order and looks up their contents in the new chain never
//! meets a link without both nodes to add, or a node to remove that still gets packets:
//!
//! | step | actions | order |
//! |---|---|---|
//! | 1 | [`Action::SetRun`] | |
//! | 2 | [`Action::RemoveLink`], [`Action::RemoveNode`] | downstream: a link's producer lets go of it, its consumer drains it; a node goes once every link to it has, then the links that left it. Ports go last, since a port may be both ends. |
//! | 3 | [`Action::ReplaceNode`], [`Action::SetNode`], [`Action::AddNode`] | file order; nothing new is connected yet |
//! | 4 | [`Action::SetLink`], [`Action::AddLink`] | upstream: a link gets packets once all behind it is there |
//!
//! Removal comes first because what is added may need what is removed: a device, a core, buffers. A
//! link that needs another ring (its trust, slots or protocol changed, or its nodes moved into one
//! loop or out of it) is removed and added; other changes are made in place. A replaced node keeps
//! the links that stay: packets wait in them, as when a node dies.

use std::fmt;

use serde::Serialize;

use super::fusion::Fusion;
use super::model::{Chain, Link, Mode, Node, NodeKind};
use super::values::{self, ValueChange};

/// One step from one chain to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Action {
    /// Gives the chain other run settings.
    SetRun {
        /// Which ones.
        changed: Vec<&'static str>,
    },
    /// Takes a link away.
    RemoveLink {
        /// Its name.
        link: String,
    },
    /// Stops a node and forgets it.
    RemoveNode {
        /// Its name.
        node: String,
    },
    /// Stops a node and starts it as it is in the new chain; its state is lost.
    ReplaceNode {
        /// Its name.
        node: String,
        /// What is different.
        changed: Vec<&'static str>,
    },
    /// Gives a running node other settings.
    SetNode {
        /// Its name.
        node: String,
        /// Which ones.
        changed: Vec<&'static str>,
    },
    /// Starts a node.
    AddNode {
        /// Its name.
        node: String,
    },
    /// Gives a link other settings.
    SetLink {
        /// Its name.
        link: String,
        /// Which ones.
        changed: Vec<&'static str>,
    },
    /// Makes a link.
    AddLink {
        /// Its name.
        link: String,
    },
}

/// What turns one chain into another, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The steps.
    pub actions: Vec<Action>,
    /// The values that change in each.
    pub values: Vec<Vec<ValueChange>>,
}

/// A step as JSON: the action, and its values if there are any.
#[derive(Serialize)]
struct Step<'a> {
    #[serde(flatten)]
    action: &'a Action,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    values: &'a [ValueChange],
}

impl Plan {
    /// Whether the chains are the same.
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    /// Each step with the values that change in it.
    pub fn steps(&self) -> impl Iterator<Item = (&Action, &[ValueChange])> {
        let values = self.values.iter().map(Vec::as_slice);
        self.actions.iter().zip(values)
    }

    /// The steps for machines: a list of actions with their `values`.
    pub fn to_json(&self) -> serde_json::Value {
        let steps = self.steps().map(|(action, values)| Step { action, values });
        serde_json::to_value(steps.collect::<Vec<_>>()).unwrap_or_default()
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return writeln!(f, "nothing changes");
        }
        self.steps().try_for_each(|(action, values)| {
            writeln!(f, "{action}")?;
            values
                .iter()
                .try_for_each(|value| writeln!(f, "    {value}"))
        })
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SetRun { changed } => write!(f, "~ run ({})", changed.join(", ")),
            Self::RemoveLink { link } => write!(f, "- link {link}"),
            Self::RemoveNode { node } => write!(f, "- node {node}"),
            Self::ReplaceNode { node, changed } => {
                write!(f, "! node {node} restarts ({})", changed.join(", "))
            }
            Self::SetNode { node, changed } => write!(f, "~ node {node} ({})", changed.join(", ")),
            Self::AddNode { node } => write!(f, "+ node {node}"),
            Self::SetLink { link, changed } => write!(f, "~ link {link} ({})", changed.join(", ")),
            Self::AddLink { link } => write!(f, "+ link {link}"),
        }
    }
}

/// What turns `old` into `new`.
pub fn diff(old: &Chain, new: &Chain) -> Plan {
    let (old, new) = (Side::new(old), Side::new(new));
    let mut actions = Vec::new();
    let changed = run_changes(&old, &new);
    if !changed.is_empty() {
        actions.push(Action::SetRun { changed });
    }
    let links: Vec<LinkFate> = new.links().map(|link| new.fate(link, &old)).collect();
    old.removals(&new, &mut actions);
    for (index, node) in new.chain.nodes.iter().enumerate() {
        actions.extend(node_action(&old, &new, index, node));
    }
    let upstream = new.links_downstream().into_iter().rev();
    for (index, link) in upstream.map(|index| (index, &new.chain.links[index])) {
        let link_name = link.name.clone();
        match &links[index] {
            LinkFate::Stays => {}
            LinkFate::Set(changed) => actions.push(Action::SetLink {
                link: link_name,
                changed: changed.clone(),
            }),
            LinkFate::Made => actions.push(Action::AddLink { link: link_name }),
        }
    }
    let values = actions.iter().map(|action| values_of(&old, &new, action));
    Plan {
        values: values.collect(),
        actions,
    }
}

/// The values that change in a step.
fn values_of<'a>(old: &Side<'a>, new: &Side<'a>, action: &Action) -> Vec<ValueChange> {
    match action {
        Action::SetRun { .. } => values::of_run(&old.chain.run, &new.chain.run),
        Action::ReplaceNode { node, .. } | Action::SetNode { node, .. } => {
            let side = |side: &Side<'a>| {
                let index = side.chain.node_index(node)?;
                Some((&side.chain.nodes[index], side.chain))
            };
            match (side(old), side(new)) {
                (Some(old), Some(new)) => values::of_node(old, new),
                _ => Vec::new(),
            }
        }
        // A link that needs another ring is taken away before.
        Action::SetLink { link, .. } | Action::AddLink { link } => {
            match (old.same_link(link), new.same_link(link)) {
                (Some(old), Some(new)) => values::of_link(old, new),
                _ => Vec::new(),
            }
        }
        Action::RemoveLink { .. } | Action::RemoveNode { .. } | Action::AddNode { .. } => {
            Vec::new()
        }
    }
}

/// What becomes of a link of the new chain.
enum LinkFate {
    Stays,
    Set(Vec<&'static str>),
    Made,
}

/// A chain and who runs in whose loop.
struct Side<'a> {
    chain: &'a Chain,
    fusion: Fusion,
}

impl<'a> Side<'a> {
    fn new(chain: &'a Chain) -> Self {
        Self {
            chain,
            fusion: chain.fusion(),
        }
    }

    fn links(&self) -> impl Iterator<Item = &'a Link> {
        self.chain.links.iter()
    }

    fn same_link(&self, name: &str) -> Option<&'a Link> {
        self.links().find(|link| link.name == name)
    }

    fn is_fused(&self, link: &Link) -> bool {
        self.fusion.is_fused(link.from, link.to)
    }

    /// The name of the node whose loop runs this one; none for the loop of inline nodes alone.
    fn worker(&self, node: usize) -> Option<&'a str> {
        let leader = &self.chain.nodes[self.fusion.leader[node]];
        (leader.mode != Mode::Inline).then_some(&leader.name)
    }

    fn fate(&self, link: &Link, old: &Side<'_>) -> LinkFate {
        let Some(before) = old.same_link(&link.name) else {
            return LinkFate::Made;
        };
        if !same_ring(old, before, self, link) {
            return LinkFate::Made;
        }
        let changes = [
            (before.overflow != link.overflow, "overflow"),
            (before.aggregate != link.aggregate, "aggregate"),
            (before.output != link.output, "output"),
            (before.input != link.input, "input"),
        ];
        match names_of(changes) {
            changed if changed.is_empty() => LinkFate::Stays,
            changed => LinkFate::Set(changed),
        }
    }

    /// What of this chain is not in `new`, packets' way down.
    fn removals(&self, new: &Side<'_>, actions: &mut Vec<Action>) {
        let goes = |link: &Link| {
            let after = new.same_link(&link.name);
            after.is_none_or(|after| !same_ring(self, link, new, after))
        };
        let is_gone = |node: &Node| new.chain.node_index(&node.name).is_none();
        let remove_links = |node: usize, actions: &mut Vec<Action>| {
            let leaving = self.chain.links_from(node).map(|(_, link)| link);
            actions.extend(leaving.filter(|link| goes(link)).map(|link| {
                let link = link.name.clone();
                Action::RemoveLink { link }
            }));
        };
        let mut gone_ports = Vec::new();
        for node in self.nodes_downstream() {
            let gone = is_gone(&self.chain.nodes[node]).then(|| Action::RemoveNode {
                node: self.chain.nodes[node].name.clone(),
            });
            match self.chain.nodes[node].is_port() {
                true => gone_ports.extend(gone),
                false => actions.extend(gone),
            }
            remove_links(node, actions);
        }
        actions.extend(gone_ports);
    }

    /// Ports, then NFs so that each stands behind those that send to it.
    fn nodes_downstream(&self) -> Vec<usize> {
        let is_port = |node: usize| self.chain.nodes[node].ends_paths();
        let mut open = vec![0_usize; self.chain.nodes.len()];
        for link in self.links().filter(|link| !is_port(link.from)) {
            open[link.to] += 1;
        }
        let count = self.chain.nodes.len();
        let mut order: Vec<usize> = (0..count).filter(|&node| is_port(node)).collect();
        let mut ready: Vec<usize> = (0..count)
            .rev()
            .filter(|&node| !is_port(node) && open[node] == 0)
            .collect();
        while let Some(node) = ready.pop() {
            order.push(node);
            for (_, link) in self.chain.links_from(node) {
                open[link.to] -= 1;
                if open[link.to] == 0 && !is_port(link.to) {
                    ready.push(link.to);
                }
            }
        }
        order
    }

    fn links_downstream(&self) -> Vec<usize> {
        let nodes = self.nodes_downstream().into_iter();
        nodes
            .flat_map(|node| self.chain.links_from(node).map(|(index, _)| index))
            .collect()
    }
}

/// Whether two links that are known by the same names may use the same ring.
fn same_ring(old: &Side<'_>, before: &Link, new: &Side<'_>, after: &Link) -> bool {
    let ring = |link: &Link| (link.trust, link.slot_count, link.protocol);
    let fused = (old.is_fused(before), new.is_fused(after));
    fused == (true, true) || (fused == (false, false) && ring(before) == ring(after))
}

fn names_of<const N: usize>(changes: [(bool, &'static str); N]) -> Vec<&'static str> {
    let changed = changes.into_iter().filter(|(changed, _)| *changed);
    changed.map(|(_, name)| name).collect()
}

fn run_changes(old: &Side<'_>, new: &Side<'_>) -> Vec<&'static str> {
    let (old, new) = (&old.chain.run, &new.chain.run);
    names_of([
        (old.mode != new.mode, "mode"),
        (old.wait != new.wait, "wait"),
        (old.burst != new.burst, "burst"),
        (old.cores != new.cores, "cores"),
        (old.buffers != new.buffers, "buffers"),
        (old.image != new.image, "image"),
        (old.orphan_ms != new.orphan_ms, "orphan"),
    ])
}

fn node_action(old: &Side<'_>, new: &Side<'_>, index: usize, node: &Node) -> Option<Action> {
    let name = node.name.clone();
    let Some(before_index) = old.chain.node_index(&node.name) else {
        return Some(Action::AddNode { node: name });
    };
    let before = &old.chain.nodes[before_index];
    let kind_changes = kind_changes(old, before, new, node);
    let (run_before, run) = (&old.chain.run, &new.chain.run);
    let in_container = node.mode == Mode::Container;
    let mut restarts = names_of([
        (before.mode != node.mode, "mode"),
        (
            before.mode == node.mode && moved(old, before_index, new, index),
            "worker",
        ),
        (run_before.buffers != run.buffers, "buffers"),
        (before.netns != node.netns, "netns"),
        (in_container && run_before.image != run.image, "image"),
    ]);
    restarts.splice(0..0, kind_changes);
    let settings = names_of([
        (before.core != node.core, "core"),
        (before.group != node.group, "group"),
        (before.on_death != node.on_death, "on_death"),
    ]);
    if !restarts.is_empty() {
        restarts.extend(settings);
        let changed = restarts;
        return Some(Action::ReplaceNode {
            node: name,
            changed,
        });
    }
    let changed = settings;
    (!changed.is_empty()).then_some(Action::SetNode {
        node: name,
        changed,
    })
}

/// Whether an inline node runs in another loop than before.
fn moved(old: &Side<'_>, before: usize, new: &Side<'_>, after: usize) -> bool {
    new.chain.nodes[after].mode == Mode::Inline && old.worker(before) != new.worker(after)
}

fn kind_changes(old: &Side<'_>, before: &Node, new: &Side<'_>, after: &Node) -> Vec<&'static str> {
    if before.is_port() != after.is_port() || before.type_name() != after.type_name() {
        return vec!["type"];
    }
    match (&before.kind, &after.kind) {
        (
            NodeKind::Port { config, wraps, .. },
            NodeKind::Port {
                config: new_config,
                wraps: new_wraps,
                ..
            },
        ) => {
            let same_wraps = wraps.len() == new_wraps.len()
                && wraps.iter().zip(new_wraps).all(|(before, after)| {
                    (before.kind.name, &before.config) == (after.kind.name, &after.config)
                });
            names_of([
                (config != new_config, "config"),
                (!same_wraps, "wrap"),
                (before.shard != after.shard, "queues"),
                (old.chain.dir != new.chain.dir, "folder"),
            ])
        }
        (
            NodeKind::Nf { config, plan, .. },
            NodeKind::Nf {
                config: new_config,
                plan: new_plan,
                ..
            },
        ) => names_of([
            (config != new_config, "config"),
            (plan.outputs != new_plan.outputs, "outputs"),
            (before.shard != after.shard, "shards"),
        ]),
        _ => vec!["type"],
    }
}
