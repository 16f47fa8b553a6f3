//! `chains/xdp.yaml` between two hosts in network namespaces: ping and iperf3 pass, no byte is
//! copied on the way, and a killed worker loses nothing but what it held. `chains/upf/xdp.yaml`
//! between an SMF, a gNB and a host.

mod iperf3;
#[path = "../../port/tests/netns/mod.rs"]
mod netns;
mod support;

use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::Duration;

use iperf3::iperf3;
use netns::{Deadline, Host, has, isolated, run};
use serde_json::Value;
use support::*;

/// How long a packet may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// `chains/xdp.yaml`, in a mode, and with links on which packets stay where they lie.
fn chain(mode: &str) -> String {
    let text = without_name(include_str!("../../../chains/xdp.yaml"));
    let lines = text.lines().map(|line| match line.strip_prefix("  - ") {
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

#[test]
fn programs_reach_each_other_without_a_copied_byte() {
    let test = "programs_reach_each_other_without_a_copied_byte";
    if !can_run(test) || !has(test, &["iperf3"]) {
        return;
    }
    isolated(test, || {
        for mode in ["native", "generic"] {
            let hosts = hosts();
            let chain = Running::start("xdp", &chain(mode));
            hosts[0].run("ping -c 5 -i 0.2 -W 5 198.18.0.2");
            assert_few_rights(&chain, &chain.until("a status", |_| true), &["xdp"]);
            let result = iperf3(&hosts, "198.18.0.2", &["-n", "8M"]);
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
            let after = chain.revive(&status, &["ports"]);
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

/// What a gNB of TEID 0x101's session sends: a UE's datagram from 10.45.0.2 to port 7 of the host.
fn uplink(payload: &[u8]) -> Vec<u8> {
    let len = 28 + payload.len();
    let mut bytes = vec![0; 8 + len];
    bytes[..2].copy_from_slice(&[0x30, 0xff]);
    bytes[2..4].copy_from_slice(&u16::try_from(len).unwrap().to_be_bytes());
    bytes[4..8].copy_from_slice(&0x101_u32.to_be_bytes());
    catena_wire::ipv4::Header {
        dscp: 0,
        ecn: 0,
        ident: 1,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        protocol: catena_wire::ip::Protocol::UDP,
        src: [10, 45, 0, 2].into(),
        dst: [203, 0, 113, 9].into(),
        payload_len: len - 20,
        options: Default::default(),
    }
    .emit(&mut bytes[8..]);
    // No checksum: IPv4 allows that.
    let udp = [
        [0xc0, 0x01],
        [0, 7],
        u16::try_from(len - 20).unwrap().to_be_bytes(),
    ];
    bytes[28..34].copy_from_slice(udp.as_flattened());
    bytes[36..].copy_from_slice(payload);
    bytes
}

/// An SMF establishes a session, what its UE sends reaches a host, and the answer its gNB.
#[test]
fn a_upf_between_interfaces_of_af_xdp_forwards_both_ways() {
    let test = "a_upf_between_interfaces_of_af_xdp_forwards_both_ways";
    if !can_run(test) {
        return;
    }
    isolated(test, || {
        let (ran, data) = (Host::new(), Host::new());
        for (name, host, net, upf) in [
            ("n3", &ran, "03", ["10.3.0.2/24", "10.3.0.1"]),
            ("n4", &ran, "04", ["10.4.0.2/24", "10.4.0.1"]),
            ("n6", &data, "06", ["203.0.113.9/24", "203.0.113.1"]),
        ] {
            run(&format!(
                "ip link add {name} mtu 1600 type veth peer name {name}0"
            ));
            run(&format!("ip link set dev {name} up"));
            run(&format!(
                "ip link set dev {name}0 address 02:00:00:00:{net}:02 mtu 1600"
            ));
            let [own, upf] = upf;
            host.adopt(&format!("{name}0"), own);
            host.run(&format!("ethtool -K {name}0 tx off tso off gso off"));
            host.run(&format!(
                "ip neigh add {upf} lladdr 02:00:00:00:00:01 dev {name}0 nud permanent"
            ));
        }
        data.run("ip route add 10.45.0.0/16 via 203.0.113.1");
        let file = include_str!("../../../chains/upf/xdp.yaml");
        let chain = Running::start("upf-xdp", &without_name(file));
        let ports = ["n3", "n4", "n6"];
        let attached = |status: &Value| ports.map(|port| counter(status, port, "attached"));
        chain.until("ports take packets", |status| attached(status) == [1; 3]);
        let smf = ran.spawn(|| {
            let file = concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../examples/upf/attach.yaml"
            );
            let deadline = Deadline::new();
            // Its first request may come before packets are taken: it is sent once.
            let play = || {
                Command::new(env!("CARGO_BIN_EXE_catena"))
                    .args(["upf", "smf", "--n4", "10.4.0.1", file])
                    .output()
                    .unwrap()
            };
            while !play().status.success() {
                deadline.check("a session");
            }
        });
        smf.join().unwrap();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let host = data.spawn(move || {
            let socket = UdpSocket::bind("203.0.113.9:7").unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            ready.send(()).unwrap();
            let mut bytes = [0; 2000];
            let (len, from) = socket.recv_from(&mut bytes).unwrap();
            socket.send_to(&bytes[..len], from).unwrap();
            (bytes[..len].to_vec(), from)
        });
        is_ready.recv().unwrap();
        let payload: Vec<u8> = (0..1000_u32).map(|at| at as u8).collect();
        let sent = uplink(&payload);
        let gnb = ran.spawn(move || {
            let socket = UdpSocket::bind("10.3.0.2:2152").unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket.send_to(&sent, "10.3.0.1:2152").unwrap();
            let mut bytes = [0; 2000];
            let (len, from) = socket.recv_from(&mut bytes).unwrap();
            (bytes[..len].to_vec(), from)
        });
        let (heard, ue) = host.join().unwrap();
        assert_eq!((&heard, ue), (&payload, "10.45.0.2:49153".parse().unwrap()));
        let (answer, upf) = gnb.join().unwrap();
        assert_eq!(upf, "10.3.0.1:2152".parse().unwrap());
        let message = catena_wire::gtpu::View::parse(&answer[..]).unwrap();
        assert_eq!(message.teid(), 0x201);
        assert!(answer.ends_with(&payload));
        let status = chain.stop();
        assert_conserved(&status);
    });
}
