//! Tests of the program's parts: fields and checksums, tunnels, tables, operations.

use catena_wire::checksum::Sum;
use catena_wire::ip::Protocol;
use catena_wire::{gtpu, ipv4, ipv6, udp};
use proptest::prelude::*;

use super::arithmetic::binary;
use super::field;
use super::frame::{Buffer, Frame};
use super::header::{HEADERS, Header, Headers};
use super::ir::Binary;
use super::table::{Match, MatchTable, Pattern, TableEntry, TableError, TableShape};
use super::template::fill_checksums;
use super::tunnel::{TUNNELS, Tunnel, decap, encap};

/// Ethernet, then what `ether_type` says.
fn ethernet(ether_type: u16, rest: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    frame.extend(ether_type.to_be_bytes());
    frame.extend(rest);
    frame
}

/// An IP packet of these addresses' version around a payload.
fn ip(protocol: Protocol, is_v6: bool, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 60];
    let len = if is_v6 {
        let header = ipv6::Header {
            dscp: 10,
            ecn: 1,
            flow_label: 7,
            payload_len: payload.len() as u16,
            next_header: protocol,
            hop_limit: 9,
            src: "2001:db8::1".parse().unwrap(),
            dst: "2001:db8::2".parse().unwrap(),
        };
        header.emit(&mut bytes);
        ipv6::HEADER_LEN
    } else {
        let header = ipv4::Header {
            dscp: 10,
            ecn: 1,
            ident: 3,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 9,
            protocol,
            src: "10.0.0.1".parse().unwrap(),
            dst: "10.0.0.2".parse().unwrap(),
            payload_len: payload.len(),
            options: catena_wire::options::Options::default(),
        };
        header.emit(&mut bytes);
        header.header_len()
    };
    bytes.truncate(len);
    bytes.extend(payload);
    bytes
}

fn udp_datagram(src_port: u16, dst_port: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; udp::HEADER_LEN];
    let header = udp::Header {
        src_port,
        dst_port,
        payload_len: payload.len(),
    };
    header.emit(&mut bytes);
    bytes.extend(payload);
    bytes
}

fn tcp_segment(payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 20];
    bytes[..4].copy_from_slice(&[0x9c, 0x40, 0, 80]);
    bytes[12] = 5 << 4;
    bytes[13] = 0x10;
    bytes.extend(payload);
    bytes
}

fn g_pdu(teid: u32, inner: &[u8]) -> Vec<u8> {
    let header = gtpu::Header {
        message_type: gtpu::MessageType::G_PDU,
        teid,
        sequence: None,
        n_pdu: None,
        extensions: gtpu::Extensions::NONE,
        payload_len: inner.len(),
    };
    let mut bytes = vec![0; header.header_len()];
    header.emit(&mut bytes);
    bytes.extend(inner);
    bytes
}

/// A frame with all checksums right.
fn sealed(mut frame: Vec<u8>) -> Vec<u8> {
    let headers = Headers::parse(&frame);
    assert!(!headers.is_malformed(), "{headers:?}");
    fill_checksums(&mut frame, &headers);
    frame
}

/// Frames of all kinds of headers.
fn samples() -> Vec<Vec<u8>> {
    let mut samples = Vec::new();
    for is_v6 in [false, true] {
        let ether_type = if is_v6 { 0x86dd } else { 0x0800 };
        let tcp = ip(Protocol::TCP, is_v6, &tcp_segment(b"odd"));
        let udp = ip(Protocol::UDP, is_v6, &udp_datagram(1, 2, b"payload"));
        let icmp = if is_v6 {
            Protocol::ICMPV6
        } else {
            Protocol::ICMP
        };
        let echo = ip(
            icmp,
            is_v6,
            &[if is_v6 { 128 } else { 8 }, 0, 0, 0, 0, 1, 0, 2, 9],
        );
        let mut error = vec![if is_v6 { 1 } else { 3 }, 1, 0, 0, 0, 0, 0, 0];
        error.extend(&tcp);
        for inner in [&tcp, &udp, &echo, &ip(icmp, is_v6, &error)] {
            samples.push(ethernet(ether_type, inner));
            let tunnel = udp_datagram(gtpu::PORT, gtpu::PORT, &g_pdu(7, inner));
            samples.push(ethernet(0x0800, &ip(Protocol::UDP, false, &tunnel)));
            samples.push(ethernet(0x86dd, &ip(Protocol::UDP, true, &tunnel)));
        }
        let outer = if is_v6 {
            Protocol::IPV6
        } else {
            Protocol::IPV4
        };
        samples.push(ethernet(0x0800, &ip(outer, false, &tcp)));
        let inner = ethernet(ether_type, &udp);
        let mut vxlan = vec![8, 0, 0, 0, 0, 0, 5, 0];
        vxlan.extend(&inner);
        let datagram = udp_datagram(9, super::header::VXLAN_PORT, &vxlan);
        samples.push(ethernet(0x0800, &ip(Protocol::UDP, false, &datagram)));
    }
    let mut tagged = vec![0x20, 5, 0x08, 0];
    tagged.extend(ip(Protocol::TCP, false, &tcp_segment(b"")));
    samples.push(ethernet(0x8100, &tagged));
    samples.into_iter().map(sealed).collect()
}

/// A frame whose checksums are computed anew, with those of UDP that are not used left out.
fn recomputed(frame: &[u8]) -> Vec<u8> {
    let mut copy = frame.to_vec();
    fill_checksums(&mut copy, &Headers::parse(frame));
    copy
}

#[test]
fn headers_are_found_inside_each_other() {
    let seen: Vec<Vec<&str>> = samples()
        .iter()
        .map(|frame| Headers::parse(frame).present().map(Header::name).collect())
        .collect();
    let tunnelled = [
        "eth",
        "ipv4",
        "udp",
        "l4",
        "payload",
        "gtpu",
        "inner.ipv4",
        "inner.tcp",
        "inner.l4",
    ];
    assert!(seen.contains(&tunnelled.to_vec()), "{seen:?}");
    for header in HEADERS {
        let is_other = matches!(header, Header::Arp | Header::Vlan2 | Header::PduSession);
        let is_seen = seen.iter().flatten().any(|name| *name == header.name());
        assert!(is_other || is_seen, "{}", header.name());
        assert_eq!(Header::named(header.name()), Some(header));
    }
}

#[test]
fn any_bytes_are_parsed_and_cut_ones_are_malformed() {
    for frame in samples() {
        for len in 0..frame.len() {
            let headers = Headers::parse(&frame[..len]);
            for header in headers.present() {
                assert!(headers.at(header).unwrap() < frame.len());
            }
        }
        let ip_len = frame.len() - 1;
        assert!(Headers::parse(&frame[..ip_len]).is_malformed());
    }
}

proptest! {
    /// Plain packets are parsed in fewer steps, and some that look plain are not: with bytes
    /// changed wherever headers say what follows.
    #[test]
    fn plain_packets_are_parsed_as_all_others(
        changes in proptest::collection::vec((12_usize..60, any::<u8>()), 0..3),
        cut in 0_usize..200,
    ) {
        for mut frame in samples() {
            for (at, byte) in &changes {
                if let Some(place) = frame.get_mut(*at) {
                    *place = *byte;
                }
            }
            frame.truncate(if cut < 60 { frame.len() - cut.min(frame.len()) } else { frame.len() });
            prop_assert_eq!(Headers::parse(&frame), Headers::parse_any(&frame), "{:02x?}", frame);
        }
    }

    /// Every field that may be written, with any value: what is read back is what was written, and
    /// all checksums are what they are when computed anew.
    #[test]
    fn written_fields_read_back_and_checksums_follow(
        value in any::<u128>(),
        is_zero in any::<bool>(),
    ) {
        for frame in samples() {
            let headers = Headers::parse(&frame);
            for header in headers.present() {
                for named in field::fields(header).iter().filter(|one| one.is_writable) {
                    let (field, _) = field::named(header, named.name).unwrap();
                    let value = if is_zero { 0 } else { value & field::ones(field.width) };
                    let mut written = frame.clone();
                    field::write(&mut written, &headers, field, value);
                    prop_assert_eq!(field::read(&written, &headers, field), value);
                    // Fields that say what follows would make another packet of it.
                    let after = Headers::parse(&written);
                    if after == headers {
                        let name = format!("{}.{}", header.name(), named.name);
                        prop_assert_eq!(&written, &recomputed(&written), "{}", name);
                    }
                }
            }
        }
    }

    #[test]
    fn what_was_wrong_in_a_checksum_stays_wrong_by_as_much(error in 1_u16..0xffff) {
        let frame = sealed(ethernet(0x0800, &ip(Protocol::TCP, false, &tcp_segment(b"x"))));
        let headers = Headers::parse(&frame);
        let mut wrong = frame.clone();
        let at = 14 + 20 + 16;
        let right = u16::from_be_bytes([frame[at], frame[at + 1]]);
        let spoiled = (Sum::of_u16(right) + Sum::of_u16(error)).checksum();
        let spoiled = !spoiled;
        wrong[at..at + 2].copy_from_slice(&spoiled.to_be_bytes());
        let (field, _) = field::named(Header::Ipv4, "dst").unwrap();
        field::write(&mut wrong, &headers, field, 0xc0a8_0001);
        let mut correct = frame;
        field::write(&mut correct, &headers, field, 0xc0a8_0001);
        prop_assert_eq!(&wrong[..at], &correct[..at]);
        let after = |bytes: &[u8]| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let expected = Sum::of_u16(after(&correct)) + Sum::of_u16(error);
        // Zero has two forms.
        let value = |sum: Sum| u32::from(sum.checksum()) % 0xffff;
        prop_assert_eq!(value(Sum::of_u16(after(&wrong))), value(expected));
    }

    #[test]
    fn operations_stay_within_their_width(
        a in any::<u128>(),
        b in any::<u128>(),
        width in 1_u8..=128,
    ) {
        let (a, b) = (a & field::ones(width), b & field::ones(width));
        use Binary::*;
        for op in [Add, Sub, Mul, Div, Mod, AddSat, SubSat, And, Or, Xor, Shl, Shr, ShrSigned, Min,
            Max, Eq, Ne, Lt, Le, LtSigned, LeSigned] {
            prop_assert!(binary(op, a, b, width) <= field::ones(width), "{op:?}");
        }
        prop_assert_eq!(binary(Sub, binary(Add, a, b, width), b, width), a);
        prop_assert_eq!(binary(AddSat, a, b, width), a.saturating_add(b).min(field::ones(width)));
        prop_assert_eq!(binary(Le, a, b, width), binary(Eq, a, b, width) | binary(Lt, a, b, width));
    }
}

#[test]
fn division_by_zero_and_wide_shifts_have_results() {
    assert_eq!(binary(Binary::Div, 7, 0, 8), 0);
    assert_eq!(binary(Binary::Mod, 7, 0, 8), 7);
    assert_eq!(binary(Binary::Shl, 1, 8, 8), 0);
    assert_eq!(binary(Binary::Shl, 1, u128::MAX, 128), 0);
    assert_eq!(binary(Binary::ShrSigned, 0x80, 200, 8), 0xff);
    assert_eq!(binary(Binary::LtSigned, 0xff, 0, 8), 1);
}

#[test]
fn an_unused_udp_checksum_stays_unused() {
    let mut frame = ethernet(
        0x0800,
        &ip(Protocol::UDP, false, &udp_datagram(1, 2, b"abc")),
    );
    let headers = Headers::parse(&frame);
    let (field, _) = field::named(Header::Ipv4, "src").unwrap();
    field::write(&mut frame, &headers, field, 1);
    assert_eq!(frame[14 + 20 + 6..][..2], [0, 0]);
    assert!(ipv4::View::parse(&frame[14..]).unwrap().checksum_is_valid());
}

#[test]
fn what_is_put_on_is_whole_and_comes_off_again() {
    let values: [u128; 4] = [0xc0a8_0001, 0xc0a8_0002, 0x1234, 5];
    for is_v6 in [false, true] {
        let ether_type = if is_v6 { 0x86dd } else { 0x0800 };
        let inner = sealed(ethernet(
            ether_type,
            &ip(Protocol::TCP, is_v6, &tcp_segment(b"data")),
        ));
        for (name, tunnel) in TUNNELS {
            let mut frame = Buffer::new(&inner);
            let headers = Headers::parse(frame.bytes());
            encap(
                &mut frame,
                &headers,
                tunnel,
                &values[..tunnel.values().len()],
            )
            .unwrap();
            assert_eq!(frame.bytes().len(), inner.len() + tunnel.len(), "{name}");
            let headers = Headers::parse(frame.bytes());
            assert!(!headers.is_malformed(), "{name}: {:02x?}", frame.bytes());
            if name.starts_with("gtpu6") {
                assert_eq!(frame.bytes(), recomputed(frame.bytes()), "{name}");
            }
            let has_session = name.ends_with("link");
            assert_eq!(headers.has(Header::PduSession), has_session, "{name}");
            if let Some(at) = headers.at(Header::Ipv4) {
                assert!(ipv4::View::parse(&frame.bytes()[at..]).is_ok_and(|view| {
                    is_v6 && tunnel == Tunnel::Vlan || view.checksum_is_valid()
                }));
            }
            let teid = field::named(Header::Gtpu, "teid").unwrap().0;
            let qfi = field::named(Header::PduSession, "qfi").unwrap().0;
            if headers.has(Header::Gtpu) {
                assert_eq!(field::read(frame.bytes(), &headers, teid), 0x1234);
            }
            if headers.has(Header::PduSession) {
                assert_eq!(field::read(frame.bytes(), &headers, qfi), 5, "{name}");
            }
            assert!(decap(&mut frame, &headers, tunnel), "{name}");
            assert_eq!(frame.bytes(), inner, "{name}");
            let headers = Headers::parse(frame.bytes());
            assert!(!decap(&mut frame, &headers, tunnel), "{name}");
        }
    }
}

#[test]
fn without_room_nothing_is_put_on() {
    let inner = sealed(ethernet(
        0x0800,
        &ip(Protocol::TCP, false, &tcp_segment(b"data")),
    ));
    let mut frame = Buffer::new(&inner);
    assert!(frame.push_front(128) && !frame.push_front(1));
    let before = frame.bytes().to_vec();
    let headers = Headers::parse(&inner);
    assert!(encap(&mut frame, &headers, Tunnel::Vlan, &[0, 5]).is_err());
    assert_eq!(frame.bytes(), before);
    let arp = ethernet(0x0806, &[0; 28]);
    let mut frame = Buffer::new(&arp);
    let headers = Headers::parse(&arp);
    assert!(encap(&mut frame, &headers, Tunnel::Ipip, &[1, 2]).is_err());
    assert_eq!(frame.bytes(), arp);
}

fn shape(kinds: &[(Match, u8)]) -> TableShape {
    TableShape {
        name: "t".to_owned(),
        key: kinds.to_vec(),
        data: vec![("value".to_owned(), 8)],
        default: vec![0],
        entries: Vec::new(),
        capacity: 3,
        maglev: None,
    }
}

fn entry(key: &[Pattern], priority: u32, value: u128) -> TableEntry {
    TableEntry {
        key: key.to_vec(),
        priority,
        data: vec![value],
    }
}

#[test]
fn the_longest_prefix_and_the_greatest_priority_win() {
    let prefix = |bits: u128, len: u32| {
        let mask = u128::from(u32::MAX) & !u128::from(u32::MAX.checked_shr(len).unwrap_or(0));
        Pattern::Masked(bits & mask, mask)
    };
    let mut table = MatchTable::new(&shape(&[(Match::Prefix, 32)]));
    table.set(entry(&[prefix(0x0a00_0000, 8)], 9, 1)).unwrap();
    table.set(entry(&[prefix(0x0a01_0000, 16)], 0, 2)).unwrap();
    assert_eq!(table.lookup(&[0x0a01_0203]), Some(&[2][..]));
    assert_eq!(table.lookup(&[0x0a02_0203]), Some(&[1][..]));
    assert_eq!(table.lookup(&[0x0b02_0203]), None);
    assert!(table.remove(&[prefix(0x0a01_0000, 16)]));
    assert_eq!(table.lookup(&[0x0a01_0203]), Some(&[1][..]));

    let mut table = MatchTable::new(&shape(&[(Match::Ternary, 8), (Match::Range, 16)]));
    table
        .set(entry(
            &[Pattern::Masked(2, 2), Pattern::Range(0, 65535)],
            1,
            1,
        ))
        .unwrap();
    table
        .set(entry(
            &[Pattern::Masked(0, 0), Pattern::Range(80, 90)],
            2,
            2,
        ))
        .unwrap();
    assert_eq!(table.lookup(&[3, 80]), Some(&[2][..]));
    assert_eq!(table.lookup(&[3, 91]), Some(&[1][..]));
    assert_eq!(table.lookup(&[1, 91]), None);
}

#[test]
fn tables_hold_entries_to_their_shape_and_size() {
    let mut table = MatchTable::new(&shape(&[(Match::Exact, 16)]));
    let exact = |value| [Pattern::exact(value, 16)];
    for value in [1, 2, 3] {
        table.set(entry(&exact(value), 0, value)).unwrap();
    }
    assert_eq!(table.set(entry(&exact(4), 0, 4)), Err(TableError::Full));
    table.set(entry(&exact(2), 0, 9)).unwrap();
    assert!(table.remove(&exact(1)) && !table.remove(&exact(1)));
    assert_eq!(table.lookup(&[2]), Some(&[9][..]));
    assert_eq!(table.lookup(&[3]), Some(&[3][..]));
    assert_eq!(table.lookup(&[1]), None);
    assert_eq!(table.entries().count(), 2);
    assert_eq!(
        table.set(entry(&exact(0x1_0000), 0, 0)),
        Err(TableError::Width)
    );
    assert_eq!(table.set(entry(&exact(5), 0, 256)), Err(TableError::Width));
    assert_eq!(table.set(entry(&[], 0, 0)), Err(TableError::Count));
    let range = [Pattern::Range(1, 2)];
    assert_eq!(table.set(entry(&range, 0, 0)), Err(TableError::Kind));
}
