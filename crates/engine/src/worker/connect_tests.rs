//! Handshakes over the loopback, with the right words and with wrong ones.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);
const LINK: usize = 5;

fn secret(question: &str) -> LinkSecret {
    LinkSecret {
        link: LINK,
        question: question.to_owned(),
        answer: "0123456789abcdef".to_owned(),
    }
}

/// A connector with an epoll instance of its own.
fn connector(question: &str, doors: Vec<Door>) -> Connector {
    let watch = Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC).unwrap());
    Connector::new(watch, vec![secret(question)], doors).unwrap()
}

fn receiver() -> (Connector, SocketAddrV4) {
    let door = Door::open(LINK, Bind::Loopback).unwrap();
    let address = door.address;
    (connector("fedcba9876543210", vec![door]), address)
}

/// What has happened to the sockets of `connector`, waited for shortly.
fn pump(connector: &mut Connector) -> Vec<Joined> {
    let mut events = Vec::with_capacity(8);
    let time = rustix::event::Timespec {
        tv_sec: 0,
        tv_nsec: 1_000_000,
    };
    let space = rustix::buffer::spare_capacity(&mut events);
    epoll::wait(&*connector.watch, space, Some(&time)).unwrap();
    let mut joined = Vec::new();
    for event in &events {
        joined.extend(connector.serve(event.data.u64()));
    }
    connector.retry();
    joined
}

fn join(sender: &mut Connector, receiver: &mut Connector) -> (Arc<OwnedFd>, Arc<OwnedFd>) {
    let deadline = Instant::now() + PATIENCE;
    let (mut from, mut to) = (None, None);
    while Instant::now() < deadline {
        for joined in pump(sender).into_iter().chain(pump(receiver)) {
            match joined {
                Joined::Send(LINK, Some(socket)) => from = Some(socket),
                Joined::Receive(LINK, socket) => to = Some(socket),
                other => panic!("{other:?}"),
            }
        }
        if let (Some(from), Some(to)) = (&from, &to) {
            return (from.clone(), to.clone());
        }
    }
    panic!("no connection");
}

#[test]
fn the_right_words_join_two_workers_and_a_successor_is_found() {
    let (mut receiver, address) = receiver();
    let mut sender = connector("fedcba9876543210", Vec::new());
    assert!(sender.call(LINK, address).is_none());
    let (from, to) = join(&mut sender, &mut receiver);
    rustix::io::write(&from, b"chunk").unwrap();
    let mut got = [0; 16];
    let deadline = Instant::now() + PATIENCE;
    loop {
        match rustix::io::read(&to, &mut got[..]) {
            Ok(count) => break assert_eq!(&got[..count], b"chunk"),
            Err(error) => assert!(error == Errno::AGAIN && Instant::now() < deadline),
        }
    }
    // The receiver dies; its successor listens elsewhere.
    drop((to, receiver));
    let deadline = Instant::now() + PATIENCE;
    let mut is_down = false;
    while !is_down {
        assert!(Instant::now() < deadline);
        let joined = pump(&mut sender);
        is_down = matches!(joined[..], [Joined::Send(LINK, None)]);
    }
    drop(from);
    let (mut successor, address) = self::receiver();
    assert!(sender.call(LINK, address).is_none());
    join(&mut sender, &mut successor);
}

#[test]
fn strangers_get_nothing_and_keep_nobody_out() {
    let (mut receiver, address) = receiver();
    // Some say nothing, some the wrong thing, some half of the right one.
    let mut silent = Vec::new();
    for at in 0..2 * STRANGERS_MAX {
        let mut stranger = TcpStream::connect(address).unwrap();
        match at % 3 {
            0 => {}
            1 => stranger.write_all(b"fedcba9876543211 and more").unwrap(),
            _ => stranger.write_all(b"fedcba98").unwrap(),
        }
        silent.push(stranger);
        // One by one: the kernel keeps those who wait for a full queue waiting for minutes.
        assert!(pump(&mut receiver).is_empty());
    }
    let mut sender = connector("fedcba9876543210", Vec::new());
    sender.call(LINK, address);
    join(&mut sender, &mut receiver);
    assert!(receiver.strangers.len() <= STRANGERS_MAX);
    // Whoever said the wrong word has been hung up on, without a word.
    let mut answer = Vec::new();
    let end = silent[1].read_to_end(&mut answer);
    assert!(matches!(end, Ok(0) | Err(_)) && answer.is_empty());
}

#[test]
fn a_sender_does_not_take_somebody_else_for_its_receiver() {
    let mut thief = connector("fedcba9876543210", Vec::new());
    thief.secrets[0].answer = "0123456789abcdeX".to_owned();
    let mut door = Door::open(LINK, Bind::Loopback).unwrap();
    door.event = thief.register(&door.socket, EventFlags::IN).unwrap();
    let address = door.address;
    thief.doors.push(door);
    let mut sender = connector("fedcba9876543210", Vec::new());
    sender.call(LINK, address);
    let mut refused = 0;
    let deadline = Instant::now() + PATIENCE;
    while refused < 3 {
        assert!(Instant::now() < deadline);
        let waited = matches!(sender.calls[0].stage, Stage::Waiting(_));
        assert!(pump(&mut sender).is_empty(), "it believes anybody");
        pump(&mut thief);
        let waits = matches!(sender.calls[0].stage, Stage::Waiting(_));
        refused += usize::from(waits && !waited);
    }
    assert!(sender.due_in().is_some_and(|due| due <= RETRY_MAX));
}

#[test]
fn words_are_compared_whole() {
    assert!(is_same(b"abc", b"abc"));
    assert!(!is_same(b"abc", b"abd") && !is_same(b"ab", b"abc") && !is_same(b"", b"abc"));
}
