//! How much a benchmark measures.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::time::Duration;

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The least of each benchmark's own sides: its figures say nothing, but that it runs.
    Brief,
    /// One short round.
    Quick,
    /// All of it.
    Whole,
}

impl Extent {
    /// Whether it is not the whole.
    pub(crate) fn is_short(self) -> bool {
        self != Self::Whole
    }

    /// Time of measurement, from the end of the build and of any installation: what does not fit
    /// is reported as not measured. That of `Quick` leaves 5 s of a minute for the last run's end.
    pub(crate) fn limit(self) -> Option<Duration> {
        match self {
            Self::Brief => Some(Duration::from_secs(10)),
            Self::Quick => Some(Duration::from_secs(55)),
            Self::Whole => None,
        }
    }

    /// Measured time of each run of a chain, in seconds.
    pub(crate) fn seconds(self) -> u32 {
        match self {
            Self::Brief => 1,
            Self::Quick => 3,
            Self::Whole => 4,
        }
    }

    /// Measured time of each loop within this process, of those of `quick` and `whole` in ms.
    pub(crate) fn slice(self, quick: u64, whole: u64) -> Duration {
        Duration::from_millis(match self {
            Self::Brief => 2,
            Self::Quick => quick,
            Self::Whole => whole,
        })
    }

    /// Whether tables of `count` flows or sessions are filled.
    pub(crate) fn fills(self, count: u32) -> bool {
        self != Self::Brief || count <= 1_000
    }
}
