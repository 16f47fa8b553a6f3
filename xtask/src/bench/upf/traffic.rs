//! Packets of UEs, through a UPF that is full of their sessions.
//!
//! A packet is made outside the time that counts, and goes through the UPF as in the NF: headers,
//! session, PDR, filters, QER, URR, FAR, headers. Ports and links are no part of it, and packets
//! are near the core when they come.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use catena_engine::packet::Packet;
use catena_measure::stats::random::Random;
use catena_upf::ahead::Ahead;
use catena_upf::decision::Decision;
use catena_upf::headers::Tunnel;
use catena_wire::gtpu::{self, MessageType};
use catena_wire::{ipv4, ipv6, udp};

use super::super::flow::workload::{BURST, BURSTS, fastest};
use super::smf::{GNB, N3, Session, Smf, datagram};

const ETHERNET: usize = catena_wire::ethernet::HEADER_LEN;
const HOST: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);
const HOST_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 9);
const HOST_PORT: u16 = 4000;
const UE_PORT: u16 = 40_000;
/// QFI of uplink packets.
const QFI: u8 = 9;

/// Where packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Uplink,
    Downlink,
}

impl Way {
    pub(super) const BOTH: [Self; 2] = [Self::Uplink, Self::Downlink];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Uplink => "uplink",
            Self::Downlink => "downlink",
        }
    }
}

/// Whose packets come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Each session's as often.
    Uniform,
    /// The session of rank k as often as 1/k.
    Zipf,
}

impl Pattern {
    pub(super) const BOTH: [Self; 2] = [Self::Uniform, Self::Zipf];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipf => "Zipf",
        }
    }

    /// One of `count` sessions; ranks are scattered over them.
    pub(super) fn draw(self, random: &mut Random, count: usize) -> usize {
        match self {
            Self::Uniform => random.below(count as u64) as usize,
            Self::Zipf => {
                let rank = (count as f64).powf(random.unit()) as usize - 1;
                scattered(rank, count)
            }
        }
    }
}

/// Each number below `count`, a power of ten, once: neighbours are far from each other.
fn scattered(at: usize, count: usize) -> usize {
    at.wrapping_mul(0x9e37_79b1) % count
}

/// A frame of a session's UE, of so many bytes of the user's packet.
pub(super) fn frame(session: &Session, way: Way, bytes: usize) -> Vec<u8> {
    let (host, headers): (IpAddr, _) = match session.ue {
        IpAddr::V4(_) => (HOST.into(), ipv4::HEADER_LEN_MIN + udp::HEADER_LEN),
        IpAddr::V6(_) => (HOST_V6.into(), ipv6::HEADER_LEN + udp::HEADER_LEN),
    };
    let payload = vec![0; bytes.saturating_sub(headers)];
    let (ue, host) = ((session.ue, UE_PORT), (host, HOST_PORT));
    match way {
        Way::Downlink => datagram(host, ue, &payload),
        Way::Uplink => {
            let user = datagram(ue, host, &payload);
            let tunnel = Tunnel::uplink(session.teid, Some(QFI));
            let mut message = vec![0; tunnel.len()];
            tunnel.emit(&mut message, MessageType::G_PDU, user.len() - ETHERNET);
            message.extend_from_slice(&user[ETHERNET..]);
            datagram((GNB, gtpu::PORT), (N3, gtpu::PORT), &message)
        }
    }
}

/// Packets of a block of bursts, in turn laid out and sent through.
pub(super) struct Traffic<'a> {
    smf: &'a mut Smf,
    random: Random,
    packets: Vec<Packet>,
    ahead: Ahead,
    /// Whether what a burst needs is fetched before it, as in the NF.
    pub(super) looks_ahead: bool,
    lost: u64,
}

impl<'a> Traffic<'a> {
    pub(super) fn new(smf: &'a mut Smf) -> Self {
        Self {
            smf,
            random: Random::new(1),
            packets: Vec::with_capacity(BURST * BURSTS),
            ahead: Ahead::default(),
            looks_ahead: true,
            lost: 0,
        }
    }

    fn prepare(&mut self, (way, pattern, bytes): (Way, Pattern, usize)) -> Result<(), String> {
        self.clear();
        for _ in 0..BURST * BURSTS {
            let at = pattern.draw(&mut self.random, self.smf.sessions.len());
            self.lay_out(at, way, bytes)?;
        }
        Ok(())
    }

    fn clear(&mut self) {
        for packet in self.packets.drain(..) {
            self.smf.pool.free(packet);
        }
    }

    fn lay_out(&mut self, session: usize, way: Way, bytes: usize) -> Result<(), String> {
        let frame = frame(&self.smf.sessions[session], way, bytes);
        self.packets.push(self.smf.packet(&frame)?);
        Ok(())
    }

    /// Millions of packets per second, where each is the first one of its session that goes this
    /// way: traffic starts with it, and what it brings is no more than the rest of it does.
    pub(super) fn first(&mut self, way: Way) -> Result<f64, String> {
        let count = self.smf.sessions.len();
        let (mut spent, mut next) = (Duration::ZERO, 0);
        while next < count {
            self.clear();
            for at in next..count.min(next + BURST * BURSTS) {
                self.lay_out(scattered(at, count), way, 64)?;
            }
            next += self.packets.len();
            let started = Instant::now();
            self.run();
            spent += started.elapsed();
        }
        match std::mem::take(&mut self.lost) {
            0 => Ok(count as f64 / spent.as_secs_f64() / 1e6),
            lost => Err(format!("{lost} packets did not pass")),
        }
    }

    /// What the NF does with bursts.
    fn run(&mut self) {
        for packets in self.packets.chunks_mut(BURST) {
            self.smf.pass();
            let Smf {
                upf,
                signals,
                now_ns,
                ..
            } = &mut *self.smf;
            let looks_ahead = self.looks_ahead && upf.looks_ahead();
            let ahead = &mut self.ahead;
            if looks_ahead {
                packets.iter().for_each(|packet| ahead.note(packet.bytes()));
                upf.fetch(ahead);
            }
            for (place, packet) in packets.iter_mut().enumerate() {
                if looks_ahead {
                    upf.come_to(ahead, place);
                }
                let decision = upf.packet(packet, signals, *now_ns);
                self.lost += u64::from(!matches!(decision, Decision::Send(_)));
            }
            if looks_ahead {
                upf.leave_behind(ahead);
            }
        }
    }

    /// Millions of packets per second. All must pass, or this measures something else.
    pub(super) fn rate(
        &mut self,
        what: (Way, Pattern, usize),
        time: Duration,
    ) -> Result<f64, String> {
        let mut fault = None;
        self.prepare(what)?;
        self.run();
        let rate = fastest(time, || {
            fault = self.prepare(what).err().or(fault.take());
            let started = Instant::now();
            self.run();
            started.elapsed()
        });
        match (fault, std::mem::take(&mut self.lost)) {
            (Some(fault), _) => Err(fault),
            (None, 0) => Ok(rate),
            (None, lost) => Err(format!("{lost} packets did not pass")),
        }
    }
}

impl Drop for Traffic<'_> {
    fn drop(&mut self) {
        self.clear();
    }
}
