//! Tables and templates of a document.
//!
//! Part of making a program: what entries and packets are written as becomes numbers and bytes.

use std::collections::BTreeMap;

use crate::program::field::ones;
use crate::program::header::Header;
use crate::program::ir::Width;
use crate::program::maglev::{BACKEND_COUNT_MAX, MAGLEV_SLOT_COUNT_MAX, is_prime};
use crate::program::table::{Maglev, Match, TableEntry, TableShape};
use crate::program::template::Template;

use super::compile::Compiling;
use super::model::{EntryModel, MaglevModel, TableModel, Text};
use super::names::{ElementNames, Meaning};
use super::pattern::pattern;

impl Compiling<'_> {
    pub(super) fn table(&mut self, name: &str, model: &TableModel) {
        let path = format!("tables.{name}");
        if Header::named(name).is_some() || ["flow", "global", "meta", "packet"].contains(&name) {
            let message = format!("{name} is a name of something else");
            self.problems
                .error(&path, message, "name the table otherwise");
        }
        let mut key = Vec::new();
        for (number, text) in model.key.iter().enumerate() {
            let mut words = text.split_whitespace();
            let kind = match words.next() {
                Some("exact") => Some(Match::Exact),
                Some("prefix") => Some(Match::Prefix),
                Some("ternary") => Some(Match::Ternary),
                Some("range") => Some(Match::Range),
                _ => None,
            };
            let width = words.next().and_then(|word| word.parse().ok());
            match (
                kind,
                width.filter(|width| (1..=128).contains(width)),
                words.next(),
            ) {
                (Some(kind), Some(width), None) => key.push((kind, width)),
                _ => self.problems.error(
                    &format!("{path}.key[{number}]"),
                    format!("\"{text}\" is no key"),
                    "write exact, prefix, ternary or range, and a number of bits",
                ),
            }
        }
        let data: Vec<(String, Width)> = model
            .data
            .iter()
            .map(|(name, width)| (name.clone(), *width))
            .collect();
        let mut shape = TableShape {
            name: name.to_owned(),
            key,
            default: vec![0; data.len()],
            data,
            entries: Vec::new(),
            capacity: model
                .maglev
                .as_ref()
                .map_or(model.size, |of| of.slots as usize),
            maglev: None,
        };
        let default = self.data(&format!("{path}.default"), &shape, &model.default);
        shape.default = default.unwrap_or_else(|| vec![0; shape.data.len()]);
        for (number, entry) in model.entries.iter().enumerate() {
            let path = format!("{path}.entries[{number}]");
            if let Some(entry) = self.entry(&path, &shape, entry) {
                shape.entries.push(entry);
            }
        }
        if shape.entries.len() > shape.capacity {
            self.problems.error(
                &path,
                "it has more entries than its size",
                "write a larger size",
            );
        }
        self.names.tables.push(shape);
    }

    /// Says of tables whose entries follow from another one's which one that is.
    pub(super) fn derived_tables(&mut self) {
        for (at, (name, model)) in self.document.tables.iter().enumerate() {
            let Some(derived) = &model.maglev else {
                continue;
            };
            let path = format!("tables.{name}.maglev");
            match self.maglev(at, derived) {
                Ok(maglev) => self.names.tables[at].maglev = Some(maglev),
                Err((message, repair)) => self.problems.error(&path, message, repair),
            }
        }
    }

    fn maglev(&self, at: usize, model: &MaglevModel) -> Result<Maglev, (String, String)> {
        let fault = |message: String, repair: &str| Err((message, repair.to_owned()));
        let tables = &self.names.tables;
        let Some(of) = tables.iter().position(|table| table.name == model.of) else {
            let message = format!("there is no table {}", model.of);
            return fault(message, "name one of tables");
        };
        let own = &tables[at];
        let (&[(Match::Exact, width)], true) = (&*tables[of].key, of != at) else {
            let message = format!("{} has no key of one exact part", model.of);
            return fault(message, "name a table with a key like [exact 8]");
        };
        let names = self.document.tables.get(&model.of);
        if names.is_some_and(|other| other.maglev.is_some()) || !own.entries.is_empty() {
            let message = "entries are either written, or follow from a table of such".to_owned();
            return fault(message, "remove one of the two");
        }
        if tables[of].capacity > BACKEND_COUNT_MAX {
            let message = format!("{} may have too many entries", model.of);
            return fault(message, "give it a size to 1024");
        }
        let is_right = matches!(&*own.key, [(Match::Exact, _)])
            && matches!(&*own.data, [(_, datum)] if *datum == width);
        if !is_right {
            let message = "slots are numbers, and lead to keys of the other table".to_owned();
            let repair = format!("write key: [exact 16] and one datum of {width} bits");
            return fault(message, &repair);
        }
        let most = own.key.first().map_or(0, |(_, width)| ones(*width));
        let fits = model.slots <= MAGLEV_SLOT_COUNT_MAX
            && u128::from(model.slots) <= most.saturating_add(1);
        if !is_prime(model.slots) || !fits {
            let message = format!("there cannot be {} slots", model.slots);
            return fault(
                message,
                "write a prime number to 4093 that the key can tell apart",
            );
        }
        let weight = match &model.weight {
            None => None,
            Some(name) => {
                let data = &tables[of].data;
                let Some(at) = data.iter().position(|(known, _)| known == name) else {
                    let message = format!("the table {} has no {name}", model.of);
                    return fault(message, "name one of its data");
                };
                Some(at as u8)
            }
        };
        Ok(Maglev {
            of: of as u16,
            weight,
            slots: model.slots,
        })
    }

    fn data(
        &mut self,
        path: &str,
        shape: &TableShape,
        given: &BTreeMap<String, Text>,
    ) -> Option<Vec<u128>> {
        let mut data = shape.default.clone();
        let mut is_right = true;
        for (name, text) in given {
            let path = format!("{path}.{name}");
            let value = self.number(&path, text);
            let Some(at) = shape.data.iter().position(|(known, _)| known == name) else {
                let repair = "name one of the table's data";
                self.problems
                    .error(&path, format!("the table has no {name}"), repair);
                is_right = false;
                continue;
            };
            match value {
                Some(value) if value <= ones(shape.data[at].1) => data[at] = value,
                Some(_) => {
                    let message = format!("it does not fit {} bits", shape.data[at].1);
                    self.problems
                        .error(&path, message, "write a smaller number");
                    is_right = false;
                }
                None => is_right = false,
            }
        }
        is_right.then_some(data)
    }

    fn entry(&mut self, path: &str, shape: &TableShape, model: &EntryModel) -> Option<TableEntry> {
        let mut key = Vec::new();
        for (number, (text, (kind, width))) in model.key.iter().zip(&shape.key).enumerate() {
            let path = format!("{path}.key[{number}]");
            match pattern(&self.names, &text.text(), *kind, *width) {
                Ok(pattern) => key.push(pattern),
                Err(message) => {
                    let repair = "write 80, 10.0.0.0/8, 0x02/0x12, 1024-65535 or any";
                    self.problems.error(&path, message, repair);
                }
            }
        }
        let data = self.data(&format!("{path}.data"), shape, &model.data)?;
        let entry = TableEntry {
            key,
            priority: model.priority,
            data,
        };
        match shape.check(&entry) {
            Ok(()) => Some(entry),
            Err(error) => {
                let repair = "give a pattern for each part of the table's key";
                self.problems.error(path, error.to_string(), repair);
                None
            }
        }
    }

    pub(super) fn templates(&mut self) {
        for (name, model) in &self.document.templates {
            let path = format!("templates.{name}");
            let Some(bytes) = hex(&model.packet) else {
                let repair = "write pairs of hexadecimal digits";
                self.problems
                    .error(&format!("{path}.packet"), "these are no bytes", repair);
                continue;
            };
            let mut fields = Vec::new();
            let mut names = Vec::new();
            for (number, field) in model.fields.iter().enumerate() {
                match self.names.meaning(&ElementNames::default(), field) {
                    Some(Meaning::Field(found, true)) => {
                        fields.push(found);
                        names.push(field.clone());
                    }
                    _ => {
                        let path = format!("{path}.fields[{number}]");
                        let message = format!("{field} is no field that is written");
                        self.problems
                            .error(&path, message, "name one like ipv4.dst");
                    }
                }
            }
            match Template::new(name, bytes, fields) {
                Some(template) => {
                    self.names.templates.push(template);
                    self.names.template_fields.push(names);
                }
                None => self.problems.error(
                    &path,
                    "the packet is malformed, too long, or lacks a header of its fields",
                    "write a whole packet of at most 1514 bytes, and at most 16 fields",
                ),
            }
        }
    }
}

/// Bytes in hexadecimal, blanks between them.
pub fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).map(|digit| digit as u8))
        .collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    rest.is_empty()
        .then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

/// Bytes in hexadecimal, as [`hex`] reads them.
pub fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}
