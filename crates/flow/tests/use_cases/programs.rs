// SPDX-License-Identifier: Apache-2.0
//! The first programs: policer, FB5G's balancer and offload, firewall, knocking, flowlets; and XL.

use catena_flow::efsm::{self, xl};
use catena_flow::meter::{Window, WindowState};
use catena_flow::program::header::Headers;
use catena_flow::program::template::fill_checksums;

use super::bench::Bench;
use super::packet::{TCP, UDP, packet};
use super::random::Random;
use super::terminals::tunnelled;

/// The state machine of four transitions against the window of the meters, packet by packet.
#[test]
fn the_policer_is_the_sliding_window() {
    let mut bench = Bench::new(include_str!("../../programs/policer.yaml"));
    let window = Window::new(10_000, 3).unwrap();
    let mut states = [WindowState::default(); 3];
    let mut random = Random(7);
    let mut passed = 0;
    for _ in 0..20_000 {
        bench.now_ns += random.below(5_000);
        let source = random.below(3);
        let frame = packet(UDP, (source as u8, 1), (9, 9), 0);
        let expected = window.passes(&mut states[source as usize], bench.now_ns);
        let verdict = bench.one(0, &frame);
        assert_eq!(verdict, if expected { "out" } else { "!red" });
        passed += u32::from(expected);
    }
    assert!((5_000..19_000).contains(&passed), "{passed}");
}

#[test]
fn offload_learns_tunnels_from_what_comes_down_and_follows_a_handover() {
    let mut bench = Bench::new(include_str!("../../programs/gtp_offload.yaml"));
    // Terminal 10.0.0.7; the edge is 203.0.113.0/24.
    let mut to_edge = packet(UDP, (7, 5), (1, 53), 0);
    to_edge[30..34].copy_from_slice(&[203, 0, 113, 9]);
    let headers = Headers::parse(&to_edge);
    fill_checksums(&mut to_edge, &headers);
    let down = packet(UDP, (1, 53), (7, 5), 0);
    let up = tunnelled(&to_edge, (1, 2), 11, None);
    assert_eq!(bench.one(0, &up), "core");
    assert_eq!(bench.one(2, &down), "!unknown_terminal");
    assert_eq!(bench.one(1, &tunnelled(&down, (2, 1), 22, None)), "radio");
    let passed = bench.pass(0, &up);
    assert_eq!((&*passed.verdict, &passed.bytes), ("edge", &to_edge));
    let back = bench.pass(2, &down);
    assert_eq!(
        (&*back.verdict, back.bytes),
        ("radio", tunnelled(&down, (2, 1), 22, None))
    );
    // What is not for the edge, and what is of another terminal, goes to the core.
    let other = tunnelled(&packet(UDP, (7, 5), (1, 53), 0), (1, 2), 11, None);
    assert_eq!(bench.one(0, &other), "core");
    let mut stranger = to_edge.clone();
    stranger[29] = 8;
    assert_eq!(
        bench.one(0, &tunnelled(&stranger, (1, 2), 12, None)),
        "core"
    );
    // Handover: another base station, another TEID, now with a QoS flow.
    assert_eq!(
        bench.one(1, &tunnelled(&down, (2, 3), 33, Some(9))),
        "radio"
    );
    let back = bench.pass(2, &down);
    assert_eq!(back.bytes, tunnelled(&down, (2, 3), 33, Some(9)));
}

#[test]
fn a_firewall_lets_answers_in() {
    let mut bench = Bench::new(include_str!("../../programs/udp_firewall.yaml"));
    let (ask, answer) = (
        packet(UDP, (1, 5), (2, 53), 0),
        packet(UDP, (2, 53), (1, 5), 0),
    );
    assert_eq!(bench.one(1, &answer), "!unasked");
    assert_eq!(bench.one(0, &ask), "outside");
    assert_eq!(bench.one(1, &answer), "inside");
    bench.wait(31_000_000_000);
    assert_eq!(bench.one(1, &answer), "!unasked");
    assert_eq!(bench.one(0, &packet(TCP, (1, 5), (2, 53), 0)), "!no_udp");
}

#[test]
fn knocking_in_order_opens_a_port() {
    let mut bench = Bench::new(include_str!("../../programs/port_knocking.yaml"));
    let to = |port| packet(TCP, (1, 5), (2, port), 0x02);
    let mut knock = |ports: &[u16]| -> Vec<String> {
        ports.iter().map(|port| bench.one(0, &to(*port))).collect()
    };
    assert_eq!(
        knock(&[22, 7000, 9000, 8000]),
        ["!closed", "!knock", "!wrong_knock", "!closed"]
    );
    assert_eq!(
        knock(&[7000, 8000, 9000, 22]),
        ["!knock", "!knock", "!knock", "out"]
    );
    assert_eq!(bench.one(0, &packet(TCP, (3, 5), (2, 22), 0x02)), "!closed");
    assert_eq!(bench.one(0, &to(7000)), "!closed");
}

#[test]
fn a_big_flow_is_marked_and_told_once() {
    let mut bench = Bench::new(include_str!("../../programs/big_flows.yaml"));
    let frame = packet(UDP, (1, 5), (2, 53), 0);
    for _ in 0..1000 {
        assert_eq!(bench.pass(0, &frame).bytes, frame);
    }
    for _ in 0..2 {
        assert_eq!(bench.pass(0, &frame).bytes[15], 8 << 2);
    }
    let events = bench.simulation.events();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].0, "big_flow");
    assert_eq!(events[0].1.values[1] as u32, 0x0a00_0002);
}

#[test]
fn a_flood_of_syns_is_held_back_and_others_are_not() {
    let mut bench = Bench::new(include_str!("../../programs/syn_flood.yaml"));
    let syn = |src, port| packet(TCP, (src, port), (2, 80), 0x02);
    for port in 0..10 {
        assert_eq!(bench.one(0, &syn(1, port)), "out");
    }
    assert_eq!(bench.one(0, &syn(1, 10)), "!syn_flood");
    assert_eq!(bench.one(0, &syn(3, 10)), "out");
    assert_eq!(bench.one(0, &packet(TCP, (1, 0), (2, 80), 0x10)), "out");
    assert_eq!(bench.one(0, &syn(1, 11)), "out");
    assert_eq!(bench.one(0, &syn(1, 12)), "!syn_flood");
}

#[test]
fn flowlets_change_their_path_only_behind_a_pause() {
    let mut bench = Bench::new(include_str!("../../programs/flowlets.yaml"));
    let frame = packet(UDP, (1, 5), (2, 53), 0);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..64 {
        let path = bench.one(0, &frame);
        for _ in 0..5 {
            bench.now_ns += 400_000;
            assert_eq!(bench.one(0, &frame), path);
        }
        seen.insert(path);
        bench.now_ns += 600_000;
    }
    assert_eq!(seen.len(), 2);
}

/// FlowBlaze's own port knocking, in XL.
#[test]
fn xl_programs_are_imported_and_run() {
    let headers = "PacketField ipv4 { src = packet.data[26:+4]; } /* a /* nested */ comment */\n\
                   PacketField tcp { dport = packet.data[36:+2]; odd = packet.data[60:64]; }";
    let text = r#"
        import "headers.xlh"; // fields
        Constant PKT = 255, first = 0xa0a;
        Stage knock {
            Register tries; Register global all;
            Event knocked = tcp.dport == first;
            Action count { all = all + 1; tries = min(tries, 5); }
            setFlowKey(ipv4.src);
            State initial init {
                on (knocked) { setNextState(port1); }
            }
            State port1 {
                on (pktRcvd) {
                    serial { tries = tries + 1; }
                    if (tcp.dport == 2827, tries < 3) { setNextState(open); }
                }
            }
            State open { on (pktRcvd) { if (tcp.dport == 22) { count(); sendPacket(PKT, 2); } } }
            State any { on (pktRcvd) { if (pktRcvd.port == 2) { sendPacket(PKT, 1); } } }
        }"#;
    let read = |name: &str| match name {
        "headers.xlh" => Ok(headers.to_owned()),
        _ => Err("no such file".to_owned()),
    };
    let document = xl::import("knock.xl", text, read).unwrap();
    let document: efsm::Document = serde_json::from_value(document).unwrap();
    let compiled = efsm::compile(&document).unwrap_or_else(|problems| panic!("{problems:#?}"));
    let mut bench = Bench::of(compiled.program);
    let to = |port| packet(TCP, (1, 5), (2, port), 0x02);
    assert_eq!(bench.one(0, &to(22)), "!no_transition");
    assert_eq!(bench.one(1, &to(22)), "port_1");
    // A state changes, and nothing is sent: the packet goes on by the first output.
    assert_eq!(bench.one(0, &to(0x0a0a)), "port_1");
    bench.one(0, &to(2827));
    assert_eq!(bench.one(0, &to(22)), "port_2");
    assert_eq!(bench.simulation.running().global(0, 0), Some(1));
}

#[test]
fn xl_that_has_no_place_is_refused_with_its_line() {
    let stage = |body: &str| {
        format!("Stage s {{\nsetFlowKey(packet.data[26:+4]);\nState initial a {{\n{body}\n}}\n}}")
    };
    for (text, line, message) in [
        (
            stage("on (timeout) { }"),
            4,
            "the event timeout is not mapped",
        ),
        (stage("on (pktRcvd) { setTimer(1, 2, 3); }"), 4, "setTimer"),
        (
            stage("on (pktRcvd) {\nsendPacket(1, 2); }"),
            5,
            "stored packets",
        ),
        (stage("setNextState(b);"), 4, "no state of the stage"),
        (stage("x = 1;"), 4, "there is no register x"),
        (stage("on pktRcvd"), 4, "( belongs"),
        ("Stage s { State a { } }".to_owned(), 1, "no flow key"),
        ("\n\nimport \"gone.xlh\";".to_owned(), 3, "gone.xlh"),
        (
            "Constant A = 1,\nB = A;".to_owned(),
            2,
            "a number or an address belongs",
        ),
        ("/* for ever".to_owned(), 1, "does not end"),
        ("State a { x = \"1".to_owned(), 1, "a quote does not end"),
    ] {
        let error = xl::import("a.xl", &text, |_| Err("no such file".to_owned()));
        let error = error.expect_err(&text);
        assert_eq!(error.line, line, "{error}");
        assert!(error.message.contains(message), "{error}");
    }
}
