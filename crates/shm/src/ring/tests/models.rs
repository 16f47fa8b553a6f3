//! Loom models of the ring: every order of what the two sides and the undertaker do.

use super::*;

/// Bundles of two packets, and single ones, while the consumer looks at every moment: each
/// arrives once, whole and in order, and a slot that was passed over is never taken.
#[test]
fn loom_bundles_pass_over_slots_that_nobody_takes() {
    loom::model(|| {
        let heap = Heap::new(2);
        let mut producer = Producer::new(heap.clone(), 0);
        let mut consumer = Consumer::new(heap, 0);
        let producing = loom::thread::spawn(move || {
            let first = Descriptor::bundle(0, 1, 0b11);
            let second = Descriptor::bundle(0, 2, 0b11);
            let mut sent = producer.push_packets(2, [first].into_iter());
            producer.settle();
            sent += producer.push_packets(2, [second].into_iter());
            producer.settle();
            sent
        });
        let mut got = Vec::new();
        let mut taken = 0;
        for _ in 0..2 {
            taken += consumer.pull(2, &mut got);
            consumer.commit();
        }
        let sent = producing.join().unwrap() as usize;
        taken += consumer.pull(2, &mut got);
        consumer.commit();
        assert_eq!(taken, sent);
        for (index, descriptor) in got.iter().enumerate() {
            let which = u32::try_from(index).unwrap() + 1;
            assert_eq!(*descriptor, Descriptor::bundle(0, which, 0b11));
        }
    });
}

/// Every order of two bursts against a consumer: no torn, lost, repeated or early descriptor.
#[test]
fn loom_bursts_arrive_whole_and_in_order() {
    loom::model(|| {
        let heap = Heap::new(2);
        let mut producer = Producer::new(heap.clone(), 0);
        let mut consumer = Consumer::new(heap, 0);
        let producing = loom::thread::spawn(move || {
            let mut next = 0;
            for _ in 0..3 {
                next += push(&mut producer, next..3);
                producer.settle();
            }
            next
        });
        let mut got = Vec::new();
        for _ in 0..2 {
            got.extend(pull(&mut consumer, 2));
            consumer.commit();
        }
        let sent = producing.join().unwrap();
        got.extend(pull(&mut consumer, 2));
        consumer.commit();
        got.extend(pull(&mut consumer, 2));
        assert_eq!(got, (0..sent).collect::<Vec<_>>());
    });
}

/// The first slot of a burst publishes the others: whoever sees it sees all.
#[test]
fn loom_a_burst_is_seen_whole_or_not_at_all() {
    loom::model(|| {
        let heap = Heap::new(4);
        let mut producer = Producer::new(heap.clone(), 0);
        let mut consumer = Consumer::new(heap, 0);
        let producing = loom::thread::spawn(move || push(&mut producer, 0..3));
        let got = pull(&mut consumer, 4).len();
        assert!(got == 0 || got == 3, "saw {got} of 3");
        producing.join().unwrap();
    });
}

/// A slot is written again only after the consumer has committed it (update-flag mode).
#[test]
fn loom_depth_one_never_overwrites_what_is_in_hand() {
    loom::model(|| {
        let heap = Heap::new(1);
        let payload = Arc::new(loom::cell::UnsafeCell::new(0_u32));
        let mut producer = Producer::new(heap.clone(), 0);
        let mut consumer = Consumer::new(heap, 0);
        let theirs = payload.clone();
        let producing = loom::thread::spawn(move || {
            for number in 1..3 {
                if producer.room(1) == 1 {
                    theirs.with_mut(|cell| {
                        // SAFETY: loom checks that no other access is concurrent; that is the
                        // test.
                        unsafe { *cell = number }
                    });
                    push(&mut producer, number..number + 1);
                    producer.settle();
                }
            }
        });
        for _ in 0..2 {
            for number in pull(&mut consumer, 1) {
                payload.with(|cell| {
                    // SAFETY: as above.
                    assert_eq!(unsafe { *cell }, number);
                });
            }
            consumer.commit();
        }
        producing.join().unwrap();
    });
}

/// A producer dies at any point, its successor starts where the undertaker says, while the
/// consumer goes on all the time: nothing is lost, doubled or reordered, and the index that the
/// undertaker works out from a consumer in motion is the one where that consumer stops.
#[test]
fn loom_a_producer_is_replaced_while_the_consumer_drains() {
    loom::model(|| {
        let (old, new, tail) = (Heap::new(2), Heap::new(2), Heap::new(2));
        let joined = |producer: &Arc<Heap>| Joined {
            producer: producer.clone(),
            consumer: tail.clone(),
        };
        // A dead producer: one packet of a finished turn, one of an unfinished one.
        let mut producer = Producer::new(joined(&old), 0);
        producer.push([numbered(0)].into_iter());
        producer.settle();
        producer.push([numbered(1)].into_iter());
        let mut inlet = Inlet::new(joined(&old), 0);
        let estate = joined(&old);
        let successor_memory = joined(&new);
        let told = Arc::new(loom::sync::Mutex::new(None));
        let tell = told.clone();
        let undertaker = loom::thread::spawn(move || {
            let (start, sent, is_corrupt) = estate_of_producer(&estate, 0);
            assert_eq!((start, sent.len(), is_corrupt), (2, 1, false));
            let mut successor = Producer::new(successor_memory.clone(), start);
            *tell.lock().unwrap() = Some((successor_memory, start));
            successor.push([numbered(2)].into_iter());
            successor.settle();
        });
        let mut got = Vec::new();
        for _ in 0..2 {
            if let Some((ring, start)) = told.lock().unwrap().take() {
                inlet.replace_producer(ring, start);
            }
            inlet.pull(1, &mut got);
            inlet.commit();
        }
        undertaker.join().unwrap();
        if let Some((ring, start)) = told.lock().unwrap().take() {
            inlet.replace_producer(ring, start);
        }
        while inlet.pull(2, &mut got) > 0 {
            inlet.commit();
        }
        let got: Vec<_> = got.iter().map(|descriptor| descriptor.offset).collect();
        assert_eq!(got, [0, 1, 2]);
    });
}

/// The consumer is replaced while the producer goes on: the new one starts where the dead one
/// had read, and the producer, which sees the new tail at some time, overwrites nothing.
#[test]
fn loom_a_consumer_is_replaced_while_the_producer_publishes() {
    loom::model(|| {
        let (slots, old, new) = (Heap::new(2), Heap::new(2), Heap::new(2));
        let joined = |consumer: &Arc<Heap>| Joined {
            producer: slots.clone(),
            consumer: consumer.clone(),
        };
        let mut producer = Producer::new(joined(&old), 0);
        producer.push([numbered(0), numbered(1)].into_iter());
        producer.settle();
        // Dead with one packet in hand, not committed.
        let mut dead = Consumer::new(joined(&old), 0);
        dead.pull(1, &mut Vec::new());
        let resume = dead.read_index();
        let mut consumer = Consumer::new(joined(&new), resume);
        let next = joined(&new);
        let producing = loom::thread::spawn(move || {
            let mut sent = 2;
            for _ in 0..2 {
                let count = producer.push([numbered(sent)].into_iter());
                producer.settle();
                sent += count;
                producer.replace_memory(|_| next.clone());
            }
            sent
        });
        let mut got = Vec::new();
        for _ in 0..2 {
            consumer.pull(1, &mut got);
            consumer.commit();
        }
        let sent = producing.join().unwrap();
        while consumer.pull(2, &mut got) > 0 {
            consumer.commit();
        }
        let got: Vec<_> = got.iter().map(|descriptor| descriptor.offset).collect();
        assert_eq!(got, (1..sent).collect::<Vec<_>>());
    });
}

/// The undertaker, looking at any moment, never counts a buffer as lost that was sent on.
#[test]
fn loom_the_undertaker_accounts_for_every_packet_at_any_moment() {
    loom::model(|| {
        let (rx, tx) = (Heap::new(2), Heap::new(2));
        let mut feed = Producer::new(rx.clone(), 0);
        push(&mut feed, 0..2);
        let mut consumer = Consumer::new(rx.clone(), 0);
        let mut producer = Producer::new(tx.clone(), 0);
        let victim = loom::thread::spawn(move || {
            let mut in_hand = Vec::new();
            consumer.pull(1, &mut in_hand);
            producer.push(in_hand.clone().into_iter());
            consumer.commit();
            producer.settle();
        });
        // Killing stops the victim at one point for all its stores; joining at the end and
        // reading in the recovery's order models every point that a reader can tell apart.
        let settled = tx.settled().load(Ordering::Acquire);
        let tail = rx.tail().load(Ordering::Acquire);
        let read = rx.read().load(Ordering::Acquire);
        assert!(tail <= read || read == 0);
        if settled == 1 {
            assert_eq!(tail, 1, "a settled turn has committed its tails");
        }
        if tail == 1 {
            assert_eq!(
                published_since(&tx, 0).len(),
                1,
                "a committed packet was sent"
            );
        }
        victim.join().unwrap();
    });
}
