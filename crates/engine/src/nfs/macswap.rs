//! `macswap`: exchanges source and destination MAC address, the L2 forwarder of Bhutto et al.
//!
//! The smallest NF that changes packets; the yardstick of the chain benchmarks. Every packet leaves
//! by `out`. A packet too short for an Ethernet header is dropped as `malformed`.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::parse_config;
use crate::nf::{BuiltNf, Burst, DropReason, Nanos, Nf, NfKind, NfPlan, Verdict};
use crate::shard::Sharding;

/// `macswap` takes no configuration.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {}

#[derive(Debug)]
struct MacSwap;

impl Nf for MacSwap {
    fn process(&mut self, burst: &mut Burst<'_>, _now: Nanos) {
        burst.judge_mut(swap);
    }
}

#[inline]
fn swap(bytes: &mut [u8]) -> Verdict {
    let Some(addresses) = bytes.first_chunk_mut::<12>() else {
        return Verdict::Drop(DropReason::Malformed);
    };
    let (destination, source) = addresses.split_at_mut(6);
    destination.swap_with_slice(source);
    Verdict::Output(0)
}

/// The chain file's entry.
pub const KIND: NfKind = NfKind {
    name: "macswap",
    summary: "Exchanges source and destination MAC address",
    example: "{}",
    schema: || schemars::schema_for!(Config),
    plan: |config, _outputs| {
        parse_config::<Config>(config)?;
        let plan = NfPlan::new().sharding(Sharding::Any);
        Ok(plan.writes().changes_no_key().carries_segments())
    },
    build: |config, _context| {
        parse_config::<Config>(config)?;
        Ok(BuiltNf::new(MacSwap))
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nf_bench::NfBench;

    #[test]
    fn addresses_are_exchanged_and_the_rest_is_kept() {
        let mut bench = NfBench::new(&KIND, &serde_json::json!({}), &[]).unwrap();
        let mut frame: Vec<u8> = (0..60).collect();
        let result = bench.process_one(&frame);
        frame[..12].rotate_left(6);
        assert_eq!(result.verdict, Verdict::Output(0));
        assert_eq!(result.bytes, frame);
    }

    #[test]
    fn a_stub_of_a_frame_is_malformed() {
        let mut bench = NfBench::new(&KIND, &serde_json::json!({}), &[]).unwrap();
        assert_eq!(
            bench.process_one(&[0; 11]).verdict,
            Verdict::Drop(DropReason::Malformed)
        );
    }
}
