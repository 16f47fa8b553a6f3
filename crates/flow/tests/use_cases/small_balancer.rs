// SPDX-License-Identifier: Apache-2.0
//! FB5G's balancer, the one that does less: what connections get, how they end, floods.

use std::net::SocketAddr;

use catena_flow::program::header::{Header, Headers};
use catena_flow::program::template::fill_checksums;

use super::bench::Bench;
use super::clients::{self, C, S, answer, ask};
use super::packet::{ACK, FIN, RST, SYN, TCP, UDP, packet};

#[test]
fn the_balancer_binds_connections_and_translates_both_ways() {
    let mut bench = Bench::new(include_str!("../../programs/load_balancer.yaml"));
    let client = |port, flags| packet(TCP, (1, port), (100, 80), flags);
    let (syn, ack) = (0x02, 0x10);
    assert_eq!(bench.one(0, &client(5000, ack)), "!no_connection");
    for (number, port) in [(1, 5000), (2, 5001), (3, 5002), (1, 5003)] {
        let passed = bench.pass(0, &client(port, syn));
        assert_eq!(passed.verdict, "servers");
        let headers = Headers::parse(&passed.bytes);
        let at = headers.at(Header::Ipv4).unwrap() + 16;
        assert_eq!(passed.bytes[at..at + 4], [10, 0, 1, number]);
        let mut sealed = passed.bytes.clone();
        fill_checksums(&mut sealed, &headers);
        assert_eq!(sealed, passed.bytes, "checksums are right");
        // The same connection stays with its server.
        bench.wait(1_000_000_000);
        let again = bench.pass(0, &client(port, ack));
        assert_eq!(again.bytes[at..at + 4], [10, 0, 1, number]);
    }
    // From the second connection's server, and from another one.
    let mut answer = packet(TCP, (2, 8080), (1, 5001), 0x12);
    answer[28] = 1;
    let headers = Headers::parse(&answer);
    fill_checksums(&mut answer, &headers);
    let passed = bench.pass(1, &answer);
    assert_eq!(passed.verdict, "clients");
    assert_eq!(passed.bytes, packet(TCP, (100, 80), (1, 5001), 0x12));
    let mut stranger = answer.clone();
    stranger[29] = 3;
    assert_eq!(bench.one(1, &stranger), "!not_its_server");
    // A SYN alone is forgotten soon.
    assert_eq!(bench.one(0, &client(6000, syn)), "servers");
    bench.wait(6_000_000_000);
    assert_eq!(bench.one(0, &client(6000, ack)), "!no_connection");
}

/// Shards take turns of one counter, however their connections come.
#[test]
fn servers_have_their_turn_over_all_shards() {
    let text = include_str!("../../programs/load_balancer.yaml");
    let mut shards = Bench::shards(text, 3);
    let servers = [0, 2, 2, 1, 0, 1, 2, 0, 0].into_iter().enumerate();
    let servers = servers.map(|(at, shard): (usize, usize)| {
        let syn = packet(TCP, (1, 5000 + at as u16), (100, 80), 0x02);
        let passed = shards[shard].pass(0, &syn);
        assert_eq!(passed.verdict, "servers");
        passed.bytes[33]
    });
    assert_eq!(servers.collect::<Vec<_>>(), [1, 2, 3, 1, 2, 3, 1, 2, 3]);
}

#[test]
fn icmp_errors_find_the_server_that_they_are_about() {
    let mut bench = Bench::new(include_str!("../../programs/load_balancer.yaml"));
    assert_eq!(
        bench.one(0, &packet(TCP, (1, 5000), (100, 80), 0x02)),
        "servers"
    );
    let quoted = packet(TCP, (100, 80), (1, 5000), 0x10)[14..42].to_vec();
    let mut error = packet(UDP, (1, 0), (100, 0), 0);
    error.truncate(34);
    error[23] = 1;
    error[17] = 20 + 8 + 28;
    error.extend([3, 4, 0, 0, 0, 0, 5, 0]);
    error.extend(quoted);
    let headers = Headers::parse(&error);
    fill_checksums(&mut error, &headers);
    let passed = bench.pass(0, &error);
    assert_eq!(passed.verdict, "servers");
    assert_eq!(passed.bytes[30..34], [10, 0, 1, 1]);
    assert_eq!(passed.bytes[42 + 12..][..4], [10, 0, 1, 1]);
    assert_eq!(passed.bytes[42 + 20..][..2], 8080_u16.to_be_bytes());
    let mut sealed = passed.bytes.clone();
    fill_checksums(&mut sealed, &headers);
    assert_eq!(sealed, passed.bytes, "checksums are right");
}

/// The program with so many places.
fn small_balancer(flows: u32) -> Bench {
    let text = include_str!("../../programs/load_balancer.yaml");
    Bench::new(&text.replace("flows: 1000000", &format!("flows: {flows}")))
}

/// A client of IPv4.
fn ipv4_client(number: u32) -> SocketAddr {
    clients::client(number * 3 + 1)
}

#[test]
fn connections_of_the_small_balancer_end_as_they_should() {
    let ack = (C.wrapping_add(1), S + 1);
    let mut bench = small_balancer(1000);
    let one = ipv4_client(1);
    let chosen = clients::open(&mut bench, one).unwrap();
    // A reset and a SYN that anybody could have sent, and a FIN of a client that still listens.
    for flags in [RST, SYN, FIN | ACK] {
        assert_eq!(ask(&mut bench, one, ack, flags), Ok(chosen));
    }
    bench.wait(110_000_000_000);
    assert_eq!(ask(&mut bench, one, ack, SYN), Ok(chosen), "not over");
    let last = answer(&mut bench, chosen, one, (S + 1, C), FIN | ACK);
    assert_eq!(last, "clients");
    bench.wait(50_000_000_000);
    assert_eq!(ask(&mut bench, one, ack, ACK), Ok(chosen), "late");
    let next = ask(&mut bench, one, (C, 0), SYN).unwrap();
    assert_ne!(next, chosen, "the port is used again");
    bench.wait(6_000_000_000);
    assert_eq!(bench.flows(0), 0);
    // The server ends first, or resets.
    for flags in [FIN | ACK, RST] {
        let chosen = clients::open(&mut bench, one).unwrap();
        assert_eq!(
            answer(&mut bench, chosen, one, (S + 1, C), flags),
            "clients"
        );
        assert_eq!(ask(&mut bench, one, ack, FIN | ACK), Ok(chosen));
        bench.wait(61_000_000_000);
        assert_eq!(bench.flows(0), 0);
    }
}

#[test]
fn a_flood_of_invented_clients_takes_no_connection_of_the_small_balancer() {
    let mut bench = small_balancer(64);
    let whole: Vec<u8> = (0..32)
        .map(|number| clients::open(&mut bench, ipv4_client(number)).unwrap())
        .collect();
    for number in 1000..5000 {
        bench.now_ns += 1000;
        let invented = ipv4_client(number);
        if let Ok(chosen) = ask(&mut bench, invented, (C, 0), SYN) {
            let numbers = (S, C.wrapping_add(1));
            answer(&mut bench, chosen, invented, numbers, SYN | ACK);
            let _ = ask(&mut bench, invented, (C.wrapping_add(1), 77), ACK);
        }
    }
    bench.now_ns += 1000;
    let ack = (C.wrapping_add(1), S + 1);
    for (number, chosen) in (0..).zip(&whole) {
        let found = ask(&mut bench, ipv4_client(number), ack, ACK);
        assert_eq!(found, Ok(*chosen), "{number}");
    }
    let through =
        (100..132).filter(|number| clients::open(&mut bench, ipv4_client(*number)).is_ok());
    assert!(through.count() > 16);
}

#[test]
fn who_has_the_turn_and_is_no_server_gets_no_connection() {
    let mut bench = small_balancer(1000);
    bench.remove("servers", 1);
    let found: Vec<_> = (0..6)
        .map(|number| ask(&mut bench, ipv4_client(number), (C, 0), SYN))
        .collect();
    let none = || Err("!no_server".to_owned());
    assert_eq!(found, [Ok(0), none(), Ok(2), Ok(0), none(), Ok(2)]);
    assert_eq!(bench.flows(0), 4);
}
