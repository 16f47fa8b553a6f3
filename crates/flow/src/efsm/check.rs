//! What is suspicious about a program that could run: states that nothing leads to, transitions
//! that hide each other, registers that nobody writes, packets without end.
//!
//! Behind lowering, once. Two transitions are told apart by their conditions where these compare
//! the same expression with numbers, or ask the opposite of each other; what cannot be told apart
//! so is asked about.

use std::collections::BTreeSet;

use crate::program::field::ones;

use super::element::{Parsed, Transition};
use super::expression::{Action, Expression, Infix, Node};
use super::model::{Document, ElementModel, On};
use super::names::ElementNames;
use super::problem::Problems;

/// Names of registers.
pub(super) type Used = BTreeSet<String>;

/// Looks at an element.
pub(super) fn element(
    model: &ElementModel,
    parsed: &Parsed,
    names: &ElementNames,
    problems: &mut Problems,
) {
    has_flows(model, parsed, problems);
    unreachable(parsed, problems);
    for state in 0..parsed.states.len().max(1) {
        order(parsed, state, problems);
    }
    endless(parsed, problems);
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
}

fn is_evicted_by(model: &ElementModel, name: &str) -> bool {
    let policy = model.when_full.as_deref().unwrap_or_default();
    policy.split_whitespace().last() == Some(name)
}

/// Looks at the registers that all flows share.
pub(super) fn globals(document: &Document, read: &Used, written: &Used, problems: &mut Problems) {
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
fn has_flows(model: &ElementModel, parsed: &Parsed, problems: &mut Problems) {
    let is_keyed = !model.key.is_empty() || !model.biflow.is_empty() || !model.keys.is_empty();
    if is_keyed {
        return;
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

fn unreachable(parsed: &Parsed, problems: &mut Problems) {
    let mut reached = BTreeSet::from([parsed.initial]);
    let mut is_new = true;
    while is_new {
        is_new = false;
        for one in &parsed.transitions {
            let Some(next) = one.next else { continue };
            if one.from.iter().any(|from| reached.contains(from)) {
                is_new |= reached.insert(next);
            }
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

/// Transitions of a state against each other, and whether one is always taken.
fn order(parsed: &Parsed, state: usize, problems: &mut Problems) {
    let name = parsed.states.get(state).map_or("", String::as_str);
    for on in [On::Packet, On::Timeout] {
        let ordered = parsed.leaving(state, on);
        for (number, one) in ordered.iter().enumerate() {
            let before = &ordered[..number];
            if let Some(hides) = before.iter().find(|other| other.conditions.is_empty()) {
                problems.warn(
                    &one.path,
                    format!(
                        "never taken from \"{name}\": \"{}\" comes first",
                        hides.text
                    ),
                    "give it a greater priority, or the other one a condition",
                );
                continue;
            }
            for other in before {
                overlap(other, one, name, problems);
            }
        }
        let is_total = ordered.iter().any(|one| one.conditions.is_empty())
            || (ordered.len() > 1 && is_exhaustive(&ordered));
        if on == On::Packet && !is_total && parsed.otherwise.is_none() {
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
    if one.priority.is_none() || one.priority != other.priority {
        return;
    }
    let is_apart = one
        .conditions
        .iter()
        .any(|a| other.conditions.iter().any(|b| excludes(a, b)));
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

/// Whether some packet surely meets the conditions of both: those of one are among the other's.
fn is_certain(one: &Transition, other: &Transition) -> bool {
    let texts = |of: &Transition| -> BTreeSet<String> {
        of.conditions.iter().map(ToString::to_string).collect()
    };
    let (a, b) = (texts(one), texts(other));
    a.is_subset(&b) || b.is_subset(&a)
}

/// A comparison of an expression with a number.
enum Atom {
    /// Within this range.
    Range(u128, u128),
    /// These bits under a mask.
    Masked(u128, u128),
}

fn atom(node: &Node) -> Option<(String, Atom)> {
    let Expression::Binary(infix, left, right) = &node.kind else {
        return None;
    };
    let Expression::Number(number, _) = right.kind else {
        return None;
    };
    let found = match infix {
        Infix::Equal => {
            if let Expression::Binary(Infix::And, value, mask) = &left.kind
                && let Expression::Number(mask, _) = mask.kind
            {
                return Some((value.to_string(), Atom::Masked(number, mask)));
            }
            Atom::Range(number, number)
        }
        Infix::Less => Atom::Range(0, number.checked_sub(1)?),
        Infix::LessEqual => Atom::Range(0, number),
        Infix::Greater => Atom::Range(number.checked_add(1)?, u128::MAX),
        Infix::GreaterEqual => Atom::Range(number, u128::MAX),
        _ => return None,
    };
    Some((left.to_string(), found))
}

/// Whether two conditions cannot hold together.
fn excludes(a: &Node, b: &Node) -> bool {
    if is_opposite(a, b) {
        return true;
    }
    let (Some((left, one)), Some((right, other))) = (atom(a), atom(b)) else {
        return false;
    };
    if left != right {
        return false;
    }
    match (one, other) {
        (Atom::Range(a, b), Atom::Range(c, d)) => b < c || d < a,
        (Atom::Masked(a, m), Atom::Masked(b, n)) => (a ^ b) & m & n != 0,
        (Atom::Masked(bits, mask), Atom::Range(a, b))
        | (Atom::Range(a, b), Atom::Masked(bits, mask)) => a == b && a & mask != bits,
    }
}

/// Whether one holds just where the other does not: the same arguments, the opposite comparison.
fn is_opposite(a: &Node, b: &Node) -> bool {
    if let Expression::Unary('!', one) = &a.kind {
        return one.to_string() == b.to_string();
    }
    if let Expression::Unary('!', one) = &b.kind {
        return one.to_string() == a.to_string();
    }
    let (Expression::Binary(one, a, b), Expression::Binary(other, c, d)) = (&a.kind, &b.kind)
    else {
        return false;
    };
    let pair = |a, b| (*one, *other) == (a, b) || (*other, *one) == (a, b);
    let is_same = a.to_string() == c.to_string() && b.to_string() == d.to_string();
    let is_crossed = a.to_string() == d.to_string() && b.to_string() == c.to_string();
    let straight = pair(Infix::Equal, Infix::Unequal)
        || pair(Infix::Less, Infix::GreaterEqual)
        || pair(Infix::LessEqual, Infix::Greater);
    // a < b against b <= a.
    let crossed = pair(Infix::Less, Infix::LessEqual) || pair(Infix::Greater, Infix::GreaterEqual);
    is_same && straight || is_crossed && crossed
}

/// Whether two transitions with one condition each leave nothing over.
fn is_exhaustive(ordered: &[&Transition]) -> bool {
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
            if is_opposite(a, b) || covers(a, b) {
                return true;
            }
        }
    }
    false
}

/// Whether two ranges of the same expression leave nothing between them.
fn covers(a: &Node, b: &Node) -> bool {
    let (Some((left, Atom::Range(a, b))), Some((right, Atom::Range(c, d)))) = (atom(a), atom(b))
    else {
        return false;
    };
    let ((_, first_end), (second, end)) = if a <= c {
        ((a, b), (c, d))
    } else {
        ((c, d), (a, b))
    };
    left == right && a.min(c) == 0 && end == ones(128) && second <= first_end.saturating_add(1)
}

/// Timeouts that emit packets for ever without any packet: a circle of them without a condition.
fn endless(parsed: &Parsed, problems: &mut Problems) {
    let unguarded: Vec<&Transition> = parsed
        .transitions
        .iter()
        .filter(|one| one.on == On::Timeout && one.conditions.is_empty() && !one.forgets)
        .collect();
    for one in &unguarded {
        let emits = one.statements.iter().any(|(_, statement)| {
            statement.guard.is_none()
                && matches!(&statement.kind, Action::Call { name, .. } if name == "emit")
        });
        if !emits {
            continue;
        }
        for start in &one.from {
            // From where this transition leads, by timeouts alone, back to where it begins.
            let mut here = BTreeSet::from([one.next.unwrap_or(*start)]);
            loop {
                let steps = unguarded
                    .iter()
                    .filter(|step| step.from.iter().any(|from| here.contains(from)));
                let mut more: BTreeSet<usize> = here.clone();
                for step in steps {
                    let stays = step.from.iter().filter(|from| here.contains(from)).copied();
                    match step.next {
                        Some(next) => {
                            more.insert(next);
                        }
                        None => more.extend(stays),
                    }
                }
                if more == here {
                    break;
                }
                here = more;
            }
            if here.contains(start) {
                problems.error(
                    &one.path,
                    "a flow emits packets for ever, though none comes",
                    "count them in a register and let a condition end it, or forget the flow",
                );
                return;
            }
        }
    }
}
