//! Entries of a running program's tables: set and removed one by one.
//!
//! Beside packets, for control requests. What follows from a table's entries takes long to make, so
//! it is made where nobody waits for it: a [`Tables`] beside the program knows what stands in its
//! tables, and makes of each request a [`Change`], which the program takes between two bursts.

use crate::Memory;

use super::maglev::refilled;
use super::run::Running;
use super::table::{MatchTable, Pattern, TableEntry, TableError};

/// One change of a program's tables, ready to be taken.
#[derive(Debug)]
pub struct Change {
    table: usize,
    entry: Entry,
    /// Tables whose entries follow from it, whole.
    derived: Vec<(usize, MatchTable)>,
}

#[derive(Debug)]
enum Entry {
    Set(TableEntry),
    Removed(Vec<Pattern>),
}

impl Entry {
    fn put(&self, table: &mut MatchTable) -> Result<(), TableError> {
        match self {
            Self::Set(entry) => table.set(entry.clone()),
            Self::Removed(_) if table.shape().maglev.is_some() => Err(TableError::Derived),
            Self::Removed(key) if table.remove(key) => Ok(()),
            Self::Removed(_) => Err(TableError::Absent),
        }
    }
}

/// Tables as a program has them, kept beside it.
#[derive(Clone, Debug)]
pub struct Tables(Vec<MatchTable>);

impl Tables {
    /// Those of a program with the entries that it has now.
    pub fn of(tables: &[MatchTable]) -> Self {
        Self(tables.to_vec())
    }

    /// All of them.
    pub fn all(&self) -> &[MatchTable] {
        &self.0
    }

    /// Sets an entry of a table here; gives what the program is to take.
    ///
    /// # Errors
    /// What does not fit; nothing has changed then.
    pub fn set(&mut self, table: usize, entry: TableEntry) -> Result<Change, TableError> {
        self.change(table, Entry::Set(entry))
    }

    /// Removes an entry of a table here; gives what the program is to take.
    ///
    /// # Errors
    /// There is none, or it is not set by anybody; nothing has changed then.
    pub fn remove(&mut self, table: usize, key: &[Pattern]) -> Result<Change, TableError> {
        self.change(table, Entry::Removed(key.to_vec()))
    }

    fn change(&mut self, table: usize, entry: Entry) -> Result<Change, TableError> {
        entry.put(self.0.get_mut(table).ok_or(TableError::Absent)?)?;
        let derived = refilled(&self.0, Some(table));
        for (at, new) in &derived {
            self.0[*at] = new.clone();
        }
        Ok(Change {
            table,
            entry,
            derived,
        })
    }
}

impl<M: Memory> Running<M> {
    /// Takes a change that was made of its tables as they are. What it does not need any more is
    /// left in the change, for whoever has time to free it.
    ///
    /// # Errors
    /// The change was made of other tables; nothing has changed then.
    pub fn take(&mut self, change: &mut Change) -> Result<(), TableError> {
        let tables = &mut self.loaded.tables;
        let table = tables.get_mut(change.table).ok_or(TableError::Absent)?;
        change.entry.put(table)?;
        for (at, new) in &mut change.derived {
            if let Some(table) = tables.get_mut(*at) {
                std::mem::swap(table, new);
            }
        }
        Ok(())
    }

    /// Sets an entry of a table, with those that follow from it: for whoever has nobody beside the
    /// program.
    ///
    /// # Errors
    /// What does not fit; nothing has changed then.
    pub fn set_entry(&mut self, table: usize, entry: TableEntry) -> Result<(), TableError> {
        let mut change = Tables::of(self.tables()).set(table, entry)?;
        self.take(&mut change)
    }

    /// Removes an entry of a table, as [`Running::set_entry`] sets one.
    ///
    /// # Errors
    /// There is none, or it is not set by anybody; nothing has changed then.
    pub fn remove_entry(&mut self, table: usize, key: &[Pattern]) -> Result<(), TableError> {
        let mut change = Tables::of(self.tables()).remove(table, key)?;
        self.take(&mut change)
    }
}
