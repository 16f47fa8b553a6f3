// SPDX-License-Identifier: Apache-2.0
//! MPCPDUs: frames of the multipoint control protocol of EPON, after the Ethernet header.
//!
//! ```text
//! 0        2           6                                            46
//! | opcode | timestamp | what the opcode says ... padding with zero |
//! ```
//!
//! Specification: IEEE 802.3-2022, 31.4 (MAC control frame), 64.3.6 (1G-EPON) and 77.3.6
//! (10G-EPON, whose fields come behind those of 1G-EPON, where a 1G-EPON frame has padding). The
//! EtherType is [`EtherType::MAC_CONTROL`](crate::ethernet::EtherType::MAC_CONTROL), the
//! destination [`DST`]. Every MPCPDU has the smallest length of a frame: 60 bytes and its FCS.
//! Times are in quanta of [`QUANTUM_NS`].
//!
//! The view starts after the EtherType, as the payload of
//! [`ethernet::View`](crate::ethernet::View) does.
//!
//! Deliberately unsupported: PAUSE and priority-based flow control, which share the EtherType, and
//! the extension opcode. They are [`Reason::Unsupported`].

use crate::ethernet::MacAddr;
use crate::{Layer, ParseError, Reason, field};
use core::{fmt, ops::Range};

mod message;
mod opcode;
#[cfg(test)]
mod tests;

pub use message::{
    BODY_LEN, DiscoveryInformation, Gate, GateDiscovery, Grant, Message, QueueSet, QueueSets,
    Register, RegisterAck, RegisterReq, Report,
};
pub use opcode::Opcode;

/// Length in bytes of opcode and timestamp.
pub const HEADER_LEN: usize = 6;

/// Length in bytes from the opcode to the end of the padding (802.3, 31.4.1.6).
pub const MPCPDU_LEN: usize = HEADER_LEN + BODY_LEN;

/// Length of a time quantum in nanoseconds (802.3, 64.2.2.1).
pub const QUANTUM_NS: u64 = 16;

/// Destination address of MAC control frames (802.3, 31.4.1.1).
pub const DST: MacAddr = MacAddr([0x01, 0x80, 0xc2, 0x00, 0x00, 0x01]);

const OPCODE: Range<usize> = 0..2;
const TIMESTAMP: Range<usize> = 2..6;
const BODY: Range<usize> = HEADER_LEN..MPCPDU_LEN;

/// Checked access to one MPCPDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View<T> {
    bytes: T,
    message: Message,
}

impl<T: AsRef<[u8]>> View<T> {
    /// Checks that a whole MPCPDU is there and that what it counts fits into it. What lies behind
    /// is no part of it. The message is read here, once.
    ///
    /// # Errors
    /// `Truncated` when the bytes end before the padding does; `Unsupported` for other opcodes;
    /// `BadLength` when there are more grants or queue sets than a frame holds.
    #[inline]
    pub fn parse(bytes: T) -> Result<Self, ParseError> {
        let data = bytes.as_ref();
        if data.len() < MPCPDU_LEN {
            return Err(Layer::Mpcp.error(Reason::Truncated));
        }
        let opcode = Opcode(field::u16(data, OPCODE));
        let message = Message::parse(opcode, &field::array(data, BODY))
            .map_err(|reason| Layer::Mpcp.error(reason))?;
        Ok(Self { bytes, message })
    }

    /// Which MPCPDU this was when it was parsed.
    #[inline]
    pub const fn opcode(&self) -> Opcode {
        self.message.opcode()
    }

    /// The sender's clock when the first octet left, in quanta.
    #[inline]
    pub fn timestamp(&self) -> u32 {
        field::u32(self.bytes.as_ref(), TIMESTAMP)
    }

    /// What it says.
    #[inline]
    pub const fn message(&self) -> &Message {
        &self.message
    }

    /// Always [`MPCPDU_LEN`].
    #[inline]
    pub const fn header_len(&self) -> usize {
        MPCPDU_LEN
    }

    /// The bytes this view was made from.
    #[inline]
    pub fn into_inner(self) -> T {
        self.bytes
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
    /// Sets the timestamp: the last thing before a frame leaves.
    #[inline]
    pub fn set_timestamp(&mut self, value: u32) {
        field::set_u32(self.bytes.as_mut(), TIMESTAMP, value);
    }
}

/// An MPCPDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// The sender's clock when the first octet leaves, in quanta.
    pub timestamp: u32,
    /// What it says.
    pub message: Message,
}

impl Header {
    /// Reads the MPCPDU in `bytes`, which start after the EtherType.
    ///
    /// # Errors
    /// Those of [`View::parse`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        View::parse(bytes).map(|view| Self::from(&view))
    }

    /// How many bytes [`emit`](Self::emit) writes: [`MPCPDU_LEN`].
    pub const fn header_len(&self) -> usize {
        MPCPDU_LEN
    }

    /// Writes the MPCPDU with its padding to the front of `bytes`.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`header_len`](Self::header_len).
    pub fn emit(&self, bytes: &mut [u8]) {
        field::set_u16(bytes, OPCODE, self.message.opcode().0);
        field::set_u32(bytes, TIMESTAMP, self.timestamp);
        field::set(bytes, BODY, &self.message.body());
    }
}

impl<T: AsRef<[u8]>> From<&View<T>> for Header {
    fn from(view: &View<T>) -> Self {
        Self {
            timestamp: view.timestamp(),
            message: view.message,
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
        write!(f, "mpcp {} at {}", self.message.opcode(), self.timestamp)?;
        self.message.fmt(f)
    }
}
