// SPDX-License-Identifier: Apache-2.0
//! Terminals of the offload, their tunnels, and what is said through these.

#![allow(dead_code, reason = "each test uses its part")]

use std::net::{Ipv6Addr, SocketAddr};

use catena_flow::program::frame::{Buffer, Frame};
use catena_flow::program::header::{Header, Headers};
use catena_flow::program::template::fill_checksums;
use catena_flow::program::tunnel::{self, encap};

use super::bench::Bench;
use super::packet::{ends, icmp, udp};

pub(crate) const RADIO: u8 = 0;
pub(crate) const CORE: u8 = 1;
pub(crate) const EDGE: u8 = 2;
pub(crate) const RESPONDER: [u8; 4] = [198, 51, 100, 1];
pub(crate) const SERVICE: [u8; 4] = [203, 0, 113, 9];
pub(crate) const SERVICE6: &str = "[2001:db8:ed6e::9]:5000";
/// Last byte of the address at which the core ends its tunnels.
const UPF: u8 = 2;

pub(crate) fn offload() -> Bench {
    let text = include_str!("../../programs/gtp_offload_probe.yaml");
    Bench::new(&text.replace("flows: 1000000", "flows: 4096"))
}

/// An address of a terminal's prefix.
pub(crate) fn terminal6(number: u8) -> SocketAddr {
    let prefix = u16::from(number);
    SocketAddr::from((Ipv6Addr::new(0x2001, 0xdb8, 0x45, prefix, 0, 0, 0, 7), 4000))
}

pub(crate) fn terminal4(number: u8) -> SocketAddr {
    SocketAddr::from(([10, 45, 0, number], 4000))
}

pub(crate) fn service6() -> SocketAddr {
    SERVICE6.parse().unwrap()
}

pub(crate) fn service4() -> SocketAddr {
    SocketAddr::from(([203, 0, 113, 9], 5000))
}

/// A packet in a tunnel between 10.9.0.`src` and 10.9.0.`dst`.
pub(crate) fn tunnelled(inner: &[u8], (src, dst): (u8, u8), teid: u32, qfi: Option<u8>) -> Vec<u8> {
    let mut frame = Buffer::new(inner);
    let address = |last: u8| u128::from(u32::from_be_bytes([10, 9, 0, last]));
    let kind = if qfi.is_some() {
        tunnel::Tunnel::GtpuDownlink
    } else {
        tunnel::Tunnel::Gtpu
    };
    let values = [
        address(src),
        address(dst),
        u128::from(teid),
        u128::from(qfi.unwrap_or(0)),
    ];
    let count = kind.values().len();
    encap(&mut frame, &Headers::parse(inner), kind, &values[..count]).unwrap();
    frame.bytes().to_vec()
}

/// A tunnel: base station's last byte and TEID; and a QoS flow, if it says one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tunnel(pub(crate) u8, pub(crate) u32, pub(crate) Option<u8>);

impl Tunnel {
    pub(crate) fn up(self, inner: &[u8]) -> Vec<u8> {
        let mut frame = tunnelled(inner, (self.0, UPF), self.1, self.2);
        // A container from a terminal says so.
        if let Some(at) = Headers::parse(&frame).at(Header::PduSession) {
            frame[at + 1] = 0x10;
            let headers = Headers::parse(&frame);
            fill_checksums(&mut frame, &headers);
        }
        frame
    }

    pub(crate) fn down(self, inner: &[u8]) -> Vec<u8> {
        tunnelled(inner, (UPF, self.0), self.1, self.2)
    }
}

pub(crate) fn teid(frame: &[u8]) -> u32 {
    let at = Headers::parse(frame).at(Header::Gtpu).expect("a tunnel");
    u32::from_be_bytes(frame[at + 4..at + 8].try_into().unwrap())
}

/// The packet in a tunnel.
pub(crate) fn inner(frame: &[u8]) -> Vec<u8> {
    let headers = Headers::parse(frame);
    let (at, ether_type) = match headers.at(Header::InnerIpv4) {
        Some(at) => (at, [0x08, 0x00]),
        None => {
            let at = headers.at(Header::InnerIpv6).expect("a packet inside");
            (at, [0x86, 0xdd])
        }
    };
    [&frame[..12], &ether_type, &frame[at..]].concat()
}

/// What a responder says to a probe.
pub(crate) fn answer(probe: &[u8], change: u8) -> Vec<u8> {
    let request = inner(probe);
    let (src, dst) = ends(&request);
    let (asks, answers) = if src.is_ipv4() { (8, 0) } else { (128, 129) };
    let at = Headers::parse(&request).at(Header::Icmp).expect("a ping");
    assert_eq!(request[at], asks);
    let mut rest = request[at + 4..].to_vec();
    rest[3] ^= change;
    icmp(dst.ip(), src.ip(), answers, &rest)
}

pub(crate) fn end_marker(tunnel: Tunnel) -> Vec<u8> {
    let mut bytes = vec![0x30, 254, 0, 0];
    bytes.extend(tunnel.1.to_be_bytes());
    let end = |last| SocketAddr::from(([10, 9, 0, last], 2152));
    udp(end(UPF), end(tunnel.0), &bytes)
}
