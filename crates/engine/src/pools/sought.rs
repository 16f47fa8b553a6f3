//! Buffers that are looked for, because a dead worker may have kept them: `audit` looks.

use catena_shm::pool::LinkSet;

/// What is being looked for: for each pool, buffers with the links they left by.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// The links.
    pub(super) links: LinkSet,
    pub(super) marked: Vec<(u16, Vec<(u32, u8)>)>,
}
