//! The two sides of a MAC: the PON, and the users or the network; which links belong to which.

use catena_engine::nf::{Burst, DropReason, Verdict};

/// The input that comes from the PON: the first link to the NF in the chain file.
pub(super) const PON_INPUT: u8 = 0;
/// The output to the PON.
pub(super) const PON: u8 = 0;
/// The output to the users, or to the network.
pub(super) const USER: u8 = 1;

/// Gives each packet of a burst to `hear`, with whether it comes from the PON, and carries out how
/// it ends.
pub(super) fn end_each(burst: &mut Burst<'_>, mut hear: impl FnMut(&[u8], bool) -> DropReason) {
    let is_pon = burst.input() == PON_INPUT;
    for (packet, verdict) in burst.iter_mut() {
        *verdict = Verdict::Drop(hear(packet.bytes(), is_pon));
    }
}
