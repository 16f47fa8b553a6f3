// SPDX-License-Identifier: Apache-2.0
//! The whole receive direction: line buffer, hunt, then up to 32 codewords at a time through row
//! building, Reed-Solomon, descrambler and frame decoder. States are those of
//! `reference/receiver.rs`.
//!
//! A batch may reach beyond the codeword at which lock or burst is lost; what is behind it has then
//! been computed in vain and is looked at again by the hunt.

use super::frame_decoder::FrameDecoder;
use super::hunt::{self, Hunt};
use super::line_buffer::{CODEWORDS, LineBuffer};
use super::words::{LOAD_OCTETS, Payload};
use super::words_avx2::{descramble_rows, load_codewords};
use crate::ber_monitor::BerMonitor;
use crate::burst::{SyncWatch, TERMINATOR_BITS};
use crate::counters::Counters;
use crate::llid::Accept;
use crate::params::{BLOCK_BITS, CODEWORD_BITS, Params};
use crate::rs::{Code, Codec, Correction, LANES, Row};
use crate::simd::Simd;
use crate::stage::{Direction, FrameSink, Receive, Verdict};
use crate::xgmii::Kind;

/// Line bits to frames. Memory is taken when it is made, never later.
#[derive(Clone, Debug)]
pub struct Receiver {
    direction: Direction,
    params: Params,
    simd: Simd,
    codec: Codec,
    buffer: LineBuffer,
    batch: Box<Batch>,
    verdict: Verdict,
    bad_run: usize,
    ber_monitor: BerMonitor,
    watch: SyncWatch,
    is_primed: bool,
    last_scrambled: u64,
    decoder: FrameDecoder,
    counters: Counters,
}

/// Codewords under way.
#[derive(Clone, Debug)]
struct Batch {
    rows: [Row; LANES],
    verdicts: [Correction; LANES],
    wrong_headers: [u8; LANES],
    payload: [Payload; LANES],
}

impl Receiver {
    /// A receiver that hunts.
    ///
    /// # Panics
    ///
    /// If `lock_codewords` is zero or more than 32.
    pub fn new(direction: Direction, accept: Accept, params: Params, simd: Simd) -> Self {
        assert!(
            (1..=CODEWORDS - 8).contains(&params.lock_codewords),
            "lock_codewords must be 1 to 32"
        );
        Self {
            direction,
            simd,
            codec: Codec::new(Code::EPON, simd),
            buffer: LineBuffer::new(),
            batch: Box::new(Batch {
                rows: [Row::ZERO; LANES],
                verdicts: [Correction::Clean; LANES],
                wrong_headers: [0; LANES],
                payload: [Payload::default(); LANES],
            }),
            verdict: Verdict::NeverLocked,
            bad_run: 0,
            ber_monitor: BerMonitor::new(&params),
            watch: SyncWatch::default(),
            is_primed: false,
            last_scrambled: u64::MAX,
            decoder: FrameDecoder::new(simd, accept, &params),
            counters: Counters::default(),
            params,
        }
    }

    fn begin(&mut self) {
        self.verdict = Verdict::InStep;
        self.bad_run = 0;
        self.is_primed = false;
        self.watch.finish();
        let counters = &mut self.counters;
        if counters.locks + counters.bursts == 0 {
            counters.first_hunt_bits = counters.hunted_bits;
        }
        match self.direction {
            Direction::Downstream => counters.locks += 1,
            Direction::Upstream => counters.bursts += 1,
        }
        self.decoder.begin(counters.done_bits());
    }

    /// False if more bits are needed.
    fn hunt(&mut self) -> bool {
        let Hunt { passed, is_found } = match self.direction {
            Direction::Downstream => hunt::codewords(&self.buffer, self.params.lock_codewords),
            Direction::Upstream => {
                let errors = self.params.delimiter_errors_max;
                let missed = &mut self.counters.bursts_missed;
                hunt::delimiter(self.simd, &self.buffer, errors, &mut self.watch, missed)
            }
        };
        self.counters.hunted_bits += passed as u64;
        self.buffer.consume(passed);
        if is_found {
            if self.direction == Direction::Upstream {
                self.buffer.consume(BLOCK_BITS);
            }
            self.begin();
        }
        is_found
    }

    /// Whether a terminator stands so many bits behind the start.
    fn terminator_at(&self, at: usize) -> bool {
        let ones: u32 = (0..TERMINATOR_BITS / 64)
            .map(|k| self.buffer.word(at + 64 * k).count_ones())
            .sum();
        let rest = self.buffer.word(at + TERMINATOR_BITS / 64 * 64);
        let rest = rest & ((1 << (TERMINATOR_BITS % 64)) - 1);
        ones + rest.count_ones() <= self.params.terminator_ones_max
    }

    /// How many codewords may be taken at once, and whether a terminator follows them.
    fn ahead(&self) -> (usize, bool) {
        let whole = (self.buffer.len() / CODEWORD_BITS).min(LANES);
        if self.direction == Direction::Downstream {
            return (whole, false);
        }
        for count in 0..=whole {
            let at = count * CODEWORD_BITS;
            let is_readable = self.buffer.len() >= at + TERMINATOR_BITS;
            if is_readable && self.terminator_at(at) {
                return (count, true);
            }
        }
        (whole, false)
    }

    /// Takes codewords and a terminator. False if more bits are needed.
    fn in_step(&mut self, sink: &mut dyn FrameSink) -> bool {
        let (count, ends) = self.ahead();
        if count > 0 {
            let start = self.buffer.start();
            self.load(0, count, None, start);
            let taken = self.codewords(count, sink);
            self.buffer.consume(taken * CODEWORD_BITS);
            if self.verdict == Verdict::Lost {
                return true;
            }
        }
        if ends {
            self.buffer.consume(TERMINATOR_BITS);
            self.counters.bursts_ended += 1;
            self.verdict = Verdict::BetweenBursts;
            self.decoder.end(Kind::Control, &mut self.counters, sink);
        }
        count > 0 || ends
    }

    /// Takes codewords from where they are on the line, all but the one that the buffer has begun:
    /// to copy them to the buffer first would take a tenth of the time. Bits may be left.
    ///
    /// Returns how many bits of `len` from `at` on were taken; none where the buffer is needed, to
    /// hunt or to look for what ends a burst.
    fn straight(&mut self, line: &[u8], at: usize, len: usize, sink: &mut dyn FrameSink) -> usize {
        let begun = self.buffer.len();
        let count = ((begun + len) / CODEWORD_BITS).min(LANES);
        let is_possible = self.verdict == Verdict::InStep
            && self.direction == Direction::Downstream
            && begun < CODEWORD_BITS;
        if !is_possible || count == 0 {
            return 0;
        }
        let (mut from, mut place) = (at, 0);
        if begun > 0 {
            from += self
                .buffer
                .append(self.simd, line, at, CODEWORD_BITS - begun);
            let start = self.buffer.start();
            self.load(0, 1, None, start);
            self.buffer.consume(CODEWORD_BITS);
            place = 1;
        }
        // The last may have too few octets behind it to be read as the others are.
        let is_readable = |end: usize| (end - CODEWORD_BITS) / 8 + LOAD_OCTETS <= line.len();
        let mut upto = from + (count - place) * CODEWORD_BITS;
        if place < count && !is_readable(upto) {
            upto -= CODEWORD_BITS;
            let mut octets = [0; LOAD_OCTETS];
            let source = &line[upto / 8..(upto + CODEWORD_BITS).div_ceil(8)];
            octets[..source.len()].copy_from_slice(source);
            self.load(count - 1, 1, Some(&octets), upto % 8);
        }
        self.load(place, (upto - from) / CODEWORD_BITS, Some(line), from);
        self.codewords(count, sink) * CODEWORD_BITS - begun
    }

    /// Makes rows from `place` on of codewords that begin at bit `at` of a line, or of the buffer.
    fn load(&mut self, place: usize, count: usize, line: Option<&[u8]>, at: usize) {
        let line = line.unwrap_or(self.buffer.octets());
        let places = place..place + count;
        let rows = &mut self.batch.rows[places.clone()];
        let wrong_headers = &mut self.batch.wrong_headers[places];
        load_codewords(self.simd, line, at, rows, wrong_headers);
    }

    /// Takes codewords, whose rows are made, until they are used up or lock is lost; returns how
    /// many.
    fn codewords(&mut self, count: usize, sink: &mut dyn FrameSink) -> usize {
        let batch = &mut *self.batch;
        let rows = &mut batch.rows[..count];
        self.codec.decode_rows(rows, &mut batch.verdicts);
        descramble_rows(
            self.simd,
            rows,
            &mut self.last_scrambled,
            &mut batch.payload[..count],
        );
        for i in 0..count {
            let correction = self.batch.verdicts[i];
            let wrong_headers = self.batch.wrong_headers[i].into();
            self.count(wrong_headers, correction);
            let is_failed = correction == Correction::Uncorrectable;
            let is_bad = is_failed || wrong_headers as usize >= self.params.loss_headers;
            self.bad_run = if is_bad { self.bad_run + 1 } else { 0 };
            let withholds = self.params.high_ber_withholds && self.ber_monitor.is_high();
            self.decoder.withhold(withholds);
            let skips_first = !core::mem::replace(&mut self.is_primed, true);
            let counters = &mut self.counters;
            if is_failed {
                self.decoder.failed_codeword(skips_first, counters);
            } else {
                let payload = &self.batch.payload[i];
                self.decoder.codeword(payload, skips_first, counters, sink);
            }
            if self.bad_run >= self.params.loss_codewords {
                match self.direction {
                    Direction::Downstream => self.counters.lock_losses += 1,
                    Direction::Upstream => self.counters.bursts_lost += 1,
                }
                self.verdict = Verdict::Lost;
                self.decoder.end(Kind::Error, &mut self.counters, sink);
                return i + 1;
            }
        }
        count
    }

    #[inline]
    fn count(&mut self, wrong_headers: u32, correction: Correction) {
        let counters = &mut self.counters;
        counters.codewords += 1;
        counters.header_errors += u64::from(wrong_headers);
        match correction {
            Correction::Clean => {}
            Correction::Corrected {
                symbols,
                ones,
                zeros,
            } => {
                counters.codewords_corrected += 1;
                counters.symbols_corrected += u64::from(symbols);
                counters.ones_corrected += u64::from(ones);
                counters.zeros_corrected += u64::from(zeros);
            }
            Correction::Uncorrectable => counters.codewords_uncorrectable += 1,
        }
        let is_beyond = self.ber_monitor.step(wrong_headers);
        counters.high_ber_windows += u64::from(is_beyond);
    }
}

impl Receive for Receiver {
    fn receive(&mut self, line: &[u8], offset: usize, len: usize, sink: &mut dyn FrameSink) {
        assert!(offset + len <= 8 * line.len(), "bits beyond the line");
        self.counters.line_bits += len as u64;
        let mut taken = 0;
        loop {
            let straight = self.straight(line, offset + taken, len - taken, sink);
            taken += straight;
            if straight > 0 {
                if taken == len {
                    break;
                }
                continue;
            }
            taken += self
                .buffer
                .append(self.simd, line, offset + taken, len - taken);
            while match self.verdict {
                Verdict::InStep => self.in_step(sink),
                _ => self.hunt(),
            } {}
            if taken == len {
                break;
            }
        }
    }

    fn finish(&mut self, sink: &mut dyn FrameSink) {
        if self.verdict == Verdict::InStep {
            self.decoder.end(Kind::Control, &mut self.counters, sink);
        }
        self.counters.bursts_missed += u64::from(self.watch.finish());
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn verdict(&self) -> Verdict {
        self.verdict
    }

    fn is_high_ber(&self) -> bool {
        self.ber_monitor.is_high()
    }
}
