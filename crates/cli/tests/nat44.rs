//! `nat44` in real chains: killed while it has sessions, and between hosts in network namespaces,
//! whose programs reach the world through `chains/nat44-netns.yaml`.

mod iperf3;
#[path = "../../port/tests/netns/mod.rs"]
mod netns;
mod support;

use std::process::{Command, Output, Stdio};

use iperf3::iperf3;
use netns::{Deadline, Host, has, isolated, run};
use serde_json::Value;
use support::*;

const CHAIN: &str = include_str!("../../../chains/nat44-netns.yaml");

const KILLED: &str = "ports:
  in: { generator: { rate: 20kpps, flows: 300 } }
  out: { sink: {} }
  back: { sink: {} }
nfs:
  nat: { type: nat44, inside: [198.18.0.0/16], outside: [203.0.113.0/28] }
links: [ in -> nat, nat.outside -> out, nat.inside -> back ]
run: { mode: process }
";

fn asked(chain: &Running, name: &str, request: &str) -> Value {
    let answer = chain.ask(&["nf", "control", name, "nat", request]);
    assert!(answer.status.success(), "{answer:?}");
    serde_json::from_slice(&answer.stdout).unwrap()
}

#[test]
fn a_killed_nat_keeps_every_mapping() {
    let chain = Running::start("nat-killed", KILLED);
    let count = |status: &Value, name: &str| number(&node(status, "nat")["counters"][name]);
    let before = chain.until("all have a mapping", |status| {
        count(status, "mappings") == 300
    });
    let rows = |chain: &Running| {
        let shown = asked(chain, "nat-killed", r#"{"show": "mappings"}"#);
        let mut rows: Vec<String> = shown["mappings"]
            .as_array()
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect();
        rows.sort();
        rows
    };
    let mappings = rows(&chain);
    assert_eq!(mappings.len(), 300);
    let first = asked(&chain, "nat-killed", r#"{"events": 1000}"#);
    assert_eq!(first["events"].as_array().unwrap().len(), 300);
    chain.revive(&before, &["nat"]);
    flows(&chain);
    assert_eq!(rows(&chain), mappings);
    let events = asked(&chain, "nat-killed", r#"{"events": 1000}"#);
    let kept = events["events"].as_array().unwrap().iter();
    assert!(
        kept.clone().all(|event| event["event"] == "kept"),
        "{events}"
    );
    assert_eq!(kept.count(), 300);
    let status = chain.stop();
    assert_eq!(count(&status, "mappings"), 300);
    // None was made twice: the second life has made none.
    assert_eq!(count(&status, "mappings_made"), 300, "{status:#}");
    assert_conserved(&status);
}

/// A host inside and one outside, on one wire but for the NAT.
fn hosts() -> [Host; 2] {
    run("ip link add name left0 type veth peer name left");
    run("ip link add name right0 type veth peer name right");
    let hosts = [Host::new(), Host::new()];
    let [inside, outside] = &hosts;
    for name in ["left", "right"] {
        run(&format!("ip link set dev {name} up"));
    }
    inside.adopt("left0", "10.0.0.2/24");
    outside.adopt("right0", "203.0.113.5/24");
    // The world's own address on the subscribers' wire, which is their router.
    outside.run("ip address add 10.0.0.1/24 dev right0");
    outside.run("ip link set dev lo up");
    outside.run("ip address add 192.0.2.1/32 dev lo");
    let forward = outside.spawn(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1"));
    forward.join().unwrap().unwrap();
    outside.run("ip route add 198.51.100.0/30 via 10.0.0.2");
    // What is sent there goes on to a hop that is not there.
    outside.run("ip route add 192.0.2.128/25 via 203.0.113.77");
    inside.run("ip route add default via 10.0.0.1");
    hosts
}

fn output(host: &Host, words: &'static [&'static str]) -> Output {
    let program = host.spawn(move || {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).output().unwrap()
    });
    program.join().unwrap()
}

fn said(output: &Output) -> String {
    let texts = [&output.stdout, &output.stderr];
    texts.map(|text| String::from_utf8_lossy(text)).concat()
}

/// Runs a client until its server listens, as its exit says; gives what it printed.
fn until_served(host: &Host, words: &'static [&'static str]) -> String {
    let deadline = Deadline::new();
    loop {
        deadline.check("a server that listens");
        let output = output(host, words);
        if output.status.success() {
            return String::from_utf8(output.stdout).unwrap();
        }
    }
}

/// A file by HTTP; the server sees an address outside.
fn web([inside, outside]: &[Host; 2]) {
    let server = outside.spawn(|| {
        let mut python = Command::new("python3");
        python
            .args(["-u", "-m", "http.server", "8080", "--bind", "203.0.113.5"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        python.spawn().unwrap()
    });
    let mut server = server.join().unwrap();
    const CURL: &[&str] = &[
        "curl",
        "--silent",
        "--max-time",
        "9",
        "http://203.0.113.5:8080/",
    ];
    let page = until_served(inside, CURL);
    assert!(page.contains("Directory listing"), "{page}");
    server.kill().unwrap();
    let log = server.wait_with_output().unwrap();
    assert!(said(&log).contains("198.51.100."), "{}", said(&log));
}

/// A second of TCP, in large packets.
fn throughput(hosts: &[Host; 2], reverse: bool) {
    const UP: &[&str] = &["-t", "1"];
    const DOWN: &[&str] = &["-t", "1", "-R"];
    let result = iperf3(hosts, "203.0.113.5", if reverse { DOWN } else { UP });
    let bytes = number(&result["end"]["sum_received"]["bytes"]);
    assert!(bytes > 1 << 20, "{result:#}");
}

#[test]
fn programs_of_hosts_inside_reach_the_world_through_a_nat() {
    let test = "programs_of_hosts_inside_reach_the_world_through_a_nat";
    if !rustix::process::geteuid().is_root() {
        println!("SKIP {test}: not root");
        return;
    }
    if !has(test, &["ip", "ping", "curl", "iperf3", "python3"]) {
        return;
    }
    isolated(test, || {
        let hosts = hosts();
        let [inside, outside] = &hosts;
        let chain = Running::start("nat", &without_name(CHAIN));
        // The first echo waits for ARP, which passes.
        let ping = output(
            inside,
            &["ping", "-c", "3", "-i", "0.2", "-W", "9", "203.0.113.5"],
        );
        assert!(
            said(&ping).contains("3 received, 0% packet loss"),
            "{}",
            said(&ping)
        );
        // 4000 bytes are three fragments, there and back.
        let large = output(
            inside,
            &["ping", "-c", "1", "-s", "4000", "-W", "9", "203.0.113.5"],
        );
        assert!(said(&large).contains("1 received"), "{}", said(&large));
        // A hop on the way says that the time is over, about the packet as it left.
        let hop = output(
            inside,
            &["ping", "-c", "1", "-t", "1", "-W", "9", "192.0.2.200"],
        );
        assert!(
            said(&hop).contains("Time to live exceeded"),
            "{}",
            said(&hop)
        );
        // Nobody outside reaches a host inside that has not sent there.
        let strange = output(outside, &["ping", "-c", "1", "-W", "1", "198.51.100.1"]);
        assert!(said(&strange).contains(" 0 received"), "{}", said(&strange));
        web(&hosts);
        for reverse in [false, true] {
            throughput(&hosts, reverse);
        }
        let status = chain.stop();
        assert_conserved(&status);
        let nat = node(&status, "nat");
        let count = |name: &str| number(&nat["counters"][name]);
        assert!(count("icmp_errors") >= 1, "{nat:#}");
        assert!(count("later_fragments") >= 4, "{nat:#}");
        assert!(number(&nat["drops"]["no_mapping"]) >= 1, "{nat:#}");
        assert_eq!(number(&nat["drops"]["malformed"]), 0, "{nat:#}");
        assert_eq!(count("subscribers"), 1, "{nat:#}");
        let left = node(&status, "left");
        assert!(number(&left["counters"]["carried"]) > 0, "{left:#}");
    });
}
