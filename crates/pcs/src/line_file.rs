// SPDX-License-Identifier: Apache-2.0
//! Line bits in a file, and the listing of what is in them. No I/O: bytes in, bytes out; the format
//! is described in `docs/reference/line-file.md`.

use core::fmt;

use crate::block::{self, Block};
use crate::params::{BLOCK_BITS, BLOCKS, DATA_BLOCKS, PARITY_HEADERS};
use crate::stage::Direction;
use crate::xgmii::Kind;

/// First bytes of a file.
pub const MAGIC: [u8; 8] = *b"CATLINE1";
/// Octets in front of the bits.
pub const HEADER_LEN: usize = 32;

/// What a file says of its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// From whom to whom.
    pub direction: Direction,
    /// Bits of the first byte that are not part of the line, 0 to 7.
    pub offset: u8,
    /// Line bits.
    pub bit_count: u64,
}

/// Why bytes are no line file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// Fewer bytes than a header has.
    Short {
        /// How many there are.
        len: usize,
    },
    /// Other first bytes.
    Magic,
    /// A direction that does not exist.
    Direction(u8),
    /// More than seven bits.
    Offset(u8),
    /// Bytes that must be zero are not.
    Reserved,
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { len } => write!(
                f,
                "{len} bytes are no line file, whose header alone has {HEADER_LEN}"
            ),
            Self::Magic => write!(f, "no line file: it does not begin with CATLINE1"),
            Self::Direction(value) => write!(
                f,
                "byte 8 says direction {value}; 0 is downstream and 1 upstream"
            ),
            Self::Offset(value) => write!(f, "byte 9 says offset {value}; at most 7 is possible"),
            Self::Reserved => write!(
                f,
                "bytes 10 to 15 and 24 to 31 must be zero; the file is of a newer form or damaged"
            ),
        }
    }
}

impl core::error::Error for HeaderError {}

impl Header {
    /// Reads a header from the front of a file.
    ///
    /// # Errors
    ///
    /// If it is none.
    pub fn parse(bytes: &[u8]) -> Result<Self, HeaderError> {
        let Some(header) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(HeaderError::Short { len: bytes.len() });
        };
        if header[..8] != MAGIC {
            return Err(HeaderError::Magic);
        }
        let direction = match header[8] {
            0 => Direction::Downstream,
            1 => Direction::Upstream,
            other => return Err(HeaderError::Direction(other)),
        };
        if header[9] > 7 {
            return Err(HeaderError::Offset(header[9]));
        }
        if header[10..16].iter().chain(&header[24..]).any(|&b| b != 0) {
            return Err(HeaderError::Reserved);
        }
        let mut count = [0; 8];
        count.copy_from_slice(&header[16..24]);
        Ok(Self {
            direction,
            offset: header[9],
            bit_count: u64::from_le_bytes(count),
        })
    }

    /// The header as bytes.
    pub fn emit(&self) -> [u8; HEADER_LEN] {
        let mut header = [0; HEADER_LEN];
        header[..8].copy_from_slice(&MAGIC);
        header[8] = u8::from(self.direction == Direction::Upstream);
        header[9] = self.offset;
        header[16..24].copy_from_slice(&self.bit_count.to_le_bytes());
        header
    }

    /// How many of the bits are in `bits`, the bytes behind the header: less than `bit_count` in a
    /// file that was cut off.
    pub fn present_bits(&self, bits: &[u8]) -> u64 {
        let held = (8 * bits.len() as u64).saturating_sub(self.offset.into());
        held.min(self.bit_count)
    }
}

/// One block of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Bit of the line at which it begins.
    pub bit: usize,
    /// Codeword since the bit at which the listing was begun, and block in it.
    pub place: (usize, usize),
    /// As on the line, or descrambled if it is payload.
    pub block: Block,
    /// Whether its header is what it must be in this place.
    pub header_fits: bool,
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (codeword, block) = self.place;
        let header = self.block.header;
        let (first, second) = (header & 1, header >> 1 & 1);
        write!(
            f,
            "{:>10} {codeword:>6}.{block:02} {first}{second} {:016x} ",
            self.bit, self.block.payload
        )?;
        if block >= DATA_BLOCKS {
            f.write_str("parity")?;
        } else {
            let kind = self.block.kind();
            match kind {
                Kind::Data => f.write_str("data")?,
                Kind::Error => f.write_str("invalid")?,
                Kind::Control if self.block == Block::IDLE => f.write_str("idle")?,
                Kind::Control => write!(f, "control {:02x}", self.block.payload as u8)?,
                Kind::Start => write!(f, "start {:02x}", self.block.payload as u8)?,
                Kind::Terminate => write!(f, "terminate {:02x}", self.block.payload as u8)?,
            }
            if matches!(kind, Kind::Control | Kind::Start) {
                let mut before = " ";
                for set in block::decode(self.block).0.ordered_sets() {
                    write!(f, "{before}{set}")?;
                    before = " and ";
                }
            }
        }
        if self.header_fits {
            Ok(())
        } else {
            f.write_str(", wrong header")
        }
    }
}

/// The blocks of codewords that begin at bit `from`, one after the other, payload descrambled and
/// nothing corrected. Bits behind the last whole block are left out.
#[derive(Clone, Debug)]
pub struct Listing<'a> {
    line: &'a [u8],
    at: usize,
    end: usize,
    index: usize,
    /// The payload word before; none before the first, which cannot be descrambled.
    before: Option<u64>,
}

impl<'a> Listing<'a> {
    /// Blocks of bits `from..end` of a line.
    pub fn new(line: &'a [u8], from: usize, end: usize) -> Self {
        Self {
            line,
            at: from,
            end: end.min(8 * line.len()),
            index: 0,
            before: None,
        }
    }

    /// The block at bit `at`, which must be inside the line.
    fn block(&self, at: usize) -> Block {
        let from = at / 8;
        let mut bytes = [0; 16];
        let available = (self.line.len() - from).min(10);
        bytes[..available].copy_from_slice(&self.line[from..from + available]);
        let bits = u128::from_le_bytes(bytes) >> (at % 8);
        Block {
            header: (bits & 3) as u8,
            payload: (bits >> 2) as u64,
        }
    }
}

impl Iterator for Listing<'_> {
    type Item = Listed;

    fn next(&mut self) -> Option<Listed> {
        let bit = self.at;
        if bit.checked_add(BLOCK_BITS)? > self.end {
            return None;
        }
        let mut block = self.block(bit);
        let place = (self.index / BLOCKS, self.index % BLOCKS);
        let header_fits = match place.1.checked_sub(DATA_BLOCKS) {
            None => block.header == block::DATA || block.header == block::CONTROL,
            Some(parity) => block.header == PARITY_HEADERS[parity],
        };
        if place.1 < DATA_BLOCKS {
            let word = block.payload;
            if let Some(before) = self.before.replace(word) {
                block.payload = word ^ (word << 39 | before >> 25) ^ (word << 58 | before >> 6);
            }
        }
        self.at += BLOCK_BITS;
        self.index += 1;
        Some(Listed {
            bit,
            place,
            block,
            header_fits,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Simd;
    use crate::fast::Transmitter;
    use crate::params::{CODEWORD_BITS, Params};
    use crate::stage::Transmit;
    use crate::xgmii::{self, Vector};
    use proptest::prelude::*;

    #[test]
    fn a_listing_shows_a_frame_between_idles() {
        let params = Params::default();
        let mut transmitter = Transmitter::new(Direction::Downstream, params, Simd::best());
        let mut line = vec![0; 2 * CODEWORD_BITS / 8 + 2];
        let first = transmitter.pull(&mut line[..CODEWORD_BITS / 8 + 2], 5);
        assert_eq!(first, CODEWORD_BITS);
        transmitter.push(&[0x11; 60], 1).unwrap();
        transmitter.pull(&mut line, 5 + first);
        let listed: Vec<Listed> = Listing::new(&line, 5, 5 + 2 * CODEWORD_BITS).collect();
        assert_eq!(listed.len(), 2 * BLOCKS);
        assert!(listed.iter().all(|listed| listed.header_fits));
        let words: Vec<String> = listed[BLOCKS..].iter().map(ToString::to_string).collect();
        let texts = words.join("\n");
        for text in ["start 78", "data", "terminate 87", "idle", "parity"] {
            assert!(texts.contains(text), "{text} in\n{texts}");
        }
    }

    #[test]
    fn each_byte_of_a_header_has_its_limit() {
        let right = Header {
            direction: Direction::Upstream,
            offset: 7,
            bit_count: 100,
        };
        let bytes = right.emit();
        let parsed = |at: usize, value: u8| {
            let mut bytes = bytes;
            bytes[at] = value;
            Header::parse(&bytes)
        };
        for at in 0..8 {
            assert_eq!(parsed(at, b'?'), Err(HeaderError::Magic), "{at}");
        }
        assert_eq!(parsed(8, 2), Err(HeaderError::Direction(2)));
        assert_eq!(parsed(9, 7), Ok(right));
        assert_eq!(parsed(9, 8), Err(HeaderError::Offset(8)));
        for at in (10..16).chain(24..32) {
            assert_eq!(parsed(at, 1), Err(HeaderError::Reserved), "{at}");
        }
        let short = &bytes[..HEADER_LEN - 1];
        assert_eq!(Header::parse(short), Err(HeaderError::Short { len: 31 }));
        // Seven bits in front of 100, as many as 14 octets hold, or 13.
        for (octets, present) in [(14, 100), (20, 100), (13, 97), (0, 0)] {
            assert_eq!(right.present_bits(&vec![0; octets]), present, "{octets}");
        }
    }

    #[test]
    fn a_listing_names_ordered_sets() {
        let idle = u64::from(xgmii::IDLE) * 0x0101_0101;
        let remote = 0x0200_0000 | u64::from(xgmii::SEQUENCE);
        let start = 0xd555_5500 | u64::from(xgmii::START);
        for (vector, kind) in [
            (
                Vector::LOCAL_FAULT,
                "control 55 local fault and local fault",
            ),
            (
                Vector {
                    data: idle << 32 | remote,
                    ctrl: 0xf1,
                },
                "control 4b remote fault",
            ),
            (
                Vector {
                    data: remote << 32 | idle,
                    ctrl: 0x1f,
                },
                "control 2d remote fault",
            ),
            (
                Vector {
                    data: start << 32 | remote,
                    ctrl: 0x11,
                },
                "start 66 remote fault",
            ),
        ] {
            let listed = Listed {
                bit: 0,
                place: (0, 1),
                block: block::encode(vector).0,
                header_fits: true,
            };
            let text = listed.to_string();
            assert!(text.ends_with(&format!(" {kind}")), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_header_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(header) = Header::parse(&bytes) {
                prop_assert_eq!(&header.emit()[..], &bytes[..HEADER_LEN]);
            }
        }

        #[test]
        fn a_header_reads_back(up: bool, offset in 0_u8..8, bit_count: u64) {
            let direction = if up { Direction::Upstream } else { Direction::Downstream };
            let header = Header { direction, offset, bit_count };
            prop_assert_eq!(Header::parse(&header.emit()), Ok(header));
            let mut wrong = header.emit();
            wrong[30] = 1;
            prop_assert_eq!(Header::parse(&wrong), Err(HeaderError::Reserved));
        }

        #[test]
        fn any_bits_can_be_listed(
            line in prop::collection::vec(any::<u8>(), 0..600), from in 0_usize..5000,
        ) {
            let texts: Vec<String> =
                Listing::new(&line, from, usize::MAX).map(|b| b.to_string()).collect();
            let count = texts.len();
            prop_assert_eq!(count, (8 * line.len()).saturating_sub(from) / BLOCK_BITS);
        }
    }
}
