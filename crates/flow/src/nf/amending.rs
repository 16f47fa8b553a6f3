//! What control requests make of a program's configuration: another program, entries of its tables.
//!
//! Beside packets, in the supervisor. Entries are known by what they match, as in the table that
//! runs ([`MatchTable`](crate::program::table::MatchTable)), however they are written.

use serde_json::{Value, json};

use super::control::{acts, entry};
use super::planned::plan;
use crate::program::table::{TableEntry, TableShape};

/// See [`Amend`](catena_engine::nf::Amend).
pub(super) fn amend(config: &mut Value, requests: &[Value]) -> Vec<Result<Option<String>, String>> {
    // Read once for as many requests as there are, and anew behind another program.
    let mut shapes: Option<Vec<TableShape>> = None;
    let mut amended = Vec::with_capacity(requests.len());
    for request in requests {
        let text = |key: &str| request.get(key).and_then(Value::as_str);
        amended.push(if let Some(program) = request.get("program") {
            config["program"] = program.clone();
            shapes = None;
            Ok(Some("program".to_owned()))
        } else if let (false, Some(name)) = (acts(request), text("set").or_else(|| text("remove")))
        {
            shapes
                .take()
                .map_or_else(|| shapes_of(config), Ok)
                .and_then(|known| {
                    let shapes = shapes.insert(known);
                    change_table(config, shapes, name, request, text("set").is_some()).map(Some)
                })
        } else {
            Ok(None)
        });
    }
    amended
}

fn shapes_of(config: &Value) -> Result<Vec<TableShape>, String> {
    let planned = plan(config).map_err(|errors| {
        let first = errors.first().map(ToString::to_string);
        first.unwrap_or_default()
    })?;
    Ok(planned.program.tables)
}

/// Sets or removes an entry in the configuration; gives the request's key.
fn change_table(
    config: &mut Value,
    shapes: &mut [TableShape],
    name: &str,
    request: &Value,
    is_set: bool,
) -> Result<String, String> {
    let shape = shapes.iter_mut().find(|shape| shape.name == name);
    let shape = shape.ok_or_else(|| format!("there is no table {name}"))?;
    if shape.maglev.is_some() {
        return Err(format!("the entries of {name} follow from another table"));
    }
    let changed = entry(shape, request)?;
    let tables = config
        .get_mut("program")
        .and_then(|program| program.get_mut("tables"));
    let table = tables.and_then(|tables| tables.get_mut(name));
    let table = table.and_then(Value::as_object_mut);
    let table = table.ok_or_else(|| format!("{name} is not written as a map of its settings"))?;
    let written = table.entry("entries").or_insert(Value::Null);
    if written.is_null() {
        *written = json!([]);
    }
    let written = written.as_array_mut().ok_or("entries are a list")?;
    let mut key = format!("program/{name}/{:?}", changed.key);
    // As the table that runs does: priority tells entries apart where keys alone do not.
    let is_exact = shape.is_exact();
    let is_same = |one: &TableEntry| {
        one.key == changed.key && (is_exact || !is_set || one.priority == changed.priority)
    };
    if !is_set {
        let mut at = 0;
        while at < shape.entries.len() {
            if is_same(&shape.entries[at]) {
                shape.entries.remove(at);
                written.remove(at);
            } else {
                at += 1;
            }
        }
        return Ok(key);
    }
    if !is_exact {
        key = format!("{key}/{}", changed.priority);
    }
    shape.check(&changed).map_err(|error| error.to_string())?;
    let text = written_entry(request, &changed);
    match shape.entries.iter().position(is_same) {
        Some(at) => {
            written[at] = text;
            shape.entries[at] = changed;
        }
        None => {
            written.push(text);
            shape.entries.push(changed);
        }
    }
    Ok(key)
}

/// An entry as a program's author would write it.
fn written_entry(request: &Value, entry: &TableEntry) -> Value {
    let text = |value: &Value| match value {
        Value::Number(number) if number.is_u64() => value.clone(),
        Value::String(_) => value.clone(),
        other => other.to_string().into(),
    };
    let key = request["key"].as_array().into_iter().flatten().map(text);
    let mut written = json!({"key": key.collect::<Vec<_>>()});
    if entry.priority != 0 {
        written["priority"] = entry.priority.into();
    }
    if let Some(data) = request.get("data").and_then(Value::as_object) {
        let data = data.iter().map(|(name, value)| (name.clone(), text(value)));
        written["data"] = Value::Object(data.collect());
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Value {
        json!({"program": {
            "tables": {
                "out": {"key": ["exact 16"], "data": {"port": 16}, "entries": [{"key": [80], "data": {"port": 1}}]},
                "who": {"key": ["prefix 32"], "data": {"mark": 8}},
            },
            "elements": [{"name": "all", "transitions": [{"do": ["output(out)"]}]}],
        }})
    }

    fn entries<'a>(config: &'a Value, table: &str) -> &'a Value {
        &config["program"]["tables"][table]["entries"]
    }

    #[test]
    fn entries_are_known_by_what_they_match_and_not_by_how_they_are_written() {
        let mut config = config();
        let requests = [
            json!({"set": "out", "key": ["0x50"], "data": {"port": 2}}),
            json!({"set": "out", "key": [443], "data": {"port": 3}}),
            json!({"remove": "out", "key": [80]}),
            json!({"set": "who", "key": ["10.0.0.0/8"], "data": {"mark": 1}, "priority": 5}),
            json!({"show": "globals"}),
            json!({"set": "none", "key": [1]}),
            json!({"trace": 3, "set": "out"}),
        ];
        let amended = amend(&mut config, &requests);
        assert_eq!(amended[0], amended[2], "one entry has one key");
        assert_ne!(amended[0], amended[1]);
        assert_eq!((&amended[4], &amended[6]), (&Ok(None), &Ok(None)));
        assert!(amended[5].as_ref().unwrap_err().contains("no table none"));
        assert_eq!(
            entries(&config, "out"),
            &json!([{"key": [443], "data": {"port": 3}}])
        );
        let who = json!([{"key": ["10.0.0.0/8"], "data": {"mark": 1}, "priority": 5}]);
        assert_eq!(entries(&config, "who"), &who);
        assert!(plan(&config).is_ok());
        let one_by_one = requests.iter().fold(self::config(), |mut config, request| {
            amend(&mut config, std::slice::from_ref(request));
            config
        });
        assert_eq!(one_by_one, config);
    }

    #[test]
    fn what_is_not_written_as_maps_is_refused() {
        for tables in [
            json!({"out": [["exact 16"], {"port": 16}]}),
            json!([["out", ["exact 16"]]]),
            json!("tables.yaml"),
        ] {
            let mut config = config();
            config["program"]["tables"] = tables;
            let request = json!({"set": "out", "key": [80], "data": {"port": 1}});
            let amended = amend(&mut config, &[request]);
            assert!(amended[0].is_err(), "{amended:?}");
        }
    }

    #[test]
    fn another_program_takes_all_before_it_with_it() {
        let mut config = config();
        let program = json!({"elements": [{"name": "all", "transitions": [{"do": ["drop(no)"]}]}]});
        let requests = [
            json!({"set": "out", "key": [81], "data": {"port": 2}}),
            json!({"program": program}),
            json!({"set": "out", "key": [82], "data": {"port": 2}}),
        ];
        let amended = amend(&mut config, &requests);
        let keys: Vec<_> = amended[..2].iter().flatten().flatten().collect();
        assert!(keys[0].starts_with(&format!("{}/", keys[1])), "{keys:?}");
        assert!(amended[2].is_err(), "its program has no such table");
        assert_eq!(config["program"], program);
    }
}
