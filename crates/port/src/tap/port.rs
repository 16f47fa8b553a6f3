//! `tap`: the port over a TAP interface.
//!
//! A frame is read into memory of the port's own and copied into the smallest buffer that holds it,
//! since its length is not known before; a port that carries segments reads into a large buffer,
//! and what needs one stays there. While the interface is down nothing is received and what
//! is sent fails; both work again when it comes up. Once it is deleted the port is down until one
//! of that name is there again: who deletes an interface means it, so it is not made anew.

use std::os::fd::BorrowedFd;

use catena_engine::config::{ConfigError, ConfigErrors, parse_config};
use catena_engine::nf::{DropReason, Nanos};
use catena_engine::own_counters::CounterSink;
use catena_engine::packet::{Offload, Packet};
use catena_engine::port::{
    Buffers, CapabilitySet, Port, PortError, PortKind, PortNeeds, PortRole, RxBurst, RxState,
    TxBurst,
};
use catena_engine::segments::complete;
use schemars::JsonSchema;
use serde::Deserialize;

use super::options::{INTERFACE_NAME_LEN_MAX, Options};
use super::sys::Tap;
use crate::attachment::{self, Attachment};
use crate::offload::vnet::{self, Left, Said, header_of};
use crate::offload::{CARRIED_LEN_MIN, COUNTERS, QUEUES_MAX, Segments};
use crate::opening::{failed, parse, refused};
use crate::packet_socket::frame::complete_checksum;

/// Longest frame that a TAP hands out: IP of 64 KiB, an Ethernet header and two VLAN tags.
const FRAME_LEN_MAX: usize = 65_535 + 22;
/// Largest MTU whose segments can be said of a packet that is carried: 16,383 bytes behind the
/// headers of IPv4 and TCP without options.
const CARRIED_MTU_MAX: u16 = 16_383 + 40;
/// The kernel's limits on an Ethernet interface (`ETH_MIN_MTU`, and that of a TAP).
const MTU_LIMITS: std::ops::RangeInclusive<u16> = 68..=65_521;
/// How often a frame is offered to a queue that is full before it counts as failed.
const TRIES: u32 = 4;

/// Which interface.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Name of the interface, made if there is none; `%d` in it stands for the first free number.
    name: String,
    /// Longest packet, without Ethernet header, that the host sends on it; the kernel's choice,
    /// 1500, without it.
    mtu: Option<u16>,
    /// Bring the interface up.
    #[serde(default = "yes")]
    up: bool,
    /// What becomes of packets that the host would leave to a network card to cut and to sum.
    #[serde(default)]
    segments: Segments,
}

fn yes() -> bool {
    true
}

impl Config {
    fn check(&self) -> Result<PortRole, ConfigErrors> {
        let mut errors = Vec::new();
        if self.name.is_empty() || self.name.len() > INTERFACE_NAME_LEN_MAX {
            errors.push(ConfigError::new(
                "name",
                format!("\"{}\" is not the name of an interface", self.name),
                format!("give 1 to {INTERFACE_NAME_LEN_MAX} bytes"),
            ));
        }
        if self.mtu.is_some_and(|mtu| !MTU_LIMITS.contains(&mtu)) {
            let (start, end) = (MTU_LIMITS.start(), MTU_LIMITS.end());
            errors.push(ConfigError::new(
                "mtu",
                "no TAP takes this MTU",
                format!("give {start} to {end}"),
            ));
        }
        let carries = self.segments == Segments::Carry;
        if carries && self.mtu.is_some_and(|mtu| mtu > CARRIED_MTU_MAX) {
            errors.push(ConfigError::new(
                "mtu",
                "segments of such packets are too large to be carried",
                format!("give at most {CARRIED_MTU_MAX}, or write segments: cut"),
            ));
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

/// An interface, its MTU and its state; again when it returns.
const NEEDS: PortNeeds = PortNeeds::always(CapabilitySet::NET_ADMIN);

/// The chain file's entry.
pub const KIND: PortKind = PortKind {
    name: "tap",
    summary: "Exchanges packets with this host's network stack by a TAP interface",
    counters: &[
        "interface_down",
        "too_short",
        "queue_full",
        "rejected",
        COUNTERS[0],
        attachment::COUNTERS[0],
        attachment::COUNTERS[1],
    ],
    drop_reasons: &[],
    needs: NEEDS,
    schema: || schemars::schema_for!(Config),
    check: |config| parse_config::<Config>(config)?.check(),
    open: |config, opening| {
        let config: Config = parse(config)?;
        config.check().map_err(refused)?;
        if opening.queues > 1 && config.name.contains('%') {
            let name = &config.name;
            return Err(PortError(format!(
                "each queue of '{name}' would be an interface of its own: give a name without '%'"
            )));
        }
        let carries = config.segments == Segments::Carry;
        let options = Options {
            multi_queue: opening.queues > 1,
            vnet_header: carries,
        };
        let tap = Tap::open(&config.name, options).map_err(failed)?;
        let tap = set_up(&config, tap, options)?;
        Ok(Box::new(TapPort {
            name: tap.name().to_owned(),
            tap: Some(tap),
            config,
            options,
            frame: vec![0; FRAME_LEN_MAX],
            carries,
            carried: 0,
            rejected: 0,
            attachment: Attachment::new(),
            down: 0,
            too_short: 0,
            queue_full: 0,
            failure: None,
        }))
    },
};

/// Has the interface be as the configuration says.
fn set_up(config: &Config, tap: Tap, options: Options) -> Result<Tap, PortError> {
    if options.vnet_header {
        tap.take_offloads().map_err(failed)?;
    } else {
        tap.leave_offloads().map_err(failed)?;
    }
    if let Some(mtu) = config.mtu {
        tap.set_mtu(mtu).map_err(failed)?;
    }
    let mtu = tap.mtu().map_err(failed)?;
    if options.vnet_header && mtu > usize::from(CARRIED_MTU_MAX) {
        let name = tap.name();
        return Err(PortError(format!(
            "the MTU of '{name}' is {mtu}, and segments of such packets are too large to be \
             carried: set mtu to {CARRIED_MTU_MAX} at most, or write segments: cut"
        )));
    }
    if config.up {
        tap.set_up().map_err(failed)?;
    }
    Ok(tap)
}

#[derive(Debug)]
struct TapPort {
    /// None while the interface is gone.
    tap: Option<Tap>,
    /// The interface's, which the kernel may have chosen.
    name: String,
    config: Config,
    options: Options,
    /// Room for a frame.
    frame: Vec<u8>,
    /// Whether what the host leaves to a card goes through the chain as it is.
    carries: bool,
    carried: u64,
    rejected: u64,
    attachment: Attachment,
    down: u64,
    too_short: u64,
    queue_full: u64,
    failure: Option<PortError>,
}

impl TapPort {
    /// Notes an error that the interface has.
    #[cold]
    fn note(&mut self, error: &std::io::Error) {
        match error.kind() {
            std::io::ErrorKind::NetworkDown => self.down += 1,
            std::io::ErrorKind::NotFound => {
                if self.tap.take().is_some() {
                    self.attachment.lost();
                }
            }
            _ => {
                let name = &self.name;
                let failure = PortError(format!("TAP interface '{name}': {error}"));
                self.failure.get_or_insert(failure);
            }
        }
    }

    /// Offers a frame a few times, with a header if packets are carried.
    fn send(&self, header: Option<&[u8; vnet::LEN]>, frame: &[u8]) -> std::io::Result<bool> {
        let Some(tap) = &self.tap else {
            return Err(std::io::ErrorKind::NotFound.into());
        };
        for _ in 0..TRIES {
            let is_taken = match header {
                Some(header) => tap.send_with_header(header, frame)?,
                None => tap.send(frame)?,
            };
            if is_taken {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Receives a frame as it would be on a wire; false if there is none.
    fn receive_whole(&mut self, burst: &mut RxBurst<'_>) -> std::io::Result<bool> {
        let Some(tap) = &self.tap else {
            return Ok(false);
        };
        let len = tap.recv(&mut self.frame)?;
        if let Some(len) = len {
            burst.push_copy(&self.frame[..len]);
        }
        Ok(len.is_some())
    }

    /// Receives a frame with a header in front of it; false if there is none. It is read into a
    /// large buffer and stays there, unless it fits a smaller one; where there is no large buffer,
    /// it is read into memory of the port's own.
    fn receive_open(&mut self, burst: &mut RxBurst<'_>) -> std::io::Result<bool> {
        let Some(tap) = &self.tap else {
            return Ok(false);
        };
        let mut header = [0; vnet::LEN];
        let Some(mut large) = burst.try_alloc(FRAME_LEN_MAX) else {
            let Some(len) = tap.recv_with_header(&mut header, &mut self.frame)? else {
                return Ok(false);
            };
            let left = left_open(&header, &mut self.frame[..len]);
            self.carried += u64::from(push_copy(burst, &self.frame[..len], left));
            return Ok(true);
        };
        let read = tap.recv_with_header(&mut header, large.bytes_mut());
        let Ok(Some(len)) = read else {
            burst.discard(large);
            return read.map(|_| false);
        };
        let left = left_open(&header, &mut large.bytes_mut()[..len]);
        if left.is_some_and(|left| !left.is_none()) && is_smallest(burst, &large, len) {
            let is_cut = large.set_len(len).is_ok();
            self.carried += u64::from(is_cut && push_open(burst, large, left));
        } else {
            self.carried += u64::from(push_copy(burst, &large.bytes()[..len], left));
            burst.discard(large);
        }
        Ok(true)
    }

    /// What became of a frame that was offered: whether it counts as sent, and whether the queue
    /// takes no more.
    fn outcome(&mut self, answer: std::io::Result<bool>, is_open: bool) -> (bool, bool) {
        match answer {
            Ok(true) => (true, false),
            Ok(false) => {
                self.queue_full += 1;
                (false, true)
            }
            Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => {
                // Of a frame with a header the kernel may refuse that, too.
                let count = if is_open {
                    &mut self.rejected
                } else {
                    &mut self.too_short
                };
                *count += 1;
                (false, false)
            }
            Err(error) => {
                self.note(&error);
                (false, true)
            }
        }
    }

    /// Sends packets with headers that say what is left open.
    fn send_open(&mut self, burst: &mut TxBurst<'_>) -> usize {
        let mut sent = 0;
        for packet in burst.packets() {
            let header = header_of(packet.bytes(), packet.offload());
            let answer = self.send(Some(&header), packet.bytes());
            let (is_sent, is_over) = self.outcome(answer, !packet.offload().is_none());
            sent += usize::from(is_sent);
            if is_over {
                break;
            }
        }
        sent
    }
}

/// What is left open of a frame behind its header, once what has to be completed is; none if the
/// two do not fit.
fn left_open(header: &[u8; vnet::LEN], frame: &mut [u8]) -> Option<Offload> {
    if frame.is_empty() {
        return None;
    }
    let is_small = frame.len() < CARRIED_LEN_MIN;
    match Said::parse(header).left(frame) {
        Left::Checksum if is_small && complete(frame) => Some(Offload::NONE),
        Left::ChecksumAt(start, offset) if complete_checksum(frame, start, offset).is_ok() => {
            Some(Offload::NONE)
        }
        left => left.carried(),
    }
}

/// Whether no smaller buffer than that one is there for so many bytes.
fn is_smallest(burst: &mut RxBurst<'_>, packet: &Packet, len: usize) -> bool {
    let Some(other) = burst.try_alloc(len) else {
        return true;
    };
    let is_smaller = other.buffer_log2() < packet.buffer_log2();
    burst.discard(other);
    !is_smaller
}

/// Receives a copy of a frame; says whether something is left open of it.
fn push_copy(burst: &mut RxBurst<'_>, frame: &[u8], left: Option<Offload>) -> bool {
    let packet = match left {
        None => {
            burst.drop_packet(DropReason::Malformed);
            None
        }
        Some(left) if left.is_none() => burst.alloc(frame.len()).ok(),
        // A buffer to itself: of what shares one nothing is left open.
        Some(_) => {
            let packet = burst.try_alloc(frame.len());
            if packet.is_none() {
                burst.drop_packet(DropReason::NoBuffer);
            }
            packet
        }
    };
    let Some(mut packet) = packet else {
        return false;
    };
    packet.bytes_mut().copy_from_slice(frame);
    push_open(burst, packet, left)
}

/// Receives a packet of which so much is left open; says whether that is anything.
fn push_open(burst: &mut RxBurst<'_>, mut packet: Packet, left: Option<Offload>) -> bool {
    let left = left.unwrap_or(Offload::NONE);
    if packet.set_offload(left).is_err() {
        burst.discard(packet);
        burst.drop_packet(DropReason::TooLarge);
        return false;
    }
    burst.push(packet);
    !left.is_none()
}

impl Port for TapPort {
    fn rx(&mut self, burst: &mut RxBurst<'_>, _now: Nanos) -> RxState {
        while burst.room() > 0 {
            let received = if self.carries {
                self.receive_open(burst)
            } else {
                self.receive_whole(burst)
            };
            match received {
                Ok(true) => {}
                Ok(false) => return RxState::Idle,
                Err(error) => {
                    self.note(&error);
                    return RxState::Idle;
                }
            }
        }
        RxState::More
    }

    fn tx(&mut self, burst: &mut TxBurst<'_>, _now: Nanos) -> usize {
        if self.tap.is_none() {
            self.down += burst.count() as u64;
            return 0;
        }
        if self.carries {
            return self.send_open(burst);
        }
        let (mut sent, mut is_over) = (0, false);
        burst.read(|bytes| {
            if !is_over {
                let answer = self.send(None, bytes);
                let is_sent;
                (is_sent, is_over) = self.outcome(answer, false);
                sent += usize::from(is_sent);
            }
        });
        sent
    }

    fn reap(&mut self, _buffers: &mut Buffers<'_>, now: Nanos) {
        if self.tap.is_none()
            && let Some(index) = self.attachment.is_back(&self.name, now)
        {
            let opened = Tap::attach_to(&self.name, index, self.options).map_err(failed);
            let opened = opened.and_then(|tap| set_up(&self.config, tap, self.options));
            self.tap = self.attachment.regained(opened);
        }
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.tap.as_ref().map(Tap::fd)
    }

    fn close(&mut self) -> Result<(), PortError> {
        let refusal = self.attachment.close();
        self.failure.take().or(refusal).map_or(Ok(()), Err)
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        out.extend([
            ("interface_down", self.down),
            ("too_short", self.too_short),
            ("queue_full", self.queue_full),
            ("rejected", self.rejected),
            (COUNTERS[0], self.carried),
        ]);
        out.extend(self.attachment.counters());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn wrong_configurations_name_the_field() {
        for (config, path) in [
            (json!({}), "name"),
            (json!({ "name": "" }), "name"),
            (json!({ "name": "a234567890123456" }), "name"),
            (json!({ "name": "tap0", "mtu": 67 }), "mtu"),
            (json!({ "name": "tap0", "mtu": 65_522 }), "mtu"),
            (json!({ "name": "tap0", "up": 1 }), "up"),
            (json!({ "name": "tap0", "down": true }), "down"),
        ] {
            let errors = (KIND.check)(&config).unwrap_err();
            let error = &errors[0];
            assert!(
                error.path == path || error.message.contains(path),
                "{config}: {error}"
            );
        }
        let role = (KIND.check)(&json!({ "name": "tap%d", "mtu": 9000, "up": false })).unwrap();
        assert!(role.receives && role.sends);
    }
}
