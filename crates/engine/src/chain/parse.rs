//! Chain file text to a tree in which every key and value knows its line and column.
//!
//! First step of loading a chain. YAML 1.2 with merge keys; `yes` and `no` are text. Duplicate keys
//! are refused, all of them at once. Limits, since a file may come from anywhere: 1 MiB of text, 32
//! levels, 200,000 values, 10,000 values repeated through aliases.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, Location, Options, Spanned};

use super::diagnostic::{Position, Report};

/// Most bytes of a chain file.
pub const FILE_BYTES_MAX: usize = 1 << 20;
/// Most levels of maps and lists: bounds the stack of everything that walks the tree.
const DEPTH_MAX: usize = 32;
/// Most values in a file.
const VALUE_COUNT_MAX: usize = 200_000;
/// Most values that aliases may repeat.
const ALIASED_COUNT_MAX: usize = 10_000;

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) at: Position,
    pub(super) value: Value,
}

/// A map's key, where it stands, and its value.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) at: Position,
    pub(super) tree: Tree,
}

impl Entry {
    /// Whether nothing stands behind the key, or an empty list or map.
    pub(super) fn is_empty(&self) -> bool {
        match &self.tree.value {
            Value::Null => true,
            Value::List(items) => items.is_empty(),
            Value::Map(entries) => entries.is_empty(),
            _ => false,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Number(serde_json::Number),
    Text(String),
    List(Vec<Tree>),
    Map(Vec<Entry>),
    /// Something that cannot be read, and was said to be wrong.
    Broken,
}

impl Tree {
    /// What it is, in a sentence: "a list".
    pub(super) fn noun(&self) -> &'static str {
        match self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
            Value::Broken => "what cannot be read",
        }
    }

    /// A scalar as it was meant, or what else it is.
    pub(super) fn shown(&self) -> String {
        match &self.value {
            Value::Bool(value) => value.to_string(),
            Value::Number(value) => value.to_string(),
            Value::Text(value) => value.clone(),
            _ => self.noun().to_owned(),
        }
    }

    /// The value as JSON, as NFs and ports take it.
    pub(super) fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null | Value::Broken => serde_json::Value::Null,
            Value::Bool(value) => (*value).into(),
            Value::Number(value) => value.clone().into(),
            Value::Text(value) => value.clone().into(),
            Value::List(items) => items.iter().map(Self::to_json).collect(),
            Value::Map(entries) => entries_to_json(entries),
        }
    }

    /// Where the value at `path` (as in `rules[2].src`) stands, or else its nearest parent that is
    /// in the file; `None` if that is this tree itself.
    pub(super) fn locate(&self, path: &str) -> Option<Position> {
        let mut here = self;
        let mut found = None;
        for step in steps(path) {
            let Some(next) = here.child(&step) else { break };
            here = next;
            found = Some(next.at);
        }
        found
    }

    /// The value at `path`.
    pub(super) fn find(&self, path: &str) -> Option<&Self> {
        steps(path).try_fold(self, |here, step| here.child(&step))
    }

    fn child(&self, step: &Step<'_>) -> Option<&Self> {
        match (&self.value, step) {
            (Value::Map(entries), Step::Key(key)) => entries
                .iter()
                .find(|entry| entry.key == *key)
                .map(|entry| &entry.tree),
            (Value::List(items), Step::Index(index)) => items.get(*index),
            _ => None,
        }
    }
}

/// A map's entries as a JSON object.
pub(super) fn entries_to_json<'a>(
    entries: impl IntoIterator<Item = &'a Entry>,
) -> serde_json::Value {
    let pairs = entries
        .into_iter()
        .map(|entry| (entry.key.clone(), entry.tree.to_json()));
    serde_json::Value::Object(pairs.collect())
}

enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

fn steps(path: &str) -> impl Iterator<Item = Step<'_>> {
    path.split(['.', '['])
        .filter(|step| !step.is_empty())
        .map(|step| match step.strip_suffix(']').map(str::parse) {
            Some(Ok(index)) => Step::Index(index),
            _ => Step::Key(step),
        })
}

/// Parses the text; errors go into `report`.
pub(super) fn parse(text: &str, report: &mut Report<'_>) -> Option<Tree> {
    if report_too_long(text, report) {
        return None;
    }
    match read(text) {
        Ok(raw) => Some(tree(raw, report)),
        Err((at, message)) => {
            report_syntax(report, at, &message, "");
            None
        }
    }
}

pub(super) fn report_too_long(text: &str, report: &mut Report<'_>) -> bool {
    let is_too_long = text.len() > FILE_BYTES_MAX;
    if is_too_long {
        report.error(
            Position::FILE,
            format!("the file has more than {FILE_BYTES_MAX} bytes"),
            "split it into several chains",
        );
    }
    is_too_long
}

/// The values of a text; else where the first syntax error is, and the parser's words.
pub(super) fn read(text: &str) -> Result<Spanned<Raw>, (Position, String)> {
    serde_saphyr::from_str_with_options::<Spanned<Raw>>(text, options()).map_err(|error| {
        let at = error.location().map_or(Position::FILE, position);
        let message = error.without_snippet().to_string();
        let message = message.rsplit_once(" at line ").map_or(&*message, |m| m.0);
        (at, message.to_owned())
    })
}

/// Reports a syntax error; what the parser says of its limits is put into words. `rest` is added
/// to what is said.
pub(super) fn report_syntax(report: &mut Report<'_>, at: Position, message: &str, rest: &str) {
    let has = |word: &str| message.contains(word);
    let (at, message, repair) = if has("Documents") {
        let message = "the file holds several YAML documents";
        (at, message, "keep one chain per file")
    } else if has("budget") || has("limit") {
        let message = "the file is too large, too deep, or repeats too much";
        (at, message, "make it smaller and flatter")
    } else if has("tab") {
        (report.first_tab(at), message, "indent with spaces")
    } else if has("mapping values are not allowed") {
        let repair = "put a value that holds \": \" in quotes, or start a new line";
        (at, message, repair)
    } else if has("unclosed") || has("':' indicator") {
        let repair = "close what is open: every [ needs a ], every { a }, every quote another";
        (at, message, repair)
    } else if has("anchor") || has("alias") {
        let repair = "name an anchor (&name) that stands above, or write the value out";
        (at, message, repair)
    } else if has("tag") {
        (at, message, "remove the tag")
    } else if has("string scalar") || has("into string") {
        (at, "a key must be a word", "write a plain word as the key")
    } else {
        let repair = "correct the YAML here, or put the value in quotes";
        (at, message, repair)
    };
    report.error(at, format!("{message}{rest}"), repair);
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_documents: 1,
            max_depth: DEPTH_MAX,
            max_nodes: VALUE_COUNT_MAX,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: ALIASED_COUNT_MAX,
            max_replay_stack_depth: 8,
        },
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        non_finite_float_policy: serde_saphyr::options::NonFiniteFloatPolicy::AsString,
        leading_zero_numbers_as_strings: true,
        strict_booleans: true,
        reject_unsupported_tags: true,
        emit_comments: false,
        with_snippet: false,
    }
}

fn position(location: Location) -> Position {
    let number = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    Position {
        line: number(location.line()),
        column: number(location.column()),
    }
}

/// Moves the parsed values into a tree, reporting every key that occurs twice.
pub(super) fn tree(raw: Spanned<Raw>, report: &mut Report<'_>) -> Tree {
    let at = position(raw.referenced);
    let value = match raw.value {
        Raw::Leaf(value) => value,
        Raw::List(items) => Value::List(items.into_iter().map(|raw| tree(raw, report)).collect()),
        Raw::Map(pairs) => Value::Map(entries(pairs, report)),
    };
    Tree { at, value }
}

fn entries(pairs: Vec<(Spanned<String>, Spanned<Raw>)>, report: &mut Report<'_>) -> Vec<Entry> {
    let mut first_lines = std::collections::HashMap::new();
    let mut entries = Vec::with_capacity(pairs.len());
    for (key, raw) in pairs {
        let at = position(key.referenced);
        let tree = tree(raw, report);
        if let Some(first) = first_lines.get(&key.value) {
            report.error(
                at,
                format!(
                    "\"{}\" occurs twice; it is on line {first} already",
                    key.value
                ),
                "remove or rename one of the two",
            );
            continue;
        }
        first_lines.insert(key.value.clone(), at.line);
        entries.push(Entry {
            key: key.value,
            at,
            tree,
        });
    }
    entries
}

/// What the YAML deserialiser gives, before duplicate keys are looked for.
pub(super) enum Raw {
    Leaf(Value),
    List(Vec<Spanned<Self>>),
    Map(Vec<(Spanned<String>, Spanned<Self>)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Leaf(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Leaf(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Leaf(Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw::Leaf(Value::Number(value.into())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
        Ok(Raw::Leaf(Value::Number(value.into())))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
        let number = serde_json::Number::from_f64(value);
        Ok(Raw::Leaf(number.map_or_else(
            || Value::Text(value.to_string()),
            Value::Number,
        )))
    }

    fn visit_str<E>(self, value: &str) -> Result<Raw, E> {
        Ok(Raw::Leaf(Value::Text(value.to_owned())))
    }

    fn visit_string<E>(self, value: String) -> Result<Raw, E> {
        Ok(Raw::Leaf(Value::Text(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Raw, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Raw::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Raw, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Raw::Map(map))
    }
}
