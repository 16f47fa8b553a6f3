// SPDX-License-Identifier: Apache-2.0
//! Big-endian integers and arrays at named byte ranges.
//!
//! Every format file names its fields as ranges and reads them through these functions, so that no
//! shift or byte order is written twice. A range outside the slice panics: `View::parse` of each
//! format has checked the length before.

use core::ops::Range;

/// The bytes of `field`, which is `N` long.
#[inline]
pub(crate) fn array<const N: usize>(bytes: &[u8], field: Range<usize>) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[field]);
    array
}

#[inline]
pub(crate) fn u16(bytes: &[u8], field: Range<usize>) -> u16 {
    u16::from_be_bytes(array(bytes, field))
}

#[inline]
pub(crate) fn u32(bytes: &[u8], field: Range<usize>) -> u32 {
    u32::from_be_bytes(array(bytes, field))
}

#[inline]
pub(crate) fn set(bytes: &mut [u8], field: Range<usize>, value: &[u8]) {
    bytes[field].copy_from_slice(value);
}

#[inline]
pub(crate) fn set_u16(bytes: &mut [u8], field: Range<usize>, value: u16) {
    set(bytes, field, &value.to_be_bytes());
}

#[inline]
pub(crate) fn set_u32(bytes: &mut [u8], field: Range<usize>, value: u32) {
    set(bytes, field, &value.to_be_bytes());
}
