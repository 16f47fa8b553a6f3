//! How far a measurement has come, on the standard error output.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Where nobody watches a terminal, a line so often.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Shows where a measurement stands.
#[derive(Debug)]
pub(crate) struct Progress {
    started: Instant,
    shown: Option<Instant>,
    is_terminal: bool,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            shown: None,
            is_terminal: std::io::stderr().is_terminal(),
        }
    }

    /// Time left if what remains goes on as what is done did; `None` at the very beginning.
    pub(crate) fn left(&self, done_share: f64) -> Option<Duration> {
        let gone = self.started.elapsed().as_secs_f64();
        (done_share > 0.01).then(|| {
            let left = gone * (1.0 - done_share.min(1.0)) / done_share;
            Duration::from_secs_f64(left.min(1e7))
        })
    }

    /// Shows a line in place of the one before, with the time left by the share that is done.
    pub(crate) fn show(&mut self, text: &str, done_share: f64) {
        let left = self.left(done_share);
        self.show_left(text, left);
    }

    /// Shows a line in place of the one before.
    pub(crate) fn show_left(&mut self, text: &str, left: Option<Duration>) {
        let is_due = self.is_terminal || self.shown.is_none_or(|at| at.elapsed() > LINE_EVERY);
        if !is_due {
            return;
        }
        self.shown = Some(Instant::now());
        let left = left.map_or(String::new(), |left| {
            format!(", about {} left", words(left))
        });
        if self.is_terminal {
            err!("\r{:100}\r{text}{left} ", "");
            let _ = std::io::stderr().flush();
        } else {
            errln!("{text}{left}");
        }
    }

    /// Takes the line away.
    pub(crate) fn clear(&self) {
        if self.is_terminal {
            err!("\r{:100}\r", "");
        }
    }
}

/// A span as people say it.
fn words(span: Duration) -> String {
    match span.as_secs() {
        seconds @ 0..=119 => format!("{seconds} s"),
        seconds @ 120..=7199 => format!("{} min", seconds / 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}
