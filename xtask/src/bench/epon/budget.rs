//! Where the time of a coded chunk goes, part by part.
//!
//! SPDX-License-Identifier: Apache-2.0

use super::loops::Loops;
use super::setting::{Setting, Way, Work};
use crate::bench::pcs::{Coding, chunk_us};
use crate::bench::series::Series;

/// Bit error rate at which latency is to be nearly that without errors.
const BER: f64 = 1e-4;

/// Parts of the time of a chunk without bit errors; all in microseconds.
#[derive(Debug, Default)]
pub(super) struct Budget {
    /// Frames to line bits, by itself.
    pub(super) transmit: Series,
    /// Line bits to frames, by itself: without bit errors, and with one in 10,000.
    pub(super) receive: Series,
    pub(super) receive_errors: Series,
    /// The whole loop in one thread: the above, making and judging frames, the line.
    pub(super) inline: Series,
    /// The same with bit errors.
    pub(super) inline_errors: Series,
    /// The loop in one thread, nothing coded.
    pub(super) inline_raw: Series,
    /// The loop in processes, nothing coded: four hand-overs more.
    pub(super) metal_raw: Series,
    /// The whole loop in processes.
    pub(super) metal: Series,
}

impl Budget {
    /// Measures each part once.
    pub(super) fn measure(&mut self, loops: &mut Loops, chunk: u32) {
        self.transmit
            .push(Ok::<_, String>(chunk_us(Coding::Transmit, chunk)));
        self.receive
            .push(Ok::<_, String>(chunk_us(Coding::Receive(0.0), chunk)));
        self.receive_errors
            .push(Ok::<_, String>(chunk_us(Coding::Receive(BER), chunk)));
        let median = |found: Result<super::Found, String>| found.map(|found| found.p50_us);
        let (raw, coding) = (Work::Raw, Work::Coding(0.0));
        self.inline.push(median(loops.run_inline(coding, chunk)));
        let errors = Work::Coding(BER);
        self.inline_errors
            .push(median(loops.run_inline(errors, chunk)));
        self.inline_raw.push(median(loops.run_inline(raw, chunk)));
        let mut metal = |work| {
            let way = Way::Metal;
            median(loops.run(Setting { way, work, chunk }))
        };
        self.metal_raw.push(metal(raw));
        self.metal.push(metal(coding));
    }
}

impl Budget {
    /// The parts as they add up.
    pub(super) fn sentence(&self, chunk: u32) -> Option<String> {
        let (transmit, receive) = (self.transmit.median()?, self.receive.median()?);
        let (inline, metal) = (self.inline.median()?, self.metal.median()?);
        let hand_overs = self.metal_raw.median()? - self.inline_raw.median()?;
        let decoding = self.receive_errors.median()? - receive;
        let with_errors = self.inline_errors.median()? - inline;
        Some(format!(
            "budget of {} KiB coded on bare metal, in us: transmit {transmit:.1}, receive \
             {receive:.1}, making and judging frames and the line {:.1}, four hand-overs \
             {hand_overs:.1}, caches of other cores and the rest {:.1}; together {metal:.1}; BER \
             1e-4 adds {with_errors:.1} in one thread, of which correcting is {decoding:.1}",
            chunk / super::KIB,
            inline - transmit - receive,
            metal - inline - hand_overs,
        ))
    }
}
