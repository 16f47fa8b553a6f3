//! `fault`: does to packets what a bad network does: loses, damages, duplicates, delays and
//! reorders them, each for received and for sent ones.
//!
//! A seed decides; the same seed does the same to the same sequence of packets, whenever they come.
//! What waits lies in memory of the wrapper's own, made when it is put around the port, so no
//! buffer of the chain is kept and no more than `hold` packets wait in each direction. When that is
//! full, received packets stay in the port inside, and packets to send in their link.
//!
//! | fault | what happens |
//! |---|---|
//! | loss | dropped: received ones as `fault_injected`, sent ones in the counter `tx_lost` |
//! | corrupt | one bit, anywhere in the packet, is inverted |
//! | duplicate | a copy follows |
//! | delay | all wait for `fixed` and up to `jitter`, and never for less, in order |
//! | reorder | passed by the next 1 to 3 packets, or goes on after 10 ms |
//!
//! A lost, or waiting, sent packet counts as sent by the engine, since it is the network that lost
//! it.

mod config;
mod lane;
mod shelf;
#[cfg(test)]
mod tests;

use std::os::fd::BorrowedFd;
use std::slice;

use catena_engine::nf::{DropReason, Nanos};
use catena_engine::own_counters::CounterSink;
use catena_engine::packet::Packet;
use catena_engine::port::{Buffers, Port, PortError, RxBurst, RxState, TxBurst, WrapKind};

pub use config::{Config, HOLD_LIMITS};

use crate::opening::{parse, refused};
use lane::Lane;

/// Most packets in a burst (`chain::model::BURST_LIMITS`), to which lists are sized once.
const BURST_MAX: usize = 256;

/// The chain file's entry.
pub const KIND: WrapKind = WrapKind {
    name: "fault",
    summary: "Loses, damages, duplicates, delays and reorders packets by a seed",
    counters: &[
        "rx_lost",
        "rx_corrupted",
        "rx_duplicated",
        "rx_reordered",
        "rx_held",
        "rx_skipped",
        "tx_lost",
        "tx_corrupted",
        "tx_duplicated",
        "tx_reordered",
        "tx_held",
        "tx_skipped",
        "tx_refused_late",
    ],
    schema: || schemars::schema_for!(Config),
    takes_singly: true,
    check: |config| catena_engine::config::parse_config::<Config>(config)?.check(),
    wrap: |config, _opening, inner| {
        let config: Config = parse(config)?;
        config.check().map_err(refused)?;
        // The seeds differ, so that the two directions do not suffer alike.
        let rx = config
            .rx
            .map(|faults| Lane::new(faults, config.seed, config.hold));
        let tx = config
            .tx
            .map(|faults| Lane::new(faults, !config.seed, config.hold));
        Ok(Box::new(Fault {
            inner,
            rx: rx.transpose()?,
            tx: tx.transpose()?,
            rx_end: None,
            arrived: Vec::with_capacity(BURST_MAX),
            now: Nanos(0),
            tx_refused_late: 0,
        }))
    },
};

/// The wrapper.
struct Fault {
    inner: Box<dyn Port>,
    rx: Option<Lane>,
    tx: Option<Lane>,
    /// How receiving ended inside, while packets still wait here.
    rx_end: Option<RxState>,
    arrived: Vec<Packet>,
    /// The time of the last call.
    now: Nanos,
    /// Packets that waited here and that the port inside then did not send.
    tx_refused_late: u64,
}

/// Receives waiting packets whose time has come, as long as there is `spare` room and a buffer.
fn release(lane: &mut Lane, burst: &mut RxBurst<'_>, spare: &mut usize, now: Nanos) {
    while *spare > 0
        && let Some(len) = lane.ready_len(now)
        && burst.has_buffer(len)
    {
        lane.take_ready(now, |packet| burst.push_copy(packet.bytes()));
        *spare -= 1;
    }
}

/// What a lane that waits answers: when to ask again.
fn waiting(lane: &Lane, now: Nanos) -> Option<RxState> {
    if lane.is_unsettled() {
        return Some(RxState::More);
    }
    lane.next_at().map(|time| {
        if time > now {
            RxState::Until(time)
        } else {
            RxState::More
        }
    })
}

/// A burst of one packet.
fn one(packet: &mut Packet) -> TxBurst<'_> {
    TxBurst::of(slice::from_mut(packet))
}

impl Fault {
    /// Sends waiting packets whose time has come, as long as the port inside has room.
    fn send_ready(&mut self, now: Nanos) {
        let Self {
            inner,
            tx,
            tx_refused_late,
            ..
        } = self;
        let Some(lane) = tx else { return };
        // Of one turn there are several calls, for each link, at the same time.
        if now > lane.held_at() {
            lane.settle(now);
        }
        while lane.ready_len(now).is_some() && inner.tx_room(now) > 0 {
            lane.take_ready(now, |packet| {
                let sent = inner.tx(&mut one(packet), now);
                *tx_refused_late += u64::from(sent == 0);
            });
        }
    }
}

impl Port for Fault {
    fn rx(&mut self, burst: &mut RxBurst<'_>, now: Nanos) -> RxState {
        let Some(lane) = &mut self.rx else {
            return self.inner.rx(burst, now);
        };
        lane.settle(now);
        let mut spare = burst.room();
        release(lane, burst, &mut spare, now);
        if spare == 0 {
            return RxState::More;
        }
        if let Some(end) = self.rx_end {
            return waiting(lane, now).unwrap_or(end);
        }
        // Each packet may need two places: its own and its copy's.
        let room = spare.min(lane.free() / 2);
        if room == 0 {
            return waiting(lane, now).unwrap_or(RxState::More);
        }
        let before = burst.packets_mut().len();
        let state = self.inner.rx(&mut burst.narrowed(room), now);
        self.arrived.extend(burst.packets_mut().drain(before..));
        spare -= self.arrived.len();
        for mut packet in self.arrived.drain(..) {
            let fate = lane.fate(packet.len());
            if fate.is_lost {
                burst.drop_packet(DropReason::FaultInjected);
                burst.discard(packet);
                spare += 1;
                continue;
            }
            if fate.waits() && lane.hold(packet.bytes(), &fate, now) {
                burst.discard(packet);
                spare += 1;
            } else {
                fate.corrupt(packet.bytes_mut());
                lane.pass(1);
                let copy = fate.is_duplicated.then_some(&packet);
                if let Some(original) = copy {
                    if spare > 0 && burst.push_copy(original.bytes()) {
                        spare -= 1;
                    } else {
                        lane.hold_copy(original.bytes(), now);
                    }
                }
                burst.push(packet);
            }
            release(lane, burst, &mut spare, now);
        }
        let ended = matches!(state, RxState::Finished | RxState::Failed);
        self.rx_end = ended.then_some(state);
        match (waiting(lane, now), state) {
            (None, state) | (Some(_), state @ RxState::More) => state,
            (Some(RxState::Until(own)), RxState::Until(inner)) => RxState::Until(own.min(inner)),
            (Some(own), _) => own,
        }
    }

    fn blocked(&mut self, now: Nanos) {
        self.inner.blocked(now);
    }

    fn tx(&mut self, burst: &mut TxBurst<'_>, now: Nanos) -> usize {
        self.now = now;
        self.send_ready(now);
        if self.tx.is_none() || burst.count() == 0 {
            return self.inner.tx(&mut TxBurst::of(burst.packets()), now);
        }
        let packets = burst.packets();
        let mut refused = 0;
        // Packets from here to `index` are plain and go together.
        let mut run = 0;
        for index in 0..packets.len() {
            let Some(lane) = &mut self.tx else { break };
            let fate = lane.fate(packets[index].len());
            if fate.is_plain() && !lane.is_overtaking() {
                continue;
            }
            lane.pass(index - run);
            let plain = &mut packets[run..index];
            if !plain.is_empty() {
                let count = plain.len();
                let sent = self.inner.tx(&mut TxBurst::of(plain), now);
                refused += count - sent.min(count);
            }
            run = index + 1;
            if fate.is_lost {
                continue;
            }
            let packet = &mut packets[index];
            // One that may only be read is damaged in a copy, which waits for no time at all.
            let must_copy = fate.flips() && !packet.is_writable();
            if !(fate.waits() || must_copy) || !lane.hold(packet.bytes(), &fate, now) {
                if packet.is_writable() {
                    fate.corrupt(packet.bytes_mut());
                }
                lane.pass(1);
                refused += 1 - self.inner.tx(&mut one(packet), now).min(1);
                if fate.is_duplicated {
                    self.inner.tx(&mut one(packet), now);
                }
            }
            self.send_ready(now);
        }
        let rest = &mut packets[run..];
        if !rest.is_empty() {
            let count = rest.len();
            refused += count - self.inner.tx(&mut TxBurst::of(rest), now).min(count);
        }
        packets.len() - refused
    }

    fn reap(&mut self, buffers: &mut Buffers<'_>, now: Nanos) {
        self.inner.reap(buffers, now);
    }

    fn tx_room(&mut self, now: Nanos) -> usize {
        self.send_ready(now);
        let inner = self.inner.tx_room(now);
        match &self.tx {
            None => inner,
            Some(lane) if lane.delays() => lane.free() / 2,
            Some(lane) => inner.min(lane.free() / 2),
        }
    }

    fn tx_room_at(&self) -> Option<Nanos> {
        let own = self.tx.as_ref().and_then(Lane::next_at);
        [own, self.inner.tx_room_at()].into_iter().flatten().min()
    }

    fn holds_packets(&self) -> bool {
        self.tx
            .as_ref()
            .is_some_and(|lane| lane.next_at().is_some())
            || self.inner.holds_packets()
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.poll_fd()
    }

    fn close(&mut self) -> Result<(), PortError> {
        let (now, inner) = (self.now, &mut self.inner);
        if let Some(lane) = &mut self.tx {
            let late = &mut self.tx_refused_late;
            lane.take_all(|packet| {
                *late += u64::from(inner.tx(&mut one(packet), now) == 0);
            });
        }
        self.inner.close()
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        self.inner.counters(out);
        if let Some(lane) = &self.rx {
            let names = [
                "rx_lost",
                "rx_corrupted",
                "rx_duplicated",
                "rx_reordered",
                "rx_held",
                "rx_skipped",
            ];
            out.extend(names.into_iter().zip(lane.counts()));
        }
        if let Some(lane) = &self.tx {
            let names = [
                "tx_lost",
                "tx_corrupted",
                "tx_duplicated",
                "tx_reordered",
                "tx_held",
                "tx_skipped",
            ];
            out.extend(names.into_iter().zip(lane.counts()));
            out.put("tx_refused_late", self.tx_refused_late);
        }
    }
}
