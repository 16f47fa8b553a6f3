//! The port: where packets enter and leave a chain.
//!
//! First and last step of a packet's life: the engine asks a port for received packets with
//! [`Port::rx`] and gives it packets to send with [`Port::tx`]. Kinds of ports live in the `port`
//! crate, one folder each; wrappers (capture, trace, fault, pace) are ports that hold a port. A
//! port is opened and closed on the control path and used by exactly one worker.

mod keep;
mod needs;
mod opening;
mod rx_burst;
mod tx_burst;

use std::fmt;
use std::os::fd::BorrowedFd;

use crate::config::ConfigErrors;
use crate::nf::nanos::Nanos;
use crate::own_counters::CounterSink;

pub use keep::{Buffers, Taken};
pub use needs::{CapabilitySet, PortNeeds};
pub use opening::Opening;
pub use rx_burst::RxBurst;
pub use tx_burst::TxBurst;

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
    /// engine and counted `tx_failed`, or as [`TxBurst::rest_is`] says. Must not block. A port that
    /// does not send is never asked.
    fn tx(&mut self, _burst: &mut TxBurst<'_>, _now: Nanos) -> usize {
        0
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
    /// Whether it gives the chain packets of which something is left open ([`Packet::offload`]),
    /// and takes them: all that its packets reach must take them, too.
    ///
    /// [`Packet::offload`]: crate::packet::Packet::offload
    pub carries_segments: bool,
}

impl PortRole {
    /// With these directions and one queue.
    pub const fn of(receives: bool, sends: bool) -> Self {
        Self {
            receives,
            sends,
            queues_max: 1,
            carries_segments: false,
        }
    }
}

/// Opens a port from its configuration.
pub type OpenPort = fn(&serde_json::Value, &Opening<'_>) -> Result<Box<dyn Port>, PortError>;

/// Puts a wrapper around a port, from its configuration and what the port is opened with.
pub type WrapPort =
    fn(&serde_json::Value, &Opening<'_>, Box<dyn Port>) -> Result<Box<dyn Port>, PortError>;

/// A port type as chain files know it.
pub struct PortKind {
    /// The key under the port's name (`pcap`, `tap`, ...).
    pub name: &'static str,
    /// One sentence for `catena port list`.
    pub summary: &'static str,
    /// Names of its counters, whatever its configuration: those of another one stay 0.
    pub counters: &'static [&'static str],
    /// Names of the drop reasons of its own: the one at `n` is `DropReason::own(n)`.
    pub drop_reasons: &'static [&'static str],
    /// What its worker keeps for it, when it gives up what it does not need.
    pub needs: PortNeeds,
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
    /// Whether it limits [`Port::tx_room`]: packets then reach it one by one, never in bundles.
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
