//! What workers say, and what follows from it.
//!
//! Every record is checked against the state of the instance that sent it: one that no worker of
//! this version would send then ends the worker. So does a broken connection, once its last words
//! are heard.

use std::os::fd::OwnedFd;

use catena_shm::ring_memory::Side;

use crate::pools::VIOLATION_LIMIT;
use crate::protocol::{FromWorker, RegionName, VERSION};
use crate::supervisor::body::Body;
use crate::supervisor::clock::now;
use crate::supervisor::instance::{Changing, Heard, State};
use crate::supervisor::{Event, Supervisor, memory, status};

/// Messages that are heard of one worker before the next worker's turn comes.
const MESSAGES_AT_A_TIME: usize = 32;
/// Messages that are heard of one that is dead: more than a connection holds.
const LAST_MESSAGES_MAX: usize = 4096;

impl Supervisor {
    /// What a worker has said, a few messages at a time. A broken connection, or a record that no
    /// worker of this version sends, is its death.
    pub(super) fn hear(&mut self, worker: usize) {
        let epoch = self.instances[worker].epoch;
        for _ in 0..MESSAGES_AT_A_TIME {
            let instance = &self.instances[worker];
            if !instance.is_live() || instance.epoch != epoch || instance.socket.is_none() {
                return;
            }
            if instance.talk.rests(now()).is_some() && !instance.has_hung_up() {
                return self.note_talk(worker);
            }
            let asked = instance.resuming.map(|(nonce, _)| nonce);
            match (self.instances[worker].receive(), asked) {
                (Heard::Record(record, _), Some(asked)) => self.answers(worker, asked, &record),
                // What a former supervisor was told, and its last words to it, count no more.
                (Heard::Garbage(_), Some(_)) | (Heard::Part, _) => {}
                (Heard::Record(record, fds), None) => self.obey(worker, *record, fds),
                (Heard::Garbage(why), None) => self.detach(worker, &why),
                (Heard::Nothing, _) => return,
                (Heard::End, _) => self.disconnected(worker),
            }
        }
    }

    /// Something a worker said that was asked, under number `asked`, how far it has come.
    fn answers(&mut self, worker: usize, asked: u64, record: &FromWorker) {
        if let FromWorker::Resumed {
            nonce,
            heard,
            is_finished,
            drained,
            changed,
        } = record
            && *nonce == asked
        {
            self.resumed(worker, *heard, (*is_finished, *drained));
            for (id, is_accepted) in changed {
                self.note_answer(worker, *id, *is_accepted);
            }
        }
    }

    /// A worker says so much that it is heard only now and then; told once in its life.
    fn note_talk(&mut self, worker: usize) {
        if !std::mem::replace(&mut self.instances[worker].is_talkative, true) {
            let name = &self.placement.workers[worker].name;
            self.notice(format!(
                "worker {name} says more than is heard of one in a second; it is heard more slowly"
            ));
        }
    }

    /// A worker's exit is certain, but not all that it said has been heard: its last records count.
    /// What it left in the connection has an end, unless somebody else has the other side too.
    pub(super) fn hear_last_words(&mut self, worker: usize) {
        let epoch = self.instances[worker].epoch;
        for _ in 0..LAST_MESSAGES_MAX {
            let instance = &self.instances[worker];
            if !instance.is_live() || instance.epoch != epoch || !instance.has_word() {
                return;
            }
            match self.instances[worker].receive() {
                Heard::Record(..) if self.instances[worker].resuming.is_some() => {}
                Heard::Record(record, fds) => self.obey(worker, *record, fds),
                Heard::Part => {}
                Heard::Garbage(_) | Heard::Nothing | Heard::End => return,
            }
        }
    }

    pub(super) fn obey(&mut self, worker: usize, record: FromWorker, fds: Vec<OwnedFd>) {
        let expected = usize::from(matches!(record, FromWorker::Made { .. }));
        if fds.len() != expected {
            let why = format!("a record with {} descriptors, not {expected}", fds.len());
            return self.detach(worker, &why);
        }
        let instance = &mut self.instances[worker];
        match (record, instance.state) {
            (FromWorker::Hello { version, token }, State::Starting) => {
                if version == VERSION && token == instance.token {
                    self.assign(worker);
                } else {
                    self.detach(worker, "its token or its version is wrong");
                }
            }
            (FromWorker::Made { region, len }, State::Making | State::Running)
                if instance.state == State::Making || instance.changing == Changing::Making =>
            {
                if let Some(fd) = fds.into_iter().next() {
                    self.take_memory(worker, region, len, fd);
                }
            }
            // Nobody wants it any more.
            (FromWorker::Made { .. }, State::Running)
                if instance.changing == Changing::Forgetting => {}
            (FromWorker::Listening { link, address }, State::Making) => {
                self.listens(worker, link, address);
            }
            (FromWorker::AllMade { notices }, State::Making) => {
                if let Some(region) = self.not_made(worker) {
                    return self.detach(worker, &format!("it has not made {region:?}"));
                }
                if let Some(link) = self.not_listening(worker) {
                    return self.detach(worker, &format!("it does not listen for link {link}"));
                }
                self.instances[worker].state = State::Made;
                for notice in notices {
                    self.notice(notice);
                }
                self.show_pools(worker);
                self.introduce();
            }
            (FromWorker::AllMade { .. }, State::Running) => {
                instance.hearing.speaks();
                match instance.changing {
                    Changing::Making => {
                        instance.changing = Changing::Made;
                        self.introduce();
                    }
                    Changing::Forgetting => instance.has_said_the_last(),
                    _ => {}
                }
            }
            (FromWorker::Admitted, State::Running) => {
                instance.has_followed(Changing::Admitting, Changing::Admitted);
            }
            (FromWorker::Rewired, State::Running) => {
                instance.has_followed(Changing::Rewiring, Changing::Rewired);
            }
            (FromWorker::Started, State::Made) => {
                instance.state = State::Running;
                instance.running_since = Some(now());
                self.now_running(worker);
            }
            (FromWorker::Failed { node, message }, _) => {
                let name = node.and_then(|node| self.chain.nodes.get(node));
                let name = name.map_or(String::new(), |node| format!("{}: ", node.name));
                let said = format!("{name}{message}");
                match (instance.changing, instance.state) {
                    (Changing::Forgetting, _) => return instance.has_said_the_last(),
                    (Changing::Making, _) => instance.changing = Changing::Failed,
                    // What it says of a change that is made is no failure of the worker's.
                    (_, State::Running) => return self.notice(said),
                    _ => {}
                }
                instance.failure = Some(said);
            }
            (FromWorker::Synced { id }, _) => {
                if instance.forgets == Some(id) {
                    instance.forgets = None;
                    instance.changing = Changing::No;
                }
                self.synced(worker, id);
                self.conclude_audit(worker, id);
            }
            // Its data path may be ahead of its control thread.
            (
                FromWorker::Violation { region, count },
                State::Made | State::Running | State::Stopping,
            ) => self.accused(worker, region, count),
            (FromWorker::Finished, _) => instance.is_finished = true,
            (FromWorker::Drained { round }, _) => instance.drained = round,
            (FromWorker::Answer { id, result }, _) => {
                instance.hearing.speaks();
                self.answered(worker, id, result);
            }
            (FromWorker::Stopped { ports }, State::Running | State::Stopping) => {
                instance.closings = ports;
                instance.state = State::Stopped;
                self.stopped(worker);
            }
            (record, state) => {
                let text = format!("{record:?}");
                let text: String = text.chars().take(200).collect();
                self.detach(
                    worker,
                    &format!("unexpected record in state {state:?}: {text}"),
                );
            }
        }
    }

    /// A neighbour of `worker` broke the rules, says `worker`. It is believed of the other end of
    /// its own rings only, and only if the neighbour's own memory, which nobody else can write,
    /// bears it out: what the accuser refused has done no harm, so an innocent neighbour is never
    /// ended for what it is said to have done.
    pub(super) fn accused(&mut self, worker: usize, region: RegionName, count: u64) {
        let Some((ring, side)) = memory::ring_of(&self.placement, region) else {
            return self.detach(worker, "it accuses nobody");
        };
        let (maker, peer) = match side {
            Side::Producer => (ring.from, ring.to),
            Side::Consumer => (ring.to, ring.from),
        };
        if peer != worker {
            return self.detach(worker, "it accuses a worker that is no neighbour");
        }
        if self.instances[maker].state != State::Running {
            return;
        }
        // An honest accuser speaks again only when it has seen as much again: that bounds what
        // looking into the matter costs.
        let said = self.instances[worker]
            .accusations
            .entry(region)
            .or_default();
        let is_first = *said == 0;
        if count < said.saturating_mul(2).max(VIOLATION_LIMIT) {
            return;
        }
        *said = count;
        let what = match ring.link {
            Some(link) => format!("link {}", self.chain.links[link].name),
            None => "the way of buffers home".to_owned(),
        };
        let what = format!("{count} impossible descriptors or cursors on {what}");
        match self.evidence_against(&ring, side) {
            Some(evidence) => self.detach(maker, &format!("{what}; seen: {evidence}")),
            None if is_first => self.note_accusation(worker, maker, what),
            None => {}
        }
    }

    /// Remembers an accusation without evidence, once per ring and life of the accuser.
    fn note_accusation(&mut self, worker: usize, maker: usize, what: String) {
        let name = |worker: usize| self.placement.workers[worker].name.clone();
        let (by, of) = (name(worker), name(maker));
        if self.past.accusations.len() == status::DETACHED_MAX {
            self.past.accusations.pop_front();
        }
        let text = format!("{by} accuses {of}: {what}");
        self.past.accusations.push_back(text);
        self.events.push_back(Event::Accused {
            by,
            worker: of,
            what,
        });
    }

    /// The connection ended. A process may still be running: its exit must be certain first.
    pub(super) fn disconnected(&mut self, worker: usize) {
        let instance = &mut self.instances[worker];
        instance.socket = None;
        match &mut instance.body {
            Some(body @ (Body::Process(..) | Body::Adopted(..) | Body::Container(_))) => {
                body.kill();
                if body.exit_fd().is_none() {
                    self.bury(worker);
                }
            }
            _ => self.bury(worker),
        }
    }

    /// Ends a worker that broke the rules.
    pub(super) fn detach(&mut self, worker: usize, why: &str) {
        let name = self.placement.workers[worker].name.clone();
        if self.past.detached.len() == status::DETACHED_MAX {
            self.past.detached.pop_front();
        }
        self.past.detached.push_back(format!("{name}: {why}"));
        self.events.push_back(Event::Detached {
            worker: name,
            why: why.to_owned(),
        });
        self.instances[worker].is_detached = true;
        self.instances[worker].failure.get_or_insert(why.to_owned());
        self.disconnected(worker);
    }
}
