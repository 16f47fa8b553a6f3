//! The splitter: sends each packet to the shard that its key says.
//!
//! In the middle of a packet's life, in its sender's loop: a node of mode `inline` behind an output
//! of the sender, with an output for each shard, so that a packet passes no ring on the way to its
//! own. [`super::expand()`] puts it there; no chain file names it. It keeps packets in their order,
//! changes none, and counts those that have no key, which go to the first shard. A key of an NF's
//! own may say that a packet is for all shards: then it is copied.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::key::{KeyReader, ShardKey};
use super::own::{ALL_SHARDS, Choice, Chooser};
use super::sharding::Sharding;
use crate::chain::registry::Registry;
use crate::config::{ConfigError, ConfigErrors, parse_config};
use crate::nf::{BuildContext, BuiltNf, Burst, Nanos, Nf, NfKind, NfPlan, Verdict};
use crate::own_counters::CounterSink;

/// The word for it in `status`.
pub const NAME: &str = "split";

/// What a splitter needs to know; made by [`super::expand()`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// What decides.
    pub key: ShardKey,
    /// How many shards there are.
    pub shards: u16,
    /// With [`ShardKey::Own`], whose function it is: type and configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<(String, Value)>,
    /// And at which of its inputs packets arrive from here.
    #[serde(default)]
    pub input: u8,
}

impl Config {
    /// As nodes carry it.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

/// No settings for people.
#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// `split` as workers know it.
pub const KIND: NfKind = NfKind {
    name: NAME,
    summary: "Sends each packet to the shard that its key says",
    example: r#"{"key": "flow", "shards": 2}"#,
    schema: || schemars::schema_for!(Nothing),
    plan: |config, _| {
        let config: Config = parse_config(config)?;
        let outputs = (0..config.shards).map(|shard| shard.to_string());
        let plan = NfPlan::new().outputs(outputs).counters(["keyless"]);
        // Only such a key may want copies.
        Ok(match config.key {
            ShardKey::Own => plan.allocates(),
            _ => plan,
        })
    },
    build: |config, context| build(config, context, 0, &Registry::default()),
};

/// Builds it with the chain's `seed`; `registry` knows the NF whose function it may need.
///
/// # Errors
/// What is wrong with the configuration: another build's, since no person writes it.
pub fn build(
    config: &Value,
    _context: &mut BuildContext<'_>,
    seed: u64,
    registry: &Registry,
) -> Result<BuiltNf, ConfigErrors> {
    let Config {
        key,
        shards,
        own,
        input,
    } = parse_config(config)?;
    let wrong = |why: &str| vec![ConfigError::new("", why, "use one build everywhere")];
    if key != ShardKey::Own {
        let reader = KeyReader::new(key, shards, seed);
        return Ok(BuiltNf::new(Splitter {
            choose: move |packet: &[u8]| reader.shard_of(packet),
            shards,
            keyless: 0,
            for_all: Vec::new(),
        }));
    }
    let (kind, config) = own.ok_or_else(|| wrong("it is not said whose key it is"))?;
    let kind = registry.nf(&kind).ok_or_else(|| wrong("unknown NF type"))?;
    let Sharding::Own(make) = (kind.plan)(&config, &[])?.sharding else {
        return Err(wrong("the NF has no key of its own"));
    };
    let choice = Choice {
        shards,
        seed,
        input,
    };
    let mut chooser: Box<dyn Chooser> = (make.0)(&config, choice)?;
    Ok(BuiltNf::new(Splitter {
        choose: move |packet: &[u8]| chooser.shard_of(packet),
        shards,
        keyless: 0,
        for_all: Vec::new(),
    }))
}

struct Splitter<C> {
    choose: C,
    shards: u16,
    keyless: u64,
    /// Packets of the burst at hand that are for all shards.
    for_all: Vec<usize>,
}

impl<C: FnMut(&[u8]) -> Option<u8> + Send> Nf for Splitter<C> {
    #[inline]
    fn process(&mut self, burst: &mut Burst<'_>, _now: Nanos) {
        let Self {
            choose,
            shards,
            keyless,
            for_all,
        } = self;
        let mut index = 0;
        burst.judge(|packet| {
            let chosen = choose(packet);
            index += 1;
            if chosen == Some(ALL_SHARDS) {
                for_all.push(index - 1);
                return Verdict::Output(0);
            }
            let shard = chosen.filter(|shard| u16::from(*shard) < *shards);
            *keyless += u64::from(shard.is_none());
            Verdict::Output(shard.unwrap_or(0))
        });
        for index in for_all.drain(..) {
            for shard in 1..*shards {
                // One for which there is no buffer is counted.
                let _ = burst.copy_to(index, u8::try_from(shard).unwrap_or(0));
            }
        }
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        out.put("keyless", self.keyless);
    }
}

#[cfg(test)]
mod tests {
    use super::super::OwnKey;
    use super::*;
    use crate::nf_bench::NfBench;

    /// The first byte says which shard, 9 says all.
    struct FirstByte;

    impl Chooser for FirstByte {
        fn shard_of(&mut self, packet: &[u8]) -> Option<u8> {
            match packet[0] {
                9 => Some(ALL_SHARDS),
                shard => Some(shard),
            }
        }
    }

    const NODE: NfKind = NfKind {
        name: "by_first_byte",
        summary: "",
        example: "{}",
        schema: || schemars::schema_for!(Nothing),
        plan: |_, _| {
            let own = OwnKey(|_, _| Ok(Box::new(FirstByte)));
            Ok(NfPlan::new().sharding(Sharding::Own(own)))
        },
        build: |_, _| Err(Vec::new()),
    };

    const SPLITTER: NfKind = NfKind {
        build: |config, context| {
            let registry = Registry {
                nfs: vec![&NODE],
                ..Registry::default()
            };
            build(config, context, 0, &registry)
        },
        ..KIND
    };

    #[test]
    fn what_is_for_all_reaches_each_shard_once() {
        let config = Config {
            key: ShardKey::Own,
            shards: 3,
            own: Some((NODE.name.to_owned(), Value::Null)),
            input: 0,
        };
        let mut bench = NfBench::new(&SPLITTER, &config.to_json(), &[]).unwrap();
        let burst = bench.process(&[&[2; 60], &[9; 60], &[1; 60], &[7; 60]]);
        let verdicts: Vec<_> = burst.packets.iter().map(|packet| packet.verdict).collect();
        let to = |outputs: [u8; 4]| outputs.map(Verdict::Output);
        assert_eq!(verdicts, to([2, 0, 1, 0]));
        let copies: Vec<_> = burst
            .copies
            .iter()
            .map(|(to, bytes)| (*to, bytes[0]))
            .collect();
        assert_eq!(copies, [(1, 9), (2, 9)]);
        assert_eq!(bench.nf().report(), [("keyless", 1)]);
        assert_eq!(bench.buffers_in_use(), 0);
    }
}
