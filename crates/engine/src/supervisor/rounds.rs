//! How far draining has come: what workers said in `hearing`, for the decisions of `draining`.
//!
//! At the end of packets' lives: none is taken in any more, and those under way come out.

use std::collections::BTreeMap;

/// How far draining has come.
#[derive(Debug, Default)]
pub(super) enum Draining {
    /// Packets are taken in.
    #[default]
    No,
    /// Workers are asked; so far packets had come on each link when the round began, if it is not
    /// the first.
    Round(Option<BTreeMap<usize, u64>>),
    /// Nothing passed in a whole round.
    Done,
}
