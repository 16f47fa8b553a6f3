//! What can be broken in a crate, by rules on its source.
//!
//! | rule | breaks |
//! |---|---|
//! | a comparison of order | with the neighbouring value; always true; always false |
//! | `.min(...)`, `.max(...)`, `.clamp(...)` | left out |
//! | a range that must contain something | either end, one less and one more |
//! | a number or truth value of a default | one less and one more; the opposite |
//! | a constant that is a number, or a range of numbers | one less and one more, at each end |
//!
//! The first four are built in all at once, and switched on one by one; constants, and what must be
//! constant, are built one by one.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::path::{Path, PathBuf};

use super::tokens::{Token, receiver, sides, tokens};

/// A part of a file, and what stands there instead when one of its breaks is on.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) file: PathBuf,
    pub(super) line: usize,
    from: usize,
    to: usize,
    /// What stands in front of it, where it says nothing by itself: the name of a constant.
    front: String,
    /// What stands there, and instead.
    pub(super) original: String,
    pub(super) instead: Vec<String>,
    /// Whether it is built with a switch, and not alone.
    pub(super) is_switched: bool,
}

impl Place {
    /// What stands there, for people.
    pub(super) fn shown(&self) -> String {
        format!("{}{}", self.front, self.original)
    }

    /// What stands there instead, for people.
    pub(super) fn shown_instead(&self, which: usize) -> String {
        const ENDS: [&str; 4] = [
            "from one less",
            "from one more",
            "to one less",
            "to one more",
        ];
        match self.instead[which].as_str() {
            text if text.starts_with(MOVED) => ENDS[which].to_owned(),
            text => text.to_owned(),
        }
    }
}

/// Gives a range one of whose ends is moved.
const MOVED: &str = "crate::broken::Ends::with_end_moved";

/// Breaks of all modules of a crate, whose root is `lib`, but for those of its tests.
///
/// # Errors
/// A module that cannot be read.
pub(super) fn places(root: &Path, lib: &Path) -> std::io::Result<Vec<Place>> {
    let mut found = Vec::new();
    let mut open = vec![lib.to_owned()];
    while let Some(file) = open.pop() {
        let source = std::fs::read_to_string(root.join(&file))?;
        let mut reading = Reading::new(&file, &source);
        reading.read();
        for path in reading.modules {
            let path = path.into_iter().find(|path| root.join(path).exists());
            open.extend(path);
        }
        found.extend(reading.places);
    }
    found.sort_by_key(|place| (place.file.clone(), place.from, std::cmp::Reverse(place.to)));
    Ok(found)
}

/// The source with a switch at each place that has one. `numbers` are those of the first break of
/// each place.
pub(super) fn switched(source: &str, places: &[(&Place, usize)]) -> String {
    let mut order: Vec<_> = places.to_vec();
    order.sort_by_key(|(place, _)| (place.from, std::cmp::Reverse(place.to)));
    render(source, 0, source.len(), &order)
}

/// The source with one break in it.
pub(super) fn broken(source: &str, place: &Place, which: usize) -> String {
    let (front, behind) = (&source[..place.from], &source[place.to..]);
    format!("{front}{}{behind}", place.instead[which])
}

fn render(source: &str, from: usize, to: usize, mut order: &[(&Place, usize)]) -> String {
    let (mut text, mut at) = (String::new(), from);
    while let Some((&(place, number), rest)) = order.split_first() {
        text.push_str(&source[at..place.from]);
        let inside = rest
            .iter()
            .take_while(|(inner, _)| inner.from < place.to)
            .count();
        text.push_str("(match crate::broken::chosen() {");
        for (way, instead) in place.instead.iter().enumerate() {
            text.push_str(&format!(" {} => {instead},", number + way));
        }
        let default = render(source, place.from, place.to, &rest[..inside]);
        text.push_str(&format!(" _ => {default} }})"));
        at = place.to;
        order = &rest[inside..];
    }
    text.push_str(&source[at..to]);
    text
}

/// A file that is read.
struct Reading<'a> {
    file: &'a Path,
    source: &'a str,
    tokens: Vec<Token<'a>>,
    places: Vec<Place>,
    /// Where each module may be.
    modules: Vec<Vec<PathBuf>>,
    /// Functions that give defaults of settings.
    defaults: Vec<&'a str>,
    /// Up to which token all is constant, and up to which it is a default.
    constant_to: usize,
    default_to: usize,
}

const NUMBERS: &[&str] = &["u8", "u16", "u32", "u64", "usize", "i32", "i64"];

impl<'a> Reading<'a> {
    fn new(file: &'a Path, source: &'a str) -> Self {
        let tokens = tokens(source);
        let named = |window: &[Token<'a>]| {
            let is_default = window[0].text == "default" && window[1].text == "=";
            is_default.then(|| window[2].text.trim_matches('"').rsplit("::").next())?
        };
        let defaults = tokens
            .windows(3)
            .filter_map(named)
            .chain(["default"])
            .collect();
        Self {
            file,
            source,
            tokens,
            defaults,
            places: Vec::new(),
            modules: Vec::new(),
            constant_to: 0,
            default_to: 0,
        }
    }

    fn text(&self, at: usize) -> &'a str {
        self.tokens.get(at).map_or("", |token| token.text)
    }

    fn is(&self, at: usize, texts: &[&str]) -> bool {
        texts
            .iter()
            .enumerate()
            .all(|(place, text)| self.text(at + place) == *text)
    }

    fn read(&mut self) {
        let mut at = 0;
        while at < self.tokens.len() {
            if self.is(at, &["#", "[", "cfg", "(", "test", ")", "]"])
                || self.is(at, &["macro_rules", "!"])
                || self.is(at, &["debug_assert", "!"])
                || self.is(at, &["debug_assert_eq", "!"])
            {
                at = self.end_of_item(at) + 1;
                continue;
            }
            match self.text(at) {
                "mod" if self.text(at + 2) == ";" => self.module(at),
                "const" => self.constant(at),
                "static" => self.constant_to = self.end_of_item(at),
                "fn" if self.defaults.contains(&self.text(at + 1)) => {
                    self.default_to = self.end_of_item(at);
                }
                "<" | "<=" | ">" | ">=" => self.comparison(at),
                "." if self.text(at + 2) == "(" => self.call(at),
                text if at < self.default_to => self.number(at, text),
                _ => {}
            }
            at += 1;
        }
    }

    /// The last token of the item that begins at `at`: a semicolon, or a block.
    fn end_of_item(&self, mut at: usize) -> usize {
        while at < self.tokens.len() {
            match self.text(at) {
                "{" => return self.tokens[at].mate,
                ";" => return at,
                "(" | "[" => at = self.tokens[at].mate.max(at),
                _ => {}
            }
            at += 1;
        }
        at
    }

    fn module(&mut self, at: usize) {
        let name = self.text(at + 1);
        let folder = self.file.parent().unwrap_or(Path::new(""));
        let stem = self.file.file_stem().unwrap_or_default();
        let own = match stem.to_str() {
            Some("lib" | "mod") => folder.to_owned(),
            _ => folder.join(stem),
        };
        let mut paths = vec![
            own.join(format!("{name}.rs")),
            own.join(name).join("mod.rs"),
        ];
        // `#[path = "..."]` stands in front, perhaps before `pub(...)`.
        let front = &self.tokens[at.saturating_sub(9)..at];
        if let Some(attribute) = front
            .windows(3)
            .rfind(|three| three[0].text == "path" && three[1].text == "=")
            && !front
                .iter()
                .rev()
                .take_while(|token| token.at > attribute[2].at)
                .any(|token| token.text == ";")
        {
            paths.insert(0, folder.join(attribute[2].text.trim_matches('"')));
        }
        self.modules.push(paths);
    }

    fn constant(&mut self, at: usize) {
        let is_item = self.text(at + 2) == ":";
        if !is_item && !matches!(self.text(at + 1), "fn" | "{") {
            return;
        }
        let end = self.end_of_item(at);
        self.constant_to = self.constant_to.max(end);
        let Some(sign) = (at..end)
            .find(|place| self.text(*place) == "=")
            .filter(|_| is_item)
        else {
            return;
        };
        let (from, to) = (sign + 1, end - 1);
        if NUMBERS.contains(&self.text(at + 3)) && self.text(at + 4) == "=" {
            self.moved(from, to, 1);
        } else if (at..sign).any(|place| self.text(place) == "RangeInclusive")
            && let Some(dots) = (from..to).find(|place| self.text(*place) == "..=")
        {
            self.moved(from, dots - 1, 1);
            self.moved(dots + 1, to, 1);
        }
    }

    /// The expression in these tokens, one less and one more.
    fn moved(&mut self, from: usize, to: usize, by: u32) {
        let text = self.between(from, to);
        let text = if from == to {
            text
        } else {
            format!("({text})")
        };
        self.place(
            from,
            to,
            vec![format!("{text} - {by}"), format!("{text} + {by}")],
        );
    }

    fn comparison(&mut self, at: usize) {
        let token = self.tokens[at];
        let beside = |place: usize| {
            self.source
                .as_bytes()
                .get(place)
                .is_some_and(u8::is_ascii_whitespace)
        };
        if !beside(token.at - 1) || !beside(token.end()) {
            return;
        }
        let Some((first, last)) = sides(&self.tokens, at) else {
            return;
        };
        let neighbour = match token.text {
            "<" => "<=",
            "<=" => "<",
            ">" => ">=",
            _ => ">",
        };
        let (left, right) = (self.between(first, at - 1), self.between(at + 1, last));
        let instead = vec![
            format!("{left} {neighbour} {right}"),
            "true".into(),
            "false".into(),
        ];
        self.place(first, last, instead);
    }

    fn call(&mut self, point: usize) {
        let close = self.tokens[point + 2].mate;
        let Some(first) = receiver(&self.tokens, point).filter(|_| close > point + 3) else {
            return;
        };
        let on = self.between(first, point - 1);
        match self.text(point + 1) {
            "min" | "max" | "clamp" => self.place(first, close, vec![on]),
            "contains" if self.is_range(first, point - 1) => {
                let call = self.between(point, close);
                let ways = (0..4).map(|way| format!("{MOVED}(&{on}, {way}){call}"));
                self.place(first, close, ways.collect());
            }
            _ => {}
        }
    }

    /// Whether these tokens are a range in brackets, a constant, or what is called limits.
    fn is_range(&self, first: usize, last: usize) -> bool {
        let in_brackets = self.tokens[first].mate == last && first < last;
        let has_dots = (first..last).any(|at| matches!(self.text(at), ".." | "..="));
        let name = self.text(last);
        (in_brackets && has_dots)
            || name == "limits"
            || !name.contains(|sign: char| sign.is_lowercase())
    }

    fn number(&mut self, at: usize, text: &str) {
        match text {
            "true" => self.place(at, at, vec!["false".into()]),
            "false" => self.place(at, at, vec!["true".into()]),
            _ if text.starts_with(|sign: char| sign.is_ascii_digit()) && !text.contains('.') => {
                let more = format!("{text} + 1");
                let ways = if text == "0" {
                    vec![more]
                } else {
                    vec![format!("{text} - 1"), more]
                };
                self.place(at, at, ways);
            }
            _ => {}
        }
    }

    /// The source from one token to another, on one line.
    fn between(&self, first: usize, last: usize) -> String {
        let (from, to) = (self.tokens[first].at, self.tokens[last].end());
        let words: Vec<_> = self.source[from..to].split_whitespace().collect();
        words.join(" ")
    }

    /// Name and sign in front of the value of a constant or a field.
    fn front(&self, first: usize) -> String {
        let Some(mut at) = first.checked_sub(2) else {
            return String::new();
        };
        match self.text(first - 1) {
            ":" => format!("{}: ", self.text(at)),
            "=" => {
                while at > 0 && !matches!(self.text(at), "const" | "let" | ";" | "{" | "}") {
                    at -= 1;
                }
                match self.text(at) {
                    "const" => format!("{} = ", self.text(at + 1)),
                    _ => String::new(),
                }
            }
            "..=" => format!("{}..=", self.text(at)),
            _ => String::new(),
        }
    }

    fn place(&mut self, first: usize, last: usize, instead: Vec<String>) {
        let (from, to) = (self.tokens[first].at, self.tokens[last].end());
        let original = self.between(first, last);
        // A comment would swallow what follows it on the line.
        if original.contains("//") {
            return;
        }
        self.places.push(Place {
            file: self.file.to_owned(),
            line: self.source[..from].matches('\n').count() + 1,
            from,
            to,
            front: self.front(first),
            original,
            instead,
            is_switched: first >= self.constant_to,
        });
    }
}
