//! QERs: gates and meters of a user's packets.
//!
//! Fourth step of a packet's way through the UPF. A meter is the GCRA of `catena_flow`, exact to
//! the nanosecond and of 64-bit rates: 40 bits of kbit/s fit. What it counts is bytes from the IP
//! header on. Specification: TS 29.244 5.4.4; TS 23.501 5.7.1.8.
//!
//! Rates are averages over the Averaging Window of their QER (TS 23.501 5.7.3.6), [`WINDOW_MS`]
//! without one: as much as the rate allows in a window passes at once, and in any n windows no more
//! than in n + 1.
//!
//! A packet rate is so many packets in each unit of time, a minute or longer, that begins with a
//! packet: never more, whatever their pattern.
//!
//! With several QERs a packet passes all of them or is charged to none: gates are asked first, and
//! what had room is given back what it had been charged when a later one has none.

use catena_flow::meter::Gcra;
use catena_wire::pfcp::value::qos::Rate;

pub use catena_flow::meter::GcraState;

use crate::rules::{PacketRate, QERS_MAX, Qer};
use crate::stored::{Field, Fields};

/// Averaging Window of a QER without one, in ms: what a rate lets through at once, as a time.
pub const WINDOW_MS: u32 = 10;
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
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Meter {
    /// Whether the gate is open.
    pub is_open: bool,
    /// Maximum bit rate; none for no limit.
    kbps: Option<u64>,
    /// Averaging Window, in ms.
    window_ms: u32,
    /// What the meter remembers.
    words: [u64; 2],
    /// Packet rate, if any direction has one.
    packets: Option<PacketRate>,
}

impl Meter {
    /// One that lets everything pass.
    pub const fn open() -> Self {
        Self {
            is_open: true,
            kbps: None,
            window_ms: WINDOW_MS,
            words: [0; 2],
            packets: None,
        }
    }

    /// Reads it in the record of a QER.
    #[inline]
    pub fn load(record: &[u8], is_uplink: bool) -> Self {
        type Q = Fields<Qer>;
        let both = Q::mbr_kbps().get(record);
        Self {
            is_open: Self::gate(is_uplink).get(record),
            kbps: both.map(|[ul, dl]| if is_uplink { ul } else { dl }),
            window_ms: Q::window_ms().get(record).unwrap_or(WINDOW_MS),
            words: Self::words(is_uplink).get(record),
            packets: Q::counts_packets()
                .get(record)
                .then(|| Self::packets(is_uplink).get(record)),
        }
    }

    const fn gate(is_uplink: bool) -> Field<Qer, bool> {
        match is_uplink {
            true => Fields::<Qer>::ul_open(),
            false => Fields::<Qer>::dl_open(),
        }
    }

    const fn packets(is_uplink: bool) -> Field<Qer, PacketRate> {
        match is_uplink {
            true => Fields::<Qer>::ul_packets(),
            false => Fields::<Qer>::dl_packets(),
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
        if let Some(packets) = &self.packets {
            Self::packets(is_uplink).set(record, packets);
        }
    }

    /// What the meter of a record would remember behind a packet that passes its gate and its bit
    /// rate, if it has one; none if it does not pass, or packets are counted. Nothing is charged.
    #[inline]
    pub(crate) fn passed_plainly(
        record: &[u8],
        is_uplink: bool,
        (len, now_ns): (usize, u64),
    ) -> Option<Option<[u64; 2]>> {
        type Q = Fields<Qer>;
        if !Self::gate(is_uplink).get(record) || Q::counts_packets().get(record) {
            return None;
        }
        let Some([ul, dl]) = Q::mbr_kbps().get(record) else {
            return Some(None);
        };
        let bytes_per_s = if is_uplink { ul } else { dl }.saturating_mul(125);
        let window_ms = Q::window_ms().get(record).unwrap_or(WINDOW_MS);
        let mut state = GcraState::from_words(Self::words(is_uplink).get(record));
        let passes = charge(bytes_per_s, window_ms, &mut state, now_ns, len);
        passes.then(|| Some(state.words()))
    }

    /// Has the meter of a record remember this.
    #[inline]
    pub(crate) fn remember(record: &mut [u8], is_uplink: bool, words: [u64; 2]) {
        Self::words(is_uplink).set(record, &words);
    }

    /// Charges a packet to both rates, or to none; whether it passes.
    #[inline]
    fn charge(&mut self, len: usize, now_ns: u64) -> bool {
        let Some(packets) = &self.packets else {
            return self.charge_bytes(len, now_ns);
        };
        let charged = packets.with_one_more(now_ns);
        let passes = charged.is_some() && self.charge_bytes(len, now_ns);
        if passes {
            self.packets = charged;
        }
        passes
    }

    /// Charges a packet of `len` bytes to the maximum bit rate, if there is one; whether it passes.
    #[inline]
    fn charge_bytes(&mut self, len: usize, now_ns: u64) -> bool {
        let Some(kbps) = self.kbps else {
            return true;
        };
        let mut state = GcraState::from_words(self.words);
        let bytes_per_s = kbps.saturating_mul(125);
        let passes = charge(bytes_per_s, self.window_ms, &mut state, now_ns, len);
        self.words = state.words();
        passes
    }
}

/// Charges a packet of `len` bytes to a rate that is an average over a window; whether it passes.
#[inline]
pub(crate) fn charge(
    bytes_per_s: u64,
    window_ms: u32,
    state: &mut GcraState,
    now_ns: u64,
    len: usize,
) -> bool {
    let cost = u32::try_from(len).unwrap_or(u32::MAX);
    // A rate of 0 lets nothing pass.
    let terms = (bytes_per_s, burst(bytes_per_s, window_ms));
    Gcra::charge(terms, state, now_ns, cost).unwrap_or(false)
}

/// Most bytes that a rate lets pass at once.
#[inline]
fn burst(bytes_per_s: u64, window_ms: u32) -> u64 {
    let burst = bytes_per_s.saturating_mul(window_ms.into()) / 1000;
    burst.clamp(BURST_BYTES_MIN, BURST_BYTES_MAX)
}

/// What a meter remembers once its rate is another one: what has passed has to be earned by the
/// new one, up to what that lets pass at once.
///
/// Its memory is an instant. Left as it is, bytes that a low rate has let pass would stop packets
/// of a high one as long as they would have stopped those of the low one.
fn at_other_rate(
    words: [u64; 2],
    (before_kbps, kbps): (u64, u64),
    window_ms: u32,
    now_ns: u64,
) -> [u64; 2] {
    const SECOND_NS: u128 = 1_000_000_000;
    let bytes_per_s = kbps.saturating_mul(125);
    let ahead_ns = words[0].saturating_sub(now_ns);
    if ahead_ns == 0 || bytes_per_s == 0 || before_kbps == kbps {
        return words;
    }
    let owed = u128::from(ahead_ns) * u128::from(before_kbps.saturating_mul(125)) / SECOND_NS;
    let owed = owed.min(burst(bytes_per_s, window_ms).into());
    let ns = owed * SECOND_NS / u128::from(bytes_per_s);
    let ns = u64::try_from(ns).unwrap_or(u64::MAX);
    [now_ns.saturating_add(ns), 0]
}

impl Qer {
    /// Has its meters go on by another MBR than the one before.
    pub(crate) fn go_on(&mut self, before_kbps: Option<[u64; 2]>, now_ns: u64) {
        let (Some(before), Some(now)) = (before_kbps, self.mbr_kbps) else {
            // Without a rate nothing is owed.
            (self.ul_meter, self.dl_meter) = ([0; 2], [0; 2]);
            return;
        };
        let window_ms = self.window_ms.unwrap_or(WINDOW_MS);
        let rates = [(before[0], now[0]), (before[1], now[1])];
        self.ul_meter = at_other_rate(self.ul_meter, rates[0], window_ms, now_ns);
        self.dl_meter = at_other_rate(self.dl_meter, rates[1], window_ms, now_ns);
    }
}

/// Charges a packet that passes whatever the rate says.
pub(crate) fn owe(
    bytes_per_s: u64,
    window_ms: u32,
    state: &mut GcraState,
    now_ns: u64,
    len: usize,
) {
    let cost = u32::try_from(len).unwrap_or(u32::MAX);
    if let Ok(meter) = Gcra::new(bytes_per_s, burst(bytes_per_s, window_ms)) {
        meter.owe(state, now_ns, cost);
    }
}

impl PacketRate {
    /// No limit.
    pub const NONE: Self = Self {
        packets: None,
        unit: 0,
        ends_ns: 0,
        passed: 0,
    };

    /// Sets the limit. Packets of a unit that has begun stay counted, unless units are others now.
    pub fn set(&mut self, rate: Option<Rate>) {
        let unit = rate.map_or(0, |rate| rate.unit);
        if rate.is_none() || unit != self.unit {
            *self = Self { unit, ..Self::NONE };
        }
        self.packets = rate.map(|rate| rate.packets);
    }

    /// How long a unit of time is, in ns.
    pub(crate) fn unit_ns(&self) -> u64 {
        let unit = self.unit;
        u64::from(Rate { unit, packets: 0 }.unit_seconds()) * 1_000_000_000
    }

    /// The limit, if there is one.
    fn rate(&self) -> Option<Rate> {
        let unit = self.unit;
        self.packets.map(|packets| Rate { unit, packets })
    }

    /// The limit for people: packets in so many seconds.
    pub(crate) fn shown(&self) -> Option<String> {
        let rate = self.rate()?;
        Some(format!("{} in {} s", rate.packets, rate.unit_seconds()))
    }

    /// It with a packet more, which begins a unit if none has begun; none if that is one too many.
    fn with_one_more(&self, now_ns: u64) -> Option<Self> {
        let Some(rate) = self.rate() else {
            return Some(*self);
        };
        let mut next = *self;
        if now_ns >= self.ends_ns {
            (next.ends_ns, next.passed) = (now_ns.saturating_add(self.unit_ns()), 0);
        }
        if next.passed >= rate.packets {
            return None;
        }
        next.passed += 1;
        Some(next)
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
    let mut before = [([0; 2], None); QERS_MAX];
    for at in 0..meters.len().min(QERS_MAX) {
        before[at] = (meters[at].words, meters[at].packets);
        if meters[at].charge(len, now_ns) {
            continue;
        }
        for (meter, before) in meters[..at].iter_mut().zip(before) {
            (meter.words, meter.packets) = before;
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
            ..Meter::open()
        }
    }

    fn packets(unit: u8, packets: u16) -> Meter {
        let mut rate = PacketRate::NONE;
        rate.set(Some(Rate { unit, packets }));
        Meter {
            packets: Some(rate),
            ..Meter::open()
        }
    }

    /// How many packets of 100 bytes pass at an instant.
    fn at_once(words: &mut [u64; 2], kbps: u64, now_ns: u64) -> usize {
        let mut state = GcraState::from_words(*words);
        let mut pass = || charge(kbps * 125, WINDOW_MS, &mut state, now_ns, 100);
        let count = (0..100_000).take_while(|_| pass()).count();
        *words = state.words();
        count
    }

    /// What has passed by one rate is earned by the next one: soon by a higher one, and no later
    /// than what may pass at once by a lower one.
    #[test]
    fn what_has_passed_is_earned_by_the_rate_that_holds_now() {
        const START_NS: u64 = 1_000_000_000_000;
        const SECOND_NS: u64 = 1_000_000_000;
        let mut words = [0; 2];
        // 3028 bytes pass at once by 8 kbit/s: it would earn them in three seconds.
        assert_eq!(at_once(&mut words, 8, START_NS), 30);
        assert_eq!(at_once(&mut words, 8, START_NS), 0);
        words = at_other_rate(words, (8, 1_000_000), WINDOW_MS, START_NS);
        // 10 ms of 1 Gbit/s, less the thirty.
        assert_eq!(at_once(&mut words, 1_000_000, START_NS), 12_470);
        words = at_other_rate(words, (1_000_000, 8), WINDOW_MS, START_NS);
        assert_eq!(at_once(&mut words, 8, START_NS), 0);
        assert_eq!(at_once(&mut words, 8, START_NS + 4 * SECOND_NS), 30);
        // The same rate again changes nothing, and what is earned is earned.
        assert_eq!(at_other_rate([7, 3], (8, 9), WINDOW_MS, START_NS), [7, 3]);
        let owed = [START_NS + 5, 3];
        assert_eq!(at_other_rate(owed, (8, 8), WINDOW_MS, START_NS), owed);
        assert_eq!(at_other_rate(owed, (8, 0), WINDOW_MS, START_NS), owed);
    }

    /// In each unit as many as it says, whatever the time between packets; the next unit begins
    /// with a packet.
    #[test]
    fn a_packet_rate_lets_exactly_so_many_pass_in_each_unit() {
        const MINUTE_NS: u64 = 60_000_000_000;
        for gap_ns in [1, 7_000_000, 1_000_000_000, 5_999_999_999] {
            let mut one = [packets(0, 10)];
            let mut passed: Vec<u64> = Vec::new();
            for at in 0..u64::min(100_000, 10 * MINUTE_NS / gap_ns) {
                let now_ns = at * gap_ns;
                if enforce(&mut one, 1500, now_ns).is_ok() {
                    passed.push(now_ns);
                }
            }
            for (first, eleventh) in passed.iter().zip(&passed[10..]) {
                assert!(
                    eleventh - first >= MINUTE_NS,
                    "{gap_ns}: {first} {eleventh}"
                );
            }
            let minutes = passed.last().unwrap() / MINUTE_NS + 1;
            assert!(
                passed.len() as u64 > 10 * (minutes - 1),
                "{gap_ns}: {passed:?}"
            );
        }
        let mut none = [packets(3, 0)];
        assert_eq!(enforce(&mut none, 1, 0), Err(Stopped::Rate));
        let mut week = [packets(4, 1)];
        assert_eq!(enforce(&mut week, 1, u64::MAX - 5), Ok(()));
        assert_eq!(enforce(&mut week, 1, u64::MAX - 4), Err(Stopped::Rate));
    }

    /// An SMF that says the rate again grants nothing anew.
    #[test]
    fn a_packet_rate_that_changes_keeps_what_has_passed() {
        let mut rate = packets(0, 2).packets.unwrap();
        rate = rate.with_one_more(5).unwrap();
        rate = rate.with_one_more(6).unwrap();
        assert_eq!(rate.with_one_more(7), None);
        let rate_of = |unit, packets| Some(Rate { unit, packets });
        rate.set(rate_of(0, 2));
        assert_eq!(rate.with_one_more(7), None);
        rate.set(rate_of(0, 3));
        assert!(rate.with_one_more(7).is_some());
        rate.set(rate_of(1, 3));
        assert_eq!((rate.passed, rate.ends_ns), (0, 0), "units of six minutes");
        rate.set(None);
        assert!(rate.with_one_more(7).is_some_and(|rate| rate.passed == 0));
    }

    /// A packet that a bit rate stops is none of a packet rate, and the other way round.
    #[test]
    fn a_packet_counts_for_both_kinds_of_rates_or_for_none() {
        let mut both = packets(0, 5);
        both.kbps = Some(8);
        let mut meters = [both];
        while enforce(&mut meters, 1500, 0).is_ok() {}
        assert_eq!(meters[0].packets.unwrap().passed, 2, "3028 bytes at once");
        let mut two = [meter(1_000_000), packets(0, 1)];
        assert_eq!(enforce(&mut two, 1500, 0), Ok(()));
        let before = two;
        assert_eq!(enforce(&mut two, 1500, 0), Err(Stopped::Rate));
        assert_eq!(two, before);
        let mut two = [packets(0, 9), meter(0)];
        let before = two;
        assert_eq!(enforce(&mut two, 1500, 0), Err(Stopped::Rate));
        assert_eq!(two, before);
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

    /// As much as a window allows passes at once, and in n windows no more than in n + 1: whatever
    /// the window, however long it is.
    #[test]
    fn a_rate_is_an_average_over_its_window() {
        const WINDOW_NS: u64 = 1_000_000;
        for (kbps, window_ms) in [(8_000, 2_000), (8_000, 100), (100_000, 500)] {
            let mut one = [Meter {
                window_ms,
                ..meter(kbps)
            }];
            let of_window = kbps * u64::from(window_ms) / 8;
            let window_ns = u64::from(window_ms) * WINDOW_NS;
            let mut passed = |from_ns: u64, until_ns: u64| {
                let mut bytes = 0;
                // At four times the rate.
                let gap_ns = 1000 * 8 * 1_000_000 / kbps / 4;
                for now_ns in (from_ns..until_ns).step_by(gap_ns as usize) {
                    bytes += 1000 * u64::from(enforce(&mut one, 1000, now_ns).is_ok());
                }
                bytes
            };
            let at_once = passed(0, window_ns / 4);
            assert!(
                at_once.abs_diff(of_window) <= 2000,
                "{kbps} {window_ms}: {at_once} of {of_window}"
            );
            let in_four = at_once + passed(window_ns / 4, 4 * window_ns);
            assert!(in_four <= 5 * of_window, "{in_four}");
            assert!(in_four + 3000 >= 5 * of_window, "{in_four}");
        }
        let mut endless = [Meter {
            window_ms: u32::MAX,
            ..meter(u64::MAX)
        }];
        assert_eq!(enforce(&mut endless, 1500, u64::MAX), Ok(()));
        let mut none = [Meter {
            window_ms: 0,
            ..meter(8_000)
        }];
        assert_eq!(enforce(&mut none, 1500, 0), Ok(()), "any packet passes");
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
            window_ms: Some(2000),
            dl_open: false,
            ul_meter: [1, 2],
            dl_meter: [3, 4],
            counts_packets: true,
            dl_packets: packets(2, 7).packets.unwrap(),
            ..Qer::open(1)
        };
        let mut record = [0; Qer::LEN];
        qer.store(&mut record);
        let mut ul = Meter::load(&record, true);
        assert_eq!((ul.is_open, ul.kbps, ul.words), (true, Some(8), [1, 2]));
        let mut dl = Meter::load(&record, false);
        assert_eq!((dl.is_open, dl.kbps, dl.words), (false, Some(16), [3, 4]));
        assert_eq!((ul.window_ms, dl.window_ms), (2000, 2000));
        assert_eq!(ul.packets.unwrap(), PacketRate::NONE);
        dl.packets = dl.packets.unwrap().with_one_more(3);
        (ul.words, dl.words) = ([5, 6], [7, 8]);
        ul.store(&mut record, true);
        dl.store(&mut record, false);
        let changed = Qer {
            ul_meter: [5, 6],
            dl_meter: [7, 8],
            dl_packets: PacketRate {
                ends_ns: 3_600_000_000_003,
                passed: 1,
                ..qer.dl_packets
            },
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
