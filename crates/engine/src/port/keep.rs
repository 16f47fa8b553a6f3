//! Packets and buffers that a port's device has from one turn to the next.
//!
//! Beside the path of a packet: [`TxBurst::keep`] moves what is to be sent to the port, and
//! [`Port::reap`](super::Port::reap) gives it back; there, too, a port gets empty buffers in which
//! its device is to receive. All of it lies in pools that the worker owns, whose ledger calls it
//! home: should the worker be killed, not one buffer is lost (ADR 20).

use std::fmt;

use catena_shm::pool::{PoolMemory, PoolOwner};

use super::tx_burst::{Sending, TxBurst};
use crate::drop_reason::DropReason;
use crate::packet::Packet;
use crate::pools::Pools;
use crate::stats::NodeCounters;

/// What a port has taken out of a burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Packets.
    pub packets: usize,
    /// Those of them that had to be copied, and their bytes.
    pub copied: u64,
    /// Bytes of the copies.
    pub copied_bytes: u64,
}

impl TxBurst<'_> {
    /// Moves packets to the port, in order, at most `most` of those that are left; `take` has each
    /// until it is given back by [`Buffers`]. What does not lie in the pool of `memory`, in a
    /// buffer to itself, is copied there. They are fewer if that pool has no buffer, or none that
    /// is large enough, or is not owned here. Like those that are sent at once, they count in what
    /// [`Port::tx`](super::Port::tx) returns.
    pub fn keep(&mut self, memory: &PoolMemory, most: usize, take: impl FnMut(Packet)) -> Taken {
        let mut taken = Taken::default();
        let Sending::Load(load, pools) = &mut self.sending else {
            return taken;
        };
        load.take_apart(pools);
        let is_ours = owner_of(pools, memory).is_some();
        for packet in load.packets.iter_mut().take(most) {
            if !is_ours || packet.pool() != memory.id() || packet.is_bundled() {
                let Some(copy) = copy_into(pools, memory, packet) else {
                    break;
                };
                taken.copied += 1;
                taken.copied_bytes += copy.len() as u64;
                pools.free(std::mem::replace(packet, copy));
            }
            taken.packets += 1;
        }
        let packets = load.packets.drain(..taken.packets);
        let marks = &mut load.kept_marks;
        let packets = packets.inspect(|packet| {
            if packet.mark() != 0 {
                marks.push(packet.mark());
            }
        });
        packets.for_each(take);
        self.kept += taken.packets;
        taken
    }

    /// Whether packets can be kept: not those that a wrapper has, which looks at them once they are
    /// sent. A port that must have packets for longer copies them then.
    pub fn can_keep(&self) -> bool {
        matches!(self.sending, Sending::Load(..))
    }

    /// Packets that the port has kept so far.
    pub fn kept(&self) -> usize {
        self.kept
    }
}

/// A copy of a packet in a buffer of that pool. Probes follow the copy.
fn copy_into(pools: &mut Pools, memory: &PoolMemory, packet: &Packet) -> Option<Packet> {
    let mut copy = owner_of(pools, memory)?.alloc(packet.len())?;
    copy.bytes_mut().copy_from_slice(packet.bytes());
    copy.set_metadata(packet.metadata());
    Some(copy)
}

/// The pool whose memory that is, if it is owned here.
fn owner_of<'a>(pools: &'a mut Pools, memory: &PoolMemory) -> Option<&'a mut PoolOwner> {
    let mut own = pools.own_mut().iter_mut();
    own.find(|owner| owner.has_memory(memory))
}

/// What a port gives back to its worker's pools, and takes from them for its device.
pub struct Buffers<'a> {
    pools: &'a mut Pools,
    counters: &'a mut NodeCounters,
    /// Packets that were kept and are not any more.
    ended: u64,
}

impl<'a> Buffers<'a> {
    /// Those of `pools`; what becomes of packets is noted in `counters`.
    pub fn new(pools: &'a mut Pools, counters: &'a mut NodeCounters) -> Self {
        Self {
            pools,
            counters,
            ended: 0,
        }
    }

    /// Buffers of a pool that are free; 0 if this worker does not own it.
    pub fn free_count(&self, memory: &PoolMemory) -> u32 {
        let mut own = self.pools.own().iter();
        let found = own.find(|owner| owner.has_memory(memory));
        found.map_or(0, PoolOwner::free_count)
    }

    /// A buffer of a pool that this worker owns, as the packet that fills it behind the headroom:
    /// for the device to receive in, or for the port to write a packet of its own to.
    pub fn take(&mut self, memory: &PoolMemory) -> Option<Packet> {
        let owner = owner_of(self.pools, memory)?;
        owner.alloc(owner.geometry().packet_len_max())
    }

    /// A buffer that [`Buffers::take`] gave is not needed any more.
    pub fn give_back(&mut self, packet: Packet) {
        self.pools.free(packet);
    }

    /// A packet that was kept has been sent.
    pub fn sent(&mut self, packet: Packet) {
        self.counters.tx_packets += 1;
        self.counters.tx_bytes += packet.len() as u64;
        self.end(packet);
    }

    /// A packet that was kept will not be sent.
    pub fn failed(&mut self, packet: Packet) {
        self.counters.drops[DropReason::TxFailed.index()] += 1;
        self.end(packet);
    }

    fn end(&mut self, packet: Packet) {
        self.counters.held = self.counters.held.saturating_sub(1);
        self.ended += 1;
        self.pools.free(packet);
    }

    /// Packets that were kept and have been given back by this call.
    pub fn ended(&self) -> u64 {
        self.ended
    }
}

impl fmt::Debug for Buffers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffers")
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "keep_tests.rs"]
mod tests;
