// SPDX-License-Identifier: Apache-2.0
//! TCP segments, after the IP header. The options are read by [`option`].
//!
//! ```text
//!   0               1               2               3
//! 0 |          Source Port          |       Destination Port        |
//! 4 |                        Sequence Number                        |
//! 8 |                    Acknowledgment Number                      |
//! 12|Offset | res |A|C|E|U|A|P|R|S|F|            Window             |
//! 16|           Checksum            |         Urgent Pointer        |
//! 20|                      Options, 0 to 40 bytes                   |
//! ```
//!
//! Specification: RFC 9293 3.1; RFC 3168 (CWR, ECE), RFC 9768 (AE, the third bit of accurate ECN).
//!
//! Deliberately unsupported: the state machine; the three reserved bits (not kept by [`Header`]).

pub mod option;

use crate::checksum::Sum;
use crate::ip::{Addresses, Protocol};
use crate::options::Options;
use crate::{Layer, ParseError, Reason, field};
use core::{fmt, ops::BitOr, ops::Range};
use option::TcpOptions;

/// Length of a header without options, in bytes.
pub const HEADER_LEN_MIN: usize = 20;

const SRC_PORT: Range<usize> = 0..2;
const DST_PORT: Range<usize> = 2..4;
const SEQUENCE: Range<usize> = 4..8;
const ACKNOWLEDGMENT: Range<usize> = 8..12;
const DATA_OFFSET: usize = 12;
const OFFSET_FLAGS: Range<usize> = 12..14;
const WINDOW: Range<usize> = 14..16;
const CHECKSUM: Range<usize> = 16..18;
const URGENT: Range<usize> = 18..20;

/// Checked access to one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View<T> {
    bytes: T,
    header_len: usize,
}

impl<T: AsRef<[u8]>> View<T> {
    /// Checks the data offset. TCP has no length of its own: `bytes` are the payload of an IP view,
    /// which ends where the segment does. Options are checked as they are read.
    ///
    /// # Errors
    /// `BadLength` when the data offset is below five words; `Truncated` when the bytes end before
    /// the header.
    #[inline]
    pub fn parse(bytes: T) -> Result<Self, ParseError> {
        let data = bytes.as_ref();
        if data.len() < HEADER_LEN_MIN {
            return Err(Layer::Tcp.error(Reason::Truncated));
        }
        let header_len = usize::from(data[DATA_OFFSET] >> 4) * 4;
        if header_len < HEADER_LEN_MIN {
            return Err(Layer::Tcp.error(Reason::BadLength));
        }
        if header_len > data.len() {
            return Err(Layer::Tcp.error(Reason::Truncated));
        }
        Ok(Self { bytes, header_len })
    }

    /// Source port.
    #[inline]
    pub fn src_port(&self) -> u16 {
        field::u16(self.bytes.as_ref(), SRC_PORT)
    }

    /// Destination port.
    #[inline]
    pub fn dst_port(&self) -> u16 {
        field::u16(self.bytes.as_ref(), DST_PORT)
    }

    /// Sequence number of the first byte of data, or of SYN.
    #[inline]
    pub fn sequence(&self) -> u32 {
        field::u32(self.bytes.as_ref(), SEQUENCE)
    }

    /// Next sequence number expected from the other end; without meaning unless ACK is set.
    #[inline]
    pub fn acknowledgment(&self) -> u32 {
        field::u32(self.bytes.as_ref(), ACKNOWLEDGMENT)
    }

    /// The nine control bits.
    #[inline]
    pub fn flags(&self) -> Flags {
        Flags(field::u16(self.bytes.as_ref(), OFFSET_FLAGS) & Flags::ALL.0)
    }

    /// Receive window in bytes, before scaling (RFC 7323 2).
    #[inline]
    pub fn window(&self) -> u16 {
        field::u16(self.bytes.as_ref(), WINDOW)
    }

    /// The checksum as it stands.
    #[inline]
    pub fn checksum(&self) -> u16 {
        field::u16(self.bytes.as_ref(), CHECKSUM)
    }

    /// Whether the checksum is right. Reads the whole segment.
    #[inline]
    pub fn checksum_is_valid(&self, addresses: &Addresses) -> bool {
        self.sum(addresses).is_valid()
    }

    /// Urgent pointer; without meaning unless URG is set.
    #[inline]
    pub fn urgent(&self) -> u16 {
        field::u16(self.bytes.as_ref(), URGENT)
    }

    /// The options, one after another.
    #[inline]
    pub fn options(&self) -> TcpOptions<'_> {
        TcpOptions::new(self.option_bytes())
    }

    /// The options as bytes, 0 to 40.
    #[inline]
    pub fn option_bytes(&self) -> &[u8] {
        &self.bytes.as_ref()[HEADER_LEN_MIN..self.header_len]
    }

    /// Length of the header in bytes, options included, as checked by [`parse`](Self::parse).
    #[inline]
    pub const fn header_len(&self) -> usize {
        self.header_len
    }

    /// What follows the header.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.bytes.as_ref()[self.header_len..]
    }

    /// The bytes this view was made from.
    #[inline]
    pub fn into_inner(self) -> T {
        self.bytes
    }

    #[inline]
    fn sum(&self, addresses: &Addresses) -> Sum {
        let segment = self.bytes.as_ref();
        addresses.pseudo_header(Protocol::TCP, segment.len() as u32) + Sum::of(segment)
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

    /// Sets the sequence number.
    #[inline]
    pub fn set_sequence(&mut self, value: u32) {
        field::set_u32(self.bytes.as_mut(), SEQUENCE, value);
    }

    /// Sets the acknowledgment number.
    #[inline]
    pub fn set_acknowledgment(&mut self, value: u32) {
        field::set_u32(self.bytes.as_mut(), ACKNOWLEDGMENT, value);
    }

    /// Sets the control bits.
    #[inline]
    pub fn set_flags(&mut self, value: Flags) {
        let rest = field::u16(self.bytes.as_ref(), OFFSET_FLAGS) & !Flags::ALL.0;
        field::set_u16(
            self.bytes.as_mut(),
            OFFSET_FLAGS,
            rest | value.0 & Flags::ALL.0,
        );
    }

    /// Sets the receive window, in bytes before scaling.
    #[inline]
    pub fn set_window(&mut self, value: u16) {
        field::set_u16(self.bytes.as_mut(), WINDOW, value);
    }

    /// Sets the checksum.
    #[inline]
    pub fn set_checksum(&mut self, value: u16) {
        field::set_u16(self.bytes.as_mut(), CHECKSUM, value);
    }

    /// Replaces the checksum by `update` of it, see
    /// [`checksum::update_u32`](crate::checksum::update_u32).
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

    /// Sets the urgent pointer.
    #[inline]
    pub fn set_urgent(&mut self, value: u16) {
        field::set_u16(self.bytes.as_mut(), URGENT, value);
    }

    /// [`option_bytes`](Self::option_bytes) for writing.
    #[inline]
    pub fn option_bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes.as_mut()[HEADER_LEN_MIN..self.header_len]
    }

    /// [`payload`](Self::payload) for writing.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.bytes.as_mut()[self.header_len..]
    }
}

/// The header of a segment. The checksum is not part of it, since it depends on the payload: fill
/// it in with [`View::fill_checksum`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgment number.
    pub acknowledgment: u32,
    /// Control bits.
    pub flags: Flags,
    /// Receive window in bytes, before scaling.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Options, as bytes; [`TcpOptions`] reads them.
    pub options: Options,
}

impl Header {
    /// Reads the header at the front of `bytes`. The checksum is not judged.
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

    /// Writes the header to the front of `bytes`, with a checksum of zero.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`header_len`](Self::header_len).
    pub fn emit(&self, bytes: &mut [u8]) {
        let bytes = &mut bytes[..self.header_len()];
        field::set_u16(bytes, SRC_PORT, self.src_port);
        field::set_u16(bytes, DST_PORT, self.dst_port);
        field::set_u32(bytes, SEQUENCE, self.sequence);
        field::set_u32(bytes, ACKNOWLEDGMENT, self.acknowledgment);
        let data_offset = (self.header_len() / 4) as u16;
        field::set_u16(
            bytes,
            OFFSET_FLAGS,
            data_offset << 12 | self.flags.0 & Flags::ALL.0,
        );
        field::set_u16(bytes, WINDOW, self.window);
        field::set_u16(bytes, CHECKSUM, 0);
        field::set_u16(bytes, URGENT, self.urgent);
        bytes[HEADER_LEN_MIN..].copy_from_slice(self.options.as_bytes());
    }
}

impl<T: AsRef<[u8]>> From<&View<T>> for Header {
    fn from(view: &View<T>) -> Self {
        Self {
            src_port: view.src_port(),
            dst_port: view.dst_port(),
            sequence: view.sequence(),
            acknowledgment: view.acknowledgment(),
            flags: view.flags(),
            window: view.window(),
            urgent: view.urgent(),
            options: Options::new(view.option_bytes()).unwrap_or_default(),
        }
    }
}

/// The control bits of a segment, a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u16);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x001);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(0x002);
    /// Reset the connection.
    pub const RST: Self = Self(0x004);
    /// Push.
    pub const PSH: Self = Self(0x008);
    /// The acknowledgment number counts.
    pub const ACK: Self = Self(0x010);
    /// The urgent pointer counts.
    pub const URG: Self = Self(0x020);
    /// ECN echo (RFC 3168 6.1).
    pub const ECE: Self = Self(0x040);
    /// Congestion window reduced (RFC 3168 6.1).
    pub const CWR: Self = Self(0x080);
    /// Accurate ECN (RFC 9768); once NS.
    pub const AE: Self = Self(0x100);
    /// All of them.
    pub const ALL: Self = Self(0x1ff);

    /// Whether every bit of `other` is set.
    #[inline]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Display for Flags {
    /// One letter for each set bit, as `tcpdump` abbreviates, or `-`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 & Self::ALL.0 == 0 {
            return f.write_str("-");
        }
        for (bit, letter) in ["F", "S", "R", "P", ".", "U", "E", "W", "e"]
            .iter()
            .enumerate()
        {
            if self.0 >> bit & 1 != 0 {
                f.write_str(letter)?;
            }
        }
        Ok(())
    }
}

impl<T: AsRef<[u8]>> fmt::Display for View<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} payload {}", Header::from(self), self.payload().len())
    }
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "tcp {} > {} [{}] seq {} ack {} win {}",
            self.src_port,
            self.dst_port,
            self.flags,
            self.sequence,
            self.acknowledgment,
            self.window
        )
    }
}

#[cfg(test)]
mod tests;
