//! A scenario in simulated time: years of it in a moment, the same each time.
//!
//! The UPF is the NF itself, on the engine's bench. Time passes only when both sides wait.

use catena_engine::config::ConfigError;
use catena_engine::nf::{DropReason, Nanos, Verdict};
use catena_engine::nf_bench::NfBench;
use serde_json::{Value, json};

use super::scenario::Scenario;
use super::{Player, Turn};
use crate::nf::KIND;

/// Most turns of a scenario: one that goes in a circle ends.
const TURN_COUNT_MAX: usize = 1_000_000;
/// Packets that go to the UPF at once.
const BURST_LEN: usize = 32;

/// How a scenario went.
#[derive(Debug)]
pub struct Outcome {
    /// Steps that were played.
    pub steps: usize,
    /// How much time passed, in ns.
    pub time_ns: u64,
    /// Drops of the UPF by reason, and its counters.
    pub counters: Value,
}

/// A UPF and the other side of a scenario.
#[derive(Debug)]
pub struct Simulation {
    bench: NfBench,
    settings: Value,
    /// Whether another UPF takes over behind each burst, and what of its settings changes then.
    replaced: Option<fn(&mut Value)>,
    player: Player,
    drops: std::collections::BTreeMap<String, u64>,
}

impl Simulation {
    /// A UPF with the scenario's settings.
    ///
    /// # Errors
    /// What is wrong with the settings.
    pub fn new(scenario: Scenario) -> Result<Self, String> {
        let mut settings = scenario
            .upf
            .clone()
            .ok_or("the scenario has no settings: upf")?;
        if let Some(map) = settings.as_object_mut() {
            map.entry("simulated_epoch").or_insert(json!(1_700_000_000));
            map.entry("sessions").or_insert(json!(64));
        }
        let bench = NfBench::new(&KIND, &settings, &[]).map_err(|errors| lines(&errors))?;
        Ok(Self {
            bench,
            settings,
            replaced: None,
            player: Player::new(scenario).recording(),
            drops: Default::default(),
        })
    }

    /// From now on a UPF whose settings are changed so takes the place of the one before behind
    /// each burst, as by `catena apply`.
    pub fn replace(&mut self, change: fn(&mut Value)) {
        self.replaced = Some(change);
    }

    /// Plays the scenario to its end.
    ///
    /// # Errors
    /// The step that went wrong, and how.
    pub fn play(&mut self) -> Result<Outcome, String> {
        for _ in 0..TURN_COUNT_MAX {
            if let Some(outcome) = self.turn()? {
                return Ok(outcome);
            }
        }
        Err("the scenario does not come to its end".to_owned())
    }

    /// Plays what comes next; how it went, at its end.
    ///
    /// # Errors
    /// The step that went wrong, and how.
    pub fn turn(&mut self) -> Result<Option<Outcome>, String> {
        let woken = self.pump();
        match self.player.turn(self.bench.now.0) {
            Turn::Send(frames) => {
                for burst in frames.chunks(BURST_LEN) {
                    self.give(burst);
                    // Before it has said anything: that is its successor's to say.
                    self.succeed()?;
                    self.pump();
                }
            }
            Turn::Wait(until_ns) => {
                let now_ns = self.bench.now.0;
                // The UPF's own instants come first, one after the other.
                let next = woken.map_or(until_ns, |at| at.0.max(now_ns + 1));
                self.bench.now = Nanos(next.min(until_ns));
            }
            Turn::Done => {
                let counters = self.counters();
                self.compare(&counters)?;
                return Ok(Some(Outcome {
                    steps: self.player.steps(),
                    time_ns: self.bench.now.0,
                    counters,
                }));
            }
            Turn::Failed(what) => return Err(what),
        }
        Ok(None)
    }

    /// What the UPF says to a control request.
    ///
    /// # Errors
    /// What it says is wrong with it.
    pub fn ask(&mut self, request: &Value) -> Result<Value, String> {
        self.bench.control(request)
    }

    /// Frames that passed between both, and when.
    pub fn recorded(&self) -> &[(u64, Vec<u8>)] {
        self.player.recorded()
    }

    /// Packets that the UPF holds, and buffers in use: the same number, or some are lost.
    pub fn buffers(&self) -> (u64, u32) {
        (self.bench.held(), self.bench.buffers_in_use())
    }

    fn counters(&mut self) -> Value {
        let mut all: serde_json::Map<String, Value> = Default::default();
        for (name, value) in self.bench.nf().report() {
            all.insert(name.to_owned(), value.into());
        }
        for (name, count) in &self.drops {
            all.insert(name.clone(), (*count).into());
        }
        Value::Object(all)
    }

    /// Whether all was counted that the scenario expects; says all that was not. Of UPFs that take
    /// each other's place each counts for itself.
    fn compare(&self, counters: &Value) -> Result<(), String> {
        if self.replaced.is_some() {
            return Ok(());
        }
        let reasons = &self.bench.plan().drop_reasons;
        let expected = self.player.scenario().counters.iter();
        let wrong: Vec<String> = expected
            .filter_map(|(name, wanted)| match counters.get(name) {
                Some(found) if found == wanted => None,
                Some(found) => Some(format!("{name} is {found} instead of {wanted}")),
                None if !reasons.contains(name) => Some(format!("the UPF counts no {name}")),
                None if *wanted == 0 => None,
                None => Some(format!("{name} is 0 instead of {wanted}")),
            })
            .collect();
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(format!("at the end: {}", wrong.join(", "))),
        }
    }

    fn give(&mut self, frames: &[Vec<u8>]) {
        let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
        for packet in self.bench.process(&frames).packets {
            match packet.verdict {
                Verdict::Output(_) => self.player.frame(&packet.bytes),
                Verdict::Drop(reason) => self.note_drop(reason),
                Verdict::Kept => {}
            }
        }
    }

    fn succeed(&mut self) -> Result<(), String> {
        if let Some(change) = self.replaced {
            change(&mut self.settings);
            let replaced = self.bench.replace(&KIND, &self.settings);
            let lost = replaced.map_err(|errors| lines(&errors))?;
            (0..lost).for_each(|_| self.note_drop(DropReason::Unsent));
        }
        Ok(())
    }

    fn note_drop(&mut self, reason: DropReason) {
        let reasons = &self.bench.plan().drop_reasons;
        let own = reason.index().checked_sub(DropReason::own(0).index());
        let name = own.and_then(|at| reasons.get(at));
        let name = name.map_or(reason.name(), String::as_str).to_owned();
        *self.drops.entry(name).or_default() += 1;
    }

    /// Has the UPF send what it has; when it wants to be asked again.
    fn pump(&mut self) -> Option<Nanos> {
        loop {
            let (emitted, next) = self.bench.emit(BURST_LEN, false);
            let is_done = emitted.is_empty();
            for reason in std::mem::take(&mut self.bench.drops) {
                self.note_drop(reason);
            }
            for packet in emitted {
                self.player.frame(&packet.bytes);
            }
            if is_done {
                return next;
            }
        }
    }
}

fn lines(errors: &[ConfigError]) -> String {
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    lines.join("; ")
}
