//! Pools: buffers of one size, allocated by one owner and checked by everybody else.
//!
//! First and last step of a packet's life. The owner ([`PoolOwner`]) hands out buffers; whoever
//! ends up with one sends its index home through a return ring. There is no shared free list, so no
//! process can corrupt another's allocation, and a killed one leaves nothing half-changed:
//!
//! - The *free list* is private memory of the owner: slabs of 64 neighbouring buffers, handed out
//!   again in the order in which they came home (see `slabs`).
//! - The *ledger*, one byte per buffer, lies in memory that only the owner writes: 0 while the
//!   buffer is at home, else the number of the link by which it left. It outlives the owner, and
//!   from it, the unfinished turn and the return rings, the undertaker knows what is still out.
//! - A buffer that comes home is taken back only if the ledger says it is out by a link that leads
//!   to the one who returns it: a peer cannot free twice, nor free what it never had.
//!
//! The unit of account is the buffer, or in a bundle pool the slot of a buffer: see `bundles`. 64
//! neighbouring units are a *group*: a slab of buffers, or the slots of one bundle. What leaves or
//! comes home together is a group's number and a mask, and in the ledger one cache line.
//!
//! [`PoolView`] is everybody else's side: it turns a descriptor into a [`Packet`] after checking,
//! in 64 bits, that it lies in one buffer of the pool; where it may only read, into one that lies
//! in a copy.
#![allow(
    unsafe_code,
    reason = "makes packets from checked offsets in a mapping"
)]

mod bundles;
mod link_set;
mod memory;
mod search;
mod slabs;
mod units;

pub use bundles::Named;
pub use link_set::LinkSet;
pub use memory::PoolMemory;
pub use search::SOUGHT;
pub use units::UnitRun;

use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::bundle::BundleWriter;
use crate::descriptor::{Descriptor, SLOTS_PER_BUNDLE};
use crate::packet::Packet;
use crate::prefetch;
use crate::region::{Region, RegionError, Sharing};
use crate::snapshots::{Refused, Snapshots};
use crate::sync::{AtomicU8, Ordering};
use slabs::{FreeSlabs, SLAB};

/// Buffers of one pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolGeometry {
    /// Binary logarithm of the bytes per buffer, headroom included.
    pub log2_stride: u8,
    /// Number of buffers.
    pub buffer_count: u32,
    /// Bytes kept free in front of a received packet.
    pub headroom: u32,
    /// Whether its buffers are bundles of many packets each, and only that.
    pub bundles: bool,
}

/// Most bytes a pool may have: offsets are 32 bits.
pub const POOL_BYTES_MAX: u64 = 1 << 32;

impl PoolGeometry {
    /// Bytes of the pool.
    pub fn bytes(self) -> u64 {
        u64::from(self.buffer_count) << self.log2_stride
    }

    /// Units of account: buffers, or slots of a bundle pool.
    pub fn units(self) -> u32 {
        if self.bundles {
            self.buffer_count.saturating_mul(SLOTS_PER_BUNDLE)
        } else {
            self.buffer_count
        }
    }

    /// Largest packet that has a buffer to itself, behind its headroom; 0 in a bundle pool.
    pub fn packet_len_max(self) -> usize {
        if self.bundles {
            return 0;
        }
        (1_usize << self.log2_stride) - self.headroom as usize
    }

    /// Whether a pool can have this geometry.
    pub fn is_valid(self) -> bool {
        (6..=24).contains(&self.log2_stride)
            && self.buffer_count > 0
            && u64::from(self.headroom) < 1 << self.log2_stride
            && self.bytes() <= POOL_BYTES_MAX
            && (!self.bundles || bundles::is_valid(self))
    }
}

/// A returned or arriving buffer that cannot be what the peer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation;

/// The owner's side of a pool.
#[derive(Debug)]
pub struct PoolOwner {
    id: u16,
    geometry: PoolGeometry,
    region: Arc<Region>,
    ledger: Arc<Region>,
    /// Buffers at home, in a plain pool.
    slabs: FreeSlabs,
    /// Buffers of which no slot is alive, in a bundle pool: the next one to be used first.
    free_bundles: VecDeque<u32>,
    out_count: u32,
    /// As the geometry says.
    units: u32,
    /// Buffers that can be had and returned whole: none in a bundle pool.
    plain_count: u32,
    /// Of each buffer of a bundle pool: the slots that are in hand or out.
    alive: Vec<u64>,
    /// The bundle that [`PoolOwner::alloc_bundled`] is filling.
    open: Option<BundleWriter>,
}

const HOME: u8 = 0;

/// Bytes of a pool that go round even if fewer were enough: what a core's second cache holds. More
/// of them go round only if that many are in use at the same time.
const CYCLE_BYTES: u32 = 1 << 20;

impl PoolOwner {
    /// Makes a pool. `sharing` says whether the group's members may change packets.
    ///
    /// # Errors
    /// What the kernel refused.
    ///
    /// # Panics
    /// If the geometry is not valid; chain files are checked before.
    pub fn create(id: u16, geometry: PoolGeometry, sharing: Sharing) -> Result<Self, RegionError> {
        assert!(geometry.is_valid(), "{geometry:?}");
        let bytes = usize::try_from(geometry.bytes()).expect("at most 4 GiB");
        let region = Region::create_huge("catena-pool", bytes, sharing)?;
        // Buffers of the usual sizes are touched now; large chunks only when they are used.
        if geometry.log2_stride <= 12 {
            region.prefault();
        }
        Self::with_region(id, geometry, Arc::new(region), &[])
    }

    /// Takes over the pool of a dead owner: `out` are the units that are still out, with the link
    /// each left by.
    ///
    /// # Errors
    /// What was wrong with the memory, or what the kernel refused.
    pub fn adopt(
        id: u16,
        geometry: PoolGeometry,
        fd: OwnedFd,
        len: usize,
        out: &[(u32, u8)],
    ) -> Result<Self, RegionError> {
        let region = Region::attach(fd, len, Sharing::ReadWrite)?;
        if (region.len() as u64) < geometry.bytes() {
            return Err(RegionError::WrongSize {
                has: region.len() as u64,
                announced: geometry.bytes(),
            });
        }
        Self::with_region(id, geometry, Arc::new(region), out)
    }

    fn with_region(
        id: u16,
        geometry: PoolGeometry,
        region: Arc<Region>,
        out: &[(u32, u8)],
    ) -> Result<Self, RegionError> {
        let count = geometry.buffer_count;
        let units = geometry.units();
        let whole_groups = units.next_multiple_of(SLOTS_PER_BUNDLE) as usize;
        let ledger = Region::create("catena-ledger", whole_groups, Sharing::ReadOnly)?;
        ledger.prefault();
        let mut owner = Self {
            id,
            geometry,
            region,
            ledger: Arc::new(ledger),
            slabs: FreeSlabs::new(if geometry.bundles { 0 } else { count }),
            free_bundles: VecDeque::with_capacity(if geometry.bundles {
                count as usize
            } else {
                0
            }),
            out_count: 0,
            units,
            plain_count: if geometry.bundles { 0 } else { count },
            alive: vec![0; if geometry.bundles { count as usize } else { 0 }],
            open: None,
        };
        for &(unit, link) in out.iter().filter(|(unit, _)| *unit < units) {
            owner.send_out(unit, link.max(1));
            if geometry.bundles {
                owner.alive[(unit / SLOTS_PER_BUNDLE) as usize] |= 1 << (unit % SLOTS_PER_BUNDLE);
            }
        }
        owner.bring_home();
        Ok(owner)
    }

    /// Puts on the free list what the ledger says is at home: lowest index first.
    fn bring_home(&mut self) {
        if self.geometry.bundles {
            let free = (0_u32..).zip(&self.alive).filter(|(_, alive)| **alive == 0);
            self.free_bundles.extend(free.map(|(index, _)| index));
            return;
        }
        let slabs = self.units.div_ceil(SLAB);
        let in_cycle = (CYCLE_BYTES / SLAB) >> self.geometry.log2_stride;
        let home_of = |owner: &Self, slab: u32| {
            let buffers = slab * SLAB..((slab + 1) * SLAB).min(owner.units);
            let home = buffers.filter(|at| owner.ledger_of(*at).load(Ordering::Relaxed) == HOME);
            home.fold(0, |mask, at| mask | 1_u64 << (at % SLAB))
        };
        let in_cycle = in_cycle.max(2).min(slabs);
        for slab in (0..in_cycle).chain((in_cycle..slabs).rev()) {
            match home_of(self, slab) {
                0 => {}
                home if slab < in_cycle => self.slabs.put_back(slab, home),
                home => self.slabs.put_spare(slab, home),
            }
        }
    }

    #[inline]
    fn ledger_of(&self, index: u32) -> &AtomicU8 {
        assert!(index < self.units, "unit outside its pool");
        // SAFETY: the ledger has a byte per unit; it is an atomic that only this process writes.
        unsafe { self.ledger.at::<AtomicU8>(index as usize).as_ref() }
    }

    /// Number of the pool in its chain.
    pub fn id(&self) -> u16 {
        self.id
    }

    /// Its buffers.
    pub fn geometry(&self) -> PoolGeometry {
        self.geometry
    }

    /// The pool's memory, for neighbours, and its size.
    pub fn memory(&self) -> (BorrowedFd<'_>, usize) {
        (self.region.fd(), self.region.len())
    }

    /// The ledger's memory, for the undertaker, and its size.
    pub fn ledger(&self) -> (BorrowedFd<'_>, usize) {
        (self.ledger.fd(), self.ledger.len())
    }

    /// Whether the pool lies on huge pages.
    pub fn is_huge(&self) -> bool {
        self.region.is_huge()
    }

    /// Buffers at home and not in use.
    pub fn free_count(&self) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "at most buffer_count")]
        let bundles = self.free_bundles.len() as u32;
        self.slabs.count() + bundles
    }

    /// Units that have left by a link and not come home.
    pub fn out_count(&self) -> u32 {
        self.out_count
    }

    /// A view of this pool, for packets of its own that arrive over links.
    pub fn view(&self) -> PoolView {
        PoolView {
            id: self.id,
            log2_stride: self.geometry.log2_stride,
            bundles: self.geometry.bundles,
            region: self.region.clone(),
        }
    }

    /// A buffer with a packet of `len` undefined bytes behind the headroom, or none if all are in
    /// use or `len` is 0 or too large.
    #[inline]
    pub fn alloc(&mut self, len: usize) -> Option<Packet> {
        let mut packet = None;
        self.alloc_each(1, len, |made| packet = Some(made));
        packet
    }

    /// Up to `count` packets as [`PoolOwner::alloc`] makes them, given to `each` one after the
    /// other. Gives how many there were.
    #[inline(always)]
    pub fn alloc_each(&mut self, count: usize, len: usize, mut each: impl FnMut(Packet)) -> usize {
        if len == 0 || len > self.geometry.packet_len_max() {
            return 0;
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most packet_len_max")]
        let len = len as u32;
        let (base, log2, pool) = (self.region.base(), self.geometry.log2_stride, self.id);
        let headroom = self.geometry.headroom;
        // The line with the next packet's start is with whoever read the last one there.
        let fetch = |index: u32| {
            let offset = (index << log2) + headroom;
            // SAFETY: `index` is below buffer_count, so the address lies in the mapping.
            prefetch::for_writing(unsafe { base.add(offset as usize) });
        };
        let mut made = 0;
        while made < count
            && let Some(index) = self.slabs.take(fetch)
        {
            let offset = (index << log2) + headroom;
            // SAFETY: the buffer lies in the pool (index below buffer_count) and the packet in the
            // buffer (checked above); it was on the free list, so no handle of it exists; the
            // owner's mapping is writable and lives as long as the worker.
            each(unsafe { Packet::at(base, offset, len, pool, log2, true) });
            made += 1;
        }
        made
    }

    /// Takes a packet of this pool back.
    #[inline]
    pub fn free(&mut self, packet: Packet) {
        self.release(&packet);
    }

    /// Takes back a packet of this pool whose handle the caller forgets.
    #[inline]
    pub fn release(&mut self, packet: &Packet) {
        debug_assert_eq!(packet.pool(), self.id);
        let unit = packet.unit();
        self.free_slots(unit / SLOTS_PER_BUNDLE, 1 << (unit % SLOTS_PER_BUNDLE));
    }

    /// Notes that a unit, for a plain pool the buffer, leaves by link number `link` (not 0).
    #[inline]
    pub fn send_out(&mut self, unit: u32, link: u8) {
        debug_assert_ne!(link, HOME);
        self.ledger_of(unit).store(link, Ordering::Relaxed);
        self.out_count += 1;
    }

    /// Takes buffer `index`, returned by a peer that is reached over `links`, onto the free list.
    ///
    /// # Errors
    /// [`Violation`] if that buffer is not out by one of these links, or is a bundle's; nothing
    /// changes then.
    #[inline]
    pub fn take_home(&mut self, index: u32, links: &LinkSet) -> Result<(), Violation> {
        self.arrive(index, links)?;
        self.slabs.put_back(index / SLAB, 1 << (index % SLAB));
        Ok(())
    }

    /// Notes that buffer `index` has come back in hand over a link (a packet that went round).
    ///
    /// # Errors
    /// [`Violation`] if that buffer is not out by one of `links`, or is a bundle's; nothing changes
    /// then.
    #[inline]
    pub fn arrive(&mut self, index: u32, links: &LinkSet) -> Result<(), Violation> {
        if index >= self.plain_count {
            return Err(Violation);
        }
        let link = self.ledger_of(index).load(Ordering::Relaxed);
        if link == HOME || !links.contains(link) {
            return Err(Violation);
        }
        self.ledger_of(index).store(HOME, Ordering::Relaxed);
        self.out_count -= 1;
        Ok(())
    }
}

/// Reads a dead owner's ledger: every unit that is out, and the link it left by.
///
/// # Errors
/// What was wrong with the memory.
pub fn read_ledger(
    fd: OwnedFd,
    len: usize,
    geometry: PoolGeometry,
) -> Result<Vec<(u32, u8)>, RegionError> {
    let region = Region::attach(fd, len, Sharing::ReadOnly)?;
    let count = (geometry.units() as usize).min(region.len());
    let mut out = Vec::new();
    for index in 0..count {
        // SAFETY: within the region, checked above; an atomic load.
        let link = unsafe { region.at::<AtomicU8>(index).as_ref() }.load(Ordering::Acquire);
        if link != HOME {
            out.push((u32::try_from(index).expect("below the units"), link));
        }
    }
    Ok(out)
}

/// A pool as everybody but its owner sees it.
#[derive(Clone, Debug)]
pub struct PoolView {
    id: u16,
    log2_stride: u8,
    bundles: bool,
    region: Arc<Region>,
}

impl PoolView {
    /// Maps a pool received from its owner.
    ///
    /// # Errors
    /// What was wrong with the memory.
    pub fn attach(
        id: u16,
        geometry: PoolGeometry,
        fd: OwnedFd,
        len: usize,
        sharing: Sharing,
    ) -> Result<Self, RegionError> {
        let region = Region::attach(fd, len, sharing)?;
        if geometry.log2_stride <= 12 {
            region.prefault();
        }
        Ok(Self {
            id,
            log2_stride: geometry.log2_stride,
            bundles: geometry.bundles,
            region: Arc::new(region),
        })
    }

    /// Number of the pool in its chain.
    pub fn id(&self) -> u16 {
        self.id
    }

    /// Whether this process may write it: then [`PoolView::packet`] and [`PoolView::bundle`] make
    /// packets of it, else [`PoolView::copied`] and [`PoolView::copied_bundle`].
    #[inline]
    pub fn is_writable(&self) -> bool {
        self.region.is_writable()
    }

    /// Bytes of its buffers.
    pub fn buffer_bytes(&self) -> usize {
        1 << self.log2_stride
    }

    /// Whether `descriptor` names bytes within one buffer of a plain pool.
    #[inline(always)]
    fn fits(&self, descriptor: &Descriptor) -> bool {
        let (offset, len) = (u64::from(descriptor.offset), u64::from(descriptor.len));
        let stride = 1_u64 << self.log2_stride;
        let is_within = len != 0
            && (offset & (stride - 1)) + len <= stride
            && offset + len <= self.region.len() as u64;
        is_within && descriptor.kind == crate::descriptor::kind::PACKET && !self.bundles
    }

    /// The packet that `descriptor` names, if it lies within one buffer of this pool: one that has
    /// its buffer to itself, or in a bundle pool one of a bundle (`BUNDLED`).
    ///
    /// The descriptor must be a private copy (the ring gives one). That its sender holds the buffer
    /// cannot be checked here; inside a trust group it is taken at its word.
    ///
    /// # Errors
    /// [`Violation`] if any field is out of bounds, or this process may only read the pool.
    #[inline(always)]
    pub fn packet(&self, descriptor: &Descriptor) -> Result<Packet, Violation> {
        if self.bundles {
            return self.bundled(descriptor);
        }
        if !self.fits(descriptor) || !self.region.is_writable() {
            return Err(Violation);
        }
        // SAFETY: bounds checked above, in 64 bits, on a private copy; the sender gave the buffer
        // up by publishing the descriptor, and whoever breaks that rule is a member of this pool's
        // trust group; the mapping lives as long as the worker.
        let mut packet = unsafe {
            Packet::at(
                self.region.base(),
                descriptor.offset,
                descriptor.len,
                self.id,
                self.log2_stride,
                true,
            )
        };
        packet.set_metadata(descriptor.tag);
        packet.prefetch();
        Ok(packet)
    }

    /// As [`PoolView::packet`], with the packet's bytes in a copy: they are there once
    /// [`Snapshots::fill`] has been called, and until [`Snapshots::forget`] is. For pools that this
    /// process may only read, whose maker it trusts with nothing.
    ///
    /// # Errors
    /// [`Refused`] if any field is out of bounds, or there is no place for the copy.
    #[inline]
    pub fn copied(
        &self,
        descriptor: &Descriptor,
        snapshots: &mut Snapshots,
    ) -> Result<Packet, Refused> {
        let (len, in_bundle) = if self.bundles {
            let (slot, len, headroom) = self.check_bundled(descriptor)?;
            (len, Some((slot, headroom)))
        } else if self.fits(descriptor) {
            (descriptor.len, None)
        } else {
            return Err(Refused::Violation);
        };
        // SAFETY: the bytes lie in the mapping, checked above in 64 bits on a private copy; the
        // mapping lives as long as the worker.
        let copy = unsafe {
            let from = self.region.base().add(descriptor.offset as usize);
            snapshots.begin(from, len as usize)
        };
        let (data, named) = (copy.ok_or(Refused::Full)?, (self.id, self.log2_stride));
        // SAFETY: so many bytes of this worker's own; who names the buffer as its own is its peers'
        // matter, since nothing here is written.
        let mut packet = unsafe { Packet::lying_at(data, descriptor.offset, len, named, false) };
        if let Some((slot, headroom)) = in_bundle {
            packet = packet.in_slot(slot, headroom);
        }
        packet.set_metadata(descriptor.tag);
        Ok(packet)
    }
}

impl Packet {
    /// The descriptor that names this packet. The caller gives up the packet when it publishes it.
    #[inline]
    pub fn descriptor(&self) -> Descriptor {
        #[expect(clippy::cast_possible_truncation, reason = "made from a u32")]
        let len = self.len() as u32;
        if self.is_bundled() {
            return self.bundled_descriptor();
        }
        Descriptor {
            kind: 0,
            pool: self.pool(),
            len,
            offset: self.offset(),
            tag: self.metadata(),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
