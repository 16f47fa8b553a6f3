//! `traffic`: sends a profile's packets, each stamped with the time at which it should have left
//! and with how much later that was done.
//!
//! First step of a packet's life. The clock is read once per call; what is due goes, up to the room
//! there is, and what was not sent in time stays due (open loop, no coordinated omission). A packet
//! costs the copy of a template, a stamp and, where there are several flows, a few stores.

use std::path::{Path, PathBuf};
use std::time::Duration;

use catena_engine::config::{ConfigError, ConfigErrors, parse_config};
use catena_engine::nf::Nanos;
use catena_engine::own_counters::CounterSink;
use catena_engine::packet::Packet;
use catena_engine::port::{Port, PortError, PortKind, PortRole, RxBurst, RxState};
use catena_engine::units::Span;
use catena_port::buffer_wait::Buffer;
use catena_shm::tsc;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::plan::Plan;
use super::send_record::{SendRecord, Shortfall};
use super::slices::{Moment, SliceConfig, Slices};
use super::stall_recorder::{StallInterval, StallRecorder};
use super::tick_rate::TickRate;
use crate::flow_quality::sink::FLOW_COUNT_MAX;
use crate::profile::Profile;

/// How long after the planned end packets that are due are still sent.
pub const GRACE_NS: u64 = 20_000_000;
/// How long after the planned end a packet still counts as sent in time.
pub const LATE_END_NS: u64 = 10_000;
/// Gaps between calls above this are stalls.
pub const STALL_THRESHOLD_NS: u64 = 5_000;
/// Most stalls kept.
pub const STALL_COUNT_MAX: usize = 65_536;
/// How long the clock is measured when the port opens.
const CALIBRATION: Duration = Duration::from_millis(20);

/// What to send, and for how long.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The profile: a file, or the profile itself.
    profile: Source,
    /// How long to send; without it, and without `count`, for ever.
    duration: Option<Span>,
    /// How many packets to send.
    count: Option<u64>,
    /// How long to wait before the first packet, so that whatever is reached over ports is up.
    delay: Option<Span>,
    /// Number in the stamps, by which the receiver tells trials apart.
    #[serde(default)]
    trial: u8,
    /// Write what was sent, as JSON, to this file when the chain ends.
    results: Option<PathBuf>,
    /// Take turns with another chain's generator.
    slices: Option<SliceConfig>,
}

/// Where a profile is.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "this is no profile; write the path of a file, or the profile's own keys"
)]
enum Source {
    File(PathBuf),
    Here(serde_json::Map<String, serde_json::Value>),
}

/// The chain file's entry.
pub const KIND: PortKind = PortKind {
    name: "traffic",
    summary: "Sends a profile's packets, stamped with the time at which each is due",
    counters: &[
        "made",
        "unsent",
        "unstamped",
        "late_max_ns",
        "behind_by_chain",
        "behind_by_generator",
        "stalled_ns",
        "flow_numbers",
    ],
    drop_reasons: &[],
    schema: || schemars::schema_for!(Config),
    check: |config| {
        inline_profile(&parse_config::<Config>(config)?)?;
        Ok(PortRole {
            receives: true,
            sends: false,
        })
    },
    open,
};

/// The profile that stands in the chain file, if it does.
fn inline_profile(config: &Config) -> Result<Option<Profile>, ConfigErrors> {
    let Source::Here(profile) = &config.profile else {
        return Ok(None);
    };
    let profile = Profile::from_json(&serde_json::Value::Object(profile.clone()));
    profile.map(Some).map_err(|errors| {
        let within = |error: ConfigError| ConfigError {
            path: match error.path.as_str() {
                "" => "profile".to_owned(),
                path => format!("profile.{path}"),
            },
            ..error
        };
        errors.into_iter().map(within).collect()
    })
}

fn open(config: &serde_json::Value, dir: &Path) -> Result<Box<dyn Port>, PortError> {
    let refused = |errors: ConfigErrors| {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        PortError(lines.join("; "))
    };
    let config: Config = parse_config(config).map_err(refused)?;
    let (profile, dir) = match (&config.profile, inline_profile(&config).map_err(refused)?) {
        (Source::File(file), _) => {
            let path = dir.join(file);
            let profile = Profile::KIND.load(&path);
            let profile = profile.map_err(|errors| PortError(errors.to_string()))?;
            (profile, path.parent().unwrap_or(dir).to_owned())
        }
        (Source::Here(_), Some(profile)) => (profile, dir.to_owned()),
        (Source::Here(_), None) => return Err(PortError("there is no profile".to_owned())),
    };
    let plan = Plan::new(&profile, &dir).map_err(PortError)?;
    let mut port = TrafficPort::new(plan, config.trial, TickRate::measure(CALIBRATION));
    port.end_ns = config.duration.map(|span| span.ns);
    port.left = config.count;
    port.delay_ns = config.delay.map_or(0, |span| span.ns);
    port.results = config.results.map(|path| dir.join(path));
    port.slices = config.slices.map(|slices| Slices::new(&slices, port.rate));
    Ok(Box::new(port))
}

/// The port.
#[derive(Debug)]
pub struct TrafficPort {
    plan: Plan,
    trial: u8,
    rate: TickRate,
    is_max: bool,
    start: Option<u64>,
    delay_ns: u64,
    end_ns: Option<u64>,
    left: Option<u64>,
    /// The engine may sleep until this tick: before it, no gap is a stall.
    wake_at: Option<u64>,
    /// Whether the last call was held back by the chain, which then may not call for a while.
    is_held_back: bool,
    /// The most room that a call ever had.
    room_max: usize,
    record: SendRecord,
    stalls: StallRecorder,
    results: Option<PathBuf>,
    slices: Option<Slices>,
}

impl TrafficPort {
    /// A port that sends `plan` for ever; see [`Self::until`].
    pub fn new(plan: Plan, trial: u8, rate: TickRate) -> Self {
        Self {
            is_max: plan.is_max(),
            plan,
            trial,
            rate,
            start: None,
            delay_ns: 0,
            end_ns: None,
            left: None,
            wake_at: None,
            is_held_back: false,
            room_max: 0,
            record: SendRecord::default(),
            stalls: StallRecorder::new(rate.ticks(STALL_THRESHOLD_NS), STALL_COUNT_MAX),
            results: None,
            slices: None,
        }
    }

    /// Ends the traffic `end_ns` after its first call.
    #[must_use]
    pub const fn until(mut self, end_ns: u64) -> Self {
        self.end_ns = Some(end_ns);
        self
    }

    /// What was sent so far.
    pub const fn record(&self) -> &SendRecord {
        &self.record
    }

    /// Gaps between calls.
    pub const fn stalls(&self) -> &StallRecorder {
        &self.stalls
    }

    /// Whether the offered load fell short of the plan, and whose fault that is.
    pub fn shortfall(&self) -> Shortfall {
        let Some(end_ns) = self.end_ns.filter(|_| !self.is_max) else {
            return Shortfall::None;
        };
        let last_ns = self
            .rate
            .ns(self.record.last.saturating_sub(self.record.start));
        let stalled_ns = self.rate.ns(self.stalls.stalled());
        self.record.shortfall(end_ns, last_ns, stalled_ns)
    }

    /// Counts what was due before the end and is not going to be sent.
    fn give_up(&mut self) {
        let Some(end_ns) = self.end_ns.filter(|_| !self.is_max) else {
            return;
        };
        while self.plan.due_ns() < end_ns && self.left != Some(0) {
            self.plan.take();
            self.left = self.left.map(|left| left - 1);
            self.record.unsent += 1;
        }
    }

    /// Sends what is due at tick `now`, into `burst`; `engine_now` is the same instant on the
    /// engine's clock.
    pub fn send_due(&mut self, burst: &mut RxBurst<'_>, now: u64, engine_now: Nanos) -> RxState {
        if let Some(wake_at) = self.wake_at.take() {
            self.stalls.resume(wake_at.min(now));
        } else if std::mem::take(&mut self.is_held_back) {
            self.stalls.resume(now);
        }
        self.stalls.poll(now);
        match self.slices.as_ref().map(|slices| slices.at(now)) {
            Some(Moment::Over) => return RxState::Finished,
            Some(Moment::Wait(tick)) => {
                self.wake_at = Some(tick);
                return RxState::Until(engine_now.plus(self.rate.ns(tick - now)));
            }
            Some(Moment::Own) | None => {}
        }
        let sent_before = self.record.sent;
        let start = *self.start.get_or_insert_with(|| {
            self.record.start = now + self.rate.ticks(self.delay_ns);
            self.record.start
        });
        if now < start {
            self.wake_at = Some(start);
            return RxState::Until(engine_now.plus(self.rate.ns(start - now)));
        }
        let elapsed_ns = self.rate.ns(now.saturating_sub(start));
        let room = burst.room();
        self.room_max = self.room_max.max(room);
        let mut is_out_of_buffers = false;
        while burst.room() > 0 {
            let due_ns = if self.is_max {
                elapsed_ns
            } else {
                self.plan.due_ns()
            };
            if self.left == Some(0) || self.end_ns.is_some_and(|end_ns| due_ns >= end_ns) {
                return RxState::Finished;
            }
            if due_ns > elapsed_ns {
                self.wake_at = Some(start + self.rate.ticks(due_ns));
                return RxState::Until(engine_now.plus(due_ns - elapsed_ns));
            }
            let ends = self.end_ns.map(|end_ns| end_ns + GRACE_NS);
            if ends.is_some_and(|ends| elapsed_ns >= ends) {
                self.give_up();
                return RxState::Finished;
            }
            let len = self.plan.len_max();
            let Some(packet) = burst.try_alloc(len) else {
                match Buffer::ask(burst, len) {
                    Buffer::Ready => continue,
                    Buffer::Busy => {
                        is_out_of_buffers = true;
                        break;
                    }
                    Buffer::Never => {
                        self.plan.take();
                        self.record.unsent += 1;
                        continue;
                    }
                }
            };
            self.send_one(burst, packet, start, now, elapsed_ns);
        }
        if let Some(slices) = &mut self.slices {
            slices.count(now, self.record.sent - sent_before);
        }
        self.note_backlog(elapsed_ns, is_out_of_buffers || room < self.room_max);
        RxState::More
    }

    /// Fills `packet`, which has room for the longest, with the next.
    #[inline]
    fn send_one(
        &mut self,
        burst: &mut RxBurst<'_>,
        mut packet: Packet,
        start: u64,
        now: u64,
        elapsed_ns: u64,
    ) {
        let planned = self.plan.take();
        if planned.len != packet.len() && packet.set_len(planned.len).is_err() {
            // A plan never gives a longer packet than it announced.
            burst.discard(packet);
            self.record.unsent += 1;
            return;
        }
        let (intended, late_ns) = if self.is_max {
            (now, 0)
        } else {
            let late_ns = elapsed_ns - planned.due_ns;
            (start + self.rate.ticks(planned.due_ns), late_ns)
        };
        let times = (intended, now.saturating_sub(intended));
        self.plan
            .write(&planned, self.trial, times, packet.bytes_mut());
        burst.push(packet);
        self.record.last = now;
        let ends = self.end_ns.filter(|_| !self.is_max);
        if ends.is_some_and(|end_ns| elapsed_ns > end_ns + LATE_END_NS) {
            self.record.after_end += 1;
        }
        if let Some(left) = &mut self.left {
            *left -= 1;
        }
        self.record
            .note_sent(planned.len, late_ns, planned.flow.is_some());
    }

    /// Notes that a call ended before all that was due had gone.
    fn note_backlog(&mut self, elapsed_ns: u64, is_held_back: bool) {
        if self.is_max || self.plan.due_ns() > elapsed_ns {
            return;
        }
        self.is_held_back = is_held_back;
        if is_held_back {
            self.record.behind_by_chain += 1;
        } else {
            self.record.behind_by_generator += 1;
        }
    }
}

/// What a `traffic` port writes to its results file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SendResults {
    /// What was sent.
    pub record: SendRecord,
    /// Whether that is less than planned, and why.
    pub shortfall: Shortfall,
    /// Gaps between calls, in ticks.
    pub stalls: Vec<StallInterval>,
    /// Gaps that the list did not hold.
    pub stalls_missed: u64,
    /// Nanoseconds in a tick.
    pub ns_per_tick: f64,
    /// Packets of each flow that were sent or due, from flow 0; of the first flows only.
    pub offered_by_flow: Vec<u64>,
    /// Packets per second in the own slice of each pair, where there are slices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slice_rates_pps: Vec<f64>,
}

impl Port for TrafficPort {
    fn rx(&mut self, burst: &mut RxBurst<'_>, now: Nanos) -> RxState {
        self.send_due(burst, tsc::ticks(), now)
    }

    fn tx(&mut self, _packets: &mut [Packet], _now: Nanos) -> usize {
        0
    }

    fn close(&mut self) -> Result<(), PortError> {
        self.give_up();
        let Some(path) = &self.results else {
            return Ok(());
        };
        let offered = self.plan.taken_by_flow();
        let results = SendResults {
            record: self.record.clone(),
            shortfall: self.shortfall(),
            stalls: self.stalls.intervals().to_vec(),
            stalls_missed: self.stalls.missed(),
            ns_per_tick: self.rate.ns_per_tick(),
            offered_by_flow: offered.iter().take(FLOW_COUNT_MAX).copied().collect(),
            slice_rates_pps: self
                .slices
                .as_ref()
                .map_or_else(Vec::new, Slices::rates_pps),
        };
        super::receiver::write_results(path, &results)
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        out.extend([
            ("made", self.record.sent),
            ("unsent", self.record.unsent),
            ("unstamped", self.record.unstamped),
            ("late_max_ns", self.record.late_max_ns),
            ("behind_by_chain", self.record.behind_by_chain),
            ("behind_by_generator", self.record.behind_by_generator),
            ("stalled_ns", self.rate.ns(self.stalls.stalled())),
            ("flow_numbers", u64::from(self.plan.flow_number_end())),
        ]);
    }
}

#[cfg(test)]
#[path = "generator_tests.rs"]
mod tests;
