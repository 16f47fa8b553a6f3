//! What comes where something is full, is nobody's or is no IPv4; answers to control requests;
//! packets that are still to be cut or summed; circles.

use catena_wire::tcp::Flags;
use serde_json::json;

use super::super::endpoint::Endpoint;
use super::super::packet::{Side, set_address, set_port};
use super::*;

const WORLD: frames::End = ("203.0.113.5", 53);

#[test]
fn full_tables_refuse_what_is_new_and_leave_what_is_there() {
    let mut bench = bench(json!({"sessions": 4, "subscribers": 2}));
    for port in 1..=3 {
        out(&mut bench, &Frame::udp(("10.0.0.1", port), WORLD));
    }
    out(&mut bench, &Frame::udp(("10.0.0.2", 1), WORLD));
    dropped(
        &mut bench,
        0,
        &Frame::udp(("10.0.0.2", 2), WORLD),
        Why::SessionsFull,
    );
    out(&mut bench, &Frame::udp(("10.0.0.1", 3), WORLD));
    assert_eq!(bench.counter("mappings"), 4);
    nothing_is_left(&mut bench);
    let mut bench = self::bench(json!({"subscribers": 1}));
    out(&mut bench, &Frame::udp(("10.0.0.2", 1), WORLD));
    dropped(
        &mut bench,
        0,
        &Frame::udp(("10.0.0.3", 1), WORLD),
        Why::SubscribersFull,
    );
    nothing_is_left(&mut bench);
}

/// Two parts of a packet with this identification.
fn parts(ident: u16) -> [Vec<u8>; 2] {
    let parts = Frame::udp(("10.0.0.1", 1), WORLD).parts(8);
    [0, 1].map(|at| {
        let mut part = parts[at].clone();
        part[18..20].copy_from_slice(&ident.to_be_bytes());
        catena_wire::ipv4::View::parse(&mut part[14..])
            .unwrap()
            .fill_checksum();
        part
    })
}

/// Whoever begins packets and ends none keeps nobody out but at that instant.
#[test]
fn notes_of_fragments_are_bounded_and_old_ones_give_way() {
    let mut bench = bench(json!({"fragments": 64}));
    let passes = |bench: &mut NfBench, part: &[u8]| match bench.process_one(part).verdict {
        Verdict::Output(0) => true,
        verdict => {
            let full = Verdict::Drop(Why::FragmentsFull.into());
            let unknown = Verdict::Drop(Why::FragmentUnknown.into());
            assert!(verdict == full || verdict == unknown, "{verdict:?}");
            false
        }
    };
    for ident in 0..64 {
        assert!(passes(&mut bench, &parts(ident)[0]), "{ident}");
    }
    assert!(!passes(&mut bench, &parts(64)[0]), "of the same instant");
    assert!(passes(&mut bench, &parts(63)[0]), "it is noted already");
    let mut begun = 0;
    for ident in 100..500 {
        bench.now = Nanos(bench.now.0 + 1000);
        let [first, second] = parts(ident);
        if passes(&mut bench, &first) {
            begun += 1;
            assert!(passes(&mut bench, &second), "{ident}");
        }
    }
    // Now and then no note is where the new one could be.
    assert!(begun >= 390, "{begun}");
    assert_eq!(bench.counter("fragmented"), 64);
    let known = (0..500).filter(|ident| passes(&mut bench, &parts(*ident)[1]));
    assert_eq!(known.count(), 64);
    nothing_is_left(&mut bench);
}

#[test]
fn what_is_nobodys_is_dropped_or_passes_as_it_is() {
    let stranger = Frame::udp(("172.16.0.1", 1), WORLD);
    let elsewhere = Frame::udp(WORLD, ("172.16.0.1", 1));
    let mut bench = bench(json!({}));
    dropped(&mut bench, 0, &stranger, Why::NotInside);
    dropped(&mut bench, 1, &elsewhere, Why::NotOutside);
    let mut bench = self::bench(json!({"untranslated": "pass"}));
    assert_eq!(out(&mut bench, &stranger), stranger);
    assert_eq!(back(&mut bench, &elsewhere), elsewhere);
    assert_eq!(bench.counter("untranslated"), 2);
    nothing_is_left(&mut bench);
}

#[test]
fn what_is_not_ipv4_passes_and_other_protocols_do_not() {
    let mut bench = bench(json!({}));
    let mut arp = vec![0xff; 42];
    arp[12..14].copy_from_slice(&[8, 6]);
    let mut ipv6 = [&[2; 12][..], &[0x86, 0xdd, 0x60], &[0; 39]].concat();
    ipv6[20] = 59;
    for frame in [arp, ipv6] {
        for input in 0..2 {
            let packet = &bench.process_from(input, &[&frame]).packets[0];
            assert_eq!(packet.verdict, Verdict::Output(input));
            assert_eq!(packet.bytes, frame);
        }
    }
    let mut gre = Frame::udp(("10.0.0.1", 1), WORLD).bytes();
    gre[23] = 47;
    let verdict = bench.process_one(&gre).verdict;
    assert_eq!(verdict, Verdict::Drop(Why::Protocol.into()));
    let whole = Frame::tcp(("10.0.0.1", 1), WORLD, Flags::SYN).bytes();
    for len in 1..whole.len() {
        for input in 0..2 {
            let verdict = bench.process_from(input, &[&whole[..len]]).packets[0].verdict;
            assert_eq!(verdict, Verdict::Drop(DropReason::Malformed), "{len}");
        }
    }
    nothing_is_left(&mut bench);
}

#[test]
fn a_burst_of_one_flow_makes_one_session_also_in_a_bundle() {
    let mut bench = bench(json!({}));
    let frame = Frame::udp(("10.0.0.1", 9), WORLD).bytes();
    let other = Frame::udp(("10.0.0.1", 8), WORLD).bytes();
    let burst = [&frame[..], &other, &frame, &frame];
    let together = bench.process(&burst).packets;
    let bundled = bench.process_bundle(&burst).packets;
    assert_eq!(together, bundled);
    assert_eq!(together[0].bytes, together[3].bytes);
    assert_eq!(bench.counter("sessions"), 2);
    nothing_is_left(&mut bench);
}

/// Method: what a card would complete from the field is what it would from a new pseudo header.
#[test]
fn an_open_checksum_follows_the_addresses_alone() {
    let sum = |frame: &[u8]| {
        let len = (frame.len() - 34) as u32;
        let pseudo = catena_wire::ipv4::View::parse(&frame[14..])
            .unwrap()
            .addresses();
        pseudo.pseudo_header(catena_wire::ip::Protocol::TCP, len)
    };
    let mut frame = Frame::tcp(("10.0.0.1", 4000), WORLD, Flags::SYN).bytes();
    let open = !sum(&frame).checksum();
    frame[50..52].copy_from_slice(&open.to_be_bytes());
    let end = Endpoint {
        address: 0xc000_0201,
        port: 1234,
        protocol: 6,
    };
    let old = set_address(&mut frame, 14, Side::Src, end.address);
    set_port(&mut frame, 34, Side::Src, (old, end), true);
    assert_eq!(frame[50..52], (!sum(&frame).checksum()).to_be_bytes());
    assert_eq!(frame[34..36], 1234_u16.to_be_bytes());
}

#[test]
fn in_a_circle_packets_wait_for_their_output_and_no_more_than_may() {
    let config = config(json!({"circle": true}));
    let mut bench = NfBench::with_buffers(&KIND, &config, &["outside", "inside"], 1200).unwrap();
    assert!(bench.plan().ends_paths());
    let frame = Frame::udp(("10.0.0.1", 1), WORLD).bytes();
    let mut kept = 0;
    for _ in 0..9 {
        let packets = bench.process(&[&frame[..]; 128]).packets;
        kept += packets
            .iter()
            .filter(|one| one.verdict == Verdict::Kept)
            .count();
    }
    assert_eq!((kept, bench.held()), (1024, 1024));
    let packet = bench.process_one(&frame);
    assert_eq!(packet.verdict, Verdict::Drop(Why::QueueFull.into()));
    assert_eq!(bench.emit(1000, false).0.len(), 1000);
    let (sent, _) = bench.emit(1000, false);
    assert_eq!(sent.len(), 24);
    let outside = Frame::read(&sent[0].bytes);
    let answer = bench.process_from(1, &[&outside.answer().bytes()]).packets;
    assert_eq!(answer[0].verdict, Verdict::Kept);
    let (sent, _) = bench.emit(9, false);
    assert_eq!((sent.len(), sent[0].output), (1, 1));
    assert_eq!(Frame::read(&sent[0].bytes).dst, ("10.0.0.1".to_owned(), 1));
    nothing_is_left(&mut bench);
}

#[test]
fn control_requests_show_a_part_at_a_time() {
    let mut bench = bench(json!({"blocks_per_subscriber": 8, "sessions": 4000,
        "sessions_per_subscriber": 4000}));
    let outside = out(&mut bench, &Frame::tcp(("10.0.0.1", 1), WORLD, Flags::SYN)).src;
    let shown = bench.control(&json!({"show": "sessions"})).unwrap();
    let wanted = json!({"protocol": "tcp", "inside": "10.0.0.1:1", "remote": "203.0.113.5:53",
        "outside": format!("{}:{}", outside.0, outside.1), "state": "opening", "idle_ms": 0});
    assert_eq!(shown, json!({"sessions": [wanted], "next": null}));
    for port in 1..=1500 {
        out(&mut bench, &Frame::udp(("10.0.0.1", 7), (WORLD.0, port)));
    }
    let first = bench.control(&json!({"show": "sessions"})).unwrap();
    let next = &first["next"];
    let rest = bench
        .control(&json!({"show": "sessions", "from": next}))
        .unwrap();
    let count = |answer: &Value| answer["sessions"].as_array().unwrap().len();
    assert_eq!((count(&first), count(&rest)), (1000, 501));
    assert_eq!(rest["next"], Value::Null);
    let mappings = bench.control(&json!({"show": "mappings"})).unwrap();
    assert_eq!(mappings["mappings"].as_array().unwrap().len(), 2);
    let blocks = bench.control(&json!({"show": "blocks"})).unwrap();
    assert_eq!(blocks["blocks"][0]["inside"], "10.0.0.1");
    let ask = json!({"show": "subscriber", "inside": "10.0.0.1"});
    let one = bench.control(&ask).unwrap();
    assert_eq!(
        (&one["sessions"], &one["blocks"][0]["used"]),
        (&json!(1501), &json!(2))
    );
    for wrong in [
        json!({}),
        json!({"show": "x"}),
        json!({"show": "subscriber"}),
        json!({"events": "x"}),
        json!({"show": "blocks", "from": -1}),
    ] {
        assert!(bench.control(&wrong).is_err(), "{wrong}");
    }
    nothing_is_left(&mut bench);
}
