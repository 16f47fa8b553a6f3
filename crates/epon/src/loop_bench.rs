//! A loop for tests: a `pktgenrcv`, and NFs through which its chunks go back to it, in one thread.

use std::collections::BTreeMap;
use std::path::Path;

use catena_engine::load::Load;
use catena_engine::nf::{
    BuildContext, BuiltNf, Burst, DropReason, Hold, Nanos, Nf, NfKind, Verdict,
};
use catena_engine::packet::Packet;
use catena_engine::pools::Pools;
use catena_engine::port::{Opening, Port, RxBurst, RxState, TxBurst};
use catena_shm::pool::{PoolGeometry, PoolOwner};
use catena_shm::region::Sharing;
use serde_json::{Value, json};

use crate::{l1sim, phy, pktgenrcv};

/// Buffers: log2 of the bytes, and how many.
const BUFFERS: [(u8, u32); 4] = [(7, 4), (11, 4), (14, 8), (18, 4)];

/// The loop.
pub(crate) struct LoopBench {
    port: Box<dyn Port>,
    nfs: Vec<BuiltNf>,
    pools: Pools,
    hold: Hold,
    /// What the engine's clock shows when it is looked at: once before each step of a turn.
    clock: Box<dyn FnMut() -> Nanos>,
    /// Whether chunks are copied between nodes, as links that copy do.
    pub(crate) copies_chunks: bool,
    /// Chunks that NFs dropped, by reason.
    pub(crate) dropped: Vec<DropReason>,
}

/// Counters by name.
pub(crate) type Counts = BTreeMap<&'static str, u64>;

impl LoopBench {
    /// A loop of one `pktgenrcv` and some NFs.
    pub(crate) fn new(port: &Value, nfs: &[(&NfKind, Value)]) -> Self {
        let (kind, dir) = (&pktgenrcv::KIND, Path::new("."));
        (kind.check)(port).expect("a right configuration");
        let port = (kind.open)(port, &Opening::alone(dir)).expect("nothing to open");
        let kernel = || Nanos(catena_shm::tsc::kernel_ns());
        Self::of(port, nfs, Box::new(kernel))
    }

    /// A loop of a port that is there, by a clock of the test's: each node has a turn of its own
    /// here, and looks at it once.
    pub(crate) fn of(
        port: Box<dyn Port>,
        nfs: &[(&NfKind, Value)],
        clock: Box<dyn FnMut() -> Nanos>,
    ) -> Self {
        let built = nfs.iter().map(|(kind, config)| {
            (kind.build)(config, &mut BuildContext::alone(&[])).expect("a right configuration")
        });
        let own = (1..).zip(BUFFERS).map(|(id, (log2_stride, buffer_count))| {
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
            nfs: built.collect(),
            pools: Pools::new(own.collect()),
            hold: Hold::default(),
            clock,
            copies_chunks: false,
            dropped: Vec::new(),
        }
    }

    /// A loop through a PHY of each end and a line: downstream or upstream.
    pub(crate) fn whole(port: &Value, direction: &str, phy: &Value, line: &Value) -> Self {
        let (from, to) = match direction {
            "downstream" => ("olt", "onu"),
            _ => ("onu", "olt"),
        };
        let with = |role: &str, direction: &str| {
            let mut config = phy.clone();
            config["role"] = json!(role);
            config["direction"] = json!(direction);
            config
        };
        Self::new(
            port,
            &[
                (&phy::KIND, with(from, "transmit")),
                (&l1sim::KIND, line.clone()),
                (&phy::KIND, with(to, "receive")),
            ],
        )
    }

    /// One turn: what the port sends goes through all NFs and back.
    pub(crate) fn turn(&mut self) -> RxState {
        let (mut packets, mut drops) = (Vec::new(), [0; DropReason::COUNT]);
        let mut burst = RxBurst::new(&mut self.pools, &mut packets, 64, &mut drops);
        let state = self.port.rx(&mut burst, (self.clock)());
        for nf in &mut self.nfs {
            if self.copies_chunks {
                let pools = &mut self.pools;
                let copy = |packet: Packet| {
                    let copy = pools.alloc_like(packet.len(), packet.buffer_log2());
                    let mut copy = copy.expect("a buffer");
                    copy.bytes_mut().copy_from_slice(packet.bytes());
                    pools.free(packet);
                    copy
                };
                packets = packets.into_iter().map(copy).collect();
            }
            let (mut load, mut verdicts) = (Load::default(), Vec::new());
            load.packets = packets;
            let (hold, pools) = (&mut self.hold, &mut self.pools);
            let mut burst = Burst::new(&mut load, &mut verdicts, hold, pools, 0);
            nf.nf.process(&mut burst, (self.clock)());
            let mut kept = Vec::new();
            for (packet, verdict) in load.packets.into_iter().zip(verdicts) {
                match verdict {
                    Verdict::Output(_) | Verdict::Kept => kept.push(packet),
                    Verdict::Drop(reason) => {
                        self.dropped.push(reason);
                        self.pools.free(packet);
                    }
                }
            }
            packets = kept;
        }
        let count = packets.len();
        let now = (self.clock)();
        assert_eq!(self.port.tx(&mut TxBurst::of(&mut packets), now), count);
        self.pools.free_all(packets.into_iter());
        state
    }

    /// Runs to the end; gives the port's counters.
    pub(crate) fn run(&mut self) -> Counts {
        while self.turn() != RxState::Finished {}
        self.port.close().expect("nothing to fail");
        let left: u32 = self.pools.own().iter().map(PoolOwner::out_count).sum();
        let free: u32 = self.pools.own().iter().map(PoolOwner::free_count).sum();
        let all: u32 = BUFFERS.iter().map(|(_, count)| count).sum();
        assert_eq!((left, free), (0, all), "every buffer is home");
        self.port.report().into_iter().collect()
    }

    /// An NF.
    pub(crate) fn nf(&mut self, index: usize) -> &mut dyn Nf {
        self.nfs[index].nf.as_mut()
    }

    /// Counters of an NF.
    pub(crate) fn counts(&mut self, index: usize) -> Counts {
        self.nf(index).report().into_iter().collect()
    }

    /// An NF is killed and replaced by one that has just begun.
    pub(crate) fn replace(&mut self, index: usize, kind: &NfKind, config: &Value) {
        self.nfs[index] = (kind.build)(config, &mut BuildContext::alone(&[])).expect("as before");
    }
}
