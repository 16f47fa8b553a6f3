//! Between UEs of a 5G VN group: a packet that its FAR sends to "5G VN internal" comes again, to the
//! session of its destination, by PDRs whose source is "5G VN internal".
//!
//! Behind a packet's first way through its rules, which charge it as any other; the second session's
//! charge it as what comes to its UE. What is between UPFs (N19) is a session of its own: networks
//! of other UPFs' UEs are framed routes, FARs lead into tunnels between UPFs, and what comes by
//! these goes on to 5G VN internal. Specification: TS 23.501 5.8.2.13; TS 29.244 5.24.
//!
//! Limits: a packet is switched once. It never goes back into the session that it came from, nor by
//! N19 if it came by N19: so nothing circles, also between UPFs. Parts of packets are not put
//! together for the second session's filters. In a UPF of several shards there are no groups.

use std::collections::VecDeque;

use catena_engine::packet::Packet;
use catena_wire::ethernet::{HEADER_LEN, MacAddr};
use catena_wire::pfcp::value::FarId;
use catena_wire::pfcp::value::node::FailedRuleId;
use catena_wire::pfcp::{Cause, IeType};

use crate::decision::{Decision, Found, Hold, Why};
use crate::headers;
use crate::model::{Fault, Key, Session};
use crate::rules::{Far, NONE};
use crate::settings::Settings;
use crate::tunnel::Signal;
use crate::upf::Upf;

/// Source Interface: 5G VN internal.
pub const FROM_GROUP: u8 = 4;
/// Destination Interface: 5G VN internal.
pub const TO_GROUP: u8 = 5;
/// The interface of FARs that lead there, which is none.
pub const SWITCH: u8 = 0xfe;
/// What stands in the frame of a packet between both sessions, while it is held for its UE: no
/// frame comes from such an address, which is a group's.
const MARK: [u8; 4] = [0x01, b'v', b'n', 0];
const MARK_AT: usize = 6;

/// What a packet of a group is: its group by network instance, and whether it came by N19.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) group: u8,
    pub(crate) is_n19: bool,
}

impl Member {
    /// None of a group.
    pub(crate) const NONE: Self = Self {
        group: NONE,
        is_n19: false,
    };

    /// What a frame that was held says; none if it is no packet of a group.
    pub(crate) fn of_held(frame: &[u8]) -> Option<Self> {
        let mark = frame.get(MARK_AT..MARK_AT + 6)?;
        (mark[..4] == MARK).then_some(Self {
            group: mark[4],
            is_n19: mark[5] != 0,
        })
    }

    fn address(self) -> MacAddr {
        let [a, b, c, d] = MARK;
        MacAddr([a, b, c, d, self.group, u8::from(self.is_n19)])
    }

    /// Whether a PDR of this source interface and network instance is for it.
    #[inline]
    pub(crate) const fn fits(self, source_interface: u8, instance: u8) -> bool {
        match source_interface {
            FROM_GROUP => self.group != NONE && self.group == instance,
            _ => self.group == NONE,
        }
    }

    /// Whether it may leave by a FAR: what came from another UPF goes to none.
    #[inline]
    pub(crate) fn may_leave_by(self, far: &Far) -> bool {
        self.group == NONE || far.destination == 0 || !self.is_n19 && far.is_tunnel()
    }
}

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
            qfi: None,
            is_joined: false,
            is_opaque: false,
            is_frame: false,
            member,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(group: u8, is_n19: bool) -> Member {
        Member { group, is_n19 }
    }

    /// Only a rule of the group is for its packets, and no such rule for any others.
    #[test]
    fn a_rule_of_a_group_is_for_its_packets_alone() {
        assert!(member(3, false).fits(FROM_GROUP, 3));
        assert!(!member(3, false).fits(FROM_GROUP, 4));
        assert!(!member(3, false).fits(1, 3));
        assert!(!Member::NONE.fits(FROM_GROUP, NONE));
        assert!(Member::NONE.fits(1, 3) && Member::NONE.fits(0, NONE));
    }

    #[test]
    fn what_came_from_another_upf_goes_to_a_ue_and_to_no_other_upf() {
        let to = |destination, headers| Far {
            destination,
            headers,
            ..Far::empty(1)
        };
        let [ue, n19, n6] = [to(0, 0x100), to(1, 0x100), to(1, 0)];
        for (one, wanted) in [
            (Member::NONE, [true, true, true]),
            (member(3, false), [true, true, false]),
            (member(3, true), [true, false, false]),
        ] {
            assert_eq!([&ue, &n19, &n6].map(|far| one.may_leave_by(far)), wanted);
        }
    }

    #[test]
    fn a_frame_that_is_held_says_whose_it_is_and_no_other_does() {
        let mut frame = [0; 34];
        assert_eq!(Member::of_held(&frame), None);
        assert_eq!(Member::of_held(&frame[..9]), None);
        for one in [member(7, true), member(7, false)] {
            frame[6..12].copy_from_slice(&one.address().0);
            assert_eq!(Member::of_held(&frame), Some(one));
            assert!(one.address().is_multicast(), "no station has it");
        }
    }
}
