//! Settings with every default filled in, as the JSON Schema of their kind tells them, and what is
//! not set and has none there. Pure.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// References and settings inside settings that are followed; a schema may contain itself.
const DEPTH_MAX: usize = 16;

/// Settings as a report has them.
#[derive(Debug, PartialEq)]
pub(super) struct Filled {
    /// What is said, and the defaults of what is left out, also inside of what is said.
    pub(super) settings: Value,
    /// What is left out and has no default in the schema, with what the schema says of it: by its
    /// path, in which `[]` is any item of a list and `*` any name of a map.
    pub(super) not_set: BTreeMap<String, String>,
}

/// `config` with the defaults of what it leaves out.
pub(super) fn filled(config: &Value, schema: &schemars::Schema) -> Filled {
    let root = json!(schema);
    let config = match config {
        Value::Null => &json!({}),
        other => other,
    };
    let mut filler = Filler {
        root: &root,
        not_set: BTreeMap::new(),
    };
    let settings = filler.fill(config, &root, "", DEPTH_MAX);
    Filled {
        settings,
        not_set: filler.not_set,
    }
}

/// A schema behind its reference.
fn resolved<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let mut found = schema;
    for _ in 0..DEPTH_MAX {
        let pointer = found.get("$ref").and_then(Value::as_str);
        let Some(pointer) = pointer.and_then(|pointer| pointer.strip_prefix('#')) else {
            break;
        };
        match root.pointer(pointer) {
            Some(next) => found = next,
            None => break,
        }
    }
    found
}

struct Filler<'a> {
    root: &'a Value,
    not_set: BTreeMap<String, String>,
}

impl Filler<'_> {
    fn fill(&mut self, value: &Value, schema: &Value, path: &str, depth: usize) -> Value {
        let schema = resolved(schema, self.root);
        if depth == 0 {
            return value.clone();
        }
        let choices = ["oneOf", "anyOf"].map(|key| schema.get(key).and_then(Value::as_array));
        let mut choices = choices.into_iter().flatten().flatten();
        let chosen = choices.find(|choice| fits(value, resolved(choice, self.root)));
        let value = match chosen {
            Some(choice) => self.fill(value, choice, path, depth - 1),
            None => value.clone(),
        };
        match &value {
            Value::Object(map) => Value::Object(self.fill_map(map, schema, path, depth - 1)),
            Value::Array(items) => match schema.get("items") {
                Some(schema) => {
                    let path = format!("{path}[]");
                    let items = items.iter();
                    items
                        .map(|item| self.fill(item, schema, &path, depth - 1))
                        .collect()
                }
                None => value,
            },
            _ => value,
        }
    }

    fn fill_map(
        &mut self,
        map: &Map<String, Value>,
        schema: &Value,
        path: &str,
        depth: usize,
    ) -> Map<String, Value> {
        let properties = schema.get("properties").and_then(Value::as_object);
        let of_others = schema.get("additionalProperties");
        let below = |name: &str| match path {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        };
        let mut filled = Map::new();
        for (name, value) in map {
            let own = properties.and_then(|all| all.get(name));
            let path = below(if own.is_some() { name } else { "*" });
            let value = match own.or(of_others) {
                Some(schema) => self.fill(value, schema, &path, depth),
                None => value.clone(),
            };
            filled.insert(name.clone(), value);
        }
        for (name, schema) in properties.into_iter().flatten() {
            if map.get(name).is_some_and(|said| !said.is_null()) {
                continue;
            }
            let default = schema.get("default").filter(|value| !value.is_null());
            match default {
                // What is said to be null is not set, whatever the default.
                Some(default) if !map.contains_key(name) => {
                    let value = self.fill(default, schema, &below(name), depth);
                    filled.insert(name.clone(), value);
                }
                _ => {
                    let meaning = resolved(schema, self.root);
                    let meaning = [schema, meaning].map(|one| one.get("description"));
                    let meaning = meaning.into_iter().flatten().find_map(Value::as_str);
                    let meaning = meaning.unwrap_or_default().replace('\n', " ");
                    self.not_set.insert(below(name), meaning);
                }
            }
        }
        filled
    }
}

/// Whether a value may be meant by a schema, one of several.
fn fits(value: &Value, schema: &Value) -> bool {
    let Some(map) = value.as_object() else {
        return false;
    };
    let keys = |name: &str| schema.get(name).and_then(Value::as_object);
    let required = schema.get("required").and_then(Value::as_array);
    let mut required = required.into_iter().flatten().filter_map(Value::as_str);
    let is_same = |(name, found): (&String, &Value)| {
        let constant = keys("properties").and_then(|all| all.get(name)?.get("const"));
        constant.is_none_or(|constant| constant == found)
    };
    let is_known =
        |name: &String| keys("properties").is_none_or(|properties| properties.contains_key(name));
    keys("properties").is_some()
        && required.all(|name| map.contains_key(name))
        && map.iter().all(is_same)
        && map.keys().all(is_known)
}

#[cfg(test)]
mod tests {
    use schemars::{JsonSchema, schema_for};
    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Deserialize, Serialize, JsonSchema)]
    struct Whole {
        needed: u32,
        /// How many at most; all without it.
        may_lack: Option<u32>,
        #[serde(default = "seven")]
        count: u32,
        part: Option<Part>,
        #[serde(default)]
        parts: Vec<Part>,
        #[serde(default)]
        by_name: std::collections::BTreeMap<String, Part>,
        #[serde(default)]
        way: Way,
    }

    fn seven() -> u32 {
        7
    }

    #[derive(Deserialize, Serialize, JsonSchema)]
    struct Part {
        #[serde(default = "seven")]
        size: u32,
        inner: Option<Box<Self>>,
    }

    #[derive(Default, Deserialize, Serialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    enum Way {
        #[default]
        Straight,
        Bent(Part),
        Cut {
            #[serde(default = "seven")]
            at: u32,
        },
    }

    #[track_caller]
    fn assert_filled(config: Value, expected: Value, not_set: &[&str]) {
        let filled = filled(&config, &schema_for!(Whole));
        assert_eq!(filled.settings, expected);
        let paths: Vec<_> = filled.not_set.keys().map(String::as_str).collect();
        assert_eq!(paths, not_set);
    }

    #[test]
    fn what_is_left_out_is_filled_in_at_every_depth() {
        let rest = json!({ "count": 7, "parts": [], "by_name": {}, "way": "straight" });
        let nothing = ["may_lack", "needed", "part"];
        assert_filled(Value::Null, rest.clone(), &nothing);
        assert_filled(json!({}), rest, &nothing);
        assert_filled(
            json!({
                "needed": 1, "count": 2, "part": { "inner": {} }, "parts": [{ "size": 1 }, {}],
                "by_name": { "one": {} }, "way": { "bent": {} },
            }),
            json!({
                "needed": 1, "count": 2, "part": { "size": 7, "inner": { "size": 7 } },
                "parts": [{ "size": 1 }, { "size": 7 }], "by_name": { "one": { "size": 7 } },
                "way": { "bent": { "size": 7 } },
            }),
            &[
                "by_name.*.inner",
                "may_lack",
                "part.inner.inner",
                "parts[].inner",
                "way.bent.inner",
            ],
        );
        assert_filled(
            json!({ "parts": [], "by_name": {}, "way": { "cut": {} }, "may_lack": null }),
            json!({
                "parts": [], "by_name": {}, "way": { "cut": { "at": 7 } }, "may_lack": null,
                "count": 7,
            }),
            &nothing,
        );
    }

    #[test]
    fn what_has_no_default_is_told_with_what_that_means() {
        let found = filled(&json!({ "needed": 1 }), &schema_for!(Whole)).not_set;
        assert_eq!(found["may_lack"], "How many at most; all without it.");
    }
}
