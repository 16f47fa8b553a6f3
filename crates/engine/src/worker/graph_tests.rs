//! Tests of how much room a worker's graph finds.

use super::*;
use crate::probe::NodeCost;
use crate::worker::holding::Holding;

fn node(index: usize, outputs: Vec<OutEdge>) -> WorkerNode {
    WorkerNode {
        index,
        name: String::new(),
        counter_names: Vec::new(),
        work: Work::Bypass,
        input_numbers: (0..4).collect(),
        inputs: Vec::new(),
        outputs,
        is_end: false,
        has_dropped: false,
        holding: Holding::default(),
        fan: 1,
        counters: NodeCounters::default(),
        cost: NodeCost::default(),
    }
}

/// So many forks whose branches meet again, one behind another.
fn diamonds(count: usize) -> Graph {
    let mut graph = Graph::default();
    let edge = |graph: &mut Graph, target| {
        graph.queues.push(Load::default());
        graph.queue_targets.push(target);
        OutEdge::Local {
            queue: graph.queues.len() - 1,
        }
    };
    for diamond in 0..count {
        let fork = 3 * diamond;
        for outputs in [vec![fork + 1, fork + 2], vec![fork + 3], vec![fork + 3]] {
            let outputs = outputs.into_iter().map(|to| edge(&mut graph, to)).collect();
            graph.nodes.push(node(graph.nodes.len(), outputs));
        }
    }
    graph.nodes.push(node(3 * count, Vec::new()));
    graph
}

/// A question that asked along each way would take 2^60 steps.
#[test]
fn a_node_that_many_ways_reach_is_asked_once() {
    let mut graph = diamonds(60);
    assert_eq!(graph.room(0, 32, 1), 32);
    assert_eq!(graph.output_room(0, 1, 7, 1), Some(7));
}
