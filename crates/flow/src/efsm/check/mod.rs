//! What is suspicious about a program that could run: states that nothing leads to, transitions
//! that hide each other or never hold, verdicts that do not count, what is declared and not used,
//! packets without end, registers that lose what other shards write.
//!
//! Behind lowering, once. Errors are what can only be a mistake; a warning leaves a program as it
//! is.

mod atoms;
mod endless;
#[cfg(test)]
mod endless_tests;
mod order;
mod stale;
#[cfg(test)]
mod stale_tests;
#[cfg(test)]
mod tests;
mod verdicts;

use std::collections::BTreeSet;

use super::element::{Parsed, conjuncts, timeouts_of};
use super::model::{Document, ElementModel, On};
use super::problem::Problems;
pub(super) use atoms::Known;
pub(super) use stale::Assignments;

/// Names of what code uses: registers, metadata, and by the path of their declaration others.
pub(super) type Used = BTreeSet<String>;

/// Looks at an element. Gives whether it decides about every packet.
pub(super) fn element(
    model: &ElementModel,
    parsed: &Parsed,
    known: Known<'_>,
    problems: &mut Problems,
) -> bool {
    let is_keyed = !model.key.is_empty() || !model.biflow.is_empty() || !model.keys.is_empty();
    has_flows(model, parsed, is_keyed, problems);
    // As conditions are compared: what names stand for, written out.
    let mut parsed = parsed.clone();
    for one in &mut parsed.transitions {
        let mut conditions = Vec::new();
        for condition in &one.conditions {
            conjuncts(known.expanded(condition), &mut conditions);
        }
        one.conditions = conditions;
        order::conditions(one, known, problems);
        verdicts::list(&one.statements, problems);
    }
    verdicts::list(&parsed.keyless, problems);
    verdicts::list(parsed.otherwise.as_deref().unwrap_or_default(), problems);
    timeouts(model, &parsed, problems);
    unreachable(model, &parsed, known, problems);
    for state in 0..parsed.states.len().max(1) {
        order::check(&parsed, state, known, problems);
    }
    endless::check(
        &parsed,
        &|state| is_timed(model, &parsed, state),
        known,
        problems,
    );
    unused(model, &parsed, known, problems);
    verdicts::is_final(&parsed, is_keyed, known)
}

/// Whether a flow's time in a state can be over: it has a timeout of its own, or it may have got
/// that of the initial state, as an entry that is made has it.
fn is_timed(model: &ElementModel, parsed: &Parsed, state: usize) -> bool {
    has_timeout(model, parsed, state) || has_timeout(model, parsed, parsed.initial)
}

fn has_timeout(model: &ElementModel, parsed: &Parsed, state: usize) -> bool {
    let name = parsed.states.get(state).map_or("", String::as_str);
    let timeouts = timeouts_of(model, name);
    timeouts.idle_ns != 0 || timeouts.hard_ns != 0
}

/// Timeouts and what is done when they are over.
fn timeouts(model: &ElementModel, parsed: &Parsed, problems: &mut Problems) {
    for one in parsed
        .transitions
        .iter()
        .filter(|one| one.on == On::Timeout)
    {
        let untimed: Vec<&str> = one
            .from
            .iter()
            .filter(|state| !has_timeout(model, parsed, **state))
            .map(|state| parsed.states.get(*state).map_or("", String::as_str))
            .collect();
        if untimed.len() == one.from.len() {
            problems.error(
                &one.path,
                "it is never taken: no state that it is from has a timeout",
                "write idle or hard for the state or the element, or remove the transition",
            );
        } else if one.is_from_some && !untimed.is_empty() {
            problems.warn(
                &one.path,
                format!("never taken from {}: no timeout there", untimed.join(", ")),
                "write idle or hard for the state, or leave it away here",
            );
        }
    }
}

/// What is declared and not used.
fn unused(model: &ElementModel, parsed: &Parsed, known: Known<'_>, problems: &mut Problems) {
    let names = known.element;
    for name in model.registers.keys() {
        let path = format!("{}.registers.{name}", parsed.path);
        let full = format!("flow.{name}");
        match (names.read.contains(&full), names.written.contains(&full)) {
            (true, false) => problems.warn(
                &path,
                format!("{full} is read and never written: it is always 0"),
                "write it in a transition, or use a constant",
            ),
            (false, _) if !is_evicted_by(model, name) => {
                problems.warn(
                    &path,
                    format!("{full} is never read"),
                    "remove it, if nobody dumps it",
                );
            }
            _ => {}
        }
    }
    for name in model.meters.keys() {
        if !names.read.contains(&format!("meters.{name}")) {
            problems.warn(
                &format!("{}.meters.{name}", parsed.path),
                format!("no packet is charged to the meter {name}"),
                format!("write meter({name}), or remove it"),
            );
        }
    }
    for name in model.conditions.keys() {
        if !names.read.contains(&format!("conditions.{name}")) {
            problems.warn(
                &format!("{}.conditions.{name}", parsed.path),
                format!("the condition {name} is not used"),
                "write it in an `if`, or remove it",
            );
        }
    }
}

fn is_evicted_by(model: &ElementModel, name: &str) -> bool {
    let policy = model.when_full.as_deref().unwrap_or_default();
    policy.split_whitespace().last() == Some(name)
}

/// Looks at what elements share. `last` is the first one that decides about every packet.
pub(super) fn shared(
    document: &Document,
    (read, written): (&Used, &Used),
    assignments: &Assignments,
    last: Option<usize>,
    problems: &mut Problems,
) {
    verdicts::unreached(document, last, problems);
    assignments.check(document, problems);
    for name in document.metadata.keys() {
        let full = format!("meta.{name}");
        let path = format!("metadata.{name}");
        match (read.contains(&full), written.contains(&full)) {
            (true, false) => problems.warn(
                &path,
                format!("{full} is read and never written: it is always 0"),
                "write it in front of where it is read, or use a constant",
            ),
            (false, _) => problems.warn(
                &path,
                format!("{full} is never read"),
                "read it, or remove it",
            ),
            _ => {}
        }
    }
    for name in document.tables.keys() {
        let mut derived = document
            .tables
            .values()
            .filter_map(|one| one.maglev.as_ref());
        let is_used = read.contains(&format!("tables.{name}"));
        if !is_used && !derived.any(|of| of.of == *name) {
            problems.warn(
                &format!("tables.{name}"),
                format!("nothing looks {name} up"),
                format!("write lookup({name}, ...), or remove it"),
            );
        }
    }
    for name in document.templates.keys() {
        if !read.contains(&format!("templates.{name}")) {
            problems.warn(
                &format!("templates.{name}"),
                format!("{name} is never emitted"),
                format!("write emit({name}, ...), or remove it"),
            );
        }
    }
    for (name, model) in &document.globals {
        let full = format!("global.{name}");
        let path = format!("globals.{name}");
        if !read.contains(&full) {
            problems.warn(
                &path,
                format!("{full} is never read"),
                "remove it, if nobody asks for it",
            );
        } else if !written.contains(&full) && model.initial == 0 {
            problems.warn(
                &path,
                format!("{full} is read and never written: it is always 0"),
                "write it, give it an initial value, or use a constant",
            );
        }
    }
}

/// States and registers need flows to belong to.
fn has_flows(model: &ElementModel, parsed: &Parsed, is_keyed: bool, problems: &mut Problems) {
    if is_keyed {
        return;
    }
    let without = [
        ("idle", model.idle.is_some()),
        ("hard", model.hard.is_some()),
        ("when_full", model.when_full.is_some()),
        ("keyless", !model.keyless.is_empty()),
    ];
    for (name, _) in without.iter().filter(|(_, is_written)| *is_written) {
        let path = format!("{}.{name}", parsed.path);
        problems.error(
            &path,
            format!("{name} is of flows, and no key says what a flow is"),
            "write key: [ipv4.src], say, or remove it",
        );
    }
    let has_state = !model.states.is_empty()
        || !model.registers.is_empty()
        || !model.meters.is_empty()
        || parsed.transitions.iter().any(|one| one.on == On::Timeout);
    if has_state {
        problems.error(
            &format!("{}.key", parsed.path),
            "states and registers belong to flows, and no key says what a flow is",
            "write key: [ipv4.src], say",
        );
    }
    if !model.update_key.is_empty() {
        let path = format!("{}.update_key", parsed.path);
        problems.error(&path, "there is no key beside it", "write key, too");
    }
}

fn unreachable(model: &ElementModel, parsed: &Parsed, known: Known<'_>, problems: &mut Problems) {
    let mut reached = BTreeSet::from([parsed.initial]);
    let mut todo = vec![parsed.initial];
    while let Some(state) = todo.pop() {
        for on in [On::Packet, On::Timeout] {
            if on == On::Timeout && !is_timed(model, parsed, state) {
                continue;
            }
            let taken = order::taken(parsed, state, on, known);
            let next = taken.iter().filter_map(|one| one.next);
            todo.extend(next.filter(|next| reached.insert(*next)));
        }
    }
    for (number, state) in parsed.states.iter().enumerate() {
        if !reached.contains(&number) {
            problems.warn(
                &format!("{}.states.{state}", parsed.path),
                format!("no transition leads to {state}"),
                "add one, or remove the state",
            );
        }
    }
}
