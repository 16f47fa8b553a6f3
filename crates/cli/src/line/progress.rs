//! How far long work has come, and how long it will still take: one line on a terminal, written
//! over and over, and gone at the end. Nothing is written where nobody watches.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::render;

/// Work shorter than this shows nothing.
const QUIET: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_millis(200);

/// Shows progress until it is dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    what: String,
    total: u64,
    begun: Instant,
    shown: Option<Instant>,
    is_watched: bool,
}

impl Progress {
    /// `total` is in the unit of [`Self::at`].
    pub(crate) fn new(what: String, total: u64) -> Self {
        Self {
            what,
            total,
            begun: Instant::now(),
            shown: None,
            is_watched: std::io::stderr().is_terminal(),
        }
    }

    /// So much is done.
    pub(crate) fn at(&mut self, done: u64) {
        if !self.is_watched {
            return;
        }
        let now = Instant::now();
        if now - self.begun < QUIET || self.shown.is_some_and(|shown| now - shown < INTERVAL) {
            return;
        }
        self.shown = Some(now);
        let text = line(&self.what, done, self.total, now - self.begun);
        // Progress that cannot be shown is no reason to stop.
        let _ = write!(std::io::stderr(), "\r{text}\x1b[K");
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn line(what: &str, done: u64, total: u64, elapsed: Duration) -> String {
    if done == 0 || total == 0 {
        return what.to_owned();
    }
    let done = done.min(total);
    let left = elapsed.as_secs_f64() * (total - done) as f64 / done as f64;
    let percent = (100.0 * done as f64 / total as f64).floor();
    format!("{what}: {percent} %, {} left", render::duration(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_takes_as_long_as_what_is_done() {
        let elapsed = Duration::from_secs(30);
        assert_eq!(line("x", 0, 9, elapsed), "x");
        assert_eq!(line("x", 1, 4, elapsed), "x: 25 %, 1 min 30 s left");
        assert_eq!(line("x", 5, 4, elapsed), "x: 100 %, 0.0 s left");
    }
}
