//! The programs that `flow-programs` measures, and the packets of their flows.
//!
//! Before anything is measured: programs come from the chains that ship, and from the files of
//! which they are made. A flow is a number, and its packets follow from it.
//!
//! SPDX-License-Identifier: Apache-2.0

use catena_flow::efsm::source::load;
use catena_flow::program::header::Headers;
use catena_flow::program::ir::{Program, WhenFull};
use catena_flow::program::template::fill_checksums;

/// Bytes of a frame that the card adds.
const FCS: usize = 4;
/// Address of the first flow's host; the others follow, as far as 27.0.0.0.
const FIRST_HOST: u32 = 0x0b00_0000;
/// The service of the balancers.
const SERVICE: [u8; 4] = [10, 0, 0, 100];
/// A server of the edge, and one that is not.
const EDGE: [u8; 4] = [203, 0, 113, 9];
const ELSEWHERE: [u8; 4] = [9, 9, 9, 9];
const CORE: [u8; 4] = [10, 1, 0, 1];
const RADIO: [u8; 4] = [10, 2, 0, 1];
const GTPU: u16 = 2152;
const PORT: u16 = 4000;
/// Headers in front of a payload: Ethernet, IPv4, UDP or TCP; and with a tunnel around.
const UDP: usize = 14 + 20 + 8;
const TCP: usize = 14 + 20 + 20;
const TUNNEL: usize = UDP + 8 + 20 + 8;

/// A program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sample {
    /// `chains/flow-policer.yaml`, with an interval that lets packets pass.
    Policer,
    /// `chains/flow-balancer.yaml`.
    Balancer,
    /// `chains/flow-offload.yaml`.
    Offload,
    /// The policer as FlowBlaze's state machine writes it.
    States,
    /// FB5G's balancer: TCP, IPv4, round robin.
    RoundRobin,
    /// The offload that learns from downlink packets alone.
    Passive,
}

/// A packet in the life of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The one that makes it.
    First,
    /// The answer of the server that a balancer has chosen.
    Answer([u8; 4]),
    /// Any later one.
    Later,
    /// One the other way, from this server.
    Back([u8; 4]),
    /// One of a flow that is not there and that it does not make; where each makes one, that.
    Stranger,
    /// One by which a sender of many invented keys asks for an entry.
    Attack,
}

impl Sample {
    /// All programs.
    pub(super) const ALL: [Self; 6] = [
        Self::Policer,
        Self::Balancer,
        Self::Offload,
        Self::States,
        Self::RoundRobin,
        Self::Passive,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Policer => "policer",
            Self::Balancer => "balancer",
            Self::Offload => "offload",
            Self::States => "policer as states",
            Self::RoundRobin => "round-robin balancer",
            Self::Passive => "passive offload",
        }
    }

    /// Whether packets come in tunnels.
    const fn is_offload(self) -> bool {
        matches!(self, Self::Offload | Self::Passive)
    }

    /// Whether a flow has a server that the program chooses.
    pub(super) const fn has_servers(self) -> bool {
        matches!(self, Self::Balancer | Self::RoundRobin)
    }

    /// Whether packets come the other way too.
    pub(super) const fn has_two_ways(self) -> bool {
        self.has_servers() || self.is_offload()
    }

    /// Where in a later packet the addresses of host and service lie.
    pub(super) const fn addresses_at(self) -> usize {
        if self.is_offload() { UDP + 8 + 12 } else { 26 }
    }

    /// The two addresses, as a later packet has them.
    pub(super) fn addresses(self, flow: u64) -> [u8; 8] {
        let service = match self {
            _ if self.has_servers() => SERVICE,
            _ if self.is_offload() => EDGE,
            _ => ELSEWHERE,
        };
        let mut both = [0; 8];
        both[..4].copy_from_slice(&host(flow));
        both[4..].copy_from_slice(&service);
        both
    }

    /// The program with tables for so many flows. With `evicts`, new ones beyond that take the
    /// place of the oldest of their bucket; else what becomes of them is the program's to say.
    pub(super) fn program(self, flows: u32, evicts: bool) -> Result<Program, String> {
        let text = match self {
            Self::Policer => include_str!("../../../../chains/flow-policer.yaml"),
            Self::Balancer => include_str!("../../../../chains/flow-balancer.yaml"),
            Self::Offload => include_str!("../../../../chains/flow-offload.yaml"),
            Self::States => include_str!("../../../../crates/flow/programs/policer.yaml"),
            Self::RoundRobin => include_str!("../../../../crates/flow/programs/load_balancer.yaml"),
            Self::Passive => include_str!("../../../../crates/flow/programs/gtp_offload.yaml"),
        };
        let text = match self {
            // That of the program as states; with the chain's hour nothing would pass.
            Self::Policer => {
                text.replace("interval: 3600s, burst: 100", "interval: 10us, burst: 3")
            }
            _ => text.to_owned(),
        };
        let (mut found, _) = load(self.name(), &text).map_err(|errors| errors.to_string())?;
        let mut program = found.remove(0).compiled.program;
        for flows_of in program.elements.iter_mut().flat_map(|one| &mut one.flows) {
            flows_of.shape.capacity = flows;
            if evicts {
                flows_of.when_full = WhenFull::EvictOldest;
            }
        }
        Ok(program)
    }

    /// Number of the input by which such a packet comes.
    pub(super) const fn input(self, step: Step) -> u8 {
        match step {
            Step::First if self.is_offload() => 1,
            Step::Attack if matches!(self, Self::Passive) => 1,
            Step::Answer(_) | Step::Back(_) if self.has_servers() => 1,
            Step::Back(_) => 2,
            _ => 0,
        }
    }

    /// A frame of `bytes` with its FCS, or of as many as its headers need.
    pub(super) fn packet(self, flow: u64, step: Step, bytes: usize) -> Vec<u8> {
        let host = host(flow);
        let frame = bytes - FCS;
        let packet = match self {
            Self::Policer | Self::States => {
                udp((host, PORT), (ELSEWHERE, 53), frame.saturating_sub(UDP))
            }
            Self::Balancer | Self::RoundRobin => balanced(host, step, frame.saturating_sub(TCP)),
            // An invented terminal asks for the edge; what learns from downlink alone needs such.
            Self::Offload if step == Step::Attack => {
                self.packet_offloaded((host, flow), Step::Later, frame)
            }
            Self::Passive if step == Step::Attack => {
                self.packet_offloaded((host, flow), Step::First, frame)
            }
            Self::Offload | Self::Passive => self.packet_offloaded((host, flow), step, frame),
        };
        sealed(&packet)
    }

    fn packet_offloaded(self, (host, flow): ([u8; 4], u64), step: Step, frame: usize) -> Vec<u8> {
        let len = frame.saturating_sub(TUNNEL);
        let server = if step == Step::Stranger {
            ELSEWHERE
        } else {
            EDGE
        };
        let (up, down) = (
            udp((host, PORT), (server, 53), len),
            udp((server, 53), (host, PORT), len),
        );
        match step {
            Step::Back(_) => udp((server, 53), (host, PORT), frame.saturating_sub(UDP)),
            Step::First => tunnelled(CORE, RADIO, flow as u32, &down),
            _ => tunnelled(RADIO, CORE, flow as u32, &up),
        }
    }
}

fn host(flow: u64) -> [u8; 4] {
    FIRST_HOST.wrapping_add(flow as u32).to_be_bytes()
}

/// Of a connection between a client and the service, or the server behind it.
fn balanced(client: [u8; 4], step: Step, len: usize) -> Vec<u8> {
    const SYN: u8 = 0x02;
    const ACK: u8 = 0x10;
    let (from, to, flags) = match step {
        Step::First | Step::Attack => ((client, PORT), (SERVICE, 80), SYN),
        Step::Later | Step::Stranger => ((client, PORT), (SERVICE, 80), ACK),
        Step::Answer(server) => ((server, 8080), (client, PORT), SYN | ACK),
        Step::Back(server) => ((server, 8080), (client, PORT), ACK),
    };
    // The server's first number is 1, and the client acknowledges it.
    let (seq, ack): (u32, u32) = if flags == SYN { (1, 0) } else { (1, 2) };
    let mut segment = Vec::with_capacity(20 + len);
    for port in [from.1, to.1] {
        segment.extend(port.to_be_bytes());
    }
    segment.extend(seq.to_be_bytes());
    segment.extend(ack.to_be_bytes());
    segment.extend([0x50, flags, 1, 0, 0, 0, 0, 0]);
    segment.resize(20 + len, 0);
    ipv4(6, from.0, to.0, &segment)
}

fn ipv4(protocol: u8, src: [u8; 4], dst: [u8; 4], rest: &[u8]) -> Vec<u8> {
    let mut packet = Vec::with_capacity(20 + rest.len());
    packet.extend([0x45, 0]);
    packet.extend((20 + rest.len() as u16).to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
    packet.extend(src);
    packet.extend(dst);
    packet.extend(rest);
    packet
}

fn datagram(src: ([u8; 4], u16), dst: ([u8; 4], u16), rest: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::with_capacity(8 + rest.len());
    for word in [src.1, dst.1, 8 + rest.len() as u16, 0] {
        datagram.extend(word.to_be_bytes());
    }
    datagram.extend(rest);
    ipv4(17, src.0, dst.0, &datagram)
}

fn udp(src: ([u8; 4], u16), dst: ([u8; 4], u16), len: usize) -> Vec<u8> {
    datagram(src, dst, &vec![0; len])
}

fn tunnelled(src: [u8; 4], dst: [u8; 4], teid: u32, inner: &[u8]) -> Vec<u8> {
    let mut message = vec![0x30, 0xff];
    message.extend((inner.len() as u16).to_be_bytes());
    message.extend(teid.to_be_bytes());
    message.extend(inner);
    datagram((src, GTPU), (dst, GTPU), &message)
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
