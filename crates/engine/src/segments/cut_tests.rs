//! Segments held against what a receiver would make of them: `wire` reads them, checks their sums
//! and puts the payload together again. What the kernel cuts is compared in `tests/segments.rs`.

use catena_wire::checksum::Sum;
use catena_wire::dissect::{Dissected, Transport};
use catena_wire::{ipv4, tcp, udp};
use proptest::prelude::*;

use super::Cut;
use crate::segments::complete;
use crate::segments::testing::{Shape, cut_apart, packet};

fn shapes() -> impl Strategy<Value = Shape> {
    (any::<[bool; 2]>(), 0..3_usize, 0..4_usize, 1..20_000_usize).prop_map(
        |([is_v6, is_tcp], tags, options, payload)| Shape {
            is_v6,
            is_tcp,
            tags,
            options,
            payload,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// Goal: a receiver gets the payload, all of it, in segments of the size that was asked for, in
    /// packets that are right by themselves.
    #[test]
    fn segments_are_right_packets_and_carry_the_payload(shape in shapes(), size in 48..9000_usize) {
        let whole = packet(shape);
        let segments = cut_apart(&whole, size).unwrap();
        let headers_len = whole.len() - shape.payload;
        prop_assert_eq!(segments.len(), shape.payload.div_ceil(size));
        let mut payload = Vec::new();
        for (index, segment) in segments.iter().enumerate() {
            let is_last = index + 1 == segments.len();
            let found = Dissected::parse(segment).unwrap();
            prop_assert_eq!((found.payload, found.end), (headers_len, segment.len()));
            prop_assert!(is_last || segment.len() == headers_len + size);
            let addresses = found.ip.unwrap().addresses;
            if !shape.is_v6 {
                let ip = ipv4::View::parse(&segment[found.l3..]).unwrap();
                prop_assert!(ip.checksum_is_valid());
                prop_assert_eq!(usize::from(ip.ident()), (0xfff0 + index) & 0xffff);
            }
            match found.transport {
                Transport::Tcp { .. } => {
                    let tcp = tcp::View::parse(&segment[found.l4..]).unwrap();
                    prop_assert!(tcp.checksum_is_valid(&addresses));
                    let ahead = u32::try_from(payload.len()).unwrap();
                    prop_assert_eq!(tcp.sequence(), 0xffff_ff00_u32.wrapping_add(ahead));
                    // CWR with the first; PSH and FIN with the last; ACK always.
                    let flags = u16::from(index == 0) << 7 | if is_last { 0x19 } else { 0x10 };
                    prop_assert_eq!(tcp.flags().0, flags);
                }
                Transport::Udp { .. } => {
                    let udp = udp::View::parse(&segment[found.l4..]).unwrap();
                    prop_assert!(udp.checksum_is_valid(&addresses));
                    prop_assert!(udp.checksum() != 0);
                }
                other => prop_assert!(false, "{:?}", other),
            }
            payload.extend_from_slice(&segment[found.payload..]);
        }
        prop_assert_eq!(&payload, &whole[headers_len..]);
    }

    /// Whatever comes, nothing panics, and what is cut is never longer than what it came of.
    #[test]
    fn nonsense_is_refused_or_cut(
        shape in shapes(),
        (at, value) in (0..80_usize, any::<u8>()),
        len in 0..200_usize,
        size in 0..100_usize,
    ) {
        let mut bytes = packet(Shape { payload: 60, ..shape });
        bytes[at] = value;
        bytes.truncate(len);
        complete(&mut bytes.clone());
        for segment in cut_apart(&bytes, size).unwrap_or_default() {
            prop_assert!(segment.len() <= bytes.len());
        }
    }
}

#[test]
fn there_is_a_most_of_segments_and_fragments_are_not_cut() {
    let shape = Shape {
        is_tcp: true,
        payload: 3000,
        ..Shape::default()
    };
    let mut whole = packet(shape);
    assert_eq!(cut_apart(&whole, 1000).unwrap().len(), 3);
    assert!(Cut::of(&whole, 2).is_none() && Cut::of(&whole, 0).is_none());
    // More fragments follow.
    whole[20] |= 0x20;
    assert!(Cut::of(&whole, 1000).is_none());
    assert!(Sum::of(&[]).checksum() == 0xffff);
}

#[test]
fn an_open_checksum_is_completed() {
    let mut whole = packet(Shape {
        is_tcp: true,
        is_v6: true,
        payload: 77,
        ..Shape::default()
    });
    assert!(complete(&mut whole));
    let found = Dissected::parse(&whole).unwrap();
    let read = tcp::View::parse(&whole[found.l4..]).unwrap();
    assert!(read.checksum_is_valid(&found.ip.unwrap().addresses));
    assert!(!complete(&mut [0; 60]));
}
