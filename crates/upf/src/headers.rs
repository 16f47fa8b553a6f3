//! Headers around a user's packet: read in front of its session, written behind its rules.
//!
//! First and last step of a packet's way through the UPF. Tunnels are GTP-U over UDP over IPv4 or
//! IPv6 (TS 29.281); what is put in front of a packet is written into its headroom.

use std::net::IpAddr;

use catena_wire::dissect::{Dissected, Fragment, Transport};
use catena_wire::ethernet::{self, EtherType, MacAddr};
use catena_wire::gtpu::pdu_session::{Downlink, PduSession, Uplink};
use catena_wire::gtpu::{self, Extension, ExtensionType, Extensions, MessageType};
use catena_wire::ip::{Addresses, Protocol};
use catena_wire::{ipv4, ipv6, udp};

use crate::sdf::Inner;

/// Most bytes that are put in front of a user's packet: Ethernet, IPv6, UDP, GTP-U with its
/// optional fields and a PDU session container, which may have a time.
pub const HEADROOM: u8 = 14 + 40 + 8 + 12 + 16;

fn word(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_be_bytes(word)
}

/// Where the SPI of an Authentication Header lies, which is an extension header over IPv6: behind
/// it comes what the packet is of. None of IPv4.
fn ah_spi_at(packet: &[u8]) -> Option<usize> {
    let view = ipv6::View::parse(packet).ok()?;
    let mut extensions = view.extensions().map_while(Result::ok);
    let ah = extensions.find(|one| one.protocol == Protocol::AH)?;
    Some(ipv6::HEADER_LEN + ah.offset + 4)
}

/// Reads what filters look at of a user's packet.
pub fn inner(packet: &[u8]) -> Option<Inner> {
    let read = Dissected::parse_ip(packet).ok()?;
    let ip = read.ip?;
    let (traffic_class, flow_label) = match ip.addresses {
        Addresses::V4 { .. } => (packet[1], 0),
        Addresses::V6 { .. } => {
            let first = word(packet, 0);
            ((first >> 20) as u8, first & ipv6::FLOW_LABEL_MAX)
        }
    };
    let spi_at = match ip.protocol {
        Protocol::ESP => Some(read.l4),
        Protocol::AH => Some(read.l4 + 4),
        _ if read.l4 > ipv6::HEADER_LEN => ah_spi_at(packet),
        _ => None,
    };
    let spi_at = spi_at.filter(|_| ip.fragment != Fragment::Later);
    Some(Inner {
        src: ip.addresses.src(),
        dst: ip.addresses.dst(),
        protocol: ip.protocol.0,
        ports: read.ports(),
        traffic_class,
        flow_label,
        spi: spi_at
            .filter(|at| at + 4 <= read.end)
            .map(|at| word(packet, at)),
        len: read.end,
        is_part: ip.fragment != Fragment::Whole,
    })
}

/// What a frame is to a UPF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outer {
    /// A UDP datagram: addresses, ports, and where its payload begins and ends.
    Udp {
        /// Who sent it.
        src: IpAddr,
        /// To whom.
        dst: IpAddr,
        /// Source port.
        src_port: u16,
        /// Destination port.
        dst_port: u16,
        /// Where the IP header begins, from the start of the frame.
        l3: usize,
        /// Where the payload begins.
        from: usize,
        /// Where it ends.
        to: usize,
    },
    /// An IP packet in another one (RFC 2003, RFC 2473).
    Wrapped {
        /// To whom the outer one is.
        dst: IpAddr,
        /// Where the outer one begins, from the start of the frame.
        l3: usize,
        /// Where the inner one begins.
        at: usize,
        /// Where the outer one ends.
        end: usize,
    },
    /// Another IP packet.
    Ip {
        /// To whom.
        dst: IpAddr,
        /// Where it begins, from the start of the frame.
        l3: usize,
    },
    /// A fragment.
    Part {
        /// To whom.
        dst: IpAddr,
        /// Where it begins, from the start of the frame.
        l3: usize,
    },
    /// Not IP: ARP, say.
    Other,
    /// Headers that contradict themselves.
    Malformed,
}

/// Reads the headers of a frame.
#[inline]
pub fn outer(frame: &[u8]) -> Outer {
    let Ok(read) = Dissected::parse(frame) else {
        return Outer::Malformed;
    };
    let Some(ip) = read.ip else {
        return Outer::Other;
    };
    let dst = ip.addresses.dst();
    match read.transport {
        _ if ip.fragment != Fragment::Whole => Outer::Part { dst, l3: read.l3 },
        Transport::Udp { src_port, dst_port } => Outer::Udp {
            src: ip.addresses.src(),
            dst,
            src_port,
            dst_port,
            l3: read.l3,
            from: read.payload,
            to: read.end,
        },
        _ if matches!(ip.protocol, Protocol::IPV4 | Protocol::IPV6) => Outer::Wrapped {
            dst,
            l3: read.l3,
            at: read.l4,
            end: read.end,
        },
        _ => Outer::Ip { dst, l3: read.l3 },
    }
}

/// The frame around what leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Source.
    pub src: MacAddr,
    /// Destination.
    pub dst: MacAddr,
}

impl Frame {
    /// Writes the header of a frame with an IP packet to the front of `bytes`.
    #[inline]
    pub fn emit(&self, bytes: &mut [u8], is_v6: bool) {
        let ether_type = if is_v6 {
            EtherType::IPV6
        } else {
            EtherType::IPV4
        };
        ethernet::Header {
            dst: self.dst,
            src: self.src,
            ether_type,
        }
        .emit(bytes);
    }
}

/// A UDP datagram that leaves, or an IP packet in another one (RFC 2003, RFC 2473).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Its frame.
    pub frame: Frame,
    /// Source address.
    pub src: IpAddr,
    /// Destination address, of the same version.
    pub dst: IpAddr,
    /// Source and destination port of UDP; none where the payload is an IP packet itself.
    pub ports: Option<(u16, u16)>,
    /// ToS or Traffic Class.
    pub traffic_class: u8,
    /// Identification of an IPv4 packet, which routers may fragment.
    pub ident: u16,
}

impl Datagram {
    /// Length of all headers in bytes.
    pub const fn header_len(&self) -> usize {
        let ip = match self.dst {
            IpAddr::V4(_) => ipv4::HEADER_LEN_MIN,
            IpAddr::V6(_) => ipv6::HEADER_LEN,
        };
        ethernet::HEADER_LEN + ip + self.udp_len()
    }

    const fn udp_len(&self) -> usize {
        match self.ports {
            Some(_) => udp::HEADER_LEN,
            None => 0,
        }
    }

    /// The whole frame of a datagram that carries `payload`.
    pub fn frame(&self, payload: &[u8]) -> Vec<u8> {
        let at = self.header_len();
        let mut frame = vec![0; at + payload.len()];
        frame[at..].copy_from_slice(payload);
        self.emit(&mut frame);
        frame
    }

    /// Writes all headers to the front of `bytes`, whose rest is the payload. Addresses of two
    /// versions write nothing.
    #[inline]
    pub fn emit(&self, bytes: &mut [u8]) {
        let header_len = self.header_len();
        let payload_len = bytes.len() - header_len;
        let (dscp, ecn) = (self.traffic_class >> 2, self.traffic_class & 3);
        let protocol = match self.ports {
            Some((src_port, dst_port)) => {
                let at = header_len - udp::HEADER_LEN;
                udp::Header {
                    src_port,
                    dst_port,
                    payload_len,
                }
                .emit(&mut bytes[at..]);
                Protocol::UDP
            }
            None if bytes.get(header_len).is_some_and(|byte| byte >> 4 == 6) => Protocol::IPV6,
            None => Protocol::IPV4,
        };
        let udp_len = self.udp_len();
        let ip = &mut bytes[ethernet::HEADER_LEN..];
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                ipv4::Header {
                    dscp,
                    ecn,
                    ident: self.ident,
                    dont_fragment: false,
                    more_fragments: false,
                    fragment_offset: 0,
                    ttl: 64,
                    protocol,
                    src,
                    dst,
                    payload_len: udp_len + payload_len,
                    options: Default::default(),
                }
                .emit(ip);
                self.frame.emit(bytes, false);
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let len = u16::try_from(udp_len + payload_len);
                ipv6::Header {
                    dscp,
                    ecn,
                    flow_label: 0,
                    payload_len: len.unwrap_or(u16::MAX),
                    next_header: protocol,
                    hop_limit: 64,
                    src,
                    dst,
                }
                .emit(ip);
                // Over IPv6 a datagram has a checksum.
                let addresses = Addresses::V6 { src, dst };
                if self.ports.is_some()
                    && let Ok(mut view) = udp::View::parse(&mut ip[ipv6::HEADER_LEN..])
                {
                    view.fill_checksum(&addresses);
                }
                self.frame.emit(bytes, true);
            }
            _ => {}
        }
    }
}

/// The GTP-U header in front of a user's packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// The tunnel at its receiver.
    pub teid: u32,
    /// The PDU session container, if there is one.
    pub container: Option<PduSession>,
}

impl Tunnel {
    /// Towards the access network: a container if there is a QFI.
    pub fn downlink(teid: u32, qfi: Option<u8>, rqi: bool, ppi: Option<u8>) -> Self {
        let frame = |qfi| {
            PduSession::Downlink(Downlink {
                qfi,
                rqi,
                ppi,
                ..Downlink::default()
            })
        };
        Self {
            teid,
            container: qfi.map(frame),
        }
    }

    /// Towards another UPF, away from the access network.
    pub fn uplink(teid: u32, qfi: Option<u8>) -> Self {
        let frame = |qfi| {
            PduSession::Uplink(Uplink {
                qfi,
                ..Uplink::default()
            })
        };
        Self {
            teid,
            container: qfi.map(frame),
        }
    }

    /// This tunnel with the time at which its packet leaves; none if no downlink container is
    /// there to have it.
    pub(crate) fn stamped(mut self, time: u64) -> Option<Self> {
        let Some(PduSession::Downlink(frame)) = &mut self.container else {
            return None;
        };
        frame.sending_time = Some(time);
        Some(self)
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        match &self.container {
            None => gtpu::HEADER_LEN_MIN,
            Some(container) => {
                gtpu::HEADER_LEN_MIN + gtpu::OPTIONAL_LEN + container.content_len() + 2
            }
        }
    }

    /// Never: a header has eight bytes at least.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Writes the header of a message with `payload_len` bytes behind it to the front of `bytes`.
    pub fn emit(&self, bytes: &mut [u8], message_type: MessageType, payload_len: usize) {
        let mut content = [0; gtpu::pdu_session::CONTENT_LEN_MAX];
        let mut chain = [0; gtpu::pdu_session::CONTENT_LEN_MAX + 2];
        let mut extensions = Extensions::NONE;
        if let Some(container) = &self.container {
            let len = container.content_len();
            container.emit(&mut content[..len]);
            let extension = Extension {
                extension_type: ExtensionType::PDU_SESSION_CONTAINER,
                content: &content[..len],
            };
            let written = Extensions::write(&mut chain, &[extension]);
            extensions = written.unwrap_or(Extensions::NONE);
        }
        gtpu::Header {
            message_type,
            teid: self.teid,
            sequence: None,
            n_pdu: None,
            extensions,
            payload_len,
        }
        .emit(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Frame = Frame {
        src: MacAddr([2, 0, 0, 0, 0, 1]),
        dst: MacAddr([2, 0, 0, 0, 0, 2]),
    };

    /// What is written around a packet is read back, over IPv4 and IPv6, with and without QFI.
    #[test]
    fn a_tunnel_reads_back_as_it_was_written() {
        for (src, dst) in [("10.3.0.1", "10.3.0.9"), ("2001:db8::1", "2001:db8::9")] {
            for qfi in [None, Some(9)] {
                let datagram = Datagram {
                    frame: FRAME,
                    src: src.parse().unwrap(),
                    dst: dst.parse().unwrap(),
                    ports: Some((gtpu::PORT, gtpu::PORT)),
                    traffic_class: 0xb8,
                    ident: 7,
                };
                let tunnel = Tunnel::downlink(0x0102_0304, qfi, true, None);
                let payload = b"user's packet";
                let headers = datagram.header_len() + tunnel.len();
                assert!(headers <= usize::from(HEADROOM));
                let mut bytes = vec![0; headers + payload.len()];
                bytes[headers..].copy_from_slice(payload);
                let at = datagram.header_len();
                tunnel.emit(&mut bytes[at..], MessageType::G_PDU, payload.len());
                datagram.emit(&mut bytes);
                let Outer::Udp {
                    src, dst, from, to, ..
                } = outer(&bytes)
                else {
                    panic!("{:?}", outer(&bytes));
                };
                assert_eq!((src, dst), (datagram.src, datagram.dst));
                let view = gtpu::View::parse(&bytes[from..to]).unwrap();
                assert_eq!((view.teid(), view.payload()), (0x0102_0304, &payload[..]));
                let container = view.extensions().pdu_session().unwrap();
                assert_eq!(container.map(|container| container.qfi()), qfi);
            }
        }
    }

    #[test]
    fn what_is_no_packet_is_said_to_be_none() {
        assert_eq!(outer(&[]), Outer::Malformed);
        assert_eq!(inner(&[]), None);
        assert_eq!(inner(&[0x45; 19]), None);
        let mut arp = [0; 60];
        arp[12..14].copy_from_slice(&[8, 6]);
        assert_eq!(outer(&arp), Outer::Other);
    }
}
