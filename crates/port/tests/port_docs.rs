//! Whether `docs/reference/ports.md` describes every kind of port and wrapper, field by field.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use catena_port::{PORTS, WRAPS};
use serde_json::Value;

fn reference() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/ports.md");
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The text under the heading of a kind.
fn section<'a>(text: &'a str, name: &str) -> &'a str {
    let heading = format!("\n## `{name}`\n");
    let start = text.find(&heading);
    let start = start.unwrap_or_else(|| panic!("no section '## `{name}`'")) + heading.len();
    let rest = &text[start..];
    let end = rest
        .find("\n## ")
        .into_iter()
        .chain(rest.find("\n# "))
        .min();
    &rest[..end.unwrap_or(rest.len())]
}

/// Names of all fields of a schema, those of its parts included.
fn fields(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::Object(properties)) = map.get("properties") {
                found.extend(properties.keys().cloned());
            }
            for part in map.values() {
                fields(part, found);
            }
        }
        Value::Array(parts) => {
            for part in parts {
                fields(part, found);
            }
        }
        _ => {}
    }
}

/// Names in the first column of a section's tables.
fn documented(section: &str) -> BTreeSet<String> {
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split('`').next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_field_of_every_kind_is_described_and_no_other() {
    let text = reference();
    let ports = PORTS.iter().map(|kind| (kind.name, kind.schema));
    let wraps = WRAPS.iter().map(|kind| (kind.name, kind.schema));
    for (name, schema) in ports.chain(wraps) {
        let mut found = BTreeSet::new();
        fields(schema().as_value(), &mut found);
        assert!(!found.is_empty(), "{name}: a schema without fields");
        let section = section(&text, name);
        let mut described = documented(section);
        // Fields of a part of a field may stand in the text.
        for field in &found {
            let is_named = section.contains(&format!("`{field}`"));
            assert!(is_named, "{name}: the field `{field}` is not described");
            described.remove(field);
        }
        assert!(
            described.is_empty(),
            "{name}: no such fields: {described:?}"
        );
    }
}

#[test]
fn every_section_is_linked_has_limits_and_an_example() {
    let text = reference();
    let names = PORTS.iter().map(|kind| kind.name);
    for name in names.chain(WRAPS.iter().map(|kind| kind.name)) {
        assert!(
            text.contains(&format!("[`{name}`](#{name})")),
            "{name}: not in the list"
        );
        let section = section(&text, name);
        assert!(section.contains("Limits and failures"), "{name}: no limits");
        assert!(section.contains("Counters: "), "{name}: no counters");
        let example = section.split("```yaml\n").nth(1);
        let example = example.unwrap_or_else(|| panic!("{name}: no example"));
        assert!(
            example.contains(&format!("{name}: {{")),
            "{name}: an example of another kind"
        );
    }
}

#[test]
fn every_counter_is_named() {
    let text = reference();
    let ports = PORTS.iter().map(|kind| (kind.name, kind.counters));
    let wraps = WRAPS.iter().map(|kind| (kind.name, kind.counters));
    for (name, counters) in ports.chain(wraps) {
        assert!(!counters.is_empty(), "{name} counts something");
        let section = section(&text, name);
        for counter in counters {
            assert!(
                section.contains(&format!("`{counter}`")),
                "{name}: {counter}"
            );
        }
    }
}

#[test]
fn names_of_kinds_are_unique() {
    let names = PORTS.iter().map(|kind| kind.name);
    let names: Vec<_> = names.chain(WRAPS.iter().map(|kind| kind.name)).collect();
    let unique: BTreeSet<_> = names.iter().collect();
    assert_eq!(unique.len(), names.len());
}

/// What SECURITY.md says that a worker keeps for a kind of port.
fn said_to_keep(kind: &str) -> catena_engine::port::CapabilitySet {
    use catena_engine::port::CapabilitySet;
    let names = [
        ("`NET_ADMIN`", CapabilitySet::NET_ADMIN),
        ("`NET_RAW`", CapabilitySet::NET_RAW),
        ("`IPC_LOCK`", CapabilitySet::IPC_LOCK),
        ("`BPF`", CapabilitySet::BPF),
        ("`SYS_ADMIN`", CapabilitySet::SYS_ADMIN),
        ("`DAC_OVERRIDE`", CapabilitySet::DAC_OVERRIDE),
        ("`SYS_NICE`", CapabilitySet::SYS_NICE),
    ];
    let text = include_str!("../../../SECURITY.md");
    let row = text
        .lines()
        .find(|line| line.starts_with(&format!("| `{kind}` |")));
    let cell = row.unwrap().split('|').nth(2).unwrap();
    let own = names.iter().filter(|(name, _)| cell.contains(name));
    let own = own.fold(CapabilitySet::empty(), |all, (_, one)| all | *one);
    if cell.contains("these") {
        own | said_to_keep("xdp")
    } else {
        own
    }
}

#[test]
fn every_kind_of_port_keeps_what_the_table_says_and_no_more() {
    for kind in catena_port::PORTS {
        let needs = kind.needs;
        let is_device = ["tap", "packet_socket", "xdp", "dpdk"].contains(&kind.name);
        if !is_device {
            assert_eq!(needs, catena_engine::port::PortNeeds::NONE, "{}", kind.name);
            continue;
        }
        assert_eq!(needs.rights, said_to_keep(kind.name), "{}", kind.name);
        // Each attaches again to what went away and is back.
        assert!(needs.rights_while_running, "{}", kind.name);
        assert_eq!(needs.threads, kind.name == "dpdk", "{}", kind.name);
    }
}
