//! The chain's end: workers are stopped so that every buffer comes home, or killed.

use std::time::{Duration, Instant};

use crate::protocol::ToWorker;
use crate::supervisor::Supervisor;
use crate::supervisor::instance::State;

impl Supervisor {
    /// Stops the chain: who is being started comes up first, and takes what waits for it; then
    /// those who own no pools stop, so that every buffer comes home; then the others. Waits at most
    /// half of `patience` for each of the three, then kills.
    pub fn stop(&mut self, patience: Duration) {
        self.is_stopping = true;
        let starts = |state: State| matches!(state, State::Starting | State::Making | State::Made);
        self.step_while(patience / 2, |supervisor| {
            let mut instances = supervisor.instances.iter();
            instances.any(|instance| starts(instance.state))
        });
        let owners: Vec<usize> = self.placement.pools.iter().map(|pool| pool.owner).collect();
        for round in [false, true] {
            let chosen: Vec<usize> = (0..self.instances.len())
                .filter(|worker| owners.contains(worker) == round)
                .collect();
            for worker in &chosen {
                if self.instances[*worker].is_live() {
                    self.instances[*worker].send(&ToWorker::Stop);
                }
            }
            // One that does not listen must not use up the time of those that come after it.
            self.step_while(patience / 2, |supervisor| {
                let mut chosen = chosen.iter();
                chosen.any(|worker| supervisor.instances[*worker].is_live())
            });
        }
        self.kill_all();
    }

    fn step_while(&mut self, patience: Duration, goes_on: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + patience;
        while goes_on(self) && Instant::now() < deadline {
            self.step(Duration::from_millis(20), &[]);
        }
    }

    pub(super) fn stopped(&mut self, worker: usize) {
        let instance = &mut self.instances[worker];
        instance.socket = None;
        if let Some(mut body) = instance.body.take() {
            // It has nothing left to do, and is not waited for if it lives on all the same. Whoever
            // started one that joined is to see that it ended well.
            if !body.has_joined() {
                body.kill();
            }
            self.part_with(body);
        }
        if !self.is_stopping && !self.instances[worker].is_retiring {
            self.bury_stopped(worker);
        }
    }

    pub(super) fn kill_all(&mut self) {
        if let Some(mut spare) = self.spare.take() {
            spare.body.kill();
            spare.body.reap();
        }
        for worker in 0..self.instances.len() {
            self.instances[worker].socket = None;
            if let Some(mut body) = self.instances[worker].body.take() {
                body.kill();
                self.part_with(body);
            }
        }
        self.remove_containers();
        if let Some(estate) = self.estate.take() {
            estate.end();
        }
    }
}
