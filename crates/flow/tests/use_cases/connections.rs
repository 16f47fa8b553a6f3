// SPDX-License-Identifier: Apache-2.0
//! Programs that follow TCP connections: tracking, ACKs of what was never sent, super spreaders.

use std::net::SocketAddr;

use super::bench::Bench;
use super::packet::{ACK, FIN, RST, SYN, TCP, UDP, packet, tcp};

const INSIDE: u8 = 0;
const OUTSIDE: u8 = 1;

fn tracker() -> Bench {
    Bench::new(include_str!("../../programs/connection_tracking.yaml"))
}

/// Segments from either side of one connection, and what becomes of them.
fn history(bench: &mut Bench, segments: &[(u8, u8, &str)]) {
    for (number, (side, flags, expected)) in segments.iter().enumerate() {
        let (client, server) = ((1, 5000), (2, 80));
        let frame = match *side {
            INSIDE => packet(TCP, client, server, *flags),
            _ => packet(TCP, server, client, *flags),
        };
        assert_eq!(bench.one(*side, &frame), *expected, "segment {number}");
    }
}

#[test]
fn a_connection_is_followed_from_its_first_segment_to_its_last() {
    let mut bench = tracker();
    let (out, into) = ("outside", "inside");
    history(
        &mut bench,
        &[
            (INSIDE, ACK, "!no_connection"),
            (OUTSIDE, SYN, "!unasked"),
            (INSIDE, SYN, out),
            (INSIDE, SYN, out),
            (OUTSIDE, ACK, "!out_of_state"),
            (OUTSIDE, SYN | ACK, into),
            (OUTSIDE, FIN | ACK, into),
        ],
    );
    bench.wait(121_000_000_000);
    history(
        &mut bench,
        &[
            (OUTSIDE, ACK, "!no_connection"),
            (INSIDE, SYN, out),
            (OUTSIDE, SYN | ACK, into),
            (INSIDE, ACK, out),
            (OUTSIDE, ACK, into),
            (OUTSIDE, SYN, "!out_of_state"),
        ],
    );
    // Whole connections outlast an hour, as Linux's do.
    bench.wait(3_600_000_000_000);
    history(
        &mut bench,
        &[
            (INSIDE, FIN | ACK, out),
            (OUTSIDE, ACK, into),
            (INSIDE, SYN, "!out_of_state"),
            // The other side may go on for as long as it speaks.
            (OUTSIDE, ACK, into),
            (OUTSIDE, FIN | ACK, into),
            (OUTSIDE, FIN | ACK, into),
            (INSIDE, ACK, out),
            // Late ones, and the same ports again.
            (OUTSIDE, FIN | ACK, into),
            (OUTSIDE, SYN, "!out_of_state"),
            (INSIDE, SYN, out),
            (OUTSIDE, RST | ACK, into),
            (OUTSIDE, ACK, "!out_of_state"),
        ],
    );
    assert_eq!(bench.flows(1), 1);
    bench.wait(11_000_000_000);
    assert_eq!(bench.flows(1), 0);
}

#[test]
fn flags_that_no_segment_has_are_dropped() {
    let mut bench = tracker();
    for flags in [0, SYN | FIN, SYN | RST, FIN | RST | ACK, FIN, 0x3f] {
        let frame = packet(TCP, (1, 5000), (2, 80), flags);
        assert_eq!(bench.one(INSIDE, &frame), "!bad_flags", "{flags:#x}");
    }
    let frame = packet(UDP, (1, 5000), (2, 80), 0);
    assert_eq!(bench.one(INSIDE, &frame), "!no_tcp");
}

#[test]
fn acks_of_what_was_never_sent_are_dropped() {
    let mut bench = Bench::new(include_str!("../../programs/optimistic_ack.yaml"));
    let client = SocketAddr::from(([10, 0, 0, 1], 5000));
    let server = SocketAddr::from(([10, 0, 0, 2], 80));
    // Numbers that wrap within the connection.
    let (c, s) = (u32::MAX - 2, u32::MAX - 100);
    let mut pass = |from_client: bool, numbers, flags, len: usize| {
        let payload = vec![7; len];
        let (src, dst) = if from_client {
            (client, server)
        } else {
            (server, client)
        };
        bench.one(0, &tcp(src, dst, numbers, flags, &payload))
    };
    let plus = |base: u32, by: u32| base.wrapping_add(by);
    assert_eq!(pass(true, (c, 0), SYN, 0), "out");
    assert_eq!(
        pass(false, (s, plus(c, 2)), SYN | ACK, 0),
        "!optimistic_ack"
    );
    assert_eq!(pass(false, (s, plus(c, 1)), SYN | ACK, 0), "out");
    assert_eq!(
        pass(true, (plus(c, 1), plus(s, 2)), ACK, 0),
        "!optimistic_ack"
    );
    assert_eq!(pass(true, (plus(c, 1), plus(s, 1)), ACK, 10), "out");
    assert_eq!(pass(false, (plus(s, 1), plus(c, 11)), ACK, 1000), "out");
    // All of it, less, and one byte more than there was.
    assert_eq!(pass(true, (plus(c, 11), plus(s, 1001)), ACK, 0), "out");
    assert_eq!(pass(true, (plus(c, 11), plus(s, 500)), ACK, 0), "out");
    assert_eq!(
        pass(true, (plus(c, 11), plus(s, 1002)), ACK, 0),
        "!optimistic_ack"
    );
    // What comes again, or late, takes nothing back; a FIN counts as a byte.
    assert_eq!(pass(false, (plus(s, 1), plus(c, 11)), ACK, 500), "out");
    assert_eq!(pass(true, (plus(c, 11), plus(s, 1001)), ACK, 0), "out");
    assert_eq!(
        pass(false, (plus(s, 1001), plus(c, 11)), FIN | ACK, 0),
        "out"
    );
    assert_eq!(pass(true, (plus(c, 11), plus(s, 1002)), ACK, 0), "out");
    let events = bench.simulation.events();
    assert_eq!(events.len(), 3);
    assert_eq!(
        (events[0].0.as_str(), events[0].1.values[1]),
        ("optimistic_ack", 80)
    );
    // A connection that was there before is followed from where it is.
    let late = SocketAddr::from(([10, 0, 0, 3], 5000));
    assert_eq!(bench.one(0, &tcp(late, server, (9, 77), ACK, &[])), "out");
    assert_eq!(
        bench.one(0, &tcp(server, late, (77, 9), ACK, &[1; 5])),
        "out"
    );
    let ahead = tcp(late, server, (9, 83), ACK, &[]);
    assert_eq!(bench.one(0, &ahead), "!optimistic_ack");
}

#[test]
fn a_source_with_too_many_destinations_is_held_back_for_a_minute() {
    let mut bench = Bench::new(include_str!("../../programs/super_spreader.yaml"));
    let to = |src, dst| packet(UDP, (src, 5), (dst, 53), 0);
    for round in 0..3 {
        for dst in 100..150 {
            assert_eq!(bench.one(0, &to(1, dst)), "out", "{round}: {dst}");
        }
    }
    assert_eq!(bench.one(0, &to(1, 150)), "!super_spreader");
    assert_eq!(bench.one(0, &to(1, 100)), "!super_spreader");
    assert_eq!(bench.one(0, &to(2, 150)), "out");
    let events = bench.simulation.events();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].1.values[0] as u32, 0x0a00_0001);
    bench.wait(61_000_000_000);
    assert_eq!(bench.one(0, &to(1, 150)), "out");
}
