//! Parts of packets behind the first one: they have no ports, and go where the first one went.
//!
//! Beside the way of other packets through `nat44`: a first part that is translated leaves a note
//! here, by addresses, protocol and identification, which later parts find. Limits: so many notes,
//! so long; a new one takes the place of an old one, the oldest of some, so that nobody who leaves
//! many keeps others from theirs for longer than it goes on. A part that comes before its first one
//! is dropped: nothing is held.

use super::packet::Seen;
use super::why::Why;
use crate::hash::random_seed;
use crate::{Eviction, Fate, FlowTable, HeapMemory, Inserted, Shape, Timeouts};

/// What becomes of the parts of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Course {
    pub(super) src: u32,
    pub(super) dst: u32,
    pub(super) output: u8,
    /// Whether it goes back to where it came from, by the same link.
    pub(super) turns_back: bool,
}

/// Notes of first parts.
#[derive(Debug)]
pub(super) struct Fragments {
    table: FlowTable<HeapMemory>,
    timeouts: Timeouts,
}

fn key(seen: &Seen, input: u8) -> [u64; 2] {
    let addresses = u64::from(seen.src) << 32 | u64::from(seen.dst);
    let rest = u64::from(input) << 32 | u64::from(seen.protocol) << 16 | u64::from(seen.ident);
    [addresses, rest]
}

impl Fragments {
    pub(super) fn new(capacity: u32, hard_ns: u64) -> Option<Self> {
        let shape = Shape::new(2, 2, capacity);
        let table = FlowTable::on_heap(&shape, random_seed(), 0).ok()?;
        Some(Self {
            table,
            timeouts: Timeouts::hard(hard_ns),
        })
    }

    /// Notes where a first part went.
    ///
    /// # Errors
    /// There are as many notes as there may be, and all that could give way are of this instant.
    pub(super) fn note(
        &mut self,
        seen: &Seen,
        input: u8,
        course: Course,
        now_ns: u64,
    ) -> Result<(), Why> {
        // Nobody uses a note but who makes it: the one idle for longest is the oldest.
        let (key, oldest) = (key(seen, input), Eviction::OldestIdle);
        let inserted = self
            .table
            .insert_evicting(&key, self.timeouts, now_ns, oldest, |_, _| ());
        let Ok(Inserted::New(flow) | Inserted::Present(flow)) = inserted else {
            return Err(Why::FragmentsFull);
        };
        let addresses = u64::from(course.src) << 32 | u64::from(course.dst);
        self.table.set_state(flow, 0, addresses);
        let way = u64::from(course.turns_back) << 8 | u64::from(course.output);
        self.table.set_state(flow, 1, way);
        // The same identification again is another packet.
        self.table.set_timeouts(flow, self.timeouts, now_ns);
        Ok(())
    }

    /// Where the first part of a later one went.
    ///
    /// # Errors
    /// It has not come, or too long ago.
    pub(super) fn course(&self, seen: &Seen, input: u8) -> Result<Course, Why> {
        let flow = self.table.find(&key(seen, input));
        let flow = flow.ok_or(Why::FragmentUnknown)?;
        let (addresses, way) = (self.table.state(flow, 0), self.table.state(flow, 1));
        Ok(Course {
            src: (addresses >> 32) as u32,
            dst: addresses as u32,
            output: way as u8,
            turns_back: way >> 8 & 1 == 1,
        })
    }

    pub(super) fn expire(&mut self, now_ns: u64, budget: u32) {
        self.table.expire(now_ns, budget, |_| Fate::Remove);
    }

    /// Packets of which parts may come.
    pub(super) fn len(&self) -> u32 {
        self.table.len()
    }
}
