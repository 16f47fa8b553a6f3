//! Out of the UPF: a user's packet leaves its tunnel, and goes into the frame and tunnel of its
//! FAR.
//!
//! Last step of a packet's way through the UPF, in two: how it leaves, or why it cannot, is known
//! before it is charged; then its bytes are changed. A packet that is longer than the interface's
//! MTU is cut: inside its tunnel where IPv4 allows it, else outside where the interface's settings
//! or IPv6's least MTU say so; else its sender is told. Specification: TS 29.281 4.4; RFC 8200 5.

use std::net::IpAddr;

use catena_engine::packet::Packet;
use catena_wire::gtpu::{self, MessageType};

use crate::cut::Cut;
use crate::decision::{Decision, Found, Why};
use crate::enforce::Ruled;
use crate::frame;
use crate::headers::{Datagram, Frame, Tunnel};
use crate::marking::Marking;
use crate::mss;
use crate::rules::Far;
use crate::settings::{Exit, Interface};
use crate::tunnel::ends;

const ETHERNET: usize = catena_wire::ethernet::HEADER_LEN;
/// What every link carries of IPv6 (RFC 8200, 5): shorter packets are never refused.
const V6_MTU_MIN: usize = 1280;
/// Longest IP packet.
const IP_LEN_MAX: usize = 65_535;

/// Why a packet cannot leave that its rules let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// It is longer than it may be, by its sender's will: so long it may be.
    TooLong(usize),
    /// It is dropped.
    Dropped(Why),
}

impl Unfit {
    /// Why it is dropped.
    pub(crate) const fn why(self) -> Why {
        match self {
            Self::TooLong(_) => Why::TooBig,
            Self::Dropped(why) => why,
        }
    }
}

/// How a packet leaves: known before it is charged, so that only what leaves is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Departure<'a> {
    exit: Exit<'a>,
    decision: Decision,
    /// The tunnel of its FAR, and what is around that; or a datagram alone.
    around: Option<(Datagram, Option<Tunnel>)>,
    /// Bytes of tags that a frame loses, and the tags that it gets.
    removed_len: usize,
    tags: [Option<u16>; 2],
}

impl Departure<'_> {
    /// Length of all headers in front of the user's packet.
    fn header_len(around: Option<&(Datagram, Option<Tunnel>)>) -> usize {
        around.map_or(ETHERNET, |(datagram, tunnel)| {
            datagram.header_len() + tunnel.as_ref().map_or(0, Tunnel::len)
        })
    }

    /// Puts the time at which it leaves in front of a downlink packet; false, and nothing, if it
    /// has no place for it, or would be too long.
    pub(crate) fn stamp(&mut self, packet: &Packet, found: &Found, time: u64) -> bool {
        let Some((datagram, Some(tunnel))) = &self.around else {
            return false;
        };
        let Some(stamped) = tunnel.stamped(time) else {
            return false;
        };
        let around = Some((*datagram, Some(stamped)));
        let headers = Self::header_len(around.as_ref());
        let fits = matches!(self.decision, Decision::Send(_))
            && headers - ETHERNET + found.inner.len <= self.exit.out.mtu
            && headers <= packet.headroom() + found.at;
        if fits {
            self.around = around;
        }
        fits
    }
}

/// What is around the tunnel that a FAR wants: between these ends, marked as it says.
pub(crate) fn outer(far: &Far, frame: Frame, (src, dst): (IpAddr, IpAddr), ident: u16) -> Datagram {
    let [value, mask] = far.marking.unwrap_or([0; 2]);
    Datagram {
        frame,
        src,
        dst,
        ports: Some((gtpu::PORT, gtpu::PORT)),
        traffic_class: value & mask,
        ident,
    }
}

/// How a packet leaves by its FAR. Nothing is changed.
///
/// # Errors
/// Why it cannot leave.
#[inline]
pub(crate) fn depart<'a>(
    packet: &Packet,
    found: &Found,
    ruled: &Ruled,
    exit: Exit<'a>,
) -> Result<Departure<'a>, Unfit> {
    let (inner, out) = (&found.inner, exit.out);
    let Ruled { far, marking, .. } = ruled;
    let user = found.user(packet.bytes());
    if user.is_empty() {
        return Err(Unfit::Dropped(Why::Malformed));
    }
    let around = match far.headers {
        // No network knows what it is.
        0 if found.is_opaque && !found.is_frame => return Err(Unfit::Dropped(Why::FarDrop)),
        0 => None,
        _ if found.is_frame && far.is_tagging() => None,
        _ => Some(around(found, (far, marking), &exit).ok_or(Unfit::Dropped(Why::FarDrop))?),
    };
    let headers = Departure::header_len(around.as_ref());
    let removed_len = match found.is_frame {
        true => frame::removed_len(user, ruled.removal),
        false => 0,
    };
    if found.is_frame && around.is_none() {
        return bare(packet, found, (far, removed_len), exit);
    }
    let len = inner.len - removed_len;
    let room = out.mtu.saturating_sub(headers - ETHERNET);
    let is_short_v6 = inner.src.is_ipv6() && len <= V6_MTU_MIN;
    let cuts_outside = around.is_some() && (out.cuts_outside || found.is_opaque || is_short_v6);
    let decision = if len <= room {
        Decision::Send(far.interface)
    } else if cuts_outside {
        cut(far, out, ETHERNET)
    } else if may_cut(user, found.is_joined, room) {
        cut(far, out, headers)
    } else {
        return Err(Unfit::TooLong(room));
    };
    if headers - ETHERNET + len > IP_LEN_MAX {
        return Err(Unfit::Dropped(Why::TooBig));
    }
    if !packet.is_writable() || packet.headroom() + found.at < headers {
        return Err(Unfit::Dropped(Why::NoHeadroom));
    }
    Ok(Departure {
        exit,
        decision,
        around,
        removed_len,
        tags: [None; 2],
    })
}

/// How a frame leaves that is in no tunnel: as it is, but for tags.
fn bare<'a>(
    packet: &Packet,
    found: &Found,
    (far, removed_len): (&Far, usize),
    exit: Exit<'a>,
) -> Result<Departure<'a>, Unfit> {
    let header = frame::Header::parse(found.user(packet.bytes()));
    let header = header.ok_or(Unfit::Dropped(Why::Malformed))?;
    if found.inner.len - header.len > exit.out.mtu {
        return Err(Unfit::Dropped(Why::TooBig));
    }
    let tags = far.tags();
    let tags_len = frame::tags_len(tags);
    let is_written = tags_len + removed_len != 0;
    if is_written && !packet.is_writable() || packet.headroom() + found.at < tags_len {
        return Err(Unfit::Dropped(Why::NoHeadroom));
    }
    Ok(Departure {
        exit,
        decision: Decision::Send(far.interface),
        around: None,
        removed_len,
        tags,
    })
}

/// The tunnel that a FAR wants, and what is around it; none if it has no two ends.
#[inline]
fn around(
    found: &Found,
    (far, marking): (&Far, &Marking),
    exit: &Exit<'_>,
) -> Option<(Datagram, Option<Tunnel>)> {
    if far.is_udp() {
        return Some((datagram(found, far, exit)?, None));
    }
    if far.is_ip() {
        let ends = ends(far, exit.out)?;
        let mut around = outer(far, frame(exit.out), ends, exit.ident);
        around.ports = None;
        return Some((around, None));
    }
    let (qfi, rqi, ppi) = *marking;
    let tunnel = match far.destination {
        0 => Tunnel::downlink(far.teid, qfi, rqi, ppi),
        _ => Tunnel::uplink(far.teid, qfi),
    };
    let ends = ends(far, exit.out)?;
    let datagram = outer(far, frame(exit.out), ends, exit.ident);
    Some((datagram, Some(tunnel)))
}

/// The datagram around a packet of no known kind.
fn datagram(found: &Found, far: &Far, exit: &Exit<'_>) -> Option<Datagram> {
    let [value, mask] = far.marking.unwrap_or([0; 2]);
    let (src, dst) = (found.inner.src, far.peer()?);
    (found.is_opaque && src.is_ipv4() == dst.is_ipv4()).then_some(Datagram {
        frame: frame(exit.out),
        src,
        dst,
        ports: Some((far.port, far.port)),
        traffic_class: value & mask,
        ident: exit.ident,
    })
}

/// Takes a packet out of its tunnel, if it is in one, and puts it into the frame and the tunnel of
/// its FAR.
#[inline]
pub(crate) fn forward(packet: &mut Packet, found: &Found, departure: &Departure<'_>) -> Decision {
    let Departure {
        exit,
        decision,
        around,
        removed_len,
        tags,
    } = departure;
    if packet.set_len(found.at + found.inner.len).is_err() || packet.pull_front(found.at).is_err() {
        return Decision::Drop(Why::Malformed);
    }
    if *removed_len != 0 {
        frame::remove_tags(packet.bytes_mut(), *removed_len);
        if packet.pull_front(*removed_len).is_err() {
            return Decision::Drop(Why::Malformed);
        }
    }
    let len = found.inner.len - removed_len;
    if let Some(most) = exit.mss.filter(|_| !found.is_opaque) {
        mss::clamp(packet.bytes_mut(), most);
    }
    if found.is_frame && around.is_none() {
        let tags_len = frame::tags_len(*tags);
        if tags_len == 0 {
            return *decision;
        }
        if packet.push_front(tags_len).is_err() {
            return Decision::Drop(Why::NoHeadroom);
        }
        frame::set_tags(packet.bytes_mut(), *tags);
        return *decision;
    }
    let headers = Departure::header_len(around.as_ref());
    if packet.push_front(headers).is_err() {
        return Decision::Drop(Why::NoHeadroom);
    }
    let bytes = packet.bytes_mut();
    match around {
        None => frame(exit.out).emit(bytes, found.inner.src.is_ipv6()),
        Some((datagram, tunnel)) => {
            let at = datagram.header_len();
            if let Some(tunnel) = tunnel {
                tunnel.emit(&mut bytes[at..], MessageType::G_PDU, len);
            }
            datagram.emit(bytes);
        }
    }
    *decision
}

/// That a part waits for the rest of its packet, which begins at `at` of its frame.
pub(crate) fn join(at: usize, teid: u32, came: Marking) -> Decision {
    match u16::try_from(at) {
        Ok(at) => Decision::Join { at, teid, came },
        Err(_) => Decision::Drop(Why::Malformed),
    }
}

/// The frame of what leaves by an interface.
const fn frame(out: &Interface) -> Frame {
    Frame {
        src: out.mac,
        dst: out.next_hop,
    }
}

/// Whether a user's packet may be cut, IPv4 that does not forbid it and what came in parts, and can
/// be: a tunnel's packet always can, by the least MTU of the settings.
fn may_cut(packet: &[u8], is_joined: bool, room: usize) -> bool {
    const DONT_FRAGMENT: u8 = 0x40;
    let may = is_joined || packet[0] >> 4 == 4 && packet[6] & DONT_FRAGMENT == 0;
    may && Cut::of(packet, room).is_some()
}

fn cut(far: &Far, out: &Interface, at: usize) -> Decision {
    Decision::Cut {
        interface: far.interface,
        at: u16::try_from(at).unwrap_or(u16::MAX),
        mtu: u16::try_from(out.mtu).unwrap_or(u16::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IPv6 of this length, all of which but 16 bytes are options of one extension header.
    fn with_options(len: usize) -> Vec<u8> {
        let mut packet = vec![0; len];
        packet[0] = 0x60;
        let payload_len = u16::try_from(len - 40).unwrap();
        packet[4..6].copy_from_slice(&payload_len.to_be_bytes());
        packet[40] = 17;
        packet[41] = u8::try_from((len - 40 - 16) / 8 - 1).unwrap();
        packet
    }

    /// What is cut is charged before: so what cannot be is refused before.
    #[test]
    fn a_packet_that_cannot_be_cut_is_not_said_to_be() {
        let room = 1464;
        for (len, can_be) in [(1400, true), (2000, false)] {
            let packet = with_options(len);
            assert_eq!(may_cut(&packet, true, room), can_be);
            assert!(!may_cut(&packet, false, room));
            assert_eq!(Cut::of(&packet, room).is_some(), can_be);
        }
        let mut fragment = with_options(1400);
        fragment[6] = 44;
        assert!(!may_cut(&fragment, true, room));
    }
}
