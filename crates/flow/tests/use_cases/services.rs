// SPDX-License-Identifier: Apache-2.0
//! Dynamic NAT, quotas of subscribers, and a cache in front of a key-value store.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

use super::bench::Bench;
use super::packet::{
    SYN, TCP, UDP, ends, is_sealed, packet, payload, quoted, tcp, udp, unreachable,
};
use super::random::Random;
use super::terminals::tunnelled;

const PUBLIC: [u8; 4] = [192, 0, 2, 1];

fn public(port: u16) -> SocketAddr {
    SocketAddr::from((PUBLIC, port))
}

fn nat(ports: u32) -> Bench {
    let text = include_str!("../../programs/dynamic_nat.yaml");
    Bench::new(&text.replace("64512", &ports.to_string()))
}

#[test]
fn a_flow_gets_a_port_of_its_own_and_answers_find_it() {
    let mut bench = nat(64512);
    let far = SocketAddr::from(([10, 0, 0, 200], 53));
    for protocol in [TCP, UDP] {
        let make = |src, dst| match protocol {
            TCP => tcp(src, dst, (1, 0), SYN, &[]),
            _ => udp(src, dst, b"question"),
        };
        let host = SocketAddr::from(([10, 0, 0, 1], 5000));
        let passed = bench.pass(0, &make(host, far));
        assert_eq!(
            (&*passed.verdict, is_sealed(&passed.bytes)),
            ("outside", true)
        );
        let (given, to) = ends(&passed.bytes);
        assert_eq!((given.ip(), to), (IpAddr::from(PUBLIC), far));
        // The same one whoever it speaks to, and whoever answers.
        let other = SocketAddr::from(([10, 0, 0, 201], 99));
        assert_eq!(ends(&bench.pass(0, &make(host, other)).bytes).0, given);
        let back = bench.pass(1, &make(other, given));
        assert_eq!((&*back.verdict, is_sealed(&back.bytes)), ("inside", true));
        assert_eq!(ends(&back.bytes), (other, host));
        // A router outside says something of what went there.
        let error = unreachable([10, 0, 0, 254].into(), &passed.bytes);
        let back = bench.pass(1, &error);
        assert_eq!((&*back.verdict, is_sealed(&back.bytes)), ("inside", true));
        assert_eq!(ends(&back.bytes).1.ip(), host.ip());
        assert_eq!(ends(&quoted(&back.bytes)), (host, far));
        // Ports that are nobody's, or a flow's of the other protocol.
        assert_eq!(
            bench.one(1, &make(far, public(given.port() + 1))),
            "!unasked"
        );
        assert_eq!(bench.one(1, &make(far, public(80))), "!unasked");
        let wrong = match protocol {
            TCP => udp(far, given, &[]),
            _ => tcp(far, given, (1, 0), SYN, &[]),
        };
        assert_eq!(bench.one(1, &wrong), "!unasked");
    }
}

#[test]
fn ports_are_given_back_and_never_given_twice() {
    const PORTS: u64 = 40;
    let mut bench = nat(PORTS as u32);
    let mut random = Random(21);
    // Who has which port, and when it was used last.
    let mut model: BTreeMap<SocketAddr, (u16, u64)> = BTreeMap::new();
    let (mut refused, mut opened) = (0, 0);
    for _ in 0..4000 {
        bench.wait(random.below(8_000_000_000));
        let now = bench.now_ns;
        model.retain(|_, (_, used)| now - *used < 300_000_000_000);
        let host = SocketAddr::from(([10, 0, 0, random.below(20) as u8], random.below(6) as u16));
        let passed = bench.pass(
            0,
            &packet(UDP, (host.ip().octet(), host.port()), (200, 53), 0),
        );
        if passed.verdict == "!no_port" {
            assert_eq!(model.len() as u64, PORTS);
            refused += 1;
            continue;
        }
        let port = ends(&passed.bytes).0.port();
        assert!((1024..1024 + PORTS as u16).contains(&port));
        let others = model.iter().filter(|(other, _)| **other != host);
        assert!(others.into_iter().all(|(_, (taken, _))| *taken != port));
        if let Some((known, _)) = model.insert(host, (port, now)) {
            assert_eq!(known, port, "it keeps its port");
        } else {
            opened += 1;
        }
        let back = bench.pass(
            1,
            &udp(SocketAddr::from(([10, 0, 0, 200], 53)), public(port), &[]),
        );
        assert_eq!(ends(&back.bytes).1, host);
    }
    assert!(refused > 100 && opened > 5 * PORTS, "{refused} {opened}");
}

trait Octet {
    fn octet(&self) -> u8;
}

impl Octet for IpAddr {
    /// The last one.
    fn octet(&self) -> u8 {
        match self {
            Self::V4(address) => address.octets()[3],
            Self::V6(address) => address.octets()[15],
        }
    }
}

#[test]
fn a_subscriber_has_a_quota_both_ways_together() {
    let mut bench = Bench::new(include_str!("../../programs/vepc_quota.yaml"));
    let up = |host| tunnelled(&packet(UDP, (host, 5), (1, 53), 0), (1, 2), 11, None);
    let down = |host| tunnelled(&packet(UDP, (1, 53), (host, 5), 0), (2, 1), 22, Some(5));
    assert_eq!(bench.one(0, &up(8)), "!unknown_subscriber");
    // Packets of 28 bytes in their tunnel, and ten of them.
    bench.set("quota", u128::from(0x0a00_0007_u32), &[280]);
    for number in 0..10 {
        let is_up = number % 2 == 0;
        let passed = match is_up {
            true => bench.pass(0, &up(7)),
            false => bench.pass(1, &down(7)),
        };
        assert_eq!(passed.verdict, if is_up { "core" } else { "radio" });
        assert_eq!(passed.bytes, if is_up { up(7) } else { down(7) });
        let told = bench.simulation.events().len();
        assert_eq!(
            told,
            usize::from(number == 8),
            "at more than four fifths, once"
        );
    }
    assert_eq!(bench.one(0, &up(7)), "!quota_spent");
    assert_eq!(bench.one(1, &down(7)), "!quota_spent");
    bench.set("quota", u128::from(0x0a00_0007_u32), &[308]);
    assert_eq!(bench.one(1, &down(7)), "radio");
    assert_eq!(bench.one(1, &down(7)), "!quota_spent");
    // Signalling passes.
    assert_eq!(bench.one(0, &packet(UDP, (7, 5), (1, 53), 0)), "core");
    bench.wait(30 * 86_400_000_000_000 + 1_000_000_000);
    assert_eq!(bench.one(1, &down(7)), "radio");
}

const GET: u8 = 1;
const PUT: u8 = 2;
const VALUE: u8 = 3;
const STORED: u8 = 4;

fn message(src: SocketAddr, dst: SocketAddr, kind: u8, key: u128, value: u128) -> Vec<u8> {
    let parts = [&[kind][..], &key.to_be_bytes(), &value.to_be_bytes()];
    udp(src, dst, &parts.concat())
}

fn read(frame: &[u8]) -> (u8, u128, u128) {
    let bytes = payload(frame);
    let number = |at: usize| u128::from_be_bytes(bytes[at..at + 16].try_into().unwrap());
    (bytes[0], number(1), number(17))
}

#[test]
fn the_cache_answers_what_it_has_been_told() {
    let mut bench = Bench::new(include_str!("../../programs/kvs_cache.yaml"));
    let (client, store) = (
        SocketAddr::from(([10, 0, 0, 1], 5000)),
        SocketAddr::from(([10, 0, 0, 2], 9000)),
    );
    let get = message(client, store, GET, 7, 0);
    assert_eq!(bench.pass(0, &get).bytes, get);
    assert_eq!(
        bench.one(1, &message(store, client, VALUE, 7, 70)),
        "clients"
    );
    let passed = bench.pass(0, &get);
    assert_eq!(
        (&*passed.verdict, is_sealed(&passed.bytes)),
        ("clients", true)
    );
    assert_eq!(ends(&passed.bytes), (store, client));
    assert_eq!(read(&passed.bytes), (VALUE, 7, 70));
    assert_eq!(passed.bytes[..12], [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    // Another key, and after a minute this one too, is the store's.
    assert_eq!(bench.one(0, &message(client, store, GET, 8, 0)), "store");
    bench.wait(61_000_000_000);
    assert_eq!(bench.one(0, &get), "store");
    assert_eq!(bench.one(0, &packet(UDP, (1, 5), (2, 53), 0)), "store");
}

/// A store behind a path that keeps its order, and clients that do not wait for each other.
#[test]
fn nobody_who_has_seen_a_put_gets_an_older_value() {
    let mut bench = Bench::new(include_str!("../../programs/kvs_cache.yaml"));
    let mut random = Random(31);
    let store_at = SocketAddr::from(([10, 0, 0, 2], 9000));
    let mut store: BTreeMap<u128, u128> = BTreeMap::new();
    let (mut to_store, mut to_clients) = (VecDeque::new(), VecDeque::new());
    // The last value of each key that some client knows to be stored, and answers that are due.
    let mut known: BTreeMap<u128, u128> = BTreeMap::new();
    let mut least: BTreeMap<(u16, u128), VecDeque<u128>> = BTreeMap::new();
    let (mut version, mut from_cache, mut asked) = (0, 0, 0);
    for step in 0..20_000_u64 {
        bench.wait(1_000_000);
        match random.below(4) {
            0 => {
                let key = random.below(5) as u128;
                // Each get by a port of its own, so that answers are told apart.
                let port = 1000 + (step % 50_000) as u16;
                let client = SocketAddr::from(([10, 0, 0, 1], port));
                let is_put = random.below(4) == 0;
                let frame = if is_put {
                    version += 1;
                    message(client, store_at, PUT, key, version)
                } else {
                    asked += 1;
                    let least_now = known.get(&key).copied().unwrap_or(0);
                    least.entry((port, key)).or_default().push_back(least_now);
                    message(client, store_at, GET, key, 0)
                };
                let passed = bench.pass(0, &frame);
                match passed.verdict.as_str() {
                    "store" => to_store.push_back(passed.bytes),
                    "clients" => {
                        from_cache += 1;
                        check(&passed.bytes, &mut least);
                    }
                    other => panic!("{other}"),
                }
            }
            1 | 2 => {
                let Some(frame) = to_store.pop_front() else {
                    continue;
                };
                let ((from, to), (kind, key, value)) = (ends(&frame), read(&frame));
                let answer = match kind {
                    PUT => {
                        store.insert(key, value);
                        message(to, from, STORED, key, value)
                    }
                    _ => message(to, from, VALUE, key, store.get(&key).copied().unwrap_or(0)),
                };
                to_clients.push_back(answer);
            }
            _ => {
                let Some(frame) = to_clients.pop_front() else {
                    continue;
                };
                let passed = bench.pass(1, &frame);
                assert_eq!(passed.verdict, "clients");
                let (kind, key, value) = read(&passed.bytes);
                if kind == STORED {
                    known.insert(key, value);
                } else {
                    check(&passed.bytes, &mut least);
                }
            }
        }
    }
    assert!(from_cache > asked / 10, "{from_cache} of {asked}");
    let keys: BTreeSet<u128> = store.into_keys().collect();
    assert_eq!(keys.len(), 5);
}

/// An answer to a get is not older than what was known when it was asked for.
fn check(frame: &[u8], least: &mut BTreeMap<(u16, u128), VecDeque<u128>>) {
    let (port, (kind, key, value)) = (ends(frame).1.port(), read(frame));
    assert_eq!(kind, VALUE);
    let due = least.get_mut(&(port, key)).and_then(VecDeque::pop_front);
    let due = due.expect("nobody asked");
    assert!(value >= due, "key {key}: {value} after {due}");
}
