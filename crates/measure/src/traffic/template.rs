//! The frames of a profile: made once per size, then copied and patched.
//!
//! ```text
//! | Ethernet | tags | [ IP, UDP 2152, GTP-U, PDU session ] | IP | UDP or TCP | 0, 0, ... | stamp |
//! ```
//!
//! Flow `f` is sent from host `src + f mod 65534` to host `dst + f mod 65534` (the low 16 bits of
//! each address), from port `49152 + (f + f / 65534) mod 16384`, in tunnel `teid + f mod teids`.
//! Checksums are kept as sums of all that does not depend on the flow (RFC 1071 2); the stamp's
//! own sum is zero. In one's complement arithmetic the inner datagram with a right checksum sums up
//! to the complement of its pseudo header, so that the outer checksum needs the inner addresses
//! only.
//!
//! Formats: RFC 791, 8200, 768, 9293; 3GPP TS 29.281 5 (GTP-U), TS 38.415 5.5.2 (PDU session).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use catena_wire::checksum::Sum;
use catena_wire::gtpu::pdu_session::{Downlink, PduSession, Uplink};
use catena_wire::gtpu::{self, Extension, ExtensionType, Extensions};

use crate::profile::{
    CHUNK_ETHER_TYPE, Direction, FCS_LEN, GTPU_LEN, Gtpu, IpVersion, PacketShape, Transport,
};
use crate::stamp::STAMP_LEN;

const HOST_COUNT: u32 = 65_534;
const PORT_FIRST: u16 = 49_152;
const PORT_COUNT: u32 = 16_384;
const GTPU_PORT: u16 = gtpu::PORT;
const UDP: u8 = 17;
const TCP: u8 = 6;

/// A frame of one size, all fields of the flow 0 in the making left out of its sums.
#[derive(Clone, Debug)]
pub(super) struct Template {
    bytes: Vec<u8>,
    inner: Layer,
    l4: usize,
    /// Offset and sum of the checksum of UDP or TCP, if it has one.
    l4_sum: Option<(usize, Sum)>,
    src_low: u16,
    dst_low: u16,
    tunnel: Option<Tunnel>,
    /// Whether every flow has the same bytes, which are complete then.
    is_single: bool,
}

/// An IP header in a template.
#[derive(Clone, Copy, Debug)]
struct Layer {
    at: usize,
    version: IpVersion,
    /// Sum of the header, for IPv4.
    sum: Sum,
}

#[derive(Clone, Debug)]
struct Tunnel {
    teid_at: usize,
    teid: u32,
    teids: u32,
    /// Offset and sum of the outer UDP checksum, if it must have one.
    udp_sum: Option<(usize, Sum)>,
    /// Whether the inner transport has a checksum, which then takes up the change of port.
    inner_has_checksum: bool,
}

fn put16(to: &mut [u8], at: usize, field: u16) {
    to[at..at + 2].copy_from_slice(&field.to_be_bytes());
}

/// A checksum as UDP carries it: zero would mean none (RFC 768).
fn nonzero(checksum: u16) -> u16 {
    if checksum == 0 { 0xffff } else { checksum }
}

impl Template {
    /// The frame of `frame_len` bytes, FCS counted though not made; at least
    /// [`PacketShape::frame_len_min`].
    pub(super) fn new(shape: &PacketShape, frame_len: usize, flow_count: u32) -> Self {
        let len = frame_len - FCS_LEN;
        let mut bytes = vec![0; len];
        bytes[..6].copy_from_slice(&shape.dst_mac.0);
        bytes[6..12].copy_from_slice(&shape.src_mac.0);
        let mut at = 12;
        for (index, vlan) in shape.vlan.0.iter().enumerate() {
            // The outer of two tags is a service tag (IEEE 802.1Q 9.5).
            let is_service = shape.vlan.0.len() == 2 && index == 0;
            put16(&mut bytes, at, if is_service { 0x88a8 } else { 0x8100 });
            put16(&mut bytes, at + 2, *vlan);
            at += 4;
        }
        let (protocol, checksum_at) = match shape.transport {
            Transport::Udp => (UDP, 6),
            Transport::TcpSyn => (TCP, 16),
            Transport::Chunk => return Self::chunk(bytes, at),
        };
        let outer_version = shape.gtpu.as_ref().map_or(shape.ip, |gtpu| gtpu.ip);
        put16(&mut bytes, at, ether_type(outer_version));
        at += 2;
        let outer_at = at;
        let teid_at = shape.gtpu.as_ref().map(|gtpu| {
            let ends = ends(gtpu.ip, gtpu.src, gtpu.dst, 100);
            ip_header(&mut bytes, at, gtpu.ip, UDP, ends);
            at += gtpu.ip.header_len();
            put16(&mut bytes, at, GTPU_PORT);
            put16(&mut bytes, at + 2, GTPU_PORT);
            put16(&mut bytes, at + 4, (len - at) as u16);
            at += 8;
            gtpu_header(&mut bytes[at..], gtpu, len - at);
            at += GTPU_LEN;
            at - GTPU_LEN + 4
        });
        let inner_at = at;
        let ends = ends(shape.ip, shape.src, shape.dst, 18);
        ip_header(&mut bytes, at, shape.ip, protocol, ends);
        at += shape.ip.header_len();
        transport_header(&mut bytes[at..], shape, len - at);
        let (src_low, dst_low) = (low16(ends.0), low16(ends.1));
        clear_flow(&mut bytes, inner_at, shape.ip);
        let inner = Layer::new(&mut bytes, inner_at, shape.ip);
        let l4_sum = (shape.udp_checksum || protocol == TCP).then(|| {
            let sum = inner.pseudo_header(&bytes, protocol, len - at) + Sum::of(&bytes[at..]);
            (at + checksum_at, sum)
        });
        let tunnel = shape.gtpu.as_ref().zip(teid_at).map(|(gtpu, teid_at)| {
            let outer = Layer::new(&mut bytes, outer_at, gtpu.ip);
            outer.finish(&mut bytes);
            let udp_at = outer_at + gtpu.ip.header_len();
            let udp_sum = (gtpu.ip == IpVersion::V6).then(|| {
                let head = Sum::of(&bytes[udp_at..inner_at]);
                let outside = outer.pseudo_header(&bytes, UDP, len - udp_at) + head;
                // Zero for an IPv4 header; an IPv6 header has no checksum and stands for itself.
                let inner_header = match shape.ip {
                    IpVersion::V4 => Sum::ZERO,
                    IpVersion::V6 => Sum::of(&bytes[inner_at..at]),
                };
                let inner_rest = match l4_sum {
                    // The datagram is the complement of its pseudo header.
                    Some(_) => {
                        let pseudo = inner.pseudo_header(&bytes, protocol, len - at);
                        Sum::of_u16(pseudo.checksum())
                    }
                    None => Sum::of(&bytes[at..]),
                };
                (udp_at + 6, outside + inner_header + inner_rest)
            });
            Tunnel {
                teid_at,
                teid: gtpu.teid,
                teids: gtpu.teids,
                udp_sum,
                inner_has_checksum: l4_sum.is_some(),
            }
        });
        let mut template = Self {
            bytes,
            inner,
            l4: at,
            l4_sum,
            src_low,
            dst_low,
            tunnel,
            is_single: false,
        };
        if flow_count == 1 {
            let mut frame = template.bytes.clone();
            template.patch(&mut frame, 0);
            template.bytes = frame;
            template.is_single = true;
        }
        template
    }

    /// A chunk, whose bytes are those of every flow: nothing is patched but the stamp.
    fn chunk(mut bytes: Vec<u8>, at: usize) -> Self {
        put16(&mut bytes, at, CHUNK_ETHER_TYPE);
        Self {
            bytes,
            inner: Layer {
                at,
                version: IpVersion::V4,
                sum: Sum::ZERO,
            },
            l4: at,
            l4_sum: None,
            src_low: 0,
            dst_low: 0,
            tunnel: None,
            is_single: true,
        }
    }

    /// Bytes of the packet, FCS left out.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Writes the packet of `flow`, but for its stamp, into `to`, which has the template's length.
    #[inline]
    pub(super) fn write(&self, to: &mut [u8], flow: u32) {
        to.copy_from_slice(&self.bytes);
        if !self.is_single {
            self.patch(to, flow);
        }
    }

    fn patch(&self, to: &mut [u8], flow: u32) {
        // All fit: the remainders are below 2^16.
        let host = (flow % HOST_COUNT) as u16;
        let port = PORT_FIRST + ((flow + flow / HOST_COUNT) % PORT_COUNT) as u16;
        let (src, dst) = (
            self.src_low.wrapping_add(host),
            self.dst_low.wrapping_add(host),
        );
        let (src_at, dst_at) = low_ends(self.inner.at, self.inner.version);
        put16(to, src_at, src);
        put16(to, dst_at, dst);
        put16(to, self.l4, port);
        let ends = Sum::of_u16(src) + Sum::of_u16(dst);
        if self.inner.version == IpVersion::V4 {
            let checksum = (self.inner.sum + ends).checksum();
            put16(to, self.inner.at + 10, checksum);
        }
        if let Some((at, sum)) = self.l4_sum {
            let checksum = nonzero((sum + ends + Sum::of_u16(port)).checksum());
            put16(to, at, checksum);
        }
        if let Some(tunnel) = &self.tunnel {
            let teid = tunnel.teid + flow % tunnel.teids;
            to[tunnel.teid_at..tunnel.teid_at + 4].copy_from_slice(&teid.to_be_bytes());
            if let Some((at, sum)) = tunnel.udp_sum {
                let mut sum = sum + Sum::of_u32(teid);
                if self.inner.version == IpVersion::V6 {
                    sum += ends;
                }
                if tunnel.inner_has_checksum {
                    sum += Sum::of_u16(ends.checksum());
                } else {
                    sum += Sum::of_u16(port);
                }
                put16(to, at, nonzero(sum.checksum()));
            }
        }
    }
}

impl Layer {
    /// The header at `at`, with its flow-dependent address bytes and checksum cleared.
    fn new(bytes: &mut [u8], at: usize, version: IpVersion) -> Self {
        let sum = match version {
            IpVersion::V4 => {
                put16(bytes, at + 10, 0);
                Sum::of(&bytes[at..at + 20])
            }
            IpVersion::V6 => Sum::ZERO,
        };
        Self { at, version, sum }
    }

    /// Puts the checksum of a header that no flow changes.
    fn finish(self, bytes: &mut [u8]) {
        if self.version == IpVersion::V4 {
            put16(bytes, self.at + 10, self.sum.checksum());
        }
    }

    fn pseudo_header(self, bytes: &[u8], protocol: u8, len: usize) -> Sum {
        let addresses = match self.version {
            IpVersion::V4 => self.at + 12..self.at + 20,
            IpVersion::V6 => self.at + 8..self.at + 40,
        };
        // Fits: a frame has at most 9,216 bytes.
        let len = Sum::of_u16(len as u16);
        Sum::of(&bytes[addresses]) + Sum::of_u16(u16::from(protocol)) + len
    }
}

/// Offsets of the low 16 bits of source and destination in a header at `at`.
fn low_ends(at: usize, version: IpVersion) -> (usize, usize) {
    match version {
        IpVersion::V4 => (at + 14, at + 18),
        IpVersion::V6 => (at + 22, at + 38),
    }
}

/// Clears what depends on the flow, so that sums do not contain it.
fn clear_flow(bytes: &mut [u8], at: usize, version: IpVersion) {
    let (src, dst) = low_ends(at, version);
    put16(bytes, src, 0);
    put16(bytes, dst, 0);
}

fn ether_type(version: IpVersion) -> u16 {
    match version {
        IpVersion::V4 => 0x0800,
        IpVersion::V6 => 0x86dd,
    }
}

/// The addresses of a layer: those given, or the benchmark networks of RFC 2544 C.2.2 (`net`
/// 18) and RFC 5180 5.2.2, with `net` telling tunnel and packet apart.
fn ends(version: IpVersion, src: Option<IpAddr>, dst: Option<IpAddr>, net: u8) -> (IpAddr, IpAddr) {
    let default = |half: u8| match version {
        IpVersion::V4 if net == 18 => IpAddr::V4(Ipv4Addr::new(198, 18 + half, 0, 1)),
        IpVersion::V4 => IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1 + half)),
        IpVersion::V6 => {
            let half = u16::from(half) << 15;
            IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, half, u16::from(net), 0, 0, 1))
        }
    };
    (
        src.unwrap_or_else(|| default(0)),
        dst.unwrap_or_else(|| default(1)),
    )
}

fn low16(address: IpAddr) -> u16 {
    match address {
        IpAddr::V4(address) => {
            let [.., high, low] = address.octets();
            u16::from_be_bytes([high, low])
        }
        IpAddr::V6(address) => address.segments()[7],
    }
}

/// An IP header at `at` of a packet that ends with `bytes`; its checksum is left 0.
fn ip_header(
    bytes: &mut [u8],
    at: usize,
    version: IpVersion,
    protocol: u8,
    (src, dst): (IpAddr, IpAddr),
) {
    // Fits: a frame has at most 9,216 bytes.
    let len = (bytes.len() - at) as u16;
    match version {
        IpVersion::V4 => {
            // Identification 0, don't fragment (RFC 6864 4.1); 64 hops.
            bytes[at..at + 2].copy_from_slice(&[0x45, 0]);
            put16(bytes, at + 2, len);
            bytes[at + 4..at + 10].copy_from_slice(&[0, 0, 0x40, 0, 64, protocol]);
        }
        IpVersion::V6 => {
            bytes[at] = 0x60;
            put16(bytes, at + 4, len - 40);
            bytes[at + 6..at + 8].copy_from_slice(&[protocol, 64]);
        }
    }
    let mut end = at + version.header_len();
    for address in [dst, src] {
        match address {
            IpAddr::V4(address) => bytes[end - 4..end].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => bytes[end - 16..end].copy_from_slice(&address.octets()),
        }
        end -= match address {
            IpAddr::V4(_) => 4,
            IpAddr::V6(_) => 16,
        };
    }
}

/// GTP-U with a PDU session container, over a payload that fills `len` bytes with it; the tunnel is
/// left 0.
fn gtpu_header(bytes: &mut [u8], gtpu: &Gtpu, len: usize) {
    let session = match gtpu.direction {
        Direction::Downlink => PduSession::Downlink(Downlink {
            qfi: gtpu.qfi,
            ..Downlink::default()
        }),
        Direction::Uplink => PduSession::Uplink(Uplink {
            qfi: gtpu.qfi,
            ..Uplink::default()
        }),
    };
    let mut content = [0; 2];
    session.emit(&mut content);
    let container = Extension {
        extension_type: ExtensionType::PDU_SESSION_CONTAINER,
        content: &content,
    };
    let mut chain = [0; 4];
    let header = gtpu::Header {
        message_type: gtpu::MessageType::G_PDU,
        teid: 0,
        sequence: None,
        n_pdu: None,
        extensions: Extensions::write(&mut chain, &[container]).expect("one unit is enough"),
        payload_len: len - GTPU_LEN,
    };
    debug_assert_eq!(header.header_len(), GTPU_LEN);
    header.emit(bytes);
}

/// UDP or TCP over a payload that fills `len` bytes with it; source port and checksum are left 0.
fn transport_header(bytes: &mut [u8], shape: &PacketShape, len: usize) {
    debug_assert!(len >= STAMP_LEN + 8);
    put16(bytes, 2, shape.dst_port);
    match shape.transport {
        Transport::Udp => put16(bytes, 4, len as u16),
        Transport::TcpSyn => {
            // Sequence and acknowledgment 0; 5 words; SYN; the largest window.
            bytes[12..16].copy_from_slice(&[0x50, 0x02, 0xff, 0xff]);
        }
        Transport::Chunk => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_wire::dissect::{self, Dissected};
    use catena_wire::ip::Addresses;
    use proptest::prelude::*;

    /// Whether IP and transport checksums of a frame from `l3` on are right, by summing all.
    fn assert_sums(frame: &[u8], ether_type: u16) -> (usize, usize) {
        let mut whole = vec![0; 12];
        whole.extend(ether_type.to_be_bytes());
        whole.extend(frame);
        let found = Dissected::parse(&whole).unwrap();
        let addresses = match found.ip.as_ref().unwrap().addresses {
            Addresses::V4 { .. } => {
                assert!(Sum::of(&whole[found.l3..found.l4]).is_valid());
                &whole[found.l3 + 12..found.l3 + 20]
            }
            Addresses::V6 { .. } => &whole[found.l3 + 8..found.l3 + 40],
        };
        assert_eq!(found.end, whole.len());
        let (protocol, checksum_at) = match found.transport {
            dissect::Transport::Udp { .. } => (17, 6),
            _ => (6, 16),
        };
        let l4 = &whole[found.l4..];
        if l4[checksum_at..checksum_at + 2] != [0, 0] {
            let sum = Sum::of(addresses) + Sum::of_u16(protocol) + Sum::of_u16(l4.len() as u16);
            assert!((sum + Sum::of(l4)).is_valid());
        }
        (found.l4 - 14, found.payload - 14)
    }

    fn shapes() -> impl Strategy<Value = PacketShape> {
        let version = prop_oneof![Just(IpVersion::V4), Just(IpVersion::V6)];
        let transport = prop_oneof![Just(Transport::Udp), Just(Transport::TcpSyn)];
        let gtpu = prop::option::of((version.clone(), any::<u16>(), 1_u32..100_000));
        let vlans = prop::collection::vec(0_u16..4095, 0..3);
        (version, transport, vlans, any::<bool>(), gtpu).prop_map(
            |(ip, transport, vlans, checksum, gtpu)| PacketShape {
                ip,
                transport,
                vlan: crate::profile::Vlans(vlans),
                udp_checksum: checksum || ip == IpVersion::V6,
                gtpu: gtpu.map(|(ip, teid, teids)| Gtpu {
                    ip,
                    teid: u32::from(teid),
                    teids,
                    ..Gtpu::default()
                }),
                ..PacketShape::default()
            },
        )
    }

    proptest! {
        #[test]
        fn every_checksum_of_every_flow_is_right(
            shape in shapes(), extra in 0_usize..200, flow in 0_u32..1 << 24, single: bool,
            number: u64,
        ) {
            let flow = if single { 0 } else { flow };
            let frame_len = shape.frame_len_min() + extra;
            let template = Template::new(&shape, frame_len, if single { 1 } else { 2 });
            let mut frame = vec![0xaa; template.len()];
            template.write(&mut frame, flow);
            let stamp = crate::stamp::Stamp {
                trial: 3, flow, sequence: number >> 24, intended: number >> 24,
                late: number >> 24,
            };
            stamp.write(&mut frame);
            let l3 = 14 + 4 * shape.vlan.0.len();
            let outer = shape.gtpu.as_ref().map_or(shape.ip, |gtpu| gtpu.ip);
            let (_, payload) = assert_sums(&frame[l3..], ether_type(outer));
            if let Some(gtpu) = &shape.gtpu {
                let tunnelled = &frame[l3 + payload..];
                let teid = gtpu.teid + flow % gtpu.teids;
                prop_assert_eq!(&tunnelled[4..8], &teid.to_be_bytes());
                let len = usize::from(u16::from_be_bytes([tunnelled[2], tunnelled[3]]));
                prop_assert_eq!(len, tunnelled.len() - 8);
                assert_sums(&tunnelled[GTPU_LEN..], ether_type(shape.ip));
            }
        }
    }

    #[test]
    fn a_chunk_is_bytes_behind_an_ethernet_header() {
        let shape = PacketShape {
            transport: Transport::Chunk,
            ..PacketShape::default()
        };
        assert_eq!((shape.headers_len(), shape.frame_len_min()), (14, 64));
        let template = Template::new(&shape, 131_072, 2);
        let mut chunk = vec![1; template.len()];
        template.write(&mut chunk, 1);
        assert_eq!(chunk.len(), 131_068);
        assert_eq!(
            chunk[..14],
            [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]
        );
        assert!(chunk[14..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn flows_differ_in_addresses_or_ports() {
        let template = Template::new(&PacketShape::default(), 64, 1 << 20);
        let key = |flow| {
            let mut frame = [0; 60];
            template.write(&mut frame, flow);
            frame[26..36].to_vec()
        };
        let mut keys: Vec<_> = (0..1 << 18).map(key).collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 1 << 18);
    }

    /// An uplink packet of TS 38.415: the bytes as the specifications draw them.
    #[test]
    fn the_tunnel_header_byte_by_byte() {
        let shape = PacketShape {
            gtpu: Some(Gtpu {
                teid: 0x0102_0304,
                ..Gtpu::default()
            }),
            ..PacketShape::default()
        };
        let template = Template::new(&shape, 128, 1);
        let expected = [
            0x34, 0xff, 0, 74, 1, 2, 3, 4, 0, 0, 0, 0x85, 1, 0x10, 9, 0, 0x45,
        ];
        assert_eq!(template.bytes[42..59], expected);
        assert_eq!(template.bytes[34..42], [8, 104, 8, 104, 0, 90, 0, 0]);
    }
}
