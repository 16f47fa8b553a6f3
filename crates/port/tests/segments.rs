//! Packets that are still to be cut, against the running kernel: what is cut here is what it cuts,
//! what is carried arrives as it was sent, and several queues share what arrives.

mod netns;

use std::path::Path;

use catena_engine::nf::DropReason;
use catena_engine::port::{Opening, PortKind};
use catena_port::packet_socket::{self, Checksum, Options, PacketSocket, VNET_HEADER_LEN};
use catena_port::port_bench::PortBench;
use catena_port::tap;
use catena_wire::checksum::Sum;
use netns::{Deadline, has, isolated, receive, run, veth};
use serde_json::{Value, json};

const SIZE: u16 = 1300;
const PAYLOAD: usize = 60_001;

/// A large packet as a host leaves it to a network card, and the header that says so.
fn large(is_v6: bool, is_tcp: bool) -> ([u8; VNET_HEADER_LEN], Vec<u8>) {
    let protocol = if is_tcp { 6 } else { 17 };
    let (l3_len, l4_header_len) = (if is_v6 { 40 } else { 20 }, if is_tcp { 32 } else { 8 });
    let l4_len = u16::try_from(PAYLOAD + l4_header_len)
        .unwrap()
        .to_be_bytes();
    let mut packet = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    let addresses = if is_v6 {
        vec![0xfd; 32]
    } else {
        vec![198, 18, 0, 1, 198, 18, 0, 2]
    };
    if is_v6 {
        packet.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        packet.extend(l4_len);
        packet.extend([protocol, 64]);
    } else {
        let total = u16::try_from(20 + PAYLOAD + l4_header_len).unwrap();
        packet.extend([8, 0, 0x45, 0]);
        packet.extend(total.to_be_bytes());
        packet.extend([0xff, 0xf0, 0x40, 0, 64, protocol, 0, 0]);
    }
    packet.extend(&addresses);
    if !is_v6 {
        let checksum = Sum::of(&packet[14..34]).checksum();
        packet[24..26].copy_from_slice(&checksum.to_be_bytes());
    }
    let pseudo = Sum::of(&addresses) + Sum::of(&[0, protocol]) + Sum::of(&l4_len);
    let seed = (!pseudo.checksum()).to_be_bytes();
    packet.extend([0x1f, 0x90, 0x23, 0x28]);
    if is_tcp {
        // Sequence numbers that wrap; ACK, PSH and FIN; a time stamp.
        packet.extend([0xff, 0xff, 0xf0, 0, 0, 0, 0, 7, 0x80, 0x19, 0xff, 0xff]);
        packet.extend(seed);
        packet.extend([0, 0, 1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8]);
    } else {
        packet.extend(l4_len);
        packet.extend(seed);
    }
    packet.extend((0..PAYLOAD).map(|at| ((at * 7) >> 2) as u8));
    let kind = match (is_tcp, is_v6) {
        (true, false) => 1,
        (true, true) => 4,
        (false, _) => 5,
    };
    let mut header = [0; VNET_HEADER_LEN];
    (header[0], header[1]) = (1, kind);
    let field = if is_tcp { 16 } else { 6 };
    let fields = [
        14 + l3_len + l4_header_len,
        usize::from(SIZE),
        14 + l3_len,
        field,
    ];
    for (place, value) in header[2..].chunks_mut(2).zip(fields) {
        place.copy_from_slice(&u16::try_from(value).unwrap().to_ne_bytes());
    }
    (header, packet)
}

fn host(interface: &str) -> PacketSocket {
    let options = Options {
        carries: true,
        ..Options::default()
    };
    PacketSocket::open(interface, options).unwrap()
}

fn open(kind: &'static PortKind, config: &Value) -> PortBench {
    PortBench::open(kind, config, Path::new(".")).unwrap()
}

/// Goal: segments are those that the kernel makes. Method: the same packet through a veth pair that
/// leaves it whole, and through one that cuts it.
#[test]
fn what_is_cut_here_is_what_the_kernel_cuts() {
    let test = "what_is_cut_here_is_what_the_kernel_cuts";
    if !has(test, &["ethtool"]) {
        return;
    }
    isolated(test, || {
        veth("a", "b");
        let mut a = host("a");
        let mut b = open(&packet_socket::KIND, &json!({ "interface": "b" }));
        let count = PAYLOAD.div_ceil(usize::from(SIZE));
        let kinds = [(false, true), (true, true), (false, false), (true, false)];
        let here: Vec<_> = kinds
            .iter()
            .map(|&(is_v6, is_tcp)| {
                let (header, packet) = large(is_v6, is_tcp);
                let sent = a.send_open([(header, &packet[..])]).unwrap();
                assert_eq!((sent.taken, sent.rejected), (1, 0));
                receive(&mut b, count)
            })
            .collect();
        assert_eq!(b.counter("cut_apart"), 4);
        assert_eq!(b.counter("segments"), 4 * count as u64);
        run("ethtool -K a tso off tx-udp-segmentation off");
        for (here, (is_v6, is_tcp)) in here.iter().zip(kinds) {
            let (header, packet) = large(is_v6, is_tcp);
            assert_eq!(a.send_open([(header, &packet[..])]).unwrap().taken, 1);
            let kernel = receive(&mut b, count);
            for (index, (here, kernel)) in here.iter().zip(&kernel).enumerate() {
                assert!(here == kernel, "v6 {is_v6} tcp {is_tcp}: segment {index}");
            }
        }
        assert_eq!(b.counter("cut_apart"), 4);
        assert_eq!(b.drops_total(), 0);
        assert_eq!(b.buffers_in_use(), 0);
    });
}

/// Sends a large packet into `bench` by one interface, and gives what comes out at the other.
fn cross(bench: &mut PortBench, from: &str, to: &str, is_v6: bool, is_tcp: bool) {
    let (mut sender, mut receiver) = (host(from), host(to));
    let (header, packet) = large(is_v6, is_tcp);
    assert_eq!(sender.send_open([(header, &packet[..])]).unwrap().taken, 1);
    let deadline = Deadline::new();
    while bench.pass(8) == 0 {
        deadline.check("the packet on its way");
    }
    assert!(receiver.wait(netns::PATIENCE).unwrap());
    let mut seen = 0;
    let shown = receiver.recv(8, |bytes, info| {
        assert!(bytes == packet, "changed on the way");
        let segmentation = info.segmentation.unwrap();
        assert_eq!(
            (segmentation.kind, segmentation.segment_size),
            (header[1], SIZE)
        );
        assert!(matches!(info.checksum, Checksum::Partial { .. }));
        seen += 1;
    });
    assert_eq!((shown.unwrap(), seen), (1, 1));
}

#[test]
fn what_is_carried_leaves_as_it_came() {
    isolated("what_is_carried_leaves_as_it_came", || {
        veth("a", "b");
        veth("c", "d");
        let config = |name: &str| json!({ "interface": name, "segments": "carry" });
        let mut bench = open(&packet_socket::KIND, &config("b"));
        bench.join(&packet_socket::KIND, &config("c")).unwrap();
        for (is_v6, is_tcp) in [(false, true), (true, true), (false, false), (true, false)] {
            cross(&mut bench, "a", "d", is_v6, is_tcp);
        }
        assert_eq!(bench.counter("carried"), 4);
        assert_eq!(bench.counter("cut_apart"), 0);
        // Without a large buffer it is cut.
        bench.exhaust(PAYLOAD);
        let (header, packet) = large(false, true);
        assert_eq!(
            host("a").send_open([(header, &packet[..])]).unwrap().taken,
            1
        );
        let mut passed = 0;
        let deadline = Deadline::new();
        while passed < PAYLOAD.div_ceil(SIZE.into()) {
            deadline.check("all segments");
            passed += bench.pass(8);
        }
        assert_eq!(bench.counter("cut_apart"), 1);
        bench.relieve(usize::MAX);
        assert_eq!(bench.drops_total(), 0);
    });
}

#[test]
fn a_tap_carries_too() {
    isolated("a_tap_carries_too", || {
        let config = |name: &str| json!({ "name": name, "segments": "carry" });
        let mut bench = open(&tap::KIND, &config("t0"));
        bench.join(&tap::KIND, &config("t1")).unwrap();
        for is_v6 in [false, true] {
            cross(&mut bench, "t0", "t1", is_v6, true);
        }
        assert_eq!(bench.counter("carried"), 2);
        assert_eq!((bench.counter("rejected"), bench.drops_total()), (0, 0));
        // They stay where they were read: more of 1,000 bytes than there are large buffers do not.
        let (header, packet) = large(false, false);
        let short = |len: u16| {
            let mut packet = packet[..usize::from(len)].to_vec();
            packet[16..18].copy_from_slice(&(len - 14).to_be_bytes());
            packet
        };
        let many = vec![short(1000); 20];
        let mut sender = host("t0");
        let frames = many.iter().map(|frame| ([0; VNET_HEADER_LEN], &frame[..]));
        assert_eq!(sender.send_open(frames).unwrap().taken, 20);
        let received = receive(&mut bench, 20);
        assert!(received == many && bench.drops_total() == 0);
        // Without a large buffer a large one is lost, and others pass.
        bench.exhaust(PAYLOAD);
        let (large, small) = ((header, &packet[..]), ([0; VNET_HEADER_LEN], &many[0][..]));
        assert_eq!(sender.send_open([large, small]).unwrap().taken, 2);
        assert_eq!(receive(&mut bench, 1), many[..1]);
        assert_eq!(
            (bench.drops(DropReason::NoBuffer), bench.drops_total()),
            (1, 1)
        );
        // With one there is room for it, behind a small one that does not keep it.
        bench.relieve(1);
        assert_eq!(sender.send_open([small, large]).unwrap().taken, 2);
        let both = receive(&mut bench, 2);
        assert_eq!((both[0].len(), both[1].len()), (1000, packet.len()));
        assert_eq!(bench.drops_total(), 1);
        bench.relieve(usize::MAX);
        assert_eq!(bench.buffers_in_use(), 0);
    });
}

/// Both queues of a port get some of many flows, and together all of them.
#[test]
fn queues_share_what_arrives() {
    isolated("queues_share_what_arrives", || {
        veth("a", "b");
        for (kind, config, from) in [
            (&packet_socket::KIND, json!({ "interface": "b" }), "a"),
            (&tap::KIND, json!({ "name": "t0" }), "t0"),
        ] {
            assert!((kind.check)(&config).unwrap().queues_max > 1);
            let mut queues = [0, 1].map(|queue| {
                let opening = Opening {
                    queue,
                    queues: 2,
                    ..Opening::alone(Path::new("."))
                };
                PortBench::new((kind.open)(&config, &opening).unwrap())
            });
            let mut sender = host(from);
            let (_, packet) = large(false, false);
            for flow in 0..64 {
                let mut packet = packet[..100].to_vec();
                packet[16..18].copy_from_slice(&86_u16.to_be_bytes());
                packet[33] = flow;
                let sent = sender
                    .send_open([([0; VNET_HEADER_LEN], &packet[..])])
                    .unwrap();
                assert_eq!(sent.taken, 1);
            }
            let mut counts = [0, 0];
            let deadline = Deadline::new();
            while counts[0] + counts[1] < 64 {
                deadline.check("all packets");
                for (queue, count) in queues.iter_mut().zip(&mut counts) {
                    *count += queue.rx(8).packets.len();
                }
            }
            assert!(counts[0] > 0 && counts[1] > 0, "{} {counts:?}", kind.name);
        }
        let opening = Opening {
            queues: 2,
            ..Opening::alone(Path::new("."))
        };
        let refusal = (tap::KIND.open)(&json!({ "name": "t%d" }), &opening)
            .err()
            .unwrap();
        assert!(refusal.0.contains("without '%'"), "{refusal}");
    });
}
