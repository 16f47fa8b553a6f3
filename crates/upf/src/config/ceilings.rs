//! Ceilings in a chain file, and their check.
//!
//! Control path, a part of the settings.

use catena_engine::config::{ConfigError, ConfigErrors};
use catena_engine::units::Rate;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::ceilings::terms::{CEILING_COUNT_MAX, Scope, Terms, slice_named};

/// What a slice, or a network instance, gets in all. Rates are of bits from the IP header on.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CeilingConfig {
    /// Whose it is: a network instance; it is the slice's if left out.
    #[serde(default)]
    pub network_instance: Option<String>,
    /// Whose it is: an S-NSSAI as SST, or SST-SD with six hexadecimal digits, as 1-0000a1; it is
    /// the network instance's if left out.
    #[serde(default)]
    pub slice: Option<String>,
    /// Most bits per second of its UEs' uplink packets; no limit if left out.
    #[serde(default)]
    pub ul: Option<Rate>,
    /// Most bits per second of its UEs' downlink packets; no limit if left out.
    #[serde(default)]
    pub dl: Option<Rate>,
    /// Most that QERs of its sessions may guarantee uplink (GBR); `ul` if left out.
    #[serde(default)]
    pub guaranteed_ul: Option<Rate>,
    /// Most that QERs of its sessions may guarantee downlink (GBR); `dl` if left out.
    #[serde(default)]
    pub guaranteed_dl: Option<Rate>,
}

/// Reads them; `instance_at` gives the place of a network instance.
pub(super) fn ceilings(
    list: &[CeilingConfig],
    faults: &mut ConfigErrors,
    mut instance_at: impl FnMut(&str) -> u8,
) -> Vec<Terms> {
    let mut add = |path: String, what: String, repair: &str| {
        faults.push(ConfigError::new(path, what, repair));
    };
    if list.len() > CEILING_COUNT_MAX {
        let what = format!("there are at most {CEILING_COUNT_MAX}");
        add("ceilings".to_owned(), what, "leave some out");
    }
    let mut all: Vec<Terms> = Vec::new();
    for (at, one) in list.iter().enumerate() {
        let path = |field: &str| format!("ceilings[{at}].{field}");
        let (name, scope) = match (&one.network_instance, &one.slice) {
            (Some(name), None) => (name, Some(Scope::Instance(instance_at(name)))),
            (None, Some(name)) => (name, slice_named(name).map(Scope::Slice)),
            _ => {
                let repair = "write network_instance or slice";
                add(
                    path("slice"),
                    "a ceiling is of one thing".to_owned(),
                    repair,
                );
                continue;
            }
        };
        let Some(scope) = scope else {
            let what = format!("{name} is no S-NSSAI");
            add(path("slice"), what, "write SST or SST-SD, as 1-0000a1");
            continue;
        };
        if all.iter().any(|other| other.scope == scope) {
            let what = format!("{name} has a ceiling already");
            add(path("slice"), what, "write one for each");
        }
        let mut bits = |field: &str, rate: Option<Rate>| match rate {
            Some(Rate::BitsPerSecond(rate)) => Some(rate as u64),
            None => None,
            Some(_) => {
                add(
                    path(field),
                    "it is a rate of bits".to_owned(),
                    "write 10Mbps",
                );
                None
            }
        };
        let rates = [bits("ul", one.ul), bits("dl", one.dl)];
        let guaranteed = [
            bits("guaranteed_ul", one.guaranteed_ul),
            bits("guaranteed_dl", one.guaranteed_dl),
        ];
        for (way, field) in ["guaranteed_ul", "guaranteed_dl"].into_iter().enumerate() {
            let limits = rates[way].zip(guaranteed[way]);
            if limits.is_some_and(|(most, guaranteed)| guaranteed > most) {
                let what = "it is more than the ceiling lets pass".to_owned();
                add(path(field), what, "write less, or a higher ceiling");
            }
        }
        all.push(Terms {
            name: name.clone(),
            scope,
            bytes_per_s: rates.map(|rate| rate.map(|bits| bits / 8)),
            // No more is guaranteed than there is.
            guaranteed_kbps: [0, 1]
                .map(|way| guaranteed[way].or(rates[way]).map(|bits| bits / 1000)),
        });
    }
    all
}
