//! What a chain file says of an `xdp` port, and what that comes to for one of its queues.

use catena_engine::config::{ConfigError, ConfigErrors};
use catena_engine::port::{Opening, PortRole};
use catena_engine::units::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bpf::{Mode, QUEUE_COUNT_MAX};
use super::program::Steering;

/// The longest name of a Linux interface, in bytes (`IFNAMSIZ` less the terminator).
const INTERFACE_NAME_LEN_MAX: usize = libc::IFNAMSIZ - 1;
/// Entries of rings: enough for a burst, and few enough that the kernel has them in one piece.
const RING_LIMITS: std::ops::RangeInclusive<u32> = 64..=16_384;
/// The kernel's own choice of a busy poll is 20 us; more than a tick of the engine would hold its
/// worker up.
const BUSY_POLL_US: std::ops::RangeInclusive<u64> = 1..=1_000;

/// How the kernel and the socket exchange packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BindMode {
    /// Without a copy if the driver can, else with one.
    #[default]
    Auto,
    /// The kernel copies.
    Copy,
    /// The network card reads and writes packets where they lie.
    ZeroCopy,
}

/// Which interface, and what is taken from it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Name of the interface.
    interface: String,
    /// Its queue; the first one, if the chain has several of it.
    #[serde(default)]
    queue: u16,
    /// Where the redirect program runs: `auto`, `native` or `generic`.
    #[serde(default)]
    mode: Mode,
    /// How packets pass between kernel and pool: `auto`, `copy` or `zero_copy`.
    #[serde(default)]
    bind: BindMode,
    /// Entries of each ring, a power of two.
    #[serde(default = "ring")]
    ring: u32,
    /// Have the port's calls do the driver's work, for so long at most, rather than an interrupt.
    /// Without it, interrupts do.
    busy_poll: Option<Span>,
    /// Receive frames for all addresses.
    #[serde(default = "yes")]
    promiscuous: bool,
    /// Take only these packets; the host has the others. All without it.
    steer: Option<Steering>,
}

fn ring() -> u32 {
    1024
}

fn yes() -> bool {
    true
}

/// One queue of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) interface: String,
    pub(super) queue: u32,
    pub(super) mode: Mode,
    pub(super) bind: BindMode,
    pub(super) ring: u32,
    pub(super) busy_poll_us: Option<u32>,
    pub(super) promiscuous: bool,
    pub(super) steering: Steering,
    pub(super) receives: bool,
    pub(super) sends: bool,
    pub(super) is_wrapped: bool,
}

impl Config {
    pub(super) fn check(&self) -> Result<PortRole, ConfigErrors> {
        let mut errors = Vec::new();
        let name = &self.interface;
        let is_name = |byte: u8| byte.is_ascii_graphic() && !b"/:".contains(&byte);
        if !(1..=INTERFACE_NAME_LEN_MAX).contains(&name.len()) || !name.bytes().all(is_name) {
            errors.push(ConfigError::new(
                "interface",
                format!("\"{name}\" is not the name of an interface"),
                format!("give 1 to {INTERFACE_NAME_LEN_MAX} letters, digits and signs"),
            ));
        }
        if u32::from(self.queue) >= QUEUE_COUNT_MAX {
            errors.push(ConfigError::new(
                "queue",
                "the redirect program has no place for this queue",
                format!("give 0 to {}", QUEUE_COUNT_MAX - 1),
            ));
        }
        if !self.ring.is_power_of_two() || !RING_LIMITS.contains(&self.ring) {
            let (start, end) = (RING_LIMITS.start(), RING_LIMITS.end());
            errors.push(ConfigError::new(
                "ring",
                "no ring has this many entries",
                format!("give a power of two from {start} to {end}"),
            ));
        }
        if self
            .busy_poll_us()
            .is_some_and(|us| !BUSY_POLL_US.contains(&us))
        {
            let (start, end) = (BUSY_POLL_US.start(), BUSY_POLL_US.end());
            errors.push(ConfigError::new(
                "busy_poll",
                "the kernel is not asked to poll for this long",
                format!("give {start}us to {end}us"),
            ));
        }
        if let Some(steering) = &self.steer {
            steering.check(&mut errors);
            if *steering == Steering::default() {
                errors.push(ConfigError::new(
                    "steer",
                    "nothing is said of the packets to be taken",
                    "name ether_types, udp_ports or vlans, or leave `steer` out to take all",
                ));
            }
        }
        if errors.is_empty() {
            #[expect(clippy::cast_possible_truncation, reason = "at most 256")]
            let queues_max = QUEUE_COUNT_MAX as u16 - self.queue;
            Ok(PortRole {
                queues_max,
                ..PortRole::of(true, true)
            })
        } else {
            Err(errors)
        }
    }

    fn busy_poll_us(&self) -> Option<u64> {
        let span = self.busy_poll?;
        // What is no whole number of microseconds is refused as if it were none.
        let ns = span.ns;
        Some(if ns.is_multiple_of(1000) {
            ns / 1000
        } else {
            0
        })
    }

    /// For the queue that is opened.
    pub(super) fn settings(self, opening: &Opening<'_>) -> Settings {
        let busy_poll_us = self.busy_poll_us().and_then(|us| u32::try_from(us).ok());
        Settings {
            queue: u32::from(self.queue) + u32::from(opening.queue),
            interface: self.interface,
            mode: self.mode,
            bind: self.bind,
            ring: self.ring,
            busy_poll_us,
            promiscuous: self.promiscuous,
            steering: self.steer.unwrap_or_default(),
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
            (json!({}), "interface"),
            (json!({ "interface": "" }), "interface"),
            (json!({ "interface": "a/b" }), "interface"),
            (json!({ "interface": "a234567890123456" }), "interface"),
            (json!({ "interface": "a", "queue": 256 }), "queue"),
            (json!({ "interface": "a", "mode": "offload" }), "mode"),
            (json!({ "interface": "a", "bind": "zero" }), "bind"),
            (json!({ "interface": "a", "ring": 32 }), "ring"),
            (json!({ "interface": "a", "ring": 1000 }), "ring"),
            (json!({ "interface": "a", "ring": 32_768 }), "ring"),
            (
                json!({ "interface": "a", "busy_poll": "1500ns" }),
                "busy_poll",
            ),
            (json!({ "interface": "a", "busy_poll": "2ms" }), "busy_poll"),
            (json!({ "interface": "a", "steer": {} }), "steer"),
            (
                json!({ "interface": "a", "steer": { "vlans": [4095] } }),
                "steer/vlans",
            ),
            (
                json!({ "interface": "a", "steer": { "ports": [1] } }),
                "ports",
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
    fn a_queue_follows_the_opening() {
        let config = json!({
            "interface": "eth0", "queue": 4, "busy_poll": "20us", "bind": "copy",
            "mode": "generic", "steer": { "udp_ports": [2152] }, "promiscuous": false,
        });
        assert_eq!(check(&config).unwrap().queues_max, 252);
        let config: Config = parse_config(&config).unwrap();
        let opening = Opening {
            queue: 2,
            queues: 3,
            receives: false,
            ..Opening::alone(std::path::Path::new("."))
        };
        let settings = config.settings(&opening);
        assert_eq!((settings.queue, settings.busy_poll_us), (6, Some(20)));
        assert_eq!((settings.receives, settings.sends), (false, true));
        assert_eq!(settings.steering.udp_ports, [2152]);
    }
}
