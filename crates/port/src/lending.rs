//! Buffers that a device has: which, for what, and how they come home.
//!
//! Between the engine and a port that owns memory, `xdp` or `dpdk` (ADR 20). A buffer that a device
//! has is a packet in a table, by number of the buffer: posted to be received in, kept to be sent,
//! or a copy of a packet that came without its pool. What the device names and the table does not
//! is refused and counted. What is to go back to the engine waits for the next `reap`.

use catena_engine::packet::Packet;
use catena_engine::port::{Buffers, TxBurst};
use catena_shm::pool::PoolMemory;

/// Buffers kept for packets that come without their pools: the engine's largest burst.
const STOCK: usize = 256;
/// One in so many buffers of the pool is left for packets that have to be copied.
pub(crate) const RESERVE_PART: u32 = 8;

/// A buffer that a device has.
#[derive(Debug)]
pub(crate) enum Lent {
    /// To be received in.
    Posted(Packet),
    /// A packet that is to be sent.
    Kept(Packet),
    /// A copy of one that was counted as sent.
    Copy(Packet),
}

/// A buffer that is to be given back in the next [`Port::reap`](catena_engine::port::Port::reap).
#[derive(Debug)]
enum Left {
    Unused(Packet),
    Sent(Packet),
    Failed(Packet),
}

/// Why there is no copy of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoCopy {
    /// No buffer is free for it.
    Buffer,
    /// It is longer than one.
    TooLong,
}

/// What is counted of them.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Buffers that the device did not have, or packets that do not lie in theirs.
    pub(crate) refused: u64,
    pub(crate) too_long: u64,
    pub(crate) copied_packets: u64,
    pub(crate) copied_bytes: u64,
    pub(crate) no_copy_buffer: u64,
}

/// The buffers of one pool, as far as a device has them.
#[derive(Debug)]
pub(crate) struct Lending {
    memory: PoolMemory,
    /// By number of the buffer.
    lent: Vec<Option<Lent>>,
    posted: u32,
    /// Buffers for copies.
    stock: Vec<Packet>,
    /// Whether there are to be some, and are none yet.
    wants_stock: bool,
    left: Vec<Left>,
    pub(crate) counts: Counts,
}

impl Lending {
    /// Nothing is lent yet.
    pub(crate) fn new(memory: PoolMemory) -> Self {
        let buffers = memory.geometry().buffer_count as usize;
        Self {
            lent: (0..buffers).map(|_| None).collect(),
            posted: 0,
            stock: Vec::with_capacity(STOCK),
            wants_stock: false,
            left: Vec::with_capacity(buffers),
            counts: Counts::default(),
            memory,
        }
    }

    /// The pool.
    pub(crate) const fn memory(&self) -> &PoolMemory {
        &self.memory
    }

    /// Empty buffers that the device has.
    pub(crate) const fn posted(&self) -> u32 {
        self.posted
    }

    /// Buffers for copies that are free.
    pub(crate) fn stock(&self) -> usize {
        self.stock.len()
    }

    /// Has buffers for copies be there from the next [`Lending::restock`] on.
    pub(crate) fn want_stock(&mut self, wants: bool) {
        self.wants_stock = wants;
    }

    /// What the device has of that buffer, which it has no longer.
    pub(crate) fn take(&mut self, buffer: u32) -> Option<Lent> {
        let lent = self.lent.get_mut(buffer as usize).and_then(Option::take);
        self.counts.refused += u64::from(lent.is_none());
        lent
    }

    /// Notes that the device has a buffer: one that was posted stays counted as such.
    pub(crate) fn put(&mut self, lent: Lent) {
        let (Lent::Posted(packet) | Lent::Kept(packet) | Lent::Copy(packet)) = &lent;
        let index = packet.buffer_index() as usize;
        self.lent[index] = Some(lent);
    }

    /// Empty buffers that may be posted now, up to `most` in all.
    pub(crate) fn may_post(&self, buffers: &Buffers<'_>, most: u32) -> u32 {
        let reserve = self.memory.geometry().buffer_count / RESERVE_PART;
        let spare = buffers.free_count(&self.memory).saturating_sub(reserve);
        most.saturating_sub(self.posted).min(spare)
    }

    /// Posts an empty buffer: its number, and where it begins.
    pub(crate) fn post(&mut self, buffers: &mut Buffers<'_>) -> Option<(u32, u32)> {
        let packet = buffers.take(&self.memory)?;
        let place = (packet.buffer_index(), packet.buffer_offset());
        self.put(Lent::Posted(packet));
        self.posted += 1;
        Some(place)
    }

    /// The posted buffer in which the device says that it has received something. It goes to
    /// [`Lending::unused`] if that is no packet.
    pub(crate) fn received(&mut self, buffer: u32) -> Option<Packet> {
        match self.take(buffer)? {
            Lent::Posted(packet) => {
                self.posted -= 1;
                Some(packet)
            }
            other => {
                self.counts.refused += 1;
                self.put(other);
                None
            }
        }
    }

    /// A posted buffer comes back as it was: the engine has it at once.
    pub(crate) fn unposted(&mut self, packet: Packet, buffers: &mut Buffers<'_>) {
        self.posted -= 1;
        buffers.give_back(packet);
    }

    /// A buffer that nothing is in.
    pub(crate) fn unused(&mut self, packet: Packet) {
        self.left.push(Left::Unused(packet));
    }

    /// A copy that was sent, or will not be: its buffer is free for the next one.
    pub(crate) fn copied(&mut self, packet: Packet) {
        self.stock.push(packet);
    }

    /// The device will not send what is in that buffer. `is_open`: whether it may be given more.
    pub(crate) fn fail(&mut self, buffer: u32, is_open: bool) {
        match self.take(buffer) {
            Some(Lent::Kept(packet)) => self.left.push(Left::Failed(packet)),
            Some(Lent::Copy(packet)) if is_open => self.stock.push(packet),
            Some(Lent::Copy(packet) | Lent::Posted(packet)) => self.unused(packet),
            None => {}
        }
    }

    /// Keeps up to `room` packets of a burst to be sent; `push` gives one to the device, unless it
    /// is too long for it. How many left the burst.
    pub(crate) fn keep(
        &mut self,
        burst: &mut TxBurst<'_>,
        room: usize,
        mut push: impl FnMut(&Packet) -> bool,
    ) -> usize {
        let count = burst.count().min(room);
        let (lent, left, counts) = (&mut self.lent, &mut self.left, &mut self.counts);
        let taken = burst.keep(&self.memory, room, |packet| {
            if push(&packet) {
                let index = packet.buffer_index() as usize;
                lent[index] = Some(Lent::Kept(packet));
            } else {
                counts.too_long += 1;
                left.push(Left::Failed(packet));
            }
        });
        counts.copied_packets += taken.copied;
        counts.copied_bytes += taken.copied_bytes;
        counts.no_copy_buffer += (count - taken.packets) as u64;
        taken.packets
    }

    /// A copy of a packet that came without its pool, in a buffer of the stock.
    pub(crate) fn copy_of(&mut self, packet: &Packet) -> Result<Packet, NoCopy> {
        let Some(mut copy) = self.stock.pop() else {
            self.counts.no_copy_buffer += 1;
            return Err(NoCopy::Buffer);
        };
        let start = copy.buffer_offset() + self.memory.geometry().headroom;
        let len = u32::try_from(packet.len()).unwrap_or(u32::MAX);
        if copy.lie_at(start, len).is_err() {
            self.counts.too_long += 1;
            self.stock.push(copy);
            return Err(NoCopy::TooLong);
        }
        copy.bytes_mut().copy_from_slice(packet.bytes());
        self.counts.copied_packets += 1;
        self.counts.copied_bytes += packet.len() as u64;
        Ok(copy)
    }

    /// The device is gone: all that it had is ours again, and what it was to send it has sent.
    pub(crate) fn take_all(&mut self) {
        for lent in self.lent.iter_mut().filter_map(Option::take) {
            self.left.push(match lent {
                Lent::Kept(packet) => Left::Sent(packet),
                Lent::Posted(packet) | Lent::Copy(packet) => Left::Unused(packet),
            });
        }
        self.left.extend(self.stock.drain(..).map(Left::Unused));
        self.posted = 0;
    }

    /// Gives the engine what is its again.
    pub(crate) fn give_back(&mut self, buffers: &mut Buffers<'_>) {
        for left in self.left.drain(..) {
            match left {
                Left::Unused(packet) => buffers.give_back(packet),
                Left::Sent(packet) => buffers.sent(packet),
                Left::Failed(packet) => buffers.failed(packet),
            }
        }
    }

    /// Takes buffers for copies, once, if they are wanted.
    pub(crate) fn restock(&mut self, buffers: &mut Buffers<'_>) {
        if !std::mem::take(&mut self.wants_stock) {
            return;
        }
        while self.stock.len() < STOCK
            && let Some(packet) = buffers.take(&self.memory)
        {
            self.stock.push(packet);
        }
    }
}
