//! Packets in bundles become what the same packets become one by one.

use catena_shm::pool::{PoolGeometry, PoolOwner};
use catena_shm::region::Sharing;
use proptest::prelude::*;

use catena_shm::tsc::Clock;

use super::*;
use crate::chain::Aggregate;
use crate::link::testing::{ends, spec};
use crate::link::{RxLink, TxLink};
use crate::load::Load;
use crate::nf::{Burst, Nf, Verdict};
use crate::packet::Packet;
use crate::probe::NodeCost;
use crate::protocol::RingSpec;
use crate::stats::NodeCounters;
use crate::worker::holding::Holding;

const SLOTS: u32 = 256;

/// Sends each packet where its first byte says, and counts it in its last. Changes the length and
/// the tag of some.
struct Sorter {
    handles: bool,
}

fn sort_out(packet: &mut Packet, verdict: &mut Verdict) {
    let bytes = packet.bytes_mut();
    *bytes.last_mut().unwrap() += 1;
    *verdict = match bytes[0] {
        output @ 0..=2 => Verdict::Output(output),
        3 => {
            packet.set_tag(5);
            packet.pull_front(1).unwrap();
            Verdict::Output(1)
        }
        _ => Verdict::Drop(DropReason::own(0)),
    };
}

impl Nf for Sorter {
    fn process(&mut self, burst: &mut Burst<'_>, _now: Nanos) {
        if self.handles {
            for (packet, verdict) in burst.iter_mut() {
                sort_out(packet, verdict);
            }
        } else {
            burst.each(sort_out);
        }
    }
}

fn pools() -> Pools {
    let pool = |id, log2_stride, buffer_count, bundles| {
        let headroom = if bundles { 0 } else { 64 };
        let geometry = PoolGeometry {
            log2_stride,
            buffer_count,
            headroom,
            bundles,
        };
        PoolOwner::create(id, geometry, Sharing::ReadWrite).unwrap()
    };
    Pools::new(vec![pool(1, 11, SLOTS, false), pool(2, 13, 64, true)])
}

fn link(index: usize) -> (TxLink, RxLink) {
    let (sending, receiving, _) = ends(&RingSpec {
        link: index,
        aggregate: Aggregate::On,
        ..spec(SLOTS)
    });
    (sending, receiving)
}

/// What came out of each output, in order, with its tag; the NF's counters; how many bundles came.
type Outcome = ([Vec<(Vec<u8>, u16)>; 2], NodeCounters, usize);

/// Bursts of packets through the NF, over links before and behind it.
fn run(bursts: &[Vec<Vec<u8>>], handles: bool) -> Outcome {
    let mut pools = pools();
    let (mut feed, input) = link(0);
    let ((first, mut from_first), (second, mut from_second)) = (link(1), link(2));
    let outputs = [first, second].map(|link| OutEdge::Link(Box::new(link)));
    let node = WorkerNode {
        index: 0,
        name: String::new(),
        counter_names: Vec::new(),
        work: Work::Nf(Box::new(Sorter { handles })),
        input_numbers: (0..4).collect(),
        inputs: vec![InEdge::Link(Box::new(input))],
        outputs: outputs.into(),
        fan: 1,
        counters: NodeCounters::default(),
        cost: NodeCost::default(),
        is_end: false,
        has_dropped: false,
        holding: Holding::default(),
    };
    let mut graph = Graph {
        nodes: vec![node],
        congested: vec![false],
        ..Graph::default()
    };
    let mut turn = Turn::new(32, Probe::new(Clock::from_parts([0; 3]), None, 1));
    let mut out = [Vec::new(), Vec::new()];
    let mut bundles = 0;
    for burst in bursts {
        let mut load = Load::default();
        for bytes in burst {
            let mut packet = pools.alloc(bytes.len()).unwrap();
            packet.bytes_mut().copy_from_slice(bytes);
            load.packets.push(packet);
        }
        load.count_bytes();
        assert_eq!(feed.send(&mut load, &mut pools).packets, 0);
        feed.settle();
        while turn.run(&mut graph, &mut pools, Nanos(1)) {}
        for (link, out) in [&mut from_first, &mut from_second]
            .into_iter()
            .zip(&mut out)
        {
            let mut load = Load::default();
            link.pull(usize::MAX, &mut pools, &mut load, true);
            link.commit();
            bundles += load.bundles.len();
            assert_eq!(load.take_apart(&mut pools), 0);
            let packets = load.packets.iter();
            out.extend(packets.map(|packet| (packet.bytes().to_vec(), packet.tag())));
            load.release(&mut pools);
        }
    }
    for pool in pools.own() {
        assert_eq!(pool.free_count(), pool.geometry().buffer_count);
    }
    (out, graph.nodes[0].counters, bundles)
}

fn bursts() -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
    let packet = (0_u8..5, prop_oneof![4 => 1_usize..100, 1 => 500_usize..600]);
    let packet = packet.prop_map(|(first, len)| {
        let mut bytes = vec![7; len + 1];
        bytes[0] = first;
        bytes
    });
    prop::collection::vec(prop::collection::vec(packet, 1..60), 1..8)
}

proptest! {
    #[test]
    fn bundles_become_what_their_packets_do(bursts in bursts()) {
        let (singly, counters, _) = run(&bursts, true);
        let (bundled, as_bundles, bundles) = run(&bursts, false);
        prop_assert_eq!(bundled, singly);
        prop_assert_eq!(as_bundles, counters);
        // Bundles of few packets are rather packed again.
        let shares = |burst: &Vec<Vec<u8>>| {
            burst.len() >= 8 && burst.iter().all(|packet| packet.len() <= 512 && packet[0] == 0)
        };
        prop_assert!(bundles > 0 || !bursts.iter().any(shares), "bundles go on as they are");
    }
}
