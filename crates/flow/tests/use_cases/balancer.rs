// SPDX-License-Identifier: Apache-2.0
//! The balancer: schedulers, drain, health, both families, ICMP errors, the ends of connections,
//! and that no live connection moves while its server lives.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use catena_flow::program::maglev::share_out;

use super::bench::Bench;
use super::clients::{
    C, CLIENTS, LEAST, MAGLEV, ROUND_ROBIN, S, SERVERS, answer, ask, balancer, client, open,
    server, service, set,
};
use super::exactness::balancer::{Size, no_live_connection_moves};
use super::packet::{ACK, FIN, RST, SYN, ends, is_sealed, quoted, udp, unreachable};

/// The element that has the flows.
const FLOWS: usize = 3;

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
    let mut bench = balancer(8192);
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
        let mut bench = balancer(8192);
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
    let mut bench = balancer(8192);
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
    let mut bench = balancer(8192);
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
    let mut bench = balancer(8192);
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
    let mut bench = balancer(8192);
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

#[test]
fn no_live_connection_moves_while_its_server_lives() {
    let size = Size {
        connections: 100_000,
        live: 300,
    };
    no_live_connection_moves(&size).assert_equal();
}
