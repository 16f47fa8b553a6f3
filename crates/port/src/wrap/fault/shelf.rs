//! Where packets wait: copies in pools of the shelf's own, so that no buffer of the chain is kept.
//!
//! Two ways to wait: in a queue, until a time, in order; or aside, until so many packets have gone
//! on since, or at the latest until a time. The queue's packets count among those that go on.

use std::collections::VecDeque;

use catena_engine::nf::Nanos;
use catena_engine::packet::Packet;
use catena_engine::pools::Pools;
use catena_engine::port::PortError;
use catena_shm::pool::{PoolGeometry, PoolOwner};
use catena_shm::region::Sharing;

/// Binary logarithms of the buffers' sizes, and the share of packets that may be of that size:
/// nearly all fit in 2 KiB, an eighth may be jumbo frames or aggregates. Longer ones do not wait.
const SIZES: [(u8, u32); 2] = [(11, 1), (14, 8)];

/// Packets that wait.
#[derive(Debug)]
pub(super) struct Shelf {
    pools: Pools,
    queue: VecDeque<Queued>,
    /// How many of the queue are not settled.
    unsettled: usize,
    aside: Vec<Aside>,
    capacity: usize,
    passed: u64,
}

#[derive(Debug)]
struct Queued {
    packet: Packet,
    /// Not before the one in front of it.
    due: Nanos,
    /// When it would be due by itself, if that counts from an instant before it came.
    unsettled: Option<Nanos>,
}

#[derive(Debug)]
struct Aside {
    packet: Packet,
    /// Value of `passed` from which it may go on.
    after: u64,
    at_latest: Nanos,
}

/// Where a packet lies.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    Queue,
    Aside(usize),
}

impl Shelf {
    pub(super) fn new(capacity: u32) -> Result<Self, PortError> {
        let own = (1..).zip(SIZES).map(|(id, (log2_stride, divisor))| {
            let geometry = PoolGeometry {
                log2_stride,
                buffer_count: capacity / divisor,
                headroom: 0,
                bundles: false,
            };
            PoolOwner::create(id, geometry, Sharing::ReadWrite)
                .map_err(|error| PortError(format!("no memory for waiting packets: {error}")))
        });
        let capacity = capacity as usize;
        Ok(Self {
            pools: Pools::new(own.collect::<Result<_, _>>()?),
            queue: VecDeque::with_capacity(capacity),
            unsettled: 0,
            aside: Vec::with_capacity(capacity),
            capacity,
            passed: 0,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len() + self.aside.len()
    }

    pub(super) fn free(&self) -> usize {
        self.capacity - self.len()
    }

    pub(super) fn has_aside(&self) -> bool {
        !self.aside.is_empty()
    }

    fn copy(&mut self, bytes: &[u8]) -> Option<Packet> {
        if self.free() == 0 {
            return None;
        }
        let mut packet = self.pools.alloc(bytes.len()).ok()?;
        packet.bytes_mut().copy_from_slice(bytes);
        Some(packet)
    }

    /// Queues a copy until `due`, or until the one before it goes.
    pub(super) fn queue(&mut self, bytes: &[u8], due: Nanos) -> Option<&mut Packet> {
        let packet = self.copy(bytes)?;
        let due = self.queue.back().map_or(due, |last| due.max(last.due));
        self.queue.push_back(Queued {
            packet,
            due,
            unsettled: None,
        });
        self.queue.back_mut().map(|last| &mut last.packet)
    }

    /// The packet that was queued last is due at `due` by itself, or later: it came at some instant
    /// behind the one that this counts from.
    pub(super) fn unsettle(&mut self, due: Nanos) {
        if let Some(last) = self.queue.back_mut() {
            last.unsettled = Some(due);
            self.unsettled += 1;
        }
    }

    /// Has what is not settled wait for `later_ns` more.
    pub(super) fn settle(&mut self, later_ns: u64) {
        let mut first = self.queue.len();
        while self.unsettled > 0 && first > 0 {
            first -= 1;
            self.unsettled -= usize::from(self.queue[first].unsettled.is_some());
        }
        let mut before = Nanos(0);
        for queued in self.queue.range_mut(first..) {
            if let Some(due) = queued.unsettled.take() {
                queued.due = due.plus(later_ns);
            }
            queued.due = queued.due.max(before);
            before = queued.due;
        }
    }

    pub(super) fn is_unsettled(&self) -> bool {
        self.unsettled > 0
    }

    /// Puts a copy aside until `count` packets have gone on, or `at_latest`.
    pub(super) fn put_aside(
        &mut self,
        bytes: &[u8],
        count: u64,
        at_latest: Nanos,
    ) -> Option<&mut Packet> {
        let packet = self.copy(bytes)?;
        // Those before it in the queue do not pass it.
        let after = self.passed + self.queue.len() as u64 + count;
        self.aside.push(Aside {
            packet,
            after,
            at_latest,
        });
        self.aside.last_mut().map(|aside| &mut aside.packet)
    }

    /// Notes that `count` packets went on.
    pub(super) fn pass(&mut self, count: u64) {
        self.passed += count;
    }

    /// The packet that may go on, if there is one.
    pub(super) fn ready(&self, now: Nanos) -> Option<(Place, &Packet)> {
        let may_go = |aside: &Aside| aside.after <= self.passed || aside.at_latest <= now;
        if let Some(index) = self.aside.iter().position(may_go) {
            return Some((Place::Aside(index), &self.aside[index].packet));
        }
        let first = self.queue.front()?;
        (first.due <= now).then_some((Place::Queue, &first.packet))
    }

    /// Takes the packet at `place` out for the time of `each`.
    pub(super) fn take<T>(&mut self, place: Place, each: impl FnOnce(&mut Packet) -> T) {
        let packet = match place {
            Place::Queue => {
                self.passed += 1;
                let first = self.queue.pop_front();
                let is_unsettled = first
                    .as_ref()
                    .is_some_and(|first| first.unsettled.is_some());
                self.unsettled -= usize::from(is_unsettled);
                first.map(|first| first.packet)
            }
            Place::Aside(index) => Some(self.aside.remove(index).packet),
        };
        if let Some(mut packet) = packet {
            each(&mut packet);
            self.pools.free(packet);
        }
    }

    /// When the next packet may go on at the latest; `None` if there is none.
    pub(super) fn next_at(&self) -> Option<Nanos> {
        let aside = self.aside.iter().map(|aside| {
            if aside.after <= self.passed {
                Nanos(0)
            } else {
                aside.at_latest
            }
        });
        let queue = self.queue.front().map(|first| first.due);
        aside.chain(queue).min()
    }
}
