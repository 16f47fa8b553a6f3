//! What a simulation says of a PON: sums of what its event loop saw, for `catena pon simulate`.

use serde::Serialize;

use super::super::burst_time::MAC_RATE_BPS;
use super::super::olt;

/// Delays of the frames of one ONU, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Delays {
    /// Frames.
    pub count: u64,
    /// Mean, in microseconds.
    pub mean_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 99 of 100 are shorter.
    pub p99_us: f64,
    /// 999 of 1000 are shorter.
    pub p999_us: f64,
    /// Longest.
    pub max_us: f64,
}

impl Delays {
    /// Of these delays in nanoseconds, which are sorted here. Of none, nothing is a number.
    pub(super) fn of(samples_ns: &mut [u32]) -> Self {
        if samples_ns.is_empty() {
            return Self {
                count: 0,
                mean_us: f64::NAN,
                p50_us: f64::NAN,
                p99_us: f64::NAN,
                p999_us: f64::NAN,
                max_us: f64::NAN,
            };
        }
        samples_ns.sort_unstable();
        let us = |ns: u32| f64::from(ns) / 1e3;
        let rank = |share: f64| {
            // The smallest that so large a share does not exceed.
            let rank = (share * samples_ns.len() as f64).ceil() as usize;
            samples_ns.get(rank.max(1) - 1).copied().map_or(0.0, us)
        };
        let sum: f64 = samples_ns.iter().map(|&ns| us(ns)).sum();
        Self {
            count: samples_ns.len() as u64,
            mean_us: sum / samples_ns.len() as f64,
            p50_us: rank(0.5),
            p99_us: rank(0.99),
            p999_us: rank(0.999),
            max_us: rank(1.0),
        }
    }
}

/// What became of one ONU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OnuReport {
    /// Its number in the scenario.
    pub onu: usize,
    /// Length of its fibre.
    pub distance_m: u64,
    /// Its LLID at the end, if it was registered then.
    pub llid: Option<u16>,
    /// When it was registered first, in milliseconds.
    pub registered_ms: Option<f64>,
    /// Its round trip as measured, in quanta.
    pub rtt_quanta: Option<u32>,
    /// What the length of its fibre says, in quanta.
    pub rtt_true_quanta: f64,
    /// Frames that its users sent after the warm-up.
    pub offered_frames: u64,
    /// Bits per second of those with preamble, check sequence and gap.
    pub offered_bps: f64,
    /// Frames that arrived at the OLT.
    pub delivered_frames: u64,
    /// Bits per second of those.
    pub delivered_bps: f64,
    /// Frames for which its queue had no room, or that came while it was not registered.
    pub dropped_frames: u64,
    /// Grants that it used.
    pub grants: u64,
    /// REGISTER_REQ that it sent.
    pub requests: u64,
    /// Delays of its frames.
    pub delay: Delays,
}

/// What a simulation says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Seed that repeats it.
    pub seed: u64,
    /// Simulated time in seconds.
    pub seconds: f64,
    /// What of it was the warm-up, in milliseconds: frames that came then are not counted.
    pub warm_up_ms: f64,
    /// Offered load as a share of what the MAC can send (27/31 of 10 Gb/s).
    pub offered_load: f64,
    /// What arrived, as such a share.
    pub utilisation: f64,
    /// Share of the line that was granted, discovery not included.
    pub granted_share: f64,
    /// ONUs registered at the end.
    pub registered: usize,
    /// Bursts of frames that overlapped with another: always 0 if all is well.
    pub frame_bursts_hit: u64,
    /// Bursts in granted slots that arrived outside of them: always 0 if all is well.
    pub bursts_outside_slot: u64,
    /// Requests in discovery windows that collided.
    pub requests_hit: u64,
    /// From one slot of an ONU to its next, on average over all, in microseconds.
    pub cycle_mean_us: f64,
    /// Discovery windows.
    pub windows: u64,
    /// Grants.
    pub grants: u64,
    /// REPORTs answered.
    pub reports: u64,
    /// Slots without a REPORT.
    pub reports_missed: u64,
    /// Registrations completed.
    pub registrations: u64,
    /// Registrations ended.
    pub deregistrations: u64,
    /// Delays of all frames.
    pub delay: Delays,
    /// ONU by ONU.
    pub onus: Vec<OnuReport>,
}

impl Report {
    /// Bits per second as a share of what the MAC can send.
    pub(super) fn share(bps: f64) -> f64 {
        bps / MAC_RATE_BPS
    }

    /// Takes over what the OLT has counted.
    pub(super) fn add_olt(&mut self, counters: &olt::Counters) {
        self.windows += counters.windows;
        self.grants += counters.grants;
        self.reports += counters.reports;
        self.reports_missed += counters.reports_missed;
        self.registrations += counters.registrations;
        self.deregistrations += counters.deregistrations;
    }
}
