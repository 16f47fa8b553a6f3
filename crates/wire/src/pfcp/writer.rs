// SPDX-License-Identifier: Apache-2.0
//! Writing messages into a buffer of the caller.
//!
//! A group's length is filled in when the group is complete, and the message's when it is. What
//! does not fit leaves no trace: after [`Full`] the buffer holds what it held before, so that an
//! answer can go out without an IE that found no room.

use super::coding::Value;
use super::element::{IE_HEADER_LEN, Ie};
use super::ie_type::IeType;
use super::key::Key;
use super::message::{Header, LEN};
use crate::field;
use crate::octets::Pen;
use core::fmt;

/// The buffer has no room, or a length would exceed what its field can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no room for the message")
    }
}

impl core::error::Error for Full {}

/// Writes one message.
#[derive(Debug)]
pub struct Writer<'a> {
    bytes: &'a mut [u8],
    /// Where the next IE goes.
    at: usize,
}

impl<'a> Writer<'a> {
    /// Begins a message at the front of `bytes`.
    ///
    /// # Errors
    /// [`Full`] if there is no room for the header.
    pub fn new(bytes: &'a mut [u8], header: &Header) -> Result<Self, Full> {
        let at = header.header_len();
        if bytes.len() < at {
            return Err(Full);
        }
        header.emit(bytes);
        Ok(Self { bytes, at })
    }

    /// Appends an IE with the value of `key`.
    ///
    /// # Errors
    /// [`Full`].
    #[inline]
    pub fn put<V: Value>(&mut self, key: Key<V>, value: &V::At<'_>) -> Result<(), Full> {
        self.append(key.ie_type(), |pen| V::write(value, pen))
    }

    /// Appends an IE with the value of `key`, if there is one.
    ///
    /// # Errors
    /// [`Full`].
    pub fn put_some<V: Value>(
        &mut self,
        key: Key<V>,
        value: Option<&V::At<'_>>,
    ) -> Result<(), Full> {
        value.map_or(Ok(()), |value| self.put(key, value))
    }

    /// Appends an IE of null length: the removal of a parameter (TS 29.244, 5.6.3).
    ///
    /// # Errors
    /// [`Full`].
    pub fn put_null(&mut self, ie_type: IeType) -> Result<(), Full> {
        self.append(ie_type, |_| ())
    }

    /// Appends an IE as it was received, or a vendor's.
    ///
    /// # Errors
    /// [`Full`].
    pub fn put_ie(&mut self, ie: &Ie<'_>) -> Result<(), Full> {
        self.append(ie.ie_type, |pen| {
            if let Some(enterprise) = ie.enterprise {
                pen.u16(enterprise);
            }
            pen.put(ie.value);
        })
    }

    /// Appends a group with what `fill` writes.
    ///
    /// # Errors
    /// [`Full`], also if `fill` returns it; nothing of the group is left then.
    pub fn group(
        &mut self,
        ie_type: IeType,
        fill: impl FnOnce(&mut Self) -> Result<(), Full>,
    ) -> Result<(), Full> {
        let start = self.at;
        let filled = self.put_null(ie_type).and_then(|()| fill(self));
        let len = u16::try_from(self.at - start - filled.map_or(0, |()| IE_HEADER_LEN));
        match (filled, len) {
            (Ok(()), Ok(len)) => {
                field::set_u16(self.bytes, start + 2..start + IE_HEADER_LEN, len);
                Ok(())
            }
            _ => {
                self.at = start;
                Err(Full)
            }
        }
    }

    /// Ends the message.
    ///
    /// # Errors
    /// [`Full`] if the message exceeds 65539 bytes, more than its length can say.
    pub fn finish(self) -> Result<usize, Full> {
        let len = u16::try_from(self.at - LEN.end).map_err(|_| Full)?;
        field::set_u16(self.bytes, LEN, len);
        Ok(self.at)
    }

    fn append(&mut self, ie_type: IeType, write: impl FnOnce(&mut Pen<'_>)) -> Result<(), Full> {
        let room = self.bytes.get_mut(self.at..).ok_or(Full)?;
        let mut pen = Pen::new(room);
        pen.u16(ie_type.0);
        pen.u16(0);
        write(&mut pen);
        let (len, is_whole) = (pen.len(), pen.is_whole());
        let value_len = u16::try_from(len - IE_HEADER_LEN).map_err(|_| Full)?;
        if !is_whole {
            return Err(Full);
        }
        field::set_u16(room, 2..IE_HEADER_LEN, value_len);
        self.at += len;
        Ok(())
    }
}
