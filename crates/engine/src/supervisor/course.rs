//! How a chain that is taken over came to be: its first file and every change of it, replayed.

use crate::chain::Chain;
use crate::placement::{Placement, place, place_onto};
use crate::supervisor::estate::Origin;
use crate::supervisor::renumber::renumber;

/// A chain as it was before its last change, and as it is.
pub(super) struct Course {
    pub(super) before: Option<(Chain, Placement)>,
    pub(super) now: (Chain, Placement),
}

impl Course {
    /// Goes through all changes again: numbers of nodes, links and workers come from them.
    pub(super) fn replay(
        origins: &[(Origin, String)],
        read: &dyn Fn(&str) -> Result<Chain, String>,
    ) -> Result<Self, String> {
        let mut course: Option<Self> = None;
        for (_, text) in origins {
            let read = read(text)?;
            course = Some(match course {
                None => {
                    let placement = place(&read).map_err(|error| error.sentence())?;
                    Self {
                        before: None,
                        now: (read, placement),
                    }
                }
                Some(Self { now, .. }) => {
                    let chain = renumber(&now.0, &read);
                    let placement = place_onto(&chain, Some(&now.1));
                    let placement = placement.map_err(|error| error.sentence())?;
                    Self {
                        before: Some(now),
                        now: (chain, placement),
                    }
                }
            });
        }
        course.ok_or_else(|| "its estate says nothing of where it came from".to_owned())
    }
}
