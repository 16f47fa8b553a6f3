//! A test bench for one port: packets in and out, at a time of the test's choosing.
//!
//! Not part of a chain. Port authors use it in tests; packets lie in real pools, which
//! [`PortBench`] keeps small enough to run out on purpose.

use std::fmt;
use std::path::Path;

use catena_engine::nf::{DropReason, Nanos};
use catena_engine::packet::Packet;
use catena_engine::pools::Pools;
use catena_engine::port::{Port, PortError, PortKind, RxBurst, RxState, TxBurst, WrapKind};
use catena_shm::pool::{PoolGeometry, PoolOwner};
use catena_shm::region::Sharing;
use serde_json::Value;

/// Buffers of each size on the bench: (binary logarithm of the bytes, count).
pub const BUFFERS: &[(u8, u32)] = &[(7, 512), (11, 512), (18, 2)];

/// A port on the bench.
pub struct PortBench {
    port: Box<dyn Port>,
    pools: Pools,
    drops: [u64; DropReason::COUNT],
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
    /// What the port knew afterwards.
    pub state: RxState,
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
        Self {
            port,
            pools: Pools::new(own.collect()),
            drops: [0; DropReason::COUNT],
            held: Vec::new(),
            now: Nanos(0),
        }
    }

    /// Checks a configuration and opens the port.
    ///
    /// # Errors
    /// What is wrong with the configuration or the world.
    pub fn open(kind: &PortKind, config: &Value, dir: &Path) -> Result<Self, PortError> {
        (kind.check)(config).map_err(crate::opening::refused)?;
        let port = (kind.open)(config, dir)?;
        named(port.as_ref(), 0, kind.name, kind.counters)?;
        Ok(Self::new(port))
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
        let port = (kind.wrap)(config, dir, inner)?;
        named(port.as_ref(), of_inner, kind.name, kind.counters)?;
        Ok(Self::new(port))
    }

    /// Receives up to `limit` packets and frees their buffers.
    pub fn rx(&mut self, limit: usize) -> Received {
        let mut packets = Vec::with_capacity(limit);
        let mut burst = RxBurst::new(&mut self.pools, &mut packets, limit, &mut self.drops);
        let state = self.port.rx(&mut burst, self.now);
        assert!(packets.len() <= limit, "more packets than room");
        let bytes = packets
            .iter()
            .map(|packet| packet.bytes().to_vec())
            .collect();
        for packet in packets {
            self.pools.free(packet);
        }
        Received {
            packets: bytes,
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

    /// Sends packets and gives how many the port says it sent.
    ///
    /// # Panics
    /// If there are more packets than buffers.
    pub fn tx<T: AsRef<[u8]>>(&mut self, frames: &[T]) -> usize {
        let mut packets: Vec<_> = frames
            .iter()
            .map(|frame| self.packet(frame.as_ref()))
            .collect();
        let sent = self.port.tx(&mut TxBurst::of(&mut packets), self.now);
        for packet in packets {
            self.pools.free(packet);
        }
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
        self.port.close()
    }

    /// Buffers in use, those of [`Self::exhaust`] included.
    pub fn buffers_in_use(&self) -> u32 {
        let own = self.pools.own().iter();
        own.map(|pool| pool.geometry().buffer_count - pool.free_count())
            .sum()
    }
}
