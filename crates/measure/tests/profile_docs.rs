//! Whether `docs/reference/profile.md` describes every field of profiles and ports, and its
//! examples are right.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use catena_measure::profile::Profile;
use catena_measure::traffic::PORTS;
use serde_json::Value;

fn reference() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/profile.md");
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Names of all fields of a schema, those of its parts included.
fn fields(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::Object(properties)) = map.get("properties") {
                found.extend(properties.keys().cloned());
            }
            map.values().for_each(|part| fields(part, found));
        }
        Value::Array(parts) => parts.iter().for_each(|part| fields(part, found)),
        _ => {}
    }
}

/// Names in backticks of a page's tables; of `a.b` the last part.
fn documented(text: &str) -> BTreeSet<String> {
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    let words = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
    let lasts = words.filter_map(|word| word.rsplit('.').next());
    lasts.map(str::to_owned).collect()
}

#[test]
fn every_field_is_described() {
    let mut found = BTreeSet::new();
    fields(&(Profile::KIND.schema)().to_value(), &mut found);
    for port in PORTS {
        fields(&(port.schema)().to_value(), &mut found);
    }
    assert!(found.len() > 30, "{found:?}");
    let text = documented(&reference());
    let missing: Vec<_> = found.difference(&text).collect();
    assert!(missing.is_empty(), "add to the tables: {missing:?}");
}

#[test]
fn the_example_is_a_profile() {
    let text = reference();
    let example = text.split("```yaml\n").nth(1).unwrap();
    let example = example.split("```").next().unwrap();
    if let Err(errors) = Profile::KIND.parse(example, "the example") {
        panic!("{errors}");
    }
}
