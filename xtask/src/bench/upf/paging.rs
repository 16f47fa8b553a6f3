//! Held packets: every UE has to be paged, one packet waits for each.
//!
//! The NF itself, on the engine's bench, since it is the NF that holds packets. The bench's own
//! work, which copies each packet in and out, is part of the figures.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::time::{Duration, Instant};

use catena_engine::nf::{Nanos, Verdict};
use catena_engine::nf_bench::NfBench;
use catena_wire::pfcp::{Header, MessageType, View, Writer, key};

use super::super::flow::workload::BURST;
use super::smf::{
    Request, Rules, Session, establishment, framed, read_answer, request, set_up, settings,
};
use super::traffic::{Way, frame};

/// Headers in front of a message of N4.
const N4_HEADERS: usize = 14 + 20 + 8;

/// What was measured.
pub(super) struct Paged {
    /// Of a packet that is held and reported, and of one that leaves, in ns.
    pub(super) hold_ns: f64,
    pub(super) flush_ns: f64,
    /// Downlink Data Reports.
    pub(super) reports: usize,
    /// Packets that left once their UEs were there.
    pub(super) flushed: usize,
}

struct Paging {
    bench: NfBench,
    sequence: u32,
    /// What the UPF says to its SMF, and what has left to UEs.
    messages: Vec<Vec<u8>>,
    to_users: usize,
}

impl Paging {
    /// Gives frames to the NF and takes what leaves; how long both took.
    fn give(&mut self, frames: &[Vec<u8>], n4_output: u8) -> Duration {
        self.bench.now = Nanos(self.bench.now.0 + 5000);
        let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
        let started = Instant::now();
        let processed = self.bench.process(&frames);
        let (emitted, _) = self.bench.emit(2 * BURST, false);
        let spent = started.elapsed();
        let passed = processed.packets.into_iter();
        let passed = passed.filter(|packet| matches!(packet.verdict, Verdict::Output(_)));
        self.to_users += passed.count();
        for packet in emitted {
            if packet.output == n4_output {
                self.messages.push(packet.bytes[N4_HEADERS..].to_vec());
            } else {
                self.to_users += 1;
            }
        }
        spent
    }

    fn next_sequence(&mut self) -> u32 {
        self.sequence += 1;
        self.sequence
    }

    fn answers(&mut self) -> Result<Vec<Session>, String> {
        let messages = std::mem::take(&mut self.messages);
        messages
            .iter()
            .map(|message| read_answer(message))
            .collect()
    }
}

/// The answer to a report.
fn accepted(report: &[u8]) -> Result<Vec<u8>, String> {
    let view = View::parse(report).map_err(|error| error.to_string())?;
    if view.header().message_type != MessageType::SESSION_REPORT_REQUEST {
        return Err(format!("no report: {view}"));
    }
    let header = Header {
        message_type: MessageType::SESSION_REPORT_RESPONSE,
        ..*view.header()
    };
    let mut bytes = [0; 64];
    let mut writer = Writer::new(&mut bytes, &header).map_err(|full| full.to_string())?;
    let cause = catena_wire::pfcp::Cause::REQUEST_ACCEPTED;
    let put = writer.put(key::CAUSE, &cause);
    put.map_err(|full| full.to_string())?;
    let len = writer.finish().map_err(|full| full.to_string())?;
    Ok(framed(&bytes[..len]))
}

/// Has one packet held for each of so many sessions, and all of them leave.
///
/// # Errors
/// What went wrong.
pub(super) fn measure(sessions: u32) -> Result<Paged, String> {
    let settings = settings(sessions, Rules::Paged.slot_bytes());
    let kind = catena_upf::nf::KIND;
    let bench = NfBench::with_buffers(&kind, &settings, &[], sessions + 4096);
    let bench = bench.map_err(|errors| format!("{errors:?}"))?;
    let n4 = bench.outputs().iter().position(|name| name == "n4");
    let n4 = n4.and_then(|at| u8::try_from(at).ok()).ok_or("no n4")?;
    let mut paging = Paging {
        bench,
        sequence: 0,
        messages: Vec::new(),
        to_users: 0,
    };
    let sequence = paging.next_sequence();
    paging.give(&[framed(&set_up(sequence)?)], n4);
    paging.answers()?;
    let mut known = Vec::with_capacity(sessions as usize);
    while known.len() < sessions as usize {
        let count = BURST.min(sessions as usize - known.len());
        let mut frames = Vec::new();
        for _ in 0..count {
            let sequence = paging.next_sequence();
            frames.push(framed(&establishment(sequence, Rules::Paged)?));
        }
        paging.give(&frames, n4);
        known.extend(paging.answers()?);
    }
    let (mut hold, mut reports) = (Duration::ZERO, 0);
    for sessions in known.chunks(BURST) {
        let frames = sessions.iter();
        let frames: Vec<_> = frames.map(|one| frame(one, Way::Downlink, 64)).collect();
        hold += paging.give(&frames, n4);
        let told = std::mem::take(&mut paging.messages);
        reports += told.len();
        let answers: Result<Vec<_>, _> = told.iter().map(|report| accepted(report)).collect();
        paging.give(&answers?, n4);
    }
    if paging.to_users > 0 {
        return Err(format!("{} packets were not held", paging.to_users));
    }
    let mut flush = Duration::ZERO;
    for sessions in known.chunks(BURST) {
        let mut frames = Vec::new();
        for session in sessions {
            let sequence = paging.next_sequence();
            frames.push(framed(&request(Request::Modify, sequence, session.seid)?));
        }
        flush += paging.give(&frames, n4);
        paging.answers()?;
    }
    let each_ns = |spent: Duration| spent.as_nanos() as f64 / f64::from(sessions);
    Ok(Paged {
        hold_ns: each_ns(hold),
        flush_ns: each_ns(flush),
        reports,
        flushed: paging.to_users,
    })
}
