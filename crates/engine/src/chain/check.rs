//! From a chain file to a [`Chain`], or to everything that is wrong with it.
//!
//! The last step before anything is opened or started. Sections are read into drafts, links join
//! them, NFs are built once to learn their outputs, and the graph and its trust are checked. Each
//! step goes on with what the ones before could make sense of, so that one run finds all errors; a
//! node with an error is still a node, and links to it are no errors.

use std::path::Path;

use super::diagnostic::{ChainErrors, Diagnostic, Position, Report};
use super::model::{Chain, Mode, NODE_COUNT_MAX};
use super::parse::{Entry, Tree, Value};
use super::registry::Registry;
use super::salvage;
use super::text::read_text;
use crate::placement::place;

mod assemble;
mod config;
mod cores;
mod document;
mod fields;
mod files;
mod graph;
pub(super) mod links;
pub(super) mod nodes;
pub(super) mod run;
mod segments;
mod sharding;
mod shards;

pub use document::DocumentKind;
pub use run::DEFAULT_IMAGE;

use cores::{Available, available_cores};

/// Keys at the top of a chain file.
pub(super) const TOP_KEYS: &[&str] = &["name", "ports", "nfs", "links", "run"];

/// A chain that may be run, and what its writer should know.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The chain.
    pub chain: Chain,
    /// What is odd about it, in the file's order.
    pub warnings: Vec<Diagnostic>,
    /// The text it was made from.
    pub text: String,
}

impl Chain {
    /// Reads and checks a chain file.
    ///
    /// `mode` replaces the file's `run.mode`: nodes that name none run in it.
    ///
    /// # Errors
    /// Everything that is wrong with it, or why it cannot be read.
    pub fn load(
        path: &Path,
        registry: &Registry,
        mode: Option<Mode>,
    ) -> Result<Checked, ChainErrors> {
        let name = path.display().to_string();
        let dir = match path.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => dir,
            _ => Path::new("."),
        };
        match read_text(path) {
            Ok(text) => check(&text, &name, dir, registry, &available_cores(), mode),
            Err(reason) => {
                let mut report = Report::new(&name, "");
                report.error(
                    Position::FILE,
                    format!("cannot read the chain file: {reason}"),
                    "name a YAML file that you may read",
                );
                Err(report.finish().expect_err("there is an error"))
            }
        }
    }

    /// Checks the text of a chain file, as [`Chain::load`] does; relative paths in it start at
    /// `dir`.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(
        text: &str,
        dir: &Path,
        registry: &Registry,
        mode: Option<Mode>,
    ) -> Result<Checked, ChainErrors> {
        check(text, "chain", dir, registry, &available_cores(), mode)
    }
}

pub(super) fn check(
    text: &str,
    file: &str,
    dir: &Path,
    registry: &Registry,
    available: Available<'_>,
    mode: Option<Mode>,
) -> Result<Checked, ChainErrors> {
    let mut report = Report::new(file, text);
    let chain = salvage::parse(text, &mut report)
        .and_then(|tree| check_tree(&mut report, &tree, dir, registry, available, mode));
    let warnings = report.finish()?;
    let chain = chain.expect("a chain that is not made has errors");
    Ok(Checked {
        chain,
        warnings,
        text: text.to_owned(),
    })
}

fn check_tree(
    report: &mut Report<'_>,
    tree: &Tree,
    dir: &Path,
    registry: &Registry,
    available: Available<'_>,
    mode: Option<Mode>,
) -> Option<Chain> {
    let entries = fields::map(report, tree, "the chain file")?;
    nodes::top_keys(report, entries, TOP_KEYS);
    let section = |key| fields::entry(entries, key);
    let name = chain_name(report, tree, section("name"));
    let mut run = run::run(report, section("run").map(|entry| &entry.tree), available);
    run.mode = mode.unwrap_or(run.mode);
    let sections = (section("ports"), section("nfs"));
    if !are_few_nodes(report, sections) {
        return None;
    }
    let mut drafts = nodes::nodes(report, sections, registry, &run, available);
    if section("ports").is_none_or(Entry::is_empty) {
        report.error(
            tree.at,
            "the chain has no ports",
            "add ports: with a port that receives and one that sends",
        );
    }
    let links = links::links(report, section("links"), &drafts);
    if section("links").is_none_or(Entry::is_empty) {
        report.error(tree.at, "the chain has no links", "add links: - in -> out");
    }
    if links.are_missing {
        return None;
    }
    for (node, draft) in drafts.iter_mut().enumerate() {
        draft.plan(report, &graph::output_names(&links, node));
    }
    shards::check(report, &mut drafts);
    files::check(report, &drafts, (dir, registry));
    let wiring = graph::check(report, &drafts, &links);
    let resolved = assemble::trust(report, &drafts, &links);
    segments::check(report, &drafts, &links, &resolved);
    if report.error_count() > 0 {
        return None;
    }
    let places = shards::Places::of(&drafts);
    let chain = assemble::chain(name?, dir, run, drafts, &links, &wiring, &resolved)?;
    let chain = shards::expanded(report, chain, &places)?;
    let of_run = |key| section("run").and_then(|run| map_entry(&run.tree, key));
    let place_of = |entry: Option<&Entry>| entry.map_or(tree.at, |entry| entry.at);
    match place(&chain) {
        Err(error) => {
            let at = place_of(of_run("buffers").or(section("links")));
            report.error(at, error.to_string(), error.repair());
        }
        Ok(placement) if chain.run.orphan_ms > 0 => {
            if let Some(why) = placement.not_kept() {
                let repair = "write orphan: stop, or mode: process or container for all";
                report.error(place_of(of_run("orphan")), why, repair);
            }
        }
        Ok(_) => {}
    }
    Some(chain)
}

fn map_entry<'a>(tree: &'a Tree, key: &str) -> Option<&'a Entry> {
    match &tree.value {
        Value::Map(entries) => fields::entry(entries, key),
        _ => None,
    }
}

fn chain_name(report: &mut Report<'_>, tree: &Tree, entry: Option<&Entry>) -> Option<String> {
    match entry {
        Some(entry) => fields::name(report, &entry.tree, "a chain"),
        None => {
            report.error(tree.at, "the chain has no name", "add name: and a word");
            None
        }
    }
}

/// Nodes of a file that are looked at, more than a chain may have: beyond that, a file is no chain
/// with a few too many.
const NODES_LOOKED_AT_MAX: usize = 4 * NODE_COUNT_MAX;

/// Whether so few nodes are in the file that each is looked at; more than a chain may have are an
/// error in any case.
fn are_few_nodes(report: &mut Report<'_>, sections: (Option<&Entry>, Option<&Entry>)) -> bool {
    let sections = [sections.0, sections.1].into_iter().flatten();
    let nodes = sections.filter_map(|section| match &section.tree.value {
        Value::Map(entries) => Some(entries),
        _ => None,
    });
    let nodes: Vec<&Entry> = nodes.flatten().collect();
    let are_few = nodes.len() <= NODES_LOOKED_AT_MAX;
    if let Some(excess) = nodes.get(NODE_COUNT_MAX) {
        let rest = match are_few {
            true => String::new(),
            false => format!("; of {}, none was looked at", nodes.len()),
        };
        report.error(
            excess.at,
            format!("there are more than {NODE_COUNT_MAX} ports and NFs{rest}"),
            "split the chain into several",
        );
    }
    are_few
}
