//! `xdp`: the port over an AF_XDP socket.
//!
//! Which buffers the kernel has, and for what, is said by a table (`lending`). What the kernel
//! names and the table does not is refused.
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
use crate::lending::{Lending, Lent, NoCopy};

/// How often the interface is looked at, and looked for.
const LOOK_NS: u64 = 100_000_000;
/// Calls by which a burst is sent, at most: 8 of 32 packets are the engine's largest burst.
const CALLS_MAX: u32 = 8;
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
    "rx_calls",
    "tx_calls",
    "calls_spared",
];

#[derive(Debug, Default)]
struct Counts {
    attached: u64,
    attached_zero_copy: u64,
    detached: u64,
    interface_down: u64,
    unsent_at_detach: u64,
    /// Calls that had the kernel look at the fill ring, and at the transmit ring.
    rx_calls: u64,
    tx_calls: u64,
    /// Times that it had not to be called for them: it looks at that ring by itself.
    calls_spared: u64,
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

/// The port.
#[derive(Debug)]
pub(super) struct XdpPort {
    settings: Settings,
    socket: Option<Socket>,
    lending: Lending,
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
        let mut lending = Lending::new(memory);
        lending.want_stock(settings.sends && settings.is_wrapped);
        let mut port = Self {
            socket: Some(socket),
            lending,
            is_closed: false,
            is_down: false,
            next_look: Nanos(0),
            counts: Counts::default(),
            settings,
        };
        port.note_attached();
        Ok(port)
    }

    /// Number of the buffer at an address of the memory; none has one beyond it.
    fn buffer_at(&self, address: u64) -> u32 {
        let index = address >> self.lending.memory().geometry().log2_stride;
        u32::try_from(index).unwrap_or(u32::MAX)
    }

    /// Takes what the kernel is done with sending.
    fn complete(&mut self, buffers: &mut Buffers<'_>) {
        loop {
            let socket = self.socket.as_mut();
            let Some(address) = socket.and_then(|socket| socket.completion.pull()) else {
                break;
            };
            let buffer = self.buffer_at(address);
            match self.lending.take(buffer) {
                Some(Lent::Kept(packet)) => buffers.sent(packet),
                Some(Lent::Copy(packet)) => self.lending.copied(packet),
                Some(posted @ Lent::Posted(_)) => {
                    self.lending.counts.refused += 1;
                    self.lending.put(posted);
                }
                None => {}
            }
        }
        if let Some(socket) = &mut self.socket {
            socket.completion.release();
        }
    }

    /// Gives the kernel empty buffers.
    fn post(&mut self, buffers: &mut Buffers<'_>) {
        let Some(socket) = &mut self.socket else {
            return;
        };
        if !self.settings.receives {
            return;
        }
        let count = self.lending.may_post(buffers, self.settings.ring);
        let count = count.min(socket.fill.free());
        for _ in 0..count {
            let Some((_, offset)) = self.lending.post(buffers) else {
                break;
            };
            socket.fill.push(offset.into());
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
        if let Ok(socket) = Socket::open(&self.settings, self.lending.memory(), false) {
            self.socket = Some(socket);
            self.note_attached();
            self.is_down = false;
            self.lending
                .want_stock(self.settings.sends && self.settings.is_wrapped);
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
            let buffer = self.buffer_at(address);
            self.lending.fail(buffer, false);
        }
        self.lending.take_all();
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
            if pending == 0 || pending >= left {
                return;
            }
            if !tx.needs_wakeup() {
                self.counts.calls_spared += 1;
                return;
            }
            left = pending;
            self.counts.tx_calls += 1;
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
                self.lending.counts.too_long += 1;
                continue;
            }
            if tx.free() == 0 {
                self.lending.counts.no_copy_buffer += 1;
                break;
            }
            let copy = match self.lending.copy_of(packet) {
                Ok(copy) => copy,
                Err(NoCopy::TooLong) => continue,
                Err(NoCopy::Buffer) => break,
            };
            tx.push(descriptor_of(&copy));
            self.lending.put(Lent::Copy(copy));
            sent += 1;
        }
        if let Some(tx) = self.socket.as_mut().and_then(|socket| socket.tx.as_mut()) {
            tx.publish();
        }
        self.push_on();
        sent
    }
}

/// What the kernel is told of a packet that it is to send.
fn descriptor_of(packet: &Packet) -> Descriptor {
    Descriptor {
        address: packet.offset().into(),
        #[expect(clippy::cast_possible_truncation, reason = "at most a buffer's length")]
        len: packet.len() as u32,
        options: 0,
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
            let buffer = self.buffer_at(address);
            let Some(mut packet) = self.lending.received(buffer) else {
                continue;
            };
            let offset = u32::try_from(address).unwrap_or(u32::MAX);
            if packet.lie_at(offset, len).is_ok() {
                burst.push(packet);
            } else {
                self.lending.counts.refused += 1;
                self.lending.unused(packet);
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
            self.counts.rx_calls += 1;
            let woken = socket.wake_rx();
            if woken == Woken::Gone {
                self.detach();
            }
        } else if !is_full {
            self.counts.calls_spared += 1;
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
        let room = tx.free() as usize;
        let kept = self.lending.keep(burst, room, |packet| {
            let fits = packet.len() <= len_max;
            if fits {
                tx.push(descriptor_of(packet));
            }
            fits
        });
        tx.publish();
        self.push_on();
        kept
    }

    fn reap(&mut self, buffers: &mut Buffers<'_>, now: Nanos) {
        self.complete(buffers);
        if !self.is_closed {
            self.look(now);
        }
        self.lending.give_back(buffers);
        if self.socket.is_none() {
            return;
        }
        self.post(buffers);
        self.lending.restock(buffers);
    }

    fn tx_room(&mut self, _now: Nanos) -> usize {
        let tx = self.socket.as_mut().and_then(|socket| socket.tx.as_mut());
        // What comes while it is down fails, so that it does not hold the chain up.
        match tx {
            Some(tx) if !self.is_down && self.settings.is_wrapped => {
                self.lending.stock().min(tx.free() as usize)
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
        let (counts, lending) = (&self.counts, &self.lending.counts);
        let kernel = counts.past.plus(counts.now);
        out.extend([
            ("attached", counts.attached),
            ("attached_zero_copy", counts.attached_zero_copy),
            ("detached", counts.detached),
            ("interface_down", counts.interface_down),
            ("copied_packets", lending.copied_packets),
            ("copied_bytes", lending.copied_bytes),
            ("too_long", lending.too_long),
            ("no_copy_buffer", lending.no_copy_buffer),
            ("unsent_at_detach", counts.unsent_at_detach),
            ("refused", lending.refused),
            ("rx_ring_full", kernel.ring_full),
            ("rx_fill_ring_empty", kernel.fill_empty),
            ("rx_dropped", kernel.dropped),
            ("tx_invalid", kernel.tx_invalid),
            ("rx_calls", counts.rx_calls),
            ("tx_calls", counts.tx_calls),
            ("calls_spared", counts.calls_spared),
        ]);
    }
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
