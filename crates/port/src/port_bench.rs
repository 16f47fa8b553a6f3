//! A test bench for one port: packets in and out, at a time of the test's choosing.
//!
//! Not part of a chain. Port authors use it in tests; packets lie in real pools, which
//! [`PortBench`] keeps small enough to run out on purpose.

use std::fmt;
use std::path::Path;

use catena_engine::load::Load;
use catena_engine::nf::{DropReason, Nanos};
use catena_engine::packet::Packet;
use catena_engine::pools::Pools;
use catena_engine::port::{
    Buffers, Opening, Port, PortError, PortKind, RxBurst, RxState, TxBurst, WrapKind,
};
use catena_engine::stats::NodeCounters;
use catena_shm::pool::{PoolGeometry, PoolOwner};
use catena_shm::region::Sharing;
use serde_json::Value;

/// Buffers of each size on the bench: (binary logarithm of the bytes, count).
pub const BUFFERS: &[(u8, u32)] = &[(7, 512), (11, 512), (18, 2)];

/// A port on the bench.
pub struct PortBench {
    port: Box<dyn Port>,
    /// Another port of the same worker.
    other: Option<Box<dyn Port>>,
    pools: Pools,
    drops: [u64; DropReason::COUNT],
    /// What became of packets that the port kept.
    counters: NodeCounters,
    load: Load,
    /// Buffers that a test holds back.
    held: Vec<Packet>,
    /// The time of the next call.
    pub now: Nanos,
}

impl fmt::Debug for PortBench {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PortBench")
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

/// What one call of [`Port::rx`] gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The packets' bytes.
    pub packets: Vec<Vec<u8>>,
    /// Their tags.
    pub tags: Vec<u16>,
    /// What the port knew afterwards.
    pub state: RxState,
}

/// Pools with buffers of these sizes.
fn pools(buffers: &[(u8, u32)]) -> Pools {
    let own = (1..)
        .zip(buffers)
        .map(|(id, &(log2_stride, buffer_count))| {
            let geometry = PoolGeometry {
                log2_stride,
                buffer_count,
                headroom: 64,
                bundles: false,
            };
            PoolOwner::create(id, geometry, Sharing::ReadWrite).expect("memory for a test")
        });
    Pools::new(own.collect())
}

/// That the kind names all that the port counts, but for the first `of_inner` of them.
fn named(port: &dyn Port, of_inner: usize, kind: &str, names: &[&str]) -> Result<(), PortError> {
    let counted = port.report();
    let own = counted.iter().skip(of_inner).map(|(name, _)| *name);
    match own.into_iter().find(|name| !names.contains(name)) {
        Some(name) => Err(PortError(format!(
            "{kind} counts {name} and does not name it"
        ))),
        None => Ok(()),
    }
}

impl PortBench {
    /// Puts `port` on the bench.
    ///
    /// # Panics
    /// If there is no memory.
    pub fn new(port: Box<dyn Port>) -> Self {
        Self::with_buffers(port, BUFFERS)
    }

    /// Puts `port` on the bench with buffers of these sizes.
    ///
    /// # Panics
    /// If there is no memory.
    pub fn with_buffers(port: Box<dyn Port>, buffers: &[(u8, u32)]) -> Self {
        Self::with_pools(port, pools(buffers))
    }

    pub(crate) fn with_pools(port: Box<dyn Port>, pools: Pools) -> Self {
        Self {
            port,
            other: None,
            pools,
            drops: [0; DropReason::COUNT],
            counters: NodeCounters::default(),
            load: Load::default(),
            held: Vec::new(),
            now: Nanos(0),
        }
    }

    /// Checks a configuration and opens the port.
    ///
    /// # Errors
    /// What is wrong with the configuration or the world.
    pub fn open(kind: &PortKind, config: &Value, dir: &Path) -> Result<Self, PortError> {
        let pools = pools(BUFFERS);
        let memory: Vec<_> = pools.own().iter().map(PoolOwner::device_memory).collect();
        let opening = Opening {
            pools: &memory,
            ..Opening::alone(dir)
        };
        Self::open_with(kind, config, &opening, pools)
    }

    /// Whether all its buffers lie on huge pages.
    pub fn lies_on_huge_pages(&self) -> bool {
        self.pools.own().iter().all(PoolOwner::is_huge)
    }

    /// Opens another port beside the first one, for [`Self::pass`].
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn join(&mut self, kind: &PortKind, config: &Value) -> Result<(), PortError> {
        let own = self.pools.own().iter();
        let memory: Vec<_> = own.map(PoolOwner::device_memory).collect();
        let opening = Opening {
            pools: &memory,
            ..Opening::alone(Path::new("."))
        };
        self.other = Some((kind.open)(config, &opening)?);
        Ok(())
    }

    /// Receives up to `limit` packets by the first port and sends them by the other; gives how many
    /// that took.
    pub fn pass(&mut self, limit: usize) -> usize {
        self.reap();
        let packets = &mut self.load.packets;
        let mut burst = RxBurst::new(&mut self.pools, packets, limit, &mut self.drops);
        self.port.rx(&mut burst, self.now);
        let Some(other) = &mut self.other else {
            return 0;
        };
        let mut burst = TxBurst::new(&mut self.load, &mut self.pools);
        let sent = other.tx(&mut burst, self.now);
        self.counters.held += burst.kept() as u64;
        self.load.release(&mut self.pools);
        sent
    }

    /// Opens a port that is shown memory of `pools`.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_with(
        kind: &PortKind,
        config: &Value,
        opening: &Opening<'_>,
        pools: Pools,
    ) -> Result<Self, PortError> {
        (kind.check)(config).map_err(crate::opening::refused)?;
        let port = (kind.open)(config, opening)?;
        named(port.as_ref(), 0, kind.name, kind.counters)?;
        Ok(Self::with_pools(port, pools))
    }

    /// Checks a configuration and wraps `inner`.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn wrap(
        kind: &WrapKind,
        config: &Value,
        dir: &Path,
        inner: Box<dyn Port>,
    ) -> Result<Self, PortError> {
        (kind.check)(config).map_err(crate::opening::refused)?;
        let of_inner = inner.report().len();
        let port = (kind.wrap)(config, &Opening::alone(dir), inner)?;
        named(port.as_ref(), of_inner, kind.name, kind.counters)?;
        Ok(Self::new(port))
    }

    /// Receives up to `limit` packets and frees their buffers.
    pub fn rx(&mut self, limit: usize) -> Received {
        self.reap();
        let mut packets = Vec::with_capacity(limit);
        let mut burst = RxBurst::new(&mut self.pools, &mut packets, limit, &mut self.drops);
        let state = self.port.rx(&mut burst, self.now);
        assert!(packets.len() <= limit, "more packets than room");
        let bytes = packets
            .iter()
            .map(|packet| packet.bytes().to_vec())
            .collect();
        let tags = packets.iter().map(Packet::tag).collect();
        for packet in packets {
            self.pools.free(packet);
        }
        Received {
            packets: bytes,
            tags,
            state,
        }
    }

    /// Receives at times given by the port until it is finished, failed or idle, in bursts of
    /// `limit`; gives each packet with the time it was received at.
    ///
    /// # Panics
    /// If that does not happen in a million calls.
    pub fn rx_all(&mut self, limit: usize) -> (Vec<(Nanos, Vec<u8>)>, RxState) {
        let mut all = Vec::new();
        for _ in 0..1_000_000 {
            let received = self.rx(limit);
            all.extend(received.packets.into_iter().map(|bytes| (self.now, bytes)));
            match received.state {
                RxState::More => {}
                RxState::Until(time) => self.now = self.now.max(time),
                state => return (all, state),
            }
        }
        panic!("the port does not come to an end");
    }

    /// Lets the port give back what its device is done with, and take what it needs.
    pub fn reap(&mut self) {
        let mut buffers = Buffers::new(&mut self.pools, &mut self.counters);
        for port in [Some(&mut self.port), self.other.as_mut()]
            .into_iter()
            .flatten()
        {
            port.reap(&mut buffers, self.now);
        }
    }

    /// Sends packets and gives how many the port says it sent or keeps.
    ///
    /// # Panics
    /// If there are more packets than buffers.
    pub fn tx<T: AsRef<[u8]>>(&mut self, frames: &[T]) -> usize {
        self.reap();
        for frame in frames {
            let packet = self.packet(frame.as_ref());
            self.load.packets.push(packet);
        }
        let mut burst = TxBurst::new(&mut self.load, &mut self.pools);
        let sent = self.port.tx(&mut burst, self.now);
        self.counters.held += burst.kept() as u64;
        self.load.release(&mut self.pools);
        sent
    }

    fn packet(&mut self, bytes: &[u8]) -> Packet {
        let mut packet = self
            .pools
            .alloc(bytes.len())
            .expect("a buffer on the bench");
        packet.bytes_mut().copy_from_slice(bytes);
        packet
    }

    /// Takes buffers out of the pools until none for `len` bytes is left.
    pub fn exhaust(&mut self, len: usize) {
        while let Ok(packet) = self.pools.alloc(len) {
            self.held.push(packet);
        }
    }

    /// Gives back `count` of the buffers that [`Self::exhaust`] took.
    pub fn relieve(&mut self, count: usize) {
        for packet in self.held.drain(..count.min(self.held.len())) {
            self.pools.free(packet);
        }
    }

    /// The port.
    pub fn port(&mut self) -> &mut dyn Port {
        self.port.as_mut()
    }

    /// For how many microseconds the port's socket is polled by its calls, and whether that is
    /// preferred to interrupts: what the kernel says.
    ///
    /// # Panics
    /// The port has no socket, or it has no such options.
    pub fn busy_poll(&self) -> (i32, bool) {
        let socket = self.port.poll_fd().expect("a socket");
        crate::xdp::busy_poll(socket).expect("options of a socket")
    }

    /// Packets that the port keeps, has sent of those it kept, and has failed to send of them.
    pub fn kept(&self) -> (u64, u64, u64) {
        let counters = &self.counters;
        let failed = counters.drops[DropReason::TxFailed.index()];
        (counters.held, counters.tx_packets, failed)
    }

    /// Packets counted under a reason.
    pub fn drops(&self, reason: DropReason) -> u64 {
        self.drops[reason.index()]
    }

    /// Packets counted under any reason.
    pub fn drops_total(&self) -> u64 {
        self.drops.iter().sum()
    }

    /// A counter of the port's own.
    ///
    /// # Panics
    /// If it has none of that name.
    pub fn counter(&self, name: &str) -> u64 {
        let report = self.port.report();
        let entry = report.iter().find(|(entry, _)| *entry == name);
        entry.unwrap_or_else(|| panic!("no {name} in {report:?}")).1
    }

    /// Ends the port's work.
    ///
    /// # Errors
    /// What the port says.
    pub fn close(&mut self) -> Result<(), PortError> {
        let closed = self.port.close();
        let other = self.other.as_mut().map_or(Ok(()), |other| other.close());
        let closed = closed.and(other);
        self.reap();
        closed
    }

    /// Buffers in use, those of [`Self::exhaust`] included.
    pub fn buffers_in_use(&self) -> u32 {
        let own = self.pools.own().iter();
        own.map(|pool| pool.geometry().buffer_count - pool.free_count())
            .sum()
    }
}
