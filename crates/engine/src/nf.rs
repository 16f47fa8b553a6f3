//! The NF: takes a burst of packets, gives each a verdict.
//!
//! This is the middle step of a packet's life: the engine pulls a [`Burst`] from a link, calls
//! [`Nf::process`], and moves each packet by its [`Verdict`]. An NF never sees a link, a ring or a
//! clock; it is given bytes and a time, so tests and fuzzers drive it directly. One NF is one file
//! in `nfs/` that ends with its [`NfKind`], the entry by which chain files name it.

use std::fmt;

use crate::load::Load;
use crate::own_counters::CounterSink;
use crate::packet::Packet;
use crate::pools::Pools;

pub mod exchange;
mod keep;
mod kind;

pub use crate::drop_reason::DropReason;
pub use keep::{Emission, Hold, Kept, Moved};
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
    /// Stays with the NF: what [`Burst::keep`] leaves. One that says so otherwise is consumed.
    Kept,
}

impl Verdict {
    /// It as one word, 0 for the first output: many are compared at a time so.
    #[inline]
    pub(crate) const fn word(self) -> u16 {
        match self {
            Self::Output(output) => output as u16,
            Self::Drop(reason) => 0x100 | reason.index() as u16,
            Self::Kept => 0x200,
        }
    }
}

/// A burst of packets lent to an NF for one call.
///
/// The engine owns the packets before and after; the NF may change their bytes and must leave a
/// verdict for each. A verdict that is left alone means "output 0".
///
/// Packets that travel in bundles have no handles of their own. [`Burst::judge`],
/// [`Burst::judge_mut`] and [`Burst::each`] look at them where they lie; all else takes the bundles
/// apart first, which costs some nanoseconds for each packet, here and where they are packed again.
pub struct Burst<'a> {
    load: &'a mut Load,
    verdicts: &'a mut Vec<Verdict>,
    hold: &'a mut Hold,
    pools: &'a mut Pools,
    input: u8,
}

impl<'a> Burst<'a> {
    /// A burst of all that `load` has; `verdicts` are reset to output 0.
    pub fn new(
        load: &'a mut Load,
        verdicts: &'a mut Vec<Verdict>,
        hold: &'a mut Hold,
        pools: &'a mut Pools,
        input: u8,
    ) -> Self {
        verdicts.clear();
        verdicts.resize(load.count(), Verdict::Output(0));
        Self {
            load,
            verdicts,
            hold,
            pools,
            input,
        }
    }

    /// Number of packets.
    pub fn len(&self) -> usize {
        self.verdicts.len()
    }

    /// Whether there is no packet (the engine never passes such a burst).
    pub fn is_empty(&self) -> bool {
        self.verdicts.is_empty()
    }

    /// Index of the input link these packets came from, in the order of the chain file.
    pub fn input(&self) -> u8 {
        self.input
    }

    /// Asks `judge` for the verdict of each packet, in order, by its bytes.
    #[inline]
    pub fn judge(&mut self, mut judge: impl FnMut(&[u8]) -> Verdict) {
        if self.load.bundles.is_empty() {
            for (packet, verdict) in self.load.packets.iter().zip(self.verdicts.iter_mut()) {
                *verdict = judge(packet.bytes());
            }
            return;
        }
        let mut places = Places::of(self.load.packets.len());
        for (before, bundle) in &self.load.bundles {
            for (packet, at) in places.packets_before(*before) {
                self.verdicts[at] = judge(self.load.packets[packet].bytes());
            }
            let first = places.bundle(bundle.mask());
            bundle.each(|slot, bytes| {
                self.verdicts[first + rank(bundle.mask(), slot)] = judge(bytes);
            });
        }
        for (packet, at) in places.packets_before(self.load.packets.len()) {
            self.verdicts[at] = judge(self.load.packets[packet].bytes());
        }
    }

    /// As [`Burst::judge`], for an NF with [`Access::Write`] that changes bytes and no lengths.
    #[inline]
    pub fn judge_mut(&mut self, mut judge: impl FnMut(&mut [u8]) -> Verdict) {
        if self.load.bundles.is_empty() {
            for (packet, verdict) in self.load.packets.iter_mut().zip(self.verdicts.iter_mut()) {
                *verdict = judge(packet.bytes_mut());
            }
            return;
        }
        let mut places = Places::of(self.load.packets.len());
        for (before, bundle) in &mut self.load.bundles {
            for (packet, at) in places.packets_before(*before) {
                self.verdicts[at] = judge(self.load.packets[packet].bytes_mut());
            }
            let mask = bundle.mask();
            let first = places.bundle(mask);
            bundle.each_mut(|slot, bytes| {
                self.verdicts[first + rank(mask, slot)] = judge(bytes);
            });
        }
        for (packet, at) in places.packets_before(self.load.packets.len()) {
            self.verdicts[at] = judge(self.load.packets[packet].bytes_mut());
        }
    }

    /// Shows `each` every packet with its verdict, in order, to be changed in all that it is. For
    /// packets in bundles a handle is made for the moment, and what has changed is written back.
    #[inline]
    pub fn each(&mut self, mut each: impl FnMut(&mut Packet, &mut Verdict)) {
        if self.load.bundles.is_empty() {
            let packets = self.load.packets.iter_mut();
            packets
                .zip(self.verdicts.iter_mut())
                .for_each(|(packet, verdict)| each(packet, verdict));
            return;
        }
        let mut stuck = Vec::new();
        let mut change = 0;
        let mut places = Places::of(self.load.packets.len());
        for (before, bundle) in &mut self.load.bundles {
            for (packet, at) in places.packets_before(*before) {
                each(&mut self.load.packets[packet], &mut self.verdicts[at]);
            }
            let mask = bundle.mask();
            let first = places.bundle(mask);
            let verdicts = &mut self.verdicts[first..];
            let (grown, _) = bundle.each_packet(
                |slot, packet| each(packet, &mut verdicts[rank(mask, slot)]),
                |_, packet| stuck.push(packet),
            );
            change += grown;
        }
        for (packet, at) in places.packets_before(self.load.packets.len()) {
            each(&mut self.load.packets[packet], &mut self.verdicts[at]);
        }
        self.load.grow_bundled(change);
        if !stuck.is_empty() {
            self.travel_alone(stuck);
        }
    }

    /// Packets that were changed and whose bundle's table cannot say so travel by themselves.
    #[cold]
    fn travel_alone(&mut self, changed: Vec<Packet>) {
        self.take_apart();
        for packet in changed {
            let same =
                |here: &&mut Packet| (here.pool(), here.unit()) == (packet.pool(), packet.unit());
            if let Some(here) = self.load.packets.iter_mut().find(same) {
                *here = packet;
            }
        }
    }

    /// Makes a handle for each packet.
    fn take_apart(&mut self) {
        let lost = self.load.take_apart(self.pools);
        for _ in 0..lost {
            self.hold.dropped.push(DropReason::BadDescriptor);
        }
        self.verdicts.truncate(self.load.count());
    }

    /// Every packet with its verdict.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&mut Packet, &mut Verdict)> {
        self.take_apart();
        self.load.packets.iter_mut().zip(self.verdicts.iter_mut())
    }

    /// Every packet, when the verdicts are left at "output 0".
    pub fn packets_mut(&mut self) -> &mut [Packet] {
        self.take_apart();
        &mut self.load.packets
    }

    /// Packet `index`.
    pub fn packet(&mut self, index: usize) -> &mut Packet {
        self.take_apart();
        &mut self.load.packets[index]
    }

    /// Says what becomes of packet `index`.
    pub fn set_verdict(&mut self, index: usize, verdict: Verdict) {
        self.verdicts[index] = verdict;
    }

    /// Sends a copy of packet `index` to `output`, beside whatever its verdict says.
    ///
    /// Returns false, and counts `no_buffer` or `too_large`, if the copy could not be made. At most
    /// one copy per packet and output may be made in a burst.
    pub fn copy_to(&mut self, index: usize, output: u8) -> bool {
        self.take_apart();
        self.hold
            .copy_out(self.pools, &self.load.packets[index], output)
    }

    /// Takes packet `index` out of the burst as it is now, and gives it to the NF, which sends it
    /// at some other time ([`Emission::send_kept`]): only for NFs that say so ([`Nf::emits`]).
    /// Moved if its buffer is of a pool owned here and holds nothing else, else copied. Its verdict
    /// is set, and what else is done to it in this burst is lost.
    ///
    /// None if there is no buffer for the copy, or it was taken before: then it is still of the
    /// burst. How many may be held is for the NF to limit: they are buffers of the worker's pools.
    pub fn keep(&mut self, index: usize) -> Option<Kept> {
        self.take_apart();
        let packet = &self.load.packets[index];
        let kept = self.hold.keep(self.pools, index, packet)?;
        self.verdicts[index] = Verdict::Kept;
        Some(kept)
    }

    /// Makes a copy of packet `index` as it is now and gives it to the NF, as [`Burst::keep`]. None
    /// if there is no buffer for it.
    pub fn clone_of(&mut self, index: usize) -> Option<Kept> {
        self.take_apart();
        self.hold.copy(self.pools, &self.load.packets[index])
    }

    /// Makes a packet of `len` bytes with `tag` that `fill` writes, and gives it to the NF, as
    /// [`Burst::keep`]. None if there is no buffer for it.
    pub fn make(&mut self, len: usize, tag: u16, fill: impl FnOnce(&mut [u8])) -> Option<Kept> {
        self.hold.make(self.pools, (len, tag), fill)
    }
}

/// How many slots of `mask` come before `slot`.
#[inline]
const fn rank(mask: u64, slot: u32) -> usize {
    (mask & !(u64::MAX << slot)).count_ones() as usize
}

/// Where each packet of a load with bundles stands among all.
struct Places {
    /// Packets with handles that were passed, and packets of any kind.
    packets: usize,
    all: usize,
    count: usize,
}

impl Places {
    fn of(count: usize) -> Self {
        Self {
            packets: 0,
            all: 0,
            count,
        }
    }

    /// Packets with handles up to number `end`, and where they stand.
    #[inline]
    fn packets_before(&mut self, end: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (from, at) = (self.packets, self.all);
        let end = end.min(self.count).max(from);
        self.packets = end;
        self.all += end - from;
        (from..end).zip(at..)
    }

    /// Where the first packet of a bundle stands, which comes next.
    #[inline]
    fn bundle(&mut self, mask: u64) -> usize {
        let first = self.all;
        self.all += mask.count_ones() as usize;
        first
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

/// A network function.
///
/// `process` runs on the data path: it must not allocate, lock, log, block or read a clock.
pub trait Nf: Send {
    /// Decides what becomes of each packet of the burst, at time `now`.
    fn process(&mut self, burst: &mut Burst<'_>, now: Nanos);

    /// Called about every 10 ms between bursts, for timers and slow work.
    fn tick(&mut self, _now: Nanos) {}

    /// Whether every packet's way ends here: the NF copies what it needs of a packet, drops it as
    /// [`DropReason::Consumed`] or with the reason for which it refuses it, or keeps it, and what
    /// leaves does so by [`Nf::emit`]. Its kind says [`Inputs::Ending`].
    fn ends_paths(&self) -> bool {
        false
    }

    /// Whether it keeps packets, or makes some of its own: then [`Nf::emit`] is called. Always the
    /// same answer.
    fn emits(&self) -> bool {
        self.ends_paths()
    }

    /// Sends packets that it holds and packets of its own making, at time `now`. Gives the instant
    /// at which it is to be called again.
    ///
    /// Called first when the worker begins; then when that instant has come, after a burst or a
    /// control request, at every tick, and when there may be room or a buffer that it found missing
    /// the last time.
    fn emit(&mut self, _out: &mut Emission<'_>, _now: Nanos) -> Option<Nanos> {
        None
    }

    /// Whether it has something that must leave before the chain may end, beside packets that it
    /// has kept.
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
