//! How a node is sharded: whether it can be, by what, and which of the shards one is.

use std::borrow::Cow;

use super::key::ShardKey;
use super::own::OwnKey;

/// How a node of the chain file is sharded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shards {
    /// How many there are: 1 to [`SHARD_COUNT_MAX`](super::SHARD_COUNT_MAX).
    pub count: u16,
    /// What decides which packet is whose. None at a port whose queues are split by its device in a
    /// way that nobody has named.
    pub key: Option<ShardKey>,
}

/// Which shard of a node of the chain file a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Name of the node in the file.
    pub of: String,
    /// Which one, from 0.
    pub index: u16,
    /// How many there are.
    pub count: u16,
}

/// Whether a node can be sharded, and by what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sharding {
    /// It cannot: why, as a sentence about the node.
    No(Cow<'static, str>),
    /// By any key that keeps what belongs together together: the chain file says which.
    Any,
    /// By this key only, which the chain file need not say.
    By(ShardKey),
    /// By a function of its own, which the chain file need not say.
    Own(OwnKey),
}

impl Default for Sharding {
    fn default() -> Self {
        Self::No("its type does not say that it can be".into())
    }
}
