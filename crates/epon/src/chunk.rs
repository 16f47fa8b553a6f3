//! The chunk: what travels between the nodes of an EPON chain, one packet of a big buffer each.
//!
//! A chunk is 64 bytes of header and a payload. The payload is a list of frames on the MAC's side
//! of the PHY and line bits on the other; the PHY turns one into the other in the same buffer, so
//! that a chunk costs one descriptor per hop, whatever its size. A `raw` payload means nothing and
//! is left alone.
//!
//! ```text
//!  0        4        5       6     7     8          12      16      20          24          32
//!  | "EPCH" | content| trial | bit | 0   | codewords| number| count | 0         | due ticks |
//!  32                                                                                       64
//!  | when it was handed on, and how long the machine stalled: `custody`                        |
//!
//!  frames: count times | length 2 | LLID 2 | octets, without check sequence |, then padding
//!  line:   count bits, the first in bit `bit` of the first octet, least significant first
//! ```
//!
//! A chunk of frames is padded to the length of its codewords, so that it never shares a frame of
//! small packets, where it could not grow. Links that copy give it as large a buffer as before.
//!
//! Numbers are little-endian. `codewords` is how many codewords the chunk is long downstream: a
//! transmitter fills up with idle. Header and list come from another process: they are read once
//! and checked.

use catena_pcs::params::CODEWORD_BITS;
use catena_pcs::stage::Direction;

/// Octets of the header.
pub const HEADER_LEN: usize = 64;
/// Octets of it that [`Header`] is; what follows is for whoever keeps the chunk.
const FIELDS_LEN: usize = 32;
/// Octets in front of each frame of a list.
pub const FRAME_HEADER_LEN: usize = 4;
/// Codewords that are a whole number of octets: 1023.
pub const CODEWORDS_PER_GROUP: u32 = 4;
/// Octets of such a group on the line.
pub const GROUP_OCTETS: u32 = CODEWORDS_PER_GROUP * CODEWORD_BITS as u32 / 8;
/// Most codewords of a chunk: 4 MiB on the line.
pub const CODEWORDS_MAX: u32 = 16_400;

const MAGIC: [u8; 4] = *b"EPCH";

/// What a chunk's payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Octets that nobody looks at.
    Raw,
    /// A list of frames.
    Frames,
    /// Line bits of one direction.
    Line(Direction),
}

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the payload is.
    pub content: Content,
    /// Number in the stamps of its sender.
    pub trial: u8,
    /// Which bit of the payload's first octet is the first line bit; 0 for all but line bits.
    pub bit: u8,
    /// Codewords that the chunk takes downstream.
    pub codewords: u32,
    /// Its number, counted by its sender.
    pub number: u32,
    /// Frames, line bits, or octets.
    pub count: u32,
    /// Ticks of the time-stamp counter when its sender let it go, or should have.
    pub due: u64,
}

/// No honest sender makes such a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl Header {
    /// The header of a chunk, checked against its length.
    ///
    /// # Errors
    /// [`Malformed`] if it is cut, not a chunk, or says more than there is.
    #[inline]
    pub fn parse(chunk: &[u8]) -> Result<Self, Malformed> {
        let (header, payload) = chunk.split_first_chunk::<HEADER_LEN>().ok_or(Malformed)?;
        let word = |at: usize| {
            let octets = [header[at], header[at + 1], header[at + 2], header[at + 3]];
            u32::from_le_bytes(octets)
        };
        let content = match header[4] {
            0 => Content::Raw,
            1 => Content::Frames,
            2 => Content::Line(Direction::Downstream),
            3 => Content::Line(Direction::Upstream),
            _ => return Err(Malformed),
        };
        let parsed = Self {
            content,
            trial: header[5],
            bit: header[6],
            codewords: word(8),
            number: word(12),
            count: word(16),
            due: u64::from(word(24)) | u64::from(word(28)) << 32,
        };
        let (bit, count) = (usize::from(parsed.bit), parsed.count as usize);
        let fits = match content {
            Content::Raw => bit == 0 && count == payload.len(),
            Content::Frames => bit == 0 && count <= payload.len() / FRAME_HEADER_LEN,
            Content::Line(_) => bit < 8 && bit + count <= 8 * payload.len(),
        };
        let is_whole = header[..4] == MAGIC && parsed.codewords <= CODEWORDS_MAX && fits;
        is_whole.then_some(parsed).ok_or(Malformed)
    }

    /// Writes the header, but for what belongs to those who keep the chunk.
    ///
    /// # Panics
    /// If `chunk` is shorter than a header.
    #[inline]
    pub fn write(&self, chunk: &mut [u8]) {
        let mut header = [0; FIELDS_LEN];
        header[..4].copy_from_slice(&MAGIC);
        header[4] = match self.content {
            Content::Raw => 0,
            Content::Frames => 1,
            Content::Line(Direction::Downstream) => 2,
            Content::Line(Direction::Upstream) => 3,
        };
        header[5] = self.trial;
        header[6] = self.bit;
        header[8..12].copy_from_slice(&self.codewords.to_le_bytes());
        header[12..16].copy_from_slice(&self.number.to_le_bytes());
        header[16..20].copy_from_slice(&self.count.to_le_bytes());
        header[24..32].copy_from_slice(&self.due.to_le_bytes());
        chunk[..FIELDS_LEN].copy_from_slice(&header);
    }
}

/// Octets of `codewords` on the line.
pub const fn line_octets(codewords: u32) -> usize {
    (codewords as usize * CODEWORD_BITS).div_ceil(8)
}

/// Codewords of a chunk of `octets`, in whole groups of four; none if it has not room for one, or
/// has more than a chunk may have.
pub fn codewords_in(octets: u64) -> Option<u32> {
    let codewords = octets / u64::from(GROUP_OCTETS) * u64::from(CODEWORDS_PER_GROUP);
    let codewords = u32::try_from(codewords).ok()?;
    (1..=CODEWORDS_MAX)
        .contains(&codewords)
        .then_some(codewords)
}

/// A frame of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Logical link identifier, with its mode bit.
    pub llid: u16,
    /// The frame, without check sequence.
    pub octets: &'a [u8],
}

/// Goes through a list of frames.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    rest: &'a [u8],
    left: u32,
}

impl<'a> Frames<'a> {
    /// The `count` frames of a payload, which may be longer.
    ///
    /// # Errors
    /// [`Malformed`] if the payload does not hold so many.
    pub fn parse(payload: &'a [u8], count: u32) -> Result<Self, Malformed> {
        let list = Self::behind_check(payload, count);
        let is_whole = list.clone().count() == count as usize;
        is_whole.then_some(list).ok_or(Malformed)
    }

    /// The same, of a list that was checked, or that was made here.
    pub(crate) const fn behind_check(payload: &'a [u8], count: u32) -> Self {
        Self {
            rest: payload,
            left: count,
        }
    }

    /// What has not been gone through.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Frame<'a>;

    #[inline]
    fn next(&mut self) -> Option<Frame<'a>> {
        if self.left == 0 {
            return None;
        }
        let (header, behind) = self.rest.split_first_chunk::<FRAME_HEADER_LEN>()?;
        let len = usize::from(u16::from_le_bytes([header[0], header[1]]));
        let (octets, rest) = behind.split_at_checked(len)?;
        self.rest = rest;
        self.left -= 1;
        Some(Frame {
            llid: u16::from_le_bytes([header[2], header[3]]),
            octets,
        })
    }
}

/// What stands in front of a frame of a list.
#[inline]
pub fn frame_header(len: u16, llid: u16) -> [u8; FRAME_HEADER_LEN] {
    let ([a, b], [c, d]) = (len.to_le_bytes(), llid.to_le_bytes());
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn contents() -> impl Strategy<Value = Content> {
        prop::sample::select(vec![
            Content::Raw,
            Content::Frames,
            Content::Line(Direction::Downstream),
            Content::Line(Direction::Upstream),
        ])
    }

    proptest! {
        #[test]
        fn a_header_is_read_as_it_was_written(
            content in contents(),
            (trial, number, due) in any::<(u8, u32, u64)>(),
            codewords in 0..=CODEWORDS_MAX,
            len in 0_usize..200,
        ) {
            let mut chunk = vec![0; HEADER_LEN + len];
            let header = Header {
                content, trial, bit: 0, codewords, number, due,
                count: match content {
                    Content::Raw => len as u32,
                    Content::Frames => (len / FRAME_HEADER_LEN) as u32,
                    Content::Line(_) => 8 * len as u32,
                },
            };
            header.write(&mut chunk);
            prop_assert_eq!(Header::parse(&chunk), Ok(header));
            let more = Header { count: header.count + 1, ..header };
            more.write(&mut chunk);
            prop_assert_eq!(Header::parse(&chunk), Err(Malformed));
        }

        #[test]
        fn any_bytes_are_a_chunk_or_malformed(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(header) = Header::parse(&bytes) {
                let _ = Frames::parse(&bytes[HEADER_LEN..], header.count);
            }
            if let Ok(frames) = Frames::parse(&bytes, 3) {
                prop_assert_eq!(frames.count(), 3);
            }
        }
    }

    #[test]
    fn lists_that_are_cut_are_malformed_and_padding_is_none_of_them() {
        let mut list = Vec::new();
        for (llid, octets) in [(1, b"abc".as_slice()), (2, b""), (3, b"de")] {
            list.extend(frame_header(octets.len() as u16, llid));
            list.extend(octets);
        }
        let frames: Vec<_> = Frames::parse(&list, 3).unwrap().collect();
        let found: Vec<_> = frames.iter().map(|f| (f.llid, f.octets)).collect();
        assert_eq!(found, [(1, b"abc".as_slice()), (2, b""), (3, b"de")]);
        assert_eq!(Frames::parse(&list, 2).unwrap().count(), 2);
        assert_eq!(Frames::parse(&list, 4).unwrap_err(), Malformed);
        assert_eq!(
            Frames::parse(&list[..list.len() - 1], 3).unwrap_err(),
            Malformed
        );
        assert!(Frames::parse(&[], 0).is_ok());
    }

    /// A chunk with room for ten octets, and its header.
    fn chunk(content: u8, bit: u8, codewords: u32, count: u32) -> Vec<u8> {
        let mut chunk = vec![0; HEADER_LEN + 10];
        chunk[..4].copy_from_slice(b"EPCH");
        (chunk[4], chunk[6]) = (content, bit);
        chunk[8..12].copy_from_slice(&codewords.to_le_bytes());
        chunk[16..20].copy_from_slice(&count.to_le_bytes());
        chunk
    }

    #[test]
    fn each_field_of_a_header_has_its_limit() {
        let is_right = |chunk: &[u8]| Header::parse(chunk).is_ok();
        for (content, bit, count) in [(0, 0, 10), (1, 0, 2), (2, 7, 73), (3, 0, 80)] {
            let right = chunk(content, bit, CODEWORDS_MAX, count);
            assert!(is_right(&right), "{content}");
            assert!(!is_right(&chunk(content, bit, CODEWORDS_MAX + 1, count)));
            assert!(!is_right(&chunk(content, bit, 1, count + 1)), "{content}");
            assert!(!is_right(&chunk(content, bit + 8, 1, 1)), "{content}");
            let mut other = right.clone();
            other[3] ^= 1;
            assert!(!is_right(&other), "no chunk");
            assert!(!is_right(&right[..HEADER_LEN - 1]));
        }
        assert!(
            !is_right(&chunk(0, 0, 1, 9)),
            "octets that belong to nothing"
        );
        assert!(!is_right(&chunk(0, 1, 1, 10)), "octets have no bit offset");
        assert!(!is_right(&chunk(1, 1, 1, 2)), "frames have none either");
        assert!(!is_right(&chunk(4, 0, 1, 10)), "no such content");
    }

    #[test]
    fn what_stands_behind_the_fields_is_for_who_keeps_the_chunk() {
        let mut chunk = [7; 64];
        let bytes = chunk_of_none();
        bytes.write(&mut chunk);
        assert_eq!(chunk[32..], [7; 32]);
        assert_eq!(Header::parse(&chunk), Ok(bytes));
    }

    fn chunk_of_none() -> Header {
        Header {
            content: Content::Frames,
            trial: 1,
            bit: 0,
            codewords: 4,
            number: 2,
            count: 0,
            due: u64::MAX,
        }
    }

    #[test]
    fn sizes_are_whole_groups_of_codewords() {
        assert_eq!(codewords_in(1024), Some(4));
        assert_eq!(codewords_in(8 * 1024), Some(32));
        assert_eq!(codewords_in(128 * 1024), Some(512));
        assert_eq!(codewords_in(1022), None);
        assert_eq!(codewords_in(1 << 40), None);
        let most = u64::from(CODEWORDS_MAX / 4 * GROUP_OCTETS);
        assert_eq!(codewords_in(most), Some(CODEWORDS_MAX));
        assert_eq!(codewords_in(most + 1023), None);
        assert_eq!(line_octets(512), 130_944);
    }
}
