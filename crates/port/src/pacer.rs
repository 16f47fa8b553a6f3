//! When the next packet is due at a given rate.
//!
//! The schedule is a point in time that moves on by each packet's share: its length in bits over
//! the bit rate, or one over the packet rate. Being late is made up for, so that the rate is kept
//! on average, but only up to [`CATCH_UP_NS`] or one packet, whichever is more: what was missed
//! before is lost. So in any 10 ms the rate is exceeded by at most 1 % and two packets.

use catena_engine::nf::Nanos;
use catena_engine::units::Rate;

/// Most time made up for: 1 % of 10 ms, more than a poller of its own core is ever late.
pub(crate) const CATCH_UP_NS: u64 = 100_000;

/// Binary digits behind the point of a time: the error of a packet's share, over an hour at 100
/// million packets per second, stays below 0.1 ms.
const FRACTION_BITS: u32 = 32;
const ONE_NS: f64 = (1_u64 << FRACTION_BITS) as f64;

/// Times and shares in units of 2^-32 ns.
type Fixed = u128;

const fn fixed(now: Nanos) -> Fixed {
    (now.0 as Fixed) << FRACTION_BITS
}

/// The schedule of a rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pacer {
    per_packet: Fixed,
    per_byte: Fixed,
    /// When the next packet may go; `None` before the first.
    due: Option<Fixed>,
    missed: Fixed,
}

impl Pacer {
    pub(crate) fn new(rate: Rate) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive, and below 2^100"
        )]
        let share = |rate: f64| (1e9 / rate * ONE_NS) as Fixed;
        let (per_packet, per_byte) = match rate {
            Rate::PacketsPerSecond(rate) => (share(rate), 0),
            Rate::BitsPerSecond(rate) => (0, share(rate / 8.0)),
        };
        Self {
            per_packet,
            per_byte,
            due: None,
            missed: 0,
        }
    }

    #[inline]
    fn share(&self, len: usize) -> Fixed {
        self.per_packet + self.per_byte * len as Fixed
    }

    /// Starts the schedule, or gives up what can no longer be made up for. `len` is the length of
    /// the packet that is next.
    pub(crate) fn begin(&mut self, now: Nanos, len: usize) {
        let due = self.due.get_or_insert(fixed(now));
        let late = fixed(now).saturating_sub(*due);
        let catch_up =
            fixed(Nanos(CATCH_UP_NS)).max(self.per_packet + self.per_byte * len as Fixed);
        if late > catch_up {
            self.missed += late - catch_up;
            *due += late - catch_up;
        }
    }

    /// Whether a packet may go.
    #[inline]
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        self.due.is_none_or(|due| due <= fixed(now))
    }

    /// When the next packet may go.
    pub(crate) fn due_at(&self) -> Nanos {
        let due = self.due.unwrap_or(0);
        let ns = due.div_ceil(1 << FRACTION_BITS);
        Nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Notes that a packet of `len` bytes went.
    #[inline]
    pub(crate) fn spend(&mut self, len: usize) {
        let share = self.share(len);
        if let Some(due) = &mut self.due {
            *due += share;
        }
    }

    /// How many packets of `len` bytes may go now.
    pub(crate) fn room(&self, now: Nanos, len: usize) -> usize {
        let Some(due) = self.due else { return 1 };
        match fixed(now).checked_sub(due) {
            None => 0,
            Some(late) => usize::try_from(late / self.share(len).max(1) + 1).unwrap_or(usize::MAX),
        }
    }

    /// Packets of `len` bytes that were due and given up.
    pub(crate) fn missed(&self, len: usize) -> u64 {
        u64::try_from(self.missed / self.share(len).max(1)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends all that is due at `now` and gives the number.
    fn send(pacer: &mut Pacer, now: u64, len: usize) -> u64 {
        pacer.begin(Nanos(now), len);
        let mut count = 0;
        while pacer.is_due(Nanos(now)) {
            pacer.spend(len);
            count += 1;
        }
        count
    }

    #[test]
    fn rates_of_packets_and_bits_are_kept_over_a_second() {
        for (rate, len, expected) in [
            (Rate::PacketsPerSecond(3.0), 64, 3),
            (Rate::PacketsPerSecond(1e6), 64, 1_000_000),
            (Rate::BitsPerSecond(1e9), 1250, 100_000),
            (Rate::PacketsPerSecond(14_880_952.0), 60, 14_880_952),
        ] {
            let mut pacer = Pacer::new(rate);
            // The first packet goes at the start, so a second holds one more.
            let count: u64 = (0..=20_000)
                .map(|step| send(&mut pacer, step * 50_000, len))
                .sum();
            assert_eq!(count, expected + 1, "{rate:?}");
            assert_eq!(pacer.missed(len), 0);
        }
    }

    #[test]
    fn a_pause_is_not_made_up_for() {
        let mut pacer = Pacer::new(Rate::PacketsPerSecond(1e6));
        send(&mut pacer, 0, 64);
        assert_eq!(send(&mut pacer, 1_000_000_000, 64), 101);
        assert_eq!(pacer.missed(64), 999_899);
        let mut slow = Pacer::new(Rate::PacketsPerSecond(10.0));
        send(&mut slow, 0, 64);
        assert_eq!(send(&mut slow, 1_000_000_000, 64), 2);
    }

    #[test]
    fn the_next_packet_is_announced() {
        let mut pacer = Pacer::new(Rate::PacketsPerSecond(3.0));
        send(&mut pacer, 7, 64);
        assert_eq!(pacer.due_at(), Nanos(333_333_341));
        assert!(!pacer.is_due(Nanos(333_333_340)));
        assert!(pacer.is_due(pacer.due_at()));
        assert_eq!(pacer.room(Nanos(333_333_340), 64), 0);
        assert_eq!(pacer.room(Nanos(333_333_341), 64), 1);
        assert_eq!(pacer.room(Nanos(666_666_674 + 7), 64), 2);
    }
}
