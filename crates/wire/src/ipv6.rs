// SPDX-License-Identifier: Apache-2.0
//! IPv6 datagrams, between the link header and the transport header. The extension headers after
//! the fixed one are in [`extension`].
//!
//! ```text
//!   0               1               2               3
//! 0 |Version|   DSCP    |ECN|              Flow Label               |
//! 4 |        Payload Length         |  Next Header  |   Hop Limit   |
//! 8 |                    Source Address, 16 bytes                   |
//! 24|                 Destination Address, 16 bytes                 |
//! ```
//!
//! Specification: RFC 8200 3; RFC 2474 (DSCP), RFC 3168 (ECN), RFC 6437 (flow label).
//!
//! Deliberately unsupported: jumbograms (RFC 2675; a payload length of zero before a Hop-by-Hop
//! header is `BadLength`), reassembly.

pub mod extension;

use crate::ip::{Addresses, Protocol};
use crate::{Layer, ParseError, Reason, field};
use core::{fmt, net::Ipv6Addr, ops::Range};
use extension::Extensions;

/// Length of the fixed header in bytes.
pub const HEADER_LEN: usize = 40;

/// The greatest flow label: 20 bits.
pub const FLOW_LABEL_MAX: u32 = 0xf_ffff;

const VERSION_CLASS: Range<usize> = 0..2;
const VERSION_CLASS_LABEL: Range<usize> = 0..4;
const PAYLOAD_LEN: Range<usize> = 4..6;
const NEXT_HEADER: usize = 6;
const HOP_LIMIT: usize = 7;
const SRC: Range<usize> = 8..24;
const DST: Range<usize> = 24..40;

/// Checked access to one datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View<T> {
    bytes: T,
    end: usize,
}

impl<T: AsRef<[u8]>> View<T> {
    /// Checks the version and the payload length. Bytes past it are padding and no part of the
    /// view. Extension headers are not looked at.
    ///
    /// # Errors
    /// `BadVersion`; `BadLength` for a jumbogram; `Truncated` when the bytes end before the header
    /// or before the payload length.
    #[inline]
    pub fn parse(bytes: T) -> Result<Self, ParseError> {
        let data = bytes.as_ref();
        if data.len() < HEADER_LEN {
            return Err(Layer::Ipv6.error(Reason::Truncated));
        }
        if data[0] >> 4 != 6 {
            return Err(Layer::Ipv6.error(Reason::BadVersion));
        }
        let payload_len = field::u16(data, PAYLOAD_LEN);
        if payload_len == 0 && data[NEXT_HEADER] == Protocol::HOP_BY_HOP.0 {
            return Err(Layer::Ipv6.error(Reason::BadLength));
        }
        let end = HEADER_LEN + usize::from(payload_len);
        if end > data.len() {
            return Err(Layer::Ipv6.error(Reason::Truncated));
        }
        Ok(Self { bytes, end })
    }

    /// Differentiated services code point, 0 to 63.
    #[inline]
    pub fn dscp(&self) -> u8 {
        (field::u16(self.bytes.as_ref(), VERSION_CLASS) >> 6 & 0x3f) as u8
    }

    /// Explicit congestion notification, 0 to 3.
    #[inline]
    pub fn ecn(&self) -> u8 {
        (field::u16(self.bytes.as_ref(), VERSION_CLASS) >> 4 & 0x03) as u8
    }

    /// Flow label, 0 to [`FLOW_LABEL_MAX`].
    #[inline]
    pub fn flow_label(&self) -> u32 {
        field::u32(self.bytes.as_ref(), VERSION_CLASS_LABEL) & FLOW_LABEL_MAX
    }

    /// Length of everything after the fixed header in bytes, as checked by [`parse`](Self::parse).
    #[inline]
    pub const fn payload_len(&self) -> usize {
        self.end - HEADER_LEN
    }

    /// Type of the header after this one: an extension header or the payload.
    #[inline]
    pub fn next_header(&self) -> Protocol {
        Protocol(self.bytes.as_ref()[NEXT_HEADER])
    }

    /// Hop limit, in hops.
    #[inline]
    pub fn hop_limit(&self) -> u8 {
        self.bytes.as_ref()[HOP_LIMIT]
    }

    /// Source address.
    #[inline]
    pub fn src(&self) -> Ipv6Addr {
        Ipv6Addr::from(field::array::<16>(self.bytes.as_ref(), SRC))
    }

    /// Destination address; not the final one while a Routing header has segments left.
    #[inline]
    pub fn dst(&self) -> Ipv6Addr {
        Ipv6Addr::from(field::array::<16>(self.bytes.as_ref(), DST))
    }

    /// Both addresses, for a transport checksum.
    #[inline]
    pub fn addresses(&self) -> Addresses {
        Addresses::V6 {
            src: self.src(),
            dst: self.dst(),
        }
    }

    /// The extension headers, in order.
    #[inline]
    pub fn extensions(&self) -> Extensions<'_> {
        Extensions::new(self.next_header(), self.payload())
    }

    /// Always [`HEADER_LEN`]: extension headers count as payload here.
    #[inline]
    pub const fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// What follows the fixed header: extension headers, then the upper layer, without padding of
    /// the frame.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.bytes.as_ref()[HEADER_LEN..self.end]
    }

    /// The bytes this view was made from.
    #[inline]
    pub fn into_inner(self) -> T {
        self.bytes
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
    /// Sets the code point to the low six bits of `value`.
    #[inline]
    pub fn set_dscp(&mut self, value: u8) {
        let rest = field::u16(self.bytes.as_ref(), VERSION_CLASS) & 0xf03f;
        let word = rest | u16::from(value & 0x3f) << 6;
        field::set_u16(self.bytes.as_mut(), VERSION_CLASS, word);
    }

    /// Sets the congestion notification to the low two bits of `value`.
    #[inline]
    pub fn set_ecn(&mut self, value: u8) {
        let rest = field::u16(self.bytes.as_ref(), VERSION_CLASS) & 0xffcf;
        let word = rest | u16::from(value & 0x03) << 4;
        field::set_u16(self.bytes.as_mut(), VERSION_CLASS, word);
    }

    /// Sets the flow label to the low twenty bits of `value`.
    #[inline]
    pub fn set_flow_label(&mut self, value: u32) {
        let rest = field::u32(self.bytes.as_ref(), VERSION_CLASS_LABEL) & !FLOW_LABEL_MAX;
        let word = rest | value & FLOW_LABEL_MAX;
        field::set_u32(self.bytes.as_mut(), VERSION_CLASS_LABEL, word);
    }

    /// Sets the payload length field, for a packet about to grow or shrink. This view keeps the
    /// bounds it was parsed with.
    #[inline]
    pub fn set_payload_len(&mut self, value: u16) {
        field::set_u16(self.bytes.as_mut(), PAYLOAD_LEN, value);
    }

    /// Sets the type of the header after this one.
    #[inline]
    pub fn set_next_header(&mut self, value: Protocol) {
        self.bytes.as_mut()[NEXT_HEADER] = value.0;
    }

    /// Sets the hop limit.
    #[inline]
    pub fn set_hop_limit(&mut self, value: u8) {
        self.bytes.as_mut()[HOP_LIMIT] = value;
    }

    /// Takes one off the hop limit. Returns false, and changes nothing, when the result would be
    /// zero: such a packet must be dropped (RFC 8200 3).
    #[inline]
    #[must_use = "false means that the datagram must not be forwarded"]
    pub fn decrement_hop_limit(&mut self) -> bool {
        let hop_limit = &mut self.bytes.as_mut()[HOP_LIMIT];
        if *hop_limit <= 1 {
            return false;
        }
        *hop_limit -= 1;
        true
    }

    /// Sets the source address.
    #[inline]
    pub fn set_src(&mut self, value: Ipv6Addr) {
        field::set(self.bytes.as_mut(), SRC, &value.octets());
    }

    /// Sets the destination address.
    #[inline]
    pub fn set_dst(&mut self, value: Ipv6Addr) {
        field::set(self.bytes.as_mut(), DST, &value.octets());
    }

    /// [`payload`](Self::payload) for writing.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.bytes.as_mut()[HEADER_LEN..self.end]
    }
}

/// The fixed header of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Differentiated services code point; [`Header::emit`] writes the low six bits.
    pub dscp: u8,
    /// Explicit congestion notification; [`Header::emit`] writes the low two bits.
    pub ecn: u8,
    /// Flow label; [`Header::emit`] writes the low twenty bits.
    pub flow_label: u32,
    /// Length of everything after this header in bytes.
    pub payload_len: u16,
    /// Type of the header after this one.
    pub next_header: Protocol,
    /// Hop limit, in hops.
    pub hop_limit: u8,
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
}

impl Header {
    /// Reads the header of the datagram in `bytes`, which must hold the payload too.
    ///
    /// # Errors
    /// Those of [`View::parse`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        View::parse(bytes).map(|view| Self::from(&view))
    }

    /// How many bytes [`emit`](Self::emit) writes: [`HEADER_LEN`].
    pub const fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header to the front of `bytes`.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`header_len`](Self::header_len).
    pub fn emit(&self, bytes: &mut [u8]) {
        let traffic_class = u32::from(self.dscp << 2 | self.ecn & 0x03);
        let word = 6 << 28 | traffic_class << 20 | self.flow_label & FLOW_LABEL_MAX;
        field::set_u32(bytes, VERSION_CLASS_LABEL, word);
        field::set_u16(bytes, PAYLOAD_LEN, self.payload_len);
        bytes[NEXT_HEADER] = self.next_header.0;
        bytes[HOP_LIMIT] = self.hop_limit;
        field::set(bytes, SRC, &self.src.octets());
        field::set(bytes, DST, &self.dst.octets());
    }
}

impl<T: AsRef<[u8]>> From<&View<T>> for Header {
    fn from(view: &View<T>) -> Self {
        Self {
            dscp: view.dscp(),
            ecn: view.ecn(),
            flow_label: view.flow_label(),
            payload_len: view.payload_len() as u16,
            next_header: view.next_header(),
            hop_limit: view.hop_limit(),
            src: view.src(),
            dst: view.dst(),
        }
    }
}

impl<T: AsRef<[u8]>> fmt::Display for View<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Header::from(self).fmt(f)
    }
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "ipv6 {} > {} {} hops {} payload {}",
            self.src, self.dst, self.next_header, self.hop_limit, self.payload_len
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{hex, truncation};
    use proptest::prelude::*;

    const PLAIN: &str = "6 00 00000 0004 11 40 \
        20010db8000000000000000000000001 20010db8000000000000000000000002 61626364";
    const MARKED: &str = "6 b9 abcde 0000 3b ff \
        fe800000000000000000000000000001 ff020000000000000000000000000001";

    fn plain() -> Header {
        Header {
            dscp: 0,
            ecn: 0,
            flow_label: 0,
            payload_len: 4,
            next_header: Protocol::UDP,
            hop_limit: 64,
            src: "2001:db8::1".parse().unwrap(),
            dst: "2001:db8::2".parse().unwrap(),
        }
    }

    #[test]
    fn header_and_bytes_agree() {
        let marked = Header {
            dscp: 46,
            ecn: 1,
            flow_label: 0xabcde,
            payload_len: 0,
            next_header: Protocol::NO_NEXT_HEADER,
            hop_limit: 255,
            src: "fe80::1".parse().unwrap(),
            dst: "ff02::1".parse().unwrap(),
        };
        for (text, header) in [(PLAIN, plain()), (MARKED, marked)] {
            let bytes = hex(text);
            assert_eq!(Header::parse(&bytes), Ok(header), "{text}");
            let mut written = vec![0xee; header.header_len()];
            header.emit(&mut written);
            assert_eq!(written, bytes[..HEADER_LEN], "{header}");
            truncation(&bytes, bytes.len(), View::parse);
        }
    }

    #[test]
    fn padding_of_the_frame_is_no_payload() {
        let mut bytes = hex(PLAIN);
        bytes.extend([0; 9]);
        assert_eq!(View::parse(&bytes).unwrap().payload(), b"abcd");
    }

    #[test]
    fn wrong_version_and_jumbogram_are_refused() {
        let mut bytes = hex(PLAIN);
        bytes[0] = 0x40;
        assert_eq!(
            View::parse(&bytes),
            Err(Layer::Ipv6.error(Reason::BadVersion))
        );
        let mut bytes = hex(PLAIN);
        bytes[PAYLOAD_LEN].fill(0);
        assert!(View::parse(&bytes).is_ok(), "an empty payload is legal");
        bytes[NEXT_HEADER] = 0;
        assert_eq!(
            View::parse(&bytes),
            Err(Layer::Ipv6.error(Reason::BadLength))
        );
    }

    #[test]
    fn setters_write_one_field() {
        let mut view = View::parse(hex(PLAIN)).unwrap();
        view.set_dscp(0xee);
        view.set_ecn(0xf1);
        view.set_flow_label(0xfff_abcde);
        view.set_payload_len(0xffff);
        view.set_next_header(Protocol::TCP);
        view.set_hop_limit(1);
        assert!(!view.decrement_hop_limit());
        view.set_hop_limit(3);
        assert!(view.decrement_hop_limit());
        let (src, dst) = (view.src(), view.dst());
        view.set_src(dst);
        view.set_dst(src);
        view.payload_mut()[0] = b'A';
        assert_eq!(
            view.payload(),
            b"Abcd",
            "the view keeps the bounds it was parsed with"
        );
        let expected = "6 b9 abcde ffff 06 02 \
            20010db8000000000000000000000002 20010db8000000000000000000000001 41626364";
        assert_eq!(view.into_inner(), hex(expected));
    }

    #[test]
    fn display_shows_both_ends() {
        let expected = "ipv6 2001:db8::1 > 2001:db8::2 udp hops 64 payload 4";
        assert_eq!(plain().to_string(), expected);
    }

    proptest! {
        #[test]
        fn emit_then_parse_is_identity(
            (dscp, ecn, flow_label) in (0_u8..64, 0_u8..4, 0..=FLOW_LABEL_MAX),
            (next_header, hop_limit) in (1_u8.., any::<u8>()),
            (src, dst) in (any::<[u8; 16]>(), any::<[u8; 16]>()),
            payload_len in 0_u16..100,
        ) {
            let header = Header {
                dscp,
                ecn,
                flow_label,
                payload_len,
                next_header: Protocol(next_header),
                hop_limit,
                src: src.into(),
                dst: dst.into(),
            };
            let mut bytes = vec![0; HEADER_LEN + usize::from(payload_len)];
            header.emit(&mut bytes);
            prop_assert_eq!(Header::parse(&bytes), Ok(header));
        }
    }
}
