//! The beginning of a chain: every worker runs, or nothing does; and how one worker is started.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use catena_shm::schedule::{SHORTEST_SLICE, ask_for_slices};

use crate::chain::{Chain, Mode};
use crate::placement::place;
use crate::supervisor::audits::Audits;
use crate::supervisor::body::Body;
use crate::supervisor::change::Change;
use crate::supervisor::clock::{measured, now};
use crate::supervisor::container::{Containers, Network};
use crate::supervisor::cores::cores_used;
use crate::supervisor::drift::Drift;
use crate::supervisor::instance::{Instance, State};
use crate::supervisor::memory::Memory;
use crate::supervisor::past::Past;
use crate::supervisor::pulse::Pulse;
use crate::supervisor::reclaims::Reclaims;
use crate::supervisor::rounds::Draining;
use crate::supervisor::runtime_dir::RuntimeDir;
use crate::supervisor::start_error::{SpawnError, StartError};
use crate::supervisor::states::States;
use crate::supervisor::tcp_links::{Sockets, has_sockets};
use crate::supervisor::{
    Options, START_TIMEOUT, Spare, Supervisor, adoption, descriptors, estate, runtime_dir, spawn,
};
use crate::wait::choose;
use crate::worker::build::pool_geometry;

/// What each container may take longer: an engine makes one after the other.
const CONTAINER_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a chain of such workers may take to start.
fn patience(workers: impl Iterator<Item = Mode>) -> Duration {
    let containers = workers.filter(|mode| *mode == Mode::Container);
    containers.fold(START_TIMEOUT, |sum, _| sum + CONTAINER_TIMEOUT)
}

impl Supervisor {
    /// Starts a chain: every worker runs when this returns, or nothing does. The calling thread,
    /// which is to serve it, asks for short slices of its core.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(chain: Chain, options: Options) -> Result<Self, StartError> {
        Self::start_unless(chain, options, None)
    }

    /// As [`Supervisor::start`], given up when `interrupt` becomes readable.
    ///
    /// # Errors
    /// As [`Supervisor::start`]; [`StartError::Interrupted`].
    pub fn start_unless(
        chain: Chain,
        options: Options,
        interrupt: Option<BorrowedFd<'_>>,
    ) -> Result<Self, StartError> {
        // Recovery is a dozen short steps, each of which may wait for a core.
        ask_for_slices(Some(SHORTEST_SLICE));
        let placement = place(&chain).map_err(|error| StartError::Placement(error.sentence()))?;
        estate::check_possible(&chain, &placement).map_err(StartError::Orphan)?;
        if let Some(why) = descriptors::shortage(&chain, &placement, None) {
            return Err(StartError::Descriptors(why));
        }
        let runtime = RuntimeDir::create(&options.runtime_root, &chain.name);
        let runtime = runtime.map_err(|error| adoption::why_busy(error, &options.runtime_root))?;
        let cores = cores_used(&chain, &placement, options.pin);
        let (clock, basis) = measured(placement.workers.len(), cores);
        let wait = choose(chain.run.wait, basis);
        let containers = Containers::for_chain(&chain, &placement, &runtime)?;
        if let Some(containers) = &containers {
            containers.remove_leftovers();
        }
        let mut supervisor = Self {
            memory: Memory::default(),
            sockets: Sockets::new(&placement),
            states: States::default(),
            clock,
            past: Past::default(),
            events: VecDeque::new(),
            reclaims: Reclaims::default(),
            audits: Audits::default(),
            adoptions: BTreeMap::new(),
            respawns: BTreeMap::new(),
            spare: None,
            questions: BTreeMap::new(),
            next_request: 0,
            drift: Drift::default(),
            started: now(),
            split_seed: runtime_dir::random_word(),
            drain_round: 0,
            draining: Draining::default(),
            is_stopping: false,
            change: Change::No,
            standing: BTreeSet::new(),
            passed: None,
            pulse: Pulse::default(),
            probing: None,
            estate: None,
            instances: Vec::new(),
            chain,
            placement,
            options,
            wait,
            runtime,
            containers,
        };
        let result = supervisor.start_all(interrupt);
        if result.is_err() {
            supervisor.kill_all();
        }
        result.map(|()| supervisor)
    }

    fn start_all(&mut self, interrupt: Option<BorrowedFd<'_>>) -> Result<(), StartError> {
        for worker in 0..self.placement.workers.len() {
            let instance = self.spawn(worker, 0)?;
            self.instances.push(instance);
        }
        let modes = self.placement.workers.iter().map(|worker| worker.mode);
        let patience = patience(modes);
        let deadline = now() + patience;
        while !self
            .instances
            .iter()
            .all(|instance| instance.state == State::Running)
        {
            let asked = self.step(Duration::from_millis(50), interrupt.as_slice());
            if asked.contains(&true) {
                return Err(StartError::Interrupted);
            }
            if let Some((worker, failed)) = self
                .instances
                .iter()
                .enumerate()
                .find(|(_, instance)| !instance.is_live())
            {
                let message = failed.failure.clone();
                return Err(StartError::Worker {
                    worker: self.placement.workers[worker].name.clone(),
                    message: message.unwrap_or_else(|| "ended while starting".to_owned()),
                });
            }
            if now() > deadline {
                let late = self.instances.iter().zip(&self.placement.workers);
                let late: Vec<_> = late
                    .filter(|(instance, _)| instance.state != State::Running)
                    .map(|(_, worker)| worker.name.clone())
                    .collect();
                return Err(StartError::Timeout(late.join(", "), patience));
            }
        }
        self.started = now();
        self.prepare_spare();
        Ok(())
    }

    pub(super) fn spawn(&mut self, worker: usize, epoch: u32) -> Result<Instance, SpawnError> {
        let spec = &self.placement.workers[worker];
        let token = runtime_dir::random_token();
        let (body, socket) = match spec.mode {
            Mode::Inline | Mode::Thread => {
                let (body, socket) = spawn::thread(&spec.name, &token, &self.options.registry)?;
                (body, Some(socket))
            }
            Mode::Process => {
                if epoch > 0
                    && let Some(spare) = self.spare.take()
                {
                    return Ok(Instance::new(
                        epoch,
                        spare.body,
                        Some(spare.socket),
                        spare.token,
                    ));
                }
                let program = &self.options.program;
                let how = (program.as_path(), self.chain.run.orphan_ms > 0);
                let (body, socket) = spawn::process(&spec.name, &self.chain.name, &token, how)?;
                (body, Some(socket))
            }
            Mode::Container => {
                let containers = self.containers.as_ref();
                let plan = &containers.expect("made where a worker needs it").plan;
                let network = if has_sockets(&self.placement, worker) {
                    Network::Bridge
                } else {
                    Network::None
                };
                let shared = self.shared_bytes();
                let of = (network, shared);
                let container = plan.start(&spec.name, &self.chain, epoch, &token, of)?;
                (Body::Container(container), None)
            }
        };
        Ok(Instance::new(epoch, body, socket, token))
    }

    /// Bytes of all pools, any of which a worker may be the first to touch.
    fn shared_bytes(&self) -> u64 {
        let pools = self.placement.pools.iter();
        let bytes = pools.map(|pool| pool_geometry(pool).bytes());
        bytes.fold(0, u64::saturating_add)
    }

    /// Keeps a process ready that has started and waits for its assignment, so that a restart costs
    /// neither fork nor exec. Without one, a restart only takes longer.
    pub(super) fn prepare_spare(&mut self) {
        let wants = self
            .placement
            .workers
            .iter()
            .any(|worker| worker.mode == Mode::Process);
        let all_run = self
            .present()
            .all(|instance| instance.state == State::Running);
        if !wants || !all_run || self.is_stopping || self.spare.is_some() {
            return;
        }
        let token = runtime_dir::random_token();
        let how = (self.options.program.as_path(), self.chain.run.orphan_ms > 0);
        if let Ok((body, socket)) = spawn::process("spare", &self.chain.name, &token, how) {
            self.spare = Some(Spare {
                body,
                socket,
                token,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_container_has_time_of_its_own_to_start_in() {
        use Mode::{Container, Inline, Process, Thread};
        let seconds = |modes: &[Mode]| patience(modes.iter().copied()).as_secs();
        assert_eq!(seconds(&[Inline, Thread, Process]), 30);
        assert_eq!(seconds(&[Process, Container]), 32);
        assert_eq!(seconds(&[Container; 62]), 154);
    }
}
