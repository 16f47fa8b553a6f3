//! Writes down how far everything has come, for a successor of this supervisor: see `estate`.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use catena_shm::tsc::kernel_ns;

use crate::supervisor::body::Body;
use crate::supervisor::book::{Book, Life, Stage, WrittenRegion, WrittenRespawn, WrittenState};
use crate::supervisor::change::Change;
use crate::supervisor::clock::now;
use crate::supervisor::estate::{Estate, Origin, Parcels, write_text};
use crate::supervisor::instance::{Changing, Instance, State};
use crate::supervisor::keeper::{OPEN, Opening};
use crate::supervisor::{StartError, Supervisor, spawn};

impl Supervisor {
    /// Has the chain outlive this process for as long as its file says, if it says so. `origin` is
    /// what the chain came from, as whoever takes it over reads it (see [`Supervisor::adopt`]).
    ///
    /// # Errors
    /// [`StartError::Orphan`]: then it ends with this process.
    pub fn keep(&mut self, origin: &str) -> Result<(), StartError> {
        if self.chain.run.orphan_ms == 0 || self.estate.is_some() {
            return Ok(());
        }
        let failed = |why: String| StartError::Orphan(format!("the chain cannot be kept: {why}"));
        let (child, keeper) = spawn::keeper(&self.chain.name, &self.options.program)?;
        let started = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let numbers = (0, kernel_ns().saturating_sub(started));
        let estate = Estate::new(keeper, child, numbers, &BTreeMap::new());
        let estate = estate.map_err(|error| failed(error.to_string()))?;
        let door = self.runtime.keeper_listener();
        let door = door.map_err(|error| failed(error.to_string()))?;
        let opening = Opening {
            pid: std::process::id(),
            limit_ms: self.chain.run.orphan_ms,
        };
        let text = serde_json::to_vec(&opening).map_err(|error| failed(error.to_string()))?;
        let told = estate.tell(OPEN, &text, &[door.as_fd()]);
        told.map_err(|error| failed(error.to_string()))?;
        self.estate = Some(estate);
        self.came_from(origin);
        self.write_drift();
        self.commit();
        match self.estate {
            Some(_) => Ok(()),
            None => Err(failed(
                "its keeper does not take what it is given".to_owned(),
            )),
        }
    }

    /// From now on the chain is what `origin` says.
    pub(super) fn came_from(&mut self, origin: &str) {
        let Some(estate) = &mut self.estate else {
            return;
        };
        match write_text(origin) {
            Ok(memory) => estate.origins.push(Origin {
                memory: Arc::new(memory),
                len: origin.len(),
            }),
            Err(error) => {
                self.estate = None;
                self.let_go(&error.to_string());
            }
        }
    }

    /// As [`Supervisor::came_from`], where nothing changed by it: instead of what was said last.
    pub(super) fn comes_from(&mut self, origin: &str) {
        if let Some(estate) = &mut self.estate {
            estate.origins.pop();
        }
        self.came_from(origin);
    }

    /// Nobody will take the chain over.
    pub(super) fn let_go(&mut self, why: &str) {
        self.notice(format!(
            "the chain is not kept any more ({why}): it ends when this process is killed"
        ));
        for instance in &self.instances {
            instance.outbox.journal(false);
        }
    }

    /// Writes down how far everything has come, and then tells workers what they are to be told.
    /// Without a keeper, nothing is written and nothing has waited.
    pub(super) fn commit(&mut self) {
        let Some(mut estate) = self.estate.take() else {
            return;
        };
        let result = self.write_down(&mut estate);
        #[cfg(test)]
        crate::supervisor::simulation::may_die();
        if let Err(why) = &result {
            self.let_go(why);
        }
        let now = now();
        for instance in &self.instances {
            instance.outbox.journal(result.is_ok());
            if let Some(socket) = instance.socket.as_ref().filter(|_| instance.is_live()) {
                instance.outbox.written(socket, now);
            }
        }
        self.estate = result.is_ok().then_some(estate);
    }

    fn write_down(&self, estate: &mut Estate) -> Result<(), String> {
        let mut parcels = Parcels {
            estate,
            keys: BTreeSet::new(),
            new: Vec::new(),
            failure: None,
        };
        let mut book = self.book(&mut parcels);
        let Parcels {
            keys, new, failure, ..
        } = parcels;
        if let Some(error) = failure {
            return Err(error.to_string());
        }
        book.keys = keys.clone();
        book.serial = estate.serial;
        let bytes = serde_json::to_vec(&book).map_err(|error| error.to_string())?;
        if bytes == estate.written {
            return Ok(());
        }
        let written = estate.write(bytes, keys, &new);
        written.map_err(|error| error.to_string())
    }

    fn book(&self, parcels: &mut Parcels<'_>) -> Book {
        let stage = match self.change {
            Change::No => Stage::Settled,
            Change::Preparing(_) => Stage::Preparing,
            Change::Admitting(_) | Change::Switching(_) | Change::Completing(_) => Stage::Switching,
        };
        let origins = parcels.estate.origins.iter();
        let origins: Vec<_> = origins.map(|one| (one.memory.clone(), one.len)).collect();
        let origins = origins
            .iter()
            .map(|(fd, len)| (parcels.put_shared(fd), *len));
        let origins = origins.collect();
        let drift = parcels.estate.drift.as_ref();
        let drift = drift.map(|text| (text.memory.clone(), text.len));
        let drift = drift.map(|(fd, len)| (parcels.put_shared(&fd), len));
        parcels.put("lock".to_owned(), self.runtime.lock());
        let lives = self.instances.iter().enumerate();
        let lives = lives.map(|(worker, instance)| life(worker, instance, parcels));
        let lives: Vec<Life> = lives.collect();
        let regions = self.memory.everything().map(|(name, start, held)| {
            let ring = held.end.as_ref().map(|end| end.geometry());
            WrittenRegion {
                name,
                start,
                key: parcels.put_shared(&held.fd),
                len: held.len,
                ring: ring.map(|ring| (ring.slot_count, ring.staging_bytes)),
            }
        });
        let regions = regions.collect();
        let states = self.states.everything();
        let states = states.map(|(node, name, fd, len)| WrittenState {
            node,
            name: name.to_owned(),
            key: parcels.put_shared(fd),
            len,
        });
        let states = states.collect();
        Book {
            keys: BTreeSet::new(),
            serial: 0,
            pids: lives.iter().filter_map(|life| life.pid).collect(),
            origins,
            drift,
            stage,
            pin: self.options.pin,
            wait: self.wait,
            clock: self.clock.parts(),
            started_ns: parcels.estate.started_ns,
            split_seed: self.split_seed,
            next_request: self.next_request,
            drain_round: self.drain_round,
            probing: self.probing.map(|(settings, _)| settings),
            lives,
            containers: self.containers.as_ref().map(|all| all.plan.written()),
            regions,
            starts: self.memory.starts().collect(),
            states,
            secrets: self.sockets.secrets.clone(),
            addresses: self.sockets.addresses.clone(),
            past: self.past.written(),
            waiting: self.reclaims.waiting.clone(),
            under_way: self.reclaims.under_way.clone(),
            last_reclaim: self.reclaims.last,
            audits_due: self.audits.due.clone(),
            audits_open: self.audits.open_links(),
            audits_last: self.audits.last.clone(),
            adoptions: self.adoptions.clone(),
            respawns: self.written_respawns(),
        }
    }

    fn written_respawns(&self) -> Vec<WrittenRespawn> {
        let entries = self.respawns.iter().map(|(worker, entry)| WrittenRespawn {
            worker: *worker,
            quick_deaths: entry.quick_deaths,
            is_up: entry.is_up,
            waits_for: entry
                .waits_for
                .iter()
                .map(|(unit, by)| (*unit, *by))
                .collect(),
        });
        entries.collect()
    }
}

fn life(worker: usize, instance: &Instance, parcels: &mut Parcels<'_>) -> Life {
    let epoch = instance.epoch;
    let own = |what: &str| format!("{what} {worker} {epoch}");
    let body = instance.body.as_ref();
    let exit = body.and_then(Body::exit_fd);
    let container = match body {
        Some(Body::Container(container)) => Some(container.written()),
        _ => None,
    };
    let is_client = container.as_ref().is_some_and(|written| !written.has_come);
    let process = own(if is_client {
        "process client"
    } else {
        "process"
    });
    let (sent, unsent) = match instance.state {
        State::Running => instance.outbox.unsent(),
        // One that does not run yet is not taken over.
        _ => (0, Vec::new()),
    };
    let mut shared = |of: &Option<(Arc<OwnedFd>, usize)>| {
        let (fd, len) = of.as_ref()?;
        Some((parcels.put_shared(fd), *len))
    };
    let (page, records) = (shared(&instance.page), shared(&instance.records));
    let unsent = unsent.into_iter().map(|(text, memory)| {
        let key = memory.map(|memory| parcels.put_shared(&memory));
        (text, key)
    });
    let unsent = unsent.collect();
    let socket = instance.socket.as_ref();
    Life {
        epoch,
        state: instance.state,
        pid: body.and_then(Body::pid),
        socket: socket.map(|fd| parcels.put(own("socket"), fd.as_fd())),
        process: exit.map(|fd| parcels.put(process, fd.as_fd())),
        container,
        page,
        records,
        layout: instance.layout,
        rx_gone: instance.rx_gone,
        tx_gone: instance.tx_gone,
        is_retiring: instance.is_retiring,
        is_bypass: instance.is_bypass,
        is_introduced: instance.is_introduced,
        is_detached: instance.is_detached,
        is_changing: instance.changing != Changing::No,
        failure: instance.failure.clone(),
        closings: instance.closings.clone(),
        sent,
        unsent,
    }
}
