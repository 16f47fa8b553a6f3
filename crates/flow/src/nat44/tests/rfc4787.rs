//! Requirements of RFC 4787, for UDP, each by its number: frames through the whole NF.

use catena_engine::nf::Verdict;
use serde_json::json;

use super::*;
use frames::Body;

const HOST: frames::End = ("10.0.0.1", 4000);
const OTHER: frames::End = ("10.0.0.2", 4000);
const WORLD: frames::End = ("203.0.113.5", 53);

fn from(end: frames::End, to: &(String, u16)) -> Frame {
    let mut frame = Frame::udp(end, end);
    frame.dst = to.clone();
    frame
}

#[test]
fn req_1_mapping_does_not_depend_on_the_far_end() {
    let mut bench = bench(json!({}));
    let first = out(&mut bench, &Frame::udp(HOST, WORLD));
    assert!(first.src.0.starts_with("192.0.2."), "{first:?}");
    assert_eq!((&first.dst.0[..], first.dst.1), WORLD);
    for world in [("203.0.113.5", 54), ("203.0.113.6", 53), ("8.8.8.8", 1)] {
        assert_eq!(out(&mut bench, &Frame::udp(HOST, world)).src, first.src);
    }
    assert_ne!(
        out(&mut bench, &Frame::udp(("10.0.0.1", 4001), WORLD)).src,
        first.src
    );
    assert_eq!(
        (bench.counter("mappings"), bench.counter("sessions")),
        (2, 5)
    );
    nothing_is_left(&mut bench);
}

#[test]
fn req_2_all_mappings_of_a_host_have_one_address() {
    let mut bench = bench(json!({}));
    let mut both = std::collections::BTreeSet::new();
    for host in ["10.0.0.1", "10.0.0.2"] {
        let outside = out(&mut bench, &Frame::udp((host, 1), WORLD)).src.0;
        for port in 2..200 {
            assert_eq!(
                out(&mut bench, &Frame::udp((host, port), WORLD)).src.0,
                outside
            );
        }
        both.insert(outside);
    }
    assert_eq!(both.len(), 2, "hosts are spread over addresses");
    nothing_is_left(&mut bench);
}

#[test]
fn req_3_no_port_is_overloaded_and_req_4_parity_is_kept() {
    let mut bench = bench(json!({"ports": {"first": 1024, "last": 1151}}));
    let mut given = std::collections::BTreeSet::new();
    for host in ["10.0.0.1", "10.0.0.2"] {
        for port in 5000..5064 {
            let outside = out(&mut bench, &Frame::udp((host, port), WORLD)).src;
            assert_eq!(outside.1 % 2, port % 2);
            assert!(given.insert(outside));
        }
    }
    nothing_is_left(&mut bench);
}

#[test]
fn req_5_and_6_a_mapping_ends_five_minutes_after_its_last_packet() {
    let mut bench = bench(json!({}));
    let outside = out(&mut bench, &Frame::udp(HOST, WORLD)).src;
    for _ in 0..3 {
        later(&mut bench, 299);
        assert_eq!(out(&mut bench, &Frame::udp(HOST, WORLD)).src, outside);
    }
    later(&mut bench, 299);
    back(&mut bench, &from(WORLD, &outside));
    later(&mut bench, 301);
    dropped(&mut bench, 1, &from(WORLD, &outside), Why::NoMapping);
    nothing_is_left(&mut bench);
}

#[test]
fn req_8_filtering_is_as_the_settings_say() {
    let strangers = [("203.0.113.5", 99), ("203.0.113.6", 53)];
    for (filtering, passes) in [
        ("endpoint_independent", [true, true]),
        ("address_dependent", [true, false]),
        ("address_and_port_dependent", [false, false]),
    ] {
        let mut bench = bench(json!({"filtering": filtering}));
        let outside = out(&mut bench, &Frame::udp(HOST, WORLD)).src;
        let answer = back(&mut bench, &from(WORLD, &outside));
        assert_eq!((&answer.dst.0[..], answer.dst.1), HOST);
        for (stranger, passes) in strangers.into_iter().zip(passes) {
            let frame = from(stranger, &outside);
            match passes {
                true => assert_eq!(back(&mut bench, &frame).dst, answer.dst),
                false => dropped(&mut bench, 1, &frame, Why::Filtered),
            }
        }
        assert_eq!(bench.counter("sessions"), 1, "only the inside makes one");
        nothing_is_left(&mut bench);
    }
}

#[test]
fn req_9_hosts_inside_reach_each_other_by_their_endpoints_outside() {
    let mut bench = bench(json!({"filtering": "address_dependent"}));
    let one = out(&mut bench, &Frame::udp(HOST, WORLD)).src;
    let other = out(&mut bench, &Frame::udp(OTHER, WORLD)).src;
    dropped(&mut bench, 0, &from(HOST, &other), Why::Filtered);
    // Now the other one has a session to the first one's address, too.
    let (output, frame) = through(&mut bench, 0, &from(OTHER, &one)).unwrap();
    assert_eq!(
        (output, &frame.src),
        (1, &other),
        "the source is the one outside"
    );
    assert_eq!((&frame.dst.0[..], frame.dst.1), HOST);
    assert_eq!(frame.macs, [1, 2], "back to whoever it came from");
    let (output, frame) = through(&mut bench, 0, &from(HOST, &other)).unwrap();
    assert_eq!((output, &frame.src), (1, &one));
    assert_eq!((&frame.dst.0[..], frame.dst.1), OTHER);
    let unknown = ("192.0.2.1".to_owned(), 65_000);
    dropped(&mut bench, 0, &from(HOST, &unknown), Why::NoMapping);
    assert_eq!(bench.counter("hairpinned"), 2);
    nothing_is_left(&mut bench);
}

#[test]
fn req_14_fragments_go_where_the_first_one_goes() {
    let mut bench = bench(json!({}));
    let mut frame = Frame::udp(HOST, WORLD);
    frame.body = Body::Udp((0..40).collect());
    let parts = frame.parts(16);
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    let early = bench.process_from(0, &parts[1..]).packets;
    let unknown = Verdict::Drop(Why::FragmentUnknown.into());
    assert!(early.iter().all(|packet| packet.verdict == unknown));
    let outside = out(&mut bench, &Frame::udp(HOST, WORLD)).src;
    let reply = |parts: Vec<catena_engine::nf_bench::Processed>, output| {
        let mut payload: Vec<u8> = Vec::new();
        let mut last = Vec::new();
        for part in parts {
            assert_eq!(part.verdict, Verdict::Output(output));
            payload.extend(&part.bytes[34..]);
            last = part.bytes;
        }
        let mut whole = last[..34].to_vec();
        whole.extend(payload);
        let len = (whole.len() - 14) as u16;
        whole[16..18].copy_from_slice(&len.to_be_bytes());
        whole[20..22].fill(0);
        catena_wire::ipv4::View::parse(&mut whole[14..])
            .unwrap()
            .fill_checksum();
        Frame::read(&whole)
    };
    let whole = reply(bench.process_from(0, &parts).packets, 0);
    assert_eq!((&whole.src, &whole.body), (&outside, &frame.body));
    let mut answer = frame.answer();
    answer.dst = outside;
    let parts = answer.parts(24);
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    let whole = reply(bench.process_from(1, &parts).packets, 1);
    assert_eq!((&whole.dst, &whole.body), (&frame.src, &frame.body));
    later(&mut bench, 31);
    assert_eq!(
        bench.process_from(1, &parts[1..]).packets[0].verdict,
        unknown
    );
    nothing_is_left(&mut bench);
}

#[test]
fn an_absent_checksum_stays_absent_and_a_wrong_one_wrong() {
    let mut bench = bench(json!({}));
    let mut frame = Frame::udp(HOST, WORLD);
    frame.body = Body::BareUdp(b"x".to_vec());
    let outside = out(&mut bench, &frame);
    assert_eq!(outside.body, frame.body);
    let mut wrong = Frame::udp(HOST, WORLD).bytes();
    wrong[40] ^= 0x10;
    let packet = bench.process_one(&wrong);
    let read = std::panic::catch_unwind(|| Frame::read(&packet.bytes));
    assert!(read.is_err(), "the receiver finds it");
}
