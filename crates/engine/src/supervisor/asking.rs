//! What a change would come to, without making it: `catena plan` and `catena apply` decide alike.

use crate::chain::Chain;
use crate::chain::diff::{Plan, diff};
use crate::placement::place_onto;
use crate::supervisor::Supervisor;
use crate::supervisor::apply::{ApplyError, check_descriptors, check_possible};
use crate::supervisor::renumber::{compact, renumber};
use crate::supervisor::states::fates;

/// What an apply would do now.
#[derive(Debug)]
pub struct Prospect {
    /// The steps.
    pub plan: Plan,
    /// For people: what becomes of memory that outlives NFs, and what of that which control
    /// requests have changed does not fit any more.
    pub remarks: Vec<String>,
    /// Of what they have changed, that which stays: nodes with their configurations in the file and
    /// as they will run.
    pub amended: Vec<(String, serde_json::Value, serde_json::Value)>,
    /// Why it would be refused.
    pub refusal: Option<ApplyError>,
}

impl Supervisor {
    /// What [`Supervisor::become_as`] would do now. Whether the new parts can be made (files
    /// opened, devices had) shows only when they are.
    pub fn prospect(&self, file: &Chain, discards: bool) -> Prospect {
        let (new, drift, gone) = self.amended(file, discards);
        let old = compact(&self.chain);
        let plan = diff(&old, &new);
        let remarks = [fates(&old, &new), gone].concat();
        let refusal = match plan.is_empty() {
            true => None,
            false => self.check_change(&new).err(),
        };
        let amended = drift.written.into_iter().filter_map(|(name, written)| {
            let node = *new.nodes_named(&name).first()?;
            let runs = crate::chain::amendments::config_of(&new.nodes[node]).clone();
            Some((name, written, runs))
        });
        Prospect {
            plan,
            remarks,
            amended: amended.collect(),
            refusal,
        }
    }

    fn check_change(&self, new: &Chain) -> Result<(), ApplyError> {
        self.check_settled()?;
        let chain = renumber(&self.chain, new);
        let placement = place_onto(&chain, Some(&self.placement));
        let placement = placement.map_err(|error| ApplyError::Failed(error.sentence()))?;
        check_possible(&self.chain, &self.placement, &chain, &placement)?;
        check_descriptors((&self.chain, &self.placement), &chain, &placement)
    }
}
