//! The ring on heap memory: unit tests, a property test against a queue, and loom models.

use super::*;
use crate::descriptor::Descriptor;
use crate::sync::{AtomicU64, Ordering};

#[cfg(not(loom))]
use std::sync::Arc;

#[cfg(loom)]
use loom::sync::Arc;

/// A ring's words on the heap.
#[derive(Debug)]
struct Heap {
    slots: Vec<Slot>,
    settled: AtomicU64,
    tail: AtomicU64,
    read: AtomicU64,
}

impl Heap {
    fn new(slot_count: u32) -> Arc<Self> {
        Arc::new(Self {
            slots: (0..slot_count).map(|_| Slot::empty()).collect(),
            settled: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            read: AtomicU64::new(0),
        })
    }
}

impl RingMemory for Arc<Heap> {
    fn slot_count(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap()
    }
    fn slot(&self, position: u32) -> &Slot {
        &self.slots[position as usize]
    }
    fn settled(&self) -> &AtomicU64 {
        &self.settled
    }
    fn tail(&self) -> &AtomicU64 {
        &self.tail
    }
    fn read(&self) -> &AtomicU64 {
        &self.read
    }
}

/// Slots of one, cursors of another: how a ring lies in memory.
#[derive(Clone, Debug)]
struct Joined {
    producer: Arc<Heap>,
    consumer: Arc<Heap>,
}

impl RingMemory for Joined {
    fn slot_count(&self) -> u32 {
        self.producer.slot_count()
    }
    fn slot(&self, position: u32) -> &Slot {
        &self.producer.slots[position as usize]
    }
    fn settled(&self) -> &AtomicU64 {
        &self.producer.settled
    }
    fn tail(&self) -> &AtomicU64 {
        &self.consumer.tail
    }
    fn read(&self) -> &AtomicU64 {
        &self.consumer.read
    }
}

fn numbered(number: u32) -> Descriptor {
    Descriptor {
        offset: number,
        tag: !number,
        ..Descriptor::default()
    }
}

fn push(producer: &mut Producer<Arc<Heap>>, numbers: std::ops::Range<u32>) -> u32 {
    producer.push(numbers.collect::<Vec<_>>().into_iter().map(numbered))
}

fn pull(consumer: &mut Consumer<Arc<Heap>>, max: usize) -> Vec<u32> {
    let mut descriptors = Vec::new();
    consumer.pull(max, &mut descriptors);
    for descriptor in &descriptors {
        assert_eq!(descriptor.tag, !descriptor.offset, "a torn descriptor");
    }
    descriptors
        .iter()
        .map(|descriptor| descriptor.offset)
        .collect()
}

#[cfg(not(loom))]
mod plain {
    use super::*;
    use crate::ring::slot::{position, sequence};
    use proptest::prelude::*;

    fn ring(slot_count: u32, start: u64) -> (Producer<Arc<Heap>>, Consumer<Arc<Heap>>) {
        let heap = Heap::new(slot_count);
        (
            Producer::new(heap.clone(), start),
            Consumer::new(heap, start),
        )
    }

    #[test]
    fn a_full_ring_takes_what_fits() {
        let (mut producer, mut consumer) = ring(4, 0);
        assert_eq!(push(&mut producer, 0..6), 4);
        assert_eq!(push(&mut producer, 4..6), 0);
        assert_eq!(pull(&mut consumer, 3), [0, 1, 2]);
        producer.settle();
        assert_eq!(push(&mut producer, 4..6), 0, "slots in hand are not free");
        assert!(consumer.commit());
        assert_eq!(push(&mut producer, 4..6), 2);
        assert_eq!(pull(&mut consumer, 9), [3, 4, 5]);
    }

    #[test]
    fn depth_one_is_the_update_flag() {
        let (mut producer, mut consumer) = ring(1, 0);
        for number in 0..5 {
            assert_eq!(push(&mut producer, number..number + 1), 1);
            producer.settle();
            assert_eq!(push(&mut producer, 9..10), 0, "the flag is still set");
            assert_eq!(pull(&mut consumer, 8), [number]);
            assert_eq!(
                push(&mut producer, 9..10),
                0,
                "the chunk is still being processed"
            );
            consumer.commit();
        }
    }

    #[test]
    fn laps_wrap_without_ghosts() {
        let start = (0x7fff_u64 << 2) + 1;
        let (mut producer, mut consumer) = ring(4, start);
        assert!(
            !consumer.has_next(),
            "zeroed slots are not valid at any lap"
        );
        for number in 0..40 {
            assert_eq!(push(&mut producer, number..number + 1), 1);
            producer.settle();
            assert_eq!(pull(&mut consumer, 2), [number]);
            consumer.commit();
        }
    }

    #[test]
    fn a_lying_tail_is_counted_and_changes_nothing() {
        let (mut producer, _consumer) = ring(4, 0);
        assert_eq!(push(&mut producer, 0..4), 4);
        producer.settle();
        for lie in [5, u64::MAX, 1 << 40] {
            producer.memory().tail.store(lie, Ordering::Relaxed);
            assert_eq!(producer.room(1), 0);
        }
        assert_eq!(producer.violations(), 3);
        producer.memory().tail.store(1, Ordering::Relaxed);
        assert_eq!(producer.room(1), 1, "an honest tail is believed again");
    }

    #[test]
    fn one_turn_never_laps_the_undertaker() {
        let (mut producer, mut consumer) = ring(4, 0);
        assert_eq!(push(&mut producer, 0..3), 3);
        assert_eq!(pull(&mut consumer, 3).len(), 3);
        consumer.commit();
        assert_eq!(push(&mut producer, 3..6), 1, "a turn may publish one lap");
        assert_eq!(published_since(producer.memory(), 0).len(), 4);
        producer.settle();
        assert_eq!(push(&mut producer, 4..6), 2);
    }

    #[test]
    fn the_undertaker_reads_exactly_what_was_published() {
        let (mut producer, mut consumer) = ring(8, 0);
        push(&mut producer, 0..5);
        producer.settle();
        pull(&mut consumer, 5);
        consumer.commit();
        push(&mut producer, 5..9);
        let memory = producer.memory().clone();
        let sent: Vec<_> = published_since(&memory, 5)
            .iter()
            .map(|d| d.offset)
            .collect();
        assert_eq!(sent, [5, 6, 7, 8]);
        // A producer killed inside a burst leaves valid slots behind an invalid first one.
        memory
            .slot(position(10, 8))
            .word0
            .store(numbered(0).word0(sequence(10, 3)), Ordering::Relaxed);
        assert_eq!(published_since(&memory, 5).len(), 4);
    }

    /// A descriptor of the packets `from..from + span` (one bundle, unless the span is 1).
    fn spanning(from: u32, span: u32) -> Descriptor {
        if span == 1 {
            return numbered(from);
        }
        Descriptor::bundle(0, from, u64::MAX >> (64 - span))
    }

    #[test]
    fn a_bundle_takes_up_as_many_indices_as_it_has_packets() {
        let (mut producer, mut consumer) = ring(8, 0);
        let sent = [spanning(0, 3), spanning(3, 1), spanning(4, 4)];
        assert_eq!(producer.push_packets(8, sent.into_iter()), 8);
        assert_eq!(producer.push_packets(1, [spanning(8, 1)].into_iter()), 0);
        producer.settle();
        assert_eq!(
            (producer.head(), published_since(producer.memory(), 0)),
            (8, sent.to_vec())
        );
        let mut got = Vec::new();
        assert_eq!(consumer.pull(2, &mut got), 0, "a bundle is not split");
        assert_eq!(consumer.pull(5, &mut got), 4);
        assert!(consumer.commit());
        assert_eq!(producer.room(8), 4);
        assert_eq!(consumer.pull(64, &mut got), 4);
        assert_eq!(got, sent);
        let (end, sent, is_corrupt) = estate_of_producer(producer.memory(), 0);
        assert_eq!((end, sent.len(), is_corrupt), (8, 0, false));
    }

    /// A slot that bundles pass over lap after lap keeps its old sequence; when the sequence comes
    /// round to the same number, it must not look new.
    #[test]
    fn a_slot_passed_over_for_a_whole_cycle_is_not_new() {
        let (mut producer, mut consumer) = ring(4, 0);
        let mut got = Vec::new();
        let mut turn = |sent: &[Descriptor], packets: u32| {
            assert_eq!(
                producer.push_packets(packets, sent.iter().copied()),
                packets
            );
            producer.settle();
            got.clear();
            assert_eq!(consumer.pull(4, &mut got), packets as usize);
            assert_eq!(got, sent);
            consumer.commit();
            consumer.has_next()
        };
        // Slot 2 is written in lap 0 only, and looked at again a whole cycle later.
        let single: Vec<_> = (0..4).map(numbered).collect();
        assert!(!turn(&single, 4));
        for _ in 1..0x8000 {
            assert!(!turn(&[spanning(7, 4)], 4));
        }
        assert!(
            !turn(&[spanning(7, 2)], 2),
            "slot 2 holds what was sent in lap 0"
        );
        assert!(!turn(&[numbered(9)], 1));
    }

    #[test]
    fn a_successor_starts_where_the_consumer_stops_whatever_settled_says() {
        let (mut producer, mut consumer) = ring(8, 0);
        push(&mut producer, 0..6);
        producer.settle();
        pull(&mut consumer, 2);
        let memory = producer.memory().clone();
        assert_eq!(estate_of_producer(&memory, 0), (6, Vec::new(), false));
        for lie in [7, 100, u64::MAX, 1 << 62] {
            memory.settled.store(lie, Ordering::Relaxed);
            assert_eq!(
                estate_of_producer(&memory, 0),
                (6, Vec::new(), true),
                "{lie}"
            );
        }
        memory.settled.store(4, Ordering::Relaxed);
        let (end, sent, is_corrupt) = estate_of_producer(&memory, 0);
        assert_eq!((end, sent.len(), is_corrupt), (6, 2, false));
        // Nor does a consumer that lies break anything: it hurts only its own link.
        memory.read.store(u64::MAX, Ordering::Relaxed);
        let (end, ..) = estate_of_producer(&memory, 0);
        assert!(end < 1 << 62);
    }

    #[test]
    fn a_consumer_far_behind_is_no_lie() {
        // It still drains the predecessor's memory while this producer fills a whole lap.
        let (mut producer, _consumer) = ring(8, 0);
        let heap = producer.memory().clone();
        let mut next = Producer::new(heap, 8);
        push(&mut next, 8..16);
        producer.settle();
        next.settle();
        assert_eq!(estate_of_producer(next.memory(), 8).0, 16);
        assert!(!estate_of_producer(next.memory(), 8).2);
    }

    #[test]
    fn an_inlet_takes_all_of_the_old_before_any_of_the_new() {
        let old = Heap::new(4);
        let tail = Heap::new(4);
        let joined = |producer: &Arc<Heap>| Joined {
            producer: producer.clone(),
            consumer: tail.clone(),
        };
        let mut producer = Producer::new(joined(&old), 0);
        producer.push((0..3).map(numbered));
        let mut inlet = Inlet::new(joined(&old), 0);
        let mut got = Vec::new();
        inlet.pull(1, &mut got);
        // Half a burst behind the end.
        let ghost = numbered(99).word0(sequence(3, 2));
        old.slot(3).word0.store(ghost, Ordering::Relaxed);
        let new = Heap::new(4);
        let mut successor = Producer::new(joined(&new), 3);
        successor.push((3..5).map(numbered));
        inlet.replace_producer(joined(&new), 3);
        while inlet.pull(4, &mut got) > 0 || inlet.commit() {}
        let got: Vec<_> = got.iter().map(|descriptor| descriptor.offset).collect();
        assert_eq!(got, [0, 1, 2, 3, 4]);
        assert!(inlet.has_followed() && !inlet.has_followed());
    }

    proptest! {
        /// Descriptors of one to many packets against a queue of packets with the same limits.
        #[test]
        fn bundles_behave_like_so_many_packets(
            log2 in 2_u32..8,
            start in 0_u64..1 << 20,
            steps in prop::collection::vec((0_u8..3, 1_u32..64), 1..200),
        ) {
            let slot_count = 1_u32 << log2;
            let (mut producer, mut consumer) = ring(slot_count, start);
            let mut queued = std::collections::VecDeque::new();
            let (mut used, mut in_hand, mut next) = (0, 0, 0);
            for (what, amount) in steps {
                match what {
                    0 => {
                        let bundle = [spanning(next, amount)];
                        let sent = producer.push_packets(amount, bundle.into_iter());
                        producer.settle();
                        prop_assert_eq!(sent, if amount <= slot_count - used { amount } else { 0 });
                        if sent > 0 {
                            queued.push_back((next, amount));
                            used += amount;
                            next += amount;
                        }
                    }
                    1 => {
                        let mut got = Vec::new();
                        let taken = consumer.pull(amount as usize, &mut got);
                        prop_assert_eq!(taken as u64, packets_in(&got));
                        for descriptor in got {
                            let (from, span) = queued.pop_front().unwrap();
                            prop_assert_eq!((descriptor.offset, descriptor.span()), (from, span));
                            in_hand += span;
                        }
                        let fits = queued.front().is_some_and(|(_, span)| {
                            *span as usize + taken <= amount as usize
                        });
                        prop_assert!(!fits, "as many as fit are taken");
                    }
                    _ => {
                        prop_assert_eq!(consumer.commit(), in_hand > 0);
                        used -= in_hand;
                        in_hand = 0;
                    }
                }
            }
        }

        /// Against a VecDeque with the same limits: same acceptance, same order, nothing lost.
        #[test]
        fn behaves_like_a_bounded_queue(
            log2 in 0_u32..5,
            start in 0_u64..1 << 20,
            steps in prop::collection::vec((0_u8..3, 0_u32..40), 1..200),
        ) {
            let slot_count = 1 << log2;
            let (mut producer, mut consumer) = ring(slot_count, start);
            let mut queued = std::collections::VecDeque::new();
            let mut in_hand = 0;
            let mut next = 0;
            for (what, amount) in steps {
                match what {
                    0 => {
                        let room = slot_count - u32::try_from(queued.len()).unwrap() - in_hand;
                        let taken = push(&mut producer, next..next + amount);
                        producer.settle();
                        prop_assert_eq!(taken, amount.min(room));
                        queued.extend(next..next + taken);
                        next += taken;
                    }
                    1 => {
                        for number in pull(&mut consumer, amount as usize) {
                            prop_assert_eq!(queued.pop_front(), Some(number));
                            in_hand += 1;
                        }
                    }
                    _ => {
                        prop_assert_eq!(consumer.commit(), in_hand > 0);
                        in_hand = 0;
                    }
                }
            }
        }
    }
}

#[cfg(loom)]
#[allow(
    unsafe_code,
    reason = "loom's cells are read and written through raw pointers"
)]
mod models;
