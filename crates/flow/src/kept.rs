//! Memory that outlives the NFs of this crate: taken over from a predecessor, or begun anew aloud.
//!
//! Before any packet. Memory of another size or layout is not handed on, which `catena plan` says.
//! What is handed on may still be of no use: its last owner was killed before it was made to the
//! end, or it is spoiled. It is begun anew then, with a notice for whoever starts the chain.

use std::sync::Arc;

use catena_engine::config::{ConfigError, ConfigErrors};
use catena_engine::nf::{BuildContext, NfMemory};
use catena_shm::state::{STATE_LINE_BYTES, StateWords};

use crate::hash::random_seed;
use crate::{AttachError, FlowTable, Shape};

/// There is no clock where NFs are built: as if late, so that no stamp is taken for one of the
/// future.
const LATE_NS: u64 = u64::MAX;

/// Bytes for so many words, wherever they begin.
pub(crate) fn bytes_of(words: usize) -> usize {
    words * size_of::<u64>() + STATE_LINE_BYTES
}

/// A region of an NF's plan.
pub(crate) struct Region {
    pub(crate) memory: Arc<StateWords>,
    is_taken_over: bool,
}

impl Region {
    /// That of this name, with so many words at least.
    pub(crate) fn take(context: &mut BuildContext<'_>, name: &str, words: usize) -> Self {
        let state = context.take_state(name);
        let is_taken_over = state.as_ref().is_some_and(|state| state.is_taken_over);
        // Without a supervisor there is nobody who keeps it.
        let new = || NfMemory::new(bytes_of(words));
        let memory = state.map_or_else(new, |state| state.memory);
        Self {
            memory: Arc::new(memory.into_words()),
            is_taken_over,
        }
    }

    /// What another NF has left in it, by `attach`; where that is none, or of no use, what `create`
    /// makes. A notice says of `what` is lost, as "flows".
    ///
    /// # Errors
    /// What `create` says.
    pub(crate) fn attach_or_create<T>(
        &self,
        what: &str,
        attach: impl FnOnce(&Arc<StateWords>, u64) -> Result<T, AttachError>,
        create: impl FnOnce(&Arc<StateWords>) -> Result<T, AttachError>,
    ) -> Result<(T, Option<String>), AttachError> {
        let attached = self.is_taken_over.then(|| attach(&self.memory, LATE_NS));
        match attached.transpose() {
            Ok(Some(attached)) => Ok((attached, None)),
            Ok(None) => Ok((create(&self.memory)?, None)),
            Err(why) => {
                let notice = format!("{what} begin anew, what was kept of them is lost: {why}");
                Ok((create(&self.memory)?, Some(notice)))
            }
        }
    }
}

/// An NF's one table, in the region that is named as what it holds and as the field that bounds it.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
}

impl Table {
    /// Bytes of its region.
    ///
    /// # Errors
    /// That there can be no table of its shape.
    pub(crate) fn bytes(&self) -> Result<usize, ConfigErrors> {
        Ok(bytes_of(self.words()?))
    }

    /// The table, with what a predecessor left in it; and a notice if that is lost.
    ///
    /// # Errors
    /// That it cannot be made.
    pub(crate) fn open(
        &self,
        context: &mut BuildContext<'_>,
    ) -> Result<(FlowTable<Arc<StateWords>>, Option<String>), ConfigErrors> {
        let region = Region::take(context, self.name, self.words()?);
        let opened = region.attach_or_create(
            self.name,
            |memory, now_ns| Ok(FlowTable::attach(memory.clone(), &self.shape, now_ns)?.0),
            |memory| FlowTable::create(memory.clone(), &self.shape, random_seed(), 0),
        );
        opened.map_err(|error| self.too_many(&error.to_string()))
    }

    /// Why there cannot be so much in it.
    pub(crate) fn too_many(&self, message: &str) -> ConfigErrors {
        let repair = format!("ask for fewer {}", self.name);
        vec![ConfigError::new(self.name, message, repair)]
    }

    fn words(&self) -> Result<usize, ConfigErrors> {
        let words = self.shape.words();
        words.map_err(|error| self.too_many(&error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use catena_engine::nf::NfState;
    use serde_json::Value;

    use super::*;

    /// What is there is nothing that any of them knows: whoever starts the chain is told.
    #[test]
    fn what_cannot_be_taken_over_begins_anew_aloud() {
        for kind in crate::NFS {
            let config: Value = serde_json::from_str(kind.example).unwrap();
            let plan = (kind.plan)(&config, &[]).unwrap();
            for (is_taken_over, said) in [(false, 0), (true, 1)] {
                let states = plan.state.iter().map(|planned| NfState {
                    name: planned.name.clone(),
                    memory: NfMemory::Bytes(Box::new(vec![0x55; planned.bytes])),
                    is_taken_over,
                });
                let mut context = BuildContext {
                    state: states.collect(),
                    ..BuildContext::alone(&plan.outputs)
                };
                let built = (kind.build)(&config, &mut context).unwrap();
                let is_lost = |one: &&String| one.contains("what was kept of them is lost: ");
                let anew = built.notices.iter().filter(is_lost);
                assert_eq!(anew.count(), said, "{}: {:?}", kind.name, built.notices);
            }
        }
    }
}
