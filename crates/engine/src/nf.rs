//! The NF: takes a burst of packets, gives each a verdict.
//!
//! This is the middle step of a packet's life: the engine pulls a [`Burst`] from a link, calls
//! [`Nf::process`], and moves each packet by its [`Verdict`]. An NF never sees a link, a ring or a
//! clock; it is given bytes and a time, so tests and fuzzers drive it directly. One NF is one file
//! in `nfs/` that ends with its [`NfKind`], the entry by which chain files name it.

mod amend;
mod burst;
pub mod exchange;
mod function;
mod hand_over;
pub(crate) mod hook;
mod keep;
mod kind;
mod memory;
pub(crate) mod nanos;
mod succession;
mod verdict;

pub use crate::drop_reason::{DropReason, OWN_REASON_COUNT_MAX};
pub use crate::own_counters::COUNTER_COUNT_MAX;
pub use amend::{Amend, Amends};
pub use burst::Burst;
pub use function::Nf;
pub use hand_over::HandOver;
pub use hook::{Hook, Sum, Sums};
pub use keep::{Emission, Hold, Kept, Moved};
pub use kind::{
    Access, BuildContext, BuiltNf, Inputs, NAME_BYTES_MAX, NfKind, NfPlan, OUTPUT_COUNT_MAX,
    STATE_COUNT_MAX, StatePlan,
};
pub(crate) use kind::{check_name, check_own_names};
pub use memory::{NfMemory, NfState};
pub use nanos::Nanos;
pub use verdict::Verdict;
