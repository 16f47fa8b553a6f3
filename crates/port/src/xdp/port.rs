//! `xdp`: the port over an AF_XDP socket.
//!
//! Where each buffer is that the kernel has is said by a table, by number of the buffer: posted to
//! be received in, kept to be sent, or a copy of a packet that was given without its pool. What the
//! kernel names and the table does not is refused.
//!
//! An interface that goes away leaves the port down: nothing is received, what is to be sent fails
//! and is counted. It is looked for again, and attached when one of its name is up.

use std::os::fd::{AsFd, BorrowedFd};

use catena_engine::nf::Nanos;
use catena_engine::own_counters::CounterSink;
use catena_engine::packet::Packet;
use catena_engine::port::{Buffers, Port, PortError, RxBurst, RxState, TxBurst};
use catena_shm::pool::PoolMemory;
use rustix::net::xdp::XdpStatistics;

use super::config::Settings;
use super::error::XdpError;
use super::socket::{self, Socket, Woken};
use super::sys::{self, Descriptor, Outgoing};

/// How often the interface is looked at, and looked for.
const LOOK_NS: u64 = 100_000_000;
/// Buffers kept for packets that come without their pools: the engine's largest burst.
const STOCK: usize = 256;
/// Calls by which a burst is sent, at most: 8 of 32 packets are the engine's largest burst.
const CALLS_MAX: u32 = 8;
/// One in so many buffers of the pool is left for packets that have to be copied.
const RESERVE_PART: u32 = 8;

/// Names of the counters.
pub(super) const COUNTERS: &[&str] = &[
    "attached",
    "attached_zero_copy",
    "detached",
    "interface_down",
    "copied_packets",
    "copied_bytes",
    "too_long",
    "no_copy_buffer",
    "unsent_at_detach",
    "refused",
    "rx_ring_full",
    "rx_fill_ring_empty",
    "rx_dropped",
    "tx_invalid",
];

#[derive(Debug, Default)]
struct Counts {
    attached: u64,
    attached_zero_copy: u64,
    detached: u64,
    interface_down: u64,
    copied_packets: u64,
    copied_bytes: u64,
    too_long: u64,
    no_copy_buffer: u64,
    unsent_at_detach: u64,
    refused: u64,
    /// Of sockets that are closed.
    past: Kernel,
    /// Of this one, when it was last asked.
    now: Kernel,
}

/// What the kernel counts of a socket.
#[derive(Clone, Copy, Debug, Default)]
struct Kernel {
    ring_full: u64,
    fill_empty: u64,
    dropped: u64,
    tx_invalid: u64,
}

impl Kernel {
    fn of(statistics: &XdpStatistics) -> Self {
        Self {
            ring_full: statistics.rx_ring_full.unwrap_or(0),
            fill_empty: statistics.rx_fill_ring_empty_descs.unwrap_or(0),
            dropped: statistics.rx_dropped,
            tx_invalid: statistics.tx_invalid_descs,
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            ring_full: self.ring_full + other.ring_full,
            fill_empty: self.fill_empty + other.fill_empty,
            dropped: self.dropped + other.dropped,
            tx_invalid: self.tx_invalid + other.tx_invalid,
        }
    }
}

/// A buffer that the kernel has.
#[derive(Debug)]
enum Lent {
    /// To be received in.
    Posted(Packet),
    /// A packet that is to be sent.
    Kept(Packet),
    /// A copy of one that was counted as sent.
    Copy(Packet),
}

/// A buffer that is to be given back in the next [`Port::reap`].
#[derive(Debug)]
enum Left {
    Unused(Packet),
    Sent(Packet),
    Failed(Packet),
}

/// The port.
#[derive(Debug)]
pub(super) struct XdpPort {
    settings: Settings,
    memory: PoolMemory,
    socket: Option<Socket>,
    /// By number of the buffer.
    lent: Vec<Option<Lent>>,
    posted: u32,
    /// Buffers for copies of packets that come without their pools.
    stock: Vec<Packet>,
    /// Whether there are to be some, and are none yet.
    wants_stock: bool,
    left: Vec<Left>,
    is_closed: bool,
    /// Whether the interface said that it is down when it was last asked to send.
    is_down: bool,
    next_look: Nanos,
    counts: Counts,
}

impl XdpPort {
    pub(super) fn open(settings: Settings, pools: &[PoolMemory]) -> Result<Self, XdpError> {
        let name = settings.interface.clone();
        let at = |step| XdpError::at(&name, step);
        let asking = socket::asking().map_err(at("open a socket"))?;
        let mtu = sys::mtu(asking.as_fd(), &name);
        let mtu = mtu.map_err(at("find the interface"))?;
        let memory = socket::pool_for(&name, mtu, pools)?.clone();
        let socket = Socket::open(&settings, &memory, true)?;
        let buffers = memory.geometry().buffer_count as usize;
        let mut port = Self {
            memory,
            socket: Some(socket),
            lent: (0..buffers).map(|_| None).collect(),
            posted: 0,
            stock: Vec::new(),
            wants_stock: settings.sends && settings.is_wrapped,
            left: Vec::with_capacity(buffers),
            is_closed: false,
            is_down: false,
            next_look: Nanos(0),
            counts: Counts::default(),
            settings,
        };
        port.note_attached();
        Ok(port)
    }

    /// Number of the buffer at an address of the memory, if the kernel has it.
    fn take_lent(&mut self, address: u64) -> Option<Lent> {
        let index = usize::try_from(address >> self.memory.geometry().log2_stride).ok()?;
        let lent = self.lent.get_mut(index).and_then(Option::take);
        self.counts.refused += u64::from(lent.is_none());
        lent
    }

    /// Takes what the kernel is done with sending.
    fn complete(&mut self, buffers: &mut Buffers<'_>) {
        loop {
            let socket = self.socket.as_mut();
            let Some(address) = socket.and_then(|socket| socket.completion.pull()) else {
                break;
            };
            match self.take_lent(address) {
                Some(Lent::Kept(packet)) => buffers.sent(packet),
                Some(Lent::Copy(packet)) => self.stock.push(packet),
                Some(posted @ Lent::Posted(_)) => {
                    self.counts.refused += 1;
                    self.put(posted);
                }
                None => {}
            }
        }
        if let Some(socket) = &mut self.socket {
            socket.completion.release();
        }
    }

    /// Notes that the kernel has a buffer.
    fn put(&mut self, lent: Lent) {
        let (Lent::Posted(packet) | Lent::Kept(packet) | Lent::Copy(packet)) = &lent;
        let index = packet.buffer_index() as usize;
        self.lent[index] = Some(lent);
    }

    /// Gives the kernel empty buffers.
    fn post(&mut self, buffers: &mut Buffers<'_>) {
        let Some(socket) = &mut self.socket else {
            return;
        };
        if !self.settings.receives {
            return;
        }
        let reserve = self.memory.geometry().buffer_count / RESERVE_PART;
        let spare = buffers.free_count(&self.memory).saturating_sub(reserve);
        let wanted = self.settings.ring.saturating_sub(self.posted);
        let count = wanted.min(spare).min(socket.fill.free());
        for _ in 0..count {
            let Some(packet) = buffers.take(&self.memory) else {
                break;
            };
            socket.fill.push(packet.buffer_offset().into());
            let index = packet.buffer_index() as usize;
            self.lent[index] = Some(Lent::Posted(packet));
            self.posted += 1;
        }
        if count > 0 {
            socket.fill.publish();
        }
    }

    /// Looks, from time to time, whether the interface is there.
    fn look(&mut self, now: Nanos) {
        if now < self.next_look {
            return;
        }
        self.next_look = now.plus(LOOK_NS);
        match &self.socket {
            Some(socket) if socket.is_bound_to(&self.settings.interface) => {
                self.is_down = false;
                let statistics = socket.statistics();
                self.counts.now = statistics.as_ref().map_or(self.counts.now, Kernel::of);
            }
            Some(_) => self.detach(),
            None => self.attach(),
        }
    }

    /// Counts what has been attached: counters of lives are added up, so they only grow.
    fn note_attached(&mut self) {
        let is_zero_copy = self.socket.as_ref().is_some_and(|it| it.is_zero_copy);
        self.counts.attached += 1;
        self.counts.attached_zero_copy += u64::from(is_zero_copy);
    }

    /// The interface is back, perhaps.
    #[cold]
    fn attach(&mut self) {
        if let Ok(socket) = Socket::open(&self.settings, &self.memory, false) {
            self.socket = Some(socket);
            self.note_attached();
            self.is_down = false;
            self.wants_stock = self.settings.sends && self.settings.is_wrapped;
        }
    }

    /// Lets go of the interface. What the kernel had is ours again: of what it was to send, it has
    /// sent what it had taken out of the ring.
    #[cold]
    fn detach(&mut self) {
        let Some(mut socket) = self.socket.take() else {
            return;
        };
        let unsent = socket.tx.as_mut().map(Outgoing::left).unwrap_or_default();
        if let Some(statistics) = socket.statistics() {
            self.counts.now = Kernel::of(&statistics);
        }
        drop(socket);
        self.counts.past = self.counts.past.plus(std::mem::take(&mut self.counts.now));
        self.counts.detached += 1;
        for Descriptor { address, .. } in unsent {
            self.counts.unsent_at_detach += 1;
            match self.take_lent(address) {
                Some(Lent::Kept(packet)) => self.left.push(Left::Failed(packet)),
                Some(Lent::Copy(packet) | Lent::Posted(packet)) => {
                    self.left.push(Left::Unused(packet));
                }
                None => {}
            }
        }
        for lent in self.lent.iter_mut().filter_map(Option::take) {
            self.left.push(match lent {
                Lent::Kept(packet) => Left::Sent(packet),
                Lent::Posted(packet) | Lent::Copy(packet) => Left::Unused(packet),
            });
        }
        self.left.extend(self.stock.drain(..).map(Left::Unused));
        self.posted = 0;
    }

    /// Notes what a call to the kernel came to.
    fn note(&mut self, woken: Woken) {
        match woken {
            Woken::Yes => {}
            Woken::Down => self.is_down = true,
            Woken::Gone => self.detach(),
        }
    }

    /// Has the kernel send what is in the ring. Where it copies, it takes 32 packets in a call: it
    /// is called as long as it takes any, some times; the rest goes in the next turn.
    fn push_on(&mut self) {
        let mut left = u32::MAX;
        for _ in 0..CALLS_MAX {
            let Some(socket) = &mut self.socket else {
                return;
            };
            let Some(tx) = &mut socket.tx else { return };
            let pending = tx.pending();
            if pending == 0 || pending >= left || !tx.needs_wakeup() {
                return;
            }
            left = pending;
            let woken = socket.wake_tx();
            self.note(woken);
        }
    }

    /// Whether packets can be given to the kernel; those that cannot are counted.
    fn can_send(&mut self, count: usize) -> bool {
        let can = self.socket.is_some() && !self.is_down;
        if !can {
            self.counts.interface_down += count as u64;
        }
        can
    }

    /// Copies packets that come without their pool into buffers of the stock.
    fn send_copies(&mut self, packets: &[Packet]) -> usize {
        let mut sent = 0;
        for packet in packets {
            let socket = self.socket.as_mut();
            let Some((tx, len_max)) =
                socket.and_then(|socket| Some((socket.tx.as_mut()?, socket.frame_len_max)))
            else {
                break;
            };
            if packet.len() > len_max {
                self.counts.too_long += 1;
                continue;
            }
            let Some(mut copy) = (tx.free() > 0).then(|| self.stock.pop()).flatten() else {
                self.counts.no_copy_buffer += 1;
                break;
            };
            let len = u32::try_from(packet.len()).unwrap_or(u32::MAX);
            let start = copy.buffer_offset() + self.memory.geometry().headroom;
            if copy.lie_at(start, len).is_err() {
                self.counts.too_long += 1;
                self.stock.push(copy);
                continue;
            }
            copy.bytes_mut().copy_from_slice(packet.bytes());
            self.counts.copied_packets += 1;
            self.counts.copied_bytes += packet.len() as u64;
            tx.push(Descriptor {
                address: start.into(),
                len,
                options: 0,
            });
            self.put(Lent::Copy(copy));
            sent += 1;
        }
        if let Some(tx) = self.socket.as_mut().and_then(|socket| socket.tx.as_mut()) {
            tx.publish();
        }
        self.push_on();
        sent
    }
}

impl Port for XdpPort {
    fn rx(&mut self, burst: &mut RxBurst<'_>, _now: Nanos) -> RxState {
        let before = burst.room();
        while burst.room() > 0 {
            let rx = self.socket.as_mut().and_then(|socket| socket.rx.as_mut());
            let Some(Descriptor { address, len, .. }) = rx.and_then(|rx| rx.pull()) else {
                break;
            };
            match self.take_lent(address) {
                Some(Lent::Posted(mut packet)) => {
                    self.posted -= 1;
                    let offset = u32::try_from(address).unwrap_or(u32::MAX);
                    if packet.lie_at(offset, len).is_ok() {
                        burst.push(packet);
                    } else {
                        self.counts.refused += 1;
                        self.left.push(Left::Unused(packet));
                    }
                }
                Some(other) => {
                    self.counts.refused += 1;
                    self.put(other);
                }
                None => {}
            }
        }
        let Some(socket) = &mut self.socket else {
            return RxState::Idle;
        };
        let is_full = burst.room() == 0;
        if let Some(rx) = socket.rx.as_mut().filter(|_| burst.room() < before) {
            rx.release();
        }
        let has_to_call = self.settings.busy_poll_us.is_some() || socket.fill.needs_wakeup();
        if !is_full && has_to_call {
            let woken = socket.wake_rx();
            if woken == Woken::Gone {
                self.detach();
            }
        }
        if is_full {
            RxState::More
        } else {
            RxState::Idle
        }
    }

    fn tx(&mut self, burst: &mut TxBurst<'_>, _now: Nanos) -> usize {
        if burst.count() == 0 {
            self.push_on();
            return 0;
        }
        if !self.can_send(burst.count()) {
            return 0;
        }
        if !burst.can_keep() {
            return self.send_copies(burst.packets());
        }
        let Some(socket) = &mut self.socket else {
            return 0;
        };
        let len_max = socket.frame_len_max;
        let Some(tx) = &mut socket.tx else { return 0 };
        let (lent, left, too_long) = (&mut self.lent, &mut self.left, &mut self.counts.too_long);
        let count = burst.count();
        let room = tx.free() as usize;
        let taken = burst.keep(&self.memory, room, |packet| {
            if packet.len() > len_max {
                *too_long += 1;
                left.push(Left::Failed(packet));
                return;
            }
            tx.push(Descriptor {
                address: packet.offset().into(),
                #[expect(clippy::cast_possible_truncation, reason = "at most a buffer's length")]
                len: packet.len() as u32,
                options: 0,
            });
            let index = packet.buffer_index() as usize;
            lent[index] = Some(Lent::Kept(packet));
        });
        tx.publish();
        self.counts.copied_packets += taken.copied;
        self.counts.copied_bytes += taken.copied_bytes;
        self.counts.no_copy_buffer += (count.min(room) - taken.packets) as u64;
        self.push_on();
        taken.packets
    }

    fn reap(&mut self, buffers: &mut Buffers<'_>, now: Nanos) {
        self.complete(buffers);
        if !self.is_closed {
            self.look(now);
        }
        for left in self.left.drain(..) {
            match left {
                Left::Unused(packet) => buffers.give_back(packet),
                Left::Sent(packet) => buffers.sent(packet),
                Left::Failed(packet) => buffers.failed(packet),
            }
        }
        if self.socket.is_none() {
            return;
        }
        self.post(buffers);
        if self.wants_stock {
            while self.stock.len() < STOCK
                && let Some(packet) = buffers.take(&self.memory)
            {
                self.stock.push(packet);
            }
            self.wants_stock = false;
        }
    }

    fn tx_room(&mut self, _now: Nanos) -> usize {
        let tx = self.socket.as_mut().and_then(|socket| socket.tx.as_mut());
        // What comes while it is down fails, so that it does not hold the chain up.
        match tx {
            Some(tx) if !self.is_down && self.settings.is_wrapped => {
                self.stock.len().min(tx.free() as usize)
            }
            Some(tx) if !self.is_down => tx.free() as usize,
            _ => usize::MAX,
        }
    }

    fn holds_packets(&self) -> bool {
        // Asked once a turn; the ring tells without a system call.
        let tx = self.socket.as_ref().and_then(|socket| socket.tx.as_ref());
        !self.is_down && tx.is_some_and(|tx| !tx.is_taken())
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(Socket::fd)
    }

    fn close(&mut self) -> Result<(), PortError> {
        self.is_closed = true;
        let detached = self.counts.detached;
        self.detach();
        self.counts.detached = detached;
        Ok(())
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        let counts = &self.counts;
        let kernel = counts.past.plus(counts.now);
        out.extend([
            ("attached", counts.attached),
            ("attached_zero_copy", counts.attached_zero_copy),
            ("detached", counts.detached),
            ("interface_down", counts.interface_down),
            ("copied_packets", counts.copied_packets),
            ("copied_bytes", counts.copied_bytes),
            ("too_long", counts.too_long),
            ("no_copy_buffer", counts.no_copy_buffer),
            ("unsent_at_detach", counts.unsent_at_detach),
            ("refused", counts.refused),
            ("rx_ring_full", kernel.ring_full),
            ("rx_fill_ring_empty", kernel.fill_empty),
            ("rx_dropped", kernel.dropped),
            ("tx_invalid", kernel.tx_invalid),
        ]);
    }
}
