// SPDX-License-Identifier: Apache-2.0
//! The frame check sequence (IEEE 802.3 3.2.9): CRC-32 by carry-less multiplication where the
//! processor has it, else by a table of eight bytes at a time.

use super::fcs_simd::update;
use crate::params::FCS_LEN;
use crate::simd::Simd;

/// Check sequence of a frame, in the order in which it is sent.
pub(super) fn fcs(simd: Simd, frame: &[u8]) -> [u8; FCS_LEN] {
    (!update(simd, u32::MAX, frame)).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_agrees_with_the_reference() {
        let octets: Vec<u8> = (0..400_u32).map(|i| ((i * i) >> 3) as u8).collect();
        for len in 0..octets.len() {
            let expected = crate::reference::mac::fcs(&octets[..len]);
            for simd in Simd::all() {
                assert_eq!(fcs(simd, &octets[..len]), expected, "{len} {}", simd.name());
            }
        }
        assert_eq!(
            fcs(Simd::SCALAR, b"123456789"),
            0xcbf4_3926_u32.to_le_bytes()
        );
    }
}
