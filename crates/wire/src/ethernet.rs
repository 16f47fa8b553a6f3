// SPDX-License-Identifier: Apache-2.0
//! Ethernet frames, the first header of every packet that a port receives.
//!
//! ```text
//! 0           6           12    14
//! | dst       | src       | type | payload ... (padding)
//! ```
//!
//! Specification: IEEE 802.3-2022, 3.1 (frame) and 3.2.6 (Length/Type). A Length/Type of at most
//! 1500 is a length and cuts the padding off; from 1536 up it is an EtherType. The gap between is
//! undefined there and is treated here as an EtherType that nobody knows.
//!
//! A frame here starts at the destination address and ends before the FCS.
//!
//! Deliberately unsupported: preamble, FCS, LLC/SNAP headers inside a length-typed frame.

use crate::{Layer, ParseError, Reason, field};
use core::{fmt, ops::Range, str::FromStr};

/// Length of the header in bytes: two addresses and the EtherType.
pub const HEADER_LEN: usize = 14;

/// The greatest Length/Type value that is a length, in bytes (802.3, 3.2.6 a).
pub const LENGTH_MAX: u16 = 1500;

const DST: Range<usize> = 0..6;
const SRC: Range<usize> = 6..12;
const ETHER_TYPE: Range<usize> = 12..14;

/// Checked access to one frame, without FCS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View<T> {
    bytes: T,
    end: usize,
}

impl<T: AsRef<[u8]>> View<T> {
    /// Checks the header and, in a frame with a length instead of an EtherType, that length.
    ///
    /// # Errors
    /// `Truncated` when the bytes end before the header or before the announced length.
    #[inline]
    pub fn parse(bytes: T) -> Result<Self, ParseError> {
        let data = bytes.as_ref();
        if data.len() < HEADER_LEN {
            return Err(Layer::Ethernet.error(Reason::Truncated));
        }
        let mut end = data.len();
        let length_or_type = field::u16(data, ETHER_TYPE);
        if length_or_type <= LENGTH_MAX {
            end = HEADER_LEN + usize::from(length_or_type);
            if end > data.len() {
                return Err(Layer::Ethernet.error(Reason::Truncated));
            }
        }
        Ok(Self { bytes, end })
    }

    /// Destination address.
    #[inline]
    pub fn dst(&self) -> MacAddr {
        MacAddr(field::array(self.bytes.as_ref(), DST))
    }

    /// Source address.
    #[inline]
    pub fn src(&self) -> MacAddr {
        MacAddr(field::array(self.bytes.as_ref(), SRC))
    }

    /// The Length/Type field; in a tagged frame this is the TPID of the outermost tag.
    #[inline]
    pub fn ether_type(&self) -> EtherType {
        EtherType(field::u16(self.bytes.as_ref(), ETHER_TYPE))
    }

    /// Always [`HEADER_LEN`].
    #[inline]
    pub const fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// What follows the header. Cut to the length field if there is one; otherwise padding is
    /// still included, because only the next header knows its length.
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
    /// Sets the destination address.
    #[inline]
    pub fn set_dst(&mut self, value: MacAddr) {
        field::set(self.bytes.as_mut(), DST, &value.0);
    }

    /// Sets the source address.
    #[inline]
    pub fn set_src(&mut self, value: MacAddr) {
        field::set(self.bytes.as_mut(), SRC, &value.0);
    }

    /// Sets the Length/Type field.
    #[inline]
    pub fn set_ether_type(&mut self, value: EtherType) {
        field::set_u16(self.bytes.as_mut(), ETHER_TYPE, value.0);
    }

    /// [`payload`](Self::payload) for writing.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.bytes.as_mut()[HEADER_LEN..self.end]
    }
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Destination address.
    pub dst: MacAddr,
    /// Source address.
    pub src: MacAddr,
    /// Length/Type.
    pub ether_type: EtherType,
}

impl Header {
    /// Reads the header of the frame in `bytes`.
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
    #[inline]
    pub fn emit(&self, bytes: &mut [u8]) {
        field::set(bytes, DST, &self.dst.0);
        field::set(bytes, SRC, &self.src.0);
        field::set_u16(bytes, ETHER_TYPE, self.ether_type.0);
    }
}

impl<T: AsRef<[u8]>> From<&View<T>> for Header {
    fn from(view: &View<T>) -> Self {
        Self {
            dst: view.dst(),
            src: view.src(),
            ether_type: view.ether_type(),
        }
    }
}

/// A 48-bit MAC address (IEEE 802, 8.2), in transmission order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// `ff:ff:ff:ff:ff:ff`.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// Whether every bit is set.
    #[inline]
    pub fn is_broadcast(self) -> bool {
        self == Self::BROADCAST
    }

    /// Whether this is a group address; the broadcast address is one.
    #[inline]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 0x01 != 0
    }

    /// Whether the address is assigned by a local administrator, not by a vendor.
    #[inline]
    pub const fn is_local(self) -> bool {
        self.0[0] & 0x02 != 0
    }
}

/// The text is not six hexadecimal octets with colons between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacAddrError;

impl fmt::Display for MacAddrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a MAC address is six two-digit hex octets, as in 02:00:00:00:00:01")
    }
}

impl core::error::Error for MacAddrError {}

impl FromStr for MacAddr {
    type Err = MacAddrError;

    fn from_str(text: &str) -> Result<Self, MacAddrError> {
        let mut octets = [0; 6];
        let mut parts = text.split(':');
        for octet in &mut octets {
            let part = parts.next().ok_or(MacAddrError)?;
            // from_str_radix alone would accept "+1".
            if part.len() != 2 || !part.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(MacAddrError);
            }
            *octet = u8::from_str_radix(part, 16).map_err(|_| MacAddrError)?;
        }
        if parts.next().is_some() {
            Err(MacAddrError)
        } else {
            Ok(Self(octets))
        }
    }
}

/// The Length/Type field. Constants are named as the IEEE registry names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EtherType(pub u16);

impl EtherType {
    /// Internet Protocol version 4.
    pub const IPV4: Self = Self(0x0800);
    /// Address Resolution Protocol.
    pub const ARP: Self = Self(0x0806);
    /// Customer VLAN tag, C-tag (802.1Q 9.6, table 9-1).
    pub const CUSTOMER_VLAN: Self = Self(0x8100);
    /// Internet Protocol version 6.
    pub const IPV6: Self = Self(0x86dd);
    /// MAC control: PAUSE, and MPCP of EPON (802.3, annex 31A).
    pub const MAC_CONTROL: Self = Self(0x8808);
    /// MPLS, unicast.
    pub const MPLS: Self = Self(0x8847);
    /// Service VLAN tag, S-tag (802.1Q 9.6, table 9-1).
    pub const SERVICE_VLAN: Self = Self(0x88a8);
    /// Network Service Header (RFC 8300).
    pub const NSH: Self = Self(0x894f);

    /// Whether a VLAN tag follows: C-tag or S-tag. The pre-standard 0x9100 is not one.
    #[inline]
    pub const fn is_vlan(self) -> bool {
        matches!(self, Self::CUSTOMER_VLAN | Self::SERVICE_VLAN)
    }

    /// Whether the value is a payload length and not a type.
    #[inline]
    pub const fn is_length(self) -> bool {
        self.0 <= LENGTH_MAX
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::IPV4 => f.write_str("ipv4"),
            Self::ARP => f.write_str("arp"),
            Self::CUSTOMER_VLAN => f.write_str("c-vlan"),
            Self::IPV6 => f.write_str("ipv6"),
            Self::MAC_CONTROL => f.write_str("mac-control"),
            Self::MPLS => f.write_str("mpls"),
            Self::SERVICE_VLAN => f.write_str("s-vlan"),
            Self::NSH => f.write_str("nsh"),
            Self(other) => write!(f, "0x{other:04x}"),
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
            "ethernet {} > {} {}",
            self.src, self.dst, self.ether_type
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{hex, truncation};
    use proptest::prelude::*;

    const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa]);
    const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xb]);

    #[test]
    fn header_and_bytes_agree() {
        let table = [
            (
                "02000000000b 02000000000a 0800",
                Header {
                    dst: B,
                    src: A,
                    ether_type: EtherType::IPV4,
                },
            ),
            (
                "ffffffffffff 02000000000a 0806",
                Header {
                    dst: MacAddr::BROADCAST,
                    src: A,
                    ether_type: EtherType::ARP,
                },
            ),
            (
                "02000000000a 02000000000b 88a8",
                Header {
                    dst: A,
                    src: B,
                    ether_type: EtherType(0x88a8),
                },
            ),
        ];
        for (text, header) in table {
            let bytes = hex(text);
            assert_eq!(Header::parse(&bytes), Ok(header), "{text}");
            let mut written = vec![0xee; header.header_len()];
            header.emit(&mut written);
            assert_eq!(written, bytes, "{header}");
            truncation(&bytes, HEADER_LEN, View::parse);
        }
    }

    #[test]
    fn setters_write_one_field() {
        let mut view = View::parse(hex("02000000000b 02000000000a 0800 1122")).unwrap();
        view.set_dst(A);
        view.set_src(B);
        view.set_ether_type(EtherType::IPV6);
        view.payload_mut()[0] = 0x33;
        assert_eq!(
            view.into_inner(),
            hex("02000000000a 02000000000b 86dd 3322")
        );
    }

    #[test]
    fn length_field_cuts_the_padding() {
        let bytes = hex("0180c2000000 02000000000a 0003 424203 000000");
        let view = View::parse(&bytes).unwrap();
        assert!(view.ether_type().is_length());
        assert_eq!(view.payload(), hex("424203"));
        truncation(&bytes, 17, View::parse);
    }

    #[test]
    fn text_of_an_address_reads_back() {
        assert_eq!("02:00:00:00:00:0A".parse(), Ok(A));
        assert_eq!(A.to_string(), "02:00:00:00:00:0a");
        for wrong in [
            "",
            "02:00:00:00:00",
            "02:00:00:00:00:0a:0b",
            "2:0:0:0:0:a",
            "+2:00:00:00:00:00",
        ] {
            assert_eq!(wrong.parse::<MacAddr>(), Err(MacAddrError), "{wrong}");
        }
        assert!(MacAddr::BROADCAST.is_multicast() && MacAddr::BROADCAST.is_broadcast());
        assert!(A.is_local() && !A.is_multicast());
    }

    #[test]
    fn display_names_both_ends() {
        let header = Header {
            dst: B,
            src: A,
            ether_type: EtherType::IPV4,
        };
        assert_eq!(
            header.to_string(),
            "ethernet 02:00:00:00:00:0a > 02:00:00:00:00:0b ipv4"
        );
    }

    proptest! {
        #[test]
        fn emit_then_parse_is_identity(dst: [u8; 6], src: [u8; 6], ether_type in 1501_u16..) {
            let ether_type = EtherType(ether_type);
            let header = Header { dst: MacAddr(dst), src: MacAddr(src), ether_type };
            let mut bytes = [0; HEADER_LEN];
            header.emit(&mut bytes);
            prop_assert_eq!(Header::parse(&bytes), Ok(header));
        }
    }
}
