//! A worker that takes one step when it is told to, for simulations of the control plane: what it
//! does is a real worker's code, but for threads, sleep, and the rights that it would give up.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Control, ServeError, assigned, is_start, make};
use crate::chain::registry::Registry;
use crate::protocol::{FromWorker, ToWorker, VERSION};
use crate::worker::build::Making;
use crate::worker::connection::Connection;
use crate::worker::node_memory::Brought;
use crate::worker::runner::{Command, Pace, Runner};

/// How far it has come.
enum Life {
    /// It waits for its assignment.
    Unassigned(Connection, Brought),
    /// Its memory is made; it waits for the neighbours'.
    Made(Connection, Box<Making>),
    /// Both halves run.
    Running(Box<Control<'static>>, Box<Runner>),
    /// Told to stop: the data path has not come to see it.
    Stopping(Box<Control<'static>>, Box<Runner>),
}

/// A worker in steps.
pub(crate) struct Stepped {
    registry: &'static Registry,
    /// None when it has ended.
    life: Option<Life>,
    pace: Pace,
}

impl Stepped {
    /// One that has said its first word.
    pub(crate) fn start(
        socket: OwnedFd,
        token: &str,
        registry: &'static Registry,
    ) -> Result<Self, ServeError> {
        let connection = Connection::new(socket);
        let token = token.to_owned();
        let version = VERSION;
        connection.send(&FromWorker::Hello { version, token }, &[])?;
        Ok(Self {
            registry,
            life: Some(Life::Unassigned(connection, Brought::default())),
            pace: Pace::default(),
        })
    }

    /// Whether it has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.life.is_none()
    }

    /// Packets that its NFs hold between turns.
    pub(crate) fn held(&self) -> u64 {
        let (Some(Life::Running(_, runner)) | Some(Life::Stopping(_, runner))) = &self.life else {
            return 0;
        };
        let nodes = runner.graph.nodes.iter();
        nodes.map(|node| node.holding.hold.count()).sum()
    }

    /// Its control thread takes one record, if there is one; says whether there was.
    pub(crate) fn listen(&mut self) -> Result<bool, ServeError> {
        let heard;
        (self.life, heard) = match self.life.take() {
            Some(Life::Unassigned(mut connection, mut brought)) => {
                let heard = hear(&mut connection)?;
                let was_heard = heard.is_some();
                let assignment = match heard {
                    Some((record, fds)) => assigned(&mut brought, record, fds)?,
                    None => None,
                };
                let life = match assignment {
                    Some(assignment) => {
                        let making = make(&connection, assignment, brought, self.registry)?;
                        Life::Made(connection, Box::new(making))
                    }
                    None => Life::Unassigned(connection, brought),
                };
                (Some(life), was_heard)
            }
            Some(Life::Made(mut connection, mut making)) => {
                let heard = hear(&mut connection)?;
                let was_heard = heard.is_some();
                let starts = match heard {
                    Some((record, fds)) => is_start(&mut making, record, fds)?,
                    None => false,
                };
                let life = if starts {
                    let (control, mut runner) = Control::of(connection, *making, self.registry)?;
                    runner.prepare();
                    control.connection.send(&FromWorker::Started, &[])?;
                    Life::Running(Box::new(control), Box::new(runner))
                } else {
                    Life::Made(connection, making)
                };
                (Some(life), was_heard)
            }
            Some(Life::Running(mut control, runner)) => match hear(&mut control.connection)? {
                Some((ToWorker::Stop, _)) => {
                    control.running.command(Command::Stop);
                    (Some(Life::Stopping(control, runner)), true)
                }
                Some((record, fds)) => {
                    control.record(record, fds)?;
                    (Some(Life::Running(control, runner)), true)
                }
                None => (Some(Life::Running(control, runner)), false),
            },
            // Its control thread waits for the data path.
            life => (life, false),
        };
        Ok(heard)
    }

    /// Its control thread passes on what the data path has said.
    pub(crate) fn report(&mut self) -> Result<(), ServeError> {
        match &self.life {
            Some(Life::Running(control, _)) => control.running.reports.pass_on(&control.connection),
            _ => Ok(()),
        }
    }

    /// Its data path looks at its commands, then passes once; says whether anything moved.
    pub(crate) fn turn(&mut self, now: u64) -> Result<bool, ServeError> {
        match self.life.take() {
            Some(Life::Running(control, mut runner)) => {
                let had_command = runner.doorbell.is_rung();
                if had_command {
                    runner.obey();
                }
                let moved = runner.pass(&mut self.pace, now);
                if !moved {
                    runner.store_counters(now);
                }
                self.life = Some(Life::Running(control, runner));
                Ok(moved || had_command)
            }
            Some(Life::Stopping(control, mut runner)) => {
                while runner.doorbell.is_rung() && runner.obey() {}
                let ports = runner.finish();
                control.running.reports.pass_on(&control.connection)?;
                let _ = control.connection.send(&FromWorker::Stopped { ports }, &[]);
                Ok(true)
            }
            life => {
                self.life = life;
                Ok(false)
            }
        }
    }
}

/// A record, if one has come.
fn hear(connection: &mut Connection) -> Result<Option<(ToWorker, Vec<OwnedFd>)>, ServeError> {
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    loop {
        let mut fds = [PollFd::new(&**connection.socket(), PollFlags::IN)];
        if poll(&mut fds, Some(&at_once))? == 0 {
            return Ok(None);
        }
        // Part of a record is none.
        if let Some(record) = connection.hear()? {
            return Ok(Some(record));
        }
    }
}
