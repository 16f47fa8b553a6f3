//! What a chain file says of a `dpdk` port, and what follows from the name of its device.

use std::path::PathBuf;

use catena_engine::config::{ConfigError, ConfigErrors};
use catena_engine::port::{Opening, PortRole};
use catena_engine::units::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::flows::{self, Flow};
use super::sys::Rule;
use crate::offload::Segments;
use crate::opening::resolve;

/// Longest text that names a device, in bytes.
const DEVICE_LEN_MAX: usize = 1024;
/// As many as the plug-in has room for (`QUEUES_MAX`).
const QUEUES: std::ops::RangeInclusive<u16> = 1..=16;
const RING_LIMITS: std::ops::RangeInclusive<u32> = 64..=16_384;
const MTU_LIMITS: std::ops::RangeInclusive<u32> = 64..=65_000;
/// A worker looks at everything that often in any case.
const IDLE_LIMIT_NS: u64 = 10_000_000;
/// The MTU of Ethernet.
const MTU: u32 = 1500;

/// Where packets lie while DPDK has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Memory {
    /// In the chain's pool where the driver can, else in DPDK's own.
    #[default]
    Auto,
    /// In the chain's pool: no copy between DPDK and the chain.
    Pool,
    /// In DPDK's own memory: one copy in each direction.
    Copy,
}

/// By which headers a device spreads flows over its queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rss {
    /// The first ones.
    Outer,
    /// Those inside a tunnel that the device knows.
    Inner,
}

/// Which device, and what is asked of it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The device and its arguments, as DPDK takes them: `net_memif0,role=client,...`, or the
    /// address of a card, `0000:03:00.0`.
    device: String,
    /// File of the plug-in; without it, it is looked for where it is installed.
    plugin: Option<PathBuf>,
    /// Queues of the device; this port works on all of them.
    #[serde(default = "one")]
    queues: u16,
    /// Entries of each ring.
    #[serde(default = "ring")]
    ring: u32,
    /// Longest packet without its Ethernet header; without it, the device's own, up to 1500.
    mtu: Option<u32>,
    /// Where packets lie while DPDK has them: `auto`, `pool` or `copy`.
    #[serde(default)]
    memory: Memory,
    /// Receive frames for all addresses.
    #[serde(default = "yes")]
    promiscuous: bool,
    /// Have the device check checksums; packets with wrong ones are dropped and counted.
    #[serde(default)]
    check_sums: bool,
    /// `cut`: packets are whole on both sides of this port. It cannot `carry` others.
    #[serde(default)]
    segments: Segments,
    /// Spread flows over the queues by the `outer` or the `inner` headers; not at all if left out.
    rss: Option<Rss>,
    /// Packets that the device itself gives to a queue, or marks.
    #[serde(default)]
    flows: Vec<Flow>,
    /// How long it may rest when nothing has come for a while; `0us` has it never rest.
    #[serde(default = "idle")]
    idle: Span,
}

fn one() -> u16 {
    1
}

fn ring() -> u32 {
    1024
}

fn yes() -> bool {
    true
}

fn idle() -> Span {
    Span { ns: 100_000 }
}

/// Drivers of virtual devices that hand packets on where they lie, and allocate none before they
/// run. Others are given packets in DPDK's own memory: they share theirs with somebody, and want
/// descriptors of it (virtio-user, AF_XDP), or are not known here.
const IN_POOL: [&str; 5] = [
    "net_null",
    "net_pcap",
    "net_memif",
    "net_vhost",
    "net_af_packet",
];

/// Drivers whose peers leave checksums open once they are told that somebody checks them; else DPDK
/// completes them, or the peer does.
const OPEN_IF_CHECKED: [&str; 2] = ["net_vhost", "net_virtio"];

/// A socket by which a device and its peer find each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PeerSocket {
    pub(super) path: PathBuf,
    /// Whether the device listens there; else its peer does.
    pub(super) is_ours: bool,
}

/// What a device's arguments say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeviceArgs {
    /// All of it, as DPDK takes it.
    pub(super) text: String,
    /// Name or address.
    pub(super) name: String,
    /// `net_memif`, say; none for cards.
    pub(super) driver: Option<String>,
    /// Whether packets can lie in a pool of the chain.
    pub(super) can_use_pool: bool,
    /// What a memif's client has only where DPDK lies on huge pages.
    pub(super) wants_zero_copy: bool,
    pub(super) socket: Option<PeerSocket>,
    /// The kernel's interface that it works at.
    pub(super) interface: Option<String>,
}

impl DeviceArgs {
    fn of(text: &str) -> Self {
        let mut parts = text.split(',');
        let name = parts.next().unwrap_or_default().trim().to_owned();
        let args: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
        let arg = |key: &str| {
            args.iter()
                .find(|(name, _)| *name == key)
                .map(|(_, to)| *to)
        };
        let is_address = name.contains(':');
        let driver = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let driver = match driver {
            // The library's name; devices are also called by what they are.
            "net_virtio_user" | "virtio_user" => "net_virtio",
            "eth_null" | "eth_pcap" | "eth_vhost" | "eth_af_packet" | "eth_af_xdp" => {
                &driver.replacen("eth", "net", 1)
            }
            other => other,
        };
        let socket = match driver {
            "net_memif" if arg("socket-abstract") == Some("no") => arg("socket"),
            "net_vhost" => arg("iface"),
            "net_virtio" => arg("path"),
            _ => None,
        };
        let interface = match driver {
            "net_af_packet" | "net_af_xdp" => arg("iface").map(str::to_owned),
            _ => None,
        };
        let is_ours = match driver {
            "net_memif" => matches!(arg("role"), Some("server" | "master")),
            "net_vhost" => arg("client") != Some("1"),
            _ => arg("server") == Some("1"),
        };
        // A guest's side of vhost that waits for its peer to come back does so by itself.
        let waits_itself = driver == "net_vhost" && !is_ours;
        Self {
            can_use_pool: is_address || IN_POOL.contains(&driver),
            wants_zero_copy: driver == "net_memif" && arg("zero-copy") == Some("yes"),
            socket: socket.filter(|_| !waits_itself).map(|path| PeerSocket {
                path: PathBuf::from(path),
                is_ours,
            }),
            interface,
            driver: (!is_address).then(|| driver.to_owned()),
            text: text.to_owned(),
            name,
        }
    }
}

/// A port, as it is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) device: DeviceArgs,
    /// Where the chain file says that it is.
    pub(super) plugin: Option<PathBuf>,
    pub(super) queues: u16,
    pub(super) ring: u32,
    /// 0: the device's own.
    pub(super) mtu: u32,
    pub(super) copies: bool,
    pub(super) promiscuous: bool,
    pub(super) check_sums: bool,
    pub(super) rss: Option<Rss>,
    pub(super) rules: Vec<Rule>,
    pub(super) idle_ns: u64,
    pub(super) receives: bool,
    pub(super) sends: bool,
    pub(super) is_wrapped: bool,
}

impl Settings {
    /// Longest frame that buffers have to hold.
    pub(super) fn mtu_or_usual(&self) -> u32 {
        if self.mtu == 0 { MTU } else { self.mtu }
    }

    /// Whether it is a card that fills its rings, from the chain's pool, as it starts.
    pub(super) fn starts_with_buffers(&self) -> bool {
        self.device.driver.is_none() && !self.copies
    }

    /// Whether packets come without their pool, and need buffers to be copied into.
    pub(super) fn sends_copies(&self) -> bool {
        self.sends && self.is_wrapped
    }

    /// Buffers that the rings hold.
    pub(super) fn rings(&self) -> u32 {
        self.ring * u32::from(self.queues)
    }
}

impl Config {
    pub(super) fn check(&self) -> Result<PortRole, ConfigErrors> {
        let mut errors = Vec::new();
        let text = &self.device;
        let args = DeviceArgs::of(text);
        let is_clean = text.bytes().all(|byte| byte.is_ascii_graphic());
        if args.name.is_empty() || text.len() > DEVICE_LEN_MAX || !is_clean {
            errors.push(ConfigError::new(
                "device",
                "this names no device of DPDK",
                "write a driver's device with its arguments, such as \
                 net_memif0,role=client,socket=/run/m.sock,socket-abstract=no, or the address of a \
                 card, such as 0000:03:00.0",
            ));
        } else if args.driver.as_ref().is_some_and(|driver| {
            !driver.starts_with("net_") || driver.contains(['/', '.']) || *driver == args.name
        }) {
            errors.push(ConfigError::new(
                "device",
                format!("\"{}\" is not the name of a virtual device", args.name),
                "write the driver and a number, such as net_memif0; `catena port list` lists drivers",
            ));
        }
        if args.wants_zero_copy {
            errors.push(ConfigError::new(
                "device",
                "zero-copy of memif needs DPDK on huge pages in single files",
                "leave out zero-copy: the client copies each packet once",
            ));
        }
        self.check_offloads(&args, &mut errors);
        let limits = [
            ("queues", self.queues.into(), (1, u32::from(*QUEUES.end()))),
            (
                "ring",
                self.ring,
                (*RING_LIMITS.start(), *RING_LIMITS.end()),
            ),
            (
                "mtu",
                self.mtu.unwrap_or(MTU),
                (*MTU_LIMITS.start(), *MTU_LIMITS.end()),
            ),
        ];
        for (path, value, (least, most)) in limits {
            if !(least..=most).contains(&value) {
                errors.push(ConfigError::new(
                    path,
                    format!("{value} is out of range"),
                    format!("give {least} to {most}"),
                ));
            }
        }
        if self.memory == Memory::Pool && !args.can_use_pool {
            errors.push(ConfigError::new(
                "memory",
                "this device needs packets in DPDK's own memory",
                "write `memory: copy`, or leave it out",
            ));
        }
        if self.idle.ns > IDLE_LIMIT_NS {
            errors.push(ConfigError::new(
                "idle",
                "a device that rests this long loses packets",
                "give 0us to 10ms",
            ));
        }
        flows::check(&self.flows, self.queues, &mut errors);
        if errors.is_empty() {
            Ok(PortRole::of(true, true))
        } else {
            Err(errors)
        }
    }

    /// What devices do to packets, and chains want otherwise.
    fn check_offloads(&self, args: &DeviceArgs, errors: &mut ConfigErrors) {
        let driver = args.driver.as_deref().unwrap_or_default();
        if self.segments == Segments::Carry {
            // The only one that can be told to have its peer leave cutting to others.
            let too = if driver == "net_vhost" {
                ", and the device's `tso`, too"
            } else {
                ""
            };
            errors.push(ConfigError::new(
                "segments",
                "DPDK hands over packets of 64 KiB in pieces, and this port takes whole ones",
                format!(
                    "leave it out{too}: the peer cuts what it sends; between hosts of this \
                     machine, `packet_socket` and `tap` carry"
                ),
            ));
        }
        if self.check_sums && OPEN_IF_CHECKED.contains(&driver) {
            errors.push(ConfigError::new(
                "check_sums",
                "the peer would leave its checksums open, and nobody would complete them",
                "leave it out: what comes from this device has its checksums",
            ));
        }
    }

    /// For a port that is opened in these directions.
    pub(super) fn settings(self, opening: &Opening<'_>) -> Settings {
        let plugin = self.plugin.as_ref();
        let device = DeviceArgs::of(&self.device);
        Settings {
            copies: match self.memory {
                Memory::Auto => !device.can_use_pool,
                Memory::Pool => false,
                Memory::Copy => true,
            },
            device,
            plugin: plugin.map(|file| resolve(opening.dir, file)),
            queues: self.queues,
            ring: self.ring,
            mtu: self.mtu.unwrap_or(0),
            promiscuous: self.promiscuous,
            check_sums: self.check_sums,
            rss: self.rss,
            rules: flows::rules(&self.flows),
            idle_ns: self.idle.ns,
            receives: opening.receives,
            sends: opening.sends,
            is_wrapped: opening.is_wrapped,
        }
    }
}

#[cfg(test)]
mod tests {
    use catena_engine::config::parse_config;
    use serde_json::{Value, json};

    use super::*;

    fn check(config: &Value) -> Result<PortRole, ConfigErrors> {
        parse_config::<Config>(config)?.check()
    }

    #[test]
    fn wrong_configurations_name_the_field() {
        for (config, path) in [
            (json!({}), "device"),
            (json!({ "device": "" }), "device"),
            (json!({ "device": "eth0" }), "device"),
            (json!({ "device": "net_null" }), "device"),
            (json!({ "device": "net_../x0" }), "device"),
            (json!({ "device": "net_null0,a b" }), "device"),
            (json!({ "device": "net_null0\u{0}" }), "device"),
            (json!({ "device": "net_memif0,zero-copy=yes" }), "device"),
            (json!({ "device": "net_null0", "queues": 0 }), "queues"),
            (json!({ "device": "net_null0", "queues": 17 }), "queues"),
            (json!({ "device": "net_null0", "ring": 1 }), "ring"),
            (json!({ "device": "net_null0", "mtu": 70_000 }), "mtu"),
            (json!({ "device": "net_null0", "rss": "both" }), "rss"),
            (json!({ "device": "net_null0", "idle": "1s" }), "idle"),
            (
                json!({ "device": "net_null0", "segments": "carry" }),
                "segments",
            ),
            (
                json!({ "device": "net_vhost0,iface=/v", "check_sums": true }),
                "check_sums",
            ),
            (
                json!({ "device": "virtio_user0,path=/v", "check_sums": true }),
                "check_sums",
            ),
            (
                json!({ "device": "net_null0", "flows": [{ "match": { "ip": 4 }, "queue": 1 }] }),
                "flows/0/queue",
            ),
            (
                json!({ "device": "net_virtio_user0,path=/a", "memory": "pool" }),
                "memory",
            ),
        ] {
            let errors = check(&config).unwrap_err();
            let error = &errors[0];
            assert!(
                error.path == path || error.to_string().contains(path),
                "{config}: {error}"
            );
        }
    }

    #[test]
    fn what_cannot_be_carried_is_told_with_the_arguments_that_the_device_has() {
        let said = |device: &str| {
            let config = json!({ "device": device, "segments": "carry" });
            check(&config).unwrap_err()[0].to_string()
        };
        assert!(said("net_vhost0,iface=/v,tso=1").contains("leave it out, and the device's `tso`"));
        for device in ["net_memif0,role=server", "0000:03:00.0"] {
            let said = said(device);
            assert!(said.contains("leave it out: the peer cuts"), "{said}");
        }
    }

    #[test]
    fn a_device_says_its_driver_where_packets_may_lie_and_how_its_peer_is_found() {
        let socket = |path: &str, is_ours| {
            let path = PathBuf::from(path);
            Some(PeerSocket { path, is_ours })
        };
        for (text, driver, can_use_pool, expected) in [
            ("net_null0,size=64", Some("net_null"), true, None),
            ("0000:03:00.0", None, true, None),
            (
                "net_memif3,role=server,socket=/m,socket-abstract=no",
                Some("net_memif"),
                true,
                socket("/m", true),
            ),
            (
                "net_memif3,socket=/m,socket-abstract=no,zero-copy=no",
                Some("net_memif"),
                true,
                socket("/m", false),
            ),
            ("net_memif3,socket=m", Some("net_memif"), true, None),
            (
                "net_vhost0,iface=/v",
                Some("net_vhost"),
                true,
                socket("/v", true),
            ),
            (
                "net_vhost0,iface=/v,client=1",
                Some("net_vhost"),
                true,
                None,
            ),
            (
                "net_virtio_user0,path=/v",
                Some("net_virtio"),
                false,
                socket("/v", false),
            ),
            (
                "net_virtio_user0,path=/v,server=1",
                Some("net_virtio"),
                false,
                socket("/v", true),
            ),
            ("net_af_xdp0,iface=eth0", Some("net_af_xdp"), false, None),
        ] {
            let args = DeviceArgs::of(text);
            assert_eq!(args.driver.as_deref(), driver, "{text}");
            assert_eq!(args.can_use_pool, can_use_pool, "{text}");
            assert_eq!(args.socket, expected, "{text}");
        }
    }
}
