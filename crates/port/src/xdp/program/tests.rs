//! Tests of the program: run by the kernel on packets that no interface has seen.

use catena_wire::checksum::Sum;
use proptest::prelude::*;

use super::*;
use crate::xdp::bpf;
use crate::xdp::bpf::tests::takes;

fn ethernet(tags: &[(u16, u16)], ether_type: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    for (kind, vlan) in tags {
        frame.extend(kind.to_be_bytes());
        frame.extend((0xe000 | vlan).to_be_bytes());
    }
    frame.extend(ether_type.to_be_bytes());
    frame.extend(payload);
    frame.resize(frame.len().max(60), 0);
    frame
}

/// An IPv4 packet with `options` words of options, and the fragment field `fragment`.
fn ipv4(protocol: u8, options: u8, fragment: u16, port: u16) -> Vec<u8> {
    let mut packet = vec![0x45 + options, 0, 0, 60, 0, 0];
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    packet.extend(vec![1; usize::from(options) * 4]);
    let sum = Sum::of(&packet).checksum();
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend([0, 99]);
    packet.extend(port.to_be_bytes());
    packet.extend([0, 8, 0, 0]);
    packet
}

fn ipv6(next: u8, port: u16) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 8, next, 64];
    packet.extend([7; 32]);
    packet.extend([0, 99]);
    packet.extend(port.to_be_bytes());
    packet.extend([0, 8, 0, 0]);
    packet
}

/// Whether the kernel can be asked; says why not.
fn can_ask(test: &str) -> bool {
    let map = bpf::socket_map(1);
    if let Err(error) = &map {
        println!("SKIP {test}: no eBPF here: {error}");
    }
    map.is_ok()
}

#[test]
fn what_is_not_steered_goes_to_the_host() {
    if !can_ask("what_is_not_steered_goes_to_the_host") {
        return;
    }
    let gtp = Steering {
        udp_ports: vec![2152, 8805],
        ..Steering::default()
    };
    let mpcp = Steering {
        ether_types: vec![0x8808, 0x88b5],
        ..Steering::default()
    };
    let vlan = Steering {
        vlans: vec![5, 4094],
        ..Steering::default()
    };
    let both = Steering {
        vlans: vec![5],
        udp_ports: vec![2152],
        ..Steering::default()
    };
    let all = Steering::default();
    let arp = ethernet(&[], 0x0806, &[]);
    let tagged = ethernet(&[(0x8100, 5)], 0x0806, &[]);
    let udp = |port| ethernet(&[], IPV4, &ipv4(17, 0, 0, port));
    let cases = [
        (&all, arp.clone(), true),
        (&all, udp(1), true),
        (&gtp, arp.clone(), false),
        (&gtp, udp(2152), true),
        (&gtp, udp(8805), true),
        (&gtp, udp(2153), false),
        (&gtp, ethernet(&[], IPV4, &ipv4(17, 10, 0x4000, 2152)), true),
        (&gtp, ethernet(&[], IPV4, &ipv4(17, 0, 0x2000, 2152)), false),
        (&gtp, ethernet(&[], IPV4, &ipv4(17, 0, 0x00b9, 2152)), false),
        (&gtp, ethernet(&[], IPV4, &ipv4(6, 0, 0, 2152)), false),
        (&gtp, ethernet(&[], IPV6, &ipv6(17, 8805)), true),
        (&gtp, ethernet(&[], IPV6, &ipv6(6, 8805)), false),
        (
            &gtp,
            ethernet(&[(0x8100, 9)], IPV4, &ipv4(17, 0, 0, 2152)),
            true,
        ),
        (&gtp, ethernet(&[(0x88a8, 9)], IPV6, &ipv6(17, 2152)), true),
        (&mpcp, ethernet(&[], 0x8808, &[]), true),
        (&mpcp, ethernet(&[(0x8100, 1)], 0x88b5, &[]), true),
        (&mpcp, arp.clone(), false),
        (&vlan, arp, false),
        (&vlan, tagged.clone(), true),
        (&vlan, ethernet(&[(0x8100, 6)], 0x0806, &[]), false),
        (&vlan, ethernet(&[(0x88a8, 4094)], 0x0806, &[]), true),
        (&both, tagged, false),
        (
            &both,
            ethernet(&[(0x8100, 5)], IPV4, &ipv4(17, 2, 0, 2152)),
            true,
        ),
        (&both, udp(2152), false),
    ];
    for (index, (steering, frame, is_taken)) in cases.into_iter().enumerate() {
        assert_eq!(
            takes(steering, &frame),
            is_taken,
            "case {index}: {steering:?}"
        );
    }
}

/// A header length below the least is no reason to look into the header for ports.
#[test]
fn a_wrong_header_is_not_looked_behind() {
    if !can_ask("a_wrong_header_is_not_looked_behind") {
        return;
    }
    let steering = Steering {
        udp_ports: vec![0x4000],
        ..Steering::default()
    };
    let mut frame = ethernet(&[], IPV4, &ipv4(17, 0, 0, 9));
    frame[14] = 0x41;
    // Bytes 6 and 7 of the header, where its port would be.
    assert!(!takes(&steering, &frame));
    let mut short = ethernet(&[], IPV4, &ipv4(17, 10, 0, 0x4000));
    assert!(takes(&steering, &short));
    short.truncate(14 + 60 + 7);
    assert!(!takes(&steering, &short));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The kernel's verifier accepts whatever may be configured.
    #[test]
    fn every_program_loads(
        ether_types in prop::collection::vec(any::<u16>(), 0..=LIST_MAX),
        udp_ports in prop::collection::vec(any::<u16>(), 0..=LIST_MAX),
        vlans in prop::collection::vec(0_u16..4095, 0..=LIST_MAX),
    ) {
        if can_ask("every_program_loads") {
            let steering = Steering { ether_types, udp_ports, vlans };
            let map = bpf::socket_map(1).unwrap();
            prop_assert!(bpf::load(&steering, &map).is_ok());
        }
    }
}

#[test]
fn programs_that_differ_have_names_that_differ() {
    let of = |vlans: &[u16]| {
        let vlans = vlans.to_vec();
        name_of(&Steering {
            vlans,
            ..Steering::default()
        })
    };
    assert_eq!(of(&[1]), of(&[1]));
    assert_ne!(of(&[1]), of(&[2]));
    assert!(of(&[]).len() <= 15);
}

#[test]
fn wrong_lists_are_named() {
    let errors = |steering: Steering| {
        let mut errors = Vec::new();
        steering.check(&mut errors);
        errors
            .into_iter()
            .map(|error| error.path)
            .collect::<Vec<_>>()
    };
    let long = vec![1; LIST_MAX + 1];
    let steering = Steering {
        udp_ports: long.clone(),
        ether_types: long,
        vlans: vec![4095],
    };
    let expected = ["steer/ether_types", "steer/udp_ports", "steer/vlans"];
    assert_eq!(errors(steering), expected);
    assert!(errors(Steering::default()).is_empty());
}
