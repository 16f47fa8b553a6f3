//! ping, curl and iperf3 between two network namespaces, through `chains/netns.yaml` in a third.
//!
//! Runs `examples/netns/run.sh`, which is what users run, and judges by what its programs and the
//! chain counted. Set up by `tests/setup/netns.sh`.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Bytes that curl fetches.
const FILE_LEN: u64 = 1 << 20;
/// Echo requests that ping sends.
const PING_COUNT: u64 = 5;
/// Longest Ethernet frame that may cross: the MTU and a header.
const FRAME_LEN_MAX: u64 = 1514;

fn number(value: &Value, path: &str) -> u64 {
    let found = value.pointer(path).and_then(Value::as_u64);
    found.unwrap_or_else(|| panic!("no number {path} in {value}"))
}

/// Why the example cannot run here.
fn obstacle() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("not root".to_owned());
    }
    for tool in ["ip", "ss", "ethtool", "ping", "curl", "iperf3", "python3"] {
        if Command::new(tool).arg("--version").output().is_err() {
            return Some(format!("no {tool}; run tests/setup/netns.sh"));
        }
    }
    let probe = Command::new("unshare").args(["--net", "true"]).output();
    (!probe.is_ok_and(|output| output.status.success()))
        .then(|| "no network namespaces here".to_owned())
}

#[test]
fn real_programs_reach_each_other_through_a_firewall() {
    if let Some(reason) = obstacle() {
        println!("SKIP real_programs_reach_each_other_through_a_firewall: {reason}");
        return;
    }
    let results = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(root.join("examples/netns/run.sh"))
        .arg(results.path())
        .env("CATENA", env!("CARGO_BIN_EXE_catena"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");

    let ping = fs::read_to_string(results.path().join("ping.txt")).unwrap();
    let received = format!("{PING_COUNT} received, 0% packet loss");
    assert!(ping.contains(&received), "{ping}");
    // The script compares its bytes.
    let file = fs::metadata(results.path().join("file")).unwrap();
    assert_eq!(file.len(), FILE_LEN);
    let iperf = fs::read(results.path().join("iperf3.json")).unwrap();
    let iperf: Value = serde_json::from_slice(&iperf).unwrap();
    let tcp_bytes = number(&iperf, "/end/sum_received/bytes");

    let counters = fs::read(results.path().join("counters.json")).unwrap();
    let counters: Value = serde_json::from_slice(&counters).unwrap();
    let node = |name: &str| {
        let mut nodes = counters["nodes"].as_array().unwrap().iter();
        nodes.find(|node| node["name"] == name).unwrap().clone()
    };
    let count = |name: &str, key: &str| number(&node(name), &format!("/{key}"));
    // iperf3's bytes went right, curl's came left, in packets no longer than the MTU allows.
    assert!(count("to-right", "tx_bytes") > tcp_bytes);
    assert!(count("to-right", "tx_packets") > tcp_bytes / FRAME_LEN_MAX + PING_COUNT);
    assert!(count("to-left", "tx_bytes") > FILE_LEN);
    assert!(count("to-left", "tx_packets") > FILE_LEN / FRAME_LEN_MAX + PING_COUNT);
    for (from, firewall, counter, to) in [
        ("left", "to-right", "seen-right", "right"),
        ("right", "to-left", "seen-left", "left"),
    ] {
        assert_eq!(count(from, "rx_packets"), count(firewall, "rx_packets"));
        assert_eq!(count(firewall, "tx_packets"), count(counter, "rx_packets"));
        assert_eq!(count(counter, "tx_packets"), count(to, "tx_packets"));
        // Had offloads been on, packets would have been too large.
        assert_eq!(node(to)["drops"], serde_json::json!({}), "{to}");
    }
    // The attempt that the firewall does not permit, and nothing else.
    let denied = number(&node("to-right"), "/drops/acl_deny");
    assert!(denied >= 1);
    let right = count("to-right", "rx_packets") - count("to-right", "tx_packets");
    assert_eq!(right, denied);
    assert_eq!(node("to-left")["drops"], serde_json::json!({}));
    assert_eq!(number(&counters, "/deaths"), 0);
    let allocated = number(&counters, "/buffers/allocated");
    assert_eq!(number(&counters, "/buffers/free"), allocated);

    let left = Command::new("ip").arg("netns").output().unwrap();
    let left = String::from_utf8_lossy(&left.stdout);
    assert!(!left.contains("catena-"), "namespaces are left: {left}");
}
