// SPDX-License-Identifier: Apache-2.0
//! GTP-U: the tunnels of N3, N9 and N19, after the UDP header.
//!
//! ```text
//! 0       1      2        4      8                                          12
//! | flags | type | length | TEID | [ sequence | N-PDU number | next type ] | [ extensions ] | ...
//! ```
//!
//! Specification: 3GPP TS 29.281 (R17), 5 (header), 6 and 7 (messages), 8 (information elements);
//! TS 38.415 5.5 (PDU session container). The length counts what follows the first 8 bytes. If one
//! of the flags E, S and PN is set, all four optional bytes are there; each means something only
//! where its own flag is set. [`extension`] walks extension headers and says which of them must be
//! understood; [`element`] reads what a signalling message carries.
//!
//! Deliberately unsupported: GTP' (protocol type 0) and versions other than 1.

use crate::octets::{Pen, fields};
use crate::{Layer, ParseError, Reason, field};
use core::{fmt, ops::Range};

pub mod element;
pub mod extension;
pub mod pdu_session;
pub mod plain;
#[cfg(test)]
mod tests;

pub use extension::{Extension, ExtensionType, Extensions, Role};

/// Length in bytes of the header without optional fields.
pub const HEADER_LEN_MIN: usize = 8;

/// Length in bytes of the optional fields, which are there all or none.
pub const OPTIONAL_LEN: usize = 4;

/// The UDP port to which requests and G-PDUs are sent (TS 29.281, 4.4.2).
pub const PORT: u16 = 2152;

const FLAGS: usize = 0;
const MESSAGE_TYPE: usize = 1;
const LEN: Range<usize> = 2..4;
const TEID: Range<usize> = 4..8;
const SEQUENCE: Range<usize> = 8..10;
const N_PDU: usize = 10;
const NEXT_TYPE: usize = 11;

const VERSION_1: u8 = 1 << 5;
const VERSION_MASK: u8 = 0b111 << 5;
const PROTOCOL_TYPE: u8 = 1 << 4;
const FLAG_E: u8 = 1 << 2;
const FLAG_S: u8 = 1 << 1;
const FLAG_PN: u8 = 1;

/// What a message is (TS 29.281, table 6.1-1). Constants have the names of the table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageType(pub u8);

impl MessageType {
    /// Is the peer there?
    pub const ECHO_REQUEST: Self = Self(1);
    /// The peer is there.
    pub const ECHO_RESPONSE: Self = Self(2);
    /// A G-PDU came for a tunnel that its receiver does not have.
    pub const ERROR_INDICATION: Self = Self(26);
    /// Which extension headers the sender understands.
    pub const SUPPORTED_EXTENSION_HEADERS_NOTIFICATION: Self = Self(31);
    /// State of a tunnel, as the start of a pause of charging.
    pub const TUNNEL_STATUS: Self = Self(253);
    /// No more G-PDUs will come through this tunnel.
    pub const END_MARKER: Self = Self(254);
    /// A user's packet.
    pub const G_PDU: Self = Self(255);

    /// Name as in the specification, if this is a message of the user plane.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::ECHO_REQUEST => "Echo Request",
            Self::ECHO_RESPONSE => "Echo Response",
            Self::ERROR_INDICATION => "Error Indication",
            Self::SUPPORTED_EXTENSION_HEADERS_NOTIFICATION => {
                "Supported Extension Headers Notification"
            }
            Self::TUNNEL_STATUS => "Tunnel Status",
            Self::END_MARKER => "End Marker",
            Self::G_PDU => "G-PDU",
            _ => return None,
        })
    }
}

/// Checked access to one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View<T> {
    bytes: T,
    flags: u8,
    payload: usize,
    end: usize,
}

impl<T: AsRef<[u8]>> View<T> {
    /// Checks the lengths of the message and of each of its extension headers. Bytes behind the
    /// message are no part of the view.
    ///
    /// # Errors
    /// `BadVersion` for versions other than 1; `Unsupported` for GTP'; `Truncated` when the bytes
    /// end before the header or before the length; `BadLength` when the length has no room for the
    /// optional fields. Layer `GtpuExtension`: those of [`Extensions::parse`].
    #[inline]
    pub fn parse(bytes: T) -> Result<Self, ParseError> {
        let data = bytes.as_ref();
        let error = |reason| Err(Layer::Gtpu.error(reason));
        if data.len() < HEADER_LEN_MIN {
            return error(Reason::Truncated);
        }
        let flags = data[FLAGS];
        if flags & VERSION_MASK != VERSION_1 {
            return error(Reason::BadVersion);
        }
        if flags & PROTOCOL_TYPE == 0 {
            return error(Reason::Unsupported);
        }
        let end = HEADER_LEN_MIN + usize::from(field::u16(data, LEN));
        if end > data.len() {
            return error(Reason::Truncated);
        }
        let mut payload = HEADER_LEN_MIN;
        if flags & (FLAG_E | FLAG_S | FLAG_PN) != 0 {
            payload += OPTIONAL_LEN;
            if payload > end {
                return error(Reason::BadLength);
            }
        }
        if flags & FLAG_E != 0 {
            let first = ExtensionType(data[NEXT_TYPE]);
            payload += Extensions::parse(first, &data[payload..end])?.len();
        }
        Ok(Self {
            bytes,
            flags,
            payload,
            end,
        })
    }

    /// What this message is.
    #[inline]
    pub fn message_type(&self) -> MessageType {
        MessageType(self.bytes.as_ref()[MESSAGE_TYPE])
    }

    /// The tunnel at its receiver; 0 in messages that are of no tunnel.
    #[inline]
    pub fn teid(&self) -> u32 {
        field::u32(self.bytes.as_ref(), TEID)
    }

    /// The sequence number, if the flag S was set.
    #[inline]
    pub fn sequence(&self) -> Option<u16> {
        (self.flags & FLAG_S != 0).then(|| field::u16(self.bytes.as_ref(), SEQUENCE))
    }

    /// The N-PDU number, if the flag PN was set.
    #[inline]
    pub fn n_pdu(&self) -> Option<u8> {
        (self.flags & FLAG_PN != 0).then(|| self.bytes.as_ref()[N_PDU])
    }

    /// The extension headers.
    #[inline]
    pub fn extensions(&self) -> Extensions<'_> {
        if self.flags & FLAG_E == 0 {
            return Extensions::NONE;
        }
        let data = self.bytes.as_ref();
        let first = ExtensionType(data[NEXT_TYPE]);
        Extensions::trusted(first, &data[HEADER_LEN_MIN + OPTIONAL_LEN..self.payload])
    }

    /// Length in bytes with optional fields and extension headers.
    #[inline]
    pub const fn header_len(&self) -> usize {
        self.payload
    }

    /// The user's packet, or the information elements of a signalling message.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.bytes.as_ref()[self.payload..self.end]
    }

    /// The bytes this view was made from.
    #[inline]
    pub fn into_inner(self) -> T {
        self.bytes
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
    /// Sets the tunnel.
    #[inline]
    pub fn set_teid(&mut self, value: u32) {
        field::set_u32(self.bytes.as_mut(), TEID, value);
    }

    /// Sets the length field: how much follows the first 8 bytes. This view keeps the bounds it was
    /// parsed with.
    #[inline]
    pub fn set_len(&mut self, value: u16) {
        field::set_u16(self.bytes.as_mut(), LEN, value);
    }

    /// Sets the sequence number; nothing happens where there is none.
    #[inline]
    pub fn set_sequence(&mut self, value: u16) {
        if self.flags & FLAG_S != 0 {
            field::set_u16(self.bytes.as_mut(), SEQUENCE, value);
        }
    }

    /// [`payload`](Self::payload) for writing.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.bytes.as_mut()[self.payload..self.end]
    }
}

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header<'a> {
    /// What the message is.
    pub message_type: MessageType,
    /// The tunnel at its receiver; 0 in messages that are of no tunnel.
    pub teid: u32,
    /// Sequence number. Signalling messages have one, if only to be ignored.
    pub sequence: Option<u16>,
    /// N-PDU number.
    pub n_pdu: Option<u8>,
    /// Extension headers.
    pub extensions: Extensions<'a>,
    /// Length of what follows the header in bytes.
    pub payload_len: usize,
}

impl<'a> Header<'a> {
    /// A header without N-PDU number and extensions, and with nothing behind it yet.
    pub const fn new(message_type: MessageType, teid: u32, sequence: Option<u16>) -> Self {
        Self {
            message_type,
            teid,
            sequence,
            n_pdu: None,
            extensions: Extensions::NONE,
            payload_len: 0,
        }
    }

    /// Reads the header of the message in `bytes`, which must hold the payload too.
    ///
    /// # Errors
    /// Those of [`View::parse`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let view = View::parse(bytes)?;
        Ok(Self {
            // Not through the view, whose borrow ends here.
            extensions: match view.flags & FLAG_E {
                0 => Extensions::NONE,
                _ => Extensions::trusted(
                    ExtensionType(bytes[NEXT_TYPE]),
                    &bytes[HEADER_LEN_MIN + OPTIONAL_LEN..view.payload],
                ),
            },
            ..Header::from(&view)
        })
    }

    /// How many bytes [`emit`](Self::emit) writes.
    pub const fn header_len(&self) -> usize {
        if self.has_optional() {
            HEADER_LEN_MIN + OPTIONAL_LEN + self.extensions.len()
        } else {
            HEADER_LEN_MIN
        }
    }

    const fn has_optional(&self) -> bool {
        self.sequence.is_some() || self.n_pdu.is_some() || !self.extensions.is_empty()
    }

    /// Writes the header to the front of `bytes`.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`header_len`](Self::header_len), or if what the length field
    /// counts exceeds 65535 bytes.
    pub fn emit(&self, bytes: &mut [u8]) {
        let header_len = self.header_len();
        let len = u16::try_from(header_len - HEADER_LEN_MIN + self.payload_len)
            .expect("a GTP-U message has at most 65535 bytes behind its first 8");
        let mut flags = VERSION_1 | PROTOCOL_TYPE;
        flags |= FLAG_E * u8::from(!self.extensions.is_empty());
        flags |= FLAG_S * u8::from(self.sequence.is_some());
        flags |= FLAG_PN * u8::from(self.n_pdu.is_some());
        let mut pen = Pen::new(&mut bytes[..header_len]);
        pen.u8(flags);
        pen.u8(self.message_type.0);
        pen.u16(len);
        pen.u32(self.teid);
        if self.has_optional() {
            pen.u16(self.sequence.unwrap_or(0));
            pen.u8(self.n_pdu.unwrap_or(0));
            pen.u8(self.extensions.first().0);
            pen.put(self.extensions.as_bytes());
        }
    }
}

impl<'a, T: AsRef<[u8]>> From<&'a View<T>> for Header<'a> {
    fn from(view: &'a View<T>) -> Self {
        Self {
            message_type: view.message_type(),
            teid: view.teid(),
            sequence: view.sequence(),
            n_pdu: view.n_pdu(),
            extensions: view.extensions(),
            payload_len: view.end - view.payload,
        }
    }
}

impl fmt::Debug for MessageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for MessageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "message {}", self.0),
        }
    }
}

impl<T: AsRef<[u8]>> fmt::Display for View<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Header::from(self).fmt(f)
    }
}

impl fmt::Display for Header<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gtpu {} teid 0x{:08x}", self.message_type, self.teid)?;
        if let Some(sequence) = self.sequence {
            write!(f, " seq {sequence}")?;
        }
        if let Some(n_pdu) = self.n_pdu {
            write!(f, " n-pdu {n_pdu}")?;
        }
        for extension in self.extensions {
            write!(f, " [{extension}]")?;
        }
        write!(f, " payload {}", self.payload_len)
    }
}
