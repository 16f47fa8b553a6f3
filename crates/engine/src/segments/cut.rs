//! Cutting a packet apart as a network card does (TSO, USO). Pure.
//!
//! Each segment has the headers of the packet it came of, with its own lengths and checksums; IPv4
//! identifications count up, TCP sequence numbers go on, FIN and PSH are with the last segment and
//! CWR with the first (RFC 3168, 6.1.2). The kernel's `tcp_gso_segment` and `__udp_gso_segment` do
//! the same.

use catena_wire::checksum::Sum;

use super::headers::{Headers, TCP};

/// Least bytes of a segment: below what Linux cuts, whose smallest MSS of 48 has TCP's options in
/// it. So 64 KiB become 8,192 segments at most.
const SIZE_MIN: usize = 8;

const FIN_AND_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

/// A packet that is being cut apart; its bytes are elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    headers: Headers,
    /// Payload bytes in all, and in a segment.
    bytes: usize,
    size: usize,
    count: usize,
    /// Which segment is next.
    next: usize,
}

impl Cut {
    /// Into segments of `size` bytes of payload; none for what is no TCP or UDP packet, or would be
    /// too many.
    pub fn of(packet: &[u8], size: usize) -> Option<Self> {
        let headers = Headers::of(packet)?;
        let bytes = packet.len() - headers.payload;
        if size < SIZE_MIN {
            return None;
        }
        let count = bytes.div_ceil(size).max(1);
        Some(Self {
            headers,
            bytes,
            size,
            count,
            next: 0,
        })
    }

    /// Bytes of the next segment, headers included; none if all have been cut off.
    pub fn next_len(&self) -> Option<usize> {
        (self.next < self.count).then(|| self.headers.payload + self.payload_len())
    }

    fn payload_len(&self) -> usize {
        (self.bytes - self.next * self.size).min(self.size)
    }

    /// Goes on to the one behind the next segment.
    pub fn skip(&mut self) {
        self.next += 1;
    }

    /// Writes the next segment of `packet` to `to`, which has [`Cut::next_len`] bytes.
    pub fn write(&mut self, packet: &[u8], to: &mut [u8]) {
        let Headers {
            l3, l4, payload, ..
        } = self.headers;
        let from = payload + self.next * self.size;
        to[..payload].copy_from_slice(&packet[..payload]);
        to[payload..].copy_from_slice(&packet[from..from + self.payload_len()]);
        let (ip_len, transport_len) = (to.len() - l3, to.len() - l4);
        if self.headers.is_v6 {
            put(to, l3 + 4, ip_len - 40);
        } else {
            put(to, l3 + 2, ip_len);
            let id = u16::from_be_bytes([packet[l3 + 4], packet[l3 + 5]]);
            put(to, l3 + 4, usize::from(id) + self.next);
            to[l3 + 10..l3 + 12].fill(0);
            let checksum = Sum::of(&to[l3..l4]).checksum();
            to[l3 + 10..l3 + 12].copy_from_slice(&checksum.to_be_bytes());
        }
        if self.headers.protocol == TCP {
            self.write_tcp(&mut to[l4..]);
        } else {
            put(to, l4 + 4, transport_len);
        }
        self.headers.put_checksum(to);
        self.next += 1;
    }

    fn write_tcp(&self, tcp: &mut [u8]) {
        let (before, _) = tcp.split_at_mut(14);
        let sequence = u32::from_be_bytes([before[4], before[5], before[6], before[7]]);
        // At most the bytes of a packet.
        let ahead = u32::try_from(self.next * self.size).unwrap_or(u32::MAX);
        before[4..8].copy_from_slice(&sequence.wrapping_add(ahead).to_be_bytes());
        if self.next + 1 < self.count {
            before[13] &= !FIN_AND_PSH;
        }
        if self.next > 0 {
            before[13] &= !CWR;
        }
    }
}

/// Writes the low 16 bits of `value` at `at`.
fn put(bytes: &mut [u8], at: usize, value: usize) {
    let [.., high, low] = value.to_be_bytes();
    bytes[at..at + 2].copy_from_slice(&[high, low]);
}

#[cfg(test)]
#[path = "cut_tests.rs"]
mod tests;
