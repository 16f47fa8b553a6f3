//! `chains/segments.yaml` and `chains/cut.yaml` between two hosts in network namespaces, with their
//! usual offloads: what they leave to a network card goes through the chain as it is, or up to the
//! NF that cuts it, and the checker says what cannot take it.

mod iperf3;
#[path = "../../port/tests/netns/mod.rs"]
mod netns;
mod support;

use std::process::Command;

use iperf3::iperf3;
use netns::{Host, has, isolated, run};
use serde_json::Value;
use support::*;

const CARRIED: &str = include_str!("../../../chains/segments.yaml");
const CUT: &str = include_str!("../../../chains/cut.yaml");

/// Two hosts that reach each other by a veth pair, and by whatever joins `left` and `right`.
fn hosts() -> [Host; 2] {
    run("ip link add name left0 type veth peer name left");
    run("ip link add name right0 type veth peer name right");
    run("ip link add name direct0 type veth peer name direct1");
    let hosts = [Host::new(), Host::new()];
    for (host, name, at) in [(&hosts[0], "left", 1), (&hosts[1], "right", 2)] {
        run(&format!("ip link set dev {name} up"));
        host.adopt(&format!("{name}0"), &format!("198.18.0.{at}/24"));
        host.adopt(&format!("direct{}", at - 1), &format!("198.19.0.{at}/24"));
    }
    hosts
}

/// Gbit/s of a second of TCP.
fn rate(hosts: &[Host; 2], address: &'static str) -> f64 {
    let result = iperf3(hosts, address, &["-t", "1"]);
    let rate = result["end"]["sum_received"]["bits_per_second"].as_f64();
    rate.unwrap() / 1e9
}

/// Prints what iperf3 gets by the veth pair, by a chain that carries, and by one that cuts.
#[test]
fn hosts_with_their_offloads_reach_each_other_by_large_packets() {
    let test = "hosts_with_their_offloads_reach_each_other_by_large_packets";
    if !can_run(test) {
        return;
    }
    isolated(test, || {
        let hosts = hosts();
        let direct = rate(&hosts, "198.19.0.2");
        for (words, counter) in [("carry", "carried"), ("cut", "cut_apart")] {
            let text =
                without_name(CARRIED).replace("segments: carry", &format!("segments: {words}"));
            let chain = Running::start("segments", &text);
            let crossed = rate(&hosts, "198.18.0.2");
            let status = chain.stop();
            assert_conserved(&status);
            println!("\nSHOW veth pair {direct:.2} Gbit/s, chain with {words} {crossed:.2} Gbit/s");
            let left = node(&status, "left");
            assert!(number(&left["counters"][counter]) > 0, "{left:#}");
            assert_eq!(number(&left["counters"]["unsegmented"]), 0, "{left:#}");
            // A packet of the payload of ten segments at least, on average, or of one.
            let mean = number(&left["rx_bytes"]) / number(&left["rx_packets"]);
            assert_eq!(mean > 10 * 1448, words == "carry", "{left:#}");
        }
    });
}

/// Whether this test can be run here.
fn can_run(test: &str) -> bool {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP {test}: not root");
        return false;
    }
    has(test, &["ip", "iperf3"])
}

/// Behind the NF the chain has packets as on a wire, over a link that copies; the host at the end
/// takes them, so their checksums are right.
#[test]
fn large_packets_are_cut_in_the_middle_of_a_chain() {
    let test = "large_packets_are_cut_in_the_middle_of_a_chain";
    if !can_run(test) {
        return;
    }
    isolated(test, || {
        let hosts = hosts();
        let chain = Running::start("cut", &without_name(CUT));
        let crossed = rate(&hosts, "198.18.0.2");
        let status = chain.stop();
        assert_conserved(&status);
        println!("\nSHOW chain that cuts in its middle {crossed:.2} Gbit/s");
        let mean = |name: &str| {
            let node = node(&status, name);
            number(&node["rx_bytes"]) / number(&node["rx_packets"])
        };
        assert!(mean("seen") > 10 * 1448, "{status:#}");
        assert!(mean("limit") <= 1514, "{status:#}");
        let cut = node(&status, "whole");
        let counter = |name: &str| number(&cut["counters"][name]);
        assert!(counter("segments") > 10 * counter("cut_apart"), "{cut:#}");
        assert_eq!(cut["drops"]["unsegmented"], Value::Null, "{cut:#}");
        // What came, and what was made of it: both are received.
        let came = number(&node(&status, "seen")["tx_packets"]);
        assert_eq!(
            number(&cut["rx_packets"]),
            came + counter("segments"),
            "{cut:#}"
        );
        assert_eq!(number(&node(&status, "right")["counters"]["rejected"]), 0);
    });
}

#[test]
fn what_cannot_take_large_packets_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("chain.yaml");
    let complaint = |text: &str| {
        std::fs::write(&file, format!("name: segments\n{text}")).unwrap();
        let mut catena = Command::new(env!("CARGO_BIN_EXE_catena"));
        let output = catena.arg("check").arg(&file).output().unwrap();
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert_eq!(complaint(&without_name(CUT)), "");
    let right = without_name(CARRIED);
    assert_eq!(complaint(&right), "");
    let policer = "{ type: policer, rate: 1kpps, burst: 8 }";
    for (from, to, what) in [
        (
            "to-right: { type: count }",
            &format!("to-right: {policer}")[..],
            "to-right takes packets only as they are on a wire",
        ),
        (
            "interface: right, segments: carry",
            "interface: right",
            "right takes packets only as they are on a wire",
        ),
        (
            "  - to-right -> right",
            "  - { link: to-right -> right, trust: copy }",
            "the link to-right -> right copies packets",
        ),
        (
            "segments: carry } }\n  right",
            "segments: carry }, wrap: [{ pace: { rate: 1kpps } }] }\n  right",
            "the wrapper pace of left takes packets as on a wire",
        ),
    ] {
        assert!(right.contains(from), "{from}");
        let text = complaint(&right.replacen(from, to, 1));
        assert!(text.contains(what), "{to}: {text}");
        assert!(text.contains("write segments: cut"), "{text}");
        let is_helped = what.contains("wrapper") || text.contains("an NF of type cut");
        assert!(is_helped, "{text}");
    }
}
