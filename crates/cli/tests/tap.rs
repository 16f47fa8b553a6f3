//! `chains/tap.yaml` in network namespaces: the host reaches the guest, and the guest's answers
//! come back. Interfaces of the kernel's are taken away under traffic, and given back.

#[path = "../../port/tests/netns/mod.rs"]
mod netns;
mod support;

use std::path::Path;
use std::process::{Command, Stdio};

use netns::{Host, has, isolated, run};
use serde_json::Value;
use support::*;

/// Starts the chain, waits for it, does what the chain file tells its reader, and asks what it
/// counted. Namespaces are the test's own: `/run/netns` is empty and nobody else's.
const SCRIPT: &str = r#"
set -eu
mkdir -p /run/netns
mount -t tmpfs none /run/netns
ip netns add guest
echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6
ip netns exec guest sh -c 'echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6'
"$CATENA" run --json "$CHAIN" > "$WORK/counters.json" &
chain=$!
for try in $(seq 400); do
    ! "$CATENA" status tap > /dev/null 2>&1 || break
    sleep 0.05
done
ip address add 10.99.0.1/24 dev catena0
ip -n guest address add 10.99.0.2/24 dev catena1
ping -c 3 -i 0.2 -W 5 10.99.0.2
"$CATENA" stop tap
wait $chain
"#;

#[test]
fn the_host_reaches_the_guest_and_back() {
    const NAME: &str = "the_host_reaches_the_guest_and_back";
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/net/tun").exists() {
        println!("SKIP {NAME}: needs root and /dev/net/tun");
        return;
    }
    let work = tempfile::tempdir().unwrap();
    let chain = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../chains/tap.yaml");
    let output = Command::new("unshare")
        .args(["--mount", "--net", "--", "bash", "-c", SCRIPT])
        .env("CATENA", env!("CARGO_BIN_EXE_catena"))
        .env("CATENA_RUNTIME_DIR", work.path().join("run"))
        .env("CHAIN", chain)
        .env("WORK", work.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    let counters = std::fs::read(work.path().join("counters.json")).unwrap();
    let counters: serde_json::Value = serde_json::from_slice(&counters).unwrap();
    assert!(text.contains("3 received, 0% packet loss"), "{text}");
    let nodes = counters["nodes"].as_array().unwrap();
    for node in nodes {
        // Three requests and answers, and ARP in front of them.
        assert!(node["rx_packets"].as_u64().unwrap() > 3, "{node}");
        assert!(node["tx_packets"].as_u64().unwrap() > 3, "{node}");
        assert_eq!(node["drops"], serde_json::json!({}), "{node}");
    }
}

/// This host by a TAP, another one by a veth pair.
const CHAIN: &str = "
ports:
  here:  { tap: { name: tap0 } }
  there: { packet_socket: { interface: left, delivery: frames } }
nfs:
  go:   { type: count }
  come: { type: count }
links:
  - here -> go -> there
  - there -> come -> here
run: { mode: process, orphan: 60s }
";

/// The other end of the chain's interface `left`, with offloads that leave nothing open.
fn host_behind_left() -> Host {
    run("ip link add name left type veth peer name left0 address 02:00:00:00:00:02");
    run("ip link set dev left up");
    let host = Host::new();
    host.adopt("left0", "198.18.0.2/24");
    host.run("ethtool -K left0 tx off");
    host
}

/// The confined worker of both ports, whose rights and system calls are few, lets go of each
/// interface and takes the one that comes after it, while the other port's packets go on coming.
#[test]
fn interfaces_are_deleted_and_return_under_traffic_and_the_chain_lives() {
    let test = "interfaces_are_deleted_and_return_under_traffic_and_the_chain_lives";
    if !rustix::process::geteuid().is_root() || !has(test, &["ip", "ethtool", "ping"]) {
        println!("SKIP {test}: needs root, ip, ethtool and ping");
        return;
    }
    isolated(test, || {
        let mut host = host_behind_left();
        let chain = Running::start("returning", CHAIN);
        let own = || {
            // The same each time, since the other host remembers it.
            run("ip link set dev tap0 address 02:00:00:00:00:01");
            run("ip address add 198.18.0.1/24 dev tap0");
        };
        own();
        let answers = |host: &Host| host.run("ping -c 2 -i 0.2 -W 5 198.18.0.1");
        answers(&host);
        let kinds = ["tap", "packet_socket"];
        assert_few_rights(&chain, &chain.until("status", |_| true), &kinds);
        // Packets to an address without an owner: the host floods it with ARP and echo requests.
        run("ip neighbour add 198.18.0.9 lladdr 02:00:00:00:00:09 dev tap0");
        let mut flood = Command::new("ping")
            .args(["-f", "-w", "300", "-s", "200", "198.18.0.9"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let sent = |status: &Value| number(&node(status, "there")["tx_packets"]);
        let passing = |more: u64| {
            let before = sent(&chain.until("status", |_| true));
            chain.until("packets pass", |now| sent(now) > before + more);
        };
        passing(50);
        run("ip link delete dev left");
        let failed = |now: &Value| counter(now, "there", "interface_down") > 50;
        chain.until("packets fail", |now| {
            counter(now, "there", "detached") == 1 && failed(now)
        });
        drop(host);
        host = host_behind_left();
        chain.until("it is back", |now| counter(now, "there", "attached") == 2);
        answers(&host);
        passing(50);
        let _ = flood.kill();
        flood.wait().unwrap();

        // The other way round: the flood comes from the host, and the TAP goes.
        host.run("ip neighbour add 198.18.0.9 lladdr 02:00:00:00:00:09 dev left0");
        let flood = host.spawn(|| {
            Command::new("ping")
                .args(["-f", "-w", "300", "-s", "200", "198.18.0.9"])
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        });
        let mut flood = flood.join().unwrap();
        run("ip link delete dev tap0");
        chain.until("packets fail", |now| {
            let failed = counter(now, "here", "interface_down") > 50;
            counter(now, "here", "detached") == 1 && failed
        });
        run("ip tuntap add dev tap0 mode tap");
        chain.until("it is back", |now| counter(now, "here", "attached") == 2);
        own();
        answers(&host);
        let _ = flood.kill();
        flood.wait().unwrap();
        let status = chain.stop();
        assert_conserved(&status);
        assert_eq!(number(&status["deaths"]), 0, "{status:#}");
        run("ip link delete dev left");
    });
}
