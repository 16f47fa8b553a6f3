//! The timer wheel: lists of entries by the tick at which somebody must look at them.
//!
//! Beside lookups: a packet only stamps its entry; once per turn
//! [`FlowTable::expire`](crate::FlowTable::expire) looks at what is listed up to now. Ten levels of
//! 64 lists, each level 64 times as coarse as the one below, so that every deadline has a list. An
//! entry is in the level where its tick first differs from the wheel's, counted from the top, so
//! all that is in a level comes before all that is in the next.
//!
//! | entry's tick, wheel at 5 | level | list |
//! |---|---|---|
//! | 5 or earlier | 0 | 5 |
//! | 6 to 63 | 0 | its tick |
//! | 64 to 4095 | 1 | tick / 64 |
//!
//! Links are entry numbers in the timer records. Whatever is done here is done for one entry.

use crate::flow::Flow;
use crate::raw::{LEVELS, LISTS, Raw, TIME_MAX, at, number};

/// Bits of a tick that choose the list of a level.
const LIST_BITS: u32 = LISTS.trailing_zeros();
const TICK_MAX: u64 = (1 << (LEVELS as u32 * LIST_BITS)) - 1;

/// A list that is not empty, and the first tick of those it stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed {
    pub(crate) list: usize,
    pub(crate) tick: u64,
}

/// When an entry ends that was used last at `used_ns`; `u64::MAX`: never.
#[inline]
pub(crate) fn deadline_ns(used_ns: u64, idle_ns: u64, hard_ns: u64) -> u64 {
    match idle_ns {
        0 => hard_ns,
        _ => used_ns.saturating_add(idle_ns).min(hard_ns),
    }
}

/// The list for a tick.
fn list_for(tick: u64, wheel: u64) -> usize {
    let tick = tick.clamp(wheel, TICK_MAX);
    let level = (tick ^ wheel).checked_ilog2().unwrap_or(0) / LIST_BITS;
    level as usize * LISTS + (tick >> (level * LIST_BITS)) as usize % LISTS
}

impl Raw<'_> {
    /// Deadline of an entry as it stands now; `u64::MAX`: none.
    pub(crate) fn deadline_of(self, flow: Flow) -> u64 {
        let used_ns = self.stamp(flow) & TIME_MAX;
        deadline_ns(used_ns, self.idle_ns(flow), self.hard_ns(flow))
    }

    /// The tick up to which the wheel has turned.
    pub(crate) fn wheel_tick(self) -> u64 {
        self.get(at::WHEEL).min(TICK_MAX)
    }

    pub(crate) fn set_wheel_tick(self, tick: u64) {
        if self.get(at::WHEEL) != tick {
            self.set(at::WHEEL, tick);
        }
    }

    /// Lists an entry for its deadline, if it has one; it is in no list now.
    pub(crate) fn schedule(self, flow: Flow, deadline_ns: u64) {
        if deadline_ns == u64::MAX {
            self.set_list(flow, None);
            return;
        }
        // Not before the deadline, so up to a tick after it.
        let tick = deadline_ns.div_ceil(1 << self.geometry.tick_shift);
        let list = list_for(tick, self.wheel_tick());
        let first = Flow::from_low(self.get(at::LISTS + list));
        self.set_links(flow, first, None);
        if let Some(first) = first {
            self.set_links(first, self.links(first).0, Some(flow));
        }
        self.set(at::LISTS + list, number(Some(flow)));
        self.set_list(flow, Some(list));
        let level = at::LEVELS + list / LISTS;
        self.set(level, self.get(level) | 1 << (list % LISTS));
    }

    /// Takes an entry out of its list, if it is in one.
    pub(crate) fn unschedule(self, flow: Flow) {
        let Some(list) = self.list_of(flow) else {
            return;
        };
        let (next, previous) = self.links(flow);
        if let Some(next) = next {
            self.set_links(next, self.links(next).0, previous);
        }
        match previous {
            Some(previous) => self.set_links(previous, next, self.links(previous).1),
            None => self.set_first(list, next),
        }
        self.set_list(flow, None);
    }

    fn set_first(self, list: usize, first: Option<Flow>) {
        self.set(at::LISTS + list, number(first));
        if first.is_none() {
            let level = at::LEVELS + list / LISTS;
            self.set(level, self.get(level) & !(1 << (list % LISTS)));
        }
    }

    /// First entry of a list. A link that leads nowhere ends the list.
    pub(crate) fn first_of(self, list: usize) -> Option<Flow> {
        let first = Flow::from_low(self.get(at::LISTS + list));
        let sound = first.filter(|flow| {
            flow.index() < self.geometry.capacity as usize && self.list_of(*flow) == Some(list)
        });
        if sound.is_none() {
            self.set_first(list, None);
        }
        sound
    }

    /// Whether a list's turn comes no later than an entry's deadline, rounded up.
    pub(crate) fn is_listed_in_time(self, flow: Flow, list: usize) -> bool {
        let wheel = self.wheel_tick();
        let shift = (list / LISTS) as u32 * LIST_BITS;
        let turn = (wheel >> shift) & !(LISTS as u64 - 1);
        let begins = (turn | (list % LISTS) as u64) << shift;
        let tick = self
            .deadline_of(flow)
            .div_ceil(1 << self.geometry.tick_shift);
        let has_passed = (list % LISTS) < (wheel >> shift) as usize % LISTS;
        !has_passed && begins <= tick.max(wheel)
    }

    /// Forgets all lists: for attaching.
    pub(crate) fn clear_wheel(self) {
        for word in at::LEVELS..at::LISTS + LEVELS * LISTS {
            self.set(word, 0);
        }
    }

    /// The list that is due first.
    pub(crate) fn earliest(self) -> Option<Listed> {
        let wheel = self.wheel_tick();
        let level_word = |level: usize| self.get(at::LEVELS + level);
        let here = |level: usize| (wheel >> (level as u32 * LIST_BITS)) as usize % LISTS;
        // A list that the wheel has reached, whose entries have yet to go to finer ones.
        if let Some(level) = (1..LEVELS)
            .rev()
            .find(|level| level_word(*level) >> here(*level) & 1 != 0)
        {
            let list = level * LISTS + here(level);
            return Some(Listed { list, tick: wheel });
        }
        (0..LEVELS).find_map(|level| {
            let ahead = level_word(level) >> here(level) << here(level);
            let shift = level as u32 * LIST_BITS;
            (ahead != 0).then(|| {
                let place = u64::from(ahead.trailing_zeros());
                let turn = (wheel >> shift) & !(LISTS as u64 - 1);
                Listed {
                    list: level * LISTS + usize::try_from(place).unwrap_or(0),
                    tick: ((turn | place) << shift).max(wheel),
                }
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tick_has_a_list_whose_turn_comes_no_later() {
        let wheels = [0, 5, 63, 64, 4095, 1 << 40, TICK_MAX - 1, TICK_MAX];
        for wheel in wheels {
            let ticks = (0..60).flat_map(|bit| [1 << bit, (1u64 << bit) + 17]);
            for tick in ticks
                .map(|ahead| wheel.saturating_add(ahead))
                .chain([0, wheel])
            {
                let list = list_for(tick, wheel);
                let level = (list / LISTS) as u32;
                let begins = ((wheel >> (level * LIST_BITS)) & !63 | (list % LISTS) as u64)
                    << (level * LIST_BITS);
                let tick = tick.clamp(wheel, TICK_MAX);
                assert!(begins <= tick, "tick {tick} at {wheel} in list {list}");
                assert!(tick - begins < 1 << (level * LIST_BITS));
                assert!(level == 0 || begins > wheel, "a list that has been reached");
            }
        }
    }

    #[test]
    fn deadlines_are_the_earlier_of_both() {
        assert_eq!(deadline_ns(5, 0, u64::MAX), u64::MAX);
        assert_eq!(deadline_ns(5, 10, u64::MAX), 15);
        assert_eq!(deadline_ns(5, 10, 12), 12);
        assert_eq!(deadline_ns(TIME_MAX, u64::MAX - 1, u64::MAX), u64::MAX);
    }
}
