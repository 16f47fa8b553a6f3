//! The NF: takes a burst of packets, gives each a verdict.
//!
//! This is the middle step of a packet's life: the engine pulls a [`Burst`] from a link, calls
//! [`Nf::process`], and moves each packet by its [`Verdict`]. An NF never sees a link, a ring or a
//! clock; it is given bytes and a time, so tests and fuzzers drive it directly. One NF is one file
//! in `nfs/` that ends with its [`NfKind`], the entry by which chain files name it.

use std::fmt;

use crate::own_counters::CounterSink;
use crate::packet::Packet;
use crate::pools::Pools;

pub mod exchange;
mod frame;
mod kind;

pub use crate::drop_reason::DropReason;
pub use frame::{Frame, Judgement, WholeFrames};
pub use kind::{
    Access, BuildContext, BuiltNf, COUNTER_COUNT_MAX, Inputs, NAME_BYTES_MAX, NfKind, NfPlan,
    NfState, OUTPUT_COUNT_MAX, OWN_REASON_COUNT_MAX, STATE_COUNT_MAX, StatePlan,
};
pub(crate) use kind::{check_name, check_own_names};

/// Nanoseconds on the engine's monotonic clock. Never wall-clock time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The later instant `ns` nanoseconds after this one (saturating).
    pub const fn plus(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }

    /// Nanoseconds since `earlier`, or 0 if that lies in the future.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// What becomes of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Goes to the NF's output with this index (0 is the first or only one).
    Output(u8),
    /// Is dropped and counted under the reason.
    Drop(DropReason),
}

/// A burst of packets lent to an NF for one call.
///
/// The engine owns the packets before and after; the NF may change their bytes and must leave a
/// verdict for each. A verdict that is left alone means "output 0".
pub struct Burst<'a> {
    packets: &'a mut [Packet],
    verdicts: &'a mut [Verdict],
    copies: &'a mut Copies,
    pools: &'a mut Pools,
    input: u8,
}

impl<'a> Burst<'a> {
    /// A burst over `packets`; `verdicts` must have the same length and is reset to output 0.
    ///
    /// # Panics
    /// If the two lengths differ.
    pub fn new(
        packets: &'a mut [Packet],
        verdicts: &'a mut [Verdict],
        copies: &'a mut Copies,
        pools: &'a mut Pools,
        input: u8,
    ) -> Self {
        assert_eq!(packets.len(), verdicts.len(), "one verdict per packet");
        verdicts.fill(Verdict::Output(0));
        Self {
            packets,
            verdicts,
            copies,
            pools,
            input,
        }
    }

    /// Number of packets.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether there is no packet (the engine never passes such a burst).
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Index of the input link these packets came from, in the order of the chain file.
    pub fn input(&self) -> u8 {
        self.input
    }

    /// Every packet with its verdict.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&mut Packet, &mut Verdict)> {
        self.packets.iter_mut().zip(self.verdicts.iter_mut())
    }

    /// Every packet, when the verdicts are left at "output 0".
    pub fn packets_mut(&mut self) -> &mut [Packet] {
        self.packets
    }

    /// Sends a copy of packet `index` to `output`, beside whatever its verdict says.
    ///
    /// Returns false, and counts `no_buffer` or `too_large`, if the copy could not be made. At most
    /// one copy per packet and output may be made in a burst.
    pub fn copy_to(&mut self, index: usize, output: u8) -> bool {
        match self.pools.copy_of(&self.packets[index]) {
            Ok(copy) => {
                self.copies.packets.push((output, copy));
                true
            }
            Err(reason) => {
                self.copies.failed.push(reason);
                false
            }
        }
    }
}

/// Takes the packets of an NF's own making in one turn (see [`Nf::emit`]).
pub struct Emission<'a> {
    pools: &'a mut Pools,
    copies: &'a mut Copies,
    /// Packets that each output still takes.
    rooms: &'a mut [usize],
    is_draining: bool,
}

impl<'a> Emission<'a> {
    /// Packets of `pools` into `copies`, as many as `rooms` says for each output.
    pub fn new(
        pools: &'a mut Pools,
        copies: &'a mut Copies,
        rooms: &'a mut [usize],
        is_draining: bool,
    ) -> Self {
        Self {
            pools,
            copies,
            rooms,
            is_draining,
        }
    }

    /// Whether the chain comes to its end: what is held goes out, nothing new is begun.
    pub fn is_draining(&self) -> bool {
        self.is_draining
    }

    /// How many more packets can leave by `output` now.
    pub fn room(&self, output: u8) -> usize {
        self.rooms.get(usize::from(output)).copied().unwrap_or(0)
    }

    /// Sends a packet of `len` bytes with `tag` by `output`, once `fill` has written its bytes.
    /// Returns false, and sends nothing, if there is no room or no buffer: it can be tried again.
    pub fn send(&mut self, output: u8, len: usize, tag: u16, fill: impl FnOnce(&mut [u8])) -> bool {
        let Some(room) = self
            .rooms
            .get_mut(usize::from(output))
            .filter(|room| **room > 0)
        else {
            return false;
        };
        let Ok(mut packet) = self.pools.alloc(len) else {
            return false;
        };
        *room -= 1;
        fill(packet.bytes_mut());
        packet.set_tag(tag);
        self.copies.packets.push((output, packet));
        true
    }
}

impl fmt::Debug for Emission<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Emission")
            .field("rooms", &self.rooms)
            .field("is_draining", &self.is_draining)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Burst<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Burst")
            .field("len", &self.len())
            .field("input", &self.input)
            .finish()
    }
}

/// Copies made during one burst (see [`Burst::copy_to`]); the engine's, reused from burst to burst.
#[derive(Debug, Default)]
pub struct Copies {
    /// Output index and packet.
    pub packets: Vec<(u8, Packet)>,
    /// One reason per copy that could not be made.
    pub failed: Vec<DropReason>,
}

/// A network function.
///
/// `process` runs on the data path: it must not allocate, lock, log, block or read a clock.
pub trait Nf: Send {
    /// Decides what becomes of each packet of the burst, at time `now`.
    fn process(&mut self, burst: &mut Burst<'_>, now: Nanos);

    /// The NF as one that takes whole frames too, if it wants them. Asked for each frame: always
    /// the same answer.
    fn whole_frames(&mut self) -> Option<&mut dyn WholeFrames> {
        None
    }

    /// Called about every 10 ms between bursts, for timers and slow work.
    fn tick(&mut self, _now: Nanos) {}

    /// Whether every packet's way ends here: the NF copies what it needs of a packet, drops it as
    /// [`DropReason::Consumed`] or with the reason for which it refuses it, and what leaves is of
    /// its own making ([`Nf::emit`]). Its kind says [`Inputs::Ending`].
    fn ends_paths(&self) -> bool {
        false
    }

    /// Sends packets of its own making at time `now`: called every turn, for NFs that end paths.
    /// Gives when it is to be called again, if nothing arrives before.
    fn emit(&mut self, _out: &mut Emission<'_>, _now: Nanos) -> Option<Nanos> {
        None
    }

    /// Whether it has something that must leave before the chain may end.
    fn holds_packets(&self) -> bool {
        false
    }

    /// Takes up to `budget` values that its control half has sent, between two turns; gives whether
    /// more may wait (see [`exchange`]).
    fn exchange(&mut self, _budget: usize) -> bool {
        false
    }

    /// Answers a control request (`catena nf control`), between bursts.
    ///
    /// # Errors
    /// A sentence for the person who asked; the NF's state is as before.
    fn control(&mut self, _request: &serde_json::Value) -> Result<serde_json::Value, String> {
        Err("this NF takes no control requests".to_owned())
    }

    /// Gives the values of what it counts itself, by the names of its plan and in their order:
    /// called on the data path, when the node's other counters are stored.
    fn counters(&self, _out: &mut CounterSink<'_>) {}

    /// All that it counts itself, by name; in an NF's status once the chain has ended.
    fn report(&self) -> Vec<(&'static str, u64)> {
        let mut list = Vec::new();
        self.counters(&mut CounterSink::list(&mut list));
        list
    }
}
