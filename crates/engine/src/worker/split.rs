//! Bundles whose packets do not all go the same way: their masks are split, no byte is copied.
//!
//! Part of a turn, when verdicts are carried out and are not all alike.

use catena_shm::bundle::BundleView;

use crate::drop_reason::DropReason;
use crate::load::Load;
use crate::nf::Verdict;
use crate::packet::Packet;
use crate::pools::Pools;

/// Drops one packet.
pub(super) fn drop(
    count: &mut impl FnMut(DropReason, u64),
    pools: &mut Pools,
    packet: Packet,
    reason: DropReason,
) {
    count(reason, 1);
    pools.free(packet);
}

/// Puts the packets of a bundle where their verdicts, the first of `verdicts`, send them: as parts
/// of it. Gives how many there are.
pub(super) fn split(
    mut bundle: BundleView,
    verdicts: &[Verdict],
    by_output: &mut [Load],
    pools: &mut Pools,
    count: &mut impl FnMut(DropReason, u64),
) -> usize {
    let (mask, all) = (bundle.mask(), bundle.mask().count_ones() as usize);
    let mut dropped = 0;
    // Of each output: the slots that go there.
    let mut rest = mask;
    for verdict in &verdicts[..all] {
        let slot = rest & rest.wrapping_neg();
        rest &= !slot;
        let reason = match verdict {
            Verdict::Output(output) => match by_output.get_mut(usize::from(*output)) {
                Some(load) => {
                    load.slots |= slot;
                    continue;
                }
                None => DropReason::NotConnected,
            },
            Verdict::Drop(reason) => *reason,
            // What is kept has a handle of its own.
            Verdict::Kept => DropReason::Consumed,
        };
        dropped |= slot;
        count(reason, 1);
    }
    if dropped != 0 {
        pools.release_slots(bundle.pool(), bundle.buffer_index(), dropped);
        bundle.leave(dropped);
    }
    for load in by_output {
        let slots = std::mem::take(&mut load.slots);
        if slots != 0 {
            let part = bundle.split_off(slots);
            let (bytes, _) = part.check();
            load.push_bundle(part, bytes);
        }
    }
    all
}
