// SPDX-License-Identifier: Apache-2.0
//! TCP options, read one after another from the bytes between the fixed header and the data.
//!
//! Specification: RFC 9293 3.2 (format, end, no-operation, MSS), RFC 7323 2.2 and 3.2 (window
//! scale, timestamps), RFC 2018 2 and 3 (selective acknowledgment).
//!
//! Deliberately unsupported: all other kinds, which are shown as [`TcpOption::Other`].

use crate::{Layer, ParseError, Reason, field};

/// One option. End-of-list and no-operation are not shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpOption<'a> {
    /// Kind 2: the greatest segment the sender accepts, in bytes of data (RFC 9293 3.7.1).
    MaximumSegmentSize(u16),
    /// Kind 3: how far to shift the windows the sender announces, in bits. At most 14 counts
    /// (RFC 7323 2.3); the value is shown as sent.
    WindowScale(u8),
    /// Kind 4: the sender understands kind 5.
    SackPermitted,
    /// Kind 5: the received blocks, see [`sack_blocks`].
    Sack(&'a [u8]),
    /// Kind 8.
    Timestamps {
        /// The sender's clock.
        value: u32,
        /// The newest value received from the other end.
        echo_reply: u32,
    },
    /// Any other kind.
    Other {
        /// The kind.
        kind: u8,
        /// What follows kind and length, 0 to 38 bytes.
        data: &'a [u8],
    },
}

/// Iterator over options. Ends at the end-of-list option, at the end of the bytes, or after the
/// first error.
#[derive(Clone, Debug)]
pub struct TcpOptions<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> TcpOptions<'a> {
    /// Starts at the front of `bytes`, the option part of a header.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0 }
    }

    /// Where the next option starts, in bytes from the front of the option part. Asked before
    /// `next`, it tells where the option that comes stands, no-operations before it included.
    #[inline]
    pub const fn offset(&self) -> usize {
        self.offset
    }

    fn read(rest: &'a [u8]) -> Result<(TcpOption<'a>, usize), Reason> {
        let &[kind, len, ..] = rest else {
            return Err(Reason::Truncated);
        };
        let len = usize::from(len);
        // RFC 9293 3.2: the length counts the two bytes before the data.
        if len < 2 {
            return Err(Reason::BadLength);
        }
        let data = rest.get(2..len).ok_or(Reason::Truncated)?;
        let option = match (kind, data.len()) {
            (MAXIMUM_SEGMENT_SIZE, 2) => TcpOption::MaximumSegmentSize(field::u16(data, 0..2)),
            (WINDOW_SCALE, 1) => TcpOption::WindowScale(data[0]),
            (SACK_PERMITTED, 0) => TcpOption::SackPermitted,
            (SACK, 8 | 16 | 24 | 32) => TcpOption::Sack(data),
            (TIMESTAMPS, 8) => TcpOption::Timestamps {
                value: field::u32(data, 0..4),
                echo_reply: field::u32(data, 4..8),
            },
            (MAXIMUM_SEGMENT_SIZE | WINDOW_SCALE | SACK_PERMITTED | SACK | TIMESTAMPS, _) => {
                return Err(Reason::BadLength);
            }
            _ => TcpOption::Other { kind, data },
        };
        Ok((option, len))
    }
}

impl<'a> Iterator for TcpOptions<'a> {
    type Item = Result<TcpOption<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.bytes.get(self.offset) == Some(&NO_OPERATION) {
            self.offset += 1;
        }
        let rest = &self.bytes[self.offset..];
        if rest.first().is_none_or(|&kind| kind == END_OF_LIST) {
            self.offset = self.bytes.len();
            return None;
        }
        match Self::read(rest) {
            Ok((option, len)) => {
                self.offset += len;
                Some(Ok(option))
            }
            Err(reason) => {
                self.offset = self.bytes.len();
                Some(Err(Layer::TcpOption.error(reason)))
            }
        }
    }
}

/// The blocks in the data of [`TcpOption::Sack`]: first sequence number in a block, and the one
/// after its last (RFC 2018 3).
pub fn sack_blocks(data: &[u8]) -> impl Iterator<Item = (u32, u32)> {
    let (blocks, _) = data.as_chunks::<8>();
    blocks
        .iter()
        .map(|block| (field::u32(block, 0..4), field::u32(block, 4..8)))
}

const END_OF_LIST: u8 = 0;
const NO_OPERATION: u8 = 1;
const MAXIMUM_SEGMENT_SIZE: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;

    #[test]
    fn each_option_is_read() {
        // What a Linux host puts into a SYN, then a SACK, an unknown kind and the end of the list.
        let bytes = hex("02 04 05b4  04 02  08 0a 00000001 00000002  01 03 03 07 \
            01 01 05 0a 00000010 00000020  fe 04 f989  00 ffff");
        let read: Result<Vec<_>, _> = TcpOptions::new(&bytes).collect();
        let block = hex("00000010 00000020");
        let expected = [
            TcpOption::MaximumSegmentSize(1460),
            TcpOption::SackPermitted,
            TcpOption::Timestamps {
                value: 1,
                echo_reply: 2,
            },
            TcpOption::WindowScale(7),
            TcpOption::Sack(&block),
            TcpOption::Other {
                kind: 254,
                data: &[0xf9, 0x89],
            },
        ];
        assert_eq!(read.unwrap(), expected);
        assert_eq!(sack_blocks(&block).collect::<Vec<_>>(), [(0x10, 0x20)]);
    }

    #[test]
    fn wrong_lengths_end_the_list() {
        let table = [
            ("02", Reason::Truncated),
            ("02 00", Reason::BadLength),
            ("02 01", Reason::BadLength),
            ("02 04 05", Reason::Truncated),
            ("02 03 05", Reason::BadLength),
            ("03 02", Reason::BadLength),
            ("04 03 00", Reason::BadLength),
            ("05 09 00000000000000", Reason::BadLength),
            ("05 02", Reason::BadLength),
            ("08 09 00000000000000", Reason::BadLength),
            ("fd ff 00", Reason::Truncated),
        ];
        for (text, reason) in table {
            let bytes = hex(text);
            let mut options = TcpOptions::new(&bytes);
            assert_eq!(
                options.next(),
                Some(Err(Layer::TcpOption.error(reason))),
                "{text}"
            );
            assert_eq!(options.next(), None, "{text}");
        }
    }

    #[test]
    fn truncation_at_every_length_ends() {
        let bytes = hex("02 04 05b4 04 02 08 0a 00000001 00000002 01 03 03 07");
        for len in 0..=bytes.len() {
            let errors = TcpOptions::new(&bytes[..len])
                .filter(Result::is_err)
                .count();
            let at_border = [0, 4, 6, 16, 17, 20].contains(&len);
            assert_eq!(errors == 0, at_border, "cut at {len}");
        }
    }

    #[test]
    fn offset_points_at_the_next_option() {
        let bytes = hex("02 04 05b4 04 02");
        let mut options = TcpOptions::new(&bytes);
        assert_eq!(options.offset(), 0);
        options.next();
        assert_eq!(options.offset(), 4);
    }
}
