//! TCP of the scripted users: segments with data of applications, and a browser that is redirected.
//!
//! Beside the datagrams of `wire`. Segments of a step stand for themselves, as datagrams do: nobody
//! confirms them. A browser opens a connection, asks, takes what it is told and ends it.

use std::net::IpAddr;

use catena_wire::dissect::Dissected;
use catena_wire::ip::{Addresses, Protocol};
use catena_wire::options::Options;
use catena_wire::tcp::{self, Flags};

use super::scenario::{Browse, Expect, Flag, Packets};
use super::{Player, wire};
use crate::headers::{Tunnel, inner};
use crate::segment::packet;

/// The first sequence number of a browser's connection.
const FIRST: u32 = 1000;

/// A segment as an IP packet.
pub(super) fn segment(
    from: (IpAddr, u16),
    to: (IpAddr, u16),
    (sequence, acknowledgment, flags): (u32, u32, Flags),
    data: &[u8],
) -> Vec<u8> {
    let header = tcp::Header {
        src_port: from.1,
        dst_port: to.1,
        sequence,
        acknowledgment,
        flags,
        window: 65_535,
        urgent: 0,
        options: Options::default(),
    };
    let addresses = match (from.0, to.0) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Addresses::V4 { src, dst },
        (IpAddr::V6(src), IpAddr::V6(dst)) => Addresses::V6 { src, dst },
        _ => return Vec::new(),
    };
    packet(&addresses, &header, data)
}

/// The hello of a TLS client to a server, with so many bytes in front of its name.
pub(crate) fn client_hello(name: &str, padding: u16) -> Vec<u8> {
    fn put(bytes: &mut Vec<u8>, value: &[u8]) {
        bytes.extend(u16::try_from(value.len()).unwrap_or(0).to_be_bytes());
        bytes.extend_from_slice(value);
    }
    let mut extensions = Vec::new();
    if padding > 0 {
        // One that nobody knows (RFC 8701).
        extensions.extend([0x0a, 0x0a]);
        put(&mut extensions, &vec![0; padding.into()]);
    }
    if !name.is_empty() {
        let mut one = vec![0];
        put(&mut one, name.as_bytes());
        let mut list = Vec::new();
        put(&mut list, &one);
        extensions.extend([0, 0]);
        put(&mut extensions, &list);
    }
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.push(0);
    put(&mut body, &[0x13, 0x01]);
    body.extend([1, 0]);
    put(&mut body, &extensions);
    let mut handshake = vec![1, 0];
    put(&mut handshake, &body);
    let mut record = vec![22, 3, 1];
    put(&mut record, &handshake);
    record
}

/// What a user's packets carry as segments of a connection: data of each, in their order. None if
/// they are no segments.
pub(super) fn data(packets: &Packets, number: u32) -> Option<Vec<Vec<u8>>> {
    let data = match (&packets.tls, &packets.http) {
        (Some(name), _) => client_hello(name, packets.padding),
        (None, Some([host, target])) => {
            format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes()
        }
        (None, None) if packets.tcp => number.to_be_bytes().to_vec(),
        (None, None) => return None,
    };
    let most = packets.segment.unwrap_or(usize::MAX).max(1);
    Some(
        data.chunks(most.min(data.len()))
            .map(<[u8]>::to_vec)
            .collect(),
    )
}

/// Flags of a user's segments.
pub(super) fn flags(packets: &Packets) -> Flags {
    match packets.flag {
        None => Flags::ACK | Flags::PSH,
        Some(Flag::Syn) => Flags::SYN,
        Some(Flag::SynAck) => Flags::SYN | Flags::ACK,
        Some(Flag::Fin) => Flags::ACK | Flags::FIN,
        Some(Flag::Rst) => Flags::ACK | Flags::RST,
    }
}

/// A connection of a browser.
#[derive(Clone, Copy, Debug)]
pub(super) struct Browser {
    teid: u32,
    ue: (IpAddr, u16),
    host: (IpAddr, u16),
}

impl Player {
    /// A browser of a session's UE opens a connection.
    pub(super) fn browse(&mut self, browse: &Browse) -> Result<Vec<Vec<u8>>, String> {
        let known = self.known(browse.session)?;
        let (ue, host) = self.ends_of(browse.v6, None, Some(known))?;
        let browser = Browser {
            teid: known.teid,
            ue: (ue, wire::UE_PORT),
            host: (host, browse.port),
        };
        self.browser = Some(browser);
        Ok(vec![self.says(&browser, (FIRST, 0, Flags::SYN), &[])])
    }

    fn says(&self, browser: &Browser, numbers: (u32, u32, Flags), data: &[u8]) -> Vec<u8> {
        let packet = segment(browser.ue, browser.host, numbers, data);
        wire::tunnelled(&self.scenario, &Tunnel::uplink(browser.teid, None), &packet)
    }

    /// Whether a packet that reached a UE is of its browser's connection; what comes of it.
    pub(super) fn browsed(&mut self, packet: &[u8]) -> Option<Result<(), String>> {
        let browser = self.browser?;
        let read = inner(packet)?;
        let of_host = (read.src, read.dst) == (browser.host.0, browser.ue.0)
            && read.ports == Some((browser.host.1, browser.ue.1))
            && read.protocol == Protocol::TCP.0;
        of_host.then(|| self.browser_hears(&browser, packet))
    }

    fn browser_hears(&mut self, browser: &Browser, packet: &[u8]) -> Result<(), String> {
        let read = Dissected::parse_ip(packet).map_err(|error| error.to_string())?;
        let view = tcp::View::parse(&packet[read.l4..read.end]);
        let view = view.map_err(|error| error.to_string())?;
        let addresses = read.addresses().ok_or("a segment without addresses")?;
        if !view.checksum_is_valid(addresses) {
            return Err("a segment with a wrong checksum".to_owned());
        }
        let (flags, next) = (view.flags(), view.sequence().wrapping_add(1));
        if flags.contains(Flags::SYN) {
            let request = b"GET / HTTP/1.1\r\nHost: anywhere.example\r\n\r\n";
            let numbers = (view.acknowledgment(), next, Flags::ACK | Flags::PSH);
            let frame = self.says(browser, numbers, request);
            self.answers.push(frame);
            return Ok(());
        }
        let text = String::from_utf8_lossy(view.payload()).into_owned();
        let location = text
            .lines()
            .find_map(|line| line.strip_prefix("Location: "));
        let Some(told) = location.filter(|_| text.starts_with("HTTP/1.1 302 ")) else {
            // Its end is confirmed; nothing else comes without being expected.
            let is_end = flags == Flags::ACK && text.is_empty();
            return is_end
                .then_some(())
                .ok_or_else(|| format!("a browser was told {flags:?} {text:?}"));
        };
        let fits = |one: &Expect| matches!(one, Expect::Redirected(to) if to == told);
        self.expect(fits, &format!("to be redirected to {told}"))?;
        let end = view
            .sequence()
            .wrapping_add(view.payload().len() as u32 + 1);
        let numbers = (view.acknowledgment(), end, Flags::ACK | Flags::FIN);
        let frame = self.says(browser, numbers, &[]);
        self.answers.push(frame);
        Ok(())
    }
}
