//! Line files of 10G-EPON on disk: bits in bounded memory, errors put into them, what a receiver
//! made of them, and progress. The commands are in `commands/pcs`, the coding in `crates/pcs`, the
//! format in `docs/reference/line-file.md`.

pub(crate) mod before_lock;
pub(crate) mod judgement;
pub(crate) mod progress;
pub(crate) mod reading;
pub(crate) mod stretches;
pub(crate) mod writing;

use std::os::unix::fs::MetadataExt;
use std::path::Path;

pub(crate) use catena_epon::bit_errors;

use crate::commands::Failure;

/// Refuses to write over what is read.
///
/// # Errors
///
/// If both names are those of one file.
pub(crate) fn check_distinct(input: &Path, output: &Path) -> Result<(), Failure> {
    let place = |path: &Path| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.dev(), metadata.ino()))
    };
    match (place(input), place(output)) {
        (Some(one), Some(other)) if one == other => Err(Failure::input(format!(
            "{} and {} are one file, which writing would destroy; give the output another name",
            input.display(),
            output.display()
        ))),
        _ => Ok(()),
    }
}
