//! What a change would come to, without making it: `catena plan` and `catena apply` decide alike.

use crate::chain::Chain;
use crate::chain::diff::{Plan, diff};
use crate::placement::place_onto;
use crate::supervisor::Supervisor;
use crate::supervisor::apply::{ApplyError, check_possible};
use crate::supervisor::renumber::{compact, renumber};

impl Supervisor {
    /// What [`Supervisor::apply`] would do now. Whether the new parts can be made (files opened,
    /// devices had) shows only when they are.
    ///
    /// # Errors
    /// Why it would refuse.
    pub fn would_apply(&self, new: &Chain) -> Result<Plan, ApplyError> {
        let plan = diff(&compact(&self.chain), new);
        if plan.is_empty() {
            return Ok(plan);
        }
        self.check_settled()?;
        let chain = renumber(&self.chain, new);
        let placement = place_onto(&chain, Some(&self.placement));
        let placement = placement.map_err(|error| ApplyError::Failed(error.sentence()))?;
        check_possible(&self.chain, &self.placement, &chain, &placement)?;
        Ok(plan)
    }
}
