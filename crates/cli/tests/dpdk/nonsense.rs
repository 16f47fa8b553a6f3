//! Peers of memif and vhost-user that write what no honest one would. What DPDK and the port drop,
//! and a memif's memory that is not there, the chain outlives without a worker's end. What else
//! DPDK 22.11 falls over ends the port's worker, which is succeeded; the NFs beside it live on,
//! every buffer comes home, and an honest peer is served.

use rustix::event::EventfdFlags;

use super::guest::{self, Guest, Talk};
use super::host::{Host, House};
use super::memif::{self, Call, Listener, Memif, Way};
use super::peer::{Memory, Peer as _, bell, connected, is_served, outlives, wait};
use super::support::*;
use super::*;

/// What comes from the peer goes to a sink, and packets go to it all the time. As a group of its
/// own the port has a worker of its own, and no memory in common with others.
pub(crate) fn between(device: &str) -> String {
    let plugin = PLUGIN.as_ref().unwrap().display();
    format!(
        "
ports:
  left: {{ dpdk: {{ device: \"{device}\", plugin: \"{plugin}\" }}, group: outside }}
  in:   {{ generator: {{ rate: 20kpps, size: 64 }} }}
  out:  {{ sink: {{}} }}
nfs:
  to-left: {{ type: count }}
  to-out:  {{ type: macswap }}
links:
  - in -> to-left -> left
  - left -> to-out -> out
run: {{ mode: process }}
"
    )
}

fn deaths(status: &Value) -> u64 {
    number(&status["deaths"])
}

/// The chain at its end: nothing is lost, and nobody but the port's worker was ever succeeded, so
/// often at least.
fn assert_contained(status: &Value, deaths_min: u64) {
    assert_conserved(status);
    assert!(deaths(status) >= deaths_min, "{status:#}");
    let restarted = workers(status).filter(|worker| number(&worker["restarts"]) > 0);
    let names: Vec<_> = restarted.map(|worker| &worker["name"]).collect();
    assert_eq!(names.len(), usize::from(deaths(status) > 0), "{status:#}");
    assert!(names.iter().all(|name| **name == "ports"), "{status:#}");
}

fn until_full(chain: &Running) {
    let full = |now: &Value| counter(now, "left", "ring_full");
    let before = full(&chain.until("a status", |_| true));
    chain.until("what has no room is dropped", |now| full(now) > before);
}

fn honest(socket: &Path) -> Option<Memif> {
    Memif::call(socket, EventfdFlags::NONBLOCK)
}

type Write<P> = (&'static str, fn(&P));

/// DPDK bounds these, or the port does.
const DROPPED: [Write<Memif>; 5] = [
    ("lengths that no buffer holds, and none", |peer| {
        let lens = [0, 1, 0xffff, 0x1_0000, u32::MAX];
        peer.describe(peer.sends_by(), |slot, desc| memif::Desc {
            len: lens[usize::from(slot) % lens.len()],
            // As far from the end as DPDK reads: 16 bits.
            offset: memif::BUFFERS,
            ..desc
        });
        peer.advance(memif::RING);
    }),
    ("a packet without an end", |peer| {
        peer.describe(peer.sends_by(), |_, desc| memif::Desc {
            flags: memif::NEXT,
            ..desc
        });
        peer.advance(memif::RING);
    }),
    ("more descriptors than the ring has", |peer| {
        peer.advance(0x8001);
    }),
    ("fewer than before", |peer| peer.advance(u16::MAX)),
    ("flags that there are none", |peer| {
        peer.describe(peer.sends_by(), |_, desc| memif::Desc {
            flags: 0xfffe,
            ..desc
        });
        peer.advance(1);
    }),
];

#[test]
fn what_is_dropped_of_a_memif_costs_its_port_nothing_for_long() {
    if !can_run("what_is_dropped_of_a_memif_costs_its_port_nothing_for_long") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("m");
    let chain = Running::start("dpdk-dropped", &between(&memif(0, "server", &socket)));
    for (what, write) in DROPPED {
        let peer = connected(|| honest(&socket));
        write(&peer);
        assert!(outlives(what, &peer), "{what}: {}", chain.stderr());
        drop(peer);
        is_served(what, &chain, || honest(&socket));
    }
    // Room that is none: nothing can come, and what should is dropped.
    let peer = connected(|| honest(&socket));
    peer.describe(peer.receives_by(), |_, desc| memif::Desc { len: 0, ..desc });
    peer.take();
    until_full(&chain);
    drop(peer);
    misspeak(&socket);
    is_served("messages without sense", &chain, || honest(&socket));
    let status = chain.stop();
    assert_contained(&status, 0);
    assert_eq!(deaths(&status), 0, "{status:#}");
}

/// Says what the protocol does not have, or not then, or not with these numbers.
fn misspeak(socket: &Path) {
    let memory = Memory::new(memif::MEMORY_LEN);
    let region = |index| memif::add_region(index, memif::MEMORY_LEN);
    let ring = |index| memif::add_ring(Way::FromCaller, index, 0, memif::LOG2_RING);
    let connect = memif::message(memif::CONNECT, &[]);
    let version = memif::message(memif::INIT, &[&[9, 9], &[0; 5]]);
    let stranger = memif::message(memif::INIT, &[&[0, 2], &[9; 4], &[0]]);
    let known = |more: &[Vec<u8>]| [&[memif::init()], more].concat();
    for said in [
        vec![connect],
        vec![version],
        vec![stranger],
        vec![memif::message(99, &[])],
        vec![memif::init()[..5].to_vec()],
        known(&[region(300)]),
        known(&[region(1)]),
        known(&[region(0), region(0)]),
        known(&[region(0), ring(9)]),
        known(&[region(0), ring(u16::MAX)]),
    ] {
        wait("it listens to the end", || {
            let Some(call) = Call::new(socket) else {
                return false;
            };
            let answers = said.iter().map(|said| call.say(said, &memory.fd()));
            // All are heard, but perhaps for the last one.
            answers
                .take_while(|answer| *answer == Some(memif::ACK))
                .count()
                + 1
                >= said.len()
        });
    }
}

/// DPDK 22.11 goes where these point, and the plug-in leaves it there.
const FATAL: [Write<Memif>; 4] = [
    ("memory that was never given", |peer| {
        peer.describe(peer.sends_by(), |_, desc| memif::Desc { region: 7, ..desc });
        peer.advance(1);
    }),
    (BEHIND, |peer| {
        let offset = u32::MAX;
        peer.describe(peer.sends_by(), |_, desc| memif::Desc { offset, ..desc });
        peer.advance(1);
    }),
    ("room in memory that was never given", |peer| {
        peer.describe(peer.receives_by(), |_, desc| memif::Desc {
            region: 7,
            ..desc
        });
    }),
    ("memory that is taken away", |peer| {
        peer.memory.cut(4096);
        peer.advance(1);
    }),
];

/// Something else may lie there.
const BEHIND: &str = "a place behind the memory";

/// How often DPDK was left where a peer had sent it.
fn faults(chain: &Running) -> u64 {
    counter(&chain.until("a status", |_| true), "left", "peer_faults")
}

#[test]
fn a_memif_whose_memory_is_not_there_is_hung_up_on() {
    if !can_run("a_memif_whose_memory_is_not_there_is_hung_up_on") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("m");
    let chain = Running::start("dpdk-fatal", &between(&memif(0, "server", &socket)));
    for (what, write) in FATAL {
        let before = faults(&chain);
        let peer = connected(|| honest(&socket));
        write(&peer);
        let falls = !outlives(what, &peer);
        println!(
            "  {what}: {}",
            if falls { "hung up on" } else { "it went on" }
        );
        drop(peer);
        is_served(what, &chain, || honest(&socket));
        assert!(what == BEHIND || falls && faults(&chain) > before, "{what}");
    }
    let status = chain.stop();
    assert_contained(&status, 0);
    assert_eq!(deaths(&status), 0, "{status:#}");
}

/// Where DPDK stays for ever, until the supervisor has enough of it.
const ENDLESS: [Write<Memif>; 2] = [
    // Nobody rings it: whoever reads it waits.
    ("a bell that blocks", |peer| peer.want_bells()),
    // Empty pieces need no buffer, and the last one of the ring is followed by its first one.
    ("a packet of empty pieces that never ends", |peer| {
        peer.describe(peer.sends_by(), |_, desc| memif::Desc {
            flags: memif::NEXT,
            len: 0,
            ..desc
        });
        peer.advance(1);
    }),
];

#[test]
fn a_port_that_a_memif_holds_up_is_succeeded() {
    if !can_run("a_port_that_a_memif_holds_up_is_succeeded") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("m");
    let chain = Running::start("dpdk-held-up", &between(&memif(0, "server", &socket)));
    for (what, write) in ENDLESS {
        let peer = connected(|| Memif::call(&socket, EventfdFlags::empty()));
        write(&peer);
        assert!(!outlives(what, &peer));
        drop(peer);
        is_served(what, &chain, || honest(&socket));
    }
    assert_contained(&chain.stop(), 2);
}

/// The chain calls one who writes nonsense into the memory that the chain has made.
#[test]
fn ports_that_have_called_a_hostile_memif_call_the_next_one() {
    if !can_run("ports_that_have_called_a_hostile_memif_call_the_next_one") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("m");
    let listener = Listener::new(&socket);
    let chain = Running::start("dpdk-called", &between(&memif(0, "client", &socket)));
    let play = |(what, write): Write<Memif>| {
        let peer = connected(|| listener.answer());
        write(&peer);
        (outlives(what, &peer), what)
    };
    for case in DROPPED {
        let (outlived, what) = play(case);
        assert!(outlived, "{what}: {}", chain.stderr());
    }
    chain.until("the port has lived through these", |now| {
        assert_eq!(deaths(now), 0, "{now:#}");
        true
    });
    // What lies where DPDK is led to is chance: the peer is hung up on, or the worker ends.
    for case in &FATAL[..3] {
        play(*case);
    }
    is_served("a hostile listener", &chain, || listener.answer());
    assert_contained(&chain.stop(), 0);
}

/// What DPDK makes of these differs: the chain is the guest, whose memory is its host's.
const OF_HOSTS: [Write<Host>; 5] = [
    ("buffers that there are none", |host| {
        host.give(8, |_| (60_000, 76));
    }),
    ("one buffer again and again", |host| {
        host.give(8, |_| (0, 76));
    }),
    ("lengths beyond all memory", |host| {
        host.give(8, |id| (id, u32::MAX));
    }),
    ("packets of nothing", |host| host.give(8, |id| (id, 0))),
    ("more than the ring has", |host| {
        host.give(0x8001, |id| (id, 76));
    }),
];

#[test]
fn ports_that_are_guests_of_a_hostile_host_have_the_next_one() {
    if !can_run("ports_that_are_guests_of_a_hostile_host_have_the_next_one") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("v");
    let house = House::new(&socket);
    let device = format!("net_virtio_user0,path={}", socket.display());
    let mut chain = Running::idle("dpdk-hosted");
    chain.begin(&between(&device));
    let mut fallen = 0;
    for (what, write) in OF_HOSTS {
        let host = connected(|| house.answer());
        write(&host);
        let falls = !outlives(what, &host);
        println!("  {what}: {}", if falls { "it fell" } else { "it went on" });
        fallen += u64::from(falls);
    }
    is_served("a hostile host", &chain, || house.answer());
    // Who calls now waits for no answer.
    drop(house);
    assert_contained(&chain.stop(), fallen);
}

/// DPDK looks at what a guest's descriptors say.
const OF_GUESTS: [Write<Guest>; 7] = [
    ("descriptors that there are none", |guest| {
        for entry in 0..guest::RING {
            guest.offer(guest::SENDS, entry, 0xff00 + entry);
        }
        guest.advance(guest::RING);
    }),
    ("places outside the memory", |guest| {
        let places = [0, guest::PHYSICAL + guest::MEMORY_LEN - 8, u64::MAX];
        guest.describe(guest::SENDS, |slot, desc| guest::Desc {
            address: places[usize::from(slot) % places.len()],
            ..desc
        });
        guest.advance(guest::RING);
    }),
    ("lengths that no buffer holds, and none", |guest| {
        let lens = [0, 1, 12, 13, u32::MAX];
        guest.describe(guest::SENDS, |slot, desc| guest::Desc {
            len: lens[usize::from(slot) % lens.len()],
            ..desc
        });
        guest.advance(guest::RING);
    }),
    ("a packet without an end", |guest| {
        let flags = guest::NEXT;
        guest.describe(guest::SENDS, |slot, desc| guest::Desc {
            flags,
            next: slot,
            ..desc
        });
        guest.advance(guest::RING);
    }),
    ("a next descriptor that there is none", |guest| {
        let (flags, next) = (guest::NEXT, 60_000);
        guest.describe(guest::SENDS, |_, desc| guest::Desc {
            flags,
            next,
            ..desc
        });
        guest.advance(guest::RING);
    }),
    ("a table that nobody has agreed on", |guest| {
        let flags = guest::INDIRECT | guest::NEXT;
        guest.describe(guest::SENDS, |_, desc| guest::Desc { flags, ..desc });
        guest.advance(guest::RING);
    }),
    ("more descriptors than the ring has", |guest| {
        guest.advance(0x8001);
    }),
];

#[test]
fn what_a_guest_says_and_writes_costs_its_port_nothing_for_long() {
    if !can_run("what_a_guest_says_and_writes_costs_its_port_nothing_for_long") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("v");
    let device = format!("net_vhost0,iface={},queues=1", socket.display());
    let chain = Running::start("dpdk-guests", &between(&device));
    for (what, write) in OF_GUESTS {
        let guest = connected(|| Guest::call(&socket));
        write(&guest);
        assert!(outlives(what, &guest), "{what}: {}", chain.stderr());
        drop(guest);
        is_served(what, &chain, || Guest::call(&socket));
    }
    // Room that is none: nothing can come, and what should is dropped.
    let guest = connected(|| Guest::call(&socket));
    guest.describe(guest::RECEIVES, |slot, desc| guest::Desc {
        address: if slot % 2 == 0 { u64::MAX } else { 0 },
        ..desc
    });
    guest.take();
    until_full(&chain);
    drop(guest);
    misspeak_as_guest(&socket);
    is_served("messages without sense", &chain, || Guest::call(&socket));
    assert_eq!(deaths(&chain.until("a status", |_| true)), 0);

    // What is taken away nobody can read.
    let guest = connected(|| Guest::call(&socket));
    guest.memory.cut(guest::BUFFERS);
    let what = "memory that is taken away";
    assert!(!outlives(what, &guest));
    is_served(what, &chain, || Guest::call(&socket));
    let status = chain.stop();
    assert_contained(&status, 1);
    assert_eq!(deaths(&status), 1, "{status:#}");
}

/// Requests with tables and rings that cannot be.
fn misspeak_as_guest(socket: &Path) {
    use guest::{MEMORY_LEN, PHYSICAL, VIRTUAL, addresses, region, ring, words};
    let memory = Memory::new(MEMORY_LEN);
    let bell = bell(EventfdFlags::NONBLOCK);
    let talk = || {
        let mut found = None;
        wait("somebody listens", || {
            found = Talk::new(socket).filter(|talk| talk.introduce(&memory));
            found.is_some()
        });
        found.unwrap()
    };
    for table in [
        region([PHYSICAL, u64::MAX, VIRTUAL, 0]),
        region([u64::MAX, MEMORY_LEN, u64::MAX, u64::MAX]),
        region([PHYSICAL, MEMORY_LEN, VIRTUAL, u64::MAX - MEMORY_LEN]),
        region([PHYSICAL, 0, VIRTUAL, 0]),
        words(&[9; 40]),
        words(&[0]),
        Vec::new(),
    ] {
        let talk = talk();
        talk.say(guest::SET_MEM_TABLE, &table, &[&memory.fd()]);
        talk.answers();
    }
    for (request, payload) in [
        (guest::SET_VRING_NUM, ring(0, 0)),
        (guest::SET_VRING_NUM, ring(0, 65_535)),
        (guest::SET_VRING_NUM, ring(200, 64)),
        (guest::SET_VRING_BASE, ring(u32::MAX, 0)),
        (guest::SET_VRING_ADDR, addresses(0, [0; 3])),
        (
            guest::SET_VRING_ADDR,
            addresses(0, [VIRTUAL + MEMORY_LEN - 16; 3]),
        ),
        (guest::SET_VRING_ADDR, addresses(u32::MAX, [VIRTUAL; 3])),
        (guest::SET_FEATURES, words(&[u64::MAX])),
        (77, words(&[0; 8])),
    ] {
        let talk = talk();
        talk.say(request, &payload, &[]);
        // The ring that was spoken of is to start.
        talk.say(guest::SET_VRING_KICK, &words(&[0]), &[&bell]);
        talk.answers();
    }
    let talk = talk();
    talk.say_with_length(guest::SET_FEATURES, u32::MAX, &[7; 64], &[]);
    talk.answers();
}
