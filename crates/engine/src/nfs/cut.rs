//! `cut`: makes packets whole that a port carries with something left open, for what stands behind.
//!
//! Ports with `segments: carry` give the chain packets of up to 64 KiB that are still to be cut
//! into segments, with checksums that are still to be computed (ADR 29). What comes to this NF
//! leaves it as on a wire, in the order in which it came; a packet that is whole leaves as it is.
//! A packet that is to be cut is held while its segments find room and buffers, and is `consumed`
//! when the last one has left; those behind it wait. Its segments count as made, and so as
//! received, as for every NF that makes packets: how many came is told by the counters `cut_apart`,
//! `segments` and `completed`.
//!
//! Packets whose headers do not bear out what is said to be left open are dropped as `unsegmented`;
//! those for which no buffer is there, or behind 1024 that wait, as `no_buffer`; those with
//! segments that fit no buffer as `too_large`. What waits lies in the buffers that segments need:
//! where there is room for 1 ms and no buffer, the packet that came last is dropped as
//! `no_buffer`, until those in front of it go on. Where another NF takes its place, what it holds
//! is dropped as `unsent`.
//!
//! ```yaml
//! nfs:
//!   whole: { type: cut }
//! ```

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::parse_config;
use crate::nf::{BuiltNf, Burst, DropReason, Emission, Kept, Nanos, Nf, NfKind, NfPlan, Verdict};
use crate::own_counters::CounterSink;
use crate::packet::{Offload, Packet};
use crate::segments::{Cut, complete};
use crate::shard::Sharding;

/// `cut` takes no configuration: packets say into which segments they are to be cut.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {}

/// Most packets that wait; of those that are to be cut the worker has buffers for far fewer.
const WAITING_MAX: usize = 1024;
/// How long there may be room and no buffer before one that waits gives up its own: for shorter,
/// buffers are on their way home.
const STARVED_NS: u64 = 1_000_000;
/// What is said to be left open is not what the headers bear out.
const UNSEGMENTED: DropReason = DropReason::own(0);

/// A packet that waits: to be cut, or for its turn behind one.
#[derive(Debug)]
struct Waiting {
    kept: Kept,
    cut: Option<Cut>,
}

/// What is left to be done to a packet.
enum Left {
    Nothing,
    Segments(Cut),
    /// Nobody can do it.
    Unknown,
}

#[derive(Debug)]
struct Cutter {
    /// In the order in which they came; never more than [`WAITING_MAX`].
    waiting: VecDeque<Waiting>,
    /// Since when nothing has left although there was room.
    starved: Option<Nanos>,
    /// Packets that were cut apart, and the segments that they became.
    cut_apart: u64,
    segments: u64,
    /// Packets that lacked a checksum only.
    completed: u64,
}

impl Nf for Cutter {
    fn process(&mut self, burst: &mut Burst<'_>, _now: Nanos) {
        let mut waits = !self.waiting.is_empty();
        if !waits {
            let mut is_open = false;
            burst.each(|packet, _| is_open |= !packet.offload().is_none());
            if !is_open {
                return;
            }
        }
        for index in 0..burst.packets_mut().len() {
            let Some(packet) = burst.packet(index) else {
                break;
            };
            let left = self.finish(packet);
            waits |= matches!(left, Left::Segments(_));
            match left {
                Left::Unknown => burst.set_verdict(index, Verdict::Drop(UNSEGMENTED)),
                Left::Segments(cut) => self.hold_back(burst, index, Some(cut)),
                Left::Nothing if waits => self.hold_back(burst, index, None),
                Left::Nothing => {}
            }
        }
    }

    fn emits(&self) -> bool {
        true
    }

    /// Asked again for what finds no room or buffer; at the latest when it has starved for long
    /// enough.
    fn emit(&mut self, out: &mut Emission<'_>, now: Nanos) -> Option<Nanos> {
        let (count, segments) = (self.waiting.len(), self.segments);
        while let Some(Waiting { kept, mut cut }) = self.waiting.pop_front() {
            let stays = match &mut cut {
                None => out.send_kept(kept, 0).err(),
                Some(cut) => self.send_segments(out, kept, cut),
            };
            if let Some(kept) = stays {
                self.waiting.push_front(Waiting { kept, cut });
                break;
            }
        }
        let went_on = self.waiting.len() < count || self.segments > segments;
        if went_on || self.waiting.is_empty() || out.room(0) == 0 {
            self.starved = None;
            return None;
        }
        self.starve(out, now)
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        out.put("cut_apart", self.cut_apart);
        out.put("segments", self.segments);
        out.put("completed", self.completed);
    }
}

impl Cutter {
    fn new() -> Self {
        Self {
            waiting: VecDeque::with_capacity(WAITING_MAX),
            starved: None,
            cut_apart: 0,
            segments: 0,
            completed: 0,
        }
    }

    /// Does what can be done where the packet lies, and says what is left.
    fn finish(&mut self, packet: &mut Packet) -> Left {
        let offload = packet.offload();
        if offload.is_none() {
            return Left::Nothing;
        }
        if let Some(size) = offload.segment_bytes() {
            let cut = Cut::of(packet.bytes(), size.into());
            return cut.map_or(Left::Unknown, Left::Segments);
        }
        let is_whole = complete(packet.bytes_mut()) && packet.set_offload(Offload::NONE).is_ok();
        self.completed += u64::from(is_whole);
        if is_whole {
            Left::Nothing
        } else {
            Left::Unknown
        }
    }

    /// Takes a packet out of the burst until its turn has come.
    fn hold_back(&mut self, burst: &mut Burst<'_>, index: usize, cut: Option<Cut>) {
        let has_room = self.waiting.len() < WAITING_MAX;
        match has_room.then(|| burst.keep(index)).flatten() {
            Some(kept) => self.waiting.push_back(Waiting { kept, cut }),
            None => burst.set_verdict(index, Verdict::Drop(DropReason::NoBuffer)),
        }
    }

    /// There is room, and no buffer. Perhaps what waits has them all: then nobody else gives one
    /// back, and the hindmost is let go of.
    fn starve(&mut self, out: &mut Emission<'_>, now: Nanos) -> Option<Nanos> {
        let until = self.starved.get_or_insert(now).plus(STARVED_NS);
        if now < until {
            return Some(until);
        }
        self.starved = None;
        if let Some(last) = self.waiting.pop_back() {
            out.drop_kept(last.kept, DropReason::NoBuffer);
        }
        None
    }

    /// Sends segments of a packet, as many as there is room for; gives it back if there are more.
    fn send_segments(&mut self, out: &mut Emission<'_>, kept: Kept, cut: &mut Cut) -> Option<Kept> {
        while let Some(len) = cut.next_len() {
            if !out.can_make(len) {
                out.drop_kept(kept, DropReason::TooLarge);
                return None;
            }
            if !out.send_from(&kept, 0, len, |packet, segment| cut.write(packet, segment)) {
                return Some(kept);
            }
            self.segments += 1;
        }
        self.cut_apart += 1;
        out.drop_kept(kept, DropReason::Consumed);
        None
    }
}

/// The chain file's entry.
pub const KIND: NfKind = NfKind {
    name: "cut",
    summary: "Cuts packets into segments that a port carries uncut",
    example: "{}",
    schema: || schemars::schema_for!(Config),
    plan: |config, _outputs| {
        parse_config::<Config>(config)?;
        let plan = NfPlan::new().writes().allocates().changes_no_key();
        let plan = plan.counters(["cut_apart", "segments", "completed"]);
        let plan = plan.drop_reasons(["unsegmented"]).cuts_segments();
        Ok(plan.sharding(Sharding::Any))
    },
    build: |config, _context| {
        parse_config::<Config>(config)?;
        Ok(BuiltNf::new(Cutter::new()))
    },
};

#[cfg(test)]
#[path = "cut_tests.rs"]
mod tests;
