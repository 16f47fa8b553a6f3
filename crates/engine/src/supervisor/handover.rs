//! Memory that outlives NFs is given to whoever runs their nodes next: see `states`.

use crate::chain::model::is_gone;
use crate::protocol::ToWorker;
use crate::supervisor::Supervisor;
use crate::supervisor::change::Change;
use crate::supervisor::states::{make, states_of};

impl Supervisor {
    /// Gives a worker the memory of `nodes`, before it is told to build them. One that runs already
    /// (`is_running`) has what it was given before.
    pub(super) fn give_states(
        &mut self,
        worker: usize,
        nodes: &[usize],
        is_running: bool,
    ) -> Result<(), String> {
        let is_prepared = matches!(self.change, Change::Preparing(_));
        for node in nodes {
            for plan in states_of(&self.chain.nodes[*node]) {
                let kept = self.states.find(&self.chain, *node, plan);
                let (key, mut state) = match kept {
                    Some(kept) => kept,
                    None => {
                        let made = make(plan).map_err(|error| format!("{}: {error}", plan.name))?;
                        ((*node, plan.name.clone()), made)
                    }
                };
                let is_known = state.users.contains(node);
                if !(is_known && is_running) {
                    let record = ToWorker::State {
                        node: *node,
                        name: plan.name.clone(),
                        len: state.len,
                        is_taken_over: state.is_used,
                        is_shared: plan.is_shared,
                    };
                    self.instances[worker].send_with(&record, Some(&state.fd));
                }
                if !is_known {
                    state.is_used = true;
                    state.users.insert(*node);
                    let place = match is_prepared {
                        true => &mut self.states.new,
                        false => &mut self.states.kept,
                    };
                    place.insert(key, state);
                }
            }
        }
        Ok(())
    }

    /// A change is not made: nobody has had what was made for it.
    pub(super) fn forget_new_states(&mut self) {
        self.states.new.clear();
    }

    /// A change is made: what is new is kept, what no plan asks for any more is let go of.
    pub(super) fn adopt_new_states(&mut self) {
        let new = std::mem::take(&mut self.states.new);
        self.states.kept.extend(new);
        let nodes = &self.chain.nodes;
        self.states.kept.retain(|_, kept| {
            let plan = &kept.plan;
            kept.users.retain(|node| {
                let node = nodes.get(*node).filter(|node| !is_gone(node));
                node.is_some_and(|node| states_of(node).contains(plan))
            });
            !kept.users.is_empty()
        });
    }
}
