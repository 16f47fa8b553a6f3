// SPDX-License-Identifier: Apache-2.0
//! One message: its header, and the view of it in a datagram.
//!
//! Specification: TS 29.244 (R17, 17.7.1), 7.2.

use super::element::Group;
use super::grammar::members::Place;
use super::message_type::MessageType;
use crate::{Layer, ParseError, Reason, field};
use core::ops::Range;

/// Length in bytes of the header of a message about a node.
pub const HEADER_LEN_MIN: usize = 8;

/// Length in bytes of the header of a message about a session.
pub const HEADER_LEN_MAX: usize = 16;

/// Most messages that are read of one datagram.
pub const MESSAGES_MAX: usize = 64;

const FLAGS: usize = 0;
const MESSAGE_TYPE: usize = 1;
pub(super) const LEN: Range<usize> = 2..4;
const SEID: Range<usize> = 4..12;

const VERSION_1: u8 = 1 << 5;
const VERSION_MASK: u8 = 0b111 << 5;
const FLAG_FO: u8 = 1 << 2;
const FLAG_MP: u8 = 1 << 1;
const FLAG_S: u8 = 1;

/// Checked access to one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View<T> {
    bytes: T,
    header: Header,
    end: usize,
}

impl<T: AsRef<[u8]>> View<T> {
    /// Checks the header. Its fields are read here, once; bytes behind the message are no part of
    /// the view.
    ///
    /// # Errors
    /// Those of [`Header::peek`]; `BadLength` when the length ends before the header does,
    /// `Truncated` when the bytes end before the length.
    #[inline]
    pub fn parse(bytes: T) -> Result<Self, ParseError> {
        let data = bytes.as_ref();
        let header = Header::peek(data)?;
        let end = LEN.end + usize::from(field::u16(data, LEN));
        if end < header.header_len() {
            return Err(Layer::Pfcp.error(Reason::BadLength));
        }
        if end > data.len() {
            return Err(Layer::Pfcp.error(Reason::Truncated));
        }
        Ok(Self { bytes, header, end })
    }

    /// The header as it was parsed.
    #[inline]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Length of the header in bytes.
    #[inline]
    pub const fn header_len(&self) -> usize {
        self.header.header_len()
    }

    /// The information elements.
    #[inline]
    pub fn ies(&self) -> Group<'_> {
        Group::new(Place::Message(self.header.message_type), self.payload())
    }

    /// The bytes of the information elements.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.bytes.as_ref()[self.header_len()..self.end]
    }

    /// The bytes this view was made from.
    #[inline]
    pub fn into_inner(self) -> T {
        self.bytes
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
    /// [`payload`](Self::payload) for writing.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let start = self.header_len();
        &mut self.bytes.as_mut()[start..self.end]
    }
}

/// The header of a message. The length is not part of it, see
/// [`Writer::finish`](super::Writer::finish).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// What the message is.
    pub message_type: MessageType,
    /// The session at its receiver; 0 where the sender does not know it.
    pub seid: Option<u64>,
    /// Sequence number, 24 bits: an answer has that of its request.
    pub sequence: u32,
    /// Message priority, 0 (highest) to 15. Only messages about sessions have one.
    pub priority: Option<u8>,
    /// Another message follows in the datagram.
    pub follow_on: bool,
}

impl Header {
    /// A header without priority, of a message that stands alone in its datagram.
    pub const fn new(message_type: MessageType, seid: Option<u64>, sequence: u32) -> Self {
        Self {
            message_type,
            seid,
            sequence,
            priority: None,
            follow_on: false,
        }
    }

    /// Reads the header of the message in `bytes`, which must hold the whole message.
    ///
    /// # Errors
    /// Those of [`View::parse`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        View::parse(bytes).map(|view| view.header)
    }

    /// Reads the header at the front of `bytes`, whatever its length field says: an answer to a
    /// message of a wrong length needs it (TS 29.244, 7.6.3).
    ///
    /// # Errors
    /// `BadVersion` for versions other than 1; `Truncated` when the bytes end before the header;
    /// `Misplaced` for a SEID in a message about a node, or none in one about a session.
    #[inline]
    pub fn peek(bytes: &[u8]) -> Result<Self, ParseError> {
        let error = |reason| Err(Layer::Pfcp.error(reason));
        let [flags, message_type, ..] = *bytes else {
            return error(Reason::Truncated);
        };
        if flags & VERSION_MASK != VERSION_1 {
            return error(Reason::BadVersion);
        }
        let has_seid = flags & FLAG_S != 0;
        let len = if has_seid {
            HEADER_LEN_MAX
        } else {
            HEADER_LEN_MIN
        };
        if bytes.len() < len {
            return error(Reason::Truncated);
        }
        let message_type = MessageType(message_type);
        if message_type
            .is_of_session()
            .is_some_and(|is| is != has_seid)
        {
            return error(Reason::Misplaced);
        }
        let last = field::u32(bytes, len - 4..len);
        let has_priority = has_seid && flags & FLAG_MP != 0;
        Ok(Self {
            message_type,
            seid: has_seid.then(|| u64::from_be_bytes(field::array(bytes, SEID))),
            sequence: last >> 8,
            priority: has_priority.then_some(last as u8 >> 4),
            follow_on: flags & FLAG_FO != 0,
        })
    }

    /// How many bytes [`emit`](Self::emit) writes.
    #[inline]
    pub const fn header_len(&self) -> usize {
        if self.seid.is_some() {
            HEADER_LEN_MAX
        } else {
            HEADER_LEN_MIN
        }
    }

    /// Writes the header of a message without IEs to the front of `bytes`.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`header_len`](Self::header_len).
    pub fn emit(&self, bytes: &mut [u8]) {
        let len = self.header_len();
        let priority = self.priority.filter(|_| self.seid.is_some());
        let mut flags = VERSION_1;
        flags |= FLAG_S * u8::from(self.seid.is_some());
        flags |= FLAG_MP * u8::from(priority.is_some());
        flags |= FLAG_FO * u8::from(self.follow_on);
        bytes[FLAGS] = flags;
        bytes[MESSAGE_TYPE] = self.message_type.0;
        field::set_u16(bytes, LEN, (len - LEN.end) as u16);
        if let Some(seid) = self.seid {
            field::set(bytes, SEID, &seid.to_be_bytes());
        }
        let last = self.sequence << 8 | u32::from(priority.unwrap_or(0) << 4);
        field::set_u32(bytes, len - 4..len, last);
    }
}

impl<T: AsRef<[u8]>> From<&View<T>> for Header {
    fn from(view: &View<T>) -> Self {
        view.header
    }
}

/// A message that cannot be read, and what is known for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// What is wrong. `BadVersion` is answered by a Version Not Supported Response.
    pub error: ParseError,
    /// The header, where only the length is wrong: if this is a request, it is answered with the
    /// cause Invalid length; else the message is discarded without an answer.
    pub header: Option<Header>,
}

/// The messages of a datagram (TS 29.244, 7.2.1A), at most [`MESSAGES_MAX`]. After one that cannot
/// be read there are none.
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    rest: &'a [u8],
    count: usize,
    ended: bool,
}

impl<'a> Messages<'a> {
    /// The messages in the payload of a UDP datagram.
    pub const fn new(datagram: &'a [u8]) -> Self {
        Self {
            rest: datagram,
            count: 0,
            ended: false,
        }
    }

    fn split(&mut self) -> Result<View<&'a [u8]>, Unreadable> {
        let unreadable = |error: ParseError| Unreadable {
            error,
            header: Header::peek(self.rest).ok(),
        };
        let view = View::parse(self.rest).map_err(unreadable)?;
        let (bytes, rest) = self.rest.split_at(view.end);
        let follows = view.header.follow_on;
        if follows == rest.is_empty() {
            return Err(unreadable(Layer::Pfcp.error(Reason::BadLength)));
        }
        if self.count == MESSAGES_MAX {
            return Err(unreadable(Layer::Pfcp.error(Reason::TooManyHeaders)));
        }
        self.count += 1;
        self.rest = rest;
        self.ended = !follows;
        Ok(View { bytes, ..view })
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<View<&'a [u8]>, Unreadable>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let message = self.split();
        self.ended |= message.is_err();
        Some(message)
    }
}
