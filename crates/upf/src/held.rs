//! Held packets: of UEs that are to be paged.
//!
//! Beside a packet's way through the UPF. The engine has the packets, this has their tickets, by
//! session and in order. Every packet that was stored is flushed, discarded, expired, or still
//! held: [`Account`]. Limits: so many per session and in all, and so long.

use std::collections::{HashMap, VecDeque};

/// What became of packets that were stored: `stored = flushed + discarded + expired + held`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Packets that were stored.
    pub stored: u64,
    /// Packets that left when their UE was there.
    pub flushed: u64,
    /// Packets that were dropped by a rule, an SMF, or with their session.
    pub discarded: u64,
    /// Packets that were held too long.
    pub expired: u64,
    /// Packets for which there was no room; they were not stored.
    pub refused: u64,
}

/// Tickets of type `T` by session.
#[derive(Debug)]
pub struct Held<T> {
    by_slot: HashMap<u32, Queue<T>>,
    /// When packets expire, oldest first; some are gone by then.
    due: VecDeque<(u64, u32)>,
    count: usize,
    limit: usize,
    limit_per_session: usize,
    time_ns: u64,
    account: Account,
}

/// Packets of one session.
#[derive(Debug)]
struct Queue<T> {
    /// Most packets, for as long as any is held.
    limit: usize,
    /// When each expires, and its ticket.
    packets: VecDeque<(u64, T)>,
}

/// What is known of a packet that passes from one [`Held`] to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    /// Its session.
    pub slot: u32,
    /// When it came.
    pub came_ns: u64,
    /// Most packets of its session, for as long as any is held.
    pub limit: usize,
}

/// What storing a packet did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It is the first one of its session: an episode begins.
    First,
    /// There are others.
    More,
}

impl<T> Held<T> {
    /// None yet.
    pub fn new(limit: usize, limit_per_session: usize, time_ns: u64) -> Self {
        Self {
            by_slot: HashMap::new(),
            due: VecDeque::new(),
            count: 0,
            limit,
            limit_per_session,
            time_ns,
            account: Account::default(),
        }
    }

    /// Packets that are held.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// What became of all.
    pub const fn account(&self) -> Account {
        self.account
    }

    /// Most packets of a session by what its BAR suggests.
    fn limit_of(&self, suggested: Option<u8>) -> usize {
        let suggested = suggested.map_or(usize::MAX, usize::from);
        self.limit_per_session.min(suggested)
    }

    /// Whether one more of a session may be stored; one that may not is counted. What its BAR
    /// suggests counts from the first packet that is held.
    pub fn has_room(&mut self, slot: u32, suggested: Option<u8>) -> bool {
        let queue = self.by_slot.get(&slot);
        let limit = queue.map_or(self.limit_of(suggested), |queue| queue.limit);
        let own = queue.map_or(0, |queue| queue.packets.len());
        let has_room = self.count < self.limit && own < limit;
        self.account.refused += u64::from(!has_room);
        has_room
    }

    /// Stores a packet of a session.
    pub fn store(&mut self, slot: u32, suggested: Option<u8>, ticket: T, now_ns: u64) -> Stored {
        let limit = self.limit_of(suggested);
        let queue = self.by_slot.entry(slot).or_insert_with(|| Queue {
            limit,
            packets: VecDeque::new(),
        });
        let until_ns = now_ns.saturating_add(self.time_ns);
        let is_first = queue.packets.is_empty();
        queue.packets.push_back((until_ns, ticket));
        self.due.push_back((until_ns, slot));
        self.count += 1;
        self.account.stored += 1;
        if is_first {
            Stored::First
        } else {
            Stored::More
        }
    }

    /// Gives up all, in the order in which they came; none of them ends by that.
    pub fn give_up(&mut self) -> Vec<(Note, T)> {
        let mut all = Vec::with_capacity(self.count);
        for (slot, queue) in self.by_slot.drain() {
            let limit = queue.limit;
            all.extend(queue.packets.into_iter().map(|(until_ns, ticket)| {
                let came_ns = until_ns.saturating_sub(self.time_ns);
                let note = Note {
                    slot,
                    came_ns,
                    limit,
                };
                (note, ticket)
            }));
        }
        // Those of one session keep their order.
        all.sort_by_key(|(note, _)| note.came_ns);
        self.due.clear();
        self.count = 0;
        all
    }

    /// Goes on counting where another one has ended; its packets come by [`Held::take`].
    pub fn begin_with(&mut self, account: Account) {
        self.account = account;
    }

    /// Counts a packet that another one has given up, and that is dropped.
    pub const fn count_discarded(&mut self) {
        self.account.discarded += 1;
    }

    /// Takes a packet that another one has given up, in their order; gives back, and counts as
    /// discarded, one for which there is no room.
    pub fn take(&mut self, note: Note, ticket: T) -> Option<T> {
        let limit = note.limit.min(self.limit_per_session);
        let own = self.by_slot.get(&note.slot);
        let own = own.map_or(0, |queue| queue.packets.len());
        if self.count >= self.limit || own >= limit {
            self.account.discarded += 1;
            return Some(ticket);
        }
        let queue = self.by_slot.entry(note.slot).or_insert_with(|| Queue {
            limit,
            packets: VecDeque::new(),
        });
        let until_ns = note.came_ns.saturating_add(self.time_ns);
        queue.packets.push_back((until_ns, ticket));
        self.due.push_back((until_ns, note.slot));
        self.count += 1;
        None
    }

    /// The oldest packet of a session.
    pub fn front(&mut self, slot: u32) -> Option<&mut T> {
        let queue = self.by_slot.get_mut(&slot)?;
        queue.packets.front_mut().map(|(_, ticket)| ticket)
    }

    fn pop(&mut self, slot: u32) -> Option<T> {
        let queue = self.by_slot.get_mut(&slot)?;
        let (_, ticket) = queue.packets.pop_front()?;
        if queue.packets.is_empty() {
            self.by_slot.remove(&slot);
        }
        self.count -= 1;
        Some(ticket)
    }

    /// Takes the oldest packet of a session, which leaves.
    pub fn flush(&mut self, slot: u32) -> Option<T> {
        let ticket = self.pop(slot)?;
        self.account.flushed += 1;
        Some(ticket)
    }

    /// Takes the oldest packet of a session, which is dropped.
    pub fn discard(&mut self, slot: u32) -> Option<T> {
        let ticket = self.pop(slot)?;
        self.account.discarded += 1;
        Some(ticket)
    }

    /// Takes the next packet whose time is over.
    pub fn expire(&mut self, now_ns: u64) -> Option<(u32, T)> {
        while let Some((until_ns, slot)) = self.due.front().copied() {
            let queue = self.by_slot.get(&slot);
            let oldest = queue.and_then(|queue| queue.packets.front());
            let is_there = oldest.is_some_and(|(oldest, _)| *oldest <= until_ns);
            if is_there && until_ns > now_ns {
                return None;
            }
            self.due.pop_front();
            if is_there {
                let ticket = self.pop(slot)?;
                self.account.expired += 1;
                return Some((slot, ticket));
            }
        }
        None
    }

    /// When [`Held::expire`] may have something next.
    pub fn next_ns(&self) -> Option<u64> {
        self.due.front().map(|(until_ns, _)| *until_ns)
    }

    /// A session of which packets are held, if there is one.
    pub fn any_slot(&self) -> Option<u32> {
        self.by_slot.keys().next().copied()
    }

    /// Whether packets of a session are held.
    pub fn holds(&self, slot: u32) -> bool {
        self.by_slot.contains_key(&slot)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn limits_are_per_session_and_in_all() {
        let mut held = Held::new(3, 2, 10);
        let mut store = |slot, suggested| {
            let has_room = held.has_room(slot, suggested);
            has_room.then(|| held.store(slot, suggested, (), 0))
        };
        assert_eq!(store(1, None), Some(Stored::First));
        assert_eq!(store(1, None), Some(Stored::More));
        assert_eq!(store(1, None), None, "two of a session");
        assert_eq!(store(2, Some(0)), None, "as many as the BAR suggests");
        assert_eq!(store(2, None), Some(Stored::First));
        assert_eq!(store(3, None), None, "three in all");
        assert_eq!(held.account().refused, 3);
    }

    #[test]
    fn what_a_bar_suggests_holds_until_none_is_held() {
        let mut held = Held::new(9, 9, 10);
        held.store(1, Some(2), 'a', 0);
        held.store(1, None, 'b', 0);
        assert!(!held.has_room(1, None));
        held.flush(1);
        assert!(held.has_room(1, None));
        held.flush(1);
        held.store(1, None, 'c', 0);
        held.store(1, None, 'd', 0);
        assert!(held.has_room(1, None));
    }

    #[test]
    fn packets_expire_in_order_and_once() {
        let mut held = Held::new(9, 9, 10);
        held.store(1, None, 'a', 0);
        held.store(2, None, 'b', 5);
        held.store(1, None, 'c', 6);
        assert_eq!(held.flush(1), Some('a'));
        assert_eq!(held.expire(14), None);
        assert_eq!(held.expire(15), Some((2, 'b')));
        assert_eq!(held.expire(15), None);
        assert_eq!(held.expire(16), Some((1, 'c')));
        assert_eq!((held.expire(99), held.count()), (None, 0));
    }

    /// To one with less room and less time: in their order, and each has one end.
    #[test]
    fn what_one_gives_up_another_takes() {
        let mut before = Held::new(9, 9, 10);
        before.store(1, Some(4), 'a', 0);
        before.store(2, None, 'b', 5);
        before.store(1, None, 'c', 6);
        before.store(2, None, 'd', 7);
        before.flush(2);
        before.store(3, None, 'e', 8);
        let account = before.account();
        let all = before.give_up();
        assert_eq!((before.count(), before.next_ns()), (0, None));
        assert_eq!(before.account(), account, "none has ended");
        let mut after = Held::new(3, 9, 4);
        after.begin_with(account);
        let rest: Vec<_> = all
            .into_iter()
            .filter_map(|(note, ticket)| after.take(note, ticket))
            .collect();
        assert_eq!(rest, ['e']);
        assert!(!after.has_room(1, None), "three in all");
        let Account {
            stored, discarded, ..
        } = after.account();
        assert_eq!((stored, discarded), (5, 1));
        assert_eq!(after.expire(4), Some((1, 'a')), "since it came");
        assert_eq!(after.flush(2), Some('d'));
        assert_eq!((after.expire(9), after.expire(10)), (None, Some((1, 'c'))));
        let Account {
            flushed, expired, ..
        } = after.account();
        assert_eq!((flushed, expired, after.count()), (2, 2, 0));
    }

    proptest! {
        /// Whatever is done with them, in whatever order: each packet has one end, in its order.
        #[test]
        fn stored_is_flushed_discarded_expired_or_held(
            steps in proptest::collection::vec((0u8..6, 0u32..4, 0u64..5), 0..400),
        ) {
            let mut held = Held::new(20, 8, 20);
            let (mut now_ns, mut number) = (0, 0u64);
            let mut last = [0; 4];
            for (step, slot, passed) in steps {
                now_ns += passed;
                let out = match step {
                    0..3 => {
                        if held.has_room(slot, None) {
                            number += 1;
                            held.store(slot, None, number, now_ns);
                        }
                        None
                    }
                    3 => held.flush(slot).map(|number| (slot, number)),
                    4 => held.discard(slot).map(|number| (slot, number)),
                    _ => held.expire(now_ns),
                };
                if let Some((slot, number)) = out {
                    prop_assert!(number > last[slot as usize]);
                    last[slot as usize] = number;
                }
                let Account { stored, flushed, discarded, expired, .. } = held.account();
                prop_assert_eq!(stored, flushed + discarded + expired + held.count() as u64);
                prop_assert!(held.count() <= 20);
            }
        }
    }
}
