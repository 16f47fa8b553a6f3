//! When packets are due: a pure function of the load, a seed and the lengths of the packets.
//!
//! Times are nanoseconds from the start of the traffic, kept with 32 bits of fraction, so that a
//! day of 20 Mpps does not drift by a packet. The schedule never waits and never skips: what was
//! not sent in time stays due (open loop).

use catena_engine::units::Rate;
use catena_port::random::Random;

use crate::profile::{L1_OVERHEAD_LEN, Load, Offered, Pattern, Profile};

/// Bits behind the point of a time.
const FRACTION_BITS: u32 = 32;
const ONE_NS: f64 = (1_u64 << FRACTION_BITS) as f64;

/// The time that a packet takes of a rate, in fractions of nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Share {
    per_packet: u128,
    per_byte: u128,
    /// Bytes counted beside the frame.
    overhead: u128,
}

impl Share {
    fn of(rate: Rate, load: &Load) -> Self {
        // Rates are positive and finite, so that the quotients are; the longest gap, of a packet
        // in 10^9 seconds, is far below 2^127.
        match rate {
            Rate::PacketsPerSecond(pps) => Self {
                per_packet: (1e9 / pps * ONE_NS).round() as u128,
                per_byte: 0,
                overhead: 0,
            },
            Rate::BitsPerSecond(bps) => Self {
                per_packet: 0,
                per_byte: (8e9 / bps * ONE_NS).round() as u128,
                overhead: Load::counted_len(load.layer, 0) as u128,
            },
        }
    }

    #[inline]
    fn gap(&self, frame_len: usize) -> u128 {
        self.per_packet + self.per_byte * (frame_len as u128 + self.overhead)
    }
}

#[derive(Clone, Debug)]
enum Kind {
    Max,
    Constant(Share),
    Poisson(Share),
    Bursts {
        share: Share,
        packets: u32,
        spacing: Share,
        /// Packets left of this burst.
        left: u32,
        /// When the next burst begins.
        next_burst: u128,
    },
    Steps {
        steps: Vec<(Share, u128)>,
        index: usize,
        /// When the step ends.
        end: u128,
    },
}

/// Due times, one after the other.
#[derive(Clone, Debug)]
pub struct Schedule {
    due: u128,
    kind: Kind,
}

impl Schedule {
    /// The schedule of a profile's load, from time 0.
    pub fn new(profile: &Profile) -> Self {
        let load = &profile.load;
        let kind = match (load.rate, load.pattern) {
            (_, Pattern::Steps) => {
                let share = |rate| Share::of(rate, load);
                let steps = load.steps.iter().map(|step| {
                    let span = u128::from(step.span.ns) << FRACTION_BITS;
                    (share(step.rate), span)
                });
                let steps: Vec<_> = steps.collect();
                let end = steps.first().map_or(0, |(_, span)| *span);
                Kind::Steps {
                    steps,
                    index: 0,
                    end,
                }
            }
            (Offered::Max, _) => Kind::Max,
            (Offered::Rate(rate), Pattern::Constant) => Kind::Constant(Share::of(rate, load)),
            (Offered::Rate(rate), Pattern::Poisson) => Kind::Poisson(Share::of(rate, load)),
            (Offered::Rate(rate), Pattern::Bursts) => {
                let packets = load.packets.unwrap_or(1);
                Kind::Bursts {
                    share: Share::of(rate, load),
                    packets,
                    spacing: spacing(profile),
                    left: packets,
                    next_burst: 0,
                }
            }
        };
        Self { due: 0, kind }
    }

    /// Whether every packet is due at once.
    pub const fn is_max(&self) -> bool {
        matches!(self.kind, Kind::Max)
    }

    /// When the next packet is due, in nanoseconds from the start; 0 for `max`.
    #[inline]
    pub const fn due_ns(&self) -> u64 {
        // 2^64 nanoseconds are 584 years.
        (self.due >> FRACTION_BITS) as u64
    }

    /// Goes on to the packet after one of `frame_len` bytes, FCS counted.
    #[inline]
    pub fn advance(&mut self, frame_len: usize, random: &mut Random) {
        match &mut self.kind {
            Kind::Max => {}
            Kind::Constant(share) => self.due += share.gap(frame_len),
            Kind::Poisson(share) => {
                let mean = share.gap(frame_len) as f64;
                // (0, 1]: 53 bits, and never 0, whose logarithm is infinite.
                let uniform = ((random.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
                self.due += (-uniform.ln() * mean) as u128;
            }
            Kind::Bursts {
                share,
                packets,
                spacing,
                left,
                next_burst,
            } => {
                *next_burst += share.gap(frame_len);
                *left -= 1;
                if *left == 0 {
                    *left = *packets;
                    // A burst whose spacing is slower than the mean rate runs into the next.
                    self.due = (*next_burst).max(self.due + spacing.gap(frame_len));
                } else {
                    self.due += spacing.gap(frame_len);
                }
            }
            Kind::Steps { steps, index, end } => {
                self.due += steps[*index].0.gap(frame_len);
                while self.due >= *end && *index + 1 < steps.len() {
                    // The gap that crosses the border is that of the step it began in, cut at the
                    // border: the next step's first packet goes at its start.
                    self.due = *end;
                    *index += 1;
                    *end += steps[*index].1;
                }
            }
        }
    }
}

/// From the start of one packet of a burst to the next.
fn spacing(profile: &Profile) -> Share {
    let none = Share {
        per_packet: 0,
        per_byte: 0,
        overhead: 0,
    };
    match (profile.load.spacing, profile.line) {
        (Some(span), _) => Share {
            per_packet: u128::from(span.ns) << FRACTION_BITS,
            ..none
        },
        (None, Some(Rate::BitsPerSecond(bps))) => Share {
            per_byte: (8e9 / bps * ONE_NS).round() as u128,
            overhead: L1_OVERHEAD_LEN as u128,
            ..none
        },
        (None, _) => none,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn due_times(load: &serde_json::Value, line: Option<&str>, count: usize) -> Vec<u64> {
        let document = match line {
            Some(line) => json!({ "load": load, "line": line }),
            None => json!({ "load": load }),
        };
        let profile = Profile::from_json(&document).unwrap();
        let mut schedule = Schedule::new(&profile);
        let mut random = Random::new(1);
        (0..count)
            .map(|_| {
                let due = schedule.due_ns();
                schedule.advance(64, &mut random);
                due
            })
            .collect()
    }

    #[test]
    fn constant_rates_do_not_drift() {
        let times = due_times(&json!({ "rate": "3pps" }), None, 3_000_001);
        assert_eq!(times[3_000_000], 999_999_999_999_999);
        assert_eq!(&times[..3], [0, 333_333_333, 666_666_666]);
    }

    #[test]
    fn bit_rates_count_their_layer() {
        // 64 bytes at 512 Mbps take 1 us; 84 bytes at 672 Mbps too.
        for load in [
            json!({ "rate": "512Mbps" }),
            json!({ "rate": "672Mbps", "layer": "l1" }),
        ] {
            assert_eq!(due_times(&load, None, 3), [0, 1000, 2000]);
        }
    }

    #[test]
    fn poisson_gaps_have_their_mean_and_spread() {
        let count = 200_000;
        let load = json!({ "rate": "1Mpps", "pattern": "poisson" });
        let times = due_times(&load, None, count + 1);
        let mean = times[count] as f64 / count as f64;
        assert!((990.0..1010.0).contains(&mean), "{mean}");
        // Of exponential gaps, 1/e are longer than the mean.
        let long = times.windows(2).filter(|pair| pair[1] - pair[0] > 1000);
        let share = long.count() as f64 / count as f64;
        assert!((0.36..0.376).contains(&share), "{share}");
        assert_eq!(times, due_times(&load, None, count + 1), "the seed repeats");
    }

    #[test]
    fn bursts_keep_the_mean_rate() {
        let load = json!({
            "rate": "1Mpps", "pattern": "bursts", "packets": 4, "spacing": "100ns",
        });
        let times = due_times(&load, None, 9);
        assert_eq!(times, [0, 100, 200, 300, 4000, 4100, 4200, 4300, 8000]);
        // On a line of 672 Mbps a frame of 64 bytes takes 1 us.
        let load = json!({ "rate": "500kpps", "pattern": "bursts", "packets": 2 });
        let times = due_times(&load, Some("672Mbps"), 4);
        assert_eq!(times, [0, 1000, 4000, 5000]);
    }

    #[test]
    fn steps_change_the_rate_at_their_borders() {
        let load = json!({ "pattern": "steps", "steps": [
            { "rate": "1Mpps", "for": "3us" }, { "rate": "2Mpps", "for": "1us" },
            { "rate": "100kpps", "for": "1us" },
        ]});
        let times = due_times(&load, None, 8);
        assert_eq!(times, [0, 1000, 2000, 3000, 3500, 4000, 14_000, 24_000]);
    }
}
