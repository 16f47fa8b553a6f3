//! `sample`: passes every n-th packet to `out` and drops the others as `thinned`.
//!
//! Thins traffic out in front of an NF that looks closely. The first packet passes, so that a chain
//! with little traffic shows something at once. No byte is looked at, so nothing is malformed here.
//!
//! ```yaml
//! nfs:
//!   thin: { type: sample, every: 100 }
//! ```

use catena_engine::config::{ConfigError, ConfigErrors, parse_config};
use catena_engine::nf::{BuiltNf, Burst, DropReason, Nanos, Nf, NfKind, NfPlan, Verdict};
use catena_engine::own_counters::CounterSink;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// The first reason that the plan names.
const THINNED: DropReason = DropReason::own(0);

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
    passed: u64,
}

impl Nf for Sample {
    fn process(&mut self, burst: &mut Burst<'_>, _now: Nanos) {
        for (_packet, verdict) in burst.iter_mut() {
            if self.skip == 0 {
                // The verdict is left alone, which means output 0.
                self.skip = self.every;
                self.passed += 1;
            } else {
                *verdict = Verdict::Drop(THINNED);
            }
            self.skip -= 1;
        }
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        out.put("passed", self.passed);
    }

    fn control(&mut self, request: &Value) -> Result<Value, String> {
        if *request == json!({"show": "skip"}) {
            Ok(json!({"skip": self.skip}))
        } else {
            Err("sample answers {\"show\": \"skip\"}".to_owned())
        }
    }
}

impl Sample {
    fn of(config: &Value) -> Result<Self, ConfigErrors> {
        let Config { every } = parse_config(config)?;
        if every == 0 {
            let message = "one packet of 0 cannot pass";
            return Err(vec![ConfigError::new("every", message, "write 1 or more")]);
        }
        Ok(Self {
            every,
            skip: 0,
            passed: 0,
        })
    }
}

/// The chain file's entry.
pub const KIND: NfKind = NfKind {
    name: "sample",
    summary: "Passes every n-th packet and drops the others",
    example: r#"{"every": 100}"#,
    schema: || schemars::schema_for!(Config),
    plan: |config, _outputs| {
        Sample::of(config)?;
        let plan = NfPlan::new().drop_reasons(["thinned"]);
        let what = "how many packets are dropped before the next one passes";
        let plan = plan.requests([(r#"{"show": "skip"}"#, what)]);
        Ok(plan.counters(["passed"]))
    },
    build: |config, _context| Ok(BuiltNf::new(Sample::of(config)?)),
};

#[cfg(test)]
mod tests {
    use catena_engine::nf_bench::NfBench;

    use super::*;

    const PASS: Verdict = Verdict::Output(0);
    const DROP: Verdict = Verdict::Drop(THINNED);

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
}
