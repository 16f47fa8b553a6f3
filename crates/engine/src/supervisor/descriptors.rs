//! Whether this process, and those that it starts, may have as many descriptors as a chain needs.
//!
//! Before anything is started or changed: a chain that runs short in the middle would lose workers.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::chain::Chain;
use crate::placement::Placement;
use crate::placement::descriptors::needed;
use crate::worker::confine::DESCRIPTORS_MAX;

/// Lets this process have as many descriptors as it may.
///
/// # Errors
/// What the kernel refused; the limit stays as it is then.
pub fn raise_limit() -> std::io::Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: maximum,
        maximum,
    };
    Ok(setrlimit(Resource::Nofile, most)?)
}

/// Raises the limit as far as it goes, and says, as a sentence, if `placement` of `chain` needs
/// more; `running` is what it is to take the place of.
pub(super) fn shortage(
    chain: &Chain,
    placement: &Placement,
    running: Option<(&Chain, &Placement)>,
) -> Option<String> {
    // Somebody may have allowed more since the start.
    let _ = raise_limit();
    let mut needed = needed(chain, placement);
    if let Some(running) = running {
        needed = needed.while_changing(running, placement);
    }
    let limit = getrlimit(Resource::Nofile);
    let allowed = limit.current.unwrap_or(u64::MAX);
    needed.shortage(placement, allowed, DESCRIPTORS_MAX)
}
