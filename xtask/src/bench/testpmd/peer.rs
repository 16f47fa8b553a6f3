//! What a peer gives: a rate, or why there is none.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::fmt;

/// A peer's received rate.
#[derive(Clone, Debug)]
pub(crate) struct PeerRate {
    /// Million packets per second.
    pub(crate) mpps: f64,
}

/// Why a peer gave no rate.
#[derive(Clone, Debug)]
pub(crate) struct PeerMissing {
    pub(crate) peer: &'static str,
    pub(crate) reason: String,
}

impl fmt::Display for PeerMissing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.peer, self.reason)
    }
}

impl std::error::Error for PeerMissing {}
