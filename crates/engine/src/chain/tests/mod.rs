//! Chain files, right and wrong, against what the checker makes of them.

mod amendments;
mod arbitrary;
mod diff;
mod files;
pub(crate) mod kinds;
mod right;
mod schema;
mod wrong;

use std::path::Path;

use super::check::{Checked, check};
use super::diagnostic::ChainErrors;

/// Checks `text` as the file `chain.yaml`, on a machine with cores 0, 1 and 2.
fn check_text(text: &str) -> Result<Checked, ChainErrors> {
    let dir = Path::new("chains");
    check(
        text,
        "chain.yaml",
        dir,
        &kinds::registry(),
        &[0, 1, 2],
        None,
    )
}

/// Findings in one line each: `line:column message | repair`.
fn short(found: &[super::Diagnostic]) -> Vec<String> {
    let line = |found: &super::Diagnostic| {
        let (at, message, repair) = (found.at, &found.message, &found.repair);
        format!("{}:{} {message} | {repair}", at.line, at.column)
    };
    found.iter().map(line).collect()
}
