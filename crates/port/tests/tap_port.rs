//! The `tap` port against the running kernel.

mod netns;

use std::path::Path;

use catena_engine::nf::Nanos;
use catena_engine::port::RxState;
use catena_port::packet_socket::{self, PacketSocket};
use catena_port::port_bench::PortBench;
use catena_port::tap;
use netns::{Deadline, isolated, run};
use serde_json::{Value, json};

fn open(config: &Value) -> PortBench {
    PortBench::open(&tap::KIND, config, Path::new(".")).unwrap()
}

/// A frame of an experimental protocol (IEEE 802 9.2.4) to all hosts.
fn frame(len: usize, tag: &[u8]) -> Vec<u8> {
    let mut frame = vec![0xff; 12];
    frame.extend_from_slice(tag);
    frame.extend_from_slice(&[0x88, 0xb5]);
    frame.extend((frame.len()..len).map(|index| index as u8));
    frame
}

/// Asks the port until it has received a packet or ended.
fn receive(bench: &mut PortBench) -> Vec<Vec<u8>> {
    let deadline = Deadline::new();
    loop {
        deadline.check("the arrival of a packet");
        let received = bench.rx(8);
        if !received.packets.is_empty() {
            return received.packets;
        }
        assert_eq!(received.state, RxState::Idle);
    }
}

/// A turn, some time later.
fn later(bench: &mut PortBench) {
    bench.now = Nanos(bench.now.0 + 200_000_000);
    assert_eq!(bench.rx(8).state, RxState::Idle);
}

fn until_detached(bench: &mut PortBench) {
    let deadline = Deadline::new();
    while bench.port().poll_fd().is_some() {
        deadline.check("the loss of the interface");
        assert_eq!(bench.rx(8).state, RxState::Idle);
    }
}

#[test]
fn packets_pass_both_ways_with_their_tags() {
    isolated("packets_pass_both_ways_with_their_tags", || {
        let mut bench = open(&json!({ "name": "tap0", "mtu": 4000 }));
        let mtu = std::fs::read_to_string("/sys/class/net/tap0/mtu");
        // Without a mounted sysfs of this namespace, the long frame below is the proof.
        assert!(mtu.is_err() || mtu.is_ok_and(|mtu| mtu.trim() == "4000"));
        assert!(bench.port().poll_fd().is_some());
        let mut host = PacketSocket::open("tap0", packet_socket::Options::default()).unwrap();
        let tagged = frame(500, &[0x81, 0, 0, 42]);
        for sent in [frame(60, &[]), tagged, frame(4014, &[])] {
            assert_eq!(host.send([&sent[..]]).unwrap().taken, 1);
            assert_eq!(receive(&mut bench), std::slice::from_ref(&sent));
            assert_eq!(bench.tx(std::slice::from_ref(&sent)), 1);
            assert!(host.wait(netns::PATIENCE).unwrap());
            let mut heard = Vec::new();
            host.recv(1, |bytes, info| {
                heard.resize(bytes.len() + 4, 0);
                let len = info.copy_frame(bytes, &mut heard).unwrap();
                heard.truncate(len);
            })
            .unwrap();
            assert_eq!(heard, sent);
        }
        assert_eq!(bench.tx(&[vec![1; 9], frame(60, &[])]), 1);
        assert_eq!(bench.counter("too_short"), 1);
        assert_eq!(bench.drops_total(), 0);
        assert_eq!(bench.close(), Ok(()));
        assert_eq!(bench.buffers_in_use(), 0);
    });
}

#[test]
fn a_port_without_buffers_names_its_drops() {
    isolated("a_port_without_buffers_names_its_drops", || {
        let mut bench = open(&json!({ "name": "tap0" }));
        let mut host = PacketSocket::open("tap0", packet_socket::Options::default()).unwrap();
        bench.exhaust(60);
        assert_eq!(host.send([&frame(60, &[])[..]; 3]).unwrap().taken, 3);
        let deadline = Deadline::new();
        while bench.drops(catena_engine::nf::DropReason::NoBuffer) < 3 {
            deadline.check("the drops");
            assert!(bench.rx(8).packets.is_empty());
        }
        bench.relieve(usize::MAX);
        assert_eq!(host.send([&frame(61, &[])[..]]).unwrap().taken, 1);
        assert_eq!(receive(&mut bench), [frame(61, &[])]);
    });
}

#[test]
fn down_is_counted_and_a_deleted_interface_is_attached_again_when_it_returns() {
    let test = "down_is_counted_and_a_deleted_interface_is_attached_again_when_it_returns";
    isolated(test, || {
        for (segments, flags) in [("cut", ""), ("carry", " vnet_hdr")] {
            let config = json!({ "name": "tap0", "up": false, "segments": segments });
            let mut bench = open(&config);
            assert_eq!(bench.tx(&[frame(60, &[])]), 0);
            assert!(bench.counter("interface_down") > 0);
            assert_eq!(bench.rx(8).state, RxState::Idle);
            run("ip link set dev tap0 up");
            assert_eq!(bench.tx(&[frame(60, &[])]), 1);
            run("ip link delete dev tap0");
            until_detached(&mut bench);
            assert_eq!(
                (bench.counter("attached"), bench.counter("detached")),
                (1, 1)
            );
            let before = bench.counter("interface_down");
            assert_eq!(bench.tx(&[frame(60, &[]), frame(61, &[])]), 0);
            assert_eq!(bench.counter("interface_down"), before + 2);
            // Nobody but its user makes it anew.
            later(&mut bench);
            assert!(bench.port().poll_fd().is_none());
            run(&format!("ip tuntap add dev tap0 mode tap{flags}"));
            run("ip link set dev tap0 up");
            let deadline = Deadline::new();
            while bench.port().poll_fd().is_none() {
                deadline.check("the return of the interface");
                later(&mut bench);
            }
            assert_eq!(
                (bench.counter("attached"), bench.counter("detached")),
                (2, 1)
            );
            let mut host = PacketSocket::open("tap0", packet_socket::Options::default()).unwrap();
            assert_eq!(bench.tx(&[frame(60, &[])]), 1);
            assert!(host.wait(netns::PATIENCE).unwrap());
            assert_eq!(host.send([&frame(61, &[])[..]]).unwrap().taken, 1);
            assert_eq!(receive(&mut bench), [frame(61, &[])]);
            assert_eq!(bench.close(), Ok(()));
            assert_eq!(bench.buffers_in_use(), 0);
            run("ip link delete dev tap0");
        }
    });
}

/// An interface that has the name and is no TAP is not taken, and the reason is told at the end.
#[test]
fn another_interface_of_the_name_is_not_taken() {
    isolated("another_interface_of_the_name_is_not_taken", || {
        let mut bench = open(&json!({ "name": "tap0" }));
        run("ip link delete dev tap0");
        until_detached(&mut bench);
        netns::veth("tap0", "far");
        later(&mut bench);
        assert!(bench.port().poll_fd().is_none());
        assert_eq!(bench.counter("attached"), 1);
        let error = bench.close().unwrap_err().to_string();
        assert!(error.contains("'tap0' exists but is not a TAP"), "{error}");
    });
}

#[test]
fn a_name_that_is_taken_is_refused_at_open() {
    isolated("a_name_that_is_taken_is_refused_at_open", || {
        let config = json!({ "name": "lo" });
        assert!((tap::KIND.check)(&config).is_ok());
        let error = PortBench::open(&tap::KIND, &config, Path::new(".")).unwrap_err();
        assert!(error.0.contains("'lo' exists"), "{error}");
    });
}
