// SPDX-License-Identifier: Apache-2.0
//! Offload of IPv6 in tunnels: learnt by a probe and from what comes down, what belongs to no
//! terminal alone, and terminals that have both versions of IP.

use std::net::{Ipv6Addr, SocketAddr};

use catena_flow::program::header::{Header, Headers};

use super::bench::Bench;
use super::packet::{ends, icmp, is_sealed, udp};
use super::terminals::{
    CORE, EDGE, RADIO, Tunnel, answer, end_marker, inner, offload, service4, service6, teid,
    terminal4, terminal6,
};

const RESPONDER6: &str = "2001:db8:5::1";

#[test]
fn a_probe_in_ipv6_learns_as_well() {
    for qfi in [None, Some(9)] {
        let mut bench = offload();
        let (up, down) = (Tunnel(1, 11, qfi), Tunnel(1, 22, qfi));
        let question = udp(terminal6(7), service6(), b"up");
        let back = udp(service6(), terminal6(7), b"down");
        let wanted = up.up(&question);
        assert_eq!(bench.one(EDGE, &back), "!unknown_terminal");
        assert_eq!(bench.one(RADIO, &wanted), "core");
        let mut emitted = bench.simulation.emitted();
        let (output, probe) = emitted.pop().unwrap();
        assert!(emitted.is_empty() && output == "core" && is_sealed(&probe));
        assert_eq!((teid(&probe), ends(&probe)), (11, ends(&wanted)));
        let (src, dst) = ends(&inner(&probe));
        assert_eq!(src.ip(), terminal6(7).ip());
        assert_eq!(dst.ip(), RESPONDER6.parse::<Ipv6Addr>().unwrap());
        let container = Headers::parse(&probe).at(Header::PduSession);
        assert_eq!(container.map(|at| probe[at + 2]), qfi);
        // Answers that somebody invents are the terminal's, and do not end here.
        assert_eq!(bench.one(CORE, &down.down(&answer(&probe, 1))), "radio");
        let own = answer(&probe, 0);
        assert!(is_sealed(&own));
        assert_eq!(bench.one(CORE, &down.down(&own)), "!probe_answer");
        let passed = bench.pass(RADIO, &wanted);
        assert_eq!((&*passed.verdict, &passed.bytes), ("edge", &question));
        let passed = bench.pass(EDGE, &back);
        assert_eq!(
            (&*passed.verdict, &passed.bytes),
            ("radio", &down.down(&back))
        );
    }
}

#[test]
fn addresses_and_ports_of_ipv6_decide_and_any_address_of_a_prefix_is_its_terminals() {
    let mut bench = offload();
    let (up, down) = (Tunnel(1, 11, None), Tunnel(1, 22, None));
    let elsewhere: SocketAddr = "[2001:db8:9::9]:53".parse().unwrap();
    let first = down.down(&udp(elsewhere, terminal6(7), b"down"));
    assert_eq!(bench.one(CORE, &first), "radio");
    let mut privacy = terminal6(7);
    privacy.set_ip("2001:db8:45:7:abcd:1:2:3".parse().unwrap());
    let by_port = |port| SocketAddr::new("2001:db8:80::80".parse().unwrap(), port);
    for (to, expected) in [
        (elsewhere, "core"),
        (by_port(53), "core"),
        (by_port(443), "edge"),
        (service6(), "edge"),
    ] {
        let question = udp(privacy, to, b"up");
        let passed = bench.pass(RADIO, &up.up(&question));
        assert_eq!(passed.verdict, expected, "{to}");
        if expected == "edge" {
            assert_eq!(passed.bytes, question);
            let back = udp(to, privacy, b"down");
            assert_eq!(bench.pass(EDGE, &back).bytes, down.down(&back));
        }
    }
    assert!(bench.simulation.emitted().is_empty());
    // A neighbour's prefix is another terminal's.
    let stranger = udp(service6(), terminal6(8), b"down");
    assert_eq!(bench.one(EDGE, &stranger), "!unknown_terminal");
}

/// Each terminal has the same link-local addresses, and all hear the same groups.
#[test]
fn what_is_of_no_terminal_alone_passes_and_teaches_nothing() {
    let mut bench = offload();
    let router: Ipv6Addr = "fe80::1".parse().unwrap();
    let local = SocketAddr::new("fe80::7".parse().unwrap(), 4000);
    for (number, group) in [(1, "ff02::1"), (2, "fe80::7")] {
        let tunnel = Tunnel(1, number, None);
        let advertised = icmp(router.into(), group.parse().unwrap(), 134, &[0; 12]);
        assert_eq!(bench.one(CORE, &tunnel.down(&advertised)), "radio");
        let solicited = udp(local, service6(), b"up");
        assert_eq!(bench.one(RADIO, &tunnel.up(&solicited)), "core");
    }
    // Nor is an address of IPv4 that looks like one of IPv6.
    let mapped = SocketAddr::new("::ffff:10.45.0.7".parse().unwrap(), 4000);
    let up = Tunnel(1, 3, None).up(&udp(mapped, service6(), b"up"));
    assert_eq!(bench.one(RADIO, &up), "core");
    assert!(bench.simulation.emitted().is_empty());
    assert_eq!((bench.flows(0), bench.flows(1)), (0, 0));
    let back = udp(service6(), local, b"down");
    assert_eq!(bench.one(EDGE, &back), "!unknown_terminal");
}

#[test]
fn both_versions_of_a_terminal_share_its_tunnel_and_leave_it_together() {
    let mut bench = offload();
    let (up, down) = (Tunnel(1, 11, None), Tunnel(1, 22, None));
    let of = |number: u8| {
        [
            (terminal4(number), service4()),
            (terminal6(number), service6()),
        ]
    };
    let learn = |bench: &mut Bench, number: u8, tunnels: (Tunnel, Tunnel)| {
        for (own, service) in of(number) {
            bench.one(RADIO, &tunnels.0.up(&udp(own, service, b"up")));
            let first = tunnels.1.down(&udp(service, own, b"down"));
            assert_eq!(bench.one(CORE, &first), "radio");
        }
    };
    learn(&mut bench, 7, (up, down));
    for _ in 0..2 {
        for (own, service) in of(7) {
            let back = udp(service, own, b"back");
            assert_eq!(bench.pass(EDGE, &back).bytes, down.down(&back));
            let more = down.down(&udp(service, own, b"more"));
            assert_eq!(bench.one(CORE, &more), "radio");
        }
    }
    // Whoever gets the tunnel by one version has taken both away.
    let first = |own, service| down.down(&udp(service, own, b"first"));
    let (own, service) = of(8)[0];
    assert_eq!(bench.one(CORE, &first(own, service)), "radio");
    for (own, service) in of(7) {
        let back = udp(service, own, b"back");
        assert_eq!(bench.one(EDGE, &back), "!not_its_tunnel");
    }
    // So has who has the other version of IP alone, and comes up by another tunnel.
    for (old, new) in [(0, 1), (1, 0)] {
        let mut bench = offload();
        let (own, service) = of(7)[old];
        bench.one(RADIO, &up.up(&udp(own, service, b"up")));
        assert_eq!(bench.one(CORE, &first(own, service)), "radio");
        let back = udp(service, own, b"back");
        assert_eq!(bench.one(EDGE, &back), "radio");
        let (other, of_other) = of(8)[new];
        let other_up = Tunnel(1, 13, None);
        bench.one(RADIO, &other_up.up(&udp(other, of_other, b"up")));
        assert_eq!(bench.one(CORE, &first(other, of_other)), "radio");
        assert_eq!(bench.one(EDGE, &back), "!not_its_tunnel");
    }
    // So has an end marker.
    let (up, down) = (Tunnel(1, 12, None), Tunnel(1, 23, None));
    learn(&mut bench, 9, (up, down));
    assert_eq!(bench.one(CORE, &end_marker(down)), "radio");
    for (own, service) in of(9) {
        let back = udp(service, own, b"back");
        assert_eq!(bench.one(EDGE, &back), "!not_its_tunnel");
    }
}

#[test]
fn the_small_program_learns_ipv6_from_what_comes_down() {
    let text = include_str!("../../programs/gtp_offload.yaml");
    let mut bench = Bench::new(&text.replace("flows: 1000000", "flows: 64"));
    for qfi in [None, Some(5)] {
        let (up, down) = (Tunnel(1, 11, qfi), Tunnel(2, 22, qfi));
        let question = udp(terminal6(7), service6(), b"up");
        let back = udp(service6(), terminal6(7), b"down");
        if qfi.is_none() {
            assert_eq!(bench.one(RADIO, &up.up(&question)), "core");
            assert_eq!(bench.one(EDGE, &back), "!unknown_terminal");
        }
        assert_eq!(bench.one(CORE, &down.down(&back)), "radio");
        let passed = bench.pass(RADIO, &up.up(&question));
        assert_eq!((&*passed.verdict, &passed.bytes), ("edge", &question));
        assert_eq!(bench.pass(EDGE, &back).bytes, down.down(&back));
        let elsewhere: SocketAddr = "[2001:db8:9::9]:53".parse().unwrap();
        let other = up.up(&udp(terminal6(7), elsewhere, b"up"));
        assert_eq!(bench.one(RADIO, &other), "core");
    }
}
