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

pub mod cause;
pub mod coding;
pub mod element;
pub mod grammar;
pub mod ie_type;
pub mod key;
mod message;
mod message_type;
#[cfg(test)]
mod tests;
mod trace;
pub mod value;
pub mod writer;

pub use cause::{Cause, Refusal};
pub use element::{Change, Group, Ie, Ies};
pub use grammar::Place;
pub use ie_type::IeType;
pub use message::{
    HEADER_LEN_MAX, HEADER_LEN_MIN, Header, MESSAGES_MAX, Messages, Unreadable, View,
};
pub use message_type::MessageType;
pub use writer::{Full, Writer};

/// The UDP port to which requests are sent (TS 29.244, 6.3).
pub const PORT: u16 = 8805;
