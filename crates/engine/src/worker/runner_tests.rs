//! Tests of falling asleep: what comes in the last look before it is not slept over.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Instant;

use catena_shm::pool::{PoolGeometry, PoolOwner};
use catena_shm::region::Sharing;

use super::*;
use crate::link::TxLink;
use crate::link::testing::{ends, spec};
use crate::load::Load;
use crate::port::{Port, RxBurst, TxBurst};
use crate::probe::NodeCost;
use crate::protocol::RingSpec;
use crate::stats::NodeCounters;
use crate::worker::graph::{InEdge, OutEdge, WorkerNode};
use crate::worker::holding::Holding;
use crate::worker::probe::Probe;

/// Longer than a test that works takes, by far.
const LONG_NS: u64 = 20_000_000_000;

fn link(index: usize, slot_count: u32) -> (TxLink, RxLink) {
    let (sending, receiving, _) = ends(&RingSpec {
        link: index,
        ..spec(slot_count)
    });
    (sending, receiving)
}

fn node(work: Work, inputs: Vec<InEdge>, outputs: Vec<OutEdge>) -> WorkerNode {
    WorkerNode {
        index: 0,
        name: String::new(),
        counter_names: Vec::new(),
        holding: Holding::of(&work),
        work,
        input_numbers: (0..4).collect(),
        inputs,
        outputs,
        is_end: false,
        has_dropped: false,
        fan: 1,
        counters: NodeCounters::default(),
        cost: NodeCost::default(),
    }
}

fn runner(node: WorkerNode, pools: Pools) -> Runner {
    let clock = Clock::from_parts([0; 3]);
    let (_, commands) = channel();
    let layout = PageLayout::default();
    let graph = Graph {
        nodes: vec![node],
        congested: vec![false],
        ..Graph::default()
    };
    Runner {
        worker: 0,
        graph,
        pools,
        turn: Turn::new(32, Probe::new(clock, None, 1)),
        clock,
        wait: WaitPolicy {
            spin_ns: 0,
            yields: 0,
            sleeps: true,
        },
        counters: Arc::new(Counters::create(layout.word_count()).unwrap()),
        layout,
        commands,
        doorbell: Arc::new(Doorbell::default()),
        watch: Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC).unwrap()),
        report: Box::new(|_| true),
        sums: WorkerCounters::default(),
        drain_round: 0,
        drained_said: false,
        is_held: false,
        words: Vec::new(),
        sockets: None,
        stored_at: 0,
    }
}

fn sleep_long(runner: &mut Runner) -> Duration {
    let now = runner.clock.now_ns();
    let start = Instant::now();
    runner.sleep(now, now + LONG_NS);
    start.elapsed()
}

/// A packet that comes in the last look and meets a full link: the receiver is asked to ring before
/// anybody sleeps.
#[test]
fn a_link_found_full_in_the_last_look_is_not_slept_over() {
    let geometry = PoolGeometry {
        log2_stride: 7,
        buffer_count: 8,
        headroom: 64,
        bundles: false,
    };
    let owner = PoolOwner::create(0, geometry, Sharing::ReadWrite).unwrap();
    let ((mut feed, input), (output, mut behind)) = (link(0, 1), link(1, 1));
    let inputs = vec![InEdge::Link(Box::new(input))];
    let outputs = vec![OutEdge::Link(Box::new(output))];
    let mut runner = runner(node(Work::Bypass, inputs, outputs), Pools::new(vec![owner]));
    let mut send = |runner: &mut Runner| {
        let mut load = Load::default();
        load.packets.push(runner.pools.alloc(60).unwrap());
        load.count_bytes();
        let sent = feed.send(&mut load, &mut runner.pools);
        assert_eq!(sent.packets, 0);
        feed.settle();
    };
    let turn = |runner: &mut Runner| {
        let now = Nanos(runner.clock.now_ns());
        runner.turn.run(&mut runner.graph, &mut runner.pools, now)
    };
    send(&mut runner);
    assert!(turn(&mut runner), "the link behind is full now");
    send(&mut runner);
    // The look before the sleep finds it.
    sleep_long(&mut runner);
    assert_eq!(runner.sums.sleeps, 0);
    let elapsed = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut pools = Pools::new(Vec::new());
            while !behind.is_sender_waiting() {
                std::thread::yield_now();
            }
            // Of a pool that is not known here: refused, and its slot given back all the same.
            behind.pull(1, &mut pools, &mut Load::default(), true);
            behind.commit();
            bell::full_fence();
            behind.wake_peer();
        });
        sleep_long(&mut runner)
    });
    assert_eq!(runner.sums.sleeps, 1);
    assert!(elapsed < Duration::from_nanos(LONG_NS / 2), "{elapsed:?}");
    assert!(turn(&mut runner), "there is room");
}

/// Says, each time it is asked, that it will have something a little later.
struct Soon(Arc<Mutex<u64>>);

impl Port for Soon {
    fn rx(&mut self, _burst: &mut RxBurst<'_>, now: Nanos) -> RxState {
        let due = now.plus(3_000_000);
        *self.0.lock().unwrap() = due.0;
        RxState::Until(due)
    }

    fn tx(&mut self, burst: &mut TxBurst<'_>, _now: Nanos) -> usize {
        burst.count()
    }
}

#[test]
fn an_instant_that_a_port_names_in_the_last_look_is_not_slept_over() {
    let due = Arc::default();
    let port = Work::Port {
        port: Box::new(Soon(Arc::clone(&due))),
        receives: true,
        state: RxState::Idle,
    };
    let mut runner = runner(node(port, Vec::new(), vec![]), Pools::new(Vec::new()));
    let elapsed = sleep_long(&mut runner);
    assert_eq!(runner.sums.sleeps, 1);
    assert!(elapsed < Duration::from_nanos(LONG_NS / 2), "{elapsed:?}");
}
