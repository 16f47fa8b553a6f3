//! A test file as its author writes it.
//!
//! What a YAML document becomes before names are looked up; its JSON Schema comes from here too.

use std::collections::BTreeMap;

use catena_engine::units::Span;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::efsm::model::Text;

/// Packets and times for a flow program, and what is expected of it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestFile {
    /// Names for packets: hexadecimal digits, or words such as
    /// `tcp 10.0.0.1:5000 > 10.0.0.2:80 syn`.
    #[serde(default)]
    pub packets: BTreeMap<String, String>,
    /// What happens, in order.
    pub steps: Vec<StepModel>,
}

/// One packet, or an instant; first what it does, then what is expected behind it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepModel {
    /// When, since the test began. Flows whose time is over by then end first.
    pub at: Span,
    /// Entries of tables that are set before the packet comes.
    #[serde(default)]
    pub set: Vec<EntryModel>,
    /// Entries of tables that are removed before the packet comes.
    #[serde(default)]
    pub remove: Vec<EntryModel>,
    /// Number of the input link, from 0.
    #[serde(default)]
    pub input: u8,
    /// The packet: hexadecimal digits, a name, or words.
    pub packet: Option<String>,
    /// How often it comes, at the same time.
    #[serde(default = "once")]
    pub times: u32,

    /// The output by which it leaves, or `!` and the reason for which it is dropped.
    pub expect: Option<String>,
    /// The packet behind the program, byte by byte; `packet` is the one that came.
    pub bytes: Option<String>,
    /// Fields of the packet behind the program: `ipv4.dst: 10.0.1.2`.
    #[serde(default)]
    pub fields: BTreeMap<String, Text>,
    /// Outputs that got a copy of it (`clone`); none: `[]`.
    pub copies: Option<Vec<String>>,
    /// Packets that the program has made since the step before: how many, or which.
    pub emits: Option<Emits>,
    /// Events that it has told since the step before: how many, or which.
    pub events: Option<Events>,
    /// How many flows elements have.
    #[serde(default)]
    pub flows: BTreeMap<String, u32>,
    /// State and registers of flows.
    #[serde(default)]
    pub registers: Vec<FlowModel>,
    /// Registers that all flows share: `next: 3`, `count[2]: 5`.
    #[serde(default)]
    pub globals: BTreeMap<String, Text>,
    /// Entries of tables.
    #[serde(default)]
    pub tables: Vec<EntryModel>,
}

fn once() -> u32 {
    1
}

/// Packets of a program's own making.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Emits {
    /// How many.
    Count(usize),
    /// Each of them, in order.
    Each(Vec<EmitModel>),
}

/// A packet that a program has made.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EmitModel {
    /// The output by which it leaves.
    pub output: Option<String>,
    /// All of it.
    pub bytes: Option<String>,
    /// Some of its fields.
    #[serde(default)]
    pub fields: BTreeMap<String, Text>,
}

/// Events of a program.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Events {
    /// How many.
    Count(usize),
    /// Each of them, in order.
    Each(Vec<EventModel>),
}

/// Something that a program has told.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventModel {
    /// The event's name.
    pub event: String,
    /// Its values, in order. Of changes of state: the names of both states, or of the one in which
    /// the flow has ended.
    pub values: Option<Vec<Text>>,
    /// Of changes of state: parts of the flow's key.
    #[serde(default)]
    pub key: BTreeMap<String, Text>,
}

/// A flow, by its key.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowModel {
    /// The element; may be left out where one element alone has flows.
    pub element: Option<String>,
    /// Parts of its key, by the names that `catena flow trace` prints: `{ ipv4.src: 10.0.0.1 }`.
    /// One flow alone may have them.
    #[serde(default)]
    pub key: BTreeMap<String, Text>,
    /// Its state and registers, by name: `{ state: open, tries: 2 }`.
    #[serde(default)]
    pub is: BTreeMap<String, Text>,
    /// There is no such flow.
    #[serde(default)]
    pub absent: bool,
}

/// An entry of a table.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EntryModel {
    /// The table.
    pub table: String,
    /// A pattern for each part of its key, as in a program.
    pub key: Vec<Text>,
    /// Its data by name; where it is set, what is not named is the table's default.
    #[serde(default)]
    pub data: BTreeMap<String, Text>,
    /// Greater ones are tried first.
    #[serde(default)]
    pub priority: u32,
    /// There is no such entry: among expectations alone.
    #[serde(default)]
    pub absent: bool,
}
