//! Buffers that are looked for, because a dead worker may have kept them: `audit` looks.

/// What is being looked for: for each pool, buffers with the links they left by.
#[derive(Debug, Default)]
pub(super) struct Search {
    pub(super) marked: Vec<(u16, Vec<(u32, u8)>)>,
}
