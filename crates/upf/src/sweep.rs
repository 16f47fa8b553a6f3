//! Work on many sessions at once: all of an association, or those of a set.
//!
//! On N4, between packets: so many slots in a turn, so that packets never wait for all of them. The
//! answer to the request that wants it leaves when all is done; what a kill leaves undone is done
//! when the request is repeated. Limit: [`SWEEP_COUNT_MAX`] wait for each other.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use catena_wire::pfcp::Header;

use crate::association::Association;
use crate::rules::Head;
use crate::transactions::Peer;
use crate::upf::Upf;

/// Most sweeps that are not at their end.
pub(crate) const SWEEP_COUNT_MAX: usize = 64;
/// Slots that are looked at in a turn; one in which something is done counts as so many.
const SLOTS_AT_ONCE: u32 = 4096;
const SLOTS_OF_DONE: u32 = 16;

/// Sessions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Which {
    /// Of associations with these numbers, one bit each.
    pub(crate) associations: u64,
    /// Of any of these, if there are any: FQ-CSIDs and Group IDs by their keys, CP addresses.
    pub(crate) csids: Vec<u64>,
    pub(crate) groups: Vec<u64>,
    pub(crate) addresses: Vec<IpAddr>,
}

impl Which {
    /// All of an association.
    pub(crate) fn of(association: usize) -> Self {
        Self {
            associations: 1 << (association & 63),
            ..Self::default()
        }
    }

    /// How many names it has.
    pub(crate) const fn len(&self) -> usize {
        self.csids.len() + self.groups.len() + self.addresses.len()
    }

    fn fits(&self, head: &Head) -> bool {
        if self.associations >> (head.association & 63) & 1 == 0 {
            return false;
        }
        let cp = [head.cp_v4.map(IpAddr::V4), head.cp_v6.map(IpAddr::V6)];
        self.len() == 0
            || head.csids.iter().any(|csid| self.csids.contains(csid))
            || self.groups.contains(&head.group)
            || cp.iter().flatten().any(|cp| self.addresses.contains(cp))
    }
}

/// What becomes of them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fate {
    /// They end.
    End,
    /// Another SMF of the set has them: its address, and its association if it has one.
    Move(Option<Ipv4Addr>, Option<Ipv6Addr>, Option<u8>),
}

/// An answer that leaves at the end: to which request, what it is, and to whom.
pub(crate) type Promised = (Header, Vec<u8>, Peer);

/// Sessions that are looked for, slot by slot.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// The first that fits a session decides.
    wants: Vec<(Which, Fate)>,
    /// What an association is then.
    pub(crate) then: Option<(usize, Association)>,
    pub(crate) promised: Option<Promised>,
    next: u32,
}

impl Sweep {
    /// Sessions that meet these fates.
    pub(crate) fn that(wants: Vec<(Which, Fate)>) -> Self {
        Self {
            wants,
            ..Self::default()
        }
    }

    /// All sessions of an association, which is then as said.
    pub(crate) fn of(association: usize, fate: Fate, then: Association) -> Self {
        Self {
            wants: vec![(Which::of(association), fate)],
            then: Some((association, then)),
            ..Self::default()
        }
    }
}

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

    /// Begins one; there is room.
    pub(crate) fn begin_sweep(&mut self, sweep: Sweep, now_ns: u64) {
        debug_assert!(self.sweeps.len() < SWEEP_COUNT_MAX);
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
                self.store.set_association(number, &association);
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
        let Some((_, fate)) = wants.find(|(which, _)| head.seid != 0 && which.fits(&head)) else {
            return false;
        };
        match *fate {
            Fate::End => {
                self.counters.deleted += 1;
                self.end_session(slot, now_ns);
            }
            Fate::Move(v4, v6, association) => {
                (head.cp_v4, head.cp_v6) = (v4, v6);
                head.association = association.unwrap_or(head.association);
                if let Some(mut image) = self.store.image(slot) {
                    image.set_head(&head);
                }
            }
        }
        true
    }
}
