// SPDX-License-Identifier: Apache-2.0
//! What the tests of all format files share: frames cut at every length, and noise.

use crate::ParseError;
use core::fmt::Debug;

/// Bytes of a hex text; spaces show the borders between fields.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).expect("only hex digits and spaces"))
        .collect();
    assert_eq!(digits.len() % 2, 0, "an odd number of hex digits");
    digits
        .chunks(2)
        .map(|pair| (pair[0] * 16 + pair[1]) as u8)
        .collect()
}

/// Cuts `bytes` at each length: below `len_min` parsing must fail, from there on it must succeed.
pub(crate) fn truncation<'a, T: Debug>(
    bytes: &'a [u8],
    len_min: usize,
    parse: impl Fn(&'a [u8]) -> Result<T, ParseError>,
) {
    assert!(len_min <= bytes.len());
    for len in 0..=bytes.len() {
        let result = parse(&bytes[..len]);
        assert_eq!(result.is_ok(), len >= len_min, "cut at {len}: {result:?}");
    }
}
