//! Frames that an NF takes whole become what the same packets become one by one.

use catena_shm::pool::{PoolGeometry, PoolOwner};
use catena_shm::region::Sharing;
use catena_shm::ring_memory::{MappedRing, RingEnd, RingGeometry, Side};
use proptest::prelude::*;

use super::*;
use crate::chain::{Aggregate, Overflow, Trust};
use crate::link::{Inlet, RxLink, TxLink};
use crate::nf::{Burst, Nf, WholeFrames};
use crate::packet::Packet;
use crate::probe::NodeCost;
use crate::protocol::RingSpec;
use crate::stats::NodeCounters;
use crate::worker::holding::Holding;
use crate::worker::turn::Turn;
use catena_shm::tsc::Clock;

const SLOTS: u32 = 256;

/// Sends each packet where its first byte says, and counts it in its last.
struct Sorter {
    whole: bool,
    frames: u32,
}

fn sort_out(bytes: &mut [u8]) -> Verdict {
    *bytes.last_mut().unwrap() += 1;
    match bytes[0] {
        output @ 0..=2 => Verdict::Output(output),
        _ => Verdict::Drop(DropReason::own(0)),
    }
}

impl Nf for Sorter {
    fn process(&mut self, burst: &mut Burst<'_>, _now: Nanos) {
        for (packet, verdict) in burst.iter_mut() {
            *verdict = sort_out(packet.bytes_mut());
        }
    }

    fn whole_frames(&mut self) -> Option<&mut dyn WholeFrames> {
        self.whole.then_some(self)
    }

    fn control(&mut self, _request: &serde_json::Value) -> Result<serde_json::Value, String> {
        Ok(self.frames.into())
    }
}

impl WholeFrames for Sorter {
    fn process_frame(&mut self, frame: &mut Frame<'_>, _now: Nanos) {
        self.frames += 1;
        frame.judge_mut(sort_out);
    }
}

fn pools() -> Pools {
    let pool = |id, log2_stride, buffer_count, frames| {
        let headroom = if frames { 0 } else { 64 };
        let geometry = PoolGeometry {
            log2_stride,
            buffer_count,
            headroom,
            frames,
        };
        PoolOwner::create(id, geometry, Sharing::ReadWrite).unwrap()
    };
    Pools::new(vec![pool(1, 11, SLOTS, false), pool(2, 13, 64, true)])
}

fn link(index: usize) -> (TxLink, RxLink) {
    let geometry = RingGeometry {
        slot_count: SLOTS,
        staging_bytes: 0,
    };
    let spec = RingSpec {
        link: index,
        from: 0,
        to: 1,
        slot_count: SLOTS,
        staging_bytes: 0,
        trust: Trust::Shared,
        overflow: Overflow::Block,
        aggregate: Aggregate::On,
        frame_headroom: 0,
        tcp: None,
    };
    let producer = RingEnd::create(Side::Producer, geometry, 0).unwrap();
    let consumer = RingEnd::create(Side::Consumer, geometry, 0).unwrap();
    let mapped = || MappedRing::new(producer.clone(), consumer.clone());
    let receiving = RxLink::ring(&spec, Inlet::new(mapped(), 0));
    (TxLink::ring(&spec, mapped(), 0), receiving)
}

/// What came out of each output, in order; the NF's counters; how many frames it took whole.
type Outcome = ([Vec<Vec<u8>>; 2], NodeCounters, u64);

/// Bursts of packets through the NF, over links before and behind it.
fn run(bursts: &[Vec<Vec<u8>>], whole: bool) -> Outcome {
    let mut pools = pools();
    let (mut feed, input) = link(0);
    let ((first, mut from_first), (second, mut from_second)) = (link(1), link(2));
    let outputs = [first, second].map(|link| OutEdge::Link(Box::new(link)));
    let node = WorkerNode {
        index: 0,
        name: String::new(),
        counter_names: Vec::new(),
        work: Work::Nf(Box::new(Sorter { whole, frames: 0 })),
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
    for burst in bursts {
        let mut packets: Vec<Packet> = Vec::new();
        for bytes in burst {
            let mut packet = pools.alloc(bytes.len()).unwrap();
            packet.bytes_mut().copy_from_slice(bytes);
            packets.push(packet);
        }
        let bytes = crate::link::bytes_of(&packets);
        assert_eq!(feed.send(&mut packets, bytes, &mut pools).packets, 0);
        feed.settle();
        while turn.run(&mut graph, &mut pools, Nanos(1)) {}
        for (link, out) in [&mut from_first, &mut from_second]
            .into_iter()
            .zip(&mut out)
        {
            let mut packets = Vec::new();
            link.pull(usize::MAX, &mut pools, &mut packets);
            link.commit();
            out.extend(packets.iter().map(|packet| packet.bytes().to_vec()));
            pools.free_all(packets.into_iter());
        }
    }
    for pool in pools.own() {
        assert_eq!(pool.free_count(), pool.geometry().buffer_count);
    }
    let node = &mut graph.nodes[0];
    let Work::Nf(nf) = &mut node.work else {
        unreachable!("put in above")
    };
    let frames = nf.control(&serde_json::Value::Null).unwrap();
    (out, node.counters, frames.as_u64().unwrap())
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
    fn whole_frames_become_what_their_packets_do(bursts in bursts()) {
        let (singly, counters, none) = run(&bursts, false);
        let (whole, as_frames, frames) = run(&bursts, true);
        prop_assert_eq!(whole, singly);
        prop_assert_eq!(as_frames, counters);
        prop_assert_eq!(none, 0);
        // Frames of few packets are rather packed again than taken whole.
        let shares = |burst: &Vec<Vec<u8>>| {
            burst.len() >= 4 && burst.iter().all(|packet| packet.len() <= 512)
        };
        prop_assert!(frames > 0 || !bursts.iter().any(shares), "frames are taken whole");
    }
}
