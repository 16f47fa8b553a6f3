//! Fragments against a model that knows nothing of tables: packets cut, shuffled and put together.

use std::net::Ipv6Addr;

use proptest::prelude::*;

use super::*;
use crate::cut::Cut;

const TIME_NS: u64 = 30;

fn v4(ident: u16, len: usize) -> Vec<u8> {
    let mut packet: Vec<u8> = (0..20 + len).map(|at| at as u8 ^ ident as u8).collect();
    ipv4::Header {
        dscp: 0,
        ecn: 0,
        ident,
        dont_fragment: false,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        protocol: Protocol::UDP,
        src: [10, 0, 0, 1].into(),
        dst: [10, 0, 0, 2].into(),
        payload_len: len,
        options: Default::default(),
    }
    .emit(&mut packet);
    packet
}

fn v6(len: usize) -> Vec<u8> {
    let mut packet: Vec<u8> = (0..48 + len).map(|at| at as u8).collect();
    ipv6::Header {
        dscp: 0,
        ecn: 0,
        flow_label: 7,
        payload_len: 8 + len as u16,
        next_header: Protocol::HOP_BY_HOP,
        hop_limit: 64,
        src: Ipv6Addr::LOCALHOST,
        dst: Ipv6Addr::LOCALHOST,
    }
    .emit(&mut packet);
    packet[40..48].copy_from_slice(&[17, 0, 1, 4, 0, 0, 0, 0]);
    packet
}

fn pieces(packet: &[u8], mtu: usize, ident: u32) -> Vec<Vec<u8>> {
    let cut = Cut::of(packet, mtu).unwrap();
    let piece = |at| {
        let mut bytes = vec![0xee; cut.len(at)];
        cut.write(at, packet, ident, &mut bytes);
        assert!(bytes.len() <= mtu);
        bytes
    };
    (0..cut.count()).map(piece).collect()
}

/// Gives pieces one after the other, at one instant; the packets that became whole.
fn join(reassembly: &mut Reassembly<Vec<u8>>, pieces: &[Vec<u8>], now_ns: u64) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for piece in pieces {
        let part = Part::of(piece, 0, 0).unwrap();
        if let Some(whole) = reassembly.add(part, piece.clone(), now_ns) {
            packets.push(written(&whole));
        }
    }
    packets
}

fn written(whole: &Whole<Vec<u8>>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let pieces = whole.parts.iter().map(|(_, piece)| &piece[..]);
    assert!(whole.write(&mut bytes, pieces));
    bytes
}

fn conserved(reassembly: &Reassembly<Vec<u8>>) -> bool {
    let Account {
        stored,
        joined,
        refused,
        late,
        ..
    } = reassembly.account();
    stored == joined + refused + late + reassembly.held() as u64
}

#[test]
fn what_is_no_fragment_is_no_part() {
    assert!(Part::of(&v4(1, 100), 0, 0).is_none());
    assert!(Part::of(&v6(100), 0, 0).is_none());
    assert!(Part::of(&[], 0, 0).is_none());
    assert!(Part::of(&[0x60; 41], 0, 0).is_none());
    assert!(Cut::of(&v4(1, 100), 27).is_none(), "no room for 8 bytes");
    assert!(Cut::of(&[0x45; 3], 576).is_none());
}

/// RFC 5722: an overlap ends the datagram, and what comes of it later is dropped too.
#[test]
fn parts_that_overlap_are_refused_with_all_of_their_packet() {
    for packet in [v4(1, 3000), v6(3000)] {
        let all = pieces(&packet, 1000, 9);
        let other = pieces(&packet, 800, 9);
        let mut reassembly = Reassembly::new(64, TIME_NS);
        assert!(join(&mut reassembly, &all[..2], 0).is_empty());
        assert!(join(&mut reassembly, &other[1..2], 0).is_empty());
        assert_eq!(reassembly.held(), 0);
        assert!(join(&mut reassembly, &all, 0).is_empty());
        assert!(conserved(&reassembly));
        assert_eq!(reassembly.expire(TIME_NS), None);
        assert_eq!(join(&mut reassembly, &all, TIME_NS).len(), 1);
    }
}

#[test]
fn ends_that_contradict_and_lengths_that_cannot_be_are_refused() {
    let all = pieces(&v4(1, 3000), 1000, 0);
    let mut two_ends = all.clone();
    two_ends[1][6] &= !0x20;
    let mut odd = all.clone();
    odd[0][2..4].copy_from_slice(&995u16.to_be_bytes());
    let mut beyond = all.clone();
    beyond[2][6..8].copy_from_slice(&(0x2000u16 | 8191).to_be_bytes());
    for wrong in [&two_ends[1..], &odd[..], &beyond[..]] {
        let mut reassembly = Reassembly::new(64, TIME_NS);
        assert!(join(&mut reassembly, wrong, 0).is_empty());
        assert_eq!(reassembly.held(), 0);
        assert!(conserved(&reassembly));
    }
}

#[test]
fn the_oldest_goes_where_there_is_no_room_and_late_ones_go() {
    let mut reassembly = Reassembly::new(4, TIME_NS);
    for ident in 0..100 {
        let first = &pieces(&v4(ident, 3000), 1000, 0)[..1];
        assert!(join(&mut reassembly, first, ident.into()).is_empty());
        assert!(reassembly.held() <= 4 && reassembly.by_key.len() <= 4);
        assert_eq!(reassembly.by_age.len(), reassembly.by_key.len());
    }
    let dropped = std::iter::from_fn(|| reassembly.next_dropped()).count();
    assert_eq!((dropped, reassembly.account().refused), (96, 96));
    assert_eq!(reassembly.expire(96 + TIME_NS), Some(97 + TIME_NS));
    assert_eq!(reassembly.account().late, 1);
    let rest = &pieces(&v4(99, 3000), 1000, 0)[1..];
    assert_eq!(join(&mut reassembly, rest, 99), [v4(99, 3000)]);
    assert!(conserved(&reassembly));
}

/// One packet of many tiny parts holds no more than its share.
#[test]
fn a_packet_has_so_many_parts_and_no_more() {
    let all = pieces(&v4(1, 8 * (PARTS_MAX + 2)), 28, 0);
    let mut reassembly = Reassembly::new(1000, TIME_NS);
    assert!(join(&mut reassembly, &all, 0).is_empty());
    assert_eq!(reassembly.held(), 0);
    assert!(conserved(&reassembly));
}

proptest! {
    /// Cut, shuffled, repeated and mixed with others: each packet comes back once, as it was.
    #[test]
    fn packets_come_back_as_they_were(
        lens in proptest::collection::vec(1usize..4000, 1..6),
        mtu in 200usize..1500,
        is_v6: bool,
        again in proptest::collection::vec(any::<proptest::sample::Index>(), 0..6),
        order in any::<u64>(),
    ) {
        let packets: Vec<_> = lens.iter().enumerate().map(|(at, len)| match is_v6 {
            true => v6(*len),
            false => v4(at as u16, *len),
        }).collect();
        let mut all: Vec<Vec<u8>> = Vec::new();
        let mut wanted: Vec<Vec<u8>> = Vec::new();
        for (at, packet) in packets.iter().enumerate() {
            if packet.len() > mtu {
                all.extend(pieces(packet, mtu, at as u32));
                wanted.push(packet.clone());
            }
        }
        // A known order: by a number that each piece has.
        let mut keyed: Vec<(u64, Vec<u8>)> = all.iter().cloned().zip(0u64..)
            .map(|(piece, at)| ((at + 1).wrapping_mul(order | 1).rotate_left(17), piece)).collect();
        keyed.sort();
        let mut mixed: Vec<Vec<u8>> = keyed.into_iter().map(|(_, piece)| piece).collect();
        for at in again.iter().filter(|_| !all.is_empty()) {
            let piece = at.get(&mixed).clone();
            mixed.push(piece);
        }
        let mut reassembly = Reassembly::new(1000, TIME_NS);
        let mut joined = join(&mut reassembly, &mixed[..all.len()], 0);
        prop_assert_eq!(reassembly.held(), 0);
        join(&mut reassembly, &mixed[all.len()..], 0);
        joined.sort();
        wanted.sort();
        prop_assert_eq!(joined, wanted);
        prop_assert!(conserved(&reassembly));
    }

    /// Any bytes: no panic, and never more than the limit.
    #[test]
    fn any_fragment_is_taken_or_refused(
        packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 20..80), 0..50),
    ) {
        let mut reassembly = Reassembly::new(8, TIME_NS);
        for (now_ns, mut packet) in (0..).zip(packets) {
            packet[0] = 0x45;
            packet[1..4].copy_from_slice(&[0, 0, 24]);
            packet[4..6].fill(0);
            packet[6] &= 0x20;
            packet[7] &= 7;
            packet[12..20].fill(1);
            if let Some(part) = Part::of(&packet, 0, 0) {
                reassembly.add(part, packet, now_ns);
            }
            reassembly.expire(now_ns);
            prop_assert!(reassembly.held() <= 8);
            prop_assert!(conserved(&reassembly));
        }
    }
}

/// A sender of beginnings without ends keeps its share busy, and no other's packet goes for them.
#[test]
fn one_sender_leaves_room_for_the_others() {
    const LIMIT: usize = 1024;
    for (teid, share) in [(7, LIMIT / TUNNEL_SHARE), (0, LIMIT / HOST_SHARE)] {
        let mut all = Reassembly::new(LIMIT, TIME_NS);
        let whole = pieces(&v4(1, 200), 120, 0);
        assert_eq!(
            all.add(Part::of(&whole[0], 0, 8).unwrap(), 0, 0).map(drop),
            None
        );
        for ident in 0..10_000 {
            let first = &pieces(&v4(ident, 200), 120, 0)[0];
            let _ = all.add(Part::of(first, 0, teid).unwrap(), 0, 0);
            while all.next_dropped().is_some() {}
            assert!(all.held() <= share + 1);
        }
        assert_eq!(all.held(), share + 1);
        let mut last = None;
        for piece in &whole[1..] {
            last = all.add(Part::of(piece, 0, 8).unwrap(), 0, 0);
        }
        assert!(last.is_some(), "the other's packet is whole");
        all.expire(TIME_NS);
        assert!(all.by_sender.is_empty() && all.held() == 0);
    }
}
