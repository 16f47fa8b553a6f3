//! Traces: what came of each packet and message of one session, for people who look.
//!
//! Beside a packet's life. `path` notes packets as they come and as they leave, with what their
//! rules said; `nf` notes messages of N4 and held packets that are given up. Somebody reads it by
//! control requests (`show/traces.rs`), as `catena upf trace` does. While nobody traces, a packet
//! pays one look at an empty list.
//!
//! Limits: [`TRACE_COUNT_MAX`] at a time; each notes up to [`RECORD_COUNT_MAX`] records of
//! [`BYTES_MAX`] bytes until they are read, and counts what does not fit. One that nobody reads for
//! [`UNREAD_NS`] ends.

use std::collections::VecDeque;
use std::net::IpAddr;

use catena_wire::pfcp::{MessageType, Messages};

use crate::decision::{Decision, Why};

/// Most traces at a time.
pub(crate) const TRACE_COUNT_MAX: usize = 4;
/// Most records that wait to be read.
pub(crate) const RECORD_COUNT_MAX: usize = 4096;
/// Most bytes of frames that wait to be read.
pub(crate) const BYTES_MAX: usize = 1 << 20;
/// A trace that nobody reads for so long ends.
pub(crate) const UNREAD_NS: u64 = 30_000_000_000;
/// The place of N4, which is no interface to users' packets.
pub(crate) const N4: u8 = u8::MAX;

/// The PDR that a packet fits: its ID, its source interface and its network instance.
pub(crate) type Fitting = (u16, (u8, u8));

/// The session that is traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Traced {
    pub(crate) slot: u32,
    pub(crate) seid: u64,
    pub(crate) cp_seid: u64,
    /// The association's peer, and who sent the last message about the session.
    pub(crate) smf: [Option<IpAddr>; 2],
}

/// What a record is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A packet that came, and what its rules say.
    Came(Decision),
    /// A packet that left.
    Left,
    /// A packet of the UPF's own that left: an end marker, a copy, what a UE is told.
    Made,
    /// A message that came.
    Heard(MessageType),
    /// A message that left.
    Said(MessageType),
    /// A packet that was held and does not leave; it has no bytes here.
    GivenUp(Why),
}

/// One packet or message, whose bytes lie with its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) at_ns: u64,
    pub(crate) what: What,
    /// The interface by which it came or left, by place, or [`N4`].
    pub(crate) place: u8,
    pub(crate) pdr_id: Option<u16>,
    /// Length of its frame, and how much of that is here.
    pub(crate) len: usize,
    pub(crate) captured: usize,
}

impl Record {
    /// A record of N4, or of no interface, whose frame is still to be noted.
    pub(crate) const fn new(at_ns: u64, what: What) -> Self {
        Self {
            at_ns,
            what,
            place: N4,
            pdr_id: None,
            len: 0,
            captured: 0,
        }
    }
}

/// What is noted of one session.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) id: u32,
    pub(crate) session: Traced,
    /// Bytes of each frame that are kept.
    snap: usize,
    records: VecDeque<Record>,
    bytes: VecDeque<u8>,
    /// Records for which there was no room since it began.
    pub(crate) lost: u64,
    read_ns: u64,
}

impl Trace {
    /// Notes a record with its frame; whether there was room.
    fn note(&mut self, record: Record, frame: &[u8]) -> bool {
        let kept = &frame[..frame.len().min(self.snap)];
        let has_room =
            self.records.len() < RECORD_COUNT_MAX && self.bytes.len() + kept.len() <= BYTES_MAX;
        if !has_room {
            self.lost += 1;
            return false;
        }
        self.records.push_back(Record {
            len: frame.len(),
            captured: kept.len(),
            ..record
        });
        self.bytes.extend(kept);
        true
    }

    /// The oldest record with its bytes, which it forgets.
    pub(crate) fn take(&mut self) -> Option<(Record, Vec<u8>)> {
        let record = self.records.pop_front()?;
        Some((record, self.bytes.drain(..record.captured).collect()))
    }

    /// Whether there is more to read.
    pub(crate) fn has_more(&self) -> bool {
        !self.records.is_empty()
    }
}

/// All traces of a UPF.
#[derive(Debug)]
pub(crate) struct Traces {
    all: Vec<Trace>,
    last_id: u32,
    now_ns: u64,
}

impl From<u64> for Traces {
    /// None yet, whose numbers follow a random one: a trace of a UPF is not taken for one of its
    /// successor.
    fn from(random: u64) -> Self {
        Self {
            all: Vec::new(),
            last_id: (random >> 32) as u32,
            now_ns: 0,
        }
    }
}

impl Traces {
    /// Whether nothing is traced.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.all.is_empty()
    }

    /// Tells it the time; traces that nobody reads end.
    pub(crate) fn pass(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        self.all
            .retain(|trace| now_ns.saturating_sub(trace.read_ns) < UNREAD_NS);
    }

    /// When the next one ends unless it is read.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        let ends = self.all.iter().map(|trace| trace.read_ns + UNREAD_NS);
        ends.min()
    }

    /// Begins to trace a session, of each frame `snap` bytes at most; gives the trace's number, or
    /// none if there are [`TRACE_COUNT_MAX`].
    pub(crate) fn begin(&mut self, session: Traced, snap: usize) -> Option<u32> {
        if self.all.len() >= TRACE_COUNT_MAX {
            return None;
        }
        self.last_id = self.last_id.wrapping_add(1);
        self.all.push(Trace {
            id: self.last_id,
            session,
            snap,
            // Nothing is allocated for a packet.
            records: VecDeque::with_capacity(RECORD_COUNT_MAX),
            bytes: VecDeque::with_capacity(BYTES_MAX),
            lost: 0,
            read_ns: self.now_ns,
        });
        Some(self.last_id)
    }

    /// The sessions that are traced.
    pub(crate) fn sessions_mut(&mut self) -> impl Iterator<Item = &mut Traced> {
        self.all.iter_mut().map(|trace| &mut trace.session)
    }

    /// Ends a trace of a session; whether there was one.
    pub(crate) fn end(&mut self, id: u32, seid: u64) -> bool {
        let before = self.all.len();
        self.all
            .retain(|trace| trace.id != id || trace.session.seid != seid);
        self.all.len() < before
    }

    /// A trace of a session, which is about to be read.
    pub(crate) fn read(&mut self, id: u32, seid: u64) -> Option<&mut Trace> {
        let now_ns = self.now_ns;
        let is_it = |trace: &&mut Trace| trace.id == id && trace.session.seid == seid;
        let trace = self.all.iter_mut().find(is_it)?;
        trace.read_ns = now_ns;
        Some(trace)
    }

    /// Notes a packet of a session as it came, before it is changed; which of its traces had room,
    /// as bits.
    pub(crate) fn came(&mut self, (slot, seid): (u32, u64), frame: &[u8], now_ns: u64) -> u8 {
        let record = Record::new(now_ns, What::Came(Decision::Consumed));
        let mut noted = 0;
        for (number, trace) in self.all.iter_mut().enumerate() {
            let is_its = (trace.session.slot, trace.session.seid) == (slot, seid);
            noted |= u8::from(is_its && trace.note(record, frame)) << number;
        }
        noted
    }

    /// Notes what the rules said of the packet that came last, and how it left, if it did.
    pub(crate) fn ruled(&mut self, noted: u8, ruled: Record, left: Option<(u8, &[u8])>) {
        for (number, trace) in self.all.iter_mut().enumerate() {
            if noted >> number & 1 == 0 {
                continue;
            }
            if let Some(last) = trace.records.back_mut() {
                *last = Record {
                    len: last.len,
                    captured: last.captured,
                    ..ruled
                };
            }
            if let Some((place, frame)) = left {
                let what = What::Left;
                trace.note(
                    Record {
                        what,
                        place,
                        ..ruled
                    },
                    frame,
                );
            }
        }
    }

    /// Notes a frame that the UPF itself has made for a session.
    pub(crate) fn made(&mut self, seid: u64, place: u8, frame: &[u8]) {
        let record = Record {
            place,
            ..Record::new(self.now_ns, What::Made)
        };
        // No session has SEID 0, which stands for none.
        let its = |trace: &&mut Trace| trace.session.seid == seid;
        for trace in self.all.iter_mut().filter(its) {
            trace.note(record, frame);
        }
    }

    /// Notes that a packet that was held for a session does not leave.
    pub(crate) fn given_up(&mut self, slot: u32, why: Why) {
        let record = Record::new(self.now_ns, What::GivenUp(why));
        let its = |trace: &&mut Trace| trace.session.slot == slot;
        for trace in self.all.iter_mut().filter(its) {
            trace.note(record, &[]);
        }
    }

    /// Notes a frame with messages of N4 in `range`, if one is about a session that is traced.
    pub(crate) fn heard(
        &mut self,
        frame: &[u8],
        range: std::ops::Range<usize>,
        from: IpAddr,
        now_ns: u64,
    ) {
        let messages = frame.get(range).unwrap_or_default();
        for trace in &mut self.all {
            let seid = trace.session.seid;
            if let Some(of) = first_about(messages, seid) {
                trace.session.smf[1] = Some(from);
                trace.note(Record::new(now_ns, What::Heard(of)), frame);
            }
        }
    }

    /// Notes a message of N4 that leaves in this frame, if it is about a session that is traced.
    pub(crate) fn said(&mut self, message: &[u8], to: IpAddr, frame: impl Fn() -> Vec<u8>) {
        let at_ns = self.now_ns;
        for trace in &mut self.all {
            let session = &trace.session;
            if !session.smf.contains(&Some(to)) {
                continue;
            }
            if let Some(of) = first_about(message, session.cp_seid) {
                trace.note(Record::new(at_ns, What::Said(of)), &frame());
            }
        }
    }
}

/// The type of the first of these messages that has this SEID.
fn first_about(messages: &[u8], seid: u64) -> Option<MessageType> {
    let mut headers =
        Messages::new(messages).filter_map(|view| view.ok().map(|view| *view.header()));
    let its = headers.find(|header| header.seid == Some(seid));
    its.map(|header| header.message_type)
}

#[cfg(test)]
mod tests;
