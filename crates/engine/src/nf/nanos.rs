//! The time that ports and NFs are given: they read no clock.

/// Nanoseconds on the engine's monotonic clock. Never wall-clock time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The later instant `ns` nanoseconds after this one (saturating).
    pub const fn plus(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }

    /// Nanoseconds since `earlier`, or 0 if that lies in the future.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
