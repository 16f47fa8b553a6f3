//! Requests to nodes (`catena nf control`), and what those that are accepted change of the chain.
//!
//! A request that [amends](crate::nf::Amend) a node's configuration is part of the chain before
//! the node hears of it, and is taken back if the node refuses it. So at any instant whoever runs
//! the node next is given all that was accepted:
//!
//! | what happens | what becomes of the request |
//! |---|---|
//! | an instance accepts it | it is kept |
//! | all instances refuse it | it is forgotten |
//! | some shards refuse it | it is kept; who asked is told which, and may ask again |
//! | an instance ends before it answers | it is kept: the successor is built with it |
//! | an instance does not answer | it is ended after 30 s |
//! | the supervisor ends before it has heard the answer | its successor hears it (`Resumed`) |
//!
//! Of one node, one such request is under way at a time, and none while the chain is changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::chain::amendments::{Amended, Amendment, config_of, set_config};
use crate::chain::{Chain, NodeKind};
use crate::protocol::ToWorker;
use crate::shard::name_in_file;
use crate::supervisor::Supervisor;
use crate::supervisor::body::Body;
use crate::supervisor::clock::now;
use crate::supervisor::drift::{Asked, Drift, Pending, Question, written_of};
use crate::supervisor::estate::{Origin, write_text};
use crate::supervisor::instance::Instance;

/// Questions that are remembered; whoever asked older ones has given up.
const QUESTIONS_MAX: usize = 256;

/// How long a node may take to answer a request that amends it: until then the chain cannot be
/// changed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Longest reason that is told: it may quote a request of megabytes.
const WHY_LEN_MAX: usize = 500;

/// What whoever asked is told of a request that is not passed on.
fn refusal(name: &str, why: &str) -> String {
    let why: String = match why.char_indices().nth(WHY_LEN_MAX) {
        Some((at, _)) => format!("{}...", &why[..at]),
        None => why.to_owned(),
    };
    match why.starts_with(name) {
        true => why,
        false => format!("{name}: nothing was changed: {why}"),
    }
}

impl Supervisor {
    /// Asks a node of the file, or one shard of such, something: gives names and numbers of the
    /// requests that it comes to, one for each shard. Answers are fetched by
    /// [`Supervisor::answer`].
    ///
    /// # Errors
    /// Why nobody is asked, and nothing has changed.
    pub fn ask(&mut self, name: &str, request: &Value) -> Result<Vec<(String, u64)>, String> {
        let nodes = self.chain.nodes_named(name);
        let Some(first) = nodes.first() else {
            return Err(format!("the chain has no node \"{name}\""));
        };
        let node = &self.chain.nodes[*first];
        let written = self.drift.written.get(name);
        let written = written.unwrap_or_else(|| config_of(node));
        let proposed = self.drift.kept.propose((name, node), written, request);
        let amended = proposed.map_err(|why| refusal(name, &why))?;
        if amended.is_some() {
            if name != name_in_file(name) {
                let all = name_in_file(name);
                return Err(format!(
                    "{name} is a shard, and this would change what it does: ask {all}, so that \
                     all shards do the same"
                ));
            }
            if self.drift.pending.contains_key(name) {
                let later = "what it was asked to change before is still under way; ask again";
                return Err(format!("{name}: {later}"));
            }
            let busy = nodes.iter().find_map(|node| self.why_not_now(*node));
            if let Some(later) = busy {
                return Err(format!("{name}: {later}"));
            }
        }
        let is_change = amended.is_some();
        let first_id = self.next_request + 1;
        if let Some(amended) = amended {
            self.begin_change_of(name, &nodes, amended, first_id);
        }
        let asked = nodes.into_iter().map(|node| {
            let id = self.put(node, request.clone(), is_change);
            (self.chain.nodes[node].name.clone(), id)
        });
        Ok(asked.collect())
    }

    /// What answers of all shards of a node of the file come to, if its kind says so.
    pub fn sum(&self, name: &str, request: &Value, answers: &[&Value]) -> Option<Value> {
        let first = *self.chain.nodes_named(name).first()?;
        let node = &self.chain.nodes[first];
        let NodeKind::Nf { plan, .. } = &node.kind else {
            return None;
        };
        plan.sums.0?(config_of(node), request, answers)
    }

    /// Sends a request to a node; the answer is fetched by [`Supervisor::answer`].
    pub fn request(&mut self, node: usize, request: Value) -> u64 {
        let name = self.chain.nodes[node].name.clone();
        match self
            .ask(&name, &request)
            .map(|asked| asked.first().map(|(_, id)| *id))
        {
            Ok(Some(id)) => id,
            Ok(None) => self.answered_at_once(node, Err("nobody was asked".to_owned())),
            Err(why) => self.answered_at_once(node, Err(why)),
        }
    }

    fn why_not_now(&self, node: usize) -> Option<&'static str> {
        let instance = &self.instances[self.placement.worker_of[node]];
        if !(instance.is_introduced && instance.is_live()) {
            Some("it is being restarted; ask again")
        } else if !instance.outbox.has_room_for_requests() {
            Some("it has not taken what it was asked before; ask again")
        } else {
            None
        }
    }

    fn put(&mut self, node: usize, request: Value, is_change: bool) -> u64 {
        // Whether a change may be asked for was looked at before it began.
        if let (false, Some(later)) = (is_change, self.why_not_now(node)) {
            return self.answered_at_once(node, Err(later.to_owned()));
        }
        let id = self.answered_later(node, None);
        let worker = self.placement.worker_of[node];
        let record = ToWorker::Control {
            id,
            node,
            request,
            is_change,
        };
        self.tell(worker, &record);
        id
    }

    fn answered_at_once(&mut self, node: usize, answer: Result<Value, String>) -> u64 {
        self.answered_later(node, Some(answer))
    }

    fn answered_later(&mut self, node: usize, answer: Option<Result<Value, String>>) -> u64 {
        self.next_request += 1;
        let id = self.next_request;
        let worker = self.placement.worker_of[node];
        self.questions.insert(id, Question { worker, answer });
        if self.questions.len() > QUESTIONS_MAX {
            self.questions.pop_first();
        }
        id
    }

    /// The answer to a request, once.
    pub fn answer(&mut self, id: u64) -> Option<Result<Value, String>> {
        self.questions.get(&id)?.answer.as_ref()?;
        self.questions.remove(&id)?.answer
    }

    /// Nobody waits for the answer to a request any more. What it changes is kept all the same.
    pub fn withdraw(&mut self, id: u64) {
        self.questions.remove(&id);
    }

    /// From now on the chain is amended so, unless all of `nodes` refuse it.
    fn begin_change_of(&mut self, name: &str, nodes: &[usize], amended: Amended, first_id: u64) {
        let mut config = Value::Null;
        for node in nodes {
            config = config_of(&self.chain.nodes[*node]).clone();
            set_config(&mut self.chain.nodes[*node], amended.config.clone());
        }
        let written = self.drift.written.entry(name.to_owned());
        written.or_insert_with(|| config.clone());
        let asked = nodes.iter().zip(first_id..).map(|(node, id)| {
            let worker = self.placement.worker_of[*node];
            let epoch = self.instances[worker].epoch;
            Asked { id, worker, epoch }
        });
        let pending = Pending {
            config,
            kept: self.drift.kept.of(name).to_vec(),
            asked: asked.collect(),
            is_accepted: false,
            since: None,
        };
        self.drift.pending.insert(name.to_owned(), pending);
        self.keep_of(name, amended.kept);
    }

    fn keep_of(&mut self, name: &str, kept: Vec<Amendment>) {
        self.drift.kept.keep(name, kept);
        self.write_drift();
    }

    /// A worker has answered a request.
    pub(super) fn answered(&mut self, worker: usize, id: u64, result: Result<Value, String>) {
        self.note_answer(worker, id, result.is_ok());
        // Whoever asked may have given up; nobody else's answer counts.
        let question = self.questions.get_mut(&id);
        if let Some(question) = question.filter(|asked| asked.worker == worker) {
            question.answer.get_or_insert(result);
        }
    }

    /// What `worker` has made of request `id`, if that amends a node.
    pub(super) fn note_answer(&mut self, worker: usize, id: u64, is_accepted: bool) {
        let is_it = |asked: &Asked| (asked.worker, asked.id) == (worker, id);
        let pending = self.drift.pending.iter_mut();
        let mut found = pending.filter(|(_, pending)| pending.asked.iter().any(is_it));
        if let Some((name, pending)) = found.next() {
            pending.asked.retain(|asked| !is_it(asked));
            pending.is_accepted |= is_accepted;
            let name = name.clone();
            self.conclude(&name);
        }
    }

    /// Requests whose instance has ended: its successor is built with what they change. One that
    /// does not answer is ended.
    pub(super) fn settle_requests(&mut self) {
        if self.drift.pending.is_empty() {
            return;
        }
        let lives: Vec<(u32, bool)> = self.instances.iter().map(life).collect();
        let is_there = |asked: &Asked| lives.get(asked.worker) == Some(&(asked.epoch, true));
        let mut ended = BTreeSet::new();
        for (name, pending) in &mut self.drift.pending {
            for asked in pending.asked.extract_if(.., |asked| !is_there(asked)) {
                pending.is_accepted = true;
                ended.insert(name.clone());
                if let Some(question) = self.questions.get_mut(&asked.id) {
                    let why = "it ended before it answered; its successor does as it was asked";
                    question.answer.get_or_insert(Err(why.to_owned()));
                }
            }
        }
        for name in ended {
            self.conclude(&name);
        }
        let now = now();
        let mut late = Vec::new();
        for pending in self.drift.pending.values_mut() {
            let since = *pending.since.get_or_insert(now);
            if now.saturating_duration_since(since) > PATIENCE {
                late.extend(pending.asked.iter().map(|asked| asked.worker));
            }
        }
        late.retain(|worker| {
            let instance = &self.instances[*worker];
            // Nothing ends a thread, and to wait for its end may take for ever.
            instance.socket.is_some() && !matches!(instance.body, Some(Body::Thread(..)))
        });
        for worker in late {
            let why = format!("it did not answer a control request within {PATIENCE:?}");
            self.detach(worker, &why);
        }
    }

    /// Everybody has answered: what was refused is taken back.
    fn conclude(&mut self, name: &str) {
        let is_open = |pending: &Pending| !pending.asked.is_empty();
        if self.drift.pending.get(name).is_none_or(is_open) {
            return;
        }
        let Some(pending) = self.drift.pending.remove(name) else {
            return;
        };
        if !pending.is_accepted {
            for node in self.chain.nodes_named(name) {
                set_config(&mut self.chain.nodes[node], pending.config.clone());
            }
            self.drift.kept.keep(name, pending.kept);
        }
        if self.drift.kept.of(name).is_empty() {
            self.drift.written.remove(name);
        }
        self.write_drift();
    }

    /// What control requests have changed is written down with the rest.
    pub(super) fn write_drift(&mut self) {
        if self.estate.is_none() {
            return;
        }
        let text = self.drift.text();
        let written = write_text(&text).map(|memory| Origin {
            memory: Arc::new(memory),
            len: text.len(),
        });
        match (written, &mut self.estate) {
            (Ok(written), Some(estate)) => estate.drift = Some(written),
            (Ok(_), None) => {}
            (Err(error), _) => {
                self.estate = None;
                self.let_go(&error.to_string());
            }
        }
    }

    /// `file` as it would run: with what control requests have changed, as far as it fits. For
    /// people, what does not.
    pub(super) fn amended(&self, file: &Chain, discards: bool) -> (Chain, Drift, Vec<String>) {
        let mut chain = file.clone();
        if discards {
            return (chain, Drift::default(), Vec::new());
        }
        let (kept, gone) = self.drift.kept.amend(&mut chain);
        let drift = Drift {
            written: written_of(kept.nodes().map(|(name, _)| name), file),
            kept,
            pending: BTreeMap::new(),
        };
        (chain, drift, gone)
    }

    pub(super) fn amended_counts(&self) -> BTreeMap<String, usize> {
        let kept = self.drift.kept.nodes();
        kept.map(|(name, kept)| (name.to_owned(), kept.len()))
            .collect()
    }

    /// What control requests have changed: each node with its configuration in the file and as it
    /// runs.
    pub fn drift(&self) -> Vec<(String, Value, Value)> {
        let nodes = self.drift.kept.nodes().filter_map(|(name, _)| {
            let node = *self.chain.nodes_named(name).first()?;
            let written = self.drift.written.get(name)?;
            let runs = config_of(&self.chain.nodes[node]);
            Some((name.to_owned(), written.clone(), runs.clone()))
        });
        nodes.collect()
    }
}

fn life(instance: &Instance) -> (u32, bool) {
    (instance.epoch, instance.is_live())
}
