//! QERs: gates and meters of a user's packets.
//!
//! Fourth step of a packet's way through the UPF. A meter is the GCRA of `catena_flow`, exact to
//! the nanosecond and of 64-bit rates: 40 bits of kbit/s fit. What it counts is bytes from the IP
//! header on. Specification: TS 29.244 5.4.4; TS 23.501 5.7.1.8.
//!
//! With several QERs a packet passes all of them or is charged to none: gates are asked first, and
//! meters that had room are given back what they had been charged when a later one has none.

use catena_flow::meter::Gcra;

pub use catena_flow::meter::GcraState;

use crate::rules::{QERS_MAX, Qer};

/// What a rate lets through at once, as a time: the burst of a meter.
const BURST_NS: u64 = 10_000_000;
/// Least burst: two packets of the usual size, so that slow rates pass any.
const BURST_BYTES_MIN: u64 = 3028;
/// Largest burst that a meter takes.
const BURST_BYTES_MAX: u64 = 1 << 33;

/// Why a QER lets a packet not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// Its gate is closed.
    Gate,
    /// Its rate is used up.
    Rate,
}

impl Qer {
    /// Whether the gate of this direction is open.
    #[inline]
    pub fn is_open(&self, is_uplink: bool) -> bool {
        if is_uplink {
            self.ul_open
        } else {
            self.dl_open
        }
    }

    /// Charges a packet of `len` bytes to the maximum bit rate, if there is one; whether it passes.
    #[inline]
    pub fn charge(&mut self, is_uplink: bool, len: usize, now_ns: u64) -> bool {
        let Some([ul_kbps, dl_kbps]) = self.mbr_kbps else {
            return true;
        };
        let (kbps, words) = if is_uplink {
            (ul_kbps, &mut self.ul_meter)
        } else {
            (dl_kbps, &mut self.dl_meter)
        };
        let bytes_per_s = kbps.saturating_mul(125);
        let burst = u128::from(bytes_per_s) * u128::from(BURST_NS) / 1_000_000_000;
        let burst = u64::try_from(burst).unwrap_or(u64::MAX);
        let burst = burst.clamp(BURST_BYTES_MIN, BURST_BYTES_MAX);
        // A rate of 0 lets nothing pass.
        let Ok(meter) = Gcra::new(bytes_per_s, burst) else {
            return false;
        };
        let mut state = GcraState::from_words(*words);
        let cost = u32::try_from(len).unwrap_or(u32::MAX);
        let passes = meter.passes(&mut state, now_ns, cost);
        *words = state.words();
        passes
    }
}

/// Asks all QERs of a PDR: charges all, or none.
///
/// # Errors
/// Which of the two stopped it.
#[inline]
pub fn enforce(qers: &mut [Qer], is_uplink: bool, len: usize, now_ns: u64) -> Result<(), Stopped> {
    if qers.iter().any(|qer| !qer.is_open(is_uplink)) {
        return Err(Stopped::Gate);
    }
    // One alone has nothing to give back to others.
    if let [qer] = qers {
        let passes = qer.charge(is_uplink, len, now_ns);
        return passes.then_some(()).ok_or(Stopped::Rate);
    }
    if qers.is_empty() {
        return Ok(());
    }
    let mut before = [[[0; 2]; 2]; QERS_MAX];
    for at in 0..qers.len().min(QERS_MAX) {
        before[at] = [qers[at].ul_meter, qers[at].dl_meter];
        if qers[at].charge(is_uplink, len, now_ns) {
            continue;
        }
        for (qer, meters) in qers[..at].iter_mut().zip(before) {
            [qer.ul_meter, qer.dl_meter] = meters;
        }
        return Err(Stopped::Rate);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn qer(ul_kbps: u64, dl_kbps: u64) -> Qer {
        Qer {
            mbr_kbps: Some([ul_kbps, dl_kbps]),
            ..Qer::open(1)
        }
    }

    /// Offers packets at twice the rate for a while; gives bit/s that passed after the burst.
    fn passed(kbps: u64, len: usize, packets: u64) -> f64 {
        let mut qer = qer(0, kbps);
        let gap_ns = len as f64 * 8.0 * 1e6 / kbps as f64 / 2.0;
        let (mut bytes, mut first_ns) = (0, 0);
        let mut last_ns = 0;
        for at in 0..packets {
            let now_ns = (at as f64 * gap_ns) as u64;
            let passes = qer.charge(false, len, now_ns);
            // By half of the packets the burst is long used up.
            if at == packets / 2 {
                (bytes, first_ns) = (0, now_ns);
            }
            bytes += u64::from(passes) * len as u64;
            last_ns = now_ns;
        }
        bytes as f64 * 8.0 * 1e9 / (last_ns - first_ns) as f64
    }

    /// Beyond 4.3 Gbit/s public UPFs wrap at 32 bits.
    #[test]
    fn rates_are_exact_within_a_thousandth_beyond_4_gbit() {
        for kbps in [64, 100_000, 4_294_967, 10_000_000, 40_000_000] {
            let rate = passed(kbps, 1400, 400_000);
            let ratio = rate / (kbps as f64 * 1000.0);
            assert!((0.999..=1.001).contains(&ratio), "{kbps} kbit/s: {ratio}");
        }
    }

    #[test]
    fn a_closed_gate_stops_and_charges_nothing() {
        let mut qers = [
            qer(1000, 1000),
            Qer {
                ul_open: false,
                ..Qer::open(2)
            },
        ];
        let before = qers;
        assert_eq!(enforce(&mut qers, true, 100, 0), Err(Stopped::Gate));
        assert_eq!(qers, before);
        assert_eq!(enforce(&mut qers, false, 100, 0), Ok(()));
    }

    /// eupf #330: no MBR is no limit, and all QERs count, not the first alone.
    #[test]
    fn a_qer_without_mbr_passes_all_and_the_second_counts() {
        let mut open = [Qer::open(1)];
        assert!((0..10_000).all(|_| enforce(&mut open, true, 1500, 0).is_ok()));
        let mut two = [Qer::open(1), qer(8, 8)];
        assert!((0..10).any(|_| enforce(&mut two, true, 1500, 0) == Err(Stopped::Rate)));
    }

    #[test]
    fn a_packet_that_the_second_stops_is_charged_to_none() {
        let mut qers = [qer(1_000_000, 0), qer(8, 0)];
        while enforce(&mut qers, true, 1500, 0).is_ok() {}
        let before = qers;
        assert_eq!(enforce(&mut qers, true, 1500, 0), Err(Stopped::Rate));
        assert_eq!(qers, before);
    }

    #[test]
    fn a_rate_of_zero_lets_nothing_pass() {
        assert_eq!(
            enforce(&mut [qer(0, 0)], true, 1, 1 << 40),
            Err(Stopped::Rate)
        );
    }
}
