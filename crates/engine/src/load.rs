//! What passes through a worker together: packets, each with a buffer to itself, and bundles of
//! packets that share one.
//!
//! Between a packet's links: a link pulls a load, an NF judges it as a [`crate::nf::Burst`], and
//! what goes by each output is a load again. A bundle needs no handle for each of its packets, as
//! long as they go on together; whoever wants handles takes it apart ([`Load::take_apart`]). The
//! order is that in which packets came.

use catena_shm::bundle::BundleView;

use crate::packet::{Packet, bytes_of};
use crate::pools::Pools;

/// Packets and bundles in their order.
#[derive(Debug, Default)]
pub struct Load {
    /// Packets with a buffer, or a handle, to themselves.
    pub packets: Vec<Packet>,
    /// Bundles, each with the number of packets in front of it.
    pub bundles: Vec<(usize, BundleView)>,
    /// Bytes of all.
    pub bytes: u64,
    /// Packets in bundles, and their bytes.
    bundled: usize,
    bundled_bytes: u64,
    /// Slots of the bundle that is being split which come here.
    pub(crate) slots: u64,
    /// For taking bundles apart without allocating.
    spare: Vec<Packet>,
    /// Marks of packets that a port has kept, for probes.
    pub(crate) kept_marks: Vec<u16>,
}

impl Load {
    /// An empty load that takes so many packets without allocating.
    pub fn with_capacity(count: usize) -> Self {
        Self {
            packets: Vec::with_capacity(count),
            bundles: Vec::with_capacity(16),
            spare: Vec::with_capacity(count),
            kept_marks: Vec::with_capacity(count),
            ..Self::default()
        }
    }

    /// Number of packets, those in bundles included.
    #[inline]
    pub fn count(&self) -> usize {
        self.packets.len() + self.bundled
    }

    /// Whether there is no packet.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty() & self.bundles.is_empty()
    }

    /// Packets in bundles.
    #[inline]
    pub fn bundled(&self) -> usize {
        self.bundled
    }

    /// Puts a bundle, with so many bytes in its packets, behind all others.
    #[inline]
    pub fn push_bundle(&mut self, bundle: BundleView, bytes: u64) {
        self.bundled += bundle.mask().count_ones() as usize;
        self.bundled_bytes += bytes;
        self.bundles.push((self.packets.len(), bundle));
    }

    /// Adds up the bytes of all, which packets may have changed.
    #[inline]
    pub fn count_bytes(&mut self) -> u64 {
        self.bytes = bytes_of(&self.packets) + self.bundled_bytes;
        self.bytes
    }

    /// Notes that packets in bundles have so many bytes more.
    #[inline]
    pub(crate) fn grow_bundled(&mut self, change: i64) {
        self.bundled_bytes = self.bundled_bytes.saturating_add_signed(change);
    }

    /// The marks of all packets, laid over each other: 0 if probes follow none. Those of packets
    /// with handles four at a time, since each step would wait for the one before.
    #[inline]
    pub fn any_mark(&self) -> u16 {
        let mut marks = [0; 4];
        let mut fours = self.packets.chunks_exact(4);
        for four in &mut fours {
            for (all, packet) in marks.iter_mut().zip(four) {
                *all |= packet.mark();
            }
        }
        let rest = fours.remainder().iter().map(Packet::mark);
        let bundled = self.bundles.iter().map(|(_, bundle)| bundle.any_mark());
        marks
            .into_iter()
            .chain(rest)
            .chain(bundled)
            .fold(0, |all, mark| all | mark)
    }

    /// Gives `each` the marks that are not 0, each with its packet's place among all: bundles stay
    /// as they are.
    pub fn each_mark(&self, mut each: impl FnMut(usize, u16)) {
        let mut each = |at, mark| {
            if mark != 0 {
                each(at, mark);
            }
        };
        let mut before = 0;
        let mut bundles = self.bundles.iter().peekable();
        for at in 0..=self.packets.len() {
            while let Some((_, bundle)) = bundles.next_if(|(front, _)| *front <= at) {
                let mask = bundle.mask();
                let rank = |slot: u32| (mask & ((1 << slot) - 1)).count_ones() as usize;
                bundle.each_mark(|slot, mark| each(before + rank(slot), mark));
                before += mask.count_ones() as usize;
            }
            if let Some(packet) = self.packets.get(at) {
                each(before, packet.mark());
                before += 1;
            }
        }
    }

    /// Moves all into `into`, behind what is there.
    pub fn append_to(&mut self, into: &mut Self) {
        if into.is_empty() {
            std::mem::swap(self, into);
        } else {
            let before = into.packets.len();
            let bundles = self.bundles.drain(..);
            into.bundles
                .extend(bundles.map(|(at, bundle)| (before + at, bundle)));
            into.packets.append(&mut self.packets);
            into.bytes += self.bytes;
            into.bundled += self.bundled;
            into.bundled_bytes += self.bundled_bytes;
        }
        self.forget();
    }

    /// Nothing is in it: what was has gone.
    #[inline]
    pub fn forget(&mut self) {
        self.packets.clear();
        self.bundles.clear();
        (self.bytes, self.bundled, self.bundled_bytes) = (0, 0, 0);
    }

    /// Makes a handle for each packet of the bundles. Gives how many are lost, because somebody who
    /// can write the bundle's table has done so meanwhile; their slots have gone home.
    pub fn take_apart(&mut self, pools: &mut Pools) -> u64 {
        if self.bundles.is_empty() {
            return 0;
        }
        let mut packets = std::mem::take(&mut self.spare);
        let mut lost = 0;
        let mut next = self.bundles.drain(..).peekable();
        let mut open = |bundle: BundleView, packets: &mut Vec<Packet>| {
            let (pool, buffer) = (bundle.pool(), bundle.buffer_index());
            let bad = bundle.into_packets(|packet| packets.push(packet));
            if bad != 0 {
                pools.release_slots(pool, buffer, bad);
                lost += u64::from(bad.count_ones());
            }
        };
        for (at, packet) in self.packets.drain(..).enumerate() {
            while let Some((_, bundle)) = next.next_if(|(before, _)| *before <= at) {
                open(bundle, &mut packets);
            }
            packets.push(packet);
        }
        for (_, bundle) in next {
            open(bundle, &mut packets);
        }
        self.spare = std::mem::replace(&mut self.packets, packets);
        (self.bundled, self.bundled_bytes) = (0, 0);
        lost
    }

    /// Leaves of each bundle from `first` on the slots that `keep` says.
    pub(crate) fn retain_bundles(
        &mut self,
        first: usize,
        mut keep: impl FnMut(&BundleView) -> u64,
    ) {
        for (_, bundle) in &mut self.bundles[first..] {
            let gone = bundle.mask() & !keep(bundle);
            if gone == 0 {
                continue;
            }
            self.bundled -= gone.count_ones() as usize;
            let (before, _) = bundle.check();
            bundle.leave(gone);
            let (left, _) = bundle.check();
            self.bundled_bytes = (self.bundled_bytes + left).saturating_sub(before);
        }
        self.bundles.retain(|(_, bundle)| bundle.mask() != 0);
    }

    /// Ends the life of all.
    pub fn release(&mut self, pools: &mut Pools) {
        pools.release(&self.packets);
        for (_, bundle) in self.bundles.drain(..) {
            pools.release_slots(bundle.pool(), bundle.buffer_index(), bundle.mask());
        }
        self.forget();
    }
}
