//! The receiving side of a link over TCP: a port from which the node beside it receives.
//!
//! When a connection ends, the one that follows it, if the sender has connected anew by then, is
//! read from; the index with which it begins tells what was lost between the two.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use super::conduit::Conduit;
use super::inflow::{Inflow, Pause};
use super::news::News;
use crate::drop_reason::DropReason;
use crate::link::counters::{OCCUPANCY_CLASSES, RxCounters};
use crate::nf::nanos::Nanos;
use crate::own_counters::CounterSink;
use crate::packet::Packet;
use crate::pools::Pools;
use crate::port::{Port, RxBurst, RxState};
use crate::stats::NodeCounters;

/// More packets than this nobody has lost at once: an index beyond is made up.
const LOST_MAX: u64 = 1 << 32;

/// The receiving side.
#[derive(Debug)]
pub struct TcpRx<S = Arc<OwnedFd>> {
    news: Receiver<News<S>>,
    stream: Option<S>,
    successor: Option<S>,
    inflow: Inflow,
    /// Index of the next packet, of all that this link has ever sent.
    expected: u64,
    /// Packets lost since the last burst.
    lost: u64,
    /// What the node's own counters do not have.
    counters: RxCounters,
}

impl<S: Conduit> TcpRx<S> {
    /// The receiving side of a link whose next packet should have index `start`; none is longer
    /// than `len_max`. Not connected until `news` says so.
    pub fn new(start: u64, len_max: usize, news: Receiver<News<S>>) -> Self {
        Self {
            news,
            stream: None,
            successor: None,
            inflow: Inflow::new(len_max),
            expected: start,
            lost: 0,
            counters: RxCounters::default(),
        }
    }

    /// The sender has connected anew. What the old connection still holds is taken first.
    fn reconnect(&mut self, stream: S) {
        match self.stream {
            Some(_) => self.successor = Some(stream),
            None => self.stream = Some(stream),
        }
    }

    /// Whether there is a connection.
    pub fn is_connected(&self) -> bool {
        self.stream.is_some()
    }

    /// Takes packets until there are `limit` in `packets`.
    fn fill(&mut self, limit: usize, pools: &mut Pools, packets: &mut Vec<Packet>) {
        let already = packets.len();
        let mut noted = already;
        while let Some(stream) = &self.stream {
            let pause = self.inflow.fill(stream, limit, pools, packets);
            self.expected += (packets.len() - noted) as u64;
            noted = packets.len();
            match pause {
                Pause::Begins(first) => self.begin(first, pools),
                Pause::Full => break,
                // Its sender has connected anew: nothing more comes by this one.
                Pause::Empty if self.successor.is_some() => self.end(pools),
                Pause::Empty => break,
                Pause::Ended => self.end(pools),
                Pause::Bad => {
                    self.counters.violations += 1;
                    self.end(pools);
                }
            }
        }
        let count = packets.len() - already;
        if count > 0 {
            let class = (usize::BITS - count.leading_zeros()) as usize;
            self.counters.occupancy[class.min(OCCUPANCY_CLASSES - 1)] += 1;
        }
    }

    /// A connection begins with packet `first`: what lies between is lost. A sender that was killed
    /// in the middle of a turn may have sent more than it had counted.
    fn begin(&mut self, first: u64, pools: &mut Pools) {
        let lost = first.saturating_sub(self.expected);
        if lost > LOST_MAX {
            self.counters.violations += 1;
            return self.end(pools);
        }
        self.expected = first;
        self.lost += lost;
        self.counters.discarded += lost;
    }

    fn end(&mut self, pools: &mut Pools) {
        self.inflow.reset(pools);
        self.stream = self.successor.take();
    }
}

impl<S: Conduit + Send> Port for TcpRx<S> {
    fn rx(&mut self, burst: &mut RxBurst<'_>, _now: Nanos) -> RxState {
        while let Ok(news) = self.news.try_recv() {
            // What else there is concerns senders.
            if let News::Connected(stream) = news {
                self.reconnect(stream);
            }
        }
        let (pools, packets, limit) = burst.parts();
        self.fill(limit, pools, packets);
        burst.drop_packets(DropReason::LinkLost, std::mem::take(&mut self.lost));
        // The worker sleeps on the socket itself.
        RxState::Idle
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        let RxCounters {
            violations,
            discarded,
            occupancy,
            ..
        } = self.counters;
        let values = [violations, discarded].into_iter().chain(occupancy);
        out.extend(RX_NAMES.into_iter().zip(values));
    }
}

/// Names of what a receiving port counts itself.
pub const RX_NAMES: [&str; 2 + OCCUPANCY_CLASSES] = [
    "violations",
    "discarded",
    "pulls_0",
    "pulls_1",
    "pulls_2",
    "pulls_3",
    "pulls_4",
    "pulls_5",
    "pulls_6",
    "pulls_7",
    "pulls_8",
    "pulls_9",
    "pulls_10",
    "pulls_11",
];

/// What the link has counted on the receiving side, from what its port has. Lost packets were
/// taken, too.
pub fn rx_counters(port: &NodeCounters) -> RxCounters {
    let [violations, discarded] = [port.own[0], port.own[1]];
    let mut occupancy = [0; OCCUPANCY_CLASSES];
    occupancy.copy_from_slice(&port.own[2..RX_NAMES.len()]);
    RxCounters {
        packets: port.rx_packets + discarded,
        bytes: port.rx_bytes,
        violations,
        discarded,
        occupancy,
    }
}
