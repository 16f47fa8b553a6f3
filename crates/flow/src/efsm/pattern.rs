//! Patterns and constants of a document: numbers, prefixes, masks and ranges as text.
//!
//! Part of making a program: tables, transitions and control requests write patterns alike.

use crate::program::field::{Width, ones};
use crate::program::table::{Match, Pattern};

use super::expression::{Expression, Infix, Node};
use super::names::ProgramNames;
use super::syntax;

/// The number that an expression of numbers and constants stands for.
pub(super) fn fold(names: &ProgramNames, node: &Node, depth: usize) -> Option<u128> {
    match &node.kind {
        Expression::Number(number, _) => Some(*number),
        Expression::Name(name) if depth < 16 => fold(names, names.constants.get(name)?, depth + 1),
        Expression::Binary(infix, one, other) if depth < 16 => {
            let a = fold(names, one, depth + 1)?;
            let b = fold(names, other, depth + 1)?;
            match infix {
                Infix::Add => a.checked_add(b),
                Infix::Sub => a.checked_sub(b),
                Infix::Mul => a.checked_mul(b),
                Infix::Div => a.checked_div(b),
                Infix::Or => Some(a | b),
                Infix::And => Some(a & b),
                _ => None,
            }
        }
        _ => None,
    }
}

/// A pattern as text, in the form that a key part compares.
///
/// # Errors
/// What does not fit, as a sentence.
pub(crate) fn pattern_of(text: &str, kind: Match, width: Width) -> Result<Pattern, String> {
    pattern(&ProgramNames::default(), text, kind, width)
}

pub(super) fn pattern(
    names: &ProgramNames,
    text: &str,
    kind: Match,
    width: Width,
) -> Result<Pattern, String> {
    let (a, b, sign) = numbers(names, text, width)?;
    let most = ones(width);
    let prefix = |len: u128| match u32::try_from(len) {
        Ok(len) if len <= u32::from(width) => {
            Ok(most & u128::MAX.checked_shl(u32::from(width) - len).unwrap_or(0))
        }
        _ => Err(format!("a prefix has at most {width} bits")),
    };
    let found = match (kind, sign) {
        (Match::Range, None) => Pattern::Range(a, a),
        (Match::Range, Some('*')) => Pattern::Range(0, most),
        (Match::Range, Some('-')) => Pattern::Range(a, b),
        (Match::Exact, None) => Pattern::Masked(a, most),
        (Match::Ternary | Match::Prefix, None) => Pattern::Masked(a, most),
        (Match::Ternary | Match::Prefix, Some('*')) => Pattern::Masked(0, 0),
        (Match::Prefix, Some('/')) => {
            let mask = prefix(b)?;
            Pattern::Masked(a & mask, mask)
        }
        (Match::Ternary, Some('/')) => Pattern::Masked(a & b, b),
        _ => {
            return Err(format!(
                "\"{text}\" is not what this part of the key compares"
            ));
        }
    };
    match found {
        Pattern::Masked(a, b) | Pattern::Range(a, b) if a > most || b > most => {
            Err(format!("\"{text}\" does not fit {width} bits"))
        }
        found => Ok(found),
    }
}

/// The numbers of a pattern and the sign between them: `/`, `-`, or `*` for any.
fn numbers(
    names: &ProgramNames,
    text: &str,
    width: Width,
) -> Result<(u128, u128, Option<char>), String> {
    let text = text.trim();
    if text == "any" {
        return Ok((0, 0, Some('*')));
    }
    let number = |part: &str| {
        let node = syntax::expression(part).map_err(|error| error.message)?;
        fold(names, &node, 0).ok_or_else(|| format!("\"{part}\" is no number"))
    };
    let split = text.split_once('/').map(|parts| (parts, '/'));
    let split = split.or_else(|| text.split_once('-').map(|parts| (parts, '-')));
    match split {
        Some(((a, b), sign)) => {
            let (a, b) = (number(a)?, number(b)?);
            if sign == '-' && a > b {
                return Err(format!("\"{text}\" is empty: the lower end stands first"));
            }
            Ok((a, b, Some(sign)))
        }
        None => {
            let value = number(text)?;
            if value > ones(width) {
                return Err(format!("\"{text}\" does not fit {width} bits"));
            }
            Ok((value, 0, None))
        }
    }
}

/// A pattern of a transition as conditions on a value.
pub(super) fn pattern_nodes(
    names: &ProgramNames,
    node: Node,
    text: &str,
) -> Result<Vec<Node>, String> {
    let (a, b, sign) = numbers(names, text, 128)?;
    let at = node.at;
    let is_address = text.contains('.') || text.contains(':');
    let number = |value: u128| Node {
        at,
        kind: Expression::Number(value, None),
    };
    let join = |infix, one: Node, other: Node| Node {
        at,
        kind: Expression::Binary(infix, Box::new(one), Box::new(other)),
    };
    Ok(match sign {
        None => vec![join(Infix::Equal, node, number(a))],
        Some('*') => Vec::new(),
        Some('-') => vec![
            join(Infix::GreaterEqual, node.clone(), number(a)),
            join(Infix::LessEqual, node, number(b)),
        ],
        Some(_) => {
            let width: Width = match (is_address, text.contains(':')) {
                (true, true) => 128,
                (true, false) => 32,
                (false, _) => 0,
            };
            let mask = match width {
                0 => b,
                width if b <= u128::from(width) => {
                    let zeros = u32::from(width) - b as u32;
                    ones(width) & u128::MAX.checked_shl(zeros).unwrap_or(0)
                }
                width => return Err(format!("a prefix has at most {width} bits")),
            };
            if a & !mask != 0 {
                return Err(format!(
                    "\"{text}\" has bits outside its mask: it would never match"
                ));
            }
            let masked = join(Infix::And, node, number(mask));
            vec![join(Infix::Equal, masked, number(a))]
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_the_wrong_way_round_is_refused() {
        let range = |text| pattern_of(text, Match::Range, 16);
        assert_eq!(range("1024-2047"), Ok(Pattern::Range(1024, 2047)));
        assert_eq!(range("80-80"), Ok(Pattern::Range(80, 80)));
        assert!(range("2047-1024").is_err_and(|error| error.contains("is empty")));
    }
}
