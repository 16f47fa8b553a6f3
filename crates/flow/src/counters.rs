//! What a table has done, counted in its header: a killed NF's successor counts on from there.

/// Place of a counter in the header.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Counter {
    Lookups,
    Hits,
    Inserts,
    Moves,
    Evicted,
    Full,
    Crowded,
    Expired,
    Removed,
    Lost,
}

/// How many there are.
pub(crate) const COUNTERS: usize = 10;

/// Counts since the table was made. They wrap at 2⁶⁴.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Keys looked up.
    pub lookups: u64,
    /// Keys looked up and found. The rest are misses.
    pub hits: u64,
    /// Entries made.
    pub inserts: u64,
    /// Entries of other flows that changed their bucket to make room.
    pub moves: u64,
    /// Entries that gave way to others.
    pub evicted: u64,
    /// Insertions refused because all entries were in use.
    pub full: u64,
    /// Insertions refused because no bucket within reach had room.
    pub crowded: u64,
    /// Entries that ended by a timeout.
    pub expired: u64,
    /// Entries removed by the caller, extracted ones included.
    pub removed: u64,
    /// Entries found unsound when attaching, and given up.
    pub lost: u64,
}

impl Counters {
    /// Keys looked up and not found.
    pub fn misses(&self) -> u64 {
        self.lookups.wrapping_sub(self.hits)
    }

    /// Insertions refused.
    pub fn refused(&self) -> u64 {
        self.full.wrapping_add(self.crowded)
    }

    pub(crate) fn read(get: impl Fn(Counter) -> u64) -> Self {
        Self {
            lookups: get(Counter::Lookups),
            hits: get(Counter::Hits),
            inserts: get(Counter::Inserts),
            moves: get(Counter::Moves),
            evicted: get(Counter::Evicted),
            full: get(Counter::Full),
            crowded: get(Counter::Crowded),
            expired: get(Counter::Expired),
            removed: get(Counter::Removed),
            lost: get(Counter::Lost),
        }
    }
}
