//! Tests of a turn of one worker whose nodes are joined by queues.

use std::sync::{Arc, Mutex};

use catena_shm::pool::{PoolGeometry, PoolOwner};
use catena_shm::region::Sharing;
use catena_shm::tsc::Clock;

use super::*;
use crate::port::Port;
use crate::probe::NodeCost;
use crate::stats::NodeCounters;
use crate::worker::graph::WorkerNode;

/// Gives as many packets as there is room for; takes as many as it is told to.
struct Pacing {
    rooms: Arc<Mutex<Vec<usize>>>,
}

const LATER: Nanos = Nanos(1000);

impl Port for Pacing {
    fn rx(&mut self, burst: &mut RxBurst<'_>, _now: Nanos) -> RxState {
        while burst.room() > 0 && burst.push_copy(&[1; 60]) {}
        RxState::More
    }

    fn tx(&mut self, packets: &mut [Packet], _now: Nanos) -> usize {
        let mut rooms = self.rooms.lock().unwrap();
        rooms[0] = rooms[0]
            .checked_sub(packets.len())
            .expect("more than it takes");
        packets.len()
    }

    fn tx_room(&mut self, _now: Nanos) -> usize {
        self.rooms.lock().unwrap()[0]
    }

    fn tx_room_at(&self) -> Option<Nanos> {
        Some(LATER)
    }
}

fn port(receives: bool, rooms: &Arc<Mutex<Vec<usize>>>) -> WorkerNode {
    let (inputs, outputs) = if receives {
        (Vec::new(), vec![OutEdge::Local { queue: 0 }])
    } else {
        (vec![InEdge::Local { queue: 0 }], Vec::new())
    };
    let port = Box::new(Pacing {
        rooms: rooms.clone(),
    });
    WorkerNode {
        index: usize::from(!receives),
        name: String::new(),
        work: Work::Port {
            port,
            receives,
            state: RxState::More,
        },
        inputs,
        outputs,
        fan: 1,
        counters: NodeCounters::default(),
        cost: NodeCost::default(),
    }
}

/// A port that paces holds back what is fused with it, as it would over a link: nothing is received
/// that it does not take, and nothing is left in a queue.
#[test]
fn a_fused_port_takes_no_more_than_it_says() {
    let rooms = Arc::new(Mutex::new(vec![0]));
    let mut graph = Graph {
        nodes: vec![port(true, &rooms), port(false, &rooms)],
        queues: vec![Vec::new()],
        queue_targets: vec![1],
        congested: vec![false; 2],
        ..Graph::default()
    };
    let geometry = PoolGeometry {
        log2_stride: 7,
        buffer_count: 64,
        headroom: 64,
        frames: false,
    };
    let owner = PoolOwner::create(0, geometry, Sharing::ReadWrite).unwrap();
    let mut pools = Pools::new(vec![owner]);
    let mut turn = Turn::new(32, Probe::new(Clock::from_parts([0; 3]), None, 1));
    let mut sent = 0;
    for room in [3, 0, 5, 100, 0] {
        rooms.lock().unwrap()[0] = room;
        turn.run(&mut graph, &mut pools, Nanos(1));
        sent += room.min(32) as u64;
        assert_eq!(graph.nodes[0].counters.rx_packets, sent, "room {room}");
        assert_eq!(graph.nodes[1].counters.tx_packets, sent, "room {room}");
        assert!(graph.queues[0].is_empty());
        assert_eq!(turn.next_event, (room == 0).then_some(LATER));
    }
    assert_eq!(pools.own()[0].free_count(), 64);
}
