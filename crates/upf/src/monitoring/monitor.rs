//! What is measured of a QoS flow: what its SMF wants, the mark that waits, delays and their sums.
//!
//! Part of [`monitoring`](super): a record of a session, and what becomes of it by answers and by
//! time.

use catena_wire::gtpu::pdu_session::UplinkTimes;
use catena_wire::pfcp::value::flags::{ReportingFrequency, RequestedQosMonitoring};
use serde_json::{Value, json};

use crate::stored;
use crate::stored::Fields;

/// Most QoS flows that are monitored in a session.
pub const MONITORS_MAX: usize = 8;
/// Least time between two marked packets of a flow.
pub const MARK_NS: u64 = 100_000_000;
/// For how long a mark's answer is awaited: delays above it are measured as none.
pub const ANSWER_NS: u64 = 2_000_000_000;

pub(super) const SECOND_NS: u64 = 1_000_000_000;
/// Least time between two events of a flow, where no Minimum Wait Time says so.
const WAIT_S: u32 = 1;
/// What there is no room to tell is tried again after so long.
const RETRY_NS: u64 = SECOND_NS;
/// So much may the access network's clock be behind, and its delay counts as 0.
const SLACK_US: i64 = 1000;

stored! {
    /// What is wanted of a QoS flow: QoS Monitoring per QoS flow Control Information.
    pub struct MonitorTerms {
        /// QFI.
        pub qfi: u8,
        /// Requested QoS Monitoring.
        pub wanted: u8,
        /// Reporting Frequency.
        pub frequency: u8,
        /// Packet Delay Thresholds in ms: downlink, uplink, round trip.
        pub thresholds_ms: [Option<u32>; 3],
        /// Minimum Wait Time, in seconds.
        pub wait_s: Option<u32>,
        /// Measurement Period, in seconds.
        pub period_s: Option<u32>,
    }

    /// A QoS flow that is monitored. Delays are in microseconds: downlink, uplink, round trip.
    pub struct Monitor {
        /// What is wanted.
        pub terms: MonitorTerms,
        /// From when on a packet is marked.
        pub next_mark_ns: u64,
        /// The time that a packet has left with which is not answered.
        pub marked: Option<u64>,
        /// SRR ID.
        pub srr_id: u8,
        /// When it began to be measured what follows.
        pub since_ns: u64,
        /// All delays since then.
        pub sums_us: [u64; 3],
        /// How many they are of each.
        pub count: u32,
        /// When the last period ended.
        pub period_at_ns: u64,
        /// Whether its end is to be told.
        pub is_due: bool,
        /// Delays that are to be told as an event.
        pub event_us: Option<[u64; 3]>,
        /// When the last event was.
        pub event_ns: Option<u64>,
    }
}

pub(super) type M = Fields<Monitor>;

/// Microseconds from one NTP timestamp to another; none of one that is not before it.
fn span_us(from: u64, to: u64) -> Option<u64> {
    let units = to.wrapping_sub(from).cast_signed();
    let us = (i128::from(units) * 1_000_000 + (1 << 31)) >> 32;
    let us = i64::try_from(us).ok().filter(|us| *us >= -SLACK_US)?;
    u64::try_from(us.max(0)).ok()
}

/// The delays of an answer that was heard at this time, with those of the access network's own
/// part, in ms; none of times that contradict themselves.
pub(super) fn delays_us(times: &UplinkTimes, ran_ms: [u32; 2], heard: u64) -> Option<[u64; 3]> {
    let whole = span_us(times.dl_sending, heard)?;
    let held = span_us(times.dl_received, times.ul_sending)?;
    let trip = whole.checked_sub(held)?;
    let one_way = span_us(times.dl_sending, times.dl_received);
    let one_way = one_way.zip(span_us(times.ul_sending, heard));
    let (dl, ul) = one_way.unwrap_or((trip / 2, trip - trip / 2));
    let [ran_dl, ran_ul] = ran_ms.map(|ms| u64::from(ms) * 1000);
    Some([dl + ran_dl, ul + ran_ul, trip + ran_dl + ran_ul])
}

impl MonitorTerms {
    pub(super) fn tells(&self, when: ReportingFrequency) -> bool {
        ReportingFrequency::from_bits(self.frequency).contains(when)
    }

    /// Of delays, or thresholds, those that are asked for.
    pub(super) fn asked<T: Copy>(&self, all: [T; 3]) -> [Option<T>; 3] {
        let flags = RequestedQosMonitoring::from_bits(self.wanted);
        let kinds = [
            RequestedQosMonitoring::DL,
            RequestedQosMonitoring::UL,
            RequestedQosMonitoring::RP,
        ];
        let mut kinds = kinds.into_iter();
        all.map(|one| {
            kinds
                .next()
                .filter(|kind| flags.contains(*kind))
                .map(|_| one)
        })
    }

    fn is_exceeded(&self, delays_us: [u64; 3]) -> bool {
        let pairs = self.thresholds_ms.iter().zip(delays_us);
        let is_above = |(limit, us): (&Option<u32>, u64)| {
            limit.is_some_and(|limit_ms| us > u64::from(limit_ms) * 1000)
        };
        pairs.into_iter().any(is_above)
    }

    fn period_ns(&self) -> Option<u64> {
        let seconds = self
            .period_s
            .filter(|_| self.tells(ReportingFrequency::PERIO));
        seconds.map(|seconds| u64::from(seconds.max(1)) * SECOND_NS)
    }
}

impl Monitor {
    /// One that has measured nothing.
    pub(crate) const fn new(srr_id: u8, terms: MonitorTerms, now_ns: u64) -> Self {
        Self {
            terms,
            next_mark_ns: now_ns,
            marked: None,
            srr_id,
            since_ns: now_ns,
            sums_us: [0; 3],
            count: 0,
            period_at_ns: now_ns,
            is_due: false,
            event_us: None,
            event_ns: None,
        }
    }

    /// An answer has come: whether there is an event to tell.
    pub(crate) fn take(
        &mut self,
        times: &UplinkTimes,
        ran_ms: [u32; 2],
        (heard, now_ns): (u64, u64),
    ) -> bool {
        self.marked = None;
        self.next_mark_ns = self.next_mark_ns.saturating_sub(ANSWER_NS - MARK_NS);
        let Some(delays) = delays_us(times, ran_ms, heard) else {
            return false;
        };
        let sums = self.sums_us.iter_mut().zip(delays);
        sums.for_each(|(sum, us)| *sum = sum.saturating_add(us));
        self.count = self.count.saturating_add(1);
        let wait_ns = u64::from(self.terms.wait_s.unwrap_or(WAIT_S)) * SECOND_NS;
        let last_ns = self.event_ns;
        let may = last_ns.is_none_or(|at_ns| now_ns.saturating_sub(at_ns) >= wait_ns);
        let is_event = may
            && self.event_us.is_none()
            && self.terms.tells(ReportingFrequency::EVETT)
            && self.terms.is_exceeded(delays);
        if is_event {
            (self.event_us, self.event_ns) = (Some(delays), Some(now_ns));
        }
        is_event
    }

    /// Its timer has come, or another one of its session: whether there is something to tell.
    pub(crate) fn wake(&mut self, now_ns: u64) -> bool {
        let passed_ns = now_ns.saturating_sub(self.period_at_ns);
        if let Some(period_ns) = self.terms.period_ns()
            && passed_ns >= period_ns
        {
            let whole_ns = passed_ns - passed_ns % period_ns;
            self.period_at_ns = self.period_at_ns.saturating_add(whole_ns);
            self.is_due = true;
        }
        self.has_news()
    }

    pub(super) const fn has_news(&self) -> bool {
        self.is_due || self.event_us.is_some()
    }

    /// When it is to be looked at next.
    pub(crate) fn next_ns(&self, now_ns: u64) -> Option<u64> {
        let period = self.terms.period_ns();
        let end_ns = period.map(|period_ns| self.period_at_ns.saturating_add(period_ns));
        let retry_ns = self.has_news().then(|| now_ns.saturating_add(RETRY_NS));
        end_ns.into_iter().chain(retry_ns).min()
    }

    /// The mean of what was measured; none if nothing was.
    pub(super) fn mean_us(&self) -> Option<[u64; 3]> {
        let count = u64::from(self.count);
        (count > 0).then(|| self.sums_us.map(|sum| sum / count))
    }

    /// For `catena upf session`.
    pub(crate) fn shown(&self) -> Value {
        json!({
            "srr_id": self.srr_id, "qfi": self.terms.qfi, "measured": self.count,
            "mean_us": self.mean_us().map(|all| self.terms.asked(all)),
            "waits_for_answer": self.marked.is_some(),
        })
    }

    /// What there was to tell was told.
    pub(super) fn told(&mut self, now_ns: u64) {
        self.event_us = None;
        if std::mem::take(&mut self.is_due) {
            (self.since_ns, self.sums_us, self.count) = (now_ns, [0; 3], 0);
        }
    }
}
