//! The owner's part in finding buffers that a dead worker had kept.
//!
//! The supervisor knows where buffers can be: on links and lanes, whose memory it reads. Those are
//! looked for that are out by links which lead to the dead worker. Here they are marked between two
//! turns; what is still marked when the supervisor has looked through all rings, and was on none,
//! nobody has. Marked buffers come home as always meanwhile: the lanes by which they can are told
//! of the mark.

use catena_shm::pool::{LinkSet, SOUGHT};

use super::{Place, Pools};

impl Pools {
    /// Marks what is out by one of `links`.
    pub fn begin_search(&mut self, links: &LinkSet) {
        self.end_search();
        for home in &mut self.homes {
            if home.links.meets(links) {
                home.links.insert(SOUGHT);
            }
        }
        self.search.links = *links;
        let pools = self.own.iter_mut();
        self.search.marked = pools
            .map(|pool| (pool.id(), pool.mark_out(links)))
            .collect();
    }

    /// Takes home buffers of `pool` that nobody has. One that has come home meanwhile is not marked
    /// any more, and is left alone.
    pub fn take_found(&mut self, pool: u16, buffers: &[u32]) {
        let Some(Place::Own(index)) = self.places.get(usize::from(pool)) else {
            return;
        };
        let mut sought = LinkSet::default();
        sought.insert(SOUGHT);
        for buffer in buffers {
            // Refused if it is home.
            let _ = self.own[usize::from(*index)].take_unit_home(*buffer, &sought);
        }
    }

    /// What is still marked is out by its link again.
    pub fn end_search(&mut self) {
        self.search.links = LinkSet::default();
        for (id, marked) in self.search.marked.drain(..) {
            if let Some(pool) = self.own.iter_mut().find(|pool| pool.id() == id) {
                pool.unmark(&marked);
            }
        }
        for home in &mut self.homes {
            home.links.remove(SOUGHT);
        }
    }
}
