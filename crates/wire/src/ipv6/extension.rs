// SPDX-License-Identifier: Apache-2.0
//! The walk over IPv6 extension headers, from the fixed header to the upper layer.
//!
//! | Header | Number | Length in bytes | After it |
//! |---|---|---|---|
//! | Hop-by-Hop Options | 0, only first | (len + 1) * 8 | walk on |
//! | Routing | 43 | (len + 1) * 8 | walk on |
//! | Fragment | 44 | 8 | walk on, or stop in a later fragment |
//! | Authentication | 51 | (len + 2) * 4 | walk on |
//! | Destination Options | 60 | (len + 1) * 8 | walk on |
//! | ESP | 50 | - | stop: the rest is encrypted |
//! | No Next Header | 59 | - | stop: nothing follows |
//! | anything else | | - | stop: the upper layer |
//!
//! Specification: RFC 8200 4; RFC 4302 2 (AH); RFC 6946 (atomic fragments).
//!
//! The walk is bounded by [`HEADERS_MAX`], so a hostile packet cannot make it long. Order is not
//! enforced but for Hop-by-Hop, which may only stand first (RFC 8200 4.1): receivers must accept
//! any other order.
//!
//! Deliberately unsupported: reading single options, segment lists, Mobility (135), HIP (139) and
//! Shim6 (140), which end the walk as an upper layer.

use crate::ip::Protocol;
use crate::{Layer, ParseError, Reason, field};
use core::ops::Range;

/// The most extension headers walked. RFC 8200 4.1 recommends an order of seven, with Destination
/// Options twice; one more is allowed for.
pub const HEADERS_MAX: usize = 8;

/// Length of a Fragment header, and of the smallest of all others, in bytes.
pub const HEADER_LEN_MIN: usize = 8;

const NEXT_HEADER: usize = 0;
const LEN: usize = 1;
const FRAGMENT_OFFSET_MORE: Range<usize> = 2..4;
const FRAGMENT_IDENT: Range<usize> = 4..8;

/// One extension header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension<'a> {
    /// What kind of header this is.
    pub protocol: Protocol,
    /// What kind of header follows.
    pub next_header: Protocol,
    /// Where it starts, in bytes from the end of the fixed header.
    pub offset: usize,
    /// The whole header.
    pub bytes: &'a [u8],
}

impl Extension<'_> {
    /// The contents of a Fragment header, `None` for other kinds.
    #[inline]
    pub fn fragment(&self) -> Option<Fragment> {
        (self.protocol == Protocol::FRAGMENT).then(|| {
            let offset_more = field::u16(self.bytes, FRAGMENT_OFFSET_MORE);
            Fragment {
                offset: offset_more & !7,
                more: offset_more & 1 != 0,
                ident: field::u32(self.bytes, FRAGMENT_IDENT),
            }
        })
    }
}

/// The contents of a Fragment header (RFC 8200 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fragment {
    /// Where the data after the header belongs in the fragmentable part, in bytes, a multiple of 8.
    pub offset: u16,
    /// Whether fragments with a greater offset exist.
    pub more: bool,
    /// Identification, which fragments of one packet share.
    pub ident: u32,
}

impl Fragment {
    /// Whether the "fragment" is the whole packet, to be handled as if the header were not there
    /// (RFC 6946 4).
    #[inline]
    pub const fn is_atomic(&self) -> bool {
        self.offset == 0 && !self.more
    }
}

/// Where the walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpperLayer {
    /// What the packet carries. In a later fragment this is the header that the first fragment
    /// starts with, and none of it is here.
    pub protocol: Protocol,
    /// Where it starts, in bytes from the end of the fixed header.
    pub offset: usize,
    /// The last Fragment header, if there was one.
    pub fragment: Option<Fragment>,
}

/// Iterator over the extension headers of a packet. Ends after the first error.
#[derive(Clone, Debug)]
pub struct Extensions<'a> {
    payload: &'a [u8],
    next_header: Protocol,
    offset: usize,
    header_count: usize,
    is_done: bool,
}

impl<'a> Extensions<'a> {
    /// Starts at the end of a fixed header that announced `next_header`; `payload` is what follows.
    #[inline]
    pub const fn new(next_header: Protocol, payload: &'a [u8]) -> Self {
        Self {
            payload,
            next_header,
            offset: 0,
            header_count: 0,
            is_done: false,
        }
    }

    /// Walks what is left and says where the upper layer starts.
    ///
    /// # Errors
    /// The first one the iterator meets: `Truncated`, `Misplaced` for a Hop-by-Hop header that is
    /// not the first, `TooManyHeaders`.
    #[inline]
    pub fn upper_layer(mut self) -> Result<UpperLayer, ParseError> {
        let mut fragment = None;
        for extension in self.by_ref() {
            fragment = extension?.fragment().or(fragment);
        }
        Ok(UpperLayer {
            protocol: self.next_header,
            offset: self.offset,
            fragment,
        })
    }

    fn read(&mut self) -> Result<Extension<'a>, Reason> {
        if self.next_header == Protocol::HOP_BY_HOP && self.header_count > 0 {
            return Err(Reason::Misplaced);
        }
        if self.header_count == HEADERS_MAX {
            return Err(Reason::TooManyHeaders);
        }
        let rest = &self.payload[self.offset..];
        if rest.len() < HEADER_LEN_MIN {
            return Err(Reason::Truncated);
        }
        let len = usize::from(rest[LEN]);
        let header_len = match self.next_header {
            Protocol::FRAGMENT => HEADER_LEN_MIN,
            // RFC 4302 2.2: in 32-bit words, less two.
            Protocol::AH => (len + 2) * 4,
            _ => (len + 1) * 8,
        };
        Ok(Extension {
            protocol: self.next_header,
            next_header: Protocol(rest[NEXT_HEADER]),
            offset: self.offset,
            bytes: rest.get(..header_len).ok_or(Reason::Truncated)?,
        })
    }
}

impl<'a> Iterator for Extensions<'a> {
    type Item = Result<Extension<'a>, ParseError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done || !is_extension(self.next_header) {
            return None;
        }
        let extension = match self.read() {
            Ok(extension) => extension,
            Err(reason) => {
                self.is_done = true;
                return Some(Err(Layer::Ipv6Extension.error(reason)));
            }
        };
        self.next_header = extension.next_header;
        self.offset += extension.bytes.len();
        self.header_count += 1;
        // What follows in a later fragment is data, not the header its number announces.
        self.is_done = extension
            .fragment()
            .is_some_and(|fragment| fragment.offset != 0);
        Some(Ok(extension))
    }
}

#[inline]
const fn is_extension(protocol: Protocol) -> bool {
    matches!(
        protocol,
        Protocol::HOP_BY_HOP
            | Protocol::ROUTING
            | Protocol::FRAGMENT
            | Protocol::AH
            | Protocol::DESTINATION_OPTIONS
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;

    fn upper(next_header: u8, text: &str) -> Result<UpperLayer, Reason> {
        Extensions::new(Protocol(next_header), &hex(text))
            .upper_layer()
            .map_err(|error| error.reason)
    }

    #[test]
    fn walk_ends_where_the_table_says() {
        let first = Fragment {
            offset: 0,
            more: true,
            ident: 9,
        };
        let later = Fragment {
            offset: 8,
            more: false,
            ident: 9,
        };
        let table = [
            // No extension header at all.
            (6, "", Protocol::TCP, 0, None),
            (50, "00000001", Protocol::ESP, 0, None),
            (59, "ff", Protocol::NO_NEXT_HEADER, 0, None),
            // Hop-by-Hop with PadN, then UDP; Destination Options of two units, then nothing.
            (0, "11 00 010400000000", Protocol::UDP, 8, None),
            (
                60,
                "3b 01 010c000000000000000000000000",
                Protocol::NO_NEXT_HEADER,
                16,
                None,
            ),
            // Routing, then ESP.
            (43, "32 00 0400 00000000", Protocol::ESP, 8, None),
            // AH with a 96-bit ICV is 24 bytes: (4 + 2) * 4.
            (
                51,
                "06 04 0000 00000001 00000002 111111112222222233333333",
                Protocol::TCP,
                24,
                None,
            ),
            // Fragments: only the first goes on to the Destination Options after it.
            (
                44,
                "3c 00 0001 00000009 06 00 010400000000",
                Protocol::TCP,
                16,
                Some(first),
            ),
            (
                44,
                "3c 00 0008 00000009 06 00",
                Protocol::DESTINATION_OPTIONS,
                8,
                Some(later),
            ),
            // Mobility is not walked.
            (135, "", Protocol(135), 0, None),
        ];
        for (next_header, text, protocol, offset, fragment) in table {
            let expected = UpperLayer {
                protocol,
                offset,
                fragment,
            };
            assert_eq!(
                upper(next_header, text),
                Ok(expected),
                "{next_header} {text}"
            );
        }
    }

    #[test]
    fn each_header_is_shown_in_order() {
        let bytes = hex("2b 00 010400000000 2c 00 0400 00000000 11 00 0000 00000007 abcd");
        let all: Vec<_> = Extensions::new(Protocol::HOP_BY_HOP, &bytes)
            .map(Result::unwrap)
            .collect();
        let kinds: Vec<_> = all
            .iter()
            .map(|e| (e.protocol.0, e.next_header.0, e.offset))
            .collect();
        assert_eq!(kinds, [(0, 43, 0), (43, 44, 8), (44, 17, 16)]);
        let fragment = all[2].fragment().unwrap();
        assert!(fragment.is_atomic());
        assert_eq!(fragment.ident, 7);
        assert_eq!(all[0].fragment(), None);
    }

    #[test]
    fn truncation_at_every_length() {
        let bytes = hex("3c 00 010400000000 33 00 010400000000 06 04 0000 \
            00000001 00000002 111111112222222233333333");
        for len in 0..bytes.len() {
            let error = Extensions::new(Protocol::HOP_BY_HOP, &bytes[..len]).upper_layer();
            assert_eq!(
                error,
                Err(Layer::Ipv6Extension.error(Reason::Truncated)),
                "cut at {len}"
            );
        }
        let upper = Extensions::new(Protocol::HOP_BY_HOP, &bytes)
            .upper_layer()
            .unwrap();
        assert_eq!((upper.protocol, upper.offset), (Protocol::TCP, bytes.len()));
    }

    #[test]
    fn walk_is_bounded() {
        let one = "3c 00 010400000000";
        let mut last = one.replace("3c", "06");
        assert!(upper(60, &(one.repeat(HEADERS_MAX - 1) + &last)).is_ok());
        last = one.repeat(HEADERS_MAX) + &last;
        assert_eq!(upper(60, &last), Err(Reason::TooManyHeaders));
    }

    #[test]
    fn hop_by_hop_stands_first_or_not_at_all() {
        assert_eq!(
            upper(60, "00 00 010400000000 06 00 010400000000"),
            Err(Reason::Misplaced)
        );
        assert_eq!(
            upper(0, "00 00 010400000000 06 00 010400000000"),
            Err(Reason::Misplaced)
        );
    }

    #[test]
    fn iterator_ends_after_an_error() {
        let bytes = hex("3c ff 0104");
        let mut extensions = Extensions::new(Protocol::DESTINATION_OPTIONS, &bytes);
        assert!(extensions.next().unwrap().is_err());
        assert_eq!(extensions.next(), None);
    }
}
