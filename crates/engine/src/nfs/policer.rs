//! `policer`: passes packets up to a rate with a burst, drops the rest as `policer_red`.
//!
//! A single-rate two-colour marker whose red packets are dropped: the committed bucket of RFC 2697
//! section 3 (CIR is `rate`, CBS is `burst`, no excess bucket), in packets or in layer-2 bits. The
//! bucket starts full, fills at `rate` up to `burst`, and a packet passes if the bucket holds at
//! least its size. All packets of the NF share one bucket.
//!
//! ```yaml
//! nfs:
//!   police: { type: policer, rate: 10kpps, burst: 32 }
//!   shape:  { type: policer, rate: 1Gbps, burst: 64KiB }
//! ```
//!
//! Over any interval of t seconds at most `burst + rate * t` pass. Tokens are whole numbers of
//! 10^-12 packets or bits and time is in whole nanoseconds, so no error adds up however long it
//! runs. A rate is exact to 10^-3 per second. Bits are of the frame without FCS, preamble and gap.
//! It looks at no byte of a packet, so nothing is malformed here.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};

use crate::config::{ConfigError, ConfigErrors, parse_config};
use crate::nf::{BuiltNf, Burst, DropReason, Nanos, Nf, NfKind, NfPlan, Verdict};
use crate::shard::Sharding;
use crate::units::{ByteSize, Rate, quantity};

const POLICER_RED: DropReason = DropReason::own(0);

/// Configuration of `policer`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// Rate at which packets pass: of packets (`10kpps`) or of layer-2 bits without FCS (`1Gbps`).
    rate: Rate,
    /// How much passes at once after a pause: packets (`32`) for a rate in pps, bytes with their
    /// unit (`64KiB`) for a rate in bps, where it must hold the largest packet.
    burst: BurstSize,
}

/// A number of packets, or of bytes if it has a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BurstSize {
    Packets(u32),
    Bytes(u64),
}

impl BurstSize {
    fn parse(text: &str) -> Result<Self, String> {
        if let Ok(packets) = text.trim().parse() {
            return Ok(Self::Packets(packets));
        }
        match ByteSize::parse(text) {
            Ok(size) if text.ends_with('B') => Ok(Self::Bytes(size.bytes)),
            _ => Err(format!(
                "\"{text}\" is not a burst; write packets like 32, or bytes like 64KiB"
            )),
        }
    }
}

quantity!(BurstSize, "^[0-9._]+ *(B|[kKMG]i?B)?$", "64KiB");

/// Tokens per packet or bit.
const TOKENS_PER_UNIT: u128 = 1_000_000_000_000;
/// The smallest frame, without FCS: a smaller burst would let nothing pass at all.
const FRAME_LEN_MIN: u64 = 60;
/// Largest burst in bytes; far above any buffer, far below where a sum of tokens overflows.
const BURST_BYTES_MAX: u64 = 1 << 40;

/// The committed token bucket of RFC 2697.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Tokens that arrive per nanosecond: thousandths of a unit per second.
    tokens_per_ns: u128,
    /// Tokens it holds when full.
    capacity: u128,
    /// Tokens it holds as of `filled_at`.
    level: u128,
    filled_at: Nanos,
}

impl Bucket {
    fn full(tokens_per_ns: u128, capacity: u128) -> Self {
        Self {
            tokens_per_ns,
            capacity,
            level: capacity,
            filled_at: Nanos(0),
        }
    }

    /// Adds what has arrived until `now`. Time that goes backwards adds nothing.
    fn fill(&mut self, now: Nanos) {
        // At most 2^64 ns times 2^54 tokens per ns: below 2^118.
        let arrived = u128::from(now.since(self.filled_at)) * self.tokens_per_ns;
        self.level = self.capacity.min(self.level + arrived);
        self.filled_at = self.filled_at.max(now);
    }

    /// Takes `tokens` out, or nothing and says false if there are fewer.
    fn take(&mut self, tokens: u128) -> bool {
        let rest = self.level.checked_sub(tokens);
        self.level = rest.unwrap_or(self.level);
        rest.is_some()
    }
}

/// What a packet costs.
#[derive(Clone, Copy, Debug)]
enum Unit {
    Packet,
    Bit,
}

#[derive(Debug)]
struct Policer {
    bucket: Bucket,
    unit: Unit,
}

impl Nf for Policer {
    fn process(&mut self, burst: &mut Burst<'_>, now: Nanos) {
        self.bucket.fill(now);
        burst.judge(|bytes| self.police(bytes.len()));
    }
}

impl Policer {
    #[inline]
    fn police(&mut self, len: usize) -> Verdict {
        let units = match self.unit {
            Unit::Packet => 1,
            Unit::Bit => len as u128 * 8,
        };
        if self.bucket.take(units * TOKENS_PER_UNIT) {
            Verdict::Output(0)
        } else {
            Verdict::Drop(POLICER_RED)
        }
    }
}

impl Policer {
    fn of(config: &serde_json::Value) -> Result<Self, ConfigErrors> {
        let config: Config = parse_config(config)?;
        let refuse = |path: &str, message: String, repair: &str| {
            Err(vec![ConfigError::new(path, message, repair)])
        };
        let (unit, rate, units) = match (config.rate, config.burst) {
            (Rate::PacketsPerSecond(_), BurstSize::Packets(0)) => {
                return refuse(
                    "burst",
                    "a burst of 0 lets nothing pass".to_owned(),
                    "write 1 or more",
                );
            }
            (Rate::PacketsPerSecond(rate), BurstSize::Packets(packets)) => {
                (Unit::Packet, rate, u128::from(packets))
            }
            (Rate::PacketsPerSecond(_), BurstSize::Bytes(_)) => {
                return refuse(
                    "burst",
                    "the rate is in packets, the burst in bytes".to_owned(),
                    "write a number of packets like 32, or a rate in bps",
                );
            }
            (Rate::BitsPerSecond(_), BurstSize::Packets(count)) => {
                return refuse(
                    "burst",
                    "the rate is in bits; a burst of bytes needs its unit".to_owned(),
                    &format!("write bytes like {count}kB, or a rate in pps"),
                );
            }
            (Rate::BitsPerSecond(_), BurstSize::Bytes(bytes))
                if !(FRAME_LEN_MIN..=BURST_BYTES_MAX).contains(&bytes) =>
            {
                return refuse(
                    "burst",
                    format!("a burst of {bytes} bytes is out of range"),
                    "write at least the size of the largest packet, as in 16kB",
                );
            }
            (Rate::BitsPerSecond(rate), BurstSize::Bytes(bytes)) => {
                (Unit::Bit, rate, u128::from(bytes) * 8)
            }
        };
        // A rate is positive and at most 10^13 per second, so this fits; below 10^-3 it would be
        // none.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive and at most 10^16, see Rate::parse"
        )]
        let tokens_per_ns = (rate * 1e3).round() as u128;
        if tokens_per_ns == 0 {
            return refuse(
                "rate",
                "the rate is below 0.001 per second".to_owned(),
                "write a higher rate",
            );
        }
        Ok(Self {
            bucket: Bucket::full(tokens_per_ns, units * TOKENS_PER_UNIT),
            unit,
        })
    }
}

/// The chain file's entry.
pub const KIND: NfKind = NfKind {
    name: "policer",
    summary: "Passes packets up to a rate with a burst, drops the rest",
    example: r#"{"rate": "10kpps", "burst": 32}"#,
    schema: || schemars::schema_for!(Config),
    plan: |config, _outputs| {
        Policer::of(config)?;
        let plan = NfPlan::new().drop_reasons(["policer_red"]);
        Ok(plan.sharding(Sharding::No(
            "its rate is that of all its packets together".into(),
        )))
    },
    build: |config, _context| Ok(BuiltNf::new(Policer::of(config)?)),
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::nf_bench::NfBench;

    const SECOND: u64 = 1_000_000_000;
    const RED: Verdict = Verdict::Drop(POLICER_RED);

    fn bench(rate: &str, burst: serde_json::Value) -> NfBench {
        let config = json!({"rate": rate, "burst": burst});
        NfBench::new(&KIND, &config, &[]).unwrap()
    }

    /// How many of `frames` pass at `now`.
    fn passed(bench: &mut NfBench, now: u64, frames: &[&[u8]]) -> usize {
        bench.now = Nanos(now);
        let packets = bench.process(frames).packets;
        packets
            .iter()
            .filter(|packet| packet.verdict != RED)
            .count()
    }

    #[test]
    fn the_bucket_starts_full_and_fills_at_the_rate() {
        let mut bench = bench("10pps", json!(3));
        let frames: &[&[u8]] = &[b"x".as_slice(); 8];
        assert_eq!(passed(&mut bench, 0, frames), 3);
        assert_eq!(passed(&mut bench, SECOND / 10 - 1, frames), 0);
        assert_eq!(passed(&mut bench, SECOND / 10, frames), 1);
        assert_eq!(passed(&mut bench, SECOND * 9, frames), 3);
        assert_eq!(bench.buffers_in_use(), 0);
    }

    #[test]
    fn bits_are_those_of_the_frame_without_fcs() {
        // 8 kb/s and 1000 bytes: a burst of ten 100-byte packets, then one every 100 ms.
        let mut bench = bench("8kbps", json!("1000B"));
        let frame = [0; 100];
        let frames: Vec<&[u8]> = vec![&frame; 16];
        assert_eq!(passed(&mut bench, 0, &frames), 10);
        assert_eq!(passed(&mut bench, SECOND / 10 - 1, &frames), 0);
        assert_eq!(passed(&mut bench, SECOND / 10, &frames), 1);
    }

    #[test]
    fn a_red_packet_takes_no_tokens_from_a_smaller_one() {
        let mut bench = bench("8kbps", json!("100B"));
        let result = bench.process(&[&[0; 101], &[0; 100]]);
        assert_eq!(result.packets[0].verdict, RED);
        assert_eq!(result.packets[1].verdict, Verdict::Output(0));
    }

    #[test]
    fn time_that_goes_backwards_adds_nothing() {
        let mut bench = bench("1pps", json!(1));
        assert_eq!(passed(&mut bench, 10 * SECOND, &[b"x"]), 1);
        assert_eq!(passed(&mut bench, 2 * SECOND, &[b"x"]), 0);
        assert_eq!(passed(&mut bench, 11 * SECOND - 1, &[b"x"]), 0);
        assert_eq!(passed(&mut bench, 11 * SECOND, &[b"x"]), 1);
    }

    #[test]
    fn the_extremes_of_time_and_rate_do_not_overflow() {
        let mut bench = bench("10000Gpps", json!(u32::MAX));
        assert_eq!(passed(&mut bench, u64::MAX, &[b"x"]), 1);
        let mut bench = self::bench("10000Gbps", json!("1024GiB"));
        assert_eq!(passed(&mut bench, u64::MAX, &[b"x"]), 1);
    }

    #[test]
    fn wrong_configurations_are_refused_with_the_field() {
        let table = [
            ("10kpps", json!(0), "burst: a burst of 0"),
            ("10kpps", json!("64KiB"), "the burst in bytes"),
            ("1Gbps", json!(32), "write bytes like 32kB"),
            ("1Gbps", json!("59B"), "largest packet"),
            ("1Gbps", json!("2000GiB"), "out of range"),
            ("1Gbps", json!("many"), "burst: \"many\""),
            ("0.0004pps", json!(1), "rate: the rate is below"),
            ("10", json!(1), "is not a rate"),
        ];
        for (rate, burst, expected) in table {
            let config = json!({"rate": rate, "burst": burst});
            let errors = NfBench::new(&KIND, &config, &[]).unwrap_err();
            let text = errors[0].to_string();
            assert!(text.contains(expected), "{config}: {text}");
        }
        for config in [json!({}), json!({"rate": "1pps", "burst": 1, "color": 2})] {
            assert!(NfBench::new(&KIND, &config, &[]).is_err(), "{config}");
        }
    }

    proptest! {
        /// Offers bursts at random times and looks at every interval between two of them: what
        /// passed from the first to the second, both included, is within the bucket's promise.
        #[test]
        fn no_interval_passes_more_than_burst_and_rate(
            rate in 1_u64..1_000_000,
            burst in 1_u64..50,
            offers in proptest::collection::vec((0_u64..2_000_000_000, 1_usize..60), 1..60),
        ) {
            let mut bench = bench(&format!("{rate}pps"), json!(burst));
            let mut now = 0;
            let mut events = Vec::new();
            for (gap, offered) in offers {
                now += gap;
                let frames: Vec<&[u8]> = vec![b"x"; offered];
                events.push((now, passed(&mut bench, now, &frames) as u128));
            }
            for first in 0..events.len() {
                let mut sum = 0;
                for &(at, passed) in &events[first..] {
                    sum += passed;
                    let arrived = u128::from(rate) * u128::from(at - events[first].0);
                    let most = u128::from(burst) * u128::from(SECOND) + arrived;
                    prop_assert!(sum * u128::from(SECOND) <= most);
                }
            }
        }

        /// Offers more than may pass, often enough that the bucket never overflows: then all that
        /// the promise allows does pass, to the last whole packet, however long it takes.
        #[test]
        fn an_overload_passes_all_that_is_promised_and_does_not_drift(
            rate in 1_u64..1_000_000_000,
            burst in 2_u64..50,
            shares in proptest::collection::vec(1_u64..1000, 1..200),
        ) {
            let mut bench = bench(&format!("{rate}pps"), json!(burst));
            // Offered at each step: a whole bucket and more.
            let frames: Vec<&[u8]> = vec![b"x"; 60];
            let mut now = 0;
            let mut sum = passed(&mut bench, now, &frames) as u128;
            for share in shares {
                // At most what fills the bucket from one token below empty.
                now += (burst - 1) * SECOND / rate * share / 1000;
                sum += passed(&mut bench, now, &frames) as u128;
                let arrived = u128::from(rate) * u128::from(now);
                let promised = u128::from(burst) + arrived / u128::from(SECOND);
                prop_assert!(sum + 1 > promised, "{sum} of {promised}");
                prop_assert!(sum <= promised, "{sum} of {promised}");
            }
        }
    }
}
