//! `onu_mac`: the MAC of an ONU and its fibre.
//!
//! The first link to it in the chain file comes from the PON, the others from its users. Frames of
//! users wait in the NF's own memory for a granted slot; in between the ONU is silent. Frames from
//! the PON for its LLID, and broadcasts, go to the output `user`. Frames of users that come before
//! the ONU is registered wait; those that the queue has no room for are dropped as `no_buffer`.
//!
//! A slot whose time is over before this NF runs is used late: its frames carry the instants of the
//! slot, and the lateness is counted (`late_us_max`).

use catena_engine::config::{ConfigError, ConfigErrors, parse_config};
use catena_engine::nf::{
    BuiltNf, Burst as PacketBurst, DropReason, Emission, Inputs, Nanos, Nf, NfKind, NfPlan,
};
use catena_engine::own_counters::CounterSink;
use catena_engine::units::{ByteSize, Span};
use catena_pcs::llid::{Accept, BROADCAST, MODE};
use catena_wire::ethernet::MacAddr;
use catena_wire::mpcp;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::burst_time::{frame_octets, quanta_to};
use super::super::onu::{Burst, Onu, Params, Purpose, State};
use super::super::{quanta_of_us, simulate::FIBRE_PS_PER_M, simulate::QUANTUM_PS};
use super::frame_queue::FrameQueue;
use super::pon_packet::{
    FRAME_LEN_MAX, MORE_FOLLOW, MPCPDU_PACKET_LEN, PON_HEADER_LEN, PonPacket, copy_parts,
    write_frame, write_mpcpdu,
};
use super::sides::{PON, USER, end_each};
use super::stream_time::{nanos_at, quanta_at, widen};

/// Longest fibre.
const DISTANCE_M_MAX: u32 = 100_000;
/// Limits of a queue: some of the longest frames, and what a slot could not empty in a minute.
const QUEUE_LIMITS: (u64, u64) = (16 << 10, 64 << 20);
/// What eight bits of quanta say.
const LASER_NS_MAX: u64 = u8::MAX as u64 * mpcp::QUANTUM_NS;
/// How often timers are looked at.
const TIMER_QUANTA: u64 = quanta_of_us(10_000);

/// Settings of `onu_mac`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// Its address; each ONU of a PON has another.
    mac: String,
    /// Length of the fibre to it, in metres; at most 100000.
    #[serde(default = "distance_m")]
    distance_m: u32,
    /// Memory for frames that wait for a slot: 16KiB to 64MiB.
    #[serde(default = "queue")]
    queue: ByteSize,
    /// Time that its laser takes to turn on.
    #[serde(default = "laser")]
    laser_on: Span,
    /// Time that its laser takes to turn off.
    #[serde(default = "laser")]
    laser_off: Span,
    /// Seed of its random waits in discovery windows; without it, its address.
    seed: Option<u64>,
}

fn distance_m() -> u32 {
    1000
}

fn laser() -> Span {
    Span { ns: 512 }
}

fn queue() -> ByteSize {
    ByteSize { bytes: 1 << 20 }
}

/// A burst that is being sent.
#[derive(Debug)]
struct Sending {
    burst: Burst,
    llid: u16,
    /// What its MPCPDU says of the queue; none once it is sent.
    queued: Option<u64>,
    /// Frames still to send.
    frames: usize,
    /// Octets sent.
    octets: u64,
}

#[derive(Debug)]
struct OnuMac {
    onu: Onu,
    mac: MacAddr,
    /// Quanta that light takes from the OLT.
    fibre: u64,
    upstream: FrameQueue,
    downstream: FrameQueue,
    sending: Option<Sending>,
    next_timer: u64,
    bursts: u64,
    frames_up: u64,
    frames_down: u64,
    queue_full: u64,
    malformed: u64,
    foreign: u64,
    late_ns_max: u64,
}

impl OnuMac {
    /// A packet from the PON; gives why it is dropped.
    fn hear_pon(&mut self, bytes: &[u8], now: u64) -> DropReason {
        let Ok(packet) = PonPacket::parse(bytes) else {
            self.malformed += 1;
            return DropReason::Malformed;
        };
        let accept = Accept::Onu(self.onu.llid().unwrap_or(BROADCAST));
        if !accept.takes(packet.llid) {
            self.foreign += 1;
            return DropReason::Consumed;
        }
        let arrival = widen(packet.instant, now) + self.fibre;
        if let Some(pdu) = &packet.mpcpdu {
            let llid = packet.llid & !MODE;
            let was = self.onu.state();
            self.onu.handle(llid, packet.dst, pdu, arrival);
            if was == State::Registered && self.onu.state() == State::Unregistered {
                self.sending = None;
            }
            return DropReason::Consumed;
        }
        if self.onu.state() != State::Registered {
            self.foreign += 1;
            return DropReason::Consumed;
        }
        if !self.downstream.push(packet.frame, arrival, 0) {
            self.queue_full += 1;
            return DropReason::NoBuffer;
        }
        DropReason::Consumed
    }

    fn hear_user(&mut self, frame: &[u8], now: u64) -> DropReason {
        if !(catena_wire::ethernet::HEADER_LEN..=FRAME_LEN_MAX).contains(&frame.len()) {
            return DropReason::TooLarge;
        }
        if !self.upstream.push(frame, now, 0) {
            self.queue_full += 1;
            return DropReason::NoBuffer;
        }
        DropReason::Consumed
    }

    fn give_to_user(&mut self, out: &mut Emission<'_>, now: u64) {
        while let Some((frame, parts)) = self.downstream.front() {
            if frame.at > now || !out.send(USER, frame.len, 0, |bytes| copy_parts(bytes, parts)) {
                return;
            }
            self.downstream.pop();
            self.frames_down += 1;
        }
    }

    /// Begins the burst whose light reaches the OLT now.
    fn begin_burst(&mut self, now: u64) -> bool {
        let sent_at = now.saturating_sub(self.fibre);
        let Some(burst) = self.onu.take_burst(sent_at) else {
            return false;
        };
        let late = sent_at.saturating_sub(burst.laser_on) * mpcp::QUANTUM_NS;
        self.late_ns_max = self.late_ns_max.max(late);
        self.bursts += 1;
        let room = burst.octets.saturating_sub(frame_octets(0));
        let (frames, octets) = match burst.purpose {
            Purpose::Frames => self.upstream.fitting(room, burst.laser_on),
            Purpose::Request | Purpose::Confirm => (0, 0),
        };
        self.sending = Some(Sending {
            llid: self.onu.llid().unwrap_or(BROADCAST),
            queued: Some(self.upstream.octets() - octets),
            frames,
            octets: 0,
            burst,
        });
        true
    }

    /// Sends what the links take of the burst; true once it is sent.
    fn send_burst(&mut self, out: &mut Emission<'_>) -> bool {
        let Some(sending) = &mut self.sending else {
            return true;
        };
        // Instants at the OLT's end of the fibre.
        let first = sending.burst.first_octet + self.fibre;
        if let Some(queued) = sending.queued {
            let pdu = self.onu.message(&sending.burst, queued);
            let (llid, mac) = (sending.llid, self.mac);
            let tag = more_follow(sending.frames > 0);
            let sent = out.send(PON, MPCPDU_PACKET_LEN, tag, |bytes| {
                write_mpcpdu(
                    bytes,
                    (first as u32, llid),
                    mpcp::DST,
                    mac,
                    pdu.timestamp,
                    pdu.message,
                );
            });
            if !sent {
                return false;
            }
            sending.queued = None;
            sending.octets = frame_octets(0);
        }
        while sending.frames > 0 {
            let Some((frame, parts)) = self.upstream.front() else {
                break;
            };
            let instant = (first + quanta_to(sending.octets)) as u32;
            let llid = sending.llid;
            let len = PON_HEADER_LEN + frame.len;
            let tag = more_follow(sending.frames > 1);
            if !out.send(PON, len, tag, |bytes| {
                write_frame(bytes, (instant, llid), parts);
            }) {
                return false;
            }
            sending.octets += frame_octets(frame.len);
            sending.frames -= 1;
            self.upstream.pop();
            self.frames_up += 1;
        }
        self.sending = None;
        true
    }
}

/// The tag of a packet of a burst.
const fn more_follow(they_do: bool) -> u16 {
    if they_do { MORE_FOLLOW } else { 0 }
}

impl Nf for OnuMac {
    fn process(&mut self, burst: &mut PacketBurst<'_>, now: Nanos) {
        let now = quanta_at(now);
        end_each(burst, |bytes, is_pon| match is_pon {
            true => self.hear_pon(bytes, now),
            false => self.hear_user(bytes, now),
        });
    }

    fn ends_paths(&self) -> bool {
        true
    }

    fn emit(&mut self, out: &mut Emission<'_>, now: Nanos) -> Option<Nanos> {
        let now = quanta_at(now);
        if now >= self.next_timer {
            self.next_timer = now + TIMER_QUANTA;
            if self.onu.poll(now).is_some() {
                self.sending = None;
            }
        }
        self.give_to_user(out, now);
        while self.send_burst(out) && self.begin_burst(now) {}
        let slot = self.onu.next_slot().map(|slot| slot + self.fibre);
        let user = self.downstream.front().map(|(frame, _)| frame.at);
        let next = [slot, user].into_iter().flatten().min();
        Some(nanos_at(
            next.unwrap_or(self.next_timer).min(self.next_timer),
        ))
    }

    fn holds_packets(&self) -> bool {
        self.sending.is_some() || !self.upstream.is_empty() || !self.downstream.is_empty()
    }

    fn control(&mut self, request: &Value) -> Result<Value, String> {
        if request != &json!("show") {
            return Err("onu_mac answers to \"show\"".to_owned());
        }
        let state = format!("{:?}", self.onu.state()).to_lowercase();
        Ok(json!({
            "state": state,
            "llid": self.onu.llid(),
            "queue_octets": self.upstream.octets(),
            "counters": Value::from_iter(self.report()),
        }))
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        let onu = self.onu.counters();
        out.extend([
            (
                "registered",
                u64::from(self.onu.state() == State::Registered),
            ),
            ("registrations", onu.registrations),
            ("requests", onu.requests),
            ("grants", onu.grants),
            ("grants_late", onu.grants_late),
            ("grants_refused", onu.grants_refused),
            ("timeouts", onu.timeouts),
            ("drifts", onu.drifts),
            ("deregistrations", onu.deregistrations),
            ("bursts", self.bursts),
            ("frames_up", self.frames_up),
            ("frames_down", self.frames_down),
            ("queue_full", self.queue_full),
            ("malformed", self.malformed),
            ("foreign", self.foreign),
            ("late_us_max", self.late_ns_max / 1000),
        ]);
    }
}

/// A configuration that makes sense, and the address that it gives.
fn checked(config: &Value) -> Result<(Config, MacAddr), ConfigErrors> {
    let config: Config = parse_config(config)?;
    let mut errors = Vec::new();
    let mac: MacAddr = config.mac.parse().unwrap_or_default();
    if mac == MacAddr::default() || mac.is_multicast() {
        errors.push(ConfigError::new(
            "mac",
            format!("\"{}\" is not the address of a station", config.mac),
            "write one like 02:00:00:00:01:01",
        ));
    }
    if config.distance_m > DISTANCE_M_MAX {
        errors.push(ConfigError::new(
            "distance_m",
            format!("{} m is too far", config.distance_m),
            format!("write at most {DISTANCE_M_MAX}"),
        ));
    }
    if !(QUEUE_LIMITS.0..=QUEUE_LIMITS.1).contains(&config.queue.bytes) {
        errors.push(ConfigError::new(
            "queue",
            format!("{} bytes are out of range", config.queue.bytes),
            "write 16KiB to 64MiB",
        ));
    }
    for (path, span) in [
        ("laser_on", config.laser_on),
        ("laser_off", config.laser_off),
    ] {
        if span.ns > LASER_NS_MAX {
            errors.push(ConfigError::new(
                path,
                format!("{} ns is too long for a laser", span.ns),
                format!("write at most {LASER_NS_MAX} ns"),
            ));
        }
    }
    match errors.is_empty() {
        true => Ok((config, mac)),
        false => Err(errors),
    }
}

fn build(config: &Value) -> Result<BuiltNf, ConfigErrors> {
    let (config, mac) = checked(config)?;
    let [.., a, b, c, d] = mac.0;
    let seed = config.seed;
    let quanta = |span: Span| u8::try_from(span.ns.div_ceil(mpcp::QUANTUM_NS)).unwrap_or(u8::MAX);
    let params = Params {
        mac,
        laser_on: quanta(config.laser_on),
        laser_off: quanta(config.laser_off),
        seed: seed.unwrap_or_else(|| u64::from(u32::from_be_bytes([a, b, c, d]))),
        ..Params::default()
    };
    let queue = usize::try_from(config.queue.bytes).unwrap_or(usize::MAX);
    let fibre_ps = u64::from(config.distance_m) * FIBRE_PS_PER_M;
    let nf = OnuMac {
        onu: Onu::new(params),
        mac,
        fibre: (fibre_ps + QUANTUM_PS / 2) / QUANTUM_PS,
        upstream: FrameQueue::new(queue),
        downstream: FrameQueue::new(queue),
        sending: None,
        next_timer: 0,
        bursts: 0,
        frames_up: 0,
        frames_down: 0,
        queue_full: 0,
        malformed: 0,
        foreign: 0,
        late_ns_max: 0,
    };
    Ok(BuiltNf::new(nf))
}

/// Names of its counters.
const COUNTERS: &[&str] = &[
    "registered",
    "registrations",
    "requests",
    "grants",
    "grants_late",
    "grants_refused",
    "timeouts",
    "drifts",
    "deregistrations",
    "bursts",
    "frames_up",
    "frames_down",
    "queue_full",
    "malformed",
    "foreign",
    "late_us_max",
];

/// The chain file's entry.
pub const KIND: NfKind = NfKind {
    name: "onu_mac",
    summary: "MAC of an EPON ONU: sends users' frames in the slots that its OLT grants",
    example: r#"{"mac": "02:00:00:00:01:01"}"#,
    schema: || schemars::schema_for!(Config),
    plan: |config, _outputs| {
        checked(config)?;
        let plan = NfPlan::new().inputs(Inputs::Ending).allocates();
        let plan = plan.requests([(
            r#""show""#,
            "state, LLID, octets in the queue, and counters",
        )]);
        Ok(plan.outputs(["pon", "user"]).counters(COUNTERS))
    },
    build: |config, _context| build(config),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_are_left_out_are_those_of_the_reference() {
        let required = json!({"mac": "02:00:00:00:01:01"});
        crate::documented::assert_defaults::<Config>("onu_mac", &required);
    }
}
