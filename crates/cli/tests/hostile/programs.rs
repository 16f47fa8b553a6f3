//! Hostile worker programs: what speaks to the supervisor instead of a worker of this project.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use catena_engine::load::Load;
use catena_engine::pools::Pools;
use catena_engine::protocol::{FromWorker, RegionName, ToWorker, VERSION};
use catena_engine::worker::build::{Making, page_layout};
use catena_engine::worker::graph::Graph;
use catena_engine::worker::node_memory::Brought;
use catena_engine::worker::serve::serve;
use catena_shm::counters::Counters;
use catena_shm::region::{Region, Sharing};
use catena_shm::{bell, fd_passing};

use crate::registry;

/// Packets that a keeper keeps.
pub(crate) const GREED: usize = 700;

/// This binary as a worker.
pub(crate) fn work(label: &str) {
    let socket = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let token = std::env::var("CATENA_TOKEN").unwrap();
    let lie = label
        .strip_prefix("lie-")
        .and_then(|rest| rest.strip_suffix("/mid"));
    match (lie, label.strip_suffix("/evil")) {
        (Some(lie), _) => tell_lie(&socket, &token, lie),
        (_, Some("deaf")) => {
            let _regions = take_part(&socket, &token);
            std::thread::park();
        }
        (_, Some("undead")) => {
            let _regions = take_part(&socket, &token);
            // Until it is asked something.
            fd_passing::receive(&socket).unwrap();
            let ports = Vec::new();
            say(&socket, &FromWorker::Stopped { ports }, &[]);
            std::thread::park();
        }
        (_, Some(chain)) if chain.starts_with("keep-") => keep(&socket, &token, chain),
        _ => drop(serve(socket, &token, &registry())),
    }
}

/// Comes up as an honest worker does.
fn take_part(socket: &OwnedFd, token: &str) -> (Graph, Pools, Arc<Counters>) {
    let hello = FromWorker::Hello {
        version: VERSION,
        token: token.to_owned(),
    };
    say(socket, &hello, &[]);
    let mut making = None;
    loop {
        let message = fd_passing::receive(socket).unwrap().unwrap();
        let fd = message.fds.into_iter().next();
        match serde_json::from_slice(&message.bytes).unwrap() {
            ToWorker::Assign(assignment) => {
                let made = Making::start(*assignment, Brought::default(), &registry()).unwrap();
                for (region, len, fd) in made.made() {
                    say(socket, &FromWorker::Made { region, len }, &[fd]);
                }
                let notices = Vec::new();
                say(socket, &FromWorker::AllMade { notices }, &[]);
                making = Some(made);
            }
            ToWorker::Attach { region, len, start } => {
                let making = making.as_mut().unwrap();
                making.attach(region, len, start, fd.unwrap()).unwrap();
            }
            ToWorker::Start => break,
            other => panic!("{other:?}"),
        }
    }
    let built = making.unwrap().finish().unwrap();
    say(socket, &FromWorker::Started, &[]);
    (built.graph, built.pools, built.counters)
}

/// Passes packets on, but keeps every other one until it has enough, and says that it is done with
/// all of them. Then ends as its chain's name says.
fn keep(socket: &OwnedFd, token: &str, chain: &str) {
    let (mut graph, mut pools, _counters) = take_part(socket, token);
    let (mut taken, mut passed, mut kept) = (Load::default(), Load::default(), 0);
    let mut seen = 0_u64;
    loop {
        let has_room = graph.tx_links_mut().all(|link| link.room(64, 1) >= 64);
        for link in graph.rx_links_mut().filter(|_| has_room) {
            link.pull(64, &mut pools, &mut taken, false);
        }
        for packet in taken.packets.drain(..) {
            seen += 1;
            if kept < GREED && seen.is_multiple_of(2) {
                // Neither sent on nor freed.
                kept += 1;
            } else {
                passed.packets.push(packet);
            }
        }
        for link in graph.tx_links_mut() {
            passed.count_bytes();
            link.send(&mut passed, &mut pools);
        }
        pools.publish_returns();
        graph.rx_links_mut().for_each(|link| link.commit());
        graph.tx_links_mut().for_each(|link| link.settle());
        pools.settle_return_lanes();
        bell::full_fence();
        graph.tx_links_mut().for_each(|link| link.wake_peer());
        graph.rx_links_mut().for_each(|link| link.wake_peer());
        pools.wake_owners();
        if kept == GREED && !chain.contains("stays") {
            if chain.contains("lies") {
                say(socket, &FromWorker::Started, &[]);
                std::thread::park();
            }
            return;
        }
        std::thread::yield_now();
    }
}

fn say(socket: &OwnedFd, record: &FromWorker, fds: &[std::os::fd::BorrowedFd<'_>]) {
    let bytes = serde_json::to_vec(record).unwrap();
    // The supervisor may have had enough.
    let _ = fd_passing::send(socket, &bytes, fds);
}

fn tell_lie(socket: &OwnedFd, token: &str, lie: &str) {
    let page = Region::create("catena-lie", 4096, Sharing::ReadOnly).unwrap();
    let token = if lie == "token" { "guess" } else { token };
    let hello = FromWorker::Hello {
        version: VERSION + u32::from(lie == "version"),
        token: token.to_owned(),
    };
    match lie {
        "garbage" => drop(fd_passing::send(socket, b"{\"Hello\":", &[])),
        "descriptor" => say(socket, &hello, &[page.fd()]),
        _ => say(socket, &hello, &[]),
    }
    if let Ok(Some(message)) = fd_passing::receive(socket)
        && let Ok(ToWorker::Assign(assignment)) = serde_json::from_slice(&message.bytes)
    {
        let link = assignment.rings[0].link;
        let made = |region| FromWorker::Made { region, len: 4096 };
        let unsealed = || {
            let flags = rustix::fs::MemfdFlags::ALLOW_SEALING;
            let fd = rustix::fs::memfd_create("catena-lie", flags).unwrap();
            rustix::fs::ftruncate(&fd, 4096).unwrap();
            fd
        };
        match lie {
            "descriptors" => say(socket, &made(RegionName::Counters), &[page.fd(), page.fd()]),
            "seals" => {
                let tail = made(RegionName::LinkConsumer(link));
                say(socket, &tail, &[unsealed().as_fd()]);
            }
            "size" => {
                let (region, len) = (RegionName::Counters, 8192);
                say(socket, &FromWorker::Made { region, len }, &[page.fd()]);
            }
            "short" => say(
                socket,
                &made(RegionName::LinkProducer(link + 1)),
                &[page.fd()],
            ),
            // Sealed, and far larger than planned: it costs nothing to make.
            "vast" => {
                let len = 1 << 40;
                let flags = rustix::fs::MemfdFlags::ALLOW_SEALING;
                let fd = rustix::fs::memfd_create("catena-lie", flags).unwrap();
                rustix::fs::ftruncate(&fd, len).unwrap();
                let seals = rustix::fs::SealFlags::SHRINK | rustix::fs::SealFlags::GROW;
                let seals = seals | rustix::fs::SealFlags::FUTURE_WRITE;
                rustix::fs::fcntl_add_seals(&fd, seals | rustix::fs::SealFlags::SEAL).unwrap();
                let (region, len) = (RegionName::Counters, usize::try_from(len).unwrap());
                say(socket, &FromWorker::Made { region, len }, &[fd.as_fd()]);
            }
            "twice" => {
                let bytes = page_layout(&assignment).word_count() * 8;
                for _ in 0..2 {
                    let fd = Region::create("catena-lie", bytes, Sharing::ReadOnly).unwrap();
                    let (region, len) = (RegionName::Counters, fd.len());
                    say(socket, &FromWorker::Made { region, len }, &[fd.fd()]);
                }
            }
            "foreign" => say(socket, &made(RegionName::Pool(0)), &[page.fd()]),
            "nothing" => say(
                socket,
                &FromWorker::AllMade {
                    notices: Vec::new(),
                },
                &[],
            ),
            "early" => say(socket, &FromWorker::Started, &[]),
            _ => {}
        }
    }
    // Until it is ended.
    while let Ok(Some(_)) = fd_passing::receive(socket) {}
    std::thread::park();
}
