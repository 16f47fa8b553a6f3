//! What a generator did with its plan, and whether it kept up with it.
//!
//! A packet is late from its due time on; nothing that is due is skipped. What of that is the
//! tester's is its lateness here; while the chain took nothing, the time is the device's and is
//! counted as held. At the end of the trial the shortfall of the offered load is judged: the
//! packets that were never sent by the tester's fault, or the time by which it was ready with the
//! last one only after the planned end, less what the machine stalled. Above [`SHORTFALL_MAX`] the
//! trial is not one at the load it was meant for. What found no room at the device's entry is its
//! loss.

use serde::{Deserialize, Serialize};

use crate::stats::quantile::is_enough;

/// Largest relative error of the offered load that a trial may have: 0.5 %.
pub const SHORTFALL_MAX: f64 = 0.005;
/// Classes of lateness: class `n` counts packets that were up to 2^n nanoseconds late.
pub const LATENESS_CLASS_COUNT: usize = 40;

/// Whose fault it is that less was offered than planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shortfall {
    /// Less was not offered.
    None,
    /// The generator could not make packets fast enough: the trial says nothing of the device.
    Generator,
    /// The chain took less than was offered to it: what it did not take is its loss.
    Chain,
}

/// The classes as a list, which serde reads and writes at any length.
mod counts {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::LATENESS_CLASS_COUNT;

    pub(super) fn serialize<S: Serializer>(
        counts: &[u64; LATENESS_CLASS_COUNT],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        counts.as_slice().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<[u64; LATENESS_CLASS_COUNT], D::Error> {
        let counts = Vec::deserialize(deserializer)?;
        let wrong =
            |counts: Vec<u64>| D::Error::custom(format!("{} classes of lateness", counts.len()));
        counts.try_into().map_err(wrong)
    }
}

/// What a generator did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SendRecord {
    /// Packets sent.
    pub sent: u64,
    /// Bytes sent, without FCS.
    pub bytes: u64,
    /// Packets among them without a stamp.
    pub unstamped: u64,
    /// Packets that were due before the end and not sent by the tester's fault.
    pub unsent: u64,
    /// Packets that were due while the chain took nothing and its entry was full: lost.
    #[serde(default)]
    pub entry_lost: u64,
    /// Packets of the warm-up that were sent; no other count has them.
    #[serde(default)]
    pub warmup: u64,
    /// Ticks at the start of the schedule, behind the warm-up.
    pub start: u64,
    /// Ticks of the burst that sent the last packet.
    pub last: u64,
    /// Nanoseconds from the start until the tester was ready with the last packet.
    #[serde(default)]
    pub ready_ns: u64,
    /// Packets that the chain held back after the tester was ready with them.
    #[serde(default)]
    pub held: u64,
    /// Most nanoseconds for which it did.
    #[serde(default)]
    pub held_max_ns: u64,
    /// Most nanoseconds that the tester was late with a packet.
    pub late_max_ns: u64,
    /// Packets by the tester's lateness (see [`LATENESS_CLASS_COUNT`]).
    #[serde(with = "counts")]
    pub lateness: [u64; LATENESS_CLASS_COUNT],
    /// Calls that ended with packets still due, for lack of room or buffers.
    pub behind_by_chain: u64,
    /// Calls that ended with packets still due though there was all the room there ever is.
    pub behind_by_generator: u64,
}

impl Default for SendRecord {
    fn default() -> Self {
        Self {
            sent: 0,
            bytes: 0,
            unstamped: 0,
            unsent: 0,
            entry_lost: 0,
            warmup: 0,
            start: 0,
            last: 0,
            ready_ns: 0,
            held: 0,
            held_max_ns: 0,
            late_max_ns: 0,
            lateness: [0; LATENESS_CLASS_COUNT],
            behind_by_chain: 0,
            behind_by_generator: 0,
        }
    }
}

impl SendRecord {
    /// Notes when the tester was ready with a packet, from the start.
    #[inline]
    pub(super) fn note_ready(&mut self, ready_ns: u64) {
        self.ready_ns = self.ready_ns.max(ready_ns);
    }

    /// Counts a packet that the chain held back for `held_ns`, if it did.
    #[inline]
    pub(super) fn note_held(&mut self, held_ns: u64) {
        self.held += u64::from(held_ns > 0);
        self.held_max_ns = self.held_max_ns.max(held_ns);
    }

    /// Counts a packet that left `late_ns` after it was due.
    #[inline]
    pub(super) fn note_sent(&mut self, len: usize, late_ns: u64, is_stamped: bool) {
        self.sent += 1;
        self.bytes += len as u64;
        self.unstamped += u64::from(!is_stamped);
        if late_ns == 0 {
            self.lateness[0] += 1;
            return;
        }
        self.late_max_ns = self.late_max_ns.max(late_ns);
        let class = (u64::BITS - late_ns.leading_zeros()) as usize;
        self.lateness[class.min(LATENESS_CLASS_COUNT - 1)] += 1;
    }

    /// Adds the packets of another record, with how late they were and how long they were held.
    pub fn add_lateness(&mut self, other: &Self) {
        self.sent += other.sent;
        self.held += other.held;
        self.entry_lost += other.entry_lost;
        self.held_max_ns = self.held_max_ns.max(other.held_max_ns);
        self.late_max_ns = self.late_max_ns.max(other.late_max_ns);
        for (sum, count) in self.lateness.iter_mut().zip(&other.lateness) {
            *sum += count;
        }
    }

    /// What a share `q` of the packets was late by at most, in ns: the end of its class. 0 is in
    /// time. `None` with fewer than ten packets beyond it.
    pub fn lateness_at_most(&self, q: f64) -> Option<u64> {
        if !is_enough(self.sent, q) {
            return None;
        }
        let wanted = (self.sent as f64 * q).ceil();
        let mut found = 0;
        let class = self.lateness.iter().position(|count| {
            found += count;
            found as f64 >= wanted
        });
        class.map(|class| match class {
            0 => 0,
            class => self.late_max_ns.min((1 << class) - 1),
        })
    }

    /// Packets that were due, with and without a stamp.
    pub const fn due(&self) -> u64 {
        self.sent + self.unsent + self.entry_lost
    }

    /// Packets that should have come back with a stamp.
    pub const fn intended(&self) -> u64 {
        self.due() - self.unstamped
    }

    /// Relative error of the offered load that is the tester's. `end_ns` is the planned end from
    /// the start; `stalled_ns` is what the machine took.
    pub fn shortfall_share(&self, end_ns: u64, stalled_ns: u64) -> f64 {
        let unsent = self.unsent as f64 / self.due().max(1) as f64;
        let overrun = self.ready_ns.saturating_sub(end_ns);
        let overrun = overrun.saturating_sub(stalled_ns);
        unsent.max(overrun as f64 / end_ns.max(1) as f64)
    }

    /// Whose fault a shortfall is.
    pub fn shortfall(&self, end_ns: u64, stalled_ns: u64) -> Shortfall {
        if self.shortfall_share(end_ns, stalled_ns) > SHORTFALL_MAX {
            Shortfall::Generator
        } else if self.entry_lost as f64 > SHORTFALL_MAX * self.due() as f64 {
            Shortfall::Chain
        } else {
            Shortfall::None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_counted_by_powers_of_two() {
        let mut record = SendRecord::default();
        for late_ns in [0, 1, 2, 3, 1000, u64::MAX] {
            record.note_sent(60, late_ns, true);
        }
        assert_eq!(record.lateness[..4], [1, 1, 2, 0]);
        assert_eq!(record.lateness[10], 1);
        assert_eq!(record.lateness[LATENESS_CLASS_COUNT - 1], 1);
        assert_eq!(record.late_max_ns, u64::MAX);
    }

    #[test]
    fn quantiles_of_lateness_are_ends_of_classes() {
        let mut record = SendRecord::default();
        for late_ns in 0..1000 {
            record.note_sent(60, if late_ns < 600 { 0 } else { late_ns }, true);
        }
        assert_eq!(record.lateness_at_most(0.5), Some(0));
        assert_eq!(record.lateness_at_most(0.99), Some(999));
        assert_eq!(record.lateness_at_most(0.999), None);
        let mut sum = SendRecord::default();
        sum.add_lateness(&record);
        sum.add_lateness(&record);
        assert_eq!((sum.sent, sum.late_max_ns), (2000, 999));
        record.note_sent(60, 1 << 20, true);
        assert_eq!(record.lateness_at_most(0.99), Some(1023));
    }

    #[test]
    fn a_shortfall_has_a_cause_and_stalls_are_none() {
        let mut record = SendRecord {
            sent: 1000,
            ready_ns: 1_001_000,
            ..SendRecord::default()
        };
        assert_eq!(record.shortfall(1_000_000, 0), Shortfall::None);
        record.ready_ns = 1_100_000;
        assert_eq!(record.shortfall(1_000_000, 0), Shortfall::Generator);
        assert_eq!(record.shortfall(1_000_000, 99_000), Shortfall::None);
        record.entry_lost = 100;
        assert_eq!(record.shortfall(1_000_000, 99_000), Shortfall::Chain);
        assert_eq!((record.due(), record.intended()), (1100, 1100));
        record.unsent = 100;
        assert_eq!(record.shortfall(1_000_000, 99_000), Shortfall::Generator);
    }
}
