//! Against the pure function that cuts: what leaves is that, in order, whole, and nothing is lost.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::nf_bench::{Emitted, NfBench};
use crate::segments::testing::{Shape, packet};

fn bench() -> NfBench {
    NfBench::new(&KIND, &json!({}), &["out"]).unwrap()
}

fn tcp(payload: usize) -> Vec<u8> {
    packet(Shape {
        is_tcp: true,
        payload,
        ..Shape::default()
    })
}

fn segments_of(whole: &[u8], size: usize) -> Vec<Vec<u8>> {
    let mut cut = Cut::of(whole, size).unwrap();
    let mut segments = Vec::new();
    while let Some(len) = cut.next_len() {
        let mut segment = vec![0; len];
        cut.write(whole, &mut segment);
        segments.push(segment);
    }
    segments
}

fn bytes_of(emitted: &[Emitted]) -> Vec<Vec<u8>> {
    emitted.iter().map(|packet| packet.bytes.clone()).collect()
}

#[test]
fn segments_leave_as_there_is_room_and_what_came_later_leaves_later() {
    let mut bench = bench();
    (bench.tag, bench.offload) = (7, Offload::segments_of(1000).unwrap());
    let whole = tcp(40_500);
    let result = bench.process(&[&whole]);
    assert_eq!(result.packets[0].verdict, Verdict::Kept);
    bench.offload = Offload::NONE;
    let result = bench.process(&[b"behind"]);
    assert_eq!(result.packets[0].verdict, Verdict::Kept);
    assert_eq!(bench.held(), 2);

    let mut left = Vec::new();
    while bench.held() > 0 {
        let (emitted, next) = bench.emit(16, false);
        assert_eq!(next, None);
        assert!(!emitted.is_empty() && emitted.iter().all(|packet| packet.tag == 7));
        left.extend(bytes_of(&emitted));
    }
    let mut expected = segments_of(&whole, 1000);
    assert_eq!(expected.len(), 41);
    expected.push(b"behind".to_vec());
    assert_eq!(left, expected);
    assert_eq!(bench.drops, [DropReason::Consumed]);
    assert_eq!(bench.buffers_in_use(), 0);
    let counts = [("cut_apart", 1), ("segments", 41), ("completed", 0)];
    assert_eq!(bench.nf().report(), counts);
    // Nothing waits any more: what is whole goes on at once.
    let result = bench.process(&[b"later"]);
    assert_eq!(result.packets[0].verdict, Verdict::Output(0));
}

#[test]
fn an_open_checksum_is_completed_where_the_packet_lies() {
    let mut bench = bench();
    bench.offload = Offload::CHECKSUM;
    let open = tcp(700);
    let result = bench.process(&[&open]);
    let mut whole = open;
    assert!(complete(&mut whole));
    let processed = &result.packets[0];
    assert_eq!(processed.verdict, Verdict::Output(0));
    assert_eq!(
        (&processed.bytes, processed.offload),
        (&whole, Offload::NONE)
    );
    assert_eq!(bench.nf().report()[2], ("completed", 1));
}

#[test]
fn what_the_headers_do_not_bear_out_is_dropped_by_name() {
    let mut bench = bench();
    for offload in [Offload::CHECKSUM, Offload::segments_of(1000).unwrap()] {
        bench.offload = offload;
        let result = bench.process(&[&[0; 900]]);
        assert_eq!(result.packets[0].verdict, Verdict::Drop(UNSEGMENTED));
    }
    assert_eq!(bench.plan().drop_reasons, ["unsegmented"]);
    assert_eq!((bench.held(), bench.buffers_in_use()), (0, 0));
}

#[test]
fn one_without_a_buffer_that_holds_its_segments_is_let_go_of() {
    let mut bench = bench();
    bench.offload = Offload::segments_of(9000).unwrap();
    let whole = tcp(60_000);
    bench.process(&[&whole, &whole]);
    // Two buffers are so large, and the packets have them: segments wait for one.
    let (emitted, _) = bench.emit(16, true);
    assert!(emitted.is_empty());
    assert_eq!(bench.held(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// Method: packets whole and open, in bursts, with little room now and then. What leaves by
    /// verdict and what is emitted is, in this order, what each is to become.
    #[test]
    fn order_and_bytes_are_kept(
        bursts in prop::collection::vec((0..4_usize, 1..1900_usize, 0..3_usize), 1..12),
        size in 400..1500_usize,
    ) {
        let mut bench = bench();
        let (mut expected, mut left) = (Vec::new(), Vec::new());
        for (kind, payload, room) in bursts {
            let whole = tcp(payload);
            bench.offload = match kind {
                0 => Offload::segments_of(size).unwrap(),
                1 => Offload::CHECKSUM,
                _ => Offload::NONE,
            };
            match kind {
                0 => expected.extend(segments_of(&whole, size)),
                1 => {
                    let mut completed = whole.clone();
                    prop_assert!(complete(&mut completed));
                    expected.push(completed);
                }
                _ => expected.push(whole.clone()),
            }
            let result = bench.process(&[&whole]);
            let processed = &result.packets[0];
            match processed.verdict {
                Verdict::Kept => {}
                Verdict::Output(0) => {
                    prop_assert!(processed.offload.is_none());
                    left.push(processed.bytes.clone());
                }
                other => prop_assert!(false, "{:?}", other),
            }
            left.extend(bytes_of(&bench.emit(room, false).0));
        }
        while bench.held() > 0 {
            left.extend(bytes_of(&bench.emit(64, true).0));
        }
        prop_assert_eq!(left, expected);
        prop_assert_eq!(bench.buffers_in_use(), 0);
    }
}
