//! `packet_socket`: the port over an interface's packet socket.
//!
//! What becomes of a received frame is in [`super::reception`].
//! While the interface is down nothing is received and what is sent fails; both work again when it
//! comes up. Once it is removed, what the ring holds of it is received yet; then the port is down
//! until an interface of that name is there again.

use std::cell::Cell;
use std::os::fd::BorrowedFd;

use catena_engine::config::parse_config;
use catena_engine::nf::Nanos;
use catena_engine::own_counters::CounterSink;
use catena_engine::packet::Packet;
use catena_engine::port::{
    Buffers, CapabilitySet, Port, PortError, PortKind, PortNeeds, RxBurst, RxState, TxBurst,
};

use super::config::Config;
use super::errors::SocketError;
use super::options::{Fanout, FanoutMode};
use super::reception::{Counts, Reception};
use super::socket::{PacketSocket, Statistics, group_of};
use crate::attachment::{self, Attachment};
use crate::offload::pending::Pending;
use crate::offload::vnet::header_of;
use crate::offload::{COUNTERS, Segments};
use crate::opening::{failed, parse, refused};

/// How often frames are offered to a queue that is full before they count as failed.
const TRIES: u32 = 4;
/// So often the kernel is asked what it dropped: seldom enough that the system call does not show.
const STATISTICS_EVERY_NS: u64 = 100_000_000;

/// A socket, and an interface that receives for all addresses; again when the interface returns.
const NEEDS: PortNeeds = PortNeeds::always(CapabilitySet::NET_RAW.union(CapabilitySet::NET_ADMIN));

/// The chain file's entry.
pub const KIND: PortKind = PortKind {
    name: "packet_socket",
    summary: "Exchanges packets with a network interface by the kernel's packet sockets",
    counters: &[
        "kernel_drops",
        "ring_full",
        "ring_malformed",
        "interface_down",
        "unsegmented",
        "cut_by_ring",
        "rejected",
        "queue_full",
        COUNTERS[0],
        COUNTERS[1],
        COUNTERS[2],
        attachment::COUNTERS[0],
        attachment::COUNTERS[1],
    ],
    drop_reasons: &[],
    needs: NEEDS,
    schema: || schemars::schema_for!(Config),
    check: |config| parse_config::<Config>(config)?.check(),
    open: |config, opening| {
        let config: Config = parse(config)?;
        config.check().map_err(refused)?;
        let mut socket = open_socket(&config, opening.queues)?;
        if let Err(SocketError::InterfaceDown) = socket.check() {
            let name = &config.interface;
            return Err(PortError(format!(
                "interface '{name}' is down: `ip link set dev {name} up`"
            )));
        }
        Ok(Box::new(PacketSocketPort {
            socket: Some(socket),
            carries: config.segments == Segments::Carry,
            config,
            queues: opening.queues,
            receives: opening.receives,
            pending: Pending::new(),
            is_removed: false,
            empty_since: None,
            attachment: Attachment::new(),
            counts: Counts::default(),
            past: Statistics::default(),
            statistics: Statistics::default(),
            statistics_at: Nanos(0),
            failure: None,
        }))
    },
};

/// Opens the socket of one of `queues` at the interface that has the name now.
fn open_socket(config: &Config, queues: u16) -> Result<PacketSocket, PortError> {
    let mut options = config.options();
    if queues > 1 && options.fanout.is_none() {
        options.fanout = Some(Fanout {
            group: group_of(&config.interface),
            mode: FanoutMode::FlowHash,
            rolls_over: false,
        });
    }
    PacketSocket::open(&config.interface, options).map_err(failed)
}

#[derive(Debug)]
struct PacketSocketPort {
    /// None while the interface is gone.
    socket: Option<PacketSocket>,
    config: Config,
    queues: u16,
    receives: bool,
    /// Whether what senders left to a card goes through the chain as it is.
    carries: bool,
    pending: Pending,
    /// The interface is gone, and the ring may hold frames of it.
    is_removed: bool,
    /// When that was seen and nothing was in the ring.
    empty_since: Option<Nanos>,
    attachment: Attachment,
    counts: Counts,
    /// Of sockets that are closed, and of this one when it was last asked.
    past: Statistics,
    statistics: Statistics,
    statistics_at: Nanos,
    failure: Option<PortError>,
}

impl PacketSocketPort {
    /// Notes an error that the interface has.
    #[cold]
    fn note(&mut self, error: &SocketError) {
        match error {
            SocketError::InterfaceDown => self.counts.down += 1,
            SocketError::InterfaceRemoved => {
                self.is_removed = true;
                if !self.receives {
                    self.detach();
                }
            }
            SocketError::System { .. } => {
                let failure = format!("interface '{}': {error}", self.config.interface);
                self.failure.get_or_insert(PortError(failure));
            }
        }
    }

    fn refresh_statistics(&mut self) {
        let socket = self.socket.as_mut();
        if let Some(Ok(statistics)) = socket.map(PacketSocket::statistics) {
            self.statistics = statistics;
        }
    }

    /// Lets go of an interface that is gone, and of its ring, which is empty.
    #[cold]
    fn detach(&mut self) {
        self.refresh_statistics();
        if self.socket.take().is_some() {
            self.past = self.past.plus(std::mem::take(&mut self.statistics));
            self.attachment.lost();
        }
        self.is_removed = false;
        self.empty_since = None;
    }

    /// Whether the ring of an interface that is gone will hand over nothing more: the kernel closes
    /// a block that has begun when it retires.
    #[cold]
    fn is_empty_for_good(&mut self, now: Nanos) -> bool {
        let since = *self.empty_since.get_or_insert(now);
        now.since(since) >= self.config.retires_within_ns()
    }
}

impl Port for PacketSocketPort {
    fn rx(&mut self, burst: &mut RxBurst<'_>, now: Nanos) -> RxState {
        // What was taken before the interface went is whole yet.
        self.pending.receive(burst);
        let limit = Cell::new(burst.room());
        if limit.get() == 0 {
            return RxState::More;
        }
        if now.since(self.statistics_at) >= STATISTICS_EVERY_NS {
            self.statistics_at = now;
            self.refresh_statistics();
        }
        let Some(socket) = &mut self.socket else {
            return RxState::Idle;
        };
        let mut reception = Reception {
            carries: self.carries,
            counts: &mut self.counts,
            pending: &mut self.pending,
        };
        let shown = socket.recv_while(&limit, |frame, info| {
            reception.receive(burst, frame, info);
            // One frame may have become several packets, or be in the middle of it.
            if burst.room() == 0 || !reception.pending.is_empty() {
                limit.set(0);
            }
        });
        match shown {
            Ok(0) => {}
            Ok(_) => return RxState::More,
            Err(error) => self.note(&error),
        }
        if self.is_removed && self.is_empty_for_good(now) {
            self.detach();
        }
        RxState::Idle
    }

    fn tx(&mut self, burst: &mut TxBurst<'_>, _now: Nanos) -> usize {
        let packets = burst.packets();
        let (mut taken, mut rejected) = (0, 0);
        for _ in 0..TRIES {
            let Some(socket) = self.socket.as_mut().filter(|_| !self.is_removed) else {
                self.counts.down += packets.len() as u64;
                return 0;
            };
            let frames = packets[taken..].iter();
            let result = if self.carries {
                let open = |packet: &Packet| header_of(packet.bytes(), packet.offload());
                let frames = frames.map(|packet| (open(packet), packet.bytes()));
                socket.send_open(frames)
            } else {
                socket.send(frames.map(Packet::bytes))
            };
            match result {
                Ok(sent) => {
                    taken += sent.taken;
                    rejected += sent.rejected;
                }
                Err(error) => {
                    self.note(&error);
                    self.counts.rejected += rejected as u64;
                    return taken - rejected;
                }
            }
            if taken == packets.len() {
                break;
            }
        }
        self.counts.rejected += rejected as u64;
        self.counts.queue_full += (packets.len() - taken) as u64;
        taken - rejected
    }

    fn reap(&mut self, _buffers: &mut Buffers<'_>, now: Nanos) {
        if self.socket.is_none()
            && self
                .attachment
                .is_back(&self.config.interface, now)
                .is_some()
        {
            let opened = open_socket(&self.config, self.queues);
            self.socket = self.attachment.regained(opened);
        }
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(PacketSocket::fd)
    }

    fn close(&mut self) -> Result<(), PortError> {
        self.refresh_statistics();
        let refusal = self.attachment.close();
        self.failure.take().or(refusal).map_or(Ok(()), Err)
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        let statistics = self.past.plus(self.statistics);
        out.extend([
            ("kernel_drops", statistics.drops),
            ("ring_full", statistics.freezes),
            ("ring_malformed", statistics.malformed),
            ("interface_down", self.counts.down),
            ("unsegmented", self.counts.unsegmented),
            ("cut_by_ring", self.counts.cut_by_ring),
            ("rejected", self.counts.rejected),
            ("queue_full", self.counts.queue_full),
            (COUNTERS[0], self.counts.carried),
            (COUNTERS[1], self.pending.packets),
            (COUNTERS[2], self.pending.segments),
        ]);
        out.extend(self.attachment.counters());
    }
}
