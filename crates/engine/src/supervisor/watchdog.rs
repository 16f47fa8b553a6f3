//! Workers whose data path does not turn, or whose control thread does not answer: seen, shown, and
//! replaced.
//!
//! A data path stores in its page how many turns it has made, at every tick, also while it sleeps
//! and wakes for nothing. One that is stopped (`SIGSTOP`), or whose NF never comes back from a
//! burst, stores nothing: its packets wait, and nobody else says so. After `SHOWN_AFTER` it is
//! called stuck; after `PATIENCE` its worker is ended, and replaced as its node's policy says.
//! A thread cannot be ended: it is shown, no more.
//!
//! A data path may turn while nobody in its worker hears what the supervisor says: packets pass,
//! and the worker takes part in no change, learns of no neighbour's successor and takes no buffer
//! home that it is told to. So each is asked once a second, and answers between two turns. Building
//! an NF is a control thread's work, too: its patience is that of a start, `SILENCE_MAX`.
//!
//! Left alone is who begins, and everybody when the chain ends: both have patience of their own.

use std::time::{Duration, Instant};

use crate::protocol::ToWorker;
use crate::stats::{BUSY_TURNS_WORD, IDLE_TURNS_WORD};
use crate::supervisor::Supervisor;
use crate::supervisor::body::Body;
use crate::supervisor::clock::now;
use crate::supervisor::instance::{Instance, State};
use crate::supervisor::turns::{Hearing, SHOWN_AFTER, SILENCE_SHOWN_AFTER, Watch};

/// How long until its worker is ended.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// How long a control thread may leave a question open until its worker is ended.
pub const SILENCE_MAX: Duration = Duration::from_secs(30);

impl Supervisor {
    /// Looks at the turns of every data path that runs, and whether its worker answers.
    pub(super) fn watch_turns(&mut self) {
        let mut ended = Vec::new();
        let mut shown = Vec::new();
        let now = now();
        for worker in 0..self.instances.len() {
            let is_stopping = self.is_stopping;
            let instance = &mut self.instances[worker];
            let Some(page) = &instance.counters else {
                continue;
            };
            let is_left_alone = instance.state != State::Running || is_stopping;
            // Without a socket it has been ended already, and its exit is awaited.
            if is_left_alone || instance.socket.is_none() {
                instance.watch = Watch::default();
                instance.hearing = Hearing::default();
                continue;
            }
            let was_stuck = instance.is_stuck();
            let turns = page
                .load(BUSY_TURNS_WORD)
                .wrapping_add(page.load(IDLE_TURNS_WORD));
            instance.watch.look(turns, now);
            let is_due = instance.hearing.is_due(now);
            let is_thread = matches!(instance.body, Some(Body::Thread(..)) | None);
            if let (Some(why), false) = (instance.why_ended(), is_thread) {
                ended.push((worker, why));
            } else if instance.is_stuck() && !was_stuck {
                shown.push((worker, instance.watch.is_stuck()));
            }
            if is_due {
                self.ask_whether_it_hears(worker, now);
            }
        }
        for (worker, stands_still) in shown {
            let name = &self.placement.workers[worker].name;
            let what = match stands_still {
                true => format!("its data path has not turned for {SHOWN_AFTER:?}"),
                false => format!("its control thread has not answered for {SILENCE_SHOWN_AFTER:?}"),
            };
            self.notice(format!("worker {name} is stuck: {what}"));
        }
        for (worker, why) in ended {
            self.detach(worker, &why);
        }
    }

    fn ask_whether_it_hears(&mut self, worker: usize, now: Instant) {
        self.next_request += 1;
        let id = self.next_request;
        self.instances[worker].hearing.ask(id, now);
        self.tell(worker, &ToWorker::Sync { id });
    }
}

impl Instance {
    /// Whether its data path stands still, or its control thread is silent.
    pub(super) fn is_stuck(&self) -> bool {
        self.watch.is_stuck() || self.hearing.is_stuck()
    }

    /// Why it is ended, if it has been stuck for too long.
    fn why_ended(&self) -> Option<String> {
        if self.watch.still >= PATIENCE {
            Some(format!("its data path has not turned for {PATIENCE:?}"))
        } else if self.hearing.silence() >= SILENCE_MAX {
            Some(format!(
                "its control thread has not answered for {SILENCE_MAX:?}"
            ))
        } else {
            None
        }
    }
}
