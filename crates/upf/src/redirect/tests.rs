//! What is said to each segment of a connection that is redirected.

use super::*;

const LOCATION: &[u8] = b"http://portal.example/";
const SEED: [u64; 2] = [1, 2];

/// A segment of a UE to a server, as an IP packet.
fn segment(
    is_v6: bool,
    port: u16,
    (sequence, acknowledgment): (u32, u32),
    flags: Flags,
    data: &[u8],
) -> Vec<u8> {
    let addresses = match is_v6 {
        false => Addresses::V4 {
            src: [203, 0, 113, 9].into(),
            dst: [10, 45, 0, 1].into(),
        },
        true => Addresses::V6 {
            src: "2001:db8:9::9".parse().unwrap(),
            dst: "2001:db8:45::1".parse().unwrap(),
        },
    };
    // An answer of one that came from the server is one to the server.
    let header = tcp::Header {
        src_port: port,
        dst_port: 40_000,
        sequence: 0,
        acknowledgment: 0,
        flags,
        window: 0,
        urgent: 0,
        options: Options::default(),
    };
    let came = Segment {
        addresses,
        header,
        len: 0,
        is_request: false,
    };
    came.answer(sequence, flags, acknowledgment, data)
}

fn read(packet: &[u8]) -> (tcp::Header, Vec<u8>) {
    let read = Dissected::parse_ip(packet).unwrap();
    let ip = read.ip.unwrap();
    let view = tcp::View::parse(&packet[read.l4..read.end]).unwrap();
    assert!(view.checksum_is_valid(&ip.addresses));
    assert_eq!(view.dst_port(), 40_000);
    (tcp::Header::from(&view), view.payload().to_vec())
}

fn said(packet: &[u8]) -> (tcp::Header, Vec<u8>) {
    match answer(packet, LOCATION, SEED) {
        Some(Said::Segment(bytes) | Said::Location(bytes)) => read(&bytes),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_connection_is_opened_answered_and_ended() {
    for is_v6 in [false, true] {
        let (opened, _) = said(&segment(is_v6, HTTP, (1000, 0), Flags::SYN, &[]));
        assert_eq!(opened.flags, Flags::SYN | Flags::ACK);
        assert_eq!(opened.acknowledgment, 1001);
        let initial = opened.sequence.wrapping_add(1);
        let confirm = segment(is_v6, HTTP, (1001, initial), Flags::ACK, &[]);
        assert_eq!(answer(&confirm, LOCATION, SEED), Some(Said::Nothing));
        let request = segment(
            is_v6,
            HTTP,
            (1001, initial),
            Flags::ACK | Flags::PSH,
            b"GET / HTTP/1.1\r\n\r\n",
        );
        for _ in 0..2 {
            let (told, data) = said(&request);
            assert_eq!(told.flags, Flags::PSH | Flags::ACK | Flags::FIN);
            assert_eq!((told.sequence, told.acknowledgment), (initial, 1019));
            let text = String::from_utf8(data).unwrap();
            assert!(text.starts_with("HTTP/1.1 302 Found\r\nLocation: http://portal.example/\r\n"));
            assert!(text.ends_with("Connection: close\r\n\r\n"));
        }
        let end = initial.wrapping_add(response(LOCATION).len() as u32 + 1);
        let ended = segment(is_v6, HTTP, (1019, end), Flags::ACK | Flags::FIN, &[]);
        let (last, _) = said(&ended);
        assert_eq!(last.flags, Flags::ACK);
        assert_eq!((last.sequence, last.acknowledgment), (end, 1020));
        let reset = segment(is_v6, HTTP, (1020, end), Flags::RST, &[]);
        assert_eq!(answer(&reset, LOCATION, SEED), Some(Said::Nothing));
    }
}

/// It was open before, to the server itself: its end has other sequence numbers.
#[test]
fn a_connection_of_somebody_else_is_reset() {
    let old = segment(false, HTTP, (7, 99), Flags::ACK, b"GET / HTTP/1.1\r\n");
    let (reset, data) = said(&old);
    assert_eq!((reset.flags, reset.sequence), (Flags::RST, 99));
    assert!(data.is_empty());
}

#[test]
fn what_is_no_request_of_http_is_not_answered() {
    let tls = segment(false, 443, (1000, 0), Flags::SYN, &[]);
    assert_eq!(answer(&tls, LOCATION, SEED), None);
    let mut spoiled = segment(false, HTTP, (1000, 0), Flags::SYN, &[]);
    let last = spoiled.len() - 1;
    spoiled[last] ^= 1;
    assert_eq!(answer(&spoiled, LOCATION, SEED), None, "a wrong checksum");
    for len in 0..spoiled.len() {
        assert_eq!(answer(&spoiled[..len], LOCATION, SEED), None);
    }
}

#[test]
fn locations_are_urls_of_one_line() {
    let of = |address_type, address: &str, port| {
        let information = RedirectInformation {
            address_type,
            address: address.as_bytes(),
            other_address: None,
            port,
        };
        location(&information).map(|bytes| String::from_utf8(bytes).unwrap())
    };
    let url = RedirectInformation::URL;
    assert_eq!(of(url, "http://a/b?c", None).unwrap(), "http://a/b?c");
    assert_eq!(of(url, "http://a/\r\nSet-Cookie: b", None), None);
    assert_eq!(of(url, "", None), None);
    let v4 = RedirectInformation::IPV4;
    assert_eq!(of(v4, "192.0.2.1", None).unwrap(), "http://192.0.2.1/");
    assert_eq!(of(v4, "portal", None), None);
    let v6 = RedirectInformation::IPV6_AND_PORT;
    let there = of(v6, "2001:db8::1", Some(8080)).unwrap();
    assert_eq!(there, "http://[2001:db8::1]:8080/");
}
