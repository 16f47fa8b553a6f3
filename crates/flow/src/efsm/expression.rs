//! Expressions and statements as trees, and as text.
//!
//! First step of a program's strings: [`syntax`](super::syntax) makes these, lowering takes them,
//! checks compare them as text. Every node knows at which byte of its string it begins.

use std::fmt;

/// The function that changes a register and gives what it was before.
pub(super) const FETCH_ADD: &str = "fetch_add";

/// An expression and where it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    /// Byte of the string.
    pub at: usize,
    /// What it is.
    pub kind: Expression,
}

/// An expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expression {
    /// A number; addresses have a width.
    Number(u128, Option<u8>),
    /// A name with its dots.
    Name(String),
    /// An element of an array, as in `global.count[2]`.
    Index(String, Box<Node>),
    /// Bytes of a header or of the packet, as in `payload[0:+4]`: name, first byte, count.
    Bytes(String, Box<Node>, u8),
    /// `-`, `~` or `!`.
    Unary(char, Box<Node>),
    /// Two arguments.
    Binary(Infix, Box<Node>, Box<Node>),
    /// A function of arguments.
    Call(String, Vec<Node>),
    /// In another width, as in `x as 16`.
    Resized(Box<Node>, u8),
}

/// Operators between two arguments, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Infix {
    /// `||`
    Either,
    /// `&&`
    Both,
    /// `==`
    Equal,
    /// `!=`
    Unequal,
    /// `<`
    Less,
    /// `<=`
    LessEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterEqual,
    /// `|`
    Or,
    /// `^`
    Xor,
    /// `&`
    And,
    /// `<<`
    Left,
    /// `>>`
    Right,
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `%`
    Mod,
}

impl Infix {
    /// All, each before those that begin it.
    pub(super) const ALL: [(&'static str, Self, u8); 18] = [
        ("||", Self::Either, 1),
        ("&&", Self::Both, 2),
        ("==", Self::Equal, 3),
        ("!=", Self::Unequal, 3),
        ("<<", Self::Left, 7),
        (">>", Self::Right, 7),
        ("<=", Self::LessEqual, 3),
        (">=", Self::GreaterEqual, 3),
        ("<", Self::Less, 3),
        (">", Self::Greater, 3),
        ("|", Self::Or, 4),
        ("^", Self::Xor, 5),
        ("&", Self::And, 6),
        ("+", Self::Add, 8),
        ("-", Self::Sub, 8),
        ("*", Self::Mul, 9),
        ("/", Self::Div, 9),
        ("%", Self::Mod, 9),
    ];

    /// How it is written.
    pub(super) fn text(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, one, _)| *one == self);
        found.map_or("", |(text, ..)| text)
    }

    /// Whether it compares: the result is one bit.
    pub(super) fn is_comparison(self) -> bool {
        use Infix::{Equal, Greater, GreaterEqual, Less, LessEqual, Unequal};
        matches!(
            self,
            Equal | Unequal | Less | LessEqual | Greater | GreaterEqual
        )
    }
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Statement {
    /// What it does.
    pub kind: Action,
    /// Only if this holds.
    pub guard: Option<Node>,
}

/// What a statement does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// The first becomes the second.
    Assign(Node, Node),
    /// A procedure with arguments, some by name.
    Call {
        /// Where it begins.
        at: usize,
        /// The procedure.
        name: String,
        /// Names, if given, and values.
        arguments: Vec<(Option<String>, Node)>,
    },
}

impl Node {
    /// Shows every name that it reads.
    pub(super) fn names(&self, seen: &mut impl FnMut(&str, usize)) {
        match &self.kind {
            Expression::Number(..) => {}
            Expression::Name(name) => seen(name, self.at),
            Expression::Index(name, index) => {
                seen(name, self.at);
                index.names(seen);
            }
            Expression::Bytes(name, from, _) => {
                seen(name, self.at);
                from.names(seen);
            }
            Expression::Unary(_, one) | Expression::Resized(one, _) => one.names(seen),
            Expression::Binary(_, one, other) => {
                one.names(seen);
                other.names(seen);
            }
            Expression::Call(name, arguments) => {
                seen(name, self.at);
                arguments.iter().for_each(|argument| argument.names(seen));
            }
        }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Expression::Number(number, Some(32)) => std::net::Ipv4Addr::from(*number as u32).fmt(f),
            Expression::Number(number, _) if *number < 1 << 32 => number.fmt(f),
            Expression::Number(number, _) => write!(f, "{number:#x}"),
            Expression::Name(name) => f.write_str(name),
            Expression::Index(name, index) => write!(f, "{name}[{index}]"),
            Expression::Bytes(name, from, count) => write!(f, "{name}[{from}:+{count}]"),
            Expression::Unary(sign, one) => write!(f, "{sign}{one}"),
            Expression::Binary(infix, one, other) => {
                write!(f, "({one} {} {other})", infix.text())
            }
            Expression::Call(name, arguments) => {
                let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
                write!(f, "{name}({})", arguments.join(", "))
            }
            Expression::Resized(one, width) => write!(f, "({one} as {width})"),
        }
    }
}
