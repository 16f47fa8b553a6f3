//! How chains are started, and what does not count behind a start: what a report says of trials.

use std::time::Duration;

use catena_measure::device::rivals_text;

/// How often chains are started, and what does not count behind each start.
#[derive(Clone, Copy, Debug)]
pub(super) enum Starts {
    /// Anew for each trial; traffic before it does not count.
    ForEachTrial,
    /// Once for all slices, and again for those that are repeated; the first pairs do not count.
    ForAllSlices { left_out: u32, slice: Duration },
}

impl Starts {
    /// How chains were started, and what counts.
    pub(super) fn describe(self, warmup: Duration, rivals_max: f64) -> String {
        let (how, of_what) = match self {
            Self::ForEachTrial => (
                format!(
                    "the chain is started anew for each; {warmup:?} of traffic before each are \
                     not counted; effective duration is the sending time behind that; counts are \
                     read after it has drained and stopped"
                ),
                "a trial",
            ),
            Self::ForAllSlices { left_out, slice } => (
                format!(
                    "both chains are started once for a few pairs that do not count, once for the \
                     others, and again for those that are repeated; the first {left_out} pairs of \
                     each start, {:?} of each chain's turns, are not counted; packets count as \
                     they arrive, from three to eight tenths of a slice of {slice:?}",
                    slice * left_out
                ),
                "a quarter of a second",
            ),
        };
        format!(
            "{how}; waits of RFC 2544 section 23 are not kept; other work may take {} from the \
             workers",
            rivals_text(rivals_max, of_what)
        )
    }
}
