// SPDX-License-Identifier: Apache-2.0
//! The programs of `programs/`, each from its file to the verdicts on packets that show its use.
//!
//! Run by `crates/flow/tests/use_cases.rs` interpreted, and by the file of the same name in
//! `crates/jit` as machine code.

#[path = "../exactness/mod.rs"]
mod exactness;
#[path = "../random/mod.rs"]
mod random;

use crate::compiled;

mod addresses;
mod balancer;
mod balancer_health;
mod bench;
mod clients;
mod connections;
mod meters;
mod mirrors;
mod offload;
mod offload_connections;
mod offload_ipv6;
mod packet;
mod paxos;
mod programs;
mod services;
mod small_balancer;
mod terminals;
mod tunnels;
