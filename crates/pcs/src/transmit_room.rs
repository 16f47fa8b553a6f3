// SPDX-License-Identifier: Apache-2.0
//! How much a transmitter holds: blocks that wait between pushing and pulling.

/// Blocks that a transmitter holds at most: 64 KiB of payload.
pub(crate) const QUEUE_BLOCKS: usize = 8192;

/// Whether a frame fits behind `waiting` blocks and a gap of `owed` octets.
#[inline]
pub(crate) fn has_room(waiting: usize, len_with_fcs: usize, owed: usize) -> bool {
    // Preamble, and a vector begun before and one after.
    waiting + (len_with_fcs + owed) / 8 + 4 <= QUEUE_BLOCKS
}
