// SPDX-License-Identifier: Apache-2.0
//! IPv4 datagrams, between the link header and the transport header.
//!
//! ```text
//!   0               1               2               3
//! 0 |Version|  IHL  |   DSCP    |ECN|          Total Length         |
//! 4 |         Identification        |0|D|M|    Fragment Offset      |
//! 8 |  Time to Live |    Protocol   |        Header Checksum        |
//! 12|                         Source Address                        |
//! 16|                      Destination Address                      |
//! 20|                      Options, 0 to 40 bytes                   |
//! ```
//!
//! Specification: RFC 791 3.1; RFC 2474 (DSCP) and RFC 3168 (ECN) for the second byte; RFC 6864
//! for the identification.
//!
//! Deliberately unsupported: reading single options (they are shown as bytes), reassembly, the
//! reserved flag (not kept by [`Header`]), a total length of zero as segmentation offload leaves it
//! in packets that were never on a wire (`BadLength`).

use crate::checksum::{self, Sum};
use crate::ip::{Addresses, Protocol};
use crate::options::Options;
use crate::{Layer, ParseError, Reason, field};
use core::{fmt, net::Ipv4Addr, ops::Range};

/// Length of a header without options, in bytes.
pub const HEADER_LEN_MIN: usize = 20;

const VERSION_IHL: usize = 0;
const TRAFFIC_CLASS: usize = 1;
const TOTAL_LEN: Range<usize> = 2..4;
const IDENT: Range<usize> = 4..6;
const FLAGS_OFFSET: Range<usize> = 6..8;
const TTL: usize = 8;
const PROTOCOL: usize = 9;
const CHECKSUM: Range<usize> = 10..12;
const SRC: Range<usize> = 12..16;
const DST: Range<usize> = 16..20;
const TTL_PROTOCOL: Range<usize> = 8..10;

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET_UNITS: u16 = 0x1fff;

/// Checked access to one datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View<T> {
    bytes: T,
    header_len: usize,
    total_len: usize,
}

impl<T: AsRef<[u8]>> View<T> {
    /// Checks the version, the header length and the total length. Bytes past the total length are
    /// padding and no part of the view.
    ///
    /// # Errors
    /// `BadVersion`; `BadLength` when the header length is below 20 bytes or above the total
    /// length; `Truncated` when the bytes end before the header or before the total length.
    #[inline]
    pub fn parse(bytes: T) -> Result<Self, ParseError> {
        let data = bytes.as_ref();
        if data.len() < HEADER_LEN_MIN {
            return Err(Layer::Ipv4.error(Reason::Truncated));
        }
        if data[VERSION_IHL] >> 4 != 4 {
            return Err(Layer::Ipv4.error(Reason::BadVersion));
        }
        let header_len = usize::from(data[VERSION_IHL] & 0x0f) * 4;
        let total_len = usize::from(field::u16(data, TOTAL_LEN));
        if header_len < HEADER_LEN_MIN || total_len < header_len {
            return Err(Layer::Ipv4.error(Reason::BadLength));
        }
        if total_len > data.len() {
            return Err(Layer::Ipv4.error(Reason::Truncated));
        }
        Ok(Self {
            bytes,
            header_len,
            total_len,
        })
    }

    /// Differentiated services code point, 0 to 63.
    #[inline]
    pub fn dscp(&self) -> u8 {
        self.bytes.as_ref()[TRAFFIC_CLASS] >> 2
    }

    /// Explicit congestion notification, 0 to 3.
    #[inline]
    pub fn ecn(&self) -> u8 {
        self.bytes.as_ref()[TRAFFIC_CLASS] & 0x03
    }

    /// Length of the datagram in bytes, header included, as checked by [`parse`](Self::parse).
    #[inline]
    pub const fn total_len(&self) -> usize {
        self.total_len
    }

    /// Identification, which fragments of one datagram share.
    #[inline]
    pub fn ident(&self) -> u16 {
        field::u16(self.bytes.as_ref(), IDENT)
    }

    /// Whether routers may not fragment the datagram.
    #[inline]
    pub fn dont_fragment(&self) -> bool {
        field::u16(self.bytes.as_ref(), FLAGS_OFFSET) & DONT_FRAGMENT != 0
    }

    /// Whether fragments with a greater offset exist.
    #[inline]
    pub fn more_fragments(&self) -> bool {
        field::u16(self.bytes.as_ref(), FLAGS_OFFSET) & MORE_FRAGMENTS != 0
    }

    /// Where the payload belongs in the whole datagram, in **bytes**, a multiple of 8.
    #[inline]
    pub fn fragment_offset(&self) -> u16 {
        (field::u16(self.bytes.as_ref(), FLAGS_OFFSET) & OFFSET_UNITS) * 8
    }

    /// Whether this is a fragment and not a whole datagram.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        field::u16(self.bytes.as_ref(), FLAGS_OFFSET) & (MORE_FRAGMENTS | OFFSET_UNITS) != 0
    }

    /// Time to live, in hops.
    #[inline]
    pub fn ttl(&self) -> u8 {
        self.bytes.as_ref()[TTL]
    }

    /// Protocol of the payload.
    #[inline]
    pub fn protocol(&self) -> Protocol {
        Protocol(self.bytes.as_ref()[PROTOCOL])
    }

    /// The header checksum as it stands.
    #[inline]
    pub fn checksum(&self) -> u16 {
        field::u16(self.bytes.as_ref(), CHECKSUM)
    }

    /// Whether the header checksum is right. Reads the header only.
    #[inline]
    pub fn checksum_is_valid(&self) -> bool {
        Sum::of(&self.bytes.as_ref()[..self.header_len]).is_valid()
    }

    /// Source address.
    #[inline]
    pub fn src(&self) -> Ipv4Addr {
        Ipv4Addr::from(field::array::<4>(self.bytes.as_ref(), SRC))
    }

    /// Destination address.
    #[inline]
    pub fn dst(&self) -> Ipv4Addr {
        Ipv4Addr::from(field::array::<4>(self.bytes.as_ref(), DST))
    }

    /// Both addresses, for a transport checksum.
    #[inline]
    pub fn addresses(&self) -> Addresses {
        Addresses::V4 {
            src: self.src(),
            dst: self.dst(),
        }
    }

    /// The options as bytes, 0 to 40.
    #[inline]
    pub fn options(&self) -> &[u8] {
        &self.bytes.as_ref()[HEADER_LEN_MIN..self.header_len]
    }

    /// Length of the header in bytes, options included, as checked by [`parse`](Self::parse).
    #[inline]
    pub const fn header_len(&self) -> usize {
        self.header_len
    }

    /// What follows the header, without padding of the frame.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.bytes.as_ref()[self.header_len..self.total_len]
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
        let byte = &mut self.bytes.as_mut()[TRAFFIC_CLASS];
        *byte = value << 2 | *byte & 0x03;
    }

    /// Sets the congestion notification to the low two bits of `value`.
    #[inline]
    pub fn set_ecn(&mut self, value: u8) {
        let byte = &mut self.bytes.as_mut()[TRAFFIC_CLASS];
        *byte = *byte & 0xfc | value & 0x03;
    }

    /// Sets the total length field, for a packet about to grow or shrink. This view keeps the
    /// bounds it was parsed with.
    #[inline]
    pub fn set_total_len(&mut self, value: u16) {
        field::set_u16(self.bytes.as_mut(), TOTAL_LEN, value);
    }

    /// Sets the identification.
    #[inline]
    pub fn set_ident(&mut self, value: u16) {
        field::set_u16(self.bytes.as_mut(), IDENT, value);
    }

    /// Sets the time to live.
    #[inline]
    pub fn set_ttl(&mut self, value: u8) {
        self.bytes.as_mut()[TTL] = value;
    }

    /// Takes one hop off the time to live and brings the checksum up to date (RFC 1624). Returns
    /// false, and changes nothing, when no hop is left to take: the datagram must be dropped if
    /// the result would be zero (RFC 1812 5.3.1).
    #[inline]
    #[must_use = "false means that the datagram must not be forwarded"]
    pub fn decrement_ttl(&mut self) -> bool {
        if self.ttl() <= 1 {
            return false;
        }
        let old = field::u16(self.bytes.as_ref(), TTL_PROTOCOL);
        // The time to live is the high byte of this word.
        let new = old - 0x0100;
        field::set_u16(self.bytes.as_mut(), TTL_PROTOCOL, new);
        self.update_checksum(|sum| checksum::update_u16(sum, old, new));
        true
    }

    /// Sets the protocol of the payload.
    #[inline]
    pub fn set_protocol(&mut self, value: Protocol) {
        self.bytes.as_mut()[PROTOCOL] = value.0;
    }

    /// Sets the header checksum.
    #[inline]
    pub fn set_checksum(&mut self, value: u16) {
        field::set_u16(self.bytes.as_mut(), CHECKSUM, value);
    }

    /// Replaces the header checksum by `update` of it, see [`checksum::update_u32`].
    #[inline]
    pub fn update_checksum(&mut self, update: impl FnOnce(u16) -> u16) {
        self.set_checksum(update(self.checksum()));
    }

    /// Computes the header checksum and stores it.
    #[inline]
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let checksum = Sum::of(&self.bytes.as_ref()[..self.header_len]).checksum();
        self.set_checksum(checksum);
    }

    /// Sets the source address.
    #[inline]
    pub fn set_src(&mut self, value: Ipv4Addr) {
        field::set(self.bytes.as_mut(), SRC, &value.octets());
    }

    /// Sets the destination address.
    #[inline]
    pub fn set_dst(&mut self, value: Ipv4Addr) {
        field::set(self.bytes.as_mut(), DST, &value.octets());
    }

    /// [`payload`](Self::payload) for writing.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.bytes.as_mut()[self.header_len..self.total_len]
    }
}

/// The header of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Differentiated services code point; [`Header::emit`] writes the low six bits.
    pub dscp: u8,
    /// Explicit congestion notification; [`Header::emit`] writes the low two bits.
    pub ecn: u8,
    /// Identification.
    pub ident: u16,
    /// Whether routers may not fragment the datagram.
    pub dont_fragment: bool,
    /// Whether fragments with a greater offset exist.
    pub more_fragments: bool,
    /// Where the payload belongs, in bytes; [`Header::emit`] rounds down to a multiple of 8.
    pub fragment_offset: u16,
    /// Time to live, in hops.
    pub ttl: u8,
    /// Protocol of the payload.
    pub protocol: Protocol,
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Length of the payload in bytes; with the header at most 65535.
    pub payload_len: usize,
    /// Options.
    pub options: Options,
}

impl Header {
    /// Reads the header of the datagram in `bytes`, which must hold the payload too. The checksum
    /// is not judged.
    ///
    /// # Errors
    /// Those of [`View::parse`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        View::parse(bytes).map(|view| Self::from(&view))
    }

    /// How many bytes [`emit`](Self::emit) writes, 20 to 60.
    pub const fn header_len(&self) -> usize {
        HEADER_LEN_MIN + self.options.len()
    }

    /// Writes the header, with its checksum, to the front of `bytes`.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`header_len`](Self::header_len), or if header and payload
    /// together exceed 65535 bytes.
    #[inline]
    pub fn emit(&self, bytes: &mut [u8]) {
        let total_len = u16::try_from(self.header_len() + self.payload_len)
            .expect("an IPv4 datagram has at most 65535 bytes");
        let (fixed, options) = bytes[..self.header_len()].split_at_mut(HEADER_LEN_MIN);
        options.copy_from_slice(self.options.as_bytes());
        let version_ihl = 4 << 4 | (self.header_len() / 4) as u8;
        let class = self.dscp << 2 | self.ecn & 0x03;
        let mut flags_offset = self.fragment_offset / 8;
        if self.dont_fragment {
            flags_offset |= DONT_FRAGMENT;
        }
        if self.more_fragments {
            flags_offset |= MORE_FRAGMENTS;
        }
        let mut words = [
            u32::from(u16::from_be_bytes([version_ihl, class])) << 16 | u32::from(total_len),
            u32::from(self.ident) << 16 | u32::from(flags_offset),
            u32::from(u16::from_be_bytes([self.ttl, self.protocol.0])) << 16,
            self.src.to_bits(),
            self.dst.to_bits(),
        ];
        // Of values, not of the bytes: what has just been written piece by piece waits to be read.
        let sum = words.iter().map(|word| Sum::of_u32(*word));
        let sum = sum.fold(Sum::of(options), |all, one| all + one);
        words[CHECKSUM.start / 4] |= u32::from(sum.checksum());
        for (to, word) in fixed.as_chunks_mut().0.iter_mut().zip(words) {
            *to = word.to_be_bytes();
        }
    }
}

impl<T: AsRef<[u8]>> From<&View<T>> for Header {
    fn from(view: &View<T>) -> Self {
        Self {
            dscp: view.dscp(),
            ecn: view.ecn(),
            ident: view.ident(),
            dont_fragment: view.dont_fragment(),
            more_fragments: view.more_fragments(),
            fragment_offset: view.fragment_offset(),
            ttl: view.ttl(),
            protocol: view.protocol(),
            src: view.src(),
            dst: view.dst(),
            payload_len: view.total_len - view.header_len,
            options: Options::new(view.options()).unwrap_or_default(),
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
            "ipv4 {} > {} {} ttl {} payload {}",
            self.src, self.dst, self.protocol, self.ttl, self.payload_len
        )?;
        if self.more_fragments || self.fragment_offset != 0 {
            let more = if self.more_fragments { "+" } else { "" };
            write!(f, " fragment {}@{}{more}", self.ident, self.fragment_offset)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
