//! Entries of a running program's tables: set and removed one by one.
//!
//! Between bursts, for control requests. What follows from a table's entries is made anew with
//! them.

use crate::Memory;

use super::maglev::refill;
use super::run::Running;
use super::table::{Pattern, TableEntry, TableError};

impl<M: Memory> Running<M> {
    /// Sets an entry of a table; those that follow from it are made anew.
    ///
    /// # Errors
    /// What does not fit; nothing has changed then.
    pub fn set_entry(&mut self, table: usize, entry: TableEntry) -> Result<(), TableError> {
        let tables = &mut self.loaded.tables;
        tables
            .get_mut(table)
            .ok_or(TableError::Absent)?
            .set(entry)?;
        refill(tables, Some(table));
        Ok(())
    }

    /// Removes an entry of a table; those that follow from it are made anew.
    ///
    /// # Errors
    /// There is none, or it is not set by anybody; nothing has changed then.
    pub fn remove_entry(&mut self, table: usize, key: &[Pattern]) -> Result<(), TableError> {
        let tables = &mut self.loaded.tables;
        let one = tables.get_mut(table).ok_or(TableError::Absent)?;
        if one.shape().maglev.is_some() {
            return Err(TableError::Derived);
        }
        if !one.remove(key) {
            return Err(TableError::Absent);
        }
        refill(tables, Some(table));
        Ok(())
    }
}
