//! The graph that links make of the nodes: who may stand where, how often, and no cycles.

use std::collections::HashMap;

use super::fields::suggestion;
use super::links::{LinkDraft, Links};
use super::nodes::{Draft, Drafts, Part};
use crate::chain::diagnostic::Report;
use crate::config::PortSide;
use crate::nf::Inputs;

/// Indices that a link has at its two nodes; the output is missing if it is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wire {
    pub(super) output: Option<u8>,
    pub(super) input: u8,
}

/// Per link, in file order.
pub(super) type Wiring = Vec<Wire>;

/// Names of the outputs that links leave `node` by, in file order, each once.
pub(super) fn output_names(links: &Links, node: usize) -> Vec<PortSide> {
    let mut names: Vec<PortSide> = Vec::new();
    for link in links.links.iter().filter(|link| link.from.node == node) {
        let name = link.output_name();
        if !names.iter().any(|other| other == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// Checks every link and node, and numbers outputs and inputs.
pub(super) fn check(report: &mut Report<'_>, drafts: Drafts<'_>, links: &Links) -> Wiring {
    let mut input_counts = vec![0_u8; drafts.len()];
    let mut taken: HashMap<(usize, usize), &LinkDraft> = HashMap::new();
    let mut wiring = Wiring::new();
    for link in &links.links {
        check_roles(report, drafts, link);
        let output = output_index(report, &drafts[link.from.node], link);
        if let Some(output) = output {
            match taken.get(&(link.from.node, output)) {
                Some(first) => report_shared_output(report, drafts, first, link),
                None => {
                    taken.insert((link.from.node, output), link);
                }
            }
        }
        let count = &mut input_counts[link.to.node];
        wiring.push(Wire {
            output: output.and_then(|output| u8::try_from(output).ok()),
            input: *count,
        });
        let (next, is_over) = count.overflowing_add(1);
        if is_over {
            let name = drafts[link.to.node].name;
            let message = format!("more than 255 links arrive at {name}");
            report.error(
                link.to.at,
                message,
                "join some of them before, with a merge",
            );
        }
        *count = next;
    }
    for (node, draft) in drafts.iter().enumerate() {
        check_inputs(report, links, node, draft);
        warn_of_open_outputs(report, links, node, draft, &taken);
    }
    report_cycles(report, drafts, links);
    wiring
}

fn check_roles(report: &mut Report<'_>, drafts: Drafts<'_>, link: &LinkDraft) {
    let role = |node: usize| match &drafts[node].part {
        Part::Port { role, .. } => *role,
        Part::Nf { .. } => None,
    };
    if role(link.from.node).is_some_and(|role| !role.receives) {
        let name = drafts[link.from.node].name;
        report.error(
            link.from.at,
            format!("port {name} only sends, so no link can leave it"),
            "turn the link round, or configure the port to receive",
        );
    }
    if role(link.to.node).is_some_and(|role| !role.sends) {
        let name = drafts[link.to.node].name;
        report.error(
            link.to.at,
            format!("port {name} only receives, so no link can reach it"),
            "turn the link round, or configure the port to send",
        );
    }
}

/// The output a link leaves by: the one it names; without a name `out`, or the only one.
fn output_index(report: &mut Report<'_>, from: &Draft<'_>, link: &LinkDraft) -> Option<usize> {
    let outputs = from.outputs()?;
    let found = outputs.iter().position(|name| *name == link.output_name());
    let (message, repair) = match (&link.output, outputs.as_slice()) {
        _ if found.is_some() => return found,
        (None, [_]) => return Some(0),
        (_, []) => (
            format!("{} has no outputs", from.name),
            "remove the link".to_owned(),
        ),
        (None, [first, ..]) => (
            format!("{} has the outputs {}", from.name, outputs.join(", ")),
            format!("say which one, like {}.{first}", from.name),
        ),
        (Some(output), _) if from.is_port() => (
            format!("port {} has no output \"{output}\"", from.name),
            format!("write {}", from.name),
        ),
        (Some(output), _) => (
            format!("{} has no output \"{output}\"", from.name),
            suggestion(output, &outputs),
        ),
    };
    report.error(link.from.at, message, repair);
    None
}

fn report_shared_output(
    report: &mut Report<'_>,
    drafts: Drafts<'_>,
    first: &LinkDraft,
    link: &LinkDraft,
) {
    let from = &drafts[link.from.node];
    let which = match from.outputs().map_or(0, |outputs| outputs.len()) {
        0 | 1 => from.name.to_owned(),
        _ => format!("output \"{}\" of {}", link.output_name(), from.name),
    };
    let splits = matches!(&from.part, Part::Nf { kind: Some(kind), .. }
        if ["tee", "classify"].contains(&kind.name));
    let repair = match splits {
        true => format!(
            "give each link an output of its own, like {}.a -> {} and {}.b -> {}",
            from.name, drafts[first.to.node].name, from.name, drafts[link.to.node].name
        ),
        false => {
            "put a tee (every packet to each) or a classify (each packet to one) between".to_owned()
        }
    };
    report.error(
        link.from.at,
        format!(
            "{which} feeds {} already (line {}); each output feeds one link",
            drafts[first.to.node].name, first.at.line
        ),
        repair,
    );
}

fn check_inputs(report: &mut Report<'_>, links: &Links, node: usize, draft: &Draft<'_>) {
    let mut arriving = links.links.iter().filter(|link| link.to.node == node);
    let first = arriving.next();
    match &draft.part {
        Part::Port { .. } => {
            if !links.leaves[node] && !links.arrives[node] {
                report.error(
                    draft.at,
                    format!("no link uses port {}", draft.name),
                    "add a link to or from it, or remove it",
                );
            }
        }
        Part::Nf { plan, .. } => {
            if !links.arrives[node] {
                report.error(
                    draft.at,
                    format!("no link arrives at {}", draft.name),
                    format!("add one, like - in -> {}, or remove it", draft.name),
                );
            }
            let takes_one = plan.as_ref().is_some_and(|plan| plan.inputs == Inputs::One);
            if let (Some(first), Some(second), true) = (first, arriving.next(), takes_one) {
                report.error(
                    second.to.at,
                    format!(
                        "{} takes one link, and one arrives already (line {})",
                        draft.name, first.at.line
                    ),
                    format!("join them with a merge before {}", draft.name),
                );
            }
        }
    }
}

fn warn_of_open_outputs(
    report: &mut Report<'_>,
    links: &Links,
    node: usize,
    draft: &Draft<'_>,
    taken: &HashMap<(usize, usize), &LinkDraft>,
) {
    if draft.is_port() || !links.arrives[node] {
        return;
    }
    let outputs = draft.outputs().unwrap_or_default();
    for (index, output) in outputs.iter().enumerate() {
        if !taken.contains_key(&(node, index)) {
            report.warning(
                draft.at,
                format!(
                    "output \"{output}\" of {} is not connected: packets for it are dropped as \
                     not_connected",
                    draft.name
                ),
                format!("add a link, like - {}.{output} -> out", draft.name),
            );
        }
    }
}

/// Reports each set of NFs that send packets round in a circle, once. A port ends every path, and
/// so do some NFs.
fn report_cycles(report: &mut Report<'_>, drafts: Drafts<'_>, links: &Links) {
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); drafts.len()];
    for (index, link) in links.links.iter().enumerate() {
        if !drafts[link.from.node].ends_paths() && !drafts[link.to.node].ends_paths() {
            next[link.from.node].push(index);
        }
    }
    while let Some(cycle) = find_cycle(&next, links) {
        let names: Vec<&str> = cycle
            .iter()
            .map(|&index| drafts[links.links[index].from.node].name)
            .collect();
        let at = cycle.iter().map(|&index| links.links[index].at).min();
        report.error(
            at.unwrap_or_default(),
            format!("links form a cycle: {} -> {}", names.join(" -> "), names[0]),
            "remove one of its links; every packet must come to a port",
        );
        for index in cycle {
            next[links.links[index].from.node].clear();
        }
    }
}

/// The links of one cycle, beginning with the one that leaves the first node in file order.
fn find_cycle(next: &[Vec<usize>], links: &Links) -> Option<Vec<usize>> {
    let mut done = vec![false; next.len()];
    for start in 0..next.len() {
        // The path from `start`: links walked, and per node which of its links is next to try.
        let mut path: Vec<usize> = Vec::new();
        let mut tried = vec![0; next.len()];
        let mut here = start;
        loop {
            if done[here] {
                let Some(link) = path.pop() else { break };
                here = links.links[link].from.node;
                continue;
            }
            let Some(&link) = next[here].get(tried[here]) else {
                done[here] = true;
                continue;
            };
            tried[here] += 1;
            path.push(link);
            here = links.links[link].to.node;
            let from = |&index: &usize| links.links[index].from.node;
            if let Some(begin) = path.iter().position(|index| from(index) == here) {
                let mut cycle = path.split_off(begin);
                let least = cycle
                    .iter()
                    .enumerate()
                    .min_by_key(|(_, index)| from(index));
                let turn = least.map_or(0, |(turn, _)| turn);
                cycle.rotate_left(turn);
                return Some(cycle);
            }
        }
    }
    None
}
