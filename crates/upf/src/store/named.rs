//! Names of the places that rules have, beside sessions.
//!
//! Where memory is taken over. Two tables and a word: which of them is valid, and whether sessions
//! are being moved from the other one to it. Each session says of which table its places are, so
//! that whoever goes on behind a kill moves those that are left, and none twice.

use super::{Store, places_at};
use crate::association::ASSOCIATION_COUNT;
use crate::places::Places;
use crate::rules::Head;
use crate::stored::{Fields, Stored};

/// How many tables there have been, doubled, and whether sessions are being moved.
const AT_TABLE: usize = 40;

impl Store {
    /// Of which table the places of sessions are that are written now.
    pub(super) fn table(&self) -> u8 {
        (self.word(AT_TABLE) >> 1) as u8
    }

    /// Where a table lies.
    const fn table_at(number: u64) -> usize {
        places_at() + (number & 1) as usize * Places::LEN
    }

    fn read_table(&self, number: u64) -> Places {
        Places::load(&self.memory[Self::table_at(number)..])
    }

    /// Begins with these places, in memory without sessions.
    pub(crate) fn begin_places(&mut self, places: &Places) {
        places.store(&mut self.memory[Self::table_at(0)..]);
        self.set_word(AT_TABLE, 0);
    }

    /// Has all that was kept have these places, by the names of those that it has.
    pub(crate) fn settle(&mut self, places: &Places) {
        self.move_rest();
        let number = self.word(AT_TABLE) >> 1;
        let old = self.read_table(number);
        if old == *places {
            return;
        }
        // A kill between this and the next word moves them twice: some delays are not told then.
        for one in 0..ASSOCIATION_COUNT {
            let controls = old.move_controls(places, &self.path_controls(one));
            self.set_path_controls(one, &controls);
        }
        places.store(&mut self.memory[Self::table_at(number + 1)..]);
        self.set_word(AT_TABLE, (number + 1) << 1 | 1);
        self.move_rest();
    }

    /// Moves sessions that are of the table before, if there may be any.
    fn move_rest(&mut self) {
        let word = self.word(AT_TABLE);
        if word & 1 == 0 {
            return;
        }
        let number = word >> 1;
        let (from, to) = (
            self.read_table(number.wrapping_sub(1)),
            self.read_table(number),
        );
        for slot in 0..self.fresh {
            let is_moved = Fields::<Head>::places().get(self.bytes(slot)) == self.table();
            if let Some(mut session) = self.session(slot).filter(|_| !is_moved) {
                from.move_session(&to, &mut session);
                self.replace(slot, &session);
            }
        }
        self.set_word(AT_TABLE, number << 1);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::path_qos::control::{PathControl, PathControls, PathPeer};
    use crate::public_failures::new;
    use crate::rules::{Copied, NONE};
    use crate::settings::{Policy, Settings};
    use crate::store::memory_bytes;
    use crate::store::tests::{Mortal, SLOT};

    const SESSIONS: u32 = 3;

    fn open(memory: Vec<u8>) -> Store {
        Store::open(Box::new(memory), SLOT, SESSIONS, 77)
    }

    /// What an operator has before, and behind a change in which nothing but the places differs.
    fn both() -> (Settings, Settings) {
        let mut before = new(None).settings;
        let names = ["video", "voice"];
        before.policies = names
            .map(|name| Policy {
                name: name.to_owned(),
                interface: 1,
            })
            .into();
        let mut behind = before.clone();
        behind.interfaces.reverse();
        behind.instances.insert(0, b"another".to_vec());
        // One is gone, and so is the way that it said; the other one says another way.
        behind.policies.remove(0);
        (before, behind)
    }

    /// Two sessions, and a path that is followed, by the places of these settings.
    fn kept(settings: &Settings) -> Store {
        let mut store = open(vec![0; memory_bytes(SLOT, SESSIONS)]);
        store.settle(&Places::of(settings));
        for _ in 0..2 {
            let (_, seid) = store.next().unwrap();
            let mut session = crate::model::tests::session(seid);
            for (place, far) in session.fars.iter_mut().enumerate() {
                far.interface = place as u8;
                far.instance = 1;
                far.policy = place as u8;
            }
            for one in &mut session.pdrs {
                one.pdr.instance = 0;
            }
            session.copies = vec![Copied {
                interface: 1,
                ..Copied::of(1)
            }];
            session.link().unwrap();
            store.insert(&session);
        }
        let mut control = PathControl::default();
        control.peers.push(PathPeer {
            interface: 1,
            ..PathPeer::default()
        });
        let mut controls = PathControls::default();
        controls.push(control);
        store.set_path_controls(0, &controls);
        store
    }

    /// Places of a session: of FARs interface, network instance and policy; of a PDR the network
    /// instance; of a copy interface and policy.
    fn places(store: &Store, slot: u32) -> ([[u8; 3]; 2], u8, [u8; 2]) {
        let session = store.session(slot).unwrap();
        let far = |at: usize| {
            let far = &session.fars[at];
            [far.interface, far.instance, far.policy]
        };
        let copied = &session.copies[0];
        (
            [far(0), far(1)],
            session.pdrs[0].pdr.instance,
            [copied.interface, copied.policy],
        )
    }

    const BEFORE: ([[u8; 3]; 2], u8, [u8; 2]) = ([[0, 1, 0], [1, 1, 1]], 0, [1, NONE]);
    const BEHIND: ([[u8; 3]; 2], u8, [u8; 2]) = ([[NONE, 2, NONE], [1, 2, 0]], 1, [0, NONE]);

    #[test]
    fn sessions_and_followed_paths_get_the_places_that_their_names_have() {
        let (before, behind) = both();
        let mut store = kept(&before);
        store.settle(&Places::of(&before));
        assert_eq!(places(&store, 0), BEFORE, "nothing has changed");
        store.settle(&Places::of(&behind));
        assert_eq!([0, 1].map(|slot| places(&store, slot)), [BEHIND; 2]);
        let control = store.path_controls(0).as_slice()[0];
        assert_eq!(control.peers.as_slice()[0].interface, 0);
        // One that comes now is of these settings, and what has gone stays gone.
        let (slot, seid) = store.next().unwrap();
        store.insert(&crate::model::tests::session(seid));
        store.settle(&Places::of(&behind));
        assert_eq!(store.head(slot).places, store.table());
        store.settle(&Places::of(&before));
        let (fars, pdr, copy) = BEFORE;
        let gone = ([[NONE, fars[0][1], NONE], fars[1]], pdr, copy);
        assert_eq!(places(&store, 1), gone);
    }

    /// Whoever is killed while it moves sessions leaves each as it was or as it is to be, and the
    /// next one moves the rest, whatever it has in mind.
    #[test]
    fn a_kill_at_any_write_moves_no_session_twice() {
        let (before, behind) = both();
        let bytes = kept(&before).memory.to_vec();
        let len = bytes.len();
        let shared = Arc::new(Mutex::new(Vec::new()));
        let mortal = Mortal {
            bytes,
            shared: shared.clone(),
        };
        let mut store = Store::open(Box::new(mortal), SLOT, SESSIONS, 0);
        store.settle(&Places::of(&behind));
        let states = std::mem::take(&mut *shared.lock().unwrap());
        assert!(states.len() > 10 * len);
        for state in states.chunks(len) {
            let mut next = open(state.to_vec());
            next.settle(&Places::of(&behind));
            assert_eq!([0, 1].map(|slot| places(&next, slot)), [BEHIND; 2]);
        }
    }
}
