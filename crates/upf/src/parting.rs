//! An association whose end is prepared: how far that is.
//!
//! On N4: what `release` goes on with, turn by turn.

/// An association whose end is prepared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parting {
    /// Which of all that have ever begun: what requests are about.
    pub(crate) id: u32,
    pub(crate) association: u8,
    /// Whether the UPF wants the end, and says so to the SMF.
    pub(crate) is_own: bool,
    pub(crate) stage: Stage,
    /// When it began.
    pub(crate) since_ns: u64,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The SMF was told, and has not answered.
    Told,
    /// Sessions from this slot on are to be looked at; so many last reports have no answer yet.
    Reporting { next: u32, outstanding: u32 },
    /// The SMF is to release it.
    Over,
}

impl Stage {
    /// Nothing has been reported yet.
    pub(crate) const REPORTING: Self = Self::Reporting {
        next: 0,
        outstanding: 0,
    };
}
