// SPDX-License-Identifier: Apache-2.0
//! Offload by probes: learning, handover, and that nothing enters another terminal's tunnel.

use std::net::{IpAddr, SocketAddr};

use catena_flow::program::header::{Header, Headers};

use super::bench::Bench;
use super::exactness::offload::nothing_enters_another_tunnel;
use super::packet::{ends, is_sealed, udp};
use super::terminals::{
    CORE, EDGE, RADIO, RESPONDER, SERVICE, Tunnel, answer, end_marker, inner, offload, teid,
    terminal4 as terminal,
};

fn to(address: [u8; 4], port: u16, number: u8) -> Vec<u8> {
    udp(terminal(number), SocketAddr::from((address, port)), b"up")
}

fn from(address: [u8; 4], port: u16, number: u8) -> Vec<u8> {
    udp(SocketAddr::from((address, port)), terminal(number), b"down")
}

#[test]
fn a_probe_learns_what_nothing_else_has_told() {
    for qfi in [None, Some(9)] {
        let mut bench = offload();
        let (up, down) = (Tunnel(1, 11, qfi), Tunnel(1, 22, qfi));
        let wanted = up.up(&to(SERVICE, 5000, 7));
        let passed = bench.pass(RADIO, &wanted);
        assert_eq!((&*passed.verdict, &passed.bytes), ("core", &wanted));
        let mut emitted = bench.simulation.emitted();
        let (output, probe) = emitted.pop().unwrap();
        assert!(emitted.is_empty() && output == "core" && is_sealed(&probe));
        assert_eq!((teid(&probe), ends(&probe)), (11, ends(&wanted)));
        let (src, dst) = ends(&inner(&probe));
        assert_eq!(
            (src.ip(), dst.ip()),
            (terminal(7).ip(), IpAddr::from(RESPONDER))
        );
        assert_eq!(probe[..12], wanted[..12]);
        let container = Headers::parse(&probe).at(Header::PduSession);
        assert_eq!(container.map(|at| probe[at + 2]), qfi);
        // One at a time: the next packets go to the core, and no other probe.
        assert_eq!(bench.one(RADIO, &wanted), "core");
        assert!(bench.simulation.emitted().is_empty());
        assert_eq!(
            bench.one(EDGE, &from(SERVICE, 5000, 7)),
            "!unknown_terminal"
        );
        // Its answer is nobody's but ours; a terminal's own pings are its own.
        assert_eq!(
            bench.one(CORE, &down.down(&answer(&probe, 0))),
            "!probe_answer"
        );
        assert_eq!(bench.one(CORE, &down.down(&answer(&probe, 1))), "radio");
        let passed = bench.pass(RADIO, &wanted);
        assert_eq!(passed.verdict, "edge");
        assert_eq!(passed.bytes, to(SERVICE, 5000, 7));
        let back = bench.pass(EDGE, &from(SERVICE, 5000, 7));
        assert_eq!(back.verdict, "radio");
        assert_eq!(back.bytes, down.down(&from(SERVICE, 5000, 7)));
        // Nobody answers another terminal's: it is tried again by a later packet.
        let other = Tunnel(1, 12, None).up(&to(SERVICE, 5000, 8));
        for expected in [1, 0] {
            assert_eq!(bench.one(RADIO, &other), "core");
            assert_eq!(bench.simulation.emitted().len(), expected);
        }
        bench.wait(1_100_000_000);
        assert_eq!(bench.one(RADIO, &other), "core");
        assert_eq!(bench.simulation.emitted().len(), 1);
    }
}

#[test]
fn downlink_packets_teach_as_well_and_ports_decide() {
    let mut bench = offload();
    let (up, down) = (Tunnel(1, 11, None), Tunnel(1, 22, None));
    assert_eq!(
        bench.one(CORE, &down.down(&from([9, 9, 9, 9], 53, 7))),
        "radio"
    );
    assert_eq!(bench.one(RADIO, &up.up(&to([9, 9, 9, 9], 53, 7))), "core");
    assert_eq!(
        bench.one(RADIO, &up.up(&to([192, 0, 2, 80], 53, 7))),
        "core"
    );
    assert!(bench.simulation.emitted().is_empty());
    // Its server at the edge has another address there.
    let passed = bench.pass(RADIO, &up.up(&to([192, 0, 2, 80], 443, 7)));
    assert_eq!(
        (&*passed.verdict, &passed.bytes),
        ("edge", &to([10, 64, 0, 80], 443, 7))
    );
    let back = bench.pass(EDGE, &from([10, 64, 0, 80], 443, 7));
    assert_eq!(back.bytes, down.down(&from([192, 0, 2, 80], 443, 7)));
    // Signalling passes.
    let signal = udp(terminal(1), terminal(2), b"not GTP-U");
    assert_eq!(bench.one(RADIO, &signal), "core");
    assert_eq!(bench.one(CORE, &signal), "radio");
}

#[test]
fn terminals_that_are_not_answered_push_nobody_out() {
    let text = include_str!("../../programs/gtp_offload_probe.yaml");
    let mut bench = Bench::new(&text.replace("flows: 1000000", "flows: 64"));
    let up = |number: u8| Tunnel(1, 100 + u32::from(number), None);
    let down = |number: u8| Tunnel(1, 200 + u32::from(number), None);
    for number in 0..16 {
        let first = down(number).down(&from([9, 9, 9, 9], 53, number));
        assert_eq!(bench.one(CORE, &first), "radio");
    }
    // By addresses that somebody invents: with probes and without.
    let mut passed = 0;
    for number in 0..4000_u16 {
        bench.now_ns += 1000;
        let [high, low] = number.to_be_bytes();
        let invented = SocketAddr::from(([10, 46, high, low], 4000));
        let wanted = [SERVICE, [9, 9, 9, 9]][usize::from(low % 2)];
        let packet = udp(invented, SocketAddr::from((wanted, 5000)), b"up");
        // Few have only terminals whose tunnels are known where their place is.
        match &*bench.one(RADIO, &up(99).up(&packet)) {
            "core" => passed += 1,
            verdict => assert_eq!(verdict, "!flow_full"),
        }
        bench.simulation.emitted();
    }
    assert!(passed > 3500, "{passed}");
    for number in 0..16 {
        let wanted = up(number).up(&to(SERVICE, 5000, number));
        assert_eq!(bench.one(RADIO, &wanted), "edge", "{number}");
    }
}

#[test]
fn a_handover_is_seen_from_either_side() {
    let mut bench = offload();
    let (up, down) = (Tunnel(1, 11, None), Tunnel(1, 22, None));
    let wanted = to(SERVICE, 5000, 7);
    let back = from(SERVICE, 5000, 7);
    bench.one(CORE, &down.down(&back));
    assert_eq!(bench.one(RADIO, &up.up(&wanted)), "edge");
    // Another base station, or another TEID, speaks for it.
    for moved in [Tunnel(3, 11, None), Tunnel(3, 13, None)] {
        assert_eq!(bench.one(RADIO, &moved.up(&wanted)), "core");
        assert_eq!(bench.one(EDGE, &back), "!unknown_terminal");
        assert_eq!(bench.one(RADIO, &moved.up(&wanted)), "core");
        let (_, probe) = bench.simulation.emitted().pop().unwrap();
        let new = Tunnel(moved.0, moved.1 + 100, None);
        assert_eq!(
            bench.one(CORE, &new.down(&answer(&probe, 0))),
            "!probe_answer"
        );
        assert_eq!(bench.pass(EDGE, &back).bytes, new.down(&back));
        assert_eq!(bench.one(RADIO, &moved.up(&wanted)), "edge");
    }
    // The core says that nothing more comes by a tunnel, then speaks by another one.
    let old = Tunnel(3, 113, None);
    assert_eq!(bench.one(CORE, &end_marker(old)), "radio");
    assert_eq!(bench.one(EDGE, &back), "!not_its_tunnel");
    let new = Tunnel(4, 5, Some(3));
    assert_eq!(bench.one(CORE, &new.down(&back)), "radio");
    assert_eq!(bench.pass(EDGE, &back).bytes, new.down(&back));
    // A tunnel that carries another terminal's packets is that one's from then on.
    assert_eq!(bench.one(CORE, &new.down(&from(SERVICE, 1, 8))), "radio");
    assert_eq!(bench.one(EDGE, &back), "!not_its_tunnel");
    assert_eq!(
        bench.pass(EDGE, &from(SERVICE, 1, 8)).bytes,
        new.down(&from(SERVICE, 1, 8))
    );
}

#[test]
fn nothing_enters_the_tunnel_of_another_terminal() {
    nothing_enters_another_tunnel(30_000).assert_equal();
}
