//! `chains/xdp.yaml` between two hosts in network namespaces: ping and iperf3 pass, no byte is
//! copied on the way, and a killed worker loses nothing but what it held.

#[path = "../../port/tests/netns/mod.rs"]
mod netns;
mod support;

use std::process::{Command, Stdio};
use std::thread;

use netns::{Deadline, Host, has, isolated, run};
use rustix::process::Signal;
use serde_json::Value;
use support::*;

/// `chains/xdp.yaml`, in a mode, and with links on which packets stay where they lie.
fn chain(mode: &str) -> String {
    let file = include_str!("../../../chains/xdp.yaml");
    let lines = file.lines().filter(|line| !line.starts_with("name:"));
    let lines = lines.map(|line| match line.strip_prefix("  - ") {
        Some(link) => format!("  - {{ link: {link}, aggregate: off }}\n"),
        None => format!("{line}\n").replace(" } }", &format!(", mode: {mode} }} }}")),
    });
    lines.collect()
}

/// Two hosts whose only way to each other is the chain.
fn hosts() -> [Host; 2] {
    [("left", "198.18.0.1/24"), ("right", "198.18.0.2/24")].map(|(name, address)| {
        run(&format!(
            "ip link add name {name} type veth peer name {name}0"
        ));
        run(&format!("ip link set dev {name} up"));
        let host = Host::new();
        host.adopt(&format!("{name}0"), address);
        host.run(&format!("ethtool -K {name}0 tx off tso off gso off"));
        host
    })
}

/// Whether this can be tried here; says why not.
fn can_run(test: &str) -> bool {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP {test}: not root");
        return false;
    }
    has(test, &["ip", "ethtool", "ping"])
}

fn counter(status: &Value, port: &str, name: &str) -> u64 {
    let counted = &node(status, port)["counters"];
    number(&counted[name])
}

#[test]
fn programs_reach_each_other_without_a_copied_byte() {
    let test = "programs_reach_each_other_without_a_copied_byte";
    if !can_run(test) || !has(test, &["iperf3"]) {
        return;
    }
    isolated(test, || {
        for mode in ["native", "generic"] {
            let [left, right] = hosts();
            let chain = Running::start("xdp", &chain(mode));
            left.run("ping -c 5 -i 0.2 -W 5 198.18.0.2");
            let server = right.spawn(|| {
                Command::new("timeout")
                    .args(["30", "iperf3", "-s", "-1"])
                    .stdout(Stdio::null())
                    .status()
                    .unwrap()
            });
            let client = left.spawn(|| {
                let deadline = Deadline::new();
                loop {
                    deadline.check("a server that listens");
                    let output = Command::new("iperf3")
                        .args(["-c", "198.18.0.2", "-n", "8M", "--json"])
                        .output()
                        .unwrap();
                    // The server may not listen yet; that is no failure of the command.
                    let result = serde_json::from_slice::<Value>(&output.stdout).unwrap();
                    if result["error"].is_null() {
                        return result;
                    }
                    thread::yield_now();
                }
            });
            let result = client.join().unwrap();
            assert!(server.join().unwrap().success());
            let bytes = number(&result["end"]["sum_received"]["bytes"]);
            // The client ends once 8 MiB are sent; the server counts what had arrived by then.
            assert!(bytes >= 1 << 20, "{mode}: {result:#}");
            let status = chain.stop();
            assert_conserved(&status);
            assert!(
                number(&node(&status, "right")["tx_bytes"]) > bytes,
                "{status:#}"
            );
            for port in ["left", "right"] {
                for name in ["copied_bytes", "refused", "tx_invalid", "detached"] {
                    assert_eq!(counter(&status, port, name), 0, "{mode} {port} {name}");
                }
                assert_eq!(number(&node(&status, port)["held"]), 0, "{status:#}");
            }
            for link in status["links"].as_array().unwrap() {
                assert_eq!(number(&link["packed_bytes"]), 0, "{link:#}");
            }
            run("ip link delete left");
            run("ip link delete right");
        }
    });
}

/// The worker of both ports is killed while packets pass: its successor has its memory, its queues
/// and the program, and every buffer.
#[test]
fn a_killed_port_is_succeeded_and_no_buffer_is_lost() {
    let test = "a_killed_port_is_succeeded_and_no_buffer_is_lost";
    if !can_run(test) {
        return;
    }
    isolated(test, || {
        let [left, _right] = hosts();
        let chain = Running::start("xdp", &chain("auto"));
        let mut random = seed();
        for _ in 0..6 {
            let flood = left.spawn(|| {
                Command::new("ping")
                    .args(["-f", "-c", "20000", "-w", "2", "-s", "200", "198.18.0.2"])
                    .stdout(Stdio::null())
                    .status()
                    .unwrap()
            });
            let sent = |status: &Value| number(&node(status, "right")["tx_packets"]);
            let before = chain.until("the first status", |_| true);
            let status = chain.until("packets pass", |now| sent(now) > sent(&before) + 100);
            dither(&mut random, 300_000);
            assert!(signal(&status, "ports", Signal::KILL));
            let life = epoch(&status, "ports");
            let after = chain.until("it runs again", |now| runs_after(now, "ports", life));
            chain.until("packets pass again", |now| sent(now) > sent(&after));
            flood.join().unwrap();
        }
        left.run("ping -c 1 -W 5 198.18.0.2");
        let status = chain.stop();
        assert_conserved(&status);
        assert_eq!(counter(&status, "left", "refused"), 0);
        let shown = Command::new("ip")
            .args(["link", "show", "dev", "left"])
            .output()
            .unwrap();
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(!shown.contains("xdp"), "a program is left: {shown}");
    });
}

/// A port that cannot be opened starts nothing, and says what to do.
#[test]
fn what_is_wrong_with_an_interface_is_said_before_anything_starts() {
    let test = "what_is_wrong_with_an_interface_is_said_before_anything_starts";
    if !can_run(test) {
        return;
    }
    isolated(test, || {
        run("ip link add name left type veth peer name far");
        run("ip link set dev left up");
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("chain.yaml");
        std::fs::write(&file, format!("name: xdp\n{}", chain("auto"))).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_catena"))
            .env("CATENA_RUNTIME_DIR", dir.path().join("run"))
            .arg("run")
            .arg(&file)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains("no interface 'right'"), "{errors}");
        let shown = Command::new("ip")
            .args(["link", "show", "dev", "left"])
            .output()
            .unwrap();
        assert!(!String::from_utf8_lossy(&shown.stdout).contains("xdp"));
    });
}
