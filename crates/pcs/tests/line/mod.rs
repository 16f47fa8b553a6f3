// SPDX-License-Identifier: Apache-2.0
//! Line bits for tests, with what can happen to them: errors, slips, cuts, noise.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test uses some of it; public within the test"
)]

/// A small generator of random numbers (xorshift), so that a seed repeats a run.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        ((self.next() >> 32) as usize * limit) >> 32
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| (self.next() >> 40) as u8).collect()
    }
}

/// Bits `offset..offset + len` of bytes, least significant bit first.
#[derive(Clone, Debug)]
pub struct Line {
    bytes: Vec<u8>,
    offset: usize,
    len: usize,
}

impl Line {
    pub fn new(offset: usize) -> Self {
        Self {
            bytes: vec![0; offset.div_ceil(8)],
            offset,
            len: 0,
        }
    }

    pub fn noise(random: &mut Random, len: usize, density: usize) -> Self {
        let mut bytes = random.bytes(len.div_ceil(8));
        match density {
            0 => bytes.fill(0),
            1 => bytes.iter_mut().for_each(|byte| *byte &= 0x11),
            _ => {}
        }
        Self {
            bytes,
            offset: 0,
            len,
        }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn offset(&self) -> usize {
        self.offset
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Room for more bits at the end: where they begin, and all bytes.
    pub fn room(&mut self, count: usize) -> (usize, &mut [u8]) {
        let end = self.offset + self.len;
        self.bytes.resize((end + count).div_ceil(8), 0);
        (end, &mut self.bytes)
    }

    /// So many of the bits were written.
    pub fn advance(&mut self, count: usize) {
        self.len += count;
        self.bytes.truncate((self.offset + self.len).div_ceil(8));
    }

    fn toggle(&mut self, bit: usize) {
        let bit = self.offset + bit;
        self.bytes[bit / 8] ^= 1 << (bit % 8);
    }

    fn bits(&self) -> Vec<bool> {
        let all = self.offset..self.offset + self.len;
        all.map(|i| self.bytes[i / 8] >> (i % 8) & 1 == 1).collect()
    }

    fn set_bits(&mut self, bits: &[bool]) {
        self.len = bits.len();
        self.bytes = vec![0; (self.offset + self.len).div_ceil(8)];
        for (i, _) in bits.iter().enumerate().filter(|(_, bit)| **bit) {
            self.toggle(i);
        }
    }

    /// Flips about so many bits in each codeword's length.
    pub fn flip(&mut self, random: &mut Random, per_codeword: usize) {
        for _ in 0..self.len * per_codeword / 2046 {
            let bit = random.below(self.len);
            self.toggle(bit);
        }
    }

    /// Drops or doubles single bits.
    pub fn slip(&mut self, random: &mut Random, count: usize) {
        let mut bits = self.bits();
        for _ in 0..count.min(bits.len()) {
            let at = random.below(bits.len());
            if random.below(2) == 0 {
                bits.remove(at);
            } else {
                bits.insert(at, bits[at]);
            }
        }
        self.set_bits(&bits);
    }

    pub fn cut_front(&mut self, count: usize) {
        let count = count.min(self.len);
        self.offset += count;
        self.len -= count;
    }

    pub fn cut_back(&mut self, count: usize) {
        self.len -= count.min(self.len);
    }
}

/// Copies the bits of `from` outside `start..start + count` to `to`.
pub fn restore(to: &mut [u8], from: &[u8], start: usize, count: usize) {
    for i in 0..8 * to.len() {
        if i < start || i >= start + count {
            let mask = 1 << (i % 8);
            to[i / 8] = to[i / 8] & !mask | from[i / 8] & mask;
        }
    }
}
