//! Transitions against each other: what hides, excludes or overlaps what, and whether one is
//! always taken.
//!
//! Part of the checks. Two are told apart by their conditions where these compare the same
//! expression with numbers, or ask the opposite of each other; what cannot be told apart so is
//! asked about.

use super::super::element::{Parsed, Transition};
use super::super::expression::Node;
use super::super::model::On;
use super::super::problem::Problems;
use super::atoms::{self, Known};

/// Conditions of a transition against each other, and by themselves.
pub(super) fn conditions(one: &Transition, known: Known<'_>, problems: &mut Problems) {
    let path = format!("{}.if", one.path);
    for (number, condition) in one.conditions.iter().enumerate() {
        if let Some(message) = atoms::never(known, condition) {
            let repair = "write another number, or remove the transition";
            problems.error(&path, message, repair);
        } else if atoms::always(known, condition) {
            let message = format!("{condition} always holds");
            problems.warn(&path, message, "remove it, or write another number");
        }
        let before = &one.conditions[..number];
        if let Some(other) = before
            .iter()
            .find(|other| atoms::excludes(other, condition))
        {
            problems.error(
                &path,
                format!("{other} and {condition} never hold together"),
                "remove one of the two, or make two transitions of them",
            );
        }
    }
}

/// Whether its conditions can hold.
pub(super) fn can_hold(one: &Transition, known: Known<'_>) -> bool {
    one.conditions.iter().enumerate().all(|(number, a)| {
        let before = &one.conditions[..number];
        atoms::never(known, a).is_none() && !before.iter().any(|b| atoms::excludes(a, b))
    })
}

/// Transitions of a state that packets or timeouts may take, in their order.
pub(super) fn taken<'a>(
    parsed: &'a Parsed,
    state: usize,
    on: On,
    known: Known<'_>,
) -> Vec<&'a Transition> {
    let mut found: Vec<&'a Transition> = Vec::new();
    for one in parsed.leaving(state, on) {
        if can_hold(one, known) && !found.iter().any(|other| hides(other, one)) {
            found.push(one);
        }
    }
    found
}

/// Whether one of a state's transitions on packets is taken in any case.
pub(super) fn is_total(ordered: &[&Transition], known: Known<'_>) -> bool {
    ordered.iter().any(|one| one.conditions.is_empty()) || is_exhaustive(ordered, known)
}

/// Whether the first, which comes first, is taken wherever the second could be.
fn hides(one: &Transition, other: &Transition) -> bool {
    let is_implied = |a: &Node| other.conditions.iter().any(|b| atoms::implies(b, a));
    one.conditions.iter().all(is_implied)
}

/// Whether others are taken in its place in all states.
fn is_hidden_everywhere(parsed: &Parsed, one: &Transition, known: Known<'_>) -> bool {
    one.from.iter().all(|state| {
        let taken = taken(parsed, *state, one.on, known);
        !taken.iter().any(|other| std::ptr::eq(*other, one))
    })
}

/// The transitions of a state.
pub(super) fn check(parsed: &Parsed, state: usize, known: Known<'_>, problems: &mut Problems) {
    let name = parsed.states.get(state).map_or("", String::as_str);
    for on in [On::Packet, On::Timeout] {
        let mut ordered = parsed.leaving(state, on);
        // What never holds has been told, and neither hides nor overlaps anything.
        ordered.retain(|one| can_hold(one, known));
        for (number, one) in ordered.iter().enumerate() {
            let before = &ordered[..number];
            let same =
                |other: &&&Transition| other.priority.is_some() && other.priority == one.priority;
            let hider = before.iter().find(|other| hides(other, one));
            // Of the same priority, written so, they overlap: which comes first was not said.
            if let Some(hider) = hider
                && (hider.conditions.is_empty() || !same(&hider))
            {
                // From any state is what others have not taken.
                if one.is_from_some || is_hidden_everywhere(parsed, one, known) {
                    problems.warn(
                        &one.path,
                        format!(
                            "never taken from \"{name}\": \"{}\" comes first",
                            hider.text
                        ),
                        "give it a greater priority, or the other one a condition",
                    );
                }
                continue;
            }
            for other in before.iter().filter(same) {
                overlap(other, one, name, problems);
            }
        }
        let misses = on == On::Packet && !is_total(&ordered, known);
        if misses && parsed.otherwise.is_none() {
            problems.warn(
                &parsed.path,
                format!("in \"{name}\" a packet may find no transition: it goes on as it is"),
                "write otherwise: [...], or a transition without a condition",
            );
        }
    }
}

/// Both written with the same priority: which comes first is the author's to say.
fn overlap(one: &Transition, other: &Transition, state: &str, problems: &mut Problems) {
    let is_apart = one
        .conditions
        .iter()
        .any(|a| other.conditions.iter().any(|b| atoms::excludes(a, b)));
    if is_apart {
        return;
    }
    let repair = "give them different priorities, or conditions that exclude each other";
    if is_certain(one, other) {
        let message = format!(
            "it overlaps \"{}\" of the same priority in \"{state}\"",
            one.text
        );
        problems.error(&other.path, message, repair);
    } else {
        let message = format!(
            "in \"{state}\" it may hold together with \"{}\" of the same priority: the first in \
             the file is taken",
            one.text
        );
        problems.warn(&other.path, message, repair);
    }
}

/// Whether some packet surely meets the conditions of both, none of which excludes another.
fn is_certain(one: &Transition, other: &Transition) -> bool {
    if hides(one, other) || hides(other, one) {
        return true;
    }
    let all: Vec<&Node> = one.conditions.iter().chain(&other.conditions).collect();
    atoms::meet(&all)
}

/// Whether two transitions with one condition each leave nothing over.
fn is_exhaustive(ordered: &[&Transition], known: Known<'_>) -> bool {
    let single: Vec<&Node> = ordered
        .iter()
        .filter_map(|one| match one.conditions.as_slice() {
            [only] => Some(only),
            _ => None,
        })
        .collect();
    let pairs = single.iter().enumerate();
    for (number, a) in pairs {
        for b in &single[number + 1..] {
            if atoms::is_opposite(a, b) || atoms::covers(known, a, b) {
                return true;
            }
        }
    }
    false
}
