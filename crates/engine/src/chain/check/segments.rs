//! Whether all that packets of a port can reach takes them with something left open (ADR 29).
//!
//! A port that carries segments (`segments: carry`) gives the chain packets that are still to be
//! cut and summed. That goes for links without a copy, NFs whose plans say so, and ports that carry
//! segments, too; what stands in the way is told at the port, whose file says it. Behind an NF that
//! cuts them anything may stand.

use super::links::{LinkDraft, Links};
use super::nodes::{Draft, Drafts, Part};
use crate::chain::diagnostic::Report;
use crate::chain::model::{Protocol, Trust};

/// Reports, for each port that carries segments, the first thing behind it that cannot take them.
/// `trust` is that of links with a ring.
pub(super) fn check(
    report: &mut Report<'_>,
    drafts: Drafts<'_>,
    links: &Links,
    trust: &[Option<Trust>],
) {
    let carrying = drafts
        .iter()
        .enumerate()
        .filter(|(_, draft)| carries(draft));
    for (port, draft) in carrying {
        if let Some((what, instead)) = obstacle(drafts, links, trust, port) {
            report.error(
                draft.at,
                format!(
                    "{} carries packets that are still to be cut into segments, and {what}",
                    draft.name
                ),
                format!("write segments: cut, or {instead}"),
            );
        }
    }
}

/// Whether a port is configured to carry segments.
fn carries(draft: &Draft<'_>) -> bool {
    matches!(&draft.part, Part::Port { role: Some(role), .. } if role.carries_segments)
}

/// What a packet from `port` can meet that does not take it, and what to do about that.
fn obstacle(
    drafts: Drafts<'_>,
    links: &Links,
    trust: &[Option<Trust>],
    port: usize,
) -> Option<(String, String)> {
    let mut seen = vec![false; drafts.len()];
    seen[port] = true;
    let mut ahead = vec![port];
    while let Some(node) = ahead.pop() {
        if let Some(found) = refuses(&drafts[node]) {
            return Some(found);
        }
        if node != port && ends_there(&drafts[node]) {
            continue;
        }
        let leaving = links.links.iter().zip(trust);
        for (link, trust) in leaving.filter(|(link, _)| link.from.node == node) {
            if !stays_whole(link, *trust) {
                let (from, to) = (drafts[node].name, drafts[link.to.node].name);
                let what = format!("the link {from} -> {to} copies packets as they are on a wire");
                let instead = format!("have it share memory (trust: shared), {}", cut_before(to));
                return Some((what, instead));
            }
            if !std::mem::replace(&mut seen[link.to.node], true) {
                ahead.push(link.to.node);
            }
        }
    }
    None
}

/// Whether what is left open of a packet is known at the other end of a link.
fn stays_whole(link: &LinkDraft, trust: Option<Trust>) -> bool {
    let is_tcp = matches!(link.options.protocol, Some((Protocol::Tcp, _)));
    // Without a ring the packet itself goes on.
    trust.is_none_or(|trust| trust == Trust::Shared && !is_tcp)
}

/// Whether no packet goes on from there with something left open.
fn ends_there(draft: &Draft<'_>) -> bool {
    let cuts = matches!(&draft.part, Part::Nf { plan: Some(plan), .. } if plan.cuts_segments);
    draft.is_port() || cuts
}

fn cut_before(name: &str) -> String {
    format!("or put an NF of type cut in front of {name}")
}

fn refuses(draft: &Draft<'_>) -> Option<(String, String)> {
    let name = draft.name;
    let takes_whole = format!("{name} takes packets only as they are on a wire");
    match &draft.part {
        Part::Port { wraps, .. } if carries(draft) => {
            let wrap = wraps.first()?.kind.name;
            let what = format!("the wrapper {wrap} of {name} takes packets as on a wire");
            Some((what, "leave it out".into()))
        }
        Part::Port { role: Some(_), .. } => {
            let instead = format!("have {name} carry segments, too, {}", cut_before(name));
            Some((takes_whole, instead))
        }
        Part::Nf {
            plan: Some(plan), ..
        } if !plan.carries_segments => Some((
            takes_whole,
            format!("leave out {name}, {}", cut_before(name)),
        )),
        // What is unknown of it is an error of its own.
        Part::Port { .. } | Part::Nf { .. } => None,
    }
}
