//! URRs: what was used, and when it is to be told.
//!
//! Fifth step of a packet's way through the UPF: a packet that passes its QERs is counted by the
//! URRs of its PDR, unless a quota is used up. Time is an argument, so that a simulation runs years
//! of charging in a moment. Nothing is counted twice and nothing is lost: what was counted is in
//! [`Urr::reported`], in [`Urr::before`] or in [`Urr::usage`]. Specification: TS 29.244 5.2.2,
//! 7.5.2.4, 7.5.8.3.

use catena_wire::pfcp::value::flags::{
    MeasurementInformation, MeasurementMethod, ReportingTriggers, UsageReportTrigger,
};

use crate::room::Room;
use crate::rules::{EVENTS_MAX, Urr, UrrTerms, Usage, Volumes};
use crate::stored::List;

mod amounts;
mod envelope;
mod in_place;

pub use in_place::Counted;

const SECOND_NS: u64 = 1_000_000_000;

/// The wall clock, from the engine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WallClock {
    /// Seconds since 1900, and nanoseconds of them, when the engine's clock shows 0.
    pub zero_ns: i128,
}

impl WallClock {
    /// Seconds since 1900, modulo 2^32, at an instant of the engine's clock.
    pub fn seconds(self, now_ns: u64) -> u32 {
        let ns = self.zero_ns + i128::from(now_ns);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an era"
        )]
        let seconds = ns.div_euclid(i128::from(SECOND_NS)) as u32;
        seconds
    }

    /// Nanoseconds since 1970 at an instant of the engine's clock.
    pub fn unix_ns(self, now_ns: u64) -> u64 {
        let epoch = i128::from(catena_wire::pfcp::value::Time::UNIX_EPOCH) * i128::from(SECOND_NS);
        let ns = self.zero_ns + i128::from(now_ns) - epoch;
        u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
    }

    /// The instant as a 64-bit timestamp of NTP (RFC 5905, 6).
    pub fn ntp(self, now_ns: u64) -> u64 {
        let of_second = (self.zero_ns + i128::from(now_ns)).rem_euclid(i128::from(SECOND_NS));
        let of_second = u64::try_from(of_second).unwrap_or(0);
        let fraction = (of_second << 32) / SECOND_NS;
        u64::from(self.seconds(now_ns)) << 32 | fraction
    }

    /// When the wall clock shows a 64-bit timestamp of NTP, on the engine's clock.
    pub fn of_ntp(self, stamp: u64, now_ns: u64) -> u64 {
        let [seconds, fraction] = [stamp >> 32, stamp & u64::from(u32::MAX)];
        let of_second = (fraction * SECOND_NS).div_ceil(1 << 32);
        let seconds = u32::try_from(seconds).unwrap_or(0);
        self.shows((seconds, of_second), now_ns)
    }

    /// When the wall clock shows `seconds`, on the engine's clock; in the era nearest to `now_ns`.
    pub fn instant(self, seconds: u32, now_ns: u64) -> u64 {
        self.shows((seconds, 0), now_ns)
    }

    /// As `instant`, of seconds and ns of one.
    fn shows(self, (seconds, more_ns): (u32, u64), now_ns: u64) -> u64 {
        let ahead = seconds.wrapping_sub(self.seconds(now_ns)).cast_signed();
        let of_second = (self.zero_ns + i128::from(now_ns)).rem_euclid(i128::from(SECOND_NS));
        let at = i128::from(now_ns) - of_second + i128::from(ahead) * i128::from(SECOND_NS);
        let at = at + i128::from(more_ns);
        u64::try_from(at.max(0)).unwrap_or(u64::MAX)
    }
}

/// One usage report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    /// URR ID.
    pub urr_id: u32,
    /// UR-SEQN.
    pub sequence: u32,
    /// Usage Report Trigger.
    pub trigger: UsageReportTrigger,
    /// What was used.
    pub usage: Usage,
    /// When it ends, on the engine's clock.
    pub end_ns: u64,
    /// Before (true) or after (false) a monitoring time that lies between two reports.
    pub is_before: Option<bool>,
    /// When events were, in seconds of the engine's clock.
    pub events: List<u32, EVENTS_MAX>,
    /// Whether volume, time, and numbers of packets are told.
    pub tells: [bool; 3],
}

impl UrrTerms {
    /// Nothing is wanted.
    pub const NONE: Self = Self {
        method: 0,
        triggers: 0,
        information: 0,
        volume_threshold: Volumes::NONE,
        volume_quota: Volumes::NONE,
        time_threshold: None,
        time_quota: None,
        period: None,
        holding: None,
        validity: None,
        inactivity: None,
        monitoring_time: None,
        later_volume_threshold: Volumes::NONE,
        later_volume_quota: Volumes::NONE,
        later_time_threshold: None,
        later_time_quota: None,
        dropped_packets: None,
        dropped_octets: None,
        event_threshold: None,
        event_quota: None,
        later_event_threshold: None,
        later_event_quota: None,
        is_discrete: false,
        base_interval: None,
    };

    pub(crate) fn measures(&self, method: MeasurementMethod) -> bool {
        MeasurementMethod::from_bits(self.method).contains(method)
    }

    /// Whether a report is wanted for this reason.
    pub fn wants(&self, trigger: ReportingTriggers) -> bool {
        ReportingTriggers::from_bits(self.triggers).contains(trigger)
    }

    fn has_quota(&self) -> bool {
        self.volume_quota.is_some() || self.time_quota.is_some() || self.event_quota.is_some()
    }
}

/// The trigger of a report for each reason for which one can be wanted.
const TRIGGERS: &[(ReportingTriggers, UsageReportTrigger)] = &[
    (ReportingTriggers::PERIO, UsageReportTrigger::PERIO),
    (ReportingTriggers::VOLTH, UsageReportTrigger::VOLTH),
    (ReportingTriggers::TIMTH, UsageReportTrigger::TIMTH),
    (ReportingTriggers::QUHTI, UsageReportTrigger::QUHTI),
    (ReportingTriggers::START, UsageReportTrigger::START),
    (ReportingTriggers::STOPT, UsageReportTrigger::STOPT),
    (ReportingTriggers::DROTH, UsageReportTrigger::DROTH),
    (ReportingTriggers::LIUSA, UsageReportTrigger::LIUSA),
    (ReportingTriggers::VOLQU, UsageReportTrigger::VOLQU),
    (ReportingTriggers::TIMQU, UsageReportTrigger::TIMQU),
    (ReportingTriggers::QUVTI, UsageReportTrigger::QUVTI),
    (ReportingTriggers::ENVCL, UsageReportTrigger::ENVCL),
    (ReportingTriggers::EVETH, UsageReportTrigger::EVETH),
    (ReportingTriggers::EVEQU, UsageReportTrigger::EVEQU),
];

/// All reasons that this UPF knows.
pub fn known_triggers() -> ReportingTriggers {
    TRIGGERS
        .iter()
        .fold(ReportingTriggers::NONE, |all, (one, _)| all | *one)
}

const fn seconds(seconds: u32) -> u64 {
    seconds as u64 * SECOND_NS
}

impl Urr {
    /// A URR that begins now.
    pub fn new(id: u32, terms: UrrTerms, now_ns: u64) -> Self {
        Self {
            room: Room,
            id,
            terms,
            linked: List::default(),
            sequence: 0,
            usage: Usage::since(now_ns),
            before: None,
            quota_octets: [0; 2],
            quota_ns: 0,
            quota_at_ns: now_ns,
            is_exhausted: false,
            active_ns: now_ns,
            dropped: [0; 2],
            is_invalid: false,
            period_at_ns: now_ns,
            is_started: false,
            counted_to_ns: now_ns,
            reported: [0; 4],
            untold: 0,
            quota_events: 0,
            events: List::default(),
            early_events: 0,
            envelope_ns: None,
        }
    }

    /// Counts time up to now, by the terms that were until now; what that reaches waits to be told.
    pub fn settle(&mut self, now_ns: u64) {
        if now_ns > self.counted_to_ns {
            let reached = self.advance(now_ns);
            self.note(reached);
        }
    }

    /// When the last packet of what is counted now came.
    fn last_ns(&self) -> Option<u64> {
        self.usage.first_ns.map(|_| self.active_ns)
    }

    /// Takes what is counted now, and begins anew.
    fn take_usage(&mut self, now_ns: u64) -> Usage {
        let last_ns = self.last_ns();
        let usage = std::mem::replace(&mut self.usage, Usage::since(now_ns));
        Usage { last_ns, ..usage }
    }

    /// New terms may have set a threshold of time below what has passed: no timer would come to it.
    pub fn note_time_reached(&mut self) {
        let passed_ns = self.usage.duration_ns;
        let limit_ns = self.terms.time_threshold.map(seconds);
        if passed_ns > 0 && limit_ns.is_some_and(|limit_ns| passed_ns >= limit_ns) {
            self.note(ReportingTriggers::TIMTH);
        }
    }

    fn note(&mut self, reached: ReportingTriggers) {
        self.untold |= self.only_wanted(reached).bits();
    }

    /// New quotas were granted: what was used of the old ones is forgotten. Time before is theirs.
    pub fn grant(&mut self, now_ns: u64) {
        self.settle(now_ns);
        self.quota_octets = [0; 2];
        self.quota_ns = 0;
        self.quota_events = 0;
        self.quota_at_ns = now_ns;
        self.is_exhausted = false;
        self.is_invalid = false;
        // That the old ones are over needs no telling any more.
        let of_quotas = UsageReportTrigger::VOLQU
            | UsageReportTrigger::TIMQU
            | UsageReportTrigger::EVEQU
            | UsageReportTrigger::QUHTI
            | UsageReportTrigger::QUVTI;
        let untold = UsageReportTrigger::from_bits(self.untold);
        self.untold = untold.without(of_quotas).bits();
    }

    fn only_wanted(&self, reasons: ReportingTriggers) -> UsageReportTrigger {
        let wanted = TRIGGERS
            .iter()
            .filter(|(reason, _)| reasons.contains(*reason) && self.terms.wants(*reason));
        wanted.fold(UsageReportTrigger::NONE, |all, (_, trigger)| all | *trigger)
    }

    /// Whether a packet may pass; if a quota is found used up only now, with the report for it.
    #[inline]
    pub fn allows(&mut self) -> (bool, UsageReportTrigger) {
        let volume = self.terms.volume_quota.is_reached(self.quota_octets);
        let quota_ns = self.terms.time_quota.map(seconds);
        let time = quota_ns.is_some_and(|quota_ns| self.quota_ns >= quota_ns);
        let measures = self.terms.measures(MeasurementMethod::EVENT);
        let quota_events = self.terms.event_quota.filter(|_| measures);
        let events = quota_events.is_some_and(|quota| self.quota_events >= quota);
        if !self.is_exhausted && !volume && !time && !events {
            return (true, UsageReportTrigger::NONE);
        }
        let was_exhausted = std::mem::replace(&mut self.is_exhausted, true);
        let reason = match (was_exhausted, volume, time) {
            (true, ..) => ReportingTriggers::NONE,
            (false, true, _) => ReportingTriggers::VOLQU,
            (false, false, true) => ReportingTriggers::TIMQU,
            (false, false, false) => ReportingTriggers::EVEQU,
        };
        (false, self.only_wanted(reason))
    }

    /// Counts a packet; gives why there is something to report, if so. `is_event` says whether the
    /// packet is an event; none for one that is if traffic starts with it.
    #[inline]
    pub fn count(
        &mut self,
        is_uplink: bool,
        len: usize,
        is_event: Option<bool>,
        now_ns: u64,
    ) -> UsageReportTrigger {
        let mut reasons = self.advance(now_ns);
        self.use_envelope(now_ns);
        let way = usize::from(!is_uplink);
        let len = len as u64;
        self.usage.octets[way] += len;
        self.usage.packets[way] += 1;
        self.usage.first_ns = self.usage.first_ns.or(Some(now_ns));
        self.quota_octets[way] += len;
        self.active_ns = now_ns;
        let starts = !std::mem::replace(&mut self.is_started, true);
        if starts {
            reasons = reasons | ReportingTriggers::START;
        }
        let mut full = UsageReportTrigger::NONE;
        if is_event.unwrap_or(starts) {
            let (reached, is_full) = self.count_event(now_ns);
            (reasons, full) = (reasons | reached, is_full);
        }
        if self.terms.volume_threshold.is_reached(self.usage.octets) {
            reasons = reasons | ReportingTriggers::VOLTH;
        }
        if self.terms.volume_quota.is_reached(self.quota_octets) && !self.is_exhausted {
            self.is_exhausted = true;
            reasons = reasons | ReportingTriggers::VOLQU;
        }
        self.only_wanted(reasons) | full
    }

    /// Counts a downlink packet that was dropped.
    pub fn count_dropped(&mut self, len: usize) -> UsageReportTrigger {
        self.dropped[0] += 1;
        self.dropped[1] += len as u64;
        let reached = |limit: Option<u64>, count| limit.is_some_and(|limit| count >= limit);
        let terms = &self.terms;
        if !reached(terms.dropped_packets, self.dropped[0])
            && !reached(terms.dropped_octets, self.dropped[1])
        {
            return UsageReportTrigger::NONE;
        }
        self.dropped = [0; 2];
        self.only_wanted(ReportingTriggers::DROTH)
    }

    /// Whether time counts now: traffic has started, or need not; or an envelope is open.
    fn is_timed(&self) -> bool {
        if self.terms.base_interval.is_some() {
            return self.terms.measures(MeasurementMethod::DURAT) && self.envelope_ns.is_some();
        }
        let information = MeasurementInformation::from_bits(self.terms.information);
        self.terms.measures(MeasurementMethod::DURAT)
            && (self.is_started || information.contains(MeasurementInformation::ISTM))
    }

    /// Until when time counts if no packet comes.
    fn timed_until(&self) -> u64 {
        if let Some(until_ns) = self.envelope_until() {
            return until_ns;
        }
        let pause = self.terms.inactivity.map(seconds);
        pause.map_or(u64::MAX, |pause| self.active_ns.saturating_add(pause))
    }

    /// Counts time up to now; reasons of time for a report.
    fn advance(&mut self, now_ns: u64) -> ReportingTriggers {
        let mut reasons = ReportingTriggers::NONE;
        if self.is_timed() {
            let until = now_ns.min(self.timed_until());
            let passed = until.saturating_sub(self.counted_to_ns);
            self.usage.duration_ns += passed;
            self.quota_ns += passed;
        }
        self.counted_to_ns = now_ns.max(self.counted_to_ns);
        if self.close_envelope(now_ns) {
            reasons = reasons | ReportingTriggers::ENVCL;
        }
        let reached = |limit: Option<u32>, ns| limit.is_some_and(|limit| ns >= seconds(limit));
        if reached(self.terms.time_threshold, self.usage.duration_ns) {
            reasons = reasons | ReportingTriggers::TIMTH;
        }
        if reached(self.terms.time_quota, self.quota_ns) && !self.is_exhausted {
            self.is_exhausted = true;
            reasons = reasons | ReportingTriggers::TIMQU;
        }
        reasons
    }

    /// What time alone has brought; gives why there is something to report, if so.
    pub fn wake(&mut self, now_ns: u64, clock: WallClock) -> UsageReportTrigger {
        let mut reasons = ReportingTriggers::NONE;
        if let Some(at_ns) = self.monitoring_ns(now_ns, clock).filter(|at| *at <= now_ns) {
            // What was counted already was before it, also if it was over when it was asked for.
            let counted_ns = self.last_ns().unwrap_or(0).max(self.usage.start_ns);
            let at_ns = at_ns.max(counted_ns);
            reasons = reasons | self.advance(at_ns);
            self.split(at_ns);
        }
        reasons = reasons | self.advance(now_ns);
        if let Some(period) = self.terms.period.map(seconds).filter(|period| *period > 0) {
            let passed = now_ns.saturating_sub(self.period_at_ns) / period;
            self.period_at_ns += passed * period;
            if passed > 0 {
                reasons = reasons | ReportingTriggers::PERIO;
            }
        }
        let is_over = |limit: Option<u32>, since: u64| {
            limit.is_some_and(|limit| now_ns.saturating_sub(since) >= seconds(limit))
        };
        if self.is_started && is_over(self.terms.inactivity, self.active_ns) {
            self.is_started = false;
            reasons = reasons | ReportingTriggers::STOPT;
        }
        let used_ns = self.active_ns.max(self.quota_at_ns);
        let is_held = self.terms.has_quota() && !self.is_exhausted;
        if is_held && is_over(self.terms.holding, used_ns) {
            self.is_exhausted = true;
            reasons = reasons | ReportingTriggers::QUHTI;
        }
        if !self.is_invalid && is_over(self.terms.validity, self.quota_at_ns) {
            self.is_invalid = true;
            reasons = reasons | ReportingTriggers::QUVTI;
        }
        self.only_wanted(reasons)
    }

    fn monitoring_ns(&self, now_ns: u64, clock: WallClock) -> Option<u64> {
        let seconds = self.terms.monitoring_time?;
        Some(clock.instant(seconds, now_ns))
    }

    /// The monitoring time has come: what follows is counted apart, by the subsequent terms. What
    /// was before an earlier one, and no report has told yet, is before this one, too.
    fn split(&mut self, at_ns: u64) {
        let terms = &mut self.terms;
        terms.monitoring_time = None;
        for (now, later) in [
            (&mut terms.volume_threshold, terms.later_volume_threshold),
            (&mut terms.volume_quota, terms.later_volume_quota),
        ] {
            if later.is_some() {
                *now = later;
            }
        }
        terms.time_threshold = terms.later_time_threshold.or(terms.time_threshold);
        terms.time_quota = terms.later_time_quota.or(terms.time_quota);
        terms.event_threshold = terms.later_event_threshold.or(terms.event_threshold);
        terms.event_quota = terms.later_event_quota.or(terms.event_quota);
        let later = [terms.later_time_quota, terms.later_event_quota];
        if terms.later_volume_quota.is_some() || later.iter().any(Option::is_some) {
            self.grant(at_ns);
        }
        let passed = self.take_usage(at_ns);
        self.early_events = u8::try_from(self.events.as_slice().len()).unwrap_or(u8::MAX);
        let before = self.before.map(|before| before.with(&passed));
        self.before = before.or(Some(passed));
    }

    /// When [`Urr::wake`] is to be called next, if no packet comes before.
    pub fn next_ns(&self, now_ns: u64, clock: WallClock) -> Option<u64> {
        let terms = &self.terms;
        let after = |limit: Option<u32>, since: u64| {
            limit.map(|limit| since.saturating_add(seconds(limit)))
        };
        let left = |limit: Option<u32>, spent: u64| {
            // What is reached already was told, or waits to be.
            let left = seconds(limit?)
                .checked_sub(spent)
                .filter(|left| *left > 0)?;
            let at = self.counted_to_ns.saturating_add(left);
            (at <= self.timed_until()).then_some(at)
        };
        let is_timed = self.is_timed();
        let is_held = terms.has_quota() && !self.is_exhausted;
        [
            after(terms.period.filter(|period| *period > 0), self.period_at_ns),
            is_timed
                .then(|| left(terms.time_threshold, self.usage.duration_ns))
                .flatten(),
            (is_timed && !self.is_exhausted)
                .then(|| left(terms.time_quota, self.quota_ns))
                .flatten(),
            after(terms.inactivity.filter(|_| self.is_started), self.active_ns),
            after(
                terms.holding.filter(|_| is_held),
                self.active_ns.max(self.quota_at_ns),
            ),
            after(
                terms.validity.filter(|_| !self.is_invalid),
                self.quota_at_ns,
            ),
            self.monitoring_ns(now_ns, clock),
            self.envelope_until(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Takes what was counted since the last report: one report, or two around a monitoring time.
    /// A limit of time that is found reached only now is a reason for it, too, and so is what waits
    /// to be told: nobody will be told of it again. That traffic has come or gone goes on to wait,
    /// for a report that names its application.
    pub fn report(
        &mut self,
        trigger: UsageReportTrigger,
        now_ns: u64,
    ) -> impl Iterator<Item = Report> + use<> {
        let reached = self.advance(now_ns);
        let untold = UsageReportTrigger::from_bits(self.untold);
        let of_traffic = UsageReportTrigger::START | UsageReportTrigger::STOPT;
        let trigger = trigger | self.only_wanted(reached) | untold.without(of_traffic);
        self.untold = untold.without(trigger).bits();
        let information = MeasurementInformation::from_bits(self.terms.information);
        let tells = [
            self.terms.measures(MeasurementMethod::VOLUM),
            self.terms.measures(MeasurementMethod::DURAT),
            information.contains(MeasurementInformation::MNOP),
        ];
        let before = self.before.take();
        let after = self.take_usage(now_ns);
        let is_split = before.is_some();
        let (early, events) = self.take_events();
        let mut report = |usage: Usage, events, end_ns, trigger, is_before| {
            for way in 0..2 {
                self.reported[way] += usage.octets[way];
                self.reported[2 + way] += usage.packets[way];
            }
            let sequence = self.sequence;
            self.sequence = sequence.wrapping_add(1);
            Report {
                urr_id: self.id,
                sequence,
                trigger,
                usage,
                end_ns,
                events,
                is_before,
                tells,
            }
        };
        let monitored = trigger | UsageReportTrigger::MONIT;
        let first = before.map(|usage| report(usage, early, after.start_ns, monitored, Some(true)));
        let second = report(after, events, now_ns, trigger, is_split.then_some(false));
        first.into_iter().chain([second])
    }

    /// All that was ever counted: octets uplink and downlink, packets uplink and downlink.
    pub fn counted(&self) -> [u64; 4] {
        let mut sum = self.reported;
        for usage in [Some(self.usage), self.before].into_iter().flatten() {
            for way in 0..2 {
                sum[way] += usage.octets[way];
                sum[2 + way] += usage.packets[way];
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests;
