//! The receiving side of a link over TCP.
//!
//! When a connection ends, the one that follows it, if the sender has connected anew by then, is
//! read from; the index with which it begins tells what was lost between the two.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::conduit::Conduit;
use super::inflow::{Inflow, Pause};
use crate::drop_reason::DropReason;
use crate::link::counters::{OCCUPANCY_CLASSES, RxCounters};
use crate::packet::{Packet, bytes_of};
use crate::pools::Pools;
use crate::protocol::RingSpec;

/// More packets than this nobody has lost at once: an index beyond is made up.
const LOST_MAX: u64 = 1 << 32;

/// The receiving side.
#[derive(Debug)]
pub struct TcpRx<S = Arc<OwnedFd>> {
    /// Index of the link in the chain.
    pub index: usize,
    stream: Option<S>,
    successor: Option<S>,
    inflow: Inflow,
    /// Index of the next packet, of all that this link has ever sent.
    expected: u64,
    /// Packets lost since the node last asked.
    lost: u64,
    /// Counters since this worker started.
    pub counters: RxCounters,
}

impl<S: Conduit> TcpRx<S> {
    /// The receiving side of the link that `spec` describes, whose next packet should have index
    /// `start`; none is longer than `len_max`. Not connected yet.
    pub fn new(spec: &RingSpec, start: u64, len_max: usize) -> Self {
        Self {
            index: spec.link,
            stream: None,
            successor: None,
            inflow: Inflow::new(len_max),
            expected: start,
            lost: 0,
            counters: RxCounters::default(),
        }
    }

    /// The sender has connected anew. What the old connection still holds is taken first.
    pub fn reconnect(&mut self, stream: S) {
        match self.stream {
            Some(_) => self.successor = Some(stream),
            None => self.stream = Some(stream),
        }
    }

    /// Takes up to `max` packets into `packets`.
    pub fn pull(&mut self, max: usize, pools: &mut Pools, packets: &mut Vec<Packet>) -> usize {
        let already = packets.len();
        let limit = already + max;
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
            self.counters.bytes += bytes_of(&packets[already..]);
            self.counters.packets += count as u64;
        }
        count
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
        self.counters.packets += lost;
        self.counters.discarded += lost;
    }

    fn end(&mut self, pools: &mut Pools) {
        self.inflow.reset(pools);
        self.stream = self.successor.take();
    }

    /// Packets that were lost since the last call: they count for the node they were on the way to.
    pub fn take_dropped(&mut self) -> [(DropReason, u64); 2] {
        let lost = std::mem::take(&mut self.lost);
        [(DropReason::LinkLost, lost), (DropReason::NoBuffer, 0)]
    }

    /// 1 while there is a connection: whether anything has come, only reading tells.
    #[inline]
    pub fn next_span(&self) -> Option<usize> {
        self.stream.as_ref().map(|_| 1)
    }
}
