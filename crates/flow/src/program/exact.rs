//! Entries of a table by their whole key: numbers that somebody sets, found by a keyed hash.
//!
//! On the data path beside flows, under [`MatchTable`](super::table::MatchTable). Keys and data lie
//! in rows, places of rows in an open table that is at most half full, so that a lookup reads a
//! place and a row. Packets choose what is looked up, so the hash has a secret.

use crate::hash::{KeyedHash, random_seed};

/// Places of the smallest table.
const PLACES_MIN: usize = 8;
/// Rows for which there is room from the beginning, at most: a table that grows beyond them moves.
const ROWS_READY: usize = 1 << 16;

/// Keys of so many parts with so many data each.
#[derive(Clone, Debug)]
pub(super) struct Exact {
    parts: usize,
    data: usize,
    hash: KeyedHash,
    /// Of a power of two: number of a row plus 1, or 0.
    places: Vec<u32>,
    /// Keys and data of all rows.
    rows: Vec<u128>,
    count: usize,
}

impl Exact {
    /// An empty one, for so many entries.
    pub(super) fn new(parts: usize, data: usize, capacity: usize) -> Self {
        let ready = capacity.min(ROWS_READY);
        Self {
            parts,
            data,
            hash: KeyedHash::new(random_seed()),
            places: vec![0; (ready * 2).next_power_of_two().max(PLACES_MIN)],
            rows: Vec::with_capacity(ready * (parts + data)),
            count: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Among how many places rows are: they all move when there are more.
    pub(super) fn place_count(&self) -> usize {
        self.places.len()
    }

    /// The same, with room for as many rows as its places allow.
    pub(super) fn with_room(&self) -> Self {
        let mut rows = Vec::with_capacity(self.places.len() / 2 * self.width());
        rows.extend_from_slice(&self.rows);
        Self {
            rows,
            ..self.clone()
        }
    }

    /// The data of a key.
    #[inline]
    pub(super) fn get(&self, key: &[u128]) -> Option<&[u128]> {
        let row = self.row(self.find(key)?);
        row.get(self.parts..)
    }

    /// Gives a key data, in place of any that it has. Both are as long as was said.
    pub(super) fn set(&mut self, key: &[u128], data: &[u128]) {
        if let Some(place) = self.find(key) {
            let at = self.start(place) + self.parts;
            self.rows[at..at + self.data].copy_from_slice(data);
            return;
        }
        self.rows.extend_from_slice(key);
        self.rows.extend_from_slice(data);
        self.count += 1;
        if self.count * 2 > self.places.len() {
            self.places = vec![0; self.places.len() * 2];
            (0..self.count).for_each(|row| self.enter(row));
        } else {
            self.enter(self.count - 1);
        }
    }

    /// Removes a key; whether it was there.
    pub(super) fn remove(&mut self, key: &[u128]) -> bool {
        let Some(place) = self.find(key) else {
            return false;
        };
        let (row, last) = (self.places[place] as usize - 1, self.count - 1);
        self.close(place);
        if row != last {
            // The last row moves here, so that there are no holes.
            let place = self.place_of(last, last as u32 + 1);
            self.places[place] = row as u32 + 1;
            let width = self.width();
            self.rows.copy_within(last * width.., row * width);
        }
        self.rows.truncate(last * self.width());
        self.count = last;
        true
    }

    /// All keys with their data.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u128], &[u128])> {
        let width = self.width().max(1);
        let rows = self.rows.chunks_exact(width);
        rows.map(|row| row.split_at(self.parts))
    }

    fn width(&self) -> usize {
        self.parts + self.data
    }

    /// First place of a key, and of those behind it the one to look at next.
    #[inline]
    fn home(&self, key: &[u128]) -> usize {
        let mut sum = 0;
        for value in key {
            sum = self
                .hash
                .hash_words(&[*value as u64, (*value >> 64) as u64, sum]);
        }
        sum as usize & (self.places.len() - 1)
    }

    #[inline]
    fn find(&self, key: &[u128]) -> Option<usize> {
        let mut place = self.home(key);
        // Half of all places are empty, so it ends before.
        for _ in 0..self.places.len() {
            if *self.places.get(place)? == 0 {
                return None;
            }
            if self.row(place).get(..self.parts) == Some(key) {
                return Some(place);
            }
            place = (place + 1) & (self.places.len() - 1);
        }
        None
    }

    #[inline]
    fn start(&self, place: usize) -> usize {
        (self.places[place] as usize - 1) * self.width()
    }

    #[inline]
    fn row(&self, place: usize) -> &[u128] {
        let start = self.start(place);
        self.rows.get(start..start + self.width()).unwrap_or(&[])
    }

    /// Puts a row into the first place that is empty.
    fn enter(&mut self, row: usize) {
        let place = self.place_of(row, 0);
        self.places[place] = row as u32 + 1;
    }

    /// The first place on a row's way that holds a number.
    fn place_of(&self, row: usize, number: u32) -> usize {
        let mut place = self.home(&self.rows[row * self.width()..][..self.parts]);
        while self.places[place] != number {
            place = (place + 1) & (self.places.len() - 1);
        }
        place
    }

    /// Empties a place; what was behind it for want of room moves up.
    fn close(&mut self, mut empty: usize) {
        let last = self.places.len() - 1;
        let mut place = (empty + 1) & last;
        while self.places[place] != 0 {
            let home = self.home(&self.row(place)[..self.parts]);
            // Whether its way from its first place to here leads over the empty one.
            if (place.wrapping_sub(home) & last) >= (place.wrapping_sub(empty) & last) {
                self.places[empty] = self.places[place];
                empty = place;
            }
            place = (place + 1) & last;
        }
        self.places[empty] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Random;
    use std::collections::BTreeMap;

    #[test]
    fn a_table_keeps_what_a_map_keeps() {
        let mut random = Random(77);
        for parts in 1..=3 {
            let (mut table, mut map) = (Exact::new(parts, 2, 100), BTreeMap::new());
            for step in 0..20_000_u128 {
                // Few keys, so that they come back, and some that differ in their upper half only.
                let key: Vec<u128> = (0..parts)
                    .map(|_| u128::from(random.below(14)) << (64 * random.below(2)))
                    .collect();
                match random.below(20) {
                    0..=9 => assert_eq!(table.remove(&key), map.remove(&key).is_some()),
                    _ => {
                        table.set(&key, &[step, !step]);
                        map.insert(key.clone(), vec![step, !step]);
                    }
                }
                assert_eq!(table.get(&key), map.get(&key).map(|data| &**data));
                assert_eq!(table.len(), map.len());
                if step % 100 == 0 {
                    let all: BTreeMap<Vec<u128>, Vec<u128>> = table
                        .iter()
                        .map(|(key, data)| (key.to_vec(), data.to_vec()))
                        .collect();
                    assert_eq!(all, map);
                    assert!(map.iter().all(|(key, data)| table.get(key) == Some(data)));
                }
            }
        }
    }
}
