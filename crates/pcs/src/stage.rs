// SPDX-License-Identifier: Apache-2.0
//! What every stage looks like, and what the two whole directions look like.

use crate::counters::Counters;
use crate::params::{BLOCK_BITS, CODEWORD_BITS, DATA_BLOCKS};

/// How far a call came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Items of the input that were used up; the caller gives the rest again.
    pub consumed: usize,
    /// Items of the output that were written, from its front.
    pub produced: usize,
}

/// One function of the sublayer: takes items, keeps state, gives items.
///
/// A call does as much as input and output allow, never allocates, and may be given chunks of any
/// size. The same input gives the same output however it is cut.
pub trait Stage {
    /// What goes in.
    type In;
    /// What comes out.
    type Out;

    /// Works until the input is used up, the output is full, or less is there than the stage
    /// handles at once.
    fn process(&mut self, input: &[Self::In], output: &mut [Self::Out]) -> Progress;
}

/// A frame was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushError {
    /// Longer than the parameters allow; it will never be taken.
    TooLong {
        /// Its length with check sequence.
        len_with_fcs: usize,
        /// The limit.
        max: usize,
    },
    /// No room for its blocks: pull line bits, then push it again.
    Full,
}

impl core::fmt::Display for PushError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::TooLong { len_with_fcs, max } => write!(
                f,
                "a frame of {len_with_fcs} octets is longer than {max}; cut it, or raise \
                 frame_len_with_fcs_max at both ends"
            ),
            Self::Full => write!(f, "no room for a frame; take line bits first"),
        }
    }
}

impl core::error::Error for PushError {}

/// A whole transmit direction: frames in, line bits out.
pub trait Transmit {
    /// Takes an Ethernet frame without check sequence, to be sent under an LLID (mode bit in bit
    /// 15). Frames below 60 octets are padded with zeros.
    ///
    /// # Errors
    ///
    /// If the frame is too long or there is no room; nothing was taken then.
    fn push(&mut self, frame: &[u8], llid: u16) -> Result<(), PushError>;

    /// Writes line bits from bit `offset` on, least significant bit of a byte first, as many whole
    /// codewords and blocks as fit; returns how many bits. An OLT fills up with idle; an ONU gives
    /// zero when nothing waits and its laser is off.
    fn pull(&mut self, line: &mut [u8], offset: usize) -> usize;

    /// Blocks that wait to be sent.
    fn waiting_blocks(&self) -> usize;

    /// Blocks by which the deletion of idles was behind at most. A transmitter in hardware needs a
    /// FIFO of that depth (IEEE 802.3 76.3.2.1).
    fn deletion_debt_max(&self) -> usize;
}

/// A frame as received: destination address to payload, without check sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// The octets.
    pub bytes: &'a [u8],
    /// LLID with mode bit.
    pub llid: u16,
    /// Which payload block, counted over all codewords that this receiver took in, held the start:
    /// the frame's place in the stream of payload.
    pub block: u64,
    /// Which line bit, counted over all that this receiver took in, that block began at: the
    /// frame's place in time, what lies between bursts included.
    pub bit: u64,
}

/// Line bits from the first payload block of a codeword to the payload block `blocks` behind it.
pub(crate) const fn line_bits_of(blocks: u64) -> u64 {
    let per_codeword = DATA_BLOCKS as u64;
    blocks / per_codeword * CODEWORD_BITS as u64 + blocks % per_codeword * BLOCK_BITS as u64
}

/// Where a receiver leaves frames.
pub trait FrameSink {
    /// Called once per good frame, in order.
    fn frame(&mut self, frame: &Received<'_>);
}

impl<F: FnMut(&Received<'_>)> FrameSink for F {
    fn frame(&mut self, frame: &Received<'_>) {
        self(frame);
    }
}

/// Where a receiver stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No lock and no burst, ever.
    NeverLocked,
    /// Locked, or inside a burst.
    InStep,
    /// Between bursts, the last of which ended with a terminator.
    BetweenBursts,
    /// Lock or burst was lost, and not found again.
    Lost,
}

/// A whole receive direction: line bits in, frames out.
pub trait Receive {
    /// Takes `len` line bits from bit `offset` on, all of them, and gives the frames that they
    /// complete. Time is bounded by a constant per bit.
    ///
    /// # Panics
    ///
    /// If the bits reach beyond `line`.
    fn receive(&mut self, line: &[u8], offset: usize, len: usize, sink: &mut dyn FrameSink);

    /// Ends the stream: a frame in progress is counted as cut.
    fn finish(&mut self, sink: &mut dyn FrameSink);

    /// What was counted.
    fn counters(&self) -> &Counters;

    /// Where it stands.
    fn verdict(&self) -> Verdict;

    /// Whether the BER monitor finds too many wrong headers (hi_ber).
    fn is_high_ber(&self) -> bool;
}

/// Which end of the fibre.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// OLT to ONU: one stream without end; the receiver looks for codeword lock.
    Downstream,
    /// ONU to OLT: bursts; the receiver looks for burst delimiters.
    Upstream,
}
