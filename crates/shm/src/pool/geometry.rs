//! How a pool is cut into buffers: what its owner makes, and everybody else checks against.

use crate::bundle::PACKETS_OFFSET;
use crate::descriptor::SLOTS_PER_BUNDLE;

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
            && (!self.bundles || is_valid_for_bundles(self))
    }
}

/// Whether a bundle pool can have this geometry.
fn is_valid_for_bundles(geometry: PoolGeometry) -> bool {
    (10..=16).contains(&geometry.log2_stride)
        && u64::from(geometry.headroom) + u64::from(PACKETS_OFFSET) < 1 << geometry.log2_stride
}
