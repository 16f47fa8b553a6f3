//! Configuration of NFs and ports: from the chain file's values to a checked Rust struct.
//!
//! An NF or port deserialises its own struct with [`parse_config`] and adds semantic errors with
//! the path of the field, so that the chain file's checker can point at the line. Control path
//! only.

use std::fmt;

use serde::de::DeserializeOwned;

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

/// Deserialises a node's configuration, with the path of the first field that does not fit.
///
/// # Errors
/// One [`ConfigError`] for the first field of the wrong name, type or form.
pub fn parse_config<T: DeserializeOwned>(config: &serde_json::Value) -> Result<T, ConfigErrors> {
    serde_path_to_error::deserialize(config).map_err(|error| {
        let path = error.path().to_string();
        let path = if path == "." { String::new() } else { path };
        vec![ConfigError {
            path,
            message: error.inner().to_string(),
            repair: None,
        }]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize, Debug)]
    #[serde(deny_unknown_fields)]
    struct Example {
        #[expect(dead_code, reason = "only its type matters here")]
        rules: Vec<u16>,
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
}
