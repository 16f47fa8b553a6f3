//! Chains with `dpdk` ports, in processes, with `dpdk-testpmd` as the other side: memif and
//! vhost-user on both sides, whose peers end and return; and peers that a test plays itself.

#[path = "dpdk/guest.rs"]
mod guest;
#[path = "dpdk/guide.rs"]
mod guide;
#[path = "dpdk/host.rs"]
mod host;
#[path = "dpdk/list.rs"]
mod list;
#[path = "dpdk/lives.rs"]
mod lives;
#[path = "dpdk/memif.rs"]
mod memif;
#[path = "../../port/tests/netns/mod.rs"]
mod netns;
#[path = "dpdk/nonsense.rs"]
mod nonsense;
#[path = "dpdk/peer.rs"]
mod peer;
#[path = "dpdk/plugin.rs"]
mod plugin;
#[path = "dpdk/study.rs"]
mod study;
mod support;
#[path = "dpdk/switch.rs"]
mod switch;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use plugin::{PLUGIN, can_run};
use serde_json::Value;
use support::*;

/// A chain that passes packets both ways between two devices.
fn chain(left: &str, right: &str) -> String {
    let plugin = PLUGIN.as_ref().unwrap().display();
    format!(
        "
ports:
  left:  {{ dpdk: {{ device: \"{left}\", plugin: \"{plugin}\" }} }}
  right: {{ dpdk: {{ device: \"{right}\", plugin: \"{plugin}\" }} }}
nfs:
  to-right: {{ type: count }}
  to-left:  {{ type: count }}
links:
  - left -> to-right -> right
  - right -> to-left -> left
run: {{ mode: process }}
"
    )
}

/// testpmd, which polls at the lowest priority until it is killed.
struct Testpmd(Child);

impl Testpmd {
    fn start(dir: &Path, devices: &[String], options: &[&str]) -> Self {
        let log = fs::File::create(dir.join("testpmd.log")).unwrap();
        let mut command = Command::new("nice");
        command.args(["-n", "19", "dpdk-testpmd"]);
        command.args([
            "--no-huge",
            "-m",
            "128",
            "--no-shconf",
            "--no-telemetry",
            "--no-pci",
        ]);
        command.args(["--lcores", "0@(0-1),1@(0-1)"]);
        for device in devices {
            command.args(["--vdev", device]);
        }
        command
            .args([
                "--",
                "--total-num-mbufs=4096",
                "--no-mlockall",
                "--nb-cores=1",
            ])
            .args(["--auto-start", "--stats-period=1"])
            .args(options)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        Self(command.spawn().unwrap())
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn memif(number: u8, role: &str, socket: &Path) -> String {
    let socket = socket.display();
    format!("net_memif{number},role={role},socket={socket},socket-abstract=no")
}

fn received(status: &Value, port: &str) -> u64 {
    number(&node(status, port)["rx_packets"])
}

/// What a chain that has ended must say: nothing lost, nothing that DPDK named wrongly.
fn assert_clean(status: &Value) {
    assert_conserved(status);
    for port in ["left", "right"] {
        assert_eq!(counter(status, port, "refused"), 0, "{status:#}");
        assert_eq!(number(&node(status, port)["held"]), 0, "{status:#}");
    }
}

/// Packets go round: testpmd, chain, testpmd. It ends, and another one comes.
#[test]
fn memif_peers_that_call_may_end_and_others_come() {
    if !can_run("memif_peers_that_call_may_end_and_others_come") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let sockets = ["a", "b"].map(|name| dir.path().join(name));
    let chain = Running::start(
        "dpdk-memif",
        &chain(
            &memif(0, "server", &sockets[0]),
            &memif(1, "server", &sockets[1]),
        ),
    );
    chain.until("it listens", |_| {
        sockets.iter().all(|socket| socket.exists())
    });
    let devices = [
        memif(0, "client", &sockets[0]),
        memif(1, "client", &sockets[1]),
    ];
    let mut before = 0;
    for life in 1..=2 {
        let testpmd = Testpmd::start(dir.path(), &devices, &["--forward-mode=txonly"]);
        chain.until("packets from both", |now| {
            received(now, "left") > before && received(now, "right") > before
        });
        drop(testpmd);
        let lost = |now: &Value, port| counter(now, port, "link_lost") == life;
        let status = chain.until("the loss", |now| lost(now, "left") && lost(now, "right"));
        before = received(&status, "left").max(received(&status, "right"));
        assert_eq!(counter(&status, "left", "link_up"), life, "{status:#}");
    }
    assert_clean(&chain.stop());
}

/// The chain calls a peer that listens; that one is killed, and another one listens.
#[test]
fn a_peer_that_listens_is_called_again() {
    if !can_run("a_peer_that_listens_is_called_again") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let sockets = ["a", "b"].map(|name| dir.path().join(name));
    let devices = [
        memif(0, "server", &sockets[0]),
        memif(1, "server", &sockets[1]),
    ];
    let start = || {
        sockets
            .iter()
            .for_each(|socket| drop(fs::remove_file(socket)));
        let testpmd = Testpmd::start(dir.path(), &devices, &["--forward-mode=txonly"]);
        peer::wait("testpmd listens", || {
            sockets.iter().all(|socket| socket.exists())
        });
        testpmd
    };
    let mut testpmd = start();
    let calls = [
        memif(0, "client", &sockets[0]),
        memif(1, "client", &sockets[1]),
    ];
    let chain = Running::start("dpdk-calls", &chain(&calls[0], &calls[1]));
    for life in 1..=2 {
        chain.until("packets from both", |now| {
            let came = |port| counter(now, port, "link_up") >= life && received(now, port) > 0;
            came("left") && came("right")
        });
        drop(testpmd);
        let down = |now: &Value, port| counter(now, port, "detached") >= life;
        chain.until("the loss", |now| down(now, "left") && down(now, "right"));
        testpmd = start();
    }
    drop(testpmd);
    assert_clean(&chain.stop());
}

/// The chain is the host's side. Its guest ends, and another one comes.
#[test]
fn packets_pass_by_vhost_user() {
    if !can_run("packets_pass_by_vhost_user") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let sockets = ["a", "b"].map(|name| dir.path().join(name));
    let host = |at: usize| format!("net_vhost{at},iface={},queues=1", sockets[at].display());
    let guest = |at: usize| format!("net_virtio_user{at},path={}", sockets[at].display());
    let chain = Running::start("dpdk-vhost", &chain(&host(0), &host(1)));
    chain.until("it listens", |_| {
        sockets.iter().all(|socket| socket.exists())
    });
    let guests = [guest(0), guest(1)];
    let mut before = [0; 2];
    for life in 1..=2 {
        let peer = Testpmd::start(dir.path(), &guests, &["--forward-mode=txonly"]);
        let status = chain.until("packets from both", |now| {
            let now = ["left", "right"].map(|port| received(now, port));
            (0..2).all(|at| now[at] > before[at] + 1000)
        });
        assert_eq!(counter(&status, "left", "link_up"), life, "{status:#}");
        drop(peer);
        let lost = |now: &Value, port| counter(now, port, "link_lost") == life;
        let status = chain.until("the loss", |now| lost(now, "left") && lost(now, "right"));
        before = ["left", "right"].map(|port| received(&status, port));
    }
    assert_clean(&chain.stop());
}

#[test]
fn a_peer_that_is_not_there_is_told_before_anything_runs() {
    if !can_run("a_peer_that_is_not_there_is_told_before_anything_runs") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("nobody");
    let text = chain(&memif(0, "client", &socket), "net_null0,size=64");
    let file = dir.path().join("chain.yaml");
    fs::write(&file, format!("name: dpdk-nobody\n{text}")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_catena"))
        .args(["run", file.to_str().unwrap()])
        .env("CATENA_RUNTIME_DIR", dir.path())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("nobody listens at"), "{told}");
}

#[test]
fn what_was_built_is_told_as_a_document() {
    if !can_run("what_was_built_is_told_as_a_document") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("plugin.so");
    let output = Command::new(env!("CARGO_BIN_EXE_catena"))
        .args(["port", "dpdk", "build", "--json", "--output"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let built: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(built["schema"], "catena.port.dpdk.build/1");
    assert_eq!(built["plugin"], file.to_str().unwrap());
    assert_eq!(built["variable"], "CATENA_DPDK");
    assert!(file.exists());
}
