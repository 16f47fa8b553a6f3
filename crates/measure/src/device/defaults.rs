//! Settings with every default filled in, as the JSON Schema of their kind tells them. Pure.

use serde_json::{Map, Value, json};

/// References and settings inside settings that are followed; a schema may contain itself.
const DEPTH_MAX: usize = 16;

/// `config` with the defaults of what it leaves out, also inside of what it says; what has none
/// stays out.
pub(super) fn filled(config: &Value, schema: &schemars::Schema) -> Value {
    let root = json!(schema);
    let config = match config {
        Value::Null => &json!({}),
        other => other,
    };
    fill(config, &root, &root, DEPTH_MAX)
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

fn fill(value: &Value, schema: &Value, root: &Value, depth: usize) -> Value {
    let schema = resolved(schema, root);
    if depth == 0 {
        return value.clone();
    }
    let deeper = |value: &Value, schema: &Value| fill(value, schema, root, depth - 1);
    let choices = ["oneOf", "anyOf"].map(|key| schema.get(key).and_then(Value::as_array));
    let mut choices = choices.into_iter().flatten().flatten();
    let chosen = choices.find(|choice| fits(value, resolved(choice, root)));
    let value = &chosen.map_or_else(|| value.clone(), |choice| deeper(value, choice));
    match value {
        Value::Object(map) => Value::Object(fill_map(map, schema, &deeper)),
        Value::Array(items) => match schema.get("items") {
            Some(schema) => items.iter().map(|item| deeper(item, schema)).collect(),
            None => value.clone(),
        },
        _ => value.clone(),
    }
}

fn fill_map(
    map: &Map<String, Value>,
    schema: &Value,
    deeper: &dyn Fn(&Value, &Value) -> Value,
) -> Map<String, Value> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let of_others = schema.get("additionalProperties");
    let said = map.iter().map(|(name, value)| {
        let own = properties.and_then(|all| all.get(name)).or(of_others);
        let value = own.map_or_else(|| value.clone(), |schema| deeper(value, schema));
        (name.clone(), value)
    });
    let mut filled: Map<String, Value> = said.collect();
    for (name, schema) in properties.into_iter().flatten() {
        let default = schema.get("default").filter(|value| !value.is_null());
        if let (Some(default), false) = (default, map.contains_key(name)) {
            filled.insert(name.clone(), deeper(default, schema));
        }
    }
    filled
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
    fn assert_filled(config: Value, expected: Value) {
        assert_eq!(filled(&config, &schema_for!(Whole)), expected);
    }

    #[test]
    fn what_is_left_out_is_filled_in_at_every_depth() {
        let rest = json!({ "count": 7, "parts": [], "by_name": {}, "way": "straight" });
        assert_filled(Value::Null, rest.clone());
        assert_filled(json!({}), rest);
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
        );
        assert_filled(
            json!({ "parts": [], "by_name": {}, "way": { "cut": {} }, "may_lack": null }),
            json!({
                "parts": [], "by_name": {}, "way": { "cut": { "at": 7 } }, "may_lack": null,
                "count": 7,
            }),
        );
    }
}
