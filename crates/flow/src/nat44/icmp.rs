//! Errors of ICMP: the packet that they are about is translated, too.
//!
//! Beside the way of other packets through `nat44`. An error that comes from outside is about a
//! packet that left, so its source is an endpoint outside; one from inside is about a packet that
//! came, so its destination is one inside. Both headers and all three checksums are brought up to
//! date. An error neither makes a session nor keeps one (RFC 5508 REQ-3 to REQ-6).

use catena_wire::icmpv4;
use catena_wire::ip::Protocol;

use super::endpoint::Endpoint;
use super::packet::{Seen, Side, is_query, set_address, set_port, word};

/// Shortest header of IPv4.
const HEADER_LEN_MIN: usize = 20;
/// What of its payload an error has at least (RFC 792).
const PAYLOAD_LEN_MIN: usize = 8;

/// The packet that an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Subject {
    l3: usize,
    l4: usize,
    pub(super) src: Endpoint,
    pub(super) dst: Endpoint,
}

impl Subject {
    /// Reads that of an error; none if the error's checksum is wrong, if there is too little of it,
    /// or if it is of no protocol that is translated.
    pub(super) fn of(frame: &[u8], seen: &Seen) -> Option<Self> {
        let message = frame.get(seen.l4..seen.end)?;
        if !icmpv4::View::parse(message).ok()?.checksum_is_valid() {
            return None;
        }
        let l3 = seen.l4 + icmpv4::HEADER_LEN;
        let packet = frame.get(l3..seen.end)?;
        let first = *packet.first()?;
        let header_len = usize::from(first & 0x0f) * 4;
        let is_first_part = word(packet, 6) & 0x1fff == 0;
        let has_all = packet.len() >= header_len + PAYLOAD_LEN_MIN;
        if first >> 4 != 4 || header_len < HEADER_LEN_MIN || !has_all || !is_first_part {
            return None;
        }
        let protocol = *packet.get(9)?;
        let address = |at| u32::from(word(packet, at)) << 16 | u32::from(word(packet, at + 2));
        let ports = match Protocol(protocol) {
            Protocol::TCP | Protocol::UDP => {
                [word(packet, header_len), word(packet, header_len + 2)]
            }
            Protocol::ICMP if is_query(icmpv4::Type(*packet.get(header_len)?)) => {
                [word(packet, header_len + 4); 2]
            }
            _ => return None,
        };
        let end = |address, port| Endpoint {
            address,
            port,
            protocol,
        };
        Some(Self {
            l3,
            l4: l3 + header_len,
            src: end(address(12), ports[0]),
            dst: end(address(16), ports[1]),
        })
    }

    /// Gives a side of it another endpoint, and the error its checksum.
    pub(super) fn rewrite(&self, frame: &mut [u8], seen: &Seen, side: Side, end: Endpoint) {
        let old = set_address(frame, self.l3, side, end.address);
        let within = frame.get_mut(..seen.end).unwrap_or_default();
        set_port(within, self.l4, side, (old, end), false);
        let message = frame.get_mut(seen.l4..seen.end).unwrap_or_default();
        if let Ok(mut view) = icmpv4::View::parse(message) {
            view.fill_checksum();
        }
    }
}
