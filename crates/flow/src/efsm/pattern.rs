//! Patterns and constants of a document: numbers, prefixes, masks and ranges as text.
//!
//! Part of making a program: tables, transitions and control requests write patterns alike.

use std::net::Ipv4Addr;

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

/// The address of IPv4 that stands here, or that a constant names which does.
pub(super) fn ipv4(names: &ProgramNames, node: &Node, depth: usize) -> Option<Ipv4Addr> {
    match &node.kind {
        Expression::Number(number, Some(32)) => Some(Ipv4Addr::from(*number as u32)),
        Expression::Name(name) if depth < 16 => ipv4(names, names.constants.get(name)?, depth + 1),
        _ => None,
    }
}

/// An address of IPv4 where both versions may stand, as `ip.src` has it: the IPv4-mapped one (RFC
/// 4291, 2.5.5.2).
pub(super) fn mapped(address: Ipv4Addr) -> u128 {
    address.to_ipv6_mapped().to_bits()
}

/// What masks an address of IPv4, where both versions may stand: what maps it is not masked out.
pub(super) fn mask_of_mapped(mask: Ipv4Addr) -> u128 {
    ones(128) << 32 | u128::from(mask.to_bits())
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
    let (mut a, mut b, sign) = numbers(names, text, width)?;
    let most = ones(width);
    if width == 128 && is_ipv4(names, text) {
        let address = |number: u128| Ipv4Addr::from(number as u32);
        a = mapped(address(a));
        b = match (kind, sign) {
            (Match::Prefix, Some('/')) => 96 + b,
            (Match::Ternary, Some('/')) => mask_of_mapped(address(b)),
            (_, Some('-')) => mapped(address(b)),
            _ => b,
        };
    }
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

/// Whether a pattern begins with an address of IPv4.
fn is_ipv4(names: &ProgramNames, text: &str) -> bool {
    let first = text.split(['/', '-']).next().unwrap_or_default();
    let node = syntax::expression(first.trim()).ok();
    node.is_some_and(|node| ipv4(names, &node, 0).is_some())
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
    // An address of IPv4 becomes the mapped one where it meets 128 bits.
    let has_width = is_ipv4(names, text).then_some(32);
    let number = |value: u128| Node {
        at,
        kind: Expression::Number(value, has_width),
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

    #[test]
    fn patterns_of_ipv4_are_of_mapped_addresses_where_there_is_room_for_ipv6() {
        let (low, high) = (0xffff_0a00_0000, 0xffff_0a00_00ff);
        let masked = |zeros: u32| Pattern::Masked(low, ones(128) << zeros);
        for (text, kind, wanted) in [
            ("10.0.0.0", Match::Exact, masked(0)),
            ("10.0.0.0/24", Match::Prefix, masked(8)),
            ("10.0.0.0/255.255.255.0", Match::Ternary, masked(8)),
            (
                "10.0.0.0-10.0.0.255",
                Match::Range,
                Pattern::Range(low, high),
            ),
        ] {
            assert_eq!(pattern_of(text, kind, 128), Ok(wanted), "{text}");
        }
        assert!(pattern_of("10.0.0.0/33", Match::Prefix, 128).is_err());
        let narrow = pattern_of("10.0.0.0/24", Match::Prefix, 32);
        assert_eq!(narrow, Ok(Pattern::Masked(0x0a00_0000, 0xffff_ff00)));
    }
}
