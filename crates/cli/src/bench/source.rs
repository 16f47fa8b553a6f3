//! `bench-source`: packets whose every byte is written, as fast as they fit, one by one, or at a
//! given rate.
//!
//! At a rate, each packet is stamped with the time at which it was due, not with the time at which
//! it was written: a source that is held up sends late packets with old stamps, so that the
//! hold-up is part of the latency (no coordinated omission).

use std::time::Duration;

use catena_engine::config::{ConfigError, parse_config};
use catena_engine::nf::Nanos;
use catena_engine::packet::Packet;
use catena_engine::port::{Port, PortError, PortKind, PortNeeds, PortRole, RxBurst, RxState};
use catena_shm::tsc;
use schemars::JsonSchema;
use serde::Deserialize;

use super::STAMP;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// Bytes per packet.
    size: usize,
    /// Nanoseconds between lone packets, stamped when written.
    #[serde(default)]
    gap_ns: Option<u64>,
    /// Packets per second, stamped with the time they are due. Without it and `gap_ns`, as many as
    /// fit.
    #[serde(default)]
    rate: Option<f64>,
    /// Stamp packets that are sent as fast as they fit, when they are written.
    #[serde(default)]
    stamp: bool,
    /// EtherTypes in turn, from 0x88b5 (IEEE 802, for experiments); none unless given.
    #[serde(default)]
    kinds: u16,
}

/// First EtherType for experiments.
const FIRST_ETHER_TYPE: u16 = 0x88b5;

/// When packets go.
enum Schedule {
    Full,
    Gap { ns: u64, next: Nanos },
    Rate(Pacer),
}

/// Due times at a constant rate, in ticks.
struct Pacer {
    /// When packet 0 was due; set by the first look.
    start: Option<u64>,
    ticks_per_packet: f64,
    ns_per_tick: f64,
    sent: u64,
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "spans of hours in ticks fit the 53 bits of a float"
)]
impl Pacer {
    fn new(rate: f64, ns_per_tick: f64) -> Self {
        Self {
            start: None,
            ticks_per_packet: 1e9 / rate / ns_per_tick,
            ns_per_tick,
            sent: 0,
        }
    }

    /// When packet `index` is due.
    fn due_at(&self, index: u64) -> u64 {
        self.start.unwrap_or(0) + (index as f64 * self.ticks_per_packet) as u64
    }

    /// How many packets are due at `now` and not sent.
    fn due(&mut self, now: u64) -> u64 {
        let start = *self.start.get_or_insert(now);
        let elapsed = now.saturating_sub(start) as f64;
        let due = (elapsed / self.ticks_per_packet) as u64 + 1;
        due.saturating_sub(self.sent)
    }

    /// Nanoseconds from `now` until the next packet is due.
    fn wait_ns(&self, now: u64) -> u64 {
        let ticks = self.due_at(self.sent).saturating_sub(now);
        (ticks as f64 * self.ns_per_tick) as u64
    }
}

/// What is written into packets.
struct Pattern {
    kinds: u16,
    sequence: u64,
}

impl Pattern {
    /// Writes all of a packet: words that differ from packet to packet, and what was asked for.
    #[inline]
    fn write(&mut self, packet: &mut Packet, stamp: Option<u64>) {
        self.sequence = self.sequence.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = self.sequence;
        let bytes = packet.bytes_mut();
        let (lines, rest) = bytes.as_chunks_mut::<64>();
        for line in lines {
            for (n, to) in line.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                *to = word.wrapping_add(n as u64).to_le_bytes();
            }
        }
        for byte in rest {
            *byte = 0;
        }
        if self.kinds > 0
            && let Some(ether_type) = bytes.get_mut(12..14)
        {
            // Upper bits of a multiple of the golden ratio: even shares in no simple order.
            let kind = ((word >> 48) * u64::from(self.kinds)) >> 16;
            let kind = FIRST_ETHER_TYPE.wrapping_add(u16::try_from(kind).unwrap_or(0));
            ether_type.copy_from_slice(&kind.to_be_bytes());
        }
        if let Some(stamp) = stamp
            && let Some(place) = bytes.get_mut(STAMP)
        {
            place.copy_from_slice(&stamp.to_le_bytes());
        }
    }
}

struct Source {
    size: usize,
    stamps: bool,
    schedule: Schedule,
    pattern: Pattern,
}

impl Port for Source {
    fn rx(&mut self, burst: &mut RxBurst<'_>, now: Nanos) -> RxState {
        let Self {
            size,
            stamps,
            schedule,
            pattern,
        } = self;
        let room = burst.room();
        match schedule {
            Schedule::Full => {
                let stamps = *stamps;
                let write = |packet: &mut Packet| {
                    pattern.write(packet, stamps.then(tsc::ticks));
                };
                if burst.fill(room, *size, write) < room {
                    return RxState::Idle;
                }
                RxState::More
            }
            Schedule::Gap { next, .. } if now < *next => RxState::Until(*next),
            Schedule::Gap { ns, next } => {
                *next = now.plus(*ns);
                let write = |packet: &mut Packet| pattern.write(packet, Some(tsc::ticks()));
                if burst.fill(1, *size, write) < 1 {
                    return RxState::Idle;
                }
                RxState::Until(*next)
            }
            Schedule::Rate(pacer) => {
                let ticks = tsc::ticks();
                let due = usize::try_from(pacer.due(ticks)).unwrap_or(usize::MAX);
                let count = due.min(room);
                let mut index = pacer.sent;
                let write = |packet: &mut Packet| {
                    pattern.write(packet, Some(pacer.due_at(index)));
                    index += 1;
                };
                let done = burst.fill(count, *size, write);
                pacer.sent += done as u64;
                if done < count {
                    RxState::Idle
                } else if due > room {
                    RxState::More
                } else {
                    RxState::Until(now.plus(pacer.wait_ns(ticks)))
                }
            }
        }
    }
}

/// How long the counter is measured against the kernel's clock.
const CALIBRATION: Duration = Duration::from_millis(50);

/// The chain file's entry.
pub(super) const KIND: PortKind = PortKind {
    name: "bench-source",
    summary: "Packets for benchmarks, every byte written",
    counters: &[],
    drop_reasons: &[],
    needs: PortNeeds::NONE,
    schema: || schemars::schema_for!(Config),
    check: |config| {
        let config = parse_config::<Config>(config)?;
        if config.rate.is_some_and(|rate| rate.is_nan() || rate <= 0.0) {
            let message = "a rate must be above 0";
            let repair = "write packets per second, like 1000000";
            return Err(vec![ConfigError::new("rate", message, repair)]);
        }
        Ok(PortRole::of(true, false))
    },
    open: |config, _| {
        let config: Config =
            parse_config(config).map_err(|_| PortError("wrong settings".to_owned()))?;
        let schedule = match (config.gap_ns, config.rate) {
            (Some(ns), _) => Schedule::Gap { ns, next: Nanos(0) },
            (None, Some(rate)) => Schedule::Rate(Pacer::new(rate, tsc::ns_per_tick(CALIBRATION))),
            (None, None) => Schedule::Full,
        };
        Ok(Box::new(Source {
            size: config.size,
            stamps: config.stamp,
            schedule,
            pattern: Pattern {
                kinds: config.kinds,
                sequence: 0,
            },
        }))
    },
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pacer_catches_up_and_keeps_due_times() {
        // A packet per 100 ticks of half a nanosecond.
        let mut pacer = Pacer::new(2e7, 0.5);
        assert_eq!(pacer.due(5_000), 1);
        pacer.sent = 1;
        assert_eq!((pacer.due(5_099), pacer.wait_ns(5_000)), (0, 50));
        // Held up for a thousand ticks: all are due, with the times at which they were.
        assert_eq!(pacer.due(6_000), 10);
        assert_eq!([pacer.due_at(1), pacer.due_at(10)], [5_100, 6_000]);
    }

    #[test]
    fn a_rate_of_nothing_is_refused() {
        for rate in [0.0, -1.0] {
            let config = serde_json::json!({ "size": 64, "rate": rate });
            assert!((KIND.check)(&config).is_err());
        }
    }
}
