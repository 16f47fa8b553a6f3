//! `catena schema`: the JSON Schema of chain files, traffic profiles and studies, for editors.

use std::process::ExitCode;

use catena_measure::profile::Profile;
use catena_measure::study::Study;

use super::Outcome;
use crate::registry::registry;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Of traffic profiles
    #[arg(long, conflicts_with = "study")]
    profile: bool,
    /// Of studies
    #[arg(long)]
    study: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    if args.profile {
        super::print_json(&(Profile::KIND.schema)())?;
    } else if args.study {
        super::print_json(&(Study::KIND.schema)())?;
    } else {
        super::print_json(&catena_engine::chain::schema::chain_schema(&registry()))?;
    }
    Ok(ExitCode::SUCCESS)
}
