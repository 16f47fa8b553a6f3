//! Amounts of usage: limits that are reached, and what was counted.
//!
//! Part of the fifth step of a packet's way through the UPF: the arithmetic of what
//! [`usage`](super) counts.

use crate::rules::{Usage, Volumes};
impl Volumes {
    /// No limit.
    pub const NONE: Self = Self {
        total: None,
        ul: None,
        dl: None,
    };

    /// Whether any of the limits is reached by so many octets uplink and downlink.
    #[inline]
    pub fn is_reached(&self, [ul, dl]: [u64; 2]) -> bool {
        let reached = |limit: Option<u64>, count| limit.is_some_and(|limit| count >= limit);
        reached(self.total, ul.saturating_add(dl)) || reached(self.ul, ul) || reached(self.dl, dl)
    }

    /// How many octets more reach none of the limits, whichever way they go.
    pub(crate) fn room(&self, [ul, dl]: [u64; 2]) -> u64 {
        let limits = [
            (self.total, ul.saturating_add(dl)),
            (self.ul, ul),
            (self.dl, dl),
        ];
        let room = |(limit, count): (Option<u64>, u64)| {
            limit.map_or(u64::MAX, |limit| {
                limit.saturating_sub(count).saturating_sub(1)
            })
        };
        limits.map(room).into_iter().min().unwrap_or(u64::MAX)
    }

    /// Whether there is a limit.
    pub const fn is_some(&self) -> bool {
        self.total.is_some() || self.ul.is_some() || self.dl.is_some()
    }
}

impl Usage {
    /// Nothing yet, counted from `now_ns`.
    pub const fn since(now_ns: u64) -> Self {
        Self {
            octets: [0; 2],
            packets: [0; 2],
            duration_ns: 0,
            first_ns: None,
            last_ns: None,
            start_ns: now_ns,
        }
    }

    /// This and what was counted behind it, as one.
    pub fn with(&self, later: &Self) -> Self {
        let sum = |[ul, dl]: [u64; 2], [more_ul, more_dl]: [u64; 2]| [ul + more_ul, dl + more_dl];
        Self {
            octets: sum(self.octets, later.octets),
            packets: sum(self.packets, later.packets),
            duration_ns: self.duration_ns + later.duration_ns,
            first_ns: self.first_ns.or(later.first_ns),
            last_ns: later.last_ns.or(self.last_ns),
            start_ns: self.start_ns,
        }
    }
}
