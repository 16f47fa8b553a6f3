//! Packets as they came, for programs that mirror some of them.
//!
//! Beside a burst: kept when its headers are found, in front of the first element, until its code
//! has run, since any code before the one that mirrors a packet may change it. Programs that mirror
//! nothing keep nothing. A copy waits with packets of the program's own making
//! ([`queue`](super::queue)), since links may have no room for it.

use crate::table::lookup::BURST_MAX;

/// Bytes of a packet that is mirrored, at most: a jumbo frame with tags. Copies of longer ones are
/// lost, and counted.
pub const MIRROR_LEN_MAX: usize = 9216 + 22;

/// The packets of a burst as they came.
#[derive(Debug)]
pub(super) struct Arrived {
    bytes: Vec<u8>,
    /// Where each ends in `bytes`; those that are too long have no bytes.
    ends: Vec<usize>,
    is_used: bool,
}

impl Arrived {
    /// Room for a burst, if the program mirrors packets.
    pub(super) fn new(is_used: bool) -> Self {
        let count = if is_used { BURST_MAX } else { 0 };
        Self {
            bytes: Vec::with_capacity(count * MIRROR_LEN_MAX),
            ends: Vec::with_capacity(count),
            is_used,
        }
    }

    /// Keeps packet `index` of a burst; the first one comes first, and the others in order.
    #[inline]
    pub(super) fn keep(&mut self, index: usize, packet: &[u8]) {
        if self.is_used {
            self.keep_bytes(index, packet);
        }
    }

    fn keep_bytes(&mut self, index: usize, packet: &[u8]) {
        if index == 0 {
            self.bytes.clear();
            self.ends.clear();
        }
        // There is room for a whole burst, so that nothing is allocated here.
        if packet.len() <= MIRROR_LEN_MAX && self.ends.len() < BURST_MAX {
            self.bytes.extend_from_slice(packet);
        }
        self.ends.push(self.bytes.len());
    }

    /// Packet `index`, if it was kept.
    pub(super) fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        let start = match index.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        self.bytes
            .get(start..end)
            .filter(|packet| !packet.is_empty())
    }
}
