// SPDX-License-Identifier: Apache-2.0
//! The preamble of 10G-EPON: logical link identifier and CRC-8 (IEEE 802.3 76.2.6.1, 65.1.3).
//!
//! Octets: /S/, 55, D5 (start-of-LLID delimiter), 55, 55, LLID high, LLID low, CRC-8. The top bit
//! of the LLID is the mode bit. The CRC covers the delimiter to the LLID.

use crate::params::PREAMBLE_LEN;
use crate::xgmii::START;

/// Start-of-LLID delimiter.
pub const SLD: u8 = 0xd5;
/// Mode bit: a frame for many (single copy broadcast).
pub const MODE: u16 = 0x8000;
/// LLID of discovery and broadcast at 10 Gb/s, without mode bit.
pub const BROADCAST: u16 = 0x7ffe;
/// The same at 1 Gb/s.
pub const BROADCAST_1G: u16 = 0x7fff;

static CRC8: [u8; 256] = crc8_table();

const fn crc8_table() -> [u8; 256] {
    // x^8+x^2+x+1, least significant bit first.
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 {
                crc >> 1 ^ 0xe0
            } else {
                crc >> 1
            };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
}

/// CRC-8 of the octets from the delimiter to the LLID.
#[inline]
pub fn crc8(octets: &[u8]) -> u8 {
    octets
        .iter()
        .fold(0, |crc, octet| CRC8[usize::from(crc ^ octet)])
}

/// The eight octets in front of a frame.
#[inline]
pub fn preamble(llid: u16) -> [u8; PREAMBLE_LEN] {
    let [high, low] = llid.to_be_bytes();
    let mut octets = [START, 0x55, SLD, 0x55, 0x55, high, low, 0];
    octets[7] = crc8(&octets[2..7]);
    octets
}

/// What is wrong with a preamble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreambleError {
    /// No delimiter where it belongs.
    Sld,
    /// The check sequence does not fit.
    Crc8,
}

/// LLID of a received preamble, with its mode bit.
///
/// # Errors
///
/// If delimiter or CRC-8 is wrong.
#[inline]
pub fn parse(octets: &[u8; PREAMBLE_LEN]) -> Result<u16, PreambleError> {
    if octets[2] != SLD {
        return Err(PreambleError::Sld);
    }
    if crc8(&octets[2..]) != 0 {
        return Err(PreambleError::Crc8);
    }
    Ok(u16::from_be_bytes([octets[5], octets[6]]))
}

/// Which frames a receiver takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// All: an OLT, which tells ONUs apart by LLID.
    Any,
    /// Those for one ONU: its own LLID, broadcasts, and copies to many that are not echoes of its
    /// own (IEEE 802.3 76.2.6.1.3.2).
    Onu(u16),
}

impl Accept {
    /// Whether a frame with this LLID, mode bit included, is taken.
    #[inline]
    pub fn takes(self, llid: u16) -> bool {
        let Self::Onu(own) = self else {
            return true;
        };
        let value = llid & !MODE;
        let is_own = value == own & !MODE;
        let is_broadcast = value == BROADCAST || value == BROADCAST_1G;
        is_broadcast || (llid & MODE == 0) == is_own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_values_are_those_of_the_published_preambles() {
        for (llid, crc) in [(1, 0x96), (0x7ffe, 0x1a), (0xfffe, 0xb2), (0xffff, 0x23)] {
            let octets = preamble(llid);
            assert_eq!(octets[7], crc, "{llid:04x}");
            assert_eq!(parse(&octets), Ok(llid));
        }
        let mut octets = preamble(5);
        octets[6] ^= 1;
        assert_eq!(parse(&octets), Err(PreambleError::Crc8));
        octets[2] = 0x55;
        assert_eq!(parse(&octets), Err(PreambleError::Sld));
    }

    #[test]
    fn an_onu_takes_its_own_frames_and_what_others_sent_to_many() {
        let onu = Accept::Onu(5);
        let taken = [5, BROADCAST, BROADCAST | MODE, BROADCAST_1G, 6 | MODE];
        assert!(taken.iter().all(|&llid| onu.takes(llid)));
        assert!([6, 5 | MODE].iter().all(|&llid| !onu.takes(llid)));
        assert!(Accept::Any.takes(6));
    }
}
