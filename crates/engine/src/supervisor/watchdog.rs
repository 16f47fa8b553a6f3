//! Workers whose data path does not turn: seen, shown, and replaced.
//!
//! A data path stores in its page how many turns it has made, at every tick, also while it sleeps
//! and wakes for nothing. One that is stopped (`SIGSTOP`), or whose NF never comes back from a
//! burst, stores nothing: its packets wait, and nobody else says so. After `SHOWN_AFTER` it is
//! called stuck; after `PATIENCE` its worker is ended, and replaced as its node's policy says.
//! A thread cannot be ended: it is shown, no more.
//!
//! Left alone is who begins, and everybody when the chain ends: both have patience of their own.

use std::time::Duration;

use crate::stats::{BUSY_TURNS_WORD, IDLE_TURNS_WORD};
use crate::supervisor::Supervisor;
use crate::supervisor::body::Body;
use crate::supervisor::clock::now;
use crate::supervisor::instance::State;
use crate::supervisor::turns::{SHOWN_AFTER, Watch};

/// How long until its worker is ended.
pub const PATIENCE: Duration = Duration::from_secs(5);

impl Supervisor {
    /// Looks at the turns of every data path that runs.
    pub(super) fn watch_turns(&mut self) {
        let mut ended = Vec::new();
        let mut shown = Vec::new();
        for (worker, instance) in self.instances.iter_mut().enumerate() {
            let Some(page) = &instance.counters else {
                continue;
            };
            let is_left_alone = instance.state != State::Running || self.is_stopping;
            // Without a socket it has been ended already, and its exit is awaited.
            if is_left_alone || instance.socket.is_none() {
                instance.watch = Watch::default();
                continue;
            }
            let was_stuck = instance.watch.is_stuck();
            let turns = page
                .load(BUSY_TURNS_WORD)
                .wrapping_add(page.load(IDLE_TURNS_WORD));
            instance.watch.look(turns, now());
            if instance.watch.still >= PATIENCE
                && !matches!(instance.body, Some(Body::Thread(..)) | None)
            {
                ended.push(worker);
            } else if instance.watch.is_stuck() && !was_stuck {
                shown.push(worker);
            }
        }
        for worker in shown {
            let name = &self.placement.workers[worker].name;
            self.notice(format!(
                "worker {name} is stuck: its data path has not turned for {SHOWN_AFTER:?}"
            ));
        }
        for worker in ended {
            self.detach(
                worker,
                &format!("its data path has not turned for {PATIENCE:?}"),
            );
        }
    }
}
