// SPDX-License-Identifier: Apache-2.0
//! Fields one after the other, where flags decide which are there: read with [`Octets`], written
//! with [`Pen`].
//!
//! Formats with fixed offsets name ranges and use `field.rs`; this is for GTP-U and PFCP, whose
//! fields move.

use crate::{Layer, ParseError, Reason};

/// The bytes end before a field does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended;

/// What is left to read.
#[derive(Clone, Copy, Debug)]
pub struct Octets<'a>(pub(crate) &'a [u8]);

impl<'a> Octets<'a> {
    /// The next `len` octets.
    #[inline]
    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], Ended> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Ended)?;
        self.0 = rest;
        Ok(taken)
    }

    /// The next `N` octets.
    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Ended> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Ended)?;
        self.0 = rest;
        Ok(*taken)
    }

    /// All that is left.
    #[inline]
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.0)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8, Ended> {
        self.array::<1>().map(|[octet]| octet)
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Result<u16, Ended> {
        self.array().map(u16::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32, Ended> {
        self.array().map(u32::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Result<u64, Ended> {
        self.array().map(u64::from_be_bytes)
    }

    /// An unsigned integer of `N` octets, at most 8.
    #[inline]
    pub(crate) fn uint<const N: usize>(&mut self) -> Result<u64, Ended> {
        let mut wide = [0; 8];
        wide[8 - N..].copy_from_slice(&self.array::<N>()?);
        Ok(u64::from_be_bytes(wide))
    }

    /// `read` where `is_there`.
    #[inline]
    pub(crate) fn when<T>(
        &mut self,
        is_there: bool,
        read: impl FnOnce(&mut Self) -> Result<T, Ended>,
    ) -> Result<Option<T>, Ended> {
        if is_there {
            read(self).map(Some)
        } else {
            Ok(None)
        }
    }
}

/// Writes from the front of a buffer. What does not fit is counted and not written, so that a pen
/// over nothing measures.
#[derive(Debug)]
pub struct Pen<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl<'a> Pen<'a> {
    pub(crate) const fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// How many octets were to be written so far, fitting or not.
    pub(crate) const fn len(&self) -> usize {
        self.at
    }

    /// Whether all that was to be written fitted.
    pub(crate) const fn is_whole(&self) -> bool {
        self.at <= self.bytes.len()
    }

    #[inline]
    pub(crate) fn put(&mut self, octets: &[u8]) {
        let end = self.at.saturating_add(octets.len());
        if let Some(place) = self.bytes.get_mut(self.at..end) {
            place.copy_from_slice(octets);
        }
        self.at = end;
    }

    #[inline]
    pub(crate) fn u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    #[inline]
    pub(crate) fn u16(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }

    #[inline]
    pub(crate) fn u32(&mut self, value: u32) {
        self.put(&value.to_be_bytes());
    }

    #[inline]
    pub(crate) fn u64(&mut self, value: u64) {
        self.put(&value.to_be_bytes());
    }

    /// The low `N` octets of `value`, at most 8.
    #[inline]
    pub(crate) fn uint<const N: usize>(&mut self, value: u64) {
        self.put(&value.to_be_bytes()[8 - N..]);
    }

    /// `octets` behind their number, in two octets; what exceeds 65535 is cut.
    #[inline]
    pub(crate) fn counted_u16(&mut self, octets: &[u8]) {
        let len = u16::try_from(octets.len()).unwrap_or(u16::MAX);
        self.u16(len);
        self.put(&octets[..usize::from(len)]);
    }

    /// `octets` behind their number, in one octet; what exceeds 255 is cut.
    #[inline]
    pub(crate) fn counted_u8(&mut self, octets: &[u8]) {
        let len = u8::try_from(octets.len()).unwrap_or(u8::MAX);
        self.u8(len);
        self.put(&octets[..usize::from(len)]);
    }
}

/// Reads all fields of `bytes` with `read`, or says that they end too early.
pub(crate) fn fields<'a, T>(
    bytes: &'a [u8],
    layer: Layer,
    read: impl FnOnce(&mut Octets<'a>) -> Result<T, Ended>,
) -> Result<T, ParseError> {
    read(&mut Octets(bytes)).map_err(|Ended| layer.error(Reason::Truncated))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pen_counts_what_does_not_fit_and_writes_nothing_of_it() {
        let mut bytes = [0xee; 4];
        let mut pen = Pen::new(&mut bytes);
        pen.u16(1);
        pen.u32(2);
        assert_eq!((pen.len(), pen.is_whole()), (6, false));
        assert_eq!(bytes, [0, 1, 0xee, 0xee]);
    }

    #[test]
    fn integers_of_odd_widths_are_big_endian() {
        let mut octets = Octets(&[1, 2, 3, 4, 5, 6]);
        assert_eq!(octets.uint::<5>(), Ok(0x01_0203_0405));
        assert_eq!(octets.uint::<2>(), Err(Ended));
        assert_eq!(octets.u8(), Ok(6), "a failed read takes nothing");
        let mut bytes = [0; 3];
        Pen::new(&mut bytes).uint::<3>(0x01_0203);
        assert_eq!(bytes, [1, 2, 3]);
    }
}
