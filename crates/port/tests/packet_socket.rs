//! Packet sockets on veth pairs, against the running kernel.

mod netns;

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use catena_port::packet_socket::{
    Checksum, CopyError, Delivery, Fanout, FanoutMode, OpenError, Options, PacketSocket, RxInfo,
    Sent, SocketError, Vlan,
};
use netns::{Deadline, isolated, run, veth, without_capabilities};

const SMALL_BLOCKS: Delivery = Delivery::Blocks {
    block_size_bytes: 4096,
    block_count: 4,
    retire: Duration::from_millis(1),
};

/// Both ways of delivery, in their usual size and as small as makes them wrap soon.
const DELIVERIES: [Delivery; 4] = [
    Delivery::Blocks {
        block_size_bytes: 256 << 10,
        block_count: 16,
        retire: Duration::from_millis(1),
    },
    SMALL_BLOCKS,
    Delivery::immediate(),
    Delivery::Frames {
        slot_size_bytes: 2048,
        slot_count: 8,
    },
];

fn open(interface: &str, delivery: Delivery) -> PacketSocket {
    let options = Options {
        delivery,
        ..Options::default()
    };
    PacketSocket::open(interface, options).unwrap()
}

/// A frame of an experimental protocol (IEEE 802 9.2.4) to another host's address.
fn frame(len: usize, tags: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    frame.extend_from_slice(tags);
    frame.extend_from_slice(&[0x88, 0xb5]);
    frame.extend((frame.len()..len).map(|index| (index * 7 + len) as u8));
    frame
}

fn slices(frames: &[Vec<u8>]) -> impl Iterator<Item = &[u8]> {
    frames.iter().map(Vec::as_slice)
}

/// Receives until there are `count` frames, each made whole.
fn receive(socket: &mut PacketSocket, count: usize) -> Vec<(Vec<u8>, RxInfo)> {
    let deadline = Deadline::new();
    let mut received = Vec::new();
    while received.len() < count {
        deadline.check("the arrival of all frames");
        // An odd limit, so that reading stops in the middle of blocks.
        let shown = socket.recv(7, |frame, info| {
            let mut whole = vec![0; 2048];
            let len = info.copy_frame(frame, &mut whole).unwrap();
            whole.truncate(len);
            received.push((whole, *info));
        });
        if shown.unwrap() == 0 {
            socket.wait(Duration::from_millis(100)).unwrap();
        }
    }
    received
}

#[test]
fn frames_of_every_length_arrive_unchanged_and_in_order() {
    isolated(
        "frames_of_every_length_arrive_unchanged_and_in_order",
        || {
            veth("a", "b");
            let mut sender = open("a", Delivery::default());
            for delivery in DELIVERIES {
                let mut receiver = open("b", delivery);
                let lens: Vec<usize> = (60..=1514).collect();
                // As many at once as the smallest ring holds.
                for lens in lens.chunks(6) {
                    let frames: Vec<_> = lens.iter().map(|&len| frame(len, &[])).collect();
                    let sent = sender.send(slices(&frames)).unwrap();
                    assert_eq!(
                        sent,
                        Sent {
                            taken: frames.len(),
                            rejected: 0
                        }
                    );
                    let received = receive(&mut receiver, frames.len());
                    for (sent, (received, info)) in frames.iter().zip(received) {
                        assert_eq!(*sent, received, "{delivery:?}");
                        assert_eq!(info.vlan, None);
                        assert!(info.timestamp > Duration::from_secs(1));
                    }
                }
                let statistics = receiver.statistics().unwrap();
                assert_eq!(statistics.packets, 1455, "{delivery:?}");
                assert_eq!(
                    (statistics.drops, statistics.malformed),
                    (0, 0),
                    "{delivery:?}"
                );
            }
        },
    );
}

#[test]
fn burst_longer_than_a_system_call_takes_is_sent_whole() {
    isolated(
        "burst_longer_than_a_system_call_takes_is_sent_whole",
        || {
            veth("a", "b");
            let options = Options {
                bypass_qdisc: true,
                ..Options::default()
            };
            let mut sender = PacketSocket::open("a", options).unwrap();
            let mut receiver = open("b", Delivery::default());
            let frames: Vec<_> = (60..160).map(|len| frame(len, &[])).collect();
            let sent = sender.send(slices(&frames)).unwrap();
            assert_eq!(
                sent,
                Sent {
                    taken: 100,
                    rejected: 0
                }
            );
            for (sent, (received, _)) in frames.iter().zip(receive(&mut receiver, 100)) {
                assert_eq!(*sent, received);
            }
            assert_eq!(sender.send([]).unwrap(), Sent::default());
        },
    );
}

#[test]
fn frame_that_does_not_fit_the_interface_is_rejected_and_the_others_pass() {
    let name = "frame_that_does_not_fit_the_interface_is_rejected_and_the_others_pass";
    isolated(name, || {
        veth("a", "b");
        let mut sender = open("a", Delivery::default());
        let mut receiver = open("b", Delivery::default());
        let frames = [frame(60, &[]), frame(1600, &[]), vec![1; 9], frame(61, &[])];
        let sent = sender.send(slices(&frames)).unwrap();
        assert_eq!(
            sent,
            Sent {
                taken: 4,
                rejected: 2
            }
        );
        let received = receive(&mut receiver, 2);
        assert_eq!(received[0].0, frames[0]);
        assert_eq!(received[1].0, frames[3]);
    });
}

#[test]
fn tagged_frames_keep_their_tags() {
    isolated("tagged_frames_keep_their_tags", || {
        veth("a", "b");
        let mut sender = open("a", Delivery::default());
        for delivery in DELIVERIES {
            let mut receiver = open("b", delivery);
            let frames = [
                frame(64, &[0x81, 0x00, 0xe0, 0x05]),
                frame(1518, &[0x81, 0x00, 0x0f, 0xff]),
                frame(100, &[0x88, 0xa8, 0x20, 0x07, 0x81, 0x00, 0x00, 0x09]),
                frame(64, &[0x81, 0x00, 0x00, 0x00]),
            ];
            assert_eq!(sender.send(slices(&frames)).unwrap().taken, 4);
            let received = receive(&mut receiver, 4);
            for (sent, (received, info)) in frames.iter().zip(&received) {
                assert_eq!(sent, received, "{delivery:?}");
                assert_eq!(info.frame_len, sent.len() - 4);
            }
            let tag = Vlan {
                tpid: 0x88a8,
                tci: 0x2007,
            };
            assert_eq!(received[2].1.vlan, Some(tag), "{delivery:?}");
        }
    });
}

#[test]
fn sent_frames_are_not_received() {
    isolated("sent_frames_are_not_received", || {
        veth("a", "b");
        let fanout = Some(Fanout {
            group: 7,
            mode: FanoutMode::FlowHash,
            rolls_over: true,
        });
        for fanout in [None, fanout] {
            let options = Options {
                fanout,
                ..Options::default()
            };
            let mut sender = PacketSocket::open("a", options).unwrap();
            let mut receiver = open("b", Delivery::default());
            let frames = vec![frame(60, &[]); 20];
            assert_eq!(sender.send(slices(&frames)).unwrap().taken, 20);
            receive(&mut receiver, 20);
            // What went the other way is the first that the sender sees.
            assert_eq!(receiver.send([&frame(77, &[])[..]]).unwrap().taken, 1);
            assert_eq!(receive(&mut sender, 1)[0].0, frame(77, &[]));
            assert_eq!(sender.statistics().unwrap().packets, 1);
        }
    });
}

#[test]
fn members_of_a_fanout_group_share_the_frames() {
    isolated("members_of_a_fanout_group_share_the_frames", || {
        veth("a", "b");
        let mut sender = open("a", Delivery::default());
        let options = Options {
            fanout: Some(Fanout {
                group: 1,
                mode: FanoutMode::RoundRobin,
                rolls_over: false,
            }),
            ..Options::default()
        };
        let mut one = PacketSocket::open("b", options).unwrap();
        let mut other = PacketSocket::open("b", options).unwrap();
        let frames = vec![frame(60, &[]); 20];
        assert_eq!(sender.send(slices(&frames)).unwrap().taken, 20);
        assert_eq!(
            receive(&mut one, 10).len() + receive(&mut other, 10).len(),
            20
        );
    });
}

#[test]
fn full_ring_drops_counts_and_recovers() {
    isolated("full_ring_drops_counts_and_recovers", || {
        veth("a", "b");
        let mut sender = open("a", Delivery::default());
        for delivery in [SMALL_BLOCKS, DELIVERIES[3]] {
            let mut receiver = open("b", delivery);
            let frames = vec![frame(1000, &[]); 64];
            assert_eq!(sender.send(slices(&frames)).unwrap().taken, 64);
            let deadline = Deadline::new();
            let mut statistics = receiver.statistics().unwrap();
            while statistics.packets < 64 {
                deadline.check("the count of all frames");
                receiver.wait(Duration::from_millis(1)).unwrap();
                statistics = receiver.statistics().unwrap();
            }
            assert_eq!(statistics.packets, 64);
            assert!((1..64).contains(&statistics.drops), "{statistics:?}");
            let is_blocks = matches!(delivery, Delivery::Blocks { .. });
            assert_eq!(statistics.freezes > 0, is_blocks, "{statistics:?}");

            let kept = usize::try_from(64 - statistics.drops).unwrap();
            for (received, _) in receive(&mut receiver, kept) {
                assert_eq!(received, frames[0]);
            }
            assert_eq!(sender.send([&frame(60, &[])[..]]).unwrap().taken, 1);
            assert_eq!(receive(&mut receiver, 1)[0].0, frame(60, &[]));
        }
    });
}

#[test]
fn frame_longer_than_its_slot_is_told() {
    isolated("frame_longer_than_its_slot_is_told", || {
        veth("a", "b");
        let mut sender = open("a", Delivery::default());
        let mut receiver = open(
            "b",
            Delivery::Frames {
                slot_size_bytes: 512,
                slot_count: 8,
            },
        );
        assert_eq!(sender.send([&frame(1000, &[])[..]]).unwrap().taken, 1);
        assert!(receiver.wait(netns::PATIENCE).unwrap());
        let shown = receiver.recv(1, |bytes, info| {
            assert_eq!(info.frame_len, 1000);
            assert_eq!(bytes, &frame(1000, &[])[..bytes.len()]);
            let copied = info.copy_frame(bytes, &mut [0; 2048]);
            assert_eq!(copied, Err(CopyError::Truncated));
        });
        assert_eq!(shown.unwrap(), 1);
    });
}

#[test]
fn interface_that_goes_down_is_named_and_may_come_back() {
    isolated(
        "interface_that_goes_down_is_named_and_may_come_back",
        || {
            veth("a", "b");
            let mut sender = open("a", Delivery::default());
            let mut receiver = open("b", Delivery::immediate());
            run("ip link set dev b down");
            let error = receiver.wait(netns::PATIENCE).unwrap_err();
            assert!(matches!(error, SocketError::InterfaceDown), "{error}");
            let error = receiver.send([&frame(60, &[])[..]]).unwrap_err();
            assert!(matches!(error, SocketError::InterfaceDown), "{error}");
            run("ip link set dev b up");
            let deadline = Deadline::new();
            // The carrier of a veth pair comes back a moment after the interface.
            while !receiver.wait(Duration::from_millis(10)).unwrap() {
                deadline.check("the way back up");
                sender.send([&frame(60, &[])[..]]).unwrap();
            }
            assert_eq!(receive(&mut receiver, 1)[0].0, frame(60, &[]));
        },
    );
}

#[test]
fn interface_that_is_deleted_is_named_for_good() {
    isolated("interface_that_is_deleted_is_named_for_good", || {
        veth("a", "b");
        let mut polled = open("b", Delivery::default());
        let mut busy = open("b", Delivery::default());
        run("ip link delete dev a");
        let deadline = Deadline::new();
        let error = loop {
            deadline.check("the end of the interface");
            match polled.wait(Duration::from_millis(100)) {
                Ok(_) | Err(SocketError::InterfaceDown) => {}
                Err(error) => break error,
            }
        };
        assert!(matches!(error, SocketError::InterfaceRemoved), "{error}");
        assert!(matches!(polled.check(), Err(SocketError::InterfaceRemoved)));
        let sent = polled.send([&frame(60, &[])[..]]);
        assert!(
            matches!(sent, Err(SocketError::InterfaceRemoved)),
            "{sent:?}"
        );
        // A busy loop learns it without poll(2).
        let told = (0..2048).find_map(|_| busy.recv(32, |_, _| ()).err());
        assert!(
            matches!(told, Some(SocketError::InterfaceRemoved)),
            "{told:?}"
        );
    });
}

#[test]
fn open_names_what_is_wrong() {
    isolated("open_names_what_is_wrong", || {
        let open = |name| PacketSocket::open(name, Options::default()).unwrap_err();
        for name in ["none", "", "a234567890123456"] {
            assert!(
                matches!(open(name), OpenError::NoInterface { .. }),
                "{name}"
            );
        }
        let error = without_capabilities(move || open("lo"));
        assert!(matches!(error, OpenError::NotPermitted { .. }), "{error}");
        run("ip tuntap add dev tun0 mode tun");
        let error = open("tun0");
        assert!(matches!(error, OpenError::NotEthernet { .. }), "{error}");
    });
}

#[test]
fn sockets_leave_no_descriptor_or_mapping_behind() {
    isolated("sockets_leave_no_descriptor_or_mapping_behind", || {
        veth("a", "b");
        let count = || {
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            let rings = maps.lines().filter(|line| line.contains("socket:")).count();
            (std::fs::read_dir("/proc/self/fd").unwrap().count(), rings)
        };
        let before = count();
        for delivery in DELIVERIES {
            let socket = open("a", delivery);
            assert_eq!(count(), (before.0 + 2, before.1 + 1));
            drop(socket);
            assert_eq!(count(), before);
        }
    });
}

/// Goal: the checksum that a UDP socket on the same host leaves to hardware is told and completed.
/// Method: sum the received datagram with its pseudo-header as a receiver does (RFC 768).
#[test]
fn partial_checksum_is_told_and_completed() {
    isolated("partial_checksum_is_told_and_completed", || {
        veth("a", "b");
        run("ip address add 10.0.0.1/24 dev a");
        run("ip neighbour add 10.0.0.2 lladdr 02:00:00:00:00:02 dev a");
        for delivery in DELIVERIES {
            let mut receiver = open("b", delivery);
            let socket = UdpSocket::bind((Ipv4Addr::new(10, 0, 0, 1), 0)).unwrap();
            socket.send_to(b"odd length!", ("10.0.0.2", 4789)).unwrap();
            let (frame, info) = receive(&mut receiver, 1).remove(0);
            assert_eq!(
                info.checksum,
                Checksum::Partial {
                    start: 34,
                    offset: 6
                }
            );
            let udp = &frame[34..];
            let mut sum = 17 + u32::try_from(udp.len()).unwrap();
            for pair in frame[26..34].chunks(2).chain(udp.chunks(2)) {
                let low = pair.get(1).copied().unwrap_or(0);
                sum += u32::from(u16::from_be_bytes([pair[0], low]));
            }
            assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "{delivery:?}");
        }
    });
}
