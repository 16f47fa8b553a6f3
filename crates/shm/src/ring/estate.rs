//! What a dead worker left in a ring, and what is on its way there: read by whoever buries it, and
//! by those who look for packets.

use super::slot::{INDEX_MAX, RingMemory, log2_of, position, sequence};
use crate::descriptor::Descriptor;
use crate::sync::Ordering;

/// Where a dead producer's successor starts, and what its unfinished turn published.
///
/// Where the consumer will stop in the dead producer's memory depends on that memory and on the
/// consumer alone, never on `settled`, which a hostile producer chose: the successor starts there.
/// `start` is the dead producer's own first index: before it, the consumer reads other memory.
/// Gives no descriptors, and true, if `settled` was impossible.
pub fn estate_of_producer<M: RingMemory>(memory: &M, start: u64) -> (u64, Vec<Descriptor>, bool) {
    let settled = memory.settled().load(Ordering::Acquire);
    let read = memory.read().load(Ordering::Acquire).max(start);
    let end_from = |index: u64| {
        let found = published_since(memory, index);
        (index + packets_in(&found), found)
    };
    let by_consumer = (read < INDEX_MAX).then(|| end_from(read).0);
    if settled < INDEX_MAX {
        let (end, sent) = end_from(settled);
        if by_consumer == Some(end) {
            return (end, sent, false);
        }
    }
    // One of the two lies. Only the link between them suffers from whichever is believed.
    let end = by_consumer.unwrap_or(if settled < INDEX_MAX { settled } else { start });
    (end, Vec::new(), true)
}

/// What a dead producer has published from index `from` on, in order, and where it ends.
///
/// The undertaker's view: it needs only the producer's memory and changes nothing. At most one lap
/// is read, whatever the memory holds.
pub fn published_since<M: RingMemory>(memory: &M, from: u64) -> Vec<Descriptor> {
    published_between(memory, from, from + u64::from(memory.slot_count()))
}

/// What the producer has published in `[from, to)`, up to the first slot that is not valid and not
/// beyond `to`.
pub fn published_between<M: RingMemory>(memory: &M, from: u64, to: u64) -> Vec<Descriptor> {
    let slot_count = memory.slot_count();
    let log2 = log2_of(slot_count);
    let to = to.min(from.saturating_add(u64::from(slot_count)));
    let mut found = Vec::new();
    let mut index = from;
    while index < to {
        let slot = memory.slot(position(index, slot_count));
        let word0 = slot.word0.load(Ordering::Acquire);
        if Descriptor::sequence_of(word0) != sequence(index, log2) {
            break;
        }
        let descriptor = Descriptor::from_words(word0, slot.word1.load(Ordering::Relaxed));
        let span = u64::from(descriptor.span());
        if span > to - index {
            break;
        }
        found.push(descriptor);
        index += span;
    }
    found
}

/// How many packets `descriptors` carry.
pub fn packets_in(descriptors: &[Descriptor]) -> u64 {
    let spans = descriptors.iter().map(Descriptor::span);
    spans.map(u64::from).sum()
}
