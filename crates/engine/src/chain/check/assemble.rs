//! Places the nodes, resolves trust, and makes the chain of what the file's sections said.

use std::path::Path;

use super::graph::Wiring;
use super::links::{LinkDraft, LinkOptions, Links};
use super::nodes::{Draft, Drafts, Part};
use super::run::DEFAULT_IMAGE;
use crate::chain::diagnostic::Report;
use crate::chain::fusion::Fusion;
use crate::chain::model::{Chain, Link, Mode, Node, NodeKind, Run, Trust};
use crate::chain::trust::{Breach, Edge, Party, resolve};
use crate::nf::Access;

/// Trust of every link that has a ring, after reporting what cannot be trusted or placed.
pub(super) fn trust(
    report: &mut Report<'_>,
    drafts: Drafts<'_>,
    links: &Links,
) -> Vec<Option<Trust>> {
    let modes: Vec<Mode> = drafts.iter().map(|draft| draft.mode).collect();
    let edges: Vec<Edge> = links.links.iter().map(edge).collect();
    let pairs: Vec<_> = edges.iter().map(|edge| (edge.from, edge.to)).collect();
    let fusion = Fusion::of(&modes, &pairs);
    let parties: Vec<Party<'_>> = drafts.iter().map(party).collect();
    report_torn(report, drafts, links, &fusion);
    warn_of_idle_settings(report, drafts, links, &fusion);
    let (trust, breaches) = resolve(&parties, &edges, &fusion);
    for breach in breaches {
        report_breach(report, drafts, links, breach);
    }
    warn_of_open_groups(report, drafts, links, &fusion);
    let has_ring = |edge: &Edge| !fusion.is_fused(edge.from, edge.to);
    let pairs = edges.iter().zip(trust);
    pairs
        .map(|(edge, trust)| has_ring(edge).then_some(trust))
        .collect()
}

fn edge(link: &LinkDraft) -> Edge {
    Edge {
        from: link.from.node,
        to: link.to.node,
        said: link.options.said_trust(),
    }
}

fn party<'a>(draft: &'a Draft<'_>) -> Party<'a> {
    Party {
        group: &draft.group,
        is_port: draft.ends_paths(),
        writes: matches!(&draft.part, Part::Nf { plan: Some(plan), .. }
            if plan.access == Access::Write),
    }
}

fn report_torn(report: &mut Report<'_>, drafts: Drafts<'_>, links: &Links, fusion: &Fusion) {
    for &node in &fusion.torn {
        let arriving = links.links.iter().filter(|link| link.to.node == node);
        let mut before: Vec<&str> = arriving.map(|link| drafts[link.from.node].name).collect();
        before.sort_unstable();
        before.dedup();
        report.error(
            drafts[node].at,
            format!(
                "{} is inline, but its packets come from several workers ({})",
                drafts[node].name,
                before.join(", ")
            ),
            "give it mode: thread or process",
        );
    }
}

/// Settings of rings and cores that nothing heeds where nodes run in one loop.
fn warn_of_idle_settings(
    report: &mut Report<'_>,
    drafts: Drafts<'_>,
    links: &Links,
    fusion: &Fusion,
) {
    for link in &links.links {
        if !fusion.is_fused(link.from.node, link.to.node) {
            continue;
        }
        for (key, at) in link.options.ring_only() {
            report.warning(
                at,
                format!(
                    "{key} has no effect: {} run in one loop, with no ring between",
                    both(drafts, link)
                ),
                format!(
                    "remove {key}, or give {} another mode",
                    drafts[link.to.node].name
                ),
            );
        }
    }
    for (node, draft) in drafts.iter().enumerate() {
        let leader = fusion.leader[node];
        let core = draft.core.map(|(_, at)| ("core", at));
        let netns = draft.netns.as_ref().map(|(_, at)| ("netns", *at));
        for (key, at) in [core, netns].into_iter().flatten() {
            if leader != node {
                report.warning(
                    at,
                    format!(
                        "{key} has no effect: {} runs in the loop of {}",
                        draft.name, drafts[leader].name
                    ),
                    format!(
                        "set the {key} of {}, or give {} another mode",
                        drafts[leader].name, draft.name
                    ),
                );
            }
        }
    }
}

/// Memory that groups share although they need not trust each other.
fn warn_of_open_groups(
    report: &mut Report<'_>,
    drafts: Drafts<'_>,
    links: &Links,
    fusion: &Fusion,
) {
    for link in &links.links {
        let (from, to) = (&drafts[link.from.node], &drafts[link.to.node]);
        if from.group == to.group {
            continue;
        }
        let groups = format!("groups {} and {}", from.group, to.group);
        if fusion.is_fused(link.from.node, link.to.node) {
            report.warning(
                to.at,
                format!(
                    "{groups} are one in memory: {} run in one loop",
                    both(drafts, link)
                ),
                "give both the same group, or another mode",
            );
        } else if let Some((Trust::Shared, at)) = link.options.trust {
            report.warning(
                at,
                format!("{groups} can write each other's packets over this link"),
                "write ro or copy, or give both the same group",
            );
        }
    }
}

fn both(drafts: Drafts<'_>, link: &LinkDraft) -> String {
    let (from, to) = (&drafts[link.from.node], &drafts[link.to.node]);
    format!("{} and {}", from.name, to.name)
}

fn arrow(drafts: Drafts<'_>, link: &LinkDraft) -> String {
    let (from, to) = (&drafts[link.from.node], &drafts[link.to.node]);
    match &link.output {
        Some(output) if !from.is_port() => format!("{}.{output} -> {}", from.name, to.name),
        _ => format!("{} -> {}", from.name, to.name),
    }
}

fn report_breach(report: &mut Report<'_>, drafts: Drafts<'_>, links: &Links, breach: Breach) {
    let said_at = |link: &LinkDraft| link.options.trust.map_or(link.at, |(_, at)| at);
    match breach {
        Breach::WritesReadOnly { node, ro } => {
            let ro = &links.links[ro];
            report.error(
                said_at(ro),
                format!(
                    "{} changes packets, but those that come over {} are read-only",
                    drafts[node].name,
                    arrow(drafts, ro)
                ),
                "write shared or copy",
            );
        }
        Breach::SharesReadOnly { link, ro } => {
            let (link, ro) = (&links.links[link], &links.links[ro]);
            report.error(
                said_at(link),
                format!(
                    "packets arriving at {} are read-only because link {} is ro, so {} can be ro \
                     or copy",
                    drafts[link.from.node].name,
                    arrow(drafts, ro),
                    arrow(drafts, link)
                ),
                "write ro or copy",
            );
        }
        Breach::OpensSealed { link, ro } => {
            let (link, ro) = (&links.links[link], &links.links[ro]);
            let sealer = drafts[ro.from.node].name;
            report.error(
                said_at(link),
                format!(
                    "link {} is ro, so nobody but {sealer} may write {sealer}'s packets, and {} \
                     can be ro or copy",
                    arrow(drafts, ro),
                    arrow(drafts, link)
                ),
                format!("write copy, or make {} shared or copy", arrow(drafts, ro)),
            );
        }
    }
}

/// The chain; called when there are no errors.
pub(super) fn chain(
    name: String,
    dir: &Path,
    mut run: Run,
    drafts: Vec<Draft<'_>>,
    links: &Links,
    wiring: &Wiring,
    trust: &[Option<Trust>],
) -> Option<Chain> {
    let in_containers = drafts.iter().any(|draft| draft.mode == Mode::Container);
    if in_containers && run.image.is_none() {
        run.image = Some(DEFAULT_IMAGE.to_owned());
    }
    let nodes: Vec<Node> = drafts.into_iter().map(node).collect::<Option<_>>()?;
    let links = links
        .links
        .iter()
        .zip(wiring.iter().zip(trust))
        .map(|(link, (wire, &trust))| {
            // Without a ring its settings are idle: the same ones for every such link.
            let options = match trust {
                Some(_) => link.options.clone(),
                None => LinkOptions::default(),
            };
            Some(Link {
                name: link_name(&nodes, link, wire.output?),
                from: link.from.node,
                output: wire.output?,
                to: link.to.node,
                input: wire.input,
                trust: trust.unwrap_or(Trust::Shared),
                slot_count: options.slot_count(),
                overflow: options.overflow.map(|(word, _)| word).unwrap_or_default(),
                protocol: options.protocol.map(|(word, _)| word).unwrap_or_default(),
                aggregate: options.aggregate.map(|(word, _)| word).unwrap_or_default(),
            })
        })
        .collect::<Option<_>>()?;
    Some(Chain {
        name,
        dir: dir.to_owned(),
        nodes,
        links,
        run,
    })
}

fn node(draft: Draft<'_>) -> Option<Node> {
    let kind = match draft.part {
        Part::Port {
            kind,
            config,
            role,
            wraps,
        } => NodeKind::Port {
            kind: kind?,
            config,
            role: role?,
            wraps,
        },
        Part::Nf {
            kind, config, plan, ..
        } => NodeKind::Nf {
            kind: kind?,
            config: config.to_json(),
            plan: *plan?,
        },
    };
    Some(Node {
        name: draft.name.to_owned(),
        kind,
        mode: draft.mode,
        core: draft.core.map(|(core, _)| core),
        netns: draft.netns.map(|(netns, _)| netns),
        group: draft.group,
        on_death: draft.on_death,
        shards: draft.shards.map(|shards| shards.resolved),
        shard: None,
    })
}

/// `from -> to`, with `.output` where the node has several.
fn link_name(nodes: &[Node], link: &LinkDraft, output: u8) -> String {
    let (from, to) = (&nodes[link.from.node], &nodes[link.to.node].name);
    match &from.kind {
        NodeKind::Nf { plan, .. } if plan.outputs.len() > 1 => {
            format!(
                "{}.{} -> {to}",
                from.name,
                plan.outputs[usize::from(output)]
            )
        }
        _ => format!("{} -> {to}", from.name),
    }
}
