//! Pieces of a hello: put together in whatever order they come, also where they overlap.
//!
//! Beside a packet's way where a UE says hello by QUIC. Limits: [`HELLO_LEN_MAX`] bytes, in
//! [`PIECE_COUNT`] pieces that do not touch; what is beyond is left out.

use crate::application::flows::HELLO_LEN_MAX;

/// Most pieces in which a hello may lie, at any instant.
pub const PIECE_COUNT: usize = 64;

/// The beginning of a stream of bytes.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    bytes: Vec<u8>,
    /// Where bytes are that are known, in their order: from and to, and gaps between them.
    known: Vec<(usize, usize)>,
}

impl Pieces {
    /// Adds bytes at a place of the stream.
    pub(super) fn add(&mut self, offset: u64, data: &[u8]) {
        let Ok(from) = usize::try_from(offset) else {
            return;
        };
        let to = from.saturating_add(data.len()).min(HELLO_LEN_MAX);
        if from >= to || !self.has_room() {
            return;
        }
        if self.bytes.len() < to {
            self.bytes.resize(to, 0);
        }
        self.bytes[from..to].copy_from_slice(&data[..to - from]);
        let touches = |&(begins, ends): &(usize, usize)| begins <= to && from <= ends;
        let joined = self.known.iter().copied().filter(touches);
        let whole = joined.fold((from, to), |(from, to), (begins, ends)| {
            (from.min(begins), to.max(ends))
        });
        self.known.retain(|one| !touches(one));
        let at = self.known.partition_point(|one| *one < whole);
        self.known.insert(at, whole);
    }

    /// Whether it may lie in one piece more.
    pub(super) fn has_room(&self) -> bool {
        self.known.len() < PIECE_COUNT
    }

    /// What is known from the first byte on, without a gap.
    pub(super) fn beginning(&self) -> &[u8] {
        match self.known.first() {
            Some((0, to)) => &self.bytes[..*to],
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever the order: the beginning is what a slow list of bytes says.
        #[test]
        fn pieces_in_any_order_make_the_same(
            pieces in proptest::collection::vec((0usize..5000, 0usize..400), 0..60),
        ) {
            let stream: Vec<u8> = (0..6000).map(|at| (at % 251) as u8).collect();
            let mut made = Pieces::default();
            let mut has = vec![false; HELLO_LEN_MAX + 1];
            for (at, len) in pieces {
                made.add(at as u64, &stream[at..at + len]);
                let end = (at + len).min(HELLO_LEN_MAX);
                has.get_mut(at..end).into_iter().flatten().for_each(|one| *one = true);
            }
            let until = has.iter().position(|one| !one).unwrap();
            prop_assert_eq!(made.beginning(), &stream[..until]);
        }
    }

    #[test]
    fn there_is_room_for_so_many_pieces_and_bytes() {
        let mut made = Pieces::default();
        for at in 0..1000 {
            made.add(at * 3 + 1, b"x");
        }
        made.add(u64::MAX, b"x");
        assert!(!made.has_room() && made.beginning().is_empty());
        assert!(made.bytes.len() <= HELLO_LEN_MAX && made.known.len() == PIECE_COUNT);
    }
}
