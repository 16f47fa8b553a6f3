// SPDX-License-Identifier: Apache-2.0
//! The frame scrambler of XGS-PON: x^58 + x^39 + 1 as of 10G-EPON, but additive and set anew for
//! each frame from its superframe counter (ITU-T G.9807.1 C.10.1.4).
//!
//! Uncertain: the order in which bits of an octet pass, and of the counter in the preload. Here,
//! both most significant first; the clause decides.

/// Bits of the superframe counter that are loaded.
pub const COUNTER_BITS: u32 = 51;

/// Makes the sequence that is added to a frame; adding it again takes it away.
#[derive(Clone, Debug)]
pub struct AdditiveScrambler {
    /// The last 58 bits, the latest in bit 0.
    state: u64,
}

impl AdditiveScrambler {
    /// Loaded with the counter and seven ones behind it.
    pub fn new(superframe_counter: u64) -> Self {
        let counter = superframe_counter & ((1 << COUNTER_BITS) - 1);
        Self {
            state: counter << 7 | 0x7f,
        }
    }

    /// Adds the sequence to octets.
    pub fn apply(&mut self, octets: &mut [u8]) {
        for octet in octets {
            // The nearest tap is 39 bits back, so that eight bits do not depend on each other.
            let next = (self.state >> 31 ^ self.state >> 50) as u8;
            self.state = self.state << 8 | u64::from(next);
            *octet ^= next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_agree_with_single_bits_and_come_back() {
        let mut register = vec![true; 7];
        register.extend((0..51).map(|i| 0x5_1234_5678_9abc_u64 >> i & 1 == 1));
        let sequence: Vec<u8> = (0..200)
            .map(|_| {
                (0..8).fold(0, |octet, _| {
                    let bit = register[38] ^ register[57];
                    register.pop();
                    register.insert(0, bit);
                    octet << 1 | u8::from(bit)
                })
            })
            .collect();
        let mut octets = vec![0; 200];
        AdditiveScrambler::new(0x5_1234_5678_9abc).apply(&mut octets);
        assert_eq!(octets, sequence);
        AdditiveScrambler::new(0x5_1234_5678_9abc).apply(&mut octets);
        assert_eq!(octets, [0; 200]);
    }
}
