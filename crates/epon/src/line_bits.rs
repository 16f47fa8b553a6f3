//! Moving bits within a line, at any bit offset: what slips and delays are made of.
//!
//! Bits are packed as on line files: the first in the least significant bit of an octet.

/// The 64 bits from bit `at` on; what lies behind the end is zero.
#[inline]
fn word(line: &[u8], at: usize) -> u64 {
    let (first, shift) = (at / 8, at % 8);
    let mut octets = [0; 16];
    if let Some(nine) = line.get(first..first + 9) {
        octets[..9].copy_from_slice(nine);
    } else {
        let rest = line.get(first..).unwrap_or_default();
        octets[..rest.len()].copy_from_slice(rest);
    }
    (u128::from_le_bytes(octets) >> shift) as u64
}

/// Writes the first `count` bits of a word, 1 to 64, from bit `at` on; bits around them stay.
#[inline]
fn store(line: &mut [u8], at: usize, word: u64, count: usize) {
    let (first, shift) = (at / 8, at % 8);
    let len = (shift + count).div_ceil(8);
    let mask = u128::from(u64::MAX >> (64 - count)) << shift;
    let place = &mut line[first..first + len];
    let mut octets = [0; 16];
    octets[..len].copy_from_slice(place);
    let kept = u128::from_le_bytes(octets) & !mask;
    let new = (u128::from(word) << shift) & mask;
    place.copy_from_slice(&(kept | new).to_le_bytes()[..len]);
}

/// Copies `count` bits from bit `from` of one line to bit `to` of another.
///
/// # Panics
/// If they reach beyond either.
pub fn copy_bits(source: &[u8], from: usize, line: &mut [u8], to: usize, count: usize) {
    assert!(from + count <= 8 * source.len(), "bits beyond the source");
    if from.is_multiple_of(8) && to.is_multiple_of(8) {
        let (octets, rest) = (count / 8, count % 8);
        line[to / 8..][..octets].copy_from_slice(&source[from / 8..][..octets]);
        if rest > 0 {
            let bits = word(source, from + 8 * octets);
            store(line, to + 8 * octets, bits, rest);
        }
        return;
    }
    for at in (0..count).step_by(64) {
        store(line, to + at, word(source, from + at), (count - at).min(64));
    }
}

/// Moves `count` bits from bit `from` to bit `to` of the same line; the two may overlap.
///
/// # Panics
/// If they reach beyond the line.
pub fn move_bits(line: &mut [u8], from: usize, to: usize, count: usize) {
    assert!(from + count <= 8 * line.len(), "bits beyond the line");
    let step = |line: &mut [u8], at: usize, len: usize| {
        let bits = word(line, from + at);
        store(line, to + at, bits, len);
    };
    if to <= from {
        for at in (0..count).step_by(64) {
            step(line, at, (count - at).min(64));
        }
    } else {
        let mut left = count;
        while left > 0 {
            let len = left.min(64);
            left -= len;
            step(line, left, len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bits(line: &[u8]) -> Vec<bool> {
        let bit = |at: usize| line[at / 8] >> (at % 8) & 1 == 1;
        (0..8 * line.len()).map(bit).collect()
    }

    proptest! {
        #[test]
        fn bits_are_copied_and_moved_as_lists_are(
            source in prop::collection::vec(any::<u8>(), 1..60),
            line in prop::collection::vec(any::<u8>(), 1..60),
            (from, to, count) in any::<(u16, u16, u16)>(),
        ) {
            let from = usize::from(from) % (8 * source.len());
            let to_line = usize::from(to) % (8 * line.len());
            let most = (8 * source.len() - from).min(8 * line.len() - to_line);
            let len = usize::from(count) % (most + 1);
            let mut wanted = bits(&line);
            wanted[to_line..to_line + len].copy_from_slice(&bits(&source)[from..from + len]);
            let mut copied = line;
            copy_bits(&source, from, &mut copied, to_line, len);
            prop_assert_eq!(bits(&copied), wanted);

            let to = usize::from(to) % (8 * source.len());
            let len = usize::from(count) % (8 * source.len() - from.max(to) + 1);
            let mut wanted = bits(&source);
            wanted.copy_within(from..from + len, to);
            let mut moved = source;
            move_bits(&mut moved, from, to, len);
            prop_assert_eq!(bits(&moved), wanted);
        }
    }

    #[test]
    fn bits_reach_the_end_of_a_line_and_nothing_beyond_it() {
        let source = [0xff_u8; 9];
        for from in [0, 3, 8] {
            let (mut line, count) = ([0_u8; 9], 72 - from);
            copy_bits(&source, from, &mut line, 0, count);
            assert_eq!(bits(&line).iter().filter(|bit| **bit).count(), count);
            move_bits(&mut line, from, 0, count);
        }
        for from in [8, 3] {
            let beyond = 73 - from;
            let copied = std::panic::catch_unwind(|| {
                copy_bits(&source, from, &mut [0; 20], 0, beyond);
            });
            let moved =
                std::panic::catch_unwind(|| move_bits(&mut source.clone(), from, 0, beyond));
            assert!(copied.is_err() && moved.is_err(), "from bit {from}");
        }
    }
}
