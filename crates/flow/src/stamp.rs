//! The stamp of an entry: one word that says whether it is live, and when it was last used.
//!
//! What every lookup looks at before it believes an entry.

/// In an entry's stamp: somebody lives here. The rest is when it was used last, in ns.
pub(crate) const LIVE: u64 = 1 << 63;
/// The latest time a stamp can hold.
pub(crate) const TIME_MAX: u64 = LIVE - 1;
