//! What an NF says of each packet of a burst; the engine carries it out.

use crate::drop_reason::DropReason;

/// What becomes of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Goes to the NF's output with this index (0 is the first or only one).
    Output(u8),
    /// Is dropped and counted under the reason.
    Drop(DropReason),
    /// Stays with the NF: what [`Burst::keep`](super::Burst::keep) leaves. One that says so
    /// otherwise is consumed.
    Kept,
}

impl Verdict {
    /// It as one word, 0 for the first output: many are compared at a time so.
    #[inline]
    pub(crate) const fn word(self) -> u16 {
        match self {
            Self::Output(output) => output as u16,
            Self::Drop(reason) => 0x100 | reason.index() as u16,
            Self::Kept => 0x200,
        }
    }
}
