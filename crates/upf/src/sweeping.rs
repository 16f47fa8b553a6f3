//! Many sessions end or move, a few at a time.
//!
//! On N4, between packets: so many slots in a turn, so that packets never wait for all of them. The
//! answer to the request that wants it leaves when all is done; what a kill leaves undone is done
//! when the request is repeated.

use catena_wire::pfcp::{MessageType, View, key};

use crate::association::name_of;
use crate::sweep::{Fate, SWEEP_COUNT_MAX, Sweep};
use crate::transactions::Peer;
use crate::upf::Upf;

/// Slots that are looked at in a turn; one in which something is done counts as so many.
const SLOTS_AT_ONCE: u32 = 4096;
const SLOTS_OF_DONE: u32 = 16;

impl Upf {
    /// Whether an association is being replaced or ended: it gets no session.
    pub(crate) fn is_ending(&self, association: u8) -> bool {
        let mut all = self.sweeps.iter();
        all.any(|sweep| {
            sweep
                .then
                .is_some_and(|(one, _)| one == usize::from(association))
        })
    }

    /// Whether a request waits for its answer until a sweep ends.
    pub(crate) fn is_promised(&self, from: Peer, sequence: u32) -> bool {
        let mut promised = self.sweeps.iter().filter_map(|one| one.promised.as_ref());
        promised.any(|(header, _, to)| *to == from && header.sequence == sequence)
    }

    /// Whether a session is wanted of an association that is being replaced here, and was in the
    /// shard that has told its SMF so: the request is to be repeated.
    pub(crate) fn is_early(&self, view: &View<&[u8]>, from: Peer) -> bool {
        let is_wanted = view.header().message_type == MessageType::SESSION_ESTABLISHMENT_REQUEST;
        if self.settings.shard.1 == 1 || !is_wanted {
            return false;
        }
        let node = view.ies().get(key::NODE_ID).ok().flatten();
        let name = node.as_ref().and_then(name_of);
        let mut new = self.sweeps.iter().filter_map(|sweep| sweep.then);
        new.any(|(_, one)| Some(one.name) == name && one.speaks_from(from.address))
    }

    /// Begins one; there is room.
    pub(crate) fn begin_sweep(&mut self, mut sweep: Sweep, now_ns: u64) {
        debug_assert!(self.sweeps.len() < SWEEP_COUNT_MAX);
        self.sweeps_begun = self.sweeps_begun.wrapping_add(1);
        sweep.number = self.sweeps_begun;
        if let Some((number, _)) = sweep.then {
            self.forget_parting(number);
        }
        self.sweeps.push_back(sweep);
        self.sweep(now_ns);
    }

    /// Goes on for a turn; whether there is more to do.
    pub(crate) fn sweep(&mut self, now_ns: u64) -> bool {
        let mut left = SLOTS_AT_ONCE;
        while let Some(mut sweep) = self.sweeps.pop_front() {
            while left > 0 && sweep.next < self.store.fresh() {
                let is_done = self.sweep_slot(&sweep, sweep.next, now_ns);
                left = left.saturating_sub(if is_done { SLOTS_OF_DONE } else { 1 });
                sweep.next += 1;
            }
            if sweep.next < self.store.fresh() {
                self.sweeps.push_front(sweep);
                return true;
            }
            if let Some((number, association)) = sweep.then {
                self.set_association(number, &association, &sweep.paths);
            }
            if let Some((header, bytes, to)) = sweep.promised {
                self.answer(&header, bytes, to, now_ns);
            }
        }
        false
    }

    fn sweep_slot(&mut self, sweep: &Sweep, slot: u32, now_ns: u64) -> bool {
        let mut head = self.store.head(slot);
        let mut wants = sweep.wants.iter();
        // The difference, since numbers begin again.
        let is_older = sweep.number.wrapping_sub(head.sweeps).cast_signed() > 0;
        let is_there = head.seid != 0 && is_older;
        let Some((_, fate)) = wants.find(|(which, _)| is_there && which.fits(&head)) else {
            return false;
        };
        // Who was to have them may have gone while others had their turn.
        let is_gone = |number: u8| !self.store.association(number.into()).is_some();
        match *fate {
            Fate::Move(v4, v6, association) if !association.is_some_and(is_gone) => {
                (head.cp_v4, head.cp_v6) = (v4, v6);
                head.association = association.unwrap_or(head.association);
                if let Some(mut image) = self.store.image(slot) {
                    image.set_head(&head);
                }
            }
            Fate::End | Fate::Move(..) => {
                self.counters.deleted += 1;
                self.end_session(slot, now_ns);
            }
        }
        true
    }
}
