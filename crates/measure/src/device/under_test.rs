//! The device under test: how a trial begins, what is waited for, and how it ends.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use catena_engine::chain::registry::Registry;
use catena_engine::chain::{Chain, Mode, NodeKind};
use catena_engine::supervisor::status::Status;
use catena_engine::supervisor::{Options, Supervisor};
use catena_engine::units::Span;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::doctor::Tree;
use crate::doctor::energy::{Energy, EnergyMeter, EnergyReading};
use crate::traffic::conditions::Disturbance;
use crate::traffic::generator::SendResults;
use crate::traffic::receiver::ReceiveResults;

use super::offer::Offer;
use super::outcome::Outcome;
use super::probes::Probes;
use super::profile::TrialProfile;
use super::spent::{Books, Spent};
use super::watch::Watch;

/// What the processes of a chain are started with.
#[derive(Clone)]
pub struct Setting {
    /// Kinds of NFs and ports.
    pub registry: Arc<Registry>,
    /// The program that workers run.
    pub program: PathBuf,
    /// Where running chains have their folders.
    pub runtime_root: PathBuf,
    /// Set from outside to end a trial early.
    pub is_interrupted: Arc<AtomicBool>,
    /// Share of a trial that other work may take from its workers;
    /// [`RIVALS_MAX`](super::RIVALS_MAX) unless there is a reason.
    pub rivals_max: f64,
}

impl std::fmt::Debug for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setting").finish_non_exhaustive()
    }
}

/// Why there is no outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// The chain cannot be measured.
    #[error("chain \"{chain}\" has {count} ports of type {kind}; {repair}")]
    Ports {
        /// The chain.
        chain: String,
        /// How many there are.
        count: usize,
        /// Of which type.
        kind: &'static str,
        /// What to do.
        repair: &'static str,
    },
    /// It did not start, or something in it failed.
    #[error("chain \"{chain}\": {reason}")]
    Failed {
        /// The chain.
        chain: String,
        /// Why.
        reason: String,
    },
    /// The user asked for the end.
    #[error("interrupted")]
    Interrupted,
}

/// How long the chain may take beyond the trial itself.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// How long the generator waits where it reaches the device over ports: nothing else keeps it from
/// sending before the device is up. Containers take a few hundred milliseconds.
const DELAY: Duration = Duration::from_millis(500);
/// How long, after the end of the traffic, packets may take through ports of the kernel.
const SETTLE: Duration = Duration::from_millis(150);
/// How long packets inside may take to leave.
pub(super) const DRAIN: Duration = Duration::from_secs(2);

/// The device under test.
#[derive(Debug)]
pub struct Device {
    pub(super) chain: Chain,
    pub(super) traffic: usize,
    pub(super) receiver: usize,
    pub(super) setting: Setting,
    pub(super) folder: PathBuf,
    pub(super) number: u8,
    pub(super) is_pinned: Option<bool>,
    /// What the last trial sent.
    pub(super) profile: Option<Value>,
    /// How its workers waited, and why so.
    pub(super) waiting: Option<String>,
    /// Ports by which the tester reaches the device.
    pub(super) tester: Vec<String>,
    pub(super) meter: Option<EnergyMeter>,
    pub(super) probes: Probes,
}

/// What happened while the chain ran.
struct Passed {
    disturbances: Vec<Disturbance>,
    tester_lost: u64,
    energy: Option<Energy>,
    spent: Option<Spent>,
}

/// The processes of a chain's workers, if all of them run.
pub(super) fn running(supervisor: &Supervisor) -> Option<Vec<u32>> {
    let workers = supervisor.status().workers;
    let all = workers.iter().all(|worker| worker.state == "running");
    let pids = workers.iter().filter_map(|worker| worker.pid);
    all.then(|| pids.collect())
}

impl Device {
    /// The chain as device. Files of trials are written below `folder`, which must exist.
    ///
    /// # Errors
    /// [`DeviceError::Ports`].
    pub fn new(chain: Chain, setting: Setting, folder: &Path) -> Result<Self, DeviceError> {
        let port = |kind: &'static str| {
            let nodes = chain.nodes.iter().enumerate();
            let found: Vec<_> = nodes.filter(|(_, node)| node.type_name() == kind).collect();
            match found.as_slice() {
                [(index, _)] => Ok(*index),
                other => Err(DeviceError::Ports {
                    chain: chain.name.clone(),
                    count: other.len(),
                    kind,
                    repair: "a device under test has one port traffic and one port receiver",
                }),
            }
        };
        let (traffic, receiver) = (port("traffic")?, port("receiver")?);
        Ok(Self {
            chain,
            traffic,
            receiver,
            setting,
            folder: folder.to_owned(),
            number: 0,
            is_pinned: None,
            profile: None,
            waiting: None,
            tester: Vec::new(),
            meter: EnergyMeter::open(&Tree::new("/")),
            probes: Probes::default(),
        })
    }

    /// Says which ports are the tester's, by which it reaches the device: what they drop is not
    /// the device's loss. Names that the chain does not have are of no consequence.
    #[must_use]
    pub fn over_ports(mut self, names: &[&str]) -> Self {
        let nodes = self.chain.nodes.iter();
        let nodes = nodes.filter(|node| names.contains(&node.name.as_str()));
        self.tester = nodes.map(|node| node.name.clone()).collect();
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.chain.name
    }

    /// The chain.
    pub const fn chain(&self) -> &Chain {
        &self.chain
    }

    /// The port that offers the load, as the chain file has it.
    pub fn traffic_config(&self) -> &Value {
        match &self.chain.nodes[self.traffic].kind {
            NodeKind::Port { config, .. } | NodeKind::Nf { config, .. } => config,
        }
    }

    /// How its workers waited in the last trial, and why so.
    pub fn waiting(&self) -> Option<&str> {
        self.waiting.as_deref()
    }

    /// In which mode the tester's generator runs.
    pub fn tester_mode(&self) -> Mode {
        match self.chain.nodes[self.traffic].mode {
            // Its results are files of this machine.
            Mode::Container => Mode::Process,
            mode => mode,
        }
    }

    /// Whether all workers were held on one core each in the last trial; otherwise the scheduler's
    /// work is part of the result.
    pub const fn is_pinned(&self) -> Option<bool> {
        self.is_pinned
    }

    /// The chain with the ports set up for one trial.
    fn prepare(&self, profile: &TrialProfile, offer: &Offer) -> Chain {
        let mut chain = self.chain.clone();
        let delay = self.delay();
        let mut set = |index: usize, change: &dyn Fn(&mut serde_json::Map<String, Value>)| {
            let node = &mut chain.nodes[index];
            if node.mode == Mode::Container {
                // Its results are files of this machine.
                node.mode = Mode::Process;
            }
            if let NodeKind::Port { config, .. } = &mut node.kind {
                let mut map = config.as_object().cloned().unwrap_or_default();
                change(&mut map);
                *config = Value::Object(map);
            }
        };
        set(self.traffic, &|config| {
            let ns = offer.duration.as_nanos();
            config.insert("profile".into(), profile.at(offer.load_pps));
            config.insert("trial".into(), json!(self.number));
            config.insert("results".into(), json!(self.folder.join("sent.json")));
            config.insert("duration".into(), json!(format!("{ns}ns")));
            let warmup = offer.warmup().as_nanos();
            config.insert("warmup".into(), json!(format!("{warmup}ns")));
            if !delay.is_zero() {
                config.insert("delay".into(), json!(format!("{}ns", delay.as_nanos())));
            }
            match offer.packet_count {
                Some(count) => config.insert("count".into(), json!(count)),
                None => config.remove("count"),
            };
        });
        set(self.receiver, &|config| {
            config.insert("trial".into(), json!(self.number));
            config.insert("results".into(), json!(self.folder.join("received.json")));
            config.insert("samples".into(), json!(offer.samples));
            let ns = |span: Duration| format!("{}ns", span.as_nanos());
            // Of a burst nothing is known but its number.
            match offer.packet_count {
                Some(_) => config.remove("window"),
                None => config.insert(
                    "window".into(),
                    json!({ "warmup": ns(offer.warmup()), "duration": ns(offer.duration) }),
                ),
            };
        });
        chain
    }

    /// Runs one trial.
    ///
    /// # Errors
    /// The chain failed, or the user asked for the end. What the device does to packets is no
    /// error.
    pub fn run(&mut self, profile: &TrialProfile, offer: &Offer) -> Result<Outcome, DeviceError> {
        self.number = self.number.wrapping_add(1);
        self.profile = Some(profile.at(offer.load_pps));
        let files = ["sent.json", "received.json"].map(|name| self.folder.join(name));
        for file in &files {
            let _ = std::fs::remove_file(file);
        }
        let passed = self.pass(profile, offer)?;
        let sent: SendResults = self.read(&files[0])?;
        let received: ReceiveResults = self.read(&files[1])?;
        let mut outcome = Outcome::new(*offer, sent, received, passed.disturbances);
        outcome.energy = passed.energy;
        outcome.spent = passed.spent;
        Ok(if self.tester.is_empty() {
            outcome
        } else {
            outcome.over_ports(passed.tester_lost)
        })
    }

    pub(super) fn failed(&self, reason: impl ToString) -> DeviceError {
        DeviceError::Failed {
            chain: self.chain.name.clone(),
            reason: reason.to_string(),
        }
    }

    pub(super) fn read<T: DeserializeOwned>(&self, path: &Path) -> Result<T, DeviceError> {
        let failed = |error: String| self.failed(format!("{}: {error}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        serde_json::from_str(&text).map_err(|error| failed(error.to_string()))
    }

    /// Starts the chain, set up for one trial.
    pub(super) fn start(
        &self,
        profile: &TrialProfile,
        offer: &Offer,
    ) -> Result<Supervisor, DeviceError> {
        let chain = self.prepare(profile, offer);
        let options = Options {
            registry: self.setting.registry.clone(),
            program: self.setting.program.clone(),
            runtime_root: self.setting.runtime_root.clone(),
            pin: chain.run.mode != Mode::Inline,
        };
        Supervisor::start(chain, options).map_err(|error| self.failed(error))
    }

    /// Starts the chain, lets it come to its end, and stops it.
    fn pass(&mut self, profile: &TrialProfile, offer: &Offer) -> Result<Passed, DeviceError> {
        let mut supervisor = self.start(profile, offer)?;
        self.waiting = Some(supervisor.wait_policy().describe());
        let workers = supervisor.status().workers;
        let pids: Vec<_> = workers.iter().filter_map(|worker| worker.pid).collect();
        let mut watch = Watch::begin(Tree::new("/"), &pids, self.setting.rivals_max);
        let (before, began) = (self.read_meter(), Instant::now());
        self.probes.begin(&mut supervisor);
        let ports = [self.traffic, self.receiver].map(|port| self.chain.nodes[port].name.clone());
        let mut books = Books::of(ports.into_iter().chain(self.tester.iter().cloned()));
        let ended = self.serve(&mut supervisor, offer, (&mut watch, &mut books));
        self.probes.end(&supervisor);
        let after = self.read_meter();
        let seconds = began.elapsed().as_secs_f64();
        let disturbances = watch.end();
        self.is_pinned = Some(watch.thread_count() >= workers.len());
        supervisor.stop(Duration::from_secs(5));
        ended?;
        let status = supervisor.status();
        if status.deaths > 0 {
            return Err(self.failed(format!("{} workers died during the trial", status.deaths)));
        }
        let errors = status.nodes.iter().filter_map(|node| {
            let error = node.error.as_ref()?;
            Some(format!("{}: {error}", node.name))
        });
        let errors: Vec<_> = errors.collect();
        if errors.is_empty() {
            let meter = self.meter.as_ref().zip(before.zip(after));
            Ok(Passed {
                disturbances,
                tester_lost: self.tester_lost(&status),
                energy: meter.map(|(meter, (before, after))| Energy {
                    joules: meter.joules(&before, &after),
                    seconds,
                }),
                spent: books.spent(),
            })
        } else {
            Err(self.failed(errors.join("; ")))
        }
    }

    fn read_meter(&self) -> Option<EnergyReading> {
        self.meter.as_ref().and_then(EnergyMeter::read)
    }

    /// What ports of the tester dropped, and what the kernel dropped before them.
    fn tester_lost(&self, status: &Status) -> u64 {
        let ports = status.nodes.iter();
        let ports = ports.filter(|node| self.tester.contains(&node.name));
        let lost = ports.map(|node| {
            let by_kernel = node.counters.get("kernel_drops").copied().unwrap_or(0);
            node.drops.values().sum::<u64>() + by_kernel
        });
        lost.sum()
    }

    /// Whether ports other than the generator receive: those do not come to an end by themselves.
    fn is_endless(&self) -> bool {
        let receives = |(index, node): (usize, &catena_engine::chain::Node)| {
            index != self.traffic && node.is_port() && self.chain.links_from(index).next().is_some()
        };
        self.chain.nodes.iter().enumerate().any(receives)
    }

    /// How long the generator waits: as its chain file says, which knows what has to be set up
    /// first, or until ports are up.
    fn delay(&self) -> Duration {
        let said = match &self.chain.nodes[self.traffic].kind {
            NodeKind::Port { config, .. } => config.get("delay"),
            _ => None,
        };
        delay(said, self.is_endless())
    }

    fn serve(
        &mut self,
        supervisor: &mut Supervisor,
        offer: &Offer,
        (watch, books): (&mut Watch, &mut Books),
    ) -> Result<(), DeviceError> {
        let warm = Instant::now() + offer.warmup();
        let delay = self.delay();
        let deadline = Instant::now() + delay + offer.warmup() + offer.duration + PATIENCE;
        let is_endless = self.is_endless();
        let mut runs_since: Option<Instant> = None;
        while !supervisor.is_finished() {
            supervisor.step(self.probes.patience(), &[]);
            self.probes.poll();
            if Instant::now() > warm {
                watch.sample();
            }
            if runs_since.is_none()
                && let Some(pids) = running(supervisor)
            {
                // What it takes to start is no part of the trial, nor is what helps with it: the
                // services that make containers.
                watch.again(&pids);
                runs_since = Some(Instant::now());
            }
            if let Some(since) = runs_since {
                let counts = since + delay + offer.warmup();
                books.look(supervisor, counts..counts + offer.duration);
            }
            let whole = delay + offer.warmup() + offer.duration + SETTLE;
            if is_endless && runs_since.is_some_and(|since| since.elapsed() > whole) {
                break;
            }
            if self.setting.is_interrupted.load(Ordering::Relaxed) {
                return Err(DeviceError::Interrupted);
            }
            if Instant::now() > deadline {
                return Err(self.failed("its sources did not end in time"));
            }
        }
        books.close(supervisor);
        supervisor.drain();
        let deadline = Instant::now() + DRAIN;
        while !supervisor.is_empty() && Instant::now() < deadline {
            supervisor.step(Duration::from_millis(2), &[]);
        }
        Ok(())
    }
}

/// How long a generator waits whose chain file says this of it.
fn delay(said: Option<&Value>, is_endless: bool) -> Duration {
    match said.and_then(|said| Span::deserialize(said).ok()) {
        Some(span) => Duration::from_nanos(span.ns),
        None if is_endless => DELAY,
        None => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generator_waits_as_its_file_says_or_until_ports_are_up() {
        let said = json!("4s");
        for is_endless in [false, true] {
            assert_eq!(delay(Some(&said), is_endless), Duration::from_secs(4));
        }
        assert_eq!(delay(None, true), DELAY);
        assert_eq!(delay(None, false), Duration::ZERO);
    }
}
