//! The running chain that a command is about, as it stands on the command line.

use catena_engine::supervisor::status::Status;

use super::Failure;
use super::control::{Answer, Request, ask, running_chains, status_in};

/// Where chains run: for commands that ask one.
#[derive(Debug, clap::Args)]
pub(crate) struct Target {
    /// Name of the chain; may be left out if only one runs
    #[arg(add = crate::completion::chains())]
    pub(crate) chain: Option<String>,
}

impl Target {
    /// Asks the chain.
    pub(crate) fn ask(&self, request: &Request) -> Result<Answer, Failure> {
        ask(&self.name()?, request)
    }

    /// The chain's status.
    pub(crate) fn status(&self) -> Result<Status, Failure> {
        status_in(self.ask(&Request::Status)?)
    }

    /// The chain's name.
    pub(crate) fn name(&self) -> Result<String, Failure> {
        if let Some(name) = &self.chain {
            return Ok(name.clone());
        }
        match running_chains().as_slice() {
            [one] => Ok(one.clone()),
            [] => Err(Failure::running("no chain is running")),
            many => {
                let names = many.join(", ");
                Err(Failure::input(format!(
                    "several chains are running; name one of: {names}"
                )))
            }
        }
    }
}
