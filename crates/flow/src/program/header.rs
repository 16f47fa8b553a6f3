//! Where the headers of a packet are: one pass over its bytes, outer and inner headers.
//!
//! The first thing that is done with a packet, and again when headers were put on or taken off. The
//! pass is bounded: four VLAN tags, the extension headers that `wire` reads, one tunnel, one quoted
//! packet of an ICMP error. Fields are read relative to what is found here, so that a header that
//! is said to be there has all its fixed bytes within the packet.
//!
//! ```text
//! ethernet vlan vlan2 | arp
//!                     | ipv4 or ipv6 | tcp or udp or icmp | payload
//!                                   udp 2152: gtpu [pdu_session] | inner ipv4 or ipv6 | inner l4
//!                                   udp 4789: vxlan | inner ethernet | inner ipv4 ...
//!                                   icmp error: quoted ipv4 or ipv6 | quoted ports
//!                      ip in ip:  inner ipv4 or ipv6 | inner l4
//! ```

use catena_wire::gtpu::{self, ExtensionType, MessageType};
use catena_wire::ip::Protocol;
use catena_wire::{icmpv4, ipv4, ipv6, tcp, udp};

/// Most VLAN tags that are looked through; the first two are headers.
const VLAN_TAGS_MAX: usize = 4;
/// UDP port of VXLAN (RFC 7348, 5).
pub(super) const VXLAN_PORT: u16 = 4789;
/// In [`Headers::offsets`]: a header is not there.
pub const NONE: u16 = u16::MAX;

/// A header that a packet may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Header {
    /// Ethernet.
    Ethernet,
    /// The outermost VLAN tag, from its TCI on.
    Vlan,
    /// The second one.
    Vlan2,
    /// ARP for IPv4 on Ethernet.
    Arp,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP of either version.
    Icmp,
    /// TCP or UDP: their ports lie alike.
    Ports,
    /// What follows the transport header.
    Payload,
    /// GTP-U of any message type.
    Gtpu,
    /// The PDU session container's extension header, from its length byte on.
    PduSession,
    /// VXLAN.
    Vxlan,
    /// Ethernet in VXLAN.
    InnerEthernet,
    /// IPv4 in a tunnel.
    InnerIpv4,
    /// IPv6 in a tunnel.
    InnerIpv6,
    /// TCP in a tunnel.
    InnerTcp,
    /// UDP in a tunnel.
    InnerUdp,
    /// ICMP in a tunnel.
    InnerIcmp,
    /// TCP or UDP in a tunnel.
    InnerPorts,
    /// IPv4 of the packet that an ICMP error is about.
    QuotedIpv4,
    /// IPv6 of that packet.
    QuotedIpv6,
    /// The ports of that packet.
    QuotedPorts,
}

/// How many headers there are.
pub const HEADER_COUNT: usize = Header::QuotedPorts as usize + 1;

/// Headers by number.
pub const HEADERS: [Header; HEADER_COUNT] = {
    use Header::*;
    [
        Ethernet,
        Vlan,
        Vlan2,
        Arp,
        Ipv4,
        Ipv6,
        Tcp,
        Udp,
        Icmp,
        Ports,
        Payload,
        Gtpu,
        PduSession,
        Vxlan,
        InnerEthernet,
        InnerIpv4,
        InnerIpv6,
        InnerTcp,
        InnerUdp,
        InnerIcmp,
        InnerPorts,
        QuotedIpv4,
        QuotedIpv6,
        QuotedPorts,
    ]
};

impl Header {
    /// Its name in programs.
    pub fn name(self) -> &'static str {
        const NAMES: [&str; HEADER_COUNT] = [
            "eth",
            "vlan",
            "vlan2",
            "arp",
            "ipv4",
            "ipv6",
            "tcp",
            "udp",
            "icmp",
            "l4",
            "payload",
            "gtpu",
            "pdu_session",
            "vxlan",
            "inner.eth",
            "inner.ipv4",
            "inner.ipv6",
            "inner.tcp",
            "inner.udp",
            "inner.icmp",
            "inner.l4",
            "quoted.ipv4",
            "quoted.ipv6",
            "quoted.l4",
        ];
        NAMES[self as usize]
    }

    /// The header of this name.
    pub fn named(name: &str) -> Option<Self> {
        HEADERS.into_iter().find(|header| header.name() == name)
    }
}

/// Bits of a header: from `bit` on, counted from the header's first and highest bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The header.
    pub header: Header,
    /// Its first bit.
    pub bit: u16,
    /// How many, 1 to 128.
    pub width: u8,
}

/// Where a packet's headers begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    offsets: [u16; HEADER_COUNT],
    /// Where the outermost network packet ends; padding follows.
    end: u32,
    is_malformed: bool,
}

impl Default for Headers {
    fn default() -> Self {
        Self {
            offsets: [NONE; HEADER_COUNT],
            end: 0,
            is_malformed: false,
        }
    }
}

/// A header cannot be read.
struct Malformed;

/// Which of a packet's IP headers is read, and what goes with it.
#[derive(Clone, Copy)]
struct Level {
    ipv4: Header,
    ipv6: Header,
    tcp: Header,
    udp: Header,
    icmp: Header,
    ports: Header,
}

const OUTER: Level = Level {
    ipv4: Header::Ipv4,
    ipv6: Header::Ipv6,
    tcp: Header::Tcp,
    udp: Header::Udp,
    icmp: Header::Icmp,
    ports: Header::Ports,
};

const INNER: Level = Level {
    ipv4: Header::InnerIpv4,
    ipv6: Header::InnerIpv6,
    tcp: Header::InnerTcp,
    udp: Header::InnerUdp,
    icmp: Header::InnerIcmp,
    ports: Header::InnerPorts,
};

impl Headers {
    /// Finds the headers of a frame that begins with its Ethernet header and has no FCS.
    #[must_use]
    pub fn parse(frame: &[u8]) -> Self {
        let mut headers = Self::default();
        headers.find(frame);
        headers
    }

    /// As [`Headers::parse`], in place of what was found before.
    #[inline]
    pub fn find(&mut self, frame: &[u8]) {
        *self = Self {
            end: u32::try_from(frame.len()).unwrap_or(u32::MAX),
            ..Self::default()
        };
        if !self.find_plain(frame) {
            self.is_malformed = self.read_ethernet(frame).is_err();
        }
    }

    /// As [`Headers::parse`], for all packets in the way of those that are not plain.
    #[cfg(test)]
    pub(super) fn parse_any(frame: &[u8]) -> Self {
        let mut headers = Self {
            end: u32::try_from(frame.len()).unwrap_or(u32::MAX),
            ..Self::default()
        };
        headers.is_malformed = headers.read_ethernet(frame).is_err();
        headers
    }

    /// The headers of most packets: IPv4 without options, whole, with TCP or UDP. `false`, and
    /// nothing is found, for all others.
    #[inline]
    fn find_plain(&mut self, frame: &[u8]) -> bool {
        const IP: usize = 14;
        const L4: usize = IP + ipv4::HEADER_LEN_MIN;
        let Some(head) = frame.first_chunk::<{ L4 + udp::HEADER_LEN }>() else {
            return false;
        };
        let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let end = IP + usize::from(word(IP + 2));
        let is_whole = word(IP + 6) & 0x3fff == 0;
        let is_plain = word(12) == 0x0800 && head[IP] == 0x45 && is_whole && end <= frame.len();
        let Some(len) = end.checked_sub(L4).filter(|_| is_plain) else {
            return false;
        };
        let (header, header_len) = match Protocol(head[IP + 9]) {
            Protocol::TCP if len >= tcp::HEADER_LEN_MIN => {
                let header_len = frame
                    .get(L4 + 12)
                    .map_or(0, |byte| usize::from(byte >> 4) * 4);
                (Header::Tcp, header_len)
            }
            Protocol::UDP if usize::from(word(L4 + 4)) <= len => {
                let is_long = usize::from(word(L4 + 4)) >= udp::HEADER_LEN;
                (Header::Udp, if is_long { udp::HEADER_LEN } else { 0 })
            }
            _ => return false,
        };
        if header_len < udp::HEADER_LEN || header_len > len {
            return false;
        }
        if header == Header::Tcp && header_len < tcp::HEADER_LEN_MIN {
            return false;
        }
        self.end = end as u32;
        for (header, at) in [
            (Header::Ethernet, 0),
            (Header::Ipv4, IP),
            (header, L4),
            (Header::Ports, L4),
            (Header::Payload, L4 + header_len),
        ] {
            self.offsets[header as usize] = at as u16;
        }
        if header == Header::Udp && matches!(word(L4 + 2), gtpu::PORT | VXLAN_PORT) {
            let tunnel = self.read_tunnel(frame, (L4 + header_len, end), word(L4 + 2));
            self.is_malformed = tunnel.is_err();
        }
        true
    }

    /// Where a header begins, if it is there.
    #[inline]
    pub fn at(&self, header: Header) -> Option<usize> {
        match self.offsets[header as usize] {
            NONE => None,
            at => Some(usize::from(at)),
        }
    }

    /// Whether a header is there.
    #[inline]
    pub fn has(&self, header: Header) -> bool {
        self.offsets[header as usize] != NONE
    }

    /// Where each header begins, by its number; [`NONE`] if it is not there.
    #[inline]
    pub fn offsets(&self) -> &[u16; HEADER_COUNT] {
        &self.offsets
    }

    /// Whether a header could not be read: those in front of it are there.
    #[inline]
    pub fn is_malformed(&self) -> bool {
        self.is_malformed
    }

    /// Where the outermost network packet ends.
    #[inline]
    pub fn end(&self) -> usize {
        self.end as usize
    }

    /// The headers that are there, outermost first.
    pub fn present(&self) -> impl Iterator<Item = Header> {
        HEADERS.into_iter().filter(|header| self.has(*header))
    }

    fn set(&mut self, header: Header, at: usize) -> Result<(), Malformed> {
        match u16::try_from(at) {
            Ok(at) if at != NONE => {
                self.offsets[header as usize] = at;
                Ok(())
            }
            _ => Err(Malformed),
        }
    }

    fn read_ethernet(&mut self, frame: &[u8]) -> Result<(), Malformed> {
        let mut ether_type = word(frame, 12)?;
        self.set(Header::Ethernet, 0)?;
        let mut at = 14;
        let mut tags = [Header::Vlan, Header::Vlan2].into_iter();
        for _ in 0..VLAN_TAGS_MAX {
            if !is_vlan(ether_type) {
                break;
            }
            ether_type = word(frame, at + 2)?;
            if let Some(tag) = tags.next() {
                self.set(tag, at)?;
            }
            at += 4;
        }
        self.read_network(frame, at, ether_type, OUTER)
    }

    fn read_network(
        &mut self,
        frame: &[u8],
        at: usize,
        ether_type: u16,
        level: Level,
    ) -> Result<(), Malformed> {
        match ether_type {
            0x0800 => self.read_ipv4(frame, at, level),
            0x86dd => self.read_ipv6(frame, at, level),
            0x0806 if at + 28 <= frame.len() && level.ipv4 == Header::Ipv4 => {
                self.set(Header::Arp, at)
            }
            0x0806 if level.ipv4 == Header::Ipv4 => Err(Malformed),
            kind if is_vlan(kind) => Err(Malformed),
            _ => Ok(()),
        }
    }

    fn read_ipv4(&mut self, frame: &[u8], at: usize, level: Level) -> Result<(), Malformed> {
        let bytes = frame.get(at..).ok_or(Malformed)?;
        let view = ipv4::View::parse(bytes).map_err(|_| Malformed)?;
        self.set(level.ipv4, at)?;
        let (l4, end) = (at + view.header_len(), at + view.total_len());
        let (protocol, is_later) = (view.protocol(), view.fragment_offset() != 0);
        self.read_upper(
            frame,
            (l4, end),
            protocol,
            (is_later, view.is_fragment()),
            level,
        )
    }

    fn read_ipv6(&mut self, frame: &[u8], at: usize, level: Level) -> Result<(), Malformed> {
        let bytes = frame.get(at..).ok_or(Malformed)?;
        let view = ipv6::View::parse(bytes).map_err(|_| Malformed)?;
        self.set(level.ipv6, at)?;
        let upper = view.extensions().upper_layer().map_err(|_| Malformed)?;
        let start = at + ipv6::HEADER_LEN;
        let (l4, end) = (start + upper.offset, start + view.payload_len());
        let is_later = upper.fragment.is_some_and(|fragment| fragment.offset != 0);
        let is_part = upper.fragment.is_some_and(|fragment| !fragment.is_atomic());
        self.read_upper(frame, (l4, end), upper.protocol, (is_later, is_part), level)
    }

    /// What an IP packet from `l4` to `end` carries.
    fn read_upper(
        &mut self,
        frame: &[u8],
        (l4, end): (usize, usize),
        protocol: Protocol,
        (is_later, is_part): (bool, bool),
        level: Level,
    ) -> Result<(), Malformed> {
        let is_outer = level.ipv4 == Header::Ipv4;
        if is_outer {
            self.end = u32::try_from(end).map_err(|_| Malformed)?;
        }
        if is_later {
            return Ok(());
        }
        let bytes = frame.get(l4..end).ok_or(Malformed)?;
        let payload = match protocol {
            Protocol::TCP => {
                let view = tcp::View::parse(bytes).map_err(|_| Malformed)?;
                self.set(level.tcp, l4)?;
                self.set(level.ports, l4)?;
                l4 + view.header_len()
            }
            Protocol::UDP => {
                // The length of a first fragment counts parts that are elsewhere.
                if !is_part {
                    udp::View::parse(bytes).map_err(|_| Malformed)?;
                } else if bytes.len() < udp::HEADER_LEN {
                    return Err(Malformed);
                }
                self.set(level.udp, l4)?;
                self.set(level.ports, l4)?;
                l4 + udp::HEADER_LEN
            }
            Protocol::ICMP | Protocol::ICMPV6 if bytes.len() < 8 => return Err(Malformed),
            Protocol::ICMP | Protocol::ICMPV6 => {
                self.set(level.icmp, l4)?;
                l4 + 8
            }
            Protocol::IPV4 if is_outer => return self.read_ipv4(frame, l4, INNER),
            Protocol::IPV6 if is_outer => return self.read_ipv6(frame, l4, INNER),
            _ => return Ok(()),
        };
        if !is_outer {
            return Ok(());
        }
        self.set(Header::Payload, payload)?;
        match protocol {
            Protocol::UDP if !is_part => {
                self.read_tunnel(frame, (payload, end), word(frame, l4 + 2)?)
            }
            Protocol::ICMP => self.read_quoted_ipv4(frame, (l4, end)),
            Protocol::ICMPV6 => self.read_quoted_ipv6(frame, (l4, end)),
            _ => Ok(()),
        }
    }

    fn read_tunnel(
        &mut self,
        frame: &[u8],
        (at, end): (usize, usize),
        dst_port: u16,
    ) -> Result<(), Malformed> {
        match dst_port {
            gtpu::PORT => self.read_gtpu(frame, (at, end)),
            VXLAN_PORT => self.read_vxlan(frame, (at, end)),
            _ => Ok(()),
        }
    }

    fn read_gtpu(&mut self, frame: &[u8], (at, end): (usize, usize)) -> Result<(), Malformed> {
        let bytes = frame.get(at..end).ok_or(Malformed)?;
        let view = gtpu::View::parse(bytes).map_err(|_| Malformed)?;
        self.set(Header::Gtpu, at)?;
        let extensions = view.extensions();
        if extensions.first() == ExtensionType::PDU_SESSION_CONTAINER && extensions.len() >= 4 {
            self.set(
                Header::PduSession,
                at + gtpu::HEADER_LEN_MIN + gtpu::OPTIONAL_LEN,
            )?;
        }
        if view.message_type() != MessageType::G_PDU {
            return Ok(());
        }
        let inner = at + view.header_len();
        match frame.get(inner).map(|byte| byte >> 4) {
            Some(4) => self.read_ipv4(frame, inner, INNER),
            Some(6) => self.read_ipv6(frame, inner, INNER),
            // Ethernet and unstructured PDU sessions.
            _ => Ok(()),
        }
    }

    fn read_vxlan(&mut self, frame: &[u8], (at, end): (usize, usize)) -> Result<(), Malformed> {
        let inner = at + 8;
        if inner + 14 > end {
            return Err(Malformed);
        }
        self.set(Header::Vxlan, at)?;
        self.set(Header::InnerEthernet, inner)?;
        match word(frame, inner + 12)? {
            kind if is_vlan(kind) => Ok(()),
            kind => self.read_network(frame, inner + 14, kind, INNER),
        }
    }

    /// Errors quote the packet that they are about (RFC 792); as much of it as there is.
    fn read_quoted_ipv4(
        &mut self,
        frame: &[u8],
        (l4, end): (usize, usize),
    ) -> Result<(), Malformed> {
        let is_error = frame
            .get(l4)
            .is_some_and(|kind| icmpv4::Type(*kind).is_error());
        let at = l4 + 8;
        let Some(quoted) = frame
            .get(at..end)
            .filter(|bytes| is_error && bytes.len() >= 20)
        else {
            return Ok(());
        };
        let header_len = usize::from(quoted[0] & 0x0f) * 4;
        if quoted[0] >> 4 != 4 || header_len < 20 {
            return Ok(());
        }
        self.set(Header::QuotedIpv4, at)?;
        let is_first = word(quoted, 6).is_ok_and(|word| word & 0x1fff == 0);
        let has_ports = matches!(Protocol(quoted[9]), Protocol::TCP | Protocol::UDP);
        if has_ports && is_first && quoted.len() >= header_len + 4 {
            self.set(Header::QuotedPorts, at + header_len)?;
        }
        Ok(())
    }

    /// As above (RFC 4443, 3); ports only where no extension header is in front of them.
    fn read_quoted_ipv6(
        &mut self,
        frame: &[u8],
        (l4, end): (usize, usize),
    ) -> Result<(), Malformed> {
        let is_error = matches!(frame.get(l4), Some(1..=4));
        let at = l4 + 8;
        let Some(quoted) = frame
            .get(at..end)
            .filter(|bytes| is_error && bytes.len() >= 40)
        else {
            return Ok(());
        };
        if quoted[0] >> 4 != 6 {
            return Ok(());
        }
        self.set(Header::QuotedIpv6, at)?;
        let has_ports = matches!(Protocol(quoted[6]), Protocol::TCP | Protocol::UDP);
        if has_ports && quoted.len() >= 44 {
            self.set(Header::QuotedPorts, at + 40)?;
        }
        Ok(())
    }
}

/// C-tags and S-tags (802.1Q, table 9-1).
fn is_vlan(ether_type: u16) -> bool {
    matches!(ether_type, 0x8100 | 0x88a8)
}

fn word(bytes: &[u8], at: usize) -> Result<u16, Malformed> {
    match bytes.get(at..at + 2) {
        Some(&[high, low]) => Ok(u16::from_be_bytes([high, low])),
        _ => Err(Malformed),
    }
}
