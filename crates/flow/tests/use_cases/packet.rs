// SPDX-License-Identifier: Apache-2.0
//! Packets for tests of programs: whole, with all checksums; and what tests look for in them.

#![allow(dead_code, reason = "each test uses its part")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use catena_flow::program::header::{Header, Headers};
use catena_flow::program::template::fill_checksums;

pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ICMPV6: u8 = 58;

pub(crate) const FIN: u8 = 0x01;
pub(crate) const SYN: u8 = 0x02;
pub(crate) const RST: u8 = 0x04;
pub(crate) const ACK: u8 = 0x10;

/// A TCP or UDP packet between two addresses `10.0.0.x`, with flags.
pub(crate) fn packet(protocol: u8, src: (u8, u16), dst: (u8, u16), flags: u8) -> Vec<u8> {
    let end = |(host, port): (u8, u16)| SocketAddr::from(([10, 0, 0, host], port));
    match protocol {
        TCP => tcp(end(src), end(dst), (1, 0), flags, &[]),
        _ => udp(end(src), end(dst), &[]),
    }
}

/// A TCP segment with its sequence and acknowledgement numbers.
pub(crate) fn tcp(
    src: SocketAddr,
    dst: SocketAddr,
    (seq, ack): (u32, u32),
    flags: u8,
    payload: &[u8],
) -> Vec<u8> {
    let mut segment = ports(src, dst);
    segment.extend(seq.to_be_bytes());
    segment.extend(ack.to_be_bytes());
    segment.extend([0x50, flags, 1, 0, 0, 0, 0, 0]);
    segment.extend(payload);
    framed(src.ip(), dst.ip(), TCP, &segment)
}

pub(crate) fn udp(src: SocketAddr, dst: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let mut datagram = ports(src, dst);
    datagram.extend((8 + payload.len() as u16).to_be_bytes());
    datagram.extend([0; 2]);
    datagram.extend(payload);
    framed(src.ip(), dst.ip(), UDP, &datagram)
}

/// An ICMP message of a type, with what follows its checksum.
pub(crate) fn icmp(src: IpAddr, dst: IpAddr, kind: u8, rest: &[u8]) -> Vec<u8> {
    let message = [&[kind, 0, 0, 0][..], rest].concat();
    let protocol = if src.is_ipv4() { ICMP } else { ICMPV6 };
    framed(src, dst, protocol, &message)
}

/// Destination unreachable, from `src` to whoever sent `about`.
pub(crate) fn unreachable(src: IpAddr, about: &[u8]) -> Vec<u8> {
    let (from, _) = ends(about);
    let quoted = &about[14..];
    let rest = [&[0; 4][..], &quoted[..quoted.len().min(128)]].concat();
    icmp(src, from.ip(), if src.is_ipv4() { 3 } else { 1 }, &rest)
}

fn ports(src: SocketAddr, dst: SocketAddr) -> Vec<u8> {
    [src.port().to_be_bytes(), dst.port().to_be_bytes()].concat()
}

/// An IP packet in Ethernet.
pub(crate) fn framed(src: IpAddr, dst: IpAddr, protocol: u8, rest: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            frame.extend([8, 0, 0x45, 0]);
            frame.extend((20 + rest.len() as u16).to_be_bytes());
            frame.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
            frame.extend([src.octets(), dst.octets()].concat());
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend((rest.len() as u16).to_be_bytes());
            frame.extend([protocol, 64]);
            frame.extend([src.octets(), dst.octets()].concat());
        }
        _ => panic!("{src} and {dst}"),
    }
    frame.extend(rest);
    let headers = Headers::parse(&frame);
    assert!(!headers.is_malformed());
    fill_checksums(&mut frame, &headers);
    frame
}

/// Whether all checksums of a packet are right.
pub(crate) fn is_sealed(frame: &[u8]) -> bool {
    let mut sealed = frame.to_vec();
    fill_checksums(&mut sealed, &Headers::parse(frame));
    sealed == frame
}

/// Source and destination of a packet; ports are 0 where there are none.
pub(crate) fn ends(frame: &[u8]) -> (SocketAddr, SocketAddr) {
    let headers = Headers::parse(frame);
    let (src, dst) = if let Some(at) = headers.at(Header::Ipv4) {
        let address = |at: usize| {
            let octets: [u8; 4] = std::array::from_fn(|byte| frame[at + byte]);
            IpAddr::from(Ipv4Addr::from(octets))
        };
        (address(at + 12), address(at + 16))
    } else {
        let at = headers.at(Header::Ipv6).expect("an IP packet");
        let address = |at: usize| {
            let octets: [u8; 16] = std::array::from_fn(|byte| frame[at + byte]);
            IpAddr::from(Ipv6Addr::from(octets))
        };
        (address(at + 8), address(at + 24))
    };
    let port = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let (from, to) = match headers.at(Header::Ports) {
        Some(at) => (port(at), port(at + 2)),
        None => (0, 0),
    };
    (SocketAddr::new(src, from), SocketAddr::new(dst, to))
}

/// What an ICMP error quotes, as a packet of its own.
pub(crate) fn quoted(frame: &[u8]) -> Vec<u8> {
    let headers = Headers::parse(frame);
    let v4 = headers.at(Header::QuotedIpv4);
    let at = v4
        .or_else(|| headers.at(Header::QuotedIpv6))
        .expect("a quoted packet");
    [&frame[..14], &frame[at..]].concat()
}

/// The payload of a UDP datagram over IPv4.
pub(crate) fn payload(frame: &[u8]) -> &[u8] {
    let at = Headers::parse(frame)
        .at(Header::Payload)
        .expect("a payload");
    &frame[at..]
}
