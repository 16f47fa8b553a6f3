//! The command as people use it: the real binary, real files, a runtime folder of its own per test.

mod documents;
mod files;
mod harness;
mod metrics;
mod pcs;
mod pcs_damage;
mod pcs_guide;
mod running;
mod terminal;
