//! A worker's bundles: packets of bundles that arrive, and bundles of its own.
//!
//! As the rest of [`Pools`], for packets that share a buffer; see
//! `docs/adr/0010-bundles-are-buffers-of-many-packets.md`.

use catena_shm::bundle::{BundleView, BundleWriter};
use catena_shm::descriptor::Descriptor;
use catena_shm::pool::{LinkSet, PoolOwner, Violation};

use super::{Place, Pools};
use crate::drop_reason::DropReason;
use crate::load::Load;
use crate::packet::Packet;

impl Pools {
    /// The packets that a `BUNDLE` descriptor names, in the order of their slots. Gives the mask of
    /// those whose entries no honest peer would have written: these have no packet.
    ///
    /// # Errors
    /// [`Violation`], counted, if the descriptor itself is one that no honest peer would have sent.
    #[inline]
    pub fn bundle_packets(
        &mut self,
        descriptor: &Descriptor,
        each: impl FnMut(Packet),
    ) -> Result<u64, Violation> {
        let checked = self.checked_bundle(descriptor, each);
        self.violations += checked.map_or(1, |(_, bad)| bad.count_ones().into());
        if let Ok((buffer, bad)) = checked
            && bad != 0
        {
            self.release_slots(descriptor.pool, buffer, bad);
        }
        checked.map(|(_, bad)| bad)
    }

    /// The packets that a `BUNDLE` descriptor names, as one: all of them are in hand.
    ///
    /// # Errors
    /// As [`Pools::bundle_packets`].
    #[inline]
    pub fn bundle_view(&mut self, descriptor: &Descriptor) -> Result<BundleView, Violation> {
        let id = usize::from(descriptor.pool);
        let view = self.views.get(id).and_then(Option::as_ref);
        let mut bundle = view
            .ok_or(Violation)
            .and_then(|view| view.bundle(descriptor));
        if let (Ok(view), Place::Own(index)) = (&bundle, self.places[id]) {
            let own = &mut self.own[usize::from(index)];
            let arrived = own.arrive_slots(view.buffer_index(), view.mask(), &LinkSet::ALL);
            bundle = arrived.and(bundle);
        }
        self.violations += u64::from(bundle.is_err());
        bundle
    }

    /// As [`Pools::bundle_view`], without a word of it in any account: [`Pools::arrived_bundles`]
    /// is to follow once the descriptor has been taken. Says whether the pool is owned here.
    #[inline]
    pub fn look_at_bundle(&self, descriptor: &Descriptor) -> Result<(BundleView, bool), Violation> {
        let id = usize::from(descriptor.pool);
        let view = self.views.get(id).and_then(Option::as_ref);
        let bundle = view.ok_or(Violation)?.bundle(descriptor)?;
        Ok((bundle, matches!(self.places[id], Place::Own(_))))
    }

    /// Notes that bundles made by [`Pools::look_at_bundle`], those from `first` on, are in hand,
    /// and takes out those of own pools that cannot have come: gives their number.
    pub fn arrived_bundles(&mut self, load: &mut Load, first: usize) -> u64 {
        let mut bad = 0;
        let (own, places) = (&mut self.own, &self.places);
        load.retain_bundles(first, |bundle| {
            let Place::Own(place) = places[usize::from(bundle.pool())] else {
                return bundle.mask();
            };
            let own = &mut own[usize::from(place)];
            let arrived = own.arrive_slots(bundle.buffer_index(), bundle.mask(), &LinkSet::ALL);
            bad += u64::from(arrived.is_err());
            if arrived.is_ok() { bundle.mask() } else { 0 }
        });
        self.violations += bad;
        bad
    }

    /// Has slots go home whose entries no honest peer would have written, of bundles from `first`
    /// on: gives their number.
    pub fn release_bad_slots(&mut self, load: &mut Load, first: usize) -> u64 {
        let mut count = 0;
        load.retain_bundles(first, |bundle| {
            let (_, bad) = bundle.check();
            if bad != 0 {
                self.release_slots(bundle.pool(), bundle.buffer_index(), bad);
                count += u64::from(bad.count_ones());
            }
            bundle.mask() & !bad
        });
        self.violations += count;
        count
    }

    /// Units of one group go home: slots of a bundle, or buffers of a slab.
    #[inline]
    pub fn release_slots(&mut self, pool: u8, group: u32, mask: u64) {
        match self.places[usize::from(pool)] {
            Place::Own(index) => self.own[usize::from(index)].free_slots(group, mask),
            Place::Lane(lane) => {
                self.lanes[usize::from(lane)].give_back_slots(pool, group, mask);
            }
            // No packet comes of a pool that is not known.
            Place::Unknown => self.violations += 1,
        }
    }

    /// Ends the life of packets in hand that `descriptors` name. Gives how many, and their bytes.
    pub fn release_described(&mut self, descriptors: &[Descriptor]) -> (u64, u64) {
        let (mut packets, mut bytes) = (0, 0);
        for descriptor in descriptors {
            let view = self.views.get(usize::from(descriptor.pool));
            let Some(Some(view)) = view else { continue };
            if let Ok(bundle) = view.bundle(descriptor) {
                bundle.each(|_, packet| bytes += packet.len() as u64);
                self.release_slots(bundle.pool(), bundle.buffer_index(), bundle.mask());
                packets += u64::from(bundle.mask().count_ones());
            } else if let Ok(packet) = view.packet(descriptor) {
                bytes += packet.len() as u64;
                self.free(packet);
                packets += 1;
            }
        }
        (packets, bytes)
    }

    #[inline]
    pub(super) fn checked_bundle(
        &mut self,
        descriptor: &Descriptor,
        each: impl FnMut(Packet),
    ) -> Result<(u32, u64), Violation> {
        let id = usize::from(descriptor.pool);
        let view = self.views.get(id).and_then(Option::as_ref);
        let view = view.ok_or(Violation)?;
        // Before the account changes: a slot that came home by a descriptor of which no packet can
        // be made would be nobody's.
        let _ = view.bundle(descriptor)?;
        let buffer = view.bundle_index(descriptor);
        if let Place::Own(index) = self.places[id] {
            let own = &mut self.own[usize::from(index)];
            own.arrive_slots(buffer, descriptor.mask(), &LinkSet::ALL)?;
        }
        let bad = view.packets(descriptor, each)?;
        Ok((buffer, bad))
    }

    /// The pool of bundles, if this worker has one: it holds no plain packet, so it comes first.
    #[inline]
    pub(super) fn bundle_pool(&mut self) -> Option<&mut PoolOwner> {
        self.own.first_mut().filter(|pool| pool.geometry().bundles)
    }

    /// A packet of `len` undefined bytes that shares a bundle with those allocated before and
    /// after; none if there is no bundle for it. [`Pools::close_bundle`] ends the bundle.
    #[inline]
    pub fn alloc_bundled(&mut self, len: usize, headroom: u32) -> Option<Packet> {
        self.bundle_pool()?.alloc_bundled(len, headroom)
    }

    /// Up to `count` packets of `len` undefined bytes that lie together in a new bundle, given to
    /// `each`; says how many.
    #[inline]
    pub fn fill_bundle(
        &mut self,
        count: usize,
        len: usize,
        headroom: u32,
        each: impl FnMut(Packet),
    ) -> usize {
        let pool = self.bundle_pool();
        pool.map_or(0, |pool| pool.fill_bundle(count, len, headroom, each))
    }

    /// Ends the bundle that [`Pools::alloc_bundled`] is filling.
    #[inline]
    pub fn close_bundle(&mut self) {
        if let Some(pool) = self.bundle_pool() {
            pool.close_bundle();
        }
    }

    /// Starts to fetch the table of a bundle that will be asked for.
    #[inline]
    pub fn prefetch_bundle(&self, descriptor: &Descriptor) {
        if let Some(Some(view)) = self.views.get(usize::from(descriptor.pool)) {
            view.prefetch_bundle(descriptor);
        }
    }

    /// Begins a bundle of this worker's own, with `headroom` bytes in front of each packet; none if
    /// there is no buffer for it.
    #[inline]
    pub fn begin_bundle(&mut self, headroom: u32) -> Option<BundleWriter> {
        self.bundle_pool()?.begin_bundle(headroom)
    }

    /// Ends a bundle: gives the descriptor of all its packets, none if there are none.
    #[inline]
    pub fn finish_bundle(&mut self, bundle: BundleWriter, mark: u64) -> Option<Descriptor> {
        self.bundle_pool()?.finish_bundle(bundle, mark)
    }

    /// A bundle of `slots` packets, `len` bytes long, that `fill` copies from elsewhere into one of
    /// this worker's own. Gives the mask of slots that have no packet, because what was copied is
    /// no honest bundle.
    ///
    /// # Errors
    /// [`DropReason::NoBuffer`] if no bundle is free now; [`DropReason::BadDescriptor`] if no
    /// bundle can be so long or hold so many.
    pub fn adopt_bundle(
        &mut self,
        len: usize,
        slots: u32,
        fill: impl FnOnce(&mut [u8]),
        each: impl FnMut(Packet),
    ) -> Result<u64, DropReason> {
        let pool = self.bundle_pool().ok_or(DropReason::BadDescriptor)?;
        let index = pool.alloc_bundle().ok_or(DropReason::NoBuffer)?;
        let Some(bytes) = pool.bundle_bytes(index, len) else {
            pool.free_bundle(index);
            return Err(DropReason::BadDescriptor);
        };
        fill(bytes);
        let checked = pool.check_copied(index, len, slots, each);
        checked.map_err(|_| DropReason::BadDescriptor)
    }
}
