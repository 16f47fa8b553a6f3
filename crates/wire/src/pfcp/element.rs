// SPDX-License-Identifier: Apache-2.0
//! Reading information elements in place.
//!
//! ```text
//! 0      2        4
//! | type | length | [ enterprise number, if the type's highest bit is set ] | value ... |
//! ```
//!
//! Specification: TS 29.244 (R17), 8.1.1. The length counts what is behind it. An [`Ie`] is a piece
//! of the message; nothing is copied, and a value is read when it is asked for.

use super::cause::{Cause, Refusal};
use super::coding::{Fault, Value};
use super::grammar::members::{Place, Presence};
use super::ie_type::IeType;
use super::key::Key;
use crate::octets::Octets;

/// Length in bytes of type and length.
pub const IE_HEADER_LEN: usize = 4;

/// One information element.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ie<'a> {
    /// Which it is.
    pub ie_type: IeType,
    /// The vendor's enterprise number, if [`IeType::is_vendor_specific`].
    pub enterprise: Option<u16>,
    /// What it says.
    pub value: &'a [u8],
}

impl<'a> Ie<'a> {
    /// What it says, as `key` reads it.
    ///
    /// # Errors
    /// Invalid length, or Mandatory IE incorrect, with this IE as the offending one.
    pub fn read<V: Value>(&self, _key: Key<V>) -> Result<V::At<'a>, Refusal> {
        V::read(&mut Octets(self.value)).map_err(|fault| fault.of(self.ie_type))
    }

    /// The IEs that it holds, if it is a group.
    #[inline]
    pub const fn group(&self) -> Option<Group<'a>> {
        if !self.ie_type.is_grouped() {
            return None;
        }
        Some(Group::new(Place::Group(self.ie_type), self.value))
    }
}

/// IEs one after the other. After an error there are none.
#[derive(Clone, Debug)]
pub struct Ies<'a>(Octets<'a>);

impl<'a> Ies<'a> {
    /// The IEs in `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(Octets(bytes))
    }
}

impl<'a> Iterator for Ies<'a> {
    type Item = Result<Ie<'a>, Refusal>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.0.is_empty() {
            return None;
        }
        let ie = read(&mut self.0);
        if ie.is_err() {
            self.0.rest();
        }
        Some(ie)
    }
}

#[inline]
fn read<'a>(octets: &mut Octets<'a>) -> Result<Ie<'a>, Refusal> {
    let ie_type = IeType(octets.u16().map_err(|_| Cause::INVALID_LENGTH.alone())?);
    let invalid = |_| Cause::INVALID_LENGTH.because_of(ie_type);
    let len = octets.u16().map_err(invalid)?;
    let mut value = Octets(octets.take(len.into()).map_err(invalid)?);
    let enterprise = value
        .when(ie_type.is_vendor_specific(), Octets::u16)
        .map_err(invalid)?;
    Ok(Ie {
        ie_type,
        enterprise,
        value: value.rest(),
    })
}

/// What a request says of one parameter of a rule that exists (TS 29.244, 5.6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change<V> {
    /// Nothing: it stays as it is.
    Keep,
    /// It is removed: the IE has the length 0.
    Remove,
    /// It is this from now on.
    Set(V),
}

/// The IEs of a message, or of a grouped IE.
///
/// Look-ups go through the IEs from the front, as few as there are in a group, and stop at an IE
/// whose length is wrong; [`grammar::check`](super::grammar::check) finds such before. Where an IE
/// occurs more often than it may, the first counts (7.6.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group<'a> {
    place: Place,
    bytes: &'a [u8],
}

impl<'a> Group<'a> {
    pub(super) const fn new(place: Place, bytes: &'a [u8]) -> Self {
        Self { place, bytes }
    }

    /// What it belongs to.
    #[inline]
    pub const fn place(&self) -> Place {
        self.place
    }

    /// The IEs as they stand.
    #[inline]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// All IEs, those of vendors and unknown ones too.
    #[inline]
    pub const fn ies(&self) -> Ies<'a> {
        Ies::new(self.bytes)
    }

    /// The first IE of this type.
    #[inline]
    pub fn find(&self, ie_type: IeType) -> Option<Ie<'a>> {
        self.all(ie_type).next()
    }

    /// Every IE of this type.
    #[inline]
    pub fn all(&self, ie_type: IeType) -> impl Iterator<Item = Ie<'a>> + use<'a> {
        let is_it = move |ie: &Ie<'_>| ie.ie_type == ie_type;
        self.ies().map_while(Result::ok).filter(is_it)
    }

    /// Whether there is an IE of this type, be it of null length.
    #[inline]
    pub fn has(&self, ie_type: IeType) -> bool {
        self.find(ie_type).is_some()
    }

    /// The value of `key`, if it is there. An optional IE whose value means nothing counts as not
    /// there (7.6.8).
    ///
    /// # Errors
    /// Invalid length, or Mandatory IE incorrect.
    pub fn get<V: Value>(&self, key: Key<V>) -> Result<Option<V::At<'a>>, Refusal> {
        match self.find(key.ie_type()) {
            Some(ie) => self.value_of(&ie, key),
            None => Ok(None),
        }
    }

    /// The value of `key`, which must be there.
    ///
    /// # Errors
    /// Those of [`get`](Self::get), and Mandatory IE missing.
    pub fn require<V: Value>(&self, key: Key<V>) -> Result<V::At<'a>, Refusal> {
        self.get(key)?
            .ok_or(Cause::MANDATORY_IE_MISSING.because_of(key.ie_type()))
    }

    /// Every value of `key`, in the order of the message.
    pub fn each<V: Value>(
        &self,
        key: Key<V>,
    ) -> impl Iterator<Item = Result<V::At<'a>, Refusal>> + use<'a, V> {
        let group = *self;
        self.all(key.ie_type())
            .filter_map(move |ie| group.value_of(&ie, key).transpose())
    }

    /// What becomes of `key` in a rule that exists.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn change<V: Value>(&self, key: Key<V>) -> Result<Change<V::At<'a>>, Refusal> {
        Ok(match self.find(key.ie_type()) {
            None => Change::Keep,
            Some(ie) if ie.value.is_empty() => Change::Remove,
            Some(ie) => self.value_of(&ie, key)?.map_or(Change::Keep, Change::Set),
        })
    }

    /// The first group of this type inside this one.
    pub fn group(&self, ie_type: IeType) -> Option<Self> {
        self.groups(ie_type).next()
    }

    /// Every group of this type inside this one.
    pub fn groups(&self, ie_type: IeType) -> impl Iterator<Item = Self> + use<'a> {
        self.all(ie_type).filter_map(|ie| ie.group())
    }

    fn value_of<V: Value>(&self, ie: &Ie<'a>, _key: Key<V>) -> Result<Option<V::At<'a>>, Refusal> {
        match V::read(&mut Octets(ie.value)) {
            Ok(value) => Ok(Some(value)),
            Err(Fault::Value) if self.is_optional(ie.ie_type) => Ok(None),
            Err(fault) => Err(fault.of(ie.ie_type)),
        }
    }

    fn is_optional(&self, ie_type: IeType) -> bool {
        let members = self.place.members();
        members.is_some_and(|members| members.presence(ie_type) == Some(Presence::Optional))
    }
}
