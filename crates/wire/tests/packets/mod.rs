// SPDX-License-Identifier: Apache-2.0
//! Packets for tests that want many: valid ones of every format, and a way to spoil them.

use catena_wire::ethernet::{EtherType, MacAddr};
use catena_wire::ip::Protocol;
use catena_wire::options::Options;
use catena_wire::{arp, ethernet, gtpu, icmpv4, ipv4, ipv6, mpcp, tcp, udp, vlan};

pub(crate) mod nodes;
pub(crate) mod reports;
pub(crate) mod rules;
pub(crate) mod sessions;
pub(crate) mod tunnels;

use std::net::{Ipv4Addr, Ipv6Addr};

/// xorshift64* of Vigna, "An experimental exploration of Marsaglia's xorshift generators" (2016).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 32) as usize % bound
    }

    #[allow(dead_code, reason = "not every test wants random bytes")]
    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }

    /// Overwrites, flips and cuts some of `packet`.
    pub(crate) fn mutate(&mut self, packet: &mut Vec<u8>) {
        for _ in 0..self.below(4) {
            let at = self.below(packet.len());
            packet[at] = match self.below(4) {
                0 => 0x00,
                1 => 0xff,
                2 => packet[at] ^ 1 << self.below(8),
                _ => self.next() as u8,
            };
        }
        if self.below(4) == 0 {
            packet.truncate(self.below(packet.len() + 1));
        }
    }
}

fn ethernet(ether_type: EtherType) -> Vec<u8> {
    let mut bytes = vec![0; ethernet::HEADER_LEN];
    ethernet::Header {
        dst: MacAddr::BROADCAST,
        src: MacAddr([2; 6]),
        ether_type,
    }
    .emit(&mut bytes);
    bytes
}

fn ipv4(protocol: Protocol, fragment_offset: u16, payload: &[u8]) -> Vec<u8> {
    let header = ipv4::Header {
        dscp: 0,
        ecn: 0,
        ident: 1,
        dont_fragment: false,
        more_fragments: false,
        fragment_offset,
        ttl: 64,
        protocol,
        src: Ipv4Addr::new(10, 0, 0, 1),
        dst: Ipv4Addr::new(10, 0, 0, 2),
        payload_len: payload.len(),
        options: Options::new(&[1, 1, 1]).unwrap(),
    };
    let mut bytes = vec![0; header.header_len()];
    header.emit(&mut bytes);
    [&bytes, payload].concat()
}

fn ipv6(next_header: Protocol, payload: &[u8]) -> Vec<u8> {
    let header = ipv6::Header {
        dscp: 0,
        ecn: 0,
        flow_label: 1,
        payload_len: payload.len() as u16,
        next_header,
        hop_limit: 64,
        src: Ipv6Addr::LOCALHOST,
        dst: Ipv6Addr::LOCALHOST,
    };
    let mut bytes = vec![0; header.header_len()];
    header.emit(&mut bytes);
    [&bytes, payload].concat()
}

fn mpcp(message: mpcp::Message) -> Vec<u8> {
    let mut bytes = vec![0; mpcp::MPCPDU_LEN];
    mpcp::Header {
        timestamp: 1 << 20,
        message,
    }
    .emit(&mut bytes);
    bytes
}

fn gate() -> Vec<u8> {
    let grant = mpcp::Grant {
        start_time: 1 << 21,
        length: 1000,
        force_report: true,
    };
    mpcp(mpcp::Message::Gate(
        mpcp::Gate::new(&[grant; 3]).expect("three fit"),
    ))
}

fn report() -> Vec<u8> {
    let mut report = mpcp::Report::new();
    assert!(report.push(&[Some(9); 8]) && report.push(&[Some(7); 8]));
    mpcp(mpcp::Message::Report(report))
}

/// A G-PDU with every kind of field, and an error indication.
fn tunnelled(packet: &[u8]) -> [Vec<u8>; 2] {
    use gtpu::element::Element;
    use gtpu::pdu_session::{Downlink, PduSession};
    let session = PduSession::Downlink(Downlink {
        qfi: 9,
        rqi: true,
        ppi: Some(3),
        sending_time: Some(1 << 40),
        sequence: Some(5),
        mbs_sequence: Some(6),
    });
    let mut content = [0; gtpu::pdu_session::CONTENT_LEN_MAX];
    session.emit(&mut content);
    let extensions = [
        gtpu::Extension {
            extension_type: gtpu::ExtensionType::PDU_SESSION_CONTAINER,
            content: &content[..session.content_len()],
        },
        gtpu::Extension {
            extension_type: gtpu::ExtensionType::UDP_PORT,
            content: &[8, 0x68],
        },
    ];
    let mut chain = [0; 64];
    let header = gtpu::Header {
        message_type: gtpu::MessageType::G_PDU,
        teid: 7,
        sequence: Some(1),
        n_pdu: Some(2),
        extensions: gtpu::Extensions::write(&mut chain, &extensions).expect("they fit"),
        payload_len: packet.len(),
    };
    let mut data = vec![0; header.header_len()];
    header.emit(&mut data);
    data.extend(packet);
    let elements = [
        Element::TeidDataI(7),
        Element::PeerAddress(Ipv4Addr::LOCALHOST.into()),
        Element::RecoveryTimeStamp(1),
    ];
    let payload_len = elements.iter().map(Element::len).sum();
    let header = gtpu::Header {
        message_type: gtpu::MessageType::ERROR_INDICATION,
        extensions: gtpu::Extensions::NONE,
        payload_len,
        ..header
    };
    let mut indication = vec![0; header.header_len() + payload_len];
    header.emit(&mut indication);
    let mut at = header.header_len();
    for element in elements {
        element.emit(&mut indication[at..]);
        at += element.len();
    }
    [data, indication]
}

/// Valid frames, each layer of which is also handed to the parser of that layer.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut datagram = vec![0; udp::HEADER_LEN + 8];
    udp::Header {
        src_port: 53,
        dst_port: 1024,
        payload_len: 8,
    }
    .emit(&mut datagram);

    let segment = tcp::Header {
        src_port: 80,
        dst_port: 1024,
        sequence: 1,
        acknowledgment: 2,
        flags: tcp::Flags::SYN | tcp::Flags::ACK,
        window: 100,
        urgent: 0,
        options: Options::new(&[2, 4, 5, 0xb4, 4, 2, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2]).unwrap(),
    };
    let mut segment_bytes = vec![0; segment.header_len() + 6];
    segment.emit(&mut segment_bytes);

    let mut echo = vec![0; icmpv4::HEADER_LEN + 4];
    icmpv4::Header::of_echo(icmpv4::Type::ECHO_REQUEST, 1, 2).emit(&mut echo);

    let mut request = vec![0; arp::HEADER_LEN];
    arp::Header {
        operation: arp::Operation::REQUEST,
        sender_mac: MacAddr([2; 6]),
        sender_ip: Ipv4Addr::new(10, 0, 0, 1),
        target_mac: MacAddr([0; 6]),
        target_ip: Ipv4Addr::new(10, 0, 0, 2),
    }
    .emit(&mut request);

    let mut tag = vec![0; vlan::HEADER_LEN];
    vlan::Header {
        pcp: 1,
        dei: false,
        vid: 7,
        ether_type: EtherType::IPV4,
    }
    .emit(&mut tag);

    // Hop-by-Hop, Routing (of the experimental type 253, RFC 4727), Fragment (first),
    // Authentication.
    let extensions = [
        &[43, 0, 1, 4, 0, 0, 0, 0][..],
        &[44, 0, 253, 0, 0, 0, 0, 0],
        &[51, 0, 0, 1, 0, 0, 0, 9],
        &[6, 4, 0, 0],
        &[0; 20],
        &segment_bytes,
    ]
    .concat();

    let (v4, v6) = (EtherType::IPV4, EtherType::IPV6);
    let neighbor = [&[135, 0, 0, 0, 0, 0, 0, 0][..], &[0xfe; 16]].concat();
    let control = || ethernet(EtherType::MAC_CONTROL);
    let layers: [&[Vec<u8>]; 10] = [
        &[ethernet(EtherType::ARP), request],
        &[ethernet(v4), ipv4(Protocol::UDP, 0, &datagram)],
        &[ethernet(v4), ipv4(Protocol::TCP, 0, &segment_bytes)],
        &[ethernet(v4), ipv4(Protocol::UDP, 8, &datagram)],
        &[
            ethernet(EtherType::CUSTOMER_VLAN),
            tag,
            ipv4(Protocol::ICMP, 0, &echo),
        ],
        &[ethernet(v6), ipv6(Protocol::UDP, &datagram)],
        &[ethernet(v6), ipv6(Protocol::HOP_BY_HOP, &extensions)],
        &[ethernet(v6), ipv6(Protocol::ICMPV6, &neighbor)],
        &[control(), gate()],
        &[control(), report()],
    ];
    let tunnelled = tunnelled(&layers[1].concat()[ethernet::HEADER_LEN..]);
    let inner = [datagram.clone(), segment_bytes.clone(), echo];
    let suffixes = layers
        .iter()
        .flat_map(|parts| (0..parts.len()).map(|at| parts[at..].concat()));
    let messages = sessions::all().into_iter().chain(nodes::all());
    let messages = messages.chain(rules::all()).chain(reports::all());
    let messages = messages.chain(tunnels::all());
    let messages = messages.map(|sample| sample.bytes);
    let inner = inner.into_iter().chain(tunnelled).chain(messages);
    suffixes.chain(inner).collect()
}
