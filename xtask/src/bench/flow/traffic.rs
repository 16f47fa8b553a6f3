//! Packets of a program's flows, and a program that they go through: what `programs` measures.
//!
//! A packet is made outside the time that counts, and goes through the program as in the NF: header
//! parsing, key, lookup of the burst, code, storing, verdict. Ports and links are no part of it.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use catena_flow::efsm::source::load;
use catena_flow::nf::EXPIRY_BUDGET;
use catena_flow::program::frame::Buffer;
use catena_flow::program::header::Headers;
use catena_flow::program::ir::{Program, Verdict, WhenFull};
use catena_flow::program::layout::{Layout, Portion};
use catena_flow::program::run::{Arrival, Compiled, Decision, Loaded, Running};
use catena_flow::program::template::fill_checksums;
use catena_measure::stats::random::Random;
use catena_shm::region::{Region, Sharing};

use super::workload::{BURST, BURSTS, fastest};

/// A program of `crates/flow/programs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sample {
    /// Packets of UDP, each source within its rate.
    Policer,
    /// Packets of TCP connections from clients.
    Balancer,
    /// Packets of terminals to the edge, in their tunnels.
    Offload,
}

impl Sample {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Policer => "policer",
            Self::Balancer => "balancer",
            Self::Offload => "offload",
        }
    }

    /// The program, for so many flows; new ones beyond that replace the oldest of their bucket.
    pub(super) fn program(self, flows: u32) -> Result<Program, String> {
        let text = match self {
            Self::Policer => include_str!("../../../../crates/flow/programs/policer.yaml"),
            Self::Balancer => include_str!("../../../../crates/flow/programs/load_balancer.yaml"),
            Self::Offload => include_str!("../../../../crates/flow/programs/gtp_offload.yaml"),
        };
        let (mut found, _) = load(self.name(), text).map_err(|errors| errors.to_string())?;
        let mut program = found.remove(0).compiled.program;
        for flows_of in program.elements.iter_mut().flat_map(|one| &mut one.flows) {
            flows_of.shape.capacity = flows;
            flows_of.when_full = WhenFull::EvictOldest;
        }
        Ok(program)
    }

    /// A packet of a flow: the one that makes it, or a later one. With its input.
    fn packet(self, flow: u64, is_first: bool) -> (u8, Vec<u8>) {
        let host = (flow as u32 & 0x00ff_ffff | 0x0b00_0000).to_be_bytes();
        let port = (1024 + (flow >> 24) % 50_000) as u16;
        match self {
            Self::Policer => (0, sealed(&udp(host, [9, 9, 9, 9], [port, 53], &[0; 18]))),
            Self::Balancer => {
                let flags = if is_first { 0x02 } else { 0x10 };
                (0, sealed(&tcp(host, [10, 0, 0, 100], [port, 80], flags)))
            }
            Self::Offload => {
                let server = [203, 0, 113, 9];
                let (from, to) = if is_first {
                    (server, host)
                } else {
                    (host, server)
                };
                let inner = udp(from, to, [port, 53], &[]);
                let mut tunnel = vec![0x30, 0xff];
                tunnel.extend((inner.len() as u16).to_be_bytes());
                tunnel.extend((flow as u32).to_be_bytes());
                tunnel.extend(inner);
                let (core, radio) = ([10, 1, 0, 1], [10, 2, 0, 1]);
                let (from, to) = if is_first {
                    (core, radio)
                } else {
                    (radio, core)
                };
                (
                    u8::from(is_first),
                    sealed(&udp(from, to, [2152, 2152], &tunnel)),
                )
            }
        }
    }
}

fn ipv4(protocol: u8, src: [u8; 4], dst: [u8; 4], rest: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((20 + rest.len() as u16).to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
    packet.extend([src, dst].concat());
    packet.extend(rest);
    packet
}

fn udp(src: [u8; 4], dst: [u8; 4], ports: [u16; 2], rest: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::new();
    for word in [ports[0], ports[1], 8 + rest.len() as u16, 0] {
        datagram.extend(word.to_be_bytes());
    }
    datagram.extend(rest);
    ipv4(17, src, dst, &datagram)
}

fn tcp(src: [u8; 4], dst: [u8; 4], ports: [u16; 2], flags: u8) -> Vec<u8> {
    let mut segment = Vec::new();
    ports
        .iter()
        .for_each(|port| segment.extend(port.to_be_bytes()));
    segment.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, flags, 1, 0, 0, 0, 0, 0]);
    ipv4(6, src, dst, &segment)
}

/// In Ethernet, padded to 60 bytes, with all checksums.
fn sealed(packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend(packet);
    frame.resize(frame.len().max(60), 0);
    let headers = Headers::parse(&frame);
    fill_checksums(&mut frame, &headers);
    frame
}

/// What comes to a program whose table is full of flows.
pub(super) struct Traffic {
    running: Running<Portion<Region>>,
    sample: Sample,
    flows: u64,
    next: u64,
    random: Random,
    now_ns: u64,
    bursts: u64,
    inputs: [u8; BURSTS],
    frames: Vec<Buffer>,
    /// Packets that were dropped.
    dropped: u64,
    elements: usize,
}

impl Traffic {
    /// All flows made.
    pub(super) fn new(
        sample: Sample,
        flows: u32,
        compiled: Option<Box<dyn Compiled>>,
    ) -> Result<Self, String> {
        let program = sample.program(flows)?;
        let layout = Layout::of(&program);
        let region = Region::create_huge("flow-programs", layout.words * 8, Sharing::ReadOnly);
        let memory = Arc::new(region.map_err(|error| error.to_string())?);
        memory.prefault();
        let ground = layout.create(&program, &memory, || [0x5eed, 0xfeed], 0);
        let ground = ground.map_err(|error| error.to_string())?;
        let elements = program.elements.len();
        let mut traffic = Self {
            running: Running::new(Box::new(Loaded::new(program, compiled)), ground),
            sample,
            flows: u64::from(flows),
            next: 0,
            random: Random::new(1),
            now_ns: 1_000_000_000,
            bursts: 0,
            inputs: [0; BURSTS],
            frames: Vec::new(),
            dropped: 0,
            elements,
        };
        while traffic.next < traffic.flows {
            traffic.prepare(Some(1));
            traffic.run();
        }
        // A second packet brings each connection into its lasting state.
        for first in (0..traffic.flows).step_by(BURST * BURSTS) {
            let frames = (first..).take(BURST * BURSTS).map(|flow| (flow, false));
            traffic.lay_out(frames.collect());
            traffic.run();
        }
        traffic.dropped = 0;
        Ok(traffic)
    }

    fn lay_out(&mut self, packets: Vec<(u64, bool)>) {
        let sample = self.sample;
        self.frames.clear();
        for (at, (flow, is_first)) in packets.into_iter().enumerate() {
            let (input, frame) = sample.packet(flow, is_first);
            self.inputs[at / BURST] = input;
            self.frames.push(Buffer::new(&frame));
        }
    }

    /// Lays out a block of bursts: one burst in `new_in` is of new flows, all others of flows that
    /// are there.
    fn prepare(&mut self, new_in: Option<u64>) {
        let mut packets = Vec::with_capacity(BURST * BURSTS);
        for _ in 0..BURSTS {
            self.bursts += 1;
            let is_new = new_in.is_some_and(|one_in| self.bursts.is_multiple_of(one_in));
            for _ in 0..BURST {
                packets.push(if is_new {
                    self.next += 1;
                    (self.next - 1, true)
                } else {
                    let oldest = self.next.saturating_sub(self.flows);
                    (oldest + self.random.below(self.flows), false)
                });
            }
        }
        self.lay_out(packets);
    }

    /// What the NF does with a burst.
    fn run(&mut self) {
        let running = &mut self.running;
        for (frames, input) in self.frames.chunks_mut(BURST).zip(self.inputs) {
            self.now_ns += 5000;
            let arrival = Arrival {
                now_ns: self.now_ns,
                input,
            };
            for element in 0..self.elements {
                for (index, frame) in frames.iter_mut().enumerate() {
                    running.make_key(element, index, frame, arrival);
                }
                running.look_up(element, frames.len(), self.now_ns);
                for (index, frame) in frames.iter_mut().enumerate() {
                    running.step(element, index, frame, arrival);
                }
            }
            for index in 0..frames.len() {
                let (decision, _) = black_box(running.decision(index));
                let is_out = matches!(decision, Decision::Program(Verdict::Output(_)));
                self.dropped += u64::from(!is_out);
            }
        }
        for element in 0..self.elements {
            running.expire(element, self.now_ns, EXPIRY_BUDGET);
        }
    }

    /// Millions of packets per second. Most packets must pass, or this measures something else.
    pub(super) fn rate(&mut self, new_in: Option<u64>, time: Duration) -> Result<f64, String> {
        let (mut packets, before) = (0, self.dropped);
        let rate = fastest(time, || {
            self.prepare(new_in);
            packets += self.frames.len() as u64;
            let started = Instant::now();
            self.run();
            started.elapsed()
        });
        let dropped = self.dropped - before;
        if dropped * 5 > packets {
            return Err(format!("{dropped} of {packets} packets were dropped"));
        }
        Ok(rate)
    }
}
