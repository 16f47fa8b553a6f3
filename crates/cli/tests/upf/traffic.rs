//! Real programs through a UPF between namespaces, by `examples/upf/run.sh`: ping, curl, iperf3,
//! QUIC, HTTP and TLS, over IPv4 and IPv6.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::captures::{assert_nothing_is_wrong, frames, has_tshark};
use crate::support::{assert_conserved, node, number};

/// Why `examples/upf/run.sh` cannot run here, or the Python with which it can.
fn python_of_the_gnb() -> Result<PathBuf, String> {
    if !rustix::process::geteuid().is_root() {
        return Err("not root".to_owned());
    }
    for tool in ["ip", "ss", "ethtool", "ping", "curl", "iperf3", "tcpdump"] {
        if Command::new(tool).arg("--version").output().is_err() {
            return Err(format!("no {tool}; run tests/setup/netns.sh"));
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let python = root.join("target/oracles/mobile/bin/python");
    let mut imports = Command::new(&python);
    imports.args(["-c", "import scapy.contrib.gtp, aioquic.asyncio"]);
    if !imports.output().is_ok_and(|output| output.status.success()) {
        return Err("no scapy and aioquic; run tests/setup/mobile.sh".to_owned());
    }
    let probe = Command::new("unshare").args(["--net", "true"]).output();
    let has_namespaces = probe.is_ok_and(|output| output.status.success());
    has_namespaces
        .then_some(python)
        .ok_or_else(|| "no network namespaces here".to_owned())
}

/// What came back of a ping, of how many.
fn received(text: &str) -> (u64, u64) {
    let line = text.lines().find(|line| line.contains(" received"));
    let mut numbers = line.unwrap().split(", ").map(|part| {
        let digits = part.split(' ').next().unwrap();
        digits.parse().unwrap_or(0)
    });
    let (sent, received) = (numbers.next().unwrap(), numbers.next().unwrap());
    (received, sent)
}

/// Runs the example to its end; the folder of its results, or none if it cannot run here.
fn run_example(test: &str, settings: &[(&str, &str)]) -> Option<tempfile::TempDir> {
    let python = match python_of_the_gnb() {
        Ok(python) => python,
        Err(reason) => {
            println!("SKIP {test}: {reason}");
            return None;
        }
    };
    let results = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(root.join("examples/upf/run.sh"))
        .arg(results.path())
        .env("CATENA", env!("CARGO_BIN_EXE_catena"))
        .env("PYTHON", python)
        .env("CAPTURE", "1")
        .envs(settings.iter().copied())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    Some(results)
}

/// QUIC, HTTP and TLS of independent clients and servers: whose name a hello or request has is
/// counted as an application, and nothing else is.
fn assert_applications_are_told_apart(session: &Value, read: impl Fn(&str) -> String) {
    for (name, count) in [
        ("quic_other", 200_000),
        ("quic4", 50_000),
        ("quic6", 50_000),
    ] {
        assert_eq!(read(&format!("{name}.txt")).trim(), count.to_string());
    }
    let urrs = session["urrs"].as_array().unwrap();
    // Two applications of one connection of QUIC; one of two of HTTP and two of TLS.
    for (urr_id, least, most) in [(2, 50, 90), (3, 50, 90), (4, 800, 980)] {
        let mut urrs = urrs.iter();
        let urr = urrs.find(|urr| urr["urr_id"] == urr_id).unwrap();
        // With headers, handshake and what is sent again, but not with what is of none.
        let bytes = number(&urr["dl_bytes"]);
        assert!((least..most).contains(&(bytes / 1000)), "{urr}");
        assert!(number(&urr["ul_bytes"]) > 1200, "{urr}");
    }
}

/// ping, curl, iperf3, QUIC, HTTP and TLS through a UPF, each over IPv4 and IPv6. Its gNB is
/// another implementation, its SMF plays over UDP.
#[test]
fn real_traffic_passes_while_a_ue_is_paged_moves_and_gets_a_quota_and_a_rate() {
    let name = "real_traffic_passes_while_a_ue_is_paged_moves_and_gets_a_quota_and_a_rate";
    let Some(results) = run_example(name, &[]) else {
        return;
    };
    let read = |name: &str| std::fs::read_to_string(results.path().join(name)).unwrap();
    let json = |name: &str| serde_json::from_str::<Value>(&read(name)).unwrap();
    assert_eq!(received(&read("ping.txt")), (5, 5));
    assert_eq!(received(&read("ping6.txt")), (5, 5));
    // Held while the UE slept, and none lost when its tunnel moved.
    for name in ["paged.txt", "paged6.txt"] {
        assert_eq!(received(&read(name)), (25, 25), "{name}");
    }
    let reports = json("reports.json");
    let buffer = &reports["buffer"];
    assert!(number(&buffer["stored"]) >= 1, "{reports}");
    assert_eq!(
        number(&buffer["stored"]),
        number(&buffer["flushed"]),
        "{reports}"
    );
    assert_eq!(read("gnb.log"), "end marker 0x201\n");

    let rate = |name: &str| {
        let json = json(name);
        let rate = json.pointer("/end/sum_received/bits_per_second");
        rate.and_then(Value::as_f64).unwrap()
    };
    // scapy is slow, not still.
    for name in ["up.json", "down.json", "up6.json", "down6.json"] {
        assert!(rate(name) > 1e5, "{name}: {}", rate(name));
    }
    for name in ["limited.json", "limited6.json"] {
        // Of 4 Mb/s, which count IP and UDP headers, with what the meter lets pass at first.
        let limited = rate(name);
        assert!((2.5e6..4.4e6).contains(&limited), "{name}: {limited}");
    }
    assert_applications_are_told_apart(&json("session.json"), read);
    let counters = json("counters.json");
    let mut nodes = counters["nodes"].as_array().unwrap().iter();
    let upf = nodes.find(|node| node["name"] == "upf").unwrap();
    assert!(number(&upf["drops"]["rate_exceeded"]) > 100, "{upf}");
    assert!(number(&upf["drops"]["quota_exhausted"]) > 1, "{upf}");
    assert_eq!(number(&upf["counters"]["end_markers"]), 1, "{upf}");
    let allocated = number(&counters["buffers"]["allocated"]);
    assert_eq!(number(&counters["buffers"]["free"]), allocated);
    if has_tshark(name) {
        assert_the_captures_are_of(results.path());
    }
}

/// What passed N4 and N3 while a UE was paged and moved: nothing of it is wrong, and it is what was
/// done.
fn assert_the_captures_are_of(results: &Path) {
    for (name, port) in [("n4", 8805), ("n3", 2152), ("iperf3", 2152)] {
        assert_nothing_is_wrong(results, name, port);
    }
    let n4 = results.join("n4.pcap");
    // One answer to each request that was not repeated.
    for (request, count) in [(5, 1), (50, 1), (3, 1)] {
        for message in [request, request + 1] {
            assert_eq!(frames(&n4, &format!("pfcp.msg_type == {message}")), count);
        }
    }
    assert!(frames(&n4, "pfcp.report_type.dldr == 1") >= 1);
    assert!(frames(&n4, "pfcp.report_type.usar == 1") >= 1);
    let n3 = results.join("n3.pcap");
    assert_eq!(frames(&n3, "gtp.message == 0xfe && gtp.teid == 0x201"), 1);
    // Of iperf3 some, and by themselves.
    assert_eq!(frames(&n3, "gtp && tcp.port == 5201"), 0);
    let packets = frames(&results.join("iperf3.pcap"), "gtp && tcp.port == 5201");
    assert!((100..=1000).contains(&packets), "{packets}");
    for inner in ["ip", "ipv6"] {
        for kind in [0, 1] {
            let kind = format!("gtp.ext_hdr.pdu_ses_con.pdu_type == {kind}");
            let flow = "gtp.ext_hdr.pdu_ses_con.qos_flow_id == 9";
            let found = frames(&n3, &format!("{kind} && {flow} && {inner} && tcp"));
            assert!(found > 100, "{inner} {kind}: {found}");
        }
    }
}

/// The same with N6 through a NAT, both ways: the data network has no route to UEs.
#[test]
fn real_traffic_passes_a_upf_whose_ues_share_addresses_by_a_nat() {
    let name = "real_traffic_passes_a_upf_whose_ues_share_addresses_by_a_nat";
    let Some(results) = run_example(name, &[("NAT", "1")]) else {
        return;
    };
    let read = |name: &str| std::fs::read_to_string(results.path().join(name)).unwrap();
    assert_eq!(received(&read("ping.txt")), (5, 5));
    assert_eq!(received(&read("ping6.txt")), (5, 5), "passes as it is");
    if has_tshark(name) {
        for (name, port) in [("n4", 8805), ("n3", 2152), ("iperf3", 2152)] {
            assert_nothing_is_wrong(results.path(), name, port);
        }
    }
    assert!(
        read("www.log").contains("198.51.100."),
        "{}",
        read("www.log")
    );
    let counters: Value = serde_json::from_str(&read("counters.json")).unwrap();
    let nat = node(&counters, "nat");
    assert!(number(&nat["counters"]["outbound"]) > 100, "{nat}");
    assert!(number(&nat["counters"]["inbound"]) > 100, "{nat}");
    assert_conserved(&counters);
}

/// The packets of the session of a UPF, uplink and downlink.
fn packets(sessions: &Value) -> [u64; 2] {
    let session = &sessions["sessions"][0];
    ["ul_packets", "dl_packets"].map(|name| number(&session[name]))
}

/// Two UPFs with N9 between them: the first one lets out what is for the edge, and the second one
/// sees nothing of it.
#[test]
fn real_traffic_passes_an_uplink_classifier_to_the_edge_and_by_n9_to_the_psa() {
    let name = "real_traffic_passes_an_uplink_classifier_to_the_edge_and_by_n9_to_the_psa";
    let Some(results) = run_example(name, &[("ULCL", "1")]) else {
        return;
    };
    let read = |name: &str| std::fs::read_to_string(results.path().join(name)).unwrap();
    let json = |name: &str| serde_json::from_str::<Value>(&read(name)).unwrap();
    for name in ["ping.txt", "ping6.txt", "ping_edge.txt", "ping6_edge.txt"] {
        assert_eq!(received(&read(name)), (5, 5), "{name}");
    }
    // The UE is the same one on both sides, over IPv4 and over IPv6.
    for log in ["www.log", "edge.log"] {
        for ue in ["10.45.0.2", "2001:db8:45:1::2"] {
            assert!(read(log).contains(ue), "{}", read(log));
        }
    }
    let [all, by_n9] = ["sessions.json", "psa_sessions.json"].map(|name| packets(&json(name)));
    // 200 kB by each way, in segments of 1360 bytes at most.
    for (all, by_n9) in all.into_iter().zip(by_n9) {
        assert!(
            by_n9 > 10 && all > by_n9 + 10,
            "{all} of all, {by_n9} by N9"
        );
    }
    let drops = |name: &str| node(&json(name), "upf")["drops"].clone();
    for reason in ["no_pdr", "spoofed", "unknown_teid", "malformed_packet"] {
        assert_eq!(drops("psa.json").get(reason), None, "{reason}");
    }
    for name in ["counters.json", "psa.json"] {
        assert_conserved(&json(name));
    }
    if has_tshark(name) {
        let both = [("n4", 8805), ("n4psa", 8805), ("n3", 2152), ("n9", 2152)];
        for (name, port) in both {
            assert_nothing_is_wrong(results.path(), name, port);
        }
        let n9 = results.path().join("n9.pcap");
        // What the PSA had of the session, but for what its UE said by itself meanwhile.
        let packets = frames(&n9, "gtp.message == 0xff") as u64;
        let counted = by_n9.into_iter().sum::<u64>();
        assert!(packets.abs_diff(counted) < 16, "{packets}, {counted}");
    }
}
