// SPDX-License-Identifier: Apache-2.0
//! The whole receive direction, stage after stage, with the synchronisers of both ends.
//!
//! | state | ends when | goes on to |
//! |---|---|---|
//! | hunting (ONU) | the headers of `lock_codewords` codewords fit from this bit on | in step |
//! | hunting (OLT) | the 66 bits from here are close to the delimiter | in step, behind them |
//! | in step | `loss_codewords` bad codewords follow each other | hunting, behind them |
//! | in step (OLT) | a terminator stands where a codeword would begin | hunting, behind it |
//!
//! A codeword is bad if it cannot be corrected or has `loss_headers` wrong headers (IEEE 802.3
//! 76.3.3.1, 76.3.3.2). Hunting moves by single bits and looks at each bit once.

use std::collections::VecDeque;

use super::bits;
use super::code_66::Decoder;
use super::codeword;
use super::mac::FrameReader;
use super::scrambler::Descrambler;
use crate::ber_monitor::BerMonitor;
use crate::block::Block;
use crate::burst::{DELIMITER, SYNC_PATTERN, SyncWatch, TERMINATOR_BITS};
use crate::counters::Counters;
use crate::llid::Accept;
use crate::params::{BLOCK_BITS, BLOCKS, CODEWORD_BITS, FAILED_HEADER, Params};
use crate::rs::Correction;
use crate::stage::{Direction, FrameSink, Receive, Verdict, line_bits_of};
use crate::xgmii::Kind;

/// Line bits to frames, bit by bit.
#[derive(Clone, Debug)]
pub struct Receiver {
    direction: Direction,
    params: Params,
    waiting: VecDeque<bool>,
    verdict: Verdict,
    bad_run: usize,
    ber_monitor: BerMonitor,
    watch: SyncWatch,
    /// Whether the descrambler has seen a block of this lock or burst.
    is_primed: bool,
    descrambler: Descrambler,
    decoder: Decoder,
    reader: FrameReader,
    /// Payload blocks taken in.
    blocks: u64,
    /// The first of this lock or burst, and the line bit at which it began.
    origin: (u64, u64),
    counters: Counters,
}

impl Receiver {
    /// A receiver that hunts.
    pub fn new(direction: Direction, accept: Accept, params: Params) -> Self {
        Self {
            direction,
            waiting: VecDeque::new(),
            verdict: Verdict::NeverLocked,
            bad_run: 0,
            ber_monitor: BerMonitor::new(&params),
            watch: SyncWatch::default(),
            is_primed: false,
            descrambler: Descrambler::default(),
            decoder: Decoder::new(params.start_leaves_error),
            reader: FrameReader::new(accept, &params),
            blocks: 0,
            origin: (0, 0),
            counters: Counters::default(),
            params,
        }
    }

    fn front(&mut self, count: usize) -> Vec<bool> {
        self.waiting.drain(..count).collect()
    }

    fn begin(&mut self) {
        self.verdict = Verdict::InStep;
        self.bad_run = 0;
        self.is_primed = false;
        self.decoder.reset();
        self.watch.finish();
        let counters = &mut self.counters;
        if counters.locks + counters.bursts == 0 {
            counters.first_hunt_bits = counters.hunted_bits;
        }
        match self.direction {
            Direction::Downstream => counters.locks += 1,
            Direction::Upstream => counters.bursts += 1,
        }
        self.origin = (self.blocks, counters.done_bits());
    }

    /// The payload block that was taken in last but one, and the line bit at which it began.
    fn place(&self) -> (u64, u64) {
        let (first, bit) = self.origin;
        let block = self.blocks - 1;
        (block, bit + line_bits_of(block - first))
    }

    /// Looks for the beginning at the first waiting bit. False if more bits are needed.
    fn hunt(&mut self) -> bool {
        let window = match self.direction {
            Direction::Downstream => self.params.lock_codewords * CODEWORD_BITS,
            Direction::Upstream => BLOCK_BITS,
        };
        if self.waiting.len() < window {
            return false;
        }
        let line = self.waiting.make_contiguous();
        let is_here = match self.direction {
            Direction::Downstream => line[..window].chunks(CODEWORD_BITS).all(|codeword| {
                let mut headers = codeword
                    .chunks(BLOCK_BITS)
                    .map(|block| &block[..2])
                    .enumerate();
                headers.all(|(block, header)| codeword::header_fits(block, header))
            }),
            Direction::Upstream => is_near(line, DELIMITER, &self.params),
        };
        match (is_here, self.direction) {
            (true, Direction::Downstream) => self.begin(),
            (true, Direction::Upstream) => {
                self.front(BLOCK_BITS);
                self.begin();
            }
            (false, direction) => {
                if direction == Direction::Upstream {
                    let is_sync = is_near(line, SYNC_PATTERN, &self.params);
                    self.counters.bursts_missed += u64::from(self.watch.step(is_sync));
                }
                self.waiting.pop_front();
                self.counters.hunted_bits += 1;
            }
        }
        true
    }

    /// Takes a terminator or a codeword. False if more bits are needed.
    fn in_step(&mut self, sink: &mut dyn FrameSink) -> bool {
        if self.direction == Direction::Upstream {
            if self.waiting.len() < TERMINATOR_BITS {
                return false;
            }
            let ones = self
                .waiting
                .iter()
                .take(TERMINATOR_BITS)
                .filter(|&&bit| bit);
            if ones.count() <= self.params.terminator_ones_max as usize {
                self.front(TERMINATOR_BITS);
                self.counters.bursts_ended += 1;
                self.end(Verdict::BetweenBursts, Kind::Control, sink);
                return true;
            }
        }
        if self.waiting.len() < CODEWORD_BITS {
            return false;
        }
        let line = self.front(CODEWORD_BITS);
        let blocks: Vec<Block> = line.chunks(BLOCK_BITS).map(codeword::block).collect();
        self.codeword(&blocks, sink);
        if self.bad_run >= self.params.loss_codewords {
            match self.direction {
                Direction::Downstream => self.counters.lock_losses += 1,
                Direction::Upstream => self.counters.bursts_lost += 1,
            }
            self.end(Verdict::Lost, Kind::Error, sink);
        }
        true
    }

    fn codeword(&mut self, codeword: &[Block], sink: &mut dyn FrameSink) {
        assert_eq!(codeword.len(), BLOCKS, "a whole codeword");
        let header_errors = codeword::header_errors(codeword);
        let (blocks, correction) = codeword::decode(codeword);
        self.count(header_errors, correction);
        let is_failed = correction == Correction::Uncorrectable;
        let is_bad = is_failed || header_errors >= self.params.loss_headers;
        self.bad_run = if is_bad { self.bad_run + 1 } else { 0 };
        let withholds = self.params.high_ber_withholds && self.ber_monitor.is_high();
        self.reader.withhold(withholds);
        for block in blocks {
            let mut plain = self.descrambler.step(block);
            let was_primed = std::mem::replace(&mut self.is_primed, true);
            if !was_primed {
                // The first block only fills the descrambler; what it gives is no block.
                plain.header = FAILED_HEADER;
            }
            let before = self.decoder.invalid();
            let vector = self.decoder.step(plain);
            if was_primed {
                self.counters.blocks_invalid += self.decoder.invalid() - before;
            }
            if let Some(vector) = vector {
                let place = self.place();
                self.reader.step(vector, place, &mut self.counters, sink);
            }
            self.blocks += 1;
        }
    }

    fn count(&mut self, header_errors: usize, correction: Correction) {
        let counters = &mut self.counters;
        counters.codewords += 1;
        counters.header_errors += header_errors as u64;
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
        let is_beyond = self.ber_monitor.step(header_errors as u32);
        counters.high_ber_windows += u64::from(is_beyond);
    }

    /// Leaves lock or burst; the last block counts as followed by one of this kind.
    fn end(&mut self, verdict: Verdict, next: Kind, sink: &mut dyn FrameSink) {
        self.verdict = verdict;
        if let Some(vector) = self.decoder.release(next) {
            let place = self.place();
            self.reader.step(vector, place, &mut self.counters, sink);
        }
        self.reader.cut(&mut self.counters);
    }
}

/// Whether the first bits of a line are those of a block, but for some errors.
fn is_near(line: &[bool], block: Block, params: &Params) -> bool {
    let wanted = codeword::line_bits(block);
    let differ = line.iter().zip(&wanted).filter(|(a, b)| a != b);
    differ.count() <= params.delimiter_errors_max as usize
}

impl Receive for Receiver {
    fn receive(&mut self, line: &[u8], offset: usize, len: usize, sink: &mut dyn FrameSink) {
        self.waiting
            .extend((offset..offset + len).map(|i| bits::at(line, i)));
        self.counters.line_bits += len as u64;
        loop {
            let went_on = match self.verdict {
                Verdict::InStep => self.in_step(sink),
                _ => self.hunt(),
            };
            if !went_on {
                break;
            }
        }
    }

    fn finish(&mut self, sink: &mut dyn FrameSink) {
        if self.verdict == Verdict::InStep {
            self.end(Verdict::InStep, Kind::Control, sink);
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
