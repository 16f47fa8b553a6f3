//! Unstructured PDU sessions: packets of no known kind, in UDP between the UPF and one host.
//!
//! Beside the way of IP packets, which branches here where a packet's session is known: `path`
//! finds, `forward` sends. What a UE sends leaves N6 in a datagram from an address of its prefix to
//! the host and port of its FAR; a datagram that this host sends there goes to the UE without its
//! headers. Nothing looks into such packets: rules that would are refused. Specification: TS 23.501
//! 5.6.10.3; TS 29.244 8.2.56 (UDP/IPv4, UDP/IPv6), 8.2.79 (Non-IP).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use catena_wire::dissect::Dissected;
use catena_wire::pfcp::value::FarId;
use catena_wire::pfcp::value::forwarding::RemovedHeader;
use catena_wire::pfcp::value::node::FailedRuleId;
use catena_wire::pfcp::{Cause, IeType};
use catena_wire::udp;

use crate::decision::{Decision, Found, Why};
use crate::forward::join;
use crate::frame;
use crate::group::Member;
use crate::headers::{self, Outer};
use crate::marking::UNMARKED;
use crate::model::{Fault, Session};
use crate::rules::{DELETES_CONTAINER, Far, Head, Pdr};
use crate::sdf::Inner;
use crate::upf::Upf;

/// Where its tunnels begin and end: the UE's address, of its prefix the first one behind that of
/// routers.
fn ue(head: &Head) -> Option<IpAddr> {
    let v6 = head
        .ue_v6
        .map(|prefix| Ipv6Addr::from_bits(prefix.to_bits() | 1));
    v6.map(IpAddr::V6).or(head.ue_v4.map(IpAddr::V4))
}

/// What rules see of such a packet: it is its UE's, whichever way it goes.
fn inner(head: &Head, len: usize) -> Inner {
    let ue = ue(head).unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    Inner::opaque(ue, ue, len)
}

/// Who sent a datagram in a frame, and where its payload lies: what its own length says, of a
/// datagram whose checksum is right. None for all else.
fn datagram(frame: &[u8]) -> Option<(IpAddr, Range<usize>)> {
    let read = Dissected::parse(frame).ok()?;
    let addresses = read.ip?.addresses;
    let start = read.payload;
    let at = start.checked_sub(udp::HEADER_LEN)?;
    let view = udp::View::parse(frame.get(at..read.end)?).ok()?;
    let is_whole = view.checksum_is_valid(&addresses);
    is_whole.then(|| (addresses.src(), start..start + view.payload().len()))
}

impl Upf {
    /// What filters look at of what came out of a tunnel, and whether it is none of IP.
    #[inline]
    pub(crate) fn inner_of(&self, slot: u32, packet: &[u8]) -> Option<(Inner, bool)> {
        match self.store.is_unstructured(slot) {
            false => Some((headers::inner(packet)?, false)),
            true if self.store.is_ethernet(slot) => {
                frame::Header::parse(packet)?;
                Some((frame::inner(packet.len()), true))
            }
            true => Some((inner(&self.store.head(slot), packet.len()), true)),
        }
    }

    /// What came for the UE of an unstructured session: datagrams of its host.
    pub(crate) fn find_datagram(&mut self, bytes: &[u8], slot: u32) -> Result<Found, Decision> {
        match headers::outer(bytes) {
            Outer::Part { l3, .. } => Err(join(l3, 0, UNMARKED)),
            Outer::Udp { .. } => {
                let datagram = datagram(bytes).ok_or(Decision::Drop(Why::Malformed))?;
                let (src, Range { start, end }) = datagram;
                let image = self.store.image(slot);
                let image = image.ok_or(Decision::Drop(Why::NoPdr))?;
                let mut fars = (0..u8::MAX).map_while(|place| image.far(place));
                if !fars.any(|far| far.is_udp() && far.peer() == Some(src)) {
                    return Err(Decision::Drop(Why::NoPdr));
                }
                Ok(Found {
                    at: start,
                    inner: inner(&self.store.head(slot), end - start),
                    slot,
                    teid: 0,
                    came: UNMARKED,
                    is_joined: false,
                    is_opaque: true,
                    is_frame: false,
                    member: Member::NONE,
                    removal: None,
                })
            }
            _ => Err(Decision::Drop(Why::NotForUs)),
        }
    }
}

/// Looks whether rules are for packets of their session's kind.
///
/// # Errors
/// The first one that is not.
pub fn check(session: &Session) -> Result<(), Fault> {
    let refused = |ie_type| Err(Cause::SERVICE_NOT_SUPPORTED.because_of(ie_type).into());
    let (pdrs, fars) = (&session.pdrs, &session.fars);
    if session.head.is_ethernet {
        return Ok(());
    }
    let is_unstructured = session.head.is_unstructured;
    // UDP is around packets of no known kind alone, and IP around those of IP, without a tunnel.
    let can_remove = |pdr: &Pdr| match RemovedHeader(pdr.removal & !DELETES_CONTAINER) {
        RemovedHeader::UDP_IPV4 | RemovedHeader::UDP_IPV6 => is_unstructured,
        RemovedHeader::IPV4 | RemovedHeader::IPV6 => !is_unstructured && pdr.teid == 0,
        RemovedHeader::VLAN_TAG_POP | RemovedHeader::VLAN_TAGS_POP_POP => false,
        _ => true,
    };
    if !pdrs.iter().all(|one| can_remove(&one.pdr)) {
        return refused(IeType::OUTER_HEADER_REMOVAL);
    }
    let can_create = |far: &Far| {
        !far.is_tagging()
            && (is_unstructured || !far.is_udp())
            && (!far.is_ip() || !is_unstructured && far.destination != 0)
    };
    if !fars.iter().all(can_create) {
        return refused(IeType::OUTER_HEADER_CREATION);
    }
    if !is_unstructured {
        return Ok(());
    }
    let has_routes = pdrs.iter().any(|one| !one.routes.is_empty())
        || session.endpoints.iter().any(|one| !one.routes.is_empty());
    for (is_there, ie_type) in [
        (
            pdrs.iter().any(|one| !one.filters.is_empty()),
            IeType::SDF_FILTER,
        ),
        (
            pdrs.iter().any(|one| one.pdr.application != 0),
            IeType::APPLICATION_ID,
        ),
        (has_routes, IeType::FRAMED_ROUTE),
        (!session.copies.is_empty(), IeType::DUPLICATING_PARAMETERS),
        (
            !session.redirections.is_empty(),
            IeType::REDIRECT_INFORMATION,
        ),
    ] {
        if is_there {
            return refused(ie_type);
        }
    }
    // A datagram leaves from its UE's address, and not towards its UE.
    let own = ue(&session.head);
    let can = |far: &Far| {
        let ends = own.zip(far.peer());
        far.destination != 0 && ends.is_some_and(|(own, peer)| own.is_ipv4() == peer.is_ipv4())
    };
    match fars.iter().find(|far| far.is_udp() && !can(far)) {
        Some(far) => {
            let failed = FailedRuleId::Far(FarId(far.id));
            Err(Fault::of_rule(failed, IeType::OUTER_HEADER_CREATION))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
