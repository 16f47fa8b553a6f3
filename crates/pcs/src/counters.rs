// SPDX-License-Identifier: Apache-2.0
//! What a receiver counts. Each field says what event it counts; none of them ever goes down.

use crate::burst::TERMINATOR_BITS;
use crate::params::{BLOCK_BITS, CODEWORD_BITS, PROTECTED_BITS};

/// Counters of a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Line bits taken in.
    pub line_bits: u64,
    /// Line bits passed over in search of lock or of a burst.
    pub hunted_bits: u64,
    /// Those of them in front of the first lock or burst.
    pub first_hunt_bits: u64,
    /// Codeword locks gained (ONU).
    pub locks: u64,
    /// Codeword locks lost (ONU).
    pub lock_losses: u64,
    /// Burst delimiters found (OLT).
    pub bursts: u64,
    /// Bursts that ended with a terminator (OLT).
    pub bursts_ended: u64,
    /// Bursts given up after consecutive bad codewords (OLT).
    pub bursts_lost: u64,
    /// Sync patterns that no burst delimiter followed: bursts that were not received (OLT).
    pub bursts_missed: u64,
    /// Codewords taken in.
    pub codewords: u64,
    /// Codewords with errors that were corrected.
    pub codewords_corrected: u64,
    /// Codewords with more errors than can be corrected.
    pub codewords_uncorrectable: u64,
    /// Symbols corrected.
    pub symbols_corrected: u64,
    /// Corrected bits that had been sent as 0.
    pub ones_corrected: u64,
    /// Corrected bits that had been sent as 1.
    pub zeros_corrected: u64,
    /// Wrong headers before correction.
    pub header_errors: u64,
    /// Windows of the BER monitor with too many wrong headers, the last, unfinished one included.
    pub high_ber_windows: u64,
    /// Blocks that could not be decoded, those of uncorrectable codewords among them.
    pub blocks_invalid: u64,
    /// Frames given out.
    pub frames: u64,
    /// Octets of these frames, without check sequence.
    pub octets: u64,
    /// Frames not given out, by reason.
    pub drops: Drops,
}

/// Frames that were not given out, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drops {
    /// Ended by a block that is no data and no termination.
    pub coding: u64,
    /// Cut by the end of a burst or the loss of lock.
    pub cut: u64,
    /// Shorter than 64 octets.
    pub runt: u64,
    /// Longer than allowed.
    pub oversize: u64,
    /// No start-of-LLID delimiter.
    pub sld: u64,
    /// Wrong CRC-8 of the preamble.
    pub crc8: u64,
    /// Another ONU's LLID.
    pub llid: u64,
    /// Wrong frame check sequence.
    pub fcs: u64,
    /// Withheld while BER was high.
    pub high_ber: u64,
}

impl Drops {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.coding
            + self.cut
            + self.runt
            + self.oversize
            + self.sld
            + self.crc8
            + self.llid
            + self.fcs
            + self.high_ber
    }
}

impl Counters {
    /// Line bits that a receiver has done with: hunted over, or taken as codewords, delimiters and
    /// terminators.
    pub fn done_bits(&self) -> u64 {
        self.hunted_bits
            + self.codewords * CODEWORD_BITS as u64
            + self.bursts * BLOCK_BITS as u64
            + self.bursts_ended * TERMINATOR_BITS as u64
    }

    /// Bit errors before correction per bit that the code protects, as far as they were corrected;
    /// none before the first codeword.
    pub fn ber(&self) -> Option<f64> {
        let good = self.codewords - self.codewords_uncorrectable;
        let bits = good * PROTECTED_BITS as u64;
        let errors = self.ones_corrected + self.zeros_corrected;
        (bits > 0).then(|| errors as f64 / bits as f64)
    }
}
