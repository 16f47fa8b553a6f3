//! `catena pon`: multipoint control of 10G-EPON without a chain.

mod simulate;

use super::Outcome;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Simulate an OLT and its ONUs: delay, utilisation and grants of bandwidth allocation
    Simulate(simulate::Args),
}

pub(crate) fn run(command: &Command) -> Outcome {
    match command {
        Command::Simulate(args) => simulate::run(args),
    }
}
