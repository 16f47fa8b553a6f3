//! What a device is offered in a trial: said by searches and studies, carried out by `Device::run`.

use std::time::Duration;

/// What to offer in a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offer {
    /// Packets per second; as many as there is room for if absent.
    pub load_pps: Option<f64>,
    /// How long to send before, for nothing to count: caches, tables and the scheduler settle. A
    /// burst of so many packets has none.
    pub warmup: Duration,
    /// How long.
    pub duration: Duration,
    /// Exactly so many packets.
    pub packet_count: Option<u64>,
    /// Most samples of latency to keep.
    pub samples: usize,
}

impl Offer {
    /// How long to send before the trial.
    pub fn warmup(&self) -> Duration {
        if self.packet_count.is_some() {
            // A longest burst is one into a device that is empty.
            return Duration::ZERO;
        }
        self.warmup
    }
}
