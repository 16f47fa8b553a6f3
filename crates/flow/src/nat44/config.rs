//! Settings of `nat44` as a chain file has them, checked before any packet: who is inside, what
//! there is outside, and how much of it one subscriber gets.
//!
//! Limits: [`ADDRESS_COUNT_MAX`] addresses outside, [`NETWORK_COUNT_MAX`] networks inside.

use catena_engine::config::{ConfigError, ConfigErrors, parse_config};
use catena_engine::units::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::endpoint::{Network, shown};

/// Most addresses outside.
pub(super) const ADDRESS_COUNT_MAX: usize = 1024;
/// Most networks inside.
const NETWORK_COUNT_MAX: usize = 64;
/// Most blocks of one subscriber: as many as its entry has room for.
pub(super) const BLOCK_COUNT_MAX: usize = 8;
/// Ports in a block are counted in words of so many.
pub(super) const PORTS_PER_WORD: u32 = 64;
/// Most sessions, and most of all else that is counted with them.
const SESSION_COUNT_MAX: u32 = 1 << 26;

/// Configuration of `nat44`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// Networks of the subscribers, as 10.0.0.0/8.
    inside: Vec<String>,
    /// Addresses that the world sees: single ones, or networks of which every address is used.
    outside: Vec<String>,
    /// Ports, and identifiers of ICMP, that are used of each; 1024 to 65535 if left out.
    #[serde(default)]
    ports: Ports,
    /// Ports that a subscriber gets at once: a multiple of 64; 512 if left out.
    #[serde(default = "block_size_default")]
    block_size: u32,
    /// Blocks that a subscriber has at most, 1 to 8; 4 if left out.
    #[serde(default = "blocks_default")]
    blocks_per_subscriber: u32,
    /// For so long nobody else gets a block that was given back; 120s if left out.
    #[serde(default = "hold_down_default")]
    hold_down: Span,
    /// What may come from outside to a mapping; `endpoint_independent` if left out.
    #[serde(default)]
    filtering: Filtering,
    /// Sessions at most: pairs of an endpoint inside and one of the world; 65536 if left out.
    #[serde(default = "sessions_default")]
    sessions: u32,
    /// Of them one subscriber's at most; 4096 if left out.
    #[serde(default = "share_default")]
    sessions_per_subscriber: u32,
    /// Subscribers at most that have a session at one time; 4096 if left out.
    #[serde(default = "subscribers_default")]
    subscribers: u32,
    /// Fragmented packets at most whose later parts are known by their first; 1024 if left out.
    #[serde(default = "fragments_default")]
    fragments: u32,
    /// After which time without a packet what ends.
    #[serde(default)]
    timeouts: Timeouts,
    /// What becomes of IPv4 that is to be translated neither way: `drop` (the default) or `pass`.
    #[serde(default)]
    untranslated: Untranslated,
    /// Events that wait to be asked for; more are lost and counted; 1024 if left out.
    #[serde(default = "log_default")]
    log: u32,
    /// Whether links may lead round in a circle through it, as between a UPF and its N6: packets
    /// then wait in it, 1024 each way; no if left out.
    #[serde(default)]
    circle: bool,
}

/// First and last port that is used of an address.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Ports {
    /// The first.
    first: u16,
    /// The last.
    last: u16,
}

impl Default for Ports {
    fn default() -> Self {
        Self {
            first: 1024,
            last: u16::MAX,
        }
    }
}

/// What may come from outside to a mapping (RFC 4787 section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Filtering {
    /// Whatever is sent there.
    #[default]
    EndpointIndependent,
    /// What comes from an address to which the endpoint inside has a session.
    AddressDependent,
    /// What comes from an address and port to which it has one.
    AddressAndPortDependent,
}

/// What becomes of IPv4 packets of nobody inside, and to no address outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Untranslated {
    /// They are dropped, and counted.
    #[default]
    Drop,
    /// They pass as they are.
    Pass,
}

/// Times without a packet.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Timeouts {
    /// Of UDP; 5min if left out (RFC 4787, REQ-5).
    pub(super) udp: Span,
    /// Of queries of ICMP; 60s if left out (RFC 5508, REQ-1).
    pub(super) icmp: Span,
    /// Of TCP connections that are open both ways; 7440s if left out (RFC 5382, REQ-5).
    pub(super) tcp_established: Span,
    /// Of those that are being opened or closed; 240s if left out.
    pub(super) tcp_transitory: Span,
    /// Of a packet whose fragments come; 30s if left out.
    pub(super) fragment: Span,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            udp: seconds(300),
            icmp: seconds(60),
            tcp_established: seconds(2 * 3600 + 240),
            tcp_transitory: seconds(240),
            fragment: seconds(30),
        }
    }
}

const fn seconds(count: u64) -> Span {
    Span {
        ns: count * 1_000_000_000,
    }
}

fn block_size_default() -> u32 {
    512
}

fn blocks_default() -> u32 {
    4
}

fn hold_down_default() -> Span {
    seconds(120)
}

fn sessions_default() -> u32 {
    65_536
}

fn share_default() -> u32 {
    4096
}

fn subscribers_default() -> u32 {
    4096
}

fn fragments_default() -> u32 {
    1024
}

fn log_default() -> u32 {
    1024
}

/// A configuration that is right.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) inside: Vec<Network>,
    /// Each once, in order.
    pub(super) outside: Vec<u32>,
    pub(super) first_port: u16,
    pub(super) block_size: u32,
    /// Of one address.
    pub(super) blocks_per_address: u32,
    pub(super) blocks_per_subscriber: usize,
    pub(super) hold_down_ns: u64,
    pub(super) filtering: Filtering,
    pub(super) sessions: u32,
    pub(super) sessions_per_subscriber: u32,
    pub(super) subscribers: u32,
    pub(super) fragments: u32,
    pub(super) timeouts: Timeouts,
    pub(super) untranslated: Untranslated,
    pub(super) log: usize,
    pub(super) circle: bool,
}

impl Settings {
    /// Whether an address is a subscriber's.
    pub(super) fn is_inside(&self, address: u32) -> bool {
        address != 0 && self.inside.iter().any(|network| network.has(address))
    }
}

/// Reads and checks a configuration.
///
/// # Errors
/// Each field that is wrong.
pub(super) fn settings(config: &Value) -> Result<Settings, ConfigErrors> {
    let config: Config = parse_config(config)?;
    let mut errors = Vec::new();
    let inside = networks("inside", &config.inside, &mut errors);
    let nets = networks("outside", &config.outside, &mut errors);
    let outside = addresses(&nets, &mut errors);
    if let Some(both) = outside
        .iter()
        .find(|one| inside.iter().any(|net| net.has(**one)))
    {
        let message = format!("{} is inside, too", shown(*both));
        errors.push(ConfigError::new(
            "outside",
            message,
            "name addresses that no subscriber has",
        ));
    }
    numbers(&config, &mut errors);
    let Ports { first, last } = config.ports;
    let ports = (u32::from(last) + 1).saturating_sub(u32::from(first));
    let blocks_per_address = ports.checked_div(config.block_size).unwrap_or(0);
    if errors.is_empty() && blocks_per_address == 0 {
        let message = format!("{ports} ports are no block of {}", config.block_size);
        let repair = "write a smaller block_size, or more ports";
        errors.push(ConfigError::new("ports", message, repair));
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    Ok(Settings {
        inside,
        outside,
        first_port: first,
        block_size: config.block_size,
        blocks_per_address,
        blocks_per_subscriber: config.blocks_per_subscriber as usize,
        hold_down_ns: config.hold_down.ns,
        filtering: config.filtering,
        sessions: config.sessions,
        sessions_per_subscriber: config.sessions_per_subscriber,
        subscribers: config.subscribers,
        fragments: config.fragments,
        timeouts: config.timeouts,
        untranslated: config.untranslated,
        log: config.log as usize,
        circle: config.circle,
    })
}

fn networks(field: &str, texts: &[String], errors: &mut ConfigErrors) -> Vec<Network> {
    if texts.is_empty() || texts.len() > NETWORK_COUNT_MAX {
        let message = format!("{} networks are named", texts.len());
        let repair = format!("name 1 to {NETWORK_COUNT_MAX}, like 10.0.0.0/8");
        errors.push(ConfigError::new(field, message, repair));
    }
    let read = |(index, text): (usize, &String)| {
        let network = Network::parse(text);
        if network.is_none() {
            let message = format!("\"{text}\" is no network of IPv4");
            let repair = "write it like 10.0.0.0/8, without bits behind its length";
            errors.push(ConfigError::new(
                format!("{field}[{index}]"),
                message,
                repair,
            ));
        }
        network
    };
    texts.iter().enumerate().filter_map(read).collect()
}

fn addresses(networks: &[Network], errors: &mut ConfigErrors) -> Vec<u32> {
    let count: u64 = networks.iter().map(Network::count).sum();
    if count > ADDRESS_COUNT_MAX as u64 {
        let message = format!("{count} addresses are more than {ADDRESS_COUNT_MAX}");
        let repair = "name fewer here, and the rest in another nat44";
        errors.push(ConfigError::new("outside", message, repair));
        return Vec::new();
    }
    let mut all: Vec<u32> = networks.iter().flat_map(Network::addresses).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Numbers and times that are out of range.
fn numbers(config: &Config, errors: &mut ConfigErrors) {
    let mut hold = |is_right: bool, field: &str, message: String, repair: &str| {
        if !is_right {
            errors.push(ConfigError::new(field, message, repair));
        }
    };
    let size = config.block_size;
    hold(
        size.is_multiple_of(PORTS_PER_WORD) && (PORTS_PER_WORD..=32_768).contains(&size),
        "block_size",
        format!("a block of {size} ports"),
        "write a multiple of 64, at most 32768",
    );
    let blocks = config.blocks_per_subscriber;
    hold(
        (1..=BLOCK_COUNT_MAX as u32).contains(&blocks),
        "blocks_per_subscriber",
        format!("{blocks} blocks"),
        "write 1 to 8",
    );
    let Ports { first, last } = config.ports;
    hold(
        first > 0 && first <= last,
        "ports",
        format!("{first} to {last} are no ports"),
        "write a first above 0, and a last that is not below it",
    );
    for (field, count) in [
        ("sessions", config.sessions),
        ("sessions_per_subscriber", config.sessions_per_subscriber),
        ("subscribers", config.subscribers),
        ("fragments", config.fragments),
        ("log", config.log),
    ] {
        let range = format!("write 1 to {SESSION_COUNT_MAX}");
        hold(
            (1..=SESSION_COUNT_MAX).contains(&count),
            field,
            format!("{count} is out of range"),
            &range,
        );
    }
    let Timeouts {
        udp,
        icmp,
        tcp_established,
        tcp_transitory,
        fragment,
    } = config.timeouts;
    for (field, span) in [
        ("udp", udp),
        ("icmp", icmp),
        ("tcp_established", tcp_established),
        ("tcp_transitory", tcp_transitory),
        ("fragment", fragment),
    ] {
        hold(
            span.ns > 0,
            &format!("timeouts.{field}"),
            "nothing ends after no time".to_owned(),
            "write a time like 5min",
        );
    }
}

/// The form of a configuration.
pub(super) fn schema() -> schemars::Schema {
    schemars::schema_for!(Config)
}
