//! What a device of DPDK does for a `dpdk` port: it checks checksums, gives packets to queues by
//! rules, and marks them. A TAP of DPDK's does the first. For rules there is none without a card:
//! `dpdk_offloads/rte_flow.c` stands in for its driver.

mod dpdk_plugin;
mod netns;

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use catena_port::packet_socket::{self, PacketSocket};
use dpdk_plugin::{open, plugin, until};
use netns::isolated;
use serde_json::json;

/// Where the stand-in notes what it is asked.
const RULES: &str = "CATENA_TEST_RULES";

/// Compiles the stand-in.
fn stand_in(dir: &Path) -> std::path::PathBuf {
    let flags = Command::new("pkg-config")
        .args(["--cflags", "libdpdk"])
        .output()
        .unwrap();
    let file = dir.join("rte_flow.so");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC"])
        .args(String::from_utf8(flags.stdout).unwrap().split_whitespace())
        .arg("-o")
        .arg(&file)
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/dpdk_offloads/rte_flow.c"
        ))
        .args(["-lrte_ethdev", "-lrte_mbuf"])
        .status();
    assert!(compiled.unwrap().success());
    file
}

/// The device is asked for all rules when the port is opened, given them once it runs, and the
/// marks that it sets are tags of packets.
#[test]
fn rules_reach_the_device_and_its_marks_are_tags() {
    let test = "rules_reach_the_device_and_its_marks_are_tags";
    let Some(plugin) = plugin(test) else {
        return;
    };
    let Some(noted) = env::var_os(RULES) else {
        let dir = tempfile::tempdir().unwrap();
        let output = Command::new(env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture"])
            .env("LD_PRELOAD", stand_in(dir.path()))
            .env(RULES, dir.path().join("rules"))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}{errors}");
        assert!(text.contains("1 passed"), "{text}");
        return;
    };
    let flows = json!([
        { "match": { "ip": 4, "protocol": "udp", "destination_port": 2152 }, "queue": 1 },
        {
            "match": { "vlan": 5, "destination": "10.0.0.1", "protocol": "tcp" },
            "mark": 7, "priority": 2,
        },
        { "match": { "ether_type": 0x88f7 }, "mark": 0x1234, "queue": 0 },
        { "match": { "source": "2001:db8::1" }, "mark": 900 },
    ]);
    let more = json!({ "queues": 2, "rss": "outer", "flows": flows });
    let mut port = open(plugin, "net_null10,size=64", more).unwrap();
    let text = fs::read_to_string(&noted).unwrap();
    let said = |what: &str| {
        let lines = text.lines().filter_map(|line| line.strip_prefix(what));
        lines.collect::<Vec<_>>()
    };
    let expected = [
        "priority=0 eth ipv4 udp=00000868/0000ffff -> queue=1",
        "priority=2 eth vlan=00050000/0fff0000 ipv4=000000000a000001/00000000ffffffff tcp -> \
         mark=7 spread=2 level=0 as it can",
        "priority=0 eth=88f7/ffff -> mark=4660 queue=0",
        "priority=0 eth ipv6=20010db8000000000000000000000001\
         00000000000000000000000000000000/ffffffffffffffffffffffffffffffff\
         00000000000000000000000000000000 -> mark=900 spread=2 level=0 as it can",
    ];
    assert_eq!(said("ask "), expected);
    assert_eq!(said("do "), expected);
    port.reap();
    let received = port.rx(64);
    // net_null has packets at each queue; of the first one they are marked.
    assert!(received.tags.contains(&900), "{:?}", received.tags);
    assert!(received.tags.iter().all(|tag| [0, 900].contains(tag)));
    port.close().unwrap();
    assert_eq!(port.buffers_in_use(), 0);

    spreads_by_inner_headers(plugin, Path::new(&noted));

    // What a device refuses is named with its reason, and nothing is left of the device.
    let refused = json!([
        { "match": { "ip": 4 }, "mark": 1 },
        { "match": { "ip": 6 }, "mark": 2, "priority": 10 },
    ]);
    let error = open(plugin, "net_null11", json!({ "flows": refused })).unwrap_err();
    let words = "refuses rule 2 of `flows` (priorities up to 9)";
    assert!(error.0.contains(words), "{error}");
    // One that spreads no flows has a queue for each rule.
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).display().to_string();
    let queues = format!("net_pcap12,tx_pcap={},tx_pcap={}", file("a"), file("b"));
    let flows = json!([{ "match": { "ip": 4 }, "queue": 1 }, { "match": { "ip": 6 }, "mark": 2 }]);
    let more = json!({ "queues": 2, "flows": flows });
    let error = open(plugin, &queues, more).unwrap_err();
    assert!(error.0.contains("write `queue` in rule 2"), "{error}");
    open(plugin, "net_null11", json!({}))
        .unwrap()
        .close()
        .unwrap();
}

/// `rss: inner` has the device look into tunnels, for all packets and in rules that name no queue.
fn spreads_by_inner_headers(plugin: &Path, noted: &Path) {
    let flows = json!([{ "match": { "ip": 4, "protocol": "udp" }, "mark": 1 }]);
    for (rss, level) in [("outer", 0), ("inner", 2)] {
        fs::write(noted, "").unwrap();
        let more = json!({ "queues": 2, "rss": rss, "flows": flows });
        let mut port = open(plugin, "net_null10,size=64", more).unwrap();
        let text = fs::read_to_string(noted).unwrap();
        assert!(
            text.contains(&format!("spread level={level} on\n")),
            "{text}"
        );
        let rule = format!("mark=1 spread=2 level={level} as it can");
        assert_eq!(text.matches(&rule).count(), 2, "asked and given: {text}");
        port.close().unwrap();
        assert_eq!(port.buffers_in_use(), 0);
    }
}

/// An IPv4 header from 198.18.0.1 to 198.18.0.2, UDP with 20 bytes, and what makes its sums wrong.
fn datagram(wrong_header: u8, wrong_sum: u8) -> Vec<u8> {
    let sum = catena_wire::checksum::Sum::of;
    let mut frame = vec![
        2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 48, 0, 0, 0x40, 0,
    ];
    frame.extend([64, 17, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2]);
    let checksum = sum(&frame[14..34]).checksum();
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame[25] ^= wrong_header;
    frame.extend([0, 7, 0, 9, 0, 28, 0, 0]);
    frame.extend([0x5a; 20]);
    let pseudo = sum(&frame[26..34]) + sum(&[0, 17]) + sum(&[0, 28]);
    let checksum = (pseudo + sum(&frame[34..])).checksum();
    frame[40..42].copy_from_slice(&checksum.to_be_bytes());
    frame[41] ^= wrong_sum;
    frame
}

#[test]
fn packets_whose_checksums_the_device_finds_wrong_are_dropped() {
    let test = "packets_whose_checksums_the_device_finds_wrong_are_dropped";
    let Some(plugin) = plugin(test) else {
        return;
    };
    isolated(test, || {
        let device = "net_tap0,iface=checked0";
        let mut port = open(plugin, device, json!({ "check_sums": true })).unwrap();
        let mut host = PacketSocket::open("checked0", packet_socket::Options::default()).unwrap();
        port.reap();
        let sent = [
            datagram(0, 0),
            datagram(1, 0),
            datagram(0, 1),
            datagram(0, 0),
        ];
        for frame in &sent {
            assert_eq!(host.send([&frame[..]]).unwrap().taken, 1);
        }
        let mut received = Vec::new();
        until("four packets", &mut [&mut port], |ports| {
            received.extend(ports[0].rx(8).packets);
            received.len() as u64 + ports[0].counter("bad_sum") >= 4
        });
        assert_eq!(received, [sent[0].clone(), sent[3].clone()]);
        assert_eq!(port.counter("bad_sum"), 2);
        port.close().unwrap();
        assert_eq!(port.buffers_in_use(), 0);
    });
}
