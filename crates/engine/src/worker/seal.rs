//! The end of a turn: it is made final, in the order that makes recovery exact.
//!
//! See [`catena_shm::ring`] for what each word means to whoever buries this worker.

use catena_shm::bell;

use crate::pools::Pools;
use crate::worker::graph::{Graph, InEdge, OutEdge, Work};

/// Makes the turn final.
pub(super) fn seal(graph: &mut Graph, pools: &mut Pools) {
    pools.publish_returns();
    commit_inputs(graph);
    pools.commit_home_lanes();
    for link in graph.tx_links_mut() {
        link.settle();
    }
    pools.settle_return_lanes();
    if !(pools.has_news() || graph.has_news()) {
        // An idle turn: nobody needs to be woken, so the fence, which is most of what such a turn
        // would cost, is left out.
        return;
    }
    bell::full_fence();
    for link in graph.tx_links_mut() {
        link.wake_peer();
    }
    for link in graph.rx_links_mut() {
        link.wake_peer();
    }
    pools.wake_owners();
}

/// Gives back the slots of what was pulled, and passes congestion on towards the chain's entry: an
/// input of a node is congested if any link that its packets can leave by is. What a port has been
/// given to send ends there.
fn commit_inputs(graph: &mut Graph) {
    for position in (0..graph.nodes.len()).rev() {
        let node = &mut graph.nodes[position];
        let mut congested = false;
        if !matches!(node.work, Work::Port { .. }) && !node.is_end {
            for output in &mut node.outputs {
                congested |= match output {
                    OutEdge::Open => false,
                    OutEdge::Local { queue } => graph.congested[graph.queue_targets[*queue]],
                    OutEdge::Link(link) => link.is_congested(),
                };
            }
        }
        graph.congested[position] = congested;
        for input in &mut node.inputs {
            if let InEdge::Link(link) = input {
                link.commit();
                link.set_congested(congested);
            }
        }
    }
}
