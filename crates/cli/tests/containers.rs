//! Chains with workers in containers, once with podman and once with docker.
//!
//! Set up by `tests/setup/containers.sh`: engines, docker's daemon, and the image `catena-worker`.
//! A test of an engine that is not there says so.

#[path = "containers/holes.rs"]
mod holes;
#[path = "containers/kept.rs"]
mod kept;
#[path = "containers/limits.rs"]
mod limits;
#[path = "containers/many.rs"]
mod many;
#[path = "containers/study.rs"]
mod study;
#[path = "containers/tcp.rs"]
mod tcp;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use holes::holes_are_refused_from_inside;
use kept::containers_go_on_without_a_supervisor;
use limits::containers_have_their_limits;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use study::a_study_crosses_processes_and_containers;
use tcp::tcp_links_cross_containers;

const CATENA: &str = env!("CARGO_BIN_EXE_catena");
/// For everything that must happen; long, since only failures wait for it.
const PATIENCE: Duration = Duration::from_secs(120);

/// An engine and a folder of its own: runs on the same machine do not meet.
struct Bench {
    engine: &'static str,
    folder: tempfile::TempDir,
}

impl Bench {
    /// None, with the reason printed, where the engine or its image is missing.
    fn new(test: &str, engine: &'static str) -> Option<Self> {
        let found = Command::new(engine)
            .args(["image", "inspect", "catena-worker"])
            .output();
        let reason = match found {
            Ok(output) if output.status.success() => {
                let folder = tempfile::tempdir().unwrap();
                return Some(Self { engine, folder });
            }
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        println!("SKIP {test}: {engine}: {reason}; run tests/setup/containers.sh");
        None
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(CATENA);
        command
            .args(args)
            // podman's monitor leaves a file named `oom` where it was started.
            .current_dir(self.folder.path())
            .env("CATENA_RUNTIME_DIR", self.path("run"))
            .env("CATENA_CONTAINER_ENGINE", self.engine)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Starts a chain.
    fn start(&self, chain: &str) -> Running<'_> {
        let file = self.path("chain.yaml");
        fs::write(&file, chain).unwrap();
        let args = ["run", "--json", file.to_str().unwrap()];
        Running {
            bench: self,
            child: self.command(&args).spawn().unwrap(),
        }
    }

    /// Containers of the engine that belong to this folder, running or not.
    fn containers(&self) -> String {
        let run = fs::canonicalize(self.folder.path()).unwrap().join("run");
        let output = Command::new(self.engine)
            .args(["ps", "--all", "--format"])
            .arg("{{.Names}} {{.Labels}}")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let ours = text
            .lines()
            .filter(|line| line.contains(run.to_str().unwrap()));
        ours.collect::<Vec<_>>().join("\n")
    }
}

/// A chain that runs, ended with the test in any case.
struct Running<'a> {
    bench: &'a Bench,
    child: Child,
}

impl Running<'_> {
    fn status(&self) -> Option<Value> {
        let output = self.bench.command(&["status", "box", "--json"]).output();
        let output = output.unwrap();
        let is_there = output.status.success();
        is_there.then(|| serde_json::from_slice(&output.stdout).unwrap())
    }

    /// Polls the chain's status until it holds.
    fn await_status(&mut self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.status() {
                Some(status) if holds(&status) => return status,
                status => assert!(Instant::now() < deadline, "{what}: {status:?}"),
            }
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("{what}: the chain has ended: {status}");
            }
        }
    }

    /// Its final counters.
    fn finish(mut self) -> Value {
        let deadline = Instant::now() + PATIENCE;
        let child = std::mem::replace(&mut self.child, Command::new("true").spawn().unwrap());
        let output = child.wait_with_output().unwrap();
        assert!(Instant::now() < deadline);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {errors}", output.status);
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn worker<'a>(status: &'a Value, name: &str) -> &'a Value {
    let mut workers = status["workers"].as_array().unwrap().iter();
    workers.find(|worker| worker["name"] == name).unwrap()
}

fn node<'a>(status: &'a Value, name: &str) -> &'a Value {
    let mut nodes = status["nodes"].as_array().unwrap().iter();
    nodes.find(|node| node["name"] == name).unwrap()
}

fn number(value: &Value, key: &str) -> u64 {
    let number = value[key].as_u64();
    number.unwrap_or_else(|| panic!("no {key} in {value}"))
}

/// The process of the chain's NF, once it runs.
fn nf_pid(status: &Value) -> Option<Pid> {
    let worker = worker(status, "swap");
    if worker["state"] != "running" {
        return None;
    }
    Pid::from_raw(i32::try_from(worker["pid"].as_u64()?).ok()?)
}

/// A chain that makes packets, has an NF in a container exchange their addresses, and counts them.
fn endless(ports: &str) -> String {
    format!(
        "name: box\nports:\n  in: {{ generator: {{ {ports} }} }}\n  out: {{ sink: {{}} }}\nnfs:\n  \
         swap: {{ type: macswap, mode: container }}\nlinks: [in -> swap -> out]\n\
         run: {{ mode: process }}\n"
    )
}

/// The packets of a pcap file, without the times at which they were written.
fn packets(path: &Path) -> Vec<Vec<u8>> {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut rest = &bytes[24..];
    let mut packets = Vec::new();
    while !rest.is_empty() {
        let len: [u8; 4] = rest[8..12].try_into().unwrap();
        let end = 16 + usize::try_from(u32::from_le_bytes(len)).unwrap();
        packets.push(rest[8..end].to_vec());
        rest = &rest[end..];
    }
    packets
}

fn output_is_that_of_processes(engine: &'static str) {
    let Some(bench) = Bench::new("output_is_that_of_processes", engine) else {
        return;
    };
    let chains = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../chains");
    fs::create_dir_all(bench.path("chains/traces")).unwrap();
    for file in ["container.yaml", "traces/web.pcap"] {
        fs::copy(chains.join(file), bench.path("chains").join(file)).unwrap();
    }
    let file = bench.path("chains/container.yaml");
    let mixed = fs::read_to_string(&file).unwrap();
    let run = |name: &str, text: String| {
        fs::write(&file, text).unwrap();
        let args = ["run", "--json", file.to_str().unwrap()];
        let output = bench.command(&args).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {errors}");
        // Its filter of system calls lets a worker sleep until any neighbour has work.
        assert!(!errors.contains("futex_waitv"), "{name}: {errors}");
        fs::rename(bench.path("out.pcap"), bench.path(name)).unwrap();
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let status = run("process.pcap", mixed.replace(", mode: container", ""));
    assert_eq!(worker(&status, "swap")["mode"], "process");
    let status = run("container.pcap", mixed.clone());
    assert_eq!(worker(&status, "swap")["mode"], "container");
    assert_eq!(number(&status, "deaths"), 0);
    let expected = packets(&bench.path("process.pcap"));
    assert_eq!(expected.len(), 911);
    assert!(packets(&bench.path("container.pcap")) == expected);
    let all = mixed.replace("type: policer,", "type: policer, mode: container,");
    let status = run("both.pcap", all);
    assert_eq!(worker(&status, "police")["mode"], "container");
    assert!(packets(&bench.path("both.pcap")) == expected);
    assert_eq!(bench.containers(), "");
}

/// Chunks of 8 KiB through the PHY of 10G-EPON, each function in a container.
fn a_pon_runs_in_containers(engine: &'static str) {
    let Some(bench) = Bench::new("a_pon_runs_in_containers", engine) else {
        return;
    };
    let chains = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../chains");
    let file = bench.path("container.yaml");
    let text = fs::read_to_string(chains.join("epon/container.yaml")).unwrap();
    // A chunk counts as lost when it has not come back in time, by default 1 s: it may take longer
    // where others use the machine, above all the first one, which waits for the containers.
    let patient = text.replace("count: 2000", "count: 2000, timeout: 60s");
    assert_ne!(patient, text);
    fs::write(&file, patient).unwrap();
    let args = ["run", "--json", file.to_str().unwrap()];
    let output = bench.command(&args).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    for name in ["olt", "fibre", "onu"] {
        assert_eq!(worker(&status, name)["mode"], "container");
    }
    let counters = &node(&status, "loop")["counters"];
    assert_eq!(number(counters, "chunks"), 2000);
    for name in ["chunks_lost", "frames_lost", "frames_corrupted"] {
        assert_eq!(number(counters, name), 0, "{name}");
    }
    let counters = &node(&status, "onu")["counters"];
    assert!(number(counters, "codewords_corrected") > 1000, "{counters}");
    assert_eq!(number(counters, "codewords_uncorrectable"), 0);
    assert_eq!(status["buffers"]["free"], status["buffers"]["allocated"]);
    assert_eq!(bench.containers(), "");
}

fn a_killed_worker_is_replaced(engine: &'static str) {
    let Some(bench) = Bench::new("a_killed_worker_is_replaced", engine) else {
        return;
    };
    let mut chain = bench.start(&endless("rate: 20kpps, flows: 16"));
    let status = chain.await_status("the first packets", |status| {
        nf_pid(status).is_some() && number(node(status, "out"), "tx_packets") > 1000
    });
    let first = nf_pid(&status).unwrap();
    // It is in a PID namespace of its own and nobody in particular.
    let about = fs::read_to_string(format!("/proc/{}/status", first.as_raw_nonzero())).unwrap();
    let field = |name: &str| about.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(field("NSpid:").ends_with("\t1"), "{about}");
    assert!(field("CapEff:").ends_with("0000000000000000"), "{about}");
    assert!(field("NoNewPrivs:").ends_with('1'), "{about}");
    if rustix::process::geteuid().is_root() {
        // Of its own: neither the host's root nor its nobody, nor any that has a name.
        let user: u32 = field("Uid:")
            .split_whitespace()
            .nth(1)
            .unwrap()
            .parse()
            .unwrap();
        assert!((1_900_000_000..2_100_000_000).contains(&user), "{about}");
    }
    let mode = |path: &str| fs::metadata(bench.path(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("run/box"), 0o700);
    assert_eq!(mode("run/box/control.sock"), 0o600);
    assert_eq!(mode("run/box/workers"), 0o755);

    kill_process(first, Signal::KILL).unwrap();
    let sent = number(node(&status, "out"), "tx_packets");
    let status = chain.await_status("the restart", |status| {
        let out = number(node(status, "out"), "tx_packets");
        nf_pid(status).is_some_and(|pid| pid != first) && out > sent + 10_000
    });
    assert_eq!(number(worker(&status, "swap"), "restarts"), 1);
    assert!(bench.command(&["stop", "box"]).status().unwrap().success());
    let status = chain.finish();
    assert_eq!(number(&status, "deaths"), 1);
    let swap = node(&status, "swap");
    let (in_, out) = (node(&status, "in"), node(&status, "out"));
    assert_eq!(number(in_, "rx_packets"), number(swap, "rx_packets"));
    let gone = number(swap, "tx_packets") + number(swap, "killed");
    assert_eq!(number(swap, "rx_packets"), gone);
    assert_eq!(number(swap, "tx_packets"), number(out, "tx_packets"));
    assert_eq!(status["buffers"]["free"], status["buffers"]["allocated"]);
    assert_eq!(bench.containers(), "");
    assert!(!bench.path("run/box").exists());
}

fn a_killed_supervisor_leaves_no_container(engine: &'static str) {
    let Some(bench) = Bench::new("a_killed_supervisor_leaves_no_container", engine) else {
        return;
    };
    let mut chain = bench.start(&endless("rate: 1kpps"));
    chain.await_status("the start", |status| nf_pid(status).is_some());
    assert!(bench.containers().contains("catena-box-swap-0"));
    chain.child.kill().unwrap();
    chain.child.wait().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while !bench.containers().is_empty() {
        assert!(Instant::now() < deadline, "{}", bench.containers());
    }
    // The same chain starts again.
    let chain = bench.start(&endless("rate: 10kpps, count: 1000"));
    let status = chain.finish();
    assert_eq!(number(node(&status, "out"), "tx_packets"), 1000);
    assert_eq!(bench.containers(), "");
}

fn a_worker_without_the_token_is_not_let_in(engine: &'static str) {
    let Some(bench) = Bench::new("a_worker_without_the_token_is_not_let_in", engine) else {
        return;
    };
    let mut chain = bench.start(&endless("rate: 10kpps"));
    chain.await_status("the start", |status| nf_pid(status).is_some());
    let socket = bench.path("run/box/workers/worker.sock");
    let socket = socket.to_str().unwrap();
    // A connection that says nothing, which must not hold up the supervisor.
    let silent = rustix::net::socket(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::SEQPACKET,
        None,
    );
    let silent = silent.unwrap();
    let address = rustix::net::SocketAddrUnix::new(socket).unwrap();
    rustix::net::connect(&silent, &address).unwrap();
    let output = bench
        .command(&["worker", "--socket", socket])
        .env("CATENA_TOKEN", "0123456789abcdef0123456789abcdef")
        .output()
        .unwrap();
    assert!(!output.status.success());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("closed the connection"), "{errors}");
    let status = chain.status().unwrap();
    assert_eq!(number(&status, "deaths"), 0);
    assert!(bench.command(&["stop", "box"]).status().unwrap().success());
    chain.finish();
}

fn a_missing_image_is_told_at_once(engine: &'static str) {
    let Some(bench) = Bench::new("a_missing_image_is_told_at_once", engine) else {
        return;
    };
    let chain = endless("count: 1").replace("mode: process", "mode: process, image: catena-none");
    fs::write(bench.path("chain.yaml"), chain).unwrap();
    let start = Instant::now();
    let file = bench.path("chain.yaml");
    let output = bench
        .command(&["run", file.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(start.elapsed() < Duration::from_secs(10));
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("catena-none"), "{errors}");
    assert!(errors.contains("cargo xtask image"), "{errors}");
    assert!(!bench.path("run/box").exists());
    assert_eq!(bench.containers(), "");
}

/// A chain whose NFs, each with its settings, run in containers one behind the other.
fn row(nfs: &[(&str, &str)]) -> String {
    let declared: String = nfs
        .iter()
        .map(|(name, settings)| format!("  {name}: {{ {settings}, mode: container }}\n"))
        .collect();
    let names: Vec<&str> = nfs.iter().map(|(name, _)| *name).collect();
    format!(
        "name: box\nports:\n  in: {{ generator: {{ rate: 20kpps }} }}\n  \
         out: {{ sink: {{ verify: true }} }}\nnfs:\n{declared}links: [in -> {} -> out]\n",
        names.join(" -> ")
    )
}

fn containers_come_and_go_in_a_running_chain(engine: &'static str) {
    let Some(bench) = Bench::new("containers_come_and_go_in_a_running_chain", engine) else {
        return;
    };
    let swap = ("swap", "type: macswap");
    let mut chain = bench.start(&row(&[swap]));
    let mut passed = |what: &str, nfs: &[&str]| {
        let before = chain.await_status(what, |status| {
            nfs.iter().all(|name| {
                let mut workers = status["workers"].as_array().unwrap().iter();
                let worker = workers.find(|worker| worker["name"] == **name);
                worker.is_some_and(|w| w["state"] == "running" && w["mode"] == "container")
            })
        });
        let sent = number(node(&before, "out"), "tx_packets");
        chain.await_status(what, |status| {
            number(node(status, "out"), "tx_packets") > sent + 1000
        })
    };
    let apply = |nfs: &[(&str, &str)]| {
        fs::write(bench.path("new.yaml"), row(nfs)).unwrap();
        let args = ["apply", bench.path("new.yaml").to_str().unwrap()].map(str::to_owned);
        let output = bench.command(&[&args[0], &args[1]]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    passed("the start", &["swap"]);
    apply(&[swap, ("seen", "type: count")]);
    let status = passed("a container more", &["swap", "seen"]);
    assert!(number(node(&status, "seen"), "rx_packets") > 0);
    assert!(bench.containers().contains("catena-box-seen-"));
    // In place: the same name, another type, so another container.
    apply(&[("swap", "type: ttl"), ("seen", "type: count")]);
    passed("another type", &["swap", "seen"]);
    apply(&[("swap", "type: ttl")]);
    let status = passed("a container fewer", &["swap"]);
    assert_eq!(status["nodes"].as_array().unwrap().len(), 3);
    assert!(bench.command(&["stop", "box"]).status().unwrap().success());
    let status = chain.finish();
    let counters = &node(&status, "out")["counters"];
    for wrong in ["lost", "duplicated", "reordered", "corrupted"] {
        assert_eq!(number(counters, wrong), 0, "{wrong}: {status:#}");
    }
    let (in_, out) = (node(&status, "in"), node(&status, "out"));
    assert_eq!(number(in_, "rx_packets"), number(out, "tx_packets"));
    assert_eq!(number(&status, "deaths"), 0);
    assert_eq!(status["buffers"]["free"], status["buffers"]["allocated"]);
    assert_eq!(bench.containers(), "");
}

macro_rules! with_engines {
    ($($test:ident)*) => {
        mod podman { $(#[test] fn $test() { super::$test("podman"); })* }
        mod docker { $(#[test] fn $test() { super::$test("docker"); })* }
    };
}

with_engines! {
    output_is_that_of_processes
    a_pon_runs_in_containers
    a_killed_worker_is_replaced
    containers_have_their_limits
    holes_are_refused_from_inside
    tcp_links_cross_containers
    a_killed_supervisor_leaves_no_container
    a_worker_without_the_token_is_not_let_in
    a_missing_image_is_told_at_once
    containers_come_and_go_in_a_running_chain
    a_study_crosses_processes_and_containers
    containers_go_on_without_a_supervisor
}
