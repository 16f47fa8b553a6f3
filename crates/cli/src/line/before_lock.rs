//! What a receiver passed over before it found lock: codewords with too many wrong headers, and the
//! frames that begin in them. Noise in front of a line is none of it.

use catena_pcs::block::Block;
use catena_pcs::counters::Counters;
use catena_pcs::line_file::{Listed, Listing};
use catena_pcs::params::{BLOCKS, CODEWORD_BITS, DATA_BLOCKS};
use catena_pcs::xgmii::Kind;

use super::reading::LineReader;
use crate::commands::Failure;

/// Wrong headers up to which 31 blocks are taken for a codeword. Noise has 16 or 17, and as few as
/// this once in a million.
const WRONG_HEADERS_MAX: usize = 4;
/// Codewords that are read at once.
const WINDOW: u64 = 64;

/// What was passed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BeforeLock {
    pub(crate) codewords: u64,
    /// Starts of frames in them.
    pub(crate) frames: u64,
}

/// Looks at what is in front of the first lock of a line downstream, where codewords would be.
///
/// # Errors
///
/// If the file cannot be read.
pub(crate) fn find(reader: &mut LineReader, counters: &Counters) -> Result<BeforeLock, Failure> {
    let mut found = BeforeLock::default();
    let codeword_bits = CODEWORD_BITS as u64;
    let lock = counters.first_hunt_bits;
    let count = match counters.locks {
        0 => 0,
        _ => lock / codeword_bits,
    };
    let begin = lock - count * codeword_bits;
    let mut next = 0;
    while next < count {
        // Descrambling needs the codeword before.
        let first = next.saturating_sub(1);
        let end = (next + WINDOW).min(count);
        let bits = reader.bits(begin + first * codeword_bits, (end - first) * codeword_bits)?;
        let listing = Listing::new(bits.bytes, bits.offset, bits.offset + bits.len);
        let listed: Vec<Listed> = listing.skip((next - first) as usize * BLOCKS).collect();
        for codeword in listed.chunks_exact(BLOCKS) {
            let wrong = codeword.iter().filter(|block| !block.header_fits).count();
            if wrong > WRONG_HEADERS_MAX {
                continue;
            }
            found.codewords += 1;
            // The very first block has none before it that would descramble it.
            let blocks = codeword[..DATA_BLOCKS].iter();
            let blocks = blocks.filter(|listed| listed.place != (0, 0));
            let starts = blocks.filter(|listed| is_start(listed));
            found.frames += starts.count() as u64;
        }
        next = end;
    }
    Ok(found)
}

/// Whether a frame starts in this block. Nothing is corrected here, and a wrong header must not
/// hide a start.
fn is_start(listed: &Listed) -> bool {
    let block = match listed.header_fits {
        true => listed.block,
        false => Block::control(listed.block.payload),
    };
    block.kind() == Kind::Start
}

// A window must fit what is read at once.
const _: () = assert!((WINDOW + 1) * CODEWORD_BITS as u64 <= 8 << 20);
