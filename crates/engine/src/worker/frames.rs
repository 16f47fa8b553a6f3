//! Whole frames through a worker: the path of packets that arrive in frames, through an NF that
//! takes them as they are, to links that pass them on.
//!
//! The short way beside `Turn::process`: no packet handles, no packing. What leaves by each output
//! is a view of the frame.

use catena_shm::descriptor::Descriptor;
use catena_shm::frame::FrameView;

use crate::drop_reason::DropReason;
use crate::link::Dropped;
use crate::nf::{Frame, Judgement, Nanos, Verdict};
use crate::pools::Pools;
use crate::worker::graph::{Graph, InEdge, OutEdge, Work, WorkerNode};
use crate::worker::probe::Probe;
use crate::worker::turn::note_sent;

/// Frames in hand and what becomes of them; kept from turn to turn.
#[derive(Debug, Default)]
pub struct FrameTurn {
    frames: Vec<FrameView>,
    judgement: Judgement,
    by_output: Vec<Views>,
}

/// What leaves by one output.
#[derive(Debug, Default)]
struct Views {
    descriptors: Vec<Descriptor>,
    packets: u64,
    bytes: u64,
    /// Slots of the frame that is being sorted.
    mask: u64,
}

impl FrameTurn {
    /// Takes frames that wait first on input `input` of node `position` and passes them on, at most
    /// `wanted` packets if one frame has no more. Says whether it did: not if the node, its links,
    /// or what waits is not for whole frames.
    pub fn process(
        &mut self,
        graph: &mut Graph,
        pools: &mut Pools,
        probe: &mut Probe,
        (position, input, wanted): (usize, usize, usize),
        now: Nanos,
    ) -> bool {
        if probe.is_tracing() {
            return false;
        }
        let node = &mut graph.nodes[position];
        let InEdge::Link(link) = &node.inputs[input] else {
            return false;
        };
        let Some(need) = link.next_frame_span() else {
            return false;
        };
        if !takes_frames(node) {
            return false;
        }
        let room = graph.room(position, wanted.max(need), need);
        if room < need {
            return false;
        }
        let InEdge::Link(link) = &mut graph.nodes[position].inputs[input] else {
            return false;
        };
        debug_assert!(self.frames.is_empty());
        probe.before_taking();
        link.pull_frames(room, pools, &mut self.frames);
        if self.frames.is_empty() {
            return false;
        }
        probe.frames_arrived(count(&self.frames));
        let node = &mut graph.nodes[position];
        self.by_output
            .resize_with(node.outputs.len().max(1), Views::default);
        self.judge(node, pools, input, now);
        probe.frames_judged(false);
        self.send(node, pools);
        note_sent(probe, node, Some(input));
        true
    }

    /// Takes frames that wait first on input `input` of the port at `position` and has it send
    /// them. Says whether it did, as [`FrameTurn::process`].
    pub fn transmit(
        &mut self,
        graph: &mut Graph,
        pools: &mut Pools,
        probe: &mut Probe,
        (position, input, wanted): (usize, usize, usize),
        now: Nanos,
    ) -> bool {
        if probe.is_tracing() {
            return false;
        }
        let node = &mut graph.nodes[position];
        let (InEdge::Link(link), Work::Port { port, .. }) =
            (&mut node.inputs[input], &mut node.work)
        else {
            return false;
        };
        let Some(need) = link.next_frame_span() else {
            return false;
        };
        if port.whole_frames().is_none() || port.tx_room(now) < usize::MAX {
            return false;
        }
        debug_assert!(self.frames.is_empty());
        probe.before_taking();
        link.pull_frames(wanted.max(need), pools, &mut self.frames);
        probe.frames_arrived(count(&self.frames));
        let (mut good, mut bytes, mut bad_slots, mut failed) = (0, 0, 0, (0, 0));
        for mut view in self.frames.drain(..) {
            let mut frame = Frame::new(&mut view, &mut self.judgement, 0);
            if let Some(port) = port.whole_frames() {
                port.process_frame(&mut frame, now);
            }
            frame.finish();
            let bad = self.judgement.bad;
            bad_slots += u64::from(bad.count_ones());
            good += u64::from((view.mask() & !bad).count_ones());
            bytes += self.judgement.bytes;
            for (_, _, len) in self.judgement.elsewhere() {
                failed.0 += 1;
                failed.1 += len;
            }
            pools.release_slots(view.pool(), view.buffer_index(), view.mask());
        }
        link.count_frames(good, bytes, bad_slots);
        node.counters.tx_packets += good - failed.0;
        node.counters.tx_bytes += bytes - failed.1;
        node.count_drops(DropReason::TxFailed, failed.0);
        probe.frames_judged(true);
        note_sent(probe, node, Some(input));
        good + bad_slots > 0
    }

    /// Has the NF judge each frame, and sorts its packets by their verdicts.
    fn judge(&mut self, node: &mut WorkerNode, pools: &mut Pools, input: usize, now: Nanos) {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "at most 255 links reach a node"
        )]
        let input_index = input as u8;
        let mut bytes = 0;
        let mut packets = 0;
        let mut bad_slots = 0;
        for mut view in self.frames.drain(..) {
            let mut frame = Frame::new(&mut view, &mut self.judgement, input_index);
            if let Work::Nf(nf) = &mut node.work
                && let Some(nf) = nf.whole_frames()
            {
                nf.process_frame(&mut frame, now);
            }
            frame.finish();
            let judgement = &self.judgement;
            if judgement.bad != 0 {
                bad_slots += u64::from(judgement.bad.count_ones());
                pools.release_slots(view.pool(), view.buffer_index(), judgement.bad);
            }
            bytes += judgement.bytes;
            packets += u64::from((view.mask() & !judgement.bad).count_ones());
            sort(node, pools, (&view, judgement), &mut self.by_output);
        }
        node.counters.rx_packets += packets;
        node.counters.rx_bytes += bytes;
        if let InEdge::Link(link) = &mut node.inputs[input] {
            link.count_frames(packets, bytes, bad_slots);
        }
    }

    /// Sends what leaves by each output.
    fn send(&mut self, node: &mut WorkerNode, pools: &mut Pools) {
        for (output, views) in self.by_output.iter_mut().enumerate() {
            if views.packets == 0 {
                continue;
            }
            let dropped = match node.outputs.get_mut(output) {
                Some(OutEdge::Link(link)) => {
                    link.send_views(&views.descriptors, views.packets, views.bytes, pools)
                }
                _ => {
                    pools.release_described(&views.descriptors);
                    Dropped {
                        packets: views.packets,
                        bytes: views.bytes,
                        reason: DropReason::NotConnected,
                    }
                }
            };
            node.count_drops(dropped.reason, dropped.packets);
            node.counters.tx_packets += views.packets - dropped.packets;
            node.counters.tx_bytes += views.bytes.saturating_sub(dropped.bytes);
            views.descriptors.clear();
            (views.packets, views.bytes) = (0, 0);
        }
    }
}

/// Packets of `frames`, bad ones included.
fn count(frames: &[FrameView]) -> usize {
    frames
        .iter()
        .map(|frame| frame.mask().count_ones() as usize)
        .sum()
}

/// Whether a node takes whole frames, and all that it sends to does.
fn takes_frames(node: &mut WorkerNode) -> bool {
    let willing = match &mut node.work {
        Work::Nf(nf) => nf.whole_frames().is_some(),
        Work::Bypass => true,
        Work::Port { .. } => false,
    };
    willing
        && !node.outputs.is_empty()
        && node
            .outputs
            .iter()
            .all(|edge| matches!(edge, OutEdge::Link(link) if link.takes_views()))
}

/// Puts the packets of a frame where their verdicts send them.
fn sort(
    node: &mut WorkerNode,
    pools: &mut Pools,
    (view, judgement): (&FrameView, &Judgement),
    by_output: &mut [Views],
) {
    let (mut stays, mut bytes) = (view.mask() & !judgement.bad, judgement.bytes);
    let mut dropped = 0;
    for (slot, verdict, len) in judgement.elsewhere() {
        stays &= !(1 << slot);
        bytes -= len;
        let reason = match verdict {
            Verdict::Output(output) => {
                if let Some(views) = by_output.get_mut(usize::from(output)) {
                    views.mask |= 1 << slot;
                    views.bytes += len;
                    continue;
                }
                DropReason::NotConnected
            }
            Verdict::Drop(reason) => reason,
            // Nothing can be kept out of a whole frame.
            Verdict::Kept => DropReason::Consumed,
        };
        dropped |= 1 << slot;
        node.count_drops(reason, 1);
    }
    if dropped != 0 {
        pools.release_slots(view.pool(), view.buffer_index(), dropped);
    }
    by_output[0].mask |= stays;
    by_output[0].bytes += bytes;
    for views in by_output {
        let mask = std::mem::take(&mut views.mask);
        if mask != 0 {
            views.descriptors.push(view.descriptor(mask));
            views.packets += u64::from(mask.count_ones());
        }
    }
}

#[cfg(test)]
#[path = "frames_tests.rs"]
mod tests;
