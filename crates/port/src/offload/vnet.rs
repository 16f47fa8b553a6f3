//! `virtio_net_hdr`, by which the kernel and a port tell each other what is left open. Pure.
//!
//! ```text
//! 0 flags | 1 kind of segmentation | 2 bytes of headers | 4 payload of a segment
//! 6 first byte that the checksum covers | 8 its field, from there
//! ```
//! Numbers are in the byte order of the host. What is received is held against the packet's own
//! headers, so only packets are carried whose header can be made again from them; the others are
//! made whole, or refused. References: virtio 1.2 (5.1.6), `virtio_net.h`.

use catena_engine::packet::Offload;
use catena_engine::segments::{Cut, Headers, TCP, UDP};

use crate::packet_socket::frame::{Checksum, RxInfo};

/// Bytes of the header.
pub(crate) const LEN: usize = 10;
/// Bytes of a VLAN tag.
const TAG_LEN: usize = 4;

const NEEDS_CHECKSUM: u8 = 1;
const NOT_SEGMENTED: u8 = 0;
const TCP_V4: u8 = 1;
const TCP_V6: u8 = 4;
const UDP_DATAGRAMS: u8 = 5;
/// Beside the kind, where TCP says that its window was reduced.
const WITH_ECN: u8 = 0x80;

/// A header that the kernel refuses for what it is, before it looks at the packet.
const REFUSED: [u8; LEN] = [0, 0x7f, 0, 0, 1, 0, 0, 0, 0, 0];

/// What the kernel says of a packet that it hands over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// First byte that an open checksum covers, and its field from there.
    pub(crate) checksum: Option<(u16, u16)>,
    /// Kind of segmentation and payload of a segment.
    pub(crate) segmentation: Option<(u8, u16)>,
}

/// What is to be done with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Nothing.
    Nothing,
    /// Its checksum is to be completed, which lies where its headers say.
    Checksum,
    /// A checksum is to be completed, from the first number on, its field at the second from there.
    ChecksumAt(usize, usize),
    /// It is to be cut into segments of so many bytes of payload.
    Segments(usize),
    /// Nobody here can cut it.
    Unknown,
}

impl Said {
    /// As a TAP says it, in front of the packet.
    pub(crate) fn parse(header: &[u8; LEN]) -> Self {
        let field = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        Self {
            checksum: (header[0] & NEEDS_CHECKSUM != 0).then(|| (field(6), field(8))),
            segmentation: (header[1] != NOT_SEGMENTED).then(|| (header[1], field(4))),
        }
    }

    /// As a packet socket says it, once the VLAN tag is back in its place.
    pub(crate) fn of(info: &RxInfo) -> Self {
        let tag_len = if info.vlan.is_some() {
            TAG_LEN as u16
        } else {
            0
        };
        Self {
            checksum: match info.checksum {
                Checksum::Partial { start, offset } => {
                    Some((start.saturating_add(tag_len), offset))
                }
                Checksum::Unverified | Checksum::Valid => None,
            },
            segmentation: info.segmentation.map(|it| (it.kind, it.segment_size)),
        }
    }

    /// Holds it against the packet.
    pub(crate) fn left(&self, packet: &[u8]) -> Left {
        let (start, offset) = match (self.checksum, self.segmentation) {
            (None, None) => return Left::Nothing,
            (None, Some(_)) => return Left::Unknown,
            (Some((start, offset)), _) => (usize::from(start), usize::from(offset)),
        };
        let headers = Headers::of(packet)
            .filter(|headers| (headers.l4, headers.checksum_offset()) == (start, offset));
        match (self.segmentation, headers) {
            (None, Some(_)) => Left::Checksum,
            (None, None) => Left::ChecksumAt(start, offset),
            (Some((kind, size)), Some(headers)) if kind & !WITH_ECN == kind_of(headers) => {
                let size = usize::from(size);
                let can_be_cut = Cut::of(packet, size).is_some();
                if can_be_cut {
                    Left::Segments(size)
                } else {
                    Left::Unknown
                }
            }
            (Some(_), _) => Left::Unknown,
        }
    }
}

impl Left {
    /// The number with which a packet is carried; none if it is to be made whole.
    pub(crate) fn carried(self) -> Option<Offload> {
        match self {
            Self::Nothing => Some(Offload::NONE),
            Self::Checksum => Some(Offload::CHECKSUM),
            Self::Segments(size) => Offload::segments_of(size),
            Self::ChecksumAt(..) | Self::Unknown => None,
        }
    }
}

fn kind_of(headers: Headers) -> u8 {
    match (headers.protocol, headers.is_v6) {
        (TCP, false) => TCP_V4,
        (TCP, true) => TCP_V6,
        (UDP, _) => UDP_DATAGRAMS,
        _ => NOT_SEGMENTED,
    }
}

/// The header for a packet that was carried. One whose number does not fit its headers gets a
/// header that the kernel refuses, so that it is counted as rejected: nobody on the way is trusted.
pub(crate) fn header_of(packet: &[u8], offload: Offload) -> [u8; LEN] {
    if offload.is_none() {
        return [0; LEN];
    }
    let Some(headers) = Headers::of(packet) else {
        return REFUSED;
    };
    let mut header = [0; LEN];
    let mut put = |at: usize, value: usize| {
        // Offsets in a packet of 64 KiB, of which headers are the first hundred bytes.
        let value = u16::try_from(value).unwrap_or(u16::MAX);
        header[at..at + 2].copy_from_slice(&value.to_ne_bytes());
    };
    put(6, headers.l4);
    put(8, headers.checksum_offset());
    let mut kind = NOT_SEGMENTED;
    if let Some(size) = offload.segment_bytes() {
        put(2, headers.payload);
        put(4, size.into());
        kind = kind_of(headers);
        let reduces = headers.protocol == TCP && packet[headers.l4 + 13] & 0x80 != 0;
        if reduces {
            kind |= WITH_ECN;
        }
    }
    header[0] = NEEDS_CHECKSUM;
    header[1] = kind;
    header
}

#[cfg(test)]
#[path = "vnet_tests.rs"]
mod tests;
