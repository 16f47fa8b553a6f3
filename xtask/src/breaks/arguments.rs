//! What `cargo xtask break` is told.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::path::PathBuf;

/// What to break.
#[derive(clap::Args, Debug)]
pub(crate) struct Arguments {
    /// Crate, as its folder is called
    pub(super) name: String,
    /// Only breaks whose line in the list holds this
    #[arg(long, value_name = "TEXT")]
    pub(super) only: Option<String>,
    /// Leave out what is built alone: constants, and what must be constant
    #[arg(long)]
    pub(super) switched: bool,
    /// Leave out what is not
    #[arg(long, conflicts_with = "switched")]
    pub(super) alone: bool,
    /// List all breaks, and try none
    #[arg(long)]
    pub(super) list: bool,
    /// Build there and leave it, so that the next time is quicker; without it, nothing is left
    #[arg(long, value_name = "FOLDER")]
    pub(super) target_dir: Option<PathBuf>,
    /// Command in front of each run of tests, like "nice -n 19"
    #[arg(long, value_name = "COMMAND", default_value = "")]
    pub(super) under: String,
    /// Runs of tests at a time, of breaks that are not built alone
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub(super) jobs: usize,
    /// Tests that take longer than this are slow
    #[arg(long, value_name = "MS", default_value_t = 500)]
    pub(super) quick_ms: u64,
    /// Write what became of each break to this file
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
}
