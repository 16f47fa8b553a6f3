//! The `dpdk` port with the DPDK of this machine: the plug-in is built, and devices that need no
//! card and no peer are opened in this process.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use catena_engine::nf::Nanos;
use catena_engine::port::{PortError, RxState};
use catena_port::capture::CaptureReader;
use catena_port::dpdk::{self, BuildError};
use catena_port::port_bench::PortBench;
use serde_json::{Value, json};

/// The plug-in, built once; none, with the reason, where there is no DPDK to build against.
static PLUGIN: LazyLock<Result<PathBuf, String>> = LazyLock::new(|| {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dpdk_port/catena_dpdk.so");
    match dpdk::build(&file) {
        Ok(_) => Ok(file),
        Err(why @ (BuildError::NoDpdk | BuildError::NoProgram { .. })) => Err(why.to_string()),
        Err(why) => panic!("{why}"),
    }
});

fn plugin(test: &str) -> Option<&'static Path> {
    match &*PLUGIN {
        Ok(file) => Some(file),
        Err(why) => {
            println!("SKIP {test}: {why}");
            None
        }
    }
}

fn open(plugin: &Path, device: &str, more: Value) -> Result<PortBench, PortError> {
    let mut config = json!({ "device": device, "plugin": plugin, "ring": 64, "idle": "0us" });
    let (Value::Object(config_map), Value::Object(more)) = (&mut config, more) else {
        panic!("settings are a map");
    };
    config_map.extend(more);
    PortBench::open(&dpdk::KIND, &config, Path::new("."))
}

fn frames(count: u8, len: usize) -> Vec<Vec<u8>> {
    let frame = |seed: u8| (0..len).map(|at| seed.wrapping_add(at as u8)).collect();
    (0..count).map(frame).collect()
}

/// Turns of some ports, with the time that passes, until it is as wanted.
fn until(
    what: &str,
    ports: &mut [&mut PortBench],
    mut is_so: impl FnMut(&mut [&mut PortBench]) -> bool,
) {
    let started = Instant::now();
    while !is_so(ports) {
        assert!(started.elapsed() < Duration::from_secs(30), "{what}");
        for port in &mut *ports {
            port.now = Nanos(u64::try_from(started.elapsed().as_nanos()).unwrap());
            port.reap();
        }
    }
}

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
