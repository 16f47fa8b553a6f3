//! `chains/segments.yaml` and `chains/cut.yaml` between two hosts in network namespaces, with their
//! usual offloads: what they leave to a network card goes through the chain as it is, or up to the
//! NF that cuts it, and the checker says what cannot take it.

mod iperf3;
#[path = "../../port/tests/netns/mod.rs"]
mod netns;
mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::{fs, thread};

use iperf3::iperf3;
use netns::{Host, has, isolated, run};
use serde_json::Value;
use support::*;

const CARRIED: &str = include_str!("../../../chains/segments.yaml");
const CUT: &str = include_str!("../../../chains/cut.yaml");
/// What curl fetches, and gives.
const FILE_LEN: usize = 16 << 20;
/// Part of the veth pair's rate that a chain that carries has at least, on a machine that others
/// use. What it has on a quiet one is in ADR 29.
const PART: f64 = if cfg!(debug_assertions) { 0.15 } else { 0.3 };
/// Tries until it has.
const TRIES: usize = 4;

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

/// Gbit/s of a second of TCP, from the first host to the second, or back.
fn rate(hosts: &[Host; 2], address: &'static str, is_back: bool) -> f64 {
    let words: &[&str] = match is_back {
        false => &["-t", "1"],
        true => &["-t", "1", "-R"],
    };
    let result = iperf3(hosts, address, words);
    let rate = result["end"]["sum_received"]["bits_per_second"].as_f64();
    rate.unwrap() / 1e9
}

/// Gbit/s by the chain and by the pair alone, in turns: the first try in which the chain has its
/// part of the pair's, or the last one. A machine that others use may disturb a try.
fn rates(hosts: &[Host; 2], is_back: bool) -> [f64; 2] {
    let mut rates = [0.0; 2];
    for _ in 0..TRIES {
        rates = ["198.18.0.2", "198.19.0.2"].map(|address| rate(hosts, address, is_back));
        if rates[0] >= PART * rates[1] {
            break;
        }
    }
    rates
}

/// What the second host is asked for by HTTP, and what it was given.
fn serve(host: &Host, file: Vec<u8>) -> thread::JoinHandle<Vec<u8>> {
    let listener = host.spawn(|| TcpListener::bind("198.18.0.2:80").unwrap());
    let listener = listener.join().unwrap();
    host.spawn(move || {
        let mut put = Vec::new();
        for _ in 0..2 {
            let mut stream = BufReader::new(listener.accept().unwrap().0);
            let (mut head, mut len) = (String::new(), 0);
            while !head.ends_with("\r\n\r\n") {
                assert!(stream.read_line(&mut head).unwrap() > 0, "{head}");
                let line = head.lines().last().unwrap_or_default().to_lowercase();
                if let Some(text) = line.strip_prefix("content-length: ") {
                    len = text.parse().unwrap();
                }
            }
            let body = if head.starts_with("GET") {
                &file[..]
            } else {
                &[]
            };
            put.extend(stream.by_ref().take(len).bytes().map(Result::unwrap));
            let stream = stream.get_mut();
            let len = body.len();
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n").unwrap();
            stream.write_all(body).unwrap();
        }
        put
    })
}

/// curl gets a file from the other host, and gives it one: each is there byte by byte.
fn fetch_and_give([client, server]: &[Host; 2]) {
    let random = || {
        let mut random = seed();
        (0..FILE_LEN / 8).flat_map(move |_| random.below(u64::MAX).to_le_bytes())
    };
    let file: Vec<u8> = random().collect();
    let served = serve(server, file.clone());
    let dir = tempfile::tempdir().unwrap();
    let [got, given] = ["got", "given"].map(|name| dir.path().join(name));
    fs::write(&given, file.iter().rev().copied().collect::<Vec<_>>()).unwrap();
    for (option, path, more) in [
        ("--output", &got, "Accept: */*"),
        ("--upload-file", &given, "Expect:"),
    ] {
        let mut curl = Command::new("curl");
        curl.args([
            "--silent",
            "--show-error",
            "--max-time",
            "60",
            "--noproxy",
            "*",
            "--header",
        ]);
        curl.arg(more)
            .arg(option)
            .arg(path)
            .arg("http://198.18.0.2/file");
        let output = client.spawn(move || curl.output().unwrap()).join().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    assert!(
        fs::read(&got).unwrap() == file,
        "what was fetched is not the file"
    );
    let put = served.join().unwrap();
    assert!(
        put == fs::read(&given).unwrap(),
        "what was given is not the file"
    );
}

/// A chain between both hosts, of one kind of port; a TAP is joined with the pair by a bridge.
fn between(kind: &str, words: &str) -> Running {
    let mut text = without_name(CARRIED).replace("segments: carry", &format!("segments: {words}"));
    if kind == "tap" {
        for side in ["left", "right"] {
            let socket = format!("packet_socket: {{ interface: {side}, ");
            assert!(text.contains(&socket));
            text = text.replace(&socket, &format!("tap: {{ name: {side}-tap, "));
        }
    }
    let chain = Running::start("segments", &text);
    if kind == "tap" {
        for side in ["left", "right"] {
            run(&format!("ip link add name {side}-br type bridge"));
            run(&format!("ip link set dev {side} master {side}-br"));
            run(&format!("ip link set dev {side}-tap master {side}-br"));
            run(&format!("ip link set dev {side}-br up"));
        }
    }
    chain
}

/// curl and iperf3 cross chains of each port in both directions, by packets as large as by the veth
/// pair where they are carried. Prints what iperf3 gets by the pair alone, and by each chain.
#[test]
fn hosts_with_their_offloads_reach_each_other_by_large_packets() {
    let test = "hosts_with_their_offloads_reach_each_other_by_large_packets";
    if !can_run(test) || !has(test, &["curl"]) {
        return;
    }
    isolated(test, || {
        let hosts = hosts();
        for (kind, words, counter) in [
            ("packet_socket", "carry", "carried"),
            ("tap", "carry", "carried"),
            ("packet_socket", "cut", "cut_apart"),
        ] {
            if kind == "tap" && !Path::new("/dev/net/tun").exists() {
                println!("\nSKIP {test}: no /dev/net/tun, so no tap");
                continue;
            }
            let chain = between(kind, words);
            fetch_and_give(&hosts);
            let is_carried = words == "carry";
            for (is_back, side, way) in [(false, "left", "there"), (true, "right", "back")] {
                let before = chain.until("a status", |_| true);
                let [crossed, direct] = if is_carried {
                    rates(&hosts, is_back)
                } else {
                    ["198.18.0.2", "198.19.0.2"].map(|address| rate(&hosts, address, is_back))
                };
                println!(
                    "\nSHOW {kind}, {words}, {way}: {crossed:.2} Gbit/s, the veth pair {direct:.2}"
                );
                assert!(
                    !is_carried || crossed >= PART * direct,
                    "{kind} {way}: too slow"
                );
                // A packet of the payload of ten segments at least, on average, or of one.
                let after = chain.until("a status", |_| true);
                let moved = |what: &str| {
                    let of = |status: &Value| number(&node(status, side)[what]);
                    of(&after) - of(&before)
                };
                let mean = moved("rx_bytes") / moved("rx_packets");
                assert_eq!(
                    mean > 10 * 1448,
                    is_carried,
                    "{kind} {way} {mean}: {after:#}"
                );
                let counters = &node(&after, side)["counters"];
                assert!(number(&counters[counter]) > 0, "{after:#}");
                assert_eq!(number(&counters["unsegmented"]), 0, "{after:#}");
                assert_eq!(number(&counters["rejected"]), 0, "{after:#}");
            }
            assert_conserved(&chain.stop());
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
        let crossed = rate(&hosts, "198.18.0.2", false);
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
