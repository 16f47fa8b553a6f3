//! Packets in bundles become what the same packets become one by one.

use std::time::Duration;

use catena_shm::pool::{PoolGeometry, PoolOwner};
use catena_shm::record_ring::{RecordPage, RecordReader};
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
use crate::probe::{NodeCost, ProbeSettings, Tier, Visit, VisitFlags};
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

/// Passes all on, and looks at bytes where they lie, in bundles.
struct Passer;

impl Nf for Passer {
    fn process(&mut self, burst: &mut Burst<'_>, _now: Nanos) {
        assert_eq!(burst.singly(), 0, "bundles arrive whole");
        burst.judge(|_| Verdict::Output(0));
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

fn nf(index: usize, nf: impl Nf + 'static, input: RxLink, outputs: Vec<TxLink>) -> WorkerNode {
    let outputs = outputs.into_iter();
    WorkerNode {
        index,
        name: String::new(),
        counter_names: Vec::new(),
        work: Work::Nf(Box::new(nf)),
        input_numbers: (0..4).collect(),
        inputs: vec![InEdge::Link(Box::new(input))],
        outputs: outputs.map(|link| OutEdge::Link(Box::new(link))).collect(),
        fan: 1,
        counters: NodeCounters::default(),
        cost: NodeCost::default(),
        is_end: false,
        has_dropped: false,
        holding: Holding::default(),
    }
}

/// Goal: probes change nothing of how packets travel. Method: bursts whose small packets share a
/// bundle go through three NFs, a link before and behind each, all packets with a mark; as many
/// bundles leave as without probes, and each packet has a visit at each NF, with the instants of
/// the bundle that it is in.
#[test]
fn bundles_stay_whole_while_their_packets_are_followed() {
    const NFS: usize = 3;
    let pass = |tier: Tier| {
        let mut pools = pools();
        let (mut feed, mut from_last) = link(0);
        let mut graph = Graph::default();
        for index in 0..NFS {
            let (sending, receiving) = link(index + 1);
            let input = std::mem::replace(&mut from_last, receiving);
            graph.nodes.push(nf(index, Passer, input, vec![sending]));
            graph.congested.push(false);
        }
        let page = RecordPage::create().unwrap();
        let (fd, len) = page.memory();
        let fd = fd.try_clone_to_owned().unwrap();
        let mut records = RecordReader::from_now(RecordPage::attach(fd, len).unwrap());
        let clock = Clock::calibrate(Duration::from_millis(1));
        let now = || Nanos(clock.now_ns());
        let mut turn = Turn::new(64, Probe::new(clock, Some(page), 1));
        let settings = ProbeSettings {
            tier,
            gap: 1,
            duration_ns: 1 << 40,
            marks: (1, 1),
        };
        turn.probe.set(settings, now());
        let (mut whole, mut singly) = (0, 0);
        for burst in 0..8_u16 {
            let mut load = Load::default();
            for number in 1..=32 {
                let mut packet = pools.alloc(60).unwrap();
                packet.bytes_mut().fill(0);
                packet.set_mark(burst * 32 + number);
                load.packets.push(packet);
            }
            load.count_bytes();
            assert_eq!(feed.send(&mut load, &mut pools).packets, 0);
            feed.settle();
            while turn.run(&mut graph, &mut pools, now()) {}
            let mut load = Load::default();
            from_last.pull(usize::MAX, &mut pools, &mut load, true);
            from_last.commit();
            (whole, singly) = (whole + load.bundled(), singly + load.packets.len());
            load.release(&mut pools);
        }
        let mut found = Vec::new();
        records.read(&mut found);
        let found = found.iter().map(Visit::from_record);
        let other = VisitFlags::COUNTS | VisitFlags::CURSOR;
        let visits: Vec<_> = found.filter(|visit| !visit.flags.has(other)).collect();
        (whole, singly, visits)
    };
    let (whole, singly, visits) = pass(Tier::Sums);
    assert_eq!((whole, singly), (8 * 32, 0), "they travel in bundles");
    assert!(visits.is_empty());
    let (whole, singly, visits) = pass(Tier::Full);
    assert_eq!((whole, singly), (8 * 32, 0), "probes take no bundle apart");
    assert_eq!(visits.len(), 8 * 32 * NFS);
    for burst in 0..8_u16 {
        for node in 0..NFS {
            let of =
                |visit: &&Visit| usize::from(visit.node) == node && (visit.mark - 1) / 32 == burst;
            let mut seen: Vec<_> = visits.iter().filter(of).collect();
            seen.sort_by_key(|visit| visit.mark);
            let marks = seen.iter().map(|visit| visit.mark);
            assert!(
                marks.eq(burst * 32 + 1..=burst * 32 + 32),
                "each packet once"
            );
            let instants = |visit: &&&Visit| (visit.begin, visit.entered, visit.left, visit.sent);
            let first = seen.first().unwrap();
            assert!(
                seen.iter()
                    .all(|visit| instants(&visit) == instants(&first))
            );
        }
        // Each next NF has it when the one before has sent it: the visits make one journey.
        let mut own = visits.iter().filter(|visit| visit.mark == burst * 32 + 7);
        let [one, two, three] = [own.next(), own.next(), own.next()].map(Option::unwrap);
        assert!(one.left <= one.sent && one.sent <= two.entered && two.sent <= three.entered);
        let links = [(one.output, two.input), (two.output, three.input)];
        assert_eq!(links, [(2, 2), (3, 3)]);
    }
}

/// Goal: of packets in bundles and between them, marks are found at their places, and only theirs.
#[test]
fn marks_are_found_within_bundles() {
    let mut pools = pools();
    let (mut feed, mut into) = link(0);
    let mut load = Load::default();
    let marked = [0, 5, 11, 30, 31, 39];
    for number in 0..40_usize {
        // Large ones travel by themselves.
        let len = if (10..14).contains(&number) { 1500 } else { 60 };
        let mut packet = pools.alloc(len).unwrap();
        packet.set_tag(3);
        if marked.contains(&number) {
            packet.set_mark(u16::try_from(number).unwrap() + 100);
        }
        load.packets.push(packet);
    }
    load.count_bytes();
    assert_eq!(feed.send(&mut load, &mut pools).packets, 0);
    feed.settle();
    let mut load = Load::default();
    assert_eq!(into.pull(64, &mut pools, &mut load, true), 40);
    assert!(load.bundles.len() > 1 && !load.packets.is_empty());
    assert_ne!(load.any_mark(), 0);
    let mut found = Vec::new();
    load.each_mark(|at, mark| found.push((at, usize::from(mark) - 100)));
    assert_eq!(found, marked.map(|at| (at, at)));
    load.release(&mut pools);
}

/// Bursts of packets through the NF, over links before and behind it.
fn run(bursts: &[Vec<Vec<u8>>], handles: bool) -> Outcome {
    let mut pools = pools();
    let (mut feed, input) = link(0);
    let ((first, mut from_first), (second, mut from_second)) = (link(1), link(2));
    let node = nf(0, Sorter { handles }, input, vec![first, second]);
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
