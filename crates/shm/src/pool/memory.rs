//! A pool's memory as devices are shown it: where it lies, how long it is, how it is cut.
//!
//! Before any packet moves: a port that lets a device read and write packets where they lie (ADR
//! 20) registers this once. What is in the buffers is nobody's business here; a buffer is touched
//! by whoever has its [`Packet`](crate::packet::Packet).

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::geometry::PoolGeometry;
use super::owner::PoolOwner;
use crate::region::Region;

/// The memory of a pool that this process owns. It stays mapped, at the same address, as long as
/// one of these exists.
#[derive(Clone, Debug)]
pub struct PoolMemory {
    id: u16,
    geometry: PoolGeometry,
    region: Arc<Region>,
}

impl PoolOwner {
    /// The pool's memory, for a device.
    pub fn device_memory(&self) -> PoolMemory {
        PoolMemory {
            id: self.id,
            geometry: self.geometry,
            region: self.region.clone(),
        }
    }

    /// Whether that is this pool's memory.
    pub fn has_memory(&self, memory: &PoolMemory) -> bool {
        Arc::ptr_eq(&self.region, &memory.region)
    }
}

impl PoolMemory {
    /// Number of the pool in its chain.
    pub fn id(&self) -> u16 {
        self.id
    }

    /// Its buffers.
    pub fn geometry(&self) -> PoolGeometry {
        self.geometry
    }

    /// Where it is mapped in this process; readable and writable.
    pub fn address(&self) -> u64 {
        self.region.base().expose_provenance().get() as u64
    }

    /// Bytes in its buffers: the mapping has at least as many.
    pub fn len(&self) -> u64 {
        self.geometry.bytes()
    }

    /// Never: a pool has buffers.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Whether it lies on huge pages.
    pub fn is_huge(&self) -> bool {
        self.region.is_huge()
    }

    /// The memory itself, for devices in other processes.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.region.fd()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::region::Sharing;

    /// What a device writes at an offset is what a packet of that buffer shows, and nothing that
    /// reaches beyond the buffer becomes one.
    #[test]
    fn a_packet_lies_where_the_device_says_within_its_buffer() {
        let geometry = PoolGeometry {
            log2_stride: 7,
            buffer_count: 70,
            headroom: 64,
            bundles: false,
        };
        let mut owner = PoolOwner::create(3, geometry, Sharing::ReadWrite).unwrap();
        let memory = owner.device_memory();
        assert_eq!((memory.id(), memory.len()), (3, 70 * 128));
        let mut packets: Vec<_> = std::iter::from_fn(|| owner.alloc(64)).collect();
        assert_eq!(packets.len(), 70);
        let packet = &mut packets[65];
        let start = packet.buffer_offset();
        packet.bytes_mut()[..3].copy_from_slice(b"abc");
        packet.lie_at(start + 65, 2).unwrap();
        assert_eq!(packet.bytes(), b"bc");
        assert_eq!((packet.headroom(), packet.tailroom()), (65, 61));
        packet.lie_at(start, 128).unwrap();
        assert_eq!((packet.len(), packet.offset()), (128, start));
        for (offset, len) in [
            (start, 0),
            (start, 129),
            (start + 127, 2),
            (start + 1, u32::MAX),
            (start - 1, 1),
            (start + 128, 1),
            (u32::MAX, 1),
        ] {
            assert!(packet.lie_at(offset, len).is_err(), "{offset} {len}");
        }
        assert_eq!((packet.len(), packet.offset()), (128, start), "unchanged");
        packets.into_iter().for_each(|packet| owner.free(packet));
        assert_eq!(owner.free_count(), 70);
    }
}
