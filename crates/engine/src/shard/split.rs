//! The splitter: sends each packet to the shard that its key says.
//!
//! In the middle of a packet's life, in its sender's loop: a node of mode `inline` behind an output
//! of the sender, with an output for each shard, so that a packet passes no ring on the way to its
//! own. [`super::expand()`] puts it there; no chain file names it. It keeps packets in their order,
//! changes none, and counts those that have no key, which go to the first shard.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::key::{KeyReader, ShardKey};
use super::{Choice, Chooser, Sharding};
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
        Ok(NfPlan::new().outputs(outputs).counters(["keyless"]))
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
    }))
}

struct Splitter<C> {
    choose: C,
    shards: u16,
    keyless: u64,
}

impl<C: FnMut(&[u8]) -> Option<u8> + Send> Nf for Splitter<C> {
    #[inline]
    fn process(&mut self, burst: &mut Burst<'_>, _now: Nanos) {
        let Self {
            choose,
            shards,
            keyless,
        } = self;
        burst.judge(|packet| {
            let shard = choose(packet).filter(|shard| u16::from(*shard) < *shards);
            *keyless += u64::from(shard.is_none());
            Verdict::Output(shard.unwrap_or(0))
        });
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        out.put("keyless", self.keyless);
    }
}
