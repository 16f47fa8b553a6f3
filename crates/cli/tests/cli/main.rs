//! The command as people use it: the real binary, real files, a runtime folder of its own per test.

mod aggregation;
mod documents;
mod files;
mod harness;
mod idle_states;
mod measure;
mod measuring;
mod metrics;
mod overflow;
mod pcs;
mod pcs_accounts;
mod pcs_damage;
mod pcs_guide;
mod pon_simulate;
mod probing;
mod running;
mod sizes;
mod study;
mod supervision;
mod terminal;
