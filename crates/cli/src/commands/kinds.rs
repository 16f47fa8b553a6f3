//! What `catena nf` and `catena port` share: kinds of things with settings.

use catena_engine::chain::registry::nearest;
use serde_json::Value;

use super::Failure;

/// There is no such kind; the nearest name is suggested.
pub(crate) fn unknown<'a>(
    what: &str,
    name: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Failure {
    let hint = nearest(name, names).map_or(String::new(), |near| format!("; did you mean {near}?"));
    Failure::input(format!("there is no {what} \"{name}\"{hint}"))
}

/// Prints the settings that a schema names, with those inside them, such as the fields of rules.
pub(crate) fn print_settings(schema: &impl serde::Serialize) {
    let schema = serde_json::to_value(schema).unwrap_or_default();
    let lines = setting_lines(&schema);
    if lines.is_empty() {
        outln!("\nIt takes no settings.");
        return;
    }
    outln!("\nSettings:");
    for line in lines {
        outln!("{line}");
    }
}

/// How deep settings within settings are shown; a schema may contain itself.
const DEPTH_MAX: usize = 4;

fn setting_lines(schema: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    add_settings(schema, schema, 1, &mut lines);
    lines
}

/// Adds the fields of `object`, a part of the schema `whole`, and those inside them.
fn add_settings(whole: &Value, object: &Value, depth: usize, lines: &mut Vec<String>) {
    let required: Vec<_> = object["required"].as_array().cloned().unwrap_or_default();
    let fields = object["properties"].as_object().into_iter().flatten();
    for (name, setting) in fields {
        let needed = match required.iter().any(|field| field == name) {
            true => " (required)",
            false => "",
        };
        let margin = "  ".repeat(depth);
        lines.push(format!("{margin}{name}{}{needed}", choices(whole, setting)));
        let text = setting["description"].as_str().unwrap_or("");
        if !text.is_empty() {
            lines.push(format!("{margin}    {}", text.replace('\n', " ")));
        }
        if depth < DEPTH_MAX {
            for inner in parts(whole, setting) {
                add_settings(whole, inner, depth + 2, lines);
            }
        }
    }
    if depth < DEPTH_MAX {
        for variant in variants(object) {
            for inner in parts(whole, variant).into_iter().chain([variant]) {
                add_settings(whole, inner, depth, lines);
            }
        }
    }
}

/// The words that a setting is one of, as `: permit | deny`.
fn choices(whole: &Value, setting: &Value) -> String {
    let mut words = Vec::new();
    for part in parts(whole, setting).into_iter().chain([setting]) {
        let named = part["enum"].as_array().into_iter().flatten();
        words.extend(named.filter_map(Value::as_str));
        let variants = variants(part).into_iter();
        words.extend(variants.filter_map(|variant| variant["const"].as_str()));
    }
    words.dedup();
    match words.is_empty() {
        true => String::new(),
        false => format!(": {}", words.join(" | ")),
    }
}

fn variants(schema: &Value) -> Vec<&Value> {
    let lists = ["oneOf", "anyOf", "allOf"].map(|key| schema[key].as_array());
    lists.into_iter().flatten().flatten().collect()
}

/// What a setting refers to: by name, as the items of a list, the values of a map, or one of
/// several.
fn parts<'a>(whole: &'a Value, setting: &'a Value) -> Vec<&'a Value> {
    let mut found = Vec::new();
    let mut open = vec![&setting["items"], &setting["additionalProperties"], setting];
    open.extend(variants(setting));
    for place in open {
        let name = place["$ref"]
            .as_str()
            .and_then(|path| path.strip_prefix("#/$defs/"));
        match name {
            Some(name) => found.push(&whole["$defs"][name]),
            None if place["properties"].is_object() && !std::ptr::eq(place, setting) => {
                found.push(place);
            }
            None => {}
        }
    }
    found
}

/// An argument that is JSON.
pub(crate) fn parse_json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text)
        .map_err(|error| format!("not JSON: {error}; quote it for the shell: '{{\"key\": 1}}'"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_of_rules_are_settings_too() {
        let schema = json!({
            "properties": {
                "default": {"$ref": "#/$defs/Action", "description": "for the rest"},
                "rules": {"type": "array", "items": {"$ref": "#/$defs/Rule"}}
            },
            "required": ["rules"],
            "$defs": {
                "Action": {"enum": ["permit", "deny"]},
                "Rule": {
                    "properties": {"src": {"description": "where\nfrom"}, "again": {"$ref": "#/$defs/Rule"}},
                    "required": ["src"]
                }
            }
        });
        let lines = setting_lines(&schema);
        let expected = [
            "  default: permit | deny",
            "      for the rest",
            "  rules (required)",
            "      again",
            "          again",
            "          src (required)",
            "              where from",
            "      src (required)",
            "          where from",
        ];
        // Not further: the schema contains itself.
        assert_eq!(lines, expected);
        assert!(setting_lines(&json!({"type": "object"})).is_empty());
    }
}
