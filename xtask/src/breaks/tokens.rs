//! Rust source as tokens, as far as it takes to find comparisons and where their sides end.
//!
//! No syntax tree: formatted source has blanks around comparisons and none around generics, and
//! what a break cannot be built with is told by the compiler.
//!
//! SPDX-License-Identifier: Apache-2.0

/// A token and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
    /// The bracket that belongs to this one, by number of the token; itself for all others.
    pub(super) mate: usize,
    /// A bar that opens or closes the parameters of a closure.
    pub(super) is_closure_bar: bool,
}

impl Token<'_> {
    pub(super) fn end(&self) -> usize {
        self.at + self.text.len()
    }

    /// A name, a keyword or a number.
    pub(super) fn is_word(&self) -> bool {
        self.text.starts_with(is_word_octet)
    }
}

/// Longest first.
const SIGNS: &[&str] = &[
    "..=", "...", "<<=", ">>=", "->", "=>", "::", "&&", "||", "<=", ">=", "==", "!=", "..", "+=",
    "-=", "*=", "/=", "%=", "^=", "|=", "&=", "<<", ">>",
];

/// Words behind which an expression begins.
const OPENERS: &[&str] = &[
    "if", "while", "match", "return", "let", "in", "else", "move", "break",
];

const fn is_word_octet(sign: char) -> bool {
    sign.is_ascii_alphanumeric() || sign == '_'
}

/// All tokens but comments.
pub(super) fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut found: Vec<Token<'_>> = Vec::new();
    let mut at = 0;
    while let Some(rest) = source.get(at..).filter(|rest| !rest.is_empty()) {
        let len = length(rest);
        let text = &rest[..len];
        if !text.trim().is_empty() && !text.starts_with("//") && !text.starts_with("/*") {
            let mate = found.len();
            found.push(Token {
                text,
                at,
                mate,
                is_closure_bar: false,
            });
        }
        at += len;
    }
    pair(&mut found);
    found
}

/// Length of the token, comment or blank at the front.
fn length(rest: &str) -> usize {
    let first = rest.chars().next().map_or(1, char::len_utf8);
    let to = |end: &str, from: usize| {
        rest.get(from..)
            .and_then(|behind| behind.find(end))
            .map_or(rest.len(), |at| from + at + end.len())
    };
    let raw = rest.trim_start_matches('b');
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return to("*/", 2);
    }
    if let Some(hashes) = raw.strip_prefix('r') {
        let count = hashes.chars().take_while(|sign| *sign == '#').count();
        if hashes[count..].starts_with('"') && rest.len() - raw.len() < 2 {
            let skip = rest.len() - hashes.len() + count + 1;
            return to(&format!("\"{}", "#".repeat(count)), skip);
        }
    }
    if raw.starts_with(['"', '\'']) && rest.len() - raw.len() < 2 {
        return quoted(rest, rest.len() - raw.len());
    }
    if rest.starts_with(is_word_octet) {
        return word(rest);
    }
    let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
    sign.map_or(first, |sign| sign.len())
}

/// Length of a string, a character or a lifetime; its quote stands at `open`.
fn quoted(rest: &str, open: usize) -> usize {
    let quote = rest.as_bytes()[open];
    let mut is_escaped = false;
    let is_lifetime = quote == b'\'' && rest[open + 1..].starts_with(is_word_octet);
    for (at, octet) in rest.bytes().enumerate().skip(open + 1) {
        match octet {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            octet if octet == quote => return at + 1,
            // A lifetime has no second quote.
            _ if is_lifetime && at > open + 1 => return open + 1 + word(&rest[open + 1..]),
            _ => {}
        }
    }
    rest.len()
}

/// Length of a name or a number.
fn word(rest: &str) -> usize {
    let len = rest.find(|sign| !is_word_octet(sign)).unwrap_or(rest.len());
    let is_number = rest.starts_with(|sign: char| sign.is_ascii_digit());
    let behind = rest.get(len + 1..).unwrap_or_default();
    if is_number
        && rest[len..].starts_with('.')
        && behind.starts_with(|sign: char| sign.is_ascii_digit())
    {
        return len + 1 + word(behind);
    }
    len
}

/// Finds which brackets belong together, and which bars are those of closures.
fn pair(tokens: &mut [Token<'_>]) {
    let mut open = Vec::new();
    let mut bars: Vec<usize> = Vec::new();
    for at in 0..tokens.len() {
        match tokens[at].text {
            "(" | "[" | "{" => open.push(at),
            ")" | "]" | "}" => {
                if let Some(mate) = open.pop() {
                    (tokens[at].mate, tokens[mate].mate) = (mate, at);
                }
            }
            "|" if bars.last() == Some(&open.len()) => {
                bars.pop();
                tokens[at].is_closure_bar = true;
            }
            "|" | "||" if at > 0 && !ends_operand(&tokens[at - 1]) => {
                tokens[at].is_closure_bar = true;
                if tokens[at].text == "|" {
                    bars.push(open.len());
                }
            }
            _ => {}
        }
    }
}

fn ends_operand(token: &Token<'_>) -> bool {
    let is_operand = token.is_word() || token.text.starts_with(['"', '\'']);
    (is_operand && !OPENERS.contains(&token.text)) || matches!(token.text, ")" | "]" | "?" | "}")
}

/// Whether no side of a comparison goes beyond this token.
fn is_border(token: &Token<'_>) -> bool {
    const SIGNS: &[&str] = &[
        "&&", "||", "=", "==", "!=", "<=", ">=", "+=", "-=", "*=", "/=", "|=", "&=", "..", "..=",
        ",", ";", "=>", "->", ":",
    ];
    token.is_closure_bar || SIGNS.contains(&token.text) || OPENERS.contains(&token.text)
}

/// The first and the last token of the two sides of the comparison at `sign`.
pub(super) fn sides(tokens: &[Token<'_>], sign: usize) -> Option<(usize, usize)> {
    let mut first = sign;
    while first > 0 {
        let before = &tokens[first - 1];
        first = match before.text {
            ")" | "]" => before.mate,
            "(" | "[" | "{" | "}" => break,
            _ if is_border(before) => break,
            _ => first - 1,
        };
    }
    let mut last = sign;
    while let Some(behind) = tokens.get(last + 1) {
        last = match behind.text {
            "(" | "[" => behind.mate,
            ")" | "]" | "{" | "}" => break,
            _ if is_border(behind) => break,
            _ => last + 1,
        };
    }
    (first < sign && last > sign).then_some((first, last))
}

/// The first token of what the method behind the point at `point` is called on.
pub(super) fn receiver(tokens: &[Token<'_>], point: usize) -> Option<usize> {
    let mut first = point;
    loop {
        let before = tokens.get(first.checked_sub(1)?)?;
        match before.text {
            "?" => first -= 1,
            ")" | "]" => {
                first = before.mate;
                let called = tokens.get(first.checked_sub(1)?)?;
                let goes_on = called.is_word() && !OPENERS.contains(&called.text);
                if !goes_on && !matches!(called.text, ")" | "]" | "?" | ">") {
                    return Some(first);
                }
            }
            ">" => {
                // The types of a call: `sum::<u32>()`.
                let open = tokens[..first]
                    .iter()
                    .rposition(|token| token.text == "<")?;
                first = open;
            }
            "::" | "." => first -= 1,
            _ if before.is_word() => {
                first -= 1;
                let joint = first.checked_sub(1).and_then(|at| tokens.get(at));
                if !joint.is_some_and(|joint| matches!(joint.text, "." | "::")) {
                    return Some(first);
                }
            }
            _ => return None,
        }
    }
}
