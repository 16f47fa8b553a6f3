//! `dpdk`: the port over a device of DPDK.
//!
//! Where each buffer is that DPDK has is said by a table, by number of the buffer: posted to be
//! received in, kept to be sent, or a copy of a packet that was given without its pool. What DPDK
//! names and the table does not is refused.
//!
//! A device whose link goes down (a peer that ends, a cable) leaves the port down: what is to be
//! sent fails and is counted. One that had called its peer is closed, and opened anew once the
//! peer's socket is there again; one that listens waits by itself. One whose interface of the
//! kernel's goes is closed, too, and opened at the next one of that name: DPDK does not notice.

use catena_engine::nf::Nanos;
use catena_engine::own_counters::CounterSink;
use catena_engine::packet::Packet;
use catena_engine::port::{Buffers, Port, PortError, RxBurst, RxState, TxBurst};
use catena_shm::pool::PoolMemory;

use super::config::Settings;
use super::counts::Counts;
use super::device::{begin, close, interface_of, may_be_heard, open, pool_for};
use super::error::DpdkError;
use super::share::Share;
use super::sys::{BAD_SUM, Device, Slot, State, TOO_LONG};
use crate::lending::{Lending, Lent, NoCopy, RESERVE_PART};

/// How often the device is looked at, and looked for.
const LOOK_NS: u64 = 100_000_000;
/// Packets that pass to or from DPDK in one call: the engine's largest burst.
const BURST: usize = 256;
/// How long a device is asked again and again once nothing comes.
const BUSY_NS: u64 = 50_000;
/// How long a peer that has been called may take to answer.
const GREETING_NS: u64 = 2_000_000_000;
/// A device that takes nothing for this long does not hold the chain up any more.
const STALL_NS: u64 = 10_000_000;
/// The port.
#[derive(Debug)]
pub(super) struct DpdkPort {
    settings: Settings,
    device: Option<Device>,
    lending: Lending,
    /// Whether the device runs: a card does once it has buffers.
    runs: bool,
    is_up: bool,
    /// Number of the kernel's interface that the device works at.
    interface: Option<u32>,
    /// When it was first seen without a link, since it last had one.
    down_since: Option<Nanos>,
    /// Packets that DPDK has not taken yet, in order.
    pending: Vec<Slot>,
    /// When it last took one, or there was none.
    moved: Nanos,
    is_stalled: bool,
    slots: Vec<Slot>,
    numbers: Vec<u32>,
    is_closed: bool,
    last_rx: Nanos,
    next_look: Nanos,
    /// What a card is to have of the pool.
    _share: Option<Share>,
    /// Why it does not run, if it should.
    failure: Option<DpdkError>,
    counts: Counts,
}

impl DpdkPort {
    pub(super) fn open(settings: Settings, pools: &[PoolMemory]) -> Result<Self, DpdkError> {
        let memory = pool_for(&settings, pools)?.clone();
        let device = &settings.device.name;
        let share = settings
            .starts_with_buffers()
            .then(|| Share::of(&memory, device, posted_most(&settings), RESERVE_PART))
            .transpose()?;
        let mut port = Self {
            device: None,
            runs: false,
            is_up: false,
            interface: None,
            down_since: None,
            pending: Vec::with_capacity(BURST),
            moved: Nanos(0),
            is_stalled: false,
            slots: vec![Slot::default(); BURST],
            numbers: vec![0; BURST],
            is_closed: false,
            last_rx: Nanos(0),
            next_look: Nanos(0),
            _share: share,
            failure: None,
            counts: Counts::default(),
            lending: Lending::new(memory),
            settings,
        };
        port.attach()?;
        Ok(port)
    }

    /// Opens the device, and has it run unless it wants buffers first.
    fn attach(&mut self) -> Result<(), DpdkError> {
        self.interface = interface_of(&self.settings);
        let mut device = open(&self.settings, self.lending.memory())?;
        self.runs = !self.settings.starts_with_buffers();
        if self.runs {
            begin(&self.settings, &mut device)?;
        }
        self.counts.attached += 1;
        self.counts.now = device.state();
        self.is_up = self.runs && self.counts.now.is_up != 0;
        self.counts.link_up += u64::from(self.is_up);
        self.device = Some(device);
        self.lending.want_stock(self.settings.sends_copies());
        Ok(())
    }

    /// Takes what DPDK is done with.
    fn complete(&mut self, buffers: &mut Buffers<'_>) {
        let mut numbers = std::mem::take(&mut self.numbers);
        while let Some(device) = &mut self.device {
            let done = device.reap(&mut numbers);
            for buffer in done {
                match self.lending.take(*buffer) {
                    Some(Lent::Kept(packet)) => buffers.sent(packet),
                    Some(Lent::Copy(packet)) => self.lending.copied(packet),
                    // Taken to receive in, and not used.
                    Some(Lent::Posted(packet)) => self.lending.unposted(packet, buffers),
                    None => {}
                }
            }
            if done.len() < BURST {
                break;
            }
        }
        self.numbers = numbers;
    }

    /// Gives DPDK empty buffers.
    fn post(&mut self, buffers: &mut Buffers<'_>) {
        let Some(device) = &mut self.device else {
            return;
        };
        // A card fills its rings even if nobody wants what it receives.
        if !self.settings.receives && !self.settings.starts_with_buffers() {
            return;
        }
        let mut left = self.lending.may_post(buffers, posted_most(&self.settings));
        while left > 0 {
            let mut count = 0;
            while count < BURST
                && left > 0
                && let Some((buffer, _)) = self.lending.post(buffers)
            {
                self.numbers[count] = buffer;
                count += 1;
                left -= 1;
            }
            device.post(&self.numbers[..count]);
            if count == 0 {
                return;
            }
        }
    }

    /// Looks, from time to time, how the device is.
    fn look(&mut self, now: Nanos) {
        if now < self.next_look {
            return;
        }
        self.next_look = now.plus(LOOK_NS);
        let Some(device) = &mut self.device else {
            self.attach_again();
            return;
        };
        let state = device.state();
        let lost = self.lending.posted().saturating_sub(state.empty);
        let is_card = self.settings.device.driver.is_none();
        if !is_card && (lost > 0 || state.has_fallen != 0) {
            self.recall(lost);
        }
        let is_up = self.runs && state.is_up != 0;
        self.counts.link_up += u64::from(is_up && !self.is_up);
        self.counts.link_lost += u64::from(self.is_up && !is_up);
        let was_up = std::mem::replace(&mut self.is_up, is_up);
        self.counts.now = state;
        let socket = self.settings.device.socket.as_ref();
        let calls = socket.is_some_and(|socket| !socket.is_ours);
        let since = *self.down_since.get_or_insert(now);
        if is_up {
            self.down_since = None;
        }
        let is_lost = !is_up && (was_up || now >= since.plus(GREETING_NS));
        let is_gone = self.interface.is_some() && self.interface != interface_of(&self.settings);
        if state.is_removed != 0 || is_gone || calls && is_lost {
            self.detach();
        }
    }

    /// The device has lost buffers, or has fallen over its peer: it is given others, and what it
    /// had comes home.
    #[cold]
    fn recall(&mut self, lost: u32) {
        self.counts.lost_buffers += u64::from(lost);
        self.give_up_pending();
        if let Some(device) = &mut self.device {
            device.recall();
        }
        self.lending.take_all();
        self.lending.want_stock(self.settings.sends_copies());
    }

    /// Has a card run, once it has buffers for all its rings: it fills them as it starts.
    #[cold]
    fn start(&mut self) {
        let Some(device) = &mut self.device else {
            return;
        };
        let (needed, posted) = (self.settings.rings(), self.lending.posted());
        if posted < needed {
            let device = &self.settings.device.name;
            self.failure.get_or_insert_with(|| DpdkError::NotStarted {
                device: device.clone(),
                needed,
                posted,
            });
            return;
        }
        match begin(&self.settings, device) {
            Ok(()) => {
                self.runs = true;
                self.failure = None;
                self.next_look = Nanos(0);
            }
            Err(error) => {
                self.failure = Some(error);
                self.detach();
            }
        }
    }

    /// The peer is back, perhaps.
    #[cold]
    fn attach_again(&mut self) {
        if may_be_heard(&self.settings) {
            // That it is not there yet is no failure: `detached` and `attached` count it.
            let _ = self.attach();
        }
    }

    /// Closes the device. What DPDK had is ours again; what it had taken to send counts as sent.
    #[cold]
    fn detach(&mut self) {
        let Some(mut device) = self.device.take() else {
            return;
        };
        self.counts.past = self.counts.past.plus(&device.state());
        self.counts.now = State::default();
        close(&self.settings, device);
        self.counts.detached += 1;
        self.counts.link_lost += u64::from(self.is_up && !self.is_closed);
        self.runs = false;
        self.is_up = false;
        self.down_since = None;
        self.give_up_pending();
        self.lending.take_all();
    }

    /// Has DPDK send what it has not taken yet.
    fn push_on(&mut self, now: Nanos) {
        let Some(device) = &mut self.device else {
            return;
        };
        if self.pending.is_empty() {
            self.moved = now;
            return;
        }
        let taken = device.tx(&mut self.pending);
        self.drop_unsent(taken);
        if taken > 0 {
            self.moved = now;
            self.is_stalled = false;
        } else if now >= self.moved.plus(STALL_NS) {
            self.is_stalled = true;
        }
        if self.is_stalled {
            self.counts.ring_full += self.pending.len() as u64;
            self.give_up_pending();
        }
    }

    /// Takes the first `taken` packets off those that wait; what DPDK cannot send fails.
    fn drop_unsent(&mut self, taken: usize) {
        for at in 0..taken {
            let slot = self.pending[at];
            if slot.flags == 0 {
                continue;
            }
            let is_long = slot.flags & TOO_LONG != 0;
            self.lending.counts.too_long += u64::from(is_long);
            self.lending.counts.refused += u64::from(!is_long);
            self.fail(slot.buffer);
        }
        self.pending.drain(..taken);
    }

    /// What DPDK has not taken will not be sent.
    fn give_up_pending(&mut self) {
        for at in 0..self.pending.len() {
            self.fail(self.pending[at].buffer);
        }
        self.pending.clear();
    }

    /// A packet that will not be sent.
    fn fail(&mut self, buffer: u32) {
        self.lending.fail(buffer, self.device.is_some());
    }

    /// Packets that DPDK can be given now.
    fn room(&self) -> usize {
        BURST - self.pending.len()
    }

    /// Copies packets that come without their pool into buffers of the stock.
    fn send_copies(&mut self, packets: &[Packet]) -> usize {
        let mut sent = 0;
        for packet in packets.iter().take(self.room()) {
            let copy = match self.lending.copy_of(packet) {
                Ok(copy) => copy,
                Err(NoCopy::TooLong) => continue,
                Err(NoCopy::Buffer) => break,
            };
            self.pending.push(slot_of(&copy));
            self.lending.put(Lent::Copy(copy));
            sent += 1;
        }
        sent
    }
}

/// Empty buffers that DPDK has at most.
fn posted_most(settings: &Settings) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "a few hundred")]
    let burst = BURST as u32;
    settings.rings() + burst
}

/// Where a packet lies, as DPDK is told.
fn slot_of(packet: &Packet) -> Slot {
    Slot {
        buffer: packet.buffer_index(),
        offset: packet.offset() - packet.buffer_offset(),
        len: u32::try_from(packet.len()).unwrap_or(u32::MAX),
        flags: 0,
    }
}

impl Port for DpdkPort {
    fn rx(&mut self, burst: &mut RxBurst<'_>, now: Nanos) -> RxState {
        let Some(device) = self.device.as_mut().filter(|_| self.runs) else {
            return RxState::Idle;
        };
        let room = burst.room().min(BURST);
        let mut slots = std::mem::take(&mut self.slots);
        let filled = device.rx(&mut slots[..room]);
        for slot in filled {
            let Some(mut packet) = self.lending.received(slot.buffer) else {
                continue;
            };
            let is_whole = slot.flags & BAD_SUM == 0;
            let offset = packet.buffer_offset().saturating_add(slot.offset);
            if is_whole && packet.lie_at(offset, slot.len).is_ok() {
                if slot.mark() != 0 {
                    packet.set_tag(slot.mark());
                }
                burst.push(packet);
            } else {
                self.counts.bad_sum += u64::from(!is_whole);
                self.lending.counts.refused += u64::from(is_whole);
                self.lending.unused(packet);
            }
        }
        let has_come = !filled.is_empty();
        self.slots = slots;
        if has_come {
            self.last_rx = now;
            // Before it is looked at again: an answer must find the link up.
            self.counts.link_up += u64::from(!self.is_up);
            self.is_up = true;
        }
        if has_come || self.settings.idle_ns == 0 || now < self.last_rx.plus(BUSY_NS) {
            RxState::More
        } else {
            RxState::Until(now.plus(self.settings.idle_ns))
        }
    }

    fn tx(&mut self, burst: &mut TxBurst<'_>, now: Nanos) -> usize {
        let count = burst.count();
        if self.device.is_none() || !self.is_up {
            self.counts.link_down += (count + self.pending.len()) as u64;
            self.give_up_pending();
            return 0;
        }
        let sent = if count == 0 {
            0
        } else if burst.can_keep() {
            let room = self.room();
            let pending = &mut self.pending;
            self.lending.keep(burst, room, |packet| {
                pending.push(slot_of(packet));
                true
            })
        } else {
            self.send_copies(burst.packets())
        };
        self.push_on(now);
        sent
    }

    fn reap(&mut self, buffers: &mut Buffers<'_>, now: Nanos) {
        self.complete(buffers);
        if !self.is_closed {
            self.look(now);
        }
        self.lending.give_back(buffers);
        if self.device.is_none() {
            return;
        }
        self.post(buffers);
        if !self.runs {
            self.start();
        }
        self.lending.restock(buffers);
    }

    fn tx_room(&mut self, _now: Nanos) -> usize {
        // What comes while it is down fails, so that it does not hold the chain up.
        if self.device.is_none() || !self.is_up {
            usize::MAX
        } else if self.settings.is_wrapped {
            self.lending.stock().min(self.room())
        } else {
            self.room()
        }
    }

    fn holds_packets(&self) -> bool {
        !self.pending.is_empty()
    }

    fn close(&mut self) -> Result<(), PortError> {
        self.is_closed = true;
        let detached = self.counts.detached;
        self.detach();
        self.counts.detached = detached;
        match self.failure.take() {
            Some(error) => Err(PortError(error.to_string())),
            None => Ok(()),
        }
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        self.counts.tell(&self.lending.counts, out);
    }
}
