//! From a document's values to a profile: each section by itself, so that all errors show at once.

use catena_engine::chain::DocumentKind;
use catena_engine::config::{ConfigError, ConfigErrors, parse_config};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{Profile, check};

/// Keys of a profile.
const KEYS: [&str; 9] = [
    "name",
    "seed",
    "line",
    "packet",
    "sizes",
    "size_order",
    "flows",
    "load",
    "replay",
];

impl Profile {
    /// The document: `catena schema --profile` prints its schema.
    pub const KIND: DocumentKind<Self> = DocumentKind {
        name: "profile",
        schema: || schemars::schema_for!(Self),
        check: Self::from_json,
    };

    /// Reads a profile from a document's values.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn from_json(document: &Value) -> Result<Self, ConfigErrors> {
        let none = Map::new();
        let sections = match document {
            Value::Object(sections) => sections,
            Value::Null => &none,
            _ => {
                let message = "a profile is a map";
                let repair = format!("begin with one of {}", KEYS.join(", "));
                return Err(vec![ConfigError::new("", message, repair)]);
            }
        };
        let mut errors = unknown_keys(sections, &KEYS);
        let profile = Self {
            name: section(sections, "name", &mut errors).unwrap_or_default(),
            seed: section(sections, "seed", &mut errors).unwrap_or_default(),
            line: section(sections, "line", &mut errors),
            packet: section(sections, "packet", &mut errors).unwrap_or_default(),
            sizes: section(sections, "sizes", &mut errors).unwrap_or_default(),
            size_order: section(sections, "size_order", &mut errors).unwrap_or_default(),
            flows: section(sections, "flows", &mut errors).unwrap_or_default(),
            load: section(sections, "load", &mut errors).unwrap_or_default(),
            replay: section(sections, "replay", &mut errors),
        };
        // What a section that could not be read stands for is its default, about which nothing
        // need be said.
        let is_read = |path: &str| {
            let key = path.split(['.', '[']).next().unwrap_or_default();
            !errors
                .iter()
                .any(|error| error.path == key || error.path.starts_with(&format!("{key}.")))
        };
        let found = check::errors(&profile);
        let found: Vec<_> = found.into_iter().filter(|e| is_read(&e.path)).collect();
        errors.extend(found);
        if errors.is_empty() {
            Ok(profile)
        } else {
            Err(errors)
        }
    }
}

/// One section; `None` if it is absent or wrong, and then the error is noted.
pub(crate) fn section<T: DeserializeOwned>(
    sections: &Map<String, Value>,
    key: &str,
    errors: &mut ConfigErrors,
) -> Option<T> {
    let value = sections.get(key)?;
    match parse_config(value) {
        Ok(section) => Some(section),
        Err(found) => {
            errors.extend(found.into_iter().map(|error| ConfigError {
                path: match error.path.as_str() {
                    "" => key.to_owned(),
                    path if path.starts_with('[') => format!("{key}{path}"),
                    path => format!("{key}.{path}"),
                },
                ..error
            }));
            None
        }
    }
}

/// Keys that are not among `keys`, in the words of the deserialiser.
pub(crate) fn unknown_keys(sections: &Map<String, Value>, keys: &[&str]) -> ConfigErrors {
    let known: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
    let unknown = sections.keys().filter(|key| !keys.contains(&key.as_str()));
    unknown
        .map(|key| ConfigError {
            path: key.clone(),
            message: format!(
                "unknown field `{key}`, expected one of {}",
                known.join(", ")
            ),
            repair: None,
        })
        .collect()
}
