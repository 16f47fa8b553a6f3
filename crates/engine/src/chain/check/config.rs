//! What a kind says about its configuration, put where it belongs in the file.
//!
//! A kind knows paths like `rules[2].src`; here they become lines and columns. What its
//! deserialiser says of unknown and missing fields is put into the words of the other errors.

use super::fields::suggestion;
use crate::chain::diagnostic::{Position, Report};
use crate::chain::parse::{Tree, Value};
use crate::config::ConfigError;

/// Whose configuration is being checked.
pub(super) struct Subject<'a> {
    /// The kind's name.
    pub(super) kind: &'static str,
    /// Its configuration's schema.
    pub(super) schema: fn() -> schemars::Schema,
    /// Where it is named, for errors about the whole.
    pub(super) at: Position,
    /// Its configuration.
    pub(super) tree: &'a Tree,
}

impl Subject<'_> {
    /// Reports everything a kind found.
    pub(super) fn report(&self, report: &mut Report<'_>, errors: Vec<ConfigError>) {
        let mut lacking = self.lacking();
        // A key that is misspelt is not missing as well.
        for error in &errors {
            if let Some((field, known)) = unknown_field(&error.message) {
                let meant = suggestion(field, &known);
                lacking.retain(|field| meant != format!("write {field}"));
            }
        }
        let is_told = |error: &ConfigError| {
            error.path.is_empty()
                && error.message.starts_with(MISSING)
                && !self.lacking().is_empty()
        };
        for field in &lacking {
            let message = format!("{} lacks \"{field}\"", self.kind);
            report.error(self.at, message, self.add(field));
        }
        for error in errors {
            if !is_told(&error) {
                self.report_one(report, error);
            }
        }
    }

    /// Settings that the kind requires and that are not there: a deserialiser names only one.
    fn lacking(&self) -> Vec<String> {
        let schema = (self.schema)().to_value();
        let given = |key: &str| match &self.tree.value {
            Value::Map(entries) => entries.iter().any(|entry| entry.key == key),
            _ => false,
        };
        let required = schema["required"].as_array().into_iter().flatten();
        let required = required.filter_map(|key| key.as_str());
        let lacking = required.filter(|key| !given(key));
        lacking.map(str::to_owned).collect()
    }

    fn report_one(&self, report: &mut Report<'_>, error: ConfigError) {
        if let Some((field, known)) = unknown_field(&error.message) {
            return self.unknown(report, &error.path, field, &known);
        }
        let at = self.tree.locate(&error.path).unwrap_or(self.at);
        if let Some(field) = error.message.strip_prefix(MISSING) {
            let field = field.split('`').next().unwrap_or_default();
            let within = error.path.is_empty();
            let whole = if within { self.kind } else { &error.path };
            return report.error(at, format!("{whole} lacks \"{field}\""), self.add(field));
        }
        let (message, repair) = match error.repair {
            Some(repair) => (error.message, repair),
            None => self.split(&error.message),
        };
        let message = match error.path.as_str() {
            "" => format!("{}: {message}", self.kind),
            path => format!("{path}: {message}"),
        };
        report.error(at, message, repair);
    }

    /// A sentence of the deserialiser as what is wrong and what to write instead.
    fn split(&self, message: &str) -> (String, String) {
        if let Some(rest) = message.strip_prefix("unknown variant `") {
            let mut words = rest.split('`').step_by(2);
            let word = words.next().unwrap_or_default();
            let known: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
            return (format!("there is no \"{word}\""), suggestion(word, &known));
        }
        if let Some((message, expected)) = message.split_once(", expected ") {
            return (message.to_owned(), format!("write {}", plain(expected)));
        }
        match message.split_once("; ") {
            Some((message, repair)) => (message.to_owned(), repair.to_owned()),
            None => (message.to_owned(), self.fields()),
        }
    }

    fn unknown(&self, report: &mut Report<'_>, path: &str, field: &str, known: &[&str]) {
        let parent = path.strip_suffix(field).unwrap_or(path);
        let parent = parent.trim_end_matches('.');
        let at = key_position(self.tree, parent, field).unwrap_or(self.at);
        let whole = if parent.is_empty() { self.kind } else { parent };
        report.error(
            at,
            format!("unknown key \"{field}\" in {whole}"),
            suggestion(field, known),
        );
    }

    /// "add rate: 10kpps", with the schema's example if it has one.
    fn add(&self, field: &str) -> String {
        let schema = (self.schema)().to_value();
        let property = &schema["properties"][field];
        let target = property["$ref"]
            .as_str()
            .and_then(|path| schema.pointer(path.trim_start_matches('#')));
        let examples = [Some(property), target].into_iter().flatten();
        let example = examples
            .filter_map(|schema| schema["examples"].get(0))
            .find_map(|example| example.as_str());
        match example {
            Some(example) => format!("add {field}, like {field}: {example}"),
            None => format!("add {field}: and its value"),
        }
    }

    fn fields(&self) -> String {
        let schema = (self.schema)().to_value();
        let names = schema["properties"].as_object().map(|fields| {
            let names: Vec<&str> = fields.keys().map(String::as_str).collect();
            names.join(", ")
        });
        match names.filter(|names| !names.is_empty()) {
            Some(names) => format!("{} takes {names}", self.kind),
            None => format!("{} takes no settings", self.kind),
        }
    }
}

/// How a deserialiser's sentence about a field that it needs begins.
const MISSING: &str = "missing field `";

/// The field and those that there are, if a deserialiser's sentence is about one that it does not
/// know.
fn unknown_field(message: &str) -> Option<(&str, Vec<&str>)> {
    let rest = message.strip_prefix("unknown field `")?;
    let mut words = rest.split('`').step_by(2);
    let field = words.next().unwrap_or_default();
    Some((field, words.filter(|word| !word.is_empty()).collect()))
}

/// What serde calls a type, as a writer of YAML would.
fn plain(expected: &str) -> &str {
    match expected {
        "a string" | "a borrowed string" => "text",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, not below 0",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        other if other.starts_with("struct ") => "a map",
        other => other,
    }
}

fn key_position(tree: &Tree, parent: &str, field: &str) -> Option<Position> {
    let holder = tree.find(parent)?;
    let Value::Map(entries) = &holder.value else {
        return Some(holder.at);
    };
    let entry = entries.iter().find(|entry| entry.key == field);
    entry.map(|entry| entry.at)
}
