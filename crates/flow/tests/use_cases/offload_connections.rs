// SPDX-License-Identifier: Apache-2.0
//! Offload by a probe per connection: each asks for itself, whoever answers first has it, and what
//! is at the edge stays there over a handover.

use std::net::SocketAddr;

use super::bench::Bench;
use super::packet::{ACK, SYN, ends, is_sealed, tcp, udp};
use super::terminals::{
    CORE, EDGE, RADIO, Tunnel, answer, end_marker, service4, service6, teid, terminal4, terminal6,
};

const SECOND: u64 = 1_100_000_000;

fn offload() -> Bench {
    let text = include_str!("../../programs/gtp_offload_connections.yaml");
    Bench::new(&text.replace("flows: 1000000", "flows: 4096"))
}

/// The terminal's end of a connection, by its port.
fn own(mut terminal: SocketAddr, port: u16) -> SocketAddr {
    terminal.set_port(port);
    terminal
}

/// The one packet that the program has sent to the core.
fn probe(bench: &mut Bench) -> Vec<u8> {
    let mut emitted = bench.simulation.emitted();
    let (output, probe) = emitted.pop().expect("a probe");
    assert!(emitted.is_empty() && output == "core" && is_sealed(&probe));
    probe
}

/// A connection that has learnt its tunnels, by its first packet and an answer.
fn learn(bench: &mut Bench, first: &[u8], (up, down): (Tunnel, Tunnel)) {
    assert_eq!(bench.one(RADIO, &up.up(first)), "core");
    let probe = probe(bench);
    assert_eq!(teid(&probe), up.1);
    let answer = down.down(&answer(&probe, 0));
    assert_eq!(bench.one(CORE, &answer), "!probe_answer");
}

#[test]
fn each_connection_asks_for_its_own_tunnel() {
    for (terminal, service) in [(terminal4(7), service4()), (terminal6(7), service6())] {
        let mut bench = offload();
        // Two QoS flows of a terminal, and a bearer of its own.
        let tunnels = [
            (Tunnel(1, 11, Some(5)), Tunnel(1, 21, Some(5))),
            (Tunnel(1, 11, Some(9)), Tunnel(1, 21, Some(9))),
            (Tunnel(1, 12, None), Tunnel(1, 22, None)),
        ];
        let mut asked = Vec::new();
        for ((up, _), port) in tunnels.iter().zip(4000..) {
            let first = udp(own(terminal, port), service, b"up");
            assert_eq!(bench.one(RADIO, &up.up(&first)), "core");
            asked.push(probe(&mut bench));
            assert_eq!(bench.one(RADIO, &up.up(&first)), "core", "it waits");
            assert!(bench.simulation.emitted().is_empty());
        }
        assert!(asked[0] != asked[1] && asked[1] != asked[2]);
        // Answers come in another order, and each teaches its own connection alone.
        for at in [2, 0, 1] {
            let (up, down) = tunnels[at];
            let own = own(terminal, 4000 + at as u16);
            let (question, back) = (udp(own, service, b"up"), udp(service, own, b"back"));
            assert_eq!(bench.one(EDGE, &back), "!unknown_connection");
            let invented = down.down(&answer(&asked[at], 1));
            assert_eq!(bench.one(CORE, &invented), "radio", "the terminal's own");
            let answered = down.down(&answer(&asked[at], 0));
            assert_eq!(bench.one(CORE, &answered), "!probe_answer");
            let passed = bench.pass(RADIO, &up.up(&question));
            assert_eq!((&*passed.verdict, &passed.bytes), ("edge", &question));
            let passed = bench.pass(EDGE, &back);
            assert_eq!(
                (&*passed.verdict, &passed.bytes),
                ("radio", &down.down(&back))
            );
        }
        // What is not for the edge is nobody's connection.
        let elsewhere = SocketAddr::new(service.ip(), 53);
        let other = match service.is_ipv4() {
            true => udp(terminal, SocketAddr::from(([9, 9, 9, 9], 53)), b"up"),
            false => udp(terminal, "[2001:db8:9::9]:53".parse().unwrap(), b"up"),
        };
        assert_eq!(bench.one(RADIO, &tunnels[2].0.up(&other)), "core");
        assert!(bench.simulation.emitted().is_empty());
        let stranger = udp(elsewhere, terminal, b"back");
        assert_eq!(bench.one(EDGE, &stranger), "!unknown_connection");
    }
}

#[test]
fn whoever_answers_first_has_the_connection() {
    let mut bench = offload();
    let (up, down) = (Tunnel(1, 11, None), Tunnel(1, 22, None));
    let (own, service) = (terminal4(7), service4());
    let say = |flags, numbers| tcp(own, service, numbers, flags, &[]);
    let syn = up.up(&say(SYN, (1, 0)));
    let ack = up.up(&say(ACK, (2, 9)));
    let from_core = down.down(&tcp(service, own, (8, 2), SYN | ACK, &[]));
    for is_answered in [false, true] {
        // A server behind the core answers the SYN, before or after the probe is answered.
        assert_eq!(bench.one(RADIO, &syn), "core");
        let answered = down.down(&answer(&probe(&mut bench), 0));
        if is_answered {
            assert_eq!(bench.one(CORE, &answered), "!probe_answer");
        }
        assert_eq!(bench.one(CORE, &from_core), "radio");
        assert_eq!(bench.one(CORE, &answered), "!probe_answer");
        for _ in 0..3 {
            assert_eq!(bench.one(RADIO, &ack), "core");
        }
        assert!(bench.simulation.emitted().is_empty());
    }
    // So has one that answers a datagram.
    let question = up.up(&udp(own, service, b"up"));
    assert_eq!(bench.one(RADIO, &question), "core");
    let asked = probe(&mut bench);
    let from_core_too = down.down(&udp(service, own, b"down"));
    assert_eq!(bench.one(CORE, &from_core_too), "radio");
    let answered = down.down(&answer(&asked, 0));
    assert_eq!(bench.one(CORE, &answered), "!probe_answer");
    assert_eq!(bench.one(RADIO, &question), "core");
    // Nobody has: what comes next goes to the edge, and a server that is late is not heard.
    learn(&mut bench, &say(SYN, (5, 0)), (up, down));
    let again = bench.pass(RADIO, &up.up(&say(SYN, (5, 0))));
    assert_eq!(again.verdict, "edge");
    assert_eq!(bench.one(CORE, &from_core), "!late_answer");
    assert_eq!(bench.one(RADIO, &ack), "edge");
    // In the middle of a connection that is not known nobody asks.
    let middle = tcp(terminal4(8), service, (2, 9), ACK, &[]);
    assert_eq!(bench.one(RADIO, &up.up(&middle)), "core");
    assert!(bench.simulation.emitted().is_empty());
}

#[test]
fn probes_are_repeated_and_a_handover_leaves_connections_at_the_edge() {
    let mut bench = offload();
    let (own, service) = (terminal4(7), SocketAddr::from(([192, 0, 2, 80], 443)));
    let edge = SocketAddr::from(([10, 64, 0, 80], 443));
    let question = udp(own, service, b"up");
    let (up, down) = (Tunnel(1, 11, None), Tunnel(1, 22, None));
    // Nobody has answered: one a second.
    assert_eq!(bench.one(RADIO, &up.up(&question)), "core");
    probe(&mut bench);
    bench.wait(SECOND);
    learn(&mut bench, &question, (up, down));
    // Its server has another address at the edge.
    let there = bench.pass(RADIO, &up.up(&question));
    assert_eq!(
        (&*there.verdict, there.bytes),
        ("edge", udp(own, edge, b"up"))
    );
    let back = udp(edge, own, b"back");
    let restored = udp(service, own, b"back");
    assert_eq!(bench.pass(EDGE, &back).bytes, down.down(&restored));
    // Another base station: the connection stays, its old tunnel is not used, the new one is asked
    // for until it is known.
    let (moved, new) = (Tunnel(3, 11, Some(4)), Tunnel(3, 44, Some(4)));
    bench.wait(SECOND);
    assert_eq!(bench.one(RADIO, &moved.up(&question)), "edge");
    probe(&mut bench);
    assert_eq!(bench.one(EDGE, &back), "!not_its_tunnel");
    assert_eq!(bench.one(RADIO, &moved.up(&question)), "edge");
    assert!(bench.simulation.emitted().is_empty());
    bench.wait(SECOND);
    assert_eq!(bench.one(RADIO, &moved.up(&question)), "edge");
    let asked = probe(&mut bench);
    let answered = new.down(&answer(&asked, 0));
    assert_eq!(bench.one(CORE, &answered), "!probe_answer");
    assert_eq!(bench.pass(EDGE, &back).bytes, new.down(&restored));
    // A tunnel that has ended without another way up is asked for in half a minute.
    assert_eq!(bench.one(CORE, &end_marker(new)), "radio");
    assert_eq!(bench.one(EDGE, &back), "!not_its_tunnel");
    bench.wait(31 * SECOND);
    assert_eq!(bench.one(RADIO, &moved.up(&question)), "edge");
    let other = Tunnel(3, 45, Some(4));
    let answered = other.down(&answer(&probe(&mut bench), 0));
    assert_eq!(bench.one(CORE, &answered), "!probe_answer");
    assert_eq!(bench.pass(EDGE, &back).bytes, other.down(&restored));
}

#[test]
fn whoever_alternates_between_tunnels_makes_a_probe_a_second() {
    let mut bench = offload();
    let question = udp(terminal4(7), service4(), b"up");
    let tunnels = [11, 12].map(|teid| Tunnel(1, teid, None));
    let down = Tunnel(1, 22, None);
    // Before anything has gone to the edge: each answer would make way for another question.
    learn(&mut bench, &question, (tunnels[0], down));
    for at in 1..20 {
        assert_eq!(bench.one(RADIO, &tunnels[at % 2].up(&question)), "core");
    }
    assert!(bench.simulation.emitted().is_empty());
    bench.wait(SECOND);
    learn(&mut bench, &question, (tunnels[1], down));
    assert_eq!(bench.one(RADIO, &tunnels[1].up(&question)), "edge");
    for _ in 0..3 {
        bench.wait(SECOND);
        for at in 0..20 {
            assert_eq!(bench.one(RADIO, &tunnels[at % 2].up(&question)), "edge");
        }
        probe(&mut bench);
        // Nothing enters a tunnel that it may have left.
        let back = udp(service4(), terminal4(7), b"back");
        assert_eq!(bench.one(EDGE, &back), "!not_its_tunnel");
    }
}

#[test]
fn a_full_table_takes_no_connection_from_the_edge() {
    let text = include_str!("../../programs/gtp_offload_connections.yaml");
    let mut bench = Bench::new(&text.replace("flows: 1000000", "flows: 64"));
    let first = |number, port| udp(own(terminal4(number), port), service4(), b"up");
    let (up, down) = (Tunnel(1, 11, None), Tunnel(1, 22, None));
    for port in 4000..4016 {
        learn(&mut bench, &first(7, port), (up, down));
        assert_eq!(bench.one(RADIO, &up.up(&first(7, port))), "edge");
    }
    // Another terminal begins one after the other: these push each other out.
    let (up, down) = (Tunnel(1, 12, None), Tunnel(1, 23, None));
    let mut refused = 0;
    for port in 5000..7000 {
        bench.now_ns += 1000;
        let question = up.up(&first(8, port));
        if bench.one(RADIO, &question) == "!flow_full" {
            refused += 1;
            bench.simulation.emitted();
            continue;
        }
        let answer = down.down(&answer(&probe(&mut bench), 0));
        // Its first thousand is not answered; then all goes to the edge, until there is no room.
        if port >= 6000 {
            assert_eq!(bench.one(CORE, &answer), "!probe_answer");
            assert_eq!(bench.one(RADIO, &question), "edge");
        } else {
            assert!(refused < 100, "{refused}");
        }
    }
    assert!(refused > 900, "{refused}");
    for port in 4000..4016 {
        let back = udp(service4(), own(terminal4(7), port), b"back");
        assert_eq!(bench.one(EDGE, &back), "radio", "{port}");
    }
}

#[test]
fn a_tunnel_that_another_terminal_has_carries_no_connection_of_the_first() {
    let mut bench = offload();
    let (up, down) = (Tunnel(1, 11, None), Tunnel(1, 22, None));
    let both = [(terminal4(7), service4()), (terminal6(7), service6())];
    for (own, service) in both {
        let first = udp(own, service, b"up");
        learn(&mut bench, &first, (up, down));
        assert_eq!(bench.one(RADIO, &up.up(&first)), "edge");
    }
    for (own, service) in both {
        let back = udp(service, own, b"back");
        assert_eq!(bench.pass(EDGE, &back).bytes, down.down(&back));
    }
    // One packet of the new owner's, of either version, and nothing of the old one's enters.
    let others: SocketAddr = "[2001:db8:9::9]:53".parse().unwrap();
    let taken = down.down(&udp(others, terminal6(8), b"down"));
    assert_eq!(bench.one(CORE, &taken), "radio");
    for (own, service) in both {
        let back = udp(service, own, b"back");
        assert_eq!(bench.one(EDGE, &back), "!not_its_tunnel");
    }
    let first = udp(terminal6(8), service6(), b"up");
    learn(&mut bench, &first, (Tunnel(1, 13, None), down));
    assert_eq!(bench.one(RADIO, &Tunnel(1, 13, None).up(&first)), "edge");
    let back = udp(service6(), terminal6(8), b"back");
    assert_eq!(
        ends(&bench.pass(EDGE, &back).bytes).1.ip().to_string(),
        "10.9.0.1"
    );
}
