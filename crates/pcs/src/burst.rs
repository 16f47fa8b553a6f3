// SPDX-License-Identifier: Apache-2.0
//! Upstream bursts: what stands around the codewords, and the ONU's data detector.
//!
//! On the line: sync pattern, burst delimiter, whole codewords of which the first opens with idle
//! blocks, terminator. IEEE 802.3 76.3.2.5 and its state diagram for the ONU.
//!
//! | state | sends | goes on to |
//! |---|---|---|
//! | laser off | nothing | preamble, when a block waits |
//! | preamble | sync pattern, as often as SyncTime says | delimiter |
//! | delimiter | burst delimiter once | codewords |
//! | codewords | 27 blocks and parity | terminator, when nothing waits and more than DelayBound blocks into the FIFO were idle |
//! | terminator | three blocks of zeros | laser off |
//!
//! A burst never ends inside a codeword, and never goes from idle to terminator while a frame
//! waits. Idle blocks are counted where they enter the FIFO, as the task force's model (FSM_DD)
//! does: when the last frame's last block leaves it, it holds nothing else. So a burst ends with 0
//! to 26 idle blocks, and takes no codeword that its frames do not need.

use crate::block::Block;
use crate::params::{PARITY_BLOCKS, Params};

/// Sync pattern. Wire order 10, then BF 40 18 E5 C5 49 BB 59, least significant bits first.
pub const SYNC_PATTERN: Block = Block {
    payload: 0x59bb_49c5_e518_40bf,
    header: 0b01,
};
/// Burst delimiter. Wire order 01, then 6B F8 D8 12 D8 58 E4 AB.
pub const DELIMITER: Block = Block {
    payload: 0xabe4_58d8_12d8_f86b,
    header: 0b10,
};
/// One block of the terminator.
///
/// Uncertain: the task force's model ends bursts with zeros; 76.3.2.5.1 gives the final value.
pub const TERMINATOR: Block = Block {
    payload: 0,
    header: 0,
};
/// Blocks of the terminator.
pub const TERMINATOR_BLOCKS: usize = 3;
/// Bits of the terminator.
pub const TERMINATOR_BITS: usize = TERMINATOR_BLOCKS * crate::params::BLOCK_BITS;

/// Blocks of sync pattern by which a burst is known to have begun.
pub const SYNC_BLOCKS_SEEN: u32 = 3;
/// Bits behind the last of them after which its delimiter will not come: 16 blocks.
const DELIMITER_PATIENCE: usize = 16 * crate::params::BLOCK_BITS;

/// Watches, while an OLT hunts, for sync patterns that no delimiter follows: bursts whose frames
/// are lost without a trace of their own.
#[derive(Clone, Debug, Default)]
pub(crate) struct SyncWatch {
    blocks: u32,
    /// Bits since the last block.
    since: usize,
}

impl SyncWatch {
    /// Whether no sync pattern was seen lately.
    pub(crate) fn is_idle(&self) -> bool {
        self.blocks == 0
    }

    /// Goes on by a bit, at which a block of sync pattern begins or not. True if a sync pattern
    /// turns out to have had no delimiter.
    pub(crate) fn step(&mut self, is_pattern: bool) -> bool {
        self.since += 1;
        let is_missed = self.since > DELIMITER_PATIENCE && self.finish();
        if is_pattern {
            self.blocks += 1;
            self.since = 0;
        }
        is_missed
    }

    /// A delimiter was found, or the line ends. True if a sync pattern was under way.
    pub(crate) fn finish(&mut self) -> bool {
        self.since = 0;
        core::mem::take(&mut self.blocks) >= SYNC_BLOCKS_SEEN
    }
}

/// What an ONU sends next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nothing: the laser is off.
    Silence,
    /// One block around the codewords.
    Block(Block),
    /// A codeword. The first of a burst opens with idle blocks.
    Codeword {
        /// Whether it is the first.
        is_first: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    LaserOff,
    Preamble { left: usize },
    Delimiter,
    FirstCodeword,
    Codewords,
    Terminator { left: usize },
}

/// Decides when an ONU's laser is on and what it sends.
#[derive(Clone, Debug)]
pub struct DataDetector {
    state: State,
    sync_blocks: usize,
    /// Idle blocks that must have been sent when a burst ends.
    idle_min: usize,
}

impl DataDetector {
    /// With the laser off.
    pub fn new(params: &Params) -> Self {
        Self {
            state: State::LaserOff,
            sync_blocks: params.sync_blocks,
            // While parity is sent the FIFO goes on taking blocks in.
            idle_min: params.delay_bound.map_or(0, |bound| {
                (bound + 1).saturating_sub(params.fifo_blocks() + PARITY_BLOCKS)
            }),
        }
    }

    /// Whether the next frame will open a burst.
    pub fn is_off(&self) -> bool {
        matches!(self.state, State::LaserOff)
    }

    /// The next unit, given how many blocks wait and how many idle blocks were sent last.
    pub fn next(&mut self, waiting: usize, idle_run: usize) -> Unit {
        if self.state == State::LaserOff && waiting > 0 {
            self.state = State::Preamble {
                left: self.sync_blocks,
            };
        }
        if matches!(self.state, State::Codewords) && waiting == 0 && idle_run >= self.idle_min {
            self.state = State::Terminator {
                left: TERMINATOR_BLOCKS,
            };
        }
        if self.state == (State::Preamble { left: 0 }) {
            self.state = State::Delimiter;
        }
        let (unit, next) = match self.state {
            State::LaserOff => (Unit::Silence, State::LaserOff),
            State::Preamble { left } => (
                Unit::Block(SYNC_PATTERN),
                State::Preamble { left: left - 1 },
            ),
            State::Delimiter => (Unit::Block(DELIMITER), State::FirstCodeword),
            State::FirstCodeword => (Unit::Codeword { is_first: true }, State::Codewords),
            State::Codewords => (Unit::Codeword { is_first: false }, State::Codewords),
            State::Terminator { left: 1 } => (Unit::Block(TERMINATOR), State::LaserOff),
            State::Terminator { left } => (
                Unit::Block(TERMINATOR),
                State::Terminator { left: left - 1 },
            ),
        };
        self.state = next;
        unit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A watch that has seen so many blocks of sync pattern.
    fn watch(blocks: u32) -> SyncWatch {
        let mut watch = SyncWatch::default();
        for _ in 0..blocks {
            assert!(!watch.step(true));
        }
        watch
    }

    #[test]
    fn three_blocks_of_sync_pattern_are_a_burst_and_two_are_none() {
        assert!(watch(SYNC_BLOCKS_SEEN).finish());
        assert!(!watch(SYNC_BLOCKS_SEEN - 1).finish());
    }

    #[test]
    fn a_delimiter_is_missed_when_patience_is_over_and_not_a_bit_before() {
        let mut watch = watch(SYNC_BLOCKS_SEEN);
        let missed = (0..=16 * crate::params::BLOCK_BITS).position(|_| watch.step(false));
        assert_eq!(missed, Some(16 * crate::params::BLOCK_BITS));
        assert!(watch.is_idle());
    }

    #[test]
    fn a_burst_ends_behind_so_many_idle_blocks_as_the_delay_bound_says() {
        // 69 blocks wait in the FIFO, and four come while parity is sent.
        for (delay_bound, idle_min) in [(72, 0), (73, 1), (100, 28)] {
            let params = Params {
                delay_bound: Some(delay_bound),
                ..Params::default()
            };
            let mut detector = DataDetector::new(&params);
            while detector.next(1, 0) != (Unit::Codeword { is_first: true }) {}
            if idle_min > 0 {
                let goes_on = Unit::Codeword { is_first: false };
                assert_eq!(detector.next(0, idle_min - 1), goes_on, "{delay_bound}");
            }
            assert_eq!(detector.next(0, idle_min), Unit::Block(TERMINATOR));
        }
    }
}
