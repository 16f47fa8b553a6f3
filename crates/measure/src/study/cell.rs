//! Factors, their levels, and what one combination of them is: a trial is of one cell.

use catena_engine::chain::{Aggregate, Mode, Protocol, Trust};
use catena_engine::config::{ConfigError, ConfigErrors, parse_config};
use catena_engine::units::{Rate, Share};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::doctor::states::States;
use crate::profile::Sizes;

/// The factors, in the order in which combinations are numbered and named.
pub const FACTORS: [&str; 9] = [
    "mode",
    "port",
    "size",
    "rate",
    "nfs",
    "aggregate",
    "trust",
    "states",
    "protocol",
];
/// Places in [`FACTORS`].
pub const MODE: usize = 0;
/// Kind of ports.
pub const PORT: usize = 1;
/// Frame size.
pub const SIZE: usize = 2;
/// Offered load.
pub const RATE: usize = 3;
/// Number of functions.
pub const NFS: usize = 4;
/// Aggregation.
pub const AGGREGATE: usize = 5;
/// Trust.
pub const TRUST: usize = 6;
/// P and C states.
pub const STATES: usize = 7;
/// How the device's links hand packets over.
pub const PROTOCOL: usize = 8;

/// Most levels of a factor.
const LEVEL_COUNT_MAX: usize = 32;
/// Most functions in a chain.
const NF_COUNTS_END: u64 = 32;

/// A level of a factor.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Level {
    /// What it is called: as it is written, lists as JSON.
    pub text: String,
    /// As it is written.
    pub value: Value,
}

impl Level {
    /// A level that is one word.
    pub fn word(text: impl Into<String>) -> Self {
        let text = text.into();
        let value = json!(text);
        Self { text, value }
    }
}

/// What a level is called.
pub fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A level of the factor `rate`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoadLevel {
    /// As many packets as there is room for.
    Max,
    /// A rate.
    Rate(Rate),
    /// A share of the median rate at `max` of the same combination.
    Share(f64),
}

impl LoadLevel {
    /// Parses `max`, `10kpps`, `50%`.
    ///
    /// # Errors
    /// A sentence that shows the accepted form.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self::Max);
        }
        if text.ends_with('%') {
            let share = Share::parse(text)?.0;
            if share <= 0.0 {
                return Err(format!("\"{text}\" is no load; give more than 0%"));
            }
            return Ok(Self::Share(share));
        }
        let rate = Rate::parse(text).map_err(|error| format!("{error}, max, or a share like 50%"));
        rate.map(Self::Rate)
    }

    /// Whether it depends on another trial.
    pub const fn is_share(self) -> bool {
        matches!(self, Self::Share(_))
    }
}

/// The level that a factor has if the study does not name it.
const DEFAULTS: [&str; 9] = [
    "process", "link", "64", "max", "1", "auto", "shared", "as-is", "ring",
];

/// Levels of all factors; what is wrong goes to `errors`, and its factor keeps its default.
pub(super) fn read_factors(section: Option<&Value>, errors: &mut ConfigErrors) -> Vec<Vec<Level>> {
    let none = Map::new();
    let given = match section {
        None | Some(Value::Null) => &none,
        Some(Value::Object(given)) => given,
        Some(_) => {
            let repair = "write it like {mode: [process, container]}";
            errors.push(ConfigError::new("factors", "factors are a map", repair));
            &none
        }
    };
    for factor in given.keys().filter(|key| !FACTORS.contains(&key.as_str())) {
        let message = format!("\"{factor}\" is no factor");
        let repair = format!("the factors are {}", FACTORS.join(", "));
        let path = format!("factors.{factor}");
        errors.push(ConfigError::new(path, message, repair));
    }
    let factors = FACTORS.into_iter().zip(DEFAULTS);
    let read = factors.map(|(factor, default)| {
        let value = given.get(factor);
        let found = value.map(|value| read_levels(factor, value, errors));
        let found = found.filter(|levels| !levels.is_empty());
        found.unwrap_or_else(|| {
            let value = default
                .parse::<u64>()
                .map_or_else(|_| json!(default), |n| json!(n));
            vec![Level {
                text: default.to_owned(),
                value,
            }]
        })
    });
    read.collect()
}

fn read_levels(factor: &str, value: &Value, errors: &mut ConfigErrors) -> Vec<Level> {
    let path = format!("factors.{factor}");
    let (items, is_list) = match value {
        Value::Array(items) => (items.clone(), true),
        one => (vec![one.clone()], false),
    };
    if items.is_empty() || items.len() > LEVEL_COUNT_MAX {
        let message = format!("{} levels", items.len());
        let repair = format!("give 1 to {LEVEL_COUNT_MAX}");
        errors.push(ConfigError::new(&path, message, repair));
        return Vec::new();
    }
    let mut levels: Vec<Level> = Vec::new();
    for (index, value) in items.into_iter().enumerate() {
        let at = if is_list {
            format!("{path}[{index}]")
        } else {
            path.clone()
        };
        let text = text_of(&value);
        if let Err(error) = judge(factor, &text, &value) {
            errors.push(ConfigError { path: at, ..error });
        } else if levels.iter().any(|level| level.text == text) {
            let message = format!("the level \"{text}\" is there already");
            errors.push(ConfigError::new(at, message, "leave it out"));
        } else {
            levels.push(Level { text, value });
        }
    }
    levels
}

/// Whether a value is a level of a factor; what is wrong has no path.
fn judge(factor: &str, text: &str, value: &Value) -> Result<(), ConfigError> {
    let refused = |message: String, repair: &str| Err(ConfigError::new("", message, repair));
    match factor {
        "mode" => typed::<Mode>(value),
        "aggregate" => typed::<Aggregate>(value),
        "trust" => typed::<Trust>(value),
        "protocol" => typed::<Protocol>(value),
        "size" => typed::<Sizes>(value),
        "rate" => match LoadLevel::parse(text) {
            Ok(_) => Ok(()),
            Err(why) => refused(why, "write max, 100kpps, 1Gbps or 50%"),
        },
        "nfs" => match value.as_u64() {
            Some(1..=NF_COUNTS_END) => Ok(()),
            _ => refused(
                format!("\"{text}\" is no number of functions"),
                "give 1 to 32",
            ),
        },
        "states" if text == "as-is" => Ok(()),
        "states" => match text.parse::<States>() {
            Ok(_) => Ok(()),
            Err(why) => refused(why, "write as-is, +pc or -pc"),
        },
        // A name; whether there is such a kind is judged with the kinds.
        _ if value.is_string() => Ok(()),
        _ => refused(
            format!("{text} is no name"),
            "write link, or a name under ports",
        ),
    }
}

fn typed<T: DeserializeOwned>(value: &Value) -> Result<(), ConfigError> {
    match parse_config::<T>(value) {
        Ok(_) => Ok(()),
        Err(errors) => Err(errors.into_iter().next().unwrap_or_else(|| {
            ConfigError::new("", "this is no level", "see docs/reference/study.md")
        })),
    }
}

/// A combination: the index of a level for each of [`FACTORS`].
pub type Cell = [usize; FACTORS.len()];

/// A trial that is to be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unit {
    /// In which block, from 0.
    pub block: u32,
    /// Index of the cell in [`Study::cells`](super::Study::cells).
    pub cell: usize,
}
