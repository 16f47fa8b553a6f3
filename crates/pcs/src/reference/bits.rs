// SPDX-License-Identifier: Apache-2.0
//! Bits as booleans, in the order in which they stand on the line.

/// Bits of a number, lowest first.
pub(super) fn of(value: u64, count: usize) -> Vec<bool> {
    (0..count).map(|i| value >> i & 1 == 1).collect()
}

/// The number whose bits, lowest first, these are.
pub(super) fn number(bits: &[bool]) -> u64 {
    assert!(bits.len() <= 64, "at most 64 bits");
    bits.iter()
        .rev()
        .fold(0, |sum, &bit| sum << 1 | u64::from(bit))
}

/// Bit `index` of bytes, least significant bit of each byte first.
pub(super) fn at(bytes: &[u8], index: usize) -> bool {
    bytes[index / 8] >> (index % 8) & 1 == 1
}

/// Sets bit `index` of bytes.
pub(super) fn set(bytes: &mut [u8], index: usize, bit: bool) {
    let mask = 1 << (index % 8);
    if bit {
        bytes[index / 8] |= mask;
    } else {
        bytes[index / 8] &= !mask;
    }
}

/// Octets of bits, lowest bit of each octet first.
pub(super) fn octets(bits: &[bool]) -> Vec<u8> {
    bits.chunks(8).map(|bits| number(bits) as u8).collect()
}
