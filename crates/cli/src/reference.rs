//! The parts of docs/reference that are made from the code: a test fails when one is out of date,
//! and rewrites it where `CATENA_BLESS=1` is set.

use std::fmt::Write;
use std::path::PathBuf;

use clap::CommandFactory;

fn path(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/reference")
        .join(file)
}

/// The whole file is `wanted`.
pub(crate) fn check(file: &str, wanted: &str) {
    let path = path(file);
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    if found == wanted {
        return;
    }
    assert!(
        std::env::var_os("CATENA_BLESS").is_some_and(|value| value == "1"),
        "docs/reference/{file} is out of date: run CATENA_BLESS=1 cargo test --package catena"
    );
    std::fs::write(&path, wanted).unwrap();
}

/// The part between the lines `<!-- begin NAME -->` and `<!-- end NAME -->` is `wanted`.
pub(crate) fn check_part(file: &str, name: &str, wanted: &str) {
    let text = std::fs::read_to_string(path(file)).unwrap();
    let (begin, end) = (
        format!("<!-- begin {name} -->\n"),
        format!("<!-- end {name} -->\n"),
    );
    let start = text.find(&begin).expect("the part begins") + begin.len();
    let stop = text.find(&end).expect("the part ends");
    check(
        file,
        &format!("{}{wanted}{}", &text[..start], &text[stop..]),
    );
}

fn describe(text: &mut String, command: &clap::Command, words: &str) {
    let mut page = command.clone().term_width(100).bin_name(words);
    let help = page.render_long_help().to_string();
    let level = "#".repeat(words.split(' ').count() + 1).replace("##", "#");
    let help: Vec<_> = help.lines().map(str::trim_end).collect();
    let _ = writeln!(
        text,
        "\n#{level} {words}\n\n```text\n{}\n```",
        help.join("\n").trim()
    );
    for inner in command.get_subcommands() {
        if !inner.is_hide_set() && inner.get_name() != "help" {
            describe(text, inner, &format!("{words} {}", inner.get_name()));
        }
    }
}

#[test]
fn the_command_reference_is_the_help() {
    let mut text = String::from(
        "# The catena command\n\n\
         For operators: every subcommand with its options, as `--help` prints them. This file is \
         made from\nthe program: change it there, then run `CATENA_BLESS=1 cargo test --package \
         catena`.\n\n\
         Exit codes: 0 all went well; 1 something failed while running (a damaged capture, a full \
         disk, no\nsuch chain, line bits that were not received whole); 2 wrong arguments or \
         a wrong chain file, nothing\nwas started.\n",
    );
    describe(
        &mut text,
        &crate::manual::with_examples(crate::Cli::command()),
        "catena",
    );
    check("cli.md", &text);
}

/// What editors hold chain files and studies to: `catena schema`, kept where their first lines say.
#[test]
fn the_schemas_are_those_of_the_program() {
    let registry = crate::registry::registry();
    let chain = catena_engine::chain::schema::chain_schema(&registry);
    let study = (catena_measure::study::Study::KIND.schema)();
    let test = schemars::schema_for!(catena_flow::packet_test::model::TestFile);
    for (file, schema) in [
        ("chain.schema.json", serde_json::to_string_pretty(&chain)),
        ("study.schema.json", serde_json::to_string_pretty(&study)),
        ("flow-test.schema.json", serde_json::to_string_pretty(&test)),
    ] {
        check(file, &format!("{}\n", schema.unwrap()));
    }
}

/// Where `schema` has a setting that may be left out without a default, and does not say what that
/// means.
fn unexplained(kind: &str, schema: &serde_json::Value, found: &mut Vec<String>) {
    const WORDS: [&str; 5] = ["left out", "without", "the default", "if none", "none for"];
    let entries = schema.as_object().into_iter().flatten();
    for (key, value) in entries {
        if key != "properties" {
            let inner = value
                .as_array()
                .map_or(std::slice::from_ref(value), Vec::as_slice);
            inner.iter().for_each(|one| unexplained(kind, one, found));
            continue;
        }
        let required = schema["required"].as_array().into_iter().flatten();
        let required: Vec<_> = required.filter_map(serde_json::Value::as_str).collect();
        for (name, one) in value.as_object().into_iter().flatten() {
            unexplained(kind, one, found);
            let said = one["description"]
                .as_str()
                .unwrap_or_default()
                .to_lowercase();
            let said = said.replace('\n', " ");
            let has_default = !one["default"].is_null() || !one["const"].is_null();
            // A list or map, which is empty then.
            let is_empty = one["type"] == "array" || one["type"] == "object";
            let is_explained = WORDS.iter().any(|word| said.contains(word));
            if !required.contains(&name.as_str()) && !has_default && !is_empty && !is_explained {
                found.push(format!("{kind}: {name}: \"{said}\""));
            }
        }
    }
}

/// A report tells a setting that was left out by its default, or by what its description says of
/// being left out: so each says it.
#[test]
fn what_it_means_to_leave_a_setting_out_is_told_by_its_default_or_description() {
    let registry = crate::registry::registry();
    let nfs = registry.nfs.iter().map(|kind| (kind.name, (kind.schema)()));
    let ports = registry
        .ports
        .iter()
        .map(|kind| (kind.name, (kind.schema)()));
    let wraps = registry
        .wraps
        .iter()
        .map(|kind| (kind.name, (kind.schema)()));
    let profile = catena_measure::profile::Profile::KIND;
    let profile = std::iter::once((profile.name, (profile.schema)()));
    let mut found = Vec::new();
    for (name, schema) in nfs.chain(ports).chain(wraps).chain(profile) {
        unexplained(name, &serde_json::json!(schema), &mut found);
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
