//! Rules are read with precise errors, and the search agrees with a scan of the rules in order.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use catena_wire::ethernet::EtherType;
use catena_wire::ip::{Addresses, Protocol};
use proptest::prelude::*;
use serde_json::json;

use super::key::{ANY, LACKING};
use super::*;
use crate::nfs::frames::{IpPacket, ethernet, tagged};

fn read<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| error.to_string())
}

#[test]
fn prefixes_are_read_and_wrong_ones_are_refused_with_the_repair() {
    let range = |text: &str| Prefix::parse(text).map(|prefix| prefix.range_v4());
    assert_eq!(range("10.0.0.0/8"), Ok(0x0a00_0000..=0x0aff_ffff));
    assert_eq!(range("10.0.0.1"), Ok(0x0a00_0001..=0x0a00_0001));
    assert_eq!(range("0.0.0.0/0"), Ok(ANY));
    let range = |text: &str| Prefix::parse(text).map(|prefix| prefix.range_v6());
    assert_eq!(range("::/0"), Ok(0..=u128::MAX));
    assert_eq!(range("::1"), Ok(1..=1));
    assert_eq!(range("ff00::/8"), Ok(0xff << 120..=u128::MAX));
    for (text, expected) in [
        ("10.0.0.1/8", "write 10.0.0.0/8"),
        ("2001:db8::1/32", "write 2001:db8::/32"),
        ("10.0.0.0/33", "at most 32"),
        ("::/129", "at most 128"),
        ("10.0.0/8", "write it like"),
        ("10.0.0.0/", "write it like"),
        ("10.0.0.0/+8", "write it like"),
        ("10.0.0.0/99999999999", "write it like"),
        ("", "write it like"),
    ] {
        let error = Prefix::parse(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn ports_protocols_and_ether_types_are_read_as_text_or_number() {
    let one = PortRange {
        first: 80,
        last: 80,
    };
    assert_eq!(read::<PortRange>(json!(80)), Ok(one));
    assert_eq!(read::<PortRange>(json!("80")), Ok(one));
    let many = PortRange {
        first: 1024,
        last: 65535,
    };
    assert_eq!(read::<PortRange>(json!("1024-65535")), Ok(many));
    assert_eq!(
        read::<ProtocolName>(json!("tcp")),
        Ok(ProtocolName(Protocol::TCP))
    );
    assert_eq!(
        read::<ProtocolName>(json!(132)),
        Ok(ProtocolName(Protocol::SCTP))
    );
    for value in [json!("ipv6"), json!("0x86dd"), json!(0x86dd)] {
        assert_eq!(
            read::<EtherTypeName>(value),
            Ok(EtherTypeName(EtherType::IPV6))
        );
    }
    for (error, expected) in [
        (
            read::<PortRange>(json!("90-80")).unwrap_err(),
            "write 80-90",
        ),
        (read::<PortRange>(json!(65536)).unwrap_err(), "1024-65535"),
        (read::<PortRange>(json!("http")).unwrap_err(), "1024-65535"),
        (read::<ProtocolName>(json!(256)).unwrap_err(), "up to 255"),
        (read::<ProtocolName>(json!("tpc")).unwrap_err(), "write tcp"),
        (
            read::<EtherTypeName>(json!("0x12345")).unwrap_err(),
            "0x88cc",
        ),
    ] {
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn fields_that_no_packet_has_together_are_refused() {
    let prefix = |text| Prefix::parse(text).ok();
    let ether_type = |ether_type| Some(EtherTypeName(ether_type));
    let port = PortRange::parse("80").ok();
    let none = Match::default();
    let table = [
        (
            Match {
                src: prefix("10.0.0.1"),
                dst: prefix("::1"),
                ..none
            },
            "rules[0].dst",
        ),
        (
            Match {
                src_port: port,
                protocol: Some(ProtocolName(Protocol::ICMP)),
                ..none
            },
            "rules[0].src_port",
        ),
        (
            Match {
                vlan: Some(4096),
                ..none
            },
            "rules[0].vlan",
        ),
        (
            Match {
                dscp: Some(64),
                ..none
            },
            "rules[0].dscp",
        ),
        (
            Match {
                ether_type: ether_type(EtherType::ARP),
                dst_port: port,
                ..none
            },
            "rules[0].ether_type",
        ),
        (
            Match {
                ether_type: ether_type(EtherType::IPV4),
                dst: prefix("::1"),
                ..none
            },
            "rules[0].ether_type",
        ),
        (
            Match {
                ether_type: ether_type(EtherType::IPV6),
                dst: prefix("10.0.0.1"),
                ..none
            },
            "rules[0].ether_type",
        ),
        (
            Match {
                ether_type: ether_type(EtherType::CUSTOMER_VLAN),
                ..none
            },
            "rules[0].ether_type",
        ),
    ];
    for (rule, path) in table {
        let errors = RuleSet::new(&[(0, rule)]).unwrap_err();
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert_eq!(errors[0].path, path);
    }
    let errors = RuleSet::new(&vec![(0, none); RULE_COUNT_MAX + 1]).unwrap_err();
    assert_eq!(errors[0].path, "rules");
}

#[test]
fn a_key_holds_what_the_headers_say() {
    let packet = IpPacket {
        dscp: 46,
        ..IpPacket::default()
    };
    let v4 = Addresses::V4 {
        src: Ipv4Addr::new(10, 0, 0, 1),
        dst: Ipv4Addr::new(10, 0, 0, 2),
    };
    let expected = Key {
        addresses: Some(v4),
        fields: [1, 2, 17, 0x0800, LACKING, 46],
    };
    assert_eq!(Key::of(&packet.ports(1, 2)), Ok(expected));

    let v6 = IpPacket {
        src: "::1",
        dst: "::2",
        dscp: 46,
        protocol: Protocol::TCP,
        ..packet
    };
    let frame = tagged(&tagged(&v6.ports(3, 4), 0x8100, 5), 0x88a8, 6);
    let addresses = Addresses::V6 {
        src: Ipv6Addr::from_bits(1),
        dst: Ipv6Addr::from_bits(2),
    };
    let expected = Key {
        addresses: Some(addresses),
        fields: [3, 4, 6, 0x86dd, 6, 46],
    };
    assert_eq!(Key::of(&frame), Ok(expected));

    let later = IpPacket {
        fragment_offset: 8,
        ..IpPacket::default()
    }
    .ports(1, 2);
    let expected = Key {
        addresses: Some(v4),
        fields: [LACKING, LACKING, 17, 0x0800, LACKING, 0],
    };
    assert_eq!(Key::of(&later), Ok(expected));

    let arp = Key::of(&ethernet(EtherType::ARP, &[0; 28])).unwrap();
    assert_eq!(arp.addresses, None);
    assert_eq!(
        arp.fields,
        [LACKING, LACKING, LACKING, 0x0806, LACKING, LACKING]
    );
}

#[test]
fn greater_priorities_come_first_and_equal_ones_in_file_order() {
    let none = Match::default();
    let key = Key::of(&IpPacket::default().ports(1, 2)).unwrap();
    let mut rules = RuleSet::new(&[(0, none), (7, none), (7, none), (1, none)]).unwrap();
    assert_eq!(rules.first_match(&key), Some(1));
    assert_eq!(rules.first_match(&key), Some(1));
    assert_eq!(rules.hits(), [0, 2, 0, 0]);
    assert_eq!(RuleSet::new(&[]).unwrap().first_match(&key), None);
}

/// Whether `key` fits, from the meaning of each field and not from ranges.
fn fits(rule: &Match, key: &Key) -> bool {
    let within = |prefix: Option<Prefix>, address: Option<IpAddr>| match (prefix, address) {
        (None, _) => true,
        (Some(prefix), Some(IpAddr::V4(address))) => match prefix.address {
            IpAddr::V4(network) => {
                let bits = network.to_bits() ^ address.to_bits();
                bits.leading_zeros() >= prefix.len
            }
            IpAddr::V6(_) => false,
        },
        (Some(prefix), Some(IpAddr::V6(address))) => match prefix.address {
            IpAddr::V6(network) => {
                let bits = network.to_bits() ^ address.to_bits();
                bits.leading_zeros() >= prefix.len
            }
            IpAddr::V4(_) => false,
        },
        (Some(_), None) => false,
    };
    let [src_port, dst_port, protocol, ether_type, vlan, dscp] = key.fields;
    let port = |range: Option<PortRange>, port: u32| {
        range.is_none_or(|range| {
            u16::try_from(port).is_ok_and(|port| range.first <= port && port <= range.last)
        })
    };
    within(rule.src, key.addresses.map(|both| both.src()))
        && within(rule.dst, key.addresses.map(|both| both.dst()))
        && port(rule.src_port, src_port)
        && port(rule.dst_port, dst_port)
        && rule
            .protocol
            .is_none_or(|asked| u32::from(asked.0.0) == protocol)
        && rule
            .ether_type
            .is_none_or(|asked| u32::from(asked.0.0) == ether_type)
        && rule.vlan.is_none_or(|asked| u32::from(asked) == vlan)
        && rule.dscp.is_none_or(|asked| u32::from(asked) == dscp)
}

// Few values and many edges, so that rules overlap and keys hit their borders.

fn edge(len: u32) -> impl Strategy<Value = u128> {
    // A few bits at the top, a few at the bottom, or all ones.
    let all = u128::MAX >> (128 - len);
    (0_u128..4, 0_u128..4, any::<bool>()).prop_map(move |(top, bottom, ones)| {
        if ones {
            all - bottom
        } else {
            top << (len - 2) | bottom
        }
    })
}

fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        edge(32).prop_map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits as u32))),
        edge(128).prop_map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits))),
    ]
}

fn prefix() -> impl Strategy<Value = Prefix> {
    (address(), 0_u32..=128).prop_map(|(address, len)| {
        let len = len % if address.is_ipv4() { 33 } else { 129 };
        let prefix = Prefix { address, len };
        let address = match address {
            IpAddr::V4(_) => Ipv4Addr::from_bits(*prefix.range_v4().start()).into(),
            IpAddr::V6(_) => Ipv6Addr::from_bits(*prefix.range_v6().start()).into(),
        };
        Prefix { address, len }
    })
}

fn port() -> impl Strategy<Value = u16> {
    prop_oneof![0_u16..6, 65530..=u16::MAX]
}

fn port_range() -> impl Strategy<Value = PortRange> {
    (port(), port()).prop_map(|(a, b)| PortRange {
        first: a.min(b),
        last: a.max(b),
    })
}

fn rule() -> impl Strategy<Value = Match> {
    let rare = |values: std::ops::Range<u16>| prop::option::weighted(0.2, values);
    (
        prop::option::of(prefix()),
        prop::option::of(prefix()),
        prop::option::weighted(0.3, port_range()),
        prop::option::weighted(0.3, port_range()),
        rare(0..3),
        rare(0..3),
        rare(0..3),
        rare(0..3),
    )
        .prop_map(
            |(src, dst, src_port, dst_port, protocol, ether_type, vlan, dscp)| Match {
                src,
                dst,
                src_port,
                dst_port,
                protocol: protocol.map(|number| ProtocolName(Protocol(number as u8))),
                ether_type: ether_type.map(|number| EtherTypeName(EtherType(number))),
                vlan,
                dscp: dscp.map(|number| number as u8),
            },
        )
}

fn key() -> impl Strategy<Value = Key> {
    let addresses = prop_oneof![
        Just(None),
        (edge(32), edge(32)).prop_map(|(src, dst)| Some(Addresses::V4 {
            src: Ipv4Addr::from_bits(src as u32),
            dst: Ipv4Addr::from_bits(dst as u32),
        })),
        (edge(128), edge(128)).prop_map(|(src, dst)| Some(Addresses::V6 {
            src: Ipv6Addr::from_bits(src),
            dst: Ipv6Addr::from_bits(dst),
        })),
    ];
    let port = || prop_oneof![port().prop_map(u32::from), Just(LACKING)];
    let small = || prop_oneof![0_u32..3, Just(LACKING)];
    (
        addresses,
        port(),
        port(),
        small(),
        small(),
        small(),
        small(),
    )
        .prop_map(
            |(addresses, src_port, dst_port, protocol, ether_type, vlan, dscp)| Key {
                addresses,
                fields: [src_port, dst_port, protocol, ether_type, vlan, dscp],
            },
        )
}

proptest! {
    /// Up to five words of rules, in random order of priority, against the scan.
    #[test]
    fn search_agrees_with_a_scan_of_the_rules_in_order(
        rules in prop::collection::vec((0_u32..4, rule()), 0..300),
        keys in prop::collection::vec(key(), 1..60),
    ) {
        let matches: Vec<Match> = rules.iter().map(|(_, rule)| *rule).collect();
        let search = Search::new(&matches);
        for key in &keys {
            let expected = matches.iter().position(|rule| fits(rule, key));
            prop_assert_eq!(search.first(key), expected, "{:?}", key);
        }
        // Rules that could never match are refused by the rule set; the others keep their order.
        let rules: Vec<_> = rules
            .into_iter()
            .filter(|rule| RuleSet::new(std::slice::from_ref(rule)).is_ok())
            .collect();
        let mut set = RuleSet::new(&rules).unwrap();
        for key in &keys {
            let fitting = rules.iter().enumerate().filter(|(_, (_, rule))| fits(rule, key));
            let expected = fitting.min_by_key(|(index, (priority, _))| {
                (std::cmp::Reverse(*priority), *index)
            });
            prop_assert_eq!(set.first_match(key), expected.map(|(index, _)| index));
        }
    }
}

#[test]
fn the_last_of_the_most_rules_is_found() {
    let rule = |index: usize| {
        let address = Ipv4Addr::from_bits(0x0a00_0000 + index as u32 * 2);
        let src = Some(Prefix {
            address: address.into(),
            len: 32,
        });
        (
            0,
            Match {
                src,
                ..Match::default()
            },
        )
    };
    let rules: Vec<_> = (0..RULE_COUNT_MAX).map(rule).collect();
    let mut set = RuleSet::new(&rules).unwrap();
    for index in [0, 63, 64, 4031, 4032, 4095] {
        let src = 0x0a00_0000 + index as u32 * 2;
        for (src, expected) in [(src, Some(index)), (src + 1, None)] {
            let src = Ipv4Addr::from_bits(src).to_string();
            let packet = IpPacket {
                src: &src,
                ..IpPacket::default()
            };
            let key = Key::of(&packet.ports(1, 2)).unwrap();
            assert_eq!(set.first_match(&key), expected);
        }
    }
}
