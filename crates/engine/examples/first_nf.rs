//! `sample`: passes every n-th packet to `out` and drops the others as `consumed`.
//!
//! Thins traffic out in front of an NF that looks closely. The first packet passes, so that a chain
//! with little traffic shows something at once. No byte is looked at, so nothing is malformed here.
//!
//! ```yaml
//! nfs:
//!   thin: { type: sample, every: 100 }
//! ```

use catena_engine::config::{ConfigError, ConfigErrors, parse_config};
use catena_engine::nf::{Access, BuiltNf, Burst, DropReason, Inputs, Nanos, Nf, NfKind, Verdict};
use catena_engine::nf_bench::NfBench;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// Configuration of `sample`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// One packet of this many passes.
    every: u32,
}

#[derive(Debug)]
struct Sample {
    every: u32,
    /// How many packets are to be dropped before the next one passes.
    skip: u32,
}

impl Nf for Sample {
    fn process(&mut self, burst: &mut Burst<'_>, _now: Nanos) {
        for (_packet, verdict) in burst.iter_mut() {
            if self.skip == 0 {
                // The verdict is left alone, which means output 0.
                self.skip = self.every;
            } else {
                *verdict = Verdict::Drop(DropReason::Consumed);
            }
            self.skip -= 1;
        }
    }

    fn control(&mut self, request: &Value) -> Result<Value, String> {
        if *request == json!({"show": "skip"}) {
            Ok(json!({"skip": self.skip}))
        } else {
            Err("sample answers {\"show\": \"skip\"}".to_owned())
        }
    }
}

fn build(config: &Value) -> Result<BuiltNf, ConfigErrors> {
    let Config { every } = parse_config(config)?;
    if every == 0 {
        let message = "one packet of 0 cannot pass";
        return Err(vec![ConfigError::new("every", message, "write 1 or more")]);
    }
    Ok(BuiltNf::single(Sample { every, skip: 0 }))
}

/// The chain file's entry.
pub const KIND: NfKind = NfKind {
    name: "sample",
    summary: "Passes every n-th packet and drops the others",
    access: Access::Read,
    inputs: Inputs::One,
    allocates: false,
    headroom: 0,
    schema: || schemars::schema_for!(Config),
    build: |config, _outputs| build(config),
};

fn main() {
    let mut bench = NfBench::new(&KIND, &json!({"every": 3}), &[]).expect("a right configuration");
    let frames: Vec<&[u8]> = vec![b"any frame"; 7];
    let result = bench.process(&frames);
    let passed = result
        .packets
        .iter()
        .map(|packet| packet.verdict == Verdict::Output(0));
    let passed: Vec<bool> = passed.collect();
    assert_eq!(passed, [true, false, false, true, false, false, true]);
    println!("of 7 packets these passed: {passed:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASS: Verdict = Verdict::Output(0);
    const DROP: Verdict = Verdict::Drop(DropReason::Consumed);

    #[test]
    fn one_packet_of_n_passes_across_bursts() {
        let mut bench = NfBench::new(&KIND, &json!({"every": 2}), &[]).unwrap();
        for expected in [[PASS, DROP, PASS], [DROP, PASS, DROP]] {
            let result = bench.process(&[b"a", b"b", b"c"]);
            let verdicts = result.packets.iter().map(|packet| packet.verdict);
            assert!(verdicts.eq(expected));
        }
        assert_eq!(bench.buffers_in_use(), 0, "this NF keeps no packet");
    }

    #[test]
    fn the_state_is_shown_on_request() {
        let mut bench = NfBench::new(&KIND, &json!({"every": 5}), &[]).unwrap();
        bench.process_one(b"a");
        let shown = bench.nf().control(&json!({"show": "skip"}));
        assert_eq!(shown, Ok(json!({"skip": 4})));
        assert!(bench.nf().control(&json!({"show": "all"})).is_err());
    }

    #[test]
    fn wrong_configurations_are_refused_with_the_field() {
        for config in [json!({"every": 0}), json!({"every": "x"})] {
            let errors = NfBench::new(&KIND, &config, &[]).unwrap_err();
            assert_eq!(errors[0].path, "every", "{config}");
        }
        assert!(NfBench::new(&KIND, &json!({}), &[]).is_err());
    }

    #[test]
    fn the_walk_through_runs() {
        main();
    }
}
