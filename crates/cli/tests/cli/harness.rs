//! A place to run the command in, and questions about what it left behind.
//!
//! Nothing here waits for a fixed time: [`until`] asks again until there is an answer.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Far longer than anything takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// Asks until there is an answer.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "{what}: not in {DEADLINE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A folder for files, with a runtime folder in it.
pub(crate) struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let place = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        std::fs::create_dir(place.runtime()).unwrap();
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn runtime(&self) -> PathBuf {
        self.path("runtime")
    }

    /// Writes a file; gives its path.
    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, contents).unwrap();
        path
    }

    pub(crate) fn command<A: AsRef<std::ffi::OsStr>>(&self, args: &[A]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_catena"));
        command
            .args(args)
            .env("CATENA_RUNTIME_DIR", self.runtime())
            .current_dir(self.folder.path());
        command
    }

    /// Runs to its end.
    pub(crate) fn catena(&self, args: &[&str]) -> Ended {
        Ended::new(self.command(args).stdin(Stdio::null()).output().unwrap())
    }

    /// Runs another program to its end, if there is one of that name.
    pub(crate) fn run(&self, program: &str, args: &[&str]) -> Option<Ended> {
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null());
        command.env("CATENA_RUNTIME_DIR", self.runtime());
        let output = command.current_dir(self.folder.path()).output();
        output.ok().map(Ended::new)
    }

    /// Starts `catena run`, and waits until its chain answers.
    pub(crate) fn start(&self, chain: &str, args: &[&str]) -> Running<'_> {
        self.start_with(chain, args, &[])
    }

    /// The same, with more in the environment.
    pub(crate) fn start_with(
        &self,
        chain: &str,
        args: &[&str],
        environment: &[(&str, &str)],
    ) -> Running<'_> {
        let log = std::fs::File::create(self.path("stderr")).unwrap();
        let mut command = self.command(&["run"]);
        command.envs(environment.iter().copied());
        command.args(args).stdin(Stdio::null());
        let child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut running = Running {
            place: self,
            child: Some(child),
        };
        until("the chain runs", || {
            if let Some(child) = &mut running.child {
                let gone = child.try_wait().unwrap();
                assert!(gone.is_none(), "{gone:?}: {}", self.log());
            }
            (self.catena(&["status", chain]).code == 0).then_some(())
        });
        running
    }

    /// What the last chain started here has said.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path("stderr")).unwrap_or_default()
    }

    /// Processes that were started from here, by what they inherit: the environment, or, as workers
    /// have none, the folder that they are in.
    pub(crate) fn processes(&self) -> Vec<String> {
        let mark = format!("CATENA_RUNTIME_DIR={}", self.runtime().display());
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let processes = entries.filter(|entry| {
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            let is_marked = environment
                .split(|byte| *byte == 0)
                .any(|variable| variable == mark.as_bytes());
            let here = std::fs::read_link(entry.path().join("cwd"));
            is_marked || here.is_ok_and(|here| here == self.folder.path())
        });
        let names = processes.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.collect()
    }

    /// No process, no socket, no lock.
    #[track_caller]
    pub(crate) fn assert_nothing_left(&self) {
        // The kernel shows a process that has ended until its parent has asked.
        assert_eq!(self.processes(), Vec::<String>::new());
        let left: Vec<_> = std::fs::read_dir(self.runtime())
            .unwrap()
            .flatten()
            .map(|entry| entry.path())
            .collect();
        assert_eq!(left, Vec::<PathBuf>::new());
    }
}

/// What a command that has ended said.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    fn new(output: Output) -> Self {
        Self {
            code: code(output.status),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Its output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    pub(crate) fn assert_code(&self, wanted: i32) -> &Self {
        assert_eq!(self.code, wanted, "{self:#?}");
        self
    }
}

fn code(status: ExitStatus) -> i32 {
    status
        .code()
        .unwrap_or_else(|| -status.signal().unwrap_or(0))
}

/// A chain that runs.
pub(crate) struct Running<'a> {
    place: &'a Place,
    child: Option<Child>,
}

impl Running<'_> {
    pub(crate) fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().unwrap();
        kill_process(Pid::from_child(child), signal).unwrap();
    }

    /// Waits for its end, which something else brings about.
    pub(crate) fn end(mut self) -> Ended {
        let mut child = self.child.take().unwrap();
        until("the chain ends", || child.try_wait().unwrap());
        let output = child.wait_with_output().unwrap();
        Ended {
            stderr: self.place.log(),
            ..Ended::new(output)
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // A test has failed: its chain is not to outlive it.
            let _ = kill_process(Pid::from_child(&child), Signal::TERM);
            let _ = child.wait();
        }
    }
}

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The records of a little-endian pcap file (draft-ietf-opsawg-pcap 4 and 5), read without any code
/// of ours.
pub(crate) fn pcap_packets(bytes: &[u8]) -> Vec<&[u8]> {
    let magic = u32::from_le_bytes(bytes[..4].try_into().unwrap());
    assert!([0xa1b2_c3d4, 0xa1b2_3c4d].contains(&magic), "{magic:#x}");
    let mut packets = Vec::new();
    let mut rest = &bytes[24..];
    while !rest.is_empty() {
        let len = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        packets.push(&rest[16..16 + len]);
        rest = &rest[16 + len..];
    }
    packets
}

/// Their lengths.
pub(crate) fn pcap_records(bytes: &[u8]) -> Vec<usize> {
    pcap_packets(bytes)
        .iter()
        .map(|packet| packet.len())
        .collect()
}

/// Entry of a list by its name.
#[track_caller]
pub(crate) fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
    let entries = list.as_array().unwrap();
    let found = entries.iter().find(|entry| entry["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {list:#}"))
}

/// Sum of the drops of a node.
pub(crate) fn drops(node: &Value) -> u64 {
    let drops = node["drops"].as_object().unwrap();
    drops.values().map(|count| count.as_u64().unwrap()).sum()
}

/// Every packet that came into an NF left it, was dropped, or died with it; every buffer came home.
#[track_caller]
pub(crate) fn assert_conserved(status: &Value) {
    let number = |value: &Value| value.as_u64().unwrap();
    for node in status["nodes"].as_array().unwrap() {
        if node["kind"] == "nf" {
            let out = number(&node["tx_packets"]) + drops(node) + number(&node["killed"]);
            assert_eq!(number(&node["rx_packets"]), out, "{node:#}");
        }
    }
    let buffers = &status["buffers"];
    assert_eq!(buffers["free"], buffers["allocated"], "{buffers}");
}
