// SPDX-License-Identifier: Apache-2.0
//! What a message must hold: the check that comes before anything is done with it.
//!
//! [`check`] walks a message once, to the leaves: every length, every mandatory IE, every
//! condition that the message itself decides, every value that this crate reads. The first thing
//! wrong ends it, with the cause and the offending IE of the answer (TS 29.244, 7.6.3 to 7.6.10):
//!
//! | what | becomes of it |
//! |---|---|
//! | an IE reaches past its group, or is too short for its fields | Invalid length |
//! | a mandatory IE is not there | Mandatory IE missing |
//! | an IE that another IE of the message demands is not there | Conditional IE missing |
//! | a mandatory or conditional IE has a value that means nothing | Mandatory IE incorrect |
//! | an optional IE has such a value | as if it were not there |
//! | an IE that the table does not list there, or unknown, or a vendor's | skipped |
//! | null length, in what updates a rule | its removal, no error (5.6.3) |
//! | more IEs than [`IES_MAX`], deeper than [`DEPTH_MAX`] | No resources available |
//!
//! In one point this is stricter than 7.2.3.2, which would ignore an optional group without one of
//! its mandatory IEs: such a request is refused, since else it would be accepted and do less than
//! it says.

use super::cause::{Cause, Refusal};
use super::coding::Fault;
use super::element::{Group, Ie};
use super::ie_type::IeType;
use super::key;
use super::message::{Header, View};
use super::message_type::MessageType;

mod condition;
mod groups;
pub mod members;
mod messages;

pub use members::{Members, Place, Presence};

/// Most IEs of a message, at all depths together. With 16 PDRs, FARs, URRs and QERs a session is
/// established by some 500.
pub const IES_MAX: usize = 4096;

/// Most groups inside each other. R17 needs four.
pub const DEPTH_MAX: usize = 6;

impl Members {
    /// The IEs of a message of this type, if the type is known.
    pub const fn of_message(message_type: MessageType) -> Option<&'static Self> {
        messages::find(message_type)
    }

    /// The IEs of a grouped IE.
    pub const fn of_group(ie_type: IeType) -> Option<&'static Self> {
        groups::find(ie_type)
    }
}

impl Place {
    /// The IEs that may stand here, if the specification lists them.
    pub const fn members(self) -> Option<&'static Members> {
        match self {
            Self::Message(message_type) => Members::of_message(message_type),
            Self::Group(ie_type) => Members::of_group(ie_type),
        }
    }
}

impl<T: AsRef<[u8]>> View<T> {
    /// Checks the whole message, see [`check`].
    ///
    /// # Errors
    /// Why it is refused.
    pub fn check(&self) -> Result<(), Refusal> {
        check(self.header(), &self.ies())
    }
}

/// Generates the look-up of `Members` from a table of names.
macro_rules! tables {
    ($of:ident; $($name:ident $table:literal [$($m:ident)*] [$($c:ident)*] [$($o:ident)*];)*) => {
        pub(super) const fn find(of: $of) -> Option<&'static Members> {
            Some(match of {
                $($of::$name => &Members {
                    table: $table,
                    mandatory: &[$(IeType::$m),*],
                    conditional: &[$(IeType::$c),*],
                    optional: &[$(IeType::$o),*],
                },)*
                _ => return None,
            })
        }
    };
}
use tables;

/// Checks the IEs of a message as the module says. A heartbeat request is answered all the same
/// (TS 29.244, 7.6.6), which is up to its receiver. Unknown messages are discarded without an
/// answer (TS 29.244, 7.6.4): they pass here, and [`Members::of_message`] does not know them.
///
/// # Errors
/// Why the message is refused.
pub fn check(header: &Header, ies: &Group<'_>) -> Result<(), Refusal> {
    let mut left = IES_MAX;
    // A refusal needs nothing but its cause (7.2.3.2).
    if header.message_type.is_response() {
        let cause = ies.get(key::CAUSE)?;
        if cause.is_some_and(|cause| !cause.is_accepted()) {
            return envelope(ies, &mut left, 0);
        }
    }
    group(ies, &mut left, 0)
}

/// Checks a group to its leaves.
fn group(ies: &Group<'_>, left: &mut usize, depth: usize) -> Result<(), Refusal> {
    let Some(members) = ies.place().members() else {
        return Ok(());
    };
    for ie in ies.ies() {
        member(ies.place(), members, &ie?, left, depth)?;
    }
    for &ie_type in members.mandatory {
        if !ies.has(ie_type) {
            return Err(Cause::MANDATORY_IE_MISSING.because_of(ie_type));
        }
    }
    match condition::missing(ies)? {
        Some(ie_type) => Err(Cause::CONDITIONAL_IE_MISSING.because_of(ie_type)),
        None => Ok(()),
    }
}

fn member(
    place: Place,
    members: &Members,
    ie: &Ie<'_>,
    left: &mut usize,
    depth: usize,
) -> Result<(), Refusal> {
    take_one(ie, left)?;
    let Some(presence) = members.presence(ie.ie_type) else {
        return Ok(());
    };
    let is_identity = presence == Presence::Mandatory;
    if ie.value.is_empty() && place.removes_by_null(ie.ie_type) && !is_identity {
        return Ok(());
    }
    if let Some(inner) = ie.group() {
        if depth == DEPTH_MAX {
            return Err(Cause::NO_RESOURCES_AVAILABLE.because_of(ie.ie_type));
        }
        return group(&inner, left, depth + 1);
    }
    let definition = ie.ie_type.definition();
    if definition.is_some_and(|definition| !definition.form.allows(ie.value.len())) {
        return Err(Cause::INVALID_LENGTH.because_of(ie.ie_type));
    }
    match key::check(ie.ie_type, ie.value) {
        Ok(()) => Ok(()),
        Err(Fault::Length) => Err(Cause::INVALID_LENGTH.because_of(ie.ie_type)),
        Err(Fault::Value) if presence == Presence::Optional => Ok(()),
        Err(Fault::Value) => Err(Cause::MANDATORY_IE_INCORRECT.because_of(ie.ie_type)),
    }
}

/// Checks lengths only.
fn envelope(ies: &Group<'_>, left: &mut usize, depth: usize) -> Result<(), Refusal> {
    for ie in ies.ies() {
        let ie = ie?;
        take_one(&ie, left)?;
        if let Some(inner) = ie.group() {
            if depth == DEPTH_MAX {
                return Err(Cause::NO_RESOURCES_AVAILABLE.because_of(ie.ie_type));
            }
            envelope(&inner, left, depth + 1)?;
        }
    }
    Ok(())
}

fn take_one(ie: &Ie<'_>, left: &mut usize) -> Result<(), Refusal> {
    *left = left
        .checked_sub(1)
        .ok_or(Cause::NO_RESOURCES_AVAILABLE.because_of(ie.ie_type))?;
    Ok(())
}
