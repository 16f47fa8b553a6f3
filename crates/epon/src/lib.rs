//! Network functions of a 10G-EPON access network.
//!
//! `catena-pcs` turns frames into line bits and back and knows no chain; `catena-wire` knows the
//! formats of frames. This crate makes NFs of both: what stands in a chain file as a node.
//!
//! - [`chunk`]: what travels between these nodes, a packet of up to megabytes.
//! - `custody`: who kept a chunk for how long, and what of it were stalls of the machine.
//! - [`phy`]: `epon_phy`, frames to line bits and back.
//! - [`l1sim`]: `l1sim`, a fibre with faults, made of [`bit_errors`] and [`line_bits`].
//! - [`mpcp`]: `olt_mac` and `onu_mac`, who may send upstream and when; with a simulation, and with
//!   `pon_phy`, which puts line bits between them.
//! - [`pktgenrcv`]: the port `pktgenrcv`, which sends chunks around a loop and judges them.
#![forbid(unsafe_code)]

use catena_engine::nf::NfKind;
use catena_engine::port::PortKind;

pub mod bit_errors;
pub mod chunk;
mod custody;
#[cfg(test)]
mod documented;
pub mod l1sim;
pub mod line_bits;
#[cfg(test)]
mod loop_bench;
pub mod mpcp;
pub mod phy;
pub mod pktgenrcv;

/// Every NF of this crate.
pub const NFS: &[&NfKind] = &[
    &phy::KIND,
    &l1sim::KIND,
    &mpcp::nf::OLT_MAC,
    &mpcp::nf::ONU_MAC,
    &mpcp::nf::PON_PHY,
];

/// Every kind of port of this crate.
pub const PORTS: &[&PortKind] = &[&pktgenrcv::KIND];
