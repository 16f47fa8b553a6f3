//! Defaults that documents name, for tests that hold them against the code.

use std::fmt::Debug;

use catena_engine::config::parse_config;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Defaults of a kind's settings, as its table in `docs/reference/epon.md` has them.
pub(crate) fn defaults(kind: &str) -> Map<String, Value> {
    let page = include_str!("../../../docs/reference/epon.md");
    let (_, section) = page.split_once(&format!("\n## `{kind}`\n")).unwrap();
    let (_, table) = section.split_once("\n|---|").unwrap();
    let rows = table.lines().skip(1).take_while(|row| row.starts_with('|'));
    let read = |row: &str| {
        let mut cells = row.trim_matches('|').split('|').map(str::trim);
        let name = cells.next()?.trim_matches('`').to_owned();
        let cell = cells.nth(1)?;
        let text = cell.trim_matches('`');
        // What is neither a number nor in the form of code is a sentence.
        let value = serde_json::from_str(text).ok();
        let value = value.or_else(|| (text != cell).then(|| text.into()))?;
        Some((name, value))
    };
    rows.filter_map(read).collect()
}

/// Settings that are left out are those that the table names.
#[track_caller]
pub(crate) fn assert_defaults<T: Debug + DeserializeOwned>(kind: &str, required: &Value) {
    let named = defaults(kind);
    assert!(named.len() > 2, "{kind}: {named:?}");
    let mut written = required.clone();
    written.as_object_mut().unwrap().extend(named);
    let left_out: T = parse_config(required).unwrap();
    let written: T = parse_config(&written).unwrap();
    assert_eq!(format!("{left_out:?}"), format!("{written:?}"), "{kind}");
}

/// Rows of the table of `docs/internals/epon-limits.md` under a heading, as `name: value`.
pub(crate) fn fields_of(station: &str) -> Vec<String> {
    let page = include_str!("../../../docs/internals/epon-limits.md");
    let (_, section) = page.split_once("\n## Defaults\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let front = format!("| {station} | `");
    let rows = section.lines().filter_map(|line| line.strip_prefix(&front));
    let field = |row: &str| {
        let mut cells = row.split('|').map(str::trim);
        let name = cells.next().unwrap().trim_end_matches('`');
        format!("{name}: {},", cells.next().unwrap())
    };
    rows.map(field).collect()
}

/// Fields of a value that are one line in its `Debug`.
pub(crate) fn fields_shown(value: &impl Debug) -> Vec<String> {
    let shown = format!("{value:#?}");
    let lines = shown.lines().filter(|line| line.starts_with("    "));
    let own = lines.filter(|line| !line.starts_with("     ") && line.ends_with(','));
    let fields = own.map(str::trim).filter(|line| line.contains(": "));
    fields.map(str::to_owned).collect()
}
