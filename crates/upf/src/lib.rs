//! A 5G user plane function: `upf`, an NF.
//!
//! An SMF says over N4 (PFCP) which packets of a UE go where; packets come through tunnels of the
//! access network (N3, GTP-U) and plainly from the data network (N6). Both are packets that arrive
//! by links, and one worker handles them one after the other (ADR 24). `docs/guide/upf.md` shows
//! its use.
//!
//! - A packet's way: [`nf`] -> [`path`] (find, match, enforce) -> [`headers`] (out of a tunnel,
//!   into one).
//! - A message's way: [`nf`] -> `node` -> `request`, [`change`] -> [`store`].
//! - Both meet in the slots of [`store`], whose records are [`rules`].
#![forbid(unsafe_code)]

use catena_engine::nf::NfKind;
use catena_engine::port::PortKind;

pub mod advertisement;
pub mod ahead;
pub mod application;
pub mod association;
mod associations;
mod calls;
pub mod ceilings;
pub mod change;
pub mod config;
pub mod copies;
pub mod cut;
pub mod decision;
mod delayed;
pub mod draft;
mod echoes;
pub mod endpoint;
mod enforce;
pub mod ethernet;
#[cfg(test)]
mod floods;
mod forward;
pub mod frame;
pub mod group;
pub mod headers;
pub mod held;
pub mod icmp;
mod limiter;
mod load;
mod marking;
pub mod model;
pub mod monitoring;
pub mod mss;
pub mod nf;
pub mod node;
mod parting;
pub mod path;
pub mod path_qos;
pub mod paths;
mod pdi;
pub mod pfds;
mod places;
#[cfg(test)]
mod public_failures;
pub mod qer;
pub mod ranges;
mod rates;
pub mod reassembly;
pub mod redirect;
mod release;
pub mod reports;
pub mod request;
mod room;
pub mod routes;
pub mod rules;
pub mod sdf;
mod segment;
#[cfg(test)]
mod served;
pub mod sessions;
pub mod sets;
pub mod settings;
pub mod shards;
pub mod show;
pub mod smf;
pub mod snapshot;
mod steering;
pub mod store;
pub mod stored;
mod sweep;
mod sweeping;
pub mod switch;
pub mod tally;
mod trace;
pub mod transactions;
pub mod tunnel;
pub mod unstructured;
pub mod upf;
pub mod usage;
mod usual;

/// Every NF of this crate.
pub const NFS: &[&NfKind] = &[&nf::KIND];

/// Every kind of port of this crate.
pub const PORTS: &[&PortKind] = &[&smf::port::KIND];
