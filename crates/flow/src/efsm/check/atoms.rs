//! Conditions that compare an expression with a number: what excludes, implies or covers what.
//!
//! Part of the checks. [`Known`] writes out what conditions and constants stand for first, so that
//! `flow.n < TRIES` and `flow.n < 3` are the same.

use crate::program::field::ones;
use crate::program::ir::Width;

use super::super::expression::{Expression, Infix, Node};
use super::super::names::{ElementNames, Meaning, ProgramNames};

/// Most levels of names that stand for each other.
const NESTED_MAX: usize = 16;

/// What names of an element stand for.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(crate) program: &'a ProgramNames,
    pub(crate) element: &'a ElementNames,
}

impl Known<'_> {
    /// An expression without names of conditions and constants.
    pub(super) fn expanded(self, node: &Node) -> Node {
        self.expand(node, 0)
    }

    fn expand(self, node: &Node, depth: usize) -> Node {
        let boxed = |one: &Node| Box::new(self.expand(one, depth));
        let kind = match &node.kind {
            Expression::Name(name) => match self.program.meaning(self.element, name) {
                Some(Meaning::Constant(of) | Meaning::Condition(of)) if depth < NESTED_MAX => {
                    self.expand(&of, depth + 1).kind
                }
                _ => node.kind.clone(),
            },
            Expression::Index(name, index) => Expression::Index(name.clone(), boxed(index)),
            Expression::Bytes(name, from, count) => {
                Expression::Bytes(name.clone(), boxed(from), *count)
            }
            Expression::Unary(sign, one) => Expression::Unary(*sign, boxed(one)),
            Expression::Resized(one, width) => Expression::Resized(boxed(one), *width),
            Expression::Binary(infix, one, other) => joined(*infix, boxed(one), boxed(other)),
            Expression::Call(name, arguments) => {
                let arguments = arguments.iter().map(|one| self.expand(one, depth));
                Expression::Call(name.clone(), arguments.collect())
            }
            number @ Expression::Number(..) => number.clone(),
        };
        Node { at: node.at, kind }
    }

    /// The greatest value that an expression can have, as far as it is known.
    pub(super) fn most(self, node: &Node) -> u128 {
        match &node.kind {
            Expression::Number(number, _) => *number,
            Expression::Name(name) => self.width(name).map_or(u128::MAX, ones),
            Expression::Resized(_, width) => ones(*width),
            Expression::Bytes(_, _, count) => ones(count.saturating_mul(8)),
            Expression::Binary(Infix::And, one, other) => self.most(one).min(self.most(other)),
            _ => u128::MAX,
        }
    }

    fn width(self, name: &str) -> Option<Width> {
        match self.program.meaning(self.element, name)? {
            Meaning::Field(field, _) => Some(field.width),
            Meaning::Fact(fact) => Some(fact.width()),
            Meaning::Either(_, width)
            | Meaning::Register(_, width)
            | Meaning::Global(_, width, _)
            | Meaning::Metadata(_, width) => Some(width),
            Meaning::Constant(_) | Meaning::Condition(_) => None,
        }
    }
}

/// Two arguments; the result, where both are numbers of no width.
fn joined(infix: Infix, one: Box<Node>, other: Box<Node>) -> Expression {
    if let (Expression::Number(a, None), Expression::Number(b, None)) = (&one.kind, &other.kind) {
        let result = match infix {
            Infix::Add => a.checked_add(*b),
            Infix::Sub => a.checked_sub(*b),
            Infix::Mul => a.checked_mul(*b),
            Infix::Div => a.checked_div(*b),
            _ => None,
        };
        if let Some(result) = result {
            return Expression::Number(result, None);
        }
    }
    Expression::Binary(infix, one, other)
}

/// A comparison of an expression with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Atom {
    /// Within this range; none, where the first is greater.
    Range(u128, u128),
    /// These bits under a mask.
    Masked(u128, u128),
}

/// The comparison that a condition is: of which expression, and with what.
pub(super) fn atom(node: &Node) -> Option<(&Node, Atom)> {
    let Expression::Binary(infix, one, other) = &node.kind else {
        return None;
    };
    let (infix, left, number) = match (&one.kind, &other.kind) {
        (_, Expression::Number(number, _)) => (*infix, one, *number),
        (Expression::Number(number, _), _) => (turned(*infix), other, *number),
        _ => return None,
    };
    let none = Atom::Range(1, 0);
    let found = match infix {
        Infix::Equal => {
            if let Expression::Binary(Infix::And, value, mask) = &left.kind
                && let Expression::Number(mask, _) = mask.kind
            {
                return Some((value, Atom::Masked(number, mask)));
            }
            Atom::Range(number, number)
        }
        Infix::Less => number
            .checked_sub(1)
            .map_or(none, |end| Atom::Range(0, end)),
        Infix::LessEqual => Atom::Range(0, number),
        Infix::Greater => number
            .checked_add(1)
            .map_or(none, |from| Atom::Range(from, u128::MAX)),
        Infix::GreaterEqual => Atom::Range(number, u128::MAX),
        _ => return None,
    };
    Some((left, found))
}

/// The comparison with its arguments changed.
fn turned(infix: Infix) -> Infix {
    match infix {
        Infix::Less => Infix::Greater,
        Infix::LessEqual => Infix::GreaterEqual,
        Infix::Greater => Infix::Less,
        Infix::GreaterEqual => Infix::LessEqual,
        other => other,
    }
}

/// Why a condition never holds, if it does not.
pub(super) fn never(known: Known<'_>, node: &Node) -> Option<String> {
    if let Expression::Binary(infix, one, other) = &node.kind
        && let (Expression::Number(a, None), Expression::Number(b, None)) = (&one.kind, &other.kind)
    {
        let holds = match infix {
            Infix::Equal => a == b,
            Infix::Unequal => a != b,
            Infix::Less => a < b,
            Infix::LessEqual => a <= b,
            Infix::Greater => a > b,
            Infix::GreaterEqual => a >= b,
            _ => return None,
        };
        return (!holds).then(|| format!("{node} never holds"));
    }
    let (left, atom) = atom(node)?;
    match atom {
        Atom::Range(from, to) if from > to || from > known.most(left) => {
            Some(format!("{node} never holds"))
        }
        Atom::Masked(bits, mask) if bits & !mask != 0 => Some(format!(
            "{node} never holds: {bits:#x} has bits outside {mask:#x}"
        )),
        _ => None,
    }
}

/// Whether a condition always holds.
pub(super) fn always(known: Known<'_>, node: &Node) -> bool {
    match atom(node) {
        Some((left, Atom::Range(0, to))) => to >= known.most(left),
        Some((_, Atom::Masked(0, 0))) => true,
        _ => false,
    }
}

/// What two conditions say, where both are about the same expression.
fn of_one(a: &Node, b: &Node) -> Option<(Atom, Atom)> {
    let ((left, one), (right, other)) = (atom(a)?, atom(b)?);
    (left.to_string() == right.to_string()).then_some((one, other))
}

/// Whether two conditions cannot hold together.
pub(super) fn excludes(a: &Node, b: &Node) -> bool {
    if is_opposite(a, b) {
        return true;
    }
    let Some(both) = of_one(a, b) else {
        return false;
    };
    match both {
        (Atom::Range(a, b), Atom::Range(c, d)) => b < c || d < a,
        (Atom::Masked(a, m), Atom::Masked(b, n)) => (a ^ b) & m & n != 0,
        (Atom::Masked(bits, mask), Atom::Range(a, b))
        | (Atom::Range(a, b), Atom::Masked(bits, mask)) => a == b && a & mask != bits,
    }
}

/// Whether the second holds wherever the first one does.
pub(super) fn implies(a: &Node, b: &Node) -> bool {
    if a.to_string() == b.to_string() {
        return true;
    }
    let Some(both) = of_one(a, b) else {
        return false;
    };
    match both {
        (Atom::Range(a, b), Atom::Range(c, d)) => c <= a && b <= d,
        (Atom::Masked(a, m), Atom::Masked(b, n)) => m & n == n && a & n == b,
        (Atom::Range(a, b), Atom::Masked(bits, mask)) => a == b && a & mask == bits,
        (Atom::Masked(..), Atom::Range(..)) => false,
    }
}

/// Whether something surely meets all of these, which do not exclude each other: they are about
/// one expression, and all ranges or all bits under masks.
pub(super) fn meet(all: &[&Node]) -> bool {
    let atoms: Vec<(String, Atom)> = all
        .iter()
        .filter_map(|node| atom(node).map(|(left, atom)| (left.to_string(), atom)))
        .collect();
    let Some((first, _)) = atoms.first() else {
        return false;
    };
    let is_one = atoms.len() == all.len() && atoms.iter().all(|(left, _)| left == first);
    let is_range = |(_, atom): &(String, Atom)| matches!(atom, Atom::Range(..));
    is_one && (atoms.iter().all(is_range) || !atoms.iter().any(is_range))
}

/// Whether one holds just where the other does not: the same arguments, the opposite comparison.
pub(super) fn is_opposite(a: &Node, b: &Node) -> bool {
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

/// Whether two ranges of the same expression leave nothing between them.
pub(super) fn covers(known: Known<'_>, a: &Node, b: &Node) -> bool {
    let (Some((left, Atom::Range(a, b))), Some((right, Atom::Range(c, d)))) = (atom(a), atom(b))
    else {
        return false;
    };
    let ((_, first_end), (second, end)) = if a <= c {
        ((a, b), (c, d))
    } else {
        ((c, d), (a, b))
    };
    left.to_string() == right.to_string()
        && a.min(c) == 0
        && first_end.max(end) >= known.most(left)
        && second <= first_end.saturating_add(1)
}
