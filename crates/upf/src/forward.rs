//! Out of the UPF: a user's packet leaves its tunnel, and goes into the frame and tunnel of its
//! FAR.
//!
//! Last step of a packet's way through the UPF. A packet that is longer than the interface's MTU is
//! cut: inside its tunnel where IPv4 allows it, else outside where the interface's settings or
//! IPv6's least MTU say so; else its sender is told. Specification: TS 29.281 4.4; RFC 8200 5.

use std::net::IpAddr;

use catena_engine::packet::Packet;
use catena_wire::gtpu::{self, MessageType};

use crate::decision::{Decision, Found, Why};
use crate::headers::{Datagram, Frame, Tunnel};
use crate::mss;
use crate::rules::{Far, NONE};
use crate::settings::{Exit, Interface};
use crate::tunnel::ends;

const ETHERNET: usize = catena_wire::ethernet::HEADER_LEN;
/// What every link carries of IPv6 (RFC 8200, 5): shorter packets are never refused.
const V6_MTU_MIN: usize = 1280;
/// Longest IP packet.
const IP_LEN_MAX: usize = 65_535;

/// How a forwarded packet is marked: QFI, reflective QoS, paging policy.
pub(crate) type Marking = (Option<u8>, bool, Option<u8>);

/// A packet that is longer than it may be, by its sender's will: so long it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong(pub(crate) usize);

/// What is around the tunnel that a FAR wants: between these ends, marked as it says.
pub(crate) fn outer(far: &Far, frame: Frame, (src, dst): (IpAddr, IpAddr), ident: u16) -> Datagram {
    let [value, mask] = far.marking.unwrap_or([0; 2]);
    Datagram {
        frame,
        src,
        dst,
        src_port: gtpu::PORT,
        dst_port: gtpu::PORT,
        traffic_class: value & mask,
        ident,
    }
}

/// Takes a packet out of its tunnel, if it is in one, and puts it into the frame and the tunnel of
/// its FAR. A packet that is too long for it is left as the user's, without a frame.
pub(crate) fn forward(
    packet: &mut Packet,
    found: &Found,
    far: &Far,
    marking: &Marking,
    exit: &Exit<'_>,
) -> Result<Decision, TooLong> {
    let (inner, out) = (&found.inner, exit.out);
    if packet.set_len(found.at + inner.len).is_err() || packet.pull_front(found.at).is_err() {
        return Ok(Decision::Drop(Why::Malformed));
    }
    if let Some(most) = exit.mss {
        mss::clamp(packet.bytes_mut(), most);
    }
    let frame = Frame {
        src: out.mac,
        dst: out.next_hop,
    };
    let send = Decision::Send(far.interface);
    if far.headers == 0 {
        let may_cut = inner.len <= out.mtu || may_cut(packet.bytes(), found);
        if !may_cut {
            return Err(TooLong(out.mtu));
        }
        if packet.push_front(ETHERNET).is_err() {
            return Ok(Decision::Drop(Why::NoHeadroom));
        }
        frame.emit(packet.bytes_mut(), inner.src.is_ipv6());
        let is_long = inner.len > out.mtu;
        return Ok(if is_long {
            cut(far, out, ETHERNET)
        } else {
            send
        });
    }
    let Some((src, dst)) = ends(far, out) else {
        return Ok(Decision::Drop(Why::FarDrop));
    };
    let (qfi, rqi, ppi) = *marking;
    let tunnel = if far.destination == 0 {
        Tunnel::downlink(far.teid, qfi, rqi, ppi)
    } else {
        Tunnel::uplink(far.teid, found.qfi)
    };
    let datagram = outer(far, frame, (src, dst), exit.ident);
    let headers = datagram.header_len() + tunnel.len();
    let room = out.mtu.saturating_sub(headers - ETHERNET);
    let decision = if inner.len <= room {
        send
    } else if out.cuts_outside || inner.src.is_ipv6() && inner.len <= V6_MTU_MIN {
        cut(far, out, ETHERNET)
    } else if may_cut(packet.bytes(), found) {
        cut(far, out, headers)
    } else {
        return Err(TooLong(room));
    };
    if headers - ETHERNET + inner.len > IP_LEN_MAX {
        return Ok(Decision::Drop(Why::TooBig));
    }
    if packet.push_front(headers).is_err() {
        return Ok(Decision::Drop(Why::NoHeadroom));
    }
    let bytes = packet.bytes_mut();
    let at = datagram.header_len();
    tunnel.emit(&mut bytes[at..], MessageType::G_PDU, inner.len);
    datagram.emit(bytes);
    debug_assert!(far.interface != NONE);
    Ok(decision)
}

/// Whether a user's packet may be cut: IPv4 that does not forbid it, and what came in parts.
fn may_cut(packet: &[u8], found: &Found) -> bool {
    const DONT_FRAGMENT: u8 = 0x40;
    found.is_joined || packet[0] >> 4 == 4 && packet[6] & DONT_FRAGMENT == 0
}

fn cut(far: &Far, out: &Interface, at: usize) -> Decision {
    Decision::Cut {
        interface: far.interface,
        at: u16::try_from(at).unwrap_or(u16::MAX),
        mtu: u16::try_from(out.mtu).unwrap_or(u16::MAX),
    }
}
