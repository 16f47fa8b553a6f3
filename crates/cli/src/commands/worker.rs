//! `catena worker`: one worker of a chain, as a process or in a container. Started by `catena run`,
//! or, with `--join`, by whoever runs the containers (see `joining`).

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::ExitCode;

use catena_engine::worker::serve::{ServeError, serve};

use super::{Failure, Outcome, joining};
use crate::bench::registry;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Socket to connect to; the standard input is the connection if this is not given
    #[arg(long)]
    socket: Option<PathBuf>,
    /// Folder of a chain's sockets, `workers` in the chain's own folder: wait there for the chain,
    /// which runs with `CATENA_CONTAINER_ENGINE=join`, and join it
    #[arg(
        long,
        value_name = "FOLDER",
        requires = "names",
        conflicts_with = "socket"
    )]
    join: Option<PathBuf>,
    /// Name of the worker to join as; several are a process each
    #[arg(long = "as", value_name = "WORKER", requires = "join")]
    names: Vec<String>,
    /// Go on when the process that has started this one is killed: its supervisor's place may be
    /// taken by another
    #[arg(long, conflicts_with_all = ["socket", "join"])]
    outlives: bool,
    /// Chain and worker, to be seen in process lists
    #[arg(long)]
    label: Option<String>,
}

pub(crate) fn run(args: Args) -> Outcome {
    if let Some(folder) = &args.join {
        return joining::run(folder, &args.names);
    }
    // Whatever happens to the supervisor, no worker is left behind: one that outlives it ends when
    // nobody has the other end of its connection any more.
    let dies_with_it = args.socket.is_none() && !args.outlives;
    let signal = dies_with_it.then_some(rustix::process::Signal::KILL);
    let _ = rustix::process::set_parent_process_death_signal(signal);
    let token = std::env::var("CATENA_TOKEN").unwrap_or_default();
    let is_child = args.socket.is_none();
    let socket = match args.socket {
        Some(path) => joining::dial(&path)
            .map_err(|error| Failure::running(format!("{}: {error}", path.display())))?,
        None => inherited()?,
    };
    match serve(socket, &token, &registry()) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        // The supervisor has been told, or has let go of its child: it is the one to speak.
        Err(ServeError::Build(_)) => Ok(ExitCode::FAILURE),
        Err(ServeError::Disconnected) if is_child => Ok(ExitCode::FAILURE),
        Err(error) => {
            let label = args.label.as_deref().unwrap_or("worker");
            Err(Failure::running(format!("{label}: {error}")))
        }
    }
}

/// The connection that whoever started this process has given it as its standard input.
pub(super) fn inherited() -> Result<OwnedFd, Failure> {
    let stdin = std::io::stdin();
    let socket = stdin
        .as_fd()
        .try_clone_to_owned()
        .map_err(Failure::running)?;
    rustix::net::sockopt::socket_type(&socket).map_err(|_| {
        Failure::input("this command is started by `catena run`; its standard input is no socket")
    })?;
    Ok(socket)
}
