//! `chains/tap.yaml` in a network namespace: what the host sends comes back with its addresses
//! exchanged.

use std::path::Path;
use std::process::Command;

/// Starts the chain, waits for it, sends three echo requests into it, and asks what it counted.
/// Each request comes back to the host as it went; only the Ethernet addresses are exchanged.
const SCRIPT: &str = r#"
set -eu
echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6
"$CATENA" run --json "$CHAIN" > "$WORK/counters.json" &
chain=$!
for try in $(seq 400); do
    ! "$CATENA" status tap > /dev/null 2>&1 || break
    sleep 0.05
done
ip address add 10.99.0.1/24 dev catena0
ip neighbour add 10.99.0.2 lladdr 02:00:00:00:00:02 dev catena0
ping -c 3 -i 0.2 -W 1 10.99.0.2 || true
"$CATENA" stop tap
wait $chain
"#;

#[test]
fn what_the_host_sends_comes_back() {
    const NAME: &str = "what_the_host_sends_comes_back";
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/net/tun").exists() {
        println!("SKIP {NAME}: needs root and /dev/net/tun");
        return;
    }
    let work = tempfile::tempdir().unwrap();
    let chain = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../chains/tap.yaml");
    let output = Command::new("unshare")
        .args(["--net", "--", "bash", "-c", SCRIPT])
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
    let nodes = counters["nodes"].as_array().unwrap();
    for node in nodes {
        let (received, sent) = (&node["rx_packets"], &node["tx_packets"]);
        assert_eq!(received, sent, "{node}");
        assert!(received.as_u64().unwrap() >= 3, "{node}");
        assert_eq!(node["drops"], serde_json::json!({}), "{node}");
    }
}
