//! Where sessions lie: slots of one size in memory that outlives the NF.
//!
//! ```text
//! | header, one page | associations | path controls | names | PFDs | journal | slot 0 | ...
//! ```
//!
//! Second step of a packet's way through the UPF, after its key was looked up. A change is written
//! to the journal, which is sealed, and copied from there; whoever takes over the memory repeats
//! the copy of a sealed journal. So a kill leaves the session before the change or the one behind
//! it. Which slots are free is found in the slots. Slots begin at lines of memory, so that what
//! packets read is as few of them as can be. Limits: as many slots as it is made with.

use std::ops::DerefMut;

use catena_shm::prefetch;

use crate::association::{ASSOCIATION_COUNT, Association};
use crate::model::{Image, Session};
use crate::path_qos::control::PathControls;
use crate::places::Places;
use crate::rules::Head;
use crate::shards::SEID_SHIFT;
use crate::stored::{Fields, LINE, Stored};

mod named;
mod put_back;

/// Number of the layout of all that lies in the memory.
pub const LAYOUT: u64 = 17;

const PAGE: usize = 4096;
const MAGIC: u64 = 0x3146_5055_4e54_4143;
/// Words of the header: magic, slot size, slot count, start of the node in seconds since 1900,
/// slots ever used.
const AT_MAGIC: usize = 0;
const AT_SLOT_BYTES: usize = 8;
const AT_SLOT_COUNT: usize = 16;
const AT_RECOVERY: usize = 24;
/// Slots from here on were never used, and hold nothing that means anything.
const AT_FRESH: usize = 32;
/// Behind an image: how often the slot was used.
const USES_LEN: usize = 8;
/// Where an image says whose it is; 0 if it is nobody's.
const SEID_AT: usize = Fields::<Head>::seid().offset();
/// In front of the journal's image: slot plus 1 if it is sealed.
const JOURNAL_HEADER: usize = 8;

/// How often a slot was used, as its SEIDs have it.
const USES_MASK: u64 = (1 << (SEID_SHIFT - 32)) - 1;

/// The memory of a UPF.
pub type Memory = Box<dyn DerefMut<Target = [u8]> + Send>;

/// Sessions in slots.
pub struct Store {
    memory: Memory,
    slot_bytes: usize,
    slot_count: u32,
    /// Slots that were used and are free; the next to be used is the last.
    free: Vec<u32>,
    /// Slots that were ever used: memory behind them is not touched.
    fresh: u32,
    live: u32,
    /// The number of the shard, which SEIDs begin with.
    shard: u64,
    /// Whether it found nothing that was kept.
    is_new: bool,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("slot_count", &self.slot_count)
            .field("live", &self.live)
            .finish_non_exhaustive()
    }
}

/// Most bytes of PFDs.
pub const PFDS_BYTES_MAX: usize = 32 * 1024;
/// In front of both halves of PFDs: how many bytes there are, doubled, and which half has them.
const PFDS_HEADER: usize = 8;

const fn path_controls_at() -> usize {
    PAGE + ASSOCIATION_COUNT * Association::LEN
}

const fn places_at() -> usize {
    (path_controls_at() + ASSOCIATION_COUNT * PathControls::LEN).next_multiple_of(64)
}

const fn pfds_at() -> usize {
    (places_at() + 2 * Places::LEN).next_multiple_of(64)
}

const fn journal_at() -> usize {
    (pfds_at() + PFDS_HEADER + 2 * PFDS_BYTES_MAX).next_multiple_of(64)
}

const fn slots_at(slot_bytes: usize) -> usize {
    (journal_at() + JOURNAL_HEADER + slot_bytes).next_multiple_of(PAGE)
}

/// From one slot to the next.
const fn stride(slot_bytes: usize) -> usize {
    (slot_bytes + USES_LEN).next_multiple_of(LINE)
}

/// Bytes of memory for so many slots, each with room for an image of `slot_bytes`.
pub const fn memory_bytes(slot_bytes: usize, slot_count: u32) -> usize {
    slots_at(slot_bytes) + slot_count as usize * stride(slot_bytes)
}

/// Asks for the lines of a part of an image, the bytes of which these are: it begins at a line.
#[inline]
fn fetch(image: &[u8], from: usize, to: usize) {
    for line in (from / LINE * LINE..to).step_by(LINE) {
        if let Some(byte) = image.get(line) {
            prefetch::line(byte);
        }
    }
}

/// No slot is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl Store {
    /// Takes over what a predecessor left in `memory`, or begins anew where there is nothing that
    /// fits. `recovery` is the start of a node that begins anew, in seconds since 1900.
    pub fn open(memory: Memory, slot_bytes: usize, slot_count: u32, recovery: u32) -> Self {
        let mut store = Self::begin(memory, slot_bytes, slot_count, recovery);
        if store.is_new {
            store.remember();
        }
        store
    }

    /// As [`Store::open`]; but one that begins anew is found by nobody else until
    /// [`Store::remember`], and the next one begins anew, too.
    pub(crate) fn begin(memory: Memory, slot_bytes: usize, slot_count: u32, recovery: u32) -> Self {
        let mut store = Self {
            memory,
            slot_bytes,
            slot_count,
            free: Vec::new(),
            fresh: 0,
            live: 0,
            shard: 0,
            is_new: false,
        };
        let shape = [
            (AT_MAGIC, MAGIC),
            (AT_SLOT_BYTES, slot_bytes as u64),
            (AT_SLOT_COUNT, slot_count.into()),
        ];
        let is_known = shape.iter().all(|(at, word)| store.word(*at) == *word);
        if is_known {
            store.repeat();
            let fresh = u32::try_from(store.word(AT_FRESH));
            store.fresh = fresh.unwrap_or(0).min(slot_count);
        } else {
            store.is_new = true;
            let end = slots_at(slot_bytes);
            store.memory[..end].fill(0);
            store.set_word(AT_RECOVERY, recovery.into());
            for (at, word) in &shape[1..] {
                store.set_word(*at, *word);
            }
        }
        for slot in (0..store.fresh).rev() {
            if store.word(store.seid_at(slot)) == 0 {
                store.free.push(slot);
            } else {
                store.live += 1;
            }
        }
        store
    }

    /// Has SEIDs that are given from now on begin with the number of a shard.
    pub fn set_shard(&mut self, shard: u16) {
        self.shard = u64::from(shard) << SEID_SHIFT;
    }

    /// When the node started, in seconds since 1900: as long as sessions are kept.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "it was written from 32 bits"
    )]
    pub fn recovery(&self) -> u32 {
        self.word(AT_RECOVERY) as u32
    }

    /// The memory, for a successor.
    pub fn into_memory(self) -> Memory {
        self.memory
    }

    /// Sessions.
    pub const fn live(&self) -> u32 {
        self.live
    }

    /// Slots.
    pub const fn slot_count(&self) -> u32 {
        self.slot_count
    }

    /// Bytes that an image may have.
    pub const fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    fn word(&self, at: usize) -> u64 {
        u64::load(&self.memory[at..])
    }

    fn set_word(&mut self, at: usize, word: u64) {
        word.store(&mut self.memory[at..]);
    }

    #[inline]
    const fn slot_at(&self, slot: u32) -> usize {
        slots_at(self.slot_bytes) + slot as usize * stride(self.slot_bytes)
    }

    /// Where it is said whose a slot is.
    const fn seid_at(&self, slot: u32) -> usize {
        self.slot_at(slot) + SEID_AT
    }

    /// Where it is said how often a slot was used.
    const fn uses_at(&self, slot: u32) -> usize {
        self.slot_at(slot) + self.slot_bytes
    }

    #[inline]
    fn bytes(&self, slot: u32) -> &[u8] {
        let at = self.slot_at(slot);
        &self.memory[at..at + self.slot_bytes]
    }

    /// The records of a slot where they lie.
    #[inline(always)]
    pub fn image(&mut self, slot: u32) -> Option<Image<'_>> {
        let at = self.slot_at(slot);
        Image::new(self.memory.get_mut(at..at + self.slot_bytes)?)
    }

    /// Asks for the line of a slot that says what is in it.
    #[inline]
    pub fn fetch_head(&self, slot: u32) {
        if let Some(byte) = self.memory.get(self.slot_at(slot)) {
            prefetch::line(byte);
        }
    }

    /// Asks for those lines of a slot that most packets read and write: its head is there.
    #[inline]
    pub fn fetch_rules(&self, slot: u32) {
        let at = self.slot_at(slot);
        if let Some(bytes) = self.memory.get(at..at + self.slot_bytes) {
            Image::hot_parts(bytes, |from, to| fetch(bytes, from, to));
        }
    }

    /// Asks for FARs and SDF filters of a slot's PDRs for packets of this tunnel, or of none if it
    /// is 0: the PDRs are there.
    #[inline]
    pub(crate) fn fetch_exits(&self, slot: u32, teid: u32) {
        let at = self.slot_at(slot);
        if let Some(bytes) = self.memory.get(at..at + self.slot_bytes) {
            Image::exit_parts(bytes, teid, |from, to| fetch(bytes, from, to));
        }
    }

    /// Whether packets of the session in a slot are frames of Ethernet.
    #[inline]
    pub fn is_ethernet(&self, slot: u32) -> bool {
        Fields::<Head>::is_ethernet().get(self.bytes(slot))
    }

    /// Whether packets of the session in a slot are none of IP.
    #[inline]
    pub fn is_unstructured(&self, slot: u32) -> bool {
        Fields::<Head>::is_unstructured().get(self.bytes(slot))
    }

    /// The association of the session in a slot.
    pub(crate) fn association_of(&self, slot: u32) -> u8 {
        Fields::<Head>::association().get(self.bytes(slot))
    }

    /// What is common to the session in a slot.
    pub fn head(&self, slot: u32) -> Head {
        Head::load(self.bytes(slot))
    }

    /// The session in a slot, as a value.
    pub fn session(&self, slot: u32) -> Option<Session> {
        Session::read(self.bytes(slot)).filter(|session| session.head.seid != 0)
    }

    /// The slot of a session that is there.
    pub fn slot_of(&self, seid: u64) -> Option<u32> {
        #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
        let slot = (seid as u32).checked_sub(1)?;
        let is_it = slot < self.fresh && self.head(slot).seid == seid;
        is_it.then_some(slot)
    }

    /// Slots that were ever used: the first ones.
    pub const fn fresh(&self) -> u32 {
        self.fresh
    }

    /// Slots in use.
    pub fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.fresh).filter(|slot| self.word(self.seid_at(*slot)) != 0)
    }

    /// The slot that the next session will have, and its SEID.
    pub fn next(&self) -> Result<(u32, u64), Full> {
        let fresh = (self.fresh < self.slot_count).then_some(self.fresh);
        let slot = self.free.last().copied().or(fresh).ok_or(Full)?;
        let uses = match Some(slot) == fresh {
            true => 1,
            false => self.word(self.uses_at(slot)).wrapping_add(1) & USES_MASK,
        };
        let seid = self.shard | (uses.max(1) << 32) | (u64::from(slot) + 1);
        Ok((slot, seid))
    }

    /// Writes a new session into the slot that [`Store::next`] named. It is linked and fits.
    pub fn insert(&mut self, session: &Session) {
        let Ok((slot, _)) = self.next() else {
            return;
        };
        let at = self.slot_at(slot);
        self.set_word(self.uses_at(slot), session.head.seid >> 32 & USES_MASK);
        if self.free.pop().is_none() {
            self.set_word(self.seid_at(slot), 0);
            self.fresh += 1;
            self.set_word(AT_FRESH, self.fresh.into());
        }
        let table = self.table();
        let bytes = &mut self.memory[at..at + self.slot_bytes];
        // The SEID comes last: before it, the slot is free.
        let mut session = session.clone();
        let seid = std::mem::take(&mut session.head.seid);
        session.head.places = table;
        session.write(bytes);
        self.set_word(self.seid_at(slot), seid);
        self.live += 1;
    }

    /// Writes what has become of the session in a slot. It is linked and fits.
    pub fn replace(&mut self, slot: u32, session: &Session) {
        self.seal(slot, session);
        self.repeat();
    }

    /// Writes an image into the journal and seals it.
    fn seal(&mut self, slot: u32, session: &Session) {
        let at = journal_at();
        let table = self.table();
        let bytes = &mut self.memory[at + JOURNAL_HEADER..][..self.slot_bytes];
        session.write(bytes);
        Fields::<Head>::places().set(bytes, &table);
        self.set_word(at, u64::from(slot) + 1);
    }

    /// Copies a sealed journal to its slot, and opens it.
    fn repeat(&mut self) {
        let at = journal_at();
        let sealed = self.word(at).checked_sub(1);
        let slot = sealed.and_then(|slot| u32::try_from(slot).ok());
        if let Some(slot) = slot.filter(|slot| *slot < self.slot_count) {
            let to = self.slot_at(slot);
            let from = at + JOURNAL_HEADER;
            self.memory.copy_within(from..from + self.slot_bytes, to);
        }
        self.set_word(at, 0);
    }

    /// Ends the session in a slot.
    pub fn remove(&mut self, slot: u32) {
        let at = self.seid_at(slot);
        if self.word(at) != 0 {
            self.set_word(at, 0);
            self.free.push(slot);
            self.live -= 1;
        }
    }

    /// Where a half of the PFDs begins.
    const fn half_at(half: u64) -> usize {
        pfds_at() + PFDS_HEADER + half as usize * PFDS_BYTES_MAX
    }

    /// IEs of PFDs, as they were kept.
    pub fn pfds(&self) -> &[u8] {
        let word = self.word(pfds_at());
        let len = usize::try_from(word >> 1).unwrap_or(0).min(PFDS_BYTES_MAX);
        &self.memory[Self::half_at(word & 1)..][..len]
    }

    /// Keeps IEs of PFDs instead of those before: after a kill there are the ones or the others.
    /// False if there is no room.
    pub fn set_pfds(&mut self, bytes: &[u8]) -> bool {
        let has_room = bytes.len() <= PFDS_BYTES_MAX;
        if has_room {
            let half = !self.word(pfds_at()) & 1;
            self.memory[Self::half_at(half)..][..bytes.len()].copy_from_slice(bytes);
            self.set_word(pfds_at(), (bytes.len() as u64) << 1 | half);
        }
        has_room
    }

    /// An association; one whose name is empty is none.
    pub fn association(&self, number: usize) -> Association {
        Association::load(&self.memory[PAGE + number * Association::LEN..])
    }

    /// Writes an association.
    pub fn set_association(&mut self, number: usize, association: &Association) {
        association.store(&mut self.memory[PAGE + number * Association::LEN..]);
    }

    /// What the SMF of an association wants to know of GTP-U paths.
    pub(crate) fn path_controls(&self, number: usize) -> PathControls {
        PathControls::load(&self.memory[path_controls_at() + number * PathControls::LEN..])
    }

    /// Writes that.
    pub(crate) fn set_path_controls(&mut self, number: usize, controls: &PathControls) {
        controls.store(&mut self.memory[path_controls_at() + number * PathControls::LEN..]);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::model::tests::session;

    pub(crate) const SLOT: usize = 2048;

    fn open(memory: Vec<u8>) -> Store {
        Store::open(Box::new(memory), SLOT, 3, 77)
    }

    fn fresh() -> Store {
        open(vec![0; memory_bytes(SLOT, 3)])
    }

    fn insert(store: &mut Store) -> u64 {
        let (_, seid) = store.next().unwrap();
        let mut session = session(seid);
        session.link().unwrap();
        store.insert(&session);
        seid
    }

    fn left(store: &Store) -> Vec<u8> {
        store.memory.to_vec()
    }

    #[test]
    fn a_successor_finds_sessions_and_free_slots() {
        let mut store = fresh();
        let seids = [insert(&mut store), insert(&mut store), insert(&mut store)];
        assert_eq!(store.next(), Err(Full));
        store.remove(store.slot_of(seids[1]).unwrap());
        let taken = open(left(&store));
        assert_eq!((taken.live(), taken.recovery()), (2, 77));
        assert_eq!(taken.slots().collect::<Vec<_>>(), [0, 2]);
        assert_eq!(taken.slot_of(seids[1]), None);
        let kept = taken.slot_of(seids[2]).unwrap();
        assert_eq!(taken.session(kept).unwrap().head.seid, seids[2]);
        let (slot, seid) = taken.next().unwrap();
        assert_eq!(slot, 1);
        assert_ne!(seid, seids[1], "a SEID is not used again at once");
    }

    #[test]
    fn memory_of_another_shape_begins_anew() {
        let mut store = fresh();
        insert(&mut store);
        let memory = left(&store);
        let other = Store::open(Box::new(memory), SLOT - 64, 3, 78);
        assert_eq!((other.live(), other.recovery()), (0, 78));
    }

    /// Memory that notes what each kill of its writer would leave.
    pub(crate) struct Mortal {
        pub(crate) bytes: Vec<u8>,
        pub(crate) shared: Arc<Mutex<Vec<u8>>>,
    }

    impl std::ops::Deref for Mortal {
        type Target = [u8];
        fn deref(&self) -> &[u8] {
            &self.bytes
        }
    }

    impl DerefMut for Mortal {
        /// What is there before each write is what a kill at that write would leave.
        fn deref_mut(&mut self) -> &mut [u8] {
            self.shared.lock().unwrap().extend_from_slice(&self.bytes);
            &mut self.bytes
        }
    }

    /// Before and behind every single write of a change, the session is the old one or the new one.
    #[test]
    fn a_kill_at_any_write_leaves_the_old_session_or_the_new() {
        let mut store = fresh();
        let seid = insert(&mut store);
        let slot = store.slot_of(seid).unwrap();
        let old = store.session(slot).unwrap();
        let mut new = old.clone();
        new.fars[0].teid = 0xabcd;
        new.pdrs.pop();
        new.link().unwrap();
        let shared = Arc::new(Mutex::new(Vec::new()));
        let bytes = left(&store);
        let len = bytes.len();
        let mortal = Mortal {
            bytes,
            shared: shared.clone(),
        };
        let mut store = Store::open(Box::new(mortal), SLOT, 3, 0);
        store.replace(slot, &new);
        shared.lock().unwrap().extend_from_slice(&left(&store));
        let states = shared.lock().unwrap();
        let (mut old_seen, mut new_seen) = (0, 0);
        for state in states.chunks(len) {
            let found = open(state.to_vec()).session(slot).unwrap();
            assert!(found == old || found == new);
            old_seen += usize::from(found == old);
            new_seen += usize::from(found == new);
        }
        assert!(old_seen >= 2 && new_seen >= 2, "{old_seen} {new_seen}");
    }

    #[test]
    fn pfds_are_kept_whole_or_not_at_all() {
        let mut store = fresh();
        assert_eq!(store.pfds(), b"");
        assert!(store.set_pfds(b"first") && store.set_pfds(b"second one"));
        assert!(!store.set_pfds(&[0; PFDS_BYTES_MAX + 1]));
        let mut taken = open(left(&store));
        assert_eq!(taken.pfds(), b"second one");
        // A kill while the other half is written.
        let half = !taken.word(pfds_at()) & 1;
        taken.memory[Store::half_at(half)..][..3].fill(0xee);
        assert_eq!(open(left(&taken)).pfds(), b"second one");
        assert!(taken.set_pfds(&[7; PFDS_BYTES_MAX]));
        assert_eq!(open(left(&taken)).pfds(), [7; PFDS_BYTES_MAX]);
    }

    /// The copy itself may be cut anywhere.
    #[test]
    fn a_half_made_copy_is_repeated() {
        let mut store = fresh();
        let seid = insert(&mut store);
        let slot = store.slot_of(seid).unwrap();
        let mut new = store.session(slot).unwrap();
        new.fars[1].teid = 99;
        store.seal(slot, &new);
        let at = store.slot_at(slot);
        store.memory[at + 20..at + 300].fill(0xee);
        assert_eq!(open(left(&store)).session(slot).unwrap(), new);
    }
}
