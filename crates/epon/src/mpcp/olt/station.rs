//! What the OLT knows of one ONU: from its registration on, between REPORTs and grants.

use std::collections::VecDeque;

use catena_wire::ethernet::MacAddr;
use catena_wire::mpcp::RegisterReq;

/// A part of the upstream, on the OLT's clock at its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// When the laser may go on.
    pub from: u64,
    /// When it is off again.
    pub to: u64,
}

/// Slots that are remembered, to judge what arrives. An ONU has one outstanding; what it sent in
/// those before may still be on its way through a chain.
const SLOTS_KEPT: usize = 8;

/// What the OLT waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// The MPCPDU of its last slot.
    ForSlot,
    /// The time to give it the next one.
    Until(u64),
}

/// One ONU.
#[derive(Debug)]
pub struct Station {
    /// Its place.
    pub index: usize,
    /// Its logical link.
    pub llid: u16,
    /// Its address.
    pub mac: MacAddr,
    /// Its round trip in quanta, as of its last MPCPDU.
    pub rtt: u32,
    /// Whether it may send frames.
    pub registered: bool,
    /// When its last MPCPDU came, on the OLT's clock.
    pub last_heard: u64,
    pub(super) pending_grants: u8,
    pub(super) laser_on: u8,
    pub(super) laser_off: u8,
    /// Slots in which it was to confirm and did not.
    pub(super) tries: u32,
    /// What it reported last, in quanta.
    pub(super) demand: u32,
    waiting: Waiting,
    slots: VecDeque<Slot>,
}

impl Station {
    pub(super) fn new(
        index: usize,
        llid: u16,
        mac: MacAddr,
        rtt: u32,
        request: &RegisterReq,
        now: u64,
    ) -> Self {
        Self {
            index,
            llid,
            mac,
            rtt,
            registered: false,
            last_heard: now,
            pending_grants: request.pending_grants,
            laser_on: request.laser_on_time,
            laser_off: request.laser_off_time,
            tries: 0,
            demand: 0,
            waiting: Waiting::Until(now),
            slots: VecDeque::with_capacity(SLOTS_KEPT),
        }
    }

    /// What it reported last, in quanta.
    pub const fn demand(&self) -> u32 {
        self.demand
    }

    /// Its last slots, the oldest first.
    pub fn slots(&self) -> impl DoubleEndedIterator<Item = &Slot> {
        self.slots.iter()
    }

    /// Quanta that its laser takes to turn on and off.
    pub(super) const fn laser_time(&self) -> u32 {
        self.laser_on as u32 + self.laser_off as u32
    }

    /// When something is to be done about it: its next slot, or the loss of its MPCPDU.
    pub(super) fn due(&self, margin: u64) -> u64 {
        match (self.waiting, self.slots.back()) {
            (Waiting::Until(time), _) => time,
            (Waiting::ForSlot, Some(slot)) => slot.to + margin,
            (Waiting::ForSlot, None) => 0,
        }
    }

    /// Whether the MPCPDU of its last slot is missing.
    pub(super) fn is_silent(&self, now: u64, margin: u64) -> bool {
        self.waiting == Waiting::ForSlot && self.due(margin) <= now
    }

    /// Takes the MPCPDU that came at `arrival` for that of the outstanding slot; false if it is
    /// not.
    pub(super) fn take_outstanding(&mut self, arrival: u64, drift: u64) -> bool {
        let fits = self.slots.back().is_some_and(|slot| {
            self.waiting == Waiting::ForSlot
                && arrival + drift >= slot.from
                && arrival <= slot.to + drift
        });
        if fits {
            self.waiting = Waiting::Until(arrival);
        }
        fits
    }

    pub(super) fn forget_outstanding(&mut self) {
        self.waiting = Waiting::Until(0);
    }

    pub(super) fn wait_until(&mut self, time: u64) {
        self.waiting = Waiting::Until(time);
    }

    pub(super) fn give(&mut self, slot: Slot) {
        if self.slots.len() == SLOTS_KEPT {
            self.slots.pop_front();
        }
        self.slots.push_back(slot);
        self.waiting = Waiting::ForSlot;
    }
}
