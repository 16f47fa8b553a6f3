//! Work on many sessions at once: all of an association, or those of a set.
//!
//! On N4: which sessions, what becomes of them, and what is said at the end; `sweeping` does it.
//! Limit: [`SWEEP_COUNT_MAX`] wait for each other.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use catena_wire::pfcp::Header;

use crate::association::Association;
use crate::path_qos::control::PathControls;
use crate::rules::Head;
use crate::transactions::Peer;

/// Most sweeps that are not at their end.
pub(crate) const SWEEP_COUNT_MAX: usize = 64;

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

    pub(crate) fn fits(&self, head: &Head) -> bool {
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
    pub(crate) wants: Vec<(Which, Fate)>,
    /// What an association is then.
    pub(crate) then: Option<(usize, Association)>,
    /// What its SMF wants to know of paths then.
    pub(crate) paths: PathControls,
    pub(crate) promised: Option<Promised>,
    /// The slot that is next.
    pub(crate) next: u32,
    /// How many had begun with it: sessions behind it are not its own.
    pub(crate) number: u32,
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
