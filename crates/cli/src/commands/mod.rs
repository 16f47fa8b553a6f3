//! One file per subcommand; what they share is the way they fail and the way they reach a chain.

pub(crate) mod apply;
mod asking_each;
pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod control;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod flow;
mod joining;
pub(crate) mod keeper;
pub(crate) mod kinds;
pub(crate) mod list;
pub(crate) mod man;
pub(crate) mod measure;
pub(crate) mod nf;
pub(crate) mod pcs;
pub(crate) mod plan;
pub(crate) mod pon;
pub(crate) mod port;
pub(crate) mod probe;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod status;
pub(crate) mod stop;
mod target;
pub(crate) mod top;
pub(crate) mod upf;
pub(crate) mod worker;

use std::process::ExitCode;

/// What every subcommand gives.
pub(crate) type Outcome = Result<ExitCode, Failure>;

/// A failure, told to people, with the exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) message: String,
    /// What is wrong with files, each with its place; for `--json`.
    pub(crate) errors: Vec<serde_json::Value>,
}

impl Failure {
    /// Something went wrong while running.
    pub(crate) fn running(message: impl ToString) -> Self {
        Self {
            code: 1,
            message: message.to_string(),
            errors: Vec::new(),
        }
    }

    /// The arguments or the chain file are wrong; nothing was started.
    pub(crate) fn input(message: impl ToString) -> Self {
        Self {
            code: 2,
            message: message.to_string(),
            errors: Vec::new(),
        }
    }
}
