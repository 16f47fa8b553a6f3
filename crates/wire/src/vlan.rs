// SPDX-License-Identifier: Apache-2.0
//! VLAN tags, between the Ethernet addresses and the EtherType of the payload.
//!
//! ```text
//! 0                   2            4
//! | PCP:3 DEI:1 VID:12 | EtherType | payload ...
//! ```
//!
//! Specification: IEEE 802.1Q-2022, 9.6 (tag control information); S-tags, once 802.1ad and called
//! QinQ when stacked, have the same format and another TPID. The view starts **after** the TPID,
//! which is the EtherType of the header before, so that a stack of tags is one view after another.
//!
//! Deliberately unsupported: the pre-standard TPIDs 0x9100 and 0x9200, the CFI meaning of the DEI
//! bit (Token Ring), the I-tag of 802.1ah.

use crate::{Layer, ParseError, Reason, ethernet::EtherType, field};
use core::{fmt, ops::Range};

/// Length of a tag in bytes, from the control information to the EtherType after it.
pub const HEADER_LEN: usize = 4;

/// The greatest VLAN identifier; 4095 itself is reserved (802.1Q 9.6, table 9-2).
pub const VID_MAX: u16 = 4095;

const TCI: Range<usize> = 0..2;
const ETHER_TYPE: Range<usize> = 2..4;

const PCP_SHIFT: u32 = 13;
const DEI: u16 = 0x1000;
const VID: u16 = 0x0fff;

/// Checked access to one tag and what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> View<T> {
    /// Checks that a whole tag is there. `bytes` start after the TPID, as the payload of
    /// [`ethernet::View`](crate::ethernet::View) or of an outer tag does.
    ///
    /// # Errors
    /// `Truncated` when the bytes end before the tag does.
    #[inline]
    pub fn parse(bytes: T) -> Result<Self, ParseError> {
        if bytes.as_ref().len() < HEADER_LEN {
            return Err(Layer::Vlan.error(Reason::Truncated));
        }
        Ok(Self { bytes })
    }

    /// Priority code point, 0 to 7.
    #[inline]
    pub fn pcp(&self) -> u8 {
        (self.tci() >> PCP_SHIFT) as u8
    }

    /// Drop eligible indicator.
    #[inline]
    pub fn dei(&self) -> bool {
        self.tci() & DEI != 0
    }

    /// VLAN identifier, 0 to [`VID_MAX`]; 0 means that only the priority counts.
    #[inline]
    pub fn vid(&self) -> u16 {
        self.tci() & VID
    }

    /// EtherType of what the tag carries, or the TPID of an inner tag.
    #[inline]
    pub fn ether_type(&self) -> EtherType {
        EtherType(field::u16(self.bytes.as_ref(), ETHER_TYPE))
    }

    /// Always [`HEADER_LEN`].
    #[inline]
    pub const fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// What follows the tag, padding of the frame included.
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
    fn tci(&self) -> u16 {
        field::u16(self.bytes.as_ref(), TCI)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
    /// Sets the priority code point to the low three bits of `value`.
    #[inline]
    pub fn set_pcp(&mut self, value: u8) {
        let rest = self.tci() & (DEI | VID);
        self.set_tci(u16::from(value) << PCP_SHIFT | rest);
    }

    /// Sets the drop eligible indicator.
    #[inline]
    pub fn set_dei(&mut self, value: bool) {
        let rest = self.tci() & !DEI;
        self.set_tci(if value { rest | DEI } else { rest });
    }

    /// Sets the VLAN identifier to the low twelve bits of `value`.
    #[inline]
    pub fn set_vid(&mut self, value: u16) {
        let rest = self.tci() & !VID;
        self.set_tci(rest | value & VID);
    }

    /// Sets the EtherType of what the tag carries.
    #[inline]
    pub fn set_ether_type(&mut self, value: EtherType) {
        field::set_u16(self.bytes.as_mut(), ETHER_TYPE, value.0);
    }

    /// [`payload`](Self::payload) for writing.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.bytes.as_mut()[HEADER_LEN..]
    }

    #[inline]
    fn set_tci(&mut self, value: u16) {
        field::set_u16(self.bytes.as_mut(), TCI, value);
    }
}

/// One tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Priority code point; [`Header::emit`] writes the low three bits.
    pub pcp: u8,
    /// Drop eligible indicator.
    pub dei: bool,
    /// VLAN identifier; [`Header::emit`] writes the low twelve bits.
    pub vid: u16,
    /// EtherType of what the tag carries.
    pub ether_type: EtherType,
}

impl Header {
    /// Reads the tag at the front of `bytes`, which start after the TPID.
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

    /// Writes the tag to the front of `bytes`; the TPID before it is the caller's.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`header_len`](Self::header_len).
    pub fn emit(&self, bytes: &mut [u8]) {
        let dei = if self.dei { DEI } else { 0 };
        let tci = u16::from(self.pcp) << PCP_SHIFT | dei | self.vid & VID;
        field::set_u16(bytes, TCI, tci);
        field::set_u16(bytes, ETHER_TYPE, self.ether_type.0);
    }
}

impl<T: AsRef<[u8]>> From<&View<T>> for Header {
    fn from(view: &View<T>) -> Self {
        Self {
            pcp: view.pcp(),
            dei: view.dei(),
            vid: view.vid(),
            ether_type: view.ether_type(),
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
            "vlan {} pcp {} dei {} {}",
            self.vid,
            self.pcp,
            u8::from(self.dei),
            self.ether_type
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{hex, truncation};
    use proptest::prelude::*;

    #[test]
    fn header_and_bytes_agree() {
        let table = [
            (
                "0064 0800",
                Header {
                    pcp: 0,
                    dei: false,
                    vid: 100,
                    ether_type: EtherType::IPV4,
                },
            ),
            (
                "b00a 8100",
                Header {
                    pcp: 5,
                    dei: true,
                    vid: 10,
                    ether_type: EtherType(0x8100),
                },
            ),
            (
                "efff 86dd",
                Header {
                    pcp: 7,
                    dei: false,
                    vid: VID_MAX,
                    ether_type: EtherType::IPV6,
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
    fn setters_keep_the_other_bits() {
        let mut view = View::parse(hex("b00a 0800 aa")).unwrap();
        view.set_pcp(0xfa);
        assert_eq!((view.pcp(), view.dei(), view.vid()), (2, true, 10));
        view.set_dei(false);
        assert_eq!((view.pcp(), view.dei(), view.vid()), (2, false, 10));
        view.set_vid(0xf123);
        assert_eq!((view.pcp(), view.dei(), view.vid()), (2, false, 0x123));
        view.set_ether_type(EtherType::ARP);
        view.payload_mut()[0] = 0xbb;
        assert_eq!(view.into_inner(), hex("4123 0806 bb"));
    }

    #[test]
    fn display_shows_all_fields() {
        let header = Header {
            pcp: 5,
            dei: true,
            vid: 10,
            ether_type: EtherType::IPV4,
        };
        assert_eq!(header.to_string(), "vlan 10 pcp 5 dei 1 ipv4");
    }

    proptest! {
        #[test]
        fn emit_then_parse_is_identity(
            pcp in 0_u8..8, dei: bool, vid in 0..=VID_MAX, ether_type: u16,
        ) {
            let header = Header { pcp, dei, vid, ether_type: EtherType(ether_type) };
            let mut bytes = [0; HEADER_LEN];
            header.emit(&mut bytes);
            prop_assert_eq!(Header::parse(&bytes), Ok(header));
        }
    }
}
