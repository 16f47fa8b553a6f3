//! Two devices that stay up and take turns: for comparisons in slices of milliseconds.
//!
//! Starting a chain costs more than a slice, and is a piece of luck of its own; here both chains
//! start once, and their generators share a schedule ([`crate::traffic::slices`]). The chain whose
//! turn it is not sleeps: both wait by sleeping, whatever the chain file says, since the other's
//! spinning would be part of the result. What is compared is the rate at the highest load.
//!
//! The machine is watched meanwhile as in any trial, in windows of some slices each: the slices of
//! a window in which other work ran, the hypervisor took a core, or the clock frequency changed do
//! not count.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use catena_engine::chain::{Chain, NodeKind, WaitChoice};
use catena_engine::supervisor::{Options, Supervisor};
use catena_shm::tsc;
use serde_json::{Map, Value, json};

use super::profile::TrialProfile;
use super::under_test::{DRAIN, Device, DeviceError, PATIENCE, running};
use super::watch::Watch;
use super::windows::Windows;
use crate::compare::Side;
use crate::doctor::Tree;
use crate::traffic::TickRate;
use crate::traffic::conditions::Disturbance;
use crate::traffic::receiver::ReceiveResults;

/// How two devices take turns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turns {
    /// For how long each side has its turns before any pair counts.
    pub warmup: Duration,
    /// Pairs of slices that count.
    pub pairs: u32,
    /// Length of a slice.
    pub slice: Duration,
    /// Decides which side comes first in each pair, as in [`crate::compare::Plan`].
    pub seed: u64,
}

impl Turns {
    /// The first pairs, which do not count.
    pub fn left_out(&self) -> u32 {
        let slices = self
            .warmup
            .as_nanos()
            .div_ceil(self.slice.as_nanos().max(1));
        u32::try_from(slices).unwrap_or(u32::MAX)
    }

    /// All pairs of a start.
    fn all(&self) -> u32 {
        self.pairs.saturating_add(self.left_out())
    }
}

/// How long both chains have to start. Containers are not for this: they take longer.
const START: Duration = Duration::from_millis(1500);

impl Device {
    /// The chain as one side of a comparison.
    fn side(&self, side: Side, profile: &TrialProfile, slices: &Value) -> Chain {
        let mut chain = self.chain.clone();
        chain.name = format!("{}-{side:?}-{}", chain.name, std::process::id()).to_lowercase();
        chain.run.wait = WaitChoice::Sleep;
        let mut set = |index: usize, change: &dyn Fn(&mut Map<String, Value>)| {
            if let NodeKind::Port { config, .. } = &mut chain.nodes[index].kind {
                let mut map = config.as_object().cloned().unwrap_or_default();
                change(&mut map);
                *config = Value::Object(map);
            }
        };
        set(self.traffic, &|config| {
            config.insert("profile".into(), profile.at(None));
            config.insert("slices".into(), slices.clone());
            for field in ["results", "duration", "warmup", "count"] {
                config.remove(field);
            }
        });
        set(self.receiver, &|config| {
            config.insert("results".into(), json!(self.results_of(side)));
            config.insert("slices".into(), slices.clone());
            config.insert("samples".into(), json!(2));
        });
        chain
    }

    fn results_of(&self, side: Side) -> std::path::PathBuf {
        self.folder.join(format!("received-{side:?}.json"))
    }

    fn launch(&self, chain: Chain) -> Result<Supervisor, DeviceError> {
        let options = Options {
            registry: self.setting.registry.clone(),
            program: self.setting.program.clone(),
            runtime_root: self.setting.runtime_root.clone(),
            // Also one loop: the two would otherwise take turns on different cores.
            pin: true,
        };
        Supervisor::start(chain, options).map_err(|error| self.failed(error))
    }
}

/// What arrived in slices that count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Taken {
    /// Packets per second of each device in its slice of each pair.
    pub rates_pps: [Vec<f64>; 2],
    /// Share of each device's packets that arrived in the other's turn: its queues had not drained.
    pub stray_shares: [f64; 2],
    /// What disturbed each pair; empty for those that count.
    pub disturbances: Vec<Vec<Disturbance>>,
}

impl Taken {
    /// The same without so many pairs at the beginning.
    fn without_first(mut self, count: usize) -> Self {
        for rates in &mut self.rates_pps {
            rates.drain(..count.min(rates.len()));
        }
        self.disturbances
            .drain(..count.min(self.disturbances.len()));
        self
    }
}

/// Packets per second of both devices in each pair, as they arrive; the first are left out.
///
/// # Errors
/// A chain failed or did not start in time, or the user asked for the end.
pub fn take_turns(
    mut devices: [&mut Device; 2],
    profile: &TrialProfile,
    turns: &Turns,
) -> Result<Taken, DeviceError> {
    let sides = [Side::A, Side::B];
    let begin = Instant::now() + START;
    let rate = TickRate::measure(Duration::from_millis(20));
    let ns = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    let start = tsc::ticks() + rate.ticks(ns(begin.saturating_duration_since(Instant::now())));
    let mut supervisors = Vec::new();
    for (device, side) in devices.iter_mut().zip(sides) {
        let _ = std::fs::remove_file(device.results_of(side));
        let slices = json!({
            "side": side, "pairs": turns.all(), "length": format!("{}ns", ns(turns.slice)),
            "seed": turns.seed, "start": start,
        });
        let supervisor = device.launch(device.side(side, profile, &slices))?;
        // What the report says of it: that both sleep, whatever the chain file says.
        device.waiting = Some(supervisor.wait_policy().describe());
        device.profile = Some(profile.at(None));
        supervisors.push(supervisor);
    }
    let [a, b] = &mut devices;
    let mut windows = Windows::new(turns.slice * 2);
    let ended = serve([a, b], &mut supervisors, turns, begin, &mut windows);
    for supervisor in &mut supervisors {
        supervisor.stop(Duration::from_secs(5));
    }
    ended?;
    let mut taken = Taken {
        disturbances: windows.of_pairs(turns.all() as usize),
        ..Taken::default()
    };
    let sides = devices.into_iter().zip(sides).zip(&supervisors);
    for (index, ((device, side), supervisor)) in sides.enumerate() {
        if supervisor.status().deaths > 0 {
            return Err(device.failed("a worker died during the comparison"));
        }
        let received: ReceiveResults = device.read(&device.results_of(side))?;
        let strays = received.slice_strays as f64;
        let all = (received.record.stamped as f64).max(1.0);
        taken.stray_shares[index] = strays / all;
        taken.rates_pps[index] = received.slice_rates_pps;
    }
    Ok(taken.without_first(turns.left_out() as usize))
}

/// The processes of both chains, if all of them run.
fn all_running(supervisors: &[Supervisor]) -> Option<Vec<u32>> {
    let of_each = supervisors.iter().map(running);
    Some(of_each.collect::<Option<Vec<_>>>()?.concat())
}

/// Looks at the machine `since` the first slice began, as often as there is a window.
fn look(watch: &mut Watch, windows: &mut Windows, since: Duration) {
    if since.is_zero() {
        return;
    }
    watch.sample();
    if windows.is_due(since) {
        let found = watch.turn();
        windows.close(since, found);
    }
}

/// Serves both until they have come to their end.
fn serve(
    devices: [&mut Device; 2],
    supervisors: &mut [Supervisor],
    turns: &Turns,
    begin: Instant,
    windows: &mut Windows,
) -> Result<(), DeviceError> {
    let whole = turns.slice * 2 * turns.all();
    let deadline = begin + whole + PATIENCE;
    let [first, second] = devices;
    let mut watch = None;
    while !supervisors.iter().all(Supervisor::is_finished) {
        for supervisor in supervisors.iter_mut() {
            supervisor.step(Duration::from_millis(10), &[]);
        }
        if first.setting.is_interrupted.load(Ordering::Relaxed) {
            return Err(DeviceError::Interrupted);
        }
        let now = Instant::now();
        if let Some(watch) = &mut watch {
            look(watch, windows, now.saturating_duration_since(begin));
        } else if let Some(pids) = all_running(supervisors) {
            let tree = Tree::new("/");
            let begun = Watch::begin(tree, &pids, first.setting.rivals_max);
            let is_pinned = begun.thread_count() >= pids.len();
            (first.is_pinned, second.is_pinned) = (Some(is_pinned), Some(is_pinned));
            watch = Some(begun);
        } else if now > begin {
            return Err(first.failed("the two chains did not start within 1.5 s"));
        }
        if now > deadline {
            return Err(first.failed("its sources did not end in time"));
        }
    }
    if let Some(mut watch) = watch {
        windows.close(begin.elapsed(), watch.turn());
    }
    for supervisor in supervisors.iter_mut() {
        supervisor.drain();
    }
    let deadline = Instant::now() + DRAIN;
    while !supervisors.iter().all(Supervisor::is_empty) && Instant::now() < deadline {
        for supervisor in supervisors.iter_mut() {
            supervisor.step(Duration::from_millis(2), &[]);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_pairs_are_left_out_for_as_long_as_each_side_warms_up() {
        let turns = |warmup| Turns {
            warmup: Duration::from_millis(warmup),
            pairs: 100,
            slice: Duration::from_millis(5),
            seed: 1,
        };
        assert_eq!((turns(0).left_out(), turns(0).all()), (0, 100));
        assert_eq!((turns(100).left_out(), turns(100).all()), (20, 120));
        assert_eq!(turns(101).left_out(), 21);
        let taken = Taken {
            rates_pps: [vec![1.0, 2.0, 3.0], vec![4.0, 5.0, 6.0]],
            stray_shares: [0.0; 2],
            disturbances: vec![vec![Disturbance::Steal], vec![], vec![Disturbance::Steal]],
        };
        let left = taken.clone().without_first(1);
        assert_eq!(left.rates_pps, [vec![2.0, 3.0], vec![5.0, 6.0]]);
        assert_eq!(left.disturbances, [vec![], vec![Disturbance::Steal]]);
        assert!(taken.without_first(9).disturbances.is_empty());
    }
}
