//! What becomes of one frame that a packet socket shows: packets, or a drop with a reason.
//!
//! A frame is made whole while it is copied out of the ring: its VLAN tag back in place, its
//! checksum completed, cut into segments if it stands for several packets. A port that carries
//! segments leaves the last two open, and completes and cuts only where it has no large buffer.

use catena_engine::nf::DropReason;
use catena_engine::packet::Packet;
use catena_engine::port::RxBurst;

use super::frame::{Checksum, CopyError, RxInfo};
use crate::offload::CARRIED_LEN_MIN;
use crate::offload::pending::Pending;
use crate::offload::vnet::Said;

/// Bytes of the VLAN tag that the kernel has taken out.
const TAG_LEN: usize = 4;

/// What the port counts beside what the kernel does.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) down: u64,
    pub(super) unsegmented: u64,
    pub(super) cut_by_ring: u64,
    pub(super) rejected: u64,
    pub(super) queue_full: u64,
    pub(super) carried: u64,
}

/// What the port does with one frame that it is shown.
#[derive(Debug)]
pub(super) struct Reception<'p> {
    /// Whether what senders left to a card goes through the chain as it is.
    pub(super) carries: bool,
    pub(super) counts: &'p mut Counts,
    pub(super) pending: &'p mut Pending,
}

impl Reception<'_> {
    /// Receives a frame of the ring: as it is, completed, or cut apart.
    pub(super) fn receive(&mut self, burst: &mut RxBurst<'_>, frame: &[u8], info: &RxInfo) {
        let len = frame.len() + if info.vlan.is_some() { TAG_LEN } else { 0 };
        let is_open = matches!(info.checksum, Checksum::Partial { .. });
        let is_large = info.segmentation.is_some();
        if self.carries && (is_large || is_open && len >= CARRIED_LEN_MIN) {
            let Some(mut packet) = burst.try_alloc(len) else {
                return self.receive_whole(burst, frame, info, len);
            };
            if self.is_carried(&mut packet, frame, info) {
                self.counts.carried += 1;
                return burst.push(packet);
            }
            burst.discard(packet);
        }
        self.receive_whole(burst, frame, info, len);
    }

    /// Fills a packet with the frame as it is, and notes what is left open; false if it cannot be
    /// carried.
    fn is_carried(&self, packet: &mut Packet, frame: &[u8], info: &RxInfo) -> bool {
        if info.put_together(frame, packet.bytes_mut()).is_err() {
            return false;
        }
        let left = Said::of(info).left(packet.bytes());
        left.carried()
            .is_some_and(|offload| packet.set_offload(offload).is_ok())
    }

    /// Receives a frame as it would have been on the wire, in one packet or more.
    fn receive_whole(&mut self, burst: &mut RxBurst<'_>, frame: &[u8], info: &RxInfo, len: usize) {
        let is_there = frame.len() >= info.frame_len;
        if info.segmentation.is_some() && is_there {
            // Its fill fails only for a frame without addresses, which cannot be cut either.
            let fill = |to: &mut [u8]| {
                let _ = info.put_together(frame, to);
            };
            if self.pending.take(len, &Said::of(info), fill) {
                return self.pending.receive(burst);
            }
            self.counts.unsegmented += 1;
            return burst.drop_packet(DropReason::TooLarge);
        }
        let Ok(mut packet) = burst.alloc(len) else {
            return;
        };
        let reason = match info.copy_frame(frame, packet.bytes_mut()) {
            Ok(_) => return burst.push(packet),
            Err(CopyError::Malformed | CopyError::NoRoom { .. }) => DropReason::Malformed,
            Err(CopyError::Segmentation | CopyError::Truncated) => {
                self.counts.cut_by_ring += 1;
                DropReason::TooLarge
            }
        };
        burst.discard(packet);
        burst.drop_packet(reason);
    }
}
