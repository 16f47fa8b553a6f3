//! Shared registers that are read in one place and written back in another: what other shards have
//! written in between is lost.
//!
//! Part of the checks, behind all elements, since metadata goes from one to the next. What counts
//! is which value comes from which, not in which order statements run: a flow's register carries a
//! value to the next packet. A value comes from what its statement's `if` reads, too, and from what
//! the conditions of its transition do.

use std::collections::{BTreeMap, BTreeSet};

use super::super::element::Parsed;
use super::super::expression::{Action, Node, Statement};
use super::super::model::{Document, ScopeModel};
use super::super::problem::Problems;
use super::super::step::{register_of, step_of};
use super::atoms::Known;

/// What a program's statements assign.
#[derive(Debug, Default)]
pub(crate) struct Assignments(Vec<Assignment>);

#[derive(Debug)]
struct Assignment {
    path: String,
    target: String,
    /// What the value is made of, and what decides whether it is written.
    reads: BTreeSet<String>,
    /// Whether a register becomes something of itself in one step.
    is_step: bool,
}

impl Assignments {
    /// Notes those of an element.
    pub(crate) fn note(&mut self, parsed: &Parsed, known: Known<'_>) {
        let lists = [&parsed.before, &parsed.keyless].into_iter();
        let lists = lists.chain(&parsed.otherwise).map(|list| (list, &[][..]));
        let transitions = parsed.transitions.iter();
        let transitions = transitions.map(|one| (&one.statements, &one.conditions[..]));
        for (list, conditions) in lists.chain(transitions) {
            for (path, statement) in list {
                let guards: Vec<&Node> = conditions.iter().chain(&statement.guard).collect();
                let found = assignment(parsed, (path, statement), &guards, known);
                self.0.extend(found);
            }
        }
    }

    /// Tells of shared registers that lose what others write.
    pub(super) fn check(&self, document: &Document, problems: &mut Problems) {
        let globals = document.globals.iter();
        let shared = globals.filter(|(_, model)| model.scope == ScopeModel::Shared);
        for (name, _) in shared {
            let register = format!("global.{name}");
            let holders = self.holders(&register);
            let written = self.0.iter().filter(|one| one.target == register);
            for one in written.filter(|one| !one.is_step) {
                let holder = one.reads.iter().find(|name| holders.contains_key(*name));
                let message = match holder {
                    _ if one.reads.contains(&register) => format!(
                        "{register} is read and then written, and what other shards write in \
                         between is lost"
                    ),
                    Some(holder) => format!(
                        "{} is stale: other shards may have written {register} since it was read, \
                         and that is lost",
                        holders[holder]
                    ),
                    None => continue,
                };
                let repair = format!(
                    "change it in one step ({register} = {register} + ..., or meta.x = \
                     fetch_add({register}, ...)), or give it the scope per_core"
                );
                problems.warn(&one.path, message, repair);
            }
        }
    }

    /// What holds a value that comes from a register, by its name of the whole program, with its
    /// name for people.
    fn holders(&self, register: &str) -> BTreeMap<String, String> {
        let mut holders: BTreeMap<String, String> = BTreeMap::new();
        let comes_from = |one: &&Assignment, holders: &BTreeMap<String, String>| {
            let mut reads = one.reads.iter();
            reads.any(|name| name == register || holders.contains_key(name))
        };
        let is_held = |one: &&Assignment| !one.target.starts_with("global.");
        // Each round but the last finds one more.
        for _ in 0..=self.0.len() {
            let before = holders.len();
            for one in self.0.iter().filter(is_held) {
                if comes_from(&one, &holders) {
                    let shown = one.target.rsplit(' ').next().unwrap_or_default();
                    holders.insert(one.target.clone(), shown.to_owned());
                }
            }
            if holders.len() == before {
                break;
            }
        }
        holders
    }
}

/// What a statement assigns to a register, or to metadata, where all `guards` hold.
fn assignment(
    parsed: &Parsed,
    (path, statement): (&str, &Statement),
    guards: &[&Node],
    known: Known<'_>,
) -> Option<Assignment> {
    let Action::Assign(target, value) = &statement.kind else {
        return None;
    };
    // A flow's register is one of its element.
    let full = |name: &str| match name.strip_prefix("flow.") {
        Some(_) => format!("{} {name}", parsed.path),
        None => name.to_owned(),
    };
    let name = register_of(target)?;
    let kept = ["flow.", "meta.", "global."];
    if !kept.iter().any(|scope| name.starts_with(scope)) {
        return None;
    }
    let mut reads = BTreeSet::new();
    for node in guards.iter().copied().chain([value]) {
        known.expanded(node).names(&mut |name, _| {
            reads.insert(full(name));
        });
    }
    Some(Assignment {
        path: path.to_owned(),
        target: full(name),
        reads,
        is_step: step_of(target, value).is_some(),
    })
}
