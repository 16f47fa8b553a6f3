//! That the kernel is called only where it asks for that (need-wakeup). A test stands in its place:
//! it has the rings as a file, sets their flags, and hears every call at the other end of a pair of
//! sockets. No interface, no driver and no rights are needed; those of a veth pair always ask.

use std::os::fd::{AsFd, OwnedFd};

use catena_engine::pools::Pools;
use catena_shm::pool::{PoolGeometry, PoolOwner};
use catena_shm::region::Sharing;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::{Errno, pread, pwrite};
use rustix::net::xdp::XdpRingOffset;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};

use super::super::bpf::Mode;
use super::super::config::BindMode;
use super::super::program::Steering;
use super::super::sys::Incoming;
use super::*;
use crate::port_bench::PortBench;

/// Entries of each ring, which has a page to itself.
const RING: u32 = 64;
const PAGE: u64 = 4096;
const AT: XdpRingOffset = XdpRingOffset {
    producer: 0,
    consumer: 64,
    desc: 192,
    flags: Some(128),
};
const FILL: u64 = 0;
const COMPLETION: u64 = PAGE;
const RX: u64 = 2 * PAGE;
const TX: u64 = 3 * PAGE;
const NEED_WAKEUP: u32 = 1;
/// Messages that wait where the port calls to receive; each call takes one.
const WAITING: usize = 8;

/// What a test has in the kernel's place.
struct StandIn {
    rings: OwnedFd,
    /// Hears calls to send.
    ear: OwnedFd,
    /// The port's end, to see which messages it has left.
    socket: OwnedFd,
}

impl StandIn {
    fn set_flags(&self, ring: u64, flags: u32) {
        let at = ring + AT.flags.unwrap();
        assert_eq!(pwrite(&self.rings, &flags.to_ne_bytes(), at), Ok(4));
    }

    /// Entries that were published to the transmit ring.
    fn published(&self) -> u32 {
        let mut word = [0; 4];
        assert_eq!(pread(&self.rings, &mut word, TX + AT.producer), Ok(4));
        u32::from_ne_bytes(word)
    }

    /// Calls to send since it was last asked.
    fn tx_calls(&self) -> usize {
        messages(&self.ear)
    }

    /// Calls to receive while `body` ran.
    fn rx_calls(&self, body: impl FnOnce()) -> usize {
        for _ in 0..WAITING {
            send(&self.ear, &[], SendFlags::DONTWAIT).unwrap();
        }
        body();
        WAITING - messages(&self.socket)
    }
}

/// Takes all messages that wait there.
fn messages(socket: &OwnedFd) -> usize {
    let nothing: &mut [u8] = &mut [];
    let mut count = 0;
    loop {
        match recv(socket, &mut *nothing, RecvFlags::DONTWAIT) {
            Ok(_) => count += 1,
            Err(Errno::AGAIN) => return count,
            Err(error) => panic!("{error}"),
        }
    }
}

fn bench(busy_poll_us: Option<u32>) -> (PortBench, StandIn) {
    let rings = memfd_create("rings", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&rings, 4 * PAGE).unwrap();
    let (fd, ear) = socketpair(
        AddressFamily::UNIX,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .unwrap();
    let file = rings.as_fd();
    let mapped = (
        Outgoing::map(file, FILL, &AT, RING).unwrap(),
        Incoming::map(file, COMPLETION, &AT, RING).unwrap(),
        Some(Incoming::map(file, RX, &AT, RING).unwrap()),
        Some(Outgoing::map(file, TX, &AT, RING).unwrap()),
    );
    let geometry = PoolGeometry {
        log2_stride: 11,
        buffer_count: 256,
        headroom: 64,
        bundles: false,
    };
    let pool = PoolOwner::create(1, geometry, Sharing::ReadWrite).unwrap();
    let pools = Pools::new(vec![pool]);
    let stand_in = StandIn {
        ear,
        socket: fd.try_clone().unwrap(),
        rings,
    };
    let port = XdpPort {
        lending: Lending::new(pools.own()[0].device_memory()),
        socket: Some(Socket::of_rings(fd, mapped)),
        is_closed: false,
        is_down: false,
        // There is no interface to look at.
        next_look: Nanos(u64::MAX),
        counts: Counts::default(),
        settings: Settings {
            interface: "none".to_owned(),
            queue: 0,
            mode: Mode::Auto,
            bind: BindMode::Auto,
            ring: RING,
            busy_poll_us,
            promiscuous: false,
            steering: Steering::default(),
            receives: true,
            sends: true,
            is_wrapped: false,
        },
    };
    (PortBench::with_pools(Box::new(port), pools), stand_in)
}

fn counted(bench: &PortBench) -> [u64; 3] {
    ["rx_calls", "tx_calls", "calls_spared"].map(|name| bench.counter(name))
}

#[test]
fn the_kernel_is_called_to_send_only_where_it_asks_for_it() {
    let (mut bench, kernel) = bench(None);
    assert_eq!(bench.tx(&[[1; 60]; 3]), 3);
    assert_eq!((kernel.published(), kernel.tx_calls()), (3, 0));
    assert_eq!(counted(&bench), [0, 0, 1]);
    kernel.set_flags(TX, NEED_WAKEUP);
    // It takes nothing, so it is not called again before the next turn.
    assert_eq!(bench.tx(&[[1; 60]; 2]), 2);
    assert_eq!((kernel.published(), kernel.tx_calls()), (5, 1));
    assert_eq!(counted(&bench), [0, 1, 1]);
    kernel.set_flags(TX, 0);
    assert_eq!(bench.tx(&[[1; 60]; 1]), 1);
    assert_eq!((kernel.published(), kernel.tx_calls()), (6, 0));
    assert_eq!(counted(&bench), [0, 1, 2]);
    bench.close().unwrap();
    assert_eq!(bench.buffers_in_use(), 0);
}

#[test]
fn the_kernel_is_called_to_receive_only_where_it_asks_for_it() {
    let (mut bench, kernel) = bench(None);
    let calls = kernel.rx_calls(|| {
        for _ in 0..3 {
            assert!(bench.rx(4).packets.is_empty());
        }
    });
    assert_eq!((calls, counted(&bench)), (0, [0, 0, 3]));
    kernel.set_flags(FILL, NEED_WAKEUP);
    let calls = kernel.rx_calls(|| {
        for _ in 0..2 {
            assert!(bench.rx(4).packets.is_empty());
        }
    });
    assert_eq!((calls, counted(&bench)), (2, [2, 0, 3]));
    bench.close().unwrap();
}

/// With busy polling a call does the driver's work: it is made whether the kernel asks or not.
#[test]
fn with_busy_polling_the_kernel_is_called_in_any_case() {
    let (mut bench, kernel) = bench(Some(20));
    let calls = kernel.rx_calls(|| {
        for _ in 0..3 {
            assert!(bench.rx(4).packets.is_empty());
        }
    });
    assert_eq!((calls, counted(&bench)), (3, [3, 0, 0]));
    bench.close().unwrap();
}
