//! The frames of a generator: made once per size, then copied and touched up.
//!
//! ```text
//! | Ethernet 14 | tag 0/4 | IPv4 20 or IPv6 40 | UDP 8 | mark 4 | flow 4 | sequence 8 | filling |
//! ```
//!
//! The mark, the flow number and the sequence number are there if the payload holds all
//! [`MARK_LEN`] bytes. Flow number and addresses are tied: flow `f` is sent from host
//! `1 + f mod 65534` of 198.18.0.0/16 (RFC 2544 C.2.2) or 2001:2::/49 (RFC 5180 5) to the same host
//! of the other half, from port `49152 + f mod 16384` to port 9 (discard). No two flows up to
//! [`FLOW_COUNT_MAX`](super::FLOW_COUNT_MAX) have the same addresses and ports. Checksums are
//! right: the sums of the template and of the changing words are added (RFC 1071 2).

use catena_wire::checksum::Sum;

use super::config::{Config, Filling, IpVersion, UDP_LEN};

/// Starts the payload of a numbered packet.
pub const MARK: [u8; 4] = *b"CtnG";
/// Bytes of mark, flow number and sequence number.
pub const MARK_LEN: usize = 16;

const HOST_COUNT: u32 = 65_534;
const PORT_FIRST: u16 = 49_152;
const PORT_COUNT: u32 = 16_384;
const DISCARD: u16 = 9;

/// The frame of one size, with flow 0 and sequence number 0 left out of the checksums.
#[derive(Clone, Debug)]
pub(super) struct Template {
    bytes: Vec<u8>,
    version: IpVersion,
    /// Offset of the IP header.
    ip: usize,
    /// Offset of the UDP header.
    udp: usize,
    ip_sum: Sum,
    udp_sum: Sum,
    is_numbered: bool,
}

impl Template {
    pub(super) fn new(config: &Config, len: usize) -> Self {
        let version = config.protocol;
        let mut bytes = Vec::with_capacity(len);
        bytes.extend(config.dst_mac.0);
        bytes.extend(config.src_mac.0);
        if let Some(vlan) = config.vlan {
            bytes.extend([0x81, 0x00]);
            bytes.extend(vlan.to_be_bytes());
        }
        let ip = bytes.len() + 2;
        let udp = ip + version.header_len();
        // Fits: a frame has at most 9,000 bytes.
        let udp_len = (len - udp) as u16;
        match version {
            IpVersion::Four => {
                bytes.extend([0x08, 0x00, 0x45, 0]);
                bytes.extend((udp_len + 20).to_be_bytes());
                // Identification 0, don't fragment (RFC 6864 4.1); 64 hops; UDP.
                bytes.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
                bytes.extend([198, 18, 0, 0, 198, 19, 0, 0]);
            }
            IpVersion::Six => {
                bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
                bytes.extend(udp_len.to_be_bytes());
                bytes.extend([17, 64]);
                for half in [0, 0x80] {
                    bytes.extend([0x20, 0x01, 0, 0x02, 0, 0, half, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
                }
            }
        }
        bytes.extend([0, 0]);
        bytes.extend(DISCARD.to_be_bytes());
        bytes.extend(udp_len.to_be_bytes());
        bytes.extend([0, 0]);
        let payload = bytes.len();
        let is_numbered = len - payload >= MARK_LEN;
        config.payload.fill(&mut bytes, len);
        if is_numbered {
            bytes[payload..payload + 4].copy_from_slice(&MARK);
            bytes[payload + 4..payload + MARK_LEN].fill(0);
        }
        let addresses = match version {
            IpVersion::Four => ip + 12..ip + 20,
            IpVersion::Six => ip + 8..ip + 40,
        };
        let pseudo_header = Sum::of(&bytes[addresses]) + Sum::of_u16(17) + Sum::of_u16(udp_len);
        Self {
            version,
            ip,
            udp,
            ip_sum: Sum::of(&bytes[ip..udp]),
            udp_sum: Sum::of(&bytes[udp..]) + pseudo_header,
            is_numbered,
            bytes,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn is_numbered(&self) -> bool {
        self.is_numbered
    }

    /// Writes packet number `sequence` of `flow` into `to`, which has the template's length.
    #[inline]
    pub(super) fn write(&self, to: &mut [u8], flow: u32, sequence: u64) {
        to.copy_from_slice(&self.bytes);
        let put16 = |to: &mut [u8], at: usize, field: u16| {
            to[at..at + 2].copy_from_slice(&field.to_be_bytes());
        };
        // Both fit: the remainders are below 2^16.
        let host = (flow % HOST_COUNT + 1) as u16;
        let port = PORT_FIRST + (flow.wrapping_add(flow / HOST_COUNT) % PORT_COUNT) as u16;
        let hosts = Sum::of_u16(host) + Sum::of_u16(host);
        match self.version {
            IpVersion::Four => {
                put16(to, self.ip + 14, host);
                put16(to, self.ip + 18, host);
                put16(to, self.ip + 10, (self.ip_sum + hosts).checksum());
            }
            IpVersion::Six => {
                put16(to, self.ip + 22, host);
                put16(to, self.ip + 38, host);
            }
        }
        put16(to, self.udp, port);
        let mut sum = self.udp_sum + hosts + Sum::of_u16(port);
        if self.is_numbered {
            let at = self.udp + UDP_LEN + MARK.len();
            to[at..at + 4].copy_from_slice(&flow.to_be_bytes());
            to[at + 4..at + 12].copy_from_slice(&sequence.to_be_bytes());
            sum = sum + Sum::of_u32(flow) + Sum::of_u128(u128::from(sequence));
        }
        // Zero would mean "no checksum" (RFC 768).
        let checksum = match sum.checksum() {
            0 => 0xffff,
            other => other,
        };
        put16(to, self.udp + 6, checksum);
    }
}

/// Flow number and sequence number of a UDP payload that a generator has numbered.
#[inline]
pub fn numbers_in(payload: &[u8]) -> Option<(u32, u64)> {
    let numbers = payload.first_chunk::<MARK_LEN>()?;
    let (mark, rest) = numbers.split_first_chunk::<4>()?;
    let (flow, sequence) = rest.split_first_chunk::<4>()?;
    let sequence = sequence.first_chunk::<8>()?;
    (*mark == MARK).then(|| (u32::from_be_bytes(*flow), u64::from_be_bytes(*sequence)))
}

impl Filling {
    /// Extends `bytes` to `len` bytes.
    fn fill(self, bytes: &mut Vec<u8>, len: usize) {
        match self {
            Self::Zeros => bytes.resize(len, 0),
            Self::Ones => bytes.resize(len, 0xff),
            Self::Counting => {
                let count = len - bytes.len();
                bytes.extend((0..count).map(|index| index as u8));
            }
            Self::Random => {
                let mut random = crate::random::Random::new(0);
                while bytes.len() < len {
                    bytes.extend(random.next().to_be_bytes());
                }
                bytes.truncate(len);
            }
        }
    }
}
