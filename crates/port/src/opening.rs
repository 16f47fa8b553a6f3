//! From a configuration to what opening a port needs: its struct, its error, its path.
//!
//! Control path only.

use std::path::{Path, PathBuf};

use catena_engine::config::{ConfigErrors, parse_config};
use catena_engine::port::{Opening, PortError};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::capture::{CaptureFormat, CaptureWriter};

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

/// Begins a capture in a file of this port's own.
pub(crate) fn begin(
    opening: &Opening<'_>,
    path: &Path,
    format: CaptureFormat,
) -> Result<CaptureWriter, PortError> {
    let open = |path: &Path| opening.create(path);
    CaptureWriter::create_by(path, (format, "catena"), open).map_err(failed)
}

/// Refuses to go on in a file that another port of the chain names too.
pub(crate) fn check_free(opening: &Opening<'_>, path: &Path) -> Result<(), PortError> {
    let Ok(about) = std::fs::metadata(path) else {
        return Ok(());
    };
    let free = opening.check_free(&about);
    free.map_err(|why| PortError(format!("{}: {why}", path.display())))
}
