// SPDX-License-Identifier: Apache-2.0
//! Frames that are metered, and a capture file of frames.

use std::net::SocketAddr;

#[path = "../use_cases/packet.rs"]
mod packet;

fn ends(src: &str, dst: &str, ports: (u16, u16)) -> (SocketAddr, SocketAddr) {
    let end = |address: &str, port| SocketAddr::new(address.parse().unwrap(), port);
    (end(src, ports.0), end(dst, ports.1))
}

pub(crate) fn udp(src: &str, dst: &str, ports: (u16, u16), len: usize) -> Vec<u8> {
    let (src, dst) = ends(src, dst, ports);
    packet::udp(src, dst, &vec![7; len])
}

pub(crate) fn tcp(src: &str, dst: &str, ports: (u16, u16), flags: u8) -> Vec<u8> {
    let (src, dst) = ends(src, dst, ports);
    packet::tcp(src, dst, (0, 0), flags, &[])
}

/// A user's packet in a tunnel.
pub(crate) fn gtpu(src: &str, dst: &str, user: &[u8]) -> Vec<u8> {
    let [high, low] = (user.len() as u16).to_be_bytes();
    let mut payload = vec![0x30, 0xff, high, low, 0, 0, 1, 1];
    payload.extend(user);
    let (src, dst) = ends(src, dst, (2152, 2152));
    packet::udp(src, dst, &payload)
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
