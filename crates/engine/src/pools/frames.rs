//! A worker's frames: packets of frames that arrive, and frames of its own.
//!
//! As the rest of [`Pools`], for packets that share a buffer; see
//! `docs/adr/0010-frames-are-buffers-of-many-packets.md`.

use catena_shm::descriptor::Descriptor;
use catena_shm::frame::{FrameView, FrameWriter};
use catena_shm::pool::{LinkSet, PoolOwner, Violation};

use super::{Place, Pools};
use crate::drop_reason::DropReason;
use crate::load::Load;
use crate::packet::Packet;

impl Pools {
    /// The packets that a `FRAME` descriptor names, in the order of their slots. Gives the mask of
    /// those whose entries no honest peer would have written: these have no packet.
    ///
    /// # Errors
    /// [`Violation`], counted, if the descriptor itself is one that no honest peer would have sent.
    #[inline]
    pub fn frame_packets(
        &mut self,
        descriptor: &Descriptor,
        each: impl FnMut(Packet),
    ) -> Result<u64, Violation> {
        let checked = self.checked_frame(descriptor, each);
        self.violations += checked.map_or(1, |(_, bad)| bad.count_ones().into());
        if let Ok((buffer, bad)) = checked
            && bad != 0
        {
            self.release_slots(descriptor.pool, buffer, bad);
        }
        checked.map(|(_, bad)| bad)
    }

    /// The packets that a `FRAME` descriptor names, as one: all of them are in hand.
    ///
    /// # Errors
    /// As [`Pools::frame_packets`].
    #[inline]
    pub fn frame_view(&mut self, descriptor: &Descriptor) -> Result<FrameView, Violation> {
        let id = usize::from(descriptor.pool);
        let view = self.views.get(id).and_then(Option::as_ref);
        let mut frame = view
            .ok_or(Violation)
            .and_then(|view| view.frame(descriptor));
        if let (Ok(view), Place::Own(index)) = (&frame, self.places[id]) {
            let own = &mut self.own[usize::from(index)];
            let arrived = own.arrive_slots(view.buffer_index(), view.mask(), &LinkSet::ALL);
            frame = arrived.and(frame);
        }
        self.violations += u64::from(frame.is_err());
        frame
    }

    /// As [`Pools::frame_view`], without a word of it in any account: [`Pools::arrived_bundles`] is
    /// to follow once the descriptor has been taken. Says whether the pool is owned here.
    #[inline]
    pub fn look_at_frame(&self, descriptor: &Descriptor) -> Result<(FrameView, bool), Violation> {
        let id = usize::from(descriptor.pool);
        let view = self.views.get(id).and_then(Option::as_ref);
        let frame = view.ok_or(Violation)?.frame(descriptor)?;
        Ok((frame, matches!(self.places[id], Place::Own(_))))
    }

    /// Notes that bundles made by [`Pools::look_at_frame`], those from `first` on, are in hand, and
    /// takes out those of own pools that cannot have come: gives their number.
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

    /// Units of one group go home: slots of a frame, or buffers of a slab.
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
            if let Ok(frame) = view.frame(descriptor) {
                frame.each(|_, packet| bytes += packet.len() as u64);
                self.release_slots(frame.pool(), frame.buffer_index(), frame.mask());
                packets += u64::from(frame.mask().count_ones());
            } else if let Ok(packet) = view.packet(descriptor) {
                bytes += packet.len() as u64;
                self.free(packet);
                packets += 1;
            }
        }
        (packets, bytes)
    }

    #[inline]
    pub(super) fn checked_frame(
        &mut self,
        descriptor: &Descriptor,
        each: impl FnMut(Packet),
    ) -> Result<(u32, u64), Violation> {
        let id = usize::from(descriptor.pool);
        let view = self.views.get(id).and_then(Option::as_ref);
        let view = view.ok_or(Violation)?;
        // Before the account changes: a slot that came home by a descriptor of which no packet can
        // be made would be nobody's.
        let _ = view.frame(descriptor)?;
        let buffer = view.frame_index(descriptor);
        if let Place::Own(index) = self.places[id] {
            let own = &mut self.own[usize::from(index)];
            own.arrive_slots(buffer, descriptor.mask(), &LinkSet::ALL)?;
        }
        let bad = view.packets(descriptor, each)?;
        Ok((buffer, bad))
    }

    /// The pool of frames, if this worker has one: it holds no plain packet, so it comes first.
    #[inline]
    pub(super) fn frame_pool(&mut self) -> Option<&mut PoolOwner> {
        self.own.first_mut().filter(|pool| pool.geometry().frames)
    }

    /// A packet of `len` undefined bytes that shares a frame with those allocated before and after;
    /// none if there is no frame for it. [`Pools::close_frame`] ends the frame.
    #[inline]
    pub fn alloc_framed(&mut self, len: usize, headroom: u32) -> Option<Packet> {
        self.frame_pool()?.alloc_framed(len, headroom)
    }

    /// Up to `count` packets of `len` undefined bytes that lie together in a new frame, given to
    /// `each`; says how many.
    #[inline]
    pub fn fill_frame(
        &mut self,
        count: usize,
        len: usize,
        headroom: u32,
        each: impl FnMut(Packet),
    ) -> usize {
        let pool = self.frame_pool();
        pool.map_or(0, |pool| pool.fill_frame(count, len, headroom, each))
    }

    /// Ends the frame that [`Pools::alloc_framed`] is filling.
    #[inline]
    pub fn close_frame(&mut self) {
        if let Some(pool) = self.frame_pool() {
            pool.close_frame();
        }
    }

    /// Starts to fetch the table of a frame that will be asked for.
    #[inline]
    pub fn prefetch_frame(&self, descriptor: &Descriptor) {
        if let Some(Some(view)) = self.views.get(usize::from(descriptor.pool)) {
            view.prefetch_frame(descriptor);
        }
    }

    /// Begins a frame of this worker's own, with `headroom` bytes in front of each packet; none if
    /// there is no buffer for it.
    #[inline]
    pub fn begin_frame(&mut self, headroom: u32) -> Option<FrameWriter> {
        self.frame_pool()?.begin_frame(headroom)
    }

    /// Ends a frame: gives the descriptor of all its packets, none if there are none.
    #[inline]
    pub fn finish_frame(&mut self, frame: FrameWriter, mark: u64) -> Option<Descriptor> {
        self.frame_pool()?.finish_frame(frame, mark)
    }

    /// A frame of `slots` packets, `len` bytes long, that `fill` copies from elsewhere into one of
    /// this worker's own. Gives the mask of slots that have no packet, because what was copied is
    /// no honest frame.
    ///
    /// # Errors
    /// [`DropReason::NoBuffer`] if no frame is free now; [`DropReason::BadDescriptor`] if no frame
    /// can be so long or hold so many.
    pub fn adopt_frame(
        &mut self,
        len: usize,
        slots: u32,
        fill: impl FnOnce(&mut [u8]),
        each: impl FnMut(Packet),
    ) -> Result<u64, DropReason> {
        let pool = self.frame_pool().ok_or(DropReason::BadDescriptor)?;
        let index = pool.alloc_frame().ok_or(DropReason::NoBuffer)?;
        let Some(bytes) = pool.frame_bytes(index, len) else {
            pool.free_frame(index);
            return Err(DropReason::BadDescriptor);
        };
        fill(bytes);
        let checked = pool.check_copied(index, len, slots, each);
        checked.map_err(|_| DropReason::BadDescriptor)
    }
}
