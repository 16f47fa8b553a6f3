//! The `packet_socket` port on veth pairs, against the running kernel.

mod netns;

use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;

use catena_engine::nf::{DropReason, Nanos};
use catena_engine::pools::Pools;
use catena_engine::port::{Opening, RxState};
use catena_port::packet_socket;
use catena_port::port_bench::PortBench;
use catena_shm::pool::{PoolGeometry, PoolOwner};
use catena_shm::region::Sharing;
use netns::{Deadline, frame, isolated, receive, run, veth};
use serde_json::{Value, json};

const GEOMETRY: PoolGeometry = PoolGeometry {
    log2_stride: 11,
    buffer_count: 64,
    headroom: 64,
    bundles: false,
};

fn open(config: &Value) -> PortBench {
    PortBench::open(&packet_socket::KIND, config, Path::new(".")).unwrap()
}

fn pair() -> (PortBench, PortBench) {
    veth("a", "b");
    (
        open(&json!({ "interface": "a" })),
        open(&json!({ "interface": "b", "delivery": "immediate" })),
    )
}

/// A UDP packet without fragments from 198.18.0.1 to 198.19.0.1, its checksums right.
fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let (len, sum) = (payload.len() as u16 + 8, catena_wire::checksum::Sum::of);
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
    frame.extend((len + 20).to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 19, 0, 1]);
    let checksum = sum(&frame[14..34]).checksum();
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame.extend(port.to_be_bytes());
    frame.extend([0, 9]);
    frame.extend(len.to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(payload);
    let pseudo = sum(&frame[26..34]) + sum(&[0, 17]) + sum(&len.to_be_bytes());
    let checksum = (pseudo + sum(&frame[34..])).checksum();
    frame[40..42].copy_from_slice(&checksum.to_be_bytes());
    frame
}

#[test]
fn runs_of_a_flow_arrive_as_the_packets_they_were() {
    let name = "runs_of_a_flow_arrive_as_the_packets_they_were";
    if !netns::has(name, &["ethtool"]) {
        return;
    }
    isolated(name, || {
        veth("a", "b");
        run("ethtool -K a tx-udp-segmentation off");
        let mut a = open(&json!({ "interface": "a", "segment": true }));
        let mut b = open(&json!({ "interface": "b", "delivery": "immediate" }));
        let frames: Vec<_> = (0..200_u8)
            .map(|index| match index {
                60..70 => udp(u16::from(index), &[index; 31]),
                70..75 => frame(60, &[]),
                _ => udp(5, &[index; 18]),
            })
            .collect();
        assert_eq!(a.tx(&frames), 200);
        let mut received = receive(&mut b, 200);
        for (packet, sent) in received.iter_mut().zip(&frames) {
            let is_udp = packet[12..14] == [8, 0];
            if is_udp {
                // The identification counts within a run; the header's checksum goes with it.
                assert!(catena_wire::checksum::Sum::of(&packet[14..34]).is_valid());
                packet[18..20].copy_from_slice(&sent[18..20]);
                packet[24..26].copy_from_slice(&sent[24..26]);
            }
        }
        assert_eq!(received, frames);
    });
}

#[test]
fn packets_pass_both_ways_with_their_tags() {
    isolated("packets_pass_both_ways_with_their_tags", || {
        let (mut a, mut b) = pair();
        let frames: Vec<_> = (0..100)
            .map(|index| match index % 3 {
                0 => frame(60 + index, &[]),
                1 => frame(100 + index, &[0x81, 0, 0x20, 5]),
                _ => frame(1514, &[]),
            })
            .collect();
        assert_eq!(a.tx(&frames), 100);
        assert_eq!(receive(&mut b, 100), frames);
        assert_eq!(b.tx(&frames), 100);
        assert_eq!(receive(&mut a, 100), frames);
        assert_eq!((a.drops_total(), b.drops_total()), (0, 0));
        assert!(a.port().poll_fd().is_some());
        assert_eq!((a.close(), b.close()), (Ok(()), Ok(())));
        assert_eq!((a.buffers_in_use(), b.buffers_in_use()), (0, 0));
    });
}

#[test]
fn a_frame_that_does_not_fit_is_rejected_and_the_others_pass() {
    isolated(
        "a_frame_that_does_not_fit_is_rejected_and_the_others_pass",
        || {
            let (mut a, mut b) = pair();
            let frames = [frame(60, &[]), frame(1600, &[]), vec![1; 9], frame(61, &[])];
            assert_eq!(a.tx(&frames), 2);
            assert_eq!(a.counter("rejected"), 2);
            assert_eq!(a.counter("queue_full"), 0);
            assert_eq!(receive(&mut b, 2), [frame(60, &[]), frame(61, &[])]);
        },
    );
}

#[test]
fn without_buffers_drops_are_named_and_reception_recovers() {
    isolated(
        "without_buffers_drops_are_named_and_reception_recovers",
        || {
            let (mut a, mut b) = pair();
            b.exhaust(60);
            assert_eq!(a.tx(&[frame(60, &[]), frame(60, &[])]), 2);
            let deadline = Deadline::new();
            while b.drops(DropReason::NoBuffer) < 2 {
                deadline.check("the drops");
                assert!(b.rx(8).packets.is_empty());
            }
            b.relieve(usize::MAX);
            assert_eq!(a.tx(&[frame(62, &[])]), 1);
            assert_eq!(receive(&mut b, 1), [frame(62, &[])]);
        },
    );
}

#[test]
fn frames_that_the_ring_cut_are_named_and_kernel_drops_are_told() {
    isolated(
        "frames_that_the_ring_cut_are_named_and_kernel_drops_are_told",
        || {
            veth("a", "b");
            let mut a = open(&json!({ "interface": "a", "bypass_qdisc": true }));
            let mut b = open(&json!({
                "interface": "b", "delivery": "frames", "slot_size": "512B", "slot_count": 8,
            }));
            assert_eq!(a.tx(&[frame(1000, &[])]), 1);
            let deadline = Deadline::new();
            while b.counter("cut_by_ring") < 1 {
                deadline.check("the cut frame");
                assert!(b.rx(8).packets.is_empty());
            }
            assert_eq!(b.drops(DropReason::TooLarge), 1);
            assert_eq!(b.buffers_in_use(), 0);
            assert_eq!(a.tx(&vec![frame(60, &[]); 64]), 64);
            let deadline = Deadline::new();
            // The kernel is asked again every 100 ms of the engine's time.
            while b.counter("kernel_drops") == 0 {
                deadline.check("the kernel's drops");
                b.now = Nanos(b.now.0 + 200_000_000);
                b.rx(1);
            }
            assert_eq!(b.close(), Ok(()));
        },
    );
}

/// Goal: what a local sender left to a network card arrives complete. Method: sum a UDP datagram
/// with its pseudo-header as a receiver does (RFC 768).
#[test]
fn a_partial_checksum_is_completed() {
    isolated("a_partial_checksum_is_completed", || {
        let (_a, mut b) = pair();
        run("ip address add 10.0.0.1/24 dev a");
        run("ip neighbour add 10.0.0.2 lladdr 02:00:00:00:00:02 dev a");
        let socket = UdpSocket::bind((Ipv4Addr::new(10, 0, 0, 1), 0)).unwrap();
        socket.send_to(b"even length!", ("10.0.0.2", 4789)).unwrap();
        let frame = receive(&mut b, 1).remove(0);
        let udp = &frame[34..];
        let mut sum = 17 + u32::try_from(udp.len()).unwrap();
        for pair in frame[26..34].chunks(2).chain(udp.chunks(2)) {
            sum += u32::from(u16::from_be_bytes([pair[0], pair[1]]));
        }
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
    });
}

/// The kernel hands a block over when it is full or old: one that has begun when the interface goes
/// is received, however long that takes.
#[test]
fn a_block_that_has_begun_when_the_interface_goes_is_received() {
    let test = "a_block_that_has_begun_when_the_interface_goes_is_received";
    isolated(test, || {
        veth("a", "b");
        let mut a = open(&json!({ "interface": "a" }));
        let mut b = open(&json!({ "interface": "b", "retire": "200ms" }));
        assert_eq!(a.tx(&[frame(70, &[])]), 1);
        run("ip link delete dev a");
        let deadline = Deadline::new();
        while !b.rx(8).packets.contains(&frame(70, &[])) {
            deadline.check("the last frame, in the ring");
        }
        let deadline = Deadline::new();
        while b.port().poll_fd().is_some() {
            deadline.check("the loss of the interface");
            b.now = Nanos(b.now.0 + 10_000_000);
            assert_eq!(b.rx(8).state, RxState::Idle);
        }
        assert!(b.now.0 >= 210_000_000, "{:?}", b.now);
    });
}

#[test]
fn down_is_counted_and_a_removed_interface_is_attached_again_when_it_returns() {
    let test = "down_is_counted_and_a_removed_interface_is_attached_again_when_it_returns";
    isolated(test, || {
        let (mut a, mut b) = pair();
        run("ip link set dev b down");
        assert_eq!(b.tx(&[frame(60, &[])]), 0);
        assert!(b.counter("interface_down") > 0);
        assert_eq!(b.rx(8).state, RxState::Idle);
        run("ip link set dev b up");
        let deadline = Deadline::new();
        // The carrier of a veth pair comes back a moment after the interface.
        loop {
            deadline.check("the way back up");
            a.tx(&[frame(60, &[])]);
            if !b.rx(8).packets.is_empty() {
                break;
            }
        }
        // What the ring holds when the interface goes is received yet.
        assert_eq!(a.tx(&[frame(70, &[])]), 1);
        let deadline = Deadline::new();
        while b.tx(&[frame(60, &[])]) == 0 {
            deadline.check("the way out");
        }
        run("ip link delete dev a");
        assert_eq!(b.tx(&[frame(60, &[])]), 0);
        let deadline = Deadline::new();
        // Frames from before may be in front of it.
        while !b.rx(8).packets.contains(&frame(70, &[])) {
            deadline.check("the last frame, in the ring");
        }
        let deadline = Deadline::new();
        while b.port().poll_fd().is_some() {
            deadline.check("the loss of the interface");
            assert_ne!(b.rx(8).state, RxState::Failed);
        }
        assert_eq!((b.counter("attached"), b.counter("detached")), (1, 1));
        let before = b.counter("interface_down");
        assert_eq!(b.tx(&[frame(60, &[]), frame(60, &[])]), 0);
        assert_eq!(b.counter("interface_down"), before + 2);
        veth("a", "b");
        let mut a = open(&json!({ "interface": "a" }));
        let deadline = Deadline::new();
        while b.port().poll_fd().is_none() {
            deadline.check("the return of the interface");
            b.now = Nanos(b.now.0 + 200_000_000);
            b.rx(8);
        }
        assert_eq!((b.counter("attached"), b.counter("detached")), (2, 1));
        assert_eq!(a.tx(&[frame(62, &[])]), 1);
        assert_eq!(receive(&mut b, 1), [frame(62, &[])]);
        assert_eq!(b.tx(&[frame(63, &[])]), 1);
        assert_eq!(receive(&mut a, 1), [frame(63, &[])]);
        assert_eq!((b.close(), b.buffers_in_use()), (Ok(()), 0));
    });
}

/// A port that only sends, and a queue of several, whose group is another one at each interface.
#[test]
fn queues_and_ports_that_only_send_are_attached_again_too() {
    let test = "queues_and_ports_that_only_send_are_attached_again_too";
    isolated(test, || {
        veth("a", "b");
        let bench = |receives, queues| {
            let config = json!({ "interface": "b" });
            let opening = Opening {
                receives,
                queues,
                ..Opening::alone(Path::new("."))
            };
            let pool = PoolOwner::create(1, GEOMETRY, Sharing::ReadWrite).unwrap();
            let pools = Pools::new(vec![pool]);
            PortBench::open_with(&packet_socket::KIND, &config, &opening, pools).unwrap()
        };
        let mut ports = [bench(false, 1), bench(true, 2), bench(true, 2)];
        run("ip link delete dev b");
        veth("a", "b");
        let deadline = Deadline::new();
        while ports.iter().any(|port| port.counter("attached") < 2) {
            deadline.check("the return of the interface");
            for (at, port) in ports.iter_mut().enumerate() {
                port.now = Nanos(port.now.0 + 200_000_000);
                match at {
                    0 => drop(port.tx(&[frame(60, &[])])),
                    _ => drop(port.rx(8)),
                }
            }
        }
        for port in &mut ports {
            assert_eq!((port.counter("detached"), port.close()), (1, Ok(())));
        }
    });
}

#[test]
fn an_interface_that_is_missing_or_down_is_refused_at_open_and_not_at_check() {
    isolated(
        "an_interface_that_is_missing_or_down_is_refused_at_open_and_not_at_check",
        || {
            let config = json!({ "interface": "none" });
            assert!((packet_socket::KIND.check)(&config).is_ok());
            let refused = |config| {
                let bench = PortBench::open(&packet_socket::KIND, &config, Path::new("."));
                bench.unwrap_err().0
            };
            let error = refused(config);
            assert!(error.contains("no interface 'none'"), "{error}");
            run("ip link add name a type veth peer name b");
            let error = refused(json!({ "interface": "a" }));
            assert!(error.contains("`ip link set dev a up`"), "{error}");
        },
    );
}
