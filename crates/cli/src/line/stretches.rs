//! Where in a line file a receiver was in step: stretches of codewords, one after the other.
//!
//! The receiver is given a block's length at a time. Every bit that it has done with is in one of
//! its counters, so the sum says where it stands. While it gains lock or finds a delimiter it
//! cannot also have taken codewords before, because fewer bits than that are waiting in it then.

use catena_pcs::params::{BLOCK_BITS, CODEWORD_BITS};
use catena_pcs::stage::{Receive, Received};

use super::progress::Progress;
use super::reading::LineReader;
use crate::commands::Failure;

/// Codewords one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// Bit of the line at which the first begins.
    pub(crate) start: u64,
    /// How many.
    pub(crate) codewords: u64,
}

impl Stretch {
    /// Bit behind the last.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.codewords * CODEWORD_BITS as u64
    }
}

/// Gives a whole file to a receiver and notes where it was in step.
///
/// # Errors
///
/// If the file cannot be read.
pub(crate) fn find(
    reader: &mut LineReader,
    receiver: &mut dyn Receive,
    progress: &mut Progress,
) -> Result<Vec<Stretch>, Failure> {
    let mut stretches: Vec<Stretch> = Vec::new();
    let mut at = 0;
    let mut ignore = |_: &Received<'_>| {};
    while at < reader.present_bits() {
        let bits = reader.bits(at, u64::MAX)?;
        let mut from = 0;
        while from < bits.len {
            let count = BLOCK_BITS.min(bits.len - from);
            let before = *receiver.counters();
            receiver.receive(bits.bytes, bits.offset + from, count, &mut ignore);
            let after = receiver.counters();
            let new_codewords = after.codewords - before.codewords;
            if after.locks + after.bursts > before.locks + before.bursts {
                stretches.push(Stretch {
                    start: after.done_bits() - new_codewords * CODEWORD_BITS as u64,
                    codewords: 0,
                });
            }
            if let Some(last) = stretches.last_mut() {
                last.codewords += new_codewords;
            }
            from += count;
        }
        at += bits.len as u64;
        progress.at(at);
    }
    receiver.finish(&mut ignore);
    Ok(stretches)
}
