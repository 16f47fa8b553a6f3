//! Probes on real chains: an added delay of 500 ns is blamed on the component that it was added to.
//!
//! Ports and NFs that no release has spin for as long as the test says. Chains run inline and in
//! threads; every packet is followed; stretches without the delay and with it take turns, so that
//! what else the machine does hits both.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use catena_engine::chain::{Chain, Mode, Registry};
use catena_engine::nf::{BuiltNf, Burst, Nanos, Nf, NfKind, NfPlan};
use catena_engine::port::{Port, PortKind, PortNeeds, PortRole, RxBurst, RxState, TxBurst};
use catena_engine::probe::{ProbeSettings, Tier};
use catena_engine::supervisor::{Options, Supervisor};
use catena_measure::probes::Collector;
use catena_measure::probes::difference::{culprit, medians};
use catena_measure::probes::journey::{Journey, Journeys};
use catena_measure::probes::parts::{components, times_of};
use catena_measure::stats::random::Random;
use catena_shm::tsc::kernel_ns;

/// What is added, by place: port RX, the first NF, the second, port TX.
static DELAYS: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];
/// The components that these places are part of.
const COMPONENTS: [&str; 4] = ["in: port rx", "a: NF", "b: NF", "out: port tx"];
const DELAY_NS: u64 = 500;
/// One packet in so many ns.
const DISTANCE_NS: u64 = 20_000;

fn spin(place: usize) {
    let wanted = Duration::from_nanos(DELAYS[place].load(Ordering::Relaxed));
    let start = Instant::now();
    while start.elapsed() < wanted {
        std::hint::spin_loop();
    }
}

struct Source {
    next: Nanos,
}

impl Port for Source {
    fn rx(&mut self, burst: &mut RxBurst<'_>, now: Nanos) -> RxState {
        if now >= self.next && burst.room() > 0 && burst.push_copy(&[2; 60]) {
            self.next = now.plus(DISTANCE_NS);
            spin(0);
        }
        RxState::Until(self.next)
    }
}

struct Drain;

impl Port for Drain {
    fn rx(&mut self, _burst: &mut RxBurst<'_>, _now: Nanos) -> RxState {
        RxState::Idle
    }

    fn tx(&mut self, burst: &mut TxBurst<'_>, _now: Nanos) -> usize {
        spin(3);
        burst.count()
    }
}

struct Slow {
    place: usize,
}

impl Nf for Slow {
    fn process(&mut self, _burst: &mut Burst<'_>, _now: Nanos) {
        spin(self.place);
    }
}

static SLOW: NfKind = NfKind {
    name: "slow",
    summary: "Spins",
    example: r#"{"place": 0}"#,
    schema: || schemars::schema_for!(()),
    plan: |_, _| Ok(NfPlan::new()),
    build: |config, _| {
        let place = config["place"].as_u64().unwrap();
        let place = usize::try_from(place).unwrap();
        Ok(BuiltNf::new(Slow { place }))
    },
};

const fn role(receives: bool) -> PortRole {
    PortRole::of(receives, !receives)
}

static SOURCE: PortKind = PortKind {
    name: "source",
    summary: "Makes packets",
    counters: &[],
    drop_reasons: &[],
    needs: PortNeeds::NONE,
    schema: || schemars::schema_for!(()),
    check: |_| Ok(role(true)),
    open: |_, _| Ok(Box::new(Source { next: Nanos(0) })),
};

static DRAIN: PortKind = PortKind {
    name: "drain",
    summary: "Takes packets",
    counters: &[],
    drop_reasons: &[],
    needs: PortNeeds::NONE,
    schema: || schemars::schema_for!(()),
    check: |_| Ok(role(false)),
    open: |_, _| Ok(Box::new(Drain)),
};

struct Running {
    supervisor: Supervisor,
    collector: Collector,
    _folder: tempfile::TempDir,
}

fn start(mode: Mode) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let registry = Arc::new(Registry {
        nfs: vec![&SLOW],
        ports: vec![&SOURCE, &DRAIN],
        wraps: Vec::new(),
        files: Vec::new(),
    });
    let text = "name: blamed\nports:\n  in: { source: {} }\n  out: { drain: {} }\nnfs:\n  \
                a: { type: slow, place: 1 }\n  b: { type: slow, place: 2 }\n\
                links: [in -> a -> b -> out]\n";
    let chain = Chain::parse(text, folder.path(), &registry, Some(mode));
    let chain = chain.unwrap_or_else(|errors| panic!("{errors}")).chain;
    let options = Options {
        registry,
        program: std::env::current_exe().unwrap(),
        runtime_root: folder.path().join("run"),
        pin: false,
    };
    let mut supervisor = Supervisor::start(chain, options).unwrap();
    let mut collector = Collector::new(supervisor.probe_map());
    for page in supervisor.probe_pages() {
        let fd = page.fd.try_clone().unwrap();
        collector
            .add(page.worker, page.epoch, fd, page.len)
            .unwrap();
    }
    supervisor.probe(ProbeSettings {
        tier: Tier::Full,
        gap: 1,
        duration_ns: u64::MAX,
        marks: (0, 0),
    });
    Running {
        supervisor,
        collector,
        _folder: folder,
    }
}

/// Least packets of a stretch, and its least length.
const PACKETS: usize = 40;
const STRETCH: Duration = Duration::from_millis(2);
const PAIRS: usize = 8;

impl Running {
    /// Medians of components over packets that entered in a stretch with the delays as they are.
    fn stretch(&mut self) -> Vec<f64> {
        let began = kernel_ns() + 500_000;
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            self.supervisor.step(STRETCH, &[]);
            self.collector.poll();
            let visits = self.collector.visits.clone();
            let journeys = Journeys::of(self.collector.map(), visits);
            let inside: Vec<&Journey> = journeys
                .whole
                .iter()
                .filter(|journey| journey.visits[0].begin > began)
                .collect();
            if inside.len() >= PACKETS {
                let parts: Vec<_> = inside.iter().map(|one| times_of(one).parts_ns).collect();
                self.collector.visits.clear();
                return medians(&parts).unwrap();
            }
            assert!(Instant::now() < deadline, "{} packets", inside.len());
        }
    }

    /// The name of the component that a delay at `place` is blamed on.
    fn blamed(&mut self, place: usize, random: &mut Random) -> Option<String> {
        let mut pairs = Vec::new();
        for _ in 0..PAIRS {
            let with_first = random.bits() & 1 == 0;
            let mut found = [Vec::new(), Vec::new()];
            for with in [with_first, !with_first] {
                let delay = if with { DELAY_NS } else { 0 };
                DELAYS[place].store(delay, Ordering::Relaxed);
                found[usize::from(with)] = self.stretch();
            }
            DELAYS[place].store(0, Ordering::Relaxed);
            let [without, with] = found;
            pairs.push((without, with));
        }
        let grown = culprit(&pairs)?;
        self.stretch();
        let names = self.names();
        Some(names[grown.component].clone())
    }

    fn names(&mut self) -> Vec<String> {
        loop {
            self.supervisor.step(STRETCH, &[]);
            self.collector.poll();
            let visits = self.collector.visits.clone();
            let whole = Journeys::of(self.collector.map(), visits).whole;
            if let Some(journey) = whole.first() {
                let names = components(self.collector.map(), &[journey]);
                return names.into_iter().map(|one| one.name).collect();
            }
        }
    }
}

/// Goal: 95 of 100 runs name the right component, of which there are 19. Half of them inline, where
/// nodes share a worker, half in threads, where rings, yielding and waking lie between them.
#[test]
fn an_added_delay_is_blamed_on_the_right_component() {
    let mut random = Random::new(11);
    let (mut right, mut wrong, mut none) = (0, Vec::new(), 0);
    for mode in [Mode::Inline, Mode::Thread] {
        let mut running = start(mode);
        for run in 0..50 {
            let place = run % COMPONENTS.len();
            let blamed = running.blamed(place, &mut random);
            if blamed.as_deref() == Some(COMPONENTS[place]) {
                right += 1;
            } else if blamed.is_none() {
                // Too few packets were followed on a loaded machine to tell: nobody is blamed.
                none += 1;
            } else {
                wrong.push((mode, COMPONENTS[place], blamed));
            }
        }
        assert_eq!(running.collector.refused(), 0);
        running.supervisor.drain();
        running.supervisor.stop(Duration::from_secs(5));
    }
    eprintln!("blamed on the right component: {right} of 100, on none {none}; else: {wrong:?}");
    assert!(wrong.len() <= 5, "{right} of 100; {wrong:?}");
    assert!(right >= 70, "{right} of 100; {wrong:?}");
}
