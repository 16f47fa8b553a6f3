//! The packets of a trial: a plan's, up to an end and a count, with a warm-up before them.
//!
//! Pure. The warm-up is the same plan, from its beginning, for a stated time; its packets carry
//! another trial's number, so that nobody counts them, and the trial's own then begin with number 0
//! of every flow. Times count from the beginning of the warm-up.

use super::plan::{Plan, Planned};

/// What the number of a trial is changed by for its warm-up, modulo 256.
const WARMUP_TRIAL: u8 = 128;

/// A packet that is due, and whether it is the warm-up's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) planned: Planned,
    pub(super) is_warmup: bool,
}

/// Packets that are still to be sent.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// The plan that is being sent.
    current: Plan,
    /// The plan proper, while the warm-up is being sent.
    next: Option<Plan>,
    is_max: bool,
    warmup_ns: u64,
    /// What due times of `current` are later by.
    base_ns: u64,
    end_ns: Option<u64>,
    left: Option<u64>,
}

impl Source {
    /// All packets of `plan`, without end.
    pub(super) fn new(plan: Plan) -> Self {
        Self {
            is_max: plan.is_max(),
            current: plan,
            next: None,
            warmup_ns: 0,
            base_ns: 0,
            end_ns: None,
            left: None,
        }
    }

    /// Sends for `warmup_ns` before all else. An end that was set stays as far behind it.
    pub(super) fn warm_up(&mut self, warmup_ns: u64) {
        if warmup_ns > 0 && self.next.is_none() {
            self.next = Some(self.current.clone());
            self.warmup_ns = warmup_ns;
            self.end_ns = self.end_ns.map(|end_ns| end_ns + warmup_ns);
        }
    }

    /// Ends `end_ns` after the warm-up, which must have been set before.
    pub(super) fn end_at(&mut self, end_ns: u64) {
        self.end_ns = Some(end_ns.saturating_add(self.warmup_ns));
    }

    /// Ends after `count` packets, those of a warm-up apart.
    pub(super) fn limit(&mut self, count: u64) {
        self.left = Some(count);
    }

    /// Whether packets are due whenever there is room.
    pub(super) fn is_max(&self) -> bool {
        self.is_max
    }

    /// When the trial's own packets begin.
    pub(super) fn warmup_ns(&self) -> u64 {
        self.warmup_ns
    }

    /// When the last packet is due at most.
    pub(super) fn end_ns(&self) -> Option<u64> {
        self.end_ns
    }

    /// The plan that packets are of now: that of the warm-up or the trial's own.
    pub(super) fn plan(&self) -> &Plan {
        &self.current
    }

    /// Packets taken of each flow, without those of the warm-up.
    pub(super) fn taken_by_flow(&self) -> &[u64] {
        self.next.as_ref().unwrap_or(&self.current).taken_by_flow()
    }

    /// Number in the stamps of a packet of trial `trial`.
    pub(super) fn trial_number(trial: u8, is_warmup: bool) -> u8 {
        if is_warmup {
            trial.wrapping_add(WARMUP_TRIAL)
        } else {
            trial
        }
    }

    /// When the next packet is due: at `now_ns` where packets are due whenever there is room.
    #[inline]
    pub(super) fn due_ns(&mut self, now_ns: u64) -> u64 {
        let due_ns = self.next_ns(now_ns);
        if self.next.is_some() && due_ns >= self.warmup_ns {
            self.end_warmup();
            // The first of its own is due at the end of the warm-up, not at the next gap.
            return self.next_ns(now_ns);
        }
        due_ns
    }

    #[inline]
    fn next_ns(&self, now_ns: u64) -> u64 {
        if self.is_max {
            now_ns
        } else {
            self.base_ns.saturating_add(self.current.due_ns())
        }
    }

    /// Whether the packet that is due at `due_ns` lies behind the end.
    #[inline]
    pub(super) fn is_over(&self, due_ns: u64) -> bool {
        self.left == Some(0) || self.end_ns.is_some_and(|end_ns| due_ns >= end_ns)
    }

    /// The next packet if it is due by `now_ns` and before the end.
    #[inline]
    pub(super) fn take_due(&mut self, now_ns: u64) -> Option<Due> {
        let due_ns = self.due_ns(now_ns);
        if due_ns > now_ns || self.is_over(due_ns) {
            return None;
        }
        let mut planned = self.current.take();
        planned.due_ns = due_ns;
        if let Some(left) = self.left.as_mut().filter(|_| self.next.is_none()) {
            *left -= 1;
        }
        Some(Due {
            planned,
            is_warmup: self.next.is_some(),
        })
    }

    #[cold]
    fn end_warmup(&mut self) {
        if let Some(plan) = self.next.take() {
            self.current = plan;
            self.base_ns = self.warmup_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::profile::Profile;

    fn source(document: &serde_json::Value) -> Source {
        let profile = Profile::from_json(document).unwrap();
        Source::new(Plan::new(&profile, Path::new(".")).unwrap())
    }

    fn taken(source: &mut Source, now_ns: u64) -> Vec<(u64, u64, bool)> {
        let due = std::iter::from_fn(|| source.take_due(now_ns));
        due.map(|due| (due.planned.due_ns, due.planned.sequence, due.is_warmup))
            .collect()
    }

    #[test]
    fn a_warm_up_comes_first_and_the_trial_begins_anew_behind_it() {
        let mut source = source(&json!({ "load": { "rate": "1Mpps" } }));
        source.warm_up(2500);
        source.end_at(2000);
        assert_eq!(source.end_ns(), Some(4500));
        let expected = [
            (0, 0, true),
            (1000, 1, true),
            (2000, 2, true),
            (2500, 0, false),
            (3500, 1, false),
        ];
        assert_eq!(taken(&mut source, 2000), expected[..3]);
        assert_eq!(source.taken_by_flow(), [0]);
        assert_eq!(taken(&mut source, 100_000), expected[3..]);
        assert_eq!(source.taken_by_flow(), [2]);
        let due_ns = source.due_ns(0);
        assert!(source.is_over(due_ns));
        assert_ne!(Source::trial_number(200, true), 200);
    }

    #[test]
    fn a_count_is_of_the_trials_own_packets() {
        let mut source = source(&json!({ "load": { "rate": "1Mpps" } }));
        source.limit(2);
        source.warm_up(3000);
        let own = taken(&mut source, 1_000_000);
        assert_eq!(own.iter().filter(|(_, _, is_warmup)| *is_warmup).count(), 3);
        assert_eq!(own.len(), 5);
    }

    #[test]
    fn without_a_rate_the_warm_up_ends_by_the_clock() {
        let mut source = source(&json!({}));
        source.warm_up(100);
        source.end_at(100);
        let first = source.take_due(99).unwrap();
        assert!(first.is_warmup);
        let own = source.take_due(100).unwrap();
        assert_eq!((own.is_warmup, own.planned.sequence), (false, 0));
        assert_eq!(source.take_due(200), None);
    }
}
