//! Tests of NFs that hold packets: whatever they do, each packet is somewhere, and each buffer.

use catena_shm::pool::{PoolGeometry, PoolOwner};
use catena_shm::region::Sharing;
use catena_shm::ring::Producer;
use catena_shm::ring_memory::{MappedRing, RingEnd, RingGeometry, Side};
use catena_shm::tsc::Clock;
use proptest::prelude::*;

use super::*;
use crate::drop_reason::DropReason;
use crate::load::Load;
use crate::nf::{BuildContext, Burst, Emission, Kept, Nf, Verdict};
use crate::pools::{Pools, ReturnLane};
use crate::probe::NodeCost;
use crate::stats::NodeCounters;
use crate::worker::graph::{Graph, InEdge, OutEdge, WorkerNode};
use crate::worker::probe::Probe;
use crate::worker::turn::Turn;

/// Does with each packet what its first byte says, and with each that it holds what that one's says
/// when its instant comes.
#[derive(Default)]
struct Whim {
    held: Vec<(Nanos, Kept)>,
    refused: u64,
}

impl Nf for Whim {
    fn process(&mut self, burst: &mut Burst<'_>, now: Nanos) {
        for index in 0..burst.len() {
            let whim = burst.packet(index).unwrap().bytes()[0];
            let due = now.plus(u64::from(whim));
            let kept = match whim % 6 {
                0 => None,
                1 => {
                    burst.set_verdict(index, Verdict::Drop(DropReason::own(0)));
                    None
                }
                2 => burst.clone_of(index),
                3 => burst.make(40, 7, |bytes| bytes.fill(whim)),
                4 => {
                    burst.copy_to(index, 1);
                    burst.keep(index)
                }
                _ => {
                    let kept = burst.keep(index);
                    self.refused += u64::from(burst.keep(index).is_some());
                    // What is kept is kept, whatever is said then.
                    burst.set_verdict(index, Verdict::Output(9));
                    kept
                }
            };
            self.held.extend(kept.map(|kept| (due, kept)));
        }
    }

    fn emits(&self) -> bool {
        true
    }

    fn emit(&mut self, out: &mut Emission<'_>, now: Nanos) -> Option<Nanos> {
        for (due, mut kept) in std::mem::take(&mut self.held) {
            let whim = out.kept(&kept).unwrap().bytes()[0];
            if due > now {
                self.held.push((due, kept));
            } else if whim.is_multiple_of(5) {
                out.drop_kept(kept, DropReason::own(0));
            } else {
                let twin = whim
                    .is_multiple_of(7)
                    .then(|| out.clone_kept(&kept))
                    .flatten();
                self.held.extend(twin.map(|twin| (now.plus(5), twin)));
                out.kept_mut(&mut kept).unwrap().bytes_mut()[0] |= 1;
                if let Err(kept) = out.send_kept(kept, whim % 2) {
                    self.held.push((due, kept));
                }
            }
        }
        self.held.iter().map(|(due, _)| *due).min()
    }
}

fn pool(id: u16, buffer_count: u32) -> PoolOwner {
    let geometry = PoolGeometry {
        log2_stride: 7,
        buffer_count,
        headroom: 64,
        bundles: false,
    };
    PoolOwner::create(id, geometry, Sharing::ReadWrite).unwrap()
}

/// The lane by which buffers of another worker's pool are returned.
fn lane_home(pool: u16) -> ReturnLane {
    let geometry = RingGeometry {
        slot_count: 256,
        staging_bytes: 0,
    };
    let ring = MappedRing::new(
        RingEnd::create(Side::Producer, geometry, 0).unwrap(),
        RingEnd::create(Side::Consumer, geometry, 0).unwrap(),
    );
    ReturnLane::new(0, Producer::new(ring, 0), vec![pool])
}

/// A graph of one NF between queues that the test fills and empties.
fn graph() -> Graph {
    let work = Work::Nf(Box::new(Whim::default()));
    let node = WorkerNode {
        index: 0,
        name: String::new(),
        counter_names: Vec::new(),
        holding: Holding::of(&work),
        work,
        input_numbers: (0..4).collect(),
        inputs: vec![InEdge::Local { queue: 0 }],
        outputs: vec![OutEdge::Local { queue: 1 }, OutEdge::Local { queue: 2 }],
        is_end: false,
        has_dropped: false,
        fan: 1,
        counters: NodeCounters::default(),
        cost: NodeCost::default(),
    };
    let behind = |index| WorkerNode {
        index,
        name: String::new(),
        counter_names: Vec::new(),
        holding: Holding::default(),
        work: Work::Bypass,
        input_numbers: (0..4).collect(),
        inputs: Vec::new(),
        outputs: Vec::new(),
        is_end: false,
        has_dropped: false,
        fan: 1,
        counters: NodeCounters::default(),
        cost: NodeCost::default(),
    };
    Graph {
        nodes: vec![node, behind(1), behind(2)],
        queues: vec![Load::default(), Load::default(), Load::default()],
        queue_targets: vec![0, 1, 2],
        congested: vec![false; 3],
        ..Graph::default()
    }
}

proptest! {
    /// Of pools of this worker's own, of which some packets are, and one that is another's.
    #[test]
    fn what_came_or_was_made_is_held_or_went(
        bursts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..12), 1..20),
    ) {
        let mut graph = graph();
        let mut pools = Pools::new(vec![pool(1, 24)]);
        let mut theirs = Pools::new(vec![pool(2, 240)]);
        pools.add_view(theirs.own()[0].view());
        pools.add_return_lane(lane_home(2));
        let mut turn = Turn::new(32, Probe::new(Clock::from_parts([0; 3]), None, 1));
        let mut came = 0;
        for (now, burst) in (0..).step_by(20).zip(bursts) {
            for (at, whim) in burst.into_iter().enumerate() {
                let from = if at % 2 == 0 { &mut pools } else { &mut theirs };
                let Ok(mut packet) = from.alloc(60) else { continue };
                packet.bytes_mut().fill(whim);
                graph.queues[0].packets.push(packet);
                graph.queues[0].bytes += 60;
                came += 1;
            }
            turn.run(&mut graph, &mut pools, Nanos(now));
            let counters = graph.nodes[0].counters;
            let held = graph.nodes[0].holding.hold.count();
            prop_assert_eq!(counters.rx_packets, came + counters.made);
            let gone = counters.tx_packets + counters.dropped();
            prop_assert_eq!(counters.rx_packets, gone + held);
            for queue in [1, 2] {
                graph.queues[queue].release(&mut pools);
            }
            // All that is held lies in pools of this worker.
            prop_assert_eq!(u64::from(24 - pools.own()[0].free_count()), held);
            let next = graph.nodes[0].holding.next;
            prop_assert_eq!(turn.next_event, next);
            prop_assert!(next.is_none_or(|next| next > Nanos(now)));
        }
        graph.replace_work(0, Work::Bypass, &mut pools);
        prop_assert_eq!(pools.own()[0].free_count(), 24);
    }
}

/// An NF that is never asked for what it keeps keeps nothing.
#[test]
fn what_nobody_would_ask_for_is_not_held() {
    struct Forgets;

    impl Nf for Forgets {
        fn process(&mut self, burst: &mut Burst<'_>, _now: Nanos) {
            let _ = burst.keep(0);
        }
    }

    let mut graph = graph();
    let mut pools = Pools::new(vec![pool(1, 24)]);
    graph.replace_work(0, Work::Nf(Box::new(Forgets)), &mut pools);
    graph.queues[0].packets.push(pools.alloc(60).unwrap());
    let mut turn = Turn::new(32, Probe::new(Clock::from_parts([0; 3]), None, 1));
    turn.run(&mut graph, &mut pools, Nanos(1));
    assert_eq!(graph.nodes[0].counters.drops[DropReason::Unsent.index()], 1);
    assert_eq!(pools.own()[0].free_count(), 24);
}

/// A `delay` of 1 ms takes the place of one of 3 ms, and holds one packet less.
#[test]
fn a_successor_goes_on_with_what_was_held() {
    let delay = |ms: u32, limit: u32| {
        let config = serde_json::json!({"time": format!("{ms}ms"), "limit": limit});
        let build = crate::nfs::delay::KIND.build;
        let outputs = ["out".to_owned()];
        Work::Nf(
            (build)(&config, &mut BuildContext::alone(&outputs))
                .unwrap()
                .nf,
        )
    };
    let mut graph = graph();
    let mut pools = Pools::new(vec![pool(1, 24)]);
    graph.replace_work(0, delay(3, 9), &mut pools);
    let mut turn = Turn::new(32, Probe::new(Clock::from_parts([0; 3]), None, 1));
    for at in 0..4_u8 {
        let mut packet = pools.alloc(60).unwrap();
        packet.bytes_mut().fill(at);
        graph.queues[0].packets.push(packet);
        turn.run(&mut graph, &mut pools, Nanos(1000 * u64::from(at)));
    }
    graph.replace_work(0, delay(1, 3), &mut pools);
    let counters = |graph: &Graph| graph.nodes[0].counters.drops[DropReason::Unsent.index()];
    assert_eq!(
        (counters(&graph), graph.nodes[0].holding.hold.count()),
        (1, 3)
    );
    assert_eq!(pools.own()[0].free_count(), 21);
    // Their time counts from when they came.
    turn.run(&mut graph, &mut pools, Nanos(1_001_000));
    let sent = |graph: &Graph| {
        let packets = graph.queues[1].packets.iter();
        packets.map(|packet| packet.bytes()[0]).collect::<Vec<_>>()
    };
    assert_eq!(sent(&graph), [0, 1]);
    turn.run(&mut graph, &mut pools, Nanos(1_002_000));
    assert_eq!(sent(&graph), [0, 1, 2]);
    // The ticket of the one that was dropped is used again, and no other.
    for at in 4..8_u8 {
        let mut packet = pools.alloc(60).unwrap();
        packet.bytes_mut().fill(at);
        graph.queues[0].packets.push(packet);
    }
    turn.run(&mut graph, &mut pools, Nanos(1_003_000));
    assert_eq!(graph.nodes[0].holding.hold.count(), 3);
    // Who takes nothing over leaves nothing behind.
    graph.replace_work(0, Work::Nf(Box::new(Whim::default())), &mut pools);
    assert_eq!(graph.nodes[0].holding.hold.count(), 0);
    graph.queues[1].release(&mut pools);
    assert_eq!(pools.own()[0].free_count(), 24);
}
