//! Runs of packets of one UDP flow as one frame that the kernel cuts apart again (UDP GSO).
//!
//! A call into the kernel and its way through the stack cost the same for one packet and for a run
//! of 64, so a run costs little more than its bytes. What goes on the wire are the packets as they
//! were given, with two differences: IPv4 identifications count up from the first packet's within a
//! run (harmless where fragmentation is forbidden, RFC 6864 4.1, and runs are made of such packets
//! alone), and UDP checksums are computed anew.
//!
//! Pure: frames in, bytes for the kernel out. References: `virtio_net.h` (`virtio_net_hdr`),
//! udp(7) `UDP_SEGMENT`.

use catena_wire::checksum::Sum;

/// Bytes of a `virtio_net_hdr`, which precedes every frame on a socket with PACKET_VNET_HDR.
pub const VNET_HEADER_LEN: usize = 10;
/// Most packets in a run: what every kernel since 4.18 takes (`UDP_MAX_SEGMENTS`).
const RUN_MAX: usize = 64;
/// Most bytes of IP in a run.
const IP_LEN_MAX: usize = u16::MAX as usize;

const NEEDS_CHECKSUM: u8 = 1;
const GSO_UDP_L4: u8 = 5;
const ETHERNET_LEN: usize = 14;
const UDP_LEN: usize = 8;

/// Where the headers of a packet that may be part of a run end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    is_v6: bool,
    l4: usize,
}

impl Shape {
    /// The shape of an untagged UDP packet without options that has a checksum and a payload, may
    /// not be fragmented, and fills its frame; `None` for any other.
    fn of(frame: &[u8]) -> Option<Self> {
        let field = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
        let ip_len = frame.len().checked_sub(ETHERNET_LEN)?;
        let (is_v6, l4) = match field(12)? {
            0x0800 => {
                let is_plain = frame.get(14) == Some(&0x45) && field(20)? == 0x4000;
                if !is_plain || frame.get(23) != Some(&17) || usize::from(field(16)?) != ip_len {
                    return None;
                }
                (false, ETHERNET_LEN + 20)
            }
            0x86dd => {
                let payload_len = usize::from(field(18)?);
                if frame.get(20) != Some(&17) || payload_len + 40 != ip_len {
                    return None;
                }
                (true, ETHERNET_LEN + 40)
            }
            _ => return None,
        };
        let has_payload = frame.len() > l4 + UDP_LEN;
        let is_whole = usize::from(field(l4 + 4)?) == frame.len() - l4;
        (has_payload && is_whole && field(l4 + 6)? != 0).then_some(Self { is_v6, l4 })
    }

    /// Bytes of IP and UDP in front of the payload.
    fn headers_len(self) -> usize {
        self.l4 + UDP_LEN - ETHERNET_LEN
    }
}

/// A run in the making: its bytes for the kernel.
#[derive(Debug, Default)]
pub(super) struct Run {
    bytes: Vec<u8>,
    shape: Option<Shape>,
    frame_len: usize,
    count: usize,
}

impl Run {
    /// How many packets it holds.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Adds a packet if it continues the run or begins one; says whether it did.
    pub(super) fn add(&mut self, frame: &[u8]) -> bool {
        if self.count == 0 {
            self.bytes.clear();
            self.bytes.resize(VNET_HEADER_LEN, 0);
            self.bytes.extend_from_slice(frame);
            self.shape = Shape::of(frame);
            self.frame_len = frame.len();
            self.count = 1;
            return true;
        }
        let Some(shape) = self.shape else {
            return false;
        };
        let (l4, first) = (shape.l4, &self.bytes[VNET_HEADER_LEN..]);
        let payload = l4 + UDP_LEN;
        // All of the headers but the checksum, which differs with the payload.
        let continues = frame.len() == self.frame_len
            && frame[..l4 + 6] == first[..l4 + 6]
            && frame[l4 + 6..payload] != [0, 0];
        let ip_len = shape.headers_len() + (self.count + 1) * (frame.len() - payload);
        if !continues || self.count == RUN_MAX || ip_len > IP_LEN_MAX {
            return false;
        }
        self.bytes.extend_from_slice(&frame[payload..]);
        self.count += 1;
        true
    }

    /// The run for the kernel; it is empty afterwards and begins anew with the next packet.
    pub(super) fn finish(&mut self) -> &[u8] {
        if let (Some(shape), 2..) = (self.shape, self.count) {
            self.write_headers(shape);
        }
        self.count = 0;
        &self.bytes
    }

    /// Lengths of the whole run, the pseudo header's sum, and what the kernel must know to cut it.
    fn write_headers(&mut self, shape: Shape) {
        let payload = shape.l4 + UDP_LEN;
        let (vnet, frame) = self.bytes.split_at_mut(VNET_HEADER_LEN);
        // All lengths fit: `add` keeps the packet within 65,535 bytes.
        let udp_len = (frame.len() - shape.l4) as u16;
        let addresses = if shape.is_v6 {
            frame[18..20].copy_from_slice(&udp_len.to_be_bytes());
            22..54
        } else {
            frame[16..18].copy_from_slice(&(udp_len + 20).to_be_bytes());
            frame[24..26].fill(0);
            let checksum = Sum::of(&frame[14..34]).checksum();
            frame[24..26].copy_from_slice(&checksum.to_be_bytes());
            26..34
        };
        frame[shape.l4 + 4..shape.l4 + 6].copy_from_slice(&udp_len.to_be_bytes());
        let pseudo = Sum::of(&frame[addresses]) + Sum::of_u16(17) + Sum::of_u16(udp_len);
        let sum = !pseudo.checksum();
        frame[shape.l4 + 6..payload].copy_from_slice(&sum.to_be_bytes());
        // The packet socket takes the fields in the machine's own byte order.
        vnet[0] = NEEDS_CHECKSUM;
        vnet[1] = GSO_UDP_L4;
        vnet[2..4].copy_from_slice(&(payload as u16).to_ne_bytes());
        vnet[4..6].copy_from_slice(&((self.frame_len - payload) as u16).to_ne_bytes());
        vnet[6..8].copy_from_slice(&(shape.l4 as u16).to_ne_bytes());
        vnet[8..10].copy_from_slice(&6_u16.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A UDP packet from `port` with `len` bytes of payload `fill`.
    fn packet(port: u16, len: u16, fill: u8) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
        frame.extend((28 + len).to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 19, 0, 1]);
        frame.extend(port.to_be_bytes());
        frame.extend([0, 9]);
        frame.extend((8 + len).to_be_bytes());
        frame.extend([fill, 1]);
        frame.extend(vec![fill; usize::from(len)]);
        frame
    }

    #[test]
    fn a_run_is_one_packet_of_all_payloads() {
        let mut run = Run::default();
        for fill in 1..=3 {
            assert!(run.add(&packet(5, 18, fill)));
        }
        let bytes = run.finish().to_vec();
        let mut vnet = vec![1, 5];
        for field in [42_u16, 18, 34, 6] {
            vnet.extend(field.to_ne_bytes());
        }
        assert_eq!(bytes[..10], vnet);
        let frame = &bytes[10..];
        assert_eq!(frame.len(), 42 + 54);
        assert_eq!(frame[16..18], [0, 82]);
        assert!(Sum::of(&frame[14..34]).is_valid());
        assert_eq!(frame[38..40], [0, 62]);
        assert_eq!((frame[42], frame[60], frame[78]), (1, 2, 3));
    }

    #[test]
    fn what_differs_ends_a_run() {
        let first = packet(5, 18, 1);
        let mut fragmentable = first.clone();
        fragmentable[20] = 0;
        let mut unsummed = first.clone();
        unsummed[40..42].fill(0);
        for other in [
            packet(6, 18, 1),
            packet(5, 19, 1),
            unsummed.clone(),
            vec![0; 60],
        ] {
            let mut run = Run::default();
            assert!(run.add(&first));
            assert!(!run.add(&other), "{other:?}");
        }
        for lone in [fragmentable, unsummed, vec![0; 14], packet(5, 0, 1)] {
            let mut run = Run::default();
            assert!(run.add(&lone));
            assert!(!run.add(&lone));
            let bytes = run.finish();
            assert_eq!(
                (&bytes[..10], &bytes[10..]),
                (&[0; 10][..], lone.as_slice())
            );
        }
    }

    #[test]
    fn runs_have_a_limit_in_packets_and_bytes() {
        let full = |len: u16| {
            let mut run = Run::default();
            while run.add(&packet(5, len, 1)) {}
            run.count()
        };
        assert_eq!(full(18), 64);
        assert_eq!(full(1400), (65_535 - 28) / 1400);
    }
}
