//! What the loops of the floor may do with a packet.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::fmt;

/// What the loops do with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Written into a buffer of its own, read there.
    Plain,
    /// Written, copied into the staging area, copied out, read.
    Copy,
    /// Written among 64 that share a descriptor, read there.
    Bundle,
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "bare loop",
            Self::Copy => "bare loop, copied twice",
            Self::Bundle => "bare loop, 64 to a descriptor",
        })
    }
}
