// SPDX-License-Identifier: Apache-2.0
//! Policers and markers decide as their models do: FlowBlaze's window, and buckets of tokens as the
//! RFCs tell of them.

use super::exactness::policers::{Policer, agrees};

/// Arrivals of each test; `cargo xtask exactness` has ten million of them.
const ARRIVALS: u64 = 50_000;

#[test]
fn the_policer_decides_as_its_model_does() {
    agrees(Policer::Window, 2 * ARRIVALS).assert_equal();
}

#[test]
fn a_policer_of_packets_is_exact() {
    agrees(Policer::Packets, ARRIVALS).assert_equal();
}

#[test]
fn a_policer_of_bytes_is_exact() {
    agrees(Policer::Bytes, ARRIVALS).assert_equal();
}

#[test]
fn the_single_rate_marker_is_that_of_its_rfc() {
    agrees(Policer::SingleRate, ARRIVALS).assert_equal();
}

#[test]
fn the_two_rate_marker_is_that_of_its_rfc() {
    agrees(Policer::TwoRate, ARRIVALS).assert_equal();
}
