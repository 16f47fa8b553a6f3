//! `catena schema`: the JSON Schema of what people write, for editors: chain files, flow programs
//! and their tests, traffic profiles and studies.

use std::process::ExitCode;

use catena_flow::efsm::Document;
use catena_flow::packet_test::model::TestFile;
use catena_measure::profile::Profile;
use catena_measure::study::Study;

use super::Outcome;
use crate::registry::registry;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Of flow programs in files of their own
    #[arg(long, conflicts_with_all = ["flow_test", "profile", "study"])]
    flow: bool,
    /// Of files for catena flow test
    #[arg(long, conflicts_with_all = ["profile", "study"])]
    flow_test: bool,
    /// Of traffic profiles
    #[arg(long, conflicts_with = "study")]
    profile: bool,
    /// Of studies
    #[arg(long)]
    study: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    if args.flow {
        crate::document::print_whole(&schemars::schema_for!(Document))?;
    } else if args.flow_test {
        crate::document::print_whole(&schemars::schema_for!(TestFile))?;
    } else if args.profile {
        crate::document::print_whole(&(Profile::KIND.schema)())?;
    } else if args.study {
        crate::document::print_whole(&(Study::KIND.schema)())?;
    } else {
        crate::document::print_whole(&catena_engine::chain::schema::chain_schema(&registry()))?;
    }
    Ok(ExitCode::SUCCESS)
}
