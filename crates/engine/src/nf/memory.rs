//! Memory that outlives an NF, as the NF gets it: bytes if nobody else has it, else atomic words.
//!
//! Beside a packet's life: a worker gives it to an NF that it builds.

use std::fmt;
use std::ops::DerefMut;

use catena_shm::state::{State, StateWords};

/// A region that the plan asked for.
#[derive(Debug)]
pub struct NfState {
    /// Name in the plan.
    pub name: String,
    /// As many bytes as the plan says; zero in a new one.
    pub memory: NfMemory,
    /// Whether a predecessor may have written in it, and may have been killed while it did.
    pub is_taken_over: bool,
}

/// What can be done with a region.
pub enum NfMemory {
    /// Bytes that nobody else has.
    Bytes(Box<dyn DerefMut<Target = [u8]> + Send>),
    /// Words that others may use at the same time: shards of the node
    /// ([`StatePlan::is_shared`](super::StatePlan::is_shared)), or whoever moves what lies there
    /// ([`NfPlan::moved_by`](super::NfPlan::moved_by)).
    Words(StateWords),
}

impl NfMemory {
    /// So many zero bytes, for an NF without a supervisor who keeps them.
    pub fn new(bytes: usize) -> Self {
        Self::Bytes(Box::new(vec![0; bytes]))
    }

    /// Memory that one NF has: as words, if others may come to use it.
    pub(crate) fn of(state: State, is_words: bool) -> Self {
        match is_words {
            true => Self::Words(state.into_words()),
            false => Self::Bytes(Box::new(state)),
        }
    }

    /// As words, on which tables can lie.
    pub fn into_words(self) -> StateWords {
        match self {
            Self::Bytes(bytes) => StateWords::new(bytes),
            Self::Words(words) => words,
        }
    }

    /// The bytes, for an NF that alone has the region; none if its plan says that others may have
    /// it, too.
    pub fn into_bytes(self) -> Option<Box<dyn DerefMut<Target = [u8]> + Send>> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Words(_) => None,
        }
    }
}

impl fmt::Debug for NfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Words(words) => write!(f, "{} words", words.words().len()),
        }
    }
}
