//! Tests of ports that keep packets, with a simulated device: whatever it does, in whatever order,
//! each packet is somewhere, and each buffer; also when the worker dies in between.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use catena_shm::pool::{LinkSet, PoolGeometry, read_ledger};
use catena_shm::region::Sharing;
use catena_shm::ring::Producer;
use catena_shm::ring_memory::{MappedRing, RingEnd, RingGeometry, Side};
use catena_shm::tsc::Clock;
use proptest::prelude::*;

use super::*;
use crate::link::Inlet;
use crate::load::Load;
use crate::nf::Nanos;
use crate::pools::{HomeLane, ReturnLane};
use crate::port::{Port, RxBurst, RxState};
use crate::probe::NodeCost;
use crate::worker::graph::{Graph, InEdge, OutEdge, Work, WorkerNode};
use crate::worker::holding::Holding;
use crate::worker::probe::Probe;
use crate::worker::turn::Turn;

const OWN: u32 = 48;
const THEIRS: u32 = 96;

/// What the device does in a turn.
#[derive(Clone, Debug, Default)]
struct Whim {
    /// Buffers that it wants to have.
    wants: usize,
    /// Packets that arrive, if it has as many buffers.
    arrive: usize,
    /// Packets that it takes to send.
    takes: usize,
    /// Which of those that it keeps it is done with; every third has failed.
    done: Vec<u8>,
    is_closed: bool,
}

/// A device that writes packets into buffers that it was given and keeps what it sends.
struct Device {
    memory: PoolMemory,
    whim: Arc<Mutex<Whim>>,
    posted: Vec<Packet>,
    kept: Vec<Packet>,
}

impl Port for Device {
    fn rx(&mut self, burst: &mut RxBurst<'_>, _now: Nanos) -> RxState {
        let arrive = self.whim.lock().unwrap().arrive.min(burst.room());
        for at in 0..arrive.min(self.posted.len()) {
            let mut packet = self.posted.swap_remove(at * 7 % self.posted.len());
            let start = packet.buffer_offset() + 30;
            packet.lie_at(start, 50).unwrap();
            packet.bytes_mut().fill(9);
            burst.push(packet);
        }
        RxState::Idle
    }

    fn tx(&mut self, burst: &mut TxBurst<'_>, _now: Nanos) -> usize {
        let takes = self.whim.lock().unwrap().takes;
        let before = self.kept.len();
        let taken = burst.keep(&self.memory, takes, |packet| self.kept.push(packet));
        let lies = self
            .kept
            .iter()
            .all(|packet| packet.pool() == self.memory.id());
        assert!(lies, "between turns only buffers of its own worker");
        assert_eq!(self.kept.len() - before, taken.packets);
        taken.packets
    }

    fn reap(&mut self, buffers: &mut Buffers<'_>, _now: Nanos) {
        let mut whim = self.whim.lock().unwrap();
        let all = if whim.is_closed { self.kept.len() } else { 0 };
        for pick in std::mem::take(&mut whim.done)
            .into_iter()
            .chain(vec![1; all])
        {
            if !self.kept.is_empty() {
                let at = usize::from(pick) % self.kept.len();
                let packet = self.kept.swap_remove(at);
                if pick % 3 == 0 {
                    buffers.failed(packet);
                } else {
                    buffers.sent(packet);
                }
            }
        }
        if whim.is_closed {
            self.posted
                .drain(..)
                .for_each(|packet| buffers.give_back(packet));
            return;
        }
        while self.posted.len() < whim.wants {
            let Some(packet) = buffers.take(&self.memory) else {
                break;
            };
            self.posted.push(packet);
        }
    }
}

fn owner(id: u16, buffer_count: u32) -> PoolOwner {
    let geometry = PoolGeometry {
        log2_stride: 7,
        buffer_count,
        headroom: 64,
        bundles: false,
    };
    PoolOwner::create(id, geometry, Sharing::ReadWrite).unwrap()
}

/// The device's worker, and another one whose packets it sends, too.
struct Scene {
    graph: Graph,
    pools: Pools,
    theirs: Pools,
    turn: Turn,
    whim: Arc<Mutex<Whim>>,
    /// Packets that the port was given to send.
    given: u64,
}

impl Scene {
    fn new() -> Self {
        let geometry = RingGeometry {
            slot_count: 256,
            staging_bytes: 0,
        };
        let producer = RingEnd::create(Side::Producer, geometry, 0).unwrap();
        let consumer = RingEnd::create(Side::Consumer, geometry, 0).unwrap();
        let mapped = || MappedRing::new(producer.clone(), consumer.clone());
        let mut pools = Pools::new(vec![owner(1, OWN)]);
        let mut theirs = Pools::new(vec![owner(2, THEIRS)]);
        pools.add_view(theirs.own()[0].view());
        pools.add_return_lane(ReturnLane::new(7, Producer::new(mapped(), 0), vec![2]));
        let inlet = Inlet::new(mapped(), 0);
        theirs.add_home_lane(HomeLane::new(0, inlet, LinkSet::ALL));
        let whim = Arc::<Mutex<Whim>>::default();
        let work = Work::Port {
            port: Box::new(Device {
                memory: pools.own()[0].device_memory(),
                whim: whim.clone(),
                posted: Vec::new(),
                kept: Vec::new(),
            }),
            receives: true,
            state: RxState::Idle,
        };
        let node = WorkerNode {
            index: 0,
            name: String::new(),
            counter_names: Vec::new(),
            holding: Holding::of(&work),
            work,
            input_numbers: (0..2).collect(),
            inputs: vec![InEdge::Local { queue: 0 }, InEdge::Local { queue: 1 }],
            outputs: vec![OutEdge::Local { queue: 0 }],
            is_end: false,
            has_dropped: false,
            fan: 1,
            counters: NodeCounters::default(),
            cost: NodeCost::default(),
        };
        Self {
            graph: Graph {
                nodes: vec![node],
                queues: vec![Load::default(), Load::default()],
                queue_targets: vec![0, 0],
                congested: vec![false],
                ..Graph::default()
            },
            pools,
            theirs,
            turn: Turn::new(32, Probe::new(Clock::from_parts([0; 3]), None, 1)),
            whim,
            given: 0,
        }
    }

    /// A turn in which `foreign` packets of the other worker are to be sent, too.
    fn turn(&mut self, foreign: usize, whim: Whim) {
        *self.whim.lock().unwrap() = whim;
        let mut packets: Vec<_> = (0..foreign)
            .map_while(|_| self.theirs.alloc(60).ok())
            .collect();
        for packet in &mut packets {
            packet.bytes_mut().fill(5);
        }
        self.theirs.send_out(&packets, 3);
        self.given += packets.len() as u64;
        self.graph.queues[1].packets.extend(packets);
        let before = self.graph.nodes[0].counters.rx_packets;
        self.turn.run(&mut self.graph, &mut self.pools, Nanos(1));
        self.given += self.graph.nodes[0].counters.rx_packets - before;
        self.theirs.take_returns();
        self.theirs.commit_home_lanes();
    }

    /// Packets sent, failed and held.
    fn fates(&self) -> [u64; 3] {
        let counters = &self.graph.nodes[0].counters;
        [counters.tx_packets, counters.dropped(), counters.held]
    }

    /// Own buffers that the device has, posted and kept.
    fn with_device(&self) -> u32 {
        OWN - self.pools.own()[0].free_count()
    }
}

fn whims() -> impl Strategy<Value = (usize, Whim)> {
    let done = prop::collection::vec(any::<u8>(), 0..9);
    (0..9_usize, 0..20_usize, 0..9_usize, 0..12_usize, done).prop_map(
        |(foreign, wants, arrive, takes, done)| {
            let whim = Whim {
                wants,
                arrive,
                takes,
                done,
                is_closed: false,
            };
            (foreign, whim)
        },
    )
}

proptest! {
    /// In every turn: what the port was given is sent, failed or held; no buffer of another worker
    /// is held; and the ledger calls home what the device has.
    #[test]
    fn what_a_device_keeps_is_accounted_for(
        turns in prop::collection::vec(whims(), 1..40),
        dies in any::<bool>(),
    ) {
        let mut scene = Scene::new();
        for (foreign, whim) in turns {
            scene.turn(foreign, whim);
            prop_assert_eq!(scene.given, scene.fates().iter().sum::<u64>());
            prop_assert_eq!(scene.theirs.own()[0].free_count(), THEIRS);
            prop_assert!(u64::from(scene.with_device()) >= scene.fates()[2]);
            prop_assert_eq!(scene.pools.own()[0].out_count(), 0);
        }
        let Scene { mut graph, mut pools, whim, .. } = scene;
        if dies {
            // Nobody gives anything back: the successor has what the ledger says.
            drop(graph);
            let owner = &pools.own()[0];
            let (fd, len) = owner.ledger();
            let ledger = fd.try_clone_to_owned().unwrap();
            let out = read_ledger(ledger, len, owner.geometry()).unwrap();
            prop_assert!(out.is_empty());
            let (fd, len) = owner.memory();
            let memory = fd.try_clone_to_owned().unwrap();
            let mut next = PoolOwner::adopt(1, owner.geometry(), memory, len, &out).unwrap();
            prop_assert_eq!(next.free_count(), OWN);
            let all: BTreeSet<_> =
                std::iter::from_fn(|| next.alloc(60)).map(|packet| packet.buffer_index()).collect();
            prop_assert_eq!(all.len(), OWN as usize);
        } else {
            whim.lock().unwrap().is_closed = true;
            graph.nodes[0].close_port(&mut pools).unwrap();
            prop_assert_eq!(pools.own()[0].free_count(), OWN);
            prop_assert_eq!(graph.nodes[0].counters.held, 0);
        }
    }
}

/// What lies in the device's pool goes to it as it is, everything else as a copy.
#[test]
fn only_what_lies_elsewhere_is_copied() {
    let mut pools = Pools::new(vec![owner(1, 8), owner(2, 8)]);
    let memory = pools.own()[0].device_memory();
    let mut load = Load::default();
    let mut own = pools.own_mut()[0].alloc(40).unwrap();
    own.bytes_mut().fill(1);
    own.set_tag(77);
    let mut other = pools.own_mut()[1].alloc(50).unwrap();
    other.bytes_mut().fill(2);
    other.set_tag(78);
    let place = own.bytes().as_ptr();
    load.packets.extend([own, other]);
    let mut kept = Vec::new();
    let mut burst = TxBurst::new(&mut load, &mut pools);
    let taken = burst.keep(&memory, 9, |packet| kept.push(packet));
    assert_eq!(
        (taken.packets, taken.copied, taken.copied_bytes),
        (2, 1, 50)
    );
    assert_eq!((burst.kept(), burst.count()), (2, 0));
    assert_eq!(kept[0].bytes().as_ptr(), place);
    assert_eq!((kept[1].pool(), kept[1].tag()), (1, 78));
    assert_eq!(kept[1].bytes(), [2; 50]);
    assert_eq!(pools.own()[1].free_count(), 8, "the original went home");
}

/// A port that was shown the memory of another worker's pool gets nothing to keep, whatever the
/// pools are called.
#[test]
fn memory_of_others_is_recognised() {
    let strange = owner(1, 8).device_memory();
    let mut pools = Pools::new(vec![owner(1, 8)]);
    let mut load = Load::default();
    load.packets.push(pools.alloc(40).unwrap());
    let mut burst = TxBurst::new(&mut load, &mut pools);
    let taken = burst.keep(&strange, 9, |_| unreachable!("nothing is kept"));
    assert_eq!((taken.packets, burst.count()), (0, 1));
    let mut counters = NodeCounters::default();
    let mut buffers = Buffers::new(&mut pools, &mut counters);
    assert!(buffers.take(&strange).is_none());
    assert_eq!(buffers.free_count(&strange), 0);
}
