//! Timeouts: what ends entries, a bounded number per turn.
//!
//! Once per turn of a worker. A packet only stamps its entry; here, when the time comes for which
//! an entry was listed, its stamp says whether it ends or is listed again. Thus an entry costs a
//! look per idle timeout, however many packets it has, and a clock that jumps ends no more entries
//! than the budget per turn, none that is used in the meantime.

use super::FlowTable;
use crate::counters::Counter;
use crate::flow::{Entry, Flow};
use crate::hash::KEY_WORDS_MAX;
use crate::memory::Memory;
use crate::raw::{Raw, TIME_MAX};

/// When an entry ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// Nanoseconds without use; 0: however long.
    pub idle_ns: u64,
    /// Nanoseconds from now, used or not; 0: never.
    pub hard_ns: u64,
}

impl Timeouts {
    /// It stays until it is removed.
    pub const NONE: Self = Self {
        idle_ns: 0,
        hard_ns: 0,
    };

    /// It ends after so long without use.
    pub const fn idle(idle_ns: u64) -> Self {
        Self {
            idle_ns,
            hard_ns: 0,
        }
    }

    /// It ends after so long, used or not.
    pub const fn hard(hard_ns: u64) -> Self {
        Self {
            idle_ns: 0,
            hard_ns,
        }
    }

    pub(super) fn hard_at(self, now_ns: u64) -> u64 {
        match self.hard_ns {
            0 => u64::MAX,
            hard_ns => now_ns.saturating_add(hard_ns),
        }
    }
}

/// Which timeout ended an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It was not used for so long.
    Idle,
    /// Its time was over.
    Hard,
}

/// An entry whose time has come.
#[derive(Clone, Copy, Debug)]
pub struct Ended<'a> {
    /// Its handle.
    pub flow: Flow,
    /// Its key and state, which may be written.
    pub entry: Entry<'a>,
    /// What ended it.
    pub why: Why,
}

/// What becomes of an entry whose time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is removed.
    Remove,
    /// It stays, as if used now, with these timeouts: for programs that go back to another state.
    /// It is asked again whether it gives way, as behind [`FlowTable::unspare`].
    Keep(Timeouts),
}

/// What a turn of expiry did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Entries removed.
    pub removed: u32,
    /// Entries looked at, removed or not: what is used of the budget.
    pub looked_at: u32,
    /// Whether more are due, which the budget did not reach.
    pub is_behind: bool,
}

impl<M: Memory> FlowTable<M> {
    /// Ends entries whose time has come, but looks at no more than `budget` of them. `ended` is
    /// shown each while it is still there and says what becomes of it.
    ///
    /// An entry ends no sooner than its timeout and, while the budget suffices, at most a tick and
    /// the time between two calls later.
    pub fn expire(
        &mut self,
        now_ns: u64,
        budget: u32,
        mut ended: impl FnMut(Ended<'_>) -> Fate,
    ) -> Expired {
        let now_ns = now_ns.min(TIME_MAX);
        let now_tick = now_ns >> self.geometry.tick_shift;
        let mut done = Expired::default();
        let raw = self.raw();
        while let Some(listed) = raw.earliest().filter(|listed| listed.tick <= now_tick) {
            if done.looked_at == budget {
                done.is_behind = true;
                return done;
            }
            done.looked_at += 1;
            raw.set_wheel_tick(listed.tick);
            if let Some(flow) = raw.first_of(listed.list) {
                done.removed += u32::from(self.look_at(flow, now_ns, &mut ended));
            }
        }
        // Nothing is listed up to now, so no entry changes its level by this.
        raw.set_wheel_tick(raw.wheel_tick().max(now_tick));
        done
    }

    /// Ends an entry or lists it anew; whether it was removed.
    fn look_at(&self, flow: Flow, now_ns: u64, ended: &mut impl FnMut(Ended<'_>) -> Fate) -> bool {
        let raw = self.raw();
        if !raw.is_live(flow) {
            // Memory that somebody else has written: the entry was in a list and is nobody's.
            raw.begin();
            raw.unschedule(flow);
            raw.end();
            return false;
        }
        let deadline_ns = raw.deadline_of(flow);
        if deadline_ns > now_ns {
            raw.begin();
            raw.unschedule(flow);
            raw.schedule(flow, deadline_ns);
            raw.end();
            return false;
        }
        let why = if raw.hard_ns(flow) <= now_ns {
            Why::Hard
        } else {
            Why::Idle
        };
        // It may be kept in another state.
        self.unspare_entry(flow);
        let entry = raw.view(flow);
        match ended(Ended { flow, entry, why }) {
            Fate::Remove => {
                let mut key = [0; KEY_WORDS_MAX];
                let key = &mut key[..self.geometry.key_words];
                raw.read_key(flow, key);
                raw.begin();
                raw.clear(flow, self.home(key));
                raw.count(Counter::Expired, 1);
                raw.end();
                true
            }
            Fate::Keep(timeouts) => {
                raw.begin();
                raw.renew(flow, timeouts, now_ns);
                raw.end();
                false
            }
        }
    }

    /// Gives an entry other timeouts, counted from now, and marks it as used now; whether there is
    /// such an entry.
    pub fn set_timeouts(&mut self, flow: Flow, timeouts: Timeouts, now_ns: u64) -> bool {
        let raw = self.raw();
        let is_live = raw.is_live(flow);
        if is_live {
            raw.begin();
            raw.renew(flow, timeouts, now_ns.min(TIME_MAX));
            raw.end();
        }
        is_live
    }

    /// When an entry ends if it is not used again, in ns; none if it has no timeout.
    pub fn deadline_ns(&self, flow: Flow) -> Option<u64> {
        let raw = self.raw();
        let deadline_ns = raw.deadline_of(flow);
        (raw.is_live(flow) && deadline_ns != u64::MAX).then_some(deadline_ns)
    }

    /// When [`FlowTable::expire`] has something to do next, in ns: for whoever sleeps until then.
    /// Not later than the first deadline rounded up to a tick; none if no entry has a timeout.
    pub fn next_expiry_ns(&self) -> Option<u64> {
        let listed = self.raw().earliest()?;
        let tick_ns = 1u64 << self.geometry.tick_shift;
        Some(listed.tick.saturating_mul(tick_ns))
    }
}

impl Raw<'_> {
    fn renew(self, flow: Flow, timeouts: Timeouts, now_ns: u64) {
        self.unschedule(flow);
        self.set_timeouts(flow, timeouts.idle_ns, timeouts.hard_at(now_ns));
        self.set_stamp(flow, super::stamp(now_ns));
        self.schedule(flow, self.deadline_of(flow));
    }
}
