//! Probes in the path: from what workers noted to a table of blame.
//!
//! - [`collector`]: takes visits out of workers' pages, believing nothing.
//! - [`journey`]: visits of one packet in a row.
//! - [`little`]: whether what waits in a ring is what packets that were followed say.
//! - [`parts`]: the time between two points, by component.
//! - [`report`]: what is shown, and its JSON form (`docs/guide/measuring.md`).
//! - [`difference`]: which component a change has made slower.
//! - [`tax`]: what the probes themselves cost.
//! - [`chrome`], [`pcapng`]: the same for other programs.
//!
//! The engine takes the times (`catena_engine::probe` says where); everything here is done
//! afterwards, or in another process.

pub mod chrome;
pub mod collector;
pub mod difference;
pub mod journey;
pub mod little;
pub mod parts;
pub mod pcapng;
pub mod report;
pub mod tax;
#[cfg(test)]
mod tests;

pub use collector::Collector;
pub use report::ProbeReport;
