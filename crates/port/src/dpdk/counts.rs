//! What a `dpdk` port counts, and what it says of it.
//!
//! The port counts on the data path; the engine asks for the numbers from time to time.

use catena_engine::own_counters::CounterSink;

use super::sys::State;
use crate::lending;

/// Names of the counters.
pub(super) const COUNTERS: &[&str] = &[
    "attached",
    "detached",
    "link_up",
    "link_lost",
    "link_down",
    "copied_packets",
    "copied_bytes",
    "too_long",
    "no_copy_buffer",
    "ring_full",
    "bad_sum",
    "lost_buffers",
    "peer_faults",
    "refused",
    "device_missed",
    "device_rx_errors",
    "device_tx_errors",
    "device_no_buffer",
];

/// What a port has counted.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) attached: u64,
    pub(super) detached: u64,
    pub(super) link_up: u64,
    pub(super) link_lost: u64,
    pub(super) link_down: u64,
    pub(super) ring_full: u64,
    pub(super) bad_sum: u64,
    /// That the device did not give back.
    pub(super) lost_buffers: u64,
    /// Of devices that are closed.
    pub(super) past: State,
    /// Of this one, when it was last looked at.
    pub(super) now: State,
}

impl Counts {
    pub(super) fn tell(&self, lending: &lending::Counts, out: &mut CounterSink<'_>) {
        let counts = self;
        let device = counts.past.plus(&counts.now);
        out.extend([
            ("attached", counts.attached),
            ("detached", counts.detached),
            ("link_up", counts.link_up),
            ("link_lost", counts.link_lost),
            ("link_down", counts.link_down),
            (
                "copied_packets",
                lending.copied_packets + device.copied_packets,
            ),
            ("copied_bytes", lending.copied_bytes + device.copied_bytes),
            ("too_long", lending.too_long + device.too_long),
            ("no_copy_buffer", lending.no_copy_buffer),
            ("ring_full", counts.ring_full),
            ("bad_sum", counts.bad_sum),
            ("lost_buffers", counts.lost_buffers),
            ("peer_faults", device.peer_faults),
            ("refused", lending.refused + device.refused),
            ("device_missed", device.missed),
            ("device_rx_errors", device.rx_errors),
            ("device_tx_errors", device.tx_errors),
            ("device_no_buffer", device.no_buffer),
        ]);
    }
}

impl State {
    /// Both, and how the other one is.
    pub(super) fn plus(&self, other: &Self) -> Self {
        Self {
            missed: self.missed + other.missed,
            rx_errors: self.rx_errors + other.rx_errors,
            tx_errors: self.tx_errors + other.tx_errors,
            no_buffer: self.no_buffer + other.no_buffer,
            refused: self.refused + other.refused,
            too_long: self.too_long + other.too_long,
            copied_packets: self.copied_packets + other.copied_packets,
            copied_bytes: self.copied_bytes + other.copied_bytes,
            peer_faults: self.peer_faults + other.peer_faults,
            ..*other
        }
    }
}
