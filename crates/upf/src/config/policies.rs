//! Forwarding policies in a chain file, and their check.
//!
//! Control path, a part of the settings.

use catena_engine::config::{ConfigError, ConfigErrors};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::places::POLICY_COUNT_MAX;
use crate::rules::NONE;
use crate::settings::{Interface, Policy};

/// Longest Forwarding Policy Identifier (TS 29.244, 8.2.23).
const IDENTIFIER_LEN_MAX: usize = 255;

/// A forwarding policy, which FARs name: where their packets to the data network go instead.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyConfig {
    /// Its identifier.
    pub name: String,
    /// The interface by which packets leave, of side `core` or `sgi`.
    pub interface: String,
}

/// Reads them.
pub(super) fn policies(
    list: &[PolicyConfig],
    interfaces: &[Interface],
    faults: &mut ConfigErrors,
) -> Vec<Policy> {
    let mut add = |path: String, what: String, repair: &str| {
        faults.push(ConfigError::new(path, what, repair));
    };
    if list.len() > POLICY_COUNT_MAX {
        let what = format!("there are at most {POLICY_COUNT_MAX}");
        add("forwarding_policies".to_owned(), what, "leave some out");
    }
    let mut all: Vec<Policy> = Vec::new();
    for (at, one) in list.iter().enumerate() {
        let path = |field: &str| format!("forwarding_policies[{at}].{field}");
        if !(1..=IDENTIFIER_LEN_MAX).contains(&one.name.len()) {
            let what = "an identifier has 1 to 255 octets".to_owned();
            add(path("name"), what, "write another name");
        }
        if all.iter().any(|other| other.name == one.name) {
            let what = format!("{} is there twice", one.name);
            add(path("name"), what, "rename one");
        }
        let place = interfaces.iter().position(|interface| {
            interface.name == one.interface && matches!(interface.side, 1 | 2)
        });
        if place.is_none() {
            let what = format!("{} is no interface to a data network", one.interface);
            add(path("interface"), what, "name one of side core or sgi");
        }
        all.push(Policy {
            name: one.name.clone(),
            interface: place
                .and_then(|place| u8::try_from(place).ok())
                .unwrap_or(NONE),
        });
    }
    all
}
