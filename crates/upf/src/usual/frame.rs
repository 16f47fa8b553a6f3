//! The frame of a usual packet: where the user's packet lies in it, and how it leaves.
//!
//! First and last step of a usual packet. Headers are those of `catena_wire`; what they allow and
//! a usual packet does not have is none here, and no error.

use std::net::Ipv4Addr;

use catena_engine::packet::Packet;
use catena_wire::ethernet::{self, EtherType};
use catena_wire::gtpu::{self, plain};
use catena_wire::ip::Protocol;
use catena_wire::{ipv4, tcp, udp};

use crate::sdf::Ends;

pub(super) const ETHERNET: usize = ethernet::HEADER_LEN;
const IPV4: usize = ipv4::HEADER_LEN_MIN;

/// A user's packet in its frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct User {
    /// Where it begins.
    pub(super) at: usize,
    /// The tunnel by which it came, and the QFI with which it did; 0 without.
    pub(super) teid: u32,
    pub(super) qfi: Option<u8>,
    /// Whether it may open a connection of TCP.
    pub(super) opens_tcp: bool,
    /// Its length, as its header says.
    pub(super) len: usize,
    pub(super) src: Ipv4Addr,
    pub(super) dst: Ipv4Addr,
    protocol: u8,
    /// Source and destination port, in one word: two that are written one by one and read together
    /// would stall.
    ports: u32,
    traffic_class: u8,
}

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

impl User {
    /// An IPv4 packet of TCP or UDP.
    #[inline(always)]
    fn of(view: &ipv4::View<&[u8]>, at: usize, (teid, qfi): (u32, Option<u8>)) -> Option<Self> {
        let payload = view.payload();
        let (ports, opens_tcp) = match view.protocol() {
            Protocol::UDP => {
                let udp = udp::View::parse(payload).ok()?;
                (word(udp.src_port(), udp.dst_port()), false)
            }
            Protocol::TCP => {
                let tcp = tcp::View::parse(payload).ok()?;
                let opens = tcp.flags().contains(tcp::Flags::SYN);
                (word(tcp.src_port(), tcp.dst_port()), opens)
            }
            _ => return None,
        };
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
        })
    }

    /// What filters look at of it.
    #[inline(always)]
    pub(super) const fn ends(&self) -> Ends {
        Ends {
            protocol: self.protocol,
            traffic_class: self.traffic_class,
            src: self.src,
            dst: self.dst,
            src_port: (self.ports >> 16) as u16,
            dst_port: self.ports as u16,
        }
    }
}

/// The first IP packet of a frame.
pub(super) struct Outer<'a>(ipv4::View<&'a [u8]>);

impl<'a> Outer<'a> {
    #[inline(always)]
    pub(super) fn parse(frame: &'a [u8]) -> Option<Self> {
        let (header, rest) = frame.split_first_chunk::<ETHERNET>()?;
        if header[12..] != EtherType::IPV4.0.to_be_bytes() {
            return None;
        }
        whole(rest).map(Self)
    }

    #[inline(always)]
    pub(super) fn dst(&self) -> Ipv4Addr {
        self.0.dst()
    }

    /// The user's packet in its tunnel.
    #[inline(always)]
    pub(super) fn tunnelled(&self) -> Option<User> {
        if self.0.protocol() != Protocol::UDP {
            return None;
        }
        let datagram = self.0.payload();
        if udp::View::parse(datagram).ok()?.dst_port() != gtpu::PORT {
            return None;
        }
        let plain = plain::Plain::parse(&datagram[udp::HEADER_LEN..])?;
        let at = ETHERNET + IPV4 + udp::HEADER_LEN + plain.header_len;
        let inner = whole(plain.payload)?;
        if plain.teid == 0 {
            return None;
        }
        User::of(&inner, at, (plain.teid, plain.qfi))
    }

    /// It as the user's packet.
    #[inline(always)]
    pub(super) fn bare(&self) -> Option<User> {
        User::of(&self.0, ETHERNET, (0, None))
    }
}

/// Takes all from a packet but the user's, and makes room for `len` bytes of headers: false, and
/// nothing that counts, if there is none.
#[inline(always)]
pub(super) fn strip(packet: &mut Packet, user: &User, len: usize) -> bool {
    packet.set_len(user.at + user.len).is_ok()
        && packet.pull_front(user.at).is_ok()
        && packet.push_front(len).is_ok()
}
