// SPDX-License-Identifier: Apache-2.0
//! UDP datagrams, after the IP header.
//!
//! ```text
//! 0          2          4        6          8
//! | src port | dst port | length | checksum | payload ...
//! ```
//!
//! Specification: RFC 768; RFC 8200 8.1 (checksum over IPv6). A checksum of zero means "none" over
//! IPv4 and is wrong over IPv6; a computed zero is sent as all ones.
//!
//! Deliberately unsupported: a length of zero for jumbograms (RFC 2675), the zero-checksum mode of
//! tunnels over IPv6 (RFC 6935), UDP-Lite.

use crate::checksum::Sum;
use crate::ip::{Addresses, Protocol};
use crate::{Layer, ParseError, Reason, field};
use core::{fmt, ops::Range};

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 8;

const SRC_PORT: Range<usize> = 0..2;
const DST_PORT: Range<usize> = 2..4;
const LEN: Range<usize> = 4..6;
const CHECKSUM: Range<usize> = 6..8;

/// Checked access to one datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View<T> {
    bytes: T,
    end: usize,
}

impl<T: AsRef<[u8]>> View<T> {
    /// Checks the length. Bytes past it are no part of the view. The first fragment of a datagram
    /// does not pass, since its length field counts the other fragments too.
    ///
    /// # Errors
    /// `BadLength` when the length field is below 8; `Truncated` when the bytes end before the
    /// header or before the length.
    #[inline]
    pub fn parse(bytes: T) -> Result<Self, ParseError> {
        let data = bytes.as_ref();
        if data.len() < HEADER_LEN {
            return Err(Layer::Udp.error(Reason::Truncated));
        }
        let end = usize::from(field::u16(data, LEN));
        if end < HEADER_LEN {
            return Err(Layer::Udp.error(Reason::BadLength));
        }
        if end > data.len() {
            return Err(Layer::Udp.error(Reason::Truncated));
        }
        Ok(Self { bytes, end })
    }

    /// Source port; zero where no reply is expected.
    #[inline]
    pub fn src_port(&self) -> u16 {
        field::u16(self.bytes.as_ref(), SRC_PORT)
    }

    /// Destination port.
    #[inline]
    pub fn dst_port(&self) -> u16 {
        field::u16(self.bytes.as_ref(), DST_PORT)
    }

    /// The checksum as it stands; zero for none.
    #[inline]
    pub fn checksum(&self) -> u16 {
        field::u16(self.bytes.as_ref(), CHECKSUM)
    }

    /// Whether the checksum is right, or absent over IPv4. Reads the whole datagram.
    #[inline]
    pub fn checksum_is_valid(&self, addresses: &Addresses) -> bool {
        if self.checksum() == 0 {
            return matches!(addresses, Addresses::V4 { .. });
        }
        self.sum(addresses).is_valid()
    }

    /// Always [`HEADER_LEN`].
    #[inline]
    pub const fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// What follows the header, cut to the length field.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.bytes.as_ref()[HEADER_LEN..self.end]
    }

    /// The bytes this view was made from.
    #[inline]
    pub fn into_inner(self) -> T {
        self.bytes
    }

    #[inline]
    fn sum(&self, addresses: &Addresses) -> Sum {
        addresses.pseudo_header(Protocol::UDP, self.end as u32)
            + Sum::of(&self.bytes.as_ref()[..self.end])
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
    /// Sets the source port.
    #[inline]
    pub fn set_src_port(&mut self, value: u16) {
        field::set_u16(self.bytes.as_mut(), SRC_PORT, value);
    }

    /// Sets the destination port.
    #[inline]
    pub fn set_dst_port(&mut self, value: u16) {
        field::set_u16(self.bytes.as_mut(), DST_PORT, value);
    }

    /// Sets the length field, for a datagram about to grow or shrink. This view keeps the bounds
    /// it was parsed with.
    #[inline]
    pub fn set_len(&mut self, value: u16) {
        field::set_u16(self.bytes.as_mut(), LEN, value);
    }

    /// Sets the checksum.
    #[inline]
    pub fn set_checksum(&mut self, value: u16) {
        field::set_u16(self.bytes.as_mut(), CHECKSUM, value);
    }

    /// Replaces the checksum by `update` of it, see
    /// [`checksum::update_u32`](crate::checksum::update_u32). An absent checksum stays absent, and
    /// a result of zero is stored as all ones.
    #[inline]
    pub fn update_checksum(&mut self, update: impl FnOnce(u16) -> u16) {
        let checksum = self.checksum();
        if checksum != 0 {
            self.set_checksum(never_zero(update(checksum)));
        }
    }

    /// Computes the checksum and stores it.
    #[inline]
    pub fn fill_checksum(&mut self, addresses: &Addresses) {
        self.set_checksum(0);
        let checksum = self.sum(addresses).checksum();
        self.set_checksum(never_zero(checksum));
    }

    /// [`payload`](Self::payload) for writing.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.bytes.as_mut()[HEADER_LEN..self.end]
    }
}

/// All ones for zero: the two are the same number in one's complement, and zero means "none".
#[inline]
const fn never_zero(checksum: u16) -> u16 {
    if checksum == 0 { 0xffff } else { checksum }
}

/// The header of a datagram. The checksum is not part of it, since it depends on the payload: fill
/// it in with [`View::fill_checksum`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Length of the payload in bytes; with the header at most 65535.
    pub payload_len: usize,
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

    /// Writes the header to the front of `bytes`, with no checksum (zero).
    ///
    /// # Panics
    /// If `bytes` is shorter than [`header_len`](Self::header_len), or if header and payload
    /// together exceed 65535 bytes.
    #[inline]
    pub fn emit(&self, bytes: &mut [u8]) {
        let len = u16::try_from(HEADER_LEN + self.payload_len)
            .expect("a UDP datagram has at most 65535 bytes");
        field::set_u16(bytes, SRC_PORT, self.src_port);
        field::set_u16(bytes, DST_PORT, self.dst_port);
        field::set_u16(bytes, LEN, len);
        field::set_u16(bytes, CHECKSUM, 0);
    }
}

impl<T: AsRef<[u8]>> From<&View<T>> for Header {
    fn from(view: &View<T>) -> Self {
        Self {
            src_port: view.src_port(),
            dst_port: view.dst_port(),
            payload_len: view.end - HEADER_LEN,
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
            "udp {} > {} payload {}",
            self.src_port, self.dst_port, self.payload_len
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum;
    use crate::testing::{hex, truncation};
    use core::net::{Ipv4Addr, Ipv6Addr};
    use proptest::prelude::*;

    const V4: Addresses = Addresses::V4 {
        src: Ipv4Addr::new(10, 0, 0, 1),
        dst: Ipv4Addr::new(10, 0, 0, 2),
    };
    const V6: Addresses = Addresses::V6 {
        src: Ipv6Addr::LOCALHOST,
        dst: Ipv6Addr::LOCALHOST,
    };

    #[test]
    fn header_and_bytes_agree() {
        // The checksums come from an independent program, not from this crate.
        let table = [
            (V4, "0035 c000 000c 66d7 61626364", 53, 0xc000, 4),
            (V6, "0001 0002 0008 ffd9", 1, 2, 0),
        ];
        for (addresses, text, src_port, dst_port, payload_len) in table {
            let bytes = hex(text);
            let header = Header {
                src_port,
                dst_port,
                payload_len,
            };
            assert_eq!(Header::parse(&bytes), Ok(header), "{text}");
            assert!(
                View::parse(&bytes).unwrap().checksum_is_valid(&addresses),
                "{text}"
            );
            let mut written = bytes.clone();
            written[..HEADER_LEN].fill(0xee);
            header.emit(&mut written);
            View::parse(&mut written).unwrap().fill_checksum(&addresses);
            assert_eq!(written, bytes, "{header}");
            truncation(&bytes, bytes.len(), View::parse);
        }
    }

    #[test]
    fn length_field_bounds_the_payload() {
        let view = View::parse(hex("0035 c000 0009 0000 61626364")).unwrap();
        assert_eq!(view.payload(), b"a");
        for (length, reason) in [
            ("0000", Reason::BadLength),
            ("0007", Reason::BadLength),
            ("000d", Reason::Truncated),
        ] {
            let bytes = hex(&format!("0035 c000 {length} 0000 61626364"));
            assert_eq!(
                View::parse(&bytes),
                Err(Layer::Udp.error(reason)),
                "{length}"
            );
        }
    }

    #[test]
    fn zero_checksum_is_none_over_ipv4_and_wrong_over_ipv6() {
        let mut view = View::parse(hex("0035 c000 000c 0000 61626364")).unwrap();
        assert!(view.checksum_is_valid(&V4));
        assert!(!view.checksum_is_valid(&V6));
        view.update_checksum(|_| panic!("there is no checksum to update"));
        assert_eq!(view.checksum(), 0);
    }

    #[test]
    fn computed_zero_is_sent_as_all_ones() {
        // The payload is chosen so that the sum of all else is completed to ffff.
        let mut view = View::parse(hex("0035 c000 000a 0000 0000")).unwrap();
        let missing = view.sum(&V4).checksum();
        view.payload_mut().copy_from_slice(&missing.to_be_bytes());
        view.fill_checksum(&V4);
        assert_eq!(view.checksum(), 0xffff);
        assert!(view.checksum_is_valid(&V4));
        view.update_checksum(|_| 0);
        assert_eq!(view.checksum(), 0xffff);
    }

    #[test]
    fn setters_write_one_field() {
        let mut view = View::parse(hex("0035 c000 000c 66d7 61626364")).unwrap();
        view.set_src_port(1);
        view.set_dst_port(2);
        view.set_len(0);
        view.set_checksum(3);
        assert_eq!(
            view.payload(),
            b"abcd",
            "the view keeps the bounds it was parsed with"
        );
        assert_eq!(view.into_inner(), hex("0001 0002 0000 0003 61626364"));
    }

    #[test]
    fn display_shows_both_ports() {
        let header = Header {
            src_port: 53,
            dst_port: 1234,
            payload_len: 4,
        };
        assert_eq!(header.to_string(), "udp 53 > 1234 payload 4");
    }

    proptest! {
        #[test]
        fn emit_then_parse_is_identity(
            src_port: u16, dst_port: u16, payload in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let header = Header { src_port, dst_port, payload_len: payload.len() };
            let mut bytes = vec![0; HEADER_LEN];
            header.emit(&mut bytes);
            bytes.extend(&payload);
            prop_assert_eq!(Header::parse(&bytes), Ok(header));
            let mut view = View::parse(bytes).unwrap();
            prop_assert_eq!(view.payload(), &payload);
            for addresses in [V4, V6] {
                view.fill_checksum(&addresses);
                prop_assert!(view.checksum_is_valid(&addresses));
            }
        }

        #[test]
        fn rewritten_port_keeps_the_checksum_right(old: u16, new: u16, dst_port: u16) {
            let header = Header { src_port: old, dst_port, payload_len: 0 };
            let mut view = View::parse({
                let mut bytes = vec![0; HEADER_LEN];
                header.emit(&mut bytes);
                bytes
            })
            .unwrap();
            view.fill_checksum(&V6);
            view.set_src_port(new);
            view.update_checksum(|sum| checksum::update_u16(sum, old, new));
            prop_assert!(view.checksum_is_valid(&V6));
        }
    }
}
