//! Workers that break the rules: one that scribbles over all memory it can write, some that lie on
//! the control connection, one that panics. Each is found out and ended by name; the rest runs on.
//!
//! This binary is its own worker program, so that workers can have NFs that no release has: without
//! a test harness, `hostile worker ...` is a worker and `hostile [FILTER]` runs the tests.
//! `CATENA_HOSTILE_SECONDS` sets for how long memory is scribbled over.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use catena_engine::chain::{Chain, Registry};
use catena_engine::nf::{Access, BuiltNf, Burst, Inputs, Nanos, Nf, NfKind};
use catena_engine::pools::Pools;
use catena_engine::protocol::{FromWorker, RegionName, ToWorker, VERSION};
use catena_engine::supervisor::status::{NodeStatus, Status};
use catena_engine::supervisor::{Options, StartError, Supervisor};
use catena_engine::worker::build::Making;
use catena_engine::worker::graph::Graph;
use catena_engine::worker::serve::serve;
use catena_shm::counters::Counters;
use catena_shm::region::{Region, Sharing};
use catena_shm::{bell, fd_passing};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.get(1).is_some_and(|arg| arg == "worker") {
        return work(args.last().map_or("", String::as_str));
    }
    if args.iter().any(|arg| arg == "--list") {
        return;
    }
    let filter = args.iter().skip(1).find(|arg| !arg.starts_with('-'));
    let tests: [(&str, fn()); 9] = [
        ("a_scribbler_behind_a_copy_link_is_detached", scribbled_copy),
        (
            "a_scribbler_behind_a_read_only_link_is_detached",
            scribbled_ro,
        ),
        ("lies_on_the_control_connection_are_refused_by_name", lies),
        ("an_nf_that_panics_is_started_again", panics),
        ("what_a_worker_kept_comes_home_when_it_ends", kept),
        (
            "what_a_worker_keeps_holds_up_no_successor",
            kept_from_an_heir,
        ),
        ("slander_ends_nobody", slandered),
        ("one_that_does_not_listen_is_ended", deaf),
        ("one_that_floods_is_ended", flooded),
    ];
    for (name, test) in tests {
        if filter.is_none_or(|filter| name.contains(filter.as_str())) {
            eprintln!("test {name} ...");
            test();
            eprintln!("test {name} ... ok");
        }
    }
}

fn registry() -> Arc<Registry> {
    let mut nfs = catena_engine::nfs::KINDS.to_vec();
    nfs.extend([&SCRIBBLER, &PANICKER, &SLANDERER, &FLOODER]);
    Arc::new(Registry {
        nfs,
        ports: catena_port::PORTS.to_vec(),
        wraps: Vec::new(),
    })
}

/// Random numbers (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A word that a ring, a ledger or a counter might take for something.
    fn word(&mut self) -> u64 {
        match self.next() % 6 {
            0 => self.next(),
            1 => u64::MAX,
            2 => self.next() % 4096,
            3 => 0,
            // A descriptor of one of the first laps, its fields at random.
            4 => (self.next() & !(0xffff << 32)) | (0x8000 + self.next() % 64) << 32,
            _ => (0x8000 + self.next() % 64) << 32 | (self.next() & 0xff),
        }
    }
}

/// Writes words at random over every shared mapping of this process, for ever. The kernel is the
/// one who writes, through `/proc/self/mem`, so that nothing here needs `unsafe`.
struct Scribbler;

fn scribble() -> ! {
    let memory = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/proc/self/mem")
        .unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut writable = Vec::new();
    for line in maps.lines().filter(|line| line.contains("memfd:catena")) {
        let (range, rest) = line.split_once(' ').unwrap();
        let (start, end) = range.split_once('-').unwrap();
        let at = |text| u64::from_str_radix(text, 16).unwrap();
        let (start, end) = (at(start), at(end));
        if rest.starts_with("rw-s") {
            writable.push((start, end));
        } else {
            let refused = memory.write_all_at(&[0; 8], start);
            assert!(
                refused.is_err(),
                "wrote where only reading is allowed: {line}"
            );
        }
    }
    assert!(!writable.is_empty());
    let mut random = Random(u64::from(std::process::id()) | 1);
    loop {
        let (start, end) = writable[random.next() as usize % writable.len()];
        // Heads of regions, where the cursors are, as often as all the rest.
        let span = if random.next().is_multiple_of(2) {
            256
        } else {
            end - start
        };
        let at = start + random.next() % (span / 8) * 8;
        let mut bytes = Vec::new();
        for _ in 0..=random.next() % 32 {
            bytes.extend(random.word().to_ne_bytes());
        }
        bytes.truncate(usize::try_from(end - at).unwrap());
        memory.write_all_at(&bytes, at).unwrap();
    }
}

impl Nf for Scribbler {
    fn process(&mut self, _burst: &mut Burst<'_>, _now: Nanos) {
        scribble();
    }
}

static SCRIBBLER: NfKind = NfKind {
    name: "scribbler",
    summary: "Writes over all memory it can",
    access: Access::Read,
    inputs: Inputs::One,
    allocates: false,
    schema: || schemars::schema_for!(()),
    build: |_, _| Ok(BuiltNf::single(Scribbler)),
};

/// Panics now and then.
struct Panicker;

static SEEN: AtomicU64 = AtomicU64::new(0);

impl Nf for Panicker {
    fn process(&mut self, burst: &mut Burst<'_>, _now: Nanos) {
        let before = SEEN.fetch_add(burst.len() as u64, Ordering::Relaxed);
        let after = before + burst.len() as u64;
        assert_eq!(before / 3000, after / 3000, "this NF panics on purpose");
    }
}

static PANICKER: NfKind = NfKind {
    name: "panicker",
    summary: "Panics at every 3000th packet",
    access: Access::Read,
    inputs: Inputs::One,
    allocates: false,
    schema: || schemars::schema_for!(()),
    build: |_, _| Ok(BuiltNf::single(Panicker)),
};

/// Accuses all its neighbours, louder each time, over its worker's control connection.
struct Slanderer;

/// Times that a slanderer speaks, as far as numbers go.
const SLANDERS: u32 = 64;

impl Nf for Slanderer {
    fn process(&mut self, _burst: &mut Burst<'_>, _now: Nanos) {
        static SAID: AtomicU64 = AtomicU64::new(0);
        let said = u32::try_from(SAID.fetch_add(1, Ordering::Relaxed)).unwrap_or(u32::MAX);
        let Some(count) = 64_u64
            .checked_shl(said)
            .filter(|count| *count > 0 && said < SLANDERS)
        else {
            return;
        };
        let socket = std::io::stdin();
        let mut regions = vec![RegionName::LinkProducer(0), RegionName::LinkConsumer(1)];
        // Worker 0 owns the pools; this is worker 1.
        regions.push(RegionName::LaneConsumer { from: 1, to: 0 });
        for region in regions {
            let record = FromWorker::Violation { region, count };
            let bytes = serde_json::to_vec(&record).unwrap();
            fd_passing::send(&socket, &bytes, &[]).unwrap();
        }
    }
}

static SLANDERER: NfKind = NfKind {
    name: "slanderer",
    summary: "Accuses its neighbours",
    access: Access::Read,
    inputs: Inputs::One,
    allocates: false,
    schema: || schemars::schema_for!(()),
    build: |_, _| Ok(BuiltNf::single(Slanderer)),
};

/// Answers what nobody asked, as fast as the supervisor takes it.
struct Flooder;

impl Nf for Flooder {
    fn process(&mut self, _burst: &mut Burst<'_>, _now: Nanos) {
        let result = Ok(serde_json::Value::String("x".repeat(10_000)));
        let socket = std::io::stdin();
        for id in 0.. {
            let result = result.clone();
            let bytes = serde_json::to_vec(&FromWorker::Answer { id, result }).unwrap();
            if fd_passing::send(&socket, &bytes, &[]).is_err() {
                return;
            }
        }
    }
}

static FLOODER: NfKind = NfKind {
    name: "flooder",
    summary: "Floods the control connection",
    access: Access::Read,
    inputs: Inputs::One,
    allocates: false,
    schema: || schemars::schema_for!(()),
    build: |_, _| Ok(BuiltNf::single(Flooder)),
};

/// A running chain, in a folder of its own.
struct Running {
    supervisor: Supervisor,
    _dir: tempfile::TempDir,
}

fn start(text: &str) -> Result<Running, StartError> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("chain.yaml");
    std::fs::write(&file, text).unwrap();
    let registry = registry();
    let checked = Chain::load(&file, &registry, None).unwrap_or_else(|errors| panic!("{errors}"));
    let options = Options {
        registry,
        program: std::env::current_exe().unwrap(),
        runtime_root: dir.path().join("run"),
        pin: false,
    };
    let supervisor = Supervisor::start(checked.chain, options)?;
    Ok(Running {
        supervisor,
        _dir: dir,
    })
}

impl Running {
    fn until(&mut self, what: &str, patience: Duration, wanted: impl Fn(&Status) -> bool) {
        let start = Instant::now();
        while !wanted(&self.supervisor.status()) {
            self.supervisor.step(Duration::from_millis(5), &[]);
            while self.supervisor.next_event().is_some() {}
            let late = start.elapsed() > patience;
            assert!(!late, "{what}: {:#?}", self.supervisor.status());
        }
    }

    /// Drains and stops the chain. Workers that do not listen are killed.
    fn stop(mut self) -> Status {
        self.supervisor.drain();
        let start = Instant::now();
        while !self.supervisor.is_empty() && start.elapsed() < Duration::from_secs(2) {
            self.supervisor.step(Duration::from_millis(2), &[]);
        }
        self.supervisor.stop(Duration::from_secs(3));
        self.supervisor.status()
    }
}

fn node<'a>(status: &'a Status, name: &str) -> &'a NodeStatus {
    status.nodes.iter().find(|node| node.name == name).unwrap()
}

fn hostile_time() -> Duration {
    let asked = std::env::var("CATENA_HOSTILE_SECONDS").ok();
    Duration::from_secs_f64(asked.and_then(|text| text.parse().ok()).unwrap_or(5.0))
}

fn scribbled(name: &str, trust: &str) {
    let mut running = start(&format!(
        "name: {name}
ports:
  in:   {{ generator: {{ rate: 50kpps }} }}
  out:  {{ sink: {{ verify: true }} }}
nfs:
  split: {{ type: tee }}
  good:  {{ type: macswap }}
  evil:  {{ type: scribbler, group: strangers }}
  last:  {{ type: count, group: strangers }}
links:
  - in -> split
  - split.good -> good
  - {{ link: split.evil -> evil, trust: {trust}, overflow: drop_tail }}
  - {{ link: evil -> last, trust: copy }}
  - good -> out
run: {{ mode: process }}
"
    ))
    .unwrap_or_else(|error| panic!("{error}"));
    let time = hostile_time();
    let start = Instant::now();
    running.until("the time passes", time * 2, |_| start.elapsed() > time);
    running.until(
        "the scribbler is detached",
        Duration::from_secs(20),
        |status| status.detached.iter().any(|who| who.starts_with("evil: ")),
    );
    let status = running.stop();
    eprintln!(
        "  {} packets, detached: {:?}",
        node(&status, "out").tx_packets,
        status.detached
    );
    for worker in status.workers.iter().filter(|worker| worker.name != "evil") {
        assert_eq!(worker.restarts, 0, "{status:#?}");
    }
    assert!(
        status.detached.iter().all(|who| who.starts_with("evil: ")),
        "{status:#?}"
    );
    assert!(
        status.links.iter().any(|link| link.violations > 0),
        "{status:#?}"
    );
    // Not one packet of the others is lost, doubled or damaged.
    let (made, out) = (node(&status, "in").rx_packets, node(&status, "out"));
    // Few on a machine with much else to do: the generator makes up for 100 us only.
    assert!(made > 100, "{status:#?}");
    assert_eq!(out.report["verified"], made, "{status:#?}");
    for what in ["lost", "duplicated", "reordered", "stale", "corrupted"] {
        assert_eq!(out.report[what], 0, "{status:#?}");
    }
}

fn scribbled_copy() {
    scribbled("scribbled-copy", "copy");
}

fn scribbled_ro() {
    scribbled("scribbled-ro", "ro");
}

/// What the worker `mid` of chain `lie-NAME` says instead of the truth, and how it is refused.
const LIES: &[(&str, &str)] = &[
    ("token", "its token or its version is wrong"),
    ("version", "its token or its version is wrong"),
    ("garbage", "a record that does not parse"),
    ("descriptor", "a record with 1 descriptors, not 0"),
    ("descriptors", "a record with 2 descriptors, not 1"),
    ("seals", "not sealed"),
    ("size", "announced were"),
    ("short", "announced were"),
    ("foreign", "which is not its to make"),
    ("twice", "twice"),
    ("nothing", "it has not made"),
    ("early", "unexpected record in state Making"),
];

fn lies() {
    for (lie, refusal) in LIES {
        let result = start(&format!(
            "name: lie-{lie}
ports:
  in:  {{ generator: {{ rate: 1kpps }} }}
  out: {{ sink: {{}} }}
nfs:
  mid: {{ type: count }}
links:
  - in -> mid
  - mid -> out
run: {{ mode: process }}
"
        ));
        let message = match result {
            Ok(_) => panic!("lie-{lie} was believed"),
            Err(error) => error.to_string(),
        };
        assert!(
            message.contains("mid") && message.contains(refusal),
            "{lie}: {message}"
        );
    }
}

fn panics() {
    let mut running = start(
        "name: panics
ports:
  in:  { generator: { rate: 50kpps } }
  out: { sink: { verify: true } }
nfs:
  before: { type: macswap }
  mad:    { type: panicker }
links:
  - in -> before
  - before -> mad
  - mad -> out
run: { mode: thread }
",
    )
    .unwrap_or_else(|error| panic!("{error}"));
    running.until(
        "it has been started again",
        Duration::from_secs(20),
        |status| {
            let mad = status.workers.iter().find(|worker| worker.name == "mad");
            mad.is_some_and(|mad| mad.epoch >= 4 && mad.state == "running")
        },
    );
    let status = running.stop();
    assert_eq!(status.buffers.in_flight, 0, "{status:#?}");
    let (made, out) = (node(&status, "in").rx_packets, node(&status, "out"));
    let mad = node(&status, "mad");
    assert_eq!(mad.rx_packets, mad.tx_packets + mad.killed, "{status:#?}");
    assert!(mad.killed > 0, "{status:#?}");
    assert_eq!(out.report["verified"] + mad.killed, made, "{status:#?}");
    assert_eq!(out.report["duplicated"], 0);
}

/// Packets that a keeper keeps.
const GREED: usize = 700;

/// A chain with a keeper: an honest branch beside it, and an honest function behind it.
fn with_keeper(name: &str, trust: &str) -> Running {
    start(&format!(
        "name: {name}
ports:
  in:   {{ generator: {{ rate: 100kpps }} }}
  out:  {{ sink: {{ verify: true }} }}
  end:  {{ sink: {{}} }}
nfs:
  split: {{ type: tee }}
  good:  {{ type: count }}
  evil:  {{ type: count }}
  last:  {{ type: count }}
links:
  - in -> split
  - {{ link: split.good -> good, trust: {trust} }}
  - {{ link: split.evil -> evil, trust: {trust}, overflow: drop_tail }}
  - {{ link: evil -> last, trust: {trust} }}
  - {{ link: good -> out, trust: {trust} }}
  - {{ link: last -> end, trust: {trust} }}
run: {{ mode: process }}
"
    ))
    .unwrap_or_else(|error| panic!("{error}"))
}

/// One keeper ends by itself, one is found to be lying. Either way, its successor is honest.
fn kept() {
    for (end, trust) in [
        ("exits", "ro"),
        ("lies", "ro"),
        ("exits", "shared"),
        ("lies", "shared"),
    ] {
        let mut running = with_keeper(&format!("keep-{end}-{trust}"), trust);
        let patience = Duration::from_secs(20);
        running.until("what it kept is home", patience, |status| {
            status.recovery.kept_buffers >= GREED as u64
        });
        let before = node(&running.supervisor.status(), "last").tx_packets;
        running.until("packets pass its successor", patience, |status| {
            node(status, "last").tx_packets > before
        });
        let status = running.stop();
        let was_detached = status.detached.iter().any(|who| who.starts_with("evil: "));
        assert_eq!(was_detached, end == "lies", "{status:#?}");
        assert_eq!(status.deaths, 1, "{status:#?}");
        // Exactly what it kept: nothing is missing, and nothing was freed twice.
        assert_eq!(status.recovery.kept_buffers, GREED as u64, "{status:#?}");
        assert_eq!(status.buffers.in_flight, 0, "{status:#?}");
        assert_eq!(status.buffers.free, status.buffers.allocated, "{status:#?}");
        assert_eq!(node(&status, "evil").killed, GREED as u64, "{status:#?}");
        for worker in &status.workers {
            assert_eq!(worker.violations, 0, "{status:#?}");
        }
        let (made, out) = (node(&status, "in").rx_packets, node(&status, "out"));
        assert_eq!(out.report["verified"], made, "{status:#?}");
    }
}

/// The owner of sealed pools dies while a keeper lives: it neither waits for what is kept, nor for
/// the keeper's answer.
fn kept_from_an_heir() {
    let mut running = with_keeper("keep-stays-ro", "ro");
    let patience = Duration::from_secs(30);
    running.until("it has kept a lot", patience, |status| {
        status.buffers.in_flight > GREED as u64
    });
    let status = running.supervisor.status();
    let split = status.workers.iter().find(|worker| worker.name == "split");
    let pid = i32::try_from(split.unwrap().pid.unwrap()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    running.until("its successor runs", patience, |status| {
        let split = status.workers.iter().find(|worker| worker.name == "split");
        split.is_some_and(|split| split.epoch > 0 && split.state == "running")
    });
    let before = node(&running.supervisor.status(), "out").tx_packets;
    running.until("packets flow", patience, |status| {
        node(status, "out").tx_packets > before
    });
    let status = running.stop();
    let evil = |who: &String| who.starts_with("evil: its data path did not answer");
    assert!(status.detached.iter().any(evil), "{status:#?}");
}

fn slandered() {
    let mut running = start(
        "name: slander
ports:
  in:  { generator: { rate: 50kpps } }
  out: { sink: { verify: true } }
nfs:
  evil: { type: slanderer }
  good: { type: macswap }
links:
  - in -> evil
  - evil -> good
  - good -> out
run: { mode: process }
",
    )
    .unwrap_or_else(|error| panic!("{error}"));
    let patience = Duration::from_secs(20);
    running.until("it has accused everybody", patience, |status| {
        status.accusations.len() >= 3 && node(status, "evil").tx_packets > 64 * 64 * 2
    });
    let status = running.stop();
    eprintln!("  {:?}", status.accusations);
    assert_eq!(status.deaths, 0, "{status:#?}");
    assert!(status.detached.is_empty(), "{status:#?}");
    assert_eq!(status.accusations.len(), 3, "{status:#?}");
    let (made, out) = (node(&status, "in").rx_packets, node(&status, "out"));
    assert_eq!(out.report["verified"], made, "{status:#?}");
}

/// A chain of one NF, hostile, with an honest one beside it.
fn beside(name: &str, evil: &str) -> Running {
    start(&format!(
        "name: {name}
ports:
  in:  {{ generator: {{ rate: 50kpps }} }}
  out: {{ sink: {{ verify: true }} }}
  end: {{ sink: {{}} }}
nfs:
  split: {{ type: tee }}
  good:  {{ type: macswap }}
  evil:  {{ type: {evil}, group: strangers }}
links:
  - in -> split
  - split.good -> good
  - {{ link: split.evil -> evil, overflow: drop_tail }}
  - good -> out
  - evil -> end
run: {{ mode: process }}
"
    ))
    .unwrap_or_else(|error| panic!("{error}"))
}

/// The others' packets all arrive, and the supervisor has time for everybody.
fn assert_unharmed(running: Running, why: &str) {
    let status = running.stop();
    let named = |who: &String| who.starts_with("evil: ") && who.contains(why);
    assert!(status.detached.iter().any(named), "{status:#?}");
    let others = status.workers.iter().filter(|worker| worker.name != "evil");
    assert!(
        others.clone().all(|worker| worker.restarts == 0),
        "{status:#?}"
    );
    let (made, out) = (node(&status, "in").rx_packets, node(&status, "out"));
    assert_eq!(out.report["verified"], made, "{status:#?}");
}

fn deaf() {
    let mut running = beside("deaf", "count");
    let evil = running.supervisor.chain().node_index("evil").unwrap();
    let start = Instant::now();
    // Each step would wait for ever if it waited for the one that does not listen.
    while !running
        .supervisor
        .status()
        .detached
        .iter()
        .any(|who| who.starts_with("evil: "))
    {
        for _ in 0..50 {
            let request = serde_json::json!({ "text": "x".repeat(1000) });
            running.supervisor.request(evil, request);
        }
        running.supervisor.step(Duration::from_millis(1), &[]);
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "it is still there"
        );
    }
    assert_unharmed(running, "does not read its control connection");
}

fn flooded() {
    let mut running = beside("flooded", "flooder");
    running.until("the flooder is ended", Duration::from_secs(20), |status| {
        !status.detached.is_empty()
    });
    assert_unharmed(running, "it floods its control connection");
}

/// This binary as a worker.
fn work(label: &str) {
    let socket = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let token = std::env::var("CATENA_TOKEN").unwrap();
    let lie = label
        .strip_prefix("lie-")
        .and_then(|rest| rest.strip_suffix("/mid"));
    match (lie, label.strip_suffix("/evil")) {
        (Some(lie), _) => tell_lie(&socket, &token, lie),
        (_, Some("deaf")) => {
            let _regions = take_part(&socket, &token);
            std::thread::park();
        }
        (_, Some(chain)) if chain.starts_with("keep-") => keep(&socket, &token, chain),
        _ => drop(serve(socket, &token, &registry())),
    }
}

/// Comes up as an honest worker does.
fn take_part(socket: &OwnedFd, token: &str) -> (Graph, Pools, Counters) {
    let hello = FromWorker::Hello {
        version: VERSION,
        token: token.to_owned(),
    };
    say(socket, &hello, &[]);
    let mut making = None;
    loop {
        let message = fd_passing::receive(socket).unwrap().unwrap();
        let fd = message.fds.into_iter().next();
        match serde_json::from_slice(&message.bytes).unwrap() {
            ToWorker::Assign(assignment) => {
                let made = Making::start(*assignment, BTreeMap::new(), &registry()).unwrap();
                for (region, len, fd) in made.made() {
                    say(socket, &FromWorker::Made { region, len }, &[fd]);
                }
                let notices = Vec::new();
                say(socket, &FromWorker::AllMade { notices }, &[]);
                making = Some(made);
            }
            ToWorker::Attach { region, len, start } => {
                let making = making.as_mut().unwrap();
                making.attach(region, len, start, fd.unwrap()).unwrap();
            }
            ToWorker::Start => break,
            other => panic!("{other:?}"),
        }
    }
    let (graph, pools, counters, _) = making.unwrap().finish().unwrap();
    say(socket, &FromWorker::Started, &[]);
    (graph, pools, counters)
}

/// Passes packets on, but keeps every other one until it has enough, and says that it is done with
/// all of them. Then ends as its chain's name says.
fn keep(socket: &OwnedFd, token: &str, chain: &str) {
    let (mut graph, mut pools, _counters) = take_part(socket, token);
    let (mut taken, mut passed, mut kept) = (Vec::new(), Vec::new(), 0);
    let mut seen = 0_u64;
    loop {
        for link in graph.rx_links_mut() {
            link.pull(64, &mut pools, &mut taken);
        }
        for packet in taken.drain(..) {
            seen += 1;
            if kept < GREED && seen.is_multiple_of(2) {
                kept += 1;
                std::mem::forget(packet);
            } else {
                passed.push(packet);
            }
        }
        // Those that do not fit go home, as they would with an honest worker that drops.
        for link in graph.tx_links_mut() {
            link.send(&mut passed, &mut pools);
        }
        pools.publish_returns();
        graph.rx_links_mut().for_each(|link| link.commit());
        graph.tx_links_mut().for_each(|link| link.settle());
        pools.settle_return_lanes();
        bell::full_fence();
        graph.tx_links_mut().for_each(|link| link.wake_peer());
        graph.rx_links_mut().for_each(|link| link.wake_peer());
        pools.wake_owners();
        if kept == GREED && !chain.contains("stays") {
            if chain.contains("lies") {
                say(socket, &FromWorker::Started, &[]);
                std::thread::park();
            }
            return;
        }
        std::thread::yield_now();
    }
}

fn say(socket: &OwnedFd, record: &FromWorker, fds: &[std::os::fd::BorrowedFd<'_>]) {
    let bytes = serde_json::to_vec(record).unwrap();
    // The supervisor may have had enough.
    let _ = fd_passing::send(socket, &bytes, fds);
}

fn tell_lie(socket: &OwnedFd, token: &str, lie: &str) {
    let page = Region::create("catena-lie", 4096, Sharing::ReadOnly).unwrap();
    let token = if lie == "token" { "guess" } else { token };
    let hello = FromWorker::Hello {
        version: VERSION + u32::from(lie == "version"),
        token: token.to_owned(),
    };
    match lie {
        "garbage" => drop(fd_passing::send(socket, b"{\"Hello\":", &[])),
        "descriptor" => say(socket, &hello, &[page.fd()]),
        _ => say(socket, &hello, &[]),
    }
    if let Ok(Some(message)) = fd_passing::receive(socket)
        && let Ok(ToWorker::Assign(assignment)) = serde_json::from_slice(&message.bytes)
    {
        let link = assignment.rings[0].link;
        let made = |region| FromWorker::Made { region, len: 4096 };
        let unsealed = || {
            let flags = rustix::fs::MemfdFlags::ALLOW_SEALING;
            let fd = rustix::fs::memfd_create("catena-lie", flags).unwrap();
            rustix::fs::ftruncate(&fd, 4096).unwrap();
            fd
        };
        match lie {
            "descriptors" => say(socket, &made(RegionName::Counters), &[page.fd(), page.fd()]),
            "seals" => say(socket, &made(RegionName::Counters), &[unsealed().as_fd()]),
            "size" => {
                let (region, len) = (RegionName::Counters, 8192);
                say(socket, &FromWorker::Made { region, len }, &[page.fd()]);
            }
            "short" => say(
                socket,
                &made(RegionName::LinkProducer(link + 1)),
                &[page.fd()],
            ),
            "twice" => {
                for _ in 0..2 {
                    let fd = Region::create("catena-lie", 1 << 16, Sharing::ReadOnly).unwrap();
                    let (region, len) = (RegionName::Counters, 1 << 16);
                    say(socket, &FromWorker::Made { region, len }, &[fd.fd()]);
                }
            }
            "foreign" => say(socket, &made(RegionName::Pool(0)), &[page.fd()]),
            "nothing" => say(
                socket,
                &FromWorker::AllMade {
                    notices: Vec::new(),
                },
                &[],
            ),
            "early" => say(socket, &FromWorker::Started, &[]),
            _ => {}
        }
    }
    // Until it is ended.
    while let Ok(Some(_)) = fd_passing::receive(socket) {}
    std::thread::park();
}
