//! The chain: the graph of ports, NFs and links as passive data.
//!
//! Before any packet moves: a chain file is parsed and checked into a [`Chain`], which the engine
//! deploys. Nothing here opens a port or starts a worker. A change of a running chain is the
//! difference of two of these values.
//!
//! - [`model`], `link`, `run`, `limits`: what a checked chain says.
//! - [`fusion`]: which of its nodes share a loop.
//! - `parse`, `salvage`, `check`, `trust`: from text to that, or to [`ChainErrors`], by way of a
//!   [`Registry`].
//! - [`amendments`]: what control requests have changed of one that runs.
//! - [`mod@schema`]: the same rules for editors; [`mod@diff`], [`values`]: what `catena plan`
//!   prints.

pub mod amendments;
mod check;
pub mod diagnostic;
pub mod diff;
pub mod document;
pub mod files;
pub mod fusion;
pub(crate) mod limits;
pub(crate) mod link;
pub mod model;
mod parse;
pub mod registry;
pub(crate) mod run;
mod salvage;
pub mod schema;
mod text;
mod trust;
pub mod values;
pub(crate) mod ways;

#[cfg(test)]
pub(crate) mod tests;

pub use check::{Checked, DEFAULT_IMAGE, DocumentKind};
pub use diagnostic::{ChainErrors, Diagnostic, Position, Severity};
pub use diff::{Action, Plan, diff};
pub use fusion::Fusion;
pub use model::{
    Aggregate, Chain, Link, Mode, Node, NodeKind, OnDeath, Overflow, Protocol, Run, Trust,
    WaitChoice, WrapSpec,
};
pub use parse::FILE_BYTES_MAX;
pub use registry::Registry;
pub use schema::chain_schema;
pub use text::read_text;
pub use values::ValueChange;
