//! The data path's thread, which waits until there is something to run.
//!
//! Control path. It is started before anything is built, so that a worker needs no other thread
//! from then on, and whoever comes to run in it may start none.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use crate::protocol::{Assignment, PortClosing};
use crate::worker::confine::{Kept, pin};
use crate::worker::runner::Runner;
use crate::worker::serve_error::ServeError;

/// A thread that runs what it is given, once.
pub(super) struct Berth {
    runner: Sender<(Runner, Arc<OwnedFd>)>,
    thread: JoinHandle<Vec<PortClosing>>,
}

/// Ends the control connection when the data path panics, so that the supervisor sees a dead
/// worker.
struct HangUpOnPanic(Arc<OwnedFd>);

impl Drop for HangUpOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = rustix::net::shutdown(&*self.0, rustix::net::Shutdown::Both);
        }
    }
}

impl Berth {
    /// A thread for what `assignment` will become, which gives up what it need not have.
    pub(super) fn start(assignment: &Assignment, kept: Kept) -> Result<Self, ServeError> {
        let core = assignment.core;
        let name = assignment.nodes.first();
        let name = name.map_or("worker", |node| node.name.as_str());
        let (runner, given) = channel::<(Runner, Arc<OwnedFd>)>();
        let (said, ready) = channel();
        let thread = std::thread::Builder::new()
            .name(name.chars().take(15).collect())
            .spawn(move || {
                let _ = said.send(kept.give_up_in_data_path());
                // None comes if building fails.
                let Ok((runner, socket)) = given.recv() else {
                    return Vec::new();
                };
                let _guard = HangUpOnPanic(socket);
                pin(core);
                runner.run()
            });
        let no_thread =
            |error: std::io::Error| ServeError::Protocol(format!("no data path: {error}"));
        let thread = thread.map_err(no_thread)?;
        let ready = ready.recv();
        ready.unwrap_or(Ok(())).map_err(no_thread)?;
        kept.refuse_threads().map_err(no_thread)?;
        Ok(Self { runner, thread })
    }

    /// Runs `runner`, which hangs `socket` up should it panic.
    pub(super) fn run(self, runner: Runner, socket: Arc<OwnedFd>) -> JoinHandle<Vec<PortClosing>> {
        // The thread waits for nothing else.
        let _ = self.runner.send((runner, socket));
        self.thread
    }
}
