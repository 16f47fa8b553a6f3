//! Whether a flow of which no packet comes emits packets for ever: a bound must be provable.
//!
//! Part of the checks. The states of an element and its transitions on timeouts make a graph. A
//! flow that gets no packet walks in it; whatever it emits without end it emits on a circle. A
//! circle ends if a register bounds it: on all of its transitions the register stays or grows, none
//! lets it wrap, and one transition grows it by a constant and is taken only while it is at most
//! another constant (or all of that downwards). Such a transition is taken a bounded number of
//! times, so it is left away, and what remains is looked at again. If nothing can be left away and
//! something is still emitted on a circle, there is no bound, as far as can be proven: an error.

use std::collections::BTreeSet;

use super::super::element::{Parsed, Transition, conjuncts};
use super::super::expression::{Action, Expression, Infix, Node, Statement};
use super::super::model::On;
use super::super::problem::Problems;
use super::atoms::{Atom, Known, atom, implies};

/// A timeout's transition from one state.
struct Edge<'a> {
    transition: &'a Transition,
    from: usize,
    to: usize,
    /// Places of statements that emit.
    emits: Vec<usize>,
}

/// What a statement does to a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It adds.
    Up(u128),
    /// It subtracts.
    Down(u128),
    /// It subtracts, but not below 0.
    DownToZero(u128),
    /// Anything else.
    Other,
}

/// Looks at all timeouts of an element. `is_timed` says in which states a flow's time can be over.
pub(super) fn check(
    parsed: &Parsed,
    is_timed: &dyn Fn(usize) -> bool,
    known: Known<'_>,
    problems: &mut Problems,
) {
    let mut edges = edges(parsed, is_timed);
    loop {
        let circles = circles(&edges, parsed.states.len().max(1));
        let inner = |edge: &Edge<'_>| circles[edge.from] == circles[edge.to];
        let Some(stuck) = edges
            .iter()
            .find(|edge| inner(edge) && !edge.emits.is_empty())
        else {
            return;
        };
        let circle = circles[stuck.from];
        let (transition, place) = (stuck.transition, stuck.emits[0]);
        let within = |edge: &Edge<'_>| circles[edge.from] == circle && circles[edge.to] == circle;
        if !bound_some(&mut edges, &within, known) {
            let path = transition.statements.get(place).map(|(path, _)| &**path);
            problems.error(
                path.unwrap_or(&transition.path),
                "a flow may emit packets for ever, though none comes: nothing bounds how often \
                 its timeouts lead back here",
                "count in a register: if: flow.n < 3 and flow.n = flow.n + 1 in a transition on \
                 the way, or forget the flow",
            );
            return;
        }
    }
}

fn edges<'a>(parsed: &'a Parsed, is_timed: &dyn Fn(usize) -> bool) -> Vec<Edge<'a>> {
    let mut edges = Vec::new();
    for from in (0..parsed.states.len().max(1)).filter(|state| is_timed(*state)) {
        for transition in parsed.leaving(from, On::Timeout) {
            let forgets = |(_, one): &(String, Statement)| {
                one.guard.is_none() && calls(one).is_some_and(|name| name == "forget")
            };
            if !transition.forgets && !transition.statements.iter().any(forgets) {
                let emits = transition.statements.iter().enumerate();
                let emits = emits.filter(|(_, (_, one))| calls(one) == Some("emit"));
                edges.push(Edge {
                    transition,
                    from,
                    to: transition.next.unwrap_or(from),
                    emits: emits.map(|(place, _)| place).collect(),
                });
            }
            if transition.conditions.is_empty() {
                break;
            }
        }
    }
    edges
}

fn calls(statement: &Statement) -> Option<&str> {
    match &statement.kind {
        Action::Call { name, .. } => Some(name),
        Action::Assign(..) => None,
    }
}

/// For each state the least state on a circle with it: itself, if there is none.
fn circles(edges: &[Edge<'_>], count: usize) -> Vec<usize> {
    let reached: Vec<BTreeSet<usize>> = (0..count)
        .map(|state| {
            let mut seen = BTreeSet::from([state]);
            let mut todo = vec![state];
            while let Some(here) = todo.pop() {
                let next = edges.iter().filter(|edge| edge.from == here);
                todo.extend(next.map(|edge| edge.to).filter(|to| seen.insert(*to)));
            }
            seen
        })
        .collect();
    let is_mutual = |a: usize, b: usize| reached[a].contains(&b) && reached[b].contains(&a);
    (0..count)
        .map(|state| (0..=state).find(|other| is_mutual(*other, state)))
        .map(|least| least.unwrap_or(0))
        .collect()
}

/// Leaves away what a register bounds; whether that was anything.
fn bound_some(
    edges: &mut Vec<Edge<'_>>,
    within: &dyn Fn(&Edge<'_>) -> bool,
    known: Known<'_>,
) -> bool {
    let registers: Vec<String> = known
        .element
        .registers
        .iter()
        .map(|one| format!("flow.{}", one.name))
        .collect();
    for register in &registers {
        for grows in [true, false] {
            let counter = Counter {
                register,
                grows,
                known,
            };
            let inside = edges.iter().filter(|edge| within(edge));
            if !inside
                .clone()
                .all(|edge| counter.is_monotone(edge.transition))
            {
                continue;
            }
            let mut is_some = false;
            edges.retain_mut(|edge| {
                if !within(edge) {
                    return true;
                }
                if counter.bounds(edge.transition, None) {
                    is_some = true;
                    return false;
                }
                let before = edge.emits.len();
                let transition = edge.transition;
                edge.emits
                    .retain(|place| !counter.bounds(transition, Some(*place)));
                is_some |= edge.emits.len() < before;
                true
            });
            if is_some {
                return true;
            }
        }
    }
    false
}

/// A register that may count.
struct Counter<'a> {
    register: &'a str,
    /// Upwards, or down.
    grows: bool,
    known: Known<'a>,
}

impl Counter<'_> {
    /// Writes of the register: place, what it does, its own conditions.
    fn writes(&self, transition: &Transition) -> Vec<(usize, Step, Vec<Node>)> {
        let statements = transition.statements.iter().enumerate();
        let own = statements.filter_map(|(place, (_, one))| match &one.kind {
            Action::Assign(target, value) => {
                let is_it = target.kind == Expression::Name(self.register.to_owned());
                is_it.then(|| (place, self.step(value), self.guards(one)))
            }
            Action::Call { .. } => None,
        });
        own.collect()
    }

    fn guards(&self, statement: &Statement) -> Vec<Node> {
        let mut guards = Vec::new();
        if let Some(guard) = &statement.guard {
            conjuncts(self.known.expanded(guard), &mut guards);
        }
        guards
    }

    fn step(&self, value: &Node) -> Step {
        let value = self.known.expanded(value);
        let is_own = |node: &Node| node.kind == Expression::Name(self.register.to_owned());
        let number = |node: &Node| match node.kind {
            Expression::Number(number, None) => Some(number),
            _ => None,
        };
        let of = |one: &Node, other: &Node| number(other).filter(|_| is_own(one));
        match &value.kind {
            Expression::Binary(Infix::Add, one, other) => of(one, other)
                .or_else(|| of(other, one))
                .map_or(Step::Other, Step::Up),
            Expression::Binary(Infix::Sub, one, other) => {
                of(one, other).map_or(Step::Other, Step::Down)
            }
            Expression::Call(name, arguments) if name == "sat_sub" => match &arguments[..] {
                [one, other] => of(one, other).map_or(Step::Other, Step::DownToZero),
                _ => Step::Other,
            },
            _ => Step::Other,
        }
    }

    /// Within which values the register is, if all of these hold.
    fn range(&self, conditions: &[Node]) -> (u128, u128) {
        let most = self.known.most(&Node {
            at: 0,
            kind: Expression::Name(self.register.to_owned()),
        });
        let mut range = (0, most);
        for condition in conditions {
            if let Some((left, Atom::Range(from, to))) = atom(condition)
                && left.kind == Expression::Name(self.register.to_owned())
            {
                range = (range.0.max(from), range.1.min(to));
            }
        }
        range
    }

    /// Whether a step goes the right way and does not wrap, if the register is within this range.
    fn is_safe(&self, step: Step, (from, to): (u128, u128)) -> bool {
        let (_, most) = self.range(&[]);
        match (step, self.grows) {
            (Step::Up(by), true) => to.checked_add(by).is_some_and(|end| end <= most),
            (Step::Down(by), false) => from >= by,
            (Step::DownToZero(_), false) => true,
            _ => false,
        }
    }

    /// Whether a transition leaves the register, or steps the right way once.
    fn is_monotone(&self, transition: &Transition) -> bool {
        match &self.writes(transition)[..] {
            [] => true,
            [(_, step, guards)] => {
                let all = [&transition.conditions[..], guards].concat();
                self.is_safe(*step, self.range(&all))
            }
            _ => false,
        }
    }

    /// Whether the transition, or what it emits at this place, happens only so often: the register
    /// steps each time, and only while it is on this side of a constant.
    fn bounds(&self, transition: &Transition, emit: Option<usize>) -> bool {
        let writes = self.writes(transition);
        let [(place, step, guards)] = &writes[..] else {
            return false;
        };
        let mut given = transition.conditions.clone();
        // Behind the write its condition would be about another value.
        if let Some(emit) = emit.filter(|emit| emit < place) {
            given.extend(self.guards(&transition.statements[emit].1));
        }
        let written: Vec<String> = transition.statements[..*place]
            .iter()
            .filter_map(|(_, one)| match &one.kind {
                Action::Assign(target, _) => Some(target.to_string()),
                Action::Call { .. } => None,
            })
            .collect();
        // What was looked at before must still hold where the register is written.
        let is_certain = guards.iter().all(|guard| {
            is_of_flow(guard, &written) && given.iter().any(|one| implies(one, guard))
        });
        let (from, to) = self.range(&given);
        let (_, most) = self.range(&[]);
        // That it does not wrap, and goes the counter's way, is known of all that is on the circle.
        let advances = match *step {
            Step::Up(by) => by > 0 && to < most,
            Step::Down(by) | Step::DownToZero(by) => by > 0 && from > 0,
            Step::Other => false,
        };
        is_certain && advances
    }
}

/// Whether an expression depends on registers of the flow alone, and on none of these.
fn is_of_flow(node: &Node, written: &[String]) -> bool {
    match &node.kind {
        Expression::Number(..) => true,
        Expression::Name(name) => name.starts_with("flow.") && !written.contains(name),
        Expression::Unary(_, one) | Expression::Resized(one, _) => is_of_flow(one, written),
        Expression::Binary(_, one, other) => is_of_flow(one, written) && is_of_flow(other, written),
        Expression::Index(..) | Expression::Bytes(..) | Expression::Call(..) => false,
    }
}
