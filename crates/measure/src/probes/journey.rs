//! Journeys: the visits of one packet, from the port that received it to where it ended.
//!
//! Marks are used again and again, but a packet's first visit says that it is the first; so, in
//! order of time, each such visit begins a journey and those with the same mark belong to it.

use std::collections::HashMap;

use catena_engine::probe::{Visit, VisitFlags};
use catena_engine::supervisor::probing::ProbeMap;

/// One packet's way.
#[derive(Clone, Debug, PartialEq)]
pub struct Journey {
    /// Its visits, in order; at least one.
    pub visits: Vec<Visit>,
}

impl Journey {
    /// The nodes it passed.
    pub fn path(&self) -> Vec<u16> {
        self.visits.iter().map(|visit| visit.node).collect()
    }

    /// Whether it was dropped at the last of them.
    pub fn is_dropped(&self) -> bool {
        let last = self.visits.last();
        last.is_some_and(|visit| visit.flags.has(VisitFlags::DROPPED))
    }

    /// From the beginning of the burst in which it was received to the end of its last visit's
    /// work, in ns.
    pub fn residence_ns(&self) -> f64 {
        match (self.visits.first(), self.visits.last()) {
            (Some(first), Some(last)) => last.left as f64 - first.begin as f64,
            _ => 0.0,
        }
    }
}

/// Journeys, and what could not be made one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Journeys {
    /// Whole ones, by their ends.
    pub whole: Vec<Journey>,
    /// Begun, and without an end: still under way, lost on a full link, or with their worker, or
    /// some record of them was overwritten.
    pub unfinished: u64,
    /// Visits that follow from no other: a record in front of them is missing, or they are made up.
    pub broken: u64,
}

impl Journeys {
    /// Puts visits, in any order, together.
    pub fn of(map: &ProbeMap, mut visits: Vec<Visit>) -> Self {
        visits.sort_by_key(|visit| visit.entered);
        let mut journeys = Self::default();
        let mut open: HashMap<u16, Journey> = HashMap::new();
        for visit in visits {
            if visit.flags.has(VisitFlags::ORIGIN) {
                let visits = vec![visit];
                let earlier = open.insert(visit.mark, Journey { visits });
                journeys.unfinished += u64::from(earlier.is_some());
                continue;
            }
            // One that does not follow is passed over: a hostile worker may have made it up.
            let journey = open.get_mut(&visit.mark).filter(|journey| {
                let last = journey.visits.last();
                last.is_some_and(|last| follows(map, last, &visit))
            });
            let Some(journey) = journey else {
                journeys.broken += 1;
                continue;
            };
            journey.visits.push(visit);
            if visit.flags.has(VisitFlags::TERMINAL | VisitFlags::DROPPED) {
                journeys.whole.extend(open.remove(&visit.mark));
            }
        }
        journeys.unfinished += open.len() as u64;
        journeys
    }
}

/// Whether a packet that was at `last` can be at `next`: a link leads there, and it is the one by
/// which it left and came.
fn follows(map: &ProbeMap, last: &Visit, next: &Visit) -> bool {
    let (from, to) = (usize::from(last.node), usize::from(next.node));
    last.output == next.input
        && map.links.iter().enumerate().any(|(index, link)| {
            let numbered = usize::from(next.input) == index + 1;
            link.as_ref().is_some_and(|link| {
                (link.from, link.to) == (from, to) && (numbered || !link.is_ring)
            })
        })
}
