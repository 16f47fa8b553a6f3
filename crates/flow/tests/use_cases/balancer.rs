// SPDX-License-Identifier: Apache-2.0
//! The balancer: schedulers, drain, health, both families, ICMP errors, the ends of connections,
//! and that no live connection moves while its server lives.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use catena_flow::program::maglev::share_out;

use super::bench::Bench;
use super::packet::{ACK, FIN, RST, SYN, ends, is_sealed, quoted, tcp, udp, unreachable};
use super::random::Random;

pub(crate) const CLIENTS: u8 = 0;
pub(crate) const SERVERS: u8 = 1;
pub(crate) const ROUND_ROBIN: u128 = 0;
pub(crate) const MAGLEV: u128 = 1;
pub(crate) const LEAST: u128 = 2;
/// The element that has the flows.
const FLOWS: usize = 3;
/// First sequence numbers of either side.
pub(crate) const C: u32 = 0xffff_fff0;
pub(crate) const S: u32 = 0x7000_0000;

pub(crate) fn balancer() -> Bench {
    let text = include_str!("../../programs/balancer.yaml");
    Bench::new(&text.replace("flows: 1000000", "flows: 8192"))
}

/// The service, to a client of its family.
pub(crate) fn service(client: SocketAddr) -> SocketAddr {
    match client.ip() {
        IpAddr::V4(_) => SocketAddr::from(([10, 0, 0, 100], 80)),
        IpAddr::V6(_) => "[2001:db8::100]:80".parse().unwrap(),
    }
}

/// A server's address for clients of a family.
pub(crate) fn server(number: u8, client: SocketAddr) -> SocketAddr {
    match client.ip() {
        IpAddr::V4(_) => SocketAddr::from(([10, 0, 1, number + 1], 8080)),
        IpAddr::V6(_) => {
            let address = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, u16::from(number) + 1);
            SocketAddr::from((address, 8080))
        }
    }
}

/// Weight and life of a server, as an operator sets them.
pub(crate) fn set(bench: &mut Bench, number: u8, weight: u8, is_up: bool) {
    let v4 = Ipv4Addr::new(10, 0, 1, number + 1);
    let v6 = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, u16::from(number) + 1);
    let (v4, v6) = (u128::from(u32::from(v4)), u128::from(v6));
    let data = [v4, v6, 8080, u128::from(is_up), u128::from(weight)];
    bench.set("servers", u128::from(number), &data);
}

pub(crate) fn client(number: u32) -> SocketAddr {
    let port = 1024 + (number % 50_000) as u16;
    match number % 3 {
        0 => {
            let address = Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, (number / 50_000) as u16);
            SocketAddr::from((address, port))
        }
        _ => SocketAddr::from((Ipv4Addr::from(0x0b00_0000 + number / 50_000), port)),
    }
}

/// A packet from a client; the server that it goes to, or why not.
pub(crate) fn ask(
    bench: &mut Bench,
    client: SocketAddr,
    numbers: (u32, u32),
    flags: u8,
) -> Result<u8, String> {
    let passed = bench.pass(CLIENTS, &tcp(client, service(client), numbers, flags, &[]));
    if passed.verdict != "servers" {
        return Err(passed.verdict);
    }
    assert!(is_sealed(&passed.bytes));
    let (from, to) = ends(&passed.bytes);
    assert_eq!(from, client);
    let number = (0..40).find(|number| server(*number, client) == to);
    Ok(number.unwrap_or_else(|| panic!("{to} is no server")))
}

/// A packet from a server to a client.
pub(crate) fn answer(
    bench: &mut Bench,
    number: u8,
    client: SocketAddr,
    numbers: (u32, u32),
    flags: u8,
) -> String {
    let frame = tcp(server(number, client), client, numbers, flags, &[]);
    let passed = bench.pass(SERVERS, &frame);
    if passed.verdict == "clients" {
        assert!(is_sealed(&passed.bytes));
        assert_eq!(ends(&passed.bytes), (service(client), client));
    }
    passed.verdict
}

/// A whole connection; the server that it has got, or why not.
pub(crate) fn open(bench: &mut Bench, client: SocketAddr) -> Result<u8, String> {
    let number = ask(bench, client, (C, 0), SYN)?;
    let answered = answer(bench, number, client, (S, C.wrapping_add(1)), SYN | ACK);
    if answered != "clients" {
        return Err(answered);
    }
    ask(bench, client, (C.wrapping_add(1), S + 1), ACK)
}

/// How many of so many new connections each of the first four servers gets.
fn shares(bench: &mut Bench, clients: std::ops::Range<u32>) -> [usize; 4] {
    let mut shares = [0; 4];
    for number in clients {
        let chosen = open(bench, client(number)).unwrap();
        shares[usize::from(chosen)] += 1;
    }
    shares
}

#[test]
fn round_robin_is_by_weight_and_drains() {
    let mut bench = balancer();
    let slots = |weights: [u64; 3]| {
        let backends: Vec<(u128, u64)> = (0..).zip(weights).collect();
        let slots = share_out(&backends, 251);
        let count = |of: u128| slots.iter().filter(|slot| **slot == of).count();
        [count(0), count(1), count(2), 0]
    };
    bench.set("scheduler", 0, &[ROUND_ROBIN]);
    assert_eq!(shares(&mut bench, 0..251), slots([1, 1, 1]));
    set(&mut bench, 1, 3, true);
    let found = shares(&mut bench, 1000..1251);
    assert_eq!(found, slots([1, 3, 1]));
    assert!(found[1].abs_diff(150) < 3, "{found:?}");
    // It drains: what it has goes on.
    set(&mut bench, 1, 0, true);
    let found = shares(&mut bench, 2000..2251);
    assert_eq!((found[1], found[0] + found[2]), (0, 251));
    let mut on_it = 0;
    for number in 1000..1251 {
        let chosen = ask(&mut bench, client(number), (C.wrapping_add(1), S + 1), ACK);
        on_it += usize::from(chosen == Ok(1));
    }
    assert!(on_it.abs_diff(150) < 3, "{on_it}");
    for number in 0..3 {
        set(&mut bench, number, 0, true);
    }
    assert_eq!(open(&mut bench, client(3000)), Err("!no_server".to_owned()));
    assert!(ask(&mut bench, client(1), (1, 1), ACK).is_ok());
}

#[test]
fn maglev_sends_a_client_to_the_same_server_from_anywhere() {
    let choose = |down: Option<u8>| -> Vec<u8> {
        let mut bench = balancer();
        let program = bench.simulation.running().program();
        assert!(
            program.hash_seed.is_some(),
            "a secret would differ elsewhere"
        );
        bench.set("scheduler", 0, &[MAGLEV]);
        set(&mut bench, 3, 1, true);
        if let Some(number) = down {
            set(&mut bench, number, 0, false);
        }
        (0..900)
            .map(|number| open(&mut bench, client(number)).unwrap())
            .collect()
    };
    let (first, again, without) = (choose(None), choose(None), choose(Some(2)));
    assert_eq!(
        first, again,
        "another balancer, or one that has forgotten all"
    );
    let counts = (0..4).map(|of| first.iter().filter(|chosen| **chosen == of).count());
    let counts: Vec<usize> = counts.collect();
    assert!(
        counts.iter().all(|count| count.abs_diff(225) < 60),
        "{counts:?}"
    );
    let both = first.iter().zip(&without);
    let moved = both.filter(|(was, is)| **was != 2 && was != is).count();
    assert!(without.iter().all(|chosen| *chosen != 2));
    assert!(moved < 100, "{moved} of others moved");
}

#[test]
fn least_connections_counts_those_that_live() {
    let mut bench = balancer();
    bench.set("scheduler", 0, &[LEAST]);
    assert_eq!(shares(&mut bench, 0..9), [3, 3, 3, 0]);
    let of_zero: Vec<u32> = (0..9)
        .filter(|number| ask(&mut bench, client(*number), (C.wrapping_add(1), S + 1), ACK) == Ok(0))
        .collect();
    // One ends by both FINs, one by a reset of its server's, one by its client's.
    let [a, b, c] = [0, 1, 2].map(|at: usize| client(of_zero[at]));
    assert_eq!(
        ask(&mut bench, a, (C.wrapping_add(1), S + 1), FIN | ACK),
        Ok(0)
    );
    assert_eq!(bench.global("active", 0), 3);
    assert_eq!(
        answer(&mut bench, 0, a, (S + 1, C.wrapping_add(2)), FIN | ACK),
        "clients"
    );
    assert_eq!(
        answer(&mut bench, 0, b, (S + 1, C.wrapping_add(1)), RST | ACK),
        "clients"
    );
    assert_eq!(ask(&mut bench, c, (C.wrapping_add(1), S + 1), RST), Ok(0));
    assert_eq!(bench.global("active", 0), 0);
    assert_eq!(shares(&mut bench, 10..13), [3, 0, 0, 0]);
    set(&mut bench, 3, 3, true);
    assert_eq!(shares(&mut bench, 20..29), [0, 0, 0, 9], "by weight");
    assert_eq!(shares(&mut bench, 30..36)[3], 3);
    // And those that end because nobody says anything any more.
    bench.wait(301_000_000_000);
    for number in 0..4 {
        assert_eq!(bench.global("active", number), 0);
    }
}

#[test]
fn connections_end_when_both_sides_have_ended_them() {
    let mut bench = balancer();
    let one = client(1);
    let chosen = open(&mut bench, one).unwrap();
    let late = |bench: &mut Bench| ask(bench, one, (C.wrapping_add(1), S + 1), ACK);
    // Resets from outside the window change nothing.
    for seq in [C.wrapping_sub(1), C.wrapping_add(70_000), 0x5555_5555] {
        assert_eq!(ask(&mut bench, one, (seq, 0), RST), Ok(chosen));
    }
    bench.wait(200_000_000_000);
    assert_eq!(late(&mut bench), Ok(chosen), "it has not been reset");
    // Half closed for minutes, while the server sends.
    assert_eq!(
        ask(&mut bench, one, (C.wrapping_add(1), S + 1), FIN | ACK),
        Ok(chosen)
    );
    for _ in 0..5 {
        bench.wait(100_000_000_000);
        let more = answer(&mut bench, chosen, one, (S + 1, C.wrapping_add(2)), ACK);
        assert_eq!(more, "clients");
    }
    let other = (chosen + 1) % 3;
    let stranger = answer(&mut bench, other, one, (S + 1, C.wrapping_add(2)), ACK);
    assert_eq!(stranger, "!not_its_server");
    let fin = (S + 1, C.wrapping_add(2));
    assert_eq!(answer(&mut bench, chosen, one, fin, FIN | ACK), "clients");
    bench.wait(50_000_000_000);
    assert_eq!(late(&mut bench), Ok(chosen), "the last ACK");
    // The same port again: new connections, each of the next server's.
    let mut seen = BTreeSet::new();
    for _ in 0..12 {
        let again = open(&mut bench, one).unwrap();
        seen.insert(again);
        assert_eq!(
            ask(&mut bench, one, (C.wrapping_add(1), S + 1), FIN | ACK),
            Ok(again)
        );
        assert_eq!(answer(&mut bench, again, one, fin, FIN | ACK), "clients");
    }
    assert!(seen.len() > 1, "{seen:?}");
    bench.wait(301_000_000_000);
    assert_eq!(late(&mut bench), Err("!no_connection".to_owned()));
    assert_eq!(bench.flows(FLOWS), 0);
}

#[test]
fn a_flood_of_syns_takes_no_connection_away() {
    let mut bench = balancer();
    let text = include_str!("../../programs/balancer.yaml");
    let mut small = Bench::new(&text.replace("flows: 1000000", "flows: 64"));
    let whole: Vec<u8> = (0..32)
        .map(|number| open(&mut small, client(number)).unwrap())
        .collect();
    for number in 1000..5000 {
        small.now_ns += 1000;
        let invented = client(number);
        // Who cannot see the answer cannot acknowledge it.
        if let Ok(chosen) = ask(&mut small, invented, (C, 0), SYN) {
            let numbers = (S, C.wrapping_add(1));
            answer(&mut small, chosen, invented, numbers, SYN | ACK);
            let _ = ask(&mut small, invented, (C.wrapping_add(1), 77), ACK);
        }
    }
    let mut active: u64 = (0..3).map(|number| small.global("active", number)).sum();
    assert_eq!(active, 32);
    for (number, chosen) in (0..).zip(&whole) {
        let found = ask(&mut small, client(number), (C.wrapping_add(1), S + 1), ACK);
        assert_eq!(found, Ok(*chosen), "{number}");
    }
    // Clients get through while it lasts.
    small.now_ns += 1000;
    let through = (100..132).filter(|number| open(&mut small, client(*number)).is_ok());
    assert!(through.count() > 16);
    // And half-open ones end soon, wherever there is room.
    active = 0;
    for number in 0..100 {
        active += u64::from(ask(&mut bench, client(number), (C, 0), SYN).is_ok());
    }
    assert_eq!((active, bench.flows(FLOWS)), (100, 100));
    bench.wait(6_000_000_000);
    assert_eq!(bench.flows(FLOWS), 0);
}

#[test]
fn a_flood_of_datagrams_takes_nothing_away_and_keeps_nobody_out() {
    let text = include_str!("../../programs/balancer.yaml");
    let mut bench = Bench::new(&text.replace("flows: 1000000", "flows: 64"));
    let ask_udp = |bench: &mut Bench, one| {
        let passed = bench.pass(CLIENTS, &udp(one, service(one), b"question"));
        (passed.verdict == "servers").then(|| ends(&passed.bytes).1)
    };
    let whole: Vec<u8> = (0..16)
        .map(|number| open(&mut bench, client(number)).unwrap())
        .collect();
    let answered: Vec<SocketAddr> = (16..24)
        .map(|number| {
            let to = ask_udp(&mut bench, client(number)).unwrap();
            let answer = udp(to, client(number), b"answer");
            assert_eq!(bench.one(SERVERS, &answer), "clients");
            to
        })
        .collect();
    for number in 1000..3000 {
        bench.now_ns += 1000;
        let _ = ask_udp(&mut bench, client(number));
    }
    bench.now_ns += 1000;
    let through = (100..132).filter(|number| open(&mut bench, client(*number)).is_ok());
    assert!(through.count() > 16);
    for (number, chosen) in (0..).zip(&whole) {
        let found = ask(&mut bench, client(number), (C.wrapping_add(1), S + 1), ACK);
        assert_eq!(found, Ok(*chosen), "{number}");
    }
    for (number, to) in (16..).zip(&answered) {
        assert_eq!(ask_udp(&mut bench, client(number)), Some(*to), "{number}");
    }
}

#[test]
fn datagrams_and_icmp_errors_find_their_way() {
    let mut bench = balancer();
    for number in [1, 3] {
        let one = client(number);
        let question = udp(one, service(one), b"question");
        let passed = bench.pass(CLIENTS, &question);
        assert_eq!(
            (&*passed.verdict, is_sealed(&passed.bytes)),
            ("servers", true)
        );
        let to = ends(&passed.bytes).1;
        let chosen = (0..3).find(|number| server(*number, one) == to).unwrap();
        assert_eq!(ends(&bench.pass(CLIENTS, &question).bytes).1, to);
        let back = bench.pass(SERVERS, &udp(to, one, b"answer"));
        assert_eq!((&*back.verdict, is_sealed(&back.bytes)), ("clients", true));
        assert_eq!(ends(&back.bytes), (service(one), one));
        // A router on the client's side about the answer, the server itself about the question.
        let router = |host| match one.ip() {
            IpAddr::V4(_) => IpAddr::from([11, 9, 9, host]),
            IpAddr::V6(_) => IpAddr::from(Ipv6Addr::new(0x2001, 0xdb8, 5, 0, 0, 0, 0, host.into())),
        };
        let error = unreachable(router(1), &back.bytes);
        let told = bench.pass(CLIENTS, &error);
        assert_eq!((&*told.verdict, is_sealed(&told.bytes)), ("servers", true));
        assert_eq!(
            ends(&told.bytes),
            (SocketAddr::new(router(1), 0), SocketAddr::new(to.ip(), 0))
        );
        assert_eq!(ends(&quoted(&told.bytes)), (server(chosen, one), one));
        for from in [to.ip(), router(2)] {
            let told = bench.pass(SERVERS, &unreachable(from, &passed.bytes));
            assert_eq!((&*told.verdict, is_sealed(&told.bytes)), ("clients", true));
            let seen = if from == to.ip() {
                service(one).ip()
            } else {
                from
            };
            let (src, dst) = ends(&told.bytes);
            assert_eq!((src.ip(), dst.ip()), (seen, one.ip()));
            assert_eq!(ends(&quoted(&told.bytes)), (one, service(one)));
        }
        // Its server is down: the next question goes elsewhere.
        set(&mut bench, chosen, 0, false);
        assert_ne!(ends(&bench.pass(CLIENTS, &question).bytes).1, to);
        set(&mut bench, chosen, 1, true);
        let elsewhere = unreachable(router(3), &udp(service(one), client(number + 300), &[]));
        assert_eq!(bench.one(CLIENTS, &elsewhere), "!no_connection");
    }
    bench.wait(31_000_000_000);
    assert_eq!(bench.flows(FLOWS), 0);
    let other = udp(client(1), SocketAddr::from(([10, 0, 0, 100], 81)), &[]);
    assert_eq!(bench.one(CLIENTS, &other), "!no_connection");
}

/// Connections of the test below. A million, as in `CATENA_BALANCER_CONNECTIONS=1000000`, take
/// minutes.
fn connections() -> u32 {
    let asked = std::env::var("CATENA_BALANCER_CONNECTIONS").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(100_000)
}

/// Connections that live at the same time.
const LIVE: usize = 300;

/// New connections, data either way, ends of all kinds, floods, resets that nobody sent; servers
/// that drain, go down and come back; and schedulers that change, all at random.
#[test]
fn no_live_connection_moves_while_its_server_lives() {
    let mut bench = balancer();
    let mut random = Random(0x00ba_1a9c);
    let (last, mut next) = (connections(), 0);
    let mut live: Vec<(SocketAddr, u8)> = Vec::new();
    let mut servers: BTreeMap<u8, (u8, bool)> = (0..3).map(|number| (number, (1, true))).collect();
    let (mut reset, mut checked) = (0_u64, 0_u64);
    while next < last {
        bench.wait(random.below(10_000_000));
        if random.below(400) == 0 {
            change(&mut bench, &mut random, &mut servers);
        }
        if live.len() < LIVE || random.below(4) == 0 {
            next += 1;
            let one = client(next);
            match open(&mut bench, one) {
                Ok(chosen) => {
                    let (weight, is_up) = servers[&chosen];
                    assert!(is_up && weight > 0, "{chosen} had no weight");
                    live.push((one, chosen));
                }
                Err(why) => assert_eq!(why, "!no_server"),
            }
        }
        if random.below(4) == 0 {
            let _ = ask(
                &mut bench,
                client(0x4000_0000 + random.below(1 << 29) as u32),
                (C, 0),
                SYN,
            );
        }
        if live.is_empty() {
            continue;
        }
        let at = random.below(live.len() as u64) as usize;
        let (one, chosen) = live[at];
        if !servers[&chosen].1 {
            let refused = ask(&mut bench, one, (C.wrapping_add(1), S + 9), ACK);
            assert_eq!(refused, Err("!server_down".to_owned()));
            let emitted = bench.simulation.emitted();
            let expected = tcp(service(one), one, (S + 9, 0), RST, &[]);
            let [(output, bytes)] = emitted.as_slice() else {
                panic!("{} packets", emitted.len())
            };
            assert_eq!(output, "clients");
            assert!(is_sealed(bytes) && ends(bytes) == ends(&expected));
            assert!(bytes.windows(4).any(|word| word == (S + 9).to_be_bytes()));
            live.swap_remove(at);
            reset += 1;
            continue;
        }
        let numbers = (C.wrapping_add(1), S + 1);
        let back = (S + 1, C.wrapping_add(1));
        let (flags, ends) = match random.below(12) {
            0 => (FIN | ACK, true),
            1 => (RST, true),
            _ => (ACK, false),
        };
        if random.below(20) == 0 {
            // Outside the window, as all but one in 65536 of invented ones are.
            let seq = random.next() as u32 & 0x7fff_ffff | 0x1000_0000;
            let _ = ask(&mut bench, one, (seq, 1), RST);
        }
        assert_eq!(answer(&mut bench, chosen, one, back, ACK), "clients");
        assert_eq!(ask(&mut bench, one, numbers, flags), Ok(chosen), "{one}");
        checked += 2;
        if ends {
            if flags & FIN != 0 {
                let fin = (S + 1, C.wrapping_add(2));
                assert_eq!(answer(&mut bench, chosen, one, fin, FIN | ACK), "clients");
            }
            // What is late finds it as well.
            assert_eq!(ask(&mut bench, one, numbers, ACK), Ok(chosen));
            live.swap_remove(at);
        }
    }
    for number in 0..8 {
        let of_it = live.iter().filter(|(_, chosen)| *chosen == number).count();
        assert_eq!(
            bench.global("active", u32::from(number)),
            of_it as u64,
            "{number}"
        );
    }
    assert!(
        reset > u64::from(last) / 200,
        "{reset} found their server down"
    );
    assert!(checked > u64::from(last) / 2, "{checked} packets");
}

/// What an operator does.
fn change(bench: &mut Bench, random: &mut Random, servers: &mut BTreeMap<u8, (u8, bool)>) {
    if random.below(3) == 0 {
        bench.set("scheduler", 0, &[random.below(3) as u128]);
        return;
    }
    let number = random.below(5) as u8;
    let known = servers.get(&number).copied();
    let (weight, is_up) = match known {
        Some((_, true)) if random.below(3) == 0 => (0, false),
        _ => (random.below(4) as u8, true),
    };
    servers.insert(number, (weight, is_up));
    set(bench, number, weight, is_up);
}
