//! The port: where packets enter and leave a chain.
//!
//! First and last step of a packet's life: the engine asks a port for received packets with
//! [`Port::rx`] and gives it packets to send with [`Port::tx`]. Kinds of ports live in the `port`
//! crate, one folder each; wrappers (capture, trace, fault, pace) are ports that hold a port. A
//! port is opened and closed on the control path and used by exactly one worker.

use std::fmt;
use std::os::fd::BorrowedFd;

use crate::aggregation::PACKED_LEN_MAX;
use crate::config::ConfigErrors;
use crate::load::Load;
use crate::nf::{DropReason, Nanos};
use crate::own_counters::CounterSink;
use crate::packet::Packet;
use crate::pools::Pools;

mod keep;
mod opening;

pub use keep::{Buffers, Taken};
pub use opening::Opening;

/// What a port knows after one [`Port::rx`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RxState {
    /// There may be more at once.
    More,
    /// Nothing now; more may come (the port's [`Port::poll_fd`] tells when, if it has one).
    Idle,
    /// Nothing before this time.
    Until(Nanos),
    /// Nothing any more: the end of a file, or a count reached.
    Finished,
    /// Nothing any more, because of a failure; [`Port::close`] says which.
    Failed,
}

/// Collects the packets one [`Port::rx`] call receives.
pub struct RxBurst<'a> {
    pools: &'a mut Pools,
    packets: &'a mut Vec<Packet>,
    limit: usize,
    drops: &'a mut [u64; DropReason::COUNT],
    /// Headroom of packets, if small ones are to lie together in frames.
    frame_headroom: Option<u32>,
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
            frame_headroom: None,
        }
    }

    /// Small packets are to lie together in frames, each with `headroom` bytes in front, because
    /// the link behind aggregates. The engine closes the last frame.
    pub fn in_frames(mut self, headroom: Option<u32>) -> Self {
        self.frame_headroom = headroom;
        self
    }

    #[inline]
    fn alloc_framed(&mut self, len: usize) -> Option<Packet> {
        let headroom = self.frame_headroom?;
        if len > PACKED_LEN_MAX {
            return None;
        }
        self.pools.alloc_framed(len, headroom)
    }

    /// The same call for at most `most` more packets: what a wrapper passes on to the port inside.
    pub fn narrowed(&mut self, most: usize) -> RxBurst<'_> {
        RxBurst {
            limit: self.limit.min(self.packets.len().saturating_add(most)),
            pools: self.pools,
            packets: self.packets,
            drops: self.drops,
            frame_headroom: self.frame_headroom,
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
        if let Some(packet) = self.alloc_framed(len) {
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
        let packets = &mut *self.packets;
        let mut receive = |mut packet: Packet| {
            fill(&mut packet);
            packets.push(packet);
        };
        let mut done = 0;
        if let Some(headroom) = self.frame_headroom.filter(|_| len <= PACKED_LEN_MAX) {
            while done < count {
                let wanted = count - done;
                let made = self.pools.fill_frame(wanted, len, headroom, &mut receive);
                done += made;
                if made == 0 {
                    break;
                }
            }
        }
        done + self.pools.alloc_each(count - done, len, receive)
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
        self.drops[reason.index()] += 1;
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

/// What a port is to send in one call.
pub struct TxBurst<'a> {
    load: &'a mut Load,
    pools: &'a mut Pools,
    /// Packets that the port has kept.
    kept: usize,
}

impl<'a> TxBurst<'a> {
    /// All that `load` has.
    pub fn new(load: &'a mut Load, pools: &'a mut Pools) -> Self {
        let kept = 0;
        Self { load, pools, kept }
    }

    /// Number of packets, without those that the port has kept.
    pub fn count(&self) -> usize {
        self.load.count()
    }

    /// Every packet, with a handle.
    pub fn packets(&mut self) -> &mut [Packet] {
        self.load.take_apart(self.pools);
        &mut self.load.packets
    }

    /// Shows `each` the bytes of every packet, in order.
    #[inline]
    pub fn read(&mut self, mut each: impl FnMut(&[u8])) {
        if self.is_mixed() {
            self.load.take_apart(self.pools);
        }
        self.load
            .packets
            .iter()
            .for_each(|packet| each(packet.bytes()));
        for (_, bundle) in &self.load.bundles {
            bundle.each(|_, bytes| each(bytes));
        }
    }

    fn is_mixed(&self) -> bool {
        !self.load.bundles.is_empty() && !self.load.packets.is_empty()
    }
}

impl fmt::Debug for TxBurst<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TxBurst")
            .field("count", &self.count())
            .finish_non_exhaustive()
    }
}

/// What went wrong when a port was opened or closed: a sentence for people, with the repair.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct PortError(pub String);

/// Packet input and output.
///
/// The engine frees sent packets itself: a port copies or sends the bytes during [`Port::tx`], or
/// keeps packets by [`TxBurst::keep`] and gives them back by [`Port::reap`].
pub trait Port: Send {
    /// Receives up to `burst.room()` packets at time `now`. Must not block.
    fn rx(&mut self, burst: &mut RxBurst<'_>, now: Nanos) -> RxState;

    /// Told at time `now`, where [`Port::rx`] would have been called, that the chain takes nothing:
    /// its first link is full or congested. Until the next `rx` the worker may sleep. For ports to
    /// which it matters who is late, they or the chain.
    fn blocked(&mut self, _now: Nanos) {}

    /// Sends packets in order at time `now`. Returns how many were sent; the rest is dropped by the
    /// engine and counted `tx_failed`. Must not block.
    fn tx(&mut self, packets: &mut [Packet], now: Nanos) -> usize;

    /// As [`Port::tx`], for a burst as it travelled: for ports that only read, and need no handles.
    fn tx_burst(&mut self, burst: &mut TxBurst<'_>, now: Nanos) -> usize {
        self.tx(burst.packets(), now)
    }

    /// Gives back what the port's device is done with and takes what it needs: once a turn, before
    /// packets are sent, and once more when the port is closed; it must give back all then.
    fn reap(&mut self, _buffers: &mut Buffers<'_>, _now: Nanos) {}

    /// How many packets [`Port::tx`] would take now. A port that paces says 0 until it is time; the
    /// packets then wait in their link.
    fn tx_room(&mut self, _now: Nanos) -> usize {
        usize::MAX
    }

    /// Whether the port holds packets that it will still send (a wrapper that delays, a device that
    /// has to be pushed on). While it does, the engine calls [`Port::tx`] with no packets at every
    /// turn.
    fn holds_packets(&self) -> bool {
        false
    }

    /// When `tx_room` will next be above 0, if it is 0 now.
    fn tx_room_at(&self) -> Option<Nanos> {
        None
    }

    /// A file descriptor that becomes readable when packets arrive, if there is one. Without it, an
    /// idle port is asked again at every tick.
    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Ends the port's work: flushes what it holds. Called once, when the chain has drained.
    ///
    /// # Errors
    /// What failed, now or earlier (damaged capture, disk full): the chain went on meanwhile.
    fn close(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    /// Gives the values of what it counts itself, by the names of its kind and in their order:
    /// called on the data path, when the node's other counters are stored.
    fn counters(&self, _out: &mut CounterSink<'_>) {}

    /// All that it counts itself, by name; in a port's status once the chain has ended.
    fn report(&self) -> Vec<(&'static str, u64)> {
        let mut list = Vec::new();
        self.counters(&mut CounterSink::list(&mut list));
        list
    }
}

/// The plan of a configured port: which directions it has, and how many queues at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRole {
    /// Packets come from it: it may stand on the left of a link.
    pub receives: bool,
    /// Packets go to it: it may stand on the right of a link.
    pub sends: bool,
    /// How many queues it can have, each opened and polled by itself; 1 for most.
    pub queues_max: u16,
}

impl PortRole {
    /// With these directions and one queue.
    pub const fn of(receives: bool, sends: bool) -> Self {
        Self {
            receives,
            sends,
            queues_max: 1,
        }
    }
}

/// Opens a port from its configuration.
pub type OpenPort = fn(&serde_json::Value, &Opening<'_>) -> Result<Box<dyn Port>, PortError>;

/// Puts a wrapper around a port, from its configuration and the chain file's folder.
pub type WrapPort =
    fn(&serde_json::Value, &std::path::Path, Box<dyn Port>) -> Result<Box<dyn Port>, PortError>;

/// A port type as chain files know it.
pub struct PortKind {
    /// The key under the port's name (`pcap`, `tap`, ...).
    pub name: &'static str,
    /// One sentence for `catena port list`.
    pub summary: &'static str,
    /// Names of its counters, whatever its configuration: those of another one stay 0.
    pub counters: &'static [&'static str],
    /// Names of the drop reasons of its own: the one at `n` is [`DropReason::own`]`(n)`.
    pub drop_reasons: &'static [&'static str],
    /// JSON Schema of its configuration.
    pub schema: fn() -> schemars::Schema,
    /// Checks the configuration without touching the world.
    pub check: fn(config: &serde_json::Value) -> Result<PortRole, ConfigErrors>,
    /// Opens it.
    pub open: OpenPort,
}

impl fmt::Debug for PortKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PortKind")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A wrapper around a port (`wrap:` in the chain file): a port that holds a port.
pub struct WrapKind {
    /// The key in the `wrap` list (`capture`, `trace`, `fault`, `pace`).
    pub name: &'static str,
    /// One sentence for `catena port list`.
    pub summary: &'static str,
    /// Names of its counters, beside those of the port inside.
    pub counters: &'static [&'static str],
    /// Whether it limits [`Port::tx_room`]: packets then reach it one by one, never in frames.
    pub takes_singly: bool,
    /// JSON Schema of its configuration.
    pub schema: fn() -> schemars::Schema,
    /// Checks the configuration.
    pub check: fn(config: &serde_json::Value) -> Result<(), ConfigErrors>,
    /// Puts the wrapper around `inner`.
    pub wrap: WrapPort,
}

impl fmt::Debug for WrapKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WrapKind")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
