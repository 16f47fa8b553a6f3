//! XL text to tokens with their lines.
//!
//! First step of the importer: the lexer rules of XL's grammar. Block comments nest, as they do
//! there.

use super::XlError;

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A name or a keyword.
    Word(String),
    /// A number.
    Number(u64),
    /// What stands in double quotes.
    Quoted(String),
    /// An index: first byte and count.
    Index(u64, u64),
    /// Anything else.
    Sign(&'static str),
}

/// Most bytes of a file.
const LEN_MAX: usize = 1 << 20;

/// Signs, each before those that begin it.
const SIGNS: [&str; 19] = [
    "==", "<=", ">=", "!=", "=", "<", ">", "+", "-", "*", "/", "%", ",", ";", "(", ")", "{", "}",
    ".",
];

/// All tokens of a text, with the line of each.
pub(super) fn tokens(file: &str, text: &str) -> Result<Vec<(Token, usize)>, XlError> {
    let mut found = Vec::new();
    let (mut rest, mut line) = (text, 1);
    if text.len() > LEN_MAX {
        return Err(XlError::new(
            file,
            1,
            "the file is too long",
            "write at most 1 MiB",
        ));
    }
    loop {
        let blank = rest.len() - rest.trim_start().len();
        line += rest[..blank].matches('\n').count();
        rest = &rest[blank..];
        if rest.is_empty() {
            return Ok(found);
        }
        if rest.starts_with("//") {
            rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
            continue;
        }
        let fail = |message: &str, repair: &str| Err(XlError::new(file, line, message, repair));
        if rest.starts_with("/*") {
            let Some(end) = comment_end(rest) else {
                return fail("a comment does not end", "write */");
            };
            line += rest[..end].matches('\n').count();
            rest = &rest[end..];
            continue;
        }
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (token, len) = if rest.starts_with(|c: char| c.is_ascii_digit()) {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            let digits = &rest[..end];
            let hex = digits
                .strip_prefix("0x")
                .or_else(|| digits.strip_prefix("0X"));
            let number = match hex {
                Some(hex) => u64::from_str_radix(hex, 16),
                None => digits.parse(),
            };
            match number {
                Ok(number) => (Token::Number(number), end),
                Err(_) => return fail("this is no number", "write one below 2^64"),
            }
        } else if rest.starts_with(is_word) {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            (Token::Word(rest[..end].to_owned()), end)
        } else if let Some(quoted) = rest.strip_prefix('"') {
            match quoted.find(['"', '\n']) {
                Some(end) if quoted[end..].starts_with('"') => {
                    (Token::Quoted(quoted[..end].to_owned()), end + 2)
                }
                _ => return fail("a quote does not end", "write \""),
            }
        } else if rest.starts_with('[') {
            let end = rest.find(']');
            match end.and_then(|end| Some((end, index(&rest[1..end])?))) {
                Some((end, (from, count))) => (Token::Index(from, count), end + 1),
                None => return fail("this is no index", "write [FROM:+COUNT] or [FROM:TO]"),
            }
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            (Token::Sign(sign), sign.len())
        } else {
            return fail("this character is not XL's", "remove it");
        };
        found.push((token, line));
        rest = &rest[len..];
    }
}

/// Behind the end of a comment, in which others may stand.
fn comment_end(text: &str) -> Option<usize> {
    let (mut at, mut depth) = (0, 0_u32);
    loop {
        let rest = &text[at..];
        let close = rest.find("*/")?;
        // Looked for in front of the end alone, so that no part is looked at twice.
        if let Some(open) = rest[..close].find("/*") {
            at += open + 2;
            depth += 1;
            continue;
        }
        at += close + 2;
        depth = depth.checked_sub(1)?;
        if depth == 0 {
            return Some(at);
        }
    }
}

/// `12`, `12:+4` or `12:16` as first byte and count.
fn index(text: &str) -> Option<(u64, u64)> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    match text.split_once(':') {
        None => Some((number(text)?, 1)),
        Some((from, to)) => {
            let from = number(from)?;
            match to.trim().strip_prefix('+') {
                Some(count) => Some((from, number(count)?)),
                None => Some((from, number(to)?.checked_sub(from)?)),
            }
        }
    }
}
