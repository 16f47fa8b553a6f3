//! Requirements of RFC 5508, for ICMP, each by its number.

use catena_wire::tcp::Flags;
use serde_json::json;

use super::*;
use frames::Body;

const HOST: frames::End = ("10.0.0.1", 4000);
const WORLD: frames::End = ("203.0.113.5", 443);
const ROUTER: &str = "203.0.113.254";
/// Of an error: time exceeded.
const EXCEEDED: u8 = 11;

#[test]
fn req_1_queries_are_told_apart_by_their_identifier_for_a_minute() {
    let mut bench = bench(json!({}));
    let one = out(&mut bench, &Frame::ping("10.0.0.1", "203.0.113.5", 77));
    let other = out(&mut bench, &Frame::ping("10.0.0.2", "203.0.113.5", 77));
    assert_ne!(one.src, other.src);
    let far = out(&mut bench, &Frame::ping("10.0.0.1", "203.0.113.6", 77));
    assert_eq!(far.src, one.src, "one mapping, whoever is asked");
    for (asked, host) in [(&one, "10.0.0.1"), (&other, "10.0.0.2")] {
        let heard = back(&mut bench, &asked.answer());
        assert_eq!((&heard.dst.0[..], heard.dst.1), (host, 77));
    }
    later(&mut bench, 61);
    dropped(&mut bench, 1, &one.answer(), Why::NoMapping);
    nothing_is_left(&mut bench);
}

#[test]
fn req_3_and_4_errors_are_translated_with_the_packet_that_they_are_about() {
    let mut bench = bench(json!({}));
    let udp = Frame::udp(HOST, WORLD);
    let tcp = Frame::tcp(HOST, WORLD, Flags::SYN);
    let ping = Frame::ping("10.0.0.1", "203.0.113.5", 9);
    for sent in [udp, tcp, ping] {
        let outside = out(&mut bench, &sent);
        for len in [28, 40, 1000] {
            for message in [3, EXCEEDED, 12] {
                let heard = back(&mut bench, &outside.error(ROUTER, message, len));
                assert_eq!(heard.dst.0, "10.0.0.1");
                assert_eq!(heard.src.0, ROUTER);
                let Body::Error(found, about, _) = &heard.body else {
                    panic!("{heard:?}");
                };
                assert_eq!(
                    (*found, &about.src, &about.dst),
                    (message, &sent.src, &sent.dst)
                );
            }
        }
    }
    nothing_is_left(&mut bench);
}

#[test]
fn req_5_errors_from_inside_leave_as_the_endpoint_that_they_are_about() {
    let mut bench = bench(json!({}));
    let outside = out(&mut bench, &Frame::udp(HOST, WORLD));
    let heard = back(&mut bench, &outside.answer());
    let told = out(&mut bench, &heard.error("10.9.9.9", 3, 28));
    assert_eq!((&told.src.0, &told.dst.0[..]), (&outside.src.0, WORLD.0));
    let Body::Error(_, about, _) = &told.body else {
        panic!("{told:?}");
    };
    assert_eq!((&about.src, &about.dst), (&outside.dst, &outside.src));
    nothing_is_left(&mut bench);
}

#[test]
fn req_6_an_error_keeps_no_session_alive_and_ends_none() {
    let mut bench = bench(json!({}));
    let outside = out(&mut bench, &Frame::udp(HOST, WORLD));
    later(&mut bench, 200);
    back(&mut bench, &outside.error(ROUTER, 3, 28));
    back(&mut bench, &outside.error(ROUTER, 3, 28));
    later(&mut bench, 101);
    dropped(&mut bench, 1, &outside.error(ROUTER, 3, 28), Why::NoMapping);
    nothing_is_left(&mut bench);
}

#[test]
fn req_7_errors_between_hosts_inside_turn_back_too() {
    let mut bench = bench(json!({}));
    let other = out(&mut bench, &Frame::udp(("10.0.0.2", 5), WORLD)).src;
    let mut frame = Frame::udp(HOST, WORLD);
    frame.dst = other.clone();
    let (_, heard) = through(&mut bench, 0, &frame).unwrap();
    let (output, told) = through(&mut bench, 0, &heard.error("10.0.0.2", 3, 28)).unwrap();
    assert_eq!(
        (output, &told.src.0, &told.dst.0[..]),
        (1, &other.0, HOST.0)
    );
    let Body::Error(_, about, _) = &told.body else {
        panic!("{told:?}");
    };
    assert_eq!((&about.src, &about.dst), (&frame.src, &frame.dst));
    nothing_is_left(&mut bench);
}

#[test]
fn errors_of_no_session_or_with_a_wrong_checksum_are_dropped() {
    let mut bench = bench(json!({}));
    let outside = out(&mut bench, &Frame::udp(HOST, WORLD));
    let mut elsewhere = outside.clone();
    elsewhere.dst.1 += 1;
    dropped(
        &mut bench,
        1,
        &elsewhere.error(ROUTER, 3, 28),
        Why::NoMapping,
    );
    dropped(&mut bench, 1, &outside.error(ROUTER, 3, 27), Why::IcmpType);
    dropped(&mut bench, 1, &outside.error(ROUTER, 5, 28), Why::IcmpType);
    let mut wrong = outside.error(ROUTER, 3, 28).bytes();
    wrong[36] ^= 1;
    let verdict = bench.process_from(1, &[&wrong]).packets[0].verdict;
    assert_eq!(verdict, Verdict::Drop(Why::IcmpType.into()));
    nothing_is_left(&mut bench);
}
