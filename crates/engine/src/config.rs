//! Configuration of NFs and ports: from the chain file's values to a checked Rust struct.
//!
//! An NF or port deserialises its own struct with [`parse_config`] and adds semantic errors with
//! the path of the field, so that the chain file's checker can point at the line. Control path
//! only.

use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::Value;

mod mac;

pub use mac::Mac;

/// Name of one side of a link at a node: the output it leaves by, or the input it arrives at.
pub type PortSide = String;

/// What is wrong with one field, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Path within the node's configuration, as in `rules[2].src`; empty for the node itself.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub repair: Option<String>,
}

/// All that is wrong with one node's configuration; never empty when returned as an error.
pub type ConfigErrors = Vec<ConfigError>;

impl ConfigError {
    /// An error at `path` with a repair.
    pub fn new(
        path: impl Into<String>,
        message: impl Into<String>,
        repair: impl Into<String>,
    ) -> Self {
        Self {
            path: path.into(),
            message: message.into(),
            repair: Some(repair.into()),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        self.repair
            .as_ref()
            .map_or(Ok(()), |repair| write!(f, " ({repair})"))
    }
}

/// Most errors of form that are looked for in one configuration.
const ERROR_COUNT_MAX: usize = 32;

/// Deserialises a node's configuration, with the path of each field that does not fit.
///
/// # Errors
/// One [`ConfigError`] for each field, or element of a list, of the wrong name, type or form.
pub fn parse_config<T: DeserializeOwned>(config: &Value) -> Result<T, ConfigErrors> {
    let first = match parse_once(config) {
        Ok(parsed) => return Ok(parsed),
        Err(error) => error,
    };
    // A deserialiser stops at its first error; without what it blames, it finds the next one.
    let mut rest = Remainder::of(config);
    let mut blamed = first.path.clone();
    let mut errors = vec![first];
    while errors.len() < ERROR_COUNT_MAX && rest.take_out(&blamed) {
        match parse_once::<T>(&rest.config) {
            // What the outermost map lacks has been taken out, or is found last.
            Err(error) if !error.path.is_empty() => {
                blamed.clone_from(&error.path);
                let path = rest.path_before(&error.path);
                errors.push(ConfigError { path, ..error });
            }
            Err(_) | Ok(_) => break,
        }
    }
    Err(errors)
}

fn parse_once<T: DeserializeOwned>(config: &Value) -> Result<T, ConfigError> {
    serde_path_to_error::deserialize(config).map_err(|error| {
        let path = error.path().to_string();
        let path = if path == "." { String::new() } else { path };
        ConfigError {
            path,
            message: error.inner().to_string(),
            repair: None,
        }
    })
}

/// A configuration without what has been blamed so far.
struct Remainder {
    config: Value,
    /// For each list, by its key, the places at which elements were taken out, in that order.
    taken: Vec<(String, usize)>,
}

impl Remainder {
    fn of(config: &Value) -> Self {
        Self {
            config: config.clone(),
            taken: Vec::new(),
        }
    }

    /// Takes out the element of a list of the outermost map, or else the key of that map, to which
    /// `path` leads; says whether there was one.
    fn take_out(&mut self, path: &str) -> bool {
        let (key, index, _) = split_path(path);
        let Some(entries) = self.config.as_object_mut() else {
            return false;
        };
        match (entries.get_mut(key), index) {
            (Some(Value::Array(items)), Some(index)) if index < items.len() => {
                items.remove(index);
                self.taken.push((key.to_owned(), index));
                true
            }
            (Some(_), _) => entries.remove(key).is_some(),
            (None, _) => false,
        }
    }

    /// Where `path` leads in the whole configuration.
    fn path_before(&self, path: &str) -> String {
        let (key, Some(mut index), rest) = split_path(path) else {
            return path.to_owned();
        };
        let taken = self.taken.iter().rev().filter(|(list, _)| list == key);
        for (_, at) in taken {
            index += usize::from(index >= *at);
        }
        format!("{key}[{index}]{rest}")
    }
}

/// `rules[2].src` as `rules`, 2 and `.src`.
fn split_path(path: &str) -> (&str, Option<usize>, &str) {
    let end = path.find(['.', '[']).unwrap_or(path.len());
    let (key, rest) = path.split_at(end);
    let index = rest
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
        .and_then(|(index, rest)| Some((index.parse().ok()?, rest)));
    match index {
        Some((index, rest)) => (key, Some(index), rest),
        None => (key, None, rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize, Debug)]
    #[serde(deny_unknown_fields)]
    struct Example {
        #[expect(dead_code, reason = "only its type matters here")]
        rules: Vec<u16>,
        #[serde(default)]
        #[expect(dead_code, reason = "only its type matters here")]
        burst: u8,
    }

    #[test]
    fn a_wrong_type_names_its_path() {
        let errors = parse_config::<Example>(&serde_json::json!({"rules": [1, "x"]})).unwrap_err();
        assert_eq!(errors[0].path, "rules[1]");
    }

    #[test]
    fn an_unknown_field_is_refused() {
        let errors = parse_config::<Example>(&serde_json::json!({"rulez": []})).unwrap_err();
        assert!(errors[0].message.contains("rulez"), "{errors:?}");
    }

    #[test]
    fn every_field_and_element_of_the_wrong_form_is_named() {
        let config = serde_json::json!({
            "rules": [1, "x", 2, [], 3, -1],
            "burst": 256,
            "brust": 1,
        });
        let mut errors = parse_config::<Example>(&config).unwrap_err();
        errors.sort_by(|a, b| a.path.cmp(&b.path));
        let paths: Vec<&str> = errors.iter().map(|error| error.path.as_str()).collect();
        assert_eq!(
            paths,
            ["brust", "burst", "rules[1]", "rules[3]", "rules[5]"]
        );
    }

    #[test]
    fn what_was_taken_out_is_not_said_to_be_missing() {
        let config = serde_json::json!({"rules": 7, "burst": "x"});
        let errors = parse_config::<Example>(&config).unwrap_err();
        assert_eq!(errors.len(), 2, "{errors:?}");
        let many = serde_json::json!({"rules": vec!["x"; 100]});
        let errors = parse_config::<Example>(&many).unwrap_err();
        assert_eq!(errors.len(), ERROR_COUNT_MAX);
        assert_eq!(errors[31].path, "rules[31]");
    }
}
