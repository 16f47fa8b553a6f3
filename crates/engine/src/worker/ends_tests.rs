//! Tests of a worker of one node with an end of a link over TCP beside it.

use std::io::Write;
use std::os::unix::net::UnixStream;

use catena_shm::pool::{PoolGeometry, PoolOwner};
use catena_shm::region::Sharing;
use catena_shm::tsc::Clock;

use super::*;
use crate::chain::{Overflow, Trust};
use crate::drop_reason::DropReason;
use crate::link::testing;
use crate::nf::Nanos;
use crate::pools::Pools;
use crate::protocol::Bind;
use crate::worker::probe::Probe;
use crate::worker::turn::Turn;

const LINK: usize = 7;
const LEN: usize = 60;

/// A worker of one node, which passes everything on.
struct Scene {
    graph: Graph,
    pools: Pools,
    turn: Turn,
    plugs: Plugs,
}

impl Scene {
    /// Packets come by `inputs` queues, and leave by one output.
    fn new(inputs: usize) -> Self {
        let geometry = PoolGeometry {
            log2_stride: 8,
            buffer_count: 32,
            headroom: 64,
            bundles: false,
        };
        let owner = PoolOwner::create(0, geometry, Sharing::ReadWrite).unwrap();
        let mut bypass = node(
            Box::new(TcpRx::<Arc<OwnedFd>>::new(0, 0, channel().1)),
            false,
        );
        bypass.work = Work::Bypass;
        bypass.outputs.push(OutEdge::Open);
        for queue in 0..inputs {
            bypass.add_input(InEdge::Local { queue }, 0);
        }
        Self {
            graph: Graph {
                nodes: vec![bypass],
                queues: (0..inputs).map(|_| Load::default()).collect(),
                queue_targets: vec![0; inputs],
                congested: vec![false],
                ..Graph::default()
            },
            pools: Pools::new(vec![owner]),
            turn: Turn::new(32, Probe::new(Clock::from_parts([0; 3]), None, 1)),
            plugs: Plugs::default(),
        }
    }

    fn join(&mut self, way: Way, port: Box<dyn Port>, plug: Sender<News>) {
        self.graph.add_end(LINK, 0, way, port).unwrap();
        self.plugs.add(LINK, plug);
    }

    /// A turn in which so many packets come by the first queue.
    fn turn(&mut self, count: usize) {
        for _ in 0..count {
            let packet = self.pools.alloc(LEN).unwrap();
            self.graph.queues[0].packets.push(packet);
        }
        if count > 0 {
            self.graph.queues[0].count_bytes();
        }
        self.turn.run(&mut self.graph, &mut self.pools, Nanos(1));
    }

    /// Packets that the node has received, sent, and dropped for this reason; all bytes it sent.
    fn counts(&self, reason: DropReason) -> [u64; 4] {
        let counters = &self.graph.nodes[0].counters;
        let dropped = counters.drops[reason.index()];
        assert_eq!(
            counters.tx_packets + counters.dropped(),
            counters.rx_packets
        );
        [
            counters.rx_packets,
            counters.tx_packets,
            dropped,
            counters.tx_bytes,
        ]
    }

    fn free_count(&self) -> u32 {
        self.pools.own()[0].free_count()
    }
}

fn spec(overflow: Overflow) -> RingSpec {
    RingSpec {
        link: LINK,
        staging_bytes: 1 << 16,
        trust: Trust::Copy,
        overflow,
        tcp: Some(Bind::Loopback),
        ..testing::spec(0)
    }
}

#[test]
fn what_an_end_cannot_send_was_not_sent_by_the_node_beside_it() {
    let mut scene = Scene::new(1);
    let (plug, news) = channel();
    let port = TcpTx::new(&spec(Overflow::DropTail), 0, news);
    scene.join(Way::Out(0), Box::new(port), plug);
    scene.turn(3);
    assert_eq!(
        scene.counts(DropReason::LinkFull),
        [3, 0, 3, 0],
        "not connected"
    );
    scene.plugs.peer_down(LINK);
    scene.turn(2);
    assert_eq!(scene.counts(DropReason::NfDown), [5, 0, 2, 0]);
    let (near, _far) = UnixStream::pair().unwrap();
    scene
        .plugs
        .join(Joined::Send(LINK, Some(Arc::new(near.into()))));
    scene.turn(4);
    let bytes = 4 * LEN as u64;
    assert_eq!(scene.counts(DropReason::LinkFull), [9, 4, 3, bytes]);
    let sent: Vec<_> = scene.graph.tx_counters().collect();
    assert_eq!(sent.len(), 1);
    assert_eq!(
        (sent[0].0, sent[0].1.packets, sent[0].1.bytes),
        (LINK, 4, bytes)
    );
    assert_eq!(scene.free_count(), 32);
}

#[test]
fn a_link_that_blocks_has_no_room_until_it_is_connected() {
    let mut scene = Scene::new(1);
    let (plug, news) = channel();
    let port = TcpTx::new(&spec(Overflow::Block), 0, news);
    scene.join(Way::Out(0), Box::new(port), plug);
    scene.turn(0);
    assert_eq!(scene.graph.room_for(0, 32), 0);
    let (near, _far) = UnixStream::pair().unwrap();
    scene
        .plugs
        .join(Joined::Send(LINK, Some(Arc::new(near.into()))));
    scene.turn(0);
    assert_eq!(scene.graph.room_for(0, 32), 32);
}

/// As a chain drains, what is on the way must still come; and who knows of it counts what is lost.
#[test]
fn an_end_receives_while_the_chain_drains_and_the_node_behind_it_counts_what_is_lost() {
    let mut scene = Scene::new(0);
    let (plug, news) = channel();
    scene.join(Way::In(0), Box::new(TcpRx::new(5, 100, news)), plug);
    let (near, mut far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    scene
        .plugs
        .join(Joined::Receive(LINK, Arc::new(near.into())));
    far.write_all(&8_u64.to_le_bytes()).unwrap();
    for word in [LEN as u32, 0, LEN as u32] {
        far.write_all(&word.to_le_bytes()).unwrap();
    }
    far.write_all(&[9; LEN]).unwrap();
    scene.turn.receiving = false;
    scene.turn(0);
    assert_eq!(scene.counts(DropReason::LinkLost), [4, 0, 3, 0]);
    let nodes = &mut scene.graph.nodes;
    nodes.iter_mut().for_each(WorkerNode::read_own_counters);
    let taken: Vec<_> = scene.graph.rx_counters().collect();
    assert_eq!((taken.len(), taken[0].0), (1, LINK));
    let counters = taken[0].1;
    assert_eq!((counters.packets, counters.discarded), (4, 3));
    assert_eq!((counters.bytes, counters.occupancy[1]), (LEN as u64, 1));
    assert!(scene.graph.sources_finished(), "a link is no source");
    assert_eq!(scene.free_count(), 32);
}
