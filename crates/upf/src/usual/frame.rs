//! The frame of a usual packet: where the user's packet lies in it, and how it leaves.
//!
//! First and last step of a usual packet. Headers are those of `catena_wire`; what they allow and
//! a usual packet does not have is none here, and no error.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use catena_engine::packet::Packet;
use catena_wire::ethernet::{self, EtherType};
use catena_wire::gtpu::{self, plain};
use catena_wire::ip::Protocol;
use catena_wire::{ipv4, ipv6, tcp, udp};

use crate::sdf::Ends;

pub(super) const ETHERNET: usize = ethernet::HEADER_LEN;
const IPV4: usize = ipv4::HEADER_LEN_MIN;

/// A user's packet in its frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct User<A> {
    /// Where it begins.
    pub(super) at: usize,
    /// The tunnel by which it came, and the QFI with which it did; 0 without.
    pub(super) teid: u32,
    pub(super) qfi: Option<u8>,
    /// Whether it may open a connection of TCP.
    pub(super) opens_tcp: bool,
    /// Its length, as its header says.
    pub(super) len: usize,
    pub(super) src: A,
    pub(super) dst: A,
    protocol: u8,
    /// Source and destination port, in one word: two that are written one by one and read together
    /// would stall.
    ports: u32,
    traffic_class: u8,
    flow_label: u32,
}

/// The tunnel of a packet, and its QFI; 0 without.
type Came = (u32, Option<u8>);

/// IPv4 without options, of which no part is elsewhere.
#[inline(always)]
fn whole(bytes: &[u8]) -> Option<ipv4::View<&[u8]>> {
    let view = ipv4::View::parse(bytes).ok()?;
    let is_part = view.more_fragments() || view.fragment_offset() != 0;
    (view.header_len() == IPV4 && !is_part).then_some(view)
}

#[inline(always)]
const fn word(high: u16, low: u16) -> u32 {
    (high as u32) << 16 | low as u32
}

/// The ports of TCP or UDP, in one word, and whether it may open a connection.
#[inline(always)]
fn ports(protocol: Protocol, payload: &[u8]) -> Option<(u32, bool)> {
    match protocol {
        Protocol::UDP => {
            let udp = udp::View::parse(payload).ok()?;
            Some((word(udp.src_port(), udp.dst_port()), false))
        }
        Protocol::TCP => {
            let tcp = tcp::View::parse(payload).ok()?;
            let opens = tcp.flags().contains(tcp::Flags::SYN);
            Some((word(tcp.src_port(), tcp.dst_port()), opens))
        }
        _ => None,
    }
}

impl User<Ipv4Addr> {
    #[inline(always)]
    fn of(view: &ipv4::View<&[u8]>, at: usize, (teid, qfi): Came) -> Option<Self> {
        let (ports, opens_tcp) = ports(view.protocol(), view.payload())?;
        Some(Self {
            at,
            teid,
            qfi,
            opens_tcp,
            len: view.total_len(),
            src: view.src(),
            dst: view.dst(),
            protocol: view.protocol().0,
            ports,
            traffic_class: view.dscp() << 2 | view.ecn(),
            flow_label: 0,
        })
    }
}

impl User<Ipv6Addr> {
    /// Without any extension header.
    #[inline(always)]
    fn of_v6(bytes: &[u8], at: usize, (teid, qfi): Came) -> Option<Self> {
        let view = ipv6::View::parse(bytes).ok()?;
        let (ports, opens_tcp) = ports(view.next_header(), view.payload())?;
        Some(Self {
            at,
            teid,
            qfi,
            opens_tcp,
            len: ipv6::HEADER_LEN + view.payload_len(),
            src: view.src(),
            dst: view.dst(),
            protocol: view.next_header().0,
            ports,
            traffic_class: view.dscp() << 2 | view.ecn(),
            flow_label: view.flow_label(),
        })
    }
}

impl<A: Copy + Into<IpAddr>> User<A> {
    /// What filters look at of it.
    #[inline(always)]
    pub(super) fn ends(&self) -> Ends<A> {
        Ends {
            protocol: self.protocol,
            traffic_class: self.traffic_class,
            flow_label: self.flow_label,
            src: self.src,
            dst: self.dst,
            src_port: (self.ports >> 16) as u16,
            dst_port: self.ports as u16,
        }
    }
}

/// The bytes behind the header of a frame of this kind.
#[inline(always)]
fn behind(frame: &[u8], kind: EtherType) -> Option<&[u8]> {
    let (header, rest) = frame.split_first_chunk::<ETHERNET>()?;
    (header[12..] == kind.0.to_be_bytes()).then_some(rest)
}

/// The first IP packet of a frame, of IPv4: a user's, or what a tunnel is in.
pub(super) struct Outer<'a>(ipv4::View<&'a [u8]>);

impl<'a> Outer<'a> {
    #[inline(always)]
    pub(super) fn parse(frame: &'a [u8]) -> Option<Self> {
        whole(behind(frame, EtherType::IPV4)?).map(Self)
    }

    #[inline(always)]
    pub(super) fn dst(&self) -> Ipv4Addr {
        self.0.dst()
    }

    /// What is in a tunnel, where it begins, and how it came.
    #[inline(always)]
    fn tunnel(&self) -> Option<(&[u8], usize, Came)> {
        if self.0.protocol() != Protocol::UDP {
            return None;
        }
        let datagram = self.0.payload();
        if udp::View::parse(datagram).ok()?.dst_port() != gtpu::PORT {
            return None;
        }
        let plain = plain::Plain::parse(&datagram[udp::HEADER_LEN..])?;
        let at = ETHERNET + IPV4 + udp::HEADER_LEN + plain.header_len;
        (plain.teid != 0).then_some((plain.payload, at, (plain.teid, plain.qfi)))
    }

    /// The user's packet in its tunnel.
    #[inline(always)]
    pub(super) fn tunnelled(&self) -> Option<User<Ipv4Addr>> {
        let (payload, at, came) = self.tunnel()?;
        User::of(&whole(payload)?, at, came)
    }

    /// The same of IPv6.
    pub(super) fn tunnelled_v6(&self) -> Option<User<Ipv6Addr>> {
        let (payload, at, came) = self.tunnel()?;
        User::of_v6(payload, at, came)
    }

    /// It as the user's packet.
    #[inline(always)]
    pub(super) fn bare(&self) -> Option<User<Ipv4Addr>> {
        User::of(&self.0, ETHERNET, (0, None))
    }
}

/// A user's packet of IPv6 that came by no tunnel.
pub(super) fn bare_v6(frame: &[u8]) -> Option<User<Ipv6Addr>> {
    User::of_v6(behind(frame, EtherType::IPV6)?, ETHERNET, (0, None))
}

/// Takes all from a packet but the user's, and makes room for `len` bytes of headers: false, and
/// nothing that counts, if there is none.
#[inline(always)]
pub(super) fn strip<A>(packet: &mut Packet, user: &User<A>, len: usize) -> bool {
    packet.set_len(user.at + user.len).is_ok()
        && packet.pull_front(user.at).is_ok()
        && packet.push_front(len).is_ok()
}
