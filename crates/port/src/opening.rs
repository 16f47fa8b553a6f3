//! From a configuration to what opening a port needs: its struct, its error, its path.
//!
//! Control path only.

use std::path::{Path, PathBuf};

use catena_engine::config::{ConfigErrors, parse_config};
use catena_engine::port::PortError;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The configuration of a port that is being opened. It was checked before, so an error here means
/// that somebody skipped the check.
pub(crate) fn parse<T: DeserializeOwned>(config: &Value) -> Result<T, PortError> {
    parse_config(config).map_err(refused)
}

/// What a wrong configuration reads like to the one who opens the port.
pub(crate) fn refused(errors: ConfigErrors) -> PortError {
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    PortError(lines.join("; "))
}

/// The file that `path` names in a chain file that lies in `dir`.
pub(crate) fn resolve(dir: &Path, path: &Path) -> PathBuf {
    dir.join(path)
}

/// Any error as a port's.
pub(crate) fn failed(error: impl std::fmt::Display) -> PortError {
    PortError(error.to_string())
}
