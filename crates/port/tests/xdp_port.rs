//! The `xdp` port on veth pairs, against the running kernel, in both modes.

#[path = "xdp_port/busy_poll.rs"]
mod busy_poll;
mod netns;
#[path = "xdp_port/steering.rs"]
mod steering;

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use catena_engine::nf::Nanos;
use catena_engine::pools::Pools;
use catena_engine::port::{Opening, PortError, TxBurst};
use catena_port::capture::CaptureReader;
use catena_port::port_bench::PortBench;
use catena_port::{packet_socket, xdp};
use catena_shm::pool::{PoolGeometry, PoolOwner};
use catena_shm::region::Sharing;
use netns::{Deadline, frame, isolated, run, veth, without_capabilities};
use serde_json::{Value, json};

const MODES: [&str; 2] = ["native", "generic"];

fn bench(config: &Value) -> Result<PortBench, PortError> {
    PortBench::open(&xdp::KIND, config, Path::new("."))
}

/// Opens the port; none, with a line that says why, where the kernel has no AF_XDP or no eBPF.
fn open(test: &str, config: &Value) -> Option<PortBench> {
    skipping(test, bench(config))
}

fn skipping(test: &str, opened: Result<PortBench, PortError>) -> Option<PortBench> {
    match opened {
        Err(PortError(why)) if why.contains("CONFIG_XDP") || why.contains("no permission") => {
            println!("SKIP {test}: {why}");
            None
        }
        opened => Some(opened.unwrap_or_else(|error| panic!("{error}"))),
    }
}

fn plain(interface: &str) -> PortBench {
    let config = json!({ "interface": interface, "delivery": "immediate" });
    PortBench::open(&packet_socket::KIND, &config, Path::new(".")).unwrap()
}

fn receive(bench: &mut PortBench, count: usize) -> Vec<Vec<u8>> {
    let deadline = Deadline::new();
    let mut packets = Vec::new();
    while packets.len() < count {
        if deadline.is_over() {
            let counted = bench.port().report();
            panic!("{} of {count} packets arrived: {counted:?}", packets.len());
        }
        packets.extend(bench.rx(7).packets);
    }
    packets
}

/// Lets the port work until nothing is kept any more.
fn settle(bench: &mut PortBench) {
    let deadline = Deadline::new();
    while bench.kept().0 > 0 {
        deadline.check("the completion of what was sent");
        bench.port().tx(&mut TxBurst::of(&mut []), Nanos(0));
        bench.reap();
    }
}

/// What the kernel says of the program on an interface.
fn has_program(interface: &str) -> bool {
    let shown = Command::new("ip")
        .args(["link", "show", "dev", interface])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    text.contains("xdp")
}

#[test]
fn packets_pass_both_ways_in_both_modes_and_nothing_is_left() {
    let test = "packets_pass_both_ways_in_both_modes_and_nothing_is_left";
    isolated(test, || {
        veth("a", "b");
        let mut b = plain("b");
        for mode in MODES {
            let config =
                json!({ "interface": "a", "mode": mode, "ring": 256, "busy_poll": "20us" });
            let Some(mut a) = open(test, &config) else {
                return;
            };
            assert!(has_program("a"), "{mode}");
            // Buffers are posted before packets come.
            a.reap();
            let frames: Vec<_> = (0..100)
                .map(|index| match index % 3 {
                    0 => frame(60 + index, &[]),
                    1 => frame(100 + index, &[0x81, 0, 0x20, 5]),
                    _ => frame(1514, &[]),
                })
                .collect();
            assert_eq!(b.tx(&frames), 100, "{mode}");
            assert_eq!(receive(&mut a, 100), frames, "{mode}");
            // More than a ring has entries, round and round.
            for round in 0..40 {
                assert_eq!(a.tx(&frames), 100, "{mode} {round}");
                assert_eq!(receive(&mut b, 100), frames, "{mode} {round}");
                settle(&mut a);
            }
            assert_eq!(a.kept(), (0, 4000, 0), "{mode}");
            for name in ["refused", "tx_invalid", "interface_down", "no_copy_buffer"] {
                assert_eq!(a.counter(name), 0, "{mode}: {name}");
            }
            // Of the smallest pool are those below 65 bytes, and are copied; others are not.
            let small = frames.iter().filter(|frame| frame.len() <= 64).count() as u64;
            assert_eq!(a.counter("copied_packets"), 40 * small, "{mode}");
            assert_eq!((a.counter("attached"), a.counter("detached")), (1, 0));
            assert_eq!(a.close(), Ok(()));
            assert_eq!((a.buffers_in_use(), b.buffers_in_use()), (0, 0), "{mode}");
            drop(a);
            assert!(!has_program("a"), "{mode}: the program is left");
        }
    });
}

/// A packet received by one port of a worker leaves by another one as it lies: both have shown the
/// same pool to the kernel, and not a byte is copied.
#[test]
fn two_ports_of_a_worker_share_one_pool() {
    let test = "two_ports_of_a_worker_share_one_pool";
    isolated(test, || {
        veth("a", "b");
        veth("c", "d");
        let (mut b, mut d) = (plain("b"), plain("d"));
        let config = json!({ "interface": "a", "ring": 128 });
        let Some(mut both) = open(test, &config) else {
            return;
        };
        both.join(&xdp::KIND, &json!({ "interface": "c", "ring": 128 }))
            .unwrap();
        both.reap();
        let frames: Vec<_> = (0..64).map(|index| frame(60 + 20 * index, &[])).collect();
        assert_eq!(b.tx(&frames), 64);
        let deadline = Deadline::new();
        let mut passed = Vec::new();
        while passed.len() < 64 {
            deadline.check("the passage of all packets");
            both.pass(32);
            passed.extend(d.rx(32).packets);
        }
        assert_eq!(passed, frames);
        assert_eq!(both.counter("copied_packets"), 0);
        both.close().unwrap();
        assert_eq!(both.buffers_in_use(), 0);
    });
}

/// Huge pages that a test makes; as many as before are left at its end.
struct HugePages {
    before: u64,
    /// Held while they are there: of two who restore the number, the later one must know the first.
    _alone: File,
}

impl HugePages {
    const COUNT: &str = "/proc/sys/vm/nr_hugepages";

    fn begin() -> io::Result<Self> {
        // Whoever may not finds out before it needs any.
        let alone = File::options().read(true).write(true).open(Self::COUNT)?;
        alone.lock()?;
        let before = fs::read_to_string(Self::COUNT)?.trim().parse();
        let before = before.map_err(|_| io::ErrorKind::InvalidData)?;
        Ok(Self {
            before,
            _alone: alone,
        })
    }

    fn make(&self, count: u64) {
        fs::write(Self::COUNT, (self.before + count).to_string()).unwrap();
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        let _ = fs::write(Self::COUNT, self.before.to_string());
    }
}

/// The memory that the kernel is shown lies on huge pages, where there are some: packets pass as
/// from others, without a copy.
#[test]
fn packets_lie_on_huge_pages() {
    let test = "packets_lie_on_huge_pages";
    isolated(test, || {
        veth("a", "b");
        let mut b = plain("b");
        let pages = match HugePages::begin() {
            Ok(pages) => pages,
            Err(why) => return println!("SKIP {test}: {}: {why}", HugePages::COUNT),
        };
        // Other tests take some too.
        let opened = (0..10).find_map(|tries| {
            pages.make(8 * tries);
            let mut bench = open(test, &json!({ "interface": "a", "ring": 128 }))?;
            if bench.lies_on_huge_pages() {
                return Some(bench);
            }
            bench.close().unwrap();
            None
        });
        let Some(mut a) = opened else {
            return println!("SKIP {test}: this machine has no room for huge pages");
        };
        a.reap();
        let frames: Vec<_> = (0..64).map(|index| frame(100 + 20 * index, &[])).collect();
        assert_eq!(b.tx(&frames), 64);
        assert_eq!(receive(&mut a, 64), frames);
        assert_eq!(a.tx(&frames), 64);
        assert_eq!(receive(&mut b, 64), frames);
        settle(&mut a);
        assert_eq!((a.counter("refused"), a.counter("copied_packets")), (0, 0));
        a.close().unwrap();
        assert_eq!(a.buffers_in_use(), 0);
    });
}

#[test]
fn a_removed_interface_is_attached_again_when_it_returns() {
    let test = "a_removed_interface_is_attached_again_when_it_returns";
    isolated(test, || {
        veth("a", "b");
        let Some(mut a) = open(test, &json!({ "interface": "a" })) else {
            return;
        };
        a.reap();
        assert!(a.buffers_in_use() > 0, "buffers are posted");
        run("ip link delete dev b");
        let deadline = Deadline::new();
        while a.port().poll_fd().is_some() {
            deadline.check("the loss of the interface");
            a.now = Nanos(a.now.0 + 200_000_000);
            a.rx(8);
        }
        assert_eq!((a.counter("detached"), a.buffers_in_use()), (1, 0));
        assert_eq!(a.tx(&[frame(60, &[]), frame(61, &[])]), 0);
        assert_eq!(a.counter("interface_down"), 2);
        assert!(a.port().poll_fd().is_none());
        veth("a", "b");
        let mut b = plain("b");
        let deadline = Deadline::new();
        while a.port().poll_fd().is_none() {
            deadline.check("the return of the interface");
            a.now = Nanos(a.now.0 + 200_000_000);
            a.rx(8);
        }
        assert_eq!(a.counter("attached"), 2);
        a.reap();
        assert_eq!(b.tx(&[frame(77, &[])]), 1);
        assert_eq!(receive(&mut a, 1), [frame(77, &[])]);
        assert_eq!(a.tx(&[frame(78, &[])]), 1);
        assert_eq!(receive(&mut b, 1), [frame(78, &[])]);
        settle(&mut a);
        a.close().unwrap();
        assert_eq!(a.buffers_in_use(), 0);
        let (_, sent, failed) = a.kept();
        assert_eq!((sent, failed), (1, 0));
    });
}

#[test]
fn an_interface_that_is_down_works_again_when_it_comes_up() {
    let test = "an_interface_that_is_down_works_again_when_it_comes_up";
    isolated(test, || {
        veth("a", "b");
        let Some(mut a) = open(test, &json!({ "interface": "a", "mode": "generic" })) else {
            return;
        };
        let mut b = plain("b");
        run("ip link set dev a down");
        // The first finds out, the next is counted; neither blocks the chain.
        a.tx(&[frame(60, &[])]);
        assert_eq!(a.tx(&[frame(60, &[])]), 0);
        assert_eq!(a.counter("interface_down"), 1);
        run("ip link set dev a up");
        let deadline = Deadline::new();
        loop {
            deadline.check("the way back up");
            a.now = Nanos(a.now.0 + 200_000_000);
            a.reap();
            a.tx(&[frame(62, &[])]);
            if b.rx(8).packets.contains(&frame(62, &[])) {
                break;
            }
        }
        a.close().unwrap();
        assert_eq!((a.buffers_in_use(), a.kept().0), (0, 0));
    });
}

/// What is wrong is said in one line with what to do, and leaves nothing behind.
#[test]
fn what_cannot_be_opened_is_said_with_a_repair() {
    let test = "what_cannot_be_opened_is_said_with_a_repair";
    isolated(test, || {
        veth("a", "b");
        veth("down", "other");
        run("ip link set dev down down");
        run("ip link add name wide type veth peer name wider");
        run("ip link set dev wide mtu 9000 up");
        run("ip link add name more type veth peer name most");
        run("ip link set dev more mtu 3000 up");
        run("ip link set dev wider up");
        run("ip link set dev most up");
        let Some(mut taken) = open(test, &json!({ "interface": "b" })) else {
            return;
        };
        let cases = [
            (json!({ "interface": "none" }), "no interface 'none'"),
            (json!({ "interface": "down" }), "`ip link set dev down up`"),
            (json!({ "interface": "wide" }), "mtu 3822"),
            (json!({ "interface": "more" }), "buffers: { 4KiB: 4096 }"),
            (
                json!({ "interface": "a", "queue": 9 }),
                "has no queue 9: it has 1",
            ),
            (
                json!({ "interface": "a", "bind": "zero_copy" }),
                "refuses zero-copy",
            ),
            (json!({ "interface": "b" }), "queue 0 of 'b' is in use"),
            (
                json!({ "interface": "b", "steer": { "vlans": [4] } }),
                "`ip link set dev b xdp off`",
            ),
        ];
        for (config, part) in cases {
            assert!((xdp::KIND.check)(&config).is_ok(), "{config}");
            let error = bench(&config).unwrap_err().0;
            assert!(error.contains(part), "{config}: {error}");
            assert!(!error.contains('\n'), "{error}");
            assert!(
                !has_program("a") && !has_program("more"),
                "{config} left a program"
            );
        }
        let error = without_capabilities(|| bench(&json!({ "interface": "a" })).unwrap_err().0);
        assert!(error.contains("CAP_NET_ADMIN"), "{error}");
        let none = Opening::alone(Path::new("."));
        let error = (xdp::KIND.open)(&json!({ "interface": "a" }), &none)
            .err()
            .unwrap();
        assert!(error.0.contains("in a worker that runs"), "{error}");
        taken.close().unwrap();
    });
}

/// Two queues of an interface, opened one after the other as two workers do, take part in one
/// program; it goes with the last of them.
#[test]
fn queues_of_an_interface_share_the_program() {
    let test = "queues_of_an_interface_share_the_program";
    isolated(test, || {
        run(
            "ip link add name a numrxqueues 2 numtxqueues 2 type veth peer name b numrxqueues 2 \
             numtxqueues 2",
        );
        run("ip link set dev a up");
        run("ip link set dev b up");
        let config = json!({ "interface": "a", "mode": "native" });
        let Some(first) = open(test, &config) else {
            return;
        };
        let queue = |index| {
            let mut config = config.clone();
            config["queue"] = json!(index);
            bench(&config)
        };
        let second = queue(1).unwrap();
        let error = queue(2).unwrap_err().0;
        assert!(error.contains("has no queue 2"), "{error}");
        drop(first);
        assert!(has_program("a"), "the second one keeps it");
        let again = queue(0).unwrap();
        drop(second);
        assert!(has_program("a"));
        drop(again);
        assert!(!has_program("a"));
    });
}

/// Where the worker has little memory for packets, receiving waits for buffers and goes on.
#[test]
fn without_buffers_packets_are_counted_and_reception_recovers() {
    let test = "without_buffers_packets_are_counted_and_reception_recovers";
    isolated(test, || {
        veth("a", "b");
        let Some(mut a) = open(test, &json!({ "interface": "a", "ring": 64 })) else {
            return;
        };
        a.exhaust(1000);
        let mut b = plain("b");
        // Nothing is posted: the kernel says so, in its statistics.
        assert_eq!(b.tx(&vec![frame(60, &[]); 8]), 8);
        let deadline = Deadline::new();
        while a.counter("rx_fill_ring_empty") + a.counter("rx_dropped") == 0 {
            deadline.check("the kernel's count");
            a.now = Nanos(a.now.0 + 200_000_000);
            assert!(a.rx(8).packets.is_empty());
        }
        a.relieve(usize::MAX);
        a.reap();
        assert_eq!(b.tx(&[frame(62, &[])]), 1);
        assert_eq!(receive(&mut a, 1), [frame(62, &[])]);
        a.close().unwrap();
        assert_eq!(a.buffers_in_use(), 0);
    });
}

/// A wrapper may hand over packets of memory of its own: they are sent as copies, and the buffers
/// of the copies are used again.
#[test]
fn packets_without_their_pool_are_copied() {
    let test = "packets_without_their_pool_are_copied";
    isolated(test, || {
        veth("a", "b");
        let pool = || {
            let geometry = PoolGeometry {
                log2_stride: 11,
                buffer_count: 512,
                headroom: 64,
                bundles: false,
            };
            PoolOwner::create(1, geometry, Sharing::ReadWrite).unwrap()
        };
        let pools = Pools::new(vec![pool()]);
        let memory = [pools.own()[0].device_memory()];
        let opening = Opening {
            is_wrapped: true,
            receives: false,
            pools: &memory,
            ..Opening::alone(Path::new("."))
        };
        let config = json!({ "interface": "a" });
        let opened = PortBench::open_with(&xdp::KIND, &config, &opening, pools);
        let Some(mut a) = skipping(test, opened) else {
            return;
        };
        assert!(!has_program("a"), "a port that only sends takes nothing in");
        let mut b = plain("b");
        let mut theirs = pool();
        for round in 0..20 {
            a.reap();
            let room = a.port().tx_room(Nanos(0)).min(100);
            let mut packets: Vec<_> = (0..room).map_while(|_| theirs.alloc(60)).collect();
            for packet in &mut packets {
                packet.bytes_mut().copy_from_slice(&frame(60, &[]));
            }
            assert_eq!(packets.len(), 100, "round {round}");
            assert_eq!(a.port().tx(&mut TxBurst::of(&mut packets), Nanos(0)), 100);
            packets.into_iter().for_each(|packet| theirs.free(packet));
            assert_eq!(receive(&mut b, 100), vec![frame(60, &[]); 100]);
        }
        assert_eq!((a.counter("copied_packets"), a.kept().0), (2000, 0));
        a.close().unwrap();
        assert_eq!(a.buffers_in_use(), 0);
    });
}

/// tcpdump on the other side sees what the port sent, byte by byte, in both modes.
#[test]
fn tcpdump_sees_what_was_sent() {
    let test = "tcpdump_sees_what_was_sent";
    if Command::new("tcpdump").arg("--version").output().is_err() {
        println!("SKIP {test}: no 'tcpdump' on this machine");
        return;
    }
    isolated(test, || {
        veth("a", "b");
        let frames: Vec<_> = (0..20).map(|index| frame(70 + index, &[])).collect();
        for mode in MODES {
            let Some(mut a) = open(test, &json!({ "interface": "a", "mode": mode })) else {
                return;
            };
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("seen.pcap");
            let mut tcpdump = tcpdump("b", frames.len(), &file);
            assert_eq!(a.tx(&frames), frames.len(), "{mode}");
            settle(&mut a);
            assert!(tcpdump.wait().unwrap().success());
            let mut reader = CaptureReader::open(&file).unwrap();
            let mut packets = Vec::new();
            while let Some(record) = reader.next().unwrap() {
                packets.push(record.data.to_vec());
            }
            assert_eq!(packets, frames, "{mode}");
            a.close().unwrap();
        }
    });
}

/// tcpdump that listens, and ends when it has written so many frames of the tests' protocol.
fn tcpdump(interface: &str, count: usize, file: &Path) -> Child {
    let mut tcpdump = Command::new("tcpdump")
        .args(["-i", interface, "-c", &count.to_string()])
        .args(["--immediate-mode", "-U", "-Z", "root", "-w"])
        .arg(file)
        .args(["ether", "proto", "0x88b5"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(tcpdump.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("listening on") {
        line.clear();
        let read = errors.read_line(&mut line).unwrap();
        assert!(read > 0, "tcpdump has ended");
    }
    tcpdump
}
