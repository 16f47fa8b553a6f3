//! Frames for the tests of NFs, built with the formats of `catena_wire`.

use std::net::IpAddr;

use catena_wire::ethernet::{self, EtherType, MacAddr};
use catena_wire::ip::Protocol;
use catena_wire::{ipv4, ipv6, tcp, udp, vlan};

/// A frame of `ether_type` around `payload`.
pub(crate) fn ethernet(ether_type: EtherType, payload: &[u8]) -> Vec<u8> {
    let header = ethernet::Header {
        dst: MacAddr([2, 0, 0, 0, 0, 2]),
        src: MacAddr([2, 0, 0, 0, 0, 1]),
        ether_type,
    };
    let mut frame = vec![0; ethernet::HEADER_LEN];
    header.emit(&mut frame);
    frame.extend(payload);
    frame
}

/// `frame` with one more tag, now the outermost.
pub(crate) fn tagged(frame: &[u8], tpid: u16, vid: u16) -> Vec<u8> {
    let ether_type = EtherType(u16::from_be_bytes([frame[12], frame[13]]));
    let tag = vlan::Header {
        pcp: 0,
        dei: false,
        vid,
        ether_type,
    };
    let mut bytes = [0; vlan::HEADER_LEN];
    tag.emit(&mut bytes);
    let mut tagged = frame[..12].to_vec();
    tagged.extend(tpid.to_be_bytes());
    tagged.extend(bytes);
    tagged.extend(&frame[14..]);
    tagged
}

/// An IP packet, in Ethernet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IpPacket<'a> {
    pub(crate) src: &'a str,
    pub(crate) dst: &'a str,
    pub(crate) protocol: Protocol,
    pub(crate) ttl: u8,
    pub(crate) dscp: u8,
    /// In bytes; of a fragmented IPv4 packet.
    pub(crate) fragment_offset: u16,
}

impl Default for IpPacket<'_> {
    fn default() -> Self {
        Self {
            src: "10.0.0.1",
            dst: "10.0.0.2",
            protocol: Protocol::UDP,
            ttl: 64,
            dscp: 0,
            fragment_offset: 0,
        }
    }
}

impl IpPacket<'_> {
    /// The frame around `payload`, which starts with the transport header.
    pub(crate) fn with(&self, payload: &[u8]) -> Vec<u8> {
        let (src, dst) = (self.src.parse().unwrap(), self.dst.parse().unwrap());
        let mut packet;
        let ether_type = match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                packet = vec![0; ipv4::HEADER_LEN_MIN];
                let header = ipv4::Header {
                    dscp: self.dscp,
                    ecn: 0,
                    ident: 7,
                    dont_fragment: false,
                    more_fragments: false,
                    fragment_offset: self.fragment_offset,
                    ttl: self.ttl,
                    protocol: self.protocol,
                    src,
                    dst,
                    payload_len: payload.len(),
                    options: Default::default(),
                };
                header.emit(&mut packet);
                EtherType::IPV4
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                packet = vec![0; ipv6::HEADER_LEN];
                let header = ipv6::Header {
                    dscp: self.dscp,
                    ecn: 0,
                    flow_label: 0,
                    payload_len: payload.len().try_into().unwrap(),
                    next_header: self.protocol,
                    hop_limit: self.ttl,
                    src,
                    dst,
                };
                header.emit(&mut packet);
                EtherType::IPV6
            }
            _ => panic!("both addresses are of one version"),
        };
        packet.extend(payload);
        ethernet(ether_type, &packet)
    }

    /// The frame with a UDP or TCP header of these ports, as `protocol` says.
    pub(crate) fn ports(&self, src_port: u16, dst_port: u16) -> Vec<u8> {
        let mut transport;
        if self.protocol == Protocol::TCP {
            transport = vec![0; tcp::HEADER_LEN_MIN];
            transport[12] = 5 << 4;
            let mut view = tcp::View::parse(&mut transport).unwrap();
            view.set_src_port(src_port);
            view.set_dst_port(dst_port);
        } else {
            transport = vec![0; udp::HEADER_LEN];
            let header = udp::Header {
                src_port,
                dst_port,
                payload_len: 0,
            };
            header.emit(&mut transport);
        }
        self.with(&transport)
    }
}
