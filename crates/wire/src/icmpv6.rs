// SPDX-License-Identifier: Apache-2.0
//! ICMP for IPv6, after the last extension header: echo, errors, and neighbour discovery, which
//! IPv6 uses where IPv4 has ARP.
//!
//! ```text
//! 0      1      2          4              8
//! | type | code | checksum | rest:4 bytes | data ...
//! ```
//!
//! The meaning of the rest depends on the type: identifier and sequence number of an echo, the MTU
//! of "packet too big", flags in neighbour discovery.
//!
//! Specification: RFC 4443 2 to 4; RFC 4861 4 (neighbour discovery). RFC 4443 2.1 lets a message
//! end after the checksum, but no type is assigned that does, so eight bytes are required.
//!
//! Deliberately unsupported: the options of neighbour discovery, multicast listener records.

use crate::checksum::Sum;
use crate::ip::{Addresses, Protocol};
use crate::{Layer, ParseError, Reason, field};
use core::{fmt, net::Ipv6Addr, ops::Range};

/// Length of the part all messages have, in bytes.
pub const HEADER_LEN: usize = 8;

const TYPE: usize = 0;
const CODE: usize = 1;
const CHECKSUM: Range<usize> = 2..4;
const REST: Range<usize> = 4..8;
const IDENT: Range<usize> = 4..6;
const SEQUENCE: Range<usize> = 6..8;
const TARGET: Range<usize> = 8..24;

/// Checked access to one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> View<T> {
    /// Checks that the fixed part is there. ICMP has no length of its own: `bytes` run from the
    /// upper layer of an IPv6 view to its end.
    ///
    /// # Errors
    /// `Truncated` when the bytes end before the fixed part.
    #[inline]
    pub fn parse(bytes: T) -> Result<Self, ParseError> {
        if bytes.as_ref().len() < HEADER_LEN {
            return Err(Layer::Icmpv6.error(Reason::Truncated));
        }
        Ok(Self { bytes })
    }

    /// Type of the message.
    #[inline]
    pub fn message_type(&self) -> Type {
        Type(self.bytes.as_ref()[TYPE])
    }

    /// Subtype of the message; its meaning depends on the type.
    #[inline]
    pub fn code(&self) -> u8 {
        self.bytes.as_ref()[CODE]
    }

    /// The checksum as it stands.
    #[inline]
    pub fn checksum(&self) -> u16 {
        field::u16(self.bytes.as_ref(), CHECKSUM)
    }

    /// Whether the checksum is right, pseudo-header included. Reads the whole message.
    #[inline]
    pub fn checksum_is_valid(&self, addresses: &Addresses) -> bool {
        self.sum(addresses).is_valid()
    }

    /// The four bytes before the data.
    #[inline]
    pub fn rest(&self) -> [u8; 4] {
        field::array(self.bytes.as_ref(), REST)
    }

    /// Identifier and sequence number of an echo request or reply, `None` in other messages.
    #[inline]
    pub fn echo(&self) -> Option<(u16, u16)> {
        Header::from(self).echo()
    }

    /// The MTU in bytes that would have fitted, in "packet too big"; `None` in other messages.
    #[inline]
    pub fn mtu(&self) -> Option<u32> {
        Header::from(self).mtu()
    }

    /// The address asked for or announced, in a neighbour solicitation or advertisement that is
    /// long enough; `None` in other messages.
    #[inline]
    pub fn target(&self) -> Option<Ipv6Addr> {
        let bytes = self.bytes.as_ref();
        match self.message_type() {
            Type::NEIGHBOR_SOLICITATION | Type::NEIGHBOR_ADVERTISEMENT
                if bytes.len() >= TARGET.end =>
            {
                Some(Ipv6Addr::from(field::array::<16>(bytes, TARGET)))
            }
            _ => None,
        }
    }

    /// Always [`HEADER_LEN`].
    #[inline]
    pub const fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// What follows the fixed part.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.bytes.as_ref()[HEADER_LEN..]
    }

    /// The bytes this view was made from.
    #[inline]
    pub fn into_inner(self) -> T {
        self.bytes
    }

    #[inline]
    fn sum(&self, addresses: &Addresses) -> Sum {
        let message = self.bytes.as_ref();
        addresses.pseudo_header(Protocol::ICMPV6, message.len() as u32) + Sum::of(message)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
    /// Sets the type.
    #[inline]
    pub fn set_message_type(&mut self, value: Type) {
        self.bytes.as_mut()[TYPE] = value.0;
    }

    /// Sets the code.
    #[inline]
    pub fn set_code(&mut self, value: u8) {
        self.bytes.as_mut()[CODE] = value;
    }

    /// Sets the checksum.
    #[inline]
    pub fn set_checksum(&mut self, value: u16) {
        field::set_u16(self.bytes.as_mut(), CHECKSUM, value);
    }

    /// Sets the four bytes before the data.
    #[inline]
    pub fn set_rest(&mut self, value: [u8; 4]) {
        field::set(self.bytes.as_mut(), REST, &value);
    }

    /// Sets the identifier of an echo; other messages have other fields there.
    #[inline]
    pub fn set_ident(&mut self, value: u16) {
        field::set_u16(self.bytes.as_mut(), IDENT, value);
    }

    /// Sets the sequence number of an echo; other messages have other fields there.
    #[inline]
    pub fn set_sequence(&mut self, value: u16) {
        field::set_u16(self.bytes.as_mut(), SEQUENCE, value);
    }

    /// Replaces the checksum by `update` of it, see
    /// [`checksum::update_u128`](crate::checksum::update_u128).
    #[inline]
    pub fn update_checksum(&mut self, update: impl FnOnce(u16) -> u16) {
        self.set_checksum(update(self.checksum()));
    }

    /// Computes the checksum and stores it.
    #[inline]
    pub fn fill_checksum(&mut self, addresses: &Addresses) {
        self.set_checksum(0);
        let checksum = self.sum(addresses).checksum();
        self.set_checksum(checksum);
    }

    /// [`payload`](Self::payload) for writing.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.bytes.as_mut()[HEADER_LEN..]
    }
}

/// The fixed part of a message. The checksum is not part of it, since it depends on the data: fill
/// it in with [`View::fill_checksum`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Type of the message.
    pub message_type: Type,
    /// Subtype of the message.
    pub code: u8,
    /// The four bytes before the data.
    pub rest: [u8; 4],
}

impl Header {
    /// An echo request or reply.
    pub const fn of_echo(message_type: Type, ident: u16, sequence: u16) -> Self {
        let ([a, b], [c, d]) = (ident.to_be_bytes(), sequence.to_be_bytes());
        Self {
            message_type,
            code: 0,
            rest: [a, b, c, d],
        }
    }

    /// Identifier and sequence number of an echo request or reply, `None` in other messages.
    #[inline]
    pub const fn echo(&self) -> Option<(u16, u16)> {
        let [a, b, c, d] = self.rest;
        match self.message_type {
            Type::ECHO_REQUEST | Type::ECHO_REPLY => {
                Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
            }
            _ => None,
        }
    }

    /// The MTU in bytes in "packet too big", `None` in other messages.
    #[inline]
    pub const fn mtu(&self) -> Option<u32> {
        match self.message_type {
            Type::PACKET_TOO_BIG => Some(u32::from_be_bytes(self.rest)),
            _ => None,
        }
    }

    /// Reads the fixed part at the front of `bytes`. The checksum is not judged.
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

    /// Writes the fixed part to the front of `bytes`, with a checksum of zero.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`header_len`](Self::header_len).
    pub fn emit(&self, bytes: &mut [u8]) {
        bytes[TYPE] = self.message_type.0;
        bytes[CODE] = self.code;
        field::set_u16(bytes, CHECKSUM, 0);
        field::set(bytes, REST, &self.rest);
    }
}

impl<T: AsRef<[u8]>> From<&View<T>> for Header {
    #[inline]
    fn from(view: &View<T>) -> Self {
        Self {
            message_type: view.message_type(),
            code: view.code(),
            rest: view.rest(),
        }
    }
}

/// The type of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Type(pub u8);

impl Type {
    /// The packet could not be delivered.
    pub const DESTINATION_UNREACHABLE: Self = Self(1);
    /// The packet is longer than the MTU of the next link.
    pub const PACKET_TOO_BIG: Self = Self(2);
    /// The hop limit, or the time for reassembly, ran out.
    pub const TIME_EXCEEDED: Self = Self(3);
    /// A header field is wrong.
    pub const PARAMETER_PROBLEM: Self = Self(4);
    /// Asks for an echo.
    pub const ECHO_REQUEST: Self = Self(128);
    /// Answer to an echo request.
    pub const ECHO_REPLY: Self = Self(129);
    /// Asks for a router (RFC 4861 4.1).
    pub const ROUTER_SOLICITATION: Self = Self(133);
    /// Announces a router (RFC 4861 4.2).
    pub const ROUTER_ADVERTISEMENT: Self = Self(134);
    /// Asks who has an address (RFC 4861 4.3).
    pub const NEIGHBOR_SOLICITATION: Self = Self(135);
    /// Says who has an address (RFC 4861 4.4).
    pub const NEIGHBOR_ADVERTISEMENT: Self = Self(136);
    /// A better first hop exists (RFC 4861 4.5).
    pub const REDIRECT: Self = Self(137);

    /// Whether the message reports an error about a packet, part of which it carries: the high bit
    /// is clear (RFC 4443 2.1).
    #[inline]
    pub const fn is_error(self) -> bool {
        self.0 < 128
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::DESTINATION_UNREACHABLE => "destination unreachable",
            Self::PACKET_TOO_BIG => "packet too big",
            Self::TIME_EXCEEDED => "time exceeded",
            Self::PARAMETER_PROBLEM => "parameter problem",
            Self::ECHO_REQUEST => "echo request",
            Self::ECHO_REPLY => "echo reply",
            Self::ROUTER_SOLICITATION => "router solicitation",
            Self::ROUTER_ADVERTISEMENT => "router advertisement",
            Self::NEIGHBOR_SOLICITATION => "neighbor solicitation",
            Self::NEIGHBOR_ADVERTISEMENT => "neighbor advertisement",
            Self::REDIRECT => "redirect",
            Self(other) => return write!(f, "type {other}"),
        })
    }
}

impl<T: AsRef<[u8]>> fmt::Display for View<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Header::from(self).fmt(f)?;
        if let Some(target) = self.target() {
            write!(f, " target {target}")?;
        }
        write!(f, " payload {}", self.payload().len())
    }
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "icmpv6 {}", self.message_type)?;
        if let Some((ident, sequence)) = self.echo() {
            return write!(f, " id {ident} seq {sequence}");
        }
        match self.mtu() {
            Some(mtu) => write!(f, " code {} mtu {mtu}", self.code),
            None => write!(f, " code {}", self.code),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{hex, truncation};
    use proptest::prelude::*;

    const LOOPBACK: Addresses = Addresses::V6 {
        src: Ipv6Addr::LOCALHOST,
        dst: Ipv6Addr::LOCALHOST,
    };
    // The checksums come from an independent program, not from this crate.
    const ECHO: &str = "80 00 a8bb 1234 0001 61626364";
    const TOO_BIG: &str = "02 00 f4b1 00000500 01020304";
    const SOLICITATION: &str = "87 00 4af0 00000000 20010db8000000000000000000000002";

    #[test]
    fn header_and_bytes_agree() {
        let table = [
            (ECHO, Header::of_echo(Type::ECHO_REQUEST, 0x1234, 1)),
            (
                TOO_BIG,
                Header {
                    message_type: Type(2),
                    code: 0,
                    rest: [0, 0, 5, 0],
                },
            ),
            (
                SOLICITATION,
                Header {
                    message_type: Type(135),
                    code: 0,
                    rest: [0; 4],
                },
            ),
        ];
        for (text, header) in table {
            let bytes = hex(text);
            assert_eq!(Header::parse(&bytes), Ok(header), "{text}");
            assert!(
                View::parse(&bytes).unwrap().checksum_is_valid(&LOOPBACK),
                "{text}"
            );
            let mut written = bytes.clone();
            written[..HEADER_LEN].fill(0xee);
            header.emit(&mut written);
            View::parse(&mut written).unwrap().fill_checksum(&LOOPBACK);
            assert_eq!(written, bytes, "{header}");
            truncation(&bytes, HEADER_LEN, View::parse);
        }
    }

    #[test]
    fn rest_is_read_by_type() {
        let echo = View::parse(hex(ECHO)).unwrap();
        assert_eq!(
            (echo.echo(), echo.mtu(), echo.target()),
            (Some((0x1234, 1)), None, None)
        );
        let too_big = View::parse(hex(TOO_BIG)).unwrap();
        assert_eq!(
            (too_big.echo(), too_big.mtu(), too_big.target()),
            (None, Some(1280), None)
        );
        assert!(too_big.message_type().is_error() && !echo.message_type().is_error());
        let bytes = hex(SOLICITATION);
        let target = "2001:db8::2".parse().ok();
        assert_eq!(View::parse(&bytes).unwrap().target(), target);
        assert_eq!(View::parse(&bytes[..23]).unwrap().target(), None);
    }

    #[test]
    fn setters_write_one_field() {
        let mut view = View::parse(hex(ECHO)).unwrap();
        view.set_message_type(Type::ECHO_REPLY);
        view.set_code(1);
        view.set_checksum(2);
        view.set_rest([0xff; 4]);
        view.set_ident(3);
        view.set_sequence(4);
        view.payload_mut()[0] = b'A';
        view.update_checksum(|checksum| checksum + 1);
        assert_eq!(view.into_inner(), hex("81 01 0003 0003 0004 41626364"));
    }

    #[test]
    fn display_follows_the_type() {
        let table = [
            (ECHO, "icmpv6 echo request id 4660 seq 1 payload 4"),
            (TOO_BIG, "icmpv6 packet too big code 0 mtu 1280 payload 4"),
            (
                SOLICITATION,
                "icmpv6 neighbor solicitation code 0 target 2001:db8::2 payload 16",
            ),
        ];
        for (text, expected) in table {
            assert_eq!(View::parse(hex(text)).unwrap().to_string(), expected);
        }
    }

    proptest! {
        #[test]
        fn emit_then_parse_is_identity(
            message_type: u8, code: u8, rest: [u8; 4],
            payload in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let header = Header { message_type: Type(message_type), code, rest };
            let mut bytes = vec![0; HEADER_LEN];
            header.emit(&mut bytes);
            bytes.extend(&payload);
            prop_assert_eq!(Header::parse(&bytes), Ok(header));
            let mut view = View::parse(bytes).unwrap();
            view.fill_checksum(&LOOPBACK);
            prop_assert!(view.checksum_is_valid(&LOOPBACK));
        }
    }
}
