// SPDX-License-Identifier: Apache-2.0
//! Random numbers of this crate's tests, and of those that use its programs: a seed repeats them.

/// xorshift64*, seeded per test with anything but 0.
pub(crate) struct Random(pub(crate) u64);

#[allow(dead_code, reason = "each test uses its part")]
impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| (self.next() >> 32) as u8).collect()
    }
}
