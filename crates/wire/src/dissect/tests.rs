// SPDX-License-Identifier: Apache-2.0
//! Goal: every layer the pass understands is found at the right offset, and every malformed header
//! is named. Method: frames written out in hex, one field border per space.

use super::*;
use crate::testing::hex;
use core::net::{IpAddr, Ipv4Addr};

const MACS: &str = "02000000000b 02000000000a";
const IPV4: &str = "45 00 0020 0000 0000 40 11 66cb 0a000001 0a000002";
const IPV6: &str =
    "60000000 000c 11 40 20010db8000000000000000000000001 20010db8000000000000000000000002";
const UDP: &str = "0035 c000 000c 0000 61626364";

fn frame(parts: &[&str]) -> Vec<u8> {
    hex(&[&[MACS], parts].concat().concat())
}

fn offsets(found: &Dissected) -> [usize; 4] {
    [found.l3, found.l4, found.payload, found.end]
}

/// The error of a frame whose bytes from `at` on are replaced by `text`.
fn error_of(mut bytes: Vec<u8>, at: usize, text: &str) -> (Layer, Reason) {
    let patch = hex(text);
    bytes[at..at + patch.len()].copy_from_slice(&patch);
    let error = Dissected::parse(&bytes).unwrap_err();
    (error.layer, error.reason)
}

#[test]
fn udp_over_ipv4_with_padding() {
    let mut bytes = frame(&["0800", IPV4, UDP]);
    bytes.resize(60, 0);
    let found = Dissected::parse(&bytes).unwrap();
    assert_eq!(found.ether_type, EtherType::IPV4);
    assert_eq!(offsets(&found), [14, 34, 42, 46]);
    assert_eq!(&bytes[found.payload..found.end], b"abcd");
    let ip = found.ip.unwrap();
    assert_eq!(ip.addresses.src(), IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));
    assert_eq!(ip.addresses.dst(), IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)));
    assert_eq!((ip.protocol, ip.fragment), (Protocol::UDP, Fragment::Whole));
    assert_eq!(found.ports(), Some((53, 0xc000)));
    assert_eq!(found.vlan_count(), 0);
    assert_eq!(found.to_string(), "10.0.0.1 > 10.0.0.2 udp 53 > 49152");
}

#[test]
fn tags_are_counted_and_bounded() {
    let found = Dissected::parse(&frame(&["88a8 0064", "8100 600a", "0800", IPV4, UDP])).unwrap();
    assert_eq!(found.vlan_ids(), [100, 10]);
    assert_eq!(found.ether_type, EtherType::IPV4);
    assert_eq!(offsets(&found), [22, 42, 50, 54]);
    assert_eq!(
        found.to_string(),
        "vlan 100 vlan 10 10.0.0.1 > 10.0.0.2 udp 53 > 49152"
    );

    let many = |count| frame(&["8100 0001".repeat(count).as_str(), "0806"]);
    assert_eq!(
        Dissected::parse(&many(VLAN_TAGS_MAX)).unwrap().vlan_ids(),
        [1; VLAN_TAGS_MAX]
    );
    let error = Dissected::parse(&many(VLAN_TAGS_MAX + 1));
    assert_eq!(error, Err(Layer::Vlan.error(Reason::TooManyHeaders)));
}

#[test]
fn tcp_over_ipv6_with_extensions() {
    let tcp = "c000 0050 00000001 00000000 6002 ffff 0000 0000 020405b4";
    let ipv6 = IPV6.replace("000c 11", "0028 00");
    let chain = [
        "86dd",
        &ipv6,
        "3c 00 010400000000",
        "06 00 010400000000",
        tcp,
    ];
    let found = Dissected::parse(&frame(&chain)).unwrap();
    assert_eq!(offsets(&found), [14, 70, 94, 94]);
    assert_eq!(found.ip.unwrap().protocol, Protocol::TCP);
    let flags = tcp::Flags::SYN;
    assert_eq!(
        found.transport,
        Transport::Tcp {
            src_port: 0xc000,
            dst_port: 80,
            flags
        }
    );
    assert_eq!(
        found.to_string(),
        "2001:db8::1 > 2001:db8::2 tcp 49152 > 80 [S]"
    );
}

#[test]
fn messages_of_both_icmps() {
    let v4 = frame(&[
        "0800",
        &IPV4.replace("40 11", "40 01"),
        "08 00 0000 0001 0001 61626364",
    ]);
    let message_type = icmpv4::Type::ECHO_REQUEST;
    let found = Dissected::parse(&v4).unwrap();
    assert_eq!(
        found.transport,
        Transport::Icmpv4 {
            message_type,
            code: 0
        }
    );
    assert_eq!((found.ports(), found.payload), (None, 42));

    let v6 = frame(&[
        "86dd",
        &IPV6.replace("11 40", "3a ff"),
        "80 00 0000 0001 0001 61626364",
    ]);
    let message_type = icmpv6::Type::ECHO_REQUEST;
    let found = Dissected::parse(&v6).unwrap();
    assert_eq!(
        found.transport,
        Transport::Icmpv6 {
            message_type,
            code: 0
        }
    );

    // The ICMP of the other version is just a payload nobody reads.
    let crossed = frame(&[
        "0800",
        &IPV4.replace("40 11", "40 3a"),
        "80 00 0000 0001 0001 61626364",
    ]);
    assert_eq!(
        Dissected::parse(&crossed).unwrap().transport,
        Transport::Other
    );
}

#[test]
fn only_the_first_fragment_has_ports() {
    // Goal: the length of the whole datagram, 0xff, must not fail the first part.
    let udp = "0035 c000 00ff 0000 61626364";
    let first = frame(&["0800", &IPV4.replace("0000 0000 40", "0000 2000 40"), udp]);
    let found = Dissected::parse(&first).unwrap();
    assert_eq!(found.ip.unwrap().fragment, Fragment::First);
    assert_eq!((found.ports(), found.payload), (Some((53, 0xc000)), 42));

    let later = frame(&["0800", &IPV4.replace("0000 0000 40", "0000 0001 40"), udp]);
    let found = Dissected::parse(&later).unwrap();
    assert_eq!(found.ip.unwrap().fragment, Fragment::Later);
    assert_eq!((found.ports(), found.transport), (None, Transport::None));
    assert_eq!(offsets(&found), [14, 34, 34, 46]);
    assert_eq!(found.to_string(), "10.0.0.1 > 10.0.0.2 udp later fragment");

    let v6 = |offset_more: &str| {
        let ipv6 = IPV6.replace("000c 11", "0014 2c");
        let fragment = format!("11 00 {offset_more} 00000007");
        Dissected::parse(&frame(&["86dd", &ipv6, &fragment, udp]))
    };
    assert_eq!(v6("0001").unwrap().ip.unwrap().fragment, Fragment::First);
    assert_eq!(v6("0009").unwrap().ip.unwrap().fragment, Fragment::Later);
    assert_eq!(v6("0008").unwrap().ip.unwrap().fragment, Fragment::Later);
    // Atomic: a whole packet, so its UDP length counts.
    assert_eq!(v6("0000"), Err(Layer::Udp.error(Reason::Truncated)));
}

#[test]
fn what_is_not_understood_is_no_error() {
    let arp = frame(&["0806", "0001"]);
    let found = Dissected::parse(&arp).unwrap();
    assert_eq!((found.ip, found.transport), (None, Transport::None));
    assert_eq!(offsets(&found), [14, 14, 14, 16]);
    assert_eq!(found.to_string(), "arp");

    let gre = frame(&["0800", &IPV4.replace("40 11", "40 2f"), UDP]);
    let found = Dissected::parse(&gre).unwrap();
    assert_eq!(found.transport, Transport::Other);
    assert_eq!(offsets(&found), [14, 34, 34, 46]);

    let nothing = frame(&["86dd", &IPV6.replace("000c 11", "0000 3b")]);
    assert_eq!(
        Dissected::parse(&nothing).unwrap().transport,
        Transport::None
    );

    let llc = frame(&["0003", "424203", "000000"]);
    assert_eq!(offsets(&Dissected::parse(&llc).unwrap()), [14, 14, 14, 17]);
    let tagged = frame(&["8100 0001", "0003", "424203", "000000"]);
    assert_eq!(
        offsets(&Dissected::parse(&tagged).unwrap()),
        [18, 18, 18, 21]
    );
    let error = Dissected::parse(&tagged[..20]);
    assert_eq!(error, Err(Layer::Vlan.error(Reason::Truncated)));
}

#[test]
fn malformed_headers_are_named() {
    let v4 = || frame(&["0800", IPV4, UDP]);
    let v6 = || frame(&["86dd", IPV6, UDP]);
    let table = [
        (error_of(v4(), 14, "65"), (Layer::Ipv4, Reason::BadVersion)),
        (error_of(v4(), 14, "44"), (Layer::Ipv4, Reason::BadLength)),
        (error_of(v4(), 16, "0021"), (Layer::Ipv4, Reason::Truncated)),
        (error_of(v4(), 16, "001b"), (Layer::Udp, Reason::Truncated)),
        (error_of(v4(), 23, "06"), (Layer::Tcp, Reason::Truncated)),
        (error_of(v4(), 38, "0007"), (Layer::Udp, Reason::BadLength)),
        (error_of(v4(), 38, "000d"), (Layer::Udp, Reason::Truncated)),
        (
            error_of(v4(), 16, "0018 0000 0000 40 01"),
            (Layer::Icmpv4, Reason::Truncated),
        ),
        (error_of(v6(), 14, "45"), (Layer::Ipv6, Reason::BadVersion)),
        (
            error_of(v6(), 18, "0000 00"),
            (Layer::Ipv6, Reason::BadLength),
        ),
        (error_of(v6(), 18, "000d"), (Layer::Ipv6, Reason::Truncated)),
        (
            error_of(v6(), 20, "2b"),
            (Layer::Ipv6Extension, Reason::Truncated),
        ),
        (
            error_of(v6(), 18, "0007 3a"),
            (Layer::Icmpv6, Reason::Truncated),
        ),
    ];
    for (index, (found, expected)) in table.into_iter().enumerate() {
        assert_eq!(found, expected, "row {index}");
    }
    let error = Layer::Udp.error(Reason::BadLength);
    assert_eq!(error.to_string(), "udp: bad_length");
}

#[test]
fn truncation_at_every_length_fails() {
    let ipv6 = IPV6.replace("000c 11", "0014 2c");
    let frames = [
        frame(&["0800", IPV4, UDP]),
        frame(&["88a8 0064", "8100 000a", "0800", IPV4, UDP]),
        frame(&["86dd", &ipv6, "11 00 0000 00000007", UDP]),
    ];
    for bytes in frames {
        crate::testing::truncation(&bytes, bytes.len(), Dissected::parse);
    }
}

/// What a tunnel carries is read as what a frame carries, without the frame.
#[test]
fn a_packet_without_a_frame_is_dissected_as_inside_one() {
    for (ether_type, ip) in [("0800", IPV4), ("86dd", IPV6)] {
        let framed = frame(&[ether_type, ip, UDP]);
        let outer = Dissected::parse(&framed).unwrap();
        let inner = Dissected::parse_ip(&framed[14..]).unwrap();
        assert_eq!((inner.ip, inner.transport), (outer.ip, outer.transport));
        assert_eq!(offsets(&inner), offsets(&outer).map(|offset| offset - 14));
    }
    let error = Dissected::parse_ip(&[]).unwrap_err();
    assert_eq!(error, Layer::Ipv4.error(Reason::Truncated));
    assert!(Dissected::parse_ip(&[0x50; 40]).is_err());
}
