//! `catena worker --join`, ended with the test in any case.

use std::process::{Child, Command};

pub(crate) struct Joined(pub(crate) Child);

impl Joined {
    /// Starts what is to run the workers called `names` of the chain with this socket, by a command
    /// of the binary's.
    pub(crate) fn start(mut command: Command, workers: &str, names: &[&str]) -> Self {
        command.args(["worker", "--join", workers]);
        for name in names {
            command.args(["--as", name]);
        }
        Self(command.spawn().unwrap())
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
