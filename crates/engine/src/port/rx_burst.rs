//! What a port receives in one call: buffers to fill, and packets that are there.
//!
//! The first step of a packet's life.

use std::fmt;

use crate::aggregation::PACKED_LEN_MAX;
use crate::drop_reason::DropReason;
use crate::packet::Packet;
use crate::pools::Pools;

/// Packets that are allocated before they are filled: about as many as a core fetches lines at
/// once.
const FILLED_AT_ONCE: usize = 16;

/// Collects the packets one [`Port::rx`](super::Port::rx) call receives.
pub struct RxBurst<'a> {
    pools: &'a mut Pools,
    packets: &'a mut Vec<Packet>,
    limit: usize,
    drops: &'a mut [u64; DropReason::COUNT],
    /// Headroom of packets, if small ones are to lie together in bundles.
    bundle_headroom: Option<u32>,
}

impl<'a> RxBurst<'a> {
    /// Takes at most `limit` packets into `packets`, from buffers of `pools`.
    pub fn new(
        pools: &'a mut Pools,
        packets: &'a mut Vec<Packet>,
        limit: usize,
        drops: &'a mut [u64; DropReason::COUNT],
    ) -> Self {
        Self {
            pools,
            packets,
            limit,
            drops,
            bundle_headroom: None,
        }
    }

    /// Small packets are to lie together in bundles, each with `headroom` bytes in front, because
    /// the link behind aggregates. The engine closes the last bundle.
    pub fn in_bundles(mut self, headroom: Option<u32>) -> Self {
        self.bundle_headroom = headroom;
        self
    }

    #[inline]
    fn alloc_bundled(&mut self, len: usize) -> Option<Packet> {
        let headroom = self.bundle_headroom?;
        if len > PACKED_LEN_MAX {
            return None;
        }
        self.pools.alloc_bundled(len, headroom)
    }

    /// The same call for at most `most` more packets: what a wrapper passes on to the port inside.
    pub fn narrowed(&mut self, most: usize) -> RxBurst<'_> {
        RxBurst {
            limit: self.limit.min(self.packets.len().saturating_add(most)),
            pools: self.pools,
            packets: self.packets,
            drops: self.drops,
            bundle_headroom: self.bundle_headroom,
        }
    }

    /// The longest packet for which there can be a buffer at all.
    #[inline]
    pub fn packet_len_max(&self) -> usize {
        self.pools.packet_len_max()
    }

    /// How many more packets may be received in this call.
    #[inline]
    pub fn room(&self) -> usize {
        self.limit - self.packets.len().min(self.limit)
    }

    /// A buffer whose packet is `len` bytes long, contents undefined, to be filled and given to
    /// [`RxBurst::push`].
    ///
    /// # Errors
    /// The reason, already counted, if there is no buffer of that size.
    #[inline]
    pub fn alloc(&mut self, len: usize) -> Result<Packet, DropReason> {
        if let Some(packet) = self.alloc_bundled(len) {
            return Ok(packet);
        }
        self.pools
            .alloc(len)
            .inspect_err(|reason| self.drops[reason.index()] += 1)
    }

    /// A buffer as [`RxBurst::alloc`] gives it, for ports that can wait: none is no drop.
    #[inline]
    pub fn try_alloc(&mut self, len: usize) -> Option<Packet> {
        self.pools.alloc(len).ok()
    }

    /// Whether [`RxBurst::alloc`] would succeed: asked by ports that can wait (a file, a generator)
    /// instead of losing a packet.
    #[inline]
    pub fn has_buffer(&self, len: usize) -> bool {
        self.pools.has_buffer(len)
    }

    /// Receives up to `count` packets of `len` bytes that `fill` writes, as many as there is room
    /// and buffers for; gives how many. For ports that make packets and can wait.
    #[inline]
    pub fn fill(&mut self, count: usize, len: usize, mut fill: impl FnMut(&mut Packet)) -> usize {
        let count = count.min(self.room());
        let first = self.packets.len();
        let packets = &mut *self.packets;
        let mut done = 0;
        if let Some(headroom) = self.bundle_headroom.filter(|_| len <= PACKED_LEN_MAX) {
            while done < count {
                let wanted = count - done;
                let push = |packet| packets.push(packet);
                let made = self.pools.fill_bundle(wanted, len, headroom, push);
                done += made;
                if made == 0 {
                    break;
                }
            }
        }
        let mut filled = first;
        loop {
            // Some handles at a time, then their bytes: a handle that is copied at once after it
            // was made waits until the lines of all packets before it are this core's.
            packets[filled..].iter_mut().for_each(&mut fill);
            filled = packets.len();
            let wanted = (count - done).min(FILLED_AT_ONCE);
            let made = self
                .pools
                .alloc_each(wanted, len, |packet| packets.push(packet));
            done += made;
            if made == 0 {
                return done;
            }
        }
    }

    /// Receives a copy of `bytes`. Returns false, and counts why, if there is no buffer.
    #[inline]
    pub fn push_copy(&mut self, bytes: &[u8]) -> bool {
        let Ok(mut packet) = self.alloc(bytes.len()) else {
            return false;
        };
        packet.bytes_mut().copy_from_slice(bytes);
        self.packets.push(packet);
        true
    }

    /// Receives `packet`, which came from [`RxBurst::alloc`].
    #[inline]
    pub fn push(&mut self, packet: Packet) {
        debug_assert!(self.packets.len() < self.limit, "more packets than room");
        self.packets.push(packet);
    }

    /// Gives back a buffer that [`RxBurst::alloc`] gave and that is not used after all.
    pub fn discard(&mut self, packet: Packet) {
        self.pools.free(packet);
    }

    /// Counts a packet that arrived and could not be received.
    pub fn drop_packet(&mut self, reason: DropReason) {
        self.drop_packets(reason, 1);
    }

    /// As [`RxBurst::drop_packet`], for `count` packets.
    pub fn drop_packets(&mut self, reason: DropReason, count: u64) {
        self.drops[reason.index()] += count;
    }

    /// Where packets come from and go to, and how many there may be then: for the ports of links,
    /// which make packets piece by piece.
    pub(crate) fn parts(&mut self) -> (&mut Pools, &mut Vec<Packet>, usize) {
        (self.pools, self.packets, self.limit)
    }

    /// The packets received so far in this call, for wrappers.
    pub fn packets_mut(&mut self) -> &mut Vec<Packet> {
        self.packets
    }
}

impl fmt::Debug for RxBurst<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RxBurst")
            .field("room", &self.room())
            .finish_non_exhaustive()
    }
}
