//! The control plane in one thread: the real supervisor, and workers that take a step when the
//! simulation says so.
//!
//! Supervisor, workers, records, memory and packets are those of a running chain; what is simulated
//! is who gets to run when, what time it is, and who is killed. All of it follows from one number,
//! so that a history which ends badly can be had again. Wherever the supervisor would wait
//! (`Supervisor::step`), the others go on for some steps: each half of each worker by itself, in
//! any order. A worker dies between two steps, or within a turn where an NF gets packets (`fuse`):
//! what a kill leaves at each instruction is tried by models of the ring and by real kills. So may
//! the supervisor die, and another takes over.
//!
//! - `histories`: chains, changes, and what must hold at the end; `accounts`: what must hold all
//!   the time.
//! - `courses`: some that went wrong once; `branches`: of chains that are no line; `passing`: of
//!   sources that go; `torn`: of deaths within a turn; `successors`: of those that do not come up.
//! - `ports`: a source and a sink; `fuse`: an NF.

mod accounts;
mod branches;
mod courses;
mod fuse;
mod histories;
mod passing;
mod ports;
mod successors;
mod torn;

pub(super) use ports::registry;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use catena_shm::tsc::Clock;
use rustix::event::Timespec;
use rustix::pipe::pipe;

use self::accounts::Accounts;
use crate::supervisor::Supervisor;
use crate::supervisor::body::Body;
use crate::wait::WaitBasis;
use crate::worker::serve::stepped::Stepped;

/// Numbers from a seed (splitmix64).
#[derive(Clone, Copy, Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).unwrap_or(0)
    }

    /// Whether something happens that does so once in `times`.
    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

/// A worker, and what becomes readable at its exit.
struct Living {
    worker: Stepped,
    /// When it last took each of the [`STEPS`].
    chosen: [Duration; 3],
    _exit: OwnedFd,
}

/// What a half of a worker does at a time: its control thread hears or says something, its data
/// path turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Listen,
    Report,
    Turn,
}

const STEPS: [Step; 3] = [Step::Listen, Step::Report, Step::Turn];

/// What a course has happen at its moment, by process number. A process of that number may be
/// still to come.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Kill(u32),
    /// It dies within a turn, with packets in hand, if it has a fuse and gets some; else as above.
    Tear(u32),
    Hang(u32),
    /// Its control thread hears nothing any more, and says nothing; its data path turns.
    Deafen(u32),
    /// Sinks take nothing any more.
    Block,
    /// All that hang go on, and so do sinks.
    Wake,
}

/// When a deed is done.
enum Moment {
    /// After so many more of the supervisor's waits.
    In(u32),
    /// At the first of its waits in which this holds.
    When(Box<dyn Fn(&Supervisor) -> bool>),
}

/// Everything that the supervisor does not decide.
struct World {
    random: Random,
    began: Instant,
    passed: Duration,
    /// By process number.
    workers: BTreeMap<u32, Living>,
    last_process: u32,
    /// Those that take no more steps, though they live, and since when.
    hung: BTreeMap<u32, Duration>,
    /// The longest time for which one hung that went on, or longer than all time.
    stood_still: Duration,
    /// Those whose data paths alone take steps.
    deaf: BTreeSet<u32>,
    /// What happens, and when.
    deeds: Vec<(Moment, Deed)>,
    /// How many more kills there may be, and workers that hang.
    kills: u32,
    hangs: u32,
    /// One step in so many is a kill.
    kill_every: usize,
    /// How many more times the supervisor waits or writes before it dies, if it does.
    dies_in: Option<u32>,
    has_died: bool,
    /// How many were killed.
    killed: u32,
    /// What those held that have died, by process number.
    left: BTreeMap<u32, u64>,
    /// Those that died within a turn.
    torn: BTreeSet<u32>,
    accounts: Accounts,
    /// What workers said at an end that nobody had asked for.
    faults: Vec<String>,
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

/// Whoever stands still for less than this is late, and no more: less than any patience, with room
/// for what else takes time.
const HANG_MAX: Duration = Duration::from_millis(400);

/// Once somebody has waited for so long until it may take a step of some kind, it takes one. That
/// is less than any patience, so whoever loses it has waited for somebody who stands still.
const WAIT_MAX: Duration = Duration::from_millis(200);

/// Process numbers that no process of the machine has.
const FIRST_PROCESS: u32 = 1 << 24;

/// Why a supervisor stops in the middle of what it does.
struct Died;

/// What `act` comes to; none if something of this kind is thrown in it.
fn unless<Thrown: 'static, T>(act: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(result) => Some(result),
        Err(payload) if payload.is::<Thrown>() => None,
        Err(payload) => resume_unwind(payload),
    }
}

fn with<T>(act: impl FnOnce(&mut World) -> T) -> Option<T> {
    WORLD.with_borrow_mut(|world| world.as_mut().map(act))
}

impl World {
    fn begin(seed: u64) {
        let world = Self {
            random: Random(seed),
            began: Instant::now(),
            passed: Duration::from_millis(1),
            workers: BTreeMap::new(),
            last_process: FIRST_PROCESS,
            hung: BTreeMap::new(),
            stood_still: Duration::ZERO,
            deaf: BTreeSet::new(),
            deeds: Vec::new(),
            kills: 0,
            hangs: 0,
            kill_every: 200,
            dies_in: None,
            has_died: false,
            killed: 0,
            left: BTreeMap::new(),
            torn: BTreeSet::new(),
            accounts: Accounts::default(),
            faults: Vec::new(),
        };
        WORLD.set(Some(world));
    }

    /// Does what is to be done now.
    fn do_deeds(&mut self, supervisor: &Supervisor) {
        for (moment, deed) in std::mem::take(&mut self.deeds) {
            let moment = match moment {
                Moment::In(left) => left.checked_sub(1).map(Moment::In),
                Moment::When(holds) => (!holds(supervisor)).then_some(Moment::When(holds)),
            };
            match moment {
                Some(moment) => self.deeds.push((moment, deed)),
                None => self.act(deed),
            }
        }
    }

    /// Some steps of some workers. If nobody had anything to do, the time passes that the
    /// supervisor is ready to wait.
    fn go_on(&mut self, patience: Duration) {
        let mut has_moved = false;
        for _ in 0..=self.random.below(2 + 4 * self.workers.len()) {
            let Some(process) = self.choose() else { break };
            has_moved |= self.step(process);
            self.passed += Duration::from_nanos(self.random.next() % 20_000);
        }
        if !has_moved {
            self.passed += patience;
            self.be_fair();
        }
    }

    fn act(&mut self, deed: Deed) {
        match deed {
            Deed::Kill(process) => self.killed += u32::from(self.end(process)),
            Deed::Tear(process) => {
                self.killed += u32::from(self.tear(process) || self.end(process));
            }
            Deed::Hang(process) => self.hang(process),
            Deed::Deafen(process) => {
                self.deaf.insert(process);
                self.stood_still = Duration::MAX;
            }
            Deed::Block => {
                ports::block(true);
                self.stood_still = Duration::MAX;
            }
            Deed::Wake => self.wake(),
        }
    }

    /// A worker is no more; says whether there was one.
    fn end(&mut self, process: u32) -> bool {
        let ended = self.workers.remove(&process);
        if let Some(living) = &ended {
            self.left.insert(process, living.worker.held());
        }
        ended.is_some()
    }

    /// Has a worker die within a turn, if it gets to a fuse in it; says whether it did.
    fn tear(&mut self, process: u32) -> bool {
        let now = u64::try_from(self.passed.as_nanos()).unwrap_or(u64::MAX);
        let is_hung = self.hung.contains_key(&process);
        let living = self.workers.get_mut(&process).filter(|_| !is_hung);
        let is_torn = living.is_some_and(|living| fuse::lit(|| living.worker.turn(now)).is_none());
        if is_torn {
            self.end(process);
            self.torn.insert(process);
        }
        is_torn
    }

    fn hang(&mut self, process: u32) {
        self.hung.entry(process).or_insert(self.passed);
    }

    /// All that hang go on, and so do sinks.
    fn wake(&mut self) {
        ports::block(false);
        self.stood_still = self.longest_hang();
        for process in std::mem::take(&mut self.hung).into_keys() {
            if let Some(living) = self.workers.get_mut(&process) {
                living.chosen = [self.passed; 3];
            }
        }
    }

    fn longest_hang(&self) -> Duration {
        let now = self.hung.values().map(|since| self.passed - *since);
        now.fold(self.stood_still, Duration::max)
    }

    /// Whether somebody has stood still for so long that others need not wait.
    fn has_hung(&self) -> bool {
        self.longest_hang() >= HANG_MAX
    }

    /// Whether nobody was killed, and nobody has been more than late.
    fn is_undisturbed(&self) -> bool {
        self.killed == 0 && !self.has_hung()
    }

    /// Has those take a step who have waited for it.
    fn be_fair(&mut self) {
        let mut late = Vec::new();
        for (process, living) in &self.workers {
            for (step, since) in STEPS.into_iter().zip(&living.chosen) {
                if self.passed - *since > WAIT_MAX {
                    late.push((*process, step));
                }
            }
        }
        for (process, step) in late {
            self.take(process, step);
        }
    }

    fn choose(&mut self) -> Option<u32> {
        let at = self.random.below(self.workers.len());
        self.workers.keys().nth(at).copied()
    }

    fn step(&mut self, process: u32) -> bool {
        if self.kills > 0 && self.random.once_in(self.kill_every) {
            self.kills -= 1;
            self.killed += 1;
            let is_torn = self.random.once_in(2) && self.tear(process);
            return is_torn || self.end(process);
        }
        if self.hangs > 0 && self.random.once_in(self.kill_every) {
            self.hangs -= 1;
            self.hang(process);
        }
        let step = self.random.of(&[
            Step::Listen,
            Step::Listen,
            Step::Report,
            Step::Turn,
            Step::Turn,
        ]);
        self.take(process, step)
    }

    /// Has a worker take a step, if it can; says whether anything came of it.
    fn take(&mut self, process: u32, step: Step) -> bool {
        if self.hung.contains_key(&process) {
            return false;
        }
        if step != Step::Turn && self.deaf.contains(&process) {
            return false;
        }
        let now = u64::try_from(self.passed.as_nanos()).unwrap_or(u64::MAX);
        let Some(Living { worker, chosen, .. }) = self.workers.get_mut(&process) else {
            return false;
        };
        chosen[step as usize] = self.passed;
        let held = worker.held();
        let done = match step {
            Step::Listen => worker.listen(),
            Step::Report => worker.report().map(|()| false),
            Step::Turn => worker.turn(now),
        };
        let is_over = done.is_err() || worker.is_over();
        if let Err(error) = &done {
            self.faults.push(error.to_string());
            self.left.insert(process, held);
        }
        if is_over {
            self.workers.remove(&process);
        }
        done.unwrap_or(true)
    }
}

/// What NFs of each process hold, also of those that have died.
fn held(workers: &BTreeMap<u32, Living>, left: &BTreeMap<u32, u64>) -> BTreeMap<u32, u64> {
    let living = workers.iter();
    let living = living.map(|(process, living)| (*process, living.worker.held()));
    left.clone().into_iter().chain(living).collect()
}

/// What time it is, in a simulation.
pub(super) fn now() -> Option<Instant> {
    with(|world| world.began + world.passed)
}

/// What is measured of the machine, once for all histories.
pub(super) fn measured(pollers: usize, cores: usize) -> (Clock, WaitBasis) {
    static CLOCK: OnceLock<Clock> = OnceLock::new();
    let clock = CLOCK.get_or_init(|| Clock::calibrate(Duration::from_millis(10)));
    let basis = WaitBasis {
        pollers,
        cores,
        has_quota: false,
        yield_ns: 1,
        wake_ns: 1,
    };
    (*clock, basis)
}

/// The supervisor waits for at most `timeout`: others go on. Gives how long it is to wait really.
pub(super) fn go_on(supervisor: &Supervisor, timeout: Timespec) -> Timespec {
    may_die();
    with(|world| {
        let (workers, left) = (&world.workers, &world.left);
        let held = || held(workers, left);
        world.accounts.look(supervisor, &world.torn, held);
        world.do_deeds(supervisor);
    });
    let patience = Duration::try_from(timeout).unwrap_or(Duration::from_secs(1));
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    with(|world| world.go_on(patience)).map_or(timeout, |()| at_once)
}

/// The supervisor may die here.
pub(super) fn may_die() {
    let dies = with(|world| {
        let left = world.dies_in?.checked_sub(1);
        world.dies_in = left;
        world.has_died = left.is_none();
        left.is_none().then_some(())
    });
    if dies.flatten().is_some() {
        resume_unwind(Box::new(Died));
    }
}

/// Whether the supervisor has died: then what is dropped of it cleans nothing up.
pub(super) fn has_died() -> bool {
    with(|world| world.has_died).unwrap_or(false)
}

/// Starts a worker.
pub(super) fn start(socket: OwnedFd, token: &str) -> Body {
    let (readable, exit) = pipe().unwrap();
    let worker = Stepped::start(socket, token, ports::registry()).unwrap();
    let process = with(|world| {
        world.last_process += 1;
        let living = Living {
            worker,
            chosen: [world.passed; 3],
            _exit: exit,
        };
        world.workers.insert(world.last_process, living);
        world.last_process
    });
    Body::Adopted(process.unwrap(), readable)
}

/// Kills a worker; says whether it is, or was, one of a simulation.
pub(super) fn kill(process: u32) -> bool {
    with(|world| world.end(process)).is_some()
}

/// Looks at all accounts now.
fn look_at_all(supervisor: &Supervisor) {
    with(|world| {
        let held = held(&world.workers, &world.left);
        world.accounts.look_at_all(supervisor, &world.torn, &held);
    });
}

/// What did not hold of this history's accounts, if there was something.
fn broken() -> Option<String> {
    with(|world| world.accounts.broken.clone()).flatten()
}

/// Keeps an estate. The keeper only reacts: in a thread of its own it changes no history.
pub(super) fn keep(supervisor: OwnedFd) {
    std::thread::spawn(move || super::keeper::keep(supervisor));
}

/// Processes that live.
fn living() -> BTreeSet<u32> {
    with(|world| world.workers.keys().copied().collect()).unwrap_or_default()
}
