//! Workers that break the rules: one that scribbles over all memory it can write, some that lie on
//! the control connection, one that panics. Each is found out and ended by name; the rest runs on.
//!
//! This binary is its own worker program, so that workers can have NFs that no release has: without
//! a test harness, `hostile worker ...` is a worker and `hostile [FILTER]` runs the tests.
//! `CATENA_HOSTILE_SECONDS` sets for how long memory is scribbled over.

mod keepers;
mod nfs;
mod programs;

use std::sync::Arc;
use std::time::{Duration, Instant};

use catena_engine::chain::{Chain, Registry};
use catena_engine::probe::{ProbeSettings, Tier};
use catena_engine::supervisor::status::{NodeStatus, Status};
use catena_engine::supervisor::{Options, StartError, Supervisor};
use catena_measure::probes::Collector;
use catena_measure::probes::journey::{Journey, Journeys};

use keepers::{kept, kept_from_an_heir};
use nfs::{ENDLESS, FLOODER, GREEDY, PANICKER, SCRIBBLER, SLANDERER};
use programs::work;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.get(1).is_some_and(|arg| arg == "worker") {
        return work(args.last().map_or("", String::as_str));
    }
    if args.iter().any(|arg| arg == "--list") {
        return;
    }
    let filter = args.iter().skip(1).find(|arg| !arg.starts_with('-'));
    let tests: [(&str, fn()); 12] = [
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
        ("a_worker_has_its_share_of_the_machine_and_no_more", greedy),
        ("one_that_floods_is_heard_more_slowly", flooded),
        ("one_that_says_that_it_has_ended_is_not_waited_for", undead),
        ("a_thread_that_never_comes_back_holds_up_no_end", endless),
    ];
    let mut passed = 0;
    for (name, test) in tests {
        if filter.is_none_or(|filter| name.contains(filter.as_str())) {
            eprintln!("test {name} ...");
            test();
            eprintln!("test {name} ... ok");
            passed += 1;
        }
    }
    // As a harness says it, for whoever counts; one that fails ends this process.
    println!("test result: ok. {passed} passed; 0 failed; 0 ignored");
}

fn registry() -> Arc<Registry> {
    let mut nfs = catena_engine::nfs::KINDS.to_vec();
    nfs.extend([
        &SCRIBBLER, &PANICKER, &SLANDERER, &FLOODER, &ENDLESS, &GREEDY,
    ]);
    Arc::new(Registry {
        nfs,
        ports: catena_port::PORTS.to_vec(),
        wraps: Vec::new(),
        files: Vec::new(),
    })
}

/// A running chain, in a folder of its own.
struct Running {
    supervisor: Supervisor,
    /// Reads what probes note, once [`Running::probe`] has turned them on.
    collector: Option<Collector>,
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
        collector: None,
        _dir: dir,
    })
}

impl Running {
    /// Has every packet followed.
    fn probe(&mut self) {
        self.supervisor.probe(ProbeSettings {
            tier: Tier::Full,
            gap: 1,
            duration_ns: u64::MAX,
            marks: (0, 0),
        });
        self.collector = Some(Collector::new(self.supervisor.probe_map()));
    }

    /// Reads all pages, also those of workers that were started again. Of what was read long ago
    /// no more is needed.
    fn collect(&mut self) {
        let Some(collector) = &mut self.collector else {
            return;
        };
        for page in self.supervisor.probe_pages() {
            if !collector.reads(page.worker, page.epoch) {
                let fd = page.fd.try_clone().unwrap();
                collector
                    .add(page.worker, page.epoch, fd, page.len)
                    .unwrap();
            }
        }
        collector.poll();
        let count = collector.visits.len();
        collector.visits.drain(..count.saturating_sub(1 << 19));
    }

    fn until(&mut self, what: &str, patience: Duration, wanted: impl Fn(&Status) -> bool) {
        let start = Instant::now();
        while !wanted(&self.supervisor.status()) {
            self.supervisor.step(Duration::from_millis(5), &[]);
            self.collect();
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
  last:  {{ type: merge, group: strangers }}
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
    running.probe();
    let time = hostile_time();
    let start = Instant::now();
    running.until("the time passes", time * 2, |_| start.elapsed() > time);
    running.until(
        "the scribbler is detached",
        Duration::from_secs(20),
        |status| status.detached.iter().any(|who| who.starts_with("evil: ")),
    );
    assert_readable(running.collector.take().unwrap());
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
    assert_eq!(out.counters["verified"], made, "{status:#?}");
    for what in ["lost", "duplicated", "reordered", "stale", "corrupted"] {
        assert_eq!(out.counters[what], 0, "{status:#?}");
    }
}

/// Whatever the scribbler has written into its page and onto its links, packets of the others are
/// followed to their ends.
fn assert_readable(mut collector: Collector) {
    collector.poll();
    let refused = collector.refused();
    let visits = std::mem::take(&mut collector.visits);
    let journeys = Journeys::of(collector.map(), visits);
    let names = |journey: &Journey| -> Vec<String> {
        let node = |node: u16| collector.map().nodes[usize::from(node)].clone();
        let names = journey.path().into_iter().filter_map(node);
        names.map(|node| node.name).collect()
    };
    let whole = journeys.whole.iter().map(names);
    let good = whole.filter(|path| path == &["in", "split", "good", "out"]);
    let good = good.count();
    eprintln!("  {good} packets followed, {refused} records refused");
    assert!(good > 50, "{good} of {}", journeys.whole.len());
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
    ("vast", "announced were"),
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
  mid: {{ type: macswap }}
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
    assert_eq!(out.counters["verified"] + mad.killed, made, "{status:#?}");
    assert_eq!(out.counters["duplicated"], 0);
}

/// Two greedy NFs, each with its share of half of the machine's memory, in workers of two
/// threads.
fn greedy() {
    let mut running = start(
        "name: greedy
ports:
  in:  { generator: { rate: 10kpps } }
  out: { sink: { verify: true } }
nfs:
  one: { type: greedy }
  two: { type: greedy }
links: [in -> one -> two -> out]
run: { mode: process }
",
    )
    .unwrap_or_else(|error| panic!("{error}"));
    running.until("both have tried", Duration::from_secs(20), |status| {
        let tried = |name: &str| node(status, name).counters.get("tried") == Some(&1);
        tried("one") && tried("two") && node(status, "out").tx_packets > 1000
    });
    let total = std::fs::read_to_string("/proc/meminfo").unwrap();
    let total = total.split_whitespace().nth(1).unwrap();
    let total: u64 = total.parse::<u64>().unwrap() / 1024;
    let status = running.stop();
    // The ports' worker is the third.
    let share = (total / 2 / 3).max(512);
    for name in ["one", "two"] {
        let counters = &node(&status, name).counters;
        assert_eq!(counters["threads"], 0, "{status:#?}");
        assert!(counters["shared"] > 0, "{status:#?}");
        assert_eq!(counters["holes"], 0, "{status:#?}");
        assert_eq!(counters["peeks"], 0, "{status:#?}");
        let got = counters["mebibytes"];
        assert!(got < share && got > share / 2, "{got} of {share}");
    }
    assert_eq!(node(&status, "out").counters["corrupted"], 0);
    assert!(status.workers.iter().all(|worker| worker.restarts == 0));
}

fn slandered() {
    for (trust, count) in [("shared", 3), ("ro", 3), ("copy", 2)] {
        slandered_over(trust, count);
    }
}

/// Honest neighbours of a slanderer, which accuses them of `count` things.
fn slandered_over(trust: &str, count: usize) {
    let mut running = start(&format!(
        "name: slander-{trust}
ports:
  in:  {{ generator: {{ rate: 50kpps }} }}
  out: {{ sink: {{ verify: true }} }}
nfs:
  evil: {{ type: slanderer }}
  good: {{ type: merge }}
links:
  - {{ link: in -> evil, trust: {trust} }}
  - {{ link: evil -> good, trust: {trust} }}
  - {{ link: good -> out, trust: {trust} }}
run: {{ mode: process }}
"
    ))
    .unwrap_or_else(|error| panic!("{error}"));
    let patience = Duration::from_secs(20);
    running.until("it has accused everybody", patience, |status| {
        // All it says takes 0.58 s, its packets in that time being 29,000.
        status.accusations.len() >= count && node(status, "evil").tx_packets > 40_000
    });
    let status = running.stop();
    eprintln!("  {:?}", status.accusations);
    assert_eq!(status.deaths, 0, "{status:#?}");
    assert!(status.detached.is_empty(), "{status:#?}");
    assert_eq!(status.accusations.len(), count, "{status:#?}");
    let (made, out) = (node(&status, "in").rx_packets, node(&status, "out"));
    assert_eq!(out.counters["verified"], made, "{status:#?}");
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
fn assert_unharmed(running: Running, reasons: &[&str]) {
    let status = running.stop();
    let named =
        |who: &String| who.starts_with("evil: ") && reasons.iter().any(|why| who.contains(why));
    assert!(status.detached.iter().any(named), "{status:#?}");
    let others = status.workers.iter().filter(|worker| worker.name != "evil");
    assert!(
        others.clone().all(|worker| worker.restarts == 0),
        "{status:#?}"
    );
    let (made, out) = (node(&status, "in").rx_packets, node(&status, "out"));
    assert_eq!(out.counters["verified"], made, "{status:#?}");
}

fn deaf() {
    let mut running = beside("deaf", "merge");
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
    // Whichever is seen first.
    let reasons = [
        "does not read its control connection",
        "its data path has not turned",
    ];
    assert_unharmed(running, &reasons);
}

/// It is neither ended nor does it keep the supervisor from the others.
fn flooded() {
    let mut running = beside("flooded", "flooder");
    let good = running.supervisor.chain().node_index("good").unwrap();
    let start = Instant::now();
    let (mut asked, mut answered) = (0, 0);
    let mut is_said = false;
    while start.elapsed() < Duration::from_secs(3) {
        let id = running.supervisor.request(good, serde_json::Value::Null);
        asked += 1;
        let since = Instant::now();
        while running.supervisor.answer(id).is_none() {
            running.supervisor.step(Duration::from_millis(5), &[]);
            assert!(
                since.elapsed() < Duration::from_secs(2),
                "{answered} of {asked}"
            );
        }
        answered += 1;
        while let Some(event) = running.supervisor.next_event() {
            is_said |= format!("{event:?}").contains("heard more slowly");
        }
    }
    assert!(is_said, "nobody was told");
    let status = running.supervisor.status();
    assert!(status.detached.is_empty(), "{status:#?}");
    assert_eq!(status.deaths, 0, "{status:#?}");
    // It never comes back from its burst: the watchdog may end it while the others drain.
    let status = running.stop();
    let (made, out) = (node(&status, "in").rx_packets, node(&status, "out"));
    assert_eq!(out.counters["verified"], made, "{status:#?}");
}

/// Nothing can end a thread: the chain ends without it, and says so.
fn endless() {
    let mut running = start(
        "name: endless
ports:
  in:  { generator: { rate: 50kpps } }
  out: { sink: {} }
nfs:
  evil: { type: endless }
links: [in -> evil -> out]
run: { mode: thread }
",
    )
    .unwrap_or_else(|error| panic!("{error}"));
    running.until("it is seen", Duration::from_secs(20), |status| {
        let evil = status.workers.iter().find(|worker| worker.name == "evil");
        evil.is_some_and(|evil| evil.state == "stuck")
    });
    running.supervisor.stop(Duration::from_secs(1));
    let events = std::iter::from_fn(|| running.supervisor.next_event());
    let events: Vec<String> = events.map(|event| format!("{event:?}")).collect();
    let named = |event: &String| event.contains("worker evil is left behind");
    assert!(events.iter().any(named), "{events:?}");
}

/// It says its last word, and lives on.
fn undead() {
    let mut running = beside("undead", "merge");
    let evil = running.supervisor.chain().node_index("evil").unwrap();
    running.supervisor.request(evil, serde_json::Value::Null);
    running.until("its successor runs", Duration::from_secs(20), |status| {
        let evil = status.workers.iter().find(|worker| worker.name == "evil");
        evil.is_some_and(|evil| evil.epoch > 0 && evil.state == "running")
    });
    let status = running.stop();
    let (made, out) = (node(&status, "in").rx_packets, node(&status, "out"));
    assert_eq!(out.counters["verified"], made, "{status:#?}");
    assert_eq!(status.buffers.free, status.buffers.allocated, "{status:#?}");
}
