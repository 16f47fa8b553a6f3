// SPDX-License-Identifier: Apache-2.0
//! ICMP for IPv4, after the IP header: echo, and the errors that routers and hosts send back.
//!
//! ```text
//! 0      1      2          4              8
//! | type | code | checksum | rest:4 bytes | data ...
//! ```
//!
//! The meaning of the rest depends on the type: identifier and sequence number of an echo, the
//! next-hop MTU of "fragmentation needed", zero in most errors. The data of an error is the start
//! of the datagram it is about.
//!
//! Specification: RFC 792; RFC 1191 4 (next-hop MTU).
//!
//! Deliberately unsupported: extended errors (RFC 4884), the layout of obsolete query types.

use crate::checksum::Sum;
use crate::{Layer, ParseError, Reason, field};
use core::{fmt, ops::Range};

/// Length of the part all messages have, in bytes.
pub const HEADER_LEN: usize = 8;

const TYPE: usize = 0;
const CODE: usize = 1;
const CHECKSUM: Range<usize> = 2..4;
const REST: Range<usize> = 4..8;
const IDENT: Range<usize> = 4..6;
const SEQUENCE: Range<usize> = 6..8;

/// Code of "fragmentation needed and DF set" (RFC 792).
pub const FRAGMENTATION_NEEDED: u8 = 4;

/// Checked access to one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> View<T> {
    /// Checks that the fixed part is there. ICMP has no length of its own: `bytes` are the payload
    /// of an IPv4 view, which ends where the message does.
    ///
    /// # Errors
    /// `Truncated` when the bytes end before the fixed part.
    #[inline]
    pub fn parse(bytes: T) -> Result<Self, ParseError> {
        if bytes.as_ref().len() < HEADER_LEN {
            return Err(Layer::Icmpv4.error(Reason::Truncated));
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

    /// Whether the checksum is right. Reads the whole message; there is no pseudo-header.
    #[inline]
    pub fn checksum_is_valid(&self) -> bool {
        Sum::of(self.bytes.as_ref()).is_valid()
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

    /// The MTU in bytes that would have fitted, in "fragmentation needed"; `None` in other
    /// messages. Zero from routers older than RFC 1191.
    #[inline]
    pub fn next_hop_mtu(&self) -> Option<u16> {
        Header::from(self).next_hop_mtu()
    }

    /// Always [`HEADER_LEN`].
    #[inline]
    pub const fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// What follows the fixed part: echo data, or the start of the datagram an error is about.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.bytes.as_ref()[HEADER_LEN..]
    }

    /// The bytes this view was made from.
    #[inline]
    pub fn into_inner(self) -> T {
        self.bytes
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

    /// Sets the identifier of an echo, as NAT does; other messages have other fields there.
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
    /// [`checksum::update_u16`](crate::checksum::update_u16).
    #[inline]
    pub fn update_checksum(&mut self, update: impl FnOnce(u16) -> u16) {
        self.set_checksum(update(self.checksum()));
    }

    /// Computes the checksum and stores it.
    #[inline]
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let checksum = Sum::of(self.bytes.as_ref()).checksum();
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

    /// The MTU in bytes in "fragmentation needed", `None` in other messages.
    #[inline]
    pub const fn next_hop_mtu(&self) -> Option<u16> {
        match (self.message_type, self.code) {
            (Type::DESTINATION_UNREACHABLE, FRAGMENTATION_NEEDED) => {
                Some(u16::from_be_bytes([self.rest[2], self.rest[3]]))
            }
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
    /// Answer to an echo request.
    pub const ECHO_REPLY: Self = Self(0);
    /// The datagram could not be delivered.
    pub const DESTINATION_UNREACHABLE: Self = Self(3);
    /// A better first hop exists.
    pub const REDIRECT: Self = Self(5);
    /// Asks for an echo.
    pub const ECHO_REQUEST: Self = Self(8);
    /// The time to live, or the time for reassembly, ran out.
    pub const TIME_EXCEEDED: Self = Self(11);
    /// A header field is wrong.
    pub const PARAMETER_PROBLEM: Self = Self(12);

    /// Whether the message reports an error about a datagram, part of which it carries. No error
    /// is ever sent about an error (RFC 1122 3.2.2).
    #[inline]
    pub const fn is_error(self) -> bool {
        // 4 is the source quench that RFC 6633 withdrew; old hosts may still send it.
        matches!(self.0, 3 | 4 | 5 | 11 | 12)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ECHO_REPLY => f.write_str("echo reply"),
            Self::DESTINATION_UNREACHABLE => f.write_str("destination unreachable"),
            Self::REDIRECT => f.write_str("redirect"),
            Self::ECHO_REQUEST => f.write_str("echo request"),
            Self::TIME_EXCEEDED => f.write_str("time exceeded"),
            Self::PARAMETER_PROBLEM => f.write_str("parameter problem"),
            Self(other) => write!(f, "type {other}"),
        }
    }
}

impl<T: AsRef<[u8]>> fmt::Display for View<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} payload {}", Header::from(self), self.payload().len())
    }
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "icmpv4 {}", self.message_type)?;
        if let Some((ident, sequence)) = self.echo() {
            return write!(f, " id {ident} seq {sequence}");
        }
        write!(f, " code {}", self.code)?;
        match self.next_hop_mtu() {
            Some(mtu) => write!(f, " mtu {mtu}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum;
    use crate::testing::{hex, truncation};
    use proptest::prelude::*;

    // The checksums come from an independent program, not from this crate.
    const ECHO: &str = "08 00 2104 1234 0001 61626364";
    const TOO_BIG: &str = "03 04 f3e1 0000 0514 01020304";

    #[test]
    fn header_and_bytes_agree() {
        let too_big = Header {
            message_type: Type::DESTINATION_UNREACHABLE,
            code: FRAGMENTATION_NEEDED,
            rest: [0, 0, 5, 0x14],
        };
        let table = [
            (ECHO, Header::of_echo(Type::ECHO_REQUEST, 0x1234, 1)),
            (TOO_BIG, too_big),
        ];
        for (text, header) in table {
            let bytes = hex(text);
            assert_eq!(Header::parse(&bytes), Ok(header), "{text}");
            assert!(View::parse(&bytes).unwrap().checksum_is_valid(), "{text}");
            let mut written = bytes.clone();
            written[..HEADER_LEN].fill(0xee);
            header.emit(&mut written);
            View::parse(&mut written).unwrap().fill_checksum();
            assert_eq!(written, bytes, "{header}");
            truncation(&bytes, HEADER_LEN, View::parse);
        }
    }

    #[test]
    fn rest_is_read_by_type() {
        let (echo, too_big) = (hex(ECHO), hex(TOO_BIG));
        let (echo, too_big) = (View::parse(echo).unwrap(), View::parse(too_big).unwrap());
        assert_eq!(
            (echo.echo(), echo.next_hop_mtu()),
            (Some((0x1234, 1)), None)
        );
        assert_eq!((too_big.echo(), too_big.next_hop_mtu()), (None, Some(1300)));
        assert!(too_big.message_type().is_error() && !echo.message_type().is_error());
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
        assert_eq!(view.into_inner(), hex("00 01 0002 0003 0004 41626364"));
    }

    #[test]
    fn display_follows_the_type() {
        let text = View::parse(hex(ECHO)).unwrap().to_string();
        assert_eq!(text, "icmpv4 echo request id 4660 seq 1 payload 4");
        let text = Header::parse(&hex(TOO_BIG)).unwrap().to_string();
        assert_eq!(text, "icmpv4 destination unreachable code 4 mtu 1300");
    }

    proptest! {
        #[test]
        fn emit_then_parse_is_identity(
            message_type: u8, code: u8, rest: [u8; 4],
            payload in proptest::collection::vec(any::<u8>(), 0..300), ident: u16,
        ) {
            let header = Header { message_type: Type(message_type), code, rest };
            let mut bytes = vec![0; HEADER_LEN];
            header.emit(&mut bytes);
            bytes.extend(&payload);
            prop_assert_eq!(Header::parse(&bytes), Ok(header));
            let mut view = View::parse(bytes).unwrap();
            view.fill_checksum();
            prop_assert!(view.checksum_is_valid());
            // All zero data is the one case where an update and a new sum differ.
            prop_assume!(message_type != 0);
            let old = u16::from_be_bytes([rest[0], rest[1]]);
            view.set_ident(ident);
            view.update_checksum(|sum| checksum::update_u16(sum, old, ident));
            prop_assert!(view.checksum_is_valid());
        }
    }
}
