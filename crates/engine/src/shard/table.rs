//! Which shard has which part of the hashes, and which part of a range.
//!
//! Hashes fall into [`BUCKETS`] buckets, as in the indirection table of a network card. The table
//! for n + 1 shards is that for n with as many buckets moved to the new one as its share, taken one
//! by one from whoever has most: shares differ by one bucket at most, and when a shard is added or
//! the last one goes, no other flow moves than it must.

/// Parts into which hashes fall.
pub const BUCKETS: usize = 2048;

/// The shard of each bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buckets(Box<[u8; BUCKETS]>);

impl Buckets {
    /// The table for `count` shards; the same for the same number, wherever it is made.
    pub fn of(count: u16) -> Self {
        let mut table = Box::new([0_u8; BUCKETS]);
        let mut shares = vec![BUCKETS];
        for shard in 1..usize::from(count.max(1)) {
            let wanted = BUCKETS / (shard + 1);
            shares.push(0);
            // Spread over the table, so that no run of buckets is one shard's.
            let mut at = 0;
            while shares[shard] < wanted {
                let most = shares.iter().copied().max().unwrap_or(0);
                at = (at + STRIDE) % BUCKETS;
                let holder = usize::from(table[at]);
                if shares[holder] < most || holder == shard {
                    continue;
                }
                shares[holder] -= 1;
                shares[shard] += 1;
                #[expect(clippy::cast_possible_truncation, reason = "SHARD_COUNT_MAX is 64")]
                let shard = shard as u8;
                table[at] = shard;
            }
        }
        Self(table)
    }

    /// The shard of a hash.
    #[inline]
    pub fn shard_of(&self, hash: u64) -> u8 {
        self.0[(hash >> (u64::BITS - BUCKETS.ilog2())) as usize]
    }
}

/// No divisor in common with [`BUCKETS`], so that all are visited.
const STRIDE: usize = 1031;

/// Which of `count` equal parts of `0..2^bits` the number `offset` lies in; the last if it lies
/// behind all.
#[inline]
pub fn part_of(offset: u64, bits: u32, count: u16) -> u8 {
    let part = (u128::from(offset) * u128::from(count)) >> bits;
    #[expect(clippy::cast_possible_truncation, reason = "SHARD_COUNT_MAX is 64")]
    let part = part.min(u128::from(count.max(1) - 1)) as u8;
    part
}

/// The first number of part `index` of `0..2^bits` in `count` parts: part i begins here and ends
/// before where part i + 1 begins.
pub fn start_of_part(index: u16, bits: u32, count: u16) -> u128 {
    (u128::from(index) << bits).div_ceil(u128::from(count.max(1)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn shares_are_equal_and_only_what_must_move_moves() {
        let mut before = Buckets::of(1);
        assert!(before.0.iter().all(|shard| *shard == 0));
        for count in 2..=64_u16 {
            let table = Buckets::of(count);
            let mut shares = vec![0_usize; usize::from(count)];
            table
                .0
                .iter()
                .for_each(|shard| shares[usize::from(*shard)] += 1);
            let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
            assert!(most - least <= 1, "{count}: {shares:?}");
            let moved = before.0.iter().zip(table.0.iter());
            for (was, is) in moved.filter(|(was, is)| was != is) {
                assert!(u16::from(*is) == count - 1, "{count}: {was} to {is}");
            }
            before = table;
        }
    }

    #[test]
    fn hashes_reach_all_shards() {
        let table = Buckets::of(16);
        let mut seen = [0_u32; 16];
        for n in 0..16_000_u64 {
            seen[usize::from(table.shard_of(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)))] += 1;
        }
        assert!(
            seen.iter().all(|count| (900..1100).contains(count)),
            "{seen:?}"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn parts_follow_each_other(
            offset in any::<u32>(), bits in 6_u32..=32, count in 1_u16..=64,
        ) {
            let offset = u64::from(offset) & ((1_u64 << bits) - 1);
            let part = u16::from(part_of(offset, bits, count));
            prop_assert!(start_of_part(part, bits, count) <= u128::from(offset));
            prop_assert!(u128::from(offset) < start_of_part(part + 1, bits, count));
            prop_assert!(part < count);
        }
    }
}
