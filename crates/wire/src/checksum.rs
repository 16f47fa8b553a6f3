// SPDX-License-Identifier: Apache-2.0
//! The Internet checksum: the sum of 16-bit words in one's complement arithmetic.
//!
//! It protects the IPv4 header, ICMP, UDP and TCP. A function that builds a packet sums it whole; a
//! function that rewrites one field (NAT, TTL) updates the checksum from the old and the new value
//! and never reads the rest of the packet.
//!
//! Specification: RFC 1071 (definition; 1 byte order independence, 2 techniques), RFC 1624
//! (incremental update, equation 3), which corrects RFC 1141.
//!
//! The sum of a long run of bytes uses vector instructions where the processor has them
//! (`checksum_simd.rs`); the functions here are the portable form, and all give the same result.

use crate::checksum_simd;
use core::ops::{Add, AddAssign};

/// A one's complement sum in the making.
///
/// Sums of parts add up to the sum of the whole if every part but the last has an even number of
/// bytes; the last is padded with a zero byte (RFC 1071 1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u16);

impl Sum {
    /// The sum of nothing.
    pub const ZERO: Self = Self(0);

    /// The sum over `bytes`. Costs about one load per vector register of data.
    #[inline]
    pub fn of(bytes: &[u8]) -> Self {
        let (native, rest) = if bytes.len() < SIMD_LEN_MIN {
            (0, bytes)
        } else {
            checksum_simd::sum_blocks(bytes)
        };
        // A native sum is below 2^32 by `fold_to_u32`, so there is room for the rest.
        Self(to_network(fold_to_u32(native) + portable(rest)))
    }

    /// The sum over one big-endian field of two bytes at an even offset.
    #[inline]
    pub const fn of_u16(field: u16) -> Self {
        Self(field)
    }

    /// The sum over one big-endian field of four bytes at an even offset.
    #[inline]
    pub const fn of_u32(field: u32) -> Self {
        Self(fold(field as u64))
    }

    /// The sum over one big-endian field of sixteen bytes at an even offset.
    #[inline]
    pub const fn of_u128(field: u128) -> Self {
        let (high, low) = ((field >> 64) as u64, field as u64);
        Self(fold(
            (high >> 32) + (high & LOW_32) + (low >> 32) + (low & LOW_32),
        ))
    }

    /// The checksum: the complement of the sum, to be stored big-endian.
    #[inline]
    pub const fn checksum(self) -> u16 {
        !self.0
    }

    /// Whether the data summed, its checksum field included, is unchanged as far as a checksum can
    /// tell: all bits set (RFC 1071 1, step 3).
    #[inline]
    pub const fn is_valid(self) -> bool {
        self.0 == 0xffff
    }
}

impl Add for Sum {
    type Output = Self;

    #[inline]
    fn add(self, other: Self) -> Self {
        Self(fold(self.0 as u64 + other.0 as u64))
    }
}

impl AddAssign for Sum {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// The checksum after a field of two bytes, at an even offset in what the checksum covers, changed
/// from `old` to `new`: RFC 1624, equation 3, `HC' = ~(~HC + ~m + m')`.
///
/// Equal to the recomputed checksum whenever the covered bytes are not all zero. For UDP see
/// [`udp::View::update_checksum`](crate::udp::View::update_checksum), where zero is special.
#[inline]
pub const fn update_u16(checksum: u16, old: u16, new: u16) -> u16 {
    update(checksum, !old as u64, new as u64)
}

/// [`update_u16`] for a field of four bytes, such as an IPv4 address.
#[inline]
pub const fn update_u32(checksum: u16, old: u32, new: u32) -> u16 {
    update(checksum, !old as u64, new as u64)
}

/// [`update_u16`] for a field of sixteen bytes, such as an IPv6 address.
#[inline]
pub const fn update_u128(checksum: u16, old: u128, new: u128) -> u16 {
    update(
        checksum,
        Sum::of_u128(!old).0 as u64,
        Sum::of_u128(new).0 as u64,
    )
}

/// Which instructions [`Sum::of`] uses on this machine for long data: `avx2`, `sse2` or `portable`.
pub fn backend() -> &'static str {
    checksum_simd::backend()
}

#[inline]
const fn update(checksum: u16, old_complement: u64, new: u64) -> u16 {
    !fold(!checksum as u64 + old_complement + new)
}

/// The sum of native-endian 32-bit words, the last padded with zeros, not yet folded.
///
/// Native order is allowed because one's complement addition commutes with swapping the bytes of
/// every word (RFC 1071 2 B). No overflow below 2^32 words, that is 16 GiB.
#[inline]
fn portable(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut sum = 0;
    for word in words {
        sum += u64::from(u32::from_ne_bytes(*word));
    }
    let last = match *rest {
        [] => return sum,
        [a] => [a, 0, 0, 0],
        [a, b] => [a, b, 0, 0],
        [a, b, c, ..] => [a, b, c, 0],
    };
    sum + u64::from(u32::from_ne_bytes(last))
}

#[inline]
const fn fold_to_u32(sum: u64) -> u64 {
    let sum = (sum >> 32) + (sum & LOW_32);
    (sum >> 32) + (sum & LOW_32)
}

/// Adds the carries of a sum back in until 16 bits remain; zero only if `sum` is zero.
#[inline]
const fn fold(sum: u64) -> u16 {
    let sum = fold_to_u32(sum);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    sum as u16
}

#[inline]
const fn to_network(native: u64) -> u16 {
    u16::from_be(fold(native))
}

const LOW_32: u64 = 0xffff_ffff;

/// Below this many bytes the call into the vector code saves nothing over a loop in line, as for a
/// header; above, it pulls ahead (measured with `Sum::of` on an AVX2 machine: even at 64 to 96).
const SIMD_LEN_MIN: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;
    use proptest::prelude::*;

    /// RFC 1071 as written: big-endian words, one at a time, carry by carry.
    fn naive(bytes: &[u8]) -> u16 {
        let mut sum: u32 = 0;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            if sum > 0xffff {
                sum = (sum & 0xffff) + 1;
            }
        }
        sum as u16
    }

    #[test]
    fn published_sums() {
        // RFC 1071 3 gives the sum ddf2 for this run of bytes.
        assert_eq!(Sum::of(&hex("0001 f203 f4f5 f6f7")), Sum(0xddf2));
        // RFC 1624 4: HC = dd2f, m = 5555, m' = 3285 gives 0000, where RFC 1141 gave ffff.
        assert_eq!(update_u16(0xdd2f, 0x5555, 0x3285), 0x0000);
        assert_eq!(Sum::ZERO.checksum(), 0xffff);
        assert_eq!(Sum::of(&[]), Sum::ZERO);
    }

    #[test]
    fn all_ones_of_any_length_fold_without_loss() {
        for len in 0..=4096 {
            let bytes = vec![0xff; len];
            assert_eq!(Sum::of(&bytes).0, naive(&bytes), "{len}");
        }
    }

    proptest! {
        #[test]
        fn every_backend_is_the_naive_sum(
            bytes in proptest::collection::vec(any::<u8>(), 0..2100), skip in 0_usize..40,
        ) {
            let bytes = &bytes[skip.min(bytes.len())..];
            let expected = naive(bytes);
            prop_assert_eq!(to_network(portable(bytes)), expected);
            prop_assert_eq!(Sum::of(bytes).0, expected);
            for (name, sum) in checksum_simd::backends() {
                let (native, rest) = sum(bytes);
                let total = to_network(fold_to_u32(native) + portable(rest));
                prop_assert_eq!(total, expected, "{}", name);
            }
        }

        #[test]
        fn sums_of_even_parts_add_up(
            bytes in proptest::collection::vec(any::<u8>(), 0..600), cut in 0_usize..300,
        ) {
            let cut = (2 * cut).min(bytes.len() & !1);
            let (front, back) = bytes.split_at(cut);
            prop_assert_eq!(Sum::of(front) + Sum::of(back), Sum::of(&bytes));
        }

        #[test]
        fn update_is_recomputation(
            mut bytes in proptest::collection::vec(any::<u8>(), 40..80),
            at in 0_usize..10,
            new: u128,
        ) {
            // A byte that stays keeps the data from becoming all zero, the one case that differs.
            *bytes.last_mut().unwrap() |= 1;
            let before = Sum::of(&bytes).checksum();

            let mut changed = bytes.clone();
            let old = u16::from_be_bytes(bytes[2 * at..][..2].try_into().unwrap());
            changed[2 * at..][..2].copy_from_slice(&(new as u16).to_be_bytes());
            prop_assert_eq!(update_u16(before, old, new as u16), Sum::of(&changed).checksum());

            let mut changed = bytes.clone();
            let old = u32::from_be_bytes(bytes[2 * at..][..4].try_into().unwrap());
            changed[2 * at..][..4].copy_from_slice(&(new as u32).to_be_bytes());
            prop_assert_eq!(update_u32(before, old, new as u32), Sum::of(&changed).checksum());

            let mut changed = bytes.clone();
            let old = u128::from_be_bytes(bytes[2 * at..][..16].try_into().unwrap());
            changed[2 * at..][..16].copy_from_slice(&new.to_be_bytes());
            prop_assert_eq!(update_u128(before, old, new), Sum::of(&changed).checksum());
        }

        #[test]
        fn field_sums_are_byte_sums(a: u16, b: u32, c: u128) {
            prop_assert_eq!(Sum::of_u16(a), Sum::of(&a.to_be_bytes()));
            prop_assert_eq!(Sum::of_u32(b), Sum::of(&b.to_be_bytes()));
            prop_assert_eq!(Sum::of_u128(c), Sum::of(&c.to_be_bytes()));
        }
    }
}
