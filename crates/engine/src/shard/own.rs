//! Keys that an NF reads itself, where what it knows of its packets decides.
//!
//! The function runs in the workers of those that send to the shards, not in the NF's own.

use std::fmt;

use serde_json::Value;

use crate::config::ConfigErrors;

/// What [`Chooser::shard_of`] says of a packet that every shard gets: the first one the packet, the
/// others a copy. A copy for which there is no room or buffer is dropped and counted.
pub const ALL_SHARDS: u8 = u8::MAX;

/// Says whose a packet is.
pub trait Chooser: Send {
    /// The shard of a packet, from its Ethernet header on; none if it has no key: then it is the
    /// first shard's. The same packet gives the same answer wherever it is asked. [`ALL_SHARDS`] is
    /// for all; another number that is too large counts as none.
    fn shard_of(&mut self, packet: &[u8]) -> Option<u8>;
}

/// Makes the function of an NF.
#[derive(Clone, Copy)]
pub struct OwnKey(pub MakeChooser);

/// Makes what chooses, from the configuration of the NF.
pub type MakeChooser = fn(config: &Value, choice: Choice) -> Result<Box<dyn Chooser>, ConfigErrors>;

/// Among what is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// How many shards there are.
    pub shards: u16,
    /// The chain's, for whoever hashes: nobody outside knows it, and all splitters have the same.
    pub seed: u64,
    /// The input of the NF at which the packets will arrive.
    pub input: u8,
}

impl fmt::Debug for OwnKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnKey")
    }
}

/// A kind has one at most, so it says nothing that the kind does not.
impl PartialEq for OwnKey {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for OwnKey {}
