// SPDX-License-Identifier: Apache-2.0
//! Clients and servers of the balancer, and what one says to the other.

#![allow(dead_code, reason = "each test uses its part")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::bench::Bench;
use super::packet::{ACK, SYN, ends, is_sealed, tcp};

pub(crate) const CLIENTS: u8 = 0;
pub(crate) const SERVERS: u8 = 1;
pub(crate) const ROUND_ROBIN: u128 = 0;
pub(crate) const MAGLEV: u128 = 1;
pub(crate) const LEAST: u128 = 2;
/// First sequence numbers of either side.
pub(crate) const C: u32 = 0xffff_fff0;
pub(crate) const S: u32 = 0x7000_0000;

pub(crate) fn balancer(flows: usize) -> Bench {
    let text = include_str!("../../programs/balancer.yaml");
    Bench::new(&text.replace("flows: 1000000", &format!("flows: {flows}")))
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
