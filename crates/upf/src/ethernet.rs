//! Ethernet PDU sessions: frames of UEs, which leave N6 as they are, and go to whose address it is.
//!
//! Beside the way of IP packets: `path` asks here whose a frame of the data network is, and has
//! the source of a UE's frame noted behind its rules. A UE's addresses are learned from what it
//! sends, or said by its SMF in a filter; an address is one session's until it was idle for
//! [`IDLE_NS`](stations::IDLE_NS), and no other one sends from it. Broadcasts are copied to every
//! session, so many per second as [`stations`] has for a limit. Specification: TS 23.501 5.6.10.2;
//! TS 29.244 5.13.

use std::collections::VecDeque;

use catena_wire::pfcp::value::forwarding::RemovedHeader;
use catena_wire::pfcp::{Cause, IeType};

use crate::application::Look;
use crate::application::flows::Marks;
use crate::copies;
use crate::decision::{Decision, Found, Why};
use crate::enforce::{Triggers, charge, ruled};
use crate::frame::{self, GROUP, Header};
use crate::model::{Fault, Key, Session};
use crate::rules::{Copied, DELETES_CONTAINER, Far, Pdr};
use crate::tally::drop_kind;
use crate::tunnel::Signal;
use crate::upf::Upf;

pub mod filter;
pub mod stations;

impl Upf {
    /// Whose a frame of the data network is, if it is for a UE of an Ethernet session; a group's is
    /// copied to all of them.
    pub(crate) fn find_frame(
        &mut self,
        frame: &[u8],
        signals: &mut VecDeque<Signal>,
        now_ns: u64,
    ) -> Option<Result<Found, Decision>> {
        let header = Header::parse(frame)?;
        if header.dst & GROUP != 0 {
            return Some(Err(self.broadcast(frame, signals, now_ns)));
        }
        let said = self.index.find(Key::Mac(header.dst));
        let slot = said.or_else(|| self.stations.find(header.dst))?;
        Some(Ok(Found::of_frame(slot, frame.len())))
    }

    fn broadcast(&mut self, frame: &[u8], signals: &mut VecDeque<Signal>, now_ns: u64) -> Decision {
        if !self.stations.may_broadcast(now_ns) {
            return Decision::Drop(Why::Rate);
        }
        for at in 0..self.stations.session_count() {
            let slot = self.stations.slot(at);
            let has_room = copies::has_room(signals);
            let is_sent = self.copy_to(slot, frame, signals, now_ns);
            self.counters.copied += u64::from(is_sent);
            self.counters.uncopied += u64::from(!has_room);
        }
        Decision::Consumed
    }

    /// Has a copy of a frame go to a session, as its rules say; whether it did. It is not held.
    fn copy_to(
        &mut self,
        slot: u32,
        frame: &[u8],
        signals: &mut VecDeque<Signal>,
        now_ns: u64,
    ) -> bool {
        let Some(mut image) = self.store.image(slot) else {
            return false;
        };
        let found = Found::of_frame(slot, frame.len());
        let mut triggers = Triggers::default();
        let mut look = Look {
            session: image.seid(),
            applications: &mut self.applications,
            packet: frame,
            now_ns,
            marks: Marks::default(),
            named: Marks::default(),
        };
        let ruled = match ruled(&mut image, &found, &mut look, &mut triggers) {
            Ok(ruled) if !ruled.far.is_tunnel() => Err(Why::FarDrop),
            Ok(_) if !copies::has_room(signals) => Err(Why::BufferFull),
            Ok(ruled) => Ok(ruled),
            Err(Decision::Drop(why)) => Err(why),
            // A copy is not held.
            Err(_) => Err(Why::FarDrop),
        };
        let sent = ruled.and_then(|ruled| {
            let ident = self.ident;
            self.ident = ident.wrapping_add(1);
            let copied = Copied::of_far(&ruled.far);
            let (seid, qfi) = (image.seid(), ruled.marking.0);
            let untagged = frame::without_tags(frame, ruled.removal);
            let bytes = copies::frame(&copied, &untagged, qfi, &self.settings, ident);
            let bytes = bytes.ok_or(Why::NoHeadroom)?;
            charge(&mut image, &ruled, frame.len(), now_ns, &mut triggers)?;
            let is_sent = copies::put((&copied, seid), bytes, &self.settings, ident, signals);
            is_sent.then_some(()).ok_or(Why::BufferFull)
        });
        match sent {
            Ok(()) => triggers.wakes |= image.count_passed(false, frame.len(), now_ns),
            Err(why) => image.count_dropped(drop_kind(why)),
        }
        self.counters.untold_events += triggers.untold_events;
        if !triggers.told.is_empty() {
            self.report_usage(slot, &triggers.told, now_ns);
        }
        if triggers.wakes {
            self.arm(slot, now_ns);
        }
        sent.is_ok()
    }
}

/// Whether frames can get this header: a tunnel, and towards the data network tags.
fn can_create(far: &Far) -> bool {
    !far.is_udp() && !far.is_ip() && (!far.is_tagging() || far.destination != 0)
}

/// Whether frames can lose this header: a tunnel's, and if they come without one their tags.
fn can_remove(pdr: &Pdr) -> bool {
    match RemovedHeader(pdr.removal & !DELETES_CONTAINER) {
        RemovedHeader::UDP_IPV4
        | RemovedHeader::UDP_IPV6
        | RemovedHeader::IPV4
        | RemovedHeader::IPV6 => false,
        RemovedHeader::VLAN_TAG_POP | RemovedHeader::VLAN_TAGS_POP_POP => pdr.teid == 0,
        _ => true,
    }
}

/// Looks whether rules are for packets of their session's kind.
///
/// # Errors
/// The first one that is not.
pub fn check(session: &Session, shards: u16) -> Result<(), Fault> {
    let refused = |ie_type| Err(Cause::SERVICE_NOT_SUPPORTED.because_of(ie_type).into());
    let pdrs = &session.pdrs;
    if !session.head.is_ethernet {
        return Ok(());
    }
    // A frame of the data network says nothing of its shard.
    if shards > 1 {
        return refused(IeType::PDN_TYPE);
    }
    let head = &session.head;
    let has_routes = pdrs.iter().any(|one| !one.routes.is_empty())
        || session.endpoints.iter().any(|one| !one.routes.is_empty());
    let is_there = [
        (
            pdrs.iter().any(|one| !one.filters.is_empty()),
            IeType::SDF_FILTER,
        ),
        (
            pdrs.iter().any(|one| one.pdr.application != 0),
            IeType::APPLICATION_ID,
        ),
        (
            head.ue_v4.is_some() || head.ue_v6.is_some(),
            IeType::UE_IP_ADDRESS,
        ),
        (has_routes, IeType::FRAMED_ROUTE),
        (!session.copies.is_empty(), IeType::DUPLICATING_PARAMETERS),
        (
            !session.redirections.is_empty(),
            IeType::REDIRECT_INFORMATION,
        ),
        (
            !session.fars.iter().all(can_create),
            IeType::OUTER_HEADER_CREATION,
        ),
        (
            !pdrs.iter().all(|one| can_remove(&one.pdr)),
            IeType::OUTER_HEADER_REMOVAL,
        ),
    ];
    match is_there.into_iter().find(|(is_there, _)| *is_there) {
        Some((_, ie_type)) => refused(ie_type),
        None => Ok(()),
    }
}
