// SPDX-License-Identifier: Apache-2.0
//! PFCP: how the control plane tells a UPF what to do, after the UDP header.
//!
//! ```text
//! 0       1      2        4        [ 12 ]     +3
//! | flags | type | length | [ SEID ] | sequence | priority | information elements ...
//! ```
//!
//! Specification: 3GPP TS 29.244 (R17, 17.7.1), 7.2 (header), 7.3 to 7.5 (messages), 7.6 (errors),
//! 8 (information elements). The length counts what follows the first 4 bytes. Messages about a
//! session have a SEID, those about a node have none.
//!
//! # Reading
//!
//! [`Messages`] splits a datagram into the messages bundled in it; each becomes a [`View`].
//! [`View::ies`] is a [`Group`], from which values are taken by [`key`]s: nothing is allocated, and
//! a value borrows from the datagram. [`grammar::check`] first, and all of a message is known to be
//! right before any of it is used; what is wrong is a [`Refusal`], with the cause and the offending
//! IE of the answer.
//!
//! # Writing
//!
//! A [`Writer`] writes a message into a buffer of the caller.
//!
//! # Traces
//!
//! Views and groups are shown with the names of the specification, one line each.
//!
//! Deliberately unsupported: versions other than 1. IEs that no UPF acts on are in the table of
//! [`IeType`] with their names, and have no typed value.

use crate::{Layer, ParseError, Reason, field};
use core::ops::Range;

pub mod cause;
pub mod coding;
pub mod element;
pub mod grammar;
pub mod ie_type;
pub mod key;
#[cfg(test)]
mod tests;
mod trace;
pub mod value;
pub mod writer;

pub use cause::{Cause, Refusal};
pub use element::{Change, Group, Ie};
pub use grammar::Place;
pub use ie_type::IeType;
pub use writer::{Full, Writer};

/// Length in bytes of the header of a message about a node.
pub const HEADER_LEN_MIN: usize = 8;

/// Length in bytes of the header of a message about a session.
pub const HEADER_LEN_MAX: usize = 16;

/// The UDP port to which requests are sent (TS 29.244, 6.3).
pub const PORT: u16 = 8805;

/// Most messages that are read of one datagram.
pub const MESSAGES_MAX: usize = 64;

const FLAGS: usize = 0;
const MESSAGE_TYPE: usize = 1;
const LEN: Range<usize> = 2..4;
const SEID: Range<usize> = 4..12;

const VERSION_1: u8 = 1 << 5;
const VERSION_MASK: u8 = 0b111 << 5;
const FLAG_FO: u8 = 1 << 2;
const FLAG_MP: u8 = 1 << 1;
const FLAG_S: u8 = 1;

/// What a message is (TS 29.244, table 7.3-1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageType(pub u8);

macro_rules! message_types {
    ($($number:literal $constant:ident $name:literal;)*) => {
        impl MessageType {
            $(#[doc = concat!($name, ".")]
            pub const $constant: Self = Self($number);)*

            /// All that the table lists, in its order.
            pub const ALL: &'static [Self] = &[$(Self::$constant),*];

            /// Name as in the specification, if the release knows this message.
            pub const fn name(self) -> Option<&'static str> {
                Some(match self {
                    $(Self::$constant => $name,)*
                    _ => return None,
                })
            }
        }
    };
}

message_types! {
    1 HEARTBEAT_REQUEST "PFCP Heartbeat Request";
    2 HEARTBEAT_RESPONSE "PFCP Heartbeat Response";
    3 PFD_MANAGEMENT_REQUEST "PFCP PFD Management Request";
    4 PFD_MANAGEMENT_RESPONSE "PFCP PFD Management Response";
    5 ASSOCIATION_SETUP_REQUEST "PFCP Association Setup Request";
    6 ASSOCIATION_SETUP_RESPONSE "PFCP Association Setup Response";
    7 ASSOCIATION_UPDATE_REQUEST "PFCP Association Update Request";
    8 ASSOCIATION_UPDATE_RESPONSE "PFCP Association Update Response";
    9 ASSOCIATION_RELEASE_REQUEST "PFCP Association Release Request";
    10 ASSOCIATION_RELEASE_RESPONSE "PFCP Association Release Response";
    11 VERSION_NOT_SUPPORTED_RESPONSE "PFCP Version Not Supported Response";
    12 NODE_REPORT_REQUEST "PFCP Node Report Request";
    13 NODE_REPORT_RESPONSE "PFCP Node Report Response";
    14 SESSION_SET_DELETION_REQUEST "PFCP Session Set Deletion Request";
    15 SESSION_SET_DELETION_RESPONSE "PFCP Session Set Deletion Response";
    16 SESSION_SET_MODIFICATION_REQUEST "PFCP Session Set Modification Request";
    17 SESSION_SET_MODIFICATION_RESPONSE "PFCP Session Set Modification Response";
    50 SESSION_ESTABLISHMENT_REQUEST "PFCP Session Establishment Request";
    51 SESSION_ESTABLISHMENT_RESPONSE "PFCP Session Establishment Response";
    52 SESSION_MODIFICATION_REQUEST "PFCP Session Modification Request";
    53 SESSION_MODIFICATION_RESPONSE "PFCP Session Modification Response";
    54 SESSION_DELETION_REQUEST "PFCP Session Deletion Request";
    55 SESSION_DELETION_RESPONSE "PFCP Session Deletion Response";
    56 SESSION_REPORT_REQUEST "PFCP Session Report Request";
    57 SESSION_REPORT_RESPONSE "PFCP Session Report Response";
}

impl MessageType {
    /// Whether a message of this type is about a session, and so has a SEID. `None` for types that
    /// the release does not know.
    pub const fn is_of_session(self) -> Option<bool> {
        match self.name() {
            Some(_) => Some(self.0 >= 50),
            None => None,
        }
    }

    /// Whether a message of this type answers another.
    pub const fn is_response(self) -> bool {
        match self {
            Self::VERSION_NOT_SUPPORTED_RESPONSE => true,
            // Up to there requests are odd, and from 12 on even.
            Self(kind) if kind < 11 => kind.is_multiple_of(2) && kind != 0,
            Self(kind) => !kind.is_multiple_of(2) && self.name().is_some(),
        }
    }

    /// The type of the answer to a request of this type.
    pub const fn response(self) -> Option<Self> {
        if self.name().is_none() || self.is_response() {
            return None;
        }
        Some(Self(self.0 + 1))
    }
}

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

    /// Checks the whole message, see [`grammar::check`].
    ///
    /// # Errors
    /// Why it is refused.
    pub fn check(&self) -> Result<(), Refusal> {
        grammar::check(&self.header, &self.ies())
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

/// The header of a message. The length is not part of it, see [`Writer::finish`].
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
