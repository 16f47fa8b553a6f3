//! The schema against chain files, by a validator of the few keywords that it uses.

use serde_json::{Value, json};

use super::kinds::registry;
use super::right::FULL;
use crate::chain::diagnostic::Report;
use crate::chain::parse;
use crate::chain::schema::chain_schema;

/// Keywords that say nothing about validity.
const REMARKS: &[&str] = &[
    "$schema",
    "$defs",
    "title",
    "description",
    "examples",
    "default",
    "format",
];

/// Whether `value` fits; `Err` names a keyword this does not know, or a reference to nowhere.
fn fits(root: &Value, schema: &Value, value: &Value) -> Result<bool, String> {
    let Value::Object(fields) = schema else {
        return schema
            .as_bool()
            .ok_or_else(|| format!("not a schema: {schema}"));
    };
    let mut all = true;
    for (keyword, rule) in fields {
        all &= keyword_fits(root, fields, keyword, rule, value)?;
    }
    Ok(all)
}

fn keyword_fits(
    root: &Value,
    fields: &serde_json::Map<String, Value>,
    keyword: &str,
    rule: &Value,
    value: &Value,
) -> Result<bool, String> {
    let count = |of: &Value| of.as_array().map_or(0, Vec::len);
    let matching = |rules: &Value| -> Result<usize, String> {
        let rules = rules.as_array().ok_or("not a list of schemas")?;
        let fit = rules.iter().map(|rule| fits(root, rule, value));
        Ok(fit
            .collect::<Result<Vec<_>, _>>()?
            .into_iter()
            .filter(|fit| *fit)
            .count())
    };
    let entries = value.as_object();
    let number = value.as_f64();
    Ok(match keyword {
        keyword if REMARKS.contains(&keyword) => true,
        "$ref" => {
            let path = rule.as_str().ok_or("$ref is not text")?;
            let target = root.pointer(path.trim_start_matches('#')).ok_or(path)?;
            fits(root, target, value)?
        }
        "type" => match rule {
            Value::Array(words) => words.iter().any(|word| is_type(word, value)),
            word => is_type(word, value),
        },
        "enum" => rule.as_array().ok_or("enum")?.contains(value),
        "const" => rule == value,
        "allOf" => matching(rule)? == count(rule),
        "anyOf" => matching(rule)? > 0,
        "oneOf" => matching(rule)? == 1,
        "if" => !fits(root, rule, value)? || fits(root, &fields["then"], value)?,
        "then" => true,
        "required" => entries.is_none_or(|entries| {
            let names = rule
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str);
            names.into_iter().all(|name| entries.contains_key(name))
        }),
        "properties" => {
            let rules = rule.as_object().ok_or("properties")?;
            let mut all = true;
            for (name, value) in entries.into_iter().flatten() {
                all &= rules
                    .get(name)
                    .map_or(Ok(true), |rule| fits(root, rule, value))?;
            }
            all
        }
        "additionalProperties" => {
            let known = fields.get("properties").and_then(Value::as_object);
            let mut all = true;
            for (name, value) in entries.into_iter().flatten() {
                let is_known = known.is_some_and(|known| known.contains_key(name));
                all &= is_known || fits(root, rule, value)?;
            }
            all
        }
        "propertyNames" => {
            let mut all = true;
            for name in entries.into_iter().flat_map(|entries| entries.keys()) {
                all &= fits(root, rule, &json!(name))?;
            }
            all
        }
        "items" => {
            let mut all = true;
            for item in value.as_array().into_iter().flatten() {
                all &= fits(root, rule, item)?;
            }
            all
        }
        "minItems" => value
            .as_array()
            .is_none_or(|items| items.len() as u64 >= rule.as_u64().unwrap()),
        "minProperties" => {
            entries.is_none_or(|entries| entries.len() as u64 >= rule.as_u64().unwrap())
        }
        "maxProperties" => {
            entries.is_none_or(|entries| entries.len() as u64 <= rule.as_u64().unwrap())
        }
        "minimum" => number.is_none_or(|number| number >= rule.as_f64().unwrap()),
        "maximum" => number.is_none_or(|number| number <= rule.as_f64().unwrap()),
        // Without regular expressions here, the one that matters in these tests.
        "pattern" => rule != "->" || value.as_str().is_none_or(|text| text.contains("->")),
        "uniqueItems" => true,
        other => return Err(format!("unknown keyword {other}")),
    })
}

fn is_type(word: &Value, value: &Value) -> bool {
    match word.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        _ => false,
    }
}

fn file_fits(text: &str) -> bool {
    let schema = chain_schema(&registry());
    let mut report = Report::new("chain.yaml", text);
    let tree = parse::parse(text, &mut report).expect("it is YAML");
    fits(&schema, &schema, &tree.to_json()).unwrap()
}

#[test]
fn every_reference_and_keyword_is_known() {
    fn walk(root: &Value, schema: &Value) {
        match schema {
            Value::Object(fields) => {
                if let Some(Value::String(path)) = fields.get("$ref") {
                    assert!(
                        root.pointer(path.trim_start_matches('#')).is_some(),
                        "{path}"
                    );
                }
                fields.values().for_each(|value| walk(root, value));
            }
            Value::Array(items) => items.iter().for_each(|item| walk(root, item)),
            _ => {}
        }
    }
    let schema = chain_schema(&registry());
    walk(&schema, &schema);
    for (name, def) in schema["$defs"].as_object().unwrap() {
        fits(&schema, def, &json!({})).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn right_files_fit() {
    assert!(file_fits(FULL));
    assert!(file_fits(
        "name: x\nports: { t: { tap: {} } }\nnfs:\n  c: { type: classify, rules: [ { src: 192.0.2.1, to: a } ], core: 0 }\nlinks: [ t -> c, c.a -> t ]\n"
    ));
}

#[test]
fn wrong_files_do_not() {
    for (right, wrong) in [
        ("policer, rate", "policr, rate"),
        ("rate: 10kpps", "rat: 10kpps"),
        ("burst: 32 }", "burst: lots }"),
        ("type: macswap", "type: macswap, burst: 1"),
        ("on_death: bypass", "on_death: panic"),
        ("read: traces/web.pcap", "raed: traces/web.pcap"),
        (
            "pcap: { write: out.pcap }",
            "tap: {}, pcap: { write: out.pcap }",
        ),
        ("{ trace: {} }", "{ trce: {} }"),
        ("in -> policer", "in"),
        ("slots: 1024", "slots: 1000"),
        ("wait: spin", "wait: never"),
        ("name: hello\n", ""),
    ] {
        let text = FULL.replace(right, wrong);
        assert_ne!(text, FULL, "{right}");
        assert!(!file_fits(&text), "{wrong}");
    }
}
