//! Which owners' pools are looked through for buffers that dead workers had kept: what is due, what
//! is under way, what has ended. `audit` does it.

use std::collections::{BTreeMap, BTreeSet};

use crate::supervisor::book::Book;

/// Owners whose pools are looked through.
#[derive(Debug, Default)]
pub(super) struct Audits {
    /// To be begun: links by which dead workers can have come to their buffers, by owner and by
    /// their numbers in its ledgers.
    pub(super) due: BTreeMap<usize, BTreeSet<u8>>,
    /// Begun: the number of the question that the owner answers when it has marked them.
    pub(super) open: BTreeMap<usize, (u64, BTreeSet<u8>)>,
    /// Ended: the number of the question that the owner answers when it has read so. Until then no
    /// other is begun, since it would not be known whose marks they are.
    pub(super) ending: BTreeMap<usize, u64>,
    /// The link of the last that was begun, by owner. Marks may stand in its ledger as long as the
    /// owner has not read that the search has ended, so also when it dies before.
    pub(super) last: BTreeMap<usize, BTreeSet<u8>>,
}

impl Audits {
    /// Links of those that are begun, by owner.
    pub(super) fn open_links(&self) -> BTreeMap<usize, BTreeSet<u8>> {
        let ending = self.ending.keys();
        let ending = ending.map(|owner| (*owner, BTreeSet::new()));
        let open = self.open.iter();
        let open = open.map(|(owner, (_, links))| (*owner, links.clone()));
        ending.chain(open).collect()
    }

    /// Begins with the next link of `owner`, unless another of its links is looked through: whose
    /// marks stand in its ledger must be known. `id` is the number of the question.
    pub(super) fn begin(&mut self, owner: usize, id: u64) -> Option<u8> {
        if self.open.contains_key(&owner) || self.ending.contains_key(&owner) {
            return None;
        }
        let due = self.due.get_mut(&owner)?;
        let link = due.pop_first();
        if due.is_empty() {
            self.due.remove(&owner);
        }
        let links = BTreeSet::from([link?]);
        self.last.insert(owner, links.clone());
        self.open.insert(owner, (id, links));
        link
    }

    /// Everything that the owner had to mark is dealt with; `id` is the number of the question by
    /// which it says that it has read so.
    pub(super) fn end(&mut self, owner: usize, id: u64) {
        self.open.remove(&owner);
        self.ending.insert(owner, id);
    }

    /// The owner has answered `id`.
    pub(super) fn answered(&mut self, owner: usize, id: u64) {
        if self.ending.get(&owner) == Some(&id) {
            self.ending.remove(&owner);
        }
    }

    /// As a former supervisor wrote them down. No answer is awaited for those that were begun.
    pub(super) fn written(book: &Book) -> Self {
        let open = book.audits_open.iter();
        let open = open.map(|(owner, links)| (*owner, (u64::MAX, links.clone())));
        Self {
            due: book.audits_due.clone(),
            open: open.collect(),
            ending: BTreeMap::new(),
            last: book.audits_last.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is marked says no more by which link it left: of two links at once, it would not be
    /// known to whom a buffer may come home when the owner dies.
    #[test]
    fn one_link_at_a_time_is_looked_through_and_its_marks_are_its_own() {
        let mut audits = Audits::default();
        audits.due.insert(0, BTreeSet::from([3, 5]));
        assert_eq!(audits.begin(0, 1), Some(3));
        assert_eq!(audits.begin(0, 2), None, "the first is looked through");
        audits.end(0, 3);
        assert_eq!(audits.begin(0, 4), None, "its marks may still stand");
        assert_eq!(audits.last[&0], BTreeSet::from([3]));
        audits.answered(0, 1);
        assert_eq!(audits.begin(0, 5), None, "another answer");
        audits.answered(0, 3);
        assert_eq!(audits.begin(0, 6), Some(5));
        assert_eq!(audits.last[&0], BTreeSet::from([5]));
        assert!(audits.due.is_empty());
    }
}
