//! `packet_socket`: the port over an interface's packet socket.
//!
//! What becomes of a received frame is in [`super::reception`].
//! While the interface is down nothing is received and what is sent fails; both work again when it
//! comes up. Once it is removed the port has failed.

use std::cell::Cell;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use catena_engine::config::{ConfigError, ConfigErrors, parse_config};
use catena_engine::nf::Nanos;
use catena_engine::own_counters::CounterSink;
use catena_engine::packet::Packet;
use catena_engine::port::{
    CapabilitySet, Port, PortError, PortKind, PortNeeds, PortRole, RxBurst, RxState, TxBurst,
};
use catena_engine::units::{ByteSize, Span};
use schemars::JsonSchema;
use serde::Deserialize;

use super::errors::SocketError;
use super::options::{Delivery, Fanout, FanoutMode, Options, OptionsError};
use super::reception::{Counts, Reception};
use super::socket::{PacketSocket, Statistics, group_of};
use crate::offload::pending::Pending;
use crate::offload::vnet::header_of;
use crate::offload::{COUNTERS, QUEUES_MAX, Segments};
use crate::opening::{failed, parse, refused};

/// How often frames are offered to a queue that is full before they count as failed.
const TRIES: u32 = 4;
/// So often the kernel is asked what it dropped: seldom enough that the system call does not show.
const STATISTICS_EVERY_NS: u64 = 100_000_000;
/// The page size for which a configuration is checked before the machine is known.
const PAGE_SIZE_BYTES: usize = 4096;
/// The longest name of an interface.
const NAME_LEN_MAX: usize = libc::IFNAMSIZ - 1;

/// Which interface, and how to receive from it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Name of the Ethernet interface.
    interface: String,
    /// Receive frames for other Ethernet addresses too.
    #[serde(default = "yes")]
    promiscuous: bool,
    /// Share the interface's frames with other sockets of a group.
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
    segments: Segments,
}

fn yes() -> bool {
    true
}

/// In which pieces frames are handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
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
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
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

impl Config {
    fn options(&self) -> Options {
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

    fn check(&self) -> Result<PortRole, ConfigErrors> {
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

/// A socket, and an interface that receives for all addresses.
const NEEDS: PortNeeds = PortNeeds::to_open(CapabilitySet::NET_RAW.union(CapabilitySet::NET_ADMIN));

/// The chain file's entry.
pub const KIND: PortKind = PortKind {
    name: "packet_socket",
    summary: "Exchanges packets with a network interface by the kernel's packet sockets",
    counters: &[
        "kernel_drops",
        "ring_full",
        "ring_malformed",
        "interface_down",
        "unsegmented",
        "cut_by_ring",
        "rejected",
        "queue_full",
        COUNTERS[0],
        COUNTERS[1],
        COUNTERS[2],
    ],
    drop_reasons: &[],
    needs: NEEDS,
    schema: || schemars::schema_for!(Config),
    check: |config| parse_config::<Config>(config)?.check(),
    open: |config, opening| {
        let config: Config = parse(config)?;
        config.check().map_err(refused)?;
        let mut options = config.options();
        if opening.queues > 1 && options.fanout.is_none() {
            options.fanout = Some(Fanout {
                group: group_of(&config.interface),
                mode: FanoutMode::FlowHash,
                rolls_over: false,
            });
        }
        let socket = PacketSocket::open(&config.interface, options).map_err(failed)?;
        Ok(Box::new(PacketSocketPort {
            socket,
            interface: config.interface,
            carries: options.carries,
            pending: Pending::new(),
            is_removed: false,
            counts: Counts::default(),
            statistics: Statistics::default(),
            statistics_at: Nanos(0),
            failure: None,
        }))
    },
};

#[derive(Debug)]
struct PacketSocketPort {
    socket: PacketSocket,
    interface: String,
    /// Whether what senders left to a card goes through the chain as it is.
    carries: bool,
    pending: Pending,
    is_removed: bool,
    counts: Counts,
    statistics: Statistics,
    statistics_at: Nanos,
    failure: Option<PortError>,
}

impl PacketSocketPort {
    /// Notes an error that the interface has; only its removal is for good.
    #[cold]
    fn note(&mut self, error: &SocketError) {
        match error {
            SocketError::InterfaceDown => self.counts.down += 1,
            SocketError::InterfaceRemoved => {
                self.is_removed = true;
                let failure = format!("interface '{}' was removed", self.interface);
                self.failure = Some(PortError(failure));
            }
            SocketError::System { .. } => {
                let failure = format!("interface '{}': {error}", self.interface);
                self.failure.get_or_insert(PortError(failure));
            }
        }
    }

    fn refresh_statistics(&mut self) {
        if let Ok(statistics) = self.socket.statistics() {
            self.statistics = statistics;
        }
    }
}

impl Port for PacketSocketPort {
    fn rx(&mut self, burst: &mut RxBurst<'_>, now: Nanos) -> RxState {
        // What was taken before the interface went is whole yet.
        self.pending.receive(burst);
        if self.is_removed && self.pending.is_empty() {
            return RxState::Failed;
        }
        if burst.room() == 0 || self.is_removed {
            return RxState::More;
        }
        if now.since(self.statistics_at) >= STATISTICS_EVERY_NS {
            self.statistics_at = now;
            self.refresh_statistics();
        }
        let limit = Cell::new(burst.room());
        if limit.get() == 0 {
            return RxState::More;
        }
        let mut reception = Reception {
            carries: self.carries,
            counts: &mut self.counts,
            pending: &mut self.pending,
        };
        let shown = self.socket.recv_while(&limit, |frame, info| {
            reception.receive(burst, frame, info);
            // One frame may have become several packets, or be in the middle of it.
            if burst.room() == 0 || !reception.pending.is_empty() {
                limit.set(0);
            }
        });
        match shown {
            Ok(0) => RxState::Idle,
            Ok(_) => RxState::More,
            Err(error) => {
                self.note(&error);
                if self.is_removed {
                    RxState::Failed
                } else {
                    RxState::Idle
                }
            }
        }
    }

    fn tx(&mut self, burst: &mut TxBurst<'_>, _now: Nanos) -> usize {
        let packets = burst.packets();
        let (mut taken, mut rejected) = (0, 0);
        for _ in 0..TRIES {
            let frames = packets[taken..].iter();
            let result = if self.carries {
                let open = |packet: &Packet| header_of(packet.bytes(), packet.offload());
                let frames = frames.map(|packet| (open(packet), packet.bytes()));
                self.socket.send_open(frames)
            } else {
                self.socket.send(frames.map(Packet::bytes))
            };
            match result {
                Ok(sent) => {
                    taken += sent.taken;
                    rejected += sent.rejected;
                }
                Err(error) => {
                    self.note(&error);
                    self.counts.rejected += rejected as u64;
                    return taken - rejected;
                }
            }
            if taken == packets.len() {
                break;
            }
        }
        self.counts.rejected += rejected as u64;
        self.counts.queue_full += (packets.len() - taken) as u64;
        taken - rejected
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.fd())
    }

    fn close(&mut self) -> Result<(), PortError> {
        self.refresh_statistics();
        self.failure.take().map_or(Ok(()), Err)
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        out.extend([
            ("kernel_drops", self.statistics.drops),
            ("ring_full", self.statistics.freezes),
            ("ring_malformed", self.statistics.malformed),
            ("interface_down", self.counts.down),
            ("unsegmented", self.counts.unsegmented),
            ("cut_by_ring", self.counts.cut_by_ring),
            ("rejected", self.counts.rejected),
            ("queue_full", self.counts.queue_full),
            (COUNTERS[0], self.counts.carried),
            (COUNTERS[1], self.pending.packets),
            (COUNTERS[2], self.pending.segments),
        ]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
            let errors = (KIND.check)(&config).unwrap_err();
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
