//! TCP between two hosts over a pair of packet sockets: what a chain at a veth pair meets.

mod netns;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use catena_port::packet_socket::{CopyError, Delivery, Options, PacketSocket};
use netns::{Deadline, Host, has, isolated, run, veth};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Passes whatever waits from one socket to the other; says whether a frame awaited segmentation.
fn relay(from: &mut PacketSocket, to: &mut PacketSocket) -> bool {
    let mut frames = Vec::new();
    let mut awaits_segmentation = false;
    let shown = from.recv(64, |frame, info| {
        let mut whole = vec![0; 2048];
        match info.copy_frame(frame, &mut whole) {
            Ok(len) => frames.push(whole[..len].to_vec()),
            Err(CopyError::Segmentation) => awaits_segmentation = true,
            Err(error) => panic!("{error}"),
        }
    });
    shown.unwrap();
    // A full queue loses frames here; TCP sends them again.
    to.send(frames.iter().map(Vec::as_slice)).unwrap();
    awaits_segmentation
}

/// Sends 1 MiB by TCP from one namespace to another over two packet sockets, until it has arrived
/// or a frame awaits segmentation; says whether one did.
fn transfer(delivery: Delivery, with_segmentation_offload: bool) -> bool {
    let (client, server) = (Host::new(), Host::new());
    veth("a", "ahost");
    veth("b", "bhost");
    client.adopt("ahost", "10.0.0.1/24");
    server.adopt("bhost", "10.0.0.2/24");
    if !with_segmentation_offload {
        client.run("ethtool -K ahost tso off gso off tx-udp-segmentation off");
        server.run("ethtool -K bhost tso off gso off tx-udp-segmentation off");
    }
    let options = Options {
        delivery,
        ..Options::default()
    };
    let mut a = PacketSocket::open("a", options).unwrap();
    let mut b = PacketSocket::open("b", options).unwrap();

    let (listening, is_listening) = mpsc::channel();
    let receiver = server.spawn(move || {
        let listener = TcpListener::bind("10.0.0.2:80").unwrap();
        listening.send(()).unwrap();
        let mut received = Vec::new();
        let mut stream = listener.accept().unwrap().0;
        stream.read_to_end(&mut received).unwrap();
        received
    });
    is_listening.recv().unwrap();
    let payload: Vec<u8> = (0..1_u32 << 20).map(|index| (index >> 3) as u8).collect();
    let to_send = payload.clone();
    let sender = client.spawn(move || {
        let mut stream = TcpStream::connect("10.0.0.2:80").unwrap();
        stream.write_all(&to_send).unwrap();
    });

    let deadline = Deadline::new();
    while !receiver.is_finished() {
        deadline.check("the end of the transfer");
        if relay(&mut a, &mut b) | relay(&mut b, &mut a) {
            // Both threads end with the process of this test.
            return true;
        }
        let mut polled = [
            PollFd::new(&a, PollFlags::IN),
            PollFd::new(&b, PollFlags::IN),
        ];
        let timeout = Timespec::try_from(Duration::from_millis(10)).unwrap();
        poll(&mut polled, Some(&timeout)).unwrap();
    }
    sender.join().unwrap();
    assert!(receiver.join().unwrap() == payload, "{delivery:?}");
    run("ip link delete dev a");
    run("ip link delete dev b");
    false
}

#[test]
fn tcp_passes_between_two_hosts() {
    isolated("tcp_passes_between_two_hosts", || {
        if has("tcp_passes_between_two_hosts", &["ethtool", "nsenter"]) {
            for delivery in [Delivery::default(), Delivery::immediate()] {
                assert!(!transfer(delivery, false), "{delivery:?}");
            }
        }
    });
}

#[test]
fn segmentation_left_to_hardware_is_told() {
    isolated("segmentation_left_to_hardware_is_told", || {
        if has("segmentation_left_to_hardware_is_told", &["nsenter"]) {
            assert!(transfer(Delivery::default(), true));
        }
    });
}
