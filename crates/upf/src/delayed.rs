//! Downlink Data Reports that wait for the delay of their BAR.
//!
//! Beside held packets: an SMF that is about to hear from the UE by itself is not told of the first
//! packet at once. What has left, ended or begun anew meanwhile is not reported. Specification: TS
//! 29.244 5.2.4, 8.2.28. Limit: one for each session of which packets are held.

use std::collections::{BTreeSet, HashMap};

/// Units of a Downlink Data Notification Delay.
const UNIT_NS: u64 = 50_000_000;

/// What is to be reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delayed {
    /// Slot of the session, and its SEID, which the slot's next one does not have.
    pub(crate) slot: u32,
    pub(crate) seid: u64,
    pub(crate) pdr_id: u16,
    pub(crate) qfi: Option<u8>,
}

/// All that wait.
#[derive(Debug, Default)]
pub(crate) struct DelayedReports {
    by_slot: HashMap<u32, (u64, Delayed)>,
    by_time: BTreeSet<(u64, u32)>,
}

impl DelayedReports {
    /// Has one wait from now on; an earlier one of the session is forgotten, as its packets are.
    pub(crate) fn enter(&mut self, one: Delayed, delay: u8, now_ns: u64) {
        let due_ns = now_ns.saturating_add(u64::from(delay) * UNIT_NS);
        if let Some((before_ns, _)) = self.by_slot.insert(one.slot, (due_ns, one)) {
            self.by_time.remove(&(before_ns, one.slot));
        }
        self.by_time.insert((due_ns, one.slot));
    }

    /// Forgets that of a session of which nothing is held.
    pub(crate) fn forget(&mut self, slot: u32) {
        if let Some((due_ns, _)) = self.by_slot.remove(&slot) {
            self.by_time.remove(&(due_ns, slot));
        }
    }

    /// The next one whose delay is over.
    pub(crate) fn due(&mut self, now_ns: u64) -> Option<Delayed> {
        let (due_ns, slot) = self.by_time.first().copied()?;
        if due_ns > now_ns {
            return None;
        }
        self.by_time.pop_first();
        self.by_slot.remove(&slot).map(|(_, one)| one)
    }

    /// When the next one is due.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.by_time.first().map(|(due_ns, _)| *due_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(slot: u32, pdr_id: u16) -> Delayed {
        Delayed {
            slot,
            seid: slot.into(),
            pdr_id,
            qfi: None,
        }
    }

    #[test]
    fn each_is_due_once_after_its_delay_and_the_last_of_a_session_counts() {
        let mut all = DelayedReports::default();
        all.enter(of(1, 1), 4, 0);
        all.enter(of(2, 2), 1, 0);
        all.enter(of(3, 3), 2, 0);
        all.enter(of(1, 4), 1, 10 * UNIT_NS);
        all.forget(3);
        assert_eq!((all.due(UNIT_NS - 1), all.next_ns()), (None, Some(UNIT_NS)));
        assert_eq!(all.due(UNIT_NS), Some(of(2, 2)));
        assert_eq!(all.due(11 * UNIT_NS - 1), None);
        assert_eq!(all.due(11 * UNIT_NS), Some(of(1, 4)));
        assert_eq!((all.due(u64::MAX), all.next_ns()), (None, None));
        assert!(all.by_slot.is_empty());
    }
}
