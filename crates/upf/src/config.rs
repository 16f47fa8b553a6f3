//! The settings of a UPF in a chain file, and their check.
//!
//! Control path. All faults are found in one go, each at its field.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use catena_engine::config::{ConfigError, ConfigErrors, parse_config};
use catena_engine::units::{ByteSize, Span};
use catena_wire::ethernet::MacAddr;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::association::ASSOCIATION_COUNT;
use crate::paths::EchoTerms;
use crate::places::INTERFACE_COUNT_MAX;
use crate::ranges::Pool;
use crate::rules::NONE;
use crate::settings::{Interface, Settings, is_among};

mod ceilings;
mod instances;
mod policies;

pub use ceilings::CeilingConfig;
pub use policies::PolicyConfig;

/// A UPF.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The node's identity towards SMFs: an address or a domain name.
    pub node_id: String,
    /// Where SMFs reach it.
    pub n4: N4,
    /// Its interfaces to access and data networks; each is an output of the NF.
    pub interfaces: Vec<InterfaceConfig>,
    /// Addresses that it gives to UEs.
    #[serde(default)]
    pub pools: Vec<PoolConfig>,
    /// 5G VN groups: network instances between whose UEs packets are switched here.
    #[serde(default)]
    pub groups: Vec<String>,
    /// What slices and network instances get in all; none if left out.
    #[serde(default)]
    pub ceilings: Vec<CeilingConfig>,
    /// Forwarding policies, which FARs name to leave by another interface; none if left out.
    #[serde(default)]
    pub forwarding_policies: Vec<PolicyConfig>,
    /// Where sessions are kept for a time when nothing is left of the chain; nowhere if left out.
    #[serde(default)]
    pub snapshot: Option<SnapshotConfig>,
    /// Most sessions; 10000 if left out.
    #[serde(default = "sessions_default")]
    pub sessions: u32,
    /// Memory of each session; 4KiB if left out.
    #[serde(default = "session_bytes_default")]
    pub session_bytes: ByteSize,
    /// Most packets held for UEs that are to be paged; 10000 if left out.
    #[serde(default = "held_default")]
    pub buffered: usize,
    /// Most of them for one session; 64 if left out.
    #[serde(default = "held_per_session_default")]
    pub buffered_per_session: usize,
    /// How long a packet is held; 30s if left out.
    #[serde(default = "held_time_default")]
    pub buffered_time: Span,
    /// Most fragments that wait for the rest of their packet; 4096 if left out.
    #[serde(default = "fragments_default")]
    pub fragments: usize,
    /// For how long they do; 30s if left out.
    #[serde(default = "fragment_time_default")]
    pub fragment_time: Span,
    /// Most senders told per second that a packet is too big; 100 if left out.
    #[serde(default = "error_indications_default")]
    pub icmp_errors: u64,
    /// Most connections that are known to belong to applications; 16384 if left out.
    #[serde(default = "application_flows_default")]
    pub application_flows: u32,
    /// Most Error Indications per second; 100 if left out.
    #[serde(default = "error_indications_default")]
    pub error_indications: u64,
    /// When the far ends of tunnels, gNBs and other UPFs, are asked whether they are there.
    #[serde(default)]
    pub echo: Echo,
    /// For repeatable runs: the seconds since 1970 that the wall clock shows when the engine's
    /// clock shows 0, and fixed random numbers. The machine's clock and random numbers if left
    /// out.
    #[serde(default)]
    pub simulated_epoch: Option<u64>,
}

/// A file in which sessions outlive a reboot.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SnapshotConfig {
    /// The file, from the root on; that of each of several shards ends with a dot and its number.
    pub file: String,
    /// How often it is written, 1s or more; 10s if left out.
    #[serde(default = "snapshot_default")]
    pub every: Span,
}

/// Where SMFs reach a UPF.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct N4 {
    /// Its address.
    pub address: IpAddr,
    /// The output by which messages leave; `n4` if left out.
    #[serde(default = "n4_default")]
    pub output: String,
    /// Networks of SMFs, as 10.4.0.0/24; any address if left out.
    #[serde(default)]
    pub peers: Vec<String>,
    /// SMFs that the UPF itself asks for an association; none if left out.
    #[serde(default)]
    pub smfs: Vec<IpAddr>,
    /// Source of the frames that leave.
    #[serde(default = "mac_default")]
    pub mac: String,
    /// Destination of the frames that leave.
    #[serde(default = "mac_default")]
    pub next_hop_mac: String,
    /// T1: a request without an answer is repeated after this time; 3s if left out.
    #[serde(default = "t1_default")]
    pub t1: Span,
    /// N1: so often a request is sent in all; 3 if left out.
    #[serde(default = "n1_default")]
    pub n1: u32,
    /// After this time each SMF is asked whether it is there; 60s if left out, 0s for never.
    #[serde(default = "heartbeat_default")]
    pub heartbeat: Span,
}

/// Echo Requests to the far ends of tunnels (TS 29.281, 7.2.1). SMFs are told of a path that fails,
/// and that it is there again.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Echo {
    /// So long after an answer the next one is sent, 60s or more; 0s, never, if left out.
    #[serde(default = "never")]
    pub interval: Span,
    /// T3-RESPONSE: without an answer it is repeated after this time; 3s if left out.
    #[serde(default = "t1_default")]
    pub t3: Span,
    /// N3-REQUESTS: so often it is sent in all, before the path has failed; 3 if left out.
    #[serde(default = "n1_default")]
    pub n3: u32,
}

impl Default for Echo {
    fn default() -> Self {
        Self {
            interval: never(),
            t3: t1_default(),
            n3: n1_default(),
        }
    }
}

/// Which network is behind an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The access network: N3, or N9 towards UEs.
    Access,
    /// The core: N9 towards other UPFs, or N6.
    Core,
    /// The data network: N6.
    Sgi,
    /// Where copies go to: the LI function.
    Li = 20,
}

/// What of a tunnel's packet is fragmented.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Fragmentation {
    /// The user's packet, if it allows that.
    #[default]
    Inside,
    /// The packet of the tunnel.
    Outside,
}

/// An interface.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InterfaceConfig {
    /// Its name, and the output's.
    pub name: String,
    /// Which network is behind it.
    pub side: Side,
    /// Its network instance; its name if left out.
    #[serde(default)]
    pub network_instance: Option<String>,
    /// IPv4 address of tunnels that end here; none over IPv4 if left out.
    #[serde(default)]
    pub address: Option<Ipv4Addr>,
    /// IPv6 address of tunnels that end here; none over IPv6 if left out.
    #[serde(default)]
    pub address_v6: Option<Ipv6Addr>,
    /// Source of the frames that leave.
    #[serde(default = "mac_default")]
    pub mac: String,
    /// Destination of the frames that leave.
    #[serde(default = "mac_default")]
    pub next_hop_mac: String,
    /// Most bytes of an IP packet that leaves; 1500 if left out.
    #[serde(default = "mtu_default")]
    pub mtu: usize,
    /// What of a tunnel's packet is fragmented if it is longer: what is inside, or the outside;
    /// `inside` if left out.
    #[serde(default)]
    pub fragmentation: Fragmentation,
    /// Most that TCP of its network instance may offer as its maximum segment size; what the ends
    /// want if left out.
    #[serde(default)]
    pub tcp_mss: Option<u16>,
}

/// Addresses for UEs.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolConfig {
    /// The network instance of its UEs.
    pub network_instance: String,
    /// Its name, by which SMFs may choose it; the network instance's if left out.
    #[serde(default)]
    pub name: Option<String>,
    /// IPv4 network, as 10.45.0.0/16; no IPv4 addresses if left out.
    #[serde(default)]
    pub v4: Option<String>,
    /// IPv6 network of /64 prefixes, as 2001:db8:45::/48; no IPv6 prefixes if left out.
    #[serde(default)]
    pub v6: Option<String>,
}

const fn sessions_default() -> u32 {
    10_000
}
const fn session_bytes_default() -> ByteSize {
    ByteSize { bytes: 4096 }
}
const fn held_default() -> usize {
    10_000
}
const fn held_per_session_default() -> usize {
    64
}
const fn held_time_default() -> Span {
    seconds(30)
}
const fn fragments_default() -> usize {
    4096
}
const fn fragment_time_default() -> Span {
    seconds(30)
}
const fn application_flows_default() -> u32 {
    16_384
}
const fn error_indications_default() -> u64 {
    100
}
const fn snapshot_default() -> Span {
    seconds(10)
}
fn n4_default() -> String {
    "n4".to_owned()
}
fn mac_default() -> String {
    "02:00:00:00:00:01".to_owned()
}
const fn mtu_default() -> usize {
    1500
}
const fn t1_default() -> Span {
    seconds(3)
}
const fn never() -> Span {
    seconds(0)
}
const fn n1_default() -> u32 {
    3
}
const fn heartbeat_default() -> Span {
    seconds(60)
}
const fn seconds(seconds: u64) -> Span {
    Span {
        ns: seconds * 1_000_000_000,
    }
}

/// Most sessions: a slot's number has 31 bits.
const SESSIONS_MAX: u32 = 1 << 26;

struct Faults(ConfigErrors);

impl Faults {
    fn add(&mut self, path: impl Into<String>, message: impl Into<String>, repair: &str) {
        self.0.push(ConfigError::new(path, message, repair));
    }

    fn mac(&mut self, path: String, text: &str) -> MacAddr {
        MacAddr::from_str(text).unwrap_or_else(|_| {
            self.add(
                path,
                format!("{text} is no MAC address"),
                "write 02:00:00:00:00:01",
            );
            MacAddr([0; 6])
        })
    }

    fn net<A: FromStr>(&mut self, path: String, text: &str, width: u8) -> Option<(A, u8)> {
        let parts = text.split_once('/');
        let net = parts.and_then(|(net, bits)| Some((net.parse().ok()?, bits.parse().ok()?)));
        let net = net.filter(|(_, bits)| *bits <= width);
        if net.is_none() {
            self.add(path, format!("{text} is no network"), "write ADDRESS/BITS");
        }
        net
    }
}

/// Reads and checks the settings; gives them and the names of the outputs.
///
/// # Errors
/// Every fault.
pub fn read(config: &serde_json::Value) -> Result<(Config, Settings, Vec<String>), ConfigErrors> {
    let config: Config = parse_config(config)?;
    let mut faults = Faults(Vec::new());
    let mut instances: Vec<Vec<u8>> = Vec::new();
    let interfaces = interfaces(&config, &mut faults, &mut instances);
    let mut outputs: Vec<String> = config
        .interfaces
        .iter()
        .map(|one| one.name.clone())
        .collect();
    let known = outputs.iter().position(|name| *name == config.n4.output);
    let n4_output = known.unwrap_or_else(|| {
        outputs.push(config.n4.output.clone());
        outputs.len() - 1
    });
    let pools = pools(&config, &mut faults, &mut instances);
    let ceilings = ceilings::ceilings(&config.ceilings, &mut faults.0, |name| {
        instances::place_of(&mut instances, name)
    });
    let policies = policies::policies(&config.forwarding_policies, &interfaces, &mut faults.0);
    let groups = config.groups.iter();
    let groups = groups.map(|name| instances::place_of(&mut instances, name));
    let groups = groups.collect();
    instances::check(&instances, &mut faults.0);
    let (node_address, node_name) = node(&config.node_id, &mut faults);
    let peers = config.n4.peers.iter().enumerate().filter_map(|(at, text)| {
        let width = if text.contains(':') { 128 } else { 32 };
        faults.net(format!("n4.peers[{at}]"), text, width)
    });
    let peers: Vec<_> = peers.collect();
    smfs(&config, &peers, &mut faults);
    if !(1..=SESSIONS_MAX).contains(&config.sessions) {
        faults.add("sessions", "there cannot be so many", "write 1 to 67108864");
    }
    if !(1024..=1 << 20).contains(&config.session_bytes.bytes) {
        faults.add(
            "session_bytes",
            "a session does not fit",
            "write 1KiB to 1MiB",
        );
    }
    if !(1..=1 << 26).contains(&config.application_flows) {
        faults.add(
            "application_flows",
            "there cannot be so many",
            "write 1 to 67108864",
        );
    }
    let snapshot = config.snapshot.as_ref();
    if snapshot.is_some_and(|one| !one.file.starts_with('/') || one.every.ns < 1_000_000_000) {
        faults.add(
            "snapshot",
            "it has no place, or no time to be written",
            "write a file from the root on, and every: 1s or more",
        );
    }
    if config.n4.n1 == 0 || config.n4.t1.ns == 0 {
        faults.add(
            "n4.n1",
            "requests would never be sent",
            "write 1 or more, and a time",
        );
    }
    if (1..60_000_000_000).contains(&config.echo.interval.ns) {
        faults.add(
            "echo.interval",
            "peers are not to be asked so often (TS 29.281, 7.2.1)",
            "write 60s or more, or 0s for never",
        );
    }
    if config.echo.n3 == 0 || config.echo.t3.ns == 0 {
        faults.add(
            "echo.n3",
            "every path would fail",
            "write 1 or more, and a time",
        );
    }
    let n4_mac = faults.mac("n4.mac".into(), &config.n4.mac);
    let n4_next_hop = faults.mac("n4.next_hop_mac".into(), &config.n4.next_hop_mac);
    if !faults.0.is_empty() {
        return Err(faults.0);
    }
    let (v4, v6) = match config.n4.address {
        IpAddr::V4(address) => (Some(address), None),
        IpAddr::V6(address) => (None, Some(address)),
    };
    let settings = Settings {
        node_address,
        node_name,
        n4_v4: v4,
        n4_v6: v6,
        n4_mac,
        n4_next_hop,
        n4_output: u8::try_from(n4_output).unwrap_or(u8::MAX),
        peers,
        smfs: config.n4.smfs.clone(),
        clamps: interfaces.iter().any(|one| one.tcp_mss.is_some()),
        interfaces,
        policies,
        instances,
        groups,
        ceilings,
        switch: switch(),
        pools,
        t1_ns: config.n4.t1.ns,
        n1: config.n4.n1,
        heartbeat_ns: config.n4.heartbeat.ns,
        echo: EchoTerms {
            interval_ns: config.echo.interval.ns,
            t3_ns: config.echo.t3.ns,
            n3: config.echo.n3,
        },
        held_per_session: config.buffered_per_session,
        held: config.buffered,
        held_ns: config.buffered_time.ns,
        fragments: config.fragments,
        fragment_ns: config.fragment_time.ns,
        icmp_errors: config.icmp_errors,
        application_flows: config.application_flows,
        error_indications: config.error_indications,
        sessions: config.sessions,
        session_bytes: usize::try_from(config.session_bytes.bytes).unwrap_or(usize::MAX),
        shard: (0, 1),
        seed: [0x5eed, 0xfeed],
    };
    Ok((config, settings, outputs))
}

/// Between UEs of a group nothing limits the length of packets.
pub(crate) fn switch() -> Interface {
    Interface {
        name: String::new(),
        side: NONE,
        instance: NONE,
        v4: None,
        v6: None,
        mac: MacAddr([0; 6]),
        next_hop: MacAddr([0; 6]),
        mtu: usize::from(u16::MAX),
        cuts_outside: false,
        tcp_mss: None,
    }
}

fn interfaces(
    config: &Config,
    faults: &mut Faults,
    instances: &mut Vec<Vec<u8>>,
) -> Vec<Interface> {
    if !(1..=INTERFACE_COUNT_MAX).contains(&config.interfaces.len()) {
        faults.add(
            "interfaces",
            "a UPF has 1 to 64",
            "name those to access and data networks",
        );
    }
    let mut made: Vec<Interface> = Vec::new();
    for (at, one) in config.interfaces.iter().enumerate() {
        let path = |field: &str| format!("interfaces[{at}].{field}");
        if made.iter().any(|other| other.name == one.name) {
            faults.add(
                path("name"),
                format!("{} is there twice", one.name),
                "rename one",
            );
        }
        if !(576..=65_535).contains(&one.mtu) {
            faults.add(path("mtu"), "no link has it", "write 576 to 65535");
        }
        let instance = one.network_instance.as_ref().unwrap_or(&one.name);
        made.push(Interface {
            name: one.name.clone(),
            side: one.side as u8,
            instance: instances::place_of(instances, instance),
            v4: one.address,
            v6: one.address_v6,
            mac: faults.mac(path("mac"), &one.mac),
            next_hop: faults.mac(path("next_hop_mac"), &one.next_hop_mac),
            mtu: one.mtu,
            cuts_outside: one.fragmentation == Fragmentation::Outside,
            tcp_mss: one.tcp_mss,
        });
    }
    made
}

fn pools(config: &Config, faults: &mut Faults, instances: &mut Vec<Vec<u8>>) -> Vec<Pool> {
    let mut made = Vec::new();
    for (at, one) in config.pools.iter().enumerate() {
        let path = |field: &str| format!("pools[{at}].{field}");
        let v4 = one.v4.as_ref();
        let v4 = v4.and_then(|text| faults.net::<Ipv4Addr>(path("v4"), text, 30));
        let v6 = one.v6.as_ref();
        let v6 = v6.and_then(|text| faults.net::<Ipv6Addr>(path("v6"), text, 64));
        if one.v4.is_none() && one.v6.is_none() {
            faults.add(
                path("v4"),
                "a pool without addresses",
                "write v4, v6 or both",
            );
        }
        let instance = instances::place_of(instances, &one.network_instance);
        let name = one.name.as_ref().unwrap_or(&one.network_instance);
        let v4 = v4.map(|(net, bits)| {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            (Ipv4Addr::from_bits(net.to_bits() & mask), bits)
        });
        made.push(Pool::new(name.clone(), instance, v4, v6));
    }
    made
}

/// SMFs to ask: some, each once, by the version that N4 has, and of those that are heard.
fn smfs(config: &Config, peers: &[(IpAddr, u8)], faults: &mut Faults) {
    let N4 { address, smfs, .. } = &config.n4;
    let are_known = peers.len() == config.n4.peers.len();
    if smfs.len() > ASSOCIATION_COUNT {
        faults.add("n4.smfs", "there are 64 associations", "name fewer SMFs");
    }
    for (at, smf) in smfs.iter().enumerate() {
        if smf.is_ipv4() != address.is_ipv4() {
            let what = format!("{smf} is not reached from {address}");
            faults.add(format!("n4.smfs[{at}]"), what, "write one of its version");
        } else if are_known && !is_among(peers, *smf) {
            let what = format!("{smf} is not in n4.peers: its answers would not be heard");
            faults.add(
                format!("n4.smfs[{at}]"),
                what,
                "add its network to n4.peers",
            );
        }
        if smfs[..at].contains(smf) {
            let what = format!("{smf} is there twice");
            faults.add(format!("n4.smfs[{at}]"), what, "leave one out");
        }
    }
}

/// The node's address, or its name as labels.
fn node(text: &str, faults: &mut Faults) -> (Option<IpAddr>, Vec<u8>) {
    if let Ok(address) = text.parse() {
        return (Some(address), Vec::new());
    }
    let mut labels = Vec::new();
    let is_name = !text.is_empty()
        && text.len() < 120
        && text.split('.').all(|label| {
            labels.push(u8::try_from(label.len()).unwrap_or(0));
            labels.extend(label.as_bytes());
            (1..64).contains(&label.len())
        });
    if !is_name {
        faults.add(
            "node_id",
            format!("{text} is no name"),
            "write an address or a domain name",
        );
    }
    (None, labels)
}
