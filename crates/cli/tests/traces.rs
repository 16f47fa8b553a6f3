//! The traces of the example chains can be recorded again, by the script that made them: real
//! programs that talk between two network namespaces. What it needs is installed by `./test`.

use std::path::Path;
use std::process::Command;

/// Packets in a capture, as capinfos counts them.
fn packets(file: &Path) -> u64 {
    let output = Command::new("capinfos")
        .args(["-T", "-r", "-c", "-M"])
        .arg(file)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let count = text.split_whitespace().last().and_then(|c| c.parse().ok());
    count.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn the_traces_can_be_recorded_again() {
    const NAME: &str = "the_traces_can_be_recorded_again";
    let tools = ["ip", "ethtool", "tcpdump", "editcap", "capinfos", "tshark"];
    let tools = tools
        .into_iter()
        .chain(["curl", "dig", "dnsmasq", "iperf3"]);
    for tool in tools {
        if Command::new(tool).arg("--version").output().is_err() {
            return println!("SKIP {NAME}: no {tool}; ./test installs it");
        }
    }
    let probe = Command::new("unshare").args(["--net", "true"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        return println!("SKIP {NAME}: no network namespaces here");
    }
    let place = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(root.join("chains/traces/record.sh"))
        .arg(place.path())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    for name in ["web.pcap", "vlan.pcapng"] {
        let kept = packets(&root.join("chains/traces").join(name));
        let again = packets(&place.path().join(name));
        // Programs say the same, but what TCP cuts it into depends on the time.
        assert!(
            (kept / 2..=kept * 2).contains(&again),
            "{name}: {again}, {kept} are kept"
        );
    }
}
