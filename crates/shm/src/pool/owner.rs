//! The owner's side of a pool: hands out buffers, and takes home what is out by its ledger.
//!
//! First and last step of a packet's life.
#![allow(
    unsafe_code,
    reason = "makes packets from checked offsets in a mapping"
)]

use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use super::geometry::PoolGeometry;
use super::link_set::LinkSet;
use super::slabs::{FreeSlabs, SLAB};
use super::view::PoolView;
use crate::bundle::BundleWriter;
use crate::descriptor::{SLOTS_PER_BUNDLE, Violation};
use crate::packet::Packet;
use crate::prefetch;
use crate::region::{Region, RegionError, Sharing};
use crate::sync::{AtomicU8, Ordering};

/// The owner's side of a pool.
#[derive(Debug)]
pub struct PoolOwner {
    pub(super) id: u16,
    pub(super) geometry: PoolGeometry,
    pub(super) region: Arc<Region>,
    pub(super) ledger: Arc<Region>,
    /// Buffers at home, in a plain pool.
    pub(super) slabs: FreeSlabs,
    /// Buffers of which no slot is alive, in a bundle pool: the next one to be used first.
    pub(super) free_bundles: VecDeque<u32>,
    pub(super) out_count: u32,
    /// As the geometry says.
    pub(super) units: u32,
    /// Buffers that can be had and returned whole: none in a bundle pool.
    pub(super) plain_count: u32,
    /// Of each buffer of a bundle pool: the slots that are in hand or out.
    pub(super) alive: Vec<u64>,
    /// The bundle that [`PoolOwner::alloc_bundled`] is filling.
    pub(super) open: Option<BundleWriter>,
}

/// Stands in the ledger for a unit that is at home.
pub(super) const HOME: u8 = 0;

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
        let region = Region::take_over(fd, len, Sharing::ReadWrite)?;
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
    pub(super) fn ledger_of(&self, index: u32) -> &AtomicU8 {
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

    /// Closes the descriptor of the ledger, once the undertaker has it. That of the pool stays
    /// open, for devices.
    pub fn close_ledger_descriptor(&mut self) {
        if let Some(ledger) = Arc::get_mut(&mut self.ledger) {
            ledger.close_descriptor();
        }
    }

    /// The ledger's memory, for the undertaker, and its size, before it is closed.
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

    /// Buffers that have left and not come home; of a bundle pool also those in hand, but for the
    /// one that is being filled.
    pub fn out_buffers(&self) -> u32 {
        if !self.geometry.bundles {
            return self.out_count;
        }
        let here = self.free_count() + u32::from(self.open.is_some());
        self.geometry.buffer_count.saturating_sub(here)
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
