//! Marks in the ledger for buffers that are looked for: the owner's part in finding what a dead
//! worker kept.

use super::link_set::LinkSet;
use super::owner::{HOME, PoolOwner};
use crate::sync::Ordering;

/// Stands in the ledger in place of a link's number while the buffer is looked for (see
/// [`PoolOwner::mark_out`]). No link has this number.
pub const SOUGHT: u8 = u8::MAX;

impl PoolOwner {
    /// Begins to look for buffers: all that are out by one of `links` are marked [`SOUGHT`] in the
    /// ledger; gives each with its link. A mark goes when its buffer comes home, so whatever is
    /// still marked later has been out all the time.
    pub fn mark_out(&mut self, links: &LinkSet) -> Vec<(u32, u8)> {
        let mut marked = Vec::new();
        for index in 0..self.units {
            let byte = self.ledger_of(index);
            let link = byte.load(Ordering::Relaxed);
            if link != HOME && link != SOUGHT && links.contains(link) {
                byte.store(SOUGHT, Ordering::Relaxed);
                marked.push((index, link));
            }
        }
        marked
    }

    /// Ends the search: what is still marked is out by its link again.
    pub fn unmark(&mut self, marked: &[(u32, u8)]) {
        for (index, link) in marked {
            let byte = self.ledger_of(*index);
            if byte.load(Ordering::Relaxed) == SOUGHT {
                byte.store(*link, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::pool::{PoolGeometry, read_ledger};
    use crate::region::Sharing;

    const GEOMETRY: PoolGeometry = PoolGeometry {
        log2_stride: 7,
        buffer_count: 8,
        headroom: 64,
        bundles: false,
    };

    #[test]
    fn only_what_stays_out_stays_marked() {
        let mut owner = PoolOwner::create(3, GEOMETRY, Sharing::ReadWrite).unwrap();
        let out: Vec<_> = (0..4)
            .map(|_| owner.alloc(64).unwrap().buffer_index())
            .collect();
        for (index, link) in out.iter().zip([1, 2, 2, 2]) {
            owner.send_out(*index, link);
        }
        let (mut links, mut with_mark) = (LinkSet::default(), LinkSet::default());
        links.insert(2);
        with_mark.insert(2);
        with_mark.insert(SOUGHT);
        assert!(links.meets(&with_mark));
        let marked = owner.mark_out(&links);
        assert_eq!(marked, [(out[1], 2), (out[2], 2), (out[3], 2)]);
        // One comes home for good, one goes out anew.
        owner.take_home(out[1], &with_mark).unwrap();
        owner.take_home(out[2], &with_mark).unwrap();
        let mut rest = std::iter::from_fn(|| owner.alloc(64));
        let again = rest.find(|packet| packet.buffer_index() == out[2]);
        let again = again.expect("it is at home").buffer_index();
        owner.send_out(again, 2);
        let (fd, len) = owner.ledger();
        let ledger = read_ledger(fd.try_clone_to_owned().unwrap(), len, GEOMETRY).unwrap();
        let sought: Vec<_> = ledger.iter().filter(|(_, link)| *link == SOUGHT).collect();
        assert_eq!(sought, [&(out[3], SOUGHT)]);
        owner.unmark(&marked);
        with_mark.remove(SOUGHT);
        assert!(!with_mark.contains(SOUGHT));
        assert_eq!(owner.take_home(out[3], &with_mark), Ok(()));
        assert_eq!(owner.take_home(again, &with_mark), Ok(()));
    }
}
