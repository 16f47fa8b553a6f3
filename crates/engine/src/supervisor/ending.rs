//! The chain's end: workers are stopped so that every buffer comes home, or killed.

use std::time::{Duration, Instant};

use crate::protocol::ToWorker;
use crate::supervisor::Supervisor;
use crate::supervisor::clock::now;
use crate::supervisor::instance::State;

/// How long an owner's last buffers may take on their way home, once no packet is left.
const RETURN_PATIENCE: Duration = Duration::from_millis(500);

/// How long threads may take to see that their connections have ended.
const THREAD_PATIENCE: Duration = Duration::from_secs(2);

impl Supervisor {
    /// Stops the chain: who is being started, or is to be now, comes up first, and takes what waits
    /// for it; then those who own no pools stop, so that every buffer comes home; then the others.
    /// Waits at most half of `patience` for each of the three, then kills.
    pub fn stop(&mut self, patience: Duration) {
        // What has happened until now is dealt with as in a chain that goes on.
        self.step(Duration::ZERO, &[]);
        self.step_while(patience / 2, |supervisor| {
            (0..supervisor.instances.len()).any(|worker| supervisor.comes_up(worker))
        });
        let has_drained = self.is_draining() && self.is_empty();
        self.is_stopping = true;
        let owners: Vec<usize> = self.placement.pools.iter().map(|pool| pool.owner).collect();
        for round in [false, true] {
            if round && has_drained {
                // Owners stop at once: what one returns to another must be home before.
                self.step_while(RETURN_PATIENCE.min(patience / 2), |supervisor| {
                    let mut owners = owners.iter();
                    owners.any(|owner| supervisor.is_owed(*owner))
                });
            }
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

    /// Whether buffers of a worker that runs are out.
    fn is_owed(&self, worker: usize) -> bool {
        self.instances[worker].state == State::Running && self.buffers_out(worker) > 0
    }

    /// Whether a worker is being started, or is to be at once.
    fn comes_up(&self, worker: usize) -> bool {
        match self.instances[worker].state {
            State::Starting | State::Making | State::Made => true,
            State::Dead => {
                let respawn = self.respawns.get(&worker);
                respawn.is_some_and(|respawn| !respawn.is_up && respawn.due <= now())
            }
            State::Running | State::Stopping | State::Stopped => false,
        }
    }

    fn step_while(&mut self, patience: Duration, goes_on: impl Fn(&Self) -> bool) {
        let deadline = now() + patience;
        while goes_on(self) && now() < deadline {
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
        for instance in &mut self.instances {
            instance.socket = None;
        }
        let deadline = Instant::now() + THREAD_PATIENCE;
        for worker in 0..self.instances.len() {
            if let Some(mut body) = self.instances[worker].body.take() {
                body.kill();
                let patience = deadline.saturating_duration_since(Instant::now());
                if !body.ends_within(patience) {
                    let name = &self.placement.workers[worker].name;
                    self.notice(format!(
                        "worker {name} is left behind: its thread does not end"
                    ));
                    continue;
                }
                self.part_with(body);
            }
        }
        self.remove_containers();
        if let Some(estate) = self.estate.take() {
            estate.end();
        }
    }
}
