//! Requirements of RFC 5382, for TCP, each by its number: frames through the whole NF.

use catena_wire::tcp::Flags;
use serde_json::json;

use super::*;

const HOST: frames::End = ("10.0.0.1", 4000);
const WORLD: frames::End = ("203.0.113.5", 443);
const FIN: Flags = Flags(0x011);

fn says(flags: Flags) -> Frame {
    Frame::tcp(HOST, WORLD, flags)
}

fn hears(outside: &(String, u16), flags: Flags) -> Frame {
    let mut frame = Frame::tcp(WORLD, WORLD, flags);
    frame.dst = outside.clone();
    frame
}

/// Opens a connection; gives its endpoint outside.
fn open(bench: &mut NfBench) -> (String, u16) {
    let syn = out(bench, &says(Flags::SYN));
    let heard = back(bench, &syn.answer());
    assert_eq!(heard.body, frames::Body::Tcp(Flags::SYN | Flags::ACK));
    out(bench, &says(Flags::ACK));
    syn.src
}

#[test]
fn req_1_mapping_does_not_depend_on_the_far_end() {
    let mut bench = bench(json!({}));
    let outside = open(&mut bench);
    let other = Frame::tcp(HOST, ("203.0.113.6", 80), Flags::SYN);
    assert_eq!(out(&mut bench, &other).src, outside);
    nothing_is_left(&mut bench);
}

#[test]
fn req_2_both_sides_may_open_at_once() {
    let mut bench = bench(json!({"filtering": "address_and_port_dependent"}));
    let outside = out(&mut bench, &says(Flags::SYN)).src;
    back(&mut bench, &hears(&outside, Flags::SYN));
    out(&mut bench, &says(Flags::SYN | Flags::ACK));
    back(&mut bench, &hears(&outside, Flags::SYN | Flags::ACK));
    out(&mut bench, &says(Flags::ACK));
    later(&mut bench, 7000);
    back(&mut bench, &hears(&outside, Flags::ACK));
    nothing_is_left(&mut bench);
}

#[test]
fn req_3_filtering_holds_for_connections_and_req_4_nothing_is_answered() {
    let mut bench = bench(json!({"filtering": "address_dependent"}));
    let outside = open(&mut bench);
    let mut stranger = hears(&outside, Flags::SYN);
    stranger.src.0 = "203.0.113.9".to_owned();
    dropped(&mut bench, 1, &stranger, Why::Filtered);
    let nobody = (outside.0, outside.1 ^ 1);
    dropped(&mut bench, 1, &hears(&nobody, Flags::SYN), Why::NoMapping);
    nothing_is_left(&mut bench);
}

#[test]
fn req_5_an_established_connection_lives_two_hours_and_four_minutes() {
    let mut bench = bench(json!({}));
    let outside = open(&mut bench);
    later(&mut bench, 7439);
    back(&mut bench, &hears(&outside, Flags::ACK));
    later(&mut bench, 7441);
    dropped(&mut bench, 1, &hears(&outside, Flags::ACK), Why::NoMapping);
    nothing_is_left(&mut bench);
}

#[test]
fn req_5_one_that_is_not_open_or_closed_lives_four_minutes() {
    let mut bench = bench(json!({}));
    let outside = out(&mut bench, &says(Flags::SYN)).src;
    later(&mut bench, 241);
    dropped(&mut bench, 1, &hears(&outside, Flags::ACK), Why::NoMapping);

    let outside = open(&mut bench);
    out(&mut bench, &says(FIN));
    later(&mut bench, 1000);
    back(&mut bench, &hears(&outside, FIN));
    later(&mut bench, 239);
    out(&mut bench, &says(Flags::ACK));
    later(&mut bench, 241);
    assert_eq!(bench.counter("sessions"), 0);

    let outside = open(&mut bench);
    back(&mut bench, &hears(&outside, Flags::RST));
    later(&mut bench, 241);
    assert_eq!(bench.counter("sessions"), 0, "reset");
    nothing_is_left(&mut bench);
}

#[test]
fn a_segment_of_no_connection_makes_none() {
    let mut bench = bench(json!({}));
    for flags in [Flags::ACK, FIN, Flags::RST, Flags(0)] {
        dropped(&mut bench, 0, &says(flags), Why::NoConnection);
    }
    nothing_is_left(&mut bench);
}

#[test]
fn a_server_inside_is_reached_by_a_mapping_that_it_has() {
    let mut bench = bench(json!({}));
    let outside = open(&mut bench);
    let mut syn = hears(&outside, Flags::SYN);
    syn.src = ("203.0.113.9".to_owned(), 1);
    let heard = back(&mut bench, &syn);
    assert_eq!((&heard.dst.0[..], heard.dst.1), HOST);
    let mut answer = heard.answer();
    answer.body = frames::Body::Tcp(Flags::SYN | Flags::ACK);
    assert_eq!(out(&mut bench, &answer).src, outside);
    back(
        &mut bench,
        &Frame {
            body: frames::Body::Tcp(Flags::ACK),
            ..syn.clone()
        },
    );
    later(&mut bench, 7000);
    back(
        &mut bench,
        &Frame {
            body: frames::Body::Tcp(Flags::ACK),
            ..syn
        },
    );
    nothing_is_left(&mut bench);
}
