//! Histories of chains: started, changed, killed, taken over, stopped, in any order; and what must
//! hold at the end of each.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::ports::{ACCOUNT, Account, registry};
use super::{Deed, Died, Random, World, broken, living, look_at_all, unless, with};
use crate::chain::Chain;
use crate::drop_reason::DropReason;
use crate::stats::NodeCounters;
use crate::supervisor::apply::ApplyError;
use crate::supervisor::status::node_counters;
use crate::supervisor::{Options, Supervisor};

/// A node of a chain to be.
#[derive(Clone, Debug)]
pub(super) struct Nf {
    pub(super) name: String,
    pub(super) kind: &'static str,
    pub(super) on_death: &'static str,
}

/// A chain file to be: a line of NFs between a source and a sink.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    /// The name of its source.
    pub(super) source: &'static str,
    pub(super) nfs: Vec<Nf>,
    pub(super) trust: &'static str,
    pub(super) overflow: &'static str,
    pub(super) aggregate: &'static str,
    pub(super) slots: u32,
    pub(super) is_kept: bool,
    pub(super) names: u32,
    pub(super) besides: Besides,
}

/// What there is beside the line, each as a chain file says it.
#[derive(Clone, Debug, Default)]
pub(super) struct Besides {
    pub(super) ports: &'static [&'static str],
    pub(super) nfs: &'static [&'static str],
    pub(super) links: &'static [&'static str],
}

/// Types with what they are told.
const KINDS: [&str; 7] = [
    "count",
    "fuse",
    "macswap",
    "policer, rate: 50kpps, burst: 20",
    "policer, rate: 1Mpps, burst: 9",
    "delay, time: 1ms, limit: 9",
    "delay, time: 100us, limit: 30",
];

impl Draft {
    fn new(random: &mut Random) -> Self {
        let mut draft = Self {
            source: "in",
            nfs: Vec::new(),
            trust: random.of(&["shared", "shared", "copy", "ro"]),
            overflow: random.of(&["block", "block", "drop_tail"]),
            aggregate: random.of(&["off", "off", "on"]),
            slots: random.of(&[2, 8, 64]),
            is_kept: random.once_in(3),
            names: 0,
            besides: Besides::default(),
        };
        for _ in 0..random.below(4) {
            draft.add(random);
        }
        draft
    }

    fn add(&mut self, random: &mut Random) {
        self.names += 1;
        let kinds = match self.trust {
            // What only looks may see what it cannot write.
            "ro" => &KINDS[..2],
            _ => &KINDS[..],
        };
        let nf = Nf {
            name: format!("nf{}", self.names),
            kind: random.of(kinds),
            on_death: random.of(&["hold", "hold", "drop", "bypass"]),
        };
        let at = random.below(self.nfs.len() + 1);
        self.nfs.insert(at, nf);
    }

    /// Changed in one place, or two.
    fn changed(&self, random: &mut Random) -> Self {
        let mut draft = self.clone();
        for _ in 0..=random.below(2) {
            let at = random.below(draft.nfs.len());
            match random.below(4) {
                0 if draft.nfs.len() < 4 => draft.add(random),
                1 if !draft.nfs.is_empty() => drop(draft.nfs.remove(at)),
                2 if !draft.nfs.is_empty() && draft.trust != "ro" => {
                    draft.nfs[at].kind = random.of(&KINDS);
                }
                _ if random.once_in(2) => draft.source = random.of(&["in", "other"]),
                _ => draft.slots = random.of(&[2, 8, 64]),
            }
        }
        draft
    }

    fn text(&self) -> String {
        let source = self.source;
        let mut text = format!(
            "name: sim\nports:\n  {source}: {{ source: {{}} }}\n  out: {{ drain: {{}} }}\n"
        );
        for port in self.besides.ports {
            let _ = writeln!(text, "  {port}");
        }
        if !(self.nfs.is_empty() && self.besides.nfs.is_empty()) {
            text.push_str("nfs:\n");
        }
        for nf in self.besides.nfs {
            let _ = writeln!(text, "  {nf}");
        }
        for Nf {
            name,
            kind,
            on_death,
        } in &self.nfs
        {
            let _ = writeln!(text, "  {name}: {{ type: {kind}, on_death: {on_death} }}");
        }
        text.push_str("links:\n");
        let names = self.nfs.iter().map(|nf| nf.name.as_str());
        let names: Vec<&str> = [source].into_iter().chain(names).chain(["out"]).collect();
        let line = names.windows(2).map(|pair| pair.join(" -> "));
        let besides = self.besides.links.iter().map(|link| (*link).to_owned());
        for link in line.chain(besides) {
            let _ = writeln!(
                text,
                "  - {{ link: {link}, trust: {}, overflow: {}, slots: {}, aggregate: {} }}",
                self.trust, self.overflow, self.slots, self.aggregate
            );
        }
        let orphan = if self.is_kept { "keep" } else { "stop" };
        let _ = writeln!(
            text,
            "run: {{ mode: process, wait: sleep, burst: 8, orphan: {orphan}, \
             buffers: {{ 256B: 64 }} }}"
        );
        text
    }
}

fn read(text: &str) -> Result<Chain, String> {
    let checked = Chain::parse(text, Path::new("."), registry(), None);
    Ok(checked.map_err(|errors| format!("{errors}\n{text}"))?.chain)
}

/// One chain from start to end.
pub(super) struct History<'a> {
    random: Random,
    root: &'a Path,
    /// What runs, and what it was last told to become.
    draft: Draft,
    wanted: Draft,
    supervisor: Option<Supervisor>,
    /// What has happened, for people.
    course: Vec<String>,
}

/// Whether somebody has stood still for so long that what waits for it may be given up.
fn has_hung() -> bool {
    with(|world| world.has_hung()).unwrap_or(false)
}

impl<'a> History<'a> {
    /// Of a chain that begins as `draft`.
    pub(super) fn of(seed: u64, root: &'a Path, draft: Draft) -> Self {
        Self {
            random: Random(seed),
            root,
            wanted: draft.clone(),
            draft,
            supervisor: None,
            course: Vec::new(),
        }
    }

    fn options(&self) -> Options {
        Options {
            registry: Arc::new(registry().clone()),
            program: "simulated".into(),
            runtime_root: self.root.to_owned(),
            pin: false,
        }
    }

    pub(super) fn supervisor(&mut self) -> &mut Supervisor {
        self.supervisor.as_mut().expect("somebody supervises")
    }

    /// Starts the chain; false if a kill met it before it ran.
    pub(super) fn start(&mut self) -> Result<bool, String> {
        let text = self.draft.text();
        self.course.push(format!("start\n{text}"));
        let kept = self.draft.is_kept;
        let mut supervisor = match Supervisor::start(read(&text)?, self.options()) {
            Ok(supervisor) => supervisor,
            Err(_) if !with(|world| world.is_undisturbed()).unwrap_or(true) => return Ok(false),
            Err(error) => return Err(format!("cannot start: {error}")),
        };
        if kept {
            let result = supervisor.keep(&text);
            result.map_err(|error| error.to_string())?;
            let after = self.random.below(600);
            with(|world| world.dies_in = u32::try_from(after).ok());
        }
        self.supervisor = Some(supervisor);
        Ok(true)
    }

    /// Something happens.
    fn go_on(&mut self) -> Result<(), String> {
        let steps = self.random.below(40);
        let changes = self.random.once_in(2);
        let is_stopped = unless::<Died, _>(|| {
            for _ in 0..steps {
                self.supervisor().step(Duration::from_millis(1), &[]);
            }
            if changes { self.change() } else { Ok(()) }
        });
        let result = match is_stopped {
            Some(result) => result,
            None => self.take_over(),
        };
        if let Some(supervisor) = &self.supervisor {
            look_at_all(supervisor);
        }
        result
    }

    fn change(&mut self) -> Result<(), String> {
        let draft = self.draft.changed(&mut self.random);
        self.become_what(draft)
    }

    /// Changes the chain to what `draft` says.
    pub(super) fn become_what(&mut self, draft: Draft) -> Result<(), String> {
        let text = draft.text();
        self.course.push(format!("apply\n{text}"));
        let chain = read(&text)?;
        self.wanted = draft.clone();
        let deaths = |this: &mut Self| {
            let killed = with(|world| world.killed).unwrap_or(0);
            (killed, this.supervisor().past.deaths)
        };
        let before = deaths(self);
        let result = self.supervisor().apply(&chain, &text);
        let is_quiet = deaths(self) == before && !has_hung();
        self.course
            .push(format!("  {:?}", result.as_ref().map(|_| ())));
        match result {
            Ok(_) => self.draft = draft,
            Err(ApplyError::NotDrained(_)) if !is_quiet => self.draft = draft,
            Err(error @ (ApplyError::NotDrained(_) | ApplyError::Failed(_))) if is_quiet => {
                return Err(format!(
                    "nobody was disturbed, and a change failed: {error}"
                ));
            }
            Err(_) => self.wanted = self.draft.clone(),
        }
        Ok(())
    }

    /// As [`Self::become_what`], and the supervisor dies after so many more of its waits.
    pub(super) fn dies_in_change(&mut self, draft: Draft, waits: u32) -> Result<(), String> {
        with(|world| world.dies_in = Some(waits));
        match unless::<Died, _>(|| self.become_what(draft)) {
            Some(result) => result,
            None => self.take_over(),
        }
    }

    /// As [`Self::become_what`], where that is possible and nobody is to be given up.
    pub(super) fn must_become(&mut self, draft: Draft) -> Result<(), String> {
        self.become_what(draft)?;
        let last = self.course.last().map_or("", |last| last.trim());
        let refused = || format!("it did not become that: {last}");
        (last == "Ok(())").then_some(()).ok_or_else(refused)
    }

    /// The supervisor has died; another takes over.
    pub(super) fn take_over(&mut self) -> Result<(), String> {
        self.course.push("the supervisor dies".to_owned());
        self.supervisor = None;
        let meanwhile = self.random.below(40);
        with(|world| {
            world.dies_in = None;
            world.has_died = false;
            for _ in 0..meanwhile {
                world.go_on(Duration::ZERO);
            }
        });
        let mut refusals = Vec::new();
        for draft in [self.wanted.clone(), self.draft.clone()] {
            let wanted = read(&draft.text())?;
            match Supervisor::adopt(self.options(), &wanted, &|text| read(text)) {
                Ok(Some(supervisor)) => {
                    self.draft = draft;
                    self.wanted = self.draft.clone();
                    self.supervisor = Some(supervisor);
                    return Ok(());
                }
                Ok(None) => return Err("its estate is gone".to_owned()),
                Err(error) => refusals.push(error.to_string()),
            }
        }
        Err(format!("it cannot be taken over: {refusals:?}"))
    }

    /// The end: drained first, or at once.
    fn end(&mut self) -> Result<(), String> {
        with(|world| {
            world.kills = 0;
            world.hangs = 0;
            world.dies_in = None;
        });
        let is_drained = self.random.once_in(2);
        self.end_so(is_drained)
    }

    /// The end of one that is drained first, with nobody killed any more.
    pub(super) fn drain_and_check(&mut self) -> Result<(), String> {
        self.end_so(true)
    }

    fn end_so(&mut self, is_drained: bool) -> Result<(), String> {
        with(|world| world.deeds.retain(|(_, deed)| matches!(deed, Deed::Wake)));
        if !is_drained {
            with(World::wake);
        }
        self.course.push(format!("end, drained: {is_drained}"));
        let supervisor = self.supervisor();
        if is_drained {
            supervisor.drain();
            let mut steps = 0;
            while !supervisor.is_empty() {
                supervisor.step(Duration::from_millis(20), &[]);
                steps += 1;
                if steps > 50_000 {
                    return Err(format!("it does not drain: {:#?}", supervisor.status()));
                }
            }
            look_at_all(supervisor);
        }
        supervisor.stop(Duration::from_secs(10));
        self.check(is_drained)
    }

    fn check(&mut self, is_drained: bool) -> Result<(), String> {
        // A chain that ends with packets on their way may call a bundle both free and out.
        let has_bundles = self.draft.aggregate == "on" && !is_drained;
        let supervisor = self.supervisor();
        let status = supervisor.status();
        let told = format!("{status:#?}");
        let failed = |what: &str| Err(format!("{what}\n{told}"));
        let buffers = status.buffers;
        let found = buffers.free + buffers.in_flight;
        if found < buffers.allocated || (found > buffers.allocated && !has_bundles) {
            return failed("buffers are missing");
        }
        if is_drained && buffers.in_flight > 0 {
            return failed("buffers are out");
        }
        if !(has_hung() || status.detached.is_empty()) || !status.accusations.is_empty() {
            return failed("somebody is said to have broken the rules");
        }
        for node in status.nodes.iter().filter(|node| node.kind == "nf") {
            let drops: u64 = node.drops.values().sum();
            if node.rx_packets != node.tx_packets + drops + node.held + node.killed {
                return failed(&format!("packets of {} do not add up", node.name));
            }
        }
        for link in status.links.iter().filter(|_| is_drained) {
            if link.tx_packets != link.rx_packets {
                return failed(&format!("packets of {} do not add up", link.name));
            }
        }
        if dropped(supervisor, DropReason::BadDescriptor) > 0 {
            return failed("a packet came whose pool is not known");
        }
        let is_undisturbed = with(|world| world.is_undisturbed()) == Some(true);
        let nobody_died = is_undisturbed && supervisor.past.deaths == 0;
        if nobody_died && supervisor.past.killed.values().any(|count| *count > 0) {
            return failed("packets were given up, and nobody had died");
        }
        let lost = lost(supervisor);
        ACCOUNT.with_borrow(|account| {
            if let Some(wrong) = account.wrong.first() {
                return failed(&format!("a packet came twice, or late: {wrong}"));
            }
            let Account { given, taken, .. } = account;
            if is_drained && *given != taken + lost {
                return failed(&format!("{given} given, {taken} taken, {lost} lost"));
            }
            Ok(())
        })?;
        // Who waited for a supervisor that has died sees its end.
        with(World::wake);
        for _ in 0..1000 {
            with(|world| world.go_on(Duration::ZERO));
        }
        let faults = with(|world| world.faults.clone()).unwrap_or_default();
        let is_grave = |fault: &&String| fault.contains("unexpected") || fault.contains("missing");
        match faults.iter().find(is_grave) {
            Some(fault) => failed(fault),
            None if living().is_empty() => Ok(()),
            None => failed("workers live on"),
        }
    }
}

/// Packets that were dropped or died, wherever that was, also in nodes that are no more.
pub(super) fn lost(supervisor: &Supervisor) -> u64 {
    let counters = every_life(supervisor);
    let dropped: u64 = counters.iter().map(NodeCounters::dropped).sum();
    dropped + supervisor.past.killed.values().sum::<u64>()
}

/// Packets that nodes have dropped for this reason, in all their lives.
pub(super) fn dropped(supervisor: &Supervisor, reason: DropReason) -> u64 {
    let counters = every_life(supervisor);
    counters.iter().map(|one| one.drops[reason.index()]).sum()
}

/// What nodes have counted, in all their lives, also those that are no more.
pub(super) fn every_life(supervisor: &Supervisor) -> Vec<NodeCounters> {
    let pages = supervisor.instances.iter();
    let pages = pages.filter_map(|instance| Some((instance.counters.as_ref()?, instance.layout)));
    let here = pages.flat_map(|(page, layout)| {
        let nodes = 0..supervisor.chain.nodes.len();
        nodes.map(move |node| node_counters(page, layout, node))
    });
    let past = supervisor.past.nodes.values().copied();
    past.chain(here).collect()
}

/// Lives through the history of this number.
fn live(seed: u64, root: &Path) -> Result<(), String> {
    let mut random = Random(seed);
    let draft = Draft::new(&mut random);
    World::begin(random.next());
    let packets = random.below(400) as u64;
    ACCOUNT.set(Account::new(random.next(), packets));
    let kills = random.below(4);
    let every = random.of(&[30, 100, 400]);
    let hangs = u32::from(random.once_in(4));
    with(|world| {
        world.hangs = hangs;
        world.kills = u32::try_from(kills).unwrap_or(0);
        world.kill_every = every;
    });
    let mut history = History {
        random,
        ..History::of(seed, root, draft)
    };
    let result = (|| {
        if !history.start()? {
            return match living().len() {
                0 => Ok(()),
                left => Err(format!("{left} workers live on after a failed start")),
            };
        }
        for _ in 0..history.random.below(6) {
            history.go_on()?;
        }
        history.end()
    })();
    let result = broken().map_or(result, Err);
    let world = super::WORLD.take();
    result.map_err(|why| {
        let events = history.supervisor.iter_mut();
        let events = events.flat_map(|one| one.events.drain(..).collect::<Vec<_>>());
        let events: Vec<_> = events.map(|event| format!("{event:?}")).collect();
        let faults = world.map(|world| world.faults).unwrap_or_default();
        let (course, events) = (history.course.join("\n"), events.join("\n"));
        format!("{course}\n{events}\n{}\n{why}", faults.join("\n"))
    })
}

/// Faults that each thread finds before it gives up.
const FAULTS_MAX: usize = 20;

fn number(variable: &str, otherwise: u64) -> u64 {
    let said = std::env::var(variable).ok();
    said.and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// `CATENA_HISTORIES` says how many, `CATENA_SEED` from which number on.
#[test]
fn whatever_happens_in_whatever_order_nothing_is_lost() {
    let (first, count) = (number("CATENA_SEED", 0), number("CATENA_HISTORIES", 1000));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let lives = |thread: usize| {
        let root = tempfile::tempdir().unwrap();
        let seeds = (first..first + count).skip(thread).step_by(threads);
        let ends = seeds.map(|seed| {
            let end = std::panic::catch_unwind(|| live(seed, root.path()));
            // What panicked is above; here is which history it was.
            let end = end.unwrap_or_else(|_| Err("it panicked".to_owned()));
            (seed, end)
        });
        let wrong = ends.filter_map(|(seed, end)| Some((seed, end.err()?)));
        wrong.take(FAULTS_MAX).collect::<Vec<_>>()
    };
    let mut wrong = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|at| scope.spawn(move || lives(at)))
            .collect();
        let ends = threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap());
        ends.collect::<Vec<_>>()
    });
    wrong.sort_unstable();
    let seeds: Vec<u64> = wrong.iter().map(|(seed, _)| *seed).collect();
    if let Some((seed, why)) = wrong.first() {
        panic!("{seeds:?} went wrong; CATENA_SEED={seed} CATENA_HISTORIES=1:\n{why}");
    }
}

/// A supervisor took over in a change, and made another one before it had heard the last of the
/// first.
#[test]
fn what_went_wrong_in_a_history_once_does_so_no_more() {
    let root = tempfile::tempdir().unwrap();
    live(105_498_321, root.path()).unwrap_or_else(|why| panic!("{why}"));
}
