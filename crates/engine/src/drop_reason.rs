//! Why a packet was dropped: one closed list for the whole data plane.
//!
//! Every packet that enters a chain leaves it through a port, or through one of these. A reason is
//! a noun an operator understands; its counter has the same name in `status`, `top`, JSON and
//! Prometheus (`nf.<name>.drops.<reason>`). Limit: [`DropReason::COUNT`] reasons, because each
//! node's counter block reserves one word per reason.

/// The reason for which a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum DropReason {
    /// An access-control rule said so.
    AclDeny,
    /// No classifier rule matched and no default output is named.
    NoMatch,
    /// A header is cut short, inconsistent, or of an unknown version.
    Malformed,
    /// IPv4 time to live or IPv6 hop limit reached zero.
    TtlExpired,
    /// The packet is not of a protocol this function handles.
    NotIp,
    /// No VLAN tag where one was to be removed.
    NoVlanTag,
    /// The buffer has no room for the header to be added.
    NoHeadroom,
    /// A policer found the packet above its rate.
    PolicerRed,
    /// The link onwards had no free slot (`drop_tail`).
    LinkFull,
    /// The oldest packets of a congested link, discarded to bound latency (`drop_head`).
    LinkStale,
    /// It was in a TCP connection that broke, or with a worker that was killed behind one.
    LinkLost,
    /// The next network function is down and its policy is `drop`.
    NfDown,
    /// No free buffer in the pool.
    NoBuffer,
    /// The packet is larger than the largest buffer of the pools.
    TooLarge,
    /// The port could not send it (queue full, interface down, disk full).
    TxFailed,
    /// The output is not connected to a link.
    NotConnected,
    /// Lost deliberately by a fault wrapper.
    FaultInjected,
    /// A descriptor from a peer failed its checks; no packet bytes were read.
    BadDescriptor,
    /// Consumed by design: a sink, or an NF that only observes.
    Consumed,
    /// Held by a network function that ended, or was replaced, before it had sent it.
    Unsent,
}

impl DropReason {
    /// Number of reasons; also the number of words reserved per node in the counters page.
    pub const COUNT: usize = 20;

    /// All reasons, in counter order.
    pub const ALL: [Self; Self::COUNT] = [
        Self::AclDeny,
        Self::NoMatch,
        Self::Malformed,
        Self::TtlExpired,
        Self::NotIp,
        Self::NoVlanTag,
        Self::NoHeadroom,
        Self::PolicerRed,
        Self::LinkFull,
        Self::LinkStale,
        Self::LinkLost,
        Self::NfDown,
        Self::NoBuffer,
        Self::TooLarge,
        Self::TxFailed,
        Self::NotConnected,
        Self::FaultInjected,
        Self::BadDescriptor,
        Self::Consumed,
        Self::Unsent,
    ];

    /// The name used in counters, JSON and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AclDeny => "acl_deny",
            Self::NoMatch => "no_match",
            Self::Malformed => "malformed",
            Self::TtlExpired => "ttl_expired",
            Self::NotIp => "not_ip",
            Self::NoVlanTag => "no_vlan_tag",
            Self::NoHeadroom => "no_headroom",
            Self::PolicerRed => "policer_red",
            Self::LinkFull => "link_full",
            Self::LinkStale => "link_stale",
            Self::LinkLost => "link_lost",
            Self::NfDown => "nf_down",
            Self::NoBuffer => "no_buffer",
            Self::TooLarge => "too_large",
            Self::TxFailed => "tx_failed",
            Self::NotConnected => "not_connected",
            Self::FaultInjected => "fault_injected",
            Self::BadDescriptor => "bad_descriptor",
            Self::Consumed => "consumed",
            Self::Unsent => "unsent",
        }
    }

    /// Position in [`DropReason::ALL`] and in the counter block.
    pub const fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_indices_match() {
        for (index, reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(reason.index(), index);
            let same = DropReason::ALL
                .iter()
                .filter(|other| other.name() == reason.name());
            assert_eq!(same.count(), 1, "{}", reason.name());
        }
    }
}
