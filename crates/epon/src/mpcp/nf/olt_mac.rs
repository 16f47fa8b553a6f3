//! `olt_mac`: the MAC of an OLT: finds ONUs, grants their bursts, judges what arrives.
//!
//! The first link to it in the chain file comes from the PON, the others from the network. Frames
//! from the network go to the ONU behind which their destination was last seen, or to all. Frames
//! from ONUs leave by `net`. A frame that arrives outside the slots of its ONU, by stream time, is
//! dropped as `malformed` and counted (`outside_slot`); so is the overlap of two ONUs (`overlaps`).
//!
//! Requests in a discovery window are judged when it is over and what links may add has passed:
//! those that overlap by stream time are lost, as they would be on a fibre.
//!
//! At the end of a chain it goes on until its ONUs have nothing left, those that are not registered
//! yet included; then it grants no more, and waits for the last slots to pass.

use std::collections::HashMap;

use catena_engine::config::{ConfigErrors, parse_config};
use catena_engine::nf::{BuiltNf, Burst, DropReason, Emission, Inputs, Nanos, Nf, NfKind, NfPlan};
use catena_engine::own_counters::CounterSink;
use catena_pcs::llid::{BROADCAST, MODE};
use catena_wire::ethernet::{self, MacAddr};
use catena_wire::mpcp::{Message, RegisterReq};
use serde_json::{Value, json};

use super::super::burst_time::{frame_octets, quanta_for, quanta_to};
use super::super::olt::{Olt, Outgoing};
use super::super::quanta_of_us;
use super::frame_queue::FrameQueue;
use super::pon_packet::{
    FRAME_LEN_MAX, MPCPDU_PACKET_LEN, PON_HEADER_LEN, PonPacket, copy_parts, write_frame,
    write_mpcpdu,
};
use super::receiver::{Receiver, Request};
use super::sides::{PON, USER, end_each};
use super::stream_time::{nanos_at, quanta_at, widen};

#[path = "olt_config.rs"]
mod config;

use config::Config;

/// Addresses of users whose ONU is remembered.
const USERS_MAX: usize = 8192;
/// Bytes of frames that wait in either direction.
const QUEUE_BYTES: usize = 4 << 20;
/// Frames downstream leave at most so far ahead of the clock.
const AHEAD: u64 = quanta_of_us(100);
/// At the end of a chain: so long after the last frame, and some windows, nobody has more.
const QUIET: u64 = quanta_of_us(50_000);
/// Discovery windows that an ONU may need which still holds frames.
const QUIET_WINDOWS: u64 = 2;
/// GATEs and answers that one such waits for, each as long as links may take: in the window, to be
/// registered, to report, and to send.
const QUIET_LEADS: u64 = 5;
/// What comes of the last slots is here so long after them, beside what links add.
const LAST_WORDS: u64 = quanta_of_us(10_000);
/// LLID of a frame for all.
const ALL: u16 = BROADCAST | MODE;

#[derive(Debug)]
struct OltMac {
    olt: Olt,
    mac: MacAddr,
    /// How late a packet from an ONU may be.
    lead: u64,
    is_started: bool,
    /// ONUs that must be registered before frames go downstream for the first time.
    wait_for: usize,
    /// When the downstream line is free.
    line_free: u64,
    /// The MPCPDU that found no room.
    unsent: Option<Outgoing>,
    receiver: Receiver,
    users: HashMap<[u8; 6], u16>,
    downstream: FrameQueue,
    upstream: FrameQueue,
    /// When a frame last came from either side.
    last_frame: u64,
    /// When the chain began to come to its end.
    draining_since: Option<u64>,
    /// Nobody has anything more to send: no grant from here on, and when the last one has passed.
    quiet_until: Option<u64>,
    /// That has passed, too.
    is_done: bool,
    frames_up: u64,
    frames_down: u64,
    collisions: u64,
    overlaps: u64,
    outside_slot: u64,
    malformed: u64,
    queue_full: u64,
    late_ns_max: u64,
}

impl OltMac {
    fn hear_pon(&mut self, bytes: &[u8], now: u64) -> DropReason {
        let Ok(packet) = PonPacket::parse(bytes) else {
            self.malformed += 1;
            return DropReason::Malformed;
        };
        let arrival = widen(packet.instant, now);
        let llid = packet.llid & !MODE;
        let end = arrival + quanta_to(frame_octets(packet.frame.len())) + 1;
        let late = now.saturating_sub(arrival) * catena_wire::mpcp::QUANTUM_NS;
        self.late_ns_max = self.late_ns_max.max(late);
        if let (Some(pdu), BROADCAST) = (packet.mpcpdu, llid) {
            let asks = matches!(pdu.message, Message::RegisterReq(request)
                if request.flags == RegisterReq::REGISTER);
            let request = Request {
                src: packet.src,
                pdu,
                arrival,
                end,
            };
            if !asks || !self.olt.is_in_window(arrival) {
                self.outside_slot += 1;
                return DropReason::Malformed;
            }
            self.collisions += u64::from(!self.receiver.keep(request));
            return DropReason::Consumed;
        }
        if !self.olt.is_granted(llid, arrival, end) {
            self.outside_slot += 1;
            if let Some(pdu) = &packet.mpcpdu {
                // It may have missed the end of its registration, and is told.
                self.olt.handle(llid, packet.src, pdu, arrival, now);
            }
            return DropReason::Malformed;
        }
        self.overlaps += u64::from(self.receiver.hear(llid, arrival, end));
        if let Some(pdu) = &packet.mpcpdu {
            self.olt.handle(llid, packet.src, pdu, arrival, now);
            return DropReason::Consumed;
        }
        self.learn(packet.src, llid);
        self.last_frame = now;
        if !self.upstream.push(packet.frame, now, llid) {
            self.queue_full += 1;
            return DropReason::NoBuffer;
        }
        DropReason::Consumed
    }

    /// Remembers behind which ONU a user is.
    fn learn(&mut self, user: MacAddr, llid: u16) {
        if user.is_multicast() {
            return;
        }
        let is_full = self.users.len() >= USERS_MAX;
        if let Some(known) = self.users.get_mut(&user.0) {
            *known = llid;
        } else if !is_full {
            self.users.insert(user.0, llid);
        }
    }

    fn hear_net(&mut self, frame: &[u8], now: u64) -> DropReason {
        if !(ethernet::HEADER_LEN..=FRAME_LEN_MAX).contains(&frame.len()) {
            return DropReason::TooLarge;
        }
        let mut dst = [0; 6];
        dst.copy_from_slice(&frame[..6]);
        let known = self.users.get(&dst).copied();
        let llid = known.filter(|llid| self.olt.station(*llid).is_some());
        self.last_frame = now;
        if !self.downstream.push(frame, now, llid.unwrap_or(ALL)) {
            self.queue_full += 1;
            return DropReason::NoBuffer;
        }
        DropReason::Consumed
    }

    /// MPCPDUs go before frames. Gives when there may be more.
    fn send_control(&mut self, out: &mut Emission<'_>, now: u64) -> u64 {
        loop {
            let Some(next) = self.unsent.take().or_else(|| self.olt.poll(now)) else {
                return self.olt.next_due();
            };
            let at = self.line_free.max(now);
            let (mac, timestamp) = (self.mac, at as u32);
            // What is for an ONU that has no LLID yet goes to all, and is for its address.
            let llid = if next.llid == BROADCAST {
                ALL
            } else {
                next.llid
            };
            let sent = out.send(PON, MPCPDU_PACKET_LEN, 0, |bytes| {
                write_mpcpdu(
                    bytes,
                    (timestamp, llid),
                    next.dst,
                    mac,
                    timestamp,
                    next.message,
                );
            });
            if !sent {
                self.unsent = Some(next);
                return now;
            }
            self.line_free = at + quanta_for(frame_octets(0));
        }
    }

    fn send_frames(&mut self, out: &mut Emission<'_>, now: u64) {
        if self.olt.registered() >= self.wait_for {
            self.wait_for = 0;
        }
        while let Some((frame, parts)) = self.downstream.front().filter(|_| self.wait_for == 0) {
            let at = self.line_free.max(now);
            if at > now + AHEAD {
                break;
            }
            let len = PON_HEADER_LEN + frame.len;
            if !out.send(PON, len, 0, |bytes| {
                write_frame(bytes, (at as u32, frame.note), parts);
            }) {
                break;
            }
            self.line_free = at + quanta_to(frame_octets(frame.len)) + 1;
            self.downstream.pop();
            self.frames_down += 1;
        }
        while let Some((frame, parts)) = self.upstream.front() {
            if !out.send(USER, frame.len, frame.note, |bytes| {
                copy_parts(bytes, parts);
            }) {
                break;
            }
            self.upstream.pop();
            self.frames_up += 1;
        }
    }

    /// Requests of a window that is over.
    fn judge_requests(&mut self, now: u64) {
        let is_over = self
            .olt
            .window_end()
            .is_some_and(|end| now > end + self.lead);
        if self.receiver.has_requests() && is_over {
            let olt = &mut self.olt;
            self.collisions += self.receiver.judge(|request| {
                olt.handle(BROADCAST, request.src, &request.pdu, request.arrival, now);
            });
        }
    }

    /// Whether no ONU has anything left to send. Each had time to report since the chain began to
    /// come to its end.
    fn is_idle(&mut self, now: u64) -> bool {
        let since = *self.draining_since.get_or_insert(now);
        // A window opens when the last is judged: a lead until it comes, and one after it.
        let window = self.olt.params().discovery_period.max(2 * self.lead);
        let pause = QUIET + QUIET_WINDOWS * window + QUIET_LEADS * self.lead;
        now > self.last_frame.max(since) + pause
            && self.olt.stations().all(|station| station.demand() == 0)
            && self.upstream.is_empty()
            && self.downstream.is_empty()
    }
}

impl Nf for OltMac {
    fn process(&mut self, burst: &mut Burst<'_>, now: Nanos) {
        let now = quanta_at(now);
        end_each(burst, |bytes, is_pon| match is_pon {
            true => self.hear_pon(bytes, now),
            false => self.hear_net(bytes, now),
        });
    }

    fn ends_paths(&self) -> bool {
        true
    }

    fn emit(&mut self, out: &mut Emission<'_>, now: Nanos) -> Option<Nanos> {
        let now = quanta_at(now);
        if !std::mem::replace(&mut self.is_started, true) {
            self.olt.start(now);
            self.last_frame = now;
        }
        if out.is_draining() && (self.quiet_until.is_some() || self.is_idle(now)) {
            let last = self.olt.granted_until().max(now) + self.lead + LAST_WORDS;
            let until = *self.quiet_until.get_or_insert(last);
            self.is_done |= now > until;
            return Some(nanos_at(until + 1)).filter(|_| !self.is_done);
        }
        self.judge_requests(now);
        let due = self.send_control(out, now);
        self.send_frames(out, now);
        while self.olt.next_event().is_some() {}
        let window = self.olt.window_end().map(|end| end + self.lead + 1);
        let judged = window.filter(|_| self.receiver.has_requests());
        let waits = !self.downstream.is_empty() || !self.upstream.is_empty();
        let next = due.min(judged.unwrap_or(due));
        Some(nanos_at(if waits { now + 1 } else { next.max(now + 1) }))
    }

    fn holds_packets(&self) -> bool {
        self.is_started && !self.is_done
    }

    fn control(&mut self, request: &Value) -> Result<Value, String> {
        if request != &json!("show") {
            return Err("olt_mac answers to \"show\"".to_owned());
        }
        let onus: Vec<Value> = self
            .olt
            .stations()
            .map(|station| {
                json!({
                    "llid": station.llid,
                    "mac": station.mac.to_string(),
                    "registered": station.registered,
                    "rtt_quanta": station.rtt,
                    "reported_quanta": station.demand(),
                })
            })
            .collect();
        let counters = Value::from_iter(self.report());
        Ok(json!({ "onus": onus, "counters": counters }))
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        let olt = self.olt.counters();
        out.extend([
            ("registered", self.olt.registered() as u64),
            ("registrations", olt.registrations),
            ("deregistrations", olt.deregistrations),
            ("refused", olt.refused),
            ("windows", olt.windows),
            ("collisions", self.collisions),
            ("grants", olt.grants),
            ("reports", olt.reports),
            ("reports_missed", olt.reports_missed),
            ("reports_unsolicited", olt.reports_unsolicited),
            ("unexpected", olt.unexpected),
            ("frames_up", self.frames_up),
            ("frames_down", self.frames_down),
            ("overlaps", self.overlaps),
            ("outside_slot", self.outside_slot),
            ("malformed", self.malformed),
            ("queue_full", self.queue_full),
            ("late_us_max", self.late_ns_max / 1000),
        ]);
    }
}

fn build(config: &Value) -> Result<BuiltNf, ConfigErrors> {
    let config: Config = parse_config(config)?;
    let mac = config.mac()?;
    let olt = config.olt()?;
    let lead = u64::from(olt.params().lead);
    let nf = OltMac {
        olt,
        mac,
        lead,
        is_started: false,
        wait_for: config.wait_for,
        line_free: 0,
        unsent: None,
        receiver: Receiver::new(),
        users: HashMap::with_capacity(USERS_MAX),
        downstream: FrameQueue::new(QUEUE_BYTES),
        upstream: FrameQueue::new(QUEUE_BYTES),
        last_frame: 0,
        draining_since: None,
        quiet_until: None,
        is_done: false,
        frames_up: 0,
        frames_down: 0,
        collisions: 0,
        overlaps: 0,
        outside_slot: 0,
        malformed: 0,
        queue_full: 0,
        late_ns_max: 0,
    };
    Ok(BuiltNf::new(nf))
}

/// Names of its counters.
const COUNTERS: &[&str] = &[
    "registered",
    "registrations",
    "deregistrations",
    "refused",
    "windows",
    "collisions",
    "grants",
    "reports",
    "reports_missed",
    "reports_unsolicited",
    "unexpected",
    "frames_up",
    "frames_down",
    "overlaps",
    "outside_slot",
    "malformed",
    "queue_full",
    "late_us_max",
];

/// The chain file's entry.
pub const KIND: NfKind = NfKind {
    name: "olt_mac",
    summary: "MAC of an EPON OLT: finds ONUs and grants their bursts (MPCP, IPACT)",
    example: r#"{"mac": "02:00:00:00:00:01"}"#,
    schema: || schemars::schema_for!(Config),
    plan: |config, _outputs| {
        let config: Config = parse_config(config)?;
        config.mac()?;
        config.olt()?;
        let plan = NfPlan::new().inputs(Inputs::Ending).allocates();
        let plan = plan.requests([(
            r#""show""#,
            "ONUs with their round trips and reports, and counters",
        )]);
        Ok(plan.outputs(["pon", "net"]).counters(COUNTERS))
    },
    build: |config, _context| build(config),
};
