//! How packets come from the UPF: plainly, or by a tunnel with its marks.
//!
//! Between frames that come (`mod`) and what a scenario expects of the packets in them (`users`).

use std::net::IpAddr;

use catena_wire::ethernet::MacAddr;
use catena_wire::gtpu::pdu_session::PduSession;

use super::scenario::Leaving;

/// How a packet came from the UPF; plainly by default.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Way {
    /// TEID of its tunnel.
    pub(super) teid: Option<u32>,
    /// The other UPF at the tunnel's end.
    pub(super) upf: Option<IpAddr>,
    /// Its PDU session container.
    pub(super) container: Option<PduSession>,
    /// DSCP of the tunnel's packet.
    pub(super) dscp: u8,
    /// Destination of the IP packet around it.
    pub(super) around: Option<IpAddr>,
    /// Destination of the frame.
    pub(super) next_hop: Option<MacAddr>,
    /// Tags of its frame, from outside.
    pub(super) tags: [Option<u16>; 2],
}

impl Way {
    /// Whether it is as a scenario expects.
    pub(super) fn fits(&self, leaving: &Leaving) -> bool {
        let qfi = self.container.map(|container| container.qfi());
        let (rqi, ppi) = match self.container {
            Some(PduSession::Downlink(frame)) => (Some(frame.rqi), frame.ppi),
            _ => (None, None),
        };
        let has_container = self.container.is_some();
        leaving.teid == self.teid
            && leaving.upf == self.upf
            && (leaving.qfi.is_none() || leaving.qfi == qfi)
            && (leaving.rqi.is_none() || leaving.rqi == rqi)
            && (leaving.ppi.is_none() || leaving.ppi == ppi)
            && leaving.container.is_none_or(|has| has == has_container)
            && leaving.dscp.is_none_or(|dscp| dscp == self.dscp)
            && leaving.around == self.around
            && leaving.next_hop.as_ref().is_none_or(|next_hop| {
                self.next_hop
                    .is_some_and(|own| own.to_string() == *next_hop)
            })
            && leaving
                .tags
                .as_ref()
                .is_none_or(|tags| tags.iter().copied().eq(self.tags.into_iter().flatten()))
    }
}
