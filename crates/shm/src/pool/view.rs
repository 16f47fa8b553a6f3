//! A pool as everybody but its owner sees it: descriptors become packets, once they are checked.
//!
//! Behind a link, in the worker that receives.
#![allow(
    unsafe_code,
    reason = "makes packets from checked offsets in a mapping"
)]

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::geometry::PoolGeometry;
use crate::descriptor::{Descriptor, Violation};
use crate::packet::Packet;
use crate::region::{Region, RegionError, Sharing};
use crate::snapshots::{Refused, Snapshots};

/// A pool as everybody but its owner sees it.
#[derive(Clone, Debug)]
pub struct PoolView {
    pub(super) id: u16,
    pub(super) log2_stride: u8,
    pub(super) bundles: bool,
    pub(super) region: Arc<Region>,
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
    pub(super) fn fits(&self, descriptor: &Descriptor) -> bool {
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
            return self.open_packet(descriptor);
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

    /// The packet that an `OPEN` descriptor names: checked as a plain one. What it says to be left
    /// open is a number, and true or not only for whoever reads the packet's headers.
    #[inline(never)]
    fn open_packet(&self, descriptor: &Descriptor) -> Result<Packet, Violation> {
        let (plain, offload) = descriptor.opened().ok_or(Violation)?;
        let mut packet = self.packet(&plain)?;
        packet.set_offload(offload).map_err(|_| Violation)?;
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
        .left_open(self.offload())
    }
}
