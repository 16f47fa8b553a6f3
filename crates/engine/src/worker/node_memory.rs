//! Memory that outlives NFs, in the worker that runs them now.
//!
//! Control path. The supervisor hands it over before it says what to build. When a node is given
//! other settings while the worker runs, its memory is the running NF's until that goes: the new NF
//! is built on trial with memory of no consequence, so that a wrong one is found while nothing has
//! changed, and once more between two turns with what the old one left ([`Rebuild`]).

use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;

use catena_shm::state::{self, SharedRegion, StateError, StateRegion};

use crate::chain::registry::Registry;
use crate::nf::exchange::NfControl;
use crate::nf::{NfMemory, NfPlan, NfState};
use crate::protocol::{Assignment, NodeSpec, ToWorker};
use crate::worker::build_error::BuildError;
use crate::worker::open::{open, plan_of};
use crate::worker::work::Work;

/// What comes with an assignment, as descriptors.
#[derive(Debug, Default)]
pub struct Brought {
    /// Memory of pools to take over.
    pub pools: BTreeMap<u16, OwnedFd>,
    /// Memory that outlives NFs.
    pub states: Vec<BroughtState>,
}

/// Memory of an NF, as it came.
#[derive(Debug)]
pub struct BroughtState {
    /// Node, by index in the chain.
    pub node: usize,
    /// Its name in the node's plan.
    pub name: String,
    /// Its size in bytes.
    pub len: usize,
    /// Whether an NF has had it before.
    pub is_taken_over: bool,
    /// Whether shards of the node use it at the same time.
    pub is_shared: bool,
    /// The memory.
    pub fd: OwnedFd,
}

impl BroughtState {
    /// From the record that it came with.
    pub(super) fn of(record: ToWorker, fd: OwnedFd) -> Option<Self> {
        let ToWorker::State {
            node,
            name,
            len,
            is_taken_over,
            is_shared,
        } = record
        else {
            return None;
        };
        Some(Self {
            node,
            name,
            len,
            is_taken_over,
            is_shared,
            fd,
        })
    }
}

/// A mapped region, and whether an NF has had it before.
#[derive(Clone, Debug)]
struct Known {
    region: Mapped,
    is_taken_over: bool,
}

/// A region as it was mapped: what is shared gives words, and never bytes.
#[derive(Clone, Debug)]
enum Mapped {
    Alone(StateRegion),
    Shared(SharedRegion),
}

impl Mapped {
    fn attach(state: BroughtState) -> Result<Self, StateError> {
        match state.is_shared {
            true => SharedRegion::attach(state.fd, state.len).map(Self::Shared),
            false => StateRegion::attach(state.fd, state.len).map(Self::Alone),
        }
    }

    /// Its first bytes, or words in so many, for an NF.
    fn take(&self, bytes: usize, is_words: bool) -> Result<NfMemory, StateError> {
        match self {
            Self::Alone(region) => {
                let state = region.take(bytes)?;
                Ok(NfMemory::of(state, is_words))
            }
            Self::Shared(region) => region.words(bytes).map(NfMemory::Words),
        }
    }
}

/// Memory of the nodes of one worker, by node and name.
#[derive(Clone, Debug, Default)]
pub struct NodeMemory(BTreeMap<(usize, String), Known>);

impl NodeMemory {
    /// Maps what has come.
    ///
    /// # Errors
    /// What was wrong with it.
    pub fn attach(brought: Vec<BroughtState>) -> Result<Self, BuildError> {
        let mut memory = Self::default();
        for state in brought {
            let (node, name) = (state.node, state.name.clone());
            let is_taken_over = state.is_taken_over;
            let region = Mapped::attach(state).map_err(|error| BuildError::Node {
                node,
                message: format!("the memory \"{name}\": {error}"),
            })?;
            let known = Known {
                region,
                is_taken_over,
            };
            memory.0.insert((node, name), known);
        }
        Ok(memory)
    }

    /// Adds what came with a change that is now made.
    pub fn adopt(&mut self, newer: Self) {
        self.0.extend(newer.0);
    }

    /// The memory that the plan of a node asks for.
    pub(super) fn of(&self, node: usize, plan: &NfPlan) -> Result<Vec<NfState>, String> {
        let states = plan.state.iter().map(|planned| {
            let known = self.0.get(&(node, planned.name.clone()));
            let known =
                known.ok_or_else(|| format!("the memory \"{}\" is missing", planned.name))?;
            let memory = known.region.take(planned.bytes, plan.has_as_words(planned));
            let memory =
                memory.map_err(|error| format!("the memory \"{}\": {error}", planned.name))?;
            Ok(NfState {
                name: planned.name.clone(),
                memory,
                is_taken_over: known.is_taken_over,
            })
        });
        states.collect()
    }
}

/// Memory as a plan asks for it, that nobody finds again.
pub(super) fn on_trial(plan: &NfPlan) -> Result<Vec<NfState>, String> {
    let states = plan.state.iter().map(|planned| {
        let (fd, len) = state::create(planned.bytes).map_err(|error| error.to_string())?;
        let memory = StateRegion::attach(fd, len).and_then(|region| region.take(planned.bytes));
        let memory = memory.map_err(|error| error.to_string())?;
        Ok(NfState {
            name: planned.name.clone(),
            memory: NfMemory::of(memory, plan.has_as_words(planned)),
            is_taken_over: false,
        })
    });
    states.collect()
}

/// An NF with memory that another one still has: to be built when that is gone.
pub struct Rebuild(Box<dyn FnOnce() -> Result<Work, BuildError> + Send>);

/// Where the control half of an NF that was built again goes.
pub(super) type NewControls = Sender<(usize, Option<Box<dyn NfControl>>)>;

impl fmt::Debug for Rebuild {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rebuild")
    }
}

impl Rebuild {
    /// Builds it. The one before must have let go of its memory.
    ///
    /// # Errors
    /// What the NF does not accept in what was left.
    pub fn build(self) -> Result<Work, BuildError> {
        (self.0)()
    }

    /// How the node is to be built again, if its plan asks for memory. `kept` is what the worker
    /// has, `new` what has come with the change.
    pub(super) fn of(
        spec: &NodeSpec,
        assignment: &Assignment,
        registry: &Registry,
        (kept, new): (&NodeMemory, &NodeMemory),
        controls: NewControls,
    ) -> Result<Option<Self>, BuildError> {
        let Some((_, plan)) = plan_of(spec, registry)? else {
            return Ok(None);
        };
        if plan.state.is_empty() || assignment.is_bypass {
            return Ok(None);
        }
        let mut memory = NodeMemory::default();
        for planned in &plan.state {
            let key = (spec.index, planned.name.clone());
            let here = new.0.get(&key).cloned();
            let left = kept.0.get(&key).map(|known| Known {
                is_taken_over: true,
                ..known.clone()
            });
            memory.0.extend(here.or(left).map(|known| (key, known)));
        }
        let (spec, assignment) = (spec.clone(), assignment.clone());
        let registry = registry.clone();
        Ok(Some(Self(Box::new(move || {
            let memory_of = |plan: &NfPlan| memory.of(spec.index, plan);
            let (work, control) = open(
                (&spec, None),
                &assignment,
                &registry,
                (&[], &mut Vec::new()),
                memory_of,
            )?;
            // Without a control thread there is nobody to ask it.
            let _ = controls.send((spec.index, control));
            Ok(work)
        }))))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::config::parse_config;
    use crate::nf::{BuiltNf, Burst, Nanos, Nf, NfKind, StatePlan};

    /// Adds its setting to what its predecessors have left, when it is built.
    struct Adder {
        _memory: Box<dyn std::ops::DerefMut<Target = [u8]> + Send>,
    }

    impl Nf for Adder {
        fn process(&mut self, _burst: &mut Burst<'_>, _now: Nanos) {}
    }

    static LAST: AtomicU64 = AtomicU64::new(0);

    static ADDER: NfKind = NfKind {
        name: "adder",
        summary: "Adds",
        example: "1",
        schema: || schemars::schema_for!(u8),
        plan: |_, _| {
            Ok(NfPlan::new().state(StatePlan {
                name: "sum".to_owned(),
                bytes: 1,
                layout: 1,
                is_shared: false,
            }))
        },
        build: |config, context| {
            let state = context.take_state("sum").unwrap();
            let mut memory = state.memory.into_bytes().unwrap();
            memory[0] += parse_config::<u8>(config)?;
            LAST.store(memory[0].into(), Ordering::Relaxed);
            Ok(BuiltNf::new(Adder { _memory: memory }))
        },
    };

    fn node(config: u8) -> NodeSpec {
        NodeSpec {
            index: 3,
            name: "sum".to_owned(),
            type_name: "adder".to_owned(),
            is_port: false,
            shard: 0,
            shard_count: 1,
            receives: false,
            config: config.into(),
            wraps: Vec::new(),
            outputs: vec!["out".to_owned()],
            counters: Vec::new(),
            fan: 1,
        }
    }

    fn assignment() -> Assignment {
        Assignment {
            worker: 0,
            reclaimed: 0,
            epoch: 0,
            chain: "test".to_owned(),
            dir: std::path::PathBuf::new(),
            nodes: Vec::new(),
            edges: Vec::new(),
            rings: Vec::new(),
            secrets: Vec::new(),
            lanes: Vec::new(),
            pools: Vec::new(),
            adoptions: Vec::new(),
            starts: Vec::new(),
            split_seed: 0,
            burst: 32,
            wait: crate::wait::WaitPolicy {
                spin_ns: 0,
                yields: 0,
                sleeps: true,
            },
            core: None,
            clock: [0; 3],
            mode: crate::chain::Mode::Thread,
            processes: 0,
            netns: None,
            is_bypass: false,
            files: Vec::new(),
        }
    }

    fn brought(is_shared: bool) -> BroughtState {
        let (fd, len) = state::create(64).unwrap();
        BroughtState {
            node: 3,
            name: "sum".to_owned(),
            len,
            is_taken_over: false,
            is_shared,
            fd,
        }
    }

    #[test]
    fn memory_that_others_use_is_never_bytes() {
        let region = |is_shared| StatePlan {
            name: "sum".to_owned(),
            bytes: 64,
            layout: 1,
            is_shared,
        };
        let alone = NfPlan::new().state(region(false));
        let moved = alone.clone().moved_by(|_, _, _| Err(String::new()));
        let rows = [
            (NfPlan::new().state(region(true)), true),
            (moved, false),
            // Even where a plan says otherwise of what has come as shared.
            (alone.clone(), true),
        ];
        for (plan, is_shared) in rows {
            let memory = NodeMemory::attach(vec![brought(is_shared)]).unwrap();
            let state = memory.of(3, &plan).unwrap().pop().unwrap();
            assert!(state.memory.into_bytes().is_none(), "{plan:?}");
        }
        let trial = on_trial(&NfPlan::new().state(region(true))).unwrap();
        let trial = trial.into_iter().map(|state| state.memory.into_bytes());
        assert!(trial.flatten().next().is_none());
        let memory = NodeMemory::attach(vec![brought(false)]).unwrap();
        let state = memory.of(3, &alone).unwrap().pop().unwrap();
        assert_eq!(state.memory.into_bytes().unwrap().len(), 64);
    }

    #[test]
    fn an_nf_with_other_settings_goes_on_with_what_the_one_before_left() {
        let registry = Registry {
            nfs: vec![&ADDER],
            ..Registry::default()
        };
        let memory = NodeMemory::attach(vec![brought(false)]).unwrap();
        let last = || LAST.load(Ordering::Relaxed);
        let first = open(
            (&node(5), None),
            &assignment(),
            &registry,
            (&[], &mut Vec::new()),
            |plan| memory.of(3, plan),
        )
        .unwrap();
        assert_eq!(last(), 5);
        let new = NodeMemory::default();
        let rebuild = || {
            let both = (&memory, &new);
            let controls = std::sync::mpsc::channel().0;
            let rebuild = Rebuild::of(&node(2), &assignment(), &registry, both, controls);
            let rebuild = rebuild.unwrap();
            rebuild.expect("its plan asks for memory")
        };
        // On trial it has memory of no consequence; while the other runs it cannot have its own.
        drop(
            open(
                (&node(2), None),
                &assignment(),
                &registry,
                (&[], &mut Vec::new()),
                on_trial,
            )
            .unwrap(),
        );
        assert_eq!(last(), 2);
        assert!(rebuild().build().is_err());
        drop(first);
        let second = rebuild().build().unwrap();
        assert_eq!(last(), 7);
        drop(second);
        assert!(
            open(
                (&node(1), None),
                &assignment(),
                &registry,
                (&[], &mut Vec::new()),
                |plan| new.of(3, plan)
            )
            .is_err()
        );
    }
}
