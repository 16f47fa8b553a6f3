//! Sizes and numbers of buffers in the pools of one worker. Pure.

use catena_shm::bundle::SLOTS_PER_BUNDLE;
use catena_shm::ring::SLOT_COUNT_MAX;

/// Buffers of every pool owner unless the chain says otherwise: bytes per buffer, buffers.
pub const SIZE_CLASSES: [(u32, u32); 4] = [(128, 8192), (2048, 4096), (16_384, 128), (262_144, 32)];

/// Most bundles that one worker owns.
pub(super) const BUNDLE_COUNT_MAX: u32 = 1024;

/// Most buffers that one worker may own, beside bundles: for each, and for each packet of a bundle,
/// there is a slot in the lane by which another worker returns it.
pub const BUFFER_COUNT_MAX: u32 = SLOT_COUNT_MAX - BUNDLE_COUNT_MAX * SLOTS_PER_BUNDLE;

/// Sizes and numbers of buffers that each owner of pools has, smallest first: the usual ones, with
/// those of `chosen` instead or in addition.
pub fn size_classes(chosen: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let usual = SIZE_CLASSES
        .iter()
        .filter(|(bytes, _)| chosen.iter().all(|(other, _)| other != bytes));
    let mut classes: Vec<_> = usual.chain(chosen).copied().collect();
    classes.sort_unstable();
    classes
}

/// Bytes kept free in front of a received packet.
pub(super) fn headroom(bytes: u32) -> u32 {
    if bytes <= 128 { 64 } else { 128 }
}
