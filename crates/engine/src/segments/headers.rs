//! Where the headers of a packet lie of which something is left open. Pure.

use catena_wire::checksum::Sum;

const ETHERNET_LEN: usize = 14;
const TAG_LEN: usize = 4;
/// Tags that are looked behind: a service tag and a customer's.
const TAGS_MAX: usize = 2;
/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Protocol number of UDP.
pub const UDP: u8 = 17;
const UDP_LEN: usize = 8;

/// The headers of a TCP or UDP packet that fills its frame and is no fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Whether it is IPv6, else IPv4.
    pub is_v6: bool,
    /// [`TCP`] or [`UDP`].
    pub protocol: u8,
    /// Offset of the IP header.
    pub l3: usize,
    /// Offset of the TCP or UDP header: where the checksum begins.
    pub l4: usize,
    /// Offset of the payload.
    pub payload: usize,
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let (word, _) = bytes.get(at..)?.split_first_chunk()?;
    Some(u16::from_be_bytes(*word))
}

impl Headers {
    /// Those of `packet`; none if it is anything else. IPv6 with extension headers is, too.
    pub fn of(packet: &[u8]) -> Option<Self> {
        let mut l3 = ETHERNET_LEN;
        let mut ether_type = u16_at(packet, l3 - 2)?;
        for _ in 0..TAGS_MAX {
            if matches!(ether_type, 0x8100 | 0x88a8) {
                l3 += TAG_LEN;
                ether_type = u16_at(packet, l3 - 2)?;
            }
        }
        let ip = packet.get(l3..)?;
        let (is_v6, protocol, ip_header_len, ip_len) = match ether_type {
            0x0800 => {
                let is_fragment = u16_at(ip, 6)? & 0x3fff != 0;
                let header_len = usize::from(ip[0] & 15) * 4;
                if ip[0] >> 4 != 4 || header_len < 20 || is_fragment {
                    return None;
                }
                let len = usize::from(u16_at(ip, 2)?);
                (false, *ip.get(9)?, header_len, len)
            }
            0x86dd => {
                let len = usize::from(u16_at(ip, 4)?) + 40;
                if ip[0] >> 4 != 6 {
                    return None;
                }
                (true, *ip.get(6)?, 40, len)
            }
            _ => return None,
        };
        let l4 = l3 + ip_header_len;
        let transport_len = match protocol {
            TCP => usize::from(packet.get(l4 + 12)? >> 4) * 4,
            UDP => UDP_LEN,
            _ => return None,
        };
        let payload = l4 + transport_len;
        let is_whole = ip_len == ip.len() && payload <= packet.len();
        let is_header = protocol == UDP || transport_len >= 20;
        (is_whole && is_header).then_some(Self {
            is_v6,
            protocol,
            l3,
            l4,
            payload,
        })
    }

    /// Where the checksum lies, from the start of what it covers.
    pub fn checksum_offset(self) -> usize {
        if self.protocol == TCP { 16 } else { 6 }
    }

    /// The sum of the addresses, the protocol and a transport length.
    fn pseudo(self, packet: &[u8], len: usize) -> Sum {
        let addresses = if self.is_v6 {
            self.l3 + 8..self.l3 + 40
        } else {
            self.l3 + 12..self.l3 + 20
        };
        // A transport length is below 2^16: `of` has seen an IP length of 16 bits.
        let len = Sum::of_u32(u32::try_from(len).unwrap_or(u32::MAX));
        Sum::of(&packet[addresses]) + len + Sum::of_u16(self.protocol.into())
    }

    /// Computes the checksum of `packet`, which has these headers.
    pub(super) fn put_checksum(self, packet: &mut [u8]) {
        let at = self.l4 + self.checksum_offset();
        packet[at..at + 2].fill(0);
        let sum = self.pseudo(packet, packet.len() - self.l4) + Sum::of(&packet[self.l4..]);
        // Zero says in UDP that there is no checksum; all ones are the same number (RFC 768).
        let checksum = match sum.checksum() {
            0 => 0xffff,
            other => other,
        };
        packet[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// Completes the checksum of a packet whose headers say where it lies; false if they do not.
pub fn complete(packet: &mut [u8]) -> bool {
    let headers = Headers::of(packet);
    headers
        .inspect(|headers| headers.put_checksum(packet))
        .is_some()
}
