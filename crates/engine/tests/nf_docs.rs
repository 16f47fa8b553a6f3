//! The documents about NFs say what the code does: every NF, setting and drop, and examples that
//! build.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use catena_engine::nf::{BuildContext, DropReason, NfKind};
use catena_engine::nfs::KINDS;
use serde_json::Value;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Sections of the reference: title and text.
fn sections(document: &str) -> Vec<(&str, &str)> {
    let sections = document.split("\n## ").skip(1);
    sections
        .map(|section| {
            let (title, text) = section.split_once('\n').unwrap();
            (title.trim_matches('`'), text)
        })
        .collect()
}

/// Bodies of the fenced blocks of `language`.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    let blocks = text.split(fence.as_str()).skip(1);
    blocks
        .map(|rest| &rest[..rest.find("```\n").expect("the block ends")])
        .collect()
}

/// Words in backticks.
fn quoted(text: &str) -> BTreeSet<&str> {
    text.lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .collect()
}

/// Names of all settings in a JSON Schema, those of nested structures too.
fn setting_names(schema: &Value, names: &mut BTreeSet<String>) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::Object(properties)) = members.get("properties") {
                names.extend(properties.keys().cloned());
            }
            for member in members.values() {
                setting_names(member, names);
            }
        }
        Value::Array(items) => {
            for item in items {
                setting_names(item, names);
            }
        }
        _ => {}
    }
}

/// Settings without a description, which would leave editors without help.
fn undescribed(schema: &Value, found: &mut Vec<String>) {
    if let Value::Object(members) = schema {
        if let Some(Value::Object(properties)) = members.get("properties") {
            let bare = properties
                .iter()
                .filter(|(_, setting)| setting.get("description").is_none());
            found.extend(bare.map(|(name, _)| name.clone()));
        }
        for member in members.values() {
            undescribed(member, found);
        }
    }
}

/// Builds each NF in an example, with the outputs that its links name.
fn build_example(yaml: &str, source: &str) -> usize {
    let chain: Value =
        serde_saphyr::from_str(yaml).unwrap_or_else(|error| panic!("{source}: {error}"));
    let nfs = chain["nfs"]
        .as_object()
        .unwrap_or_else(|| panic!("{source}: nfs"));
    for (name, config) in nfs {
        let mut config = config.as_object().unwrap().clone();
        let kind = config.remove("type").unwrap();
        let kind = kind_of(kind.as_str().unwrap());
        let links = chain["links"].as_array().into_iter().flatten();
        let left = links.filter_map(|link| link.as_str()?.split(" -> ").next());
        let outputs: Vec<String> = left
            .filter_map(|left| match left.split_once('.') {
                Some((node, output)) if node == name => Some(output.to_owned()),
                None if left == name => Some("out".to_owned()),
                _ => None,
            })
            .collect();
        let config = Value::Object(config);
        let plan = (kind.plan)(&config, &outputs);
        let plan = plan.unwrap_or_else(|errors| panic!("{source}, {name}: {errors:?}"));
        for output in &outputs {
            assert!(plan.outputs.contains(output), "{source}: {name}.{output}");
        }
        let built = (kind.build)(&config, &mut BuildContext::alone(&plan.outputs));
        assert!(built.is_ok(), "{source}, {name}: {built:?}");
    }
    nfs.len()
}

/// Drop reasons that the examples of a section are planned with.
fn own_reasons(text: &str, title: &str) -> BTreeSet<String> {
    let mut own = BTreeSet::new();
    for yaml in blocks(text, "yaml") {
        let chain: Value = serde_saphyr::from_str(yaml).unwrap();
        for config in chain["nfs"].as_object().unwrap().values() {
            let mut config = config.as_object().unwrap().clone();
            if config.remove("type").is_none_or(|kind| kind != title) {
                continue;
            }
            let outputs = ["a", "b"].map(str::to_owned);
            let plan = (kind_of(title).plan)(&Value::Object(config), &outputs).unwrap();
            own.extend(plan.drop_reasons);
        }
    }
    own
}

fn kind_of(name: &str) -> &'static NfKind {
    KINDS
        .iter()
        .find(|kind| kind.name == name)
        .unwrap_or_else(|| panic!("no NF is called {name}"))
}

#[test]
fn the_reference_has_a_section_for_each_nf_in_order() {
    let document = read("docs/reference/nfs.md");
    let titles: Vec<_> = sections(&document)
        .iter()
        .map(|(title, _)| *title)
        .collect();
    let names: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
    assert_eq!(titles, names, "sections of docs/reference/nfs.md");
    assert!(names.is_sorted(), "KINDS are in alphabetical order");
}

#[test]
fn each_setting_is_described_and_named_in_its_section() {
    let document = read("docs/reference/nfs.md");
    for (title, text) in sections(&document) {
        let schema = (kind_of(title).schema)();
        let mut names = BTreeSet::new();
        setting_names(schema.as_value(), &mut names);
        let quoted = quoted(text);
        for name in names {
            assert!(
                quoted.contains(name.as_str()),
                "`{name}` in section {title}"
            );
        }
        let mut bare = Vec::new();
        undescribed(schema.as_value(), &mut bare);
        assert!(
            bare.is_empty(),
            "{title}: settings without a comment: {bare:?}"
        );
    }
}

#[test]
fn each_drop_in_the_reference_is_a_drop_reason_and_in_the_source() {
    let document = read("docs/reference/nfs.md");
    for (title, text) in sections(&document) {
        let own = own_reasons(text, title);
        let mut named = BTreeSet::new();
        let Some((_, table)) = text.split_once("| Drop | When |\n|---|---|\n") else {
            continue;
        };
        for row in table.lines().take_while(|line| line.starts_with('|')) {
            let name = row.split('`').nth(1).unwrap();
            named.insert(name.to_owned());
            let known = DropReason::ALL.iter().any(|reason| reason.name() == name);
            let known = known || own.contains(name);
            assert!(known, "{title}: `{name}` is not a drop reason");
            let source = read(&format!("crates/engine/src/nfs/{title}.rs"));
            let header: String = source
                .lines()
                .take_while(|line| line.starts_with("//!"))
                .collect();
            assert!(
                header.contains(&format!("`{name}`")),
                "`{name}` in the header of {title}.rs"
            );
        }
        let missing: Vec<_> = own.difference(&named).collect();
        assert!(missing.is_empty(), "{title}: {missing:?} are not told");
    }
}

#[test]
fn each_section_and_each_source_has_an_example_that_builds() {
    let document = read("docs/reference/nfs.md");
    for (title, text) in sections(&document) {
        let examples = blocks(text, "yaml");
        let built: usize = examples.iter().map(|yaml| build_example(yaml, title)).sum();
        assert!(built > 0, "section {title} has an example");

        let source = read(&format!("crates/engine/src/nfs/{title}.rs"));
        let header = source.lines().map_while(|line| line.strip_prefix("//!"));
        let header = header.map(|line| line.strip_prefix(' ').unwrap_or(line));
        let header: String = header.flat_map(|line| [line, "\n"]).collect();
        for yaml in blocks(&header, "yaml") {
            build_example(yaml, &format!("{title}.rs"));
        }
    }
}

#[test]
fn the_walk_through_shows_the_example_that_is_tested() {
    let page = read("docs/guide/first-nf.md");
    let example = read("examples/own-nf/src/sample.rs");
    // Not by `blocks`: the example holds a fence of its own, in its header.
    let (_, rest) = page.split_once("```rust\n").unwrap();
    assert!(
        rest.starts_with(&format!("{example}```\n")),
        "the code block of docs/guide/first-nf.md differs from examples/own-nf/src/sample.rs"
    );
}
