//! `nat44`: subscribers share addresses of the world (NAPT for IPv4, carrier-grade NAT).
//!
//! ```yaml
//! nfs:
//!   nat: { type: nat44, inside: [10.0.0.0/8], outside: [198.51.100.0/28] }
//! links:
//!   - subscribers -> nat
//!   - world -> nat
//!   - nat.outside -> world
//!   - nat.inside -> subscribers
//! ```
//!
//! The first link that arrives is the subscribers', all others the world's. Mappings do not depend
//! on the far end (RFC 4787, RFC 5382, RFC 5508); ports are given in blocks, which are logged (RFC
//! 6888, RFC 7422). Sessions outlive a kill (`translator`); fragments, blocks that wait and the log
//! do not. What is not IPv4 passes, ARP too. Limits: one worker; no application's addresses inside
//! payloads; fragments in order only (`fragments`), with the identifications that their senders
//! gave (RFC 6864 5.3.1); addresses of frames are left as they are, swapped where a packet turns
//! back.

mod config;
mod endpoint;
mod fragments;
mod icmp;
mod log;
mod packet;
mod path;
mod pool;
mod show;
mod subscribers;
mod tcp;
#[cfg(test)]
mod tests;
mod translator;
mod why;

use std::collections::VecDeque;

use catena_engine::config::ConfigErrors;
use catena_engine::nf::{
    BuildContext, BuiltNf, Burst, DropReason, Emission, Inputs, Kept, Nanos, Nf, NfKind, NfPlan,
    StatePlan, Verdict,
};
use catena_engine::own_counters::CounterSink;
use catena_engine::shard::Sharding;
use catena_shm::state::StateWords;
use serde_json::Value;

use crate::Flow;
use crate::kept::Table;
use crate::table::lookup::BURST_MAX;

use config::{Settings, schema, settings};
use fragments::Fragments;
use packet::Arrival;
use path::{FROM_INSIDE, Found, Path, Step, TO_INSIDE, TO_OUTSIDE, Translated};
use translator::Nat;
use why::{REASONS, Why};

/// What outlives the NF.
const STATE: &str = "sessions";
/// Packets that wait for each output, in a circle.
const QUEUE_MAX: usize = 1024;
/// Sessions and fragments that end behind a burst; at a tick as many as one call ends.
const EXPIRY_PER_BURST: u32 = 16;

const COUNTERS: [&str; 18] = [
    "sessions",
    "mappings",
    "subscribers",
    "blocks",
    "fragmented",
    "outbound",
    "inbound",
    "hairpinned",
    "icmp_errors",
    "later_fragments",
    "untranslated",
    "sessions_made",
    "mappings_made",
    "blocks_assigned",
    "blocks_released",
    "events_lost",
    "events_waiting",
    "sessions_given_up",
];

/// Those of them that tell what is there now.
const STANDING: [&str; 6] = [
    "sessions",
    "mappings",
    "subscribers",
    "blocks",
    "fragmented",
    "events_waiting",
];

fn kept(settings: &Settings) -> Table {
    Table {
        name: STATE,
        shape: translator::shape(settings),
    }
}

fn nf_plan(config: &Value) -> Result<NfPlan, ConfigErrors> {
    let settings = settings(config)?;
    let plan = NfPlan::new()
        .outputs(["outside", "inside"])
        .writes()
        .carries_segments()
        .counters(COUNTERS)
        .standing(STANDING)
        .drop_reasons(REASONS)
        .state(StatePlan {
            name: STATE.to_owned(),
            bytes: kept(&settings).bytes()?,
            layout: 1,
            is_shared: false,
        })
        .requests([
            (
                r#"{"show": "mappings"}"#,
                "endpoints inside and outside, from a place `from` on",
            ),
            (
                r#"{"show": "sessions"}"#,
                "with their far ends, from a place `from` on",
            ),
            (
                r#"{"show": "blocks"}"#,
                "whose ports are whose, from a place `from` on",
            ),
            (
                r#"{"show": "subscriber", "inside": "10.0.0.1"}"#,
                "its blocks and how many sessions it has",
            ),
            (
                r#"{"events": 100}"#,
                "takes notes of blocks out of the log, the oldest first",
            ),
        ])
        .sharding(Sharding::No(
            "subscribers reach each other by its mappings, which shards would not share: write \
             several nodes, each with networks inside and addresses outside of its own"
                .into(),
        ));
    Ok(match settings.circle {
        true => plan.inputs(Inputs::Ending).allocates(),
        false => plan.inputs(Inputs::Many),
    })
}

fn build(config: &Value, context: &mut BuildContext<'_>) -> Result<BuiltNf, ConfigErrors> {
    let settings = settings(config)?;
    let kept = kept(&settings);
    let (sessions, notice) = kept.open(context)?;
    let circle = settings.circle;
    let fragments = Fragments::new(settings.fragments, settings.timeouts.fragment.ns);
    let fragments = fragments.ok_or_else(|| kept.too_many("there are too many fragments"))?;
    let nat = Nat::new(settings, sessions);
    let (nat, given_up) = nat.ok_or_else(|| kept.too_many("its tables cannot be made"))?;
    let path = Path {
        nat,
        fragments,
        translated: Translated::default(),
    };
    let mut built = BuiltNf::new(Nat44 {
        path,
        batch: Batch::new(),
        queues: circle.then(|| [const { VecDeque::new() }; 2].map(with_room)),
        given_up: given_up.into(),
        now: Nanos(0),
    });
    built.notices.extend(notice);
    Ok(built)
}

fn with_room(mut queue: VecDeque<Kept>) -> VecDeque<Kept> {
    queue.reserve_exact(QUEUE_MAX);
    queue
}

/// What is read and looked up of a burst before any packet of it is translated.
#[derive(Debug)]
struct Batch {
    arrivals: Vec<Arrival>,
    keys: Vec<u64>,
    outsides: Vec<u64>,
    insides: Vec<u64>,
    found: Vec<Option<Flow>>,
    verdicts: Vec<Result<u8, Why>>,
}

impl Batch {
    fn new() -> Self {
        Self {
            arrivals: Vec::with_capacity(BURST_MAX),
            keys: Vec::with_capacity(2 * BURST_MAX),
            outsides: Vec::with_capacity(BURST_MAX),
            insides: Vec::with_capacity(BURST_MAX),
            found: Vec::with_capacity(BURST_MAX),
            verdicts: Vec::with_capacity(BURST_MAX),
        }
    }

    fn clear(&mut self) {
        self.arrivals.clear();
        self.keys.clear();
        self.outsides.clear();
        self.insides.clear();
        self.found.clear();
        self.verdicts.clear();
    }

    /// Looks up sessions of all packets; of those from outside first who is inside.
    fn look_up(&mut self, path: &mut Path<Memory>, input: u8, now: Nanos) {
        let count = self.arrivals.len();
        self.found.resize(count, None);
        self.insides.resize(count, 0);
        if input != FROM_INSIDE {
            self.outsides.extend(self.keys.iter().step_by(2));
            path.nat
                .look_back(&self.outsides, &mut self.found, &mut self.insides);
            for (key, inside) in self.keys.chunks_exact_mut(2).zip(&self.insides) {
                key[0] = *inside;
            }
        }
        path.nat.look_up(&self.keys, now.0, &mut self.found);
    }

    fn found(&self, index: usize) -> Found {
        Found {
            inside: self.insides.get(index).copied().unwrap_or(0),
            session: self.found.get(index).copied().flatten(),
        }
    }
}

type Memory = std::sync::Arc<StateWords>;

/// The NF.
struct Nat44 {
    path: Path<Memory>,
    batch: Batch,
    /// In a circle: packets that wait for their output.
    queues: Option<[VecDeque<Kept>; 2]>,
    /// Sessions of a predecessor that had no place here.
    given_up: u64,
    now: Nanos,
}

impl Nat44 {
    /// In a circle packets end here, and wait until they are sent.
    fn keep_all(&mut self, burst: &mut Burst<'_>) {
        let Some(queues) = &mut self.queues else {
            return;
        };
        for (index, verdict) in self.batch.verdicts.iter().enumerate() {
            let Ok(output) = verdict else {
                continue;
            };
            let queue = &mut queues[usize::from(*output)];
            let refused = if queue.len() >= QUEUE_MAX {
                Why::QueueFull.into()
            } else if let Some(kept) = burst.keep(index) {
                queue.push_back(kept);
                continue;
            } else {
                DropReason::NoBuffer
            };
            burst.set_verdict(index, Verdict::Drop(refused));
        }
    }

    fn expire(&mut self, now: Nanos, budget: u32) {
        self.path.nat.expire(now.0, budget);
        self.path.fragments.expire(now.0, budget);
    }
}

impl Nf for Nat44 {
    fn process(&mut self, burst: &mut Burst<'_>, now: Nanos) {
        self.now = now;
        let input = burst.input();
        let Self { path, batch, .. } = self;
        batch.clear();
        burst.each(|packet, _| {
            let arrival = Arrival::of(packet.bytes());
            batch.keys.extend(path.key(&arrival, input));
            batch.arrivals.push(arrival);
        });
        batch.look_up(path, input, now);
        let mut index = 0;
        burst.each(|packet, verdict| {
            let is_open = !packet.offload().is_none();
            let step = Step {
                found: batch.found(index),
                input,
                is_open,
                now,
            };
            let arrival = batch.arrivals.get(index).copied();
            let arrival = arrival.unwrap_or(Arrival::Malformed);
            let decided = path.translate(packet.bytes_mut(), &arrival, step);
            *verdict = match decided {
                Ok(output) => Verdict::Output(output),
                Err(why) => Verdict::Drop(why.into()),
            };
            batch.verdicts.push(decided);
            index += 1;
        });
        self.keep_all(burst);
        self.expire(now, EXPIRY_PER_BURST);
    }

    fn tick(&mut self, now: Nanos) {
        self.now = now;
        self.expire(now, translator::EXPIRY_BUDGET);
    }

    fn ends_paths(&self) -> bool {
        self.queues.is_some()
    }

    fn emit(&mut self, out: &mut Emission<'_>, _now: Nanos) -> Option<Nanos> {
        for output in [TO_OUTSIDE, TO_INSIDE] {
            let queues = self.queues.as_mut();
            let queue = queues.map(|queues| &mut queues[usize::from(output)])?;
            while let Some(kept) = queue.pop_front() {
                if let Err(kept) = out.send_kept(kept, output) {
                    queue.push_front(kept);
                    break;
                }
            }
        }
        None
    }

    fn control(&mut self, request: &Value) -> Result<Value, String> {
        show::answer(&mut self.path.nat, request, self.now)
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        let Path {
            nat,
            fragments,
            translated,
        } = &self.path;
        let values = [
            nat.sessions.len().into(),
            nat.mappings.len().into(),
            nat.subscribers.len().into(),
            nat.pool.assigned().into(),
            fragments.len().into(),
            translated.outbound,
            translated.inbound,
            translated.hairpinned,
            translated.icmp_errors,
            translated.later_fragments,
            translated.untranslated,
            nat.counts.sessions_made,
            nat.counts.mappings_made,
            nat.counts.blocks_assigned,
            nat.counts.blocks_released,
            nat.log.lost,
            nat.log.len() as u64,
            self.given_up,
        ];
        out.extend(COUNTERS.into_iter().zip(values));
    }
}

/// The chain file's entry.
pub const KIND: NfKind = NfKind {
    name: "nat44",
    summary: "Has subscribers share IPv4 addresses of the world, by ports",
    example: r#"{"inside": ["10.0.0.0/8"], "outside": ["198.51.100.0/28"]}"#,
    schema,
    plan: |config, _outputs| nf_plan(config),
    build,
};
