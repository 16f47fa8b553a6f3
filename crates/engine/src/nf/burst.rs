//! A burst of packets as an NF sees it: their bytes where they lie, and a verdict for each.
//!
//! The middle step of a packet's life, between a link and `Turn::carry_out`.

use std::fmt;

use super::keep::{Hold, Kept};
use super::verdict::Verdict;
use crate::drop_reason::DropReason;
use crate::load::Load;
use crate::packet::Packet;
use crate::pools::Pools;

/// A burst of packets lent to an NF for one call.
///
/// The engine owns the packets before and after; the NF may change their bytes and must leave a
/// verdict for each. A verdict that is left alone means "output 0".
///
/// Packets that travel in bundles have no handles of their own. [`Burst::judge`],
/// [`Burst::judge_mut`] and [`Burst::each`] look at them where they lie; all else takes the bundles
/// apart first, which costs some nanoseconds for each packet, here and where they are packed again.
/// What a peer has made nonsense of by then is dropped, and the burst is shorter: a position behind
/// its end is that of no packet.
pub struct Burst<'a> {
    load: &'a mut Load,
    verdicts: &'a mut Vec<Verdict>,
    hold: &'a mut Hold,
    pools: &'a mut Pools,
    input: u8,
}

impl<'a> Burst<'a> {
    /// Packets that have handles already: those in bundles have none unless they are asked for.
    #[cfg(test)]
    pub(crate) fn singly(&self) -> usize {
        self.load.packets.len()
    }

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

    /// As [`Burst::judge`], for an NF with `Access::Write` that changes bytes and no lengths.
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

    /// Packet `index`, if there is one: there may be fewer than [`Burst::len`] said before handles
    /// were made, since whoever writes a bundle's table can spoil it meanwhile.
    pub fn packet(&mut self, index: usize) -> Option<&mut Packet> {
        self.take_apart();
        self.load.packets.get_mut(index)
    }

    /// Says what becomes of packet `index`, if there is one.
    pub fn set_verdict(&mut self, index: usize, verdict: Verdict) {
        if let Some(own) = self.verdicts.get_mut(index) {
            *own = verdict;
        }
    }

    /// Sends a copy of packet `index` to `output`, beside whatever its verdict says.
    ///
    /// Returns false, and counts `no_buffer` or `too_large`, if the copy could not be made; false
    /// too where there is no such packet. At most one copy per packet and output may be made in a
    /// burst.
    pub fn copy_to(&mut self, index: usize, output: u8) -> bool {
        self.take_apart();
        let packet = self.load.packets.get(index);
        packet.is_some_and(|packet| self.hold.copy_out(self.pools, packet, output))
    }

    /// Takes packet `index` out of the burst as it is now, and gives it to the NF, which sends it
    /// at some other time (`Emission::send_kept`): only for NFs that say so (`Nf::emits`).
    /// Moved if its buffer is of a pool owned here and holds nothing else, else copied. Its verdict
    /// is set, and what else is done to it in this burst is lost.
    ///
    /// None if there is no buffer for the copy, or it was taken before (then it is still of the
    /// burst), or if there is no such packet. How many may be held is for the NF to limit: they are
    /// buffers of the worker's pools.
    pub fn keep(&mut self, index: usize) -> Option<Kept> {
        self.take_apart();
        let packet = self.load.packets.get(index)?;
        let kept = self.hold.keep(self.pools, index, packet)?;
        self.set_verdict(index, Verdict::Kept);
        Some(kept)
    }

    /// Makes a copy of packet `index` as it is now and gives it to the NF, as [`Burst::keep`]. None
    /// if there is no buffer for it, or no such packet.
    pub fn clone_of(&mut self, index: usize) -> Option<Kept> {
        self.take_apart();
        self.hold.copy(self.pools, self.load.packets.get(index)?)
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

#[cfg(test)]
mod tests {
    use catena_shm::pool::{PoolGeometry, PoolOwner};
    use catena_shm::region::Sharing;

    use super::*;

    /// An NF counts packets before it asks for their handles; a burst may be shorter then.
    #[test]
    fn a_position_behind_the_end_is_that_of_no_packet() {
        let geometry = PoolGeometry {
            log2_stride: 11,
            buffer_count: 4,
            headroom: 64,
            bundles: false,
        };
        let owner = PoolOwner::create(1, geometry, Sharing::ReadWrite).unwrap();
        let mut pools = Pools::new(vec![owner]);
        let (mut load, mut verdicts, mut hold) = (Load::default(), Vec::new(), Hold::default());
        load.packets.push(pools.alloc(60).unwrap());
        let mut burst = Burst::new(&mut load, &mut verdicts, &mut hold, &mut pools, 0);
        assert!(burst.packet(0).is_some() && burst.packet(1).is_none());
        assert_eq!(burst.keep(1), None);
        assert_eq!(burst.clone_of(1), None);
        assert!(!burst.copy_to(1, 0));
        burst.set_verdict(1, Verdict::Drop(DropReason::Malformed));
        assert!(burst.copy_to(0, 0));
        let kept = burst.keep(0).unwrap();
        assert_eq!(verdicts, [Verdict::Kept]);
        hold.begin_moves(|_| {});
        let packet = load.packets.remove(0);
        assert!(matches!(hold.move_in(0, packet), crate::nf::Moved::Held));
        assert_eq!(hold.get(&kept).map(Packet::len), Some(60));
    }
}
