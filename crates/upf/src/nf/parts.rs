//! Packets in parts, as the NF notes them on its way through a burst: `fragments` deals with them.

use crate::marking::Marking;

/// A part of a packet: the tunnel by which it came, and what its PDU session container says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) teid: u32,
    pub(super) came: Marking,
}

/// What is to be done with a packet of a burst.
#[derive(Clone, Copy, Debug)]
pub(super) enum ToDo {
    /// It is a part of a packet, which begins at `at`.
    Join { at: u16, origin: Origin },
    /// It leaves by an interface, in parts.
    Cut { interface: u8, at: u16, mtu: u16 },
}
