//! Redirection: a UE's HTTP request is answered with another place to go to.
//!
//! In place of a packet's last step. The UPF plays the server of the request: it takes the
//! connection, answers whatever is asked with 302 and the location, and ends it. Each of its
//! segments follows from the one that it answers: its first sequence number is a keyed hash of
//! addresses and ports, so nothing is stored, and a repetition gets the same answer. A connection
//! that was open before is reset, so that the next one is redirected. Packets other than TCP to
//! port 80 are dropped: what is encrypted cannot be answered. Specification: TS 29.244 8.2.20; RFC
//! 9110 15.4.3; RFC 9293 3.10.

use std::collections::VecDeque;

use catena_flow::KeyedHash;
use catena_wire::dissect::{Dissected, Fragment};
use catena_wire::ip::{Addresses, Protocol};
use catena_wire::options::Options;
use catena_wire::pfcp::value::FarId;
use catena_wire::pfcp::value::forwarding::RedirectInformation;
use catena_wire::pfcp::value::node::FailedRuleId;
use catena_wire::pfcp::{Cause, Change, Group, IeType, key};
use catena_wire::tcp::{self, Flags};

use crate::model::{Fault, Session};
use crate::rules::Redirection;
use crate::segment::packet;
use crate::stored::List;
use crate::tunnel::Signal;
use crate::upf::Upf;

/// The port at which requests are answered.
const HTTP: u16 = 80;
/// Most that a request's segments may have: of any path.
const SEGMENT_LEN_MAX: u16 = 1220;
const WINDOW: u16 = 8192;

/// What Location says for Redirect Information; none of what no HTTP request can be sent to.
fn location(information: &RedirectInformation<'_>) -> Option<Vec<u8>> {
    let address = std::str::from_utf8(information.address).ok()?;
    let port = information
        .port
        .map_or(String::new(), |port| format!(":{port}"));
    let url = match information.address_type {
        RedirectInformation::URL => address.to_owned(),
        RedirectInformation::IPV4
        | RedirectInformation::IPV4_AND_PORT
        | RedirectInformation::IPV4_AND_IPV6
        | RedirectInformation::IPV4_AND_IPV6_AND_PORT => {
            let address: std::net::Ipv4Addr = address.parse().ok()?;
            format!("http://{address}{port}/")
        }
        RedirectInformation::IPV6 | RedirectInformation::IPV6_AND_PORT => {
            let address: std::net::Ipv6Addr = address.parse().ok()?;
            format!("http://[{address}]{port}/")
        }
        _ => return None,
    };
    // One line of a header: nothing else may begin in it.
    let is_url = !url.is_empty() && url.bytes().all(|byte| byte.is_ascii_graphic());
    is_url.then(|| url.into_bytes())
}

/// Reads the Redirect Information of Forwarding Parameters, or of an update of them.
///
/// # Errors
/// Why the request is refused.
pub fn read(group: &Group<'_>, far_id: u32, session: &mut Session) -> Result<(), Fault> {
    let mut each = [
        IeType::FORWARDING_PARAMETERS,
        IeType::UPDATE_FORWARDING_PARAMETERS,
    ]
    .into_iter()
    .filter_map(|ie_type| group.group(ie_type));
    let Some(parameters) = each.next() else {
        return Ok(());
    };
    let information = match parameters.change(key::REDIRECT_INFORMATION)? {
        Change::Keep => return Ok(()),
        Change::Remove => None,
        Change::Set(information) => Some(information),
    };
    session.redirections.retain(|one| one.far_id != far_id);
    let Some(information) = information else {
        return Ok(());
    };
    let ie_type = IeType::REDIRECT_INFORMATION;
    let is_kind = matches!(
        information.address_type,
        RedirectInformation::SIP_URI | RedirectInformation::PORT
    );
    if is_kind {
        return Err(Cause::SERVICE_NOT_SUPPORTED.because_of(ie_type).into());
    }
    let failed = FailedRuleId::Far(FarId(far_id));
    let bytes = location(&information).ok_or(Fault::of_rule(failed, ie_type))?;
    let mut location = List::default();
    if !bytes.into_iter().all(|byte| location.push(byte)) {
        return Err(Cause::NO_RESOURCES_AVAILABLE.because_of(ie_type).into());
    }
    session.redirections.push(Redirection { far_id, location });
    Ok(())
}

/// A segment of a connection, as far as an answer needs it.
struct Segment {
    addresses: Addresses,
    header: tcp::Header,
    /// Length of its data.
    len: u32,
    /// Whether its data begin as a request does.
    is_request: bool,
}

impl Segment {
    fn read(packet: &[u8]) -> Option<Self> {
        let read = Dissected::parse_ip(packet).ok()?;
        let ip = read.ip?;
        if ip.protocol != Protocol::TCP || ip.fragment != Fragment::Whole {
            return None;
        }
        let view = tcp::View::parse(packet.get(read.l4..read.end)?).ok()?;
        let is_whole = view.dst_port() == HTTP && view.checksum_is_valid(&ip.addresses);
        let data = view.payload();
        is_whole.then(|| Self {
            addresses: ip.addresses,
            header: tcp::Header::from(&view),
            len: u32::try_from(data.len()).unwrap_or(0),
            is_request: data.first().is_some_and(u8::is_ascii_uppercase),
        })
    }

    /// The sequence number of the answer's SYN.
    fn initial(&self, hash: &KeyedHash) -> u32 {
        let words = |bits: u128| [(bits >> 64) as u64, bits as u64];
        let [a, b, c, d] = match self.addresses {
            Addresses::V4 { src, dst } => [0, src.to_bits().into(), 0, dst.to_bits().into()],
            Addresses::V6 { src, dst } => {
                let ([a, b], [c, d]) = (words(src.to_bits()), words(dst.to_bits()));
                [a, b, c, d]
            }
        };
        #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
        let initial = hash.hash_words(&[a, b, c, d, self.header.src_port.into()]) as u32;
        initial
    }

    /// The IP packet that answers it.
    fn answer(&self, sequence: u32, flags: Flags, acknowledgment: u32, data: &[u8]) -> Vec<u8> {
        let opens = flags.contains(Flags::SYN);
        let [high, low] = SEGMENT_LEN_MAX.to_be_bytes();
        let options: &[u8] = if opens { &[2, 4, high, low] } else { &[] };
        let header = tcp::Header {
            src_port: self.header.dst_port,
            dst_port: self.header.src_port,
            sequence,
            acknowledgment,
            flags,
            window: WINDOW,
            urgent: 0,
            options: Options::new(options).unwrap_or_default(),
        };
        let back = match self.addresses {
            Addresses::V4 { src, dst } => Addresses::V4 { src: dst, dst: src },
            Addresses::V6 { src, dst } => Addresses::V6 { src: dst, dst: src },
        };
        packet(&back, &header, data)
    }
}

fn response(location: &[u8]) -> Vec<u8> {
    [
        &b"HTTP/1.1 302 Found\r\nLocation: "[..],
        location,
        b"\r\nCache-Control: no-store\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    ]
    .concat()
}

/// What is said to a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// Nothing has to be said.
    Nothing,
    /// A segment that opens, confirms or ends, as an IP packet.
    Segment(Vec<u8>),
    /// The location, as an IP packet.
    Location(Vec<u8>),
}

/// What is said to a packet of a UE, which is to go to `location`; none if it is no segment of a
/// connection to a server of HTTP.
pub(crate) fn answer(packet: &[u8], location: &[u8], seed: [u64; 2]) -> Option<Said> {
    let hash = KeyedHash::new(seed);
    let segment = Segment::read(packet)?;
    let tcp::Header {
        flags,
        sequence,
        acknowledgment,
        ..
    } = segment.header;
    let initial = segment.initial(&hash);
    if flags.contains(Flags::RST) {
        return Some(Said::Nothing);
    }
    if flags.contains(Flags::SYN) {
        let next = sequence.wrapping_add(1);
        let bytes = segment.answer(initial, Flags::SYN | Flags::ACK, next, &[]);
        return Some(Said::Segment(bytes));
    }
    let response = response(location);
    // How much of what is said the UE has: nothing, or all with the end behind it.
    let has = acknowledgment.wrapping_sub(initial.wrapping_add(1));
    let end = u32::try_from(response.len()).unwrap_or(0) + 1;
    if !flags.contains(Flags::ACK) || has > end {
        let bytes = segment.answer(acknowledgment, Flags::RST, 0, &[]);
        return Some(Said::Segment(bytes));
    }
    let ends = u32::from(flags.contains(Flags::FIN));
    let next = sequence.wrapping_add(segment.len + ends);
    if has == 0 && segment.is_request {
        let flags = Flags::PSH | Flags::ACK | Flags::FIN;
        let bytes = segment.answer(acknowledgment, flags, next, &response);
        return Some(Said::Location(bytes));
    }
    if segment.len + ends == 0 {
        return Some(Said::Nothing);
    }
    let flags = match (has, ends) {
        (0, 1) => Flags::ACK | Flags::FIN,
        _ => Flags::ACK,
    };
    let bytes = segment.answer(acknowledgment, flags, next, &[]);
    Some(Said::Segment(bytes))
}

impl Upf {
    /// Has what is said to a redirected packet of a session leave, to its UE.
    pub(crate) fn tell_location(&mut self, slot: u32, said: &Said, signals: &mut VecDeque<Signal>) {
        let (Said::Segment(bytes) | Said::Location(bytes)) = said else {
            return;
        };
        if let Some(way) = self.way_to_ue(slot) {
            self.counters.redirected += u64::from(matches!(said, Said::Location(_)));
            self.put(signals, way.signal(bytes));
        }
    }
}

#[cfg(test)]
mod tests;
