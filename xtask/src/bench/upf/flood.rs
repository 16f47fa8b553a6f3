//! Floods beside a hop through the UPF: what they do to the tail of sessions that are served.
//!
//! The chain of `hop` with one more port, which repeats a capture of strangers' packets into the
//! UPF: a few a second, or as many as a flood has. What the UPF answers to strangers ends at a
//! sink, and at an ACL that lets the SMF's packets through. Each kind of flood takes turns with
//! none.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::net::Ipv4Addr;

use catena_wire::gtpu::{self, MessageType};

use super::super::extent::Extent;
use super::super::truth::binary::Binary;
use super::hop::{self, Hop};
use super::smf::{Request, datagram, request, set_up};

const N3: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 3, 0, 1), gtpu::PORT);
const N4: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 4, 0, 1), catena_wire::pfcp::PORT);
/// Packets of a capture, no two of them alike.
const PACKETS: u16 = 4096;
/// Packets of a flood in a second.
pub(super) const RATE_KPPS: u32 = 20;

/// Who floods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flood {
    /// Echo Requests of GTP-U, of as many peers.
    Echo,
    /// Packets in tunnels that nobody has.
    Teid,
    /// Association Setup Requests of nodes that are not in `peers`.
    Association,
    /// Session Modification Requests for SEIDs that nobody has, of a node that is.
    Seid,
}

impl Flood {
    pub(super) const ALL: [Self; 4] = [Self::Echo, Self::Teid, Self::Association, Self::Seid];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Echo => "Echo Requests",
            Self::Teid => "unknown TEIDs",
            Self::Association => "associations of strangers",
            Self::Seid => "unknown SEIDs",
        }
    }

    fn frame(self, number: u16) -> Result<Vec<u8>, String> {
        let [high, low] = number.to_be_bytes();
        let stranger = Ipv4Addr::new(198, 18, high, low);
        let gtp_u = |message_type, teid, sequence, payload: &[u8]| {
            let header = gtpu::Header {
                payload_len: payload.len(),
                ..gtpu::Header::new(message_type, teid, sequence)
            };
            let mut message = vec![0; header.header_len()];
            header.emit(&mut message);
            message.extend_from_slice(payload);
            datagram((stranger, gtpu::PORT), N3, &message)
        };
        let sequence = u32::from(number) + 1;
        let pfcp = |from, message: &[u8]| datagram((from, N4.1), N4, message);
        Ok(match self {
            Self::Echo => gtp_u(MessageType::ECHO_REQUEST, 0, Some(number), &[]),
            Self::Teid => gtp_u(MessageType::G_PDU, 1 << 31 | sequence, None, &[0x45; 64]),
            Self::Association => pfcp(stranger, &set_up(sequence)?),
            Self::Seid => {
                let known = Ipv4Addr::new(10, 4, 1, low);
                let seid = 1 << 40 | u64::from(number);
                pfcp(known, &request(Request::Query, sequence, seid)?)
            }
        })
    }

    /// A capture of its packets.
    fn capture(self) -> Result<Vec<u8>, String> {
        let frames: Result<Vec<_>, _> = (0..PACKETS).map(|number| self.frame(number)).collect();
        capture(&frames?)
    }
}

/// A capture of frames (pcap, Ethernet).
pub(super) fn capture(frames: &[Vec<u8>]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let word = |bytes: &mut Vec<u8>, value: u32| bytes.extend_from_slice(&value.to_le_bytes());
    for value in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1] {
        word(&mut bytes, value);
    }
    for (number, frame) in (0..).zip(frames) {
        let len = u32::try_from(frame.len()).map_err(|error| error.to_string())?;
        for value in [0, number, len, len] {
            word(&mut bytes, value);
        }
        bytes.extend_from_slice(frame);
    }
    Ok(bytes)
}

/// Measures latency at a rate, in Mpps, beside a flood, or beside one packet of it a second.
pub(super) fn measure(
    binary: &Binary,
    (flood, is_calm): (Flood, bool),
    rate: f64,
    extent: Extent,
) -> Result<Hop, String> {
    binary.write("flood.pcap", flood.capture()?)?;
    let pace = match is_calm {
        true => "1pps".to_owned(),
        false => format!("{RATE_KPPS}kpps"),
    };
    hop::latency(binary, rate, &pace, extent)
}

#[cfg(test)]
mod tests {
    use catena_wire::dissect::{Dissected, Transport};

    use super::*;

    /// No two packets of a flood are alike, and all are for the UPF.
    #[test]
    fn strangers_differ_and_find_the_upf() {
        for flood in Flood::ALL {
            let frames: Vec<_> = (0..300)
                .map(|number| flood.frame(number).unwrap())
                .collect();
            for (at, frame) in frames.iter().enumerate() {
                let read = Dissected::parse(frame).unwrap();
                let Transport::Udp { dst_port, .. } = read.transport else {
                    panic!("{flood:?}: {read:?}");
                };
                let to = match flood {
                    Flood::Echo | Flood::Teid => N3,
                    Flood::Association | Flood::Seid => N4,
                };
                let dst = read.ip.unwrap().addresses.dst();
                assert_eq!((dst, dst_port), (to.0.into(), to.1));
                assert!(!frames[..at].contains(frame), "{flood:?}, {at}");
            }
            let capture = flood.capture().unwrap();
            let len: usize = (0..PACKETS)
                .map(|number| 16 + flood.frame(number).unwrap().len())
                .sum();
            assert_eq!(capture.len(), 24 + len);
        }
    }
}
