//! Network instances: those that interfaces, pools, ceilings and groups of a chain file name.
//!
//! Control path, a part of the settings.

use catena_engine::config::{ConfigError, ConfigErrors};

use crate::places::INSTANCE_COUNT_MAX;
use crate::rules::NONE;

/// The place of a network instance, which is added if it is new.
pub(super) fn place_of(instances: &mut Vec<Vec<u8>>, name: &str) -> u8 {
    let known = instances.iter().position(|one| one == name.as_bytes());
    let at = known.unwrap_or_else(|| {
        instances.push(name.as_bytes().to_vec());
        instances.len() - 1
    });
    u8::try_from(at).unwrap_or(NONE)
}

/// Notes that there are more than rules can say.
pub(super) fn check(instances: &[Vec<u8>], faults: &mut ConfigErrors) {
    let count = instances.len();
    if count > INSTANCE_COUNT_MAX {
        let what = format!("there are {count} network instances, and at most {INSTANCE_COUNT_MAX}");
        let repair = "name fewer with interfaces, pools, ceilings and groups";
        faults.push(ConfigError::new("", what, repair));
    }
}
