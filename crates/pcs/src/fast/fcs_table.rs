// SPDX-License-Identifier: Apache-2.0
//! CRC-32 by a table of eight bytes at a time: where there is no carry-less multiplication, and
//! for what is too short for it.

/// x^32+x^26+x^23+x^22+x^16+x^12+x^11+x^10+x^8+x^7+x^5+x^4+x^2+x+1, lowest power in bit 31.
const POLYNOMIAL: u32 = 0xedb8_8320;

static TABLE: [[u32; 256]; 8] = table();

const fn table() -> [[u32; 256]; 8] {
    let mut table = [[0; 256]; 8];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 {
                crc >> 1 ^ POLYNOMIAL
            } else {
                crc >> 1
            };
            bit += 1;
        }
        table[0][i] = crc;
        i += 1;
    }
    let mut k = 1;
    while k < 8 {
        let mut i = 0;
        while i < 256 {
            let before: u32 = table[k - 1][i];
            table[k][i] = before >> 8 ^ table[0][(before & 0xff) as usize];
            i += 1;
        }
        k += 1;
    }
    table
}

/// Goes on with a register over octets.
pub(super) fn update(mut crc: u32, octets: &[u8]) -> u32 {
    let (words, rest) = octets.as_chunks::<8>();
    for word in words {
        let word = u64::from_le_bytes(*word) ^ u64::from(crc);
        crc = (0..8).fold(0, |sum, k| {
            sum ^ TABLE[7 - k][(word >> (8 * k) & 0xff) as usize]
        });
    }
    for octet in rest {
        crc = crc >> 8 ^ TABLE[0][usize::from(crc as u8 ^ octet)];
    }
    crc
}
