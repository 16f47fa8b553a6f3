//! `tee`: sends every packet to every output.
//!
//! The outputs are the names of the links that leave it in the chain file. The first one, in file
//! order, gets the original packet; each other gets a copy, in a buffer of the worker's own pool. A
//! copy that cannot be made is counted as `no_buffer` or `too_large` and the original goes on: a
//! mirror never costs the traffic that it mirrors. Nothing else is dropped, and no byte is looked
//! at.
//!
//! ```yaml
//! nfs:
//!   mirror: { type: tee }
//! links:
//!   - in -> mirror
//!   - mirror.main -> out
//!   - mirror.tap -> capture
//! ```

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::{ConfigError, ConfigErrors, PortSide, parse_config};
use crate::nf::{BuildContext, BuiltNf, Burst, Nanos, Nf, NfKind, NfPlan, OUTPUT_COUNT_MAX};
use crate::shard::Sharding;

/// `tee` takes no configuration: its outputs are the links that leave it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {}

#[derive(Debug)]
struct Tee {
    /// Outputs that get a copy: all but output 0.
    copy_outputs: std::ops::RangeInclusive<u8>,
}

impl Nf for Tee {
    fn process(&mut self, burst: &mut Burst<'_>, _now: Nanos) {
        for index in 0..burst.len() {
            for output in self.copy_outputs.clone() {
                // The burst counts a copy that fails.
                burst.copy_to(index, output);
            }
        }
    }
}

fn plan(config: &serde_json::Value, outputs: &[PortSide]) -> Result<NfPlan, ConfigErrors> {
    parse_config::<Config>(config)?;
    let refuse = |message: String, repair: &str| Err(vec![ConfigError::new("", message, repair)]);
    if let Some(name) = (1..outputs.len()).find_map(|at| {
        let name = &outputs[at];
        outputs[..at].contains(name).then_some(name)
    }) {
        return refuse(
            format!("two links leave by the output \"{name}\""),
            "give each link that leaves a tee an output name of its own, as in tee.left -> a",
        );
    }
    match outputs.len() {
        0 => refuse(
            "no link leaves this tee".to_owned(),
            "add a link for each place the packets should go to, as in tee.left -> a",
        ),
        count if count > OUTPUT_COUNT_MAX => refuse(
            format!("{count} links leave this tee"),
            &format!("use at most {OUTPUT_COUNT_MAX}; a tee may follow a tee"),
        ),
        _ => {
            let plan = NfPlan::new().outputs(outputs).allocates();
            Ok(plan
                .sharding(Sharding::Any)
                .changes_no_key()
                .carries_segments())
        }
    }
}

fn build(
    config: &serde_json::Value,
    context: &mut BuildContext<'_>,
) -> Result<BuiltNf, ConfigErrors> {
    plan(config, context.outputs)?;
    let last = u8::try_from(context.outputs.len() - 1).unwrap_or(u8::MAX);
    Ok(BuiltNf::new(Tee {
        copy_outputs: 1..=last,
    }))
}

/// The chain file's entry.
pub const KIND: NfKind = NfKind {
    name: "tee",
    summary: "Sends every packet to every output",
    example: "{}",
    schema: || schemars::schema_for!(Config),
    plan,
    build,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nf::{DropReason, Verdict};
    use crate::nf_bench::NfBench;

    fn bench(outputs: &[&str]) -> NfBench {
        NfBench::new(&KIND, &serde_json::json!({}), outputs).unwrap()
    }

    #[test]
    fn the_first_output_gets_the_original_and_the_others_copies() {
        let mut bench = bench(&["main", "tap", "log"]);
        assert_eq!(bench.outputs(), ["main", "tap", "log"]);
        let result = bench.process(&[b"one", b"two"]);
        for (packet, bytes) in result.packets.iter().zip([b"one", b"two"]) {
            assert_eq!(packet.verdict, Verdict::Output(0));
            assert_eq!(packet.bytes, bytes);
        }
        let expected = [(1, "one"), (2, "one"), (1, "two"), (2, "two")];
        let expected = expected.map(|(output, text)| (output, text.as_bytes().to_vec()));
        assert_eq!(result.copies, expected);
        assert_eq!(bench.buffers_in_use(), 0);
    }

    #[test]
    fn a_single_output_costs_no_copy() {
        let result = bench(&["out"]).process(&[b"one"]);
        assert_eq!(result.packets[0].verdict, Verdict::Output(0));
        assert!(result.copies.is_empty());
    }

    #[test]
    fn a_copy_that_finds_no_buffer_is_counted_and_the_original_goes_on() {
        // Of the largest buffers the bench has two: the original takes one, the first copy another.
        let mut bench = bench(&["main", "tap", "log"]);
        let large = vec![7; 100_000];
        let result = bench.process(&[&large]);
        assert_eq!(result.packets[0].verdict, Verdict::Output(0));
        assert_eq!(result.copies.len(), 1);
        assert_eq!(result.copies_failed, [DropReason::NoBuffer]);
        assert_eq!(bench.buffers_in_use(), 0);
    }

    #[test]
    fn wrong_outputs_are_refused() {
        let refused = |outputs: &[&str]| {
            let errors = NfBench::new(&KIND, &serde_json::json!({}), outputs).unwrap_err();
            errors[0].to_string()
        };
        assert!(refused(&[]).contains("no link leaves"));
        assert!(refused(&["a", "b", "a"]).contains("\"a\""));
        let many: Vec<String> = (0..257).map(|index| index.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(refused(&many).contains("257 links"));
    }
}
