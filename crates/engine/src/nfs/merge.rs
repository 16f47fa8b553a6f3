//! `merge`: joins any number of inputs into one output.
//!
//! The NF to put where links from several NFs must go on as one: only kinds with many inputs accept
//! more than one link, so that an accidental fan-in is refused. Packets of one input keep their
//! order; bursts of different inputs follow one another as the engine polls them. It looks at no
//! byte and drops nothing.
//!
//! ```yaml
//! nfs:
//!   join: { type: merge }
//! links:
//!   - left -> join
//!   - right -> join
//!   - join -> out
//! ```

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::parse_config;
use crate::nf::{BuiltNf, Burst, Inputs, Nanos, Nf, NfKind, NfPlan};
use crate::shard::Sharding;

/// `merge` takes no configuration.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {}

#[derive(Debug)]
struct Merge;

impl Nf for Merge {
    /// Leaves every verdict at "output 0".
    fn process(&mut self, _burst: &mut Burst<'_>, _now: Nanos) {}
}

/// The chain file's entry.
pub const KIND: NfKind = NfKind {
    name: "merge",
    summary: "Joins any number of inputs into one output",
    example: "{}",
    schema: || schemars::schema_for!(Config),
    plan: |config, _outputs| {
        parse_config::<Config>(config)?;
        let plan = NfPlan::new().sharding(Sharding::Any);
        Ok(plan.inputs(Inputs::Many).carries_segments())
    },
    build: |config, _context| {
        parse_config::<Config>(config)?;
        Ok(BuiltNf::new(Merge))
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nf::Verdict;
    use crate::nf_bench::NfBench;

    #[test]
    fn packets_of_every_input_leave_unchanged_by_the_one_output() {
        let mut bench = NfBench::new(&KIND, &serde_json::json!({}), &[]).unwrap();
        assert_eq!(bench.outputs(), ["out"]);
        for input in [0, 1, 255] {
            // Not even a frame: the contents do not matter.
            let result = bench.process_from(input, &[&[input], &[1, 2, 3]]);
            assert!(
                result
                    .packets
                    .iter()
                    .all(|packet| packet.verdict == Verdict::Output(0))
            );
            assert_eq!(result.packets[0].bytes, [input]);
            assert_eq!(result.packets[1].bytes, [1, 2, 3]);
        }
        assert_eq!(bench.buffers_in_use(), 0);
    }

    #[test]
    fn any_setting_is_refused() {
        let errors = (KIND.plan)(&serde_json::json!({"inputs": 2}), &[]).unwrap_err();
        assert!(errors[0].message.contains("inputs"), "{errors:?}");
    }
}
