//! Workers in containers come and go: who connects and shows a token is let in.
//!
//! A connection that has not shown one may not make the supervisor wait: it does not block. From
//! when it has, the worker is like any other; `container` has what runs it.

use std::os::fd::OwnedFd;

use catena_shm::{fd_passing, peer};
use rustix::io::Errno;

use crate::protocol::{FromWorker, VERSION};
use crate::supervisor::Supervisor;
use crate::supervisor::body::Body;
use crate::supervisor::container::{Containers, JOIN, Process, token_path};
use crate::supervisor::instance::State;
use crate::supervisor::start_error::SpawnError;

/// Connections without a token, at most; the oldest gives way.
const STRANGERS_MAX: usize = 32;

impl Supervisor {
    /// Looks for what a changed chain needs for its containers.
    ///
    /// # Errors
    /// No engine has the image.
    pub(super) fn plan_containers(&mut self) -> Result<(), SpawnError> {
        let needed = Containers::for_chain(&self.chain, &self.placement, &self.runtime)?;
        match (&mut self.containers, needed) {
            (Some(now), Some(needed)) => now.plan = needed.plan,
            (now @ None, needed) => *now = needed,
            (Some(_), None) => {}
        }
        Ok(())
    }

    /// Lets in who connects, and those who show the token of a worker that is expected.
    pub(super) fn admit_containers(&mut self) {
        let Some(containers) = &mut self.containers else {
            return;
        };
        let mut strangers = std::mem::take(&mut containers.strangers);
        while let Some(socket) = self.runtime.accept_worker() {
            if strangers.len() == STRANGERS_MAX {
                strangers.remove(0);
            }
            strangers.push(socket);
        }
        for socket in strangers {
            match fd_passing::receive(&socket) {
                Err(Errno::AGAIN) => {
                    if let Some(containers) = &mut self.containers {
                        containers.strangers.push(socket);
                    }
                }
                Ok(Some(message)) => {
                    if let Ok(FromWorker::Hello { version, token }) =
                        serde_json::from_slice(&message.bytes)
                    {
                        self.admit(socket, version, &token);
                    }
                }
                // Closing the socket is the answer.
                Ok(None) | Err(_) => {}
            }
        }
    }

    fn admit(&mut self, socket: OwnedFd, version: u32, token: &str) {
        let expected = self.instances.iter().position(|instance| {
            instance.state == State::Starting
                && instance.socket.is_none()
                && instance.token == token
        });
        let Some(worker) = expected else { return };
        let instance = &mut self.instances[worker];
        let Some(Body::Container(container)) = &mut instance.body else {
            return;
        };
        if version != VERSION {
            instance.failure = Some(format!(
                "its image holds another version of catena (protocol {version:08x}, here \
                 {VERSION:08x}); build it anew with `cargo xtask image`"
            ));
            return;
        }
        let pid = peer::credentials(&socket).ok().and_then(|peer| peer.pid);
        let exit = peer::process(&socket);
        container.worker = exit.ok().map(|exit| Process { pid, exit });
        if container.engine == JOIN {
            if container.worker.is_none() {
                // Its exit could never be certain.
                instance.failure = Some("its process cannot be watched from here".to_owned());
                return;
            }
            let path = token_path(&self.runtime.worker_dir(), &container.name);
            let _ = std::fs::remove_file(path);
        }
        // From here on it is like any worker's.
        instance.socket = Some(socket);
        self.assign(worker);
    }

    /// Gives up a worker's body; its exit is certain or has been asked for. Says how it ended.
    pub(super) fn part_with(&mut self, mut body: Body) -> String {
        let how = body.reap();
        if let (Body::Container(container), Some(containers)) = (body, &mut self.containers) {
            containers.departing.push(container);
        }
        how
    }

    /// Forgets containers that the engine has removed.
    pub(super) fn see_containers_off(&mut self) {
        if let Some(containers) = &mut self.containers {
            containers
                .departing
                .retain_mut(|container| !container.is_gone());
        }
    }

    /// Waits for the engine to remove what is left of the containers whose workers have ended.
    pub(super) fn remove_containers(&mut self) {
        if let Some(containers) = &mut self.containers {
            for mut container in std::mem::take(&mut containers.departing) {
                container.remove();
            }
        }
    }
}
