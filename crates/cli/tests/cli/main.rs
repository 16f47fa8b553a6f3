//! The command as people use it: the real binary, real files, a runtime folder of its own per test.

mod aggregation;
mod book;
mod buffers;
mod comparing;
mod cost;
mod dashboard;
mod descriptors;
mod documents;
mod files;
mod flow;
mod harness;
mod idle_states;
#[path = "../support/joined.rs"]
mod joined;
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
mod silence;
mod sizes;
mod strangers;
mod study;
mod supervision;
mod systemd;
mod terminal;
