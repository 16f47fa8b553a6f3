//! A kind of NF: what chain files name, planned from a configuration and then built from it.
//!
//! Before any packet: `catena check`, placement, `status` and the generated documents ask the
//! [`NfPlan`] only; a worker builds the NF when it starts. Limits: [`OUTPUT_COUNT_MAX`] outputs,
//! and the counts and lengths of names that [`NfPlan::check`] holds a plan to.

use std::collections::BTreeSet;
use std::fmt;

use super::amend::{Amend, Amends};
use super::exchange::NfControl;
use super::function::Nf;
use super::hook::{Hook, Sum, Sums};
use super::memory::NfState;
use crate::config::{ConfigErrors, PortSide};
use crate::drop_reason::{DropReason, OWN_REASON_COUNT_MAX};
use crate::own_counters::COUNTER_COUNT_MAX;
use crate::shard::moving::{MakeMover, Moves};
use crate::shard::sharding::Sharding;

/// Most outputs of an NF: a verdict names one in a byte.
pub const OUTPUT_COUNT_MAX: usize = 256;
/// Most regions of memory that outlive an NF.
pub const STATE_COUNT_MAX: usize = 8;
/// Most bytes of the name of a kind, a counter, a drop reason or a region.
pub const NAME_BYTES_MAX: usize = 40;

/// Whether an NF changes packet bytes. An NF that does cannot read from an `ro` link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Only reads.
    Read,
    /// Reads and changes bytes or length.
    Write,
}

/// How many links may arrive at an NF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inputs {
    /// Exactly one.
    One,
    /// One or more.
    Many,
    /// One or more, and packets end there, as at a port: see [`Nf::ends_paths`]. Links may lead
    /// round in a circle through such an NF.
    Ending,
}

/// Memory that outlives an NF: its successor, after a kill or an `apply`, finds it as it was left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatePlan {
    /// Its name, unique within the node.
    pub name: String,
    /// Its size.
    pub bytes: usize,
    /// Number of the layout of what lies in it: memory of another layout is not taken over.
    pub layout: u64,
    /// Whether it is one for all shards of the node, which use it at the same time: as atomic words
    /// only ([`catena_shm::state::StateWords`]), for which zeros are a right beginning. It is there
    /// as long as one shard is that had it.
    pub is_shared: bool,
}

/// What an NF of one configuration is, before it is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NfPlan {
    /// Names of its outputs; the index is the one in [`Verdict::Output`](super::Verdict::Output).
    pub outputs: Vec<PortSide>,
    /// Whether it changes packets.
    pub access: Access,
    /// How many links may arrive.
    pub inputs: Inputs,
    /// Whether it makes packets of its own (copies): its worker then gets a pool.
    pub allocates: bool,
    /// Most bytes that it puts in front of a packet: bundles on the way to it leave so much room.
    pub headroom: u8,
    /// Memory that outlives it.
    pub state: Vec<StatePlan>,
    /// Names of its counters, in the order in which [`Nf::counters`] stores them.
    pub counters: Vec<String>,
    /// Names of those counters that stand for themselves: they lie in memory that outlives it, or
    /// tell what is there now. All others begin anew with each life of its worker, and are summed.
    pub standing: Vec<String>,
    /// Names of the drop reasons of its own: the one at `n` is [`DropReason::own`]`(n)`.
    pub drop_reasons: Vec<String>,
    /// Control requests that it answers: an example of each, as JSON, and what it does.
    pub requests: Vec<(String, String)>,
    /// Which of them amend its configuration, and how.
    pub amends: Amends,
    /// Whether it can be several workers, each with its part of the packets.
    pub sharding: Sharding,
    /// What a key of its own reads, as a text that is the same for the same keys: while shards
    /// run, only a configuration with the same text takes the place of theirs.
    pub splits_by: String,
    /// Whether, and how, what shards know goes with flows that get another shard.
    pub moves: Moves,
    /// Whether, and how, answers of its shards come to one of the whole node.
    pub sums: Sums,
    /// Whether packets that it changes, or makes, have the key of those that they came of.
    pub changes_no_key: bool,
    /// Whether it takes packets of which something is left to a network card: up to 64 KiB that
    /// are still to be cut, with open checksums ([`Packet::offload`]). Then it relies on no
    /// checksum and changes none, cuts and lengthens nothing, and counts such a packet as one.
    ///
    /// [`Packet::offload`]: crate::packet::Packet::offload
    pub carries_segments: bool,
    /// Whether it makes such packets whole: those behind it get packets as on a wire.
    pub cuts_segments: bool,
}

impl Default for NfPlan {
    fn default() -> Self {
        Self {
            outputs: vec!["out".to_owned()],
            access: Access::Read,
            inputs: Inputs::One,
            allocates: false,
            headroom: 0,
            state: Vec::new(),
            counters: Vec::new(),
            standing: Vec::new(),
            drop_reasons: Vec::new(),
            requests: Vec::new(),
            amends: Amends::default(),
            sharding: Sharding::default(),
            splits_by: String::new(),
            moves: Moves::default(),
            sums: Sums::default(),
            changes_no_key: false,
            carries_segments: false,
            cuts_segments: false,
        }
    }
}

impl NfPlan {
    /// An NF that only reads, with one input and the single output `out`, and nothing of its own.
    pub fn new() -> Self {
        Self::default()
    }

    /// With these outputs.
    pub fn outputs(mut self, outputs: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        self.outputs = owned(outputs);
        self
    }

    /// As one that changes packets.
    pub fn writes(mut self) -> Self {
        self.access = Access::Write;
        self
    }

    /// With so many inputs.
    pub fn inputs(mut self, inputs: Inputs) -> Self {
        self.inputs = inputs;
        self
    }

    /// As one that makes packets of its own.
    pub fn allocates(mut self) -> Self {
        self.allocates = true;
        self
    }

    /// As one that puts up to `bytes` in front of a packet.
    pub fn headroom(mut self, bytes: u8) -> Self {
        self.headroom = bytes;
        self
    }

    /// With memory that outlives it.
    pub fn state(mut self, state: StatePlan) -> Self {
        self.state.push(state);
        self
    }

    /// With counters of these names.
    pub fn counters(mut self, names: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        self.counters = owned(names);
        self
    }

    /// As one of whose counters these are not summed over lives of its worker.
    pub fn standing(mut self, names: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        self.standing = owned(names);
        self
    }

    /// With drop reasons of these names.
    pub fn drop_reasons(mut self, names: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        self.drop_reasons = owned(names);
        self
    }

    /// As one that answers such control requests: an example as JSON, and what it does, for people
    /// who ask `catena nf describe`. A test sends each example to the NF.
    pub fn requests<'a>(mut self, requests: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let owned = |(example, what): (&str, &str)| (example.to_owned(), what.to_owned());
        self.requests = requests.into_iter().map(owned).collect();
        self
    }

    /// As one whose requests amend its configuration so: they are kept with the chain.
    pub fn amended_by(mut self, amend: Amend) -> Self {
        self.amends = Hook(Some(amend));
        self
    }

    /// As one that can be sharded so.
    pub fn sharding(mut self, sharding: Sharding) -> Self {
        self.sharding = sharding;
        self
    }

    /// As one whose shards are told apart by what this text says ([`NfPlan::splits_by`]).
    pub fn splits_by(mut self, key: impl Into<String>) -> Self {
        self.splits_by = key.into();
        self
    }

    /// As one whose shards hand entries over so, when there are more of them or fewer. They get
    /// their memory as words ([`NfMemory::Words`](super::NfMemory::Words)), and nothing that lies
    /// there is remembered elsewhere from one turn to the next.
    pub fn moved_by(mut self, make: MakeMover) -> Self {
        self.moves = Hook(Some(make));
        self
    }

    /// As one whose shards' answers come to one so.
    pub fn summed_by(mut self, sum: Sum) -> Self {
        self.sums = Hook(Some(sum));
        self
    }

    /// As one whose packets keep their keys, although it changes packets or makes some.
    pub fn changes_no_key(mut self) -> Self {
        self.changes_no_key = true;
        self
    }

    /// As one that takes packets of which something is left to a network card
    /// ([`NfPlan::carries_segments`]).
    pub fn carries_segments(mut self) -> Self {
        self.carries_segments = true;
        self
    }

    /// As one that takes packets of which something is left to a network card, and makes them whole
    /// ([`NfPlan::cuts_segments`]).
    pub fn cuts_segments(mut self) -> Self {
        (self.carries_segments, self.cuts_segments) = (true, true);
        self
    }

    /// Whether packets leave it with the keys with which they came (see [`crate::shard::key`]).
    pub fn keeps_keys(&self) -> bool {
        self.changes_no_key || (self.access == Access::Read && !self.allocates)
    }

    /// Whether somebody may use a region of its memory while the NF has it, so that it gets words:
    /// other shards, or whoever moves what lies there.
    pub(crate) fn has_as_words(&self, state: &StatePlan) -> bool {
        state.is_shared || self.moves.0.is_some()
    }

    /// Whether the way of every packet ends at this NF.
    pub fn ends_paths(&self) -> bool {
        self.inputs == Inputs::Ending
    }

    /// Holds the plan to what the engine, counters and metrics can carry.
    ///
    /// # Errors
    /// The first fault: it is the kind's, not that of who wrote the configuration.
    pub fn check(&self) -> Result<(), String> {
        if self.outputs.len() > OUTPUT_COUNT_MAX {
            return Err(format!("more than {OUTPUT_COUNT_MAX} outputs"));
        }
        let regions = self.state.iter().map(|state| &state.name);
        check_names("region", regions, STATE_COUNT_MAX)?;
        if let Some(empty) = self.state.iter().find(|state| state.bytes == 0) {
            return Err(format!("the region {} has no bytes", empty.name));
        }
        check_own_names(&self.counters, &self.drop_reasons)
    }
}

fn owned(names: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<String> {
    names
        .into_iter()
        .map(|name| name.as_ref().to_owned())
        .collect()
}

/// Holds the names of a node's own counters and drop reasons to their limits and their form.
pub(crate) fn check_own_names(counters: &[String], reasons: &[String]) -> Result<(), String> {
    check_names("counter", counters, COUNTER_COUNT_MAX)?;
    check_names("drop reason", reasons, OWN_REASON_COUNT_MAX)?;
    let is_engines = |name: &&String| {
        DropReason::ALL
            .iter()
            .any(|one| one.name() == name.as_str())
    };
    match reasons.iter().find(is_engines) {
        Some(taken) => Err(format!("the drop reason {taken} is the engine's")),
        None => Ok(()),
    }
}

/// Names that are words of metrics, each once, and no more than `most`.
fn check_names<'a>(
    what: &str,
    names: impl IntoIterator<Item = &'a String>,
    most: usize,
) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for name in names {
        check_name(name).map_err(|fault| format!("the {what} \"{name}\" {fault}"))?;
        if !seen.insert(name) {
            return Err(format!("the {what} {name} is named twice"));
        }
    }
    if seen.len() > most {
        return Err(format!("more than {most} names of a {what}"));
    }
    Ok(())
}

/// Whether `name` can stand in a chain file, in JSON and in Prometheus.
///
/// # Errors
/// What is wrong with it, as the end of a sentence.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    match name.as_bytes() {
        [first, ..] if !first.is_ascii_lowercase() => Err("does not begin with a letter".into()),
        [] => Err("is empty".into()),
        name if name.len() > NAME_BYTES_MAX => Err(format!("is over {NAME_BYTES_MAX} bytes long")),
        name if !name.iter().all(|byte| is_word(*byte)) => {
            Err("has something other than a to z, 0 to 9 and _".into())
        }
        _ => Ok(()),
    }
}

/// What an NF is built with, beside its configuration.
#[derive(Debug)]
pub struct BuildContext<'a> {
    /// Names of its outputs, as planned.
    pub outputs: &'a [PortSide],
    /// Which shard of its node it is, from 0.
    pub shard: u16,
    /// How many shards its node has, 1 or more.
    pub shard_count: u16,
    /// The core that its worker is pinned to, if it is.
    pub core: Option<usize>,
    /// The memory that its plan asked for.
    pub state: Vec<NfState>,
}

impl<'a> BuildContext<'a> {
    /// The only shard of a node with these outputs, on any core, without memory that outlives it.
    pub fn alone(outputs: &'a [PortSide]) -> Self {
        Self {
            outputs,
            shard: 0,
            shard_count: 1,
            core: None,
            state: Vec::new(),
        }
    }

    /// Hands over the region named `name`: its plan asked for it, and each is taken once.
    pub fn take_state(&mut self, name: &str) -> Option<NfState> {
        let at = self.state.iter().position(|state| state.name == name)?;
        Some(self.state.swap_remove(at))
    }
}

/// An NF ready to run.
pub struct BuiltNf {
    /// The NF.
    pub nf: Box<dyn Nf>,
    /// Its control half, which runs on its worker's control thread.
    pub control: Option<Box<dyn NfControl>>,
    /// Sentences that whoever starts the chain is told: what it does without.
    pub notices: Vec<String>,
}

impl BuiltNf {
    /// This NF.
    pub fn new(nf: impl Nf + 'static) -> Self {
        Self {
            nf: Box::new(nf),
            control: None,
            notices: Vec::new(),
        }
    }

    /// With a control half.
    pub fn with_control(mut self, control: impl NfControl + 'static) -> Self {
        self.control = Some(Box::new(control));
        self
    }

    /// With a sentence for whoever starts the chain.
    pub fn with_notice(mut self, notice: impl Into<String>) -> Self {
        self.notices.push(notice.into());
        self
    }
}

impl fmt::Debug for BuiltNf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BuiltNf").finish_non_exhaustive()
    }
}

/// An NF type as chain files know it.
pub struct NfKind {
    /// The word after `type:`.
    pub name: &'static str,
    /// One sentence for `catena nf list`.
    pub summary: &'static str,
    /// A right configuration, as JSON: `catena nf describe` shows it and what is planned of it.
    pub example: &'static str,
    /// JSON Schema of its configuration.
    pub schema: fn() -> schemars::Schema,
    /// Checks the configuration and says what NF it makes; builds nothing. `outputs` are the names
    /// of the links that leave it in the chain file, in file order, for kinds whose outputs are
    /// named by their links.
    pub plan: fn(config: &serde_json::Value, outputs: &[PortSide]) -> Result<NfPlan, ConfigErrors>,
    /// Builds the NF of a configuration that [`NfKind::plan`] accepts, in its worker.
    pub build: fn(
        config: &serde_json::Value,
        context: &mut BuildContext<'_>,
    ) -> Result<BuiltNf, ConfigErrors>,
}

impl NfKind {
    /// What the example is planned as, with one link that leaves it.
    ///
    /// # Errors
    /// What is wrong with the example: the kind's fault.
    pub fn example_plan(&self) -> Result<NfPlan, String> {
        let config = serde_json::from_str(self.example)
            .map_err(|error| format!("the example of {}: {error}", self.name))?;
        (self.plan)(&config, &["out".to_owned()]).map_err(|errors| {
            let first = errors.first().map(ToString::to_string).unwrap_or_default();
            format!("the example of {}: {first}", self.name)
        })
    }
}

impl fmt::Debug for NfKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NfKind")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_held_to_names_and_limits() {
        let many = |count: usize| (0..count).map(|index| format!("n{index}"));
        let right = NfPlan::new().counters(many(32)).drop_reasons(many(32));
        assert_eq!(right.check(), Ok(()));
        let region = |name: &str, bytes| StatePlan {
            name: name.to_owned(),
            bytes,
            layout: 1,
            is_shared: false,
        };
        let wrong = [
            (NfPlan::new().counters(many(33)), "more than 32"),
            (NfPlan::new().drop_reasons(many(33)), "more than 32"),
            (NfPlan::new().counters(["a", "a"]), "a is named twice"),
            (NfPlan::new().counters(["Aa"]), "begin with a letter"),
            (NfPlan::new().counters(["a-b"]), "other than"),
            (NfPlan::new().counters([""]), "is empty"),
            (NfPlan::new().counters(["a".repeat(41)]), "over 40"),
            (NfPlan::new().drop_reasons(["no_buffer"]), "the engine's"),
            (NfPlan::new().outputs(many(257)), "more than 256"),
            (NfPlan::new().state(region("s", 0)), "has no bytes"),
            (
                NfPlan::new().state(region("s", 1)).state(region("s", 2)),
                "named twice",
            ),
        ];
        for (plan, fault) in wrong {
            let found = plan.check().unwrap_err();
            assert!(found.contains(fault), "{found}");
        }
    }
}
