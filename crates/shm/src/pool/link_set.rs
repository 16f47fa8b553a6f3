//! Sets of links: by which of them a unit may have left that comes home.
//!
//! Control path, and one look per return.

/// A set of links, by the owner's number for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkSet([u64; 4]);

impl LinkSet {
    /// Every link.
    pub const ALL: Self = Self([u64::MAX; 4]);

    /// Adds link number `link`.
    pub fn insert(&mut self, link: u8) {
        self.0[usize::from(link >> 6)] |= 1 << (link & 63);
    }

    /// Takes link number `link` out.
    pub fn remove(&mut self, link: u8) {
        self.0[usize::from(link >> 6)] &= !(1 << (link & 63));
    }

    /// Whether some link is in both.
    pub fn meets(&self, other: &Self) -> bool {
        self.0
            .iter()
            .zip(&other.0)
            .any(|(ours, theirs)| ours & theirs != 0)
    }

    /// Whether it holds link number `link`.
    pub fn contains(&self, link: u8) -> bool {
        self.0[usize::from(link >> 6)] >> (link & 63) & 1 == 1
    }
}
