//! Introductions over TCP: who listens where, and who is told.
//!
//! A TCP link has no memory that the supervisor could pass on. Its receiver says where it listens,
//! its sender is told, and both have the link's words from their assignments. When a worker dies,
//! its successor continues to count packets where its counters ended, so that what was lost between
//! them is counted by the receiver, as soon as the sender has connected anew. A worker that is
//! killed may have counted less than it did, by one turn at most: then a packet that arrived may be
//! counted as lost too.

use std::net::SocketAddrV4;

use crate::protocol::{LinkSecret, RegionName, RingSpec, ToWorker};
use crate::stats::{RxCounters, TxCounters};
use crate::supervisor::tcp_links::tcp_links;
use crate::supervisor::{Supervisor, status};

impl Supervisor {
    /// What a worker has to know of its TCP links.
    pub(super) fn secrets_of(&self, worker: usize) -> Vec<LinkSecret> {
        let mine = |secret: &&LinkSecret| {
            tcp_links(&self.placement)
                .any(|ring| ring.link == secret.link && (ring.from == worker || ring.to == worker))
        };
        self.sockets.secrets.iter().filter(mine).cloned().collect()
    }

    /// A worker listens for the sender of a link.
    pub(super) fn listens(&mut self, worker: usize, link: usize, address: SocketAddrV4) {
        let reaches = |ring: &&RingSpec| ring.link == link && ring.to == worker;
        let sender = tcp_links(&self.placement)
            .find(reaches)
            .map(|ring| ring.from);
        let Some(from) = sender else {
            return self.detach(worker, "it listens for a link that does not reach it");
        };
        if self.sockets.addresses.insert(link, address).is_some() {
            return self.detach(worker, "it says twice where it listens");
        }
        if self
            .instances
            .get(from)
            .is_some_and(|sender| sender.is_introduced)
        {
            self.tell(from, &ToWorker::Connect { link, address });
        }
    }

    /// A TCP link for which a worker should listen and has not said where.
    pub(super) fn not_listening(&self, worker: usize) -> Option<usize> {
        let mut links = tcp_links(&self.placement);
        let missing = links
            .find(|ring| ring.to == worker && !self.sockets.addresses.contains_key(&ring.link));
        missing.map(|ring| ring.link)
    }

    /// Tells a worker that was just told to run where to connect.
    pub(super) fn tell_addresses(&self, worker: usize) {
        for ring in tcp_links(&self.placement).filter(|ring| ring.from == worker) {
            if let Some(address) = self.sockets.addresses.get(&ring.link) {
                let (link, address) = (ring.link, *address);
                self.instances[worker].send(&ToWorker::Connect { link, address });
            }
        }
    }

    /// Nobody listens there any more.
    pub(super) fn forget_addresses(&mut self, worker: usize) {
        for ring in tcp_links(&self.placement).filter(|ring| ring.to == worker) {
            self.sockets.addresses.remove(&ring.link);
        }
    }

    /// The counters of a dead worker are summed: its successor counts on from there.
    pub(super) fn settle_sockets(&mut self, worker: usize) {
        for ring in tcp_links(&self.placement) {
            if ring.from == worker {
                let sent = self.past.tx.get(&ring.link).map_or(0, |tx| tx.packets);
                let name = RegionName::LinkProducer(ring.link);
                self.memory.set_start(name, sent);
            }
            if ring.to == worker {
                let taken = self.past.rx.get(&ring.link).map_or(0, |rx| rx.packets);
                let name = RegionName::LinkConsumer(ring.link);
                self.memory.set_start(name, taken);
            }
        }
    }

    /// What both sides of a link have counted in all their lives.
    pub(super) fn counted(&self, ring: &RingSpec) -> (TxCounters, RxCounters) {
        self.counted_between(ring.link, (ring.from, ring.to))
    }

    /// The same, of a link between these workers.
    pub(super) fn counted_between(
        &self,
        link: usize,
        (from, to): (usize, usize),
    ) -> (TxCounters, RxCounters) {
        let mut tx = self.past.tx.get(&link).copied().unwrap_or_default();
        let mut rx = self.past.rx.get(&link).copied().unwrap_or_default();
        let (sender, receiver) = (&self.instances[from], &self.instances[to]);
        // The receiver's page first: what moves meanwhile makes a link seem fuller, not emptier.
        if let Some(page) = &receiver.counters {
            rx.add(&status::rx_counters(page, receiver.layout, link));
        }
        if let Some(page) = &sender.counters {
            tx.add(&status::tx_counters(page, sender.layout, link));
        }
        (tx, rx)
    }

    /// Whether nothing is on the way on a TCP link. Its receiver counts a packet after it has
    /// passed it on.
    pub(super) fn is_tcp_link_empty(&self, ring: &RingSpec) -> bool {
        let (tx, rx) = self.counted(ring);
        tx.packets <= rx.packets
    }
}
