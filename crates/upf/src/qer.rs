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
use crate::stored::{Field, Fields};

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

/// One direction of a QER, as a packet meets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meter {
    /// Whether the gate is open.
    pub is_open: bool,
    /// Maximum bit rate; none for no limit.
    kbps: Option<u64>,
    /// What the meter remembers.
    words: [u64; 2],
}

impl Meter {
    /// One that lets everything pass.
    pub const fn open() -> Self {
        Self {
            is_open: true,
            kbps: None,
            words: [0; 2],
        }
    }

    /// Reads it in the record of a QER.
    #[inline]
    pub fn load(record: &[u8], is_uplink: bool) -> Self {
        type Q = Fields<Qer>;
        let gate = match is_uplink {
            true => Q::ul_open(),
            false => Q::dl_open(),
        };
        let both = Q::mbr_kbps().get(record);
        Self {
            is_open: gate.get(record),
            kbps: both.map(|[ul, dl]| if is_uplink { ul } else { dl }),
            words: Self::words(is_uplink).get(record),
        }
    }

    const fn words(is_uplink: bool) -> Field<Qer, [u64; 2]> {
        match is_uplink {
            true => Fields::<Qer>::ul_meter(),
            false => Fields::<Qer>::dl_meter(),
        }
    }

    /// Writes what it remembers into the record of its QER.
    #[inline]
    pub fn store(&self, record: &mut [u8], is_uplink: bool) {
        if self.kbps.is_some() {
            Self::words(is_uplink).set(record, &self.words);
        }
    }

    /// Charges a packet of `len` bytes to the maximum bit rate, if there is one; whether it passes.
    #[inline]
    fn charge(&mut self, len: usize, now_ns: u64) -> bool {
        let Some(kbps) = self.kbps else {
            return true;
        };
        let bytes_per_s = kbps.saturating_mul(125);
        let burst = bytes_per_s / (1_000_000_000 / BURST_NS);
        let burst = burst.clamp(BURST_BYTES_MIN, BURST_BYTES_MAX);
        let mut state = GcraState::from_words(self.words);
        let cost = u32::try_from(len).unwrap_or(u32::MAX);
        // A rate of 0 lets nothing pass.
        let charged = Gcra::charge((bytes_per_s, burst), &mut state, now_ns, cost);
        self.words = state.words();
        charged.unwrap_or(false)
    }
}

/// Asks all QERs of a PDR: charges all, or none.
///
/// # Errors
/// Which of the two stopped it.
#[inline]
pub fn enforce(meters: &mut [Meter], len: usize, now_ns: u64) -> Result<(), Stopped> {
    if meters.iter().any(|meter| !meter.is_open) {
        return Err(Stopped::Gate);
    }
    // One alone has nothing to give back to others.
    if let [meter] = meters {
        let passes = meter.charge(len, now_ns);
        return passes.then_some(()).ok_or(Stopped::Rate);
    }
    let mut before = [[0; 2]; QERS_MAX];
    for at in 0..meters.len().min(QERS_MAX) {
        before[at] = meters[at].words;
        if meters[at].charge(len, now_ns) {
            continue;
        }
        for (meter, words) in meters[..at].iter_mut().zip(before) {
            meter.words = words;
        }
        return Err(Stopped::Rate);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stored::Stored;

    fn meter(kbps: u64) -> Meter {
        Meter {
            is_open: true,
            kbps: Some(kbps),
            words: [0; 2],
        }
    }

    /// Offers packets at twice the rate for a while; gives bit/s that passed after the burst.
    fn passed(kbps: u64, len: usize, packets: u64) -> f64 {
        let mut meter = meter(kbps);
        let gap_ns = len as f64 * 8.0 * 1e6 / kbps as f64 / 2.0;
        let (mut bytes, mut first_ns) = (0, 0);
        let mut last_ns = 0;
        for at in 0..packets {
            let now_ns = (at as f64 * gap_ns) as u64;
            let passes = meter.charge(len, now_ns);
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
    fn a_direction_is_read_and_written_in_the_record_of_its_qer() {
        let qer = Qer {
            mbr_kbps: Some([8, 16]),
            dl_open: false,
            ul_meter: [1, 2],
            dl_meter: [3, 4],
            ..Qer::open(1)
        };
        let mut record = [0; Qer::LEN];
        qer.store(&mut record);
        let mut ul = Meter::load(&record, true);
        assert_eq!((ul.is_open, ul.kbps, ul.words), (true, Some(8), [1, 2]));
        let mut dl = Meter::load(&record, false);
        assert_eq!((dl.is_open, dl.kbps, dl.words), (false, Some(16), [3, 4]));
        (ul.words, dl.words) = ([5, 6], [7, 8]);
        ul.store(&mut record, true);
        dl.store(&mut record, false);
        let changed = Qer {
            ul_meter: [5, 6],
            dl_meter: [7, 8],
            ..qer
        };
        assert_eq!(Qer::load(&record), changed);
    }

    #[test]
    fn a_closed_gate_stops_and_charges_nothing() {
        let closed = Meter {
            is_open: false,
            ..Meter::default()
        };
        let mut meters = [meter(1000), closed];
        let before = meters;
        assert_eq!(enforce(&mut meters, 100, 0), Err(Stopped::Gate));
        assert_eq!(meters, before);
        meters[1].is_open = true;
        assert_eq!(enforce(&mut meters, 100, 0), Ok(()));
    }

    /// eupf #330: no MBR is no limit, and all QERs count, not the first alone.
    #[test]
    fn a_qer_without_mbr_passes_all_and_the_second_counts() {
        let open = Meter {
            kbps: None,
            ..meter(0)
        };
        assert!((0..10_000).all(|_| enforce(&mut [open], 1500, 0).is_ok()));
        let mut two = [open, meter(8)];
        assert!((0..10).any(|_| enforce(&mut two, 1500, 0) == Err(Stopped::Rate)));
    }

    #[test]
    fn a_packet_that_the_second_stops_is_charged_to_none() {
        let mut meters = [meter(1_000_000), meter(8)];
        while enforce(&mut meters, 1500, 0).is_ok() {}
        let before = meters;
        assert_eq!(enforce(&mut meters, 1500, 0), Err(Stopped::Rate));
        assert_eq!(meters, before);
    }

    #[test]
    fn a_rate_of_zero_lets_nothing_pass() {
        assert_eq!(enforce(&mut [meter(0)], 1, 1 << 40), Err(Stopped::Rate));
    }
}
