//! Follows the flows of a trial by their stamps: what stands between a receiver and the trackers.
//!
//! Memory is taken when the trial begins, for a fixed number of flows: flow `f` has tracker `f`.
//! Packets of flows beyond them are counted as untracked and are not told from their duplicates.

use super::{FlowTracker, Quality};
use crate::traffic::arrival::{Arrival, ArrivalSink};

pub use crate::traffic::arrival::FlowResult;

/// Flows that are followed unless told otherwise: some 800 KiB.
pub const FLOW_COUNT: usize = 1024;
/// Most flows that can be followed: some 800 MiB.
pub const FLOW_COUNT_MAX: usize = 1 << 20;

/// Trackers of the first flows.
#[derive(Clone, Debug, Default)]
pub struct FlowSink {
    trackers: Vec<FlowTracker>,
    corrupted: u64,
    untracked: u64,
}

impl FlowSink {
    /// Follows flows 0 to `flows` - 1, at most [`FLOW_COUNT_MAX`].
    pub fn new(flows: usize) -> Self {
        Self {
            trackers: vec![FlowTracker::new(); flows.min(FLOW_COUNT_MAX)],
            corrupted: 0,
            untracked: 0,
        }
    }

    /// Sum over all tracked flows, with the damaged packets: their flow is not to be believed.
    pub fn total(&self) -> Quality {
        let mut total = Quality::default();
        for tracker in &self.trackers {
            total.add(tracker.quality());
        }
        total.corrupted += self.corrupted;
        total
    }

    /// Packets of flows that are not followed.
    pub const fn untracked(&self) -> u64 {
        self.untracked
    }
}

impl ArrivalSink for FlowSink {
    #[inline]
    fn arrived(&mut self, arrival: &Arrival) {
        if !arrival.is_valid {
            self.corrupted += 1;
            return;
        }
        match self.trackers.get_mut(arrival.flow as usize) {
            Some(tracker) => tracker.arrival(arrival.sequence, arrival.received),
            None => self.untracked += 1,
        }
    }

    fn report(&self) -> Vec<(&'static str, u64)> {
        let total = self.total();
        vec![
            ("unique", total.unique),
            ("duplicates", total.duplicates),
            ("reordered", total.reordered),
            ("beyond_window", total.beyond_window),
            ("untracked", self.untracked),
        ]
    }

    fn flows(&self) -> Vec<FlowResult> {
        let numbered = (0_u32..).zip(&self.trackers);
        let seen = numbered.filter(|(_, tracker)| tracker.quality().received > 0);
        seen.map(|(flow, tracker)| FlowResult {
            flow,
            quality: tracker.quality().clone(),
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(flow: u32, sequence: u64, is_valid: bool) -> Arrival {
        Arrival {
            flow,
            sequence,
            intended: 0,
            late: 0,
            received: sequence,
            is_valid,
        }
    }

    #[test]
    fn flows_are_kept_apart_and_memory_is_bounded() {
        let mut sink = FlowSink::new(2);
        for (flow, sequence) in [
            (0, 0),
            (1, 0),
            (0, 2),
            (0, 1),
            (1, 0),
            (2, 0),
            (u32::MAX, 9),
        ] {
            sink.arrived(&arrival(flow, sequence, true));
        }
        sink.arrived(&arrival(0, 0, false));
        let flows = sink.flows();
        let found: Vec<_> = flows
            .iter()
            .map(|f| {
                (
                    f.flow,
                    f.quality.unique,
                    f.quality.duplicates,
                    f.quality.reordered,
                )
            })
            .collect();
        assert_eq!(found, [(0, 3, 0, 1), (1, 1, 1, 0)]);
        assert_eq!((sink.untracked(), sink.total().corrupted), (2, 1));
    }
}
