//! `flow`: runs a stateful program over packets and their flows.
//!
//! ```yaml
//! nfs:
//!   police:
//!     type: flow
//!     program:
//!       elements:
//!         - name: police
//!           key: [ipv4.src]
//!           meters: { limit: { gcra: { rate: 10kpps, burst: 32 } } }
//!           before: ["meta.colour = meter(limit)"]
//!           transitions:
//!             - { if: meta.colour == 2, do: [drop(red)] }
//!             - { do: [output(out)] }
//!       metadata: { colour: 2 }
//! ```
//!
//! State of flows and registers of the program outlive a kill, and a change of the program that
//! leaves their layout as it is. Flows end within some turns of their time; a turn ends
//! [`EXPIRY_BUDGET`] at most. What a program sends itself waits for room, [`EMISSION_COUNT_MAX`]
//! packets at most.
//!
//! [`EMISSION_COUNT_MAX`]: crate::program::queue::EMISSION_COUNT_MAX

mod amending;
mod control;
mod flows;
mod interface;
mod moving;
mod outside;
mod planned;
mod request;
mod sharding;
#[cfg(test)]
mod sharding_tests;
#[cfg(test)]
mod tests;

use catena_engine::config::{ConfigError, ConfigErrors};
use catena_engine::nf::exchange::{DataEnd, exchange};
use catena_engine::nf::{
    BuildContext, BuiltNf, Burst, DropReason, Emission, Inputs, Nanos, Nf, NfKind, NfPlan,
    StatePlan, Verdict as NfVerdict,
};
use catena_shm::state::StateWords;
use serde_json::Value;

use crate::AttachError;
use crate::hash::random_seed;
use crate::kept::{Region, bytes_of};
use crate::program::entries::Tables;
use crate::program::ir::{Fact, Op, Verdict};
use crate::program::layout::Portion;
use crate::program::run::{Arrival, Decision, Running};

pub use planned::{Compiler, machine_code, set_compiler};

use control::{Control, Down, EXCHANGE_CAPACITY, Up};
use interface::{Interface, reasons};
use planned::{Config, Planned, load, plan};

/// Flows that end in a turn, at most.
pub const EXPIRY_BUDGET: u32 = 64;
/// Name of the memory that outlives the NF.
const STATE: &str = "flows";
/// Name of the memory of registers that all shards of a node share.
const SHARED: &str = "shared";
/// Reasons of the NF itself, in front of those of the program.
const FLOW_FULL: DropReason = DropReason::own(0);
const NO_DECISION: DropReason = DropReason::own(1);

/// Names of the counters, in the order in which [`Flows::counters`] gives them.
const COUNTERS: [&str; 12] = [
    "flows",
    "lookups",
    "hits",
    "inserts",
    "expired",
    "evicted",
    "full",
    "not_stored",
    "keyless",
    "emitted",
    "emissions_lost",
    "events_lost",
];

/// Those of them that lie in the flows' memory.
const STANDING: [&str; 6] = ["flows", "lookups", "hits", "inserts", "expired", "full"];

fn nf_plan(planned: &Planned) -> NfPlan {
    let program = &planned.program;
    let mut plan = NfPlan::new()
        .outputs(&program.outputs)
        .counters(COUNTERS)
        .standing(STANDING)
        .drop_reasons(reasons(program))
        .headroom(u8::try_from(program.headroom()).unwrap_or(u8::MAX))
        .state(StatePlan {
            name: STATE.to_owned(),
            bytes: bytes_of(planned.layout.words),
            layout: planned.layout.number,
            is_shared: false,
        })
        .requests([
            (
                r#"{"show": "flows"}"#,
                "entries of an `element`, from a place `from` on",
            ),
            (r#"{"show": "globals"}"#, "global registers"),
            (r#"{"show": "transitions"}"#, "how often each was taken"),
            (r#"{"show": "program"}"#, "what runs"),
            (r#"{"show": "traces"}"#, "packets that `trace` followed"),
        ])
        .amended_by(amending::amend);
    if planned.layout.shared_words > 0 {
        plan = plan.state(StatePlan {
            name: SHARED.to_owned(),
            bytes: bytes_of(planned.layout.shared_words),
            layout: planned.layout.shared_number,
            is_shared: true,
        });
    }
    if program.writes() {
        plan = plan.writes();
    }
    // Only whoever asks where packets come from may have several inputs.
    let asks = |op: &Op| matches!(op, Op::Fact { fact, .. } if *fact == Fact::Input);
    if program.ops().any(asks) {
        plan = plan.inputs(Inputs::Many);
    }
    if program.makes_packets() {
        plan = plan.allocates();
    }
    plan.moved_by(moving::mover)
        .summed_by(sharding::sum)
        .splits_by(sharding::signature(program))
        .sharding(sharding::of(program))
}

fn build(config: &Value, context: &mut BuildContext<'_>) -> Result<BuiltNf, ConfigErrors> {
    let planned = plan(config)?;
    let (layout, program) = (&planned.layout, &planned.program);
    let kept = Region::take(context, STATE, layout.words);
    let shared = Region::take(context, SHARED, layout.shared_words);
    let ground = kept.attach_or_create(
        "flows and registers",
        |memory, now_ns| layout.attach(program, memory, now_ns),
        |memory| layout.create(program, memory, random_seed, 0),
    );
    let fault =
        |error: AttachError, repair: &str| vec![ConfigError::new("", error.to_string(), repair)];
    let (ground, lost) = ground.map_err(|error| fault(error, "ask for fewer flows"))?;
    let shared = layout.share(&shared.memory);
    let shared = shared.map_err(|error| fault(error, "report this"))?;
    let interface = Interface::of(program, context.shard_count > 1);
    let numbers = layout.numbers();
    let engine = planned.engine;
    let (loaded, notice) = load(planned);
    let elements = loaded.program().elements.len();
    let known = (
        Tables::of(loaded.tables()),
        loaded.program().elements.clone(),
    );
    let emits = loaded.program().makes_packets();
    let (to_data, data) = exchange(EXCHANGE_CAPACITY);
    let nf = Flows {
        running: Running::new(Box::new(loaded), ground, shared),
        elements,
        emits,
        data,
        control: control::Answers::default(),
    };
    let control = Control::new(to_data, interface, known, numbers, engine);
    let mut built = BuiltNf::new(nf).with_control(control);
    built.notices.extend(lost.into_iter().chain(notice));
    Ok(built)
}

/// The data half.
struct Flows {
    running: Running<Portion<StateWords>>,
    elements: usize,
    emits: bool,
    data: DataEnd<Down, Up>,
    control: control::Answers,
}

impl Flows {
    fn verdict(&self, index: usize) -> (NfVerdict, u64) {
        let (decision, clones) = self.running.decision(index);
        let verdict = match decision {
            Decision::Program(Verdict::Output(output)) => NfVerdict::Output(output),
            Decision::Program(Verdict::Drop(reason)) if usize::from(reason) < 30 => {
                NfVerdict::Drop(DropReason::own(reason + 2))
            }
            Decision::Program(Verdict::Drop(_)) => NfVerdict::Drop(NO_DECISION),
            Decision::Malformed => NfVerdict::Drop(DropReason::Malformed),
            Decision::NoHeadroom => NfVerdict::Drop(DropReason::NoHeadroom),
            Decision::FlowFull => NfVerdict::Drop(FLOW_FULL),
        };
        (verdict, clones)
    }
}

impl Nf for Flows {
    fn process(&mut self, burst: &mut Burst<'_>, now: Nanos) {
        self.control.now_ns = now.0;
        let count = burst.len();
        let arrival = Arrival {
            now_ns: now.0,
            input: burst.input(),
        };
        let last = self.elements.saturating_sub(1);
        let mut has_clones = false;
        for element in 0..self.elements {
            let mut index = 0;
            // Headers are found in front of the first one; of the others, those without flows have
            // no keys.
            if element == 0 || self.running.flows(element).is_some() {
                burst.each(|packet, _| {
                    self.running.make_key(element, index, packet, arrival);
                    index += 1;
                });
                self.running.look_up(element, count, now.0);
            }
            index = 0;
            burst.each(|packet, verdict| {
                if !self
                    .control
                    .step(&mut self.running, element, index, packet, arrival)
                {
                    self.running.step(element, index, packet, arrival);
                }
                if element == last {
                    let (decided, clones) = self.verdict(index);
                    has_clones |= clones != 0;
                    *verdict = decided;
                    self.control.decided(index, decided);
                }
                index += 1;
            });
        }
        if has_clones {
            for index in 0..count {
                let (_, clones) = self.running.decision(index);
                for output in (0..64_u8).filter(|output| clones >> output & 1 == 1) {
                    burst.copy_to(index, output);
                }
            }
        }
    }

    fn tick(&mut self, now: Nanos) {
        if !self.emits {
            self.expire(now);
        }
    }

    fn emits(&self) -> bool {
        self.emits
    }

    fn emit(&mut self, out: &mut Emission<'_>, now: Nanos) -> Option<Nanos> {
        let is_behind = !out.is_draining() && self.expire(now);
        let emissions = &mut self.running.emissions;
        while let Some((output, bytes)) = emissions.first() {
            // What came may be longer than a buffer of this worker's own.
            if !out.can_make(bytes.len()) {
                emissions.give_up();
            } else if out.send(output, bytes.len(), 0, |to| to.copy_from_slice(bytes)) {
                emissions.pop();
            } else {
                break;
            }
        }
        let next = self.running.next_expiry_ns().map(|at| Nanos(at.max(now.0)));
        if is_behind { Some(now) } else { next }
    }

    fn holds_packets(&self) -> bool {
        !self.running.emissions.is_empty()
    }

    fn exchange(&mut self, budget: usize) -> bool {
        let Self {
            running,
            data,
            control,
            ..
        } = self;
        data.drain(budget, |value| Some(Box::new(value.act(running, control))))
    }

    fn control(&mut self, request: &Value) -> Result<Value, String> {
        self.control.answer(&mut self.running, request)
    }

    fn counters(&self, out: &mut catena_engine::own_counters::CounterSink<'_>) {
        let mut sums = [0; 5];
        let mut flows = 0;
        for element in 0..self.elements {
            if let Some(table) = self.running.flows(element) {
                let counters = table.counters();
                flows += u64::from(table.len());
                let all = [
                    counters.lookups,
                    counters.hits,
                    counters.inserts,
                    counters.expired,
                    counters.full,
                ];
                sums.iter_mut()
                    .zip(all)
                    .for_each(|(sum, count)| *sum += count);
            }
        }
        let counts = &self.running.counts;
        let values = [
            flows,
            sums[0],
            sums[1],
            sums[2],
            sums[3],
            counts.evicted,
            sums[4],
            counts.not_stored,
            counts.keyless,
            self.running.emissions.sent,
            self.running.emissions.lost,
            self.running.notices.lost,
        ];
        out.extend(COUNTERS.into_iter().zip(values));
    }
}

impl Flows {
    /// Whether more flows are due than a turn ends.
    fn expire(&mut self, now: Nanos) -> bool {
        self.control.now_ns = now.0;
        let mut is_behind = false;
        for element in 0..self.elements {
            is_behind |= self.running.expire(element, now.0, EXPIRY_BUDGET);
        }
        is_behind
    }
}

/// The chain file's entry.
pub const KIND: NfKind = NfKind {
    name: "flow",
    summary: "Runs a stateful program over packets and their flows",
    example: r#"{"program": {"elements": [{"name": "count", "key": ["ipv4.src"],
        "registers": {"packets": 32},
        "transitions": [{"do": ["flow.packets = flow.packets + 1", "output(out)"]}]}]}}"#,
    schema: || schemars::schema_for!(Config),
    plan: |config, _outputs| plan(config).map(|planned| nf_plan(&planned)),
    build,
};
