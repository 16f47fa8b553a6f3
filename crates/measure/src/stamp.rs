//! The stamp: who a packet is, when it should have been sent and how much later it was, in its last
//! 18 bytes.
//!
//! ```text
//! | trial 1 | flow 3 | sequence 5 | intended time 5 | late 2 | check 2 |   network byte order
//!                                                  end of the packet (IP's, not FCS) ^
//! ```
//!
//! It stands at the end, not behind the headers, so that NFs which push, pop or swap headers leave
//! it in place. `check` makes the stamp's sum in one's complement arithmetic all ones (RFC 1071 1),
//! which is zero there: the checksum of the UDP datagram or TCP segment around it is the same for
//! every stamp, so that a template's checksum stays right when only the stamp changes. A stamp of
//! zeros is not valid.
//!
//! Pure: bytes in, numbers out. The documented form is `docs/reference/stamp.md`.

use catena_wire::checksum::Sum;

/// Bytes of a stamp.
pub const STAMP_LEN: usize = 18;
/// Flows are numbered below this.
pub const FLOW_END: u32 = 1 << 24;
/// Sequence numbers are below this: 15 hours of one flow at 20 Mpps.
pub const SEQUENCE_END: u64 = 1 << 40;
/// Intended times are known modulo this many ticks: 6 minutes at 3 GHz.
pub const TICKS_END: u64 = 1 << 40;
/// Bits of a lateness behind its leading one.
const LATE_BITS: u32 = 11;

/// A lateness as the stamp holds it: exact below 2048 ticks, from there on twelve significant bits,
/// rounded down, so that it is too small by less than 0.05 %.
#[inline]
fn encode_late(ticks: u64) -> u16 {
    let bits = u64::BITS - ticks.leading_zeros();
    let shift = bits.saturating_sub(LATE_BITS + 1);
    if shift > 30 {
        return u16::MAX;
    }
    // Below 2^12 after the shift. The leading one of what has so many bits adds one to the
    // exponent.
    ((shift as u16) << LATE_BITS) + (ticks >> shift) as u16
}

#[inline]
const fn decode_late(code: u16) -> u64 {
    let (exponent, rest) = (code >> LATE_BITS, code as u64 & ((1 << LATE_BITS) - 1));
    match exponent {
        0 => rest,
        _ => ((1 << LATE_BITS) | rest) << (exponent - 1),
    }
}

/// What a stamp says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Number of the trial, modulo 256: packets of an earlier one are known as such.
    pub trial: u8,
    /// Flow, below [`FLOW_END`].
    pub flow: u32,
    /// Number of the packet within its flow, below [`SEQUENCE_END`].
    pub sequence: u64,
    /// Ticks of the time-stamp counter when it should have been sent, modulo [`TICKS_END`].
    pub intended: u64,
    /// Ticks from then on until it was sent: to the reading of the clock with which the call that
    /// made it began. At most 0.05 % less than it was, and at most 2^42.
    pub late: u64,
}

impl Stamp {
    /// Writes the stamp into the last bytes of `packet`. Larger numbers than the fields hold lose
    /// their upper bits.
    ///
    /// # Panics
    /// If the packet is shorter than [`STAMP_LEN`].
    #[inline]
    pub fn write(&self, packet: &mut [u8]) {
        let fields = u128::from(self.trial) << 120
            | u128::from(self.flow & (FLOW_END - 1)) << 96
            | u128::from(self.sequence & (SEQUENCE_END - 1)) << 56
            | u128::from(self.intended & (TICKS_END - 1)) << 16
            | u128::from(encode_late(self.late));
        let at = packet.len() - STAMP_LEN;
        packet[at..at + 16].copy_from_slice(&fields.to_be_bytes());
        let check = Sum::of_u128(fields).checksum();
        packet[at + 16..at + 18].copy_from_slice(&check.to_be_bytes());
    }

    /// Reads the stamp at the end of `packet`; `None` if the packet is too short or the stamp is
    /// damaged.
    #[inline]
    pub fn read(packet: &[u8]) -> Option<Self> {
        let stamp = packet.last_chunk::<STAMP_LEN>()?;
        let (fields, check) = stamp.split_first_chunk::<16>()?;
        let fields = u128::from_be_bytes(*fields);
        let check = u16::from_be_bytes([check[0], check[1]]);
        if !(Sum::of_u128(fields) + Sum::of_u16(check)).is_valid() {
            return None;
        }
        // Each shift leaves no more bits than the field has.
        Some(Self {
            trial: (fields >> 120) as u8,
            flow: (fields >> 96) as u32 & (FLOW_END - 1),
            sequence: (fields >> 56) as u64 & (SEQUENCE_END - 1),
            intended: (fields >> 16) as u64 & (TICKS_END - 1),
            late: decode_late(fields as u16),
        })
    }

    /// The whole intended time, given a time less than half of [`TICKS_END`] away from it: that
    /// of receiving.
    #[inline]
    pub fn intended_near(&self, received: u64) -> u64 {
        let low = received & (TICKS_END - 1);
        let ahead = self.intended.wrapping_sub(low) & (TICKS_END - 1);
        if ahead < TICKS_END / 2 {
            received.wrapping_add(ahead)
        } else {
            received.wrapping_sub(TICKS_END - ahead)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stamps() -> impl Strategy<Value = Stamp> {
        let late = any::<u16>().prop_map(decode_late);
        let fields = (
            any::<u8>(),
            0..FLOW_END,
            0..SEQUENCE_END,
            0..TICKS_END,
            late,
        );
        fields.prop_map(|(trial, flow, sequence, intended, late)| Stamp {
            trial,
            flow,
            sequence,
            intended,
            late,
        })
    }

    #[test]
    fn the_documented_bytes() {
        let stamp = Stamp {
            trial: 1,
            flow: 0x02_0304,
            sequence: 0x05_0607_0809,
            intended: 0x0a_0b0c_0d0e,
            late: 0xf10,
        };
        let mut packet = [0xee; 20];
        stamp.write(&mut packet);
        let mut expected = vec![0xee, 0xee];
        expected.extend(1..=16);
        // Sum of the words 0x0102, 0x0304 to 0x0f10 is 0x4048.
        expected.extend([0xbf, 0xb7]);
        assert_eq!(packet.as_slice(), expected);
    }

    #[test]
    fn a_lateness_beyond_all_bounds_is_the_largest() {
        let largest = decode_late(u16::MAX);
        assert_eq!(decode_late(encode_late(u64::MAX)), largest);
        assert_eq!(decode_late(encode_late(largest + (1 << 31))), largest);
    }

    #[test]
    fn zeros_and_short_packets_are_no_stamps() {
        assert_eq!(Stamp::read(&[0; 60]), None);
        assert_eq!(Stamp::read(&[0xff; 17]), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(stamp in stamps(), len in STAMP_LEN..100) {
            let mut packet = vec![0x55; len];
            stamp.write(&mut packet);
            prop_assert_eq!(Stamp::read(&packet), Some(stamp));
        }

        #[test]
        fn a_lateness_is_kept_to_a_twentieth_of_a_percent(ticks in 0_u64..1 << 42, shift in 0..42) {
            let ticks = ticks >> shift;
            let kept = decode_late(encode_late(ticks));
            prop_assert!(kept <= ticks && (ticks - kept) * 2048 <= ticks, "{ticks} {kept}");
            prop_assert_eq!(encode_late(kept), encode_late(ticks));
        }

        #[test]
        fn a_stamp_never_changes_the_sum_around_it(stamp in stamps(), len in 20_usize..90) {
            let mut packet: Vec<u8> = (0..len).map(|byte| byte as u8).collect();
            let zero = len - STAMP_LEN;
            packet[zero..].fill(0);
            let without = Sum::of(&packet);
            stamp.write(&mut packet);
            prop_assert_eq!(Sum::of(&packet).checksum(), without.checksum());
        }

        #[test]
        fn every_burst_of_up_to_fifteen_bits_is_found(
            stamp in stamps(), bit in 0_usize..130, pattern in 1_u16..0x8000,
        ) {
            let mut packet = [0; STAMP_LEN];
            stamp.write(&mut packet);
            for offset in 0..15 {
                if pattern >> offset & 1 == 1 && bit + offset < 144 {
                    packet[(bit + offset) / 8] ^= 0x80 >> ((bit + offset) % 8);
                }
            }
            prop_assert_eq!(Stamp::read(&packet), None);
        }

        #[test]
        fn times_are_extended(received in (1_u64 << 50)..(1 << 60), back in 0_u64..1 << 38) {
            let intended = received - back;
            let stamp = Stamp {
                trial: 0, flow: 0, sequence: 0, intended: intended & (TICKS_END - 1), late: 0,
            };
            prop_assert_eq!(stamp.intended_near(received), intended);
            prop_assert_eq!(stamp.intended_near(intended - back), intended);
        }
    }
}
