//! The command as people use it: the real binary, real files, a runtime folder of its own per test.

mod aggregation;
mod book;
mod dashboard;
mod documents;
mod files;
mod harness;
mod idle_states;
mod json;
mod measure;
mod measuring;
mod metrics;
mod overflow;
mod packages;
mod pcs;
mod pcs_accounts;
mod pcs_damage;
mod pon_simulate;
mod printed;
mod probing;
mod recording;
mod running;
mod service;
mod sizes;
mod study;
mod supervision;
mod terminal;
