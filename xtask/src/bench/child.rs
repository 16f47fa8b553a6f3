//! Child processes that cannot outlive a benchmark.
//!
//! A polling peer that survives its benchmark burns a core until someone notices, so each child
//! is held by three means:
//!
//! | The harness ...            | ends the child by                                         |
//! |----------------------------|-----------------------------------------------------------|
//! | returns, fails or panics   | `Drop`: SIGKILL to the child's own process group, by id    |
//! | is interrupted or killed   | the parent death signal that `guard` asks the kernel for   |
//! | waits for a result         | a deadline on each wait                                    |
//!
//! The death signal is bound to the thread that starts the child: start children from the main
//! thread, which lives as long as the harness, or from one that waits for the child's end.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getppid, kill_process_group, set_parent_process_death_signal};

/// Name of the hidden subcommand that turns into the guarded command.
pub(crate) const GUARD: &str = "guard";

/// Error lines kept when a child fails: enough for a cause, short enough for one table cell.
const ERROR_LINES: usize = 3;

/// Arguments of the hidden subcommand.
#[derive(clap::Args)]
pub(crate) struct GuardArguments {
    /// Process id of the harness
    parent: i32,
    /// Command and arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    command: Vec<OsString>,
}

/// Asks for the parent's death signal, then becomes the command; returns only on failure.
pub(crate) fn guard(arguments: &GuardArguments) -> Result<(), Box<dyn std::error::Error>> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The harness may have ended before the signal was asked for.
    if Pid::as_raw(getppid()) != arguments.parent {
        return Err("the harness has ended".into());
    }
    let error = Command::new(&arguments.command[0])
        .args(&arguments.command[1..])
        .exec();
    Err(error.into())
}

/// A running child in a process group of its own; dropping it kills the group and reaps it.
#[derive(Debug)]
pub(crate) struct Guarded {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<(Instant, String)>,
    error_path: PathBuf,
}

impl Guarded {
    /// Starts `program`; standard output comes line by line, standard error goes to `error_path`.
    pub(crate) fn start<A: Into<OsString>>(
        program: impl Into<OsString>,
        arguments: impl IntoIterator<Item = A>,
        environment: &[(&str, &Path)],
        error_path: PathBuf,
    ) -> io::Result<Self> {
        Self::spawn(program, arguments, environment, error_path, Stdio::null())
    }

    /// Starts a program that takes commands by [`Guarded::say`].
    pub(crate) fn start_with_input<A: Into<OsString>>(
        program: impl Into<OsString>,
        arguments: impl IntoIterator<Item = A>,
        environment: &[(&str, &Path)],
        error_path: PathBuf,
    ) -> io::Result<Self> {
        Self::spawn(program, arguments, environment, error_path, Stdio::piped())
    }

    fn spawn<A: Into<OsString>>(
        program: impl Into<OsString>,
        arguments: impl IntoIterator<Item = A>,
        environment: &[(&str, &Path)],
        error_path: PathBuf,
        input: Stdio,
    ) -> io::Result<Self> {
        let mut command = guarded(program.into())?;
        command
            .args(arguments.into_iter().map(Into::into))
            .envs(environment.iter().copied())
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(File::create(&error_path)?)
            .process_group(0);
        let mut child = command.spawn()?;
        let output = child
            .stdout
            .take()
            .ok_or_else(|| io::Error::other("no standard output"))?;
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n') {
                let Ok(line) = line else { break };
                let line = String::from_utf8_lossy(&line).into_owned();
                if sender.send((Instant::now(), line)).is_err() {
                    break;
                }
            }
        });
        Ok(Self {
            input: child.stdin.take(),
            child,
            lines,
            error_path,
        })
    }

    /// The next line and when it came, or `None` at the end of output or at the deadline.
    pub(crate) fn next_line(&self, deadline: Instant) -> Option<(Instant, String)> {
        let left = deadline.saturating_duration_since(Instant::now());
        self.lines.recv_timeout(left).ok()
    }

    /// Writes one line to standard input.
    pub(crate) fn say(&mut self, line: &str) -> io::Result<()> {
        let input = self.input.as_mut();
        let input = input.ok_or_else(|| io::Error::other("no standard input"))?;
        input.write_all(line.as_bytes())?;
        input.write_all(b"\n")?;
        input.flush()
    }

    /// Process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The exit status if the child has ended.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for the end until the deadline.
    pub(crate) fn wait(&mut self, deadline: Instant) -> Option<ExitStatus> {
        loop {
            if let Some(status) = self.ended() {
                return Some(status);
            }
            if Instant::now() >= deadline {
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The last lines of standard error, joined, for a message.
    pub(crate) fn error_tail(&self) -> String {
        let text = std::fs::read(&self.error_path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text
            .lines()
            .map(str::trim)
            .filter(|l| !l.is_empty())
            .collect();
        lines[lines.len().saturating_sub(ERROR_LINES)..].join(" / ")
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // An unreaped child keeps its id, so the group cannot be somebody else's.
        if self.ended().is_none() {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// A command that begins as the guard. The program of unit tests has no guard.
fn guarded(program: OsString) -> io::Result<Command> {
    if cfg!(test) {
        return Ok(Command::new(program));
    }
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(GUARD).arg(std::process::id().to_string());
    command.arg("--").arg(program);
    Ok(command)
}

/// A command's output; words are separated by blanks.
pub(super) fn output(command: &str) -> Result<String, String> {
    let mut words = command.split(' ');
    let output = Command::new(words.next().unwrap_or_default())
        .args(words)
        .output()
        .map_err(|error| format!("{command}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = errors.lines().last().unwrap_or("failed");
    Err(format!("{command}: {last}; it needs root"))
}
