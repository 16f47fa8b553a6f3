//! The JSON Schema (draft 2020-12) of chain files, for editors; printed by `catena schema`.
//!
//! Put together from the schemas of the registry's kinds: an NF's `type` decides which other keys
//! it has, a port's one key which configuration. The checker is the judge of a file; the schema
//! accepts what it accepts in its usual form (`trace: {}`, not `trace:`) and knows nothing of the
//! graph. Definitions of a kind get its name in front (`nf.policer.Rate`), so that kinds need not
//! know of each other.

use serde_json::{Map, Value, json};

use super::check::links::{AGGREGATES, OVERFLOWS, PROTOCOLS, TRUSTS};
use super::check::nodes::{GROUP, ON_DEATHS};
use super::check::run::{DEFAULT_IMAGE, MODES, WAITS};
use super::model::{
    BURST, BURST_LIMITS, NODE_COUNT_MAX, SHARD_COUNT_MAX, SLOT_COUNT, SLOT_COUNT_LIMITS,
    SLOT_COUNT_PACKING,
};
use super::registry::Registry;
use crate::shard::key::KEY_WORDS;

/// The form of names; the same as the checker's.
const NAME_PATTERN: &str = "^[a-z0-9][a-z0-9-]{0,31}$";

/// The schema of chain files that use the kinds of `registry`.
pub fn chain_schema(registry: &Registry) -> Value {
    let mut defs = Map::new();
    for kind in &registry.nfs {
        let mut schema = kind_schema(&mut defs, "nf", kind.name, (kind.schema)());
        add_keys(&mut schema, &nf_keys(json!({ "const": kind.name })));
        schema["description"] = kind.summary.into();
        defs.insert(format!("nf.{}", kind.name), schema);
    }
    let ports = registry.ports.iter();
    let ports = ports.map(|kind| ("port", kind.name, kind.summary, kind.schema));
    let wraps = registry.wraps.iter();
    let wraps = wraps.map(|kind| ("wrap", kind.name, kind.summary, kind.schema));
    for (what, name, summary, schema) in ports.chain(wraps) {
        let mut schema = kind_schema(&mut defs, what, name, schema());
        schema["description"] = summary.into();
        defs.insert(format!("{what}.{name}"), schema);
    }
    defs.insert("nf".to_owned(), nf(registry));
    defs.insert("port".to_owned(), port(registry));
    defs.insert("link".to_owned(), link());
    defs.insert("run".to_owned(), run());
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Catena chain file",
        "type": "object",
        "additionalProperties": false,
        "required": ["name", "ports", "links"],
        "properties": {
            "name": name("Name of the chain"),
            "ports": nodes("port", "Where packets enter and leave", 1),
            "nfs": nodes("nf", "What packets pass through", 0),
            "links": {
                "description": "How packets go, like in -> policer or policer.red -> out",
                "type": "array",
                "minItems": 1,
                "items": { "$ref": "#/$defs/link" }
            },
            "run": { "$ref": "#/$defs/run" }
        },
        "$defs": defs
    })
}

fn name(description: &str) -> Value {
    json!({ "description": description, "type": "string", "pattern": NAME_PATTERN })
}

fn nodes(def: &str, description: &str, count_min: usize) -> Value {
    json!({
        "description": description,
        "type": "object",
        "minProperties": count_min,
        "maxProperties": NODE_COUNT_MAX,
        "propertyNames": { "pattern": NAME_PATTERN },
        "additionalProperties": { "$ref": format!("#/$defs/{def}") }
    })
}

/// Keys that every node may have.
fn place_keys() -> Map<String, Value> {
    let keys = json!({
        "mode": {
            "description": "Where it runs; run.mode unless given",
            "enum": MODES
        },
        "core": { "description": "Core it is pinned to", "type": "integer", "minimum": 0 },
        "netns": name("Network namespace it runs in, as `ip netns` names it"),
        "group": name(&format!("Trust group; {GROUP} unless given")),
        "on_death": {
            "description": "What becomes of its packets while it is down",
            "enum": ON_DEATHS
        }
    });
    match keys {
        Value::Object(keys) => keys,
        _ => Map::new(),
    }
}

fn nf_keys(kind: Value) -> Map<String, Value> {
    let mut keys = place_keys();
    keys.insert("type".to_owned(), kind);
    let shards = shards(
        "How many workers it is, each with its part of the packets",
        &KEY_WORDS,
    );
    keys.insert("shards".to_owned(), shards);
    keys
}

/// A number, or a number and a key.
fn shards(description: &str, words: &[&str]) -> Value {
    let count = json!({ "type": "integer", "minimum": 1, "maximum": SHARD_COUNT_MAX });
    let ranges = json!({
        "description": "Ranges of TEIDs and of addresses of UEs, in equal parts",
        "type": "object",
        "additionalProperties": false,
        "required": ["teids", "ue"],
        "properties": {
            "teids": { "type": "string", "pattern": "^(0x[0-9a-fA-F]+|[0-9]+)/[0-9]+$" },
            "ue": {
                "type": "array",
                "items": { "type": "string", "pattern": "^[0-9a-fA-F.:]+/[0-9]+$" }
            }
        }
    });
    let key = json!({
        "description": "What says which packets belong together",
        "oneOf": [{ "enum": words }, ranges]
    });
    json!({
        "description": description,
        "oneOf": [
            count,
            {
                "type": "object",
                "additionalProperties": false,
                "required": ["count"],
                "properties": { "count": count, "key": key }
            }
        ]
    })
}

/// An NF: its type first, so that editors offer the types, then what follows from it.
fn nf(registry: &Registry) -> Value {
    let words: Vec<&str> = registry.nfs.iter().map(|kind| kind.name).collect();
    let cases: Vec<Value> = words
        .iter()
        .map(|word| {
            json!({
                "if": { "properties": { "type": { "const": word } }, "required": ["type"] },
                "then": { "$ref": format!("#/$defs/nf.{word}") }
            })
        })
        .collect();
    json!({
        "type": "object",
        "required": ["type"],
        "properties": nf_keys(json!({ "description": "What it does", "enum": words })),
        "allOf": cases
    })
}

/// A port: its place, its wrappers, and one key for its type.
fn port(registry: &Registry) -> Value {
    let mut keys = place_keys();
    let mut choices = Vec::new();
    for kind in &registry.ports {
        let reference = json!({ "$ref": format!("#/$defs/port.{}", kind.name) });
        keys.insert(kind.name.to_owned(), reference);
        choices.push(json!({ "required": [kind.name] }));
    }
    let wraps = registry.wraps.iter().map(|kind| {
        let reference = json!({ "$ref": format!("#/$defs/wrap.{}", kind.name) });
        (kind.name.to_owned(), reference)
    });
    let wrap = json!({
        "description": "Wrappers around the port, innermost first",
        "type": "array",
        "items": {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 1,
            "additionalProperties": false,
            "properties": wraps.collect::<Map<_, _>>()
        }
    });
    keys.insert("wrap".to_owned(), wrap);
    let queues = shards(
        "How many queues of its device are opened, and by what the device splits packets",
        &KEY_WORDS[..2],
    );
    keys.insert("queues".to_owned(), queues);
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": keys,
        "oneOf": choices
    })
}

fn link() -> Value {
    let (low, high) = (SLOT_COUNT_LIMITS.0.ilog2(), SLOT_COUNT_LIMITS.1.ilog2());
    let slots: Vec<u32> = (low..=high).map(|log2| 1 << log2).collect();
    let path = json!({ "type": "string", "pattern": "->" });
    json!({
        "oneOf": [
            path,
            {
                "type": "object",
                "additionalProperties": false,
                "required": ["link"],
                "properties": {
                    "link": path,
                    "trust": {
                        "description": "What the two sides may do to each other's packets",
                        "enum": TRUSTS
                    },
                    "overflow": {
                        "description": "What becomes of a packet for which there is no slot",
                        "enum": OVERFLOWS
                    },
                    "slots": {
                        "description": format!(
                            "{SLOT_COUNT_PACKING} unless given, {SLOT_COUNT} if nothing is packed"
                        ),
                        "enum": slots
                    },
                    "protocol": { "description": "How packets are handed over", "enum": PROTOCOLS },
                    "aggregate": {
                        "description": "Whether small packets share bundles; auto unless given",
                        "enum": AGGREGATES
                    }
                }
            }
        ]
    })
}

fn run() -> Value {
    json!({
        "description": "How the chain runs",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "mode": { "description": "Mode of nodes that name none", "enum": MODES },
            "wait": { "description": "How idle workers wait", "enum": WAITS },
            "burst": {
                "description": format!("Packets in a burst; {BURST} unless given"),
                "type": "integer",
                "minimum": BURST_LIMITS.0,
                "maximum": BURST_LIMITS.1
            },
            "cores": {
                "description": "Cores that workers may use",
                "type": "array",
                "uniqueItems": true,
                "items": { "type": "integer", "minimum": 0 }
            },
            "image": {
                "description": format!("Image for containers; {DEFAULT_IMAGE} unless given"),
                "type": "string"
            },
            "orphan": {
                "description": "What workers do when the supervisor has died: stop, go on for ten \
                    minutes (keep), or for a time",
                "type": "string",
                "pattern": "^(stop|keep|[0-9._]+ *(ms|s|m|min))$"
            },
            "buffers": {
                "description": "Buffers of each size in each pool, like 2KiB: 1024",
                "type": "object",
                "propertyNames": { "pattern": "^[0-9._]+ *(B|[kKMG]i?B)?$" },
                "additionalProperties": { "type": "integer", "minimum": 1 }
            }
        }
    })
}

/// A kind's schema with its definitions moved to `defs`, under its own name.
fn kind_schema(
    defs: &mut Map<String, Value>,
    what: &str,
    kind: &str,
    schema: schemars::Schema,
) -> Value {
    let mut schema = schema.to_value();
    let prefix = format!("{what}.{kind}");
    rename_references(&mut schema, &prefix);
    let Value::Object(fields) = &mut schema else {
        return schema;
    };
    fields.remove("$schema");
    fields.remove("title");
    if let Some(Value::Object(own)) = fields.remove("$defs") {
        let renamed = own.into_iter();
        defs.extend(renamed.map(|(name, def)| (format!("{prefix}.{name}"), def)));
    }
    schema
}

/// Lets every reference within a kind's schema point to where its definitions are moved.
fn rename_references(schema: &mut Value, prefix: &str) {
    match schema {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(path) if key == "$ref" => {
                        if let Some(name) = path.strip_prefix("#/$defs/") {
                            *path = format!("#/$defs/{prefix}.{name}");
                        }
                    }
                    _ => rename_references(value, prefix),
                }
            }
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| rename_references(item, prefix)),
        _ => {}
    }
}

/// Lets an object schema have further properties, also in each of its alternatives.
fn add_keys(schema: &mut Value, keys: &Map<String, Value>) {
    let Value::Object(fields) = schema else {
        return;
    };
    for word in ["oneOf", "anyOf"] {
        if let Some(Value::Array(alternatives)) = fields.get_mut(word) {
            alternatives
                .iter_mut()
                .for_each(|alternative| add_keys(alternative, keys));
        }
    }
    let is_object = fields.get("type").is_some_and(|kind| kind == "object");
    if is_object || fields.contains_key("properties") {
        let properties = fields
            .entry("properties")
            .or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(properties) = properties {
            properties.extend(keys.clone());
        }
    }
}
