//! What the kernel tells about a received frame, and how to make the frame whole again.
//!
//! Pure functions over bytes: no socket, no ring.

use std::time::Duration;

use thiserror::Error;

/// Bytes of the two Ethernet addresses, behind which a VLAN tag belongs (IEEE 802.1Q 9.3).
const ADDRESSES_LEN: usize = 12;
const TAG_LEN: usize = 4;

/// What the kernel tells about a received frame beside its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RxInfo {
    /// Length of the frame before the ring cut it, without the tag in [`Self::vlan`].
    pub frame_len: usize,
    /// The outermost VLAN tag, which the kernel has taken out of the frame.
    pub vlan: Option<Vlan>,
    /// What is known of the transport checksum.
    pub checksum: Checksum,
    /// Set where the frame stands for several that its sender left to a network card to cut.
    pub segmentation: Option<Segmentation>,
    /// When the kernel received the frame, since 1970.
    pub timestamp: Duration,
}

/// A VLAN tag (IEEE 802.1Q 9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vlan {
    /// Tag protocol identifier: 0x8100, or 0x88a8 for a service tag.
    pub tpid: u16,
    /// Tag control information: priority, drop eligibility and VLAN identifier.
    pub tci: u16,
}

/// What is known of a frame's transport checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// The field holds the sum of the pseudo-header only: the sender, on this host, left the rest
    /// to a network card. See [`complete_checksum`].
    Partial {
        /// First byte that the checksum covers, counted in the frame without the tag.
        start: u16,
        /// The checksum field, counted from `start`.
        offset: u16,
    },
    /// The kernel has not looked at it.
    Unverified,
    /// The kernel or the network card has verified it.
    Valid,
}

/// How a frame that awaits segmentation is to be cut (`virtio_net_hdr`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segmentation {
    /// `VIRTIO_NET_HDR_GSO_*`: 1 TCP over IPv4, 3 UDP fragments, 4 TCP over IPv6, 5 UDP datagrams;
    /// 0x80 is added where TCP carries ECN.
    pub kind: u8,
    /// Payload bytes in each segment.
    pub segment_size: u16,
}

/// Why a frame was not copied. The destination may have been written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CopyError {
    /// The checksum's place lies outside the frame.
    #[error("the checksum lies outside the frame")]
    Malformed,
    /// The destination is too short.
    #[error("the frame needs {needed} bytes")]
    NoRoom {
        /// Length of the frame with its tag.
        needed: usize,
    },
    /// The frame stands for several: see [`Segmentation`].
    #[error("the frame awaits segmentation: turn segmentation offload off at its sender")]
    Segmentation,
    /// The ring has cut the frame, so its checksum cannot be completed and its end is lost.
    #[error("the frame was longer than the receive ring takes")]
    Truncated,
}

impl RxInfo {
    /// Copies `frame` to `to` as it would have been on the wire, and returns its length there: the
    /// VLAN tag back in its place, the checksum complete. One pass over the frame, and a second
    /// one for a partial checksum.
    ///
    /// # Errors
    ///
    /// See [`CopyError`]; a frame that cannot be made whole is not delivered in parts.
    pub fn copy_frame(&self, frame: &[u8], to: &mut [u8]) -> Result<usize, CopyError> {
        if self.segmentation.is_some() {
            return Err(CopyError::Segmentation);
        }
        let len = self.put_together(frame, to)?;
        if let Checksum::Partial { start, offset } = self.checksum {
            let start = usize::from(start) + len - frame.len();
            complete_checksum(&mut to[..len], start, usize::from(offset))?;
        }
        Ok(len)
    }

    /// Copies `frame` to `to` with its VLAN tag, leaving open what its sender left open; gives its
    /// length there.
    pub(crate) fn put_together(&self, frame: &[u8], to: &mut [u8]) -> Result<usize, CopyError> {
        if frame.len() < self.frame_len {
            return Err(CopyError::Truncated);
        }
        let needed = frame.len() + if self.vlan.is_some() { TAG_LEN } else { 0 };
        let to = to.get_mut(..needed).ok_or(CopyError::NoRoom { needed })?;
        match self.vlan {
            None => to.copy_from_slice(frame),
            Some(vlan) => {
                let addresses = frame.split_at_checked(ADDRESSES_LEN);
                let (addresses, rest) = addresses.ok_or(CopyError::Malformed)?;
                let (to_addresses, to_rest) = to.split_at_mut(ADDRESSES_LEN);
                let (to_tag, to_rest) = to_rest.split_at_mut(TAG_LEN);
                to_addresses.copy_from_slice(addresses);
                to_tag[..2].copy_from_slice(&vlan.tpid.to_be_bytes());
                to_tag[2..].copy_from_slice(&vlan.tci.to_be_bytes());
                to_rest.copy_from_slice(rest);
            }
        }
        Ok(needed)
    }
}

/// Completes the checksum of `frame`: the field at `start + offset`, which holds the sum of the
/// pseudo-header, becomes the Internet checksum of everything from `start` on (RFC 1071). A result
/// of zero is written as 0xffff, which is the same number and, in UDP, not "no checksum" (RFC 768).
///
/// # Errors
///
/// [`CopyError::Malformed`] where the field does not lie in the frame; the frame is unchanged.
pub fn complete_checksum(frame: &mut [u8], start: usize, offset: usize) -> Result<(), CopyError> {
    let covered = frame.get_mut(start..).ok_or(CopyError::Malformed)?;
    let end = offset.checked_add(2).ok_or(CopyError::Malformed)?;
    if end > covered.len() {
        return Err(CopyError::Malformed);
    }
    let checksum = match !ones_complement_sum(covered) {
        0 => 0xffff,
        other => other,
    };
    covered[offset..end].copy_from_slice(&checksum.to_be_bytes());
    Ok(())
}

/// RFC 1071 (4.1), in 32-bit steps: 2^32 is 1 modulo 2^16 - 1, so the folded result is the same.
fn ones_complement_sum(bytes: &[u8]) -> u16 {
    let (words, rest) = bytes.as_chunks::<4>();
    // 2^32 words before the sum of 64 bits could overflow; a frame has far fewer.
    let mut sum: u64 = words
        .iter()
        .map(|&word| u64::from(u32::from_be_bytes(word)))
        .sum();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    sum += u64::from(u32::from_be_bytes(last));
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    // The loop has just left no more than 16 bits.
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: RxInfo = RxInfo {
        frame_len: 0,
        vlan: None,
        checksum: Checksum::Unverified,
        segmentation: None,
        timestamp: Duration::ZERO,
    };

    #[test]
    fn tag_returns_behind_the_addresses() {
        let frame: Vec<u8> = (0..64).collect();
        let info = RxInfo {
            vlan: Some(Vlan {
                tpid: 0x88a8,
                tci: 0xe123,
            }),
            ..PLAIN
        };
        let mut to = [0; 68];
        assert_eq!(info.copy_frame(&frame, &mut to), Ok(68));
        assert_eq!(to[..12], frame[..12]);
        assert_eq!(to[12..16], [0x88, 0xa8, 0xe1, 0x23]);
        assert_eq!(to[16..], frame[12..]);
        let no_room = Err(CopyError::NoRoom { needed: 68 });
        assert_eq!(info.copy_frame(&frame, &mut to[..67]), no_room);
        assert_eq!(
            info.copy_frame(&frame[..11], &mut to),
            Err(CopyError::Malformed)
        );
    }

    /// The example of RFC 1071 section 3 sums to 0xddf2.
    #[test]
    fn sum_agrees_with_rfc_1071() {
        let example = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(ones_complement_sum(&example), 0xddf2);
        // Against the definition, 16 bits at a time, for every remainder of the 32-bit steps.
        let bytes: Vec<u8> = (0..=255).rev().chain(0..=255).collect();
        for len in 0..bytes.len() {
            let mut sum = 0_u32;
            for pair in bytes[..len].chunks(2) {
                let low = pair.get(1).copied().unwrap_or(0);
                sum += u32::from(u16::from_be_bytes([pair[0], low]));
                sum = (sum & 0xffff) + (sum >> 16);
            }
            assert_eq!(
                u32::from(ones_complement_sum(&bytes[..len])),
                sum,
                "{len} bytes"
            );
        }
    }

    #[test]
    fn completed_checksum_verifies_with_and_without_tag() {
        let frame: Vec<u8> = (0..61).map(|index| index * 3).collect();
        for vlan in [
            None,
            Some(Vlan {
                tpid: 0x8100,
                tci: 7,
            }),
        ] {
            let checksum = Checksum::Partial {
                start: 34,
                offset: 6,
            };
            let info = RxInfo {
                vlan,
                checksum,
                ..PLAIN
            };
            let mut to = [0; 80];
            let len = info.copy_frame(&frame, &mut to).unwrap();
            let start = 34 + len - frame.len();
            // The receiver sums the same bytes with the checksum; the field started as the seed,
            // which stands for a pseudo-header that the receiver adds.
            let seed = u16::from_be_bytes([frame[40], frame[41]]);
            let total = u32::from(ones_complement_sum(&to[start..len])) + u32::from(seed);
            assert_eq!((total & 0xffff) + (total >> 16), 0xffff);
        }
    }

    #[test]
    fn zero_checksum_is_written_as_ones() {
        let mut frame = [0xff, 0xff, 0x00, 0x00];
        assert_eq!(complete_checksum(&mut frame, 0, 2), Ok(()));
        assert_eq!(frame, [0xff, 0xff, 0xff, 0xff]);
    }

    #[test]
    fn checksum_outside_the_frame_is_refused() {
        let mut frame = [0; 60];
        for (start, offset) in [(61, 0), (60, 0), (50, 9), (0, usize::MAX), (usize::MAX, 0)] {
            let refused = complete_checksum(&mut frame, start, offset);
            assert_eq!(refused, Err(CopyError::Malformed));
        }
        assert_eq!(complete_checksum(&mut frame, 50, 8), Ok(()));
    }

    #[test]
    fn incomplete_frame_is_not_copied() {
        let cut = RxInfo {
            frame_len: 100,
            ..PLAIN
        };
        assert_eq!(
            cut.copy_frame(&[0; 99], &mut [0; 200]),
            Err(CopyError::Truncated)
        );
        let segmentation = Some(Segmentation {
            kind: 1,
            segment_size: 1448,
        });
        let large = RxInfo {
            segmentation,
            ..PLAIN
        };
        assert_eq!(
            large.copy_frame(&[0; 99], &mut [0; 200]),
            Err(CopyError::Segmentation)
        );
    }
}
