//! Links over TCP between processes: whatever is killed, chains go on, what was lost is counted,
//! and every buffer comes home; strangers that connect get nothing.
//!
//! No test waits for a time: each waits for a state. `CATENA_SEED` sets the seed. Containers are in
//! `containers.rs`.

mod support;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;
use support::*;

const CHAIN: &str = "
ports:
  in:  { generator: { rate: 50kpps, size: 1500 } }
  out: { sink: { verify: true } }
nfs:
  a: { type: macswap }
  b: { type: count }
links:
  - { link: in -> a, protocol: tcp }
  - { link: a -> b, protocol: tcp }
  - { link: b -> out, protocol: tcp }
run: { mode: process }
";

/// The same with rings on both sides of one TCP link: workers then sleep on both.
const MIXED: &str = "
ports:
  in:  { generator: { rate: 50kpps, size: 200 } }
  out: { sink: { verify: true } }
nfs:
  a: { type: macswap }
  b: { type: count }
links:
  - in -> a
  - { link: a -> b, protocol: tcp }
  - b -> out
run: { mode: process }
";

/// As `assert_conserved`, where a killed worker may have counted a turn less than it did.
fn assert_accounted(status: &Value) {
    let buffers = &status["buffers"];
    assert_eq!(number(&buffers["in_flight"]), 0, "{status:#}");
    assert_eq!(buffers["free"], buffers["allocated"], "{status:#}");
    for node in status["nodes"].as_array().unwrap() {
        if node["kind"] == "nf" {
            let drops = node["drops"].as_object().unwrap().values().map(number);
            let gone = number(&node["tx_packets"]) + drops.sum::<u64>() + number(&node["killed"]);
            assert_eq!(number(&node["rx_packets"]), gone, "{status:#}");
        }
    }
    for link in status["links"].as_array().unwrap() {
        let (sent, taken) = (number(&link["tx_packets"]), number(&link["rx_packets"]));
        assert!(sent <= taken, "{link:#} in {status:#}");
        assert_eq!(number(&link["violations"]), 0, "{link:#}");
    }
}

#[test]
fn packets_pass_and_the_counts_are_exact() {
    for (name, text) in [("plain", CHAIN), ("mixed", MIXED)] {
        for wait in ["auto", "spin", "sleep"] {
            let text = text.replace("mode: process", &format!("mode: process, wait: {wait}"));
            let chain = Running::start(name, &text);
            flows(&chain);
            let last = chain.stop();
            assert_conserved(&last);
            assert_eq!(node(&last, "out")["counters"]["corrupted"], 0, "{last:#}");
            assert_eq!(node(&last, "out")["counters"]["lost"], 0, "{last:#}");
        }
    }
}

#[test]
fn workers_are_killed_on_either_side_of_a_connection() {
    for (name, text) in [("kill-tcp", CHAIN), ("kill-mixed", MIXED)] {
        let chain = Running::start(name, text);
        let mut random = seed();
        for round in 0..12 {
            let victims: &[&str] = [&["a"][..], &["b"], &["a", "b"], &["ports"]][round % 4];
            let status = flows(&chain);
            dither(&mut random, 300_000);
            chain.revive(&status, victims);
        }
        flows(&chain);
        let last = chain.stop();
        assert_accounted(&last);
        assert_eq!(node(&last, "out")["counters"]["corrupted"], 0, "{last:#}");
    }
}

/// A receiver that stands still fills the connection; its sender takes in no more, loses nothing,
/// and goes on with it.
#[test]
fn a_stopped_receiver_presses_back() {
    let text = CHAIN.replace("50kpps", "max");
    let chain = Running::start("back", &text);
    let status = flows(&chain);
    signal(&status, "b", Signal::STOP);
    let full = chain.until("the sender holds back", |now| {
        let link = link(now, "a -> b");
        number(&link["blocked"]) > 0 && number(&link["occupancy"]) > 1000
    });
    let entry = |status: &Value| number(&node(status, "in")["rx_packets"]);
    let mut last = entry(&full);
    chain.until("the entry takes nothing in", |now| {
        let before = std::mem::replace(&mut last, entry(now));
        before == last
    });
    signal(&status, "b", Signal::CONT);
    flows(&chain);
    assert_conserved(&chain.stop());
}

fn link<'a>(status: &'a Value, name: &str) -> &'a Value {
    let links = status["links"].as_array().unwrap();
    links.iter().find(|link| link["name"] == name).unwrap()
}

/// Ports that a process listens on, as the kernel lists them.
fn listening_ports(pid: u64) -> Vec<u16> {
    let folder = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let sockets: Vec<String> = folder
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .filter_map(|target| {
            let text = target.to_string_lossy().into_owned();
            Some(text.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
        })
        .collect();
    let table = std::fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap();
    let ports = table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_listening = fields[3] == "0A" && sockets.iter().any(|inode| inode == fields[9]);
        let (_, port) = fields[1].split_once(':')?;
        is_listening.then(|| u16::from_str_radix(port, 16).unwrap())
    });
    ports.collect()
}

#[test]
fn whoever_else_connects_gets_and_changes_nothing() {
    let chain = Running::start("strangers", CHAIN);
    let status = flows(&chain);
    let ports = listening_ports(number(&worker(&status, "b")["pid"]));
    assert_eq!(ports.len(), 1, "one link reaches it");
    let mut strangers = Vec::new();
    for _ in 0..100 {
        let mut stranger = TcpStream::connect((Ipv4Addr::LOCALHOST, ports[0])).unwrap();
        let _ = stranger.write_all(&[0x41; 64]);
        strangers.push(stranger);
    }
    let mut answer = Vec::new();
    let end = strangers[0].read_to_end(&mut answer);
    assert!(matches!(end, Ok(0) | Err(_)) && answer.is_empty());
    // A new sender finds its way past those that are still there.
    chain.revive(&status, &["a"]);
    flows(&chain);
    let last = chain.stop();
    assert_accounted(&last);
    assert_eq!(node(&last, "out")["counters"]["corrupted"], 0, "{last:#}");
}

/// Namespaces joined by a bridge, removed with the test.
struct Namespaces(Vec<String>);

impl Namespaces {
    /// None, with the reason printed, where they cannot be made.
    fn new(test: &str, count: usize) -> Option<Self> {
        let id = std::process::id() % 10_000;
        let mut made = Self(Vec::new());
        let bridge = format!("ctbr{id}");
        let ip = |text: String| {
            let output = Command::new("ip").args(text.split_whitespace()).output();
            match output {
                Ok(output) if output.status.success() => Ok(()),
                Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
                Err(error) => Err(error.to_string()),
            }
        };
        made.0.push(bridge.clone());
        let mut make = || -> Result<(), String> {
            ip(format!("link add {bridge} type bridge"))?;
            ip(format!("addr add 198.18.77.1/24 dev {bridge}"))?;
            ip(format!("link set {bridge} up"))?;
            for number in 0..count {
                let (name, veth) = (format!("ct{id}-{number}"), format!("ctv{id}-{number}"));
                ip(format!("netns add {name}"))?;
                made.0.push(name.clone());
                ip(format!(
                    "link add {veth} type veth peer name eth0 netns {name}"
                ))?;
                ip(format!("link set {veth} master {bridge} up"))?;
                let host = number + 2;
                ip(format!("-n {name} addr add 198.18.77.{host}/24 dev eth0"))?;
                ip(format!("-n {name} link set lo up"))?;
                ip(format!("-n {name} link set eth0 up"))?;
                ip(format!("-n {name} route add default via 198.18.77.1"))?;
            }
            Ok(())
        };
        match make() {
            Ok(()) => Some(made),
            Err(reason) => {
                println!("SKIP {test}: {}", reason.trim());
                None
            }
        }
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.0[1..] {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
        let _ = Command::new("ip")
            .args(["link", "del", &self.0[0]])
            .status();
    }
}

/// From the host into a namespace, from there into another, and back to the host: every way in
/// which the two sides of a link can be apart.
#[test]
fn links_cross_network_namespaces() {
    let Some(spaces) = Namespaces::new("links_cross_network_namespaces", 2) else {
        return;
    };
    let text = CHAIN
        .replace("macswap", &format!("macswap, netns: {}", spaces.0[1]))
        .replace("count", &format!("count, netns: {}", spaces.0[2]));
    let chain = Running::start("apart", &text);
    let status = flows(&chain);
    chain.revive(&status, &["a"]);
    flows(&chain);
    assert_accounted(&chain.stop());
}
