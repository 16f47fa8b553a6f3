//! From the ticks of a pcapng interface to nanoseconds.
//!
//! `if_tsresol` (pcapng, section 4.2): the low seven bits are an exponent; the top bit chooses its
//! base, 10 when clear and 2 when set. `if_tsoffset` is whole seconds to add.

const NS_PER_S: u128 = 1_000_000_000;

/// `if_tsresol` when the option is absent: microseconds.
pub(super) const DEFAULT_RESOLUTION: u8 = 6;

/// The clock of one interface.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    pub(super) resolution: u8,
    pub(super) offset_s: i64,
}

impl Clock {
    /// The time of `ticks`, clamped to what `u64` nanoseconds can hold (1970 to 2554).
    pub(super) fn timestamp_ns(self, ticks: u64) -> u64 {
        let exponent = u32::from(self.resolution & 0x7f);
        let ticks = u128::from(ticks);
        // No product overflows: a tick count is below 2^64 and 10^9 below 2^30.
        let since_offset_ns = if self.resolution & 0x80 != 0 {
            (ticks * NS_PER_S) >> exponent
        } else if exponent <= 9 {
            ticks * 10u128.pow(9 - exponent)
        } else {
            // From 10^39 on the divisor does not fit, and every quotient is zero.
            10u128
                .checked_pow(exponent - 9)
                .map_or(0, |divisor| ticks / divisor)
        };
        let offset_ns = i128::from(self.offset_s) * NS_PER_S as i128;
        let since_offset_ns = i128::try_from(since_offset_ns).unwrap_or(i128::MAX);
        let total_ns = since_offset_ns.saturating_add(offset_ns);
        u64::try_from(total_ns.max(0)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_nanoseconds_at_every_resolution() {
        for (resolution, offset_s, ticks, expected_ns) in [
            (0, 0, 3, 3_000_000_000),
            (3, 0, 1_500, 1_500_000_000),
            (6, 0, 1_340_954_905_298_858, 1_340_954_905_298_858_000),
            (9, 0, 1_700_000_000_123_456_789, 1_700_000_000_123_456_789),
            (9, 0, u64::MAX, u64::MAX),
            (12, 0, 1_999, 1),
            (127, 0, u64::MAX, 0),
            (6, 100, 1, 100_000_001_000),
            (6, -1, 1_000_001, 1_000),
            (6, -2, 1_000_001, 0),
            (6, i64::MAX, u64::MAX, u64::MAX),
            (0, 0, u64::MAX, u64::MAX),
            (0x80, 0, 2, 2_000_000_000),
            (0x8a, 0, 1_024 + 512, 1_500_000_000),
            (0x80 | 63, 0, 1 << 63, 1_000_000_000),
            (0xff, 0, u64::MAX, 0),
        ] {
            let clock = Clock {
                resolution,
                offset_s,
            };
            assert_eq!(
                clock.timestamp_ns(ticks),
                expected_ns,
                "{clock:?}, {ticks} ticks"
            );
        }
    }
}
