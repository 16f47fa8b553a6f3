//! The intermediate representation: what front ends give and backends take.
//!
//! Made before any packet, read for each. A [`Program`] is a pipeline of [`Element`]s; what an
//! element does is [`Code`]. Everything here is plain data; what makes it sound is written at each
//! item and checked by [`verify`](super::verify::verify), which every program passes before it
//! runs. So a backend may rely on all of it.
//!
//! # Values and slots
//!
//! A value is an unsigned number of 1 to 128 bits. Code keeps values in *slots*: numbered, of a
//! fixed width, zero when code begins, except metadata (slots below [`Program::metadata`]'s
//! length), which a packet carries from element to element. In timeout code metadata is zero.
//!
//! # How an element runs
//!
//! 1. [`Element::key`] runs on the packet. Its [`Key::present`] slot says whether the packet has a
//!    key; the slots of [`Key::parts`] are the key. It reads the packet and metadata and may write
//!    metadata only.
//! 2. With a key, the flow is looked up and its registers are read; without an entry they are zero.
//!    Then [`Element::body`] runs. Without a key, [`Element::keyless`] runs.
//! 3. What [`Op::SetFlow`] has written goes into the flow's entry, or into that of
//!    [`Element::update`]'s key; an entry is made if there is none. [`Op::Forget`] removes it.
//! 4. When an entry's time is over, [`Element::timeout`] runs on its registers, without a packet:
//!    header fields, packet bytes and metadata are zero there, headers are not valid.
//!    If it runs [`Op::Forget`], or neither writes a register nor sets timeouts, the entry ends;
//!    else it stays, used now.
//!
//! An element without a flow table ([`Element::flows`] is `None`) runs its body only.

use crate::meter::{Gcra, SrTcm, TrTcm, Window};
use crate::{Shape, Timeouts};

use super::header::{Field, Header};
use super::table::TableShape;
use super::template::Template;
use super::tunnel::Tunnel;

pub use super::arithmetic::{Binary, Unary};
pub use super::field::Width;

/// Most bits of a value.
pub const WIDTH_MAX: u8 = 128;
/// Most slots of a piece of code.
pub const SLOT_COUNT_MAX: usize = 1024;
/// Most metadata slots of a program.
pub const METADATA_COUNT_MAX: usize = 64;
/// Most operations of a piece of code.
pub const OP_COUNT_MAX: usize = 1 << 16;
/// Most elements of a program.
pub const ELEMENT_COUNT_MAX: usize = 16;

/// Number of a slot.
pub type Slot = u16;
/// Number of a block within its code.
pub type BlockId = u16;

/// A whole program.
#[derive(Clone, Debug)]
pub struct Program {
    /// Widths of the metadata: slots 0 and up of every code, in every element.
    pub metadata: Vec<Width>,
    /// The pipeline, in order.
    pub elements: Vec<Element>,
    /// Registers of the program.
    pub globals: Vec<Global>,
    /// Match-action tables, with the entries that they begin with.
    pub tables: Vec<TableShape>,
    /// Meters, whose words are flow registers.
    pub meters: Vec<Meter>,
    /// What [`Op::Emit`] sends.
    pub templates: Vec<Template>,
    /// Seed of [`Op::Hash`], the same wherever the program runs; none: a secret of each shard.
    pub hash_seed: Option<u64>,
    /// Names of outputs.
    pub outputs: Vec<String>,
    /// Names of drop reasons.
    pub reasons: Vec<String>,
    /// Names of events. What an event is about: [`Program::changes_of`].
    pub events: Vec<String>,
    /// Sentences for people: what branches and marks refer to. No backend needs them.
    pub notes: Vec<String>,
    /// Verdict of a packet for which no code has set one.
    pub verdict: Verdict,
    /// Whether malformed packets run the program (with the headers in front of the fault) rather
    /// than being dropped.
    pub takes_malformed: bool,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It leaves by this output, a number below [`Program::outputs`]' length.
    Output(u8),
    /// It is dropped for this reason of the program, below [`Program::reasons`]' length.
    Drop(u8),
}

/// An element: one state machine, or a stateless piece of code.
#[derive(Clone, Debug)]
pub struct Element {
    /// Its name, unique.
    pub name: String,
    /// Its flows; none: it has no state per flow, and [`Element::body`] is all that runs.
    pub flows: Option<Flows>,
    /// Makes the key of a packet.
    pub key: Key,
    /// Makes the key under which changes are stored, if it is another one.
    pub update: Option<Key>,
    /// Runs for each packet.
    pub body: Code,
    /// Runs for a packet that has no key.
    pub keyless: Code,
    /// Runs when a flow's time is over.
    pub timeout: Code,
    /// The event that tells when the state of a flow becomes another one, or the flow ends. No code
    /// tells events of this number, and its flows have states.
    pub changes: Option<u16>,
}

/// How a key is made.
#[derive(Clone, Debug, Default)]
pub struct Key {
    /// Runs on the packet.
    pub code: Code,
    /// Slot of one bit: whether the packet has a key.
    pub present: Slot,
    /// The key: slots with their place. No two overlap.
    pub parts: Vec<KeyPart>,
    /// How many pairs its last parts are, of which the code puts the smaller side first: both
    /// directions of a connection are one flow.
    pub pairs: usize,
}

/// Part of a key: a slot of up to 64 bits within a word, or of more from the start of two words.
#[derive(Clone, Debug)]
pub struct KeyPart {
    /// Whose value it is.
    pub slot: Slot,
    /// Word of the key that it lies in, or begins in.
    pub word: u8,
    /// Bits below it in that word; 0 if it is wider than 64.
    pub shift: u8,
    /// Its width.
    pub width: Width,
    /// What it is, for people.
    pub name: String,
}

/// The flows of an element.
#[derive(Clone, Debug)]
pub struct Flows {
    /// Their table. `schema` is the layout number.
    pub shape: Shape,
    /// Registers of a flow, and where they lie. Number 0 is the state label, if there is one.
    pub registers: Vec<FlowRegister>,
    /// Names of states, by label; empty without a label.
    pub states: Vec<String>,
    /// When an entry ends for which no code has set it.
    pub timeouts: Timeouts,
    /// When a flow's time in a state is over, by label, for flows that are set from outside; none:
    /// as above.
    pub state_timeouts: Vec<Timeouts>,
    /// What happens to a new flow when the table is full.
    pub when_full: WhenFull,
}

/// A register of a flow. It lies within one word, or, if it is wider than 64 bits, at the start of
/// two words, the low one first.
#[derive(Clone, Debug)]
pub struct FlowRegister {
    /// Its name.
    pub name: String,
    /// Its width.
    pub width: Width,
    /// Word of the state that it lies in, or begins in.
    pub word: u8,
    /// Bits below it in that word; 0 if it is wider than 64.
    pub shift: u8,
}

/// What happens to a new flow when the table is full. Whatever it is, code can ask before
/// ([`Fact::Full`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// The packet is dropped as `flow_full`.
    Drop,
    /// The packet goes as its transition says; what was to be remembered is lost, and counted.
    Pass,
    /// The flow that has been idle the longest gives way.
    EvictOldest,
    /// Of the flows in these states, a bit for each label below 64, the one that has been idle the
    /// longest gives way; without any the packet is dropped as `flow_full`.
    EvictOldestIn(u64),
    /// The flow with the lowest value of a register gives way.
    EvictLowest(u8),
    /// The flow with the highest value of a register gives way.
    EvictHighest(u8),
}

/// Who shares a register of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All shards see one value, in words that each of them reads and writes at any time. What a
    /// word holds is how far it is beyond [`Global::initial`], modulo 2^width: zeros are a right
    /// beginning, which nobody has to write.
    Shared,
    /// Each shard has its own.
    PerCore,
    /// Each shard has its own; whoever reads it from outside gets the sum.
    Merged,
}

/// A register of the program, or an array of them.
#[derive(Clone, Debug)]
pub struct Global {
    /// Its name.
    pub name: String,
    /// Its width, at most 64: each value lies in a word of its own.
    pub width: Width,
    /// How many there are, 1 or more. Reading beyond gives 0, writing beyond does nothing.
    pub count: u32,
    /// What each begins as.
    pub initial: u64,
    /// Who shares it.
    pub scope: Scope,
}

/// A meter: parameters. Its words are flow registers of 64 bits.
#[derive(Clone, Debug)]
pub struct Meter {
    /// Its name.
    pub name: String,
    /// Its parameters.
    pub kind: MeterKind,
}

/// Parameters of a meter.
#[derive(Clone, Debug)]
pub enum MeterKind {
    /// Green or red; 2 words.
    Gcra(Gcra),
    /// RFC 2697; 3 words.
    SrTcm(SrTcm),
    /// RFC 2698; 3 words.
    TrTcm(TrTcm),
    /// FlowBlaze's window, whatever the cost: green or red; 2 words.
    Window(Window),
}

impl MeterKind {
    /// Words of state that it takes.
    pub fn words(&self) -> usize {
        match self {
            Self::Gcra(_) | Self::Window(_) => 2,
            Self::SrTcm(_) | Self::TrTcm(_) => 3,
        }
    }
}

/// A piece of code. Block 0 is the first; jumps go to blocks of higher numbers only.
#[derive(Clone, Debug, Default)]
pub struct Code {
    /// Widths of all slots, metadata first.
    pub slots: Vec<Width>,
    /// Its blocks. None: it does nothing, and the packet goes to the next element.
    pub blocks: Vec<Block>,
}

/// Operations one after the other, and what comes then.
#[derive(Clone, Debug)]
pub struct Block {
    /// What is done.
    pub ops: Vec<Op>,
    /// What comes then.
    pub end: End,
}

/// What comes behind a block.
#[derive(Clone, Debug)]
pub enum End {
    /// This block.
    Jump(BlockId),
    /// One of two, by a slot of one bit.
    Branch {
        /// Decides.
        when: Slot,
        /// Goes on here if it is 1.
        then: BlockId,
        /// Goes on here if it is 0.
        otherwise: BlockId,
        /// What it asks: a number of [`Program::notes`].
        note: Option<u16>,
    },
    /// The case of a slot's value, or the default.
    Switch {
        /// Decides.
        on: Slot,
        /// Values, each once, and their blocks.
        cases: Vec<(u128, BlockId)>,
        /// Goes on here for all other values.
        default: BlockId,
    },
    /// The packet goes on to the next element.
    Next,
    /// The packet has its verdict: elements further on do not see it.
    Done,
}

/// Something to read: a slot, or a number of a width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// What a slot holds.
    Slot(Slot),
    /// This number, below 2^width.
    Const(u128, Width),
}

/// What is known of a packet and its flow beside headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    /// The burst's time in ns; in timeout code that of expiry. 64 bits.
    Now,
    /// Bytes of the packet. 16 bits; larger packets say 65535.
    Len,
    /// Number of the input link. 8 bits.
    Input,
    /// The packet's tag. 16 bits.
    Tag,
    /// Whether the flow has an entry. One bit.
    Found,
    /// Whether the flow has none and the table is full. One bit.
    Full,
}

impl Fact {
    /// Its width.
    pub fn width(self) -> Width {
        match self {
            Self::Now => 64,
            Self::Len | Self::Tag => 16,
            Self::Input => 8,
            Self::Found | Self::Full => 1,
        }
    }
}

/// One operation.
///
/// A slot that an operation writes has the width that is said there; all values written are below
/// 2^width.
#[expect(
    missing_docs,
    reason = "fields are told of at the operation they belong to"
)]
#[derive(Clone, Debug)]
pub enum Op {
    /// `to` becomes `from`, of the same width.
    Set { to: Slot, from: Value },
    /// One argument.
    Unary { to: Slot, op: Unary, a: Value },
    /// Two arguments.
    Binary {
        to: Slot,
        op: Binary,
        a: Value,
        b: Value,
    },
    /// `then` if `when` (one bit) is 1, else `otherwise`; all of `to`'s width.
    Select {
        to: Slot,
        when: Value,
        then: Value,
        otherwise: Value,
    },
    /// `from` in `to`'s width: cut off above, or extended by zeros, or by its highest bit.
    Resize {
        to: Slot,
        from: Value,
        is_signed: bool,
    },
    /// As many bits as `to` has, from bit `low` of `from` on; all of them lie within `from`.
    Slice { to: Slot, from: Value, low: Width },
    /// `high` above `low`; `to` has the sum of their widths.
    Concat { to: Slot, high: Value, low: Value },
    /// A keyed hash of values: by [`Program::hash_seed`], or by a secret that each shard of a node
    /// has of its own, and that is kept with its state. `to` has up to 64 bits, the low ones.
    Hash { to: Slot, of: Vec<Value> },
    /// A header field, zero if the packet lacks the header; `to` has the field's width.
    Field { to: Slot, field: Field },
    /// Writes a header field and mends every checksum that covers it; nothing if the packet lacks
    /// the header. `from` has the field's width.
    SetField { field: Field, from: Value },
    /// Whether the packet has a header; one bit.
    Valid { to: Slot, header: Header },
    /// Bytes of the packet from byte `at` on, the first one highest; bytes behind the end are zero.
    /// `to` has 8 times as many bits.
    Bytes { to: Slot, at: Value },
    /// Writes bytes as [`Op::Bytes`] reads them, and no checksum. What lies behind the end is not
    /// written.
    SetBytes { at: Value, from: Value },
    /// Inserts zeros (`count` above 0) in front of byte `at`, or takes bytes out there; headers are
    /// not looked for anew before [`Op::Parse`]. Without room: verdict `no_headroom`, and the code
    /// ends.
    Splice { at: Value, count: i16 },
    /// Looks for headers anew.
    Parse,
    /// Something known; `to` has its width.
    Fact { to: Slot, fact: Fact },
    /// A register of the flow, by number; `to` has its width.
    Flow { to: Slot, register: u8 },
    /// Writes a register of the flow.
    SetFlow { register: u8, from: Value },
    /// A register of the program, or element `index` of the array; `to` has its width.
    Global { to: Slot, global: u16, index: Value },
    /// Writes it.
    SetGlobal {
        global: u16,
        index: Value,
        from: Value,
    },
    /// It becomes `op` of itself and `by`, which has its width, in one step: whatever other shards
    /// do with it comes before or behind. `old` is what it was before. `op` is one of
    /// [`Binary::is_step`].
    StepGlobal {
        old: Slot,
        global: u16,
        index: Value,
        op: Binary,
        by: Value,
    },
    /// Looks up a table: `hit` (one bit), and the data of the entry, or of the table's default.
    Lookup {
        table: u16,
        key: Vec<Value>,
        hit: Slot,
        data: Vec<Slot>,
    },
    /// Charges a meter; `to` (2 bits) is 0 for green, 1 yellow, 2 red. Its words are the flow's
    /// registers from `register` on. `cost` has 32 bits, `before` 2.
    Meter {
        to: Slot,
        meter: u16,
        register: u8,
        cost: Value,
        before: Value,
    },
    /// Sets the verdict; the last one holds.
    Verdict(Verdict),
    /// Sends a copy of the packet, as it is when the program has ended, to an output as well.
    Clone { output: u8 },
    /// Sends a copy of the packet, as it came to the program, to an output as well.
    Mirror { output: u8 },
    /// Makes a packet of a template and these values and sends it to an output.
    Emit {
        template: u16,
        values: Vec<Value>,
        output: u8,
    },
    /// Tells the control half of an event.
    Notify { event: u16, values: Vec<Value> },
    /// Puts headers on, and looks for headers anew. Without room: as [`Op::Splice`].
    Encap { tunnel: Tunnel, values: Vec<Value> },
    /// Takes outer headers off, if the packet has them, and looks for headers anew.
    Decap { tunnel: Tunnel },
    /// Sets when the flow's entry ends, in ns from now; 0: never. Both have 64 bits.
    Timeouts { idle_ns: Value, hard_ns: Value },
    /// The flow's entry ends behind this packet.
    Forget,
    /// For traces and counters: a transition is taken, a number of [`Program::notes`].
    Mark { note: u16 },
}

impl Code {
    /// Code that does nothing: the packet goes to the next element.
    pub fn empty(metadata: &[Width]) -> Self {
        Self {
            slots: metadata.to_vec(),
            blocks: Vec::new(),
        }
    }

    /// All its operations.
    pub fn ops(&self) -> impl Iterator<Item = &Op> {
        self.blocks.iter().flat_map(|block| &block.ops)
    }
}

impl Element {
    /// All its code.
    pub fn codes(&self) -> impl Iterator<Item = &Code> {
        let update = self.update.iter().map(|key| &key.code);
        [&self.key.code, &self.body, &self.keyless, &self.timeout]
            .into_iter()
            .chain(update)
    }
}
