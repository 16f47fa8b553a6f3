//! What control requests make of a program's configuration: another program, entries of its tables.
//!
//! Beside packets, in the supervisor. Entries are known by what they match, as in the table that
//! runs ([`MatchTable`](crate::program::table::MatchTable)), however they are written.

use std::collections::HashMap;
use std::collections::hash_map::Entry::{Occupied, Vacant};

use serde_json::{Map, Value, json};

use super::control::{acts, entry};
use super::planned::plan_of_checked;
use super::request::entries;
use crate::program::table::{Pattern, TableEntry, TableShape};

/// See [`Amend`](catena_engine::nf::Amend).
pub(super) fn amend(config: &mut Value, requests: &[Value]) -> Vec<Result<Option<String>, String>> {
    // Read once for as many requests as there are, and anew behind another program.
    let mut drafts: Option<Vec<Draft>> = None;
    let mut amended = Vec::with_capacity(requests.len());
    for request in requests {
        let text = |key: &str| request.get(key).and_then(Value::as_str);
        amended.push(if let Some(program) = request.get("program") {
            config["program"] = program.clone();
            drafts = None;
            Ok(Some("program".to_owned()))
        } else if let (false, Some(name)) = (acts(request), text("set").or_else(|| text("remove")))
        {
            drafts
                .take()
                .map_or_else(|| drafts_of(config), Ok)
                .and_then(|known| {
                    let drafts = drafts.insert(known);
                    let draft = drafts.iter_mut().find(|draft| draft.shape.name == name);
                    let draft = draft.ok_or_else(|| format!("there is no table {name}"))?;
                    let change = draft.change(config, request, text("set").is_some());
                    change.map(Some)
                })
        } else {
            Ok(None)
        });
    }
    let drafts = drafts.into_iter().flatten();
    drafts.for_each(|draft| draft.write(config));
    amended
}

fn drafts_of(config: &Value) -> Result<Vec<Draft>, String> {
    let planned = plan_of_checked(config)?;
    Ok(planned.program.tables.into_iter().map(Draft::of).collect())
}

/// A table while requests change it: each entry is found by what it matches, however many there
/// are.
struct Draft {
    shape: TableShape,
    /// Entries as they are and as they are written, in order; none where one was removed. Taken out
    /// of the configuration by the first change.
    rows: Vec<Option<(TableEntry, Value)>>,
    /// Where the entries of a key stand in `rows`: one, or one for each priority.
    places: HashMap<Vec<Pattern>, Vec<usize>>,
    is_open: bool,
}

impl Draft {
    fn of(shape: TableShape) -> Self {
        Self {
            shape,
            rows: Vec::new(),
            places: HashMap::new(),
            is_open: false,
        }
    }

    /// Sets or removes what `request` says, all or nothing; gives the request's key.
    fn change(
        &mut self,
        config: &mut Value,
        request: &Value,
        is_set: bool,
    ) -> Result<String, String> {
        let name = &self.shape.name;
        if self.shape.maglev.is_some() {
            return Err(format!("the entries of {name} follow from another table"));
        }
        let mut changes = Vec::new();
        for one in entries(request)? {
            let changed = entry(&self.shape, one)?;
            if is_set {
                let fits = self.shape.check(&changed);
                fits.map_err(|error| error.to_string())?;
            }
            changes.push((changed, one));
        }
        if !self.is_open {
            self.open(config)?;
        }
        let key = self.key_of(&changes, request.get("entries").is_some(), is_set);
        for (changed, one) in changes {
            if is_set {
                self.set(changed, one);
            } else {
                let places = self.places.remove(&changed.key).unwrap_or_default();
                places.into_iter().for_each(|at| self.rows[at] = None);
            }
        }
        Ok(key)
    }

    fn open(&mut self, config: &mut Value) -> Result<(), String> {
        let written = written_in(config, &self.shape.name)?;
        if written.len() != self.shape.entries.len() {
            // Nothing is written as one entry and means several; if ever it is, none is lost.
            if let Some(table) = table_in(config, &self.shape.name) {
                table.insert("entries".to_owned(), written.into());
            }
            return Err(format!(
                "{} has entries that are not its own",
                self.shape.name
            ));
        }
        self.is_open = true;
        let entries = std::mem::take(&mut self.shape.entries);
        for (at, entry) in entries.iter().enumerate() {
            self.places.entry(entry.key.clone()).or_default().push(at);
        }
        self.rows = entries.into_iter().zip(written).map(Some).collect();
        Ok(())
    }

    /// What the request changes: the same entries again are the same key.
    fn key_of(&self, changes: &[(TableEntry, &Value)], is_list: bool, is_set: bool) -> String {
        let keys = changes.iter().map(|(entry, _)| {
            let key = format!("{:?}", entry.key);
            match is_set && !self.shape.is_exact() {
                true => format!("{key}/{}", entry.priority),
                false => key,
            }
        });
        let mut keys: Vec<_> = keys.collect();
        keys.sort_unstable();
        keys.dedup();
        let keys = keys.join(" ");
        let name = &self.shape.name;
        match is_list {
            true => format!("program/{name}/[{keys}]"),
            false => format!("program/{name}/{keys}"),
        }
    }

    /// As the table that runs does: priority tells entries apart where keys alone do not.
    fn set(&mut self, changed: TableEntry, request: &Value) {
        let is_exact = self.shape.is_exact();
        let text = written_entry(request, &changed);
        let next = self.rows.len();
        let places = match self.places.entry(changed.key.clone()) {
            Occupied(known) => known.into_mut(),
            Vacant(new) => new.insert(Vec::new()),
        };
        let rows = &self.rows;
        let is_same = |at: &&usize| {
            let row = rows[**at].as_ref();
            row.is_some_and(|(one, _)| is_exact || one.priority == changed.priority)
        };
        let row = Some((changed.clone(), text));
        match places.iter().find(is_same).copied() {
            Some(at) => self.rows[at] = row,
            None => {
                places.push(next);
                self.rows.push(row);
            }
        }
    }

    /// Puts the entries back into the configuration.
    fn write(self, config: &mut Value) {
        if let (true, Some(table)) = (self.is_open, table_in(config, &self.shape.name)) {
            let rows = self.rows.into_iter().flatten();
            let written: Vec<Value> = rows.map(|(_, text)| text).collect();
            // Where none was written and none is left, nothing has changed.
            if table.contains_key("entries") || !written.is_empty() {
                table.insert("entries".to_owned(), written.into());
            }
        }
    }
}

fn table_in<'c>(config: &'c mut Value, name: &str) -> Option<&'c mut Map<String, Value>> {
    let tables = config.get_mut("program")?.get_mut("tables")?;
    tables.get_mut(name)?.as_object_mut()
}

/// Takes the entries of a table out of the configuration.
fn written_in(config: &mut Value, name: &str) -> Result<Vec<Value>, String> {
    let table = table_in(config, name);
    let table = table.ok_or_else(|| format!("{name} is not written as a map of its settings"))?;
    match table.get_mut("entries").map_or(Value::Null, Value::take) {
        Value::Null => Ok(Vec::new()),
        Value::Array(entries) => Ok(entries),
        other => {
            table.insert("entries".to_owned(), other);
            Err("entries are a list".to_owned())
        }
    }
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
    use super::super::planned::plan;
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
    fn many_entries_are_changed_by_one_request_or_none_is() {
        let mut config = config();
        let with = |key: &str, keys: std::ops::Range<u32>| {
            let entries = keys.map(|key| json!({"key": [key], "data": {"port": 7}}));
            json!({key: "out", "entries": entries.collect::<Vec<_>>()})
        };
        let wrong = json!({"set": "out", "entries": [{"key": [1]}, {"key": [1 << 20]}]});
        let before = config.clone();
        assert!(amend(&mut config, std::slice::from_ref(&wrong))[0].is_err());
        assert_eq!(config, before, "all or none");
        let requests = [
            with("set", 79..100),
            with("remove", 90..99),
            with("set", 79..100),
            json!({"set": "out", "entries": 7}),
            with("remove", 81..99),
        ];
        let amended = amend(&mut config, &requests);
        assert_eq!(amended[0], amended[2], "the same entries are one key");
        assert_ne!(amended[0], amended[1]);
        assert!(amended[3].is_err(), "{amended:?}");
        let left = [80, 79, 99].map(|key| json!({"key": [key], "data": {"port": 7}}));
        assert_eq!(entries(&config, "out"), &json!(left), "in their order");
        assert!(plan(&config).is_ok());
    }

    #[test]
    fn an_entry_that_came_and_went_leaves_the_configuration_as_it_was() {
        let mut config = config();
        let requests = [
            json!({"set": "who", "key": ["10.0.0.0/8"], "data": {"mark": 1}}),
            json!({"remove": "who", "key": ["10.0.0.0/8"]}),
        ];
        assert!(amend(&mut config, &requests).iter().all(Result::is_ok));
        assert_eq!(config, self::config());
    }

    /// Each is found by its key: so many would take a minute if all were looked through.
    #[test]
    fn tens_of_thousands_of_entries_take_seconds() {
        const COUNT: u32 = 30_000;
        let entry = |key: u32| json!({"key": [key], "data": {"port": key % 7}});
        let begun = std::time::Instant::now();
        let mut config = config();
        config["program"]["tables"]["out"]["size"] = COUNT.into();
        let mut at_once = config.clone();
        let all = json!({"set": "out", "entries": (0..COUNT).map(entry).collect::<Vec<_>>()});
        assert!(amend(&mut at_once, &[all.clone(), all])[1].is_ok());
        let mut one_by_one = config;
        let requests = (0..COUNT).map(|key| {
            let mut request = entry(key);
            request["set"] = "out".into();
            request
        });
        let amended = amend(&mut one_by_one, &requests.collect::<Vec<_>>());
        assert!(amended.iter().all(Result::is_ok));
        assert_eq!(at_once, one_by_one);
        assert_eq!(
            entries(&at_once, "out").as_array().map(Vec::len),
            Some(30_000)
        );
        assert!(plan(&at_once).is_ok());
        let taken = begun.elapsed();
        assert!(taken < std::time::Duration::from_secs(30), "{taken:?}");
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
