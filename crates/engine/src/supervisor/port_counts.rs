//! What a port had received and sent when its worker was killed.
//!
//! The counters page may be a turn or two behind; cursors are not. What a port took from the world
//! and others could see is what its links have published, and what it dropped on the way there;
//! what it was given is what was pulled from its links. Of the last burst that it was given it is
//! not known how much has left (a card or a file does not say): those packets count as killed, not
//! as sent, so sent is too small by one burst at most, and given = sent + dropped + killed holds.
//! A burst that it took in and published nothing of counts as never received. Bytes are those of
//! the page. A device that keeps packets says of each later that it is sent: there all that the
//! page does not call sent was in its hands, as many as it kept and those of the last turns.

use catena_shm::ring::packets_in;

use crate::drop_reason::DropReason;
use crate::stats::NodeCounters;
use crate::supervisor::Supervisor;
use crate::supervisor::burial::Remains;

/// Packets of one life of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PortCounts {
    pub(super) received: u64,
    pub(super) sent: u64,
    /// Given to it, and perhaps sent.
    pub(super) in_hand: u64,
}

/// Reasons for which what a port has received is dropped before it is published.
const ON_THE_WAY_IN: [DropReason; 3] = [
    DropReason::LinkFull,
    DropReason::NfDown,
    DropReason::NotConnected,
];

impl Supervisor {
    /// What cursors say of a dead worker's port, which says `page` itself; none where they do not
    /// say all: it has links inside its worker or over TCP, or had others before the chain was
    /// changed, its device kept packets, or its memory was not as it should be.
    pub(super) fn port_counts(
        &self,
        worker: usize,
        node: usize,
        page: &NodeCounters,
        remains: &Remains,
    ) -> Option<PortCounts> {
        let instance = &self.instances[worker];
        if !self.chain.nodes[node].is_port() || (instance.rx_gone, instance.tx_gone) != (0, 0) {
            return None;
        }
        let start_of = |region| {
            let mut starts = self.memory.starts();
            let found = starts.find(|(name, _)| *name == region);
            found.map_or(0, |(_, index)| index)
        };
        let mut counts = PortCounts {
            received: 0,
            sent: 0,
            in_hand: 0,
        };
        for index in 0..self.chain.links.len() {
            // A link that goes counts with the others until it has gone.
            let link = &self.chain.links[index];
            let ends = self.change.leaving_ends(index);
            let (from, to) = ends.unwrap_or((link.from, link.to));
            if from == node {
                let mut ends = remains.outbound.iter();
                let (ring, end) = ends.find(|(ring, _)| ring.link == Some(index))?;
                if end.is_corrupt {
                    return None;
                }
                let published = end.resume.saturating_sub(start_of(ring.producer));
                counts.received += published;
            }
            if to == node {
                let mut ends = remains.inbound.iter();
                let (ring, end) = ends.find(|(ring, _)| ring.link == Some(index))?;
                if end.is_corrupt {
                    return None;
                }
                let given = end.resume.saturating_sub(start_of(ring.consumer));
                let in_hand = packets_in(&end.in_hand).min(given);
                counts.sent += given - in_hand;
                counts.in_hand += in_hand;
            }
        }
        let of = |reason: DropReason| page.drops[reason.index()];
        let on_the_way_in: u64 = ON_THE_WAY_IN.into_iter().map(of).sum();
        // Some of these may be of what it took in: then the page says more.
        let refused = page.dropped().saturating_sub(on_the_way_in);
        counts.received = page.rx_packets.max(counts.received + on_the_way_in);
        let given = counts.sent + counts.in_hand;
        counts.sent = page.tx_packets.max(counts.sent.saturating_sub(refused));
        if page.held > 0 {
            counts.sent = page.tx_packets;
            counts.in_hand = given.saturating_sub(counts.sent + refused);
        }
        Some(counts)
    }
}
