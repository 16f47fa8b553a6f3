//! Studies: factors crossed with each other, measured in turns, and what each of them does.
//!
//! A study is a YAML document ([`document`]) that names the levels of up to nine factors. Every
//! combination that it does not leave out is a [`cell`]; a block measures each cell once, in an
//! order of its own, so that what the machine does meanwhile hits all of them. For each cell there
//! is a chain ([`chain`]), over the tester's own links or over [`wire`]s of the kernel. Every
//! trial is on the disk before the next begins ([`journal`]), and [`summary`] says what the trials
//! so far say: cell by cell, and factor by factor.
//!
//! Only [`journal`] and [`wire`] touch the machine. `catena measure study` runs the trials.

pub mod bias;
pub mod by_levels;
#[cfg(test)]
mod by_levels_tests;
pub mod cell;
pub mod cell_result;
pub mod chain;
mod combinations;
pub mod document;
pub mod effect;
pub mod findings;
#[cfg(test)]
mod findings_tests;
pub mod journal;
pub mod record;
pub mod run;
pub mod standing;
pub mod summary;
pub mod suspicion;
pub mod tables;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod trial_tests;
pub mod wire;

pub use cell::{Cell, FACTORS, Level, Unit};
pub use document::{PortTemplate, Study};
pub use record::{Measured, Record};
pub use run::Run;
