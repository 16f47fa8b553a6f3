//! The basic NFs, one file each. [`KINDS`] is the list that chain files choose from.
//!
//! What belongs here: small NFs that need nothing but a packet's bytes. A new one is one file ending
//! with its `KIND`, and one line below; see `docs/guide/first-nf.md`.

use crate::nf::NfKind;

pub mod acl;
pub mod classify;
pub mod count;
#[cfg(test)]
mod frames;
pub mod macswap;
mod matching;
pub mod merge;
pub mod policer;
pub mod tee;
pub mod ttl;
pub mod vlan;

/// Every NF of this crate.
pub const KINDS: &[&NfKind] = &[
    &acl::KIND,
    &classify::KIND,
    &count::KIND,
    &macswap::KIND,
    &merge::KIND,
    &policer::KIND,
    &tee::KIND,
    &ttl::KIND,
    &vlan::KIND,
];
