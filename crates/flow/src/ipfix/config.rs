//! Settings of `ipfix` as a chain file has them, checked before any packet.
//!
//! Limits: messages of 512 to 9000 bytes of UDP's payload, 2^26 flows.

use std::net::Ipv4Addr;

use catena_engine::config::{ConfigError, ConfigErrors, parse_config};
use catena_engine::units::Span;
use catena_wire::ethernet::MacAddr;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// Configuration of `ipfix`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// Where records go.
    collector: Peer,
    /// From where they come.
    exporter: Peer,
    /// The observation domain; 1 if left out. Shards have one each: this, and the next ones.
    #[serde(default = "one")]
    domain: u32,
    /// One packet of so many is looked at; 1, every packet, if left out.
    #[serde(default = "one")]
    sample: u32,
    /// Whether the flows are those that GTP-U carries; of other packets their own.
    #[serde(default)]
    inner: bool,
    /// Flows at most; the one that was idle for longest gives way; 65536 if left out.
    #[serde(default = "flows_default")]
    flows: u32,
    /// A flow that goes on is told again after this time; 60s if left out.
    #[serde(default = "active_default")]
    active_timeout: Span,
    /// A flow ends after this time without a packet; 15s if left out.
    #[serde(default = "idle_default")]
    idle_timeout: Span,
    /// A record waits at most so long for others that fill its message; 1s if left out.
    #[serde(default = "delay_default")]
    delay: Span,
    /// Templates are told again after this time (RFC 7011 section 8.4); 10min if left out.
    #[serde(default = "refresh_default")]
    template_refresh: Span,
    /// Most bytes of a message; 1400 if left out.
    #[serde(default = "message_default")]
    message_bytes: u16,
    /// For repeatable runs: the seconds since 1970 that the wall clock shows when the engine's
    /// clock shows 0. The machine's clock if left out.
    #[serde(default)]
    simulated_epoch: Option<u32>,
}

/// One end of the way of records.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Peer {
    /// Its address.
    address: Ipv4Addr,
    /// Its UDP port; 4739 if left out.
    #[serde(default = "port_default")]
    port: u16,
    /// Its address in frames; of a collector behind a router, the router's.
    mac: String,
}

fn one() -> u32 {
    1
}

fn flows_default() -> u32 {
    65_536
}

const fn seconds(count: u64) -> Span {
    Span {
        ns: count * 1_000_000_000,
    }
}

fn active_default() -> Span {
    seconds(60)
}

fn idle_default() -> Span {
    seconds(15)
}

fn delay_default() -> Span {
    seconds(1)
}

fn refresh_default() -> Span {
    seconds(600)
}

fn message_default() -> u16 {
    1400
}

fn port_default() -> u16 {
    4739
}

/// One end, as headers have it.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) address: Ipv4Addr,
    pub(super) port: u16,
    pub(super) mac: MacAddr,
}

/// A configuration that is right.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) collector: End,
    pub(super) exporter: End,
    pub(super) domain: u32,
    pub(super) sample: u32,
    pub(super) inner: bool,
    pub(super) flows: u32,
    pub(super) active_ns: u64,
    pub(super) idle_ns: u64,
    pub(super) delay_ns: u64,
    pub(super) refresh_ns: u64,
    pub(super) message_bytes: usize,
    pub(super) simulated_epoch: Option<u32>,
}

/// Reads and checks a configuration.
///
/// # Errors
/// Each field that is wrong.
pub(super) fn settings(config: &Value) -> Result<Settings, ConfigErrors> {
    let config: Config = parse_config(config)?;
    let mut errors = Vec::new();
    let mut end = |field: &str, peer: &Peer| {
        let mac = peer.mac.parse::<MacAddr>();
        if mac.is_err() {
            let message = format!("\"{}\" is no address of a frame", peer.mac);
            let repair = "write it like \"02:00:00:00:00:01\"";
            errors.push(ConfigError::new(format!("{field}.mac"), message, repair));
        }
        End {
            address: peer.address,
            port: peer.port,
            mac: mac.unwrap_or(MacAddr([0; 6])),
        }
    };
    let (collector, exporter) = (
        end("collector", &config.collector),
        end("exporter", &config.exporter),
    );
    let count = "write 1 to 67108864";
    let span = "write a time like 15s";
    for (is_right, field, repair) in [
        (config.sample > 0, "sample", "write 1 for every packet"),
        ((1..=1 << 26).contains(&config.flows), "flows", count),
        (config.active_timeout.ns > 0, "active_timeout", span),
        (config.idle_timeout.ns > 0, "idle_timeout", span),
        (config.template_refresh.ns > 0, "template_refresh", span),
        (
            (512..=9000).contains(&config.message_bytes),
            "message_bytes",
            "write 512 to 9000",
        ),
    ] {
        if !is_right {
            errors.push(ConfigError::new(field, "it is out of range", repair));
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    Ok(Settings {
        collector,
        exporter,
        domain: config.domain,
        sample: config.sample,
        inner: config.inner,
        flows: config.flows,
        active_ns: config.active_timeout.ns,
        idle_ns: config.idle_timeout.ns,
        delay_ns: config.delay.ns,
        refresh_ns: config.template_refresh.ns,
        message_bytes: config.message_bytes.into(),
        simulated_epoch: config.simulated_epoch,
    })
}

/// The form of a configuration.
pub(super) fn schema() -> schemars::Schema {
    schemars::schema_for!(Config)
}
