//! What a chain outlives: its worker is killed while packets of memif pass; it is the guest of
//! somebody else's vhost-user; frames are long.

use rustix::process::Signal;

use super::support::*;
use super::*;

/// A testpmd that listens at both sockets, and sends.
fn listening(dir: &Path, devices: &[String; 2], sockets: &[PathBuf; 2], more: &[&str]) -> Testpmd {
    for socket in sockets {
        let _ = fs::remove_file(socket);
    }
    let options = [&["--forward-mode=txonly"], more].concat();
    let testpmd = Testpmd::start(dir, devices, &options);
    let started = Instant::now();
    while !sockets.iter().all(|socket| socket.exists()) {
        assert!(started.elapsed() < PATIENCE, "testpmd listens");
        std::thread::yield_now();
    }
    testpmd
}

/// The successor calls with the same memory, and every buffer is accounted for. Its peer is another
/// one each time, since testpmd may fall, too, when its client is killed.
#[test]
fn a_killed_worker_is_succeeded_and_no_buffer_is_lost() {
    if !can_run("a_killed_worker_is_succeeded_and_no_buffer_is_lost") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let sockets = ["a", "b"].map(|name| dir.path().join(name));
    let ends = |role| [0, 1].map(|at: u8| memif(at, role, &sockets[usize::from(at)]));
    let servers = ends("server");
    let mut peer = listening(dir.path(), &servers, &sockets, &[]);
    let calls = ends("client");
    let chain = Running::start("dpdk-killed", &chain(&calls[0], &calls[1]));
    let passed = |now: &Value| ["left", "right"].map(|port| received(now, port));
    let mut random = seed();
    let mut before = [0; 2];
    for life in 0..4 {
        let status = chain.until("packets from both", |now| {
            let now = passed(now);
            (0..2).all(|at| now[at] > before[at] + 1000)
        });
        if life == 3 {
            break;
        }
        dither(&mut random, 3_000_000);
        let epoch = epoch(&status, "ports");
        assert!(signal(&status, "ports", Signal::KILL));
        drop(peer);
        peer = listening(dir.path(), &servers, &sockets, &[]);
        let after = chain.until("it runs again", |now| runs_after(now, "ports", epoch));
        before = passed(&after);
    }
    drop(peer);
    assert_clean(&chain.stop());
}

/// The chain is a guest, as of a switch.
#[test]
fn packets_pass_as_a_guest_of_vhost_user() {
    if !can_run("packets_pass_as_a_guest_of_vhost_user") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let sockets = ["a", "b"].map(|name| dir.path().join(name));
    let hosts = [0, 1].map(|at: usize| {
        let socket = sockets[at].display();
        format!("net_vhost{at},iface={socket},queues=1")
    });
    let peer = listening(dir.path(), &hosts, &sockets, &[]);
    let guest = |at: usize| format!("net_virtio_user{at},path={}", sockets[at].display());
    let chain = Running::start("dpdk-guest", &chain(&guest(0), &guest(1)));
    // Its packets lie in DPDK's memory; each is copied once in each direction, and the device's
    // count of it comes later than the port's.
    chain.until("packets from both, copied", |now| {
        let both = received(now, "left") > 1000 && received(now, "right") > 1000;
        both && counter(now, "left", "copied_packets") > 1000
    });
    drop(peer);
    assert_clean(&chain.stop());
}

/// Longer than what memif says it takes; a frame to a buffer, since DPDK 22.11 gets the length of
/// chained ones wrong.
#[test]
fn frames_of_nine_thousand_bytes_pass() {
    if !can_run("frames_of_nine_thousand_bytes_pass") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let sockets = ["a", "b"].map(|name| dir.path().join(name));
    let ends = |role| [0, 1].map(|at: u8| memif(at, role, &sockets[usize::from(at)]));
    let long = ["--mbuf-size=10240", "--txpkts=9000"];
    let peer = listening(dir.path(), &ends("server"), &sockets, &long);
    let calls = ends("client").map(|call| call + ",bsize=10240");
    let text = chain(&calls[0], &calls[1])
        .replace("plugin:", "mtu: 9000, plugin:")
        .replace("mode: process", "mode: process, buffers: { 16KiB: 2048 }");
    let chain = Running::start("dpdk-long", &text);
    let sent = |now: &Value, port| number(&node(now, port)["tx_packets"]);
    chain.until("packets both ways", |now| {
        ["left", "right"]
            .iter()
            .all(|port| received(now, port) > 500 && sent(now, port) > 500)
    });
    drop(peer);
    let status = chain.stop();
    assert_clean(&status);
    for port in ["left", "right"] {
        let node = node(&status, port);
        let count = |name: &str| number(&node[name]);
        assert_eq!(count("rx_bytes"), 9000 * count("rx_packets"), "{status:#}");
        assert_eq!(count("tx_bytes"), 9000 * count("tx_packets"), "{status:#}");
        assert_eq!(counter(&status, port, "too_long"), 0, "{status:#}");
    }
}
