// SPDX-License-Identifier: Apache-2.0
//! Goal: header and bytes agree both ways, and no contradiction of lengths passes.

use super::*;
use crate::testing::{hex, truncation};
use proptest::prelude::*;

// The checksums come from an independent program, not from this crate.
const PLAIN: &str = "45 00 0018 1234 4000 40 11 149f 0a000001 0a000002 61626364";
const FRAGMENT: &str = "46 b9 001c 0001 2001 01 01 17ec c0000201 c6336401 94040000 61626364";

fn plain() -> Header {
    Header {
        dscp: 0,
        ecn: 0,
        ident: 0x1234,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        protocol: Protocol::UDP,
        src: Ipv4Addr::new(10, 0, 0, 1),
        dst: Ipv4Addr::new(10, 0, 0, 2),
        payload_len: 4,
        options: Options::EMPTY,
    }
}

fn fragment() -> Header {
    Header {
        dscp: 46,
        ecn: 1,
        ident: 1,
        dont_fragment: false,
        more_fragments: true,
        fragment_offset: 8,
        ttl: 1,
        protocol: Protocol::ICMP,
        src: Ipv4Addr::new(192, 0, 2, 1),
        dst: Ipv4Addr::new(198, 51, 100, 1),
        payload_len: 4,
        options: Options::new(&[0x94, 0x04, 0x00, 0x00]).unwrap(),
    }
}

#[test]
fn header_and_bytes_agree() {
    for (text, header) in [(PLAIN, plain()), (FRAGMENT, fragment())] {
        let bytes = hex(text);
        assert_eq!(Header::parse(&bytes), Ok(header), "{text}");
        let view = View::parse(&bytes).unwrap();
        assert!(view.checksum_is_valid(), "{text}");
        assert_eq!(view.payload(), b"abcd");
        let mut written = vec![0xee; header.header_len()];
        header.emit(&mut written);
        assert_eq!(written, bytes[..header.header_len()], "{header}");
        truncation(&bytes, bytes.len(), View::parse);
    }
}

#[test]
fn published_header_checksum() {
    let bytes = hex("4500 0073 0000 4000 4011 b861 c0a80001 c0a800c7");
    assert!(Sum::of(&bytes).is_valid());
}

#[test]
fn padding_of_the_frame_is_no_payload() {
    let mut bytes = hex(PLAIN);
    bytes.extend([0; 22]);
    let view = View::parse(&bytes).unwrap();
    assert_eq!(view.total_len(), 24);
    assert_eq!(view.payload(), b"abcd");
}

#[test]
fn contradicting_lengths_are_refused() {
    let table = [
        ("35 00 0018", Reason::BadVersion),
        ("65 00 0018", Reason::BadVersion),
        ("44 00 0018", Reason::BadLength),
        ("45 00 0000", Reason::BadLength),
        ("45 00 0013", Reason::BadLength),
        ("4f 00 0018", Reason::BadLength),
        ("4f 00 003c", Reason::Truncated),
        ("45 00 0019", Reason::Truncated),
        ("45 00 ffff", Reason::Truncated),
    ];
    for (front, reason) in table {
        let mut bytes = hex(PLAIN);
        bytes[..4].copy_from_slice(&hex(front));
        assert_eq!(
            View::parse(&bytes),
            Err(Layer::Ipv4.error(reason)),
            "{front}"
        );
    }
}

#[test]
fn setters_write_one_field() {
    let mut view = View::parse(hex(PLAIN)).unwrap();
    view.set_dscp(46);
    view.set_ecn(0xf1);
    view.set_total_len(0xffff);
    view.set_ident(7);
    view.set_ttl(9);
    view.set_protocol(Protocol::TCP);
    view.set_checksum(0xabcd);
    view.set_src(Ipv4Addr::new(1, 2, 3, 4));
    view.set_dst(Ipv4Addr::new(5, 6, 7, 8));
    view.payload_mut()[0] = b'A';
    assert_eq!(
        view.payload(),
        b"Abcd",
        "the view keeps the bounds it was parsed with"
    );
    let expected = "45 b9 ffff 0007 4000 09 06 abcd 01020304 05060708 41626364";
    assert_eq!(view.into_inner(), hex(expected));
}

#[test]
fn hops_run_out_before_zero() {
    let mut view = View::parse(hex(PLAIN)).unwrap();
    for ttl in (1..64).rev() {
        assert!(view.decrement_ttl());
        assert_eq!(view.ttl(), ttl);
        assert!(view.checksum_is_valid());
    }
    let before = view.clone();
    assert!(!view.decrement_ttl());
    assert_eq!(view, before);
}

#[test]
fn display_shows_a_fragment_as_such() {
    assert_eq!(
        plain().to_string(),
        "ipv4 10.0.0.1 > 10.0.0.2 udp ttl 64 payload 4"
    );
    let expected = "ipv4 192.0.2.1 > 198.51.100.1 icmp ttl 1 payload 4 fragment 1@8+";
    assert_eq!(fragment().to_string(), expected);
}

proptest! {
    #[test]
    fn emit_then_parse_is_identity(
        (dscp, ecn, ident, ttl) in (0_u8..64, 0_u8..4, any::<u16>(), any::<u8>()),
        (dont_fragment, more_fragments, units) in (any::<bool>(), any::<bool>(), 0_u16..0x2000),
        (protocol, src, dst) in (any::<u8>(), any::<[u8; 4]>(), any::<[u8; 4]>()),
        options in proptest::collection::vec(any::<u8>(), 0..=40),
        payload in proptest::collection::vec(any::<u8>(), 0..100),
    ) {
        let header = Header {
            dscp,
            ecn,
            ident,
            dont_fragment,
            more_fragments,
            fragment_offset: units * 8,
            ttl,
            protocol: Protocol(protocol),
            src: src.into(),
            dst: dst.into(),
            payload_len: payload.len(),
            options: Options::new(&options).unwrap(),
        };
        let mut bytes = vec![0; header.header_len()];
        header.emit(&mut bytes);
        bytes.extend(&payload);
        prop_assert_eq!(Header::parse(&bytes), Ok(header));
        let mut view = View::parse(bytes).unwrap();
        prop_assert!(view.checksum_is_valid());
        prop_assert_eq!(view.payload(), payload);
        let written = view.checksum();
        view.fill_checksum();
        prop_assert_eq!(view.checksum(), written);
    }
}
