//! Tests of a turn of one worker whose nodes are joined by queues.

use std::sync::{Arc, Mutex};

use catena_shm::pool::{PoolGeometry, PoolOwner};
use catena_shm::region::Sharing;
use catena_shm::tsc::Clock;

use super::*;
use crate::nf::{Emission, Nf};
use crate::port::Port;
use crate::probe::NodeCost;
use crate::stats::NodeCounters;
use crate::worker::graph::WorkerNode;
use crate::worker::holding::Holding;

/// Gives as many packets as there is room for; takes as many as it is told to, which stands first
/// in its list. Behind that, the list grows by one when the port is told that the chain takes
/// nothing.
struct Pacing {
    rooms: Arc<Mutex<Vec<usize>>>,
}

const LATER: Nanos = Nanos(1000);

impl Port for Pacing {
    fn rx(&mut self, burst: &mut RxBurst<'_>, _now: Nanos) -> RxState {
        while burst.room() > 0 && burst.push_copy(&[1; 60]) {}
        RxState::More
    }

    fn blocked(&mut self, _now: Nanos) {
        self.rooms.lock().unwrap().push(0);
    }

    fn tx(&mut self, burst: &mut TxBurst<'_>, _now: Nanos) -> usize {
        let mut rooms = self.rooms.lock().unwrap();
        rooms[0] = rooms[0]
            .checked_sub(burst.count())
            .expect("more than it takes");
        burst.count()
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
        counter_names: Vec::new(),
        work: Work::Port {
            port,
            receives,
            state: RxState::More,
        },
        input_numbers: (0..4).collect(),
        inputs,
        outputs,
        is_end: false,
        has_dropped: false,
        holding: Holding::default(),
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
        queues: vec![Load::default()],
        queue_targets: vec![1],
        congested: vec![false; 2],
        ..Graph::default()
    };
    let geometry = PoolGeometry {
        log2_stride: 7,
        buffer_count: 64,
        headroom: 64,
        bundles: false,
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
    let told = rooms.lock().unwrap().len() - 1;
    assert_eq!(told, 2, "once in each turn without room");
    assert_eq!(pools.own()[0].free_count(), 64);
}

/// A port whose packets come back to it in one loop: what it is given ends there.
#[test]
fn a_fused_loop_through_a_port_ends_at_the_port() {
    let rooms = Arc::new(Mutex::new(vec![4]));
    let mut node = port(true, &rooms);
    node.inputs = vec![InEdge::Local { queue: 0 }];
    let mut graph = Graph {
        nodes: vec![node],
        queues: vec![Load::default()],
        queue_targets: vec![0],
        congested: vec![false],
        ..Graph::default()
    };
    let geometry = PoolGeometry {
        log2_stride: 7,
        buffer_count: 64,
        headroom: 64,
        bundles: false,
    };
    let owner = PoolOwner::create(0, geometry, Sharing::ReadWrite).unwrap();
    let mut pools = Pools::new(vec![owner]);
    let mut turn = Turn::new(32, Probe::new(Clock::from_parts([0; 3]), None, 1));
    for turns in 1..4 {
        rooms.lock().unwrap()[0] = 4;
        assert!(turn.run(&mut graph, &mut pools, Nanos(1)));
        let counters = &graph.nodes[0].counters;
        assert_eq!(
            (counters.rx_packets, counters.tx_packets),
            (4 * turns, 4 * turns)
        );
        assert!(graph.queues[0].is_empty());
    }
    assert_eq!(pools.own()[0].free_count(), 64);
}

/// Takes all it is given, and gives as much back, a turn later.
#[derive(Default)]
struct Station {
    held: usize,
}

impl Nf for Station {
    fn process(&mut self, burst: &mut Burst<'_>, _now: Nanos) {
        // The verdict is left alone: at such an NF, packets end whatever it says.
        self.held += burst.len();
    }

    fn ends_paths(&self) -> bool {
        true
    }

    fn emit(&mut self, out: &mut Emission<'_>, now: Nanos) -> Option<Nanos> {
        while self.held > 0 && out.send(0, 60, now.0 as u16, |bytes| bytes.fill(2)) {
            self.held -= 1;
        }
        (self.held > 0).then_some(now.plus(5))
    }

    fn holds_packets(&self) -> bool {
        self.held > 0
    }
}

fn station(held: usize, input: usize, output: usize) -> WorkerNode {
    let work = Work::Nf(Box::new(Station { held }));
    WorkerNode {
        index: input,
        name: String::new(),
        counter_names: Vec::new(),
        is_end: work.ends_paths(),
        has_dropped: false,
        holding: Holding::of(&work),
        work,
        input_numbers: (0..4).collect(),
        inputs: vec![InEdge::Local { queue: input }],
        outputs: vec![OutEdge::Local { queue: output }],
        fan: 1,
        counters: NodeCounters::default(),
        cost: NodeCost::default(),
    }
}

/// Two NFs at which packets end, joined in a circle by queues.
fn circle(held: usize) -> (Graph, Pools) {
    let graph = Graph {
        nodes: vec![station(held, 0, 1), station(0, 1, 0)],
        queues: vec![Load::default(), Load::default()],
        queue_targets: vec![0, 1],
        congested: vec![false; 2],
        ..Graph::default()
    };
    let geometry = PoolGeometry {
        log2_stride: 7,
        buffer_count: 64,
        headroom: 64,
        bundles: false,
    };
    let owner = PoolOwner::create(0, geometry, Sharing::ReadWrite).unwrap();
    (graph, Pools::new(vec![owner]))
}

#[test]
fn packets_go_round_through_nfs_at_which_they_end() {
    let (mut graph, mut pools) = circle(40);
    let mut turn = Turn::new(32, Probe::new(Clock::from_parts([0; 3]), None, 1));
    for turns in 1..6_u64 {
        assert!(turn.run(&mut graph, &mut pools, Nanos(turns)));
        assert!(
            graph.queues.iter().all(|queue| queue.is_empty()),
            "nothing is left over"
        );
        assert_eq!(pools.own()[0].free_count(), 64);
        for node in &graph.nodes {
            let counters = &node.counters;
            let consumed = counters.drops[DropReason::Consumed.index()];
            assert_eq!(counters.rx_packets, counters.tx_packets + consumed);
        }
    }
    // A burst at most leaves in a turn; what was left over is asked for in time.
    assert_eq!(graph.nodes[0].counters.tx_packets, 3 * 32 + 2 * 8);
    assert!(graph.holds_packets());
}

#[test]
fn a_node_with_other_work_is_in_the_list_where_it_belongs() {
    let (mut graph, mut pools) = circle(40);
    let lists = |graph: &mut Graph| {
        let lists = graph.take_lists();
        let found = (lists.ports.clone(), lists.nfs.clone(), lists.passing_count);
        graph.lists = Some(lists);
        found
    };
    assert_eq!(lists(&mut graph), (vec![], vec![0, 1], 0));
    let index = graph.nodes[1].index;
    graph.replace_work(index, Work::Bypass, &mut pools);
    assert_eq!(lists(&mut graph), (vec![], vec![1, 0], 1));
    let rooms = Arc::new(Mutex::new(vec![0]));
    graph.nodes.push(port(false, &rooms));
    graph.lists = None;
    assert_eq!(lists(&mut graph), (vec![2], vec![1, 0], 1));
}

#[test]
fn what_waits_for_room_is_asked_for_again_and_the_last_turns_begin_nothing() {
    let (mut graph, mut pools) = circle(40);
    let mut turn = Turn::new(32, Probe::new(Clock::from_parts([0; 3]), None, 1));
    turn.run(&mut graph, &mut pools, Nanos(7));
    assert_eq!(turn.next_event, Some(Nanos(12)));
    turn.emitting = false;
    assert!(!turn.run(&mut graph, &mut pools, Nanos(20)));
    assert_eq!(turn.next_event, None);
}
