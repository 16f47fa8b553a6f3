// SPDX-License-Identifier: Apache-2.0
//! One pass over a frame, from the Ethernet header to the ports: what a function needs to classify
//! a packet, and where each header starts for one that goes on to edit it.
//!
//! ```text
//! | Ethernet | tags | IP | extensions | transport | payload | padding |
//! 0                 l3                l4          payload   end      frame.len()
//! ```
//!
//! The pass allocates nothing, reads each header once and is bounded: at most [`VLAN_TAGS_MAX`]
//! tags and [`HEADERS_MAX`](crate::ipv6::extension::HEADERS_MAX) extension headers. Checksums are
//! not judged, since that would read the payload; the views do that where it is wanted.
//!
//! What it understands: VLAN tags; IPv4 and IPv6; TCP, UDP and both ICMPs. Anything else is not an
//! error but [`Dissected::ip`] `None`, or [`Transport::Other`]. An error means that a header which
//! is understood is malformed, and that a filter must not guess what the packet is.
//!
//! Fragments: the first fragment has its transport header, which must be complete (RFC 8200 5
//! demands it for IPv6; for IPv4 it stops a filter from being bypassed, RFC 1858 3). Later
//! fragments have [`Transport::None`].
//!
//! Deliberately unsupported: what is inside tunnels, and inside the datagram an ICMP error carries.

use crate::ethernet::{self, EtherType};
use crate::ip::{Addresses, Protocol};
use crate::{Layer, ParseError, Reason, icmpv4, icmpv6, ipv4, ipv6, tcp, udp, vlan};
use core::fmt;

/// The most VLAN tags read. 802.1ad stacks two; another two are left for networks that stack them
/// again at their border.
pub const VLAN_TAGS_MAX: usize = 4;

/// What one pass over a frame found. Offsets are in bytes from the start of the frame and ordered:
/// `l3 <= l4 <= payload <= end <= frame.len()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dissected {
    /// EtherType of what follows the tags, or a length (802.3).
    pub ether_type: EtherType,
    /// VLAN identifiers, outermost first; see [`vlan_ids`](Self::vlan_ids).
    vlan_ids: [u16; VLAN_TAGS_MAX],
    vlan_count: u8,
    /// Where the network header starts: after Ethernet and tags.
    pub l3: usize,
    /// Where the transport header starts: after IP and extensions. Equal to `l3` without IP.
    pub l4: usize,
    /// Where the transport payload starts. Equal to `l4` where no transport header was read.
    pub payload: usize,
    /// Where the packet ends according to its own length fields; padding of the frame follows.
    pub end: usize,
    /// The network layer, if it is IP.
    pub ip: Option<Ip>,
    /// The transport layer.
    pub transport: Transport,
}

/// The network layer of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip {
    /// Source and destination, which also tell the version.
    pub addresses: Addresses,
    /// What the packet carries, past all extension headers.
    pub protocol: Protocol,
    /// Which part of a datagram this is.
    pub fragment: Fragment,
}

/// Which part of a datagram a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fragment {
    /// All of it; an atomic fragment (RFC 6946) is one too.
    Whole,
    /// The first of several parts: has the transport header.
    First,
    /// A later part: has no transport header.
    Later,
}

/// The transport layer of a packet, as far as classification needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// There is none here: no IP, a later fragment, or No Next Header.
    None,
    /// ICMP for IPv4, in an IPv4 packet.
    Icmpv4 {
        /// Type of the message.
        message_type: icmpv4::Type,
        /// Code of the message.
        code: u8,
    },
    /// ICMP for IPv6, in an IPv6 packet.
    Icmpv6 {
        /// Type of the message.
        message_type: icmpv6::Type,
        /// Code of the message.
        code: u8,
    },
    /// TCP.
    Tcp {
        /// Source port.
        src_port: u16,
        /// Destination port.
        dst_port: u16,
        /// Control bits.
        flags: tcp::Flags,
    },
    /// UDP.
    Udp {
        /// Source port.
        src_port: u16,
        /// Destination port.
        dst_port: u16,
    },
    /// A protocol that this crate does not read.
    Other,
}

impl Transport {
    /// Source and destination port of TCP and UDP.
    #[inline]
    pub const fn ports(&self) -> Option<(u16, u16)> {
        match *self {
            Self::Tcp {
                src_port, dst_port, ..
            }
            | Self::Udp { src_port, dst_port } => Some((src_port, dst_port)),
            _ => None,
        }
    }
}

impl Dissected {
    /// Dissects a frame that starts at the Ethernet destination and ends before the FCS.
    ///
    /// # Errors
    /// The first malformed header, from the outside in. `TooManyHeaders` also for more than
    /// [`VLAN_TAGS_MAX`] tags.
    #[inline]
    pub fn parse(frame: &[u8]) -> Result<Self, ParseError> {
        let ethernet = ethernet::View::parse(frame)?;
        let end = ethernet::HEADER_LEN + ethernet.payload().len();
        let mut this = Self {
            ether_type: ethernet.ether_type(),
            vlan_ids: [0; VLAN_TAGS_MAX],
            vlan_count: 0,
            l3: ethernet::HEADER_LEN,
            l4: 0,
            payload: 0,
            end,
            ip: None,
            transport: Transport::None,
        };
        if this.ether_type.is_vlan() {
            this.read_tags(frame)?;
        }
        this.l4 = this.l3;
        match this.ether_type {
            EtherType::IPV4 => this.read_ipv4(frame)?,
            EtherType::IPV6 => this.read_ipv6(frame)?,
            _ => {}
        }
        this.payload = this.l4;
        this.read_transport(frame)?;
        Ok(this)
    }

    /// Dissects an IP packet without a frame around it, as a tunnel carries it: `l3` is 0.
    ///
    /// # Errors
    /// Those of [`Dissected::parse`]; layer `Ipv4` and `BadVersion` for what is neither IPv4 nor
    /// IPv6.
    #[inline]
    pub fn parse_ip(packet: &[u8]) -> Result<Self, ParseError> {
        let mut this = Self {
            ether_type: EtherType::IPV4,
            vlan_ids: [0; VLAN_TAGS_MAX],
            vlan_count: 0,
            l3: 0,
            l4: 0,
            payload: 0,
            end: packet.len(),
            ip: None,
            transport: Transport::None,
        };
        if packet.first().is_some_and(|first| first >> 4 == 6) {
            this.ether_type = EtherType::IPV6;
            this.read_ipv6(packet)?;
        } else {
            this.read_ipv4(packet)?;
        }
        this.payload = this.l4;
        this.read_transport(packet)?;
        Ok(this)
    }

    /// VLAN identifiers, outermost first; as many as there are tags.
    #[inline]
    pub fn vlan_ids(&self) -> &[u16] {
        &self.vlan_ids[..usize::from(self.vlan_count)]
    }

    /// How many VLAN tags the frame has.
    #[inline]
    pub const fn vlan_count(&self) -> usize {
        self.vlan_count as usize
    }

    /// Both addresses, if the packet is IP.
    #[inline]
    pub fn addresses(&self) -> Option<&Addresses> {
        self.ip.as_ref().map(|ip| &ip.addresses)
    }

    /// Source and destination port of TCP and UDP.
    #[inline]
    pub const fn ports(&self) -> Option<(u16, u16)> {
        self.transport.ports()
    }

    fn read_tags(&mut self, frame: &[u8]) -> Result<(), ParseError> {
        while self.ether_type.is_vlan() {
            if self.vlan_count() == VLAN_TAGS_MAX {
                return Err(Layer::Vlan.error(Reason::TooManyHeaders));
            }
            let tag = vlan::View::parse(&frame[self.l3..])?;
            self.vlan_ids[self.vlan_count()] = tag.vid();
            self.vlan_count += 1;
            self.ether_type = tag.ether_type();
            self.l3 += vlan::HEADER_LEN;
        }
        if self.ether_type.is_length() {
            // The length rule of the Ethernet header holds behind a tag too (802.1Q 9.4).
            self.end = self.l3 + usize::from(self.ether_type.0);
            if self.end > frame.len() {
                return Err(Layer::Vlan.error(Reason::Truncated));
            }
        }
        Ok(())
    }

    #[inline]
    fn read_ipv4(&mut self, frame: &[u8]) -> Result<(), ParseError> {
        let view = ipv4::View::parse(&frame[self.l3..])?;
        self.l4 = self.l3 + view.header_len();
        self.end = self.l3 + view.total_len();
        let fragment = match (view.fragment_offset(), view.more_fragments()) {
            (0, false) => Fragment::Whole,
            (0, true) => Fragment::First,
            _ => Fragment::Later,
        };
        self.ip = Some(Ip {
            addresses: view.addresses(),
            protocol: view.protocol(),
            fragment,
        });
        Ok(())
    }

    #[inline]
    fn read_ipv6(&mut self, frame: &[u8]) -> Result<(), ParseError> {
        let view = ipv6::View::parse(&frame[self.l3..])?;
        let upper = view.extensions().upper_layer()?;
        self.l4 = self.l3 + ipv6::HEADER_LEN + upper.offset;
        self.end = self.l3 + ipv6::HEADER_LEN + view.payload_len();
        let fragment = match upper.fragment {
            None => Fragment::Whole,
            Some(fragment) if fragment.is_atomic() => Fragment::Whole,
            Some(ipv6::extension::Fragment { offset: 0, .. }) => Fragment::First,
            Some(_) => Fragment::Later,
        };
        self.ip = Some(Ip {
            addresses: view.addresses(),
            protocol: upper.protocol,
            fragment,
        });
        Ok(())
    }

    #[inline]
    fn read_transport(&mut self, frame: &[u8]) -> Result<(), ParseError> {
        let Some(ip) = &self.ip else { return Ok(()) };
        if ip.fragment == Fragment::Later {
            return Ok(());
        }
        let bytes = &frame[self.l4..self.end];
        let (transport, header_len) = match (ip.protocol, &ip.addresses) {
            (Protocol::TCP, _) => {
                let view = tcp::View::parse(bytes)?;
                let (src_port, dst_port) = (view.src_port(), view.dst_port());
                let flags = view.flags();
                (
                    Transport::Tcp {
                        src_port,
                        dst_port,
                        flags,
                    },
                    view.header_len(),
                )
            }
            (Protocol::UDP, _) => (read_udp(bytes, ip.fragment)?, udp::HEADER_LEN),
            (Protocol::ICMP, Addresses::V4 { .. }) => {
                let view = icmpv4::View::parse(bytes)?;
                let (message_type, code) = (view.message_type(), view.code());
                (Transport::Icmpv4 { message_type, code }, icmpv4::HEADER_LEN)
            }
            (Protocol::ICMPV6, Addresses::V6 { .. }) => {
                let view = icmpv6::View::parse(bytes)?;
                let (message_type, code) = (view.message_type(), view.code());
                (Transport::Icmpv6 { message_type, code }, icmpv6::HEADER_LEN)
            }
            (Protocol::NO_NEXT_HEADER, Addresses::V6 { .. }) => (Transport::None, 0),
            _ => (Transport::Other, 0),
        };
        self.transport = transport;
        self.payload = self.l4 + header_len;
        Ok(())
    }
}

/// The length of a first fragment counts parts that are elsewhere, so only the header is read.
#[inline]
fn read_udp(bytes: &[u8], fragment: Fragment) -> Result<Transport, ParseError> {
    let ports = |src_port, dst_port| Transport::Udp { src_port, dst_port };
    if fragment == Fragment::Whole {
        let view = udp::View::parse(bytes)?;
        return Ok(ports(view.src_port(), view.dst_port()));
    }
    match bytes.first_chunk::<{ udp::HEADER_LEN }>() {
        Some(&[a, b, c, d, ..]) => Ok(ports(
            u16::from_be_bytes([a, b]),
            u16::from_be_bytes([c, d]),
        )),
        None => Err(Layer::Udp.error(Reason::Truncated)),
    }
}

impl fmt::Display for Dissected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for id in self.vlan_ids() {
            write!(f, "vlan {id} ")?;
        }
        let Some(ip) = &self.ip else {
            return self.ether_type.fmt(f);
        };
        write!(f, "{} {}", ip.addresses, ip.protocol)?;
        match ip.fragment {
            Fragment::Whole => {}
            Fragment::First => f.write_str(" first fragment")?,
            Fragment::Later => f.write_str(" later fragment")?,
        }
        match self.transport {
            Transport::None | Transport::Other => Ok(()),
            Transport::Icmpv4 { message_type, code } => write!(f, " {message_type} code {code}"),
            Transport::Icmpv6 { message_type, code } => write!(f, " {message_type} code {code}"),
            Transport::Tcp {
                src_port,
                dst_port,
                flags,
            } => {
                write!(f, " {src_port} > {dst_port} [{flags}]")
            }
            Transport::Udp { src_port, dst_port } => write!(f, " {src_port} > {dst_port}"),
        }
    }
}

#[cfg(test)]
mod tests;
