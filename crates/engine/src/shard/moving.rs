//! What shards know of flows goes with the flows, when a node gets more or fewer of them.
//!
//! Beside packets, in the supervisor, while those who know stand still (`supervisor/hand_off`). The
//! NF's type says how: the engine knows whose memory it is, not what lies in it.

use std::collections::BTreeMap;
use std::fmt;

use catena_shm::state::StateWords;
use serde_json::Value;

use super::own::Choice;
use crate::nf::hook::Hook;

/// The memory of one shard.
pub struct ShardMemory {
    /// Which shard has it from now on; none if its shard goes.
    pub shard: Option<u16>,
    /// Its regions by their names in the plan, each as large as that says, as words: the shard may
    /// still have them.
    pub regions: BTreeMap<String, StateWords>,
}

impl fmt::Debug for ShardMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardMemory")
            .field("shard", &self.shard)
            .field("regions", &self.regions.keys())
            .finish()
    }
}

/// What has been moved so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Entries that have another shard now.
    pub entries: u64,
    /// Entries that found no room there, and are gone.
    pub lost: u64,
}

/// Moves what belongs to another shard. Whoever is killed in between, and whoever begins again from
/// what was left, leaves each entry in one shard at least, and in one only when it is done.
pub trait Mover: Send {
    /// Goes on; looks at about `budget` entries. Gives whether there are more.
    fn step(&mut self, budget: u32) -> bool;

    /// What it has done.
    fn moved(&self) -> Moved;
}

/// Makes what moves entries, from the configuration of the NF and the memory of all its shards,
/// those that go among them.
///
/// # Errors
/// A sentence: nothing can be moved then.
pub type MakeMover =
    fn(config: &Value, choice: Choice, shards: Vec<ShardMemory>) -> Result<Box<dyn Mover>, String>;

/// Whether what the shards of a kind know can be moved, and how.
pub type Moves = Hook<MakeMover>;
