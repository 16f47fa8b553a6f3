//! Between UEs of a 5G VN group: a packet that its FAR sends to "5G VN internal" comes again, to
//! the session of its destination, by PDRs whose source is "5G VN internal".
//!
//! Behind a packet's first way through its rules, which charge it as any other; the second
//! session's charge it as what comes to its UE. What is between UPFs (N19) is a session of its own:
//! networks of other UPFs' UEs are framed routes, FARs lead into tunnels between UPFs, and what
//! comes by these goes on to 5G VN internal. Specification: TS 23.501 5.8.2.13; TS 29.244 5.24.
//!
//! Limits: a packet is switched once. It never goes back into the session that it came from, nor by
//! N19 if it came by N19: so nothing circles, also between UPFs. Parts of packets are not put
//! together for the second session's filters. In a UPF of several shards there are no groups.

use std::collections::VecDeque;

use catena_engine::packet::Packet;
use catena_wire::ethernet::HEADER_LEN;
use catena_wire::pfcp::value::FarId;
use catena_wire::pfcp::value::node::FailedRuleId;
use catena_wire::pfcp::{Cause, IeType};

use crate::decision::{Decision, Found, Hold, Why};
use crate::group::{MARK_AT, Member, SWITCH};
use crate::headers;
use crate::marking::UNMARKED;
use crate::model::{Fault, Key, Session};
use crate::rules::Far;
use crate::settings::Settings;
use crate::tunnel::Signal;
use crate::upf::Upf;

/// Reads where a FAR to 5G VN internal leads.
///
/// # Errors
/// Why the request is refused.
pub(crate) fn read(far: &mut Far, settings: &Settings) -> Result<(), Fault> {
    let failed = FailedRuleId::Far(FarId(far.id));
    if settings.shard.1 > 1 || settings.groups.is_empty() {
        let ie_type = IeType::DESTINATION_INTERFACE;
        return Err(Cause::SERVICE_NOT_SUPPORTED.because_of(ie_type).into());
    }
    if !settings.groups.contains(&far.instance) {
        return Err(Fault::of_rule(failed, IeType::NETWORK_INSTANCE));
    }
    if far.headers != 0 {
        return Err(Fault::of_rule(failed, IeType::OUTER_HEADER_CREATION));
    }
    far.interface = SWITCH;
    Ok(())
}

/// Looks whether a session whose packets are none of IP wants to have them switched.
///
/// # Errors
/// It does.
pub(crate) fn check(session: &Session) -> Result<(), Fault> {
    let is_ip = !session.head.is_ethernet && !session.head.is_unstructured;
    match session.fars.iter().find(|far| far.interface == SWITCH) {
        Some(_) if !is_ip => Err(Cause::SERVICE_NOT_SUPPORTED
            .because_of(IeType::DESTINATION_INTERFACE)
            .into()),
        _ => Ok(()),
    }
}

impl Upf {
    /// What becomes of a packet behind its first session, which sent it to its group.
    pub(crate) fn switch(
        &mut self,
        packet: &mut Packet,
        (from, member): (u32, Member),
        signals: &mut VecDeque<Signal>,
        now_ns: u64,
    ) -> Decision {
        packet.bytes_mut()[MARK_AT..HEADER_LEN - 2].copy_from_slice(&member.address().0);
        let found = match self.find_member(packet.bytes(), member) {
            Ok(found) if found.slot == from => return Decision::Drop(Why::FarDrop),
            Ok(found) => found,
            Err(why) => return Decision::Drop(why),
        };
        // Behind packets that are held already, so that they keep their order.
        if self.holding.contains(&found.slot) {
            return Decision::Hold(Hold::behind(found.slot));
        }
        self.switched(packet, &found, signals, now_ns)
    }

    /// What the second session's rules say of a packet.
    pub(crate) fn switched(
        &mut self,
        packet: &mut Packet,
        found: &Found,
        signals: &mut VecDeque<Signal>,
        now_ns: u64,
    ) -> Decision {
        match self.ask_rules(packet, found, signals, now_ns) {
            Decision::Send(SWITCH) => Decision::Drop(Why::FarDrop),
            Decision::Join { .. } => Decision::Drop(Why::Fragment),
            decision => decision,
        }
    }

    /// What a frame that is held says of its packet; none where there are no groups.
    pub(crate) fn member_of(&self, frame: &[u8]) -> Option<Member> {
        let has_groups = !self.settings.groups.is_empty();
        has_groups.then(|| Member::of_held(frame)).flatten()
    }

    /// The session of a group's packet, whose frame has no more than the user's packet.
    pub(crate) fn find_member(&self, frame: &[u8], member: Member) -> Result<Found, Why> {
        let inner = frame.get(HEADER_LEN..).and_then(headers::inner);
        let inner = inner.ok_or(Why::Malformed)?;
        let slot = self.index.find(Key::of_ue(inner.dst));
        let slot = slot.or_else(|| self.index.find_route(inner.dst));
        let is_ip =
            |slot: &u32| !self.store.is_unstructured(*slot) && !self.store.is_ethernet(*slot);
        let slot = slot.filter(is_ip);
        Ok(Found {
            at: HEADER_LEN,
            inner,
            slot: slot.ok_or(Why::UnknownUe)?,
            teid: 0,
            came: UNMARKED,
            is_joined: false,
            is_opaque: false,
            is_frame: false,
            member,
            removal: None,
        })
    }
}
