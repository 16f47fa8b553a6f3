//! Match-action tables: entries that somebody sets, looked up by code.
//!
//! On the data path beside flows; changed between bursts. A table whose key parts are all exact is
//! a hash table; any other one is gone through by priority, which suits some hundreds of entries:
//! it holds [`LISTED_COUNT_MAX`] at most. Lookups allocate nothing.

use super::exact::Exact;
use super::field::{Width, ones};

/// Most key parts of a table.
pub const KEY_PART_COUNT_MAX: usize = 8;
/// Most data of an entry.
pub const DATA_COUNT_MAX: usize = 16;
/// Most entries of a table with parts that are not exact.
pub const LISTED_COUNT_MAX: usize = 4096;
/// Most entries of any table.
pub const TABLE_ENTRY_COUNT_MAX: usize = 1 << 20;

/// How a key part is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// Equal.
    Exact,
    /// By its first bits; entries with more of them come first.
    Prefix,
    /// By the bits of a mask.
    Ternary,
    /// Within a range, ends included.
    Range,
}

/// A table as a program has it.
#[derive(Clone, Debug)]
pub struct TableShape {
    /// Its name.
    pub name: String,
    /// How each part of the key is compared, and its width.
    pub key: Vec<(Match, Width)>,
    /// Names and widths of the data.
    pub data: Vec<(String, Width)>,
    /// Data where nothing matches.
    pub default: Vec<u128>,
    /// Entries that it begins with.
    pub entries: Vec<TableEntry>,
    /// Most entries.
    pub capacity: usize,
    /// Where its entries come from, if nobody sets them.
    pub maglev: Option<Maglev>,
}

/// Where the entries of a table come from: its key is a number below `slots`, its only datum the
/// key of an entry of the other table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Maglev {
    /// Number of the table of backends, whose key is one exact part.
    pub of: u16,
    /// Which of its data is a backend's weight; all have the same without.
    pub weight: Option<u8>,
    /// How many slots there are: a prime number, at most
    /// [`MAGLEV_SLOT_COUNT_MAX`](super::maglev::MAGLEV_SLOT_COUNT_MAX).
    pub slots: u32,
}

/// A pattern for one key part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// Bits of the value where the mask has ones; the value has none elsewhere. Exact parts and
    /// prefixes are of this form too.
    Masked(u128, u128),
    /// From the first to the second.
    Range(u128, u128),
}

impl Pattern {
    /// This value only.
    pub fn exact(value: u128, width: Width) -> Self {
        Self::Masked(value, ones(width))
    }

    /// Whether a value is meant.
    #[inline]
    pub fn matches(self, value: u128) -> bool {
        match self {
            Self::Masked(bits, mask) => value & mask == bits,
            Self::Range(from, to) => (from..=to).contains(&value),
        }
    }
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableEntry {
    /// A pattern for each key part.
    pub key: Vec<Pattern>,
    /// Greater ones are tried first; those of prefixes count only among equally long ones.
    pub priority: u32,
    /// Its data.
    pub data: Vec<u128>,
}

/// Why an entry is none of a table's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// Another number of key parts or data.
    #[error("the entry has another number of keys or values than its table")]
    Count,
    /// A value that is wider than its field.
    #[error("a number of the entry does not fit the width of its field")]
    Width,
    /// A pattern of another kind than the table's.
    #[error("a key of the entry is not of the kind that its table compares")]
    Kind,
    /// No room.
    #[error("the table is full")]
    Full,
    /// Its entries follow from another table's.
    #[error("its entries follow from those of another table: change these")]
    Derived,
    /// There was none.
    #[error("there is no entry with this key")]
    Absent,
}

impl TableShape {
    /// Holds an entry to the table's shape.
    ///
    /// # Errors
    /// What does not fit.
    pub fn check(&self, entry: &TableEntry) -> Result<(), TableError> {
        if entry.key.len() != self.key.len() || entry.data.len() != self.data.len() {
            return Err(TableError::Count);
        }
        for (pattern, (kind, width)) in entry.key.iter().zip(&self.key) {
            let most = ones(*width);
            let (a, b) = match *pattern {
                Pattern::Masked(bits, mask) => (bits, mask),
                Pattern::Range(from, to) => (from, to),
            };
            if a > most || b > most {
                return Err(TableError::Width);
            }
            let fits = match (kind, *pattern) {
                (Match::Exact, Pattern::Masked(_, mask)) => mask == most,
                (Match::Prefix, Pattern::Masked(bits, mask)) => {
                    bits & !mask == 0 && is_prefix(mask, *width)
                }
                (Match::Ternary, Pattern::Masked(bits, mask)) => bits & !mask == 0,
                (Match::Range, Pattern::Range(from, to)) => from <= to,
                _ => false,
            };
            if !fits {
                return Err(TableError::Kind);
            }
        }
        let fits = |(value, (_, width)): (&u128, &(String, Width))| *value <= ones(*width);
        if !entry.data.iter().zip(&self.data).all(fits) {
            return Err(TableError::Width);
        }
        Ok(())
    }

    pub(crate) fn is_exact(&self) -> bool {
        self.key.iter().all(|(kind, _)| *kind == Match::Exact)
    }
}

/// Whether a mask of a width has ones only at its upper end.
fn is_prefix(mask: u128, width: Width) -> bool {
    let zeros = (!mask & ones(width)).trailing_ones();
    mask == ones(width) & u128::MAX.checked_shl(zeros).unwrap_or(0)
}

/// A table in use.
#[derive(Clone, Debug)]
pub struct MatchTable {
    shape: TableShape,
    /// Entries of an exact table.
    exact: Exact,
    /// Of any other one: entries in the order in which they are tried.
    listed: Vec<TableEntry>,
}

impl MatchTable {
    /// A table with the entries that it begins with; those that do not fit it are left out, which
    /// `verify` does not let happen.
    pub fn new(shape: &TableShape) -> Self {
        let mut table = Self {
            shape: TableShape {
                entries: Vec::new(),
                ..shape.clone()
            },
            exact: Exact::new(
                shape.key.len(),
                shape.data.len(),
                if shape.is_exact() { shape.capacity } else { 0 },
            ),
            listed: Vec::new(),
        };
        for entry in &shape.entries {
            let _ = table.set(entry.clone());
        }
        table
    }

    /// Its shape, without entries.
    pub fn shape(&self) -> &TableShape {
        &self.shape
    }

    /// How many entries it has.
    pub fn len(&self) -> usize {
        self.exact.len() + self.listed.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many entries it has places for, roughly: it takes long to be given more.
    pub(super) fn place_count(&self) -> usize {
        self.exact.place_count()
    }

    /// The same, with room for as many entries as it has places for.
    pub(super) fn with_room(&self) -> Self {
        Self {
            exact: self.exact.with_room(),
            ..self.clone()
        }
    }

    /// The data of the entry that matches.
    #[inline]
    pub fn lookup(&self, key: &[u128]) -> Option<&[u128]> {
        if self.listed.is_empty() {
            return self.exact.get(key);
        }
        let matches = |entry: &&TableEntry| {
            let mut parts = entry.key.iter().zip(key);
            parts.all(|(pattern, value)| pattern.matches(*value))
        };
        self.listed.iter().find(matches).map(|entry| &*entry.data)
    }

    /// Sets an entry: one with the same key and priority is replaced.
    ///
    /// # Errors
    /// What does not fit; nothing has changed then.
    pub fn set(&mut self, entry: TableEntry) -> Result<(), TableError> {
        if self.shape.maglev.is_some() {
            return Err(TableError::Derived);
        }
        self.put(entry)
    }

    /// As [`MatchTable::set`], also where entries follow from another table.
    pub(super) fn put(&mut self, entry: TableEntry) -> Result<(), TableError> {
        self.shape.check(&entry)?;
        let is_room = |len: usize, most: usize| len < self.shape.capacity.min(most);
        if self.shape.is_exact() {
            let key = exact_key(&entry.key);
            let is_new = self.exact.get(&key).is_none();
            if is_new && !is_room(self.exact.len(), TABLE_ENTRY_COUNT_MAX) {
                return Err(TableError::Full);
            }
            self.exact.set(&key, &entry.data);
            return Ok(());
        }
        let same = |one: &TableEntry| one.key == entry.key && one.priority == entry.priority;
        if let Some(at) = self.listed.iter().position(same) {
            self.listed[at] = entry;
            return Ok(());
        }
        if !is_room(self.listed.len(), LISTED_COUNT_MAX) {
            return Err(TableError::Full);
        }
        let rank = self.rank(&entry);
        let at = self.listed.partition_point(|one| self.rank(one) >= rank);
        self.listed.insert(at, entry);
        Ok(())
    }

    /// Removes the entry of this key, of whatever priority; whether there was one.
    pub fn remove(&mut self, key: &[Pattern]) -> bool {
        if self.shape.is_exact() {
            return key.len() == self.shape.key.len() && self.exact.remove(&exact_key(key));
        }
        let before = self.listed.len();
        self.listed.retain(|entry| entry.key != key);
        self.listed.len() != before
    }

    /// All entries, for people.
    pub fn entries(&self) -> impl Iterator<Item = TableEntry> {
        let exact = self.exact.iter().map(|(key, data)| TableEntry {
            key: key
                .iter()
                .zip(&self.shape.key)
                .map(|(value, (_, width))| Pattern::exact(*value, *width))
                .collect(),
            priority: 0,
            data: data.to_vec(),
        });
        exact.chain(self.listed.iter().cloned())
    }

    /// Order of entries: longer prefixes first, then greater priorities.
    fn rank(&self, entry: &TableEntry) -> (u32, u32) {
        let parts = entry.key.iter().zip(&self.shape.key);
        let prefix = parts.filter(|(_, (kind, _))| *kind == Match::Prefix);
        let bits = prefix.map(|(pattern, _)| match pattern {
            Pattern::Masked(_, mask) => mask.count_ones(),
            Pattern::Range(..) => 0,
        });
        (bits.sum(), entry.priority)
    }
}

fn exact_key(key: &[Pattern]) -> Vec<u128> {
    let value = |pattern: &Pattern| match *pattern {
        Pattern::Masked(bits, _) => bits,
        Pattern::Range(from, _) => from,
    };
    key.iter().map(value).collect()
}
