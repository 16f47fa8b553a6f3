//! `smf`: a port that plays a scenario: SMF, gNB and data network of a UPF in the same chain.
//!
//! First and last step of a packet's life. Frames go out as the scenario says, and what comes back
//! is compared with it; a difference ends the chain with the step and the reason. Waiting steps
//! take as long as they say. Limit: frames that the chain has no room for wait.

use std::collections::VecDeque;
use std::path::PathBuf;

use catena_engine::config::{ConfigError, parse_config};
use catena_engine::nf::Nanos;
use catena_engine::own_counters::CounterSink;
use catena_engine::port::{
    Port, PortError, PortKind, PortNeeds, PortRole, RxBurst, RxState, TxBurst,
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::scenario::Scenario;
use super::{Player, Turn};

/// How often it looks whether something has come back, at least.
const LOOK_NS: u64 = 1_000_000;

/// What to play.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The scenario's file, from the chain file's folder.
    scenario: PathBuf,
}

/// The chain file's entry.
pub const KIND: PortKind = PortKind {
    name: "smf",
    summary: "Plays a scenario: SMF, gNB and data network of a UPF",
    counters: &["steps"],
    drop_reasons: &[],
    needs: PortNeeds::NONE,
    schema: || schemars::schema_for!(Config),
    check: |config| {
        let config: Config = parse_config(config)?;
        if config.scenario.as_os_str().is_empty() {
            let message = "no scenario is named";
            return Err(vec![ConfigError::new(
                "scenario",
                message,
                "write a file's name",
            )]);
        }
        Ok(PortRole::of(true, true))
    },
    open: |config, opening| {
        let config: Config = parse_config(config).map_err(|errors| {
            let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
            PortError(lines.join("; "))
        })?;
        let path = opening.dir.join(&config.scenario);
        let fault = |what: String| PortError(format!("{}: {what}", path.display()));
        let text = std::fs::read_to_string(&path).map_err(|error| fault(error.to_string()))?;
        let scenario = Scenario::parse(&text).map_err(fault)?;
        Ok(Box::new(SmfPort {
            player: Player::new(scenario),
            waiting: VecDeque::new(),
            failure: None,
        }))
    },
};

#[derive(Debug)]
struct SmfPort {
    player: Player,
    /// Frames that are to go.
    waiting: VecDeque<Vec<u8>>,
    failure: Option<String>,
}

impl Port for SmfPort {
    fn rx(&mut self, burst: &mut RxBurst<'_>, now: Nanos) -> RxState {
        loop {
            while let Some(frame) = self.waiting.front() {
                if burst.room() == 0 {
                    return RxState::More;
                }
                if !burst.has_buffer(frame.len()) {
                    return RxState::Idle;
                }
                burst.push_copy(frame);
                self.waiting.pop_front();
            }
            match self.player.turn(now.0) {
                Turn::Send(frames) => self.waiting.extend(frames),
                Turn::Wait(until_ns) => {
                    return RxState::Until(Nanos(until_ns.min(now.0.saturating_add(LOOK_NS))));
                }
                Turn::Done => return RxState::Finished,
                Turn::Failed(what) => {
                    self.failure = Some(what);
                    return RxState::Failed;
                }
            }
        }
    }

    fn tx(&mut self, burst: &mut TxBurst<'_>, _now: Nanos) -> usize {
        burst.read(|bytes| self.player.frame(bytes));
        burst.count()
    }

    fn close(&mut self) -> Result<(), PortError> {
        let late = match self.player.turn(u64::MAX) {
            Turn::Failed(what) => Some(what),
            _ => None,
        };
        match self.failure.take().or(late) {
            Some(what) => Err(PortError(what)),
            None => Ok(()),
        }
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        out.put("steps", self.player.steps() as u64);
    }
}
