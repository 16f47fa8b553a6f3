//! Finds the first of up to 4096 rules that a packet fits, by intersecting bit vectors.
//!
//! Every field cuts its values into intervals within which the same rules fit; each interval has a
//! row of one bit per rule, first rule first. A search finds the interval of each field by
//! bisection and takes the lowest bit that is set in all rows. Beside each interval lies its row's
//! summary, whose bit i says that word i is not zero, so that the words worth reading are known
//! from the summaries alone:
//!
//! ```text
//! interval: summary, row -> | word 0: rules 0-63 | word 1: rules 64-127 | ... | word 63
//! ```
//!
//! The method is that of Lakshman and Stiliadis (SIGCOMM 1998), the summary that of Baboescu and
//! Varghese (SIGCOMM 2001). Fields that no rule asks for are not searched; equal rows are stored
//! once. At worst, 4096 rules that share no border, a field has 8193 rows of 512 bytes.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use catena_wire::ip::Addresses;

use super::fields::Prefix;
use super::key::{ANY, FIELD_COUNT, Key};
use super::rule::Match;

const WORD_BITS: usize = u64::BITS as usize;

/// Most rules: one summary word of one bit per word.
pub(crate) const RULE_COUNT_MAX: usize = WORD_BITS * WORD_BITS;

/// Most rows that one search intersects: two addresses and all other fields.
const ROW_COUNT_MAX: usize = 2 + FIELD_COUNT;

/// One row: which rules fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    /// Bit i: word i is not zero.
    summary: u64,
    /// Where its words start in [`Search::words`].
    start: usize,
}

/// Sets of rules being turned into rows, equal ones once.
#[derive(Debug)]
struct RowsBuilder {
    words: Vec<u64>,
    /// Words of a row.
    word_count: usize,
    known: HashMap<Vec<u64>, Row>,
}

impl RowsBuilder {
    /// The row of `set`, which has one bit per rule.
    fn row(&mut self, set: &[u64]) -> Row {
        if let Some(row) = self.known.get(set) {
            return *row;
        }
        let occupied = set.iter().enumerate().filter(|(_, word)| **word != 0);
        let row = Row {
            summary: occupied.fold(0, |summary, (index, _)| summary | 1 << index),
            start: self.words.len(),
        };
        self.words.extend(set);
        self.known.insert(set.to_vec(), row);
        row
    }
}

/// A value of a field.
trait Value: Copy + Ord {
    const MIN: Self;
    /// The next greater value, if there is one.
    fn next(self) -> Option<Self>;
}

impl Value for u32 {
    const MIN: Self = 0;
    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }
}

impl Value for u128 {
    const MIN: Self = 0;
    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }
}

/// The intervals of one field.
#[derive(Debug)]
struct Field<V> {
    /// First value of each interval, ascending; the first is the least value of all.
    starts: Vec<V>,
    /// Row of each interval.
    rows: Vec<Row>,
}

impl<V: Value> Field<V> {
    /// The intervals of a field for which rule i wants values within `ranges[i]`, or fits none.
    fn new(ranges: &[Option<RangeInclusive<V>>], builder: &mut RowsBuilder) -> Self {
        let mut borders = Vec::with_capacity(2 * ranges.len());
        for (rule, range) in ranges.iter().enumerate() {
            let Some(range) = range else { continue };
            borders.push((*range.start(), rule));
            borders.extend(range.end().next().map(|after| (after, rule)));
        }
        borders.sort_unstable();
        let mut field = Self {
            starts: Vec::new(),
            rows: Vec::new(),
        };
        let mut set = vec![0; builder.word_count];
        let mut start = V::MIN;
        for (border, rule) in borders {
            if border != start {
                field.push(start, builder.row(&set));
                start = border;
            }
            // A rule's first border is where it begins to fit, the second where it ceases to.
            set[rule / WORD_BITS] ^= 1 << (rule % WORD_BITS);
        }
        field.push(start, builder.row(&set));
        field
    }

    fn push(&mut self, start: V, row: Row) {
        if self.rows.last() != Some(&row) {
            self.starts.push(start);
            self.rows.push(row);
        }
    }

    #[inline]
    fn row(&self, value: V) -> Row {
        let after = self.starts.partition_point(|start| *start <= value);
        // The first interval starts at the least value, so at least one starts before `value`.
        self.rows[after - 1]
    }
}

/// Rules in order, ready to search.
#[derive(Debug)]
pub(super) struct Search {
    /// The words of all rows.
    words: Vec<u64>,
    src_v4: Field<u32>,
    dst_v4: Field<u32>,
    src_v6: Field<u128>,
    dst_v6: Field<u128>,
    /// Rules that ask for no address, for packets that have none.
    without_addresses: Row,
    /// Fields that some rule asks for, with their index in a key.
    fields: Vec<(usize, Field<u32>)>,
}

impl Search {
    /// Prepares at most [`RULE_COUNT_MAX`] rules, the first to match first.
    pub(super) fn new(rules: &[Match]) -> Self {
        assert!(rules.len() <= RULE_COUNT_MAX, "one summary bit per word");
        let word_count = rules.len().div_ceil(WORD_BITS);
        let mut builder = RowsBuilder {
            words: Vec::new(),
            word_count,
            known: HashMap::new(),
        };
        let src = |rule: &Match| rule.src;
        let dst = |rule: &Match| rule.dst;
        let src_v4 = address_field(rules, src, Prefix::range_v4, false, ANY, &mut builder);
        let dst_v4 = address_field(rules, dst, Prefix::range_v4, false, ANY, &mut builder);
        let any_v6 = 0..=u128::MAX;
        let src_v6 = address_field(
            rules,
            src,
            Prefix::range_v6,
            true,
            any_v6.clone(),
            &mut builder,
        );
        let dst_v6 = address_field(rules, dst, Prefix::range_v6, true, any_v6, &mut builder);
        let mut without_addresses = vec![0; word_count];
        for (index, rule) in rules.iter().enumerate() {
            if rule.src.or(rule.dst).is_none() {
                without_addresses[index / WORD_BITS] |= 1 << (index % WORD_BITS);
            }
        }
        let without_addresses = builder.row(&without_addresses);
        let ranges: Vec<_> = rules.iter().map(Match::field_ranges).collect();
        let asked = |index: &usize| ranges.iter().any(|ranges| ranges[*index] != ANY);
        let fields = (0..FIELD_COUNT).filter(asked).map(|index| {
            let ranges: Vec<_> = ranges.iter().map(|all| Some(all[index].clone())).collect();
            (index, Field::new(&ranges, &mut builder))
        });
        Self {
            fields: fields.collect(),
            words: builder.words,
            src_v4,
            dst_v4,
            src_v6,
            dst_v6,
            without_addresses,
        }
    }

    /// Index of the first rule that `key` fits.
    #[inline]
    pub(super) fn first(&self, key: &Key) -> Option<usize> {
        let (src, dst) = match &key.addresses {
            Some(Addresses::V4 { src, dst }) => (
                self.src_v4.row(src.to_bits()),
                self.dst_v4.row(dst.to_bits()),
            ),
            Some(Addresses::V6 { src, dst }) => (
                self.src_v6.row(src.to_bits()),
                self.dst_v6.row(dst.to_bits()),
            ),
            None => (self.without_addresses, self.without_addresses),
        };
        let mut summary = src.summary & dst.summary;
        let mut starts = [0; ROW_COUNT_MAX];
        (starts[0], starts[1]) = (src.start, dst.start);
        for (start, (index, field)) in starts[2..].iter_mut().zip(&self.fields) {
            let row = field.row(key.fields[*index]);
            summary &= row.summary;
            *start = row.start;
        }
        let starts = &starts[..2 + self.fields.len()];
        while summary != 0 {
            let word = summary.trailing_zeros() as usize;
            let words = starts.iter().map(|start| self.words[start + word]);
            let fitting = words.fold(u64::MAX, |all, word| all & word);
            if fitting != 0 {
                return Some(word * WORD_BITS + fitting.trailing_zeros() as usize);
            }
            summary &= summary - 1;
        }
        None
    }
}

/// The intervals of one address of one IP version. A rule that asks for an address of the other
/// version, here or at the other end, fits none of them.
fn address_field<V: Value>(
    rules: &[Match],
    prefix: impl Fn(&Match) -> Option<Prefix>,
    range: impl Fn(&Prefix) -> RangeInclusive<V>,
    is_v6: bool,
    any: RangeInclusive<V>,
    builder: &mut RowsBuilder,
) -> Field<V> {
    let ranges = rules.iter().map(|rule| {
        let mut prefixes = [rule.src, rule.dst].into_iter().flatten();
        if prefixes.any(|prefix| prefix.address.is_ipv6() != is_v6) {
            return None;
        }
        Some(prefix(rule).map_or(any.clone(), |prefix| range(&prefix)))
    });
    Field::new(&ranges.collect::<Vec<_>>(), builder)
}
