//! Where two packets differ, for people: rows of bytes, and the fields that are not the same.
//!
//! Behind a test that has failed.

use crate::program::field;
use crate::program::header::{Field, HEADERS, Header, Headers};
use crate::program::value::Kind;

const ROW_LEN: usize = 16;
/// Rows and fields that are shown, at most.
const ROW_COUNT_MAX: usize = 8;
const FIELD_COUNT_MAX: usize = 12;

/// Lines that show it: rows of which some byte differs, and fields.
pub(super) fn lines(expected: &[u8], found: &[u8]) -> Vec<String> {
    let mut lines = rows(expected, found);
    lines.extend(fields(expected, found));
    lines
}

fn rows(expected: &[u8], found: &[u8]) -> Vec<String> {
    let len = expected.len().max(found.len());
    let starts = (0..len).step_by(ROW_LEN);
    let row = |bytes: &[u8], start: usize| -> Vec<Option<u8>> {
        (start..len.min(start + ROW_LEN))
            .map(|at| bytes.get(at).copied())
            .collect()
    };
    let differing: Vec<usize> = starts
        .filter(|start| row(expected, *start) != row(found, *start))
        .collect();
    let mut lines = Vec::new();
    for start in differing.iter().take(ROW_COUNT_MAX) {
        let (a, b) = (row(expected, *start), row(found, *start));
        let marks: Vec<&str> = a
            .iter()
            .zip(&b)
            .map(|(a, b)| if a == b { "  " } else { "^^" })
            .collect();
        lines.push(format!("{start:#06x} expected {}", digits(&a)));
        lines.push(format!("       came     {}", digits(&b)));
        lines.push(
            format!("                {}", marks.join(" "))
                .trim_end()
                .to_owned(),
        );
    }
    if let Some(more @ 1..) = differing.len().checked_sub(ROW_COUNT_MAX) {
        lines.push(format!("and {more} more rows of 16 bytes"));
    }
    lines
}

fn digits(row: &[Option<u8>]) -> String {
    let pairs = row
        .iter()
        .map(|byte| byte.map_or("--".to_owned(), |byte| format!("{byte:02x}")));
    pairs.collect::<Vec<_>>().join(" ")
}

/// Fields that both packets have and that are not the same in them.
fn fields(expected: &[u8], found: &[u8]) -> Vec<String> {
    let (a, b) = (Headers::parse(expected), Headers::parse(found));
    let is_twice = |header: Header| {
        // Ports are those of TCP or UDP.
        matches!(header, Header::Ports | Header::InnerPorts)
    };
    let common = HEADERS
        .into_iter()
        .filter(|header| a.has(*header) && b.has(*header) && !is_twice(*header));
    let mut lines = Vec::new();
    for header in common {
        for named in field::fields(header) {
            let of = Field {
                header,
                bit: named.bit,
                width: named.width,
            };
            let values = [field::read(expected, &a, of), field::read(found, &b, of)];
            if values[0] != values[1] && lines.len() < FIELD_COUNT_MAX {
                let [expected, found] = values.map(|value| Kind::of(of).show(value));
                let name = format!("{}.{}", header.name(), named.name);
                lines.push(format!("{name}: expected {expected}, came {found}"));
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_fields_that_differ_are_shown() {
        let frame = crate::packet_test::tests::frame();
        let mut other = frame.clone();
        other[33] = 9;
        other.push(7);
        let lines = lines(&frame, &other);
        assert_eq!(
            lines,
            [
                "0x0020 expected 00 02 00 05 00 35 00 08 eb a1 --",
                "       came     00 09 00 05 00 35 00 08 eb a1 07",
                "                   ^^                         ^^",
                "ipv4.dst: expected 10.0.0.2, came 10.0.0.9",
            ],
            "{lines:#?}"
        );
        assert!(super::lines(&frame, &frame).is_empty());
        let many = super::lines(&[0; 400], &[1; 400]);
        assert!(
            many.contains(&"and 17 more rows of 16 bytes".to_owned()),
            "{many:#?}"
        );
    }
}
