//! What a chain outlives: its worker is killed while packets of memif or AF_XDP pass; it is the
//! guest of somebody else's vhost-user; frames are long.

use catena_port::packet_socket::{self, PacketSocket};
use rustix::event::EventfdFlags;
use rustix::process::Signal;

use super::memif::Memif;
use super::netns::{isolated, veth};
use super::nonsense::between;
use super::peer::{Peer as _, connected, outlives, wait};
use super::support::*;
use super::*;

/// A testpmd that listens at both sockets, and sends.
fn listening(dir: &Path, devices: &[String; 2], sockets: &[PathBuf; 2], more: &[&str]) -> Testpmd {
    for socket in sockets {
        let _ = fs::remove_file(socket);
    }
    let options = [&["--forward-mode=txonly"], more].concat();
    let testpmd = Testpmd::start(dir, devices, &options);
    wait("testpmd listens", || {
        sockets.iter().all(|socket| socket.exists())
    });
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

/// The plug-in looks at faults, and leaves what somebody sends to who looked before it: Rust's
/// runtime, which looks no longer once it has got one. So the next one ends the worker.
#[test]
fn a_signal_that_somebody_sends_is_not_taken_for_a_fault() {
    if !can_run("a_signal_that_somebody_sends_is_not_taken_for_a_fault") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("m");
    let chain = Running::start("dpdk-signalled", &between(&memif(0, "server", &socket)));
    let status = chain.until("a status", |_| true);
    let about = format!("/proc/{}/status", number(&worker(&status, "ports")["pid"]));
    let looks = || {
        let about = fs::read_to_string(&about).unwrap_or_default();
        let mut lines = about.lines();
        let caught = lines.find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.map(|caught| u64::from_str_radix(caught.trim(), 16).unwrap());
        caught.is_some_and(|caught| caught >> (Signal::SEGV.as_raw() - 1) & 1 == 1)
    };
    assert!(looks());
    assert!(signal(&status, "ports", Signal::SEGV));
    wait("nobody looks any more", || !looks());
    assert!(signal(&status, "ports", Signal::SEGV));
    let epoch = epoch(&status, "ports");
    chain.until("it runs again", |now| runs_after(now, "ports", epoch));
    assert_conserved(&chain.stop());
}

/// The chain is a guest, as of a switch, which ends and comes back.
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
    let mut peer = listening(dir.path(), &hosts, &sockets, &[]);
    let guest = |at: usize| format!("net_virtio_user{at},path={}", sockets[at].display());
    let chain = Running::start("dpdk-guest", &chain(&guest(0), &guest(1)));
    let passed = |now: &Value| ["left", "right"].map(|port| received(now, port));
    let mut before = [0; 2];
    for is_last in [false, true] {
        // Its packets lie in DPDK's memory; each is copied once in each direction, and the device's
        // count of it comes later than the port's.
        chain.until("packets from both, copied", |now| {
            let both = (0..2).all(|at| passed(now)[at] > before[at] + 1000);
            both && counter(now, "left", "copied_packets") > before[0] + 1000
        });
        drop(peer);
        if is_last {
            break;
        }
        // More than this is no rest of the first one's.
        before = passed(&chain.until("a status", |_| true));
        peer = listening(dir.path(), &hosts, &sockets, &[]);
    }
    assert_clean(&chain.stop());
}

/// A guest that listens stays where it is when the ports are killed: their successor calls it.
#[test]
fn a_guest_that_listens_is_called_by_the_successor_of_killed_ports() {
    if !can_run("a_guest_that_listens_is_called_by_the_successor_of_killed_ports") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let sockets = ["a", "b"].map(|name| dir.path().join(name).display().to_string());
    let host = |at: usize| format!("net_vhost{at},iface={},queues=1,client=1", sockets[at]);
    let guests = [0, 1].map(|at| format!("net_virtio_user{at},path={},server=1", sockets[at]));
    let guest = Testpmd::start(dir.path(), &guests, &["--forward-mode=txonly"]);
    let chain = Running::start("dpdk-called-guest", &chain(&host(0), &host(1)));
    let passed = |now: &Value| ["left", "right"].map(|port| received(now, port));
    let mut before = [0; 2];
    for is_last in [false, true] {
        let status = chain.until("packets from both", |now| {
            let now = passed(now);
            (0..2).all(|at| now[at] > before[at] + 1000)
        });
        if is_last {
            break;
        }
        let after = chain.revive(&status, &["ports"]);
        before = passed(&after);
    }
    drop(guest);
    assert_clean(&chain.stop());
}

/// A chain whose buffers hold 9,000 bytes.
fn long(left: &str, right: &str) -> String {
    let text = chain(left, right).replace("plugin:", "mtu: 9000, plugin:");
    text.replace("mode: process", "mode: process, buffers: { 16KiB: 2048 }")
}

/// What a testpmd that sends 9,000 bytes at a time is told.
const LONG: [&str; 2] = ["--mbuf-size=10240", "--txpkts=9000"];

/// Frames of 9,000 bytes come and go on both sides.
fn pass_whole(chain: Running, peer: Testpmd) {
    let sent = |now: &Value, port| number(&node(now, port)["tx_packets"]);
    chain.until("packets both ways", |now| {
        ["left", "right"]
            .iter()
            .all(|port| received(now, port) > 500 && sent(now, port) > 200)
    });
    // The chain first: one who hangs up may end the worker (`assert_contained`).
    let status = chain.stop();
    drop(peer);
    assert_clean(&status);
    for port in ["left", "right"] {
        let node = node(&status, port);
        let count = |name: &str| number(&node[name]);
        assert_eq!(count("rx_bytes"), 9000 * count("rx_packets"), "{status:#}");
        assert_eq!(count("tx_bytes"), 9000 * count("tx_packets"), "{status:#}");
        assert_eq!(counter(&status, port, "too_long"), 0, "{status:#}");
    }
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
    let peer = listening(dir.path(), &ends("server"), &sockets, &LONG);
    let calls = ends("client").map(|call| call + ",bsize=10240");
    let chain = Running::start("dpdk-long", &long(&calls[0], &calls[1]));
    pass_whole(chain, peer);
}

#[test]
fn frames_of_nine_thousand_bytes_pass_to_guests() {
    if !can_run("frames_of_nine_thousand_bytes_pass_to_guests") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let sockets = ["a", "b"].map(|name| dir.path().join(name).display().to_string());
    let host = |at: usize| format!("net_vhost{at},iface={},queues=1", sockets[at]);
    let guests = [0, 1].map(|at| format!("net_virtio_user{at},path={}", sockets[at]));
    let chain = Running::start("dpdk-long-guests", &long(&host(0), &host(1)));
    let options = [&["--forward-mode=txonly"], &LONG[..]].concat();
    let peer = Testpmd::start(dir.path(), &guests, &options);
    pass_whole(chain, peer);
}

/// What comes by the second queue of a memif is received, and packets are sent by both.
#[test]
fn each_queue_of_a_memif_carries_packets() {
    if !can_run("each_queue_of_a_memif_carries_packets") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("m");
    let text = between(&memif(0, "server", &socket)).replacen("plugin:", "queues: 2, plugin:", 1);
    let chain = Running::start("dpdk-queues", &text);
    let mut peer = connected(|| Memif::call_by(&socket, EventfdFlags::NONBLOCK, 2));
    peer.queue = 1;
    assert!(outlives("packets by the second queue", &peer));
    peer.advance(10);
    chain.until("what came by the second queue", |now| {
        received(now, "left") == 10
    });
    drop(peer);
    assert_conserved(&chain.stop());
}

/// Whether a program hangs at that interface.
fn has_program(interface: &str) -> bool {
    let mut shown = Command::new("ip");
    let shown = shown
        .args(["-d", "link", "show", interface])
        .output()
        .unwrap();
    String::from_utf8(shown.stdout)
        .unwrap()
        .contains("prog/xdp")
}

/// DPDK's AF_XDP hangs its program to the interface, not to its process. The successor of one who
/// was killed goes on with it, and takes it away at the end.
#[test]
fn a_program_that_a_killed_worker_leaves_is_used_again_and_goes_at_the_end() {
    let test = "lives::a_program_that_a_killed_worker_leaves_is_used_again_and_goes_at_the_end";
    if !can_run(test) {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        println!("SKIP {test}: not root");
        return;
    }
    isolated(test, || {
        veth("pmd0", "pmd1");
        let plugin = PLUGIN.as_ref().unwrap().display();
        let chain = Running::start(
            "dpdk-program",
            &format!(
                "
ports:
  left: {{ dpdk: {{ device: \"net_af_xdp0,iface=pmd0\", plugin: \"{plugin}\" }} }}
  out:  {{ sink: {{}} }}
nfs:
  count: {{ type: count }}
links:
  - left -> count -> out
run: {{ mode: process }}
"
            ),
        );
        let mut host = PacketSocket::open("pmd1", packet_socket::Options::default()).unwrap();
        let mut before = 0;
        for is_last in [false, true] {
            let status = chain.until("packets of the host", |now| {
                let _ = host.send([&[2; 60][..]]);
                received(now, "left") > before
            });
            assert!(has_program("pmd0"));
            if is_last {
                break;
            }
            let after = chain.revive(&status, &["ports"]);
            before = received(&after, "left");
        }
        assert_conserved(&chain.stop());
        assert!(!has_program("pmd0"));
    });
}
