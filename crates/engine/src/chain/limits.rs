//! How large a chain may be: known to whoever numbers nodes and links in a few bits.

/// Most nodes in a chain, each shard being one: what 64 cores need.
pub const NODE_COUNT_MAX: usize = 1024;
/// Most links in a chain, each between two shards being one: 64 to 64, twice.
pub const LINK_COUNT_MAX: usize = 8192;
/// Most shards of a node, and queues of a port.
pub const SHARD_COUNT_MAX: u16 = 64;
