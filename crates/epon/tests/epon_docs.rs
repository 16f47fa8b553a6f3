//! Whether `docs/reference/epon.md` describes every node of this crate: settings, counters, drops,
//! and examples that build.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use catena_engine::nf::{BuildContext, DropReason};
use catena_engine::port::Opening;
use catena_epon::{NFS, PORTS};
use serde_json::Value;

fn reference() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/epon.md");
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The text under the heading of a kind.
fn section<'a>(text: &'a str, name: &str) -> &'a str {
    let heading = format!("\n## `{name}`\n");
    let start = text.find(&heading);
    let start = start.unwrap_or_else(|| panic!("no section '## `{name}`'")) + heading.len();
    let rest = &text[start..];
    &rest[..rest.find("\n## ").unwrap_or(rest.len())]
}

/// Names of all fields of a schema, those of its parts included.
fn fields(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::Object(properties)) = map.get("properties") {
                found.extend(properties.keys().cloned());
                let bare = |field: &Value| field.get("description").is_none();
                assert!(
                    !properties.values().any(bare),
                    "a comment for each of {properties:?}"
                );
            }
            map.values().for_each(|part| fields(part, found));
        }
        Value::Array(parts) => parts.iter().for_each(|part| fields(part, found)),
        _ => {}
    }
}

/// The examples of a section, each as its `nfs` or `ports`.
fn examples(section: &str) -> Vec<Value> {
    let blocks = section.split("```yaml\n").skip(1);
    let texts = blocks.filter_map(|block| block.split("```").next());
    texts
        .map(|text| serde_saphyr::from_str(text).unwrap())
        .collect()
}

#[test]
fn every_setting_is_described() {
    let text = reference();
    let nfs = NFS.iter().map(|kind| (kind.name, (kind.schema)()));
    for (name, schema) in nfs.chain(PORTS.iter().map(|kind| (kind.name, (kind.schema)()))) {
        let mut found = BTreeSet::new();
        fields(schema.as_value(), &mut found);
        let section = section(&text, name);
        for field in found {
            assert!(section.contains(&format!("`{field}`")), "{name}: `{field}`");
        }
        assert!(
            text.contains(&format!("[`{name}`](#{name})")),
            "{name}: not in the list"
        );
    }
}

#[test]
fn every_counter_is_named_and_every_example_builds() {
    let text = reference();
    for kind in NFS {
        let section = section(&text, kind.name);
        let mut built = 0;
        for example in examples(section) {
            for config in example["nfs"].as_object().unwrap().values() {
                let mut config = config.as_object().unwrap().clone();
                config.remove("type");
                let outputs = ["out".to_owned()];
                let config = Value::Object(config);
                (kind.plan)(&config, &outputs).unwrap().check().unwrap();
                let mut context = BuildContext::alone(&outputs);
                let nf = (kind.build)(&config, &mut context).unwrap().nf;
                for (counter, _) in nf.report() {
                    assert!(
                        section.contains(&format!("`{counter}`")),
                        "{}: {counter}",
                        kind.name
                    );
                }
                built += 1;
            }
        }
        assert!(built > 0, "{}: no example", kind.name);
    }
    for kind in PORTS {
        let section = section(&text, kind.name);
        assert!(
            section.contains("Limits and failures"),
            "{}: no limits",
            kind.name
        );
        let config = examples(section)[0]["ports"]["loop"][kind.name].clone();
        (kind.check)(&config).unwrap();
        let port = (kind.open)(&config, &Opening::alone(Path::new("."))).unwrap();
        for (counter, _) in port.report() {
            assert!(
                section.contains(&format!("`{counter}`")),
                "{}: {counter}",
                kind.name
            );
        }
    }
}

#[test]
fn every_drop_is_a_drop_reason() {
    let text = reference();
    for kind in NFS {
        let section = section(&text, kind.name);
        let table = section
            .split("| Drop | When |\n|---|---|\n")
            .nth(1)
            .unwrap();
        for row in table.lines().take_while(|line| line.starts_with('|')) {
            let name = row.split('`').nth(1).unwrap();
            let is_known = DropReason::ALL.iter().any(|reason| reason.name() == name);
            assert!(is_known, "{}: `{name}`", kind.name);
        }
    }
}
