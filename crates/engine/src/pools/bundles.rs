//! A worker's bundles: packets of bundles that arrive, and bundles of its own.
//!
//! As the rest of [`Pools`], for packets that share a buffer; see
//! `docs/adr/0010-bundles-are-buffers-of-many-packets.md`.

use catena_shm::bundle::{BundleView, BundleWriter};
use catena_shm::descriptor::Descriptor;
use catena_shm::pool::{LinkSet, Named, PoolOwner, Violation};
use catena_shm::snapshots::Refused;

use super::{Place, Pools};
use crate::drop_reason::DropReason;
use crate::load::Load;
use crate::packet::Packet;

impl Pools {
    /// The packets that a `BUNDLE` descriptor names, as one, in the way of [`Pools::look_at`]:
    /// [`Pools::arrived_bundles`] is to follow once the descriptor has been taken.
    ///
    /// # Errors
    /// As [`Pools::look_at`].
    #[inline]
    pub fn look_at_bundle(
        &mut self,
        descriptor: &Descriptor,
    ) -> Result<(BundleView, bool), Refused> {
        let id = usize::from(descriptor.pool);
        let view = self.views.get(id).and_then(Option::as_ref);
        let view = view.ok_or(Refused::Violation)?;
        let bundle = if view.is_writable() {
            view.bundle(descriptor)?
        } else {
            view.copied_bundle(descriptor, &mut self.snapshots)?
        };
        Ok((bundle, matches!(self.places[id], Place::Own(_))))
    }

    /// Notes that bundles made by [`Pools::look_at_bundle`], those from `first` on, are in hand,
    /// and takes out those of own pools that cannot have come: gives the number of their packets.
    pub fn arrived_bundles(&mut self, load: &mut Load, first: usize) -> u64 {
        let mut bad = 0;
        let (own, places) = (&mut self.own, &self.places);
        load.retain_bundles(first, |bundle| {
            let Place::Own(place) = places[usize::from(bundle.pool())] else {
                return bundle.mask();
            };
            let own = &mut own[usize::from(place)];
            let arrived = own.arrive_slots(bundle.buffer_index(), bundle.mask(), &LinkSet::ALL);
            if arrived.is_ok() {
                return bundle.mask();
            }
            bad += u64::from(bundle.mask().count_ones());
            0
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
    pub fn release_slots(&mut self, pool: u16, group: u32, mask: u64) {
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
            if let Ok(named) = self.named(descriptor) {
                self.release_slots(descriptor.pool, named.group, named.mask);
                packets += u64::from(named.mask.count_ones());
                bytes += named.bytes;
            }
        }
        (packets, bytes)
    }

    /// Packets that `descriptors` name have come by a link, and end their lives unseen. Gives how
    /// many descriptors no honest peer would have sent, which are counted.
    pub fn discard(&mut self, descriptors: &[Descriptor]) -> u64 {
        let mut bad = 0;
        for descriptor in descriptors {
            let arrived = self.named(descriptor).and_then(|named| {
                if let Place::Own(index) = self.places[usize::from(descriptor.pool)] {
                    let own = &mut self.own[usize::from(index)];
                    own.arrive_slots(named.group, named.mask, &LinkSet::ALL)?;
                }
                Ok(named)
            });
            match arrived {
                Ok(named) => self.release_slots(descriptor.pool, named.group, named.mask),
                Err(Violation) => bad += 1,
            }
        }
        self.violations += bad;
        bad
    }

    fn named(&self, descriptor: &Descriptor) -> Result<Named, Violation> {
        let view = self.views.get(usize::from(descriptor.pool));
        let view = view.and_then(Option::as_ref).ok_or(Violation)?;
        view.named(descriptor)
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
