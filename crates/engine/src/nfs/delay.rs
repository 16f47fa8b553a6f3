//! `delay`: holds every packet for a time, as a long fibre or a slow network would.
//!
//! Packets leave in the order in which they came, each when its time is over and never before.
//! Those that arrive while as many are held as `limit` says, or for which the worker has no buffer,
//! are dropped as `no_buffer`. Another time (`catena apply`) holds for what is held already, too,
//! from the instant at which it came; what is above another limit is dropped as `unsent`. Should
//! its worker be killed, what it holds is lost and counted as killed.
//!
//! ```yaml
//! nfs:
//!   wan: { type: delay, time: 10ms, limit: 2000 }
//! ```

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::{ConfigError, ConfigErrors, parse_config};
use crate::nf::{
    BuiltNf, Burst, DropReason, Emission, HandOver, Kept, Nanos, Nf, NfKind, NfPlan, Verdict,
};
use crate::shard::Sharding;
use crate::units::Span;

/// How long, and how many packets.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// How long each packet is held, at most 10 s.
    time: Span,
    /// Most packets that are held at a time; 1000 if left out.
    #[serde(default = "limit_default")]
    limit: u32,
}

const fn limit_default() -> u32 {
    1000
}

/// Longest time: a chain that drains waits for it.
const TIME_NS_MAX: u64 = 10_000_000_000;
/// Most packets: memory is set aside for them.
const LIMIT_MAX: u32 = 1 << 20;

#[derive(Debug)]
struct Delay {
    time_ns: u64,
    limit: usize,
    /// What is held, with the instants at which it leaves; never more than `limit`.
    held: VecDeque<(Nanos, Kept)>,
}

impl Nf for Delay {
    fn process(&mut self, burst: &mut Burst<'_>, now: Nanos) {
        let due = now.plus(self.time_ns);
        for index in 0..burst.len() {
            let has_room = self.held.len() < self.limit;
            match has_room.then(|| burst.keep(index)).flatten() {
                Some(kept) => self.held.push_back((due, kept)),
                None => burst.set_verdict(index, Verdict::Drop(DropReason::NoBuffer)),
            }
        }
    }

    fn emits(&self) -> bool {
        true
    }

    fn emit(&mut self, out: &mut Emission<'_>, now: Nanos) -> Option<Nanos> {
        while let Some((due, kept)) = self.held.pop_front() {
            let kept = if due <= now {
                match out.send_kept(kept, 0) {
                    Ok(()) => continue,
                    Err(kept) => kept,
                }
            } else {
                kept
            };
            self.held.push_front((due, kept));
            return Some(due);
        }
        None
    }

    fn hand_over(&mut self) -> HandOver {
        let time_ns = self.time_ns;
        let came = |(due, kept): (Nanos, Kept)| (Nanos(due.since(Nanos(time_ns))), kept);
        HandOver {
            held: self.held.drain(..).map(came).collect(),
            note: None,
        }
    }

    fn take_over(&mut self, handed: HandOver) -> Vec<(Nanos, Kept)> {
        let mut held = handed.held;
        let rest = held.split_off(held.len().min(self.limit));
        let due = |(came, kept): (Nanos, Kept)| (came.plus(self.time_ns), kept);
        self.held.extend(held.into_iter().map(due));
        rest
    }
}

/// A configuration that makes sense.
fn checked(config: &serde_json::Value) -> Result<Config, ConfigErrors> {
    let config: Config = parse_config(config)?;
    let Config { time, limit } = &config;
    let mut errors = Vec::new();
    if time.ns > TIME_NS_MAX {
        let message = format!("{} ns is too long", time.ns);
        errors.push(ConfigError::new("time", message, "write at most 10s"));
    }
    if !(1..=LIMIT_MAX).contains(limit) {
        let message = format!("{limit} packets cannot be held");
        let repair = format!("write 1 to {LIMIT_MAX}");
        errors.push(ConfigError::new("limit", message, repair));
    }
    match errors.is_empty() {
        true => Ok(config),
        false => Err(errors),
    }
}

/// The chain file's entry.
pub const KIND: NfKind = NfKind {
    name: "delay",
    summary: "Holds every packet for a time",
    example: r#"{"time": "1ms"}"#,
    schema: || schemars::schema_for!(Config),
    plan: |config, _outputs| {
        checked(config)?;
        let plan = NfPlan::new().sharding(Sharding::Any);
        Ok(plan.allocates().changes_no_key().carries_segments())
    },
    build: |config, _context| {
        let Config { time, limit } = checked(config)?;
        let limit = limit as usize;
        Ok(BuiltNf::new(Delay {
            time_ns: time.ns,
            limit,
            held: VecDeque::with_capacity(limit),
        }))
    },
};

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::nf_bench::NfBench;

    fn bench(config: &serde_json::Value) -> NfBench {
        NfBench::new(&KIND, config, &["out"]).unwrap()
    }

    #[test]
    fn packets_leave_in_order_when_their_time_is_over() {
        let mut bench = bench(&json!({"time": "5us"}));
        let packets: [&[u8]; 3] = [b"one", b"two", b"three"];
        for (at, packet) in (0..).zip(packets) {
            bench.now = Nanos(1000 * at);
            assert_eq!(bench.process_one(packet).verdict, Verdict::Kept);
        }
        assert_eq!(bench.held(), 3);
        bench.now = Nanos(4999);
        let (emitted, next) = bench.emit(9, false);
        assert!(emitted.is_empty());
        assert_eq!(next, Some(Nanos(5000)));
        bench.now = Nanos(6000);
        let (emitted, next) = bench.emit(9, false);
        let bytes: Vec<_> = emitted.iter().map(|packet| &packet.bytes[..]).collect();
        assert_eq!(bytes, packets[..2]);
        assert_eq!(next, Some(Nanos(7000)));
        bench.now = Nanos(7000);
        let (emitted, next) = bench.emit(9, true);
        assert_eq!((emitted[0].bytes.as_slice(), next), (packets[2], None));
        assert_eq!((bench.held(), bench.buffers_in_use()), (0, 0));
    }

    #[test]
    fn what_finds_no_room_is_still_held() {
        let mut bench = bench(&json!({"time": "1us"}));
        bench.process(&[b"one", b"two", b"three"]);
        bench.now = Nanos(2000);
        let sent = |bench: &mut NfBench, room| bench.emit(room, false).0.len();
        assert_eq!(sent(&mut bench, 0), 0);
        assert_eq!(sent(&mut bench, 2), 2);
        assert_eq!((bench.held(), bench.buffers_in_use()), (1, 1));
        assert_eq!(sent(&mut bench, 2), 1);
        assert_eq!(bench.buffers_in_use(), 0);
    }

    #[test]
    fn what_is_above_the_limit_is_dropped() {
        let mut bench = bench(&json!({"time": "1us", "limit": 2}));
        let result = bench.process(&[b"one", b"two", b"three"]);
        let verdicts = result.packets.iter().map(|packet| packet.verdict);
        let drop = Verdict::Drop(DropReason::NoBuffer);
        assert!(verdicts.eq([Verdict::Kept, Verdict::Kept, drop]));
        assert_eq!((bench.held(), bench.buffers_in_use()), (2, 2));
    }

    #[test]
    fn wrong_settings_are_refused() {
        let paths = |config: &serde_json::Value| {
            let errors = NfBench::new(&KIND, config, &["out"]).unwrap_err();
            let paths = errors.into_iter().map(|error| error.path);
            paths.collect::<Vec<_>>()
        };
        let wrong = json!({"time": "11s", "limit": 0});
        assert_eq!(paths(&wrong), ["time", "limit"]);
        assert_eq!(paths(&json!({"time": "1s", "limit": 2_000_000})), ["limit"]);
    }
}
