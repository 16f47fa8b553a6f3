//! The packets that a port is to send in one call.
//!
//! Last step of a packet's life: from the links of the port's node to
//! [`Port::tx`](super::Port::tx).

use std::fmt;

use crate::drop_reason::DropReason;
use crate::load::Load;
use crate::packet::Packet;
use crate::pools::Pools;

/// What a port is to send in one call, as it travelled: packets in bundles have no handles unless
/// the port asks for them.
pub struct TxBurst<'a> {
    pub(super) sending: Sending<'a>,
    /// Packets that the port has kept.
    pub(super) kept: usize,
    /// Why the rest is not sent.
    rest: DropReason,
}

pub(super) enum Sending<'a> {
    Load(&'a mut Load, &'a mut Pools),
    Packets(&'a mut [Packet]),
}

impl<'a> TxBurst<'a> {
    /// All that `load` has.
    pub fn new(load: &'a mut Load, pools: &'a mut Pools) -> Self {
        Self {
            sending: Sending::Load(load, pools),
            kept: 0,
            rest: DropReason::TxFailed,
        }
    }

    /// Packets that have handles already: what a wrapper passes on. The port inside cannot keep
    /// them.
    pub fn of(packets: &'a mut [Packet]) -> Self {
        Self {
            sending: Sending::Packets(packets),
            kept: 0,
            rest: DropReason::TxFailed,
        }
    }

    /// Says why what is not sent is not, if it is not that sending failed.
    pub fn rest_is(&mut self, reason: DropReason) {
        self.rest = reason;
    }

    /// Why what is not sent is not.
    pub fn rest(&self) -> DropReason {
        self.rest
    }

    /// Number of packets, without those that the port has kept.
    pub fn count(&self) -> usize {
        match &self.sending {
            Sending::Load(load, _) => load.count(),
            Sending::Packets(packets) => packets.len(),
        }
    }

    /// Every packet, with a handle that lasts as long as the burst: for ports that look at packets
    /// more than once or in another order. Those in bundles are taken apart for it.
    pub fn packets(&mut self) -> &mut [Packet] {
        match &mut self.sending {
            Sending::Load(load, pools) => {
                load.take_apart(pools);
                &mut load.packets
            }
            Sending::Packets(packets) => packets,
        }
    }

    /// Shows `each` the bytes of every packet, in order.
    #[inline]
    pub fn read(&mut self, mut each: impl FnMut(&[u8])) {
        let packets: &[Packet] = match &mut self.sending {
            Sending::Load(load, pools) => {
                if !load.bundles.is_empty() && !load.packets.is_empty() {
                    load.take_apart(pools);
                }
                for (_, bundle) in &load.bundles {
                    bundle.each(|_, bytes| each(bytes));
                }
                &load.packets
            }
            Sending::Packets(packets) => packets,
        };
        packets.iter().for_each(|packet| each(packet.bytes()));
    }
}

impl fmt::Debug for TxBurst<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TxBurst")
            .field("count", &self.count())
            .finish_non_exhaustive()
    }
}
