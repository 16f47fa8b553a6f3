//! The two ends of a link, whatever it is made of: a ring in shared memory, or a TCP connection.
//!
//! The loop of a worker asks these and does not care; the branch costs it nothing that can be
//! measured, once per burst.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use catena_shm::bell::WaitWord;
use catena_shm::ring_memory::{MappedRing, RingEnd};

use super::counters::{Dropped, RxCounters, TxCounters};
use super::ring_rx::{Inlet, RingRx};
use super::ring_tx::RingTx;
use super::tcp::{TcpRx, TcpTx};
use crate::drop_reason::DropReason;
use crate::load::Load;
use crate::packet::bytes_of;
use crate::pools::Pools;
use crate::probe::Occupancy;
use crate::protocol::RingSpec;

/// The sending side of a link.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "every end of a link lies in a box of its own"
)]
pub enum TxLink {
    /// Through shared memory.
    Ring(RingTx),
    /// Over TCP.
    Tcp(TcpTx),
}

/// The receiving side of a link.
#[derive(Debug)]
pub enum RxLink {
    /// Through shared memory.
    Ring(RingRx),
    /// Over TCP.
    Tcp(TcpRx),
}

/// Calls the same method of either side.
macro_rules! either {
    ($self:ident, $link:ident => $call:expr) => {
        match $self {
            Self::Ring($link) => $call,
            Self::Tcp($link) => $call,
        }
    };
}

impl TxLink {
    /// The sending side of the ring that `spec` describes, whose next descriptor has free-running
    /// index `start`.
    pub fn ring(spec: &RingSpec, ring: MappedRing, start: u64) -> Self {
        Self::Ring(RingTx::new(spec, ring, start))
    }

    /// The sending side of the TCP link that `spec` describes, whose next packet has index `start`.
    pub fn tcp(spec: &RingSpec, start: u64) -> Self {
        Self::Tcp(TcpTx::new(spec, start))
    }

    /// Index of the link in the chain.
    #[inline]
    pub fn index(&self) -> usize {
        either!(self, link => link.index)
    }

    /// Its index in the chain plus one.
    #[inline]
    pub fn number(&self) -> u16 {
        u16::try_from(self.index() + 1).unwrap_or(u16::MAX)
    }

    /// Whether small packets are being packed into bundles now.
    #[inline]
    pub fn is_packing(&self) -> bool {
        matches!(self, Self::Ring(link) if link.is_packing())
    }

    /// Counters since this worker started.
    #[inline]
    pub fn counters(&self) -> &TxCounters {
        either!(self, link => &link.counters)
    }

    /// The receiver of a ring has been replaced: from now on its cursor is read from `consumer`.
    pub fn replace_consumer(&mut self, consumer: RingEnd) {
        if let Self::Ring(link) = self {
            link.replace_consumer(consumer);
        }
    }

    /// A TCP link has another connection, or none any more.
    pub fn reconnect(&mut self, socket: Option<Arc<OwnedFd>>) {
        if let Self::Tcp(link) = self {
            link.reconnect(socket);
        }
    }

    /// Whether packets wait here for a connection to take them.
    pub fn holds_packets(&self) -> bool {
        matches!(self, Self::Tcp(link) if link.holds_packets())
    }

    /// Whether it is a TCP link.
    pub fn is_tcp(&self) -> bool {
        matches!(self, Self::Tcp(_))
    }

    /// Drops packets (`nf_down`) until the receiver is replaced.
    pub fn set_peer_down(&mut self) {
        either!(self, link => link.set_peer_down());
    }

    /// How many packets may be sent now without loss: what the sender may pull. A bundle cannot be
    /// pulled in parts: an empty link claims room for the `need` packets of one that is larger than
    /// the whole link, so that it does not wait for ever; what is too much then is dropped.
    #[inline]
    pub fn room(&mut self, wanted: usize, need: usize) -> usize {
        either!(self, link => link.room(wanted, need))
    }

    /// Sends all of `load` in order, and empties it. What does not fit is dropped; gives how much
    /// and why.
    #[inline]
    pub fn send(&mut self, load: &mut Load, pools: &mut Pools) -> Dropped {
        either!(self, link => link.send(load, pools))
    }

    /// Whether the chain's entry should take nothing in: this link, or one further on, is more than
    /// three quarters full. Links that drop do not press back: their sender chose loss over
    /// waiting.
    #[inline]
    pub fn is_congested(&mut self) -> bool {
        either!(self, link => link.is_congested())
    }

    /// Ends the turn, after the tails of the worker's links have been committed.
    #[inline]
    pub fn settle(&mut self) {
        either!(self, link => link.settle());
    }

    /// Violations of the receiver, once there are too many for an accident. Over TCP it says
    /// nothing that could be one.
    pub fn accusation(&mut self) -> Option<u64> {
        match self {
            Self::Ring(link) => link.accusation(),
            Self::Tcp(_) => None,
        }
    }

    /// Headroom of the bundles in which packets for this link are best made; none if they are best
    /// made singly.
    #[inline]
    pub fn makes_bundles(&self) -> Option<u32> {
        match self {
            Self::Ring(link) => link.makes_bundles(),
            Self::Tcp(_) => None,
        }
    }

    /// Whether something was published since the receiver was last looked after.
    #[inline]
    pub fn has_news(&self) -> bool {
        matches!(self, Self::Ring(link) if link.has_news())
    }

    /// Wakes the receiver if it sleeps and there is something for it. After
    /// [`catena_shm::bell::full_fence`].
    #[inline]
    pub fn wake_peer(&mut self) {
        if let Self::Ring(link) = self {
            link.wake_peer();
        }
    }

    /// Before sleeping: asks the receiver to ring when it has made room, if this side needs room.
    pub fn prepare_to_sleep(&mut self, words: &mut Vec<WaitWord>) {
        if let Self::Ring(link) = self {
            link.prepare_to_sleep(words);
        }
    }

    /// Whether the last turn needed room, and the receiver was not asked to ring before it.
    pub fn lacks_bell(&self) -> bool {
        matches!(self, Self::Ring(link) if link.lacks_bell())
    }

    /// After sleeping.
    pub fn after_sleep(&mut self) {
        if let Self::Ring(link) = self {
            link.after_sleep();
        }
    }
}

impl RxLink {
    /// The receiving side of the ring that `spec` describes.
    pub fn ring(spec: &RingSpec, inlet: Inlet) -> Self {
        Self::Ring(RingRx::new(spec, inlet))
    }

    /// The receiving side of the TCP link that `spec` describes: its first packet is expected to
    /// have index `start`, and no packet is longer than `len_max`.
    pub fn tcp(spec: &RingSpec, start: u64, len_max: usize) -> Self {
        Self::Tcp(TcpRx::new(spec, start, len_max))
    }

    /// Index of the link in the chain.
    #[inline]
    pub fn index(&self) -> usize {
        either!(self, link => link.index)
    }

    /// Counters since this worker started.
    #[inline]
    pub fn counters(&self) -> &RxCounters {
        either!(self, link => &link.counters)
    }

    /// The sender on a ring has been replaced: what the old one published below `start` is still
    /// taken, then the new one's memory is used.
    pub fn replace_producer(&mut self, producer: RingEnd, start: u64) {
        if let Self::Ring(link) = self {
            link.replace_producer(producer, start);
        }
    }

    /// The sender on a TCP link has connected anew: what came by the old connection is taken first.
    pub fn reconnect(&mut self, socket: Arc<OwnedFd>) {
        if let Self::Tcp(link) = self {
            link.reconnect(socket);
        }
    }

    /// Whether it is a TCP link.
    pub fn is_tcp(&self) -> bool {
        matches!(self, Self::Tcp(_))
    }

    /// Violations of the sender, once there are too many for an accident. A sender over TCP that
    /// breaks the rules loses its connection: the supervisor has no evidence to look at.
    pub fn accusation(&mut self) -> Option<u64> {
        match self {
            Self::Ring(link) => link.accusation(),
            Self::Tcp(_) => None,
        }
    }

    /// Counts what waits, at `moments` random moments since the turn before, in which the worker
    /// `slept` or not. What waits in a connection is not known.
    pub fn count_waiting(&mut self, moments: u64, slept: bool) {
        if let Self::Ring(link) = self {
            link.count_waiting(moments, slept);
        }
    }

    /// How many packets wait, by turns drawn at random.
    pub fn occupancy(&self) -> Occupancy {
        match self {
            Self::Ring(link) => link.occupancy,
            Self::Tcp(_) => Occupancy::default(),
        }
    }

    /// Takes up to `max` packets into `load`; they are the caller's, their slots stay taken until
    /// [`RxLink::commit`]. Those that share a buffer come as bundles, if `bundles` says so.
    #[inline]
    pub fn pull(&mut self, max: usize, pools: &mut Pools, load: &mut Load, bundles: bool) -> usize {
        match self {
            Self::Ring(link) => link.pull(max, pools, load, bundles),
            Self::Tcp(link) => {
                let already = load.packets.len();
                let count = link.pull(max, pools, &mut load.packets);
                load.bytes += bytes_of(&load.packets[already..]);
                count
            }
        }
    }

    /// Packets that were taken and dropped since the last call, by reason: they count for the node
    /// they were on the way to.
    #[inline]
    pub fn take_dropped(&mut self) -> [(DropReason, u64); 2] {
        either!(self, link => link.take_dropped())
    }

    /// Makes room for what is new, if the link is `drop_head`; to be called in every turn, also
    /// when nothing can be pulled.
    #[inline]
    pub fn shed(&mut self, pools: &mut Pools) {
        if let Self::Ring(link) = self {
            link.shed(pools);
        }
    }

    /// Gives back the slots of everything pulled in this turn.
    #[inline]
    pub fn commit(&mut self) {
        if let Self::Ring(link) = self {
            link.commit();
        }
    }

    /// Tells the sender whether a link further on is congested. Part of the end of a turn, before
    /// [`RxLink::wake_peer`]. Over TCP the sender learns it when the connection takes no more.
    #[inline]
    pub fn set_congested(&mut self, congested: bool) {
        if let Self::Ring(link) = self {
            link.set_congested(congested);
        }
    }

    /// How many packets have to be pulled together, if any wait: 1, or those of a bundle.
    #[inline]
    pub fn next_span(&self) -> Option<usize> {
        either!(self, link => link.next_span())
    }

    /// Whether the sender may be waiting for what was committed since it was last looked after.
    #[inline]
    pub fn has_news(&self) -> bool {
        matches!(self, Self::Ring(link) if link.has_news())
    }

    /// Wakes the sender if it waits for room. After [`catena_shm::bell::full_fence`].
    #[inline]
    pub fn wake_peer(&mut self) {
        if let Self::Ring(link) = self {
            link.wake_peer();
        }
    }

    /// Before sleeping: asks the sender to ring.
    pub fn prepare_to_sleep(&self, words: &mut Vec<WaitWord>) {
        if let Self::Ring(link) = self {
            link.prepare_to_sleep(words);
        }
    }

    /// After sleeping.
    pub fn after_sleep(&mut self) {
        if let Self::Ring(link) = self {
            link.after_sleep();
        }
    }
}
