//! Why a packet was dropped: a number, the engine's reasons first and then those of the node's own.
//!
//! Every packet that enters a chain leaves it through a port, or through one of these. A reason is
//! a noun an operator understands; its counter has the same name in `status`, `top`, JSON and
//! Prometheus (`nf.<name>.drops.<reason>`). Limit: [`DropReason::COUNT`] reasons, because each
//! node's counter block reserves one word per reason; of these a node has [`OWN_REASON_COUNT_MAX`]
//! itself, which its plan names.

use std::fmt;

/// Most drop reasons of its own that a node has.
pub const OWN_REASON_COUNT_MAX: usize = 32;

/// The reason for which a packet was dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct DropReason(u8);

/// How many reasons are the engine's.
const ENGINE: u8 = 14;

/// Names of the engine's reasons, by number.
const NAMES: [&str; ENGINE as usize] = [
    "malformed",
    "no_headroom",
    "link_full",
    "link_stale",
    "link_lost",
    "nf_down",
    "no_buffer",
    "too_large",
    "tx_failed",
    "not_connected",
    "fault_injected",
    "bad_descriptor",
    "consumed",
    "unsent",
];

#[expect(
    non_upper_case_globals,
    reason = "names of a list that only the engine extends, as variants are"
)]
impl DropReason {
    /// A header is cut short, inconsistent, or of an unknown version.
    pub const Malformed: Self = Self(0);
    /// The buffer has no room for the header to be added.
    pub const NoHeadroom: Self = Self(1);
    /// The link onwards had no free slot (`drop_tail`).
    pub const LinkFull: Self = Self(2);
    /// The oldest packets of a congested link, discarded to bound latency (`drop_head`).
    pub const LinkStale: Self = Self(3);
    /// It was in a TCP connection that broke, or with a worker that was killed behind one.
    pub const LinkLost: Self = Self(4);
    /// The next network function is down and its policy is `drop`.
    pub const NfDown: Self = Self(5);
    /// No free buffer in the pool.
    pub const NoBuffer: Self = Self(6);
    /// The packet is larger than the largest buffer of the pools.
    pub const TooLarge: Self = Self(7);
    /// The port could not send it (queue full, interface down, disk full).
    pub const TxFailed: Self = Self(8);
    /// The output is not connected to a link.
    pub const NotConnected: Self = Self(9);
    /// Lost deliberately by a fault wrapper.
    pub const FaultInjected: Self = Self(10);
    /// A descriptor from a peer failed its checks; no packet bytes were read.
    pub const BadDescriptor: Self = Self(11);
    /// Consumed by design: a sink, or an NF that only observes.
    pub const Consumed: Self = Self(12);
    /// Held by a network function that ended, or was replaced, before it had sent it.
    pub const Unsent: Self = Self(13);
}

impl DropReason {
    /// How many reasons are the engine's.
    pub const ENGINE_COUNT: usize = NAMES.len();
    /// How many there can be at one node.
    pub const COUNT: usize = Self::ENGINE_COUNT + OWN_REASON_COUNT_MAX;
    /// The engine's, in the order of the counter block.
    pub const ALL: [Self; Self::ENGINE_COUNT] = {
        let mut all = [Self(0); Self::ENGINE_COUNT];
        let mut number = 0;
        while number < ENGINE {
            all[number as usize] = Self(number);
            number += 1;
        }
        all
    };

    /// The `n`-th reason that the node's plan names, from 0.
    ///
    /// # Panics
    /// If `n` is not below [`OWN_REASON_COUNT_MAX`]; in a constant, when that is compiled.
    pub const fn own(n: u8) -> Self {
        assert!((n as usize) < OWN_REASON_COUNT_MAX, "a node has at most 32");
        Self(ENGINE + n)
    }

    /// The name used in counters, JSON and metrics, at a node whose own reasons have the names
    /// `own`; nothing if it has no such reason.
    pub fn name_among(self, own: &[String]) -> Option<&str> {
        match NAMES.get(self.index()) {
            Some(name) => Some(name),
            None => own
                .get(self.index() - Self::ENGINE_COUNT)
                .map(String::as_str),
        }
    }

    /// The name of one of the engine's, and `own` for all others.
    pub const fn name(self) -> &'static str {
        if self.index() < Self::ENGINE_COUNT {
            NAMES[self.index()]
        } else {
            "own"
        }
    }

    /// Position in the counter block, below [`DropReason::COUNT`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index().checked_sub(Self::ENGINE_COUNT) {
            None => f.write_str(self.name()),
            Some(n) => write!(f, "own({n})"),
        }
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
        assert_eq!(DropReason::Consumed.name(), "consumed");
    }

    #[test]
    fn a_nodes_own_reasons_follow_and_fit() {
        let own = ["a", "b"].map(str::to_owned);
        assert_eq!(DropReason::own(1).name_among(&own), Some("b"));
        assert_eq!(DropReason::own(2).name_among(&own), None);
        assert_eq!(DropReason::NoBuffer.name_among(&own), Some("no_buffer"));
        let last = DropReason::own(31);
        assert_eq!(last.index(), DropReason::COUNT - 1);
    }
}
