//! A program as its author writes it.
//!
//! What a YAML document of a program becomes before names are looked up. JSON Schema comes from
//! here too. Limits are those of the representation; strings are parsed later.

use std::collections::BTreeMap;

use catena_engine::units::{Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A stateful program: a pipeline of elements, with what they share.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// Names of outputs; a packet for which nothing is said leaves by the first.
    #[serde(default = "out")]
    pub outputs: Vec<String>,
    /// What becomes of packets with a malformed header.
    #[serde(default)]
    pub malformed: Malformed,
    /// Names for expressions of numbers: `interval: 10ms`.
    #[serde(default)]
    pub constants: BTreeMap<String, Text>,
    /// What elements tell each other of a packet: names and widths in bits. Zero at the start.
    #[serde(default)]
    pub metadata: BTreeMap<String, u8>,
    /// Registers that all flows share.
    #[serde(default)]
    pub globals: BTreeMap<String, GlobalModel>,
    /// Match-action tables.
    #[serde(default)]
    pub tables: BTreeMap<String, TableModel>,
    /// Packets that the program makes itself.
    #[serde(default)]
    pub templates: BTreeMap<String, TemplateModel>,
    /// What `hash(...)` depends on: the same number gives the same hash in each shard and on each
    /// machine. Without it each shard has a secret of its own, which nobody outside can know.
    #[serde(default)]
    pub hash_seed: Option<u64>,
    /// The pipeline.
    pub elements: Vec<ElementModel>,
}

fn out() -> Vec<String> {
    vec!["out".to_owned()]
}

/// Text, or a number that stands for itself.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Text {
    /// A number.
    Number(u64),
    /// An expression.
    Text(String),
}

impl Text {
    /// As text.
    pub fn text(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}

/// What becomes of packets with a malformed header.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Malformed {
    /// They are dropped as `malformed`.
    #[default]
    Drop,
    /// The program sees them, with the headers in front of the fault.
    Pass,
}

/// Registers that all flows share.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GlobalModel {
    /// Bits, up to 64.
    pub width: u8,
    /// How many: above 1 it is an array.
    #[serde(default = "one")]
    pub count: u32,
    /// What each begins as.
    #[serde(default)]
    pub initial: u64,
    /// Who shares it where a node has several shards.
    pub scope: ScopeModel,
}

fn one() -> u32 {
    1
}

/// Who shares a register.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum ScopeModel {
    /// All shards see one value.
    Shared,
    /// Each shard has its own.
    PerCore,
    /// Each shard has its own; from outside their sum is read.
    Merged,
}

/// A match-action table.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableModel {
    /// How each part of the key is compared, and its bits: `exact 32`, `prefix 32`, `ternary 8`,
    /// `range 16`.
    pub key: Vec<String>,
    /// Names and bits of what an entry says.
    #[serde(default)]
    pub data: BTreeMap<String, u8>,
    /// What is said where no entry matches; zeros if nothing else.
    #[serde(default)]
    pub default: BTreeMap<String, Text>,
    /// Entries to begin with.
    #[serde(default)]
    pub entries: Vec<EntryModel>,
    /// Most entries.
    #[serde(default = "table_size")]
    pub size: usize,
    /// Its entries follow from those of another table: slots that are shared out among its keys as
    /// Maglev does it. Then its key is one exact number, from 0, and its only datum a key.
    /// Without it, entries are its own.
    #[serde(default)]
    pub maglev: Option<MaglevModel>,
}

/// Slots shared out among the entries of another table.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MaglevModel {
    /// The table, whose key is one exact part.
    pub of: String,
    /// Which of its data is an entry's weight: 0 gets no slot. Without, all get as many.
    #[serde(default)]
    pub weight: Option<String>,
    /// How many slots: a prime number to 4093, some hundred times the most entries.
    pub slots: u32,
}

fn table_size() -> usize {
    1024
}

/// An entry of a table.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EntryModel {
    /// A pattern for each part of the key: `80`, `10.0.0.0/8`, `0x02/0x12`, `1024-65535`, `any`.
    pub key: Vec<Text>,
    /// Greater ones are tried first.
    #[serde(default)]
    pub priority: u32,
    /// What it says; what is left out is as the table's default.
    #[serde(default)]
    pub data: BTreeMap<String, Text>,
}

/// A packet that the program makes itself.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TemplateModel {
    /// Its bytes from Ethernet on, in hexadecimal; blanks between them do not matter. Checksums
    /// are filled in.
    pub packet: String,
    /// Fields that are filled in when it is sent: `inner.ipv4.dst`.
    #[serde(default)]
    pub fields: Vec<String>,
}

/// One state machine of the pipeline.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ElementModel {
    /// Its name.
    pub name: String,
    /// What makes a flow: expressions, mostly fields.
    #[serde(default)]
    pub key: Vec<String>,
    /// Pairs that are swapped so that both directions of a connection are one flow: source and
    /// destination of addresses, then of ports.
    #[serde(default)]
    pub biflow: Vec<[String; 2]>,
    /// Several keys of the same widths, of which the first whose condition holds counts.
    #[serde(default)]
    pub keys: Vec<KeyModel>,
    /// The key of the flow that is written, if it is not the one that is read.
    #[serde(default)]
    pub update_key: Vec<String>,
    /// Most flows at the same time.
    #[serde(default = "flows")]
    pub flows: u32,
    /// What happens to a new flow when there are so many: `drop`, `pass`, `evict oldest`,
    /// `evict oldest in STATE, ...`, `evict lowest REGISTER`, `evict highest REGISTER`. `drop` if
    /// left out.
    #[serde(default)]
    pub when_full: Option<String>,
    /// Registers of each flow: names and bits, up to 128.
    #[serde(default)]
    pub registers: BTreeMap<String, u8>,
    /// Meters of each flow.
    #[serde(default)]
    pub meters: BTreeMap<String, MeterModel>,
    /// The state of a flow that has no entry. Needed if there are states; without them, none.
    #[serde(default)]
    pub initial: Option<String>,
    /// States, and when a flow's time in them is over.
    #[serde(default)]
    pub states: BTreeMap<String, Option<StateModel>>,
    /// A flow's time is over when it has been idle for so long, in states that do not say;
    /// never if left out.
    #[serde(default)]
    pub idle: Option<Span>,
    /// Its time is over so long after its entry was made, in states that do not say; never if
    /// left out.
    #[serde(default)]
    pub hard: Option<Span>,
    /// The event that tells when the state of a flow becomes another one, or the flow ends;
    /// none if left out.
    #[serde(default)]
    pub changes: Option<String>,
    /// Statements that run before any condition is looked at.
    #[serde(default)]
    pub before: Vec<String>,
    /// Names for conditions.
    #[serde(default)]
    pub conditions: BTreeMap<String, String>,
    /// Transitions. Greater priorities come first, equal ones in the order of the file.
    #[serde(default)]
    pub transitions: Vec<TransitionModel>,
    /// Statements for packets without the key's headers.
    #[serde(default)]
    pub keyless: Vec<String>,
    /// Statements for packets for which there is no transition; if left out, they go on.
    #[serde(default)]
    pub otherwise: Option<Vec<String>>,
}

fn flows() -> u32 {
    65_536
}

/// A key for some packets.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyModel {
    /// Which packets.
    #[serde(rename = "if")]
    pub when: String,
    /// The key.
    pub key: Vec<String>,
}

/// When a flow's time in a state is over.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StateModel {
    /// After so long without a packet; as the element says if left out.
    #[serde(default)]
    pub idle: Option<Span>,
    /// So long after the state was entered; as the element says if left out.
    #[serde(default)]
    pub hard: Option<Span>,
}

/// A transition.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransitionModel {
    /// From these states; any, if none is named.
    #[serde(default)]
    pub from: Names,
    /// When it is looked at.
    #[serde(default)]
    pub on: On,
    /// If this holds; always if left out.
    #[serde(default, rename = "if")]
    pub when: Option<String>,
    /// And if these values are as their patterns say: `tcp.flags: 0x02/0x12`.
    #[serde(default, rename = "match")]
    pub patterns: BTreeMap<String, Text>,
    /// Greater ones are looked at first; 0 if left out.
    #[serde(default)]
    pub priority: Option<i64>,
    /// Statements, in order.
    #[serde(default, rename = "do")]
    pub statements: Vec<String>,
    /// The state that follows, or `forget`; the same, if none is named.
    #[serde(default)]
    pub next: Option<String>,
}

/// When a transition is looked at.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum On {
    /// A packet of the flow has come.
    #[default]
    Packet,
    /// The flow's time in its state is over.
    Timeout,
}

/// One name or several.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Names {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl Default for Names {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl Names {
    /// All of them.
    pub fn all(&self) -> &[String] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Many(names) => names,
        }
    }
}

/// A meter of each flow. Rates in `pps` count packets, such in `bps` bytes.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
pub enum MeterModel {
    /// The generic cell rate algorithm: a rate and a burst, exact.
    Gcra {
        /// Rate.
        rate: Rate,
        /// Burst, in packets or bytes.
        burst: u64,
    },
    /// FlowBlaze's sliding window, as FB5G has it.
    Window {
        /// Time that a packet takes.
        interval: Span,
        /// Packets of a burst.
        burst: u64,
    },
    /// RFC 2697: one rate, three colours.
    SrTcm {
        /// Committed information rate.
        cir: Rate,
        /// Committed burst size.
        cbs: u64,
        /// Excess burst size.
        ebs: u64,
    },
    /// RFC 2698: two rates, three colours.
    TrTcm {
        /// Peak information rate.
        pir: Rate,
        /// Peak burst size.
        pbs: u64,
        /// Committed information rate.
        cir: Rate,
        /// Committed burst size.
        cbs: u64,
    },
}
