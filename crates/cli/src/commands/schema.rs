//! `catena schema`: the JSON Schema of chain files and traffic profiles, for editors.

use std::process::ExitCode;

use catena_measure::profile::Profile;

use super::Outcome;
use crate::registry::registry;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Of traffic profiles
    #[arg(long)]
    profile: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    if args.profile {
        super::print_json(&(Profile::KIND.schema)())?;
    } else {
        super::print_json(&catena_engine::chain::schema::chain_schema(&registry()))?;
    }
    Ok(ExitCode::SUCCESS)
}
