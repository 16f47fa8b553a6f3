//! Why `nat44` drops a packet: the names of its counters, and the reasons that the engine knows.
//!
//! What each step of a packet's way through the NF gives instead of an answer.

use catena_engine::nf::DropReason;

/// Why a packet is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// It came from inside, and its source is no subscriber's.
    NotInside,
    /// It came from outside, and its destination is no address outside.
    NotOutside,
    /// Nobody has this port, or identifier.
    NoMapping,
    /// The filter does not let this sender reach the mapping.
    Filtered,
    /// A segment of TCP from inside of no connection that is known, and no SYN.
    NoConnection,
    /// There are as many sessions as there may be.
    SessionsFull,
    /// The subscriber has as many sessions as one may have.
    SubscriberSessions,
    /// The subscriber's blocks are all in use.
    SubscriberPorts,
    /// There are as many subscribers as there may be.
    SubscribersFull,
    /// The pool has no block, or none of the subscriber's address.
    NoBlock,
    /// Neither TCP nor UDP nor ICMP.
    Protocol,
    /// A message of ICMP that is neither a query nor an error, or an error of no session.
    IcmpType,
    /// A part of a packet whose first part has not come.
    FragmentUnknown,
    /// There are as many fragmented packets on their way as there may be.
    FragmentsFull,
    /// In a circle: as many packets wait as may.
    QueueFull,
    /// Its headers contradict themselves.
    Malformed,
}

/// Names, in the order above; what is malformed is the engine's.
pub(super) const REASONS: [&str; 15] = [
    "not_inside",
    "not_outside",
    "no_mapping",
    "filtered",
    "no_connection",
    "sessions_full",
    "subscriber_sessions",
    "subscriber_ports",
    "subscribers_full",
    "no_block",
    "protocol",
    "icmp_type",
    "fragment_unknown",
    "fragments_full",
    "queue_full",
];

impl Why {
    pub(super) fn name(self) -> &'static str {
        REASONS.get(self as usize).copied().unwrap_or("malformed")
    }
}

impl From<Why> for DropReason {
    fn from(why: Why) -> Self {
        match why {
            Why::Malformed => Self::Malformed,
            why => Self::own(why as u8),
        }
    }
}
