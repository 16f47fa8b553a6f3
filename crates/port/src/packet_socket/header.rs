//! Layout of the receive ring: block and frame headers, parsed from copies of their bytes.
//!
//! ```text
//!   TPACKET_V3 block (tpacket_block_desc)       frame in it, at the offset the one before names
//!   8  status       who owns the block          0  offset of the next frame
//!   12 frames in it                             4  seconds, 8 nanoseconds
//!   16 offset of the first                      12 bytes in the ring, 16 bytes received
//!   20 bytes in use                             20 status, 24 offset of the Ethernet header (u16)
//!                                               32 VLAN tag (u32), 36 its protocol (u16)
//!   TPACKET_V2 frame (tpacket2_hdr)             48 sockaddr_ll
//!   0  status       who owns the slot
//!   4  bytes received, 8 bytes in the ring      sockaddr_ll
//!   12 offset of the Ethernet header (u16)      10 kind of packet (u8)
//!   16 seconds, 20 nanoseconds
//!   24 VLAN tag (u16), 26 its protocol (u16)    The 10 bytes before the Ethernet header are a
//!   32 sockaddr_ll                              virtio_net_hdr (PACKET_VNET_HDR).
//! ```
//!
//! The kernel shares this memory, so each header is copied once and only the copy is looked at.
//! Nothing here trusts an offset: whatever lies outside its block or slot parses as `None`.
//! Numbers are in the byte order of the host.

use std::ops::Range;
use std::time::Duration;

use super::frame::{Checksum, RxInfo, Segmentation, Vlan};

/// Bytes of a block header that are read, from the block's start.
pub(super) const BLOCK_HEADER_LEN: usize = 48;
/// Offset of the status word in a block.
pub(super) const BLOCK_STATUS_AT: usize = 8;
/// Bytes of a TPACKET_V3 frame header with its address (TPACKET3_HDRLEN).
pub(super) const V3_HEADER_LEN: usize = 68;
/// Bytes of a TPACKET_V2 frame header with its address (TPACKET2_HDRLEN).
pub(super) const V2_HEADER_LEN: usize = 52;
/// Headers are copied in words of this size; the kernel aligns them to 8 bytes at least.
pub(super) const WORD_LEN: usize = size_of::<u32>();
/// Bytes of a `virtio_net_hdr`.
pub(super) const VNET_LEN: usize = 10;

const _: () = assert!(BLOCK_HEADER_LEN == size_of::<libc::tpacket_block_desc>());
const _: () = assert!(V3_HEADER_LEN == libc::TPACKET3_HDRLEN);
const _: () = assert!(V2_HEADER_LEN == libc::TPACKET2_HDRLEN);

const _: () = assert!(BLOCK_HEADER_LEN.is_multiple_of(WORD_LEN));
const _: () = assert!(V3_HEADER_LEN.is_multiple_of(WORD_LEN));
const _: () = assert!(V2_HEADER_LEN.is_multiple_of(WORD_LEN));

/// Below this a frame has no Ethernet header.
const ETHERNET_HEADER_LEN: usize = 14;
const PACKET_TYPE_IN_ADDRESS: usize = 10;
const DEFAULT_TPID: u16 = 0x8100;

// virtio_net_hdr (virtio 1.2, 5.1.6).
const NEEDS_CHECKSUM: u8 = 1;
const CHECKSUM_IS_VALID: u8 = 2;
const NOT_SEGMENTED: u8 = 0;

/// A block's header, checked against the block's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockHeader {
    pub(super) frame_count: u32,
    /// Offset of the first frame from the block's start.
    pub(super) first: usize,
    /// Bytes in use from the block's start: where every frame must have ended.
    pub(super) end: usize,
}

impl BlockHeader {
    pub(super) fn parse(bytes: &[u8], block_size_bytes: usize) -> Option<Self> {
        let frame_count = u32_at(bytes, 12)?;
        let first = usize::try_from(u32_at(bytes, 16)?).ok()?;
        let end = usize::try_from(u32_at(bytes, 20)?).ok()?;
        if end > block_size_bytes {
            return None;
        }
        // The timer may close a block without frames, whose offset then means nothing.
        if frame_count > 0 && (first < BLOCK_HEADER_LEN || first >= end) {
            return None;
        }
        Some(Self {
            frame_count,
            first,
            end,
        })
    }
}

/// A frame's header, its offsets not yet checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHeader {
    /// Offset of the next frame from this one; 0 in TPACKET_V2.
    pub(super) next: usize,
    header_len: usize,
    ethernet_at: usize,
    stored_len: usize,
    received_len: usize,
    status: u32,
    vlan_tci: u16,
    vlan_tpid: u16,
    packet_type: u8,
    timestamp: Duration,
}

impl FrameHeader {
    pub(super) fn parse_v3(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            next: usize::try_from(u32_at(bytes, 0)?).ok()?,
            header_len: V3_HEADER_LEN,
            ethernet_at: usize::from(u16_at(bytes, 24)?),
            stored_len: usize::try_from(u32_at(bytes, 12)?).ok()?,
            received_len: usize::try_from(u32_at(bytes, 16)?).ok()?,
            status: u32_at(bytes, 20)?,
            vlan_tci: u16::try_from(u32_at(bytes, 32)? & 0xffff).ok()?,
            vlan_tpid: u16_at(bytes, 36)?,
            packet_type: *bytes.get(48 + PACKET_TYPE_IN_ADDRESS)?,
            timestamp: Duration::new(u32_at(bytes, 4)?.into(), u32_at(bytes, 8)?),
        })
    }

    pub(super) fn parse_v2(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            next: 0,
            header_len: V2_HEADER_LEN,
            ethernet_at: usize::from(u16_at(bytes, 12)?),
            stored_len: usize::try_from(u32_at(bytes, 8)?).ok()?,
            received_len: usize::try_from(u32_at(bytes, 4)?).ok()?,
            status: u32_at(bytes, 0)?,
            vlan_tci: u16_at(bytes, 24)?,
            vlan_tpid: u16_at(bytes, 26)?,
            packet_type: *bytes.get(32 + PACKET_TYPE_IN_ADDRESS)?,
            timestamp: Duration::new(u32_at(bytes, 16)?.into(), u32_at(bytes, 20)?),
        })
    }

    /// Where the frame's bytes lie, counted from the frame header, if they lie between that header
    /// and `room`, the bytes from the header to the end of its block or slot.
    pub(super) fn place(&self, room: usize) -> Option<Range<usize>> {
        let end = self.ethernet_at.checked_add(self.stored_len)?;
        let is_behind_header = self.ethernet_at >= self.header_len + VNET_LEN;
        let is_whole = (ETHERNET_HEADER_LEN..=self.received_len).contains(&self.stored_len);
        (is_behind_header && is_whole && end <= room).then_some(self.ethernet_at..end)
    }

    /// Whether this host sent the frame.
    pub(super) fn is_outgoing(&self) -> bool {
        self.packet_type == libc::PACKET_OUTGOING
    }

    pub(super) fn rx_info(&self, vnet: &[u8; VNET_LEN]) -> Option<RxInfo> {
        let [flags, kind, ..] = *vnet;
        let checksum = if flags & NEEDS_CHECKSUM != 0 {
            Checksum::Partial {
                start: u16_at(vnet, 6)?,
                offset: u16_at(vnet, 8)?,
            }
        } else if flags & CHECKSUM_IS_VALID != 0 || self.has(libc::TP_STATUS_CSUM_VALID) {
            Checksum::Valid
        } else {
            Checksum::Unverified
        };
        let vlan_tpid = if self.has(libc::TP_STATUS_VLAN_TPID_VALID) {
            self.vlan_tpid
        } else {
            DEFAULT_TPID
        };
        Some(RxInfo {
            frame_len: self.received_len,
            vlan: self.has(libc::TP_STATUS_VLAN_VALID).then_some(Vlan {
                tpid: vlan_tpid,
                tci: self.vlan_tci,
            }),
            checksum,
            segmentation: match kind {
                NOT_SEGMENTED => None,
                kind => Some(Segmentation {
                    kind,
                    segment_size: u16_at(vnet, 4)?,
                }),
            },
            timestamp: self.timestamp,
        })
    }

    fn has(&self, flag: u32) -> bool {
        self.status & flag != 0
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let (word, _) = bytes.get(at..)?.split_first_chunk()?;
    Some(u32::from_ne_bytes(*word))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let (word, _) = bytes.get(at..)?.split_first_chunk()?;
    Some(u16::from_ne_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(bytes: &mut [u8], at: usize, value: u32) {
        bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }

    fn block(frame_count: u32, first: u32, end: u32) -> Option<BlockHeader> {
        let mut bytes = [0; BLOCK_HEADER_LEN];
        put(&mut bytes, 12, frame_count);
        put(&mut bytes, 16, first);
        put(&mut bytes, 20, end);
        BlockHeader::parse(&bytes, 4096)
    }

    fn v3(ethernet_at: u32, stored_len: u32, received_len: u32) -> FrameHeader {
        let mut bytes = [0; V3_HEADER_LEN];
        put(&mut bytes, 8, u32::MAX);
        put(&mut bytes, 12, stored_len);
        put(&mut bytes, 16, received_len);
        put(&mut bytes, 24, ethernet_at);
        FrameHeader::parse_v3(&bytes).unwrap()
    }

    #[test]
    fn block_whose_frames_lie_outside_is_refused() {
        assert!(block(3, 48, 4096).is_some());
        assert!(block(0, 0, 48).is_some());
        for (first, end) in [
            (48, 4097),
            (47, 4096),
            (4096, 4096),
            (u32::MAX, 96),
            (48, u32::MAX),
        ] {
            assert_eq!(block(1, first, end), None, "{first} {end}");
        }
    }

    #[test]
    fn frame_that_leaves_its_block_is_refused() {
        assert_eq!(v3(78, 60, 60).place(138), Some(78..138));
        assert_eq!(v3(78, 60, 60).place(137), None);
        // Over the header, without Ethernet header, longer than what was received, past the end.
        for (at, stored, received) in [
            (77, 60, 60),
            (78, 13, 60),
            (78, 61, 60),
            (78, u32::MAX, u32::MAX),
            (65535, 14, 14),
        ] {
            assert_eq!(v3(at, stored, received).place(4096), None, "{at} {stored}");
        }
    }

    #[test]
    fn tag_without_protocol_is_a_customer_tag() {
        let mut bytes = [0; V2_HEADER_LEN];
        put(&mut bytes, 24, 0x88a8_0123_u32.to_le());
        let vlan = |bytes: &[u8; V2_HEADER_LEN]| {
            let header = FrameHeader::parse_v2(bytes).unwrap();
            header.rx_info(&[0; VNET_LEN]).unwrap().vlan
        };
        assert_eq!(vlan(&bytes), None);
        put(&mut bytes, 0, libc::TP_STATUS_VLAN_VALID);
        assert_eq!(vlan(&bytes).map(|vlan| vlan.tpid), Some(0x8100));
        put(
            &mut bytes,
            0,
            libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID,
        );
        let tag = Vlan {
            tpid: 0x88a8,
            tci: 0x0123,
        };
        assert_eq!(vlan(&bytes), Some(tag));
    }

    #[test]
    fn offload_header_is_told() {
        let mut vnet = [NEEDS_CHECKSUM, 1, 54, 0, 0, 0, 0, 0, 0, 0];
        vnet[4..6].copy_from_slice(&1448_u16.to_ne_bytes());
        vnet[6..8].copy_from_slice(&34_u16.to_ne_bytes());
        vnet[8..10].copy_from_slice(&16_u16.to_ne_bytes());
        let info = v3(78, 60, 60).rx_info(&vnet).unwrap();
        assert_eq!(
            info.checksum,
            Checksum::Partial {
                start: 34,
                offset: 16
            }
        );
        let segmentation = Segmentation {
            kind: 1,
            segment_size: 1448,
        };
        assert_eq!(info.segmentation, Some(segmentation));
    }
}
