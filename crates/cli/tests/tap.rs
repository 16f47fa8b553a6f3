//! `chains/tap.yaml` in network namespaces: the host reaches the guest, and the guest's answers
//! come back.

use std::path::Path;
use std::process::Command;

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
