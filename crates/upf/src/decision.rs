//! What becomes of a packet, and why it did not leave.
//!
//! Between the steps of a packet's way through the UPF: `path` finds, `enforce` and `forward`
//! decide, `nf` does it.

use catena_wire::pfcp::value::forwarding::RemovedHeader;

use crate::group::Member;
use crate::marking::{Marking, UNMARKED};
use crate::sdf::Inner;

/// Why a packet did not leave; the names of the NF's drop reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Headers contradict themselves.
    Malformed,
    /// Not IP, or no packet for a UPF.
    NotForUs,
    /// No session has this tunnel.
    UnknownTeid,
    /// No session has this UE address.
    UnknownUe,
    /// No PDR fits.
    NoPdr,
    /// From another address than its UE's.
    Spoofed,
    /// An Ethernet session has too many addresses.
    TooManyStations,
    /// The FAR says so.
    FarDrop,
    /// The FAR redirects, and it is no request that can be answered.
    NotRedirected,
    /// A gate is closed.
    Gate,
    /// A rate is used up.
    Rate,
    /// The ceiling of its slice or network instance is reached.
    Ceiling,
    /// A quota is used up.
    Quota,
    /// Longer than the interface's MTU, and not to be fragmented.
    TooBig,
    /// A fragment whose packet does not become whole.
    Fragment,
    /// A fragment whose packet is whole now, and goes on.
    Reassembled,
    /// It goes on in fragments.
    Fragmented,
    /// An extension header of GTP-U that must be understood and is not.
    Extension,
    /// No room in front of it for its headers.
    NoHeadroom,
    /// Held packets: as many as may be.
    BufferFull,
    /// Held packets: too long.
    Expired,
    /// Held packets: dropped by the SMF, or with their session.
    Discarded,
}

/// Names of [`Why`], in its order.
pub const REASONS: [&str; 22] = [
    "malformed_packet",
    "not_for_us",
    "unknown_teid",
    "unknown_ue",
    "no_pdr",
    "spoofed",
    "too_many_stations",
    "far_drop",
    "not_redirected",
    "gate_closed",
    "rate_exceeded",
    "ceiling_exceeded",
    "quota_exhausted",
    "too_big",
    "fragment",
    "reassembled",
    "fragmented",
    "unknown_extension",
    "no_room_for_headers",
    "buffer_full",
    "buffer_expired",
    "buffer_discarded",
];

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It leaves by this interface.
    Send(u8),
    /// It was for the UPF itself.
    Consumed,
    /// It is held.
    Hold(Hold),
    /// It is a part of an IP packet, which has to be whole first.
    Join {
        /// Where the IP packet begins in its frame.
        at: u16,
        /// The tunnel by which it came, if it is a user's; else 0.
        teid: u32,
        /// What its PDU session container says.
        came: Marking,
    },
    /// It leaves in parts.
    Cut {
        /// By this interface.
        interface: u8,
        /// Where the IP packet that is cut begins in its frame.
        at: u16,
        /// Most bytes of each part behind Ethernet.
        mtu: u16,
    },
    /// It is dropped.
    Drop(Why),
}

/// A packet that waits for its UE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Slot of its session.
    pub slot: u32,
    /// Whether a Downlink Data Report is wanted.
    pub notifies: bool,
    /// PDR ID.
    pub pdr_id: u16,
    /// QFI of the PDR's packets.
    pub qfi: Option<u8>,
    /// Most packets that the BAR suggests.
    pub suggested: Option<u8>,
    /// Downlink Data Notification Delay of the BAR, in units of 50 ms.
    pub delay: u8,
}

impl Hold {
    /// Of a packet behind others of its session: nobody is told.
    pub(crate) const fn behind(slot: u32) -> Self {
        Self {
            slot,
            notifies: false,
            pdr_id: 0,
            qfi: None,
            suggested: None,
            delay: 0,
        }
    }
}

/// A packet on its way: where the user's packet begins in its frame, and by what it was found.
pub(crate) struct Found {
    pub(crate) at: usize,
    pub(crate) inner: Inner,
    pub(crate) slot: u32,
    pub(crate) teid: u32,
    /// What the PDU session container says with which it came.
    pub(crate) came: Marking,
    /// Whether it came in parts.
    pub(crate) is_joined: bool,
    /// Whether it is none of IP: nothing looks into it.
    pub(crate) is_opaque: bool,
    /// Whether it is a frame of Ethernet.
    pub(crate) is_frame: bool,
    /// Of which group it is, if it comes from one.
    pub(crate) member: Member,
    /// The Outer Header Removal without which no PDR fits: that of the IP packet around it.
    pub(crate) removal: Option<RemovedHeader>,
}

impl Found {
    /// A frame of the data network, for the session in a slot.
    pub(crate) const fn of_frame(slot: u32, len: usize) -> Self {
        Self {
            at: 0,
            inner: crate::frame::inner(len),
            slot,
            teid: 0,
            came: UNMARKED,
            is_joined: false,
            is_opaque: true,
            is_frame: true,
            member: Member::NONE,
            removal: None,
        }
    }

    /// The user's packet in its frame.
    #[inline]
    pub(crate) fn user<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        let end = self.at.saturating_add(self.inner.len);
        frame.get(self.at..end).unwrap_or_default()
    }
}
