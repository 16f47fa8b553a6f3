//! Shards: one node of a chain file as several workers, each with its part of the packets.
//!
//! Before any packet: [`expand()`] makes of a chain whose nodes say `shards: n` (a port:
//! `queues: n`) one in which each shard is a node of its own, and puts splitters where packets must
//! be told apart. While packets move: [`split`] sends each to the shard that its key says. A shard
//! shares nothing with the others; `docs/adr/0019-shards.md` has the reasons.
//!
//! - [`key`]: what decides; [`hash`]: keys that are hashed; [`table`]: which shard has which hash.
//! - [`own`]: keys that an NF reads itself.
//! - [`moving`]: what goes with flows that get another shard.

pub mod expand;
pub mod hash;
pub mod key;
pub mod moving;
mod names;
pub mod own;
pub(crate) mod sharding;
pub mod split;
pub mod table;

pub use expand::expand;
pub use key::{ShardKey, UeSpace};
pub use names::{is_splitter, name_in_file, shard_name, splitter_name};
pub use own::{ALL_SHARDS, Choice, Chooser, OwnKey};
pub use sharding::{Shard, Sharding, Shards};

pub use crate::chain::limits::SHARD_COUNT_MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_the_file() {
        assert_eq!(shard_name("nf", 3), "nf/3");
        for (name, file) in [
            ("nf/3", "nf"),
            ("nf", "nf"),
            ("in:split", "in"),
            ("sort.red:split", "sort"),
            ("sort/12.red:split", "sort"),
        ] {
            assert_eq!(name_in_file(name), file);
        }
        assert!(is_splitter(&splitter_name("in", None)) && !is_splitter("in/0"));
    }
}
