//! How long frames take on the line of 10G-EPON, FEC included.
//!
//! A burst is laser-on time, sync pattern, whole codewords, laser-off time (IEEE 802.3 76.3.2.5.1).
//! A codeword is 12.4 quanta and holds 216 octets of the MAC's stream; the first one opens with two
//! idle blocks. Frames cost their preamble, check sequence and gap.

use catena_pcs::params;

/// Octets of the MAC's stream in a codeword.
pub const CODEWORD_OCTETS: u64 = params::DATA_BLOCKS as u64 * 8;
/// Octets of the idle blocks that open a burst.
pub const OPENING_OCTETS: u64 = 16;
/// Shortest frame, without its check sequence.
pub const FRAME_LEN_MIN: usize = params::FRAME_LEN_WITH_FCS_MIN - params::FCS_LEN;
/// Longest length that a GATE can say, in quanta.
pub const GRANT_LENGTH_MAX: u32 = u16::MAX as u32;
/// Tenths of a quantum in a codeword: 2046 bits of 165 bits per quantum.
pub const CODEWORD_TENTHS: u64 = 124;
/// What the MAC can send in a second, in bits: 10 Gb/s less the room for parity.
pub const MAC_RATE_BPS: f64 =
    1e10 * params::DATA_BLOCKS as f64 / (params::DATA_BLOCKS + params::PARITY_BLOCKS) as f64;

const OVERHEAD: u64 = (params::PREAMBLE_LEN + params::FCS_LEN + params::GAP_LEN) as u64;

/// Octets of the MAC's stream that a frame of `len` bytes, without check sequence, takes.
pub const fn frame_octets(len: usize) -> u64 {
    let len = if len < FRAME_LEN_MIN {
        FRAME_LEN_MIN
    } else {
        len
    };
    len as u64 + OVERHEAD
}

/// Quanta that the codewords of a burst take which holds `octets` of frames. Rounded up.
pub const fn quanta_for(octets: u64) -> u64 {
    if octets == 0 {
        return 0;
    }
    let codewords = (octets + OPENING_OCTETS).div_ceil(CODEWORD_OCTETS);
    (codewords * CODEWORD_TENTHS).div_ceil(10)
}

/// Octets of frames that fit into `quanta` of codewords.
pub const fn octets_in(quanta: u64) -> u64 {
    let codewords = quanta * 10 / CODEWORD_TENTHS;
    (codewords * CODEWORD_OCTETS).saturating_sub(OPENING_OCTETS)
}

/// Quanta from the first octet of a burst's frames to the octet with this offset. Rounded down.
pub const fn quanta_to(offset: u64) -> u64 {
    offset * CODEWORD_TENTHS / (10 * CODEWORD_OCTETS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_line_carries_27_of_31_blocks() {
        assert!((MAC_RATE_BPS - 8.709_677e9).abs() < 1e3);
        // A second of codewords holds what the MAC can send.
        let octets = octets_in(super::super::QUANTA_PER_SECOND) as f64;
        assert!((octets * 8.0 / MAC_RATE_BPS - 1.0).abs() < 1e-6);
    }

    #[test]
    fn a_control_frame_is_one_codeword() {
        assert_eq!(frame_octets(60), 84);
        assert_eq!(quanta_for(frame_octets(60)), 13);
        assert_eq!(quanta_for(0), 0);
        assert_eq!(octets_in(12), 0);
        // Shorter ones are filled up. Two idle blocks stand in front.
        assert_eq!((frame_octets(0), frame_octets(61)), (84, 85));
        assert_eq!((quanta_for(200), quanta_for(201)), (13, 25));
        assert_eq!(octets_in(13), 200);
    }

    proptest! {
        #[test]
        fn what_is_asked_for_fits_and_little_more(octets in 1_u64..1_000_000) {
            let quanta = quanta_for(octets);
            prop_assert!(octets_in(quanta) >= octets);
            prop_assert!(octets_in(quanta - 13) < octets);
        }
    }
}
