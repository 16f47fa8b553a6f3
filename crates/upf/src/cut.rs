//! IP packets cut into fragments.
//!
//! Last step of a packet's way through the UPF, for one that is longer than the MTU. What is cut is
//! a user's packet, in a tunnel or not, or the packet of a tunnel. Specification: RFC 791 3.2,
//! RFC 8200 4.5. Limits: IPv6 packets that are fragments already are not cut.

use catena_wire::ip::Protocol;
use catena_wire::ipv6::extension;
use catena_wire::{ethernet, ipv4, ipv6, udp};

const ETHERNET: usize = ethernet::HEADER_LEN;
/// Options of IPv4 that later fragments have too.
const COPIED: u8 = 0x80;

/// How an IP packet is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Where what is cut begins and ends.
    from: usize,
    end: usize,
    /// Payload bytes of each fragment but the last.
    chunk: usize,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V4(ipv4::Header),
    V6 {
        /// Where the number of the Fragment header goes, and the one that stood there.
        next_at: usize,
        next: u8,
    },
}

impl Cut {
    /// For fragments of at most `mtu` bytes. None of what is no IP packet, cannot be cut, or of an
    /// MTU that has no room for anything.
    pub fn of(packet: &[u8], mtu: usize) -> Option<Self> {
        let is_v6 = packet.first()? >> 4 == 6;
        let (from, end, version) = match is_v6 {
            false => {
                let view = ipv4::View::parse(packet).ok()?;
                let header = ipv4::Header::from(&view);
                (view.header_len(), view.total_len(), Version::V4(header))
            }
            true => {
                let view = ipv6::View::parse(packet).ok()?;
                let (mut next_at, mut next, mut from) = (6, view.next_header().0, 0);
                for header in view.extensions() {
                    let header = header.ok()?;
                    match header.protocol {
                        Protocol::FRAGMENT => return None,
                        Protocol::HOP_BY_HOP | Protocol::ROUTING => {
                            next_at = ipv6::HEADER_LEN + header.offset;
                            next = header.next_header.0;
                            from = header.offset + header.bytes.len();
                        }
                        _ => {}
                    }
                }
                let end = ipv6::HEADER_LEN + view.payload_len();
                let version = Version::V6 { next_at, next };
                (ipv6::HEADER_LEN + from, end, version)
            }
        };
        let head = from + if is_v6 { extension::HEADER_LEN_MIN } else { 0 };
        let chunk = mtu.checked_sub(head)? & !7;
        (chunk > 0 && end > from).then_some(Self {
            from,
            end,
            chunk,
            version,
        })
    }

    /// How many fragments there are.
    pub const fn count(&self) -> usize {
        (self.end - self.from).div_ceil(self.chunk)
    }

    /// Header of a fragment of IPv4.
    fn v4_header(&self, header: &ipv4::Header, at: usize) -> ipv4::Header {
        let (from, end) = self.range(at);
        let mut header = *header;
        if at > 0 {
            header.options = copied(header.options.as_bytes());
        }
        header.payload_len = end - from;
        let offset = usize::from(header.fragment_offset) + from - self.from;
        header.fragment_offset = u16::try_from(offset).unwrap_or(u16::MAX);
        header.more_fragments |= end < self.end;
        header.dont_fragment = false;
        header
    }

    /// Where the payload of a fragment lies in the packet.
    fn range(&self, at: usize) -> (usize, usize) {
        let from = self.from + at * self.chunk;
        (from, (from + self.chunk).min(self.end))
    }

    /// Length of a fragment in bytes.
    pub fn len(&self, at: usize) -> usize {
        let (from, end) = self.range(at);
        let header_len = match &self.version {
            Version::V4(header) => self.v4_header(header, at).header_len(),
            Version::V6 { .. } => self.from + extension::HEADER_LEN_MIN,
        };
        header_len + end - from
    }

    /// Never: there is one fragment at least.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Writes fragment `at` of `packet` to the front of `to`. `ident` is for IPv6: fragments of one
    /// packet have the same, those of others not.
    pub fn write(&self, at: usize, packet: &[u8], ident: u32, to: &mut [u8]) {
        let (from, end) = self.range(at);
        let payload = &packet[from..end];
        let header_len = self.len(at) - payload.len();
        to[header_len..header_len + payload.len()].copy_from_slice(payload);
        match &self.version {
            Version::V4(header) => self.v4_header(header, at).emit(to),
            Version::V6 { next_at, next } => {
                to[..self.from].copy_from_slice(&packet[..self.from]);
                to[*next_at] = Protocol::FRAGMENT.0;
                let more = u16::from(end < self.end);
                let offset = u16::try_from(from - self.from).unwrap_or(u16::MAX) | more;
                let header = &mut to[self.from..header_len];
                header[..2].copy_from_slice(&[*next, 0]);
                header[2..4].copy_from_slice(&offset.to_be_bytes());
                header[4..8].copy_from_slice(&ident.to_be_bytes());
                let len = header_len + payload.len() - ipv6::HEADER_LEN;
                let len = u16::try_from(len).unwrap_or(u16::MAX);
                to[4..6].copy_from_slice(&len.to_be_bytes());
            }
        }
    }
}

/// The options that every fragment has.
fn copied(options: &[u8]) -> catena_wire::options::Options {
    let mut kept = Vec::new();
    let mut rest = options;
    while let [kind, tail @ ..] = rest {
        let len = match (kind, tail) {
            (0, _) => break,
            (1, _) => 1,
            (_, [len, ..]) => usize::from(*len).max(2),
            _ => break,
        };
        let Some(option) = rest.get(..len) else { break };
        if kind & COPIED != 0 {
            kept.extend_from_slice(option);
        }
        rest = &rest[len..];
    }
    kept.resize(kept.len().next_multiple_of(4), 0);
    catena_wire::options::Options::new(&kept).unwrap_or(catena_wire::options::Options::EMPTY)
}

/// Cuts the IP packet at `at` of a frame: gives `make` the length of each frame and what writes it.
/// Frames have at most `mtu` bytes behind Ethernet; what is in front of `at` is in front of each,
/// as headers of a tunnel of its length. False if it cannot be cut, the frame ends before `at`, or
/// as soon as `make` says so.
pub fn cut(
    frame: &[u8],
    at: usize,
    mtu: usize,
    ident: u32,
    mut make: impl FnMut(usize, &dyn Fn(&mut [u8])) -> bool,
) -> bool {
    let (room, packet) = ((mtu + ETHERNET).checked_sub(at), frame.get(at..));
    let (Some(room), Some(packet)) = (room, packet) else {
        return false;
    };
    let Some(cut) = Cut::of(packet, room) else {
        return false;
    };
    (0..cut.count()).all(|number| {
        make(at + cut.len(number), &|to: &mut [u8]| {
            to[..at].copy_from_slice(&frame[..at]);
            cut.write(number, packet, ident, &mut to[at..]);
            refit(to, at);
        })
    })
}

/// Has the headers in front of `at`, of a tunnel or of IP alone, tell the length of the frame.
fn refit(frame: &mut [u8], at: usize) {
    let len = frame.len();
    let ip_len = if frame[ETHERNET] >> 4 == 6 {
        ipv6::HEADER_LEN
    } else {
        ipv4::HEADER_LEN_MIN
    };
    let udp_at = ETHERNET + ip_len;
    if at < udp_at {
        return;
    }
    let word = |len: usize| u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes();
    let gtpu_at = udp_at + udp::HEADER_LEN;
    let is_tunnel = at > gtpu_at;
    if is_tunnel {
        // The length of GTP-U counts from behind its mandatory header (TS 29.281, 5.1).
        frame[gtpu_at + 2..gtpu_at + 4].copy_from_slice(&word(len - gtpu_at - 8));
        frame[udp_at + 4..udp_at + 6].copy_from_slice(&word(len - udp_at));
    }
    if ip_len == ipv4::HEADER_LEN_MIN {
        frame[ETHERNET + 2..ETHERNET + 4].copy_from_slice(&word(len - ETHERNET));
        if let Ok(mut view) = ipv4::View::parse(&mut frame[ETHERNET..]) {
            view.fill_checksum();
        }
        return;
    }
    frame[ETHERNET + 4..ETHERNET + 6].copy_from_slice(&word(len - udp_at));
    if is_tunnel && let Ok(mut view) = ipv6::View::parse(&mut frame[ETHERNET..]) {
        let addresses = view.addresses();
        if let Ok(mut datagram) = udp::View::parse(view.payload_mut()) {
            datagram.fill_checksum(&addresses);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet may have become shorter since it was looked at.
    #[test]
    fn a_frame_that_ends_before_what_is_to_be_cut_is_left() {
        for len in [0, ETHERNET - 1] {
            let none = |_, _: &dyn Fn(&mut [u8])| panic!("a fragment of nothing");
            assert!(!cut(&vec![0; len], ETHERNET, 1500, 0, none));
        }
    }
}
