//! NFs that no release has: each breaks the rules in its own way, from within its worker.

use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

use catena_engine::nf::{BuiltNf, Burst, Nanos, Nf, NfKind, NfPlan};
use catena_engine::own_counters::CounterSink;
use catena_engine::protocol::{FromWorker, RegionName};
use catena_measure::stats::random::Random;
use catena_shm::fd_passing;

/// A word that a ring, a ledger or a counter might take for something.
fn word(random: &mut Random) -> u64 {
    match random.below(6) {
        0 => random.bits(),
        1 => u64::MAX,
        2 => random.below(4096),
        3 => 0,
        // A descriptor of one of the first laps, its fields at random.
        4 => (random.bits() & !(0xffff << 32)) | (0x8000 + random.below(64)) << 32,
        _ => (0x8000 + random.below(64)) << 32 | random.below(256),
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
    let mut random = Random::new(std::process::id().into());
    loop {
        let (start, end) = writable[random.bits() as usize % writable.len()];
        // Heads of regions, where the cursors are, as often as all the rest.
        let span = if random.bits().is_multiple_of(2) {
            256
        } else {
            end - start
        };
        let at = start + random.bits() % (span / 8) * 8;
        let mut bytes = Vec::new();
        for _ in 0..=random.bits() % 32 {
            bytes.extend(word(&mut random).to_ne_bytes());
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

pub(crate) static SCRIBBLER: NfKind = NfKind {
    name: "scribbler",
    summary: "Writes over all memory it can",
    example: "{}",
    schema: || schemars::schema_for!(()),
    plan: |_, _| Ok(NfPlan::new()),
    build: |_, _| Ok(BuiltNf::new(Scribbler)),
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

pub(crate) static PANICKER: NfKind = NfKind {
    name: "panicker",
    summary: "Panics at every 3000th packet",
    example: "{}",
    schema: || schemars::schema_for!(()),
    plan: |_, _| Ok(NfPlan::new()),
    build: |_, _| Ok(BuiltNf::new(Panicker)),
};

/// Accuses all its neighbours, louder each time, over its worker's control connection.
#[derive(Default)]
struct Slanderer {
    said: u32,
    /// It speaks again from this time on.
    due: Nanos,
}

/// Between two of a slanderer's speeches. Nobody is accused who is not known to run yet, and the
/// supervisor of a loaded machine may learn that long after the first packets have passed.
const SLANDER_EVERY_NS: u64 = 10_000_000;

/// What a slanderer says first; it says twice as much each time.
const SLANDER_FIRST: u64 = 64;

impl Nf for Slanderer {
    fn process(&mut self, _burst: &mut Burst<'_>, now: Nanos) {
        // As far as numbers go.
        if now < self.due || self.said > SLANDER_FIRST.leading_zeros() {
            return;
        }
        let count = SLANDER_FIRST << self.said;
        self.said += 1;
        self.due = now.plus(SLANDER_EVERY_NS);
        let socket = std::io::stdin();
        let mut regions = vec![RegionName::LinkProducer(0), RegionName::LinkConsumer(1)];
        // Worker 0 owns the pools, unless everybody has its own; where they are sealed, `out` is a
        // worker before this one.
        let label = std::env::args().next_back().unwrap();
        let lane = |from| RegionName::LaneConsumer { from, to: 0 };
        regions.extend(match label.as_str() {
            "slander-copy/evil" => None,
            "slander-ro/evil" => Some(lane(2)),
            _ => Some(lane(1)),
        });
        for region in regions {
            let record = FromWorker::Violation { region, count };
            let bytes = serde_json::to_vec(&record).unwrap();
            fd_passing::send(&socket, &bytes, &[]).unwrap();
        }
    }
}

pub(crate) static SLANDERER: NfKind = NfKind {
    name: "slanderer",
    summary: "Accuses its neighbours",
    example: "{}",
    schema: || schemars::schema_for!(()),
    plan: |_, _| Ok(NfPlan::new()),
    build: |_, _| Ok(BuiltNf::new(Slanderer::default())),
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

pub(crate) static FLOODER: NfKind = NfKind {
    name: "flooder",
    summary: "Floods the control connection",
    example: "{}",
    schema: || schemars::schema_for!(()),
    plan: |_, _| Ok(NfPlan::new()),
    build: |_, _| Ok(BuiltNf::new(Flooder)),
};

/// Tries at its first packets to have all of the machine, and to harm who shares memory with it.
#[derive(Default)]
struct Greedy {
    threads: u64,
    mebibytes: u64,
    shared: u64,
    holes: u64,
    peeks: u64,
    has_tried: bool,
}

/// Threads that a greedy one asks for.
pub(crate) const THREADS_WANTED: u64 = 200;
/// Pieces of [`PIECE`] bytes that it asks for, which it does not touch: 1 TiB.
const PIECES_WANTED: u64 = 1 << 14;
const PIECE: usize = 64 << 20;

impl Greedy {
    fn try_all(&mut self) {
        let spawn = |_: &u64| {
            let thread = std::thread::Builder::new().spawn(std::thread::park);
            thread.is_ok()
        };
        self.threads = (0..THREADS_WANTED).take_while(spawn).count() as u64;
        let mut pieces: Vec<Vec<u8>> = Vec::with_capacity(1 << 14);
        while (pieces.len() as u64) < PIECES_WANTED {
            let mut piece = Vec::new();
            if piece.try_reserve_exact(PIECE).is_err() {
                break;
            }
            pieces.push(piece);
        }
        self.mebibytes = (pieces.len() * (PIECE >> 20)) as u64;
        let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let is_shared = |path: &std::path::PathBuf| {
            let name = std::fs::read_link(path).unwrap_or_default();
            name.to_string_lossy().contains("memfd:catena")
        };
        for path in open.map(|entry| entry.path()).filter(is_shared) {
            use rustix::fs::{FallocateFlags, fallocate};
            let options = std::fs::OpenOptions::new().write(true).open(path);
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let is_cut = options.is_ok_and(|file| fallocate(file, hole, 0, 1 << 20).is_ok());
            self.shared += 1;
            self.holes += u64::from(is_cut);
        }
        let supervisor = std::os::unix::process::parent_id();
        let memory = format!("/proc/{supervisor}/mem");
        self.peeks = u64::from(std::fs::File::open(memory).is_ok());
    }
}

impl Nf for Greedy {
    fn process(&mut self, _burst: &mut Burst<'_>, _now: Nanos) {
        if !self.has_tried {
            self.try_all();
            self.has_tried = true;
        }
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        out.extend([
            ("tried", u64::from(self.has_tried)),
            ("threads", self.threads),
            ("mebibytes", self.mebibytes),
            ("shared", self.shared),
            ("holes", self.holes),
            ("peeks", self.peeks),
        ]);
    }
}

pub(crate) static GREEDY: NfKind = NfKind {
    name: "greedy",
    summary: "Wants all of the machine",
    example: "{}",
    schema: || schemars::schema_for!(()),
    plan: |_, _| {
        let counters = ["tried", "threads", "mebibytes", "shared", "holes", "peeks"];
        Ok(NfPlan::new().counters(counters))
    },
    build: |_, _| Ok(BuiltNf::new(Greedy::default())),
};

/// Never comes back from its first burst.
struct Endless;

impl Nf for Endless {
    fn process(&mut self, _burst: &mut Burst<'_>, _now: Nanos) {
        loop {
            std::thread::park();
        }
    }
}

pub(crate) static ENDLESS: NfKind = NfKind {
    name: "endless",
    summary: "Never comes back",
    example: "{}",
    schema: || schemars::schema_for!(()),
    plan: |_, _| Ok(NfPlan::new()),
    build: |_, _| Ok(BuiltNf::new(Endless)),
};
