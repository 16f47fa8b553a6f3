//! Against the pure function that cuts: what leaves is that, in order, whole, and nothing is lost.

use catena_shm::pool::{PoolGeometry, PoolOwner};
use catena_shm::region::Sharing;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::load::Load;
use crate::nf::{Hold, Moved};
use crate::nf_bench::{Emitted, NfBench};
use crate::pools::Pools;
use crate::segments::testing::{Shape, cut_apart, packet};

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
    let mut expected = cut_apart(&whole, 1000).unwrap();
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
    // Two buffers are so large, and the packets have them: no segment ever gets one.
    let until = bench.now.plus(STARVED_NS);
    assert_eq!(bench.emit(16, false), (Vec::new(), Some(until)));
    bench.now = Nanos(until.0 - 1);
    assert_eq!(bench.emit(16, false), (Vec::new(), Some(until)));
    // Without room it is not for want of a buffer.
    bench.now = until;
    assert_eq!(bench.emit(0, false), (Vec::new(), None));
    let until = until.plus(STARVED_NS);
    assert_eq!(bench.emit(16, false), (Vec::new(), Some(until)));
    assert_eq!((bench.held(), bench.drops.len()), (2, 0));
    bench.now = until;
    assert_eq!(bench.emit(16, false), (Vec::new(), None));
    assert_eq!(
        (bench.held(), &bench.drops[..]),
        (1, &[DropReason::NoBuffer][..])
    );
    // The first one goes on with the buffer of the last, whole and in order.
    let mut left = Vec::new();
    while bench.held() > 0 {
        let (emitted, _) = bench.emit(16, true);
        assert_eq!(emitted.len(), 1);
        left.extend(bytes_of(&emitted));
    }
    assert_eq!(left, cut_apart(&whole, 9000).unwrap());
    assert_eq!(bench.drops, [DropReason::NoBuffer, DropReason::Consumed]);
    assert_eq!(bench.buffers_in_use(), 0);
}

/// All buffers of a worker that has no others.
fn pools(buffer_count: u32) -> Pools {
    let geometry = PoolGeometry {
        log2_stride: 11,
        buffer_count,
        headroom: 64,
        bundles: false,
    };
    Pools::new(vec![
        PoolOwner::create(3, geometry, Sharing::ReadWrite).unwrap(),
    ])
}

/// Has a packet, that `pools` have made, wait to be cut.
fn hold(cutter: &mut Cutter, pools: &mut Pools, packet: Packet) -> Hold {
    let (mut load, mut verdicts, mut hold) = (Load::default(), Vec::new(), Hold::default());
    load.packets.push(packet);
    let mut burst = Burst::new(&mut load, &mut verdicts, &mut hold, pools, 0);
    cutter.process(&mut burst, Nanos(0));
    hold.begin_moves(|_| {});
    let moved = hold.move_in(0, load.packets.remove(0));
    assert!(matches!(moved, Moved::Held), "{moved:?}");
    hold.end_moves();
    hold
}

/// Whatever came before it has left, and the only buffer is its own.
#[test]
fn the_last_one_that_waits_is_let_go_of_too() {
    let (mut cutter, mut pools) = (Cutter::new(), pools(1));
    let whole = tcp(1800);
    let mut packet = pools.alloc(whole.len()).unwrap();
    packet.bytes_mut().copy_from_slice(&whole);
    let offload = Offload::segments_of(1000).unwrap();
    packet.set_offload(offload).unwrap();
    let mut hold = hold(&mut cutter, &mut pools, packet);
    let mut emit = |now| {
        let (rooms, pools) = (&mut [9], &mut pools);
        let next = cutter.emit(&mut Emission::new(pools, &mut hold, rooms, true), now);
        (next, hold.dropped().collect::<Vec<_>>())
    };
    let until = Nanos(STARVED_NS);
    assert_eq!(emit(Nanos(0)), (Some(until), Vec::new()));
    assert_eq!(emit(until), (None, vec![DropReason::NoBuffer]));
    assert_eq!((hold.count(), pools.own()[0].free_count()), (0, 1));
}

/// A packet that an NF has put a header in front of may be longer than any that can be made.
#[test]
fn one_whose_segments_fit_no_buffer_is_dropped_as_too_large() {
    let (mut cutter, mut pools) = (Cutter::new(), pools(2));
    let most = pools.packet_len_max();
    let mut packet = pools.alloc(most).unwrap();
    packet.push_front(8).unwrap();
    let payload = most + 8 - tcp(0).len();
    packet.bytes_mut().copy_from_slice(&tcp(payload));
    let offload = Offload::segments_of(payload - 1).unwrap();
    packet.set_offload(offload).unwrap();
    let mut hold = hold(&mut cutter, &mut pools, packet);
    let mut rooms = [9];
    let mut out = Emission::new(&mut pools, &mut hold, &mut rooms, false);
    assert_eq!(cutter.emit(&mut out, Nanos(0)), None);
    assert_eq!(hold.dropped().collect::<Vec<_>>(), [DropReason::TooLarge]);
    assert_eq!((hold.count(), pools.own()[0].free_count()), (0, 2));
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
                0 => expected.extend(cut_apart(&whole, size).unwrap()),
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
