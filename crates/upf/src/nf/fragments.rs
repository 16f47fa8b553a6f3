//! Fragments at the NF: parts are kept until they are whole, and what is too long leaves in parts.
//!
//! Beside the usual path of a burst. Pieces and whole packets are packets of the NF's own making,
//! and the packets that they are made of are dropped as `fragmented` and `reassembled`: so each
//! packet has one end. Limit: [`LEAVING_COUNT_MAX`] packets that wait to leave.

use catena_engine::nf::{Burst, DropReason, Emission, Kept, Verdict};
use catena_engine::packet::Packet;

use super::parts::{Origin, ToDo};
use super::{UpfNf, dropped};
use crate::cut::cut;
use crate::decision::{Decision, Why};
use crate::reassembly::{Part, Whole};

/// Most packets of its own making that wait to leave.
const LEAVING_COUNT_MAX: usize = 4096;

impl UpfNf {
    /// Does what packets of a burst ask for.
    pub(super) fn take_fragments(&mut self, burst: &mut Burst<'_>, now_ns: u64) {
        for (index, to_do) in std::mem::take(&mut self.to_do) {
            match to_do {
                ToDo::Join { at, origin } => {
                    let packet = burst.packet(index);
                    let part = packet.and_then(|one| Part::of(one.bytes(), at.into(), origin.teid));
                    let Some(part) = part else {
                        continue;
                    };
                    if let Some(kept) = burst.keep(index) {
                        self.join(part, (kept, origin), now_ns);
                    }
                }
                ToDo::Cut { interface, at, mtu } => {
                    self.scratch.clear();
                    let packet = burst.packet(index);
                    let bytes = packet.map(|packet| packet.bytes());
                    self.scratch.extend_from_slice(bytes.unwrap_or_default());
                    let is_cut = self.cut(at, interface, mtu, |len, fill| burst.make(len, 0, fill));
                    if !is_cut {
                        burst.set_verdict(index, Verdict::Drop(dropped(Why::TooBig)));
                    }
                }
            }
        }
    }

    /// Makes parts of the packet in `scratch`, which leave by an interface. False if it cannot be
    /// cut, or there is no room for all of them.
    fn cut(
        &mut self,
        at: u16,
        interface: u8,
        mtu: u16,
        mut make: impl FnMut(usize, &dyn Fn(&mut [u8])) -> Option<Kept>,
    ) -> bool {
        self.ident = self.ident.wrapping_add(1);
        let leaving = &mut self.leaving;
        cut(
            &self.scratch,
            at.into(),
            mtu.into(),
            self.ident,
            |len, fill| {
                let has_room = leaving.len() < LEAVING_COUNT_MAX;
                let made = has_room.then(|| make(len, fill)).flatten();
                made.map(|kept| leaving.push_back((kept, interface)))
                    .is_some()
            },
        )
    }

    fn join(&mut self, part: Part, ticket: (Kept, Origin), now_ns: u64) {
        let whole = self.reassembly.add(part, ticket, now_ns);
        self.whole.extend(whole);
    }

    /// Handles packets that have become whole; drops parts that will not. Gives when to be called
    /// again.
    pub(super) fn join_parts(&mut self, out: &mut Emission<'_>, now_ns: u64) -> Option<u64> {
        while let Some(whole) = self.whole.pop_front() {
            self.handle_whole(whole, out, now_ns);
        }
        let now_ns = if out.is_draining() { u64::MAX } else { now_ns };
        let next = self.reassembly.expire(now_ns);
        while let Some((kept, _)) = self.reassembly.next_dropped() {
            out.drop_kept(kept, dropped(Why::Fragment));
        }
        next
    }

    fn handle_whole(&mut self, whole: Whole<(Kept, Origin)>, out: &mut Emission<'_>, now_ns: u64) {
        const ETHERNET: usize = catena_wire::ethernet::HEADER_LEN;
        let Some(origin) = whole.parts.first().map(|(_, (_, origin))| *origin) else {
            return;
        };
        self.scratch.clear();
        self.scratch.resize(ETHERNET, 0);
        let frames = whole.parts.iter().map(|(_, (kept, _))| {
            let packet = out.kept(kept);
            packet.map(Packet::bytes).unwrap_or_default()
        });
        let is_written = whole.write(&mut self.scratch, frames);
        let ether_type = match self.scratch.get(ETHERNET).map(|first| first >> 4) {
            Some(6) => [0x86, 0xdd],
            _ => [0x08, 0x00],
        };
        self.scratch[ETHERNET - 2..ETHERNET].copy_from_slice(&ether_type);
        let bytes = &self.scratch;
        let made = is_written.then(|| out.make(bytes.len(), 0, |to| to.copy_from_slice(bytes)));
        let why = match made {
            Some(Some(_)) => Why::Reassembled,
            _ => Why::Fragment,
        };
        for (_, (kept, _)) in whole.parts {
            out.drop_kept(kept, dropped(why));
        }
        let Some(mut made) = made.flatten() else {
            return;
        };
        let Some(packet) = out.kept_mut(&mut made) else {
            return;
        };
        let Origin { teid, came } = origin;
        let signals = &mut self.signals;
        let decision = self
            .upf
            .joined_packet(packet, (teid, came), signals, now_ns);
        self.settle(made, decision, out, now_ns);
    }

    /// Does with a packet that is held what its rules say.
    pub(super) fn settle(
        &mut self,
        kept: Kept,
        decision: Decision,
        out: &mut Emission<'_>,
        now_ns: u64,
    ) {
        match decision {
            Decision::Send(_) | Decision::Cut { .. } if self.leaving.len() >= LEAVING_COUNT_MAX => {
                out.drop_kept(kept, dropped(Why::BufferFull));
            }
            Decision::Send(interface) => self.leaving.push_back((kept, interface)),
            Decision::Consumed => out.drop_kept(kept, DropReason::Consumed),
            Decision::Drop(why) => out.drop_kept(kept, dropped(why)),
            Decision::Hold(hold) => {
                if self.held.has_room(hold.slot, hold.suggested) {
                    self.store(kept, hold, now_ns);
                } else {
                    self.upf.give_up_packet(hold.slot, Why::BufferFull);
                    out.drop_kept(kept, dropped(Why::BufferFull));
                }
            }
            Decision::Join { at, teid, came } => {
                let bytes = out.kept(&kept).map(Packet::bytes);
                let part = bytes.and_then(|bytes| Part::of(bytes, at.into(), teid));
                match part {
                    Some(part) => self.join(part, (kept, Origin { teid, came }), now_ns),
                    None => out.drop_kept(kept, dropped(Why::Malformed)),
                }
            }
            Decision::Cut { interface, at, mtu } => {
                self.scratch.clear();
                let bytes = out.kept(&kept).map(Packet::bytes).unwrap_or_default();
                self.scratch.extend_from_slice(bytes);
                let is_cut = self.cut(at, interface, mtu, |len, fill| out.make(len, 0, fill));
                let why = if is_cut { Why::Fragmented } else { Why::TooBig };
                out.drop_kept(kept, dropped(why));
            }
        }
    }

    /// Sends what was made, as far as there is room.
    pub(super) fn leave(&mut self, out: &mut Emission<'_>) {
        while let Some((kept, output)) = self.leaving.pop_front() {
            if let Err(kept) = out.send_kept(kept, output) {
                self.leaving.push_front((kept, output));
                return;
            }
        }
    }
}
