//! What tests run of the repository's own chores: from its root, for a limited time.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Ten minutes; and it ends with who started it, so that no build goes on behind a test that was
/// ended.
const LIMIT: [&str; 5] = ["--pdeathsig", "TERM", "timeout", "--kill-after=10", "600"];

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A command whose words follow.
pub(crate) fn limited(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(LIMIT).arg(program).current_dir(repository());
    command
}
