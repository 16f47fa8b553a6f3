// SPDX-License-Identifier: Apache-2.0
//! ARP for IPv4 on Ethernet: who has this address, read by a bridge, a router or a responder.
//!
//! ```text
//! 0      2       4    5    6     8            14           18           24           28
//! | htype | ptype | hl | pl | oper | sender MAC | sender IP | target MAC | target IP |
//! ```
//!
//! Specification: RFC 826 (packet format); RFC 5227 for probes and announcements.
//!
//! Deliberately unsupported: other hardware or protocol types (refused as `Unsupported`), RARP and
//! InARP operations beyond showing their number.

use crate::ethernet::{EtherType, MacAddr};
use crate::{Layer, ParseError, Reason, field};
use core::{fmt, net::Ipv4Addr, ops::Range};

/// Length of the packet in bytes; nothing follows but padding.
pub const HEADER_LEN: usize = 28;

const HARDWARE_TYPE: Range<usize> = 0..2;
const PROTOCOL_TYPE: Range<usize> = 2..4;
const HARDWARE_LEN: usize = 4;
const PROTOCOL_LEN: usize = 5;
const OPERATION: Range<usize> = 6..8;
const SENDER_MAC: Range<usize> = 8..14;
const SENDER_IP: Range<usize> = 14..18;
const TARGET_MAC: Range<usize> = 18..24;
const TARGET_IP: Range<usize> = 24..28;

/// Hardware type of Ethernet in the IANA registry.
const ETHERNET: u16 = 1;

/// Checked access to one ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> View<T> {
    /// Checks that a whole packet is there and that it is about IPv4 on Ethernet.
    ///
    /// # Errors
    /// `Truncated` when the bytes end early, `Unsupported` for other types of address, `BadLength`
    /// when an address length contradicts its type.
    #[inline]
    pub fn parse(bytes: T) -> Result<Self, ParseError> {
        let data = bytes.as_ref();
        if data.len() < HEADER_LEN {
            return Err(Layer::Arp.error(Reason::Truncated));
        }
        if field::u16(data, HARDWARE_TYPE) != ETHERNET
            || field::u16(data, PROTOCOL_TYPE) != EtherType::IPV4.0
        {
            return Err(Layer::Arp.error(Reason::Unsupported));
        }
        if data[HARDWARE_LEN] != 6 || data[PROTOCOL_LEN] != 4 {
            return Err(Layer::Arp.error(Reason::BadLength));
        }
        Ok(Self { bytes })
    }

    /// What the sender wants.
    #[inline]
    pub fn operation(&self) -> Operation {
        Operation(field::u16(self.bytes.as_ref(), OPERATION))
    }

    /// Hardware address of the sender.
    #[inline]
    pub fn sender_mac(&self) -> MacAddr {
        MacAddr(field::array(self.bytes.as_ref(), SENDER_MAC))
    }

    /// Protocol address of the sender; `0.0.0.0` in a probe (RFC 5227 1.1).
    #[inline]
    pub fn sender_ip(&self) -> Ipv4Addr {
        Ipv4Addr::from(field::array::<4>(self.bytes.as_ref(), SENDER_IP))
    }

    /// Hardware address of the target; without meaning in a request.
    #[inline]
    pub fn target_mac(&self) -> MacAddr {
        MacAddr(field::array(self.bytes.as_ref(), TARGET_MAC))
    }

    /// Protocol address of the target.
    #[inline]
    pub fn target_ip(&self) -> Ipv4Addr {
        Ipv4Addr::from(field::array::<4>(self.bytes.as_ref(), TARGET_IP))
    }

    /// Always [`HEADER_LEN`].
    #[inline]
    pub const fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// The bytes this view was made from.
    #[inline]
    pub fn into_inner(self) -> T {
        self.bytes
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
    /// Sets the operation.
    #[inline]
    pub fn set_operation(&mut self, value: Operation) {
        field::set_u16(self.bytes.as_mut(), OPERATION, value.0);
    }

    /// Sets the hardware address of the sender.
    #[inline]
    pub fn set_sender_mac(&mut self, value: MacAddr) {
        field::set(self.bytes.as_mut(), SENDER_MAC, &value.0);
    }

    /// Sets the protocol address of the sender.
    #[inline]
    pub fn set_sender_ip(&mut self, value: Ipv4Addr) {
        field::set(self.bytes.as_mut(), SENDER_IP, &value.octets());
    }

    /// Sets the hardware address of the target.
    #[inline]
    pub fn set_target_mac(&mut self, value: MacAddr) {
        field::set(self.bytes.as_mut(), TARGET_MAC, &value.0);
    }

    /// Sets the protocol address of the target.
    #[inline]
    pub fn set_target_ip(&mut self, value: Ipv4Addr) {
        field::set(self.bytes.as_mut(), TARGET_IP, &value.octets());
    }
}

/// One ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// What the sender wants.
    pub operation: Operation,
    /// Hardware address of the sender.
    pub sender_mac: MacAddr,
    /// Protocol address of the sender.
    pub sender_ip: Ipv4Addr,
    /// Hardware address of the target; zero in a request by custom.
    pub target_mac: MacAddr,
    /// Protocol address of the target.
    pub target_ip: Ipv4Addr,
}

impl Header {
    /// Reads the packet at the front of `bytes`.
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

    /// Writes the packet to the front of `bytes`.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`header_len`](Self::header_len).
    pub fn emit(&self, bytes: &mut [u8]) {
        field::set_u16(bytes, HARDWARE_TYPE, ETHERNET);
        field::set_u16(bytes, PROTOCOL_TYPE, EtherType::IPV4.0);
        bytes[HARDWARE_LEN] = 6;
        bytes[PROTOCOL_LEN] = 4;
        field::set_u16(bytes, OPERATION, self.operation.0);
        field::set(bytes, SENDER_MAC, &self.sender_mac.0);
        field::set(bytes, SENDER_IP, &self.sender_ip.octets());
        field::set(bytes, TARGET_MAC, &self.target_mac.0);
        field::set(bytes, TARGET_IP, &self.target_ip.octets());
    }
}

impl<T: AsRef<[u8]>> From<&View<T>> for Header {
    fn from(view: &View<T>) -> Self {
        Self {
            operation: view.operation(),
            sender_mac: view.sender_mac(),
            sender_ip: view.sender_ip(),
            target_mac: view.target_mac(),
            target_ip: view.target_ip(),
        }
    }
}

/// The operation field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Operation(pub u16);

impl Operation {
    /// Who has the target address?
    pub const REQUEST: Self = Self(1);
    /// The sender has it.
    pub const REPLY: Self = Self(2);
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::REQUEST => f.write_str("request"),
            Self::REPLY => f.write_str("reply"),
            Self(other) => write!(f, "operation {other}"),
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
            "arp {} {} ({}) > {} ({})",
            self.operation, self.sender_ip, self.sender_mac, self.target_ip, self.target_mac
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{hex, truncation};
    use proptest::prelude::*;

    const REQUEST: &str = "0001 0800 06 04 0001 02000000000a 0a000001 000000000000 0a000002";
    const REPLY: &str = "0001 0800 06 04 0002 02000000000b 0a000002 02000000000a 0a000001";

    #[test]
    fn header_and_bytes_agree() {
        let a = (MacAddr([2, 0, 0, 0, 0, 0xa]), Ipv4Addr::new(10, 0, 0, 1));
        let b = (MacAddr([2, 0, 0, 0, 0, 0xb]), Ipv4Addr::new(10, 0, 0, 2));
        let table = [
            (
                REQUEST,
                Header {
                    operation: Operation::REQUEST,
                    sender_mac: a.0,
                    sender_ip: a.1,
                    target_mac: MacAddr([0; 6]),
                    target_ip: b.1,
                },
            ),
            (
                REPLY,
                Header {
                    operation: Operation::REPLY,
                    sender_mac: b.0,
                    sender_ip: b.1,
                    target_mac: a.0,
                    target_ip: a.1,
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
    fn other_address_families_are_refused() {
        let table = [
            ("0006 0800 06 04", Reason::Unsupported),
            ("0001 86dd 06 04", Reason::Unsupported),
            ("0001 0800 08 04", Reason::BadLength),
            ("0001 0800 06 10", Reason::BadLength),
        ];
        for (front, reason) in table {
            let mut bytes = hex(REQUEST);
            bytes[..6].copy_from_slice(&hex(front));
            assert_eq!(
                View::parse(&bytes),
                Err(Layer::Arp.error(reason)),
                "{front}"
            );
        }
    }

    #[test]
    fn setters_turn_a_request_into_its_reply() {
        let mut view = View::parse(hex(REQUEST)).unwrap();
        let (asker_mac, asker_ip, wanted) = (view.sender_mac(), view.sender_ip(), view.target_ip());
        view.set_operation(Operation::REPLY);
        view.set_sender_mac(MacAddr([2, 0, 0, 0, 0, 0xb]));
        view.set_sender_ip(wanted);
        view.set_target_mac(asker_mac);
        view.set_target_ip(asker_ip);
        assert_eq!(view.into_inner(), hex(REPLY));
    }

    #[test]
    fn display_shows_both_ends() {
        let text = View::parse(hex(REPLY)).unwrap().to_string();
        assert_eq!(
            text,
            "arp reply 10.0.0.2 (02:00:00:00:00:0b) > 10.0.0.1 (02:00:00:00:00:0a)"
        );
    }

    proptest! {
        #[test]
        fn emit_then_parse_is_identity(
            operation: u16, sender: ([u8; 6], [u8; 4]), target: ([u8; 6], [u8; 4]),
        ) {
            let header = Header {
                operation: Operation(operation),
                sender_mac: MacAddr(sender.0),
                sender_ip: sender.1.into(),
                target_mac: MacAddr(target.0),
                target_ip: target.1.into(),
            };
            let mut bytes = [0; HEADER_LEN];
            header.emit(&mut bytes);
            prop_assert_eq!(Header::parse(&bytes), Ok(header));
        }
    }
}
