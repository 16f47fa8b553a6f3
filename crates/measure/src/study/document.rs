//! The study's document: what may stand in it, and everything that is wrong with one at once.
//!
//! `docs/reference/study.md` describes the fields. Checking opens nothing and starts nothing: it
//! makes the chain and the profile of every combination and lets their own checkers judge them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use catena_engine::chain::{Chain, DocumentKind, Registry};
use catena_engine::config::{ConfigError, ConfigErrors};
use catena_engine::units::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::cell::{self, Cell, FACTORS, Level, LoadLevel};
use super::wire::WireKind;
use crate::profile::Profile;
use crate::profile::parse::{section, unknown_keys};

/// Most combinations.
pub const CELL_COUNT_MAX: usize = 10_000;
/// Most blocks.
pub const BLOCK_COUNT_MAX: u32 = 1000;
/// The port kind that every study has: the tester's own links, without a port of the kernel.
pub const LINK: &str = "link";

/// How a study's document is written.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(
    dead_code,
    reason = "the form for the schema; sections are read one by one"
)]
struct Written {
    /// What it is called in reports.
    name: String,
    /// Decides the order of trials; the same number, the same order.
    #[serde(default)]
    seed: u64,
    /// How often each combination is measured, each time in an order of its own. Default 5.
    blocks: Option<u32>,
    /// Length of a trial. Default 500ms.
    trial: Option<Span>,
    /// Most latency samples of a trial. Default 65536.
    samples: Option<u32>,
    /// A traffic profile without sizes and rate, which are factors.
    #[serde(default)]
    profile: Map<String, Value>,
    /// The network function, or a list that the chain goes through again and again.
    nf: Option<Functions>,
    /// Levels of factors: a list, or one level.
    #[serde(default)]
    factors: Factors,
    /// Kinds of ports beside `link`.
    #[serde(default)]
    ports: BTreeMap<String, PortTemplate>,
    /// Combinations that are left out: a map from factors to levels.
    #[serde(default)]
    without: Vec<BTreeMap<String, Value>>,
    /// Comparisons by levels of several factors, beside those that every study has.
    #[serde(default)]
    compare: Vec<Compared>,
    /// Image of containers.
    image: Option<String>,
}

/// One network function or several, each a map with `type` and its settings.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "this is no network function; write {type: macswap}, or a list"
)]
enum Functions {
    One(Map<String, Value>),
    Several(Vec<Map<String, Value>>),
}

/// Levels of factors; one that is not named has one level.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[allow(
    dead_code,
    reason = "the form for the schema; levels are read one by one"
)]
struct Factors {
    /// Where functions run: inline, thread, process, container. Default process.
    mode: Value,
    /// Kinds of ports: `link`, or a name under `ports`. Default link.
    port: Value,
    /// Frame sizes with FCS, as in a profile. Default 64.
    size: Value,
    /// Loads: `max`, a rate, or a share of the rate at `max` like `50%`. Default max.
    rate: Value,
    /// Numbers of functions in the chain. Default 1.
    nfs: Value,
    /// Aggregation on the device's links: auto, off, on. Default auto.
    aggregate: Value,
    /// Trust on the device's links: shared, ro, copy. Default shared.
    trust: Value,
    /// P and C states: as-is, +pc, -pc, +p-c and so on. Default as-is.
    states: Value,
    /// How the device's links hand packets over: ring, flag, tcp. Default ring.
    protocol: Value,
}

/// How a kind of port joins a chain. `$device` and `$tester` in texts stand for the names of the
/// interfaces at the device's and at the tester's end of a wire, and `$number` for the wire's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PortTemplate {
    /// The device's port, as in a chain file.
    pub device: Map<String, Value>,
    /// The tester's port; the device's with the names of the tester's end unless given.
    pub tester: Option<Map<String, Value>>,
    /// What lies between them.
    #[serde(default)]
    pub wire: WireKind,
}

impl PortTemplate {
    /// Whether one of its ports is of this kind.
    pub fn has_port(&self, kind: &str) -> bool {
        let ports = [Some(&self.device), self.tester.as_ref()];
        ports
            .into_iter()
            .flatten()
            .any(|port| port.contains_key(kind))
    }
}

/// A factor whose levels are compared within each combination of the levels of others.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Compared {
    /// The factor.
    pub factor: String,
    /// The others.
    pub within: Vec<String>,
}

/// A checked study.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Study {
    /// What it is called.
    pub name: String,
    /// Decides the order of trials.
    pub seed: u64,
    /// How often each combination is measured.
    pub blocks: u32,
    /// Length of a trial in ns.
    pub trial_ns: u64,
    /// Most latency samples of a trial.
    pub samples: u32,
    /// The profile without sizes and rate.
    pub profile: Map<String, Value>,
    /// Network functions, taken in turn.
    pub nfs: Vec<Map<String, Value>>,
    /// Levels of each of [`FACTORS`], in that order.
    pub levels: Vec<Vec<Level>>,
    /// Kinds of ports by name.
    pub ports: BTreeMap<String, PortTemplate>,
    /// Levels, by factor, of combinations that are left out.
    pub without: Vec<BTreeMap<String, Vec<String>>>,
    /// Comparisons by levels of several factors. They decide nothing of what is measured, so that
    /// a journal does not depend on them.
    #[serde(skip)]
    pub compare: Vec<Compared>,
    /// Image of containers.
    pub image: Option<String>,
}

/// Keys of a study.
const KEYS: [&str; 12] = [
    "name", "seed", "blocks", "trial", "samples", "profile", "nf", "factors", "ports", "without",
    "compare", "image",
];

impl Study {
    /// The document: `catena schema --study` prints its schema.
    pub const KIND: DocumentKind<Self> = DocumentKind {
        name: "study",
        schema: || schemars::schema_for!(Written),
        check: Self::from_json,
    };

    /// Reads a study from a document's values.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn from_json(document: &Value) -> Result<Self, ConfigErrors> {
        let Value::Object(sections) = document else {
            let repair = format!("begin with one of {}", KEYS.join(", "));
            return Err(vec![ConfigError::new("", "a study is a map", repair)]);
        };
        let mut errors = unknown_keys(sections, &KEYS);
        let errors_of = &mut errors;
        let span: Option<Span> = section(sections, "trial", errors_of);
        let functions: Option<Functions> = section(sections, "nf", errors_of);
        let ports: Option<BTreeMap<String, PortTemplate>> = section(sections, "ports", errors_of);
        let without: Option<Vec<BTreeMap<String, Value>>> = section(sections, "without", errors_of);
        let mut study = Self {
            name: section(sections, "name", errors_of).unwrap_or_default(),
            seed: section(sections, "seed", errors_of).unwrap_or_default(),
            blocks: section(sections, "blocks", errors_of).unwrap_or(5),
            trial_ns: span.map_or(500_000_000, |span| span.ns),
            samples: section(sections, "samples", errors_of).unwrap_or(1 << 16),
            profile: section(sections, "profile", errors_of).unwrap_or_default(),
            nfs: match functions {
                Some(Functions::One(one)) => vec![one],
                Some(Functions::Several(several)) => several,
                None => vec![Map::from_iter([("type".to_owned(), json!("macswap"))])],
            },
            levels: cell::read_factors(sections.get("factors"), errors_of),
            ports: ports.unwrap_or_default(),
            without: Vec::new(),
            compare: section(sections, "compare", errors_of).unwrap_or_default(),
            image: section(sections, "image", errors_of),
        };
        study.read_without(without.unwrap_or_default(), errors_of);
        study.check_numbers(sections, errors_of);
        study.check_compared(errors_of);
        // What could not be read stands for its default, about which nothing need be said.
        let mut further = Vec::new();
        study.check_profiles(&mut further);
        if !errors.iter().any(|error| error.path.starts_with("without")) {
            study.check_cells(&mut further);
        }
        further.retain(|error| !errors.iter().any(|known| known.path == error.path));
        errors.extend(further);
        if errors.is_empty() {
            Ok(study)
        } else {
            Err(errors)
        }
    }

    /// The same study with other levels of P and C states.
    #[must_use]
    pub fn with_states(mut self, states: Vec<Level>) -> Self {
        self.levels[cell::STATES] = states;
        self
    }

    /// Leaves only these levels of a factor.
    ///
    /// # Errors
    /// A factor or level that the study does not have.
    pub fn keep_only(&mut self, factor: &str, levels: &[&str]) -> Result<(), String> {
        let index = FACTORS.iter().position(|known| *known == factor);
        let Some(index) = index else {
            let known = FACTORS.join(", ");
            return Err(format!(
                "\"{factor}\" is no factor; the factors are {known}"
            ));
        };
        let known: Vec<_> = self.levels[index]
            .iter()
            .map(|one| one.text.clone())
            .collect();
        for level in levels {
            if !known.iter().any(|text| text == level) {
                let known = known.join(", ");
                return Err(format!("{factor} has no level \"{level}\"; it has {known}"));
            }
        }
        self.levels[index].retain(|level| levels.contains(&level.text.as_str()));
        if self.cells().is_empty() {
            return Err("no combination is left".to_owned());
        }
        Ok(())
    }

    fn check_numbers(&self, sections: &Map<String, Value>, errors: &mut ConfigErrors) {
        let mut refuse = |path: &str, message: String, repair: &str| {
            errors.push(ConfigError::new(path, message, repair));
        };
        if !sections.contains_key("name") {
            refuse("", "a study has a name".to_owned(), "add name: NAME");
        } else if self.name.trim().is_empty() {
            refuse("name", "the name is empty".to_owned(), "give it a name");
        }
        if !(1..=BLOCK_COUNT_MAX).contains(&self.blocks) {
            refuse(
                "blocks",
                format!("{} blocks", self.blocks),
                "give 1 to 1000",
            );
        }
        if !(1_000_000..=3_600_000_000_000).contains(&self.trial_ns) {
            refuse(
                "trial",
                format!("a trial of {} ns", self.trial_ns),
                "give 1ms to 1h",
            );
        }
        if !(2..=1 << 24).contains(&self.samples) {
            refuse(
                "samples",
                format!("{} samples", self.samples),
                "give 2 to 16777216",
            );
        }
        for (key, why) in [("sizes", "factors.size"), ("replay", "made packets")] {
            if self.profile.contains_key(key) {
                let message = format!("{key} cannot stand in a study's profile");
                refuse(
                    &format!("profile.{key}"),
                    message,
                    &format!("leave it out; use {why}"),
                );
            }
        }
        if self
            .profile
            .get("load")
            .is_some_and(|load| load.get("rate").is_some())
        {
            let message = "the rate is a factor".to_owned();
            refuse("profile.load.rate", message, "give it under factors.rate");
        }
        if self.nfs.is_empty() {
            refuse(
                "nf",
                "no network function".to_owned(),
                "give one, like {type: macswap}",
            );
        }
        let kinds = &self.levels[cell::PORT];
        for (index, kind) in kinds.iter().enumerate() {
            if kind.text != LINK && !self.ports.contains_key(&kind.text) {
                let message = format!("no port kind is called \"{}\"", kind.text);
                let repair = "write link, or describe it under ports";
                refuse(&format!("factors.port[{index}]"), message, repair);
            }
        }
        if self.ports.contains_key(LINK) {
            let message = "link is the tester's own links".to_owned();
            refuse("ports.link", message, "give the kind another name");
        }
        let loads = &self.levels[cell::RATE];
        let is_max = |level: &Level| level.text == "max";
        let is_share =
            |level: &Level| LoadLevel::parse(&level.text).is_ok_and(|load| load.is_share());
        if loads.iter().any(is_share) && !loads.iter().any(is_max) {
            let message = "a share is of the rate at max, which is not measured".to_owned();
            refuse("factors.rate", message, "add max to the list");
        }
    }

    fn read_without(&mut self, all: Vec<BTreeMap<String, Value>>, errors: &mut ConfigErrors) {
        for (index, entry) in all.into_iter().enumerate() {
            let mut left_out = BTreeMap::new();
            for (factor, value) in entry {
                let path = format!("without[{index}].{factor}");
                let Some(at) = FACTORS.iter().position(|known| *known == factor) else {
                    let message = format!("\"{factor}\" is no factor");
                    let repair = format!("the factors are {}", FACTORS.join(", "));
                    errors.push(ConfigError::new(path, message, repair));
                    continue;
                };
                let values = match value {
                    Value::Array(values) => values,
                    value => vec![value],
                };
                let texts: Vec<_> = values.iter().map(cell::text_of).collect();
                for text in &texts {
                    if !self.levels[at].iter().any(|level| level.text == *text) {
                        let message = format!("{factor} has no level \"{text}\"");
                        let known: Vec<_> =
                            self.levels[at].iter().map(|l| l.text.as_str()).collect();
                        let repair = format!("its levels are {}", known.join(", "));
                        errors.push(ConfigError::new(&path, message, repair));
                    }
                }
                left_out.insert(factor, texts);
            }
            self.without.push(left_out);
        }
    }

    fn check_compared(&self, errors: &mut ConfigErrors) {
        for (index, compared) in self.compare.iter().enumerate() {
            let path = format!("compare[{index}]");
            let mut named = BTreeSet::new();
            let others = compared.within.iter().enumerate();
            let others = others.map(|(at, name)| (format!("{path}.within[{at}]"), name));
            let all = std::iter::once((format!("{path}.factor"), &compared.factor)).chain(others);
            for (path, name) in all {
                if !FACTORS.contains(&name.as_str()) {
                    let message = format!("\"{name}\" is no factor");
                    let repair = format!("the factors are {}", FACTORS.join(", "));
                    errors.push(ConfigError::new(path, message, repair));
                } else if !named.insert(name) {
                    let message = format!("the factor \"{name}\" is named already");
                    errors.push(ConfigError::new(path, message, "leave it out"));
                }
            }
            if compared.within.is_empty() {
                let message = "within no factor".to_owned();
                let repair = "name one or more, like [port, rate]";
                errors.push(ConfigError::new(format!("{path}.within"), message, repair));
            }
        }
    }

    /// What `compare` asks for: the place of a factor, and those of the factors within whose levels
    /// it is compared.
    pub(super) fn compared(&self) -> impl Iterator<Item = (usize, Vec<usize>)> {
        let place = |name: &String| FACTORS.iter().position(|known| known == name);
        self.compare.iter().filter_map(move |compared| {
            let within = compared.within.iter().filter_map(place);
            Some((place(&compared.factor)?, within.collect()))
        })
    }

    /// Every size and rate with the profile, by the profile's own checker.
    fn check_profiles(&self, errors: &mut ConfigErrors) {
        let mut found = BTreeSet::new();
        for (size_index, size) in self.levels[cell::SIZE].iter().enumerate() {
            for (rate_index, rate) in self.levels[cell::RATE].iter().enumerate() {
                let document = Value::Object(self.profile_of(&size.value, &rate.text, None));
                let Err(wrong) = Profile::from_json(&document) else {
                    continue;
                };
                for error in wrong {
                    let path = if error.path.starts_with("sizes") {
                        format!("factors.size[{size_index}]")
                    } else if error.path == "load" || error.path.starts_with("load.rate") {
                        format!("factors.rate[{rate_index}]")
                    } else {
                        format!("profile.{}", error.path)
                    };
                    found.insert((path, error.message, error.repair));
                }
            }
        }
        let all = found.into_iter();
        errors.extend(all.map(|(path, message, repair)| ConfigError {
            path,
            message,
            repair,
        }));
    }

    /// Every combination as a chain, by the chain's own checker.
    fn check_cells(&self, errors: &mut ConfigErrors) {
        let count: usize = self.levels.iter().map(Vec::len).product();
        if count > CELL_COUNT_MAX {
            let message = format!("{count} combinations");
            let repair = format!("keep to {CELL_COUNT_MAX}: fewer levels, or several studies");
            errors.push(ConfigError::new("factors", message, repair));
            return;
        }
        let cells = self.cells();
        if cells.is_empty() {
            let message = "every combination is left out";
            errors.push(ConfigError::new("without", message, "leave out fewer"));
            return;
        }
        // One refusal for each reason, at the first combination that has it.
        let mut reasons = BTreeSet::new();
        let registry = registry();
        for cell in &cells {
            let Err(refused) = self.chain_of(cell, &registry) else {
                continue;
            };
            for error in refused.errors {
                let port = self.level(cell, cell::PORT);
                let path = match self.without_of(cell) {
                    (true, _) => "nf".to_owned(),
                    (_, true) if port != LINK => format!("ports.{port}"),
                    _ => "factors".to_owned(),
                };
                if reasons.insert((path.clone(), error.message.clone())) {
                    let message = format!("{}: {}", self.title(cell), error.message);
                    errors.push(ConfigError::new(path, message, error.repair));
                }
            }
        }
        self.check_that_cells_differ(&cells, errors);
    }

    /// Refuses combinations that differ in words only: to compare them would be to compare a chain
    /// with itself. One refusal for each factor that is without effect, and where it is.
    fn check_that_cells_differ(&self, cells: &[Cell], errors: &mut ConfigErrors) {
        let mut known = BTreeMap::new();
        let mut reasons = BTreeSet::new();
        for cell in cells {
            let trial = [cell::SIZE, cell::RATE, cell::STATES].map(|place| cell[place]);
            let first: &Cell = known.entry((self.text_of(cell), trial)).or_insert(cell);
            for place in (0..FACTORS.len()).filter(|place| first[*place] != cell[*place]) {
                // One loop has no links to set; a connection and a flag take less than a ring.
                let cause = match self.level(cell, cell::MODE) {
                    "inline" => cell::MODE,
                    _ => cell::PROTOCOL,
                };
                let level = self.level(cell, cause);
                if reasons.insert((place, level.to_owned())) {
                    let factor = FACTORS[place];
                    let titles = [first, cell].map(|cell| self.title(cell));
                    let message = format!("{} and {} are the same chain", titles[0], titles[1]);
                    let (cause, other) = (FACTORS[cause], self.level(cell, place));
                    let repair = format!(
                        "write without: [{{ {cause}: {level}, {factor}: {other} }}], and likewise \
                         for further levels of {factor}"
                    );
                    errors.push(ConfigError::new(
                        format!("factors.{factor}"),
                        message,
                        repair,
                    ));
                }
            }
        }
    }

    /// Whether the simplest chain with the cell's functions is wrong too, and whether the simplest
    /// with its port kind is.
    fn without_of(&self, cell: &Cell) -> (bool, bool) {
        let registry = registry();
        let simplest = self.simplest(LINK, self.count_of(cell));
        let is_wrong = |text: &str| Chain::parse(text, Path::new("."), &registry, None).is_err();
        let with_port = self.simplest(self.level(cell, cell::PORT), 1);
        (is_wrong(&simplest), is_wrong(&with_port))
    }
}

/// What studies' chains are made of.
pub fn registry() -> Registry {
    Registry {
        nfs: catena_engine::nfs::KINDS.to_vec(),
        ports: [catena_port::PORTS, crate::traffic::PORTS].concat(),
        wraps: catena_port::WRAPS.to_vec(),
        files: catena_port::FILES.to_vec(),
    }
}
