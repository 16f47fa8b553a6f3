//! Whole frames: what an NF gets that asks for packets as they travelled.
//!
//! The same step of a packet's life as [`Burst`](super::Burst), for packets that arrived in one
//! frame (see [`crate::aggregation`]): no handle is made of each, they are judged where they lie,
//! and what is left of the frame goes on by one descriptor. Dropping is leaving out. Worth it for
//! NFs that do little per packet and change neither its length nor its tag.

use std::fmt;

use catena_shm::descriptor::SLOTS_PER_FRAME;
use catena_shm::frame::FrameView;

use super::{Nanos, Verdict};

/// An NF that takes whole frames beside bursts of packets.
pub trait WholeFrames {
    /// Decides what becomes of each packet of the frame, at time `now`, exactly as
    /// [`Nf::process`](super::Nf::process) would: which of the two is called depends on load.
    fn process_frame(&mut self, frame: &mut Frame<'_>, now: Nanos);
}

/// A frame of packets lent to an NF for one call.
///
/// A packet whose verdict is left alone goes to output 0.
pub struct Frame<'a> {
    view: &'a mut FrameView,
    judgement: &'a mut Judgement,
    input: u8,
}

impl<'a> Frame<'a> {
    /// The packets of `view`, to be judged into `judgement`.
    pub fn new(view: &'a mut FrameView, judgement: &'a mut Judgement, input: u8) -> Self {
        judgement.judged = false;
        Self {
            view,
            judgement,
            input,
        }
    }

    /// Number of packets; those that turn out to be none, because the sender's table is wrong,
    /// included.
    pub fn len(&self) -> usize {
        self.view.mask().count_ones() as usize
    }

    /// Whether there is no packet (the engine never passes such a frame).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Index of the input link, as [`Burst::input`](super::Burst::input).
    pub fn input(&self) -> u8 {
        self.input
    }

    /// Asks `judge` for the verdict of each packet, in order. A second call decides anew.
    #[inline]
    pub fn judge(&mut self, mut judge: impl FnMut(&[u8]) -> Verdict) {
        let judgement = &mut *self.judgement;
        judgement.begin();
        let bad = self.view.each(|slot, bytes| {
            judgement.note(slot, bytes.len(), judge(bytes));
        });
        judgement.bad = bad;
    }

    /// As [`Frame::judge`], for an NF with [`Access::Write`](super::Access::Write).
    #[inline]
    pub fn judge_mut(&mut self, mut judge: impl FnMut(&mut [u8]) -> Verdict) {
        let judgement = &mut *self.judgement;
        judgement.begin();
        let bad = self.view.each_mut(|slot, bytes| {
            let verdict = judge(bytes);
            judgement.note(slot, bytes.len(), verdict);
        });
        judgement.bad = bad;
    }

    /// Judges what the NF has not: all to output 0.
    pub(crate) fn finish(mut self) {
        if !self.judgement.judged {
            self.judge(|_| Verdict::Output(0));
        }
    }
}

impl fmt::Debug for Frame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame")
            .field("len", &self.len())
            .field("input", &self.input)
            .finish()
    }
}

/// What became of the packets of a frame; the engine's, reused from frame to frame.
#[derive(Debug)]
pub struct Judgement {
    judged: bool,
    /// Bytes of all good packets.
    pub bytes: u64,
    /// Slots whose entries no honest sender would have written.
    pub bad: u64,
    /// Slots that do not go to output 0.
    elsewhere: u64,
    verdicts: [Verdict; SLOTS_PER_FRAME as usize],
    lens: [u16; SLOTS_PER_FRAME as usize],
}

impl Default for Judgement {
    fn default() -> Self {
        Self {
            judged: false,
            bytes: 0,
            bad: 0,
            elsewhere: 0,
            verdicts: [Verdict::Output(0); SLOTS_PER_FRAME as usize],
            lens: [0; SLOTS_PER_FRAME as usize],
        }
    }
}

impl Judgement {
    #[inline]
    fn begin(&mut self) {
        self.judged = true;
        self.bytes = 0;
        self.elsewhere = 0;
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a frame has 2^16 bytes")]
    fn note(&mut self, slot: u32, len: usize, verdict: Verdict) {
        self.bytes += len as u64;
        if verdict != Verdict::Output(0) {
            self.elsewhere |= 1 << slot;
            self.verdicts[slot as usize] = verdict;
            self.lens[slot as usize] = len as u16;
        }
    }

    /// The slots that do not go to output 0, with verdict and length in bytes, in order.
    pub fn elsewhere(&self) -> impl Iterator<Item = (u32, Verdict, u64)> {
        let mut rest = self.elsewhere;
        std::iter::from_fn(move || {
            let slot = rest.trailing_zeros();
            rest &= rest.wrapping_sub(1);
            (slot < SLOTS_PER_FRAME).then_some(slot)
        })
        .map(|slot| {
            let at = slot as usize;
            (slot, self.verdicts[at], self.lens[at].into())
        })
    }
}
