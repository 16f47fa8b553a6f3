//! The supervisor's attention: what it waits for, and who gets it, one loop for everything.
//!
//! Nothing here waits for a worker: sockets do not block, and each worker is heard a few records at
//! a time. A worker that leaves a question open for too long, or does not come up, is ended.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::supervisor::body::Body;
use crate::supervisor::clock::now;
use crate::supervisor::instance::State;
use crate::supervisor::{START_TIMEOUT, Supervisor};

/// How long a worker's data path may take to answer between two turns.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);

/// Something that can happen. Of two that happen at once to one worker, the first may lead to its
/// replacement: the second is then of an instance that is no more, and must not be taken for its
/// successor's.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// A worker, in this epoch, said something, or can be told more.
    Worker(usize, u32),
    /// A worker's process, of this epoch, ended.
    Exit(usize, u32),
    /// Somebody connects.
    Accept,
}

impl Supervisor {
    /// Serves everything that has happened, waiting at most `timeout` for something to happen.
    /// Gives for each of `also` whether it became readable.
    pub fn step(&mut self, timeout: Duration, also: &[BorrowedFd<'_>]) -> Vec<bool> {
        self.pulse.beat();
        // What others have decided since the last step; then what is decided in this one.
        self.commit();
        let extra = self.attend(timeout, also);
        #[cfg(test)]
        crate::supervisor::simulation::may_die();
        self.commit();
        extra
    }

    fn attend(&mut self, timeout: Duration, also: &[BorrowedFd<'_>]) -> Vec<bool> {
        let (ready, extra) = self.wait_for_events(timeout, also);
        if ready.contains(&Source::Accept) {
            self.admit_containers();
        }
        for source in ready {
            match source {
                Source::Worker(worker, epoch) if self.instances[worker].epoch == epoch => {
                    self.tell_the_rest(worker);
                    self.hear(worker);
                }
                Source::Exit(worker, epoch) if self.instances[worker].epoch == epoch => {
                    self.bury(worker);
                }
                Source::Worker(..) | Source::Exit(..) | Source::Accept => {}
            }
        }
        self.lose_patience();
        self.watch_turns();
        self.ask_again();
        self.settle_requests();
        self.respawn_due();
        self.begin_audits();
        self.forget_passed();
        self.see_containers_off();
        if !self.respawns.is_empty() {
            self.prepare_spare();
        }
        extra
    }

    fn wait_for_events(
        &self,
        timeout: Duration,
        also: &[BorrowedFd<'_>],
    ) -> (Vec<Source>, Vec<bool>) {
        let mut sources = Vec::new();
        let mut fds = Vec::new();
        let (mut timeout, now) = (timeout, now());
        for (worker, instance) in self.instances.iter().enumerate() {
            if !instance.is_live() {
                continue;
            }
            if let Some(socket) = &instance.socket {
                let rests = instance.talk.rests(now);
                let mut flags = PollFlags::empty();
                flags.set(PollFlags::IN, rests.is_none());
                flags.set(PollFlags::OUT, instance.outbox.has_waiting());
                timeout = rests.map_or(timeout, |rest| timeout.min(rest));
                sources.push(Source::Worker(worker, instance.epoch));
                fds.push(PollFd::new(socket, flags));
            }
            if let Some(exit) = instance.body.as_ref().and_then(Body::exit_fd) {
                sources.push(Source::Exit(worker, instance.epoch));
                fds.push(PollFd::new(exit, PollFlags::IN));
            }
        }
        if let Some(containers) = &self.containers {
            for socket in containers.doors(&self.runtime) {
                sources.push(Source::Accept);
                fds.push(PollFd::new(socket, PollFlags::IN));
            }
        }
        fds.extend(
            also.iter()
                .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)),
        );
        let timeout = self
            .time_to_respawn()
            .map_or(timeout, |time| timeout.min(time));
        let timeout = Timespec::try_from(timeout).unwrap_or(Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        });
        #[cfg(test)]
        let timeout = crate::supervisor::simulation::go_on(self, timeout);
        if poll(&mut fds, Some(&timeout)).is_err() {
            return (Vec::new(), vec![false; also.len()]);
        }
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let extra = fds[sources.len()..].iter().map(is_ready).collect();
        let ready = sources.into_iter().zip(&fds).filter(|(_, fd)| is_ready(fd));
        (ready.map(|(source, _)| source).collect(), extra)
    }

    /// Sends a worker what it had no room for before.
    fn tell_the_rest(&self, worker: usize) {
        let instance = &self.instances[worker];
        if let Some(socket) = instance.socket.as_ref().filter(|_| instance.is_live()) {
            instance.outbox.flush(socket, now());
        }
    }

    /// Ends workers that cannot be told anything, do not answer, or do not come up.
    fn lose_patience(&mut self) {
        let now = now();
        let mut ended = Vec::new();
        for (worker, instance) in self.instances.iter().enumerate() {
            if instance.is_live()
                && let Some(why) = instance.outbox.take_refusal(now)
            {
                ended.push((worker, why));
            }
            let is_up = matches!(instance.state, State::Running | State::Stopping);
            let is_up = is_up || !instance.is_live() || !instance.awaits.is_empty();
            // At the chain's start, the whole chain is given up instead.
            if instance.epoch > 0 && !is_up && now - instance.started > START_TIMEOUT {
                ended.push((
                    worker,
                    format!("it did not come up within {START_TIMEOUT:?}"),
                ));
            }
            let is_late = |asked: Instant| now - asked > ANSWER_PATIENCE;
            if instance.is_live() && instance.resuming.is_some_and(|(_, asked)| is_late(asked)) {
                let why =
                    format!("it did not answer its new supervisor within {ANSWER_PATIENCE:?}");
                ended.push((worker, why));
            }
            for (viewer, (_, asked)) in &instance.awaits {
                if now - *asked > ANSWER_PATIENCE && self.instances[*viewer].is_live() {
                    let why = format!("its data path did not answer within {ANSWER_PATIENCE:?}");
                    ended.push((*viewer, why));
                }
            }
        }
        for (worker, why) in ended {
            if self.instances[worker].socket.is_some() {
                self.detach(worker, &why);
            }
        }
    }
}
