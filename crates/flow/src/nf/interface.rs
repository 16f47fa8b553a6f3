//! What the engine was told of a program, to which any that replaces it is held.

use super::sharding;
use crate::program::ir::Program;

/// What the engine was told of a program, which no program that replaces it may exceed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interface {
    outputs: Vec<String>,
    reasons: Vec<String>,
    writes: bool,
    makes_packets: bool,
    mirrors: bool,
    headroom: usize,
    has_events: bool,
    /// What splitters in front of its shards go by.
    pub(super) sharding: Option<String>,
}

impl Interface {
    pub(super) fn of(program: &Program, is_shard: bool) -> Self {
        Self {
            outputs: program.outputs.clone(),
            reasons: reasons(program),
            writes: program.writes(),
            makes_packets: program.makes_packets(),
            mirrors: program.mirrors(),
            headroom: program.headroom(),
            has_events: !program.events.is_empty(),
            sharding: is_shard.then(|| sharding::signature(program)),
        }
    }
}

/// Reasons of the NF and of its program.
pub(super) fn reasons(program: &Program) -> Vec<String> {
    let own = ["flow_full", "no_verdict"].map(str::to_owned);
    own.into_iter()
        .chain(program.reasons.iter().cloned())
        .collect()
}
