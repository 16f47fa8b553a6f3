//! Entries of a running program's tables: set and removed, one by one or many at once.
//!
//! Beside packets, for control requests. What follows from a table's entries takes long to make,
//! and so does a table that grows, so they are made where nobody waits for them: a [`Tables`]
//! beside the program knows what stands in its tables, and makes of each request a [`Change`],
//! which the program takes between two bursts.

use crate::Memory;

use super::maglev::refilled;
use super::run::Running;
use super::table::{MatchTable, Pattern, TableEntry, TableError};

/// One change of a program's tables, ready to be taken.
#[derive(Debug)]
pub struct Change {
    table: usize,
    /// None if the table has grown.
    entry: Option<Entry>,
    /// Whole tables: those whose entries follow from it, and the table itself if it has grown, or
    /// if many of its entries change.
    whole: Vec<(usize, MatchTable)>,
}

impl Change {
    fn put(&mut self, tables: &mut [MatchTable]) -> Result<(), TableError> {
        let table = tables.get_mut(self.table).ok_or(TableError::Absent)?;
        if let Some(entry) = &self.entry {
            entry.put(table)?;
        }
        for (at, new) in &mut self.whole {
            if let Some(table) = tables.get_mut(*at) {
                std::mem::swap(table, new);
            }
        }
        Ok(())
    }
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

    /// Sets many entries of a table here; gives what the program is to take: the table whole, so
    /// that none of its packets sees a part of them.
    ///
    /// # Errors
    /// What does not fit; nothing has changed then.
    pub fn set_all(
        &mut self,
        table: usize,
        entries: Vec<TableEntry>,
    ) -> Result<Change, TableError> {
        self.change_all(table, entries.into_iter().map(Entry::Set))
    }

    /// Removes many entries of a table here, as [`Tables::set_all`] sets them.
    ///
    /// # Errors
    /// As [`Tables::remove`], of any of them.
    pub fn remove_all(
        &mut self,
        table: usize,
        keys: Vec<Vec<Pattern>>,
    ) -> Result<Change, TableError> {
        self.change_all(table, keys.into_iter().map(Entry::Removed))
    }

    fn change_all(
        &mut self,
        table: usize,
        entries: impl Iterator<Item = Entry>,
    ) -> Result<Change, TableError> {
        let mut changed = self.0.get(table).ok_or(TableError::Absent)?.clone();
        for entry in entries {
            entry.put(&mut changed)?;
        }
        self.0[table] = changed.clone();
        let mut whole = refilled(&self.0, Some(table));
        for (at, new) in &whole {
            self.0[*at] = new.clone();
        }
        // With room for entries that are set by themselves behind it, beside packets.
        whole.push((table, changed.with_room()));
        Ok(Change {
            table,
            entry: None,
            whole,
        })
    }

    fn change(&mut self, table: usize, entry: Entry) -> Result<Change, TableError> {
        let changed = self.0.get_mut(table).ok_or(TableError::Absent)?;
        let places = changed.place_count();
        entry.put(changed)?;
        let grown = (changed.place_count() != places).then(|| changed.with_room());
        let mut whole = refilled(&self.0, Some(table));
        for (at, new) in &whole {
            self.0[*at] = new.clone();
        }
        let entry = grown.is_none().then_some(entry);
        whole.extend(grown.map(|grown| (table, grown)));
        Ok(Change {
            table,
            entry,
            whole,
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
        change.put(&mut self.loaded.tables)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::table::{Match, TableShape};

    fn shape(capacity: usize) -> TableShape {
        TableShape {
            name: "all".to_owned(),
            key: vec![(Match::Exact, 32)],
            data: vec![("port".to_owned(), 32)],
            default: vec![0],
            entries: Vec::new(),
            capacity,
            maglev: None,
        }
    }

    #[test]
    fn many_entries_change_at_once_or_none_does() {
        let mut here = Tables(vec![MatchTable::new(&shape(100))]);
        let mut running = here.0.clone();
        let entry = |number: u128| TableEntry {
            key: vec![Pattern::exact(number, 32)],
            priority: 0,
            data: vec![number + 1],
        };
        let change = here.set_all(0, (0..100).map(entry).collect());
        change.unwrap().put(&mut running).unwrap();
        assert_eq!((running[0].len(), here.0[0].len()), (100, 100));
        assert_eq!(running[0].lookup(&[99]), Some(&[100][..]));
        let full = here.set_all(0, vec![entry(7), entry(100)]).unwrap_err();
        let keys = |from: u128, to: u128| (from..to).map(|at| entry(at).key).collect();
        let absent = here.remove_all(0, keys(50, 101)).unwrap_err();
        assert_eq!((full, absent), (TableError::Full, TableError::Absent));
        assert_eq!(here.0[0].len(), 100, "nothing has changed");
        let change = here.remove_all(0, keys(50, 100));
        change.unwrap().put(&mut running).unwrap();
        assert_eq!((running[0].len(), running[0].lookup(&[50])), (50, None));
    }

    #[test]
    fn a_table_that_grows_comes_whole() {
        let count = (1 << 16) + 100;
        let shape = shape(count);
        let mut here = Tables(vec![MatchTable::new(&shape)]);
        let mut running = here.0.clone();
        let mut whole = 0;
        for number in 0..count as u128 {
            let entry = TableEntry {
                key: vec![Pattern::exact(number, 32)],
                priority: 0,
                data: vec![number + 1],
            };
            let mut change = here.set(0, entry).unwrap();
            whole += change.whole.len();
            let places = running[0].place_count();
            let is_moved = change.entry.is_none();
            change.put(&mut running).unwrap();
            assert_eq!(running[0].place_count() != places, is_moved, "{number}");
        }
        assert_eq!((whole, running[0].len()), (1, count));
        for number in [0, 1 << 15, 1 << 16, count as u128 - 1] {
            assert_eq!(running[0].lookup(&[number]), Some(&[number + 1][..]));
        }
        let key = [Pattern::exact(1 << 16, 32)];
        here.remove(0, &key).unwrap().put(&mut running).unwrap();
        assert_eq!(running[0].lookup(&[1 << 16]), None);
    }
}
