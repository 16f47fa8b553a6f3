//! The `dpdk` port with the DPDK of this machine: the plug-in is built, and devices that need no
//! card and no peer are opened in this process.

mod dpdk_plugin;
mod netns;

use std::fs;
use std::path::Path;

use catena_engine::nf::Nanos;
use catena_engine::pools::Pools;
use catena_engine::port::{Opening, RxState};
use catena_port::capture::CaptureReader;
use catena_port::dpdk;
use catena_port::packet_socket::{self, PacketSocket};
use catena_port::port_bench::PortBench;
use catena_shm::pool::{PoolGeometry, PoolOwner};
use catena_shm::region::Sharing;
use dpdk_plugin::{config, frames, open, plugin, until};
use netns::{frame, isolated, run, veth};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use serde_json::{Value, json};

#[test]
fn without_a_plugin_the_command_that_builds_it_is_told() {
    let error = open(Path::new("/nowhere/x.so"), "net_null0", json!({})).unwrap_err();
    assert!(error.0.contains("`catena port dpdk build`"), "{error}");
    assert!(error.0.contains("/nowhere/x.so"), "{error}");
}

#[test]
fn packets_pass_and_every_buffer_comes_home() {
    let Some(plugin) = plugin("packets_pass_and_every_buffer_comes_home") else {
        return;
    };
    for memory in ["pool", "copy"] {
        let device = format!("net_null{},size=100", 3 + memory.len());
        let mut port = open(plugin, &device, json!({ "memory": memory })).unwrap();
        port.reap();
        for _ in 0..100 {
            let received = port.rx(32);
            assert_eq!(received.state, RxState::More);
            assert_eq!(received.packets.len(), 32, "{:?}", port.port().report());
            assert!(received.packets.iter().all(|packet| packet.len() == 100));
            assert_eq!(port.tx(&frames(32, 60)), 32);
            port.reap();
        }
        assert_eq!(port.counter("refused"), 0);
        assert_eq!(port.kept(), (0, 3200, 0));
        port.close().unwrap();
        assert_eq!(port.buffers_in_use(), 0);
    }
}

#[test]
fn a_capture_is_read_and_written_byte_by_byte() {
    let Some(plugin) = plugin("a_capture_is_read_and_written_byte_by_byte") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).display().to_string();
    let sent = frames(50, 700);
    let device = format!("net_pcap1,tx_pcap={}", file("a.pcap"));
    let mut port = open(plugin, &device, json!({})).unwrap();
    assert_eq!(port.tx(&sent), 50);
    port.close().unwrap();
    let mut reader = CaptureReader::open(dir.path().join("a.pcap")).unwrap();
    for packet in &sent {
        let record = reader.next().unwrap().unwrap();
        assert_eq!(record.data, packet);
    }
    let device = format!("net_pcap2,rx_pcap={}", file("a.pcap"));
    let mut port = open(plugin, &device, json!({})).unwrap();
    port.reap();
    let mut received = Vec::new();
    until("fifty packets", &mut [&mut port], |ports| {
        received.extend(ports[0].rx(7).packets);
        received.len() >= 50
    });
    assert_eq!(received, sent);
    port.close().unwrap();
    assert_eq!(port.buffers_in_use(), 0);
}

#[test]
fn what_cannot_be_opened_says_why_and_leaves_nothing() {
    let Some(plugin) = plugin("what_cannot_be_opened_says_why_and_leaves_nothing") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let memif = format!(
        "net_memif40,role=client,socket={},socket-abstract=no",
        at("no")
    );
    let taken = format!("net_vhost41,iface={}", at("taken"));
    let _listener = std::os::unix::net::UnixListener::bind(dir.path().join("taken")).unwrap();
    for (device, more, words) in [
        ("net_nothing0", json!({}), "no driver net_nothing"),
        ("net_pcap42,rx_pcap=/nowhere", json!({}), "net_pcap42"),
        (&*memif, json!({}), "start the peer first"),
        (&*taken, json!({}), "another process listens"),
        (
            "net_null43,size=64",
            json!({ "mtu": 9000 }),
            "buffers: { 16KiB: 4096 }",
        ),
        (
            "net_null44,size=64",
            json!({ "check_sums": true }),
            "leave out `check_sums`",
        ),
        (
            "net_null47,size=64",
            json!({ "flows": [{ "match": { "ip": 4 }, "mark": 1 }] }),
            "leave out `flows`",
        ),
        ("net_null45,nonsense=1", json!({}), "net_null45"),
        ("ffff:ff:1f.6", json!({}), "ffff:ff:1f.6"),
    ] {
        let error = open(plugin, device, more).unwrap_err();
        assert!(error.0.contains(words), "{device}: {error}");
        assert!(!error.0.contains('\n'), "{device}: {error}");
    }
    // Nothing is left of those that were half open.
    let mut port = open(plugin, "net_null44,size=64", json!({})).unwrap();
    port.close().unwrap();
    // What one who was killed has left is taken away.
    drop(std::os::unix::net::UnixListener::bind(dir.path().join("left")).unwrap());
    let left = format!("net_vhost46,iface={}", at("left"));
    open(plugin, &left, json!({})).unwrap().close().unwrap();
    assert!(fs::exists(dir.path()).unwrap());
}

/// A bench whose buffers of that size are that many.
fn open_in(plugin: &Path, device: &str, more: Value, pool: (u8, u32)) -> PortBench {
    let geometry = PoolGeometry {
        log2_stride: pool.0,
        buffer_count: pool.1,
        headroom: 64,
        bundles: false,
    };
    let owner = PoolOwner::create(1, geometry, Sharing::ReadWrite).unwrap();
    let pools = Pools::new(vec![owner]);
    let memory: Vec<_> = pools.own().iter().map(PoolOwner::device_memory).collect();
    let opening = Opening {
        pools: &memory,
        ..Opening::alone(Path::new("."))
    };
    let config = config(plugin, device, more);
    PortBench::open_with(&dpdk::KIND, &config, &opening, pools).unwrap()
}

#[test]
fn one_packet_that_is_too_long_fails_alone() {
    let Some(plugin) = plugin("one_packet_that_is_too_long_fails_alone") else {
        return;
    };
    let mut port = open_in(
        plugin,
        "net_null50,size=64",
        json!({ "memory": "copy" }),
        (12, 512),
    );
    let mut sent = frames(9, 60);
    sent[4] = vec![7; 3000];
    assert_eq!(port.tx(&sent), 9);
    port.reap();
    assert_eq!(port.counter("too_long"), 1);
    assert_eq!(port.counter("ring_full"), 0);
    assert_eq!(port.kept(), (0, 8, 1));
    // It holds nothing up, and nothing is lost behind it.
    assert_eq!(port.tx(&frames(32, 60)), 32);
    port.reap();
    assert_eq!(port.kept(), (0, 40, 1));
    port.close().unwrap();
    assert_eq!(port.buffers_in_use(), 0);
}

/// Written as cards are, a device without one takes a card's way: it is shown the pool, and starts
/// once it has buffers.
#[test]
fn cards_start_with_full_rings_and_share_a_pool_that_holds_them_all() {
    let test = "cards_start_with_full_rings_and_share_a_pool_that_holds_them_all";
    let Some(plugin) = plugin(test) else {
        return;
    };
    let mut first = open_in(plugin, "vdev:net_null60,size=64", json!({}), (11, 1024));
    let config = |name: &str| config(plugin, name, json!({}));
    first
        .join(&dpdk::KIND, &config("vdev:net_null61,size=64"))
        .unwrap();
    let error = first
        .join(&dpdk::KIND, &config("vdev:net_null62,size=64"))
        .unwrap_err();
    assert!(error.0.contains("buffers: { 2KiB: 2048 }"), "{error}");
    first.reap();
    first.now = Nanos(200_000_000);
    assert_eq!(first.rx(32).packets.len(), 32);
    first.reap();
    assert_eq!(first.tx(&frames(32, 60)), 32);
    first.close().unwrap();
    assert_eq!(first.buffers_in_use(), 0);
}

#[test]
fn a_card_without_buffers_says_so() {
    let Some(plugin) = plugin("a_card_without_buffers_says_so") else {
        return;
    };
    let device = "vdev:net_null65,size=64";
    let mut port = open_in(plugin, device, json!({}), (11, 512));
    port.exhaust(100);
    port.reap();
    assert_eq!(port.rx(32).packets.len(), 0);
    let error = port.close().unwrap_err();
    assert!(error.0.contains("was not started"), "{error}");
    // One that gets them later has no failure to tell.
    let device = "vdev:net_null66,size=64";
    let mut port = open_in(plugin, device, json!({}), (11, 512));
    port.exhaust(100);
    port.reap();
    port.relieve(512);
    port.reap();
    assert_eq!(port.rx(32).packets.len(), 32);
    port.close().unwrap();
}

#[test]
fn a_memif_takes_no_socket_away_that_somebody_has() {
    let Some(plugin) = plugin("a_memif_takes_no_socket_away_that_somebody_has") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m");
    let memif = |number: u8| {
        let socket = path.display();
        format!("net_memif{number},role=server,id={number},socket={socket},socket-abstract=no")
    };
    let kind = SocketType::SEQPACKET;
    let listener = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
    bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    listen(&listener, 1).unwrap();
    let error = open(plugin, &memif(70), json!({})).unwrap_err();
    assert!(error.0.contains("another process listens"), "{error}");
    assert!(path.exists());
    // One that nobody has is in the way, and goes.
    drop(listener);
    let mut first = open(plugin, &memif(71), json!({})).unwrap();
    let mut second = open(plugin, &memif(72), json!({})).unwrap();
    first.close().unwrap();
    assert!(path.exists());
    second.close().unwrap();
    assert!(!path.exists());
    let error = open(plugin, &memif(73), json!({})).unwrap_err();
    assert!(error.0.contains("another path"), "{error}");
}

#[test]
fn a_second_plugin_is_refused_and_what_brings_no_device_of_packets_goes() {
    let test = "a_second_plugin_is_refused_and_what_brings_no_device_of_packets_goes";
    let Some(plugin) = plugin(test) else {
        return;
    };
    open(plugin, "net_null80,size=64", json!({}))
        .unwrap()
        .close()
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let other = dir.path().join("other.so");
    fs::copy(plugin, &other).unwrap();
    let error = open(&other, "net_null81", json!({})).unwrap_err();
    assert!(error.0.contains("has loaded"), "{error}");
    assert!(error.0.contains("other.so"), "{error}");
    // Twice the same: the first one has left nothing.
    let errors = [(); 2].map(|()| open(plugin, "vdev:crypto_null82", json!({})).unwrap_err());
    assert_eq!(errors[0].0, errors[1].0);
}

/// Each queue has a file of its own: what all of them have is received, and all are sent by.
#[test]
fn all_queues_are_received_from_and_sent_by() {
    let Some(plugin) = plugin("all_queues_are_received_from_and_sent_by") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).display().to_string();
    let captured = |name: &str| {
        let mut reader = CaptureReader::open(dir.path().join(name)).unwrap();
        let mut packets = Vec::new();
        while let Some(record) = reader.next().unwrap() {
            packets.push(record.data.to_vec());
        }
        packets
    };
    let queues = json!({ "queues": 3 });
    let of = |way: &str| {
        let queue = |name| format!(",{way}_pcap={}", file(name));
        ["a", "b", "c"].map(queue).concat()
    };
    let mut port = open(plugin, &format!("net_pcap90{}", of("tx")), queues.clone()).unwrap();
    let sent = frames(60, 200);
    for packets in sent.chunks(10) {
        assert_eq!(port.tx(packets), 10);
    }
    port.close().unwrap();
    for name in ["a", "b", "c"] {
        assert_eq!(captured(name).len(), 20, "{name}");
    }
    let mut port = open(plugin, &format!("net_pcap91{}", of("rx")), queues).unwrap();
    port.reap();
    let mut received = Vec::new();
    until("sixty packets", &mut [&mut port], |ports| {
        received.extend(ports[0].rx(7).packets);
        received.len() >= 60
    });
    received.sort();
    let mut sent = sent;
    sent.sort();
    assert_eq!(received, sent);
    port.close().unwrap();
    assert_eq!(port.buffers_in_use(), 0);
}

#[test]
fn flows_are_spread_only_by_what_a_device_knows() {
    let Some(plugin) = plugin("flows_are_spread_only_by_what_a_device_knows") else {
        return;
    };
    let spread = |by: &str| json!({ "queues": 2, "rss": by });
    let mut port = open(plugin, "net_null95,size=64", spread("outer")).unwrap();
    port.reap();
    assert_eq!(port.rx(32).packets.len(), 32);
    port.close().unwrap();
    for (device, by, words) in [
        ("net_null96,size=64", "inner", "write `rss: outer`"),
        ("net_pcap97,iface=lo", "outer", "leave out `rss`"),
    ] {
        let error = open(plugin, device, json!({ "rss": by })).unwrap_err();
        assert!(error.0.contains(words), "{device}: {error}");
    }
}

/// DPDK does not notice that the kernel's interface of a device is deleted: the port does, and goes
/// on at the next one of that name.
#[test]
fn a_kernel_interface_goes_and_the_device_is_opened_at_the_next_one() {
    let test = "a_kernel_interface_goes_and_the_device_is_opened_at_the_next_one";
    let Some(plugin) = plugin(test) else {
        return;
    };
    if !rustix::process::geteuid().is_root() {
        return println!("SKIP {test}: not root");
    }
    isolated(test, || {
        for device in [
            "net_af_packet70,iface=a,framesz=1024,blocksz=4096",
            "net_af_xdp71,iface=a",
        ] {
            veth("a", "b");
            let mut port = open(plugin, device, json!({})).unwrap();
            exchange(&mut port, device);
            run("ip link delete dev b");
            until("the loss of the interface", &mut [&mut port], |ports| {
                ports[0].counter("detached") == 1
            });
            assert_eq!(port.buffers_in_use(), 0, "{device}");
            assert_eq!(port.tx(&[frame(60, &[]), frame(61, &[])]), 0, "{device}");
            assert_eq!(port.counter("link_down"), 2, "{device}");
            veth("a", "b");
            until("its return", &mut [&mut port], |ports| {
                ports[0].counter("attached") == 2
            });
            exchange(&mut port, device);
            port.close().unwrap();
            assert_eq!(port.buffers_in_use(), 0, "{device}");
            run("ip link delete dev b");
        }
    });
}

/// A frame passes each way between the port and the other end of its interface.
fn exchange(port: &mut PortBench, device: &str) {
    let mut host = PacketSocket::open("b", packet_socket::Options::default()).unwrap();
    let mut received = Vec::new();
    until("a packet of the host", &mut [port], |ports| {
        // The device may take some time until it has room for packets.
        assert_eq!(host.send([&frame(70, &[])[..]]).unwrap().taken, 1);
        received.extend(ports[0].rx(8).packets);
        !received.is_empty()
    });
    assert_eq!(received[0], frame(70, &[]), "{device}");
    let mut heard = false;
    until("a packet of the port", &mut [port], |ports| {
        assert_eq!(ports[0].tx(&[frame(80, &[])]), 1, "{device}");
        let told = host.recv(64, |bytes, _| heard |= bytes == frame(80, &[]));
        told.unwrap();
        heard
    });
}
