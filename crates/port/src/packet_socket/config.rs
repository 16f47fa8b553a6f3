//! What a chain file says of a `packet_socket` port, and the options of its socket that follow.

use std::time::Duration;

use catena_engine::config::{ConfigError, ConfigErrors};
use catena_engine::port::PortRole;
use catena_engine::units::{ByteSize, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::options::{Delivery, Fanout, FanoutMode, Options, OptionsError};
use crate::offload::{QUEUES_MAX, Segments};

/// The page size for which a configuration is checked before the machine is known.
const PAGE_SIZE_BYTES: usize = 4096;
/// The longest name of an interface.
const NAME_LEN_MAX: usize = libc::IFNAMSIZ - 1;

/// Which interface, and how to receive from it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Name of the Ethernet interface.
    pub(super) interface: String,
    /// Receive frames for other Ethernet addresses too.
    #[serde(default = "yes")]
    promiscuous: bool,
    /// Share the interface's frames with other sockets of a group; this one gets all if left out.
    fanout: Option<FanoutConfig>,
    /// In which pieces the kernel hands over frames.
    #[serde(default)]
    delivery: DeliveryConfig,
    /// Bytes of a block, a power of two from 4KiB to 4MiB; 256KiB without it. For `blocks`.
    block_size: Option<ByteSize>,
    /// Number of blocks; 16 without it. For `blocks`.
    block_count: Option<usize>,
    /// When a block that is not full is handed over, in whole milliseconds; 1ms without it. For
    /// `blocks`.
    retire: Option<Span>,
    /// Bytes of a slot, a power of two from 256B to 128KiB; 2KiB without it. For `frames`.
    slot_size: Option<ByteSize>,
    /// Number of slots, a power of two; 2048 without it. For `frames`.
    slot_count: Option<usize>,
    /// Transmit around the interface's queueing discipline.
    #[serde(default)]
    bypass_qdisc: bool,
    /// Transmit runs of one UDP flow as one frame that the kernel cuts apart.
    #[serde(default)]
    segment: bool,
    /// What becomes of packets that their sender left to a network card to cut and to sum.
    #[serde(default)]
    pub(super) segments: Segments,
}

fn yes() -> bool {
    true
}

/// In which pieces frames are handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum DeliveryConfig {
    /// Many at once, when a block is full or its time is over: for throughput.
    #[default]
    Blocks,
    /// Each as it arrives: for latency.
    #[serde(alias = "immediate")]
    Frames,
}

/// A group of sockets that share the frames of an interface.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FanoutConfig {
    /// Number of the group, the same for all members.
    group: u16,
    /// Which member gets a frame.
    #[serde(default)]
    mode: FanoutModeConfig,
    /// Pass a frame to the next member when the ring of the chosen one is full.
    #[serde(default)]
    roll_over: bool,
}

/// Which member of a group gets a frame.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum FanoutModeConfig {
    /// By a hash of addresses and ports: a flow stays with one member.
    #[default]
    FlowHash,
    /// By the processor that received it.
    Cpu,
    /// By the interface's receive queue.
    Queue,
    /// In turn.
    RoundRobin,
}

/// How much later than it says a block may retire: the kernel's timer has ticks.
const RETIRE_SLACK: Duration = Duration::from_millis(10);

impl Config {
    /// Within which time, in ns, the kernel hands over what it has begun to fill.
    pub(super) fn retires_within_ns(&self) -> u64 {
        match self.options().delivery {
            Delivery::Blocks { retire, .. } => {
                u64::try_from((retire + RETIRE_SLACK).as_nanos()).unwrap_or(u64::MAX)
            }
            Delivery::Frames { .. } => 0,
        }
    }

    pub(super) fn options(&self) -> Options {
        let bytes = |size: ByteSize| usize::try_from(size.bytes).unwrap_or(usize::MAX);
        let delivery = match self.delivery {
            DeliveryConfig::Blocks => Delivery::Blocks {
                block_size_bytes: self.block_size.map_or(256 << 10, bytes),
                block_count: self.block_count.unwrap_or(16),
                retire: Duration::from_nanos(self.retire.map_or(1_000_000, |span| span.ns)),
            },
            DeliveryConfig::Frames => Delivery::Frames {
                slot_size_bytes: self.slot_size.map_or(2048, bytes),
                slot_count: self.slot_count.unwrap_or(2048),
            },
        };
        Options {
            delivery,
            fanout: self.fanout.map(|fanout| Fanout {
                group: fanout.group,
                mode: match fanout.mode {
                    FanoutModeConfig::FlowHash => FanoutMode::FlowHash,
                    FanoutModeConfig::Cpu => FanoutMode::Cpu,
                    FanoutModeConfig::Queue => FanoutMode::Queue,
                    FanoutModeConfig::RoundRobin => FanoutMode::RoundRobin,
                },
                rolls_over: fanout.roll_over,
            }),
            is_promiscuous: self.promiscuous,
            bypass_qdisc: self.bypass_qdisc,
            segments: self.segment,
            carries: self.segments == Segments::Carry,
        }
    }

    pub(super) fn check(&self) -> Result<PortRole, ConfigErrors> {
        let mut errors = Vec::new();
        if self.interface.is_empty() || self.interface.len() > NAME_LEN_MAX {
            errors.push(ConfigError::new(
                "interface",
                format!("\"{}\" is not the name of an interface", self.interface),
                format!("give 1 to {NAME_LEN_MAX} bytes"),
            ));
        }
        if self.segment && self.bypass_qdisc {
            errors.push(ConfigError::new(
                "segment",
                "around the queueing discipline the kernel does not cut runs apart",
                "leave out bypass_qdisc, or this",
            ));
        }
        if self.segments == Segments::Carry && (self.segment || self.bypass_qdisc) {
            errors.push(ConfigError::new(
                "segments",
                "packets that are carried are cut by the queueing discipline, one by one",
                "leave out segment and bypass_qdisc, or write segments: cut",
            ));
        }
        let blocks = self.delivery == DeliveryConfig::Blocks;
        for (name, is_given, is_for_blocks) in [
            ("block_size", self.block_size.is_some(), true),
            ("block_count", self.block_count.is_some(), true),
            ("retire", self.retire.is_some(), true),
            ("slot_size", self.slot_size.is_some(), false),
            ("slot_count", self.slot_count.is_some(), false),
        ] {
            if is_given && is_for_blocks != blocks {
                let other = if blocks { "frames" } else { "blocks" };
                let repair = format!("leave it out, or set delivery: {other}");
                errors.push(ConfigError::new(name, format!("only for {other}"), repair));
            }
        }
        if let Err(error) = self.options().delivery.check(PAGE_SIZE_BYTES) {
            let path = match error {
                OptionsError::BlockCount => "block_count",
                OptionsError::BlockSize { .. } => "block_size",
                OptionsError::Retire => "retire",
                OptionsError::RingSize if blocks => "block_count",
                OptionsError::RingSize | OptionsError::SlotCount { .. } => "slot_count",
                OptionsError::SlotSize => "slot_size",
            };
            errors.push(ConfigError {
                path: path.to_owned(),
                message: error.to_string(),
                repair: None,
            });
        }
        if errors.is_empty() {
            Ok(PortRole {
                queues_max: QUEUES_MAX,
                carries_segments: self.segments == Segments::Carry,
                ..PortRole::of(true, true)
            })
        } else {
            Err(errors)
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
            (
                json!({ "interface": "a", "block_size": "5kB" }),
                "block_size",
            ),
            (json!({ "interface": "a", "block_count": 1 }), "block_count"),
            (json!({ "interface": "a", "retire": "1500us" }), "retire"),
            (json!({ "interface": "a", "slot_count": 64 }), "slot_count"),
            (
                json!({ "interface": "a", "delivery": "frames", "slot_size": 100 }),
                "slot_size",
            ),
            (
                json!({ "interface": "a", "delivery": "frames", "retire": "1ms" }),
                "retire",
            ),
            (
                json!({ "interface": "a", "block_size": "4MiB", "block_count": 4096 }),
                "block_count",
            ),
            (json!({ "interface": "a", "fanout": {} }), "fanout"),
            (
                json!({ "interface": "a", "segment": true, "bypass_qdisc": true }),
                "segment",
            ),
            (
                json!({ "interface": "a", "segment": true, "segments": "carry" }),
                "segments",
            ),
        ] {
            let errors = check(&config).unwrap_err();
            assert_eq!(
                errors[0].path,
                if config == json!({}) { "" } else { path },
                "{errors:?}"
            );
        }
    }

    #[test]
    fn options_follow_the_configuration() {
        let config: Config = serde_json::from_value(json!({
            "interface": "eth0", "promiscuous": false, "bypass_qdisc": true,
            "delivery": "immediate", "slot_size": "4KiB", "slot_count": 64,
            "fanout": { "group": 3, "mode": "round_robin", "roll_over": true },
        }))
        .unwrap();
        assert!(config.check().is_ok());
        let expected = Options {
            delivery: Delivery::Frames {
                slot_size_bytes: 4096,
                slot_count: 64,
            },
            fanout: Some(Fanout {
                group: 3,
                mode: FanoutMode::RoundRobin,
                rolls_over: true,
            }),
            is_promiscuous: false,
            bypass_qdisc: true,
            segments: false,
            carries: false,
        };
        assert_eq!(config.options(), expected);
        let plain: Config = serde_json::from_value(json!({ "interface": "eth0" })).unwrap();
        assert_eq!(plain.options(), Options::default());
    }
}
