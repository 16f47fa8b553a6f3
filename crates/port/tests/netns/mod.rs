//! Runs a test in a network namespace of its own, with or without root.
//!
//! The test binary starts itself again under `unshare`, so that the namespace ends with the test
//! and nothing on the machine is touched. Where that is not permitted, a line says so.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use catena_port::port_bench::PortBench;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

const MARK: &str = "CATENA_TEST_NAMESPACE";

/// For everything that must happen; long, since only failures wait for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Runs `body` as the test `name` in a fresh network namespace.
pub(crate) fn isolated(name: &str, body: impl FnOnce()) {
    if env::var_os(MARK).is_some() {
        // Keeps neighbour discovery out of what the tests count.
        let _ = fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
        body();
        return;
    }
    let unshare = || {
        let mut command = Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--net", "--"]);
        command
    };
    if !has(name, &["unshare", "ip"]) {
        return;
    }
    let probe = unshare().args(["ip", "link"]).output();
    if !probe.as_ref().is_ok_and(|output| output.status.success()) {
        let reason = probe.map_or_else(
            |error| error.to_string(),
            |output| String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        );
        println!("SKIP {name}: no network namespace: {reason}");
        return;
    }
    let output = unshare()
        .arg(env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(MARK, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    assert!(
        text.contains("1 passed"),
        "no test is called {name}: {text}"
    );
    let is_told = |line: &&str| line.starts_with("SKIP") || line.starts_with("SHOW");
    for line in text.lines().filter(is_told) {
        println!("{line}");
    }
}

/// Whether the tools that a test needs are here; says which one is not.
pub(crate) fn has(test: &str, tools: &[&str]) -> bool {
    for tool in tools {
        if Command::new(tool).arg("-V").output().is_err() {
            println!("SKIP {test}: no '{tool}' on this machine");
            return false;
        }
    }
    true
}

/// Packets that a port receives, until there are so many.
pub(crate) fn receive(bench: &mut PortBench, count: usize) -> Vec<Vec<u8>> {
    let deadline = Deadline::new();
    let mut packets = Vec::new();
    while packets.len() < count {
        deadline.check("the arrival of all packets");
        packets.extend(bench.rx(7).packets);
    }
    packets
}

/// Runs a command to its end; words are separated by spaces.
pub(crate) fn run(command: &str) {
    let mut words = command.split(' ');
    let output = Command::new(words.next().unwrap()).args(words).output();
    let output = output.unwrap_or_else(|error| panic!("{command}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {errors}");
}

/// A veth pair with both ends up.
pub(crate) fn veth(one: &str, other: &str) {
    run(&format!(
        "ip link add name {one} type veth peer name {other}"
    ));
    run(&format!("ip link set dev {one} up"));
    run(&format!("ip link set dev {other} up"));
}

/// Fails the test once [`PATIENCE`] has passed.
pub(crate) struct Deadline(Instant);

impl Deadline {
    pub(crate) fn new() -> Self {
        Self(Instant::now() + PATIENCE)
    }

    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.0
    }

    pub(crate) fn check(&self, what: &str) {
        assert!(!self.is_over(), "{what} did not happen in {PATIENCE:?}");
    }
}

/// Another network namespace, held by a process that waits for the end of its input.
pub(crate) struct Host(Child);

impl Host {
    pub(crate) fn new() -> Self {
        let mut child = Command::new("unshare")
            .args(["--net", "--", "sh", "-c", "echo ready; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        let output = child.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut ready).unwrap();
        assert_eq!(ready, "ready\n");
        Self(child)
    }

    /// Moves an interface there, gives it an address and brings it up.
    pub(crate) fn adopt(&self, interface: &str, address: &str) {
        let pid = self.0.id();
        run(&format!("ip link set dev {interface} netns {pid}"));
        let there = format!("nsenter --net=/proc/{pid}/ns/net --");
        run(&format!("{there} ip address add {address} dev {interface}"));
        run(&format!("{there} ip link set dev {interface} up"));
    }

    pub(crate) fn run(&self, command: &str) {
        let pid = self.0.id();
        run(&format!("nsenter --net=/proc/{pid}/ns/net -- {command}"));
    }

    /// Runs `body` on a thread in that namespace.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> thread::JoinHandle<T> {
        let namespace = fs::File::open(format!("/proc/{}/ns/net", self.0.id())).unwrap();
        thread::spawn(move || {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(std::os::fd::AsFd::as_fd(&namespace), kind).unwrap();
            body()
        })
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Runs `body` on a thread that has given up every capability.
pub(crate) fn without_capabilities<T: Send + 'static>(
    body: impl FnOnce() -> T + Send + 'static,
) -> T {
    use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
    let nothing = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    let thread = thread::spawn(move || {
        set_capabilities(None, nothing).unwrap();
        body()
    });
    thread.join().unwrap()
}

/// A frame of an experimental protocol (IEEE 802 9.2.4) to another host's address.
pub(crate) fn frame(len: usize, tag: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    frame.extend_from_slice(tag);
    frame.extend_from_slice(&[0x88, 0xb5]);
    frame.extend((frame.len()..len).map(|index| (index * 7 + len) as u8));
    frame
}
