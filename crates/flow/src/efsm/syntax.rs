//! From a string of a program to its tree.
//!
//! Control path. Names have dots (`ipv4.src`), numbers have units of time or size (`10ms`, `64k`),
//! addresses stand for themselves. Limits: [`LEN_MAX`] bytes, [`DEPTH_MAX`] levels of brackets.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::expression::{Action, Expression, Infix, Node, Statement};

/// Most bytes of a string.
pub(super) const LEN_MAX: usize = 1000;
/// Most levels.
pub(super) const DEPTH_MAX: usize = 32;

/// What is wrong with a string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SyntaxError {
    /// At which byte.
    pub at: usize,
    /// What is wrong.
    pub message: String,
    /// What to write.
    pub repair: String,
}

type Parsed<T> = Result<T, SyntaxError>;

/// Parses an expression.
///
/// # Errors
/// The first thing that is wrong.
pub(super) fn expression(text: &str) -> Parsed<Node> {
    let mut parser = Parser::new(text)?;
    let node = parser.expression(0, 0)?;
    parser.end()?;
    Ok(node)
}

/// Parses a statement.
///
/// # Errors
/// The first thing that is wrong.
pub(super) fn statement(text: &str) -> Parsed<Statement> {
    let mut parser = Parser::new(text)?;
    let kind = parser.action()?;
    let guard = if parser.take_word("if") {
        Some(parser.expression(0, 0)?)
    } else {
        None
    };
    parser.end()?;
    Ok(Statement { kind, guard })
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Parsed<Self> {
        let parser = Self { text, at: 0 };
        if text.len() > LEN_MAX {
            return parser.fail("it is too long", format!("write at most {LEN_MAX} bytes"));
        }
        Ok(parser)
    }

    fn fail<T>(&self, message: impl Into<String>, repair: impl Into<String>) -> Parsed<T> {
        Err(SyntaxError {
            at: self.at,
            message: message.into(),
            repair: repair.into(),
        })
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn take(&mut self, sign: &str) -> bool {
        self.skip();
        let is_there = self.rest().starts_with(sign);
        self.at += if is_there { sign.len() } else { 0 };
        is_there
    }

    fn take_word(&mut self, word: &str) -> bool {
        self.skip();
        let behind = self.rest().strip_prefix(word);
        let is_there = behind.is_some_and(|rest| !rest.starts_with(is_word));
        self.at += if is_there { word.len() } else { 0 };
        is_there
    }

    fn need(&mut self, sign: &str) -> Parsed<()> {
        if self.take(sign) {
            return Ok(());
        }
        let found = self.found();
        self.fail(
            format!("\"{sign}\" is missing before {found}"),
            format!("write \"{sign}\" here"),
        )
    }

    fn found(&mut self) -> String {
        self.skip();
        match self.rest().split_whitespace().next() {
            Some(word) => format!("\"{}\"", word.chars().take(20).collect::<String>()),
            None => "the end".to_owned(),
        }
    }

    fn end(&mut self) -> Parsed<()> {
        self.skip();
        if self.rest().is_empty() {
            return Ok(());
        }
        let found = self.found();
        self.fail(
            format!("{found} does not belong here"),
            "remove it, or join it by an operator",
        )
    }

    /// A name with its dots; empty if there is none.
    fn name(&mut self) -> &'a str {
        self.skip();
        let rest = self.rest();
        if !rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            return "";
        }
        let end = rest.find(|c| !is_word(c) && c != '.').unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn action(&mut self) -> Parsed<Action> {
        self.skip();
        let at = self.at;
        let target = self.primary(0)?;
        if let Expression::Name(name) = &target.kind
            && self.take("(")
        {
            let arguments = self.named_arguments()?;
            return Ok(Action::Call {
                at,
                name: name.clone(),
                arguments,
            });
        }
        self.skip();
        if self.rest().starts_with("==") || !self.take("=") {
            let repair = "write NAME = EXPRESSION, or a procedure like drop(REASON)";
            return self.fail("this is no statement", repair);
        }
        Ok(Action::Assign(target, self.expression(0, 0)?))
    }

    fn named_arguments(&mut self) -> Parsed<Vec<(Option<String>, Node)>> {
        let mut arguments = Vec::new();
        while !self.take(")") {
            if !arguments.is_empty() {
                self.need(",")?;
            }
            let start = self.at;
            let name = self.name();
            self.skip();
            let is_named =
                !name.is_empty() && self.rest().starts_with('=') && !self.rest().starts_with("==");
            if is_named {
                self.at += 1;
            } else {
                self.at = start;
            }
            let name = is_named.then(|| name.to_owned());
            arguments.push((name, self.expression(0, 0)?));
        }
        Ok(arguments)
    }

    /// An expression of operators that bind more than `least`.
    fn expression(&mut self, least: u8, depth: usize) -> Parsed<Node> {
        if depth > DEPTH_MAX {
            return self.fail(
                "too many brackets",
                "name a part of it as a condition or constant",
            );
        }
        let mut left = self.unary(depth)?;
        loop {
            self.skip();
            if self.take_word("as") {
                let at = left.at;
                let width = self.width()?;
                let kind = Expression::Resized(Box::new(left), width);
                left = Node { at, kind };
                continue;
            }
            let rest = self.rest();
            let found = Infix::ALL.iter().find(|(text, ..)| rest.starts_with(text));
            let Some((text, infix, binds)) = found.filter(|(.., binds)| *binds > least) else {
                return Ok(left);
            };
            self.at += text.len();
            let right = self.expression(*binds, depth + 1)?;
            if infix.is_comparison() && is_comparison(&left) {
                return self.fail("comparisons in a row", "join two of them by &&");
            }
            left = Node {
                at: left.at,
                kind: Expression::Binary(*infix, Box::new(left), Box::new(right)),
            };
        }
    }

    fn width(&mut self) -> Parsed<u8> {
        self.skip();
        let digits = self
            .rest()
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(self.rest().len());
        let width = self.rest()[..digits]
            .parse()
            .ok()
            .filter(|width| (1..=128).contains(width));
        match width {
            Some(width) => {
                self.at += digits;
                Ok(width)
            }
            None => self.fail("a width is missing", "write a number of bits, 1 to 128"),
        }
    }

    fn unary(&mut self, depth: usize) -> Parsed<Node> {
        self.skip();
        let at = self.at;
        for sign in ['-', '~', '!'] {
            if self.rest().starts_with(sign) && !self.rest().starts_with("!=") {
                self.at += 1;
                if depth > DEPTH_MAX {
                    return self.fail("too many signs", "write fewer");
                }
                let one = self.unary(depth + 1)?;
                let kind = Expression::Unary(sign, Box::new(one));
                return Ok(Node { at, kind });
            }
        }
        self.primary(depth)
    }

    fn primary(&mut self, depth: usize) -> Parsed<Node> {
        self.skip();
        let at = self.at;
        if self.take("(") {
            let node = self.expression(0, depth + 1)?;
            self.need(")")?;
            return Ok(Node { at, ..node });
        }
        if let Some(kind) = self.address()? {
            return Ok(Node { at, kind });
        }
        if self.rest().starts_with(|c: char| c.is_ascii_digit()) {
            let kind = self.number()?;
            return Ok(Node { at, kind });
        }
        let name = self.name();
        if name.is_empty() {
            let found = self.found();
            return self.fail(
                format!("{found} is no value"),
                "write a number, a name, or an expression in brackets",
            );
        }
        let name = name.to_owned();
        if self.take("[") {
            let from = self.expression(0, depth + 1)?;
            let kind = if self.take(":") {
                self.need("+")?;
                let count = self.width()?;
                if count > 16 {
                    return self.fail("more than 16 bytes", "read them in parts");
                }
                Expression::Bytes(name, Box::new(from), count)
            } else {
                Expression::Index(name, Box::new(from))
            };
            self.need("]")?;
            return Ok(Node { at, kind });
        }
        // A procedure's brackets are taken by whoever parses a statement.
        if is_function(&name) && self.take("(") {
            let mut arguments = Vec::new();
            while !self.take(")") {
                if !arguments.is_empty() {
                    self.need(",")?;
                }
                arguments.push(self.expression(0, depth + 1)?);
            }
            let kind = Expression::Call(name, arguments);
            return Ok(Node { at, kind });
        }
        Ok(Node {
            at,
            kind: Expression::Name(name),
        })
    }

    /// An IPv4, IPv6 or Ethernet address, if one stands here.
    fn address(&mut self) -> Parsed<Option<Expression>> {
        let rest = self.rest();
        let end = rest
            .find(|c: char| !c.is_ascii_hexdigit() && c != ':' && c != '.')
            .unwrap_or(rest.len());
        let word = &rest[..end];
        let colons = word.matches(':').count();
        let kind = if colons >= 2 {
            if let Some(mac) = mac(word) {
                Expression::Number(mac, Some(48))
            } else if let Ok(address) = word.parse::<Ipv6Addr>() {
                Expression::Number(u128::from(address), Some(128))
            } else {
                return self.fail(
                    format!("\"{word}\" is no address"),
                    "write it like 2001:db8::1",
                );
            }
        } else if word.starts_with(|c: char| c.is_ascii_digit()) && word.matches('.').count() == 3 {
            match word.parse::<Ipv4Addr>() {
                Ok(address) => Expression::Number(u128::from(u32::from(address)), Some(32)),
                Err(_) => {
                    return self.fail(
                        format!("\"{word}\" is no address"),
                        "write it like 10.0.0.1",
                    );
                }
            }
        } else {
            return Ok(None);
        };
        self.at += end;
        Ok(Some(kind))
    }

    fn number(&mut self) -> Parsed<Expression> {
        let rest = self.rest();
        let (radix, from) = match rest.get(..2) {
            Some("0x") => (16, 2),
            Some("0b") => (2, 2),
            _ => (10, 0),
        };
        let is_digit = |c: char| c.is_digit(radix) || c == '_';
        let end = rest[from..]
            .find(|c| !is_digit(c))
            .map_or(rest.len(), |end| from + end);
        let digits = rest[from..end].replace('_', "");
        let unit_end = rest[end..]
            .find(|c| !is_word(c))
            .map_or(rest.len(), |len| end + len);
        let unit = &rest[end..unit_end];
        let scale: Option<u128> = match unit {
            "" | "ns" => Some(1),
            "us" => Some(1_000),
            "ms" => Some(1_000_000),
            "s" => Some(1_000_000_000),
            "min" => Some(60_000_000_000),
            "h" => Some(3_600_000_000_000),
            "k" => Some(1_000),
            "M" => Some(1_000_000),
            "G" => Some(1_000_000_000),
            _ => None,
        };
        let value = u128::from_str_radix(&digits, radix).ok();
        match (value, scale) {
            (Some(value), Some(scale)) => match value.checked_mul(scale) {
                Some(value) => {
                    self.at += unit_end;
                    Ok(Expression::Number(value, None))
                }
                None => self.fail("the number is too large", "write one below 2^128"),
            },
            (Some(_), None) => self.fail(
                format!("\"{unit}\" is no unit"),
                "write ns, us, ms, s, min or h for times; k, M or G for counts",
            ),
            (None, _) => self.fail("this is no number", "write it like 80, 0x50 or 0b101"),
        }
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Functions that give a value.
pub(super) const FUNCTIONS: [&str; 8] = [
    "valid",
    "hash",
    "min",
    "max",
    "meter",
    "select",
    "sat_sub",
    "fetch_add",
];

fn is_function(name: &str) -> bool {
    FUNCTIONS.contains(&name)
}

fn is_comparison(node: &Node) -> bool {
    // In brackets it is a value like any other; brackets leave no trace, so this asks for &&.
    matches!(&node.kind, Expression::Binary(infix, ..) if infix.is_comparison())
}

fn mac(word: &str) -> Option<u128> {
    let parts: Vec<&str> = word.split(':').collect();
    if parts.len() != 6 || word.contains('.') {
        return None;
    }
    let byte = |part: &&str| (part.len() == 2).then(|| u8::from_str_radix(part, 16).ok())?;
    let mut value = 0;
    for part in &parts {
        value = value << 8 | u128::from(byte(part)?);
    }
    Some(value)
}
