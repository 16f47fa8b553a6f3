//! Packets of the tests of `nat44`: written with checksums, and read back with all of them checked.

use catena_wire::ethernet::{self, EtherType, MacAddr};
use catena_wire::ip::Protocol;
use catena_wire::tcp::Flags;
use catena_wire::{icmpv4, ipv4, tcp, udp};

/// An address and a port.
pub(super) type End = (&'static str, u16);

/// A packet in a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) src: (String, u16),
    pub(super) dst: (String, u16),
    pub(super) body: Body,
    pub(super) macs: [u8; 2],
}

/// What it carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Body {
    Udp(Vec<u8>),
    /// Without a checksum.
    BareUdp(Vec<u8>),
    Tcp(Flags),
    /// Type, and identifier as ports say it.
    Query(u8),
    /// Type, and the packet that it is about, cut behind so many bytes.
    Error(u8, Box<Frame>, usize),
}

fn owned((address, port): End) -> (String, u16) {
    (address.to_owned(), port)
}

impl Frame {
    pub(super) fn udp(src: End, dst: End) -> Self {
        Self::of(src, dst, Body::Udp(b"payload".to_vec()))
    }

    pub(super) fn tcp(src: End, dst: End, flags: Flags) -> Self {
        Self::of(src, dst, Body::Tcp(flags))
    }

    pub(super) fn ping(src: &'static str, dst: &'static str, ident: u16) -> Self {
        Self::of((src, ident), (dst, ident), Body::Query(8))
    }

    pub(super) fn of(src: End, dst: End, body: Body) -> Self {
        Self {
            src: owned(src),
            dst: owned(dst),
            body,
            macs: [2, 1],
        }
    }

    /// What the other side answers to it.
    pub(super) fn answer(&self) -> Self {
        let body = match &self.body {
            Body::Query(8) => Body::Query(0),
            Body::Tcp(flags) if *flags == Flags::SYN => Body::Tcp(Flags::SYN | Flags::ACK),
            body => body.clone(),
        };
        Self {
            src: self.dst.clone(),
            dst: self.src.clone(),
            body,
            macs: self.macs,
        }
    }

    /// An error about it from `src`, which its sender gets.
    pub(super) fn error(&self, src: &'static str, message: u8, len: usize) -> Self {
        Self {
            src: (src.to_owned(), 0),
            dst: (self.src.0.clone(), 0),
            body: Body::Error(message, Box::new(self.clone()), len),
            macs: self.macs,
        }
    }

    fn protocol(&self) -> Protocol {
        match self.body {
            Body::Udp(_) | Body::BareUdp(_) => Protocol::UDP,
            Body::Tcp(_) => Protocol::TCP,
            Body::Query(_) | Body::Error(..) => Protocol::ICMP,
        }
    }

    fn transport(&self) -> Vec<u8> {
        let mut bytes = match &self.body {
            Body::Udp(payload) | Body::BareUdp(payload) => {
                let mut bytes = vec![0; udp::HEADER_LEN];
                let header = udp::Header {
                    src_port: self.src.1,
                    dst_port: self.dst.1,
                    payload_len: payload.len(),
                };
                header.emit(&mut bytes);
                bytes.extend(payload);
                bytes
            }
            Body::Tcp(flags) => {
                let mut bytes = vec![0; tcp::HEADER_LEN_MIN];
                bytes[12] = 5 << 4;
                let mut view = tcp::View::parse(&mut bytes).unwrap();
                view.set_src_port(self.src.1);
                view.set_dst_port(self.dst.1);
                view.set_flags(*flags);
                bytes
            }
            Body::Query(message) => {
                let header = icmpv4::Header::of_echo(icmpv4::Type(*message), self.src.1, 3);
                let mut bytes = vec![0; icmpv4::HEADER_LEN];
                header.emit(&mut bytes);
                bytes.extend(b"abc");
                bytes
            }
            Body::Error(message, about, len) => {
                let mut bytes = vec![*message, 1, 0, 0, 0, 0, 0, 0];
                let about = about.packet();
                bytes.extend(&about[..about.len().min(*len)]);
                bytes
            }
        };
        let addresses = catena_wire::ip::Addresses::V4 {
            src: self.src.0.parse().unwrap(),
            dst: self.dst.0.parse().unwrap(),
        };
        match &self.body {
            Body::Udp(_) => udp::View::parse(&mut bytes)
                .unwrap()
                .fill_checksum(&addresses),
            Body::BareUdp(_) => {}
            Body::Tcp(_) => tcp::View::parse(&mut bytes)
                .unwrap()
                .fill_checksum(&addresses),
            _ => icmpv4::View::parse(&mut bytes).unwrap().fill_checksum(),
        }
        bytes
    }

    fn packet(&self) -> Vec<u8> {
        self.ip(&self.transport(), 0, false)
    }

    fn ip(&self, payload: &[u8], offset: usize, more: bool) -> Vec<u8> {
        let mut packet = vec![0; ipv4::HEADER_LEN_MIN];
        let header = ipv4::Header {
            dscp: 0,
            ecn: 0,
            ident: 7,
            dont_fragment: false,
            more_fragments: more,
            fragment_offset: offset.try_into().unwrap(),
            ttl: 64,
            protocol: self.protocol(),
            src: self.src.0.parse().unwrap(),
            dst: self.dst.0.parse().unwrap(),
            payload_len: payload.len(),
            options: Default::default(),
        };
        header.emit(&mut packet);
        packet.extend(payload);
        packet
    }

    fn ethernet(&self, packet: &[u8]) -> Vec<u8> {
        let header = ethernet::Header {
            dst: MacAddr([2, 0, 0, 0, 0, self.macs[0]]),
            src: MacAddr([2, 0, 0, 0, 0, self.macs[1]]),
            ether_type: EtherType::IPV4,
        };
        let mut frame = vec![0; ethernet::HEADER_LEN];
        header.emit(&mut frame);
        frame.extend(packet);
        frame
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.ethernet(&self.packet())
    }

    /// It in parts of so many bytes, a multiple of 8.
    pub(super) fn parts(&self, len: usize) -> Vec<Vec<u8>> {
        let payload = self.transport();
        let parts = payload.chunks(len).enumerate();
        let part = |(index, part): (usize, &[u8])| {
            let from = index * len;
            self.ethernet(&self.ip(part, from, from + part.len() < payload.len()))
        };
        parts.map(part).collect()
    }

    /// Reads what an NF has left, and holds all checksums to what they should be.
    pub(super) fn read(frame: &[u8]) -> Self {
        let mut read = Self::read_packet(&frame[14..], true);
        read.macs = [frame[5], frame[11]];
        read
    }

    fn read_packet(packet: &[u8], is_whole: bool) -> Self {
        let header_len = usize::from(packet[0] & 15) * 4;
        assert!(catena_wire::checksum::Sum::of(&packet[..header_len]).is_valid());
        let address = |at: usize| {
            let octets: [u8; 4] = packet[at..at + 4].try_into().unwrap();
            std::net::Ipv4Addr::from(octets)
        };
        let (src, dst) = (address(12), address(16));
        let addresses = catena_wire::ip::Addresses::V4 { src, dst };
        let rest = &packet[header_len..];
        let port = |at: usize| u16::from_be_bytes([rest[at], rest[at + 1]]);
        let (mut src_port, mut dst_port) = (port(0), port(2));
        let body = match Protocol(packet[9]) {
            Protocol::UDP if !is_whole => Body::Udp(Vec::new()),
            Protocol::UDP => {
                let view = udp::View::parse(rest).unwrap();
                assert!(view.checksum_is_valid(&addresses), "{packet:02x?}");
                match view.checksum() {
                    0 => Body::BareUdp(view.payload().to_vec()),
                    _ => Body::Udp(view.payload().to_vec()),
                }
            }
            Protocol::TCP if !is_whole => Body::Tcp(Flags(0)),
            Protocol::TCP => {
                let view = tcp::View::parse(rest).unwrap();
                assert!(view.checksum_is_valid(&addresses), "{packet:02x?}");
                Body::Tcp(view.flags())
            }
            Protocol::ICMP => Self::read_icmp(rest, is_whole, (&mut src_port, &mut dst_port)),
            other => panic!("{other}"),
        };
        Self {
            src: (src.to_string(), src_port),
            dst: (dst.to_string(), dst_port),
            body,
            macs: [2, 1],
        }
    }

    fn read_icmp(message: &[u8], is_whole: bool, ports: (&mut u16, &mut u16)) -> Body {
        let view = icmpv4::View::parse(message).unwrap();
        assert!(!is_whole || view.checksum_is_valid(), "{message:02x?}");
        (*ports.0, *ports.1) = (0, 0);
        if view.message_type().is_error() {
            let about = view.payload();
            let total = usize::from(u16::from_be_bytes([about[2], about[3]]));
            let inner = Self::read_packet(about, about.len() >= total);
            return Body::Error(view.message_type().0, Box::new(inner), about.len());
        }
        let [a, b, ..] = view.rest();
        (*ports.0, *ports.1) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([a, b]));
        Body::Query(view.message_type().0)
    }
}
