//! `catena schema`: the JSON Schema of chain files, for editors.

use std::process::ExitCode;

use super::{Failure, Outcome};
use crate::registry::registry;

pub(crate) fn run() -> Outcome {
    let schema = catena_engine::chain::schema::chain_schema(&registry());
    outln!(
        "{}",
        serde_json::to_string_pretty(&schema).map_err(Failure::running)?
    );
    Ok(ExitCode::SUCCESS)
}
