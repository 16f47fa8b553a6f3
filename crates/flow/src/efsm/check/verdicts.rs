//! Verdicts: of which one is lost, and what no packet reaches because of one.
//!
//! Part of the checks. The last verdict of a packet counts, so one in front of another that is
//! unconditional never does; and an element that decides about every packet is the last.

use super::super::element::{Parsed, Transition};
use super::super::expression::{Action, Statement};
use super::super::model::{Document, On};
use super::super::problem::Problems;
use super::atoms::Known;
use super::order;

type Statements = [(String, Statement)];

/// Statements that run in order.
pub(super) fn list(statements: &Statements, problems: &mut Problems) {
    let verdicts: Vec<&(String, Statement)> = statements
        .iter()
        .filter(|(_, one)| matches!(called(one), Some("output" | "drop")))
        .collect();
    for pair in verdicts.windows(2) {
        let [(earlier, _), (path, statement)] = pair else {
            continue;
        };
        if statement.guard.is_none() {
            let place = earlier.rsplit('.').next().unwrap_or(earlier);
            problems.error(
                path,
                format!("it takes the place of the verdict {place}, which never counts"),
                "remove one of the two; one with `if` stands behind one without",
            );
        }
    }
    behind_forget(statements, problems);
    behind_drop(statements, problems);
}

/// Registers of a flow that ends.
fn behind_forget(statements: &Statements, problems: &mut Problems) {
    let is_forget = |one: &Statement| one.guard.is_none() && called(one) == Some("forget");
    let Some(at) = statements.iter().position(|(_, one)| is_forget(one)) else {
        return;
    };
    for (path, statement) in &statements[at + 1..] {
        if let Action::Assign(target, _) = &statement.kind
            && target.to_string().starts_with("flow.")
        {
            problems.warn(
                path,
                format!("{target} is lost: the flow's entry ends"),
                "remove it, or forget()",
            );
        }
    }
}

/// Changes of a packet that is dropped, of which nobody sees anything.
fn behind_drop(statements: &Statements, problems: &mut Problems) {
    let is_drop = |one: &Statement| one.guard.is_none() && called(one) == Some("drop");
    let Some(at) = statements.iter().position(|(_, one)| is_drop(one)) else {
        return;
    };
    if statements
        .iter()
        .any(|(_, one)| called(one) == Some("clone"))
    {
        return;
    }
    for (path, statement) in statements[at + 1..].iter().rev() {
        let is_change = match &statement.kind {
            Action::Assign(target, _) => {
                let target = target.to_string();
                let own = ["flow.", "global.", "meta."];
                !own.iter().any(|scope| target.starts_with(scope))
            }
            Action::Call { name, .. } => matches!(name.as_str(), "encap" | "decap"),
        };
        if !is_change {
            return;
        }
        problems.warn(path, "it changes a packet that is dropped", "remove it");
    }
}

fn called(statement: &Statement) -> Option<&str> {
    match &statement.kind {
        Action::Call { name, .. } => Some(name),
        Action::Assign(..) => None,
    }
}

/// Whether statements always give a verdict.
fn decides(statements: &Statements) -> bool {
    let is_verdict = |one: &Statement| matches!(called(one), Some("output" | "drop"));
    statements
        .iter()
        .any(|(_, one)| one.guard.is_none() && is_verdict(one))
}

/// Whether an element decides about every packet.
pub(super) fn is_final(parsed: &Parsed, is_keyed: bool, known: Known<'_>) -> bool {
    if is_keyed && !decides(&parsed.keyless) {
        return false;
    }
    let otherwise = parsed.otherwise.as_deref().is_some_and(decides);
    (0..parsed.states.len().max(1)).all(|state| {
        let ordered: Vec<&Transition> = order::taken(parsed, state, On::Packet, known);
        let all = ordered.iter().all(|one| decides(&one.statements));
        all && (otherwise || order::is_total(&ordered, known))
    })
}

/// Elements behind one that decides about every packet.
pub(super) fn unreached(document: &Document, last: Option<usize>, problems: &mut Problems) {
    let Some(last) = last else { return };
    for (number, element) in document.elements.iter().enumerate().skip(last + 1) {
        problems.warn(
            &format!("elements[{number}]"),
            format!(
                "no packet reaches \"{}\": \"{}\" decides about all",
                element.name, document.elements[last].name
            ),
            "remove it, or leave packets to it: those without a verdict go on",
        );
    }
}
