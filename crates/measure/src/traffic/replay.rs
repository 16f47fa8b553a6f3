//! Frames of a capture, made ready to be stamped.
//!
//! A frame whose UDP or TCP payload holds a stamp gets one at its end; its checksum is computed
//! once for a payload that ends in zeros, and every stamp leaves it right. Padding behind the
//! packet is cut off. Other frames are sent as they are and count as unstamped; so do fragments
//! and what is cut short by the capture's own limit.
//!
//! Limits: [`FRAME_COUNT_MAX`] frames and [`BYTES_MAX`] bytes are held in memory.

use std::collections::HashMap;
use std::path::Path;

use catena_port::capture::CaptureReader;
use catena_wire::checksum::Sum;
use catena_wire::dissect::{Dissected, Fragment, Transport};
use catena_wire::ip::Addresses;

use crate::profile::{FCS_LEN, FLOW_COUNT_MAX, FRAME_LEN_MAX};
use crate::stamp::STAMP_LEN;

/// Most frames of a capture.
const FRAME_COUNT_MAX: usize = 4 << 20;
/// Most bytes of a capture's frames.
const BYTES_MAX: usize = 1 << 30;

/// A frame to be sent again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReplayFrame {
    pub(super) bytes: Vec<u8>,
    /// Flow of a frame that is stamped.
    pub(super) flow: Option<u32>,
    /// Recorded nanoseconds since the first frame.
    pub(super) at_ns: u64,
}

/// A capture in memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Capture {
    pub(super) frames: Vec<ReplayFrame>,
    pub(super) flow_count: u32,
}

impl Capture {
    /// Reads a capture file.
    ///
    /// # Errors
    /// Why it cannot be replayed, and what to do.
    pub(super) fn read(path: &Path, stamps: bool) -> Result<Self, String> {
        let mut reader = CaptureReader::open(path).map_err(|error| error.to_string())?;
        let mut flows = HashMap::new();
        let (mut frames, mut bytes) = (Vec::new(), 0);
        let mut first_ns = None;
        while let Some(record) = reader.next().map_err(|error| error.to_string())? {
            let first_ns = *first_ns.get_or_insert(record.timestamp_ns);
            bytes += record.data.len();
            if frames.len() == FRAME_COUNT_MAX || bytes > BYTES_MAX {
                return Err(format!(
                    "{}: more than {FRAME_COUNT_MAX} frames or {BYTES_MAX} bytes; cut it into \
                     several captures",
                    path.display()
                ));
            }
            let is_whole = record.original_len as usize == record.data.len();
            let mut frame = record.data.to_vec();
            if !(14..=FRAME_LEN_MAX - FCS_LEN).contains(&frame.len()) {
                continue;
            }
            let key = if stamps && is_whole {
                make_ready(&mut frame)
            } else {
                None
            };
            let next = flows.len() as u32;
            let flow = key.and_then(|key| match flows.get(&key) {
                Some(flow) => Some(*flow),
                None if next == FLOW_COUNT_MAX => None,
                None => Some(*flows.entry(key).or_insert(next)),
            });
            frames.push(ReplayFrame {
                bytes: frame,
                flow,
                at_ns: record.timestamp_ns.saturating_sub(first_ns),
            });
        }
        if frames.is_empty() {
            return Err(format!(
                "{}: no frame of 14 to {} bytes; name another capture",
                path.display(),
                FRAME_LEN_MAX - FCS_LEN
            ));
        }
        Ok(Self {
            frames,
            flow_count: flows.len() as u32,
        })
    }
}

/// What tells flows apart: the header's addresses, the protocol and the ports.
type FlowKey = (Vec<u8>, u8, (u16, u16));

/// Puts zeros where the stamp goes and the checksum that is right for it; `None`, and nothing
/// changed, if the frame has no room for one.
fn make_ready(frame: &mut Vec<u8>) -> Option<FlowKey> {
    let found = Dissected::parse(frame).ok()?;
    let ip = found.ip.as_ref()?;
    let (protocol, checksum_at) = match found.transport {
        Transport::Udp { .. } => (17, 6),
        Transport::Tcp { .. } => (6, 16),
        _ => return None,
    };
    let ports = found.transport.ports()?;
    if ip.fragment != Fragment::Whole || found.end - found.payload < STAMP_LEN {
        return None;
    }
    let addresses = match ip.addresses {
        Addresses::V4 { .. } => found.l3 + 12..found.l3 + 20,
        Addresses::V6 { .. } => found.l3 + 8..found.l3 + 40,
    };
    frame.truncate(found.end);
    frame[found.end - STAMP_LEN..].fill(0);
    let checksum_at = found.l4 + checksum_at;
    let has_none = protocol == 17 && frame[checksum_at..checksum_at + 2] == [0, 0];
    if !has_none {
        frame[checksum_at..checksum_at + 2].fill(0);
        let segment = &frame[found.l4..];
        let sum = Sum::of(&frame[addresses.clone()])
            + Sum::of_u16(protocol)
            // Fits: the packet's own length field has 16 bits.
            + Sum::of_u16(segment.len() as u16)
            + Sum::of(segment);
        let checksum = match sum.checksum() {
            0 if protocol == 17 => 0xffff,
            checksum => checksum,
        };
        frame[checksum_at..checksum_at + 2].copy_from_slice(&checksum.to_be_bytes());
    }
    Some((frame[addresses].to_vec(), protocol as u8, ports))
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_port::capture::{CaptureFormat, CaptureWriter};

    use crate::profile::PacketShape;
    use crate::stamp::Stamp;
    use crate::traffic::template::Template;

    #[test]
    fn frames_with_room_are_stamped_and_others_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.pcap");
        let template = Template::new(&PacketShape::default(), 100, 2);
        let mut frames = vec![vec![0x11; 60]; 4];
        for (flow, frame) in [(0, 0), (1, 1), (0, 3)] {
            frames[frame] = vec![0; template.len()];
            template.write(&mut frames[frame], flow);
            Stamp {
                trial: 9,
                flow: 77,
                sequence: 5,
                intended: 1234,
                late: 0,
            }
            .write(&mut frames[frame]);
        }
        frames[1].extend([0xee; 7]);
        let mut writer = CaptureWriter::create(&path, CaptureFormat::Pcap).unwrap();
        for (index, frame) in (0..).zip(&frames) {
            let at = 5_000 + 100 * index;
            writer.write(at, frame, frame.len() as u32).unwrap();
        }
        writer.finish().unwrap();
        let capture = Capture::read(&path, true).unwrap();
        assert_eq!(capture.flow_count, 2);
        let flows: Vec<_> = capture.frames.iter().map(|frame| frame.flow).collect();
        assert_eq!(flows, [Some(0), Some(1), None, Some(0)]);
        let mut plain = vec![0; template.len()];
        template.write(&mut plain, 1);
        assert_eq!(
            capture.frames[1].bytes, plain,
            "the template's own checksum"
        );
        assert_eq!(capture.frames[2].bytes, frames[2]);
        assert_eq!(capture.frames[3].at_ns, 300);
        let unstamped = Capture::read(&path, false).unwrap();
        assert_eq!(unstamped.flow_count, 0);
        assert_eq!(unstamped.frames[1].bytes, frames[1]);
    }

    #[test]
    fn an_empty_or_missing_capture_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("empty.pcap");
        CaptureWriter::create(&path, CaptureFormat::Pcap)
            .unwrap()
            .finish()
            .unwrap();
        let error = Capture::read(&path, true).unwrap_err();
        assert!(error.contains("no frame"), "{error}");
        assert!(Capture::read(&dir.path().join("no"), true).is_err());
    }
}
