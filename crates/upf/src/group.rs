//! 5G VN groups: what a packet between UEs is to its group, and which rules are for it.
//!
//! Between both sessions of a packet that is switched (`switch`). Nothing but values.

use catena_wire::ethernet::MacAddr;

use crate::rules::{Far, NONE};

/// Source Interface: 5G VN internal.
pub const FROM_GROUP: u8 = 4;
/// Destination Interface: 5G VN internal.
pub const TO_GROUP: u8 = 5;
/// The interface of FARs that lead there, which is none.
pub const SWITCH: u8 = 0xfe;
/// What stands in the frame of a packet between both sessions, while it is held for its UE: no
/// frame comes from such an address, which is a group's.
const MARK: [u8; 4] = [0x01, b'v', b'n', 0];
pub(crate) const MARK_AT: usize = 6;

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

    pub(crate) fn address(self) -> MacAddr {
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

#[cfg(test)]
mod tests {
    use catena_wire::pfcp::value::forwarding::OuterHeaders;

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
        let gtp_u = OuterHeaders::GTP_U_UDP_IPV4.bits();
        let [ue, n19, n6] = [to(0, gtp_u), to(1, gtp_u), to(1, 0)];
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
