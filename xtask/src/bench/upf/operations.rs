//! Operations on sessions, through PFCP, while packets pass: how many a second, how late, and
//! whether packets are lost meanwhile.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::time::{Duration, Instant};

use catena_engine::packet::Packet;
use catena_measure::stats::histogram::Histogram;
use catena_measure::stats::random::Random;
use catena_upf::decision::Decision;

use super::super::flow::workload::BURST;
use super::smf::{Request, Rules, Smf, establishment, framed, request};
use super::traffic::{Way, frame};

/// Requests that are outstanding at once, and packets that come among them.
pub(super) const OUTSTANDING: usize = BURST;

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Establish,
    Of(Request),
}

impl Operation {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Establish => "establish",
            Self::Of(Request::Modify) => "modify",
            Self::Of(Request::Query) => "query URR",
            Self::Of(Request::Delete) => "delete",
        }
    }
}

/// What was measured of one.
pub(super) struct Measured {
    /// Thousands a second: what the worker needs for each, packets left out.
    pub(super) rate: f64,
    /// From the instant at which all that are outstanding have come to the answer of each, packets
    /// among them, in us: median and 99.9th percentile.
    pub(super) latency_us: [f64; 2],
    /// Packets that came meanwhile, and those of them that did not pass.
    pub(super) packets: u64,
    pub(super) lost: u64,
}

/// Measures one for so long, or for so many of them if sessions come or go: `sessions` of the
/// first ones stay and get packets.
pub(super) fn measure(
    smf: &mut Smf,
    operation: Operation,
    sessions: usize,
    time: Duration,
) -> Result<Measured, String> {
    let mut random = Random::new(7);
    let (mut spent, mut latency) = (Duration::ZERO, Histogram::new());
    let (mut count, mut packets, mut lost) = (0u64, 0u64, 0u64);
    let room = smf.sessions.capacity();
    while spent < time {
        let has_more = match operation {
            Operation::Establish => smf.sessions.len() + OUTSTANDING <= room,
            Operation::Of(Request::Delete) => smf.sessions.len() >= sessions + OUTSTANDING,
            Operation::Of(_) => true,
        };
        if !has_more {
            break;
        }
        let (requests, among) = block(smf, operation, sessions, &mut random)?;
        smf.pass();
        let began = Instant::now();
        for (message, mut packet) in requests.into_iter().zip(among) {
            let started = Instant::now();
            smf.tell(message)?;
            spent += started.elapsed();
            latency.record(began.elapsed().as_nanos() as u64);
            let now_ns = smf.now_ns;
            let decision = smf.upf.packet(&mut packet, &mut smf.signals, now_ns);
            lost += u64::from(!matches!(decision, Decision::Send(_)));
            packets += 1;
            smf.pool.free(packet);
        }
        for _ in 0..OUTSTANDING {
            let session = smf.answer()?;
            if operation == Operation::Establish {
                smf.sessions.push(session);
            }
            count += 1;
        }
    }
    if count == 0 {
        return Err("there was nothing to do".to_owned());
    }
    let quantile = |q: f64| latency.quantile(q).unwrap_or(0) as f64 / 1000.0;
    Ok(Measured {
        rate: count as f64 / spent.as_secs_f64() / 1000.0,
        latency_us: [quantile(0.5), quantile(0.999)],
        packets,
        lost,
    })
}

/// Requests, and a packet to come behind each: of a session that the requests are about, where
/// those stay.
fn block(
    smf: &mut Smf,
    operation: Operation,
    sessions: usize,
    random: &mut Random,
) -> Result<(Vec<Packet>, Vec<Packet>), String> {
    let (mut requests, mut packets) = (Vec::new(), Vec::new());
    for index in 0..OUTSTANDING {
        let sequence = smf.next_sequence();
        let at = random.below(sessions as u64) as usize;
        let message = match operation {
            Operation::Establish => establishment(sequence, smf.rules)?,
            Operation::Of(Request::Delete) => {
                let session = smf.sessions.pop().ok_or("no session is left")?;
                request(Request::Delete, sequence, session.seid)?
            }
            Operation::Of(what) => request(what, sequence, smf.sessions[at].seid)?,
        };
        requests.push(smf.packet(&framed(&message))?);
        let way = Way::BOTH[index % 2];
        let frame = frame(&smf.sessions[at], way, 64);
        packets.push(smf.packet(&frame)?);
    }
    Ok((requests, packets))
}

/// A UPF for this: with so many sessions that stay, and room for as many again.
pub(super) fn upf(sessions: u32) -> Result<Smf, String> {
    let mut smf = Smf::new(Rules::Metered, 2 * sessions)?;
    smf.fill(sessions)?;
    Ok(smf)
}
