//! Examples in the terms of RFC 4737, and a model that remembers everything.

use proptest::prelude::*;

use super::*;

fn follow(sequences: &[u64]) -> Quality {
    let mut tracker = FlowTracker::new();
    for (at, sequence) in sequences.iter().enumerate() {
        tracker.arrival(*sequence, at as u64 * 10);
    }
    tracker.quality().clone()
}

/// One packet is reordered (RFC 4737, section 7.1): 4 arrives after 5 to 8.
#[test]
fn one_packet_delayed_by_four() {
    let quality = follow(&[1, 2, 3, 5, 6, 7, 8, 4, 9, 10]);
    assert_eq!(quality.reordered, 1);
    assert_eq!(quality.extent_max, 4);
    assert_eq!(quality.late_offset_max, 40);
    assert_eq!(quality.n_reordered, [1, 1, 1, 1, 0, 0, 0, 0]);
    assert_eq!(quality.free_runs, 1);
    assert_eq!(quality.lost(10), 0);
}

/// A block of packets arrives before 4, 5 and 6.
#[test]
fn a_block_arrives_early() {
    let quality = follow(&[1, 2, 3, 7, 8, 9, 4, 5, 6, 10]);
    assert_eq!(quality.reordered, 3);
    assert_eq!((quality.extent_max, quality.extent_sum), (5, 3 + 4 + 5));
    // Only packet 4 follows right behind higher numbers.
    assert_eq!(quality.n_reordered[..4], [1, 1, 1, 0]);
}

#[test]
fn loss_duplicates_and_corruption_are_different_things() {
    let mut tracker = FlowTracker::new();
    for sequence in [0, 1, 1, 3, 0, 7] {
        tracker.arrival(sequence, 0);
    }
    tracker.corrupted();
    let quality = tracker.quality();
    assert_eq!(
        (quality.unique, quality.duplicates, quality.reordered),
        (4, 2, 0)
    );
    assert_eq!((quality.lost(8), quality.corrupted), (4, 1));
    assert_eq!(quality.loss_ratio(8), Some(0.5));
    assert_eq!(Quality::default().loss_ratio(0), None);
}

#[test]
fn what_is_older_than_the_window_is_neither_lost_nor_a_duplicate() {
    let mut sequences: Vec<_> = (1..=WINDOW).collect();
    sequences.push(0);
    let quality = follow(&sequences);
    assert_eq!((quality.beyond_window, quality.reordered), (1, 0));
    assert_eq!(quality.lost(WINDOW + 1), 0);
    let jump = follow(&[5, u64::MAX, 6]);
    assert_eq!((jump.unique, jump.beyond_window), (2, 1));
}

#[test]
fn a_tracker_is_as_small_as_said() {
    assert!(
        size_of::<FlowTracker>() <= 800,
        "{}",
        size_of::<FlowTracker>()
    );
}

/// Everything from the whole history, as the RFC words it.
fn model(sequences: &[u64]) -> Quality {
    let mut quality = Quality::default();
    let mut arrived: Vec<(u64, u64)> = Vec::new();
    let mut was_reordered = true;
    for (index, sequence) in sequences.iter().enumerate() {
        let at = index as u64 * 10;
        quality.received += 1;
        if arrived.iter().any(|(known, _)| known == sequence) {
            quality.duplicates += 1;
            continue;
        }
        quality.unique += 1;
        if let Some(first) = arrived.iter().position(|(known, _)| known > sequence) {
            quality.reordered += 1;
            let extent = (arrived.len() - first) as u64;
            quality.extent_max = quality.extent_max.max(extent);
            quality.extent_sum += extent;
            quality.late_offset_max = quality.late_offset_max.max(at - arrived[first].1);
            let higher = arrived
                .iter()
                .rev()
                .take_while(|(known, _)| known > sequence);
            for count in &mut quality.n_reordered[..higher.count().min(DEGREES)] {
                *count += 1;
            }
            quality.free_runs += u64::from(!was_reordered);
            was_reordered = true;
        } else {
            was_reordered = false;
        }
        arrived.push((*sequence, at));
    }
    quality.highest = arrived.iter().map(|(sequence, _)| *sequence).max();
    quality
}

proptest! {
    #[test]
    fn bounded_memory_agrees_with_remembering_everything(
        steps in proptest::collection::vec((0u64..3, 0u64..12), 1..200),
    ) {
        // A stream with gaps, in which packets are held back, repeated, or both.
        let mut next = 0;
        let sequences: Vec<_> = steps
            .iter()
            .map(|(gap, back)| {
                if *back < 6 {
                    next += gap + 1;
                    next
                } else {
                    next.saturating_sub(back - 5)
                }
            })
            .collect();
        let (ours, expected) = (follow(&sequences), model(&sequences));
        let mut comparable = ours.clone();
        comparable.is_extent_truncated = false;
        prop_assert_eq!(&comparable, &expected);
        prop_assert!(!ours.is_extent_truncated || sequences.len() > RECORDS);
    }

    #[test]
    fn every_arrival_is_counted_once(sequences in proptest::collection::vec(any::<u64>(), 0..300)) {
        let near: Vec<_> = sequences.iter().map(|bits| bits % 5000).collect();
        for sequences in [sequences, near] {
            let quality = follow(&sequences);
            prop_assert_eq!(quality.received, sequences.len() as u64);
            let sum = quality.unique + quality.duplicates + quality.beyond_window;
            prop_assert_eq!(sum, quality.received);
            prop_assert!(quality.reordered <= quality.unique);
        }
    }
}
