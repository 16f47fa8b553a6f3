// SPDX-License-Identifier: Apache-2.0
//! Frames that are metered, and a capture file of frames.

use catena_wire::ethernet::{self, EtherType, MacAddr};
use catena_wire::ip::Protocol;
use catena_wire::{ipv4, ipv6, udp as udp_header};

fn ethernet(ether_type: EtherType, packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; ethernet::HEADER_LEN];
    ethernet::Header {
        dst: MacAddr([2, 0, 0, 0, 0, 2]),
        src: MacAddr([2, 0, 0, 0, 0, 1]),
        ether_type,
    }
    .emit(&mut frame);
    frame.extend(packet);
    frame
}

fn v4(src: &str, dst: &str, protocol: Protocol, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; ipv4::HEADER_LEN_MIN];
    ipv4::Header {
        dscp: 0,
        ecn: 0,
        ident: 7,
        dont_fragment: false,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        protocol,
        src: src.parse().unwrap(),
        dst: dst.parse().unwrap(),
        payload_len: payload.len(),
        options: Default::default(),
    }
    .emit(&mut packet);
    packet.extend(payload);
    ethernet(EtherType::IPV4, &packet)
}

fn datagram((src_port, dst_port): (u16, u16), payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; udp_header::HEADER_LEN];
    udp_header::Header {
        src_port,
        dst_port,
        payload_len: payload.len(),
    }
    .emit(&mut bytes);
    bytes.extend(payload);
    bytes
}

pub(crate) fn udp(src: &str, dst: &str, ports: (u16, u16), len: usize) -> Vec<u8> {
    v4(src, dst, Protocol::UDP, &datagram(ports, &vec![7; len]))
}

pub(crate) fn tcp(src: &str, dst: &str, ports: (u16, u16), flags: u8) -> Vec<u8> {
    let mut segment = vec![0; 20];
    segment[..2].copy_from_slice(&ports.0.to_be_bytes());
    segment[2..4].copy_from_slice(&ports.1.to_be_bytes());
    (segment[12], segment[13]) = (0x50, flags);
    v4(src, dst, Protocol::TCP, &segment)
}

pub(crate) fn udp6(src: &str, dst: &str, ports: (u16, u16), len: usize) -> Vec<u8> {
    let payload = datagram(ports, &vec![7; len]);
    let mut packet = vec![0; ipv6::HEADER_LEN];
    ipv6::Header {
        dscp: 0,
        ecn: 0,
        flow_label: 0,
        payload_len: payload.len().try_into().unwrap(),
        next_header: Protocol::UDP,
        hop_limit: 64,
        src: src.parse().unwrap(),
        dst: dst.parse().unwrap(),
    }
    .emit(&mut packet);
    packet.extend(payload);
    ethernet(EtherType::IPV6, &packet)
}

/// A user's packet in a tunnel.
pub(crate) fn gtpu(src: &str, dst: &str, user: &[u8]) -> Vec<u8> {
    let [high, low] = (user.len() as u16).to_be_bytes();
    let mut payload = vec![0x30, 0xff, high, low, 0, 0, 1, 1];
    payload.extend(user);
    v4(src, dst, Protocol::UDP, &datagram((2152, 2152), &payload))
}

/// A classic capture file of Ethernet frames (draft-ietf-opsawg-pcap), all at the time zero.
pub(crate) fn capture(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        bytes.extend(word.to_le_bytes());
    }
    for frame in frames {
        let len = frame.len() as u32;
        for word in [0, 0, len, len] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(frame);
    }
    bytes
}
