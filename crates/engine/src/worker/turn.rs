//! One turn of a worker: the run loop's body, and the path of a packet through it.
//!
//! 1. Buffers come home.
//! 2. Ports receive; NFs at which packets end send what they hold or have made.
//! 3. Each NF takes what has arrived and its verdicts are carried out; then it sends what it holds
//!    or has made. Those at which packets end are last and send in the next turn, so that no queue
//!    holds a packet between turns.
//! 4. Ports give back what their devices are done with, and send.
//! 5. The turn is sealed: returns are published, tails committed, heads settled, sleeping
//!    neighbours woken. This order makes recovery exact (see [`catena_shm::ring`]).
//!
//! Between turns a worker holds only packets that its NFs and ports have kept, in buffers of pools
//! that it owns: to whoever buries it they are at home.

mod emitting;
mod ends;

use std::sync::Arc;

use catena_shm::counters::Counters;

use crate::drop_reason::DropReason;
use crate::link::{Dropped, bytes_of};
use crate::load::Load;
use crate::nf::{Burst, Moved, Nanos, Verdict};
use crate::pools::Pools;
use crate::port::{Buffers, RxBurst, RxState, TxBurst};
use crate::stats::PageLayout;
use crate::worker::graph::{Graph, InEdge, OutEdge, Work, WorkerNode};
use crate::worker::link_end::link_number;
use crate::worker::probe::{Exit, Probe};
use crate::worker::seal::seal;
use crate::worker::split::{drop, split};

/// What a turn needs besides the graph; its vectors are kept from turn to turn, so that the data
/// path does not allocate.
#[derive(Debug)]
pub struct Turn {
    /// Packets in a burst.
    pub burst: usize,
    /// Whether ports still receive; false while draining.
    pub receiving: bool,
    /// Whether NFs may send packets of their own making; false in the last turns.
    pub emitting: bool,
    /// When a port that has nothing now will have something, if it said so, or an NF is to be
    /// asked.
    pub next_event: Option<Nanos>,
    /// What is noted of packets on their way.
    pub probe: Probe,
    /// The counters page, for what must stand there before packets leave.
    pub page: Option<(Arc<Counters>, PageLayout)>,
    load: Load,
    verdicts: Vec<Verdict>,
    by_output: Vec<Load>,
    rooms: Vec<usize>,
}

impl Turn {
    /// Scratch space for bursts of `burst` packets, and the worker's probes.
    pub fn new(burst: usize, probe: Probe) -> Self {
        Self {
            burst,
            receiving: true,
            emitting: true,
            next_event: None,
            probe,
            page: None,
            load: Load::with_capacity(burst),
            verdicts: Vec::with_capacity(burst),
            by_output: Vec::new(),
            rooms: Vec::new(),
        }
    }

    /// Runs one turn at time `now`; says whether any packet moved.
    pub fn run(&mut self, graph: &mut Graph, pools: &mut Pools, now: Nanos) -> bool {
        self.probe.begin_turn(now);
        self.next_event = graph.ask_ports(now);
        let mut moved = pools.take_returns() > 0;
        let lists = graph.take_lists();
        let (passing, ending) = lists.nfs.split_at(lists.passing_count);
        if self.receiving {
            for &port in &lists.ports {
                moved |= self.receive(graph, pools, port, now);
            }
        }
        moved |= self.receive_by_links(graph, pools, now);
        for &nf in ending {
            moved |= self.emit_from(graph, pools, nf, now);
        }
        for &nf in passing {
            moved |= self.process(graph, pools, nf, now);
            moved |= self.emit_from(graph, pools, nf, now);
        }
        for &nf in ending {
            moved |= self.process(graph, pools, nf, now);
        }
        for &port in &lists.ports {
            moved |= self.transmit(graph, pools, port, now);
        }
        moved |= self.transmit_by_links(graph, pools, now);
        graph.lists = Some(lists);
        seal(graph, pools);
        if moved {
            self.probe.end_busy_turn();
        }
        moved
    }

    /// Step 2: a port receives as many packets as can be passed on.
    fn receive(
        &mut self,
        graph: &mut Graph,
        pools: &mut Pools,
        position: usize,
        now: Nanos,
    ) -> bool {
        let Work::Port {
            receives: true,
            state,
            ..
        } = &graph.nodes[position].work
        else {
            return false;
        };
        if matches!(state, RxState::Finished | RxState::Failed) {
            return false;
        }
        let room = graph.room(position, self.burst, 1);
        let congested = entry_is_congested(graph, position);
        let node = &mut graph.nodes[position];
        let Work::Port { port, state, .. } = &mut node.work else {
            return false;
        };
        if room == 0 || congested {
            // Blocked, not idle: the link's bell will tell. Nothing is taken in, so work that could
            // not be finished is not begun.
            *state = RxState::Idle;
            port.blocked(now);
            return false;
        }
        let bundles = match node.outputs.first() {
            Some(OutEdge::Link(link)) => link.makes_bundles(),
            _ => None,
        };
        self.probe.before_taking();
        let mut burst = RxBurst::new(
            pools,
            &mut self.load.packets,
            room,
            &mut node.counters.drops,
        )
        .in_bundles(bundles);
        *state = port.rx(&mut burst, now);
        pools.close_bundle();
        if let RxState::Until(time) = *state {
            self.next_event = Some(self.next_event.map_or(time, |next| next.min(time)));
        }
        let count = self.load.count() as u64;
        if count == 0 {
            return matches!(state, RxState::More);
        }
        node.counters.rx_packets += count;
        node.counters.rx_bytes += self.load.count_bytes();
        self.probe.received(&mut self.load);
        emit(graph, pools, position, 0, &mut self.load);
        note_sent(&mut self.probe, graph, position, None);
        true
    }

    /// Step 3: an NF takes a burst from each input and its verdicts are carried out.
    fn process(
        &mut self,
        graph: &mut Graph,
        pools: &mut Pools,
        position: usize,
        now: Nanos,
    ) -> bool {
        let mut moved = false;
        for input in 0..graph.nodes[position].inputs.len() {
            count_waiting(&self.probe, &mut graph.nodes[position].inputs[input]);
            self.pull(graph, pools, position, input);
            if self.load.is_empty() {
                continue;
            }
            moved = true;
            let node = &mut graph.nodes[position];
            node.counters.rx_packets += self.load.count() as u64;
            node.counters.rx_bytes += self.load.bytes;
            self.probe.arrived(&self.load, node.inputs[input].is_link());
            let Work::Nf(nf) = &mut node.work else {
                self.probe.processed(&self.load, &[]);
                emit(graph, pools, position, 0, &mut self.load);
                note_sent(&mut self.probe, graph, position, Some(input));
                continue;
            };
            let mut burst = Burst::new(
                &mut self.load,
                &mut self.verdicts,
                &mut node.holding.hold,
                pools,
                node.input_numbers[input],
            );
            nf.process(&mut burst, now);
            node.holding.is_due = node.holding.emits;
            if node.is_end {
                for verdict in &mut self.verdicts {
                    if matches!(verdict, Verdict::Output(_)) {
                        *verdict = Verdict::Drop(DropReason::Consumed);
                    }
                }
            }
            self.probe.processed(&self.load, &self.verdicts);
            self.carry_out(graph, pools, position);
            note_sent(&mut self.probe, graph, position, Some(input));
        }
        moved
    }

    /// Takes packets of one input into `self.load`, as many as can be passed on.
    fn pull(&mut self, graph: &mut Graph, pools: &mut Pools, position: usize, input: usize) {
        match &mut graph.nodes[position].inputs[input] {
            // Room was reserved when the packets were queued.
            InEdge::Local { queue } => graph.queues[*queue].append_to(&mut self.load),
            InEdge::Link(link) => {
                let Some(need) = link.next_span() else {
                    return;
                };
                let room = graph.room(position, self.burst.max(need), need);
                let InEdge::Link(link) = &mut graph.nodes[position].inputs[input] else {
                    return;
                };
                if room >= need {
                    self.probe.before_taking();
                    link.pull(room, pools, &mut self.load, true);
                    self.probe.note_taken(link);
                } else {
                    link.shed(pools);
                }
                count_link_drops(graph, position, input);
            }
        }
    }

    /// Moves each packet by its verdict.
    fn carry_out(&mut self, graph: &mut Graph, pools: &mut Pools, position: usize) {
        let node = &mut graph.nodes[position];
        // Looks at all of them, without a branch for each: most often all are alike.
        let words = self.verdicts.iter().map(|verdict| verdict.word());
        if node.holding.hold.is_idle() && words.fold(0, |all, word| all | word) == 0 {
            if !self.load.is_empty() {
                self.load.count_bytes();
                emit(graph, pools, position, 0, &mut self.load);
            }
            return;
        }
        let output_count = node.outputs.len().max(1);
        if self.by_output.len() < output_count {
            self.by_output
                .resize_with(output_count, || Load::with_capacity(256));
        }
        self.sort(node, pools, output_count);
        self.count_made(node, position);
        for output in 0..output_count {
            let mut load = std::mem::take(&mut self.by_output[output]);
            if !load.is_empty() {
                load.count_bytes();
                emit(graph, pools, position, output, &mut load);
            }
            self.by_output[output] = load;
        }
    }

    /// Puts each packet where its verdict, or the NF that holds it, sends it.
    fn sort(&mut self, node: &mut WorkerNode, pools: &mut Pools, output_count: usize) {
        let WorkerNode {
            holding,
            counters,
            has_dropped,
            ..
        } = node;
        let hold = &mut holding.hold;
        let mut count_drops = |reason: DropReason, count: u64| {
            counters.drops[reason.index()] += count;
            *has_dropped = true;
        };
        let verdicts = &mut self.verdicts;
        hold.begin_moves(|at| {
            if let Some(verdict) = verdicts.get_mut(at) {
                *verdict = Verdict::Kept;
            }
        });
        let by_output = &mut self.by_output[..output_count];
        let mut index = 0;
        let mut bundles = self.load.bundles.drain(..).peekable();
        for (at, packet) in self.load.packets.drain(..).enumerate() {
            while let Some((_, bundle)) = bundles.next_if(|(before, _)| *before <= at) {
                let verdicts = &verdicts[index..];
                index += split(bundle, verdicts, by_output, pools, &mut count_drops);
            }
            match verdicts[index] {
                Verdict::Output(output) if usize::from(output) < output_count => {
                    by_output[usize::from(output)].packets.push(packet);
                }
                Verdict::Output(_) => {
                    drop(&mut count_drops, pools, packet, DropReason::NotConnected);
                }
                Verdict::Drop(reason) => drop(&mut count_drops, pools, packet, reason),
                Verdict::Kept => match hold.move_in(index, packet) {
                    Moved::Held => {}
                    Moved::Copied(original) => pools.free(original),
                    Moved::NotTaken(packet) => {
                        drop(&mut count_drops, pools, packet, DropReason::Consumed);
                    }
                },
            }
            index += 1;
        }
        for (_, bundle) in bundles {
            index += split(
                bundle,
                &verdicts[index..],
                by_output,
                pools,
                &mut count_drops,
            );
        }
        self.load.forget();
        hold.end_moves();
        for (output, packet) in hold.leaving() {
            if usize::from(output) < output_count {
                by_output[usize::from(output)].packets.push(packet);
            } else {
                drop(&mut count_drops, pools, packet, DropReason::NotConnected);
            }
        }
        for reason in hold.dropped() {
            count_drops(reason, 1);
        }
        if !holding.emits && holding.hold.count() > 0 {
            // It would never be asked for them.
            node.let_go(pools);
        }
    }

    /// Step 4: a port sends what has arrived for it.
    fn transmit(
        &mut self,
        graph: &mut Graph,
        pools: &mut Pools,
        position: usize,
        now: Nanos,
    ) -> bool {
        let mut moved = false;
        let node = &mut graph.nodes[position];
        let Work::Port { port, .. } = &mut node.work else {
            return false;
        };
        let mut buffers = Buffers::new(pools, &mut node.counters);
        port.reap(&mut buffers, now);
        // No cursor knows what a port keeps.
        node.has_dropped |= buffers.ended() > 0;
        if port.holds_packets() {
            port.tx(&mut TxBurst::of(&mut []), now);
            moved = true;
        }
        for input in 0..node.inputs.len() {
            count_waiting(&self.probe, &mut graph.nodes[position].inputs[input]);
            let taken = self.take_for_port(graph, pools, position, input, now);
            count_link_drops(graph, position, input);
            if taken == 0 {
                continue;
            }
            moved = true;
            let node = &mut graph.nodes[position];
            let Work::Port { port, .. } = &mut node.work else {
                return moved;
            };
            self.probe.arrived(&self.load, node.inputs[input].is_link());
            let mut burst = TxBurst::new(&mut self.load, pools);
            let done = port.tx(&mut burst, now);
            let (kept, why) = (burst.kept(), burst.rest());
            let count = self.load.count();
            let sent = done.saturating_sub(kept).min(count);
            let bytes = if sent == count {
                self.load.count_bytes()
            } else {
                self.load.take_apart(pools);
                bytes_of(&self.load.packets[..sent.min(self.load.packets.len())])
            };
            self.probe.transmitted(&self.load, sent);
            self.probe.kept(&mut self.load.kept_marks);
            note_sent(&mut self.probe, graph, position, Some(input));
            let node = &mut graph.nodes[position];
            node.counters.held += kept as u64;
            node.has_dropped |= kept > 0;
            node.counters.tx_packets += sent as u64;
            node.counters.tx_bytes += bytes;
            node.count_drops(why, (taken - kept - sent) as u64);
            self.load.release(pools);
        }
        moved
    }

    /// Takes what has arrived for a port over one input into `self.load`, and says how many.
    fn take_for_port(
        &mut self,
        graph: &mut Graph,
        pools: &mut Pools,
        position: usize,
        input: usize,
        now: Nanos,
    ) -> usize {
        let node = &mut graph.nodes[position];
        let link = match &mut node.inputs[input] {
            InEdge::Local { queue } => {
                // Room was reserved when the packets were queued.
                graph.queues[*queue].append_to(&mut self.load);
                return self.load.count();
            }
            InEdge::Link(link) => link,
        };
        let Work::Port { port, .. } = &mut node.work else {
            return 0;
        };
        let room = port.tx_room(now);
        if room == 0 {
            let at = port.tx_room_at();
            self.next_event = [self.next_event, at].into_iter().flatten().min();
            link.shed(pools);
            return 0;
        }
        let Some(need) = link.next_span() else {
            return 0;
        };
        self.probe.before_taking();
        let most = room.min(self.burst.max(need));
        link.pull(most, pools, &mut self.load, true);
        self.probe.note_taken(link);
        self.load.count()
    }
}

/// Tells the probes that a burst, which had come by `input`, has left a node.
#[inline]
pub(super) fn note_sent(
    probe: &mut Probe,
    graph: &mut Graph,
    position: usize,
    input: Option<usize>,
) {
    let Graph { nodes, ends, .. } = graph;
    let node = &mut nodes[position];
    let input = input.map_or(0, |input| match &node.inputs[input] {
        InEdge::Local { queue } => link_number(ends, *queue),
        InEdge::Link(link) => link.number(),
    });
    let outputs = &node.outputs;
    probe.sent(node.index, input, &mut node.cost, |output| {
        match outputs.get(output) {
            Some(OutEdge::Link(link)) => Exit {
                link: link.number(),
                is_packing: link.is_packing(),
            },
            Some(OutEdge::Local { queue }) => Exit {
                link: link_number(ends, *queue),
                is_packing: false,
            },
            _ => Exit::default(),
        }
    });
    probe.note_cursors(&mut node.outputs);
}

/// Counts how many packets wait in a link, at random moments.
fn count_waiting(probe: &Probe, input: &mut InEdge) {
    if probe.moments() > 0
        && let InEdge::Link(link) = input
    {
        link.count_waiting(probe.moments(), probe.has_slept());
    }
}

/// Passes a load on by one output of a node, and empties it.
fn emit(graph: &mut Graph, pools: &mut Pools, position: usize, output: usize, load: &mut Load) {
    let node = &mut graph.nodes[position];
    let (count, bytes) = (load.count() as u64, load.bytes);
    let dropped = match node.outputs.get_mut(output) {
        Some(OutEdge::Local { queue }) => {
            load.append_to(&mut graph.queues[*queue]);
            None
        }
        Some(OutEdge::Link(link)) => {
            let dropped = link.send(load, pools);
            (dropped.packets > 0).then_some(dropped)
        }
        Some(OutEdge::Open) | None => {
            load.release(pools);
            Some(Dropped {
                packets: count,
                bytes,
                reason: DropReason::NotConnected,
            })
        }
    };
    let node = &mut graph.nodes[position];
    let mut gone = (count, bytes);
    if let Some(dropped) = dropped {
        node.count_drops(dropped.reason, dropped.packets);
        gone = (count - dropped.packets, bytes.saturating_sub(dropped.bytes));
    }
    if !matches!(node.work, Work::Port { .. }) {
        node.counters.tx_packets += gone.0;
        node.counters.tx_bytes += gone.1;
    }
}

/// Counts what a link has dropped on the way to node `position`: received, and dropped. What a port
/// receives comes from the world, so for a port only the drop is counted.
fn count_link_drops(graph: &mut Graph, position: usize, input: usize) {
    let node = &mut graph.nodes[position];
    let InEdge::Link(link) = &mut node.inputs[input] else {
        return;
    };
    for (reason, count) in link.take_dropped() {
        if count > 0 {
            if !matches!(node.work, Work::Port { .. }) {
                node.counters.rx_packets += count;
            }
            node.count_drops(reason, count);
        }
    }
}

/// Whether some link on the way of what port `position` receives is congested.
fn entry_is_congested(graph: &mut Graph, position: usize) -> bool {
    let node = &mut graph.nodes[position];
    node.outputs.iter_mut().any(|output| match output {
        OutEdge::Open => false,
        OutEdge::Local { queue } => graph.congested[graph.queue_targets[*queue]],
        OutEdge::Link(link) => link.is_congested(),
    })
}

#[cfg(test)]
#[path = "turn_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "bundles_tests.rs"]
mod bundles_tests;
