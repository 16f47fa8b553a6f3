//! A chain run by the real binary, watched through `catena status --json`, its workers killed.
#![allow(dead_code, reason = "each test file uses its part")]

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub(crate) use catena_measure::stats::random::Random;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// How long anything may take before a test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A running chain in a runtime folder of its own.
pub(crate) struct Running {
    pub(crate) dir: tempfile::TempDir,
    name: String,
    child: Option<Child>,
    /// The binary that runs and asks it.
    program: PathBuf,
}

/// The binary that was built with this test.
pub(crate) fn built() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_catena"))
}

impl Running {
    /// Starts a chain file with the given text, whose chain is called `name`.
    pub(crate) fn start(name: &str, text: &str) -> Self {
        Self::start_in(name, text, tempfile::tempdir().unwrap())
    }

    /// As [`Running::start`], in a folder with files that the chain reads.
    pub(crate) fn start_in(name: &str, text: &str, dir: tempfile::TempDir) -> Self {
        let mut running = Self {
            dir,
            name: name.to_owned(),
            child: None,
            program: built(),
        };
        running.again(text);
        running
    }

    /// A folder in which nothing runs.
    pub(crate) fn idle(name: &str) -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            name: name.to_owned(),
            child: None,
            program: built(),
        }
    }

    /// Starts a chain in a folder where workers wait to join it.
    pub(crate) fn start_joined(name: &str, text: &str, dir: tempfile::TempDir) -> Self {
        let mut running = Self {
            dir,
            name: name.to_owned(),
            child: None,
            program: built(),
        };
        running.run(text, &[("CATENA_CONTAINER_ENGINE", "join")]);
        running
    }

    /// Starts another chain in the same folder.
    pub(crate) fn again(&mut self, text: &str) {
        self.run(text, &[]);
    }

    fn run(&mut self, text: &str, environment: &[(&str, &str)]) {
        self.write("chain.yaml", text);
        self.spawn(environment, &[]);
        self.until_all_run();
    }

    /// Puts a text of this chain into a file of its folder.
    pub(crate) fn write(&self, file: &str, text: &str) {
        let path = self.dir.path().join(file);
        std::fs::write(path, format!("name: {}\n{text}", self.name)).unwrap();
    }

    fn spawn(&mut self, environment: &[(&str, &str)], arguments: &[&str]) {
        let child = self
            .catena()
            .envs(environment.iter().copied())
            .args(["run", "--json"])
            .arg(self.dir.path().join("chain.yaml"))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(self.dir.path().join("stderr")).unwrap())
            .spawn()
            .unwrap();
        self.child = Some(child);
    }

    fn until_all_run(&self) {
        self.until("all workers run", |status| {
            workers(status).all(|worker| worker["state"] == "running")
        });
    }

    /// Starts a chain, and waits for nothing.
    pub(crate) fn begin(&mut self, text: &str) {
        self.write("chain.yaml", text);
        self.spawn(&[], &[]);
    }

    /// Kills the supervisor, and nobody else.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            child.wait().unwrap();
        }
    }

    /// A command that takes this chain over.
    pub(crate) fn adopter(&self) -> Command {
        let mut command = self.catena();
        command.args(["run", "--json", "--adopt"]);
        command.arg(self.dir.path().join("chain.yaml"));
        command.stdin(Stdio::null());
        command
    }

    /// Begins to take the chain over.
    pub(crate) fn begin_adopting(&mut self) {
        self.spawn(&[], &["--adopt"]);
    }

    /// Takes the chain over, unless it is refused.
    pub(crate) fn try_adopt(&mut self) -> bool {
        self.begin_adopting();
        let start = Instant::now();
        while self.try_status().is_none() {
            if self.has_ended() {
                self.child = None;
                return false;
            }
            assert!(start.elapsed() < PATIENCE, "{}", self.stderr());
        }
        self.until_all_run();
        true
    }

    /// Takes the chain over.
    pub(crate) fn adopt(&mut self) {
        assert!(self.try_adopt(), "{}", self.stderr());
    }

    /// Whether `catena run` has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        let child = self.child.as_mut().unwrap();
        child.try_wait().unwrap().is_some()
    }

    /// Another process supervises the chain instead.
    pub(crate) fn replace_child(&mut self, child: Child) {
        self.child = Some(child);
    }

    /// Another binary runs the chain from now on.
    pub(crate) fn use_program(&mut self, program: PathBuf) {
        self.program = program;
    }

    fn catena(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env("CATENA_RUNTIME_DIR", self.runtime());
        command
    }

    fn runtime(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    /// What `catena run` has said.
    pub(crate) fn stderr(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("stderr")).unwrap_or_default()
    }

    /// Process id of the supervisor.
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// A command of `catena` that meets this chain.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.catena();
        command.args(arguments);
        command
    }

    /// What such a command says.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// The status now; none while the chain does not answer.
    pub(crate) fn try_status(&self) -> Option<Value> {
        let Output { status, stdout, .. } = self
            .catena()
            .args(["status", "--json", &self.name])
            .output()
            .unwrap();
        status
            .success()
            .then(|| serde_json::from_slice(&stdout).unwrap())
    }

    /// Asks for the status until it is as wanted.
    pub(crate) fn until(&self, what: &str, mut wanted: impl FnMut(&Value) -> bool) -> Value {
        let start = Instant::now();
        let mut last = None;
        while start.elapsed() < PATIENCE {
            if let Some(status) = self.try_status() {
                if wanted(&status) {
                    return status;
                }
                last = Some(status);
            }
        }
        panic!(
            "{what}: not within {PATIENCE:?}\n{last:#?}\n{}",
            self.stderr()
        );
    }

    /// Kills workers of `status`; gives the first status in which all of them run again.
    pub(crate) fn revive(&self, status: &Value, names: &[&str]) -> Value {
        for name in names {
            assert!(signal(status, name, Signal::KILL), "{name} was dead");
        }
        self.until("they run again", |now| {
            let runs = |name: &&str| runs_after(now, name, epoch(status, name));
            names.iter().all(runs)
        })
    }

    /// Stops the chain and gives its last status.
    pub(crate) fn stop(mut self) -> Value {
        let asked = self.catena().args(["stop", &self.name]).status().unwrap();
        assert!(asked.success(), "{}", self.stderr());
        let output = self.child.take().unwrap().wait_with_output().unwrap();
        assert!(output.status.success(), "{}", self.stderr());
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Waits for the supervisor's end without asking for it.
    pub(crate) fn reap(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.wait().unwrap();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A chain file without its name, which [`Running`] writes.
pub(crate) fn without_name(file: &str) -> String {
    let lines = file.lines().filter(|line| !line.starts_with("name:"));
    lines.map(|line| format!("{line}\n")).collect()
}

pub(crate) fn workers(status: &Value) -> impl Iterator<Item = &Value> {
    status["workers"].as_array().unwrap().iter()
}

pub(crate) fn worker<'a>(status: &'a Value, name: &str) -> &'a Value {
    workers(status)
        .find(|worker| worker["name"] == name)
        .unwrap()
}

pub(crate) fn node<'a>(status: &'a Value, name: &str) -> &'a Value {
    let nodes = status["nodes"].as_array().unwrap();
    nodes.iter().find(|node| node["name"] == name).unwrap()
}

pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// Effective and permitted capabilities of each thread of a process, as the kernel says.
pub(crate) fn capabilities(pid: u64) -> Vec<u64> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of = |status: &str, set: &str| {
        let line = status.lines().find(|line| line.starts_with(set)).unwrap();
        u64::from_str_radix(line[set.len()..].trim(), 16).unwrap()
    };
    let sets = threads.map(|thread| {
        let status = std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
        assert_eq!(of(&status, "CapInh:") | of(&status, "CapAmb:"), 0);
        ["CapEff:", "CapPrm:"].map(|set| of(&status, set))
    });
    sets.flatten().collect()
}

/// All threads of workers with ports of these kinds have what those need, and of NFs nothing.
pub(crate) fn assert_few_rights(chain: &Running, status: &Value, ports: &[&str]) {
    let kinds = catena_port::PORTS.iter();
    let kinds = kinds.filter(|kind| ports.contains(&kind.name));
    let needed = kinds.fold(0, |all, kind| all | kind.needs.rights.bits());
    let has = capabilities(u64::from(chain.pid()));
    let allowed = has.into_iter().fold(u64::MAX, |all, one| all & one);
    assert!(allowed & !needed != 0, "there is nothing to give up");
    for worker in workers(status) {
        let is_of_ports = worker["name"] == "ports";
        let wanted = if is_of_ports { needed & allowed } else { 0 };
        let has = capabilities(number(&worker["pid"]));
        // Two sets of the control thread and of the data path.
        assert!(has.len() >= 4, "{worker:#}");
        for set in has {
            assert_eq!(set, wanted, "{set:#x} for {wanted:#x}: {worker:#}");
        }
    }
}

/// Sends `signal` to a worker of `status`; false if that process is gone.
pub(crate) fn signal(status: &Value, name: &str, signal: Signal) -> bool {
    let pid = i32::try_from(number(&worker(status, name)["pid"])).unwrap();
    let pid = Pid::from_raw(pid).expect("a worker with a process");
    kill_process(pid, signal).is_ok()
}

pub(crate) fn epoch(status: &Value, name: &str) -> u64 {
    number(&worker(status, name)["epoch"])
}

/// Whether a worker runs in a later life than `before`.
pub(crate) fn runs_after(status: &Value, name: &str, before: u64) -> bool {
    let worker = worker(status, name);
    worker["state"] == "running" && number(&worker["epoch"]) > before
}

/// What must hold at the end of every run, whatever was killed: no buffer is missing, no link holds
/// a packet, and every NF has received what it sent, dropped and lost.
pub(crate) fn assert_conserved(status: &Value) {
    let buffers = &status["buffers"];
    assert_eq!(number(&buffers["in_flight"]), 0, "{status:#}");
    assert_eq!(buffers["free"], buffers["allocated"], "{status:#}");
    assert_eq!(number(&status["recovery"]["kept_buffers"]), 0, "{status:#}");
    for node in status["nodes"].as_array().unwrap() {
        if node["kind"] == "nf" {
            let drops: u64 = node["drops"]
                .as_object()
                .unwrap()
                .values()
                .map(number)
                .sum();
            assert_eq!(
                number(&node["rx_packets"]),
                number(&node["tx_packets"])
                    + drops
                    + number(&node["held"])
                    + number(&node["killed"]),
                "{} in {status:#}",
                node["name"]
            );
        }
    }
    for link in status["links"].as_array().unwrap() {
        assert_eq!(
            link["tx_packets"], link["rx_packets"],
            "{link:#} in {status:#}"
        );
        assert_eq!(number(&link["violations"]), 0, "{link:#}");
    }
}

/// Passes a short time awake, so that what follows meets the chain at any point of a turn.
pub(crate) fn dither(random: &mut Random, nanos_max: u64) {
    let time = Duration::from_nanos(random.below(nanos_max));
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// The seed that `CATENA_SEED` asks for, or always the same.
pub(crate) fn seed() -> Random {
    let asked = std::env::var("CATENA_SEED").ok();
    let asked = asked.and_then(|text| text.parse().ok());
    Random::new(asked.unwrap_or(0x00c0_ffee))
}

/// A counter of a node's own.
pub(crate) fn counter(status: &Value, node_name: &str, name: &str) -> u64 {
    number(&node(status, node_name)["counters"][name])
}

/// Packets that were in hands of those who were killed.
pub(crate) fn killed(status: &Value) -> u64 {
    let nodes = status["nodes"].as_array().unwrap().iter();
    nodes.map(|node| number(&node["killed"])).sum()
}

/// Packets that have left by the port `out`.
pub(crate) fn packets_out(status: &Value) -> u64 {
    number(&node(status, "out")["tx_packets"])
}

/// Packets flow: more have come out than before.
pub(crate) fn flows(chain: &Running) -> Value {
    let before = chain.until("an answer", |_| true);
    chain.until("packets flow", |now| {
        packets_out(now) > packets_out(&before)
    })
}

/// A chain whose program counts the packets of each of 500 flows, in so many shards.
pub(crate) fn counted(rate: &str, shards: u64) -> String {
    format!(
        "ports:
  in:  {{ generator: {{ rate: {rate}, size: 64, flows: 500 }} }}
  out: {{ sink: {{ verify: true }} }}
nfs:
  tell:
    type: flow
    shards: {shards}
    program:
      globals: {{ seen: {{ width: 64, scope: merged }} }}
      elements:
        - name: tell
          key: [ip.src, ip.dst, l4.src_port, l4.dst_port]
          registers: {{ packets: 32 }}
          before: [global.seen = global.seen + 1]
          transitions: [ {{ do: [flow.packets = flow.packets + 1, output(out)] }} ]
links:
  - in -> tell -> out
run: {{ mode: process }}
"
    )
}
