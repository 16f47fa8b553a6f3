//! The ring: one producer, one consumer, 16-byte descriptors, each side writing only its own
//! memory.
//!
//! Second and third step of a hop: [`Producer::push`] publishes a burst, [`Consumer::pull`] takes
//! what has arrived, and [`Consumer::commit`] gives the slots back when the burst has been dealt
//! with.
//!
//! | call | side | writes | makes visible |
//! |---|---|---|---|
//! | `Producer::push`   | producer | slots     | the burst, all at once |
//! | `Producer::settle` | producer | `settled` | to the undertaker: sends up to here belong to
//! finished turns |
//! | `Consumer::pull`   | consumer | `read`    | to the undertaker: slots up to here are in hand |
//! | `Consumer::commit` | consumer | `tail`    | slots up to here are free again |
//!
//! **Publishing.** A slot is valid when its sequence word carries the lap that the consumer
//! expects, so the flag lies in the descriptor's own cache line and a lone packet costs one line.
//! In a burst, the slots behind the first are written first and the first one last, with Release:
//! the consumer, which looks at that slot, sees nothing of the burst or all of it. One publish per
//! burst.
//!
//! **Bundles.** A descriptor that carries n packets takes up n indices: it lies in the slot of the
//! first, and the slots of the others are passed over by both sides. So every cursor counts
//! packets, and a link holds no more packets in bundles than it would hold singly. A slot that is
//! passed over keeps what was written there laps ago; before publishing, the producer makes sure
//! that the slot behind the burst, which is where the consumer looks next, cannot pass for a new
//! one.
//!
//! **Depth 1.** A ring of one slot is the update-flag protocol of NTT, OFC 2024: the producer may
//! write only after the consumer has committed, that is, after it has finished with the chunk.
//!
//! **Recovery.** `read`, `tail` and `settled` are what another process needs to say exactly what a
//! killed worker held (see `reclaim` in the engine): in hand is `[tail, read)`, and sent by the
//! unfinished turn is what is published from `settled` on. A worker's turn must commit its tails
//! before it settles its heads; the other order could free a buffer twice.
//!
//! **Forbidden**, and why: pulling beyond a slot whose sequence does not match (later slots may be
//! left from a dead producer); reading a slot again after the check (the peer may rewrite it);
//! trusting `tail` beyond `[last seen, head]` (a hostile peer would make the producer overwrite
//! live slots); two producers or two consumers on one ring.

mod consumer;
mod estate;
mod inlet;
mod producer;
mod slot;

pub use consumer::Consumer;
pub use estate::{estate_of_producer, packets_in, published_between, published_since};
pub use inlet::Inlet;
pub use producer::Producer;
pub use slot::{INDEX_MAX, RingMemory, SLOT_COUNT_MAX, Slot};

#[cfg(test)]
mod tests;
