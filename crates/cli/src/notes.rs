//! What a running chain tells people, on the standard error: said without ever waiting.
//!
//! Whoever reads may be slow, full or gone (`catena run x 2>&1 | head -1`), and recovery must not
//! wait for it. So the supervisor puts lines into a queue of [`LINES_MAX`], and a thread of its own
//! writes them. What finds the queue full is dropped and counted; the count is told when the reader
//! takes lines again.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Lines that wait for a slow reader.
const LINES_MAX: usize = 256;
/// How long the last lines may take at the end.
const LAST_LINES_PATIENCE: Duration = Duration::from_millis(500);

/// Where a running chain's lines go.
#[derive(Debug)]
pub(crate) struct Notes {
    lines: Option<SyncSender<String>>,
    dropped: Arc<AtomicU64>,
    /// Ends when all lines are written.
    done: Mutex<Receiver<()>>,
}

impl Notes {
    /// Lines for `out`, which may block or fail.
    pub(crate) fn to(out: impl Write + Send + 'static) -> Self {
        let (lines, waiting) = sync_channel(LINES_MAX);
        let (finished, done) = sync_channel(0);
        let dropped = Arc::new(AtomicU64::new(0));
        let counted = dropped.clone();
        let thread = std::thread::Builder::new().name("notes".to_owned());
        // Without a thread the queue's other end is gone: all lines are dropped.
        let _ = thread.spawn(move || {
            write_lines(&waiting, &counted, out);
            drop(finished);
        });
        Self {
            lines: Some(lines),
            dropped,
            done: Mutex::new(done),
        }
    }

    /// Lines for the standard error.
    pub(crate) fn to_stderr() -> Self {
        Self::to(std::io::stderr())
    }

    /// Says one line.
    pub(crate) fn say(&self, line: impl Into<String>) {
        let Some(lines) = &self.lines else { return };
        let mut line = crate::output::harmless(&line.into());
        line.push('\n');
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = lines.try_send(line) {
            // A count for people; no memory hangs on it: Relaxed.
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Notes {
    /// Gives the last lines a moment to be written.
    fn drop(&mut self) {
        self.lines = None;
        if let Ok(done) = self.done.get_mut() {
            let _ = done.recv_timeout(LAST_LINES_PATIENCE);
        }
    }
}

fn write_lines(waiting: &Receiver<String>, dropped: &AtomicU64, mut out: impl Write) {
    for line in waiting {
        // A reader that has gone is no failure, and the next line may find a disk with room again.
        let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
        let missed = dropped.swap(0, Ordering::Relaxed);
        if missed > 0 {
            let _ = writeln!(
                out,
                "note: {missed} lines were not shown: nobody took them in time"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};

    #[test]
    fn lines_come_in_order_and_whole() {
        let (read, write) = std::io::pipe().unwrap();
        let notes = Notes::to(write);
        for number in 0..100 {
            notes.say(number.to_string());
        }
        drop(notes);
        let lines: Vec<_> = BufReader::new(read).lines().map(Result::unwrap).collect();
        let expected: Vec<_> = (0..100).map(|number| number.to_string()).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_reader_that_takes_nothing_costs_lines_and_no_time_and_is_told_how_many() {
        let (read, write) = std::io::pipe().unwrap();
        let notes = Notes::to(write);
        let long = "x".repeat(1 << 10);
        // More than the pipe (64 KiB) and the queue hold.
        for _ in 0..4 * LINES_MAX {
            notes.say(long.as_str());
        }
        let missed = notes.dropped.load(Ordering::Relaxed);
        assert!(missed > 0, "everything found room");
        let reader = std::thread::spawn(move || {
            let lines = BufReader::new(read).lines().map(Result::unwrap);
            lines.filter(|line| line.starts_with("note: ")).count()
        });
        drop(notes);
        assert!(reader.join().unwrap() > 0);
    }

    #[test]
    fn a_reader_that_has_gone_is_no_failure() {
        let (read, write) = std::io::pipe().unwrap();
        drop(read);
        let notes = Notes::to(write);
        notes.say("nobody hears this");
        notes.say("nor this");
    }
}
