//! Headers of both directions: what is received is made again as it was, and whatever a peer or
//! the kernel says, nothing is believed that the packet does not bear out.

use catena_engine::packet::Offload;
use catena_engine::segments::testing::{Shape, packet};
use catena_wire::dissect::Dissected;
use proptest::prelude::*;

use super::*;

fn header(kind: u8, size: u16, start: usize, offset: u16) -> [u8; LEN] {
    let mut header = [0; LEN];
    (header[0], header[1]) = (NEEDS_CHECKSUM, kind);
    header[4..6].copy_from_slice(&size.to_ne_bytes());
    header[6..8].copy_from_slice(&u16::try_from(start).unwrap().to_ne_bytes());
    header[8..10].copy_from_slice(&offset.to_ne_bytes());
    header
}

#[test]
fn what_is_carried_leaves_as_it_came() {
    for (is_v6, is_tcp, kind) in [
        (false, true, TCP_V4 | WITH_ECN),
        (true, true, TCP_V6 | WITH_ECN),
        (false, false, UDP_DATAGRAMS),
        (true, false, UDP_DATAGRAMS),
    ] {
        let shape = Shape {
            is_v6,
            is_tcp,
            tags: 1,
            options: 2,
            payload: 5000,
        };
        let packet = packet(shape);
        let found = Dissected::parse(&packet).unwrap();
        let offset = if is_tcp { 16 } else { 6 };
        for (kind, size) in [(kind, 1000), (NOT_SEGMENTED, 0)] {
            let came = header(kind, size, found.l4, offset);
            let offload = Said::parse(&came).left(&packet).carried().unwrap();
            assert_eq!(offload.segment_bytes().unwrap_or(0), size);
            let mut left = header_of(&packet, offload);
            let header_len = u16::from_ne_bytes([left[2], left[3]]);
            assert_eq!(
                usize::from(header_len),
                if size > 0 { found.payload } else { 0 }
            );
            left[2..4].fill(0);
            assert_eq!(left, came);
        }
    }
    assert_eq!(header_of(&[], Offload::NONE), [0; LEN]);
}

#[test]
fn what_the_packet_does_not_bear_out_is_not_carried() {
    let tcp = packet(Shape {
        is_tcp: true,
        payload: 5000,
        ..Shape::default()
    });
    let left = |header: [u8; LEN]| Said::parse(&header).left(&tcp);
    assert_eq!(left(header(TCP_V4, 1000, 34, 16)), Left::Segments(1000));
    // Another protocol, no size, so many segments, another place, a kind that nobody has.
    for wrong in [
        header(TCP_V6, 1000, 34, 16),
        header(UDP_DATAGRAMS, 1000, 34, 16),
        header(TCP_V4, 0, 34, 16),
        header(TCP_V4, 1, 34, 16),
        header(TCP_V4, 1000, 35, 16),
        header(TCP_V4, 1000, 34, 6),
        header(TCP_V4, 1000, 65_535, 65_535),
        header(3, 1000, 34, 16),
        [0, TCP_V4, 0, 0, 232, 3, 0, 0, 0, 0],
    ] {
        assert_eq!(left(wrong), Left::Unknown, "{wrong:?}");
        assert_eq!(left(wrong).carried(), None);
    }
    // An open checksum of another protocol is completed where it is said to lie.
    assert_eq!(left(header(0, 0, 14, 8)), Left::ChecksumAt(14, 8));
    assert_eq!(left(header(0, 0, 14, 8)).carried(), None);
    assert_eq!(left([0; LEN]), Left::Nothing);
    // A number that came over a link and fits no headers.
    let arp = [0; 60];
    assert_eq!(header_of(&arp, Offload::CHECKSUM), REFUSED);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// Any header in front of any packet: no panic, and what is carried can be told the kernel.
    #[test]
    fn any_header_is_looked_at(
        header in any::<[u8; LEN]>(),
        bytes in prop::collection::vec(any::<u8>(), 0..120),
        (is_v6, is_tcp, at, value) in any::<(bool, bool, u8, u8)>(),
        number in 0..=16_383_usize,
    ) {
        let mut real = packet(Shape { is_v6, is_tcp, payload: 300, ..Shape::default() });
        let at = usize::from(at) % real.len();
        real[at] = value;
        for packet in [&bytes[..], &real] {
            let carried = Said::parse(&header).left(packet).carried();
            if let Some(offload) = carried.filter(|offload| !offload.is_none()) {
                prop_assert_ne!(header_of(packet, offload), REFUSED);
            }
            let other = Offload::segments_of(number).unwrap_or(Offload::CHECKSUM);
            header_of(packet, other);
        }
    }
}
