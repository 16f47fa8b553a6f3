//! Envelopes and events of URRs: time that is used by intervals, and what happens now and then.
//!
//! Part of the fifth step of a packet's way through the UPF. An envelope is the time that one use
//! takes: it opens with a packet and lasts one base time interval (discrete time period, DTP), or
//! as many of them as follow each other with a packet in each, and one without any (continuous time
//! period, CTP). An event is what [`count`](Urr::count) is told to be one. Specification: TS 29.244
//! 5.2.2.2, 8.2.81, 8.2.112 to 8.2.114; TS 32.299 6.5.7. Limit: [`EVENTS_MAX`] events between two
//! reports, the last of which brings a report by itself, since each is told with its time. Those
//! that come while there is no room for that report count for quotas alone, and are told by
//! [`Counted::is_untold`](super::Counted::is_untold).

use catena_wire::pfcp::value::flags::{MeasurementMethod, ReportingTriggers, UsageReportTrigger};

use super::{SECOND_NS, seconds};
use crate::rules::{EVENTS_MAX, Urr};
use crate::stored::List;

impl Urr {
    /// Until when the envelope that is open goes on if no packet comes.
    pub(super) fn envelope_until(&self) -> Option<u64> {
        let end_ns = self.envelope_ns?;
        let base_ns = seconds(self.terms.base_interval?);
        Some(match self.terms.is_discrete {
            true => end_ns,
            false => end_ns.saturating_add(base_ns),
        })
    }

    /// Closes an envelope whose time is over; whether it did.
    pub(super) fn close_envelope(&mut self, now_ns: u64) -> bool {
        let is_over = self.envelope_until().is_some_and(|until| until <= now_ns);
        if is_over {
            self.envelope_ns = None;
        }
        is_over
    }

    /// A packet has come: it opens an envelope, or is of the one that is open, which was closed
    /// before if its time was over.
    pub(super) fn use_envelope(&mut self, now_ns: u64) {
        let Some(base_ns) = self.terms.base_interval.map(seconds) else {
            return;
        };
        match self.envelope_ns {
            None => self.envelope_ns = Some(now_ns.saturating_add(base_ns)),
            Some(end_ns) if now_ns >= end_ns => {
                self.envelope_ns = Some(end_ns.saturating_add(base_ns));
            }
            Some(_) => {}
        }
    }

    /// Takes the events since the last report: those before the monitoring time, and the others.
    pub(super) fn take_events(&mut self) -> (List<u32, EVENTS_MAX>, List<u32, EVENTS_MAX>) {
        let events = std::mem::take(&mut self.events);
        let early = usize::from(std::mem::take(&mut self.early_events));
        let all = events.as_slice();
        let of = |part: &[u32]| {
            let mut list = List::default();
            for event in part {
                list.push(*event);
            }
            list
        };
        let (early, late) = all.split_at(early.min(all.len()));
        (of(early), of(late))
    }

    /// Whether there is no room to note another event until a report is made.
    pub(super) fn has_all_events(&self) -> bool {
        self.events.as_slice().len() == EVENTS_MAX
    }

    /// Counts an event, if events are measured; gives what that reaches, and whether there is no
    /// room to note another one.
    pub(super) fn count_event(&mut self, now_ns: u64) -> (ReportingTriggers, UsageReportTrigger) {
        let mut reached = (ReportingTriggers::NONE, UsageReportTrigger::NONE);
        if !self.terms.measures(MeasurementMethod::EVENT) {
            return reached;
        }
        let second = u32::try_from(now_ns / SECOND_NS).unwrap_or(u32::MAX);
        self.events.push(second);
        self.quota_events = self.quota_events.saturating_add(1);
        let count = self.events.as_slice().len();
        let since = u32::try_from(count).unwrap_or(u32::MAX);
        let since = since.saturating_sub(self.early_events.into());
        let is = |limit: Option<u32>, count: u32| limit.is_some_and(|limit| count >= limit);
        if is(self.terms.event_threshold, since) {
            reached.0 = reached.0 | ReportingTriggers::EVETH;
        }
        if is(self.terms.event_quota, self.quota_events) && !self.is_exhausted {
            self.is_exhausted = true;
            reached.0 = reached.0 | ReportingTriggers::EVEQU;
        }
        if self.has_all_events() {
            reached.1 = UsageReportTrigger::EVETH;
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::UrrTerms;
    use crate::stored::Stored;
    use crate::usage::WallClock;

    const S: u64 = SECOND_NS;
    const CLOCK: WallClock = WallClock {
        zero_ns: 3_900_000_000 * SECOND_NS as i128,
    };

    fn urr(change: impl FnOnce(&mut UrrTerms)) -> Urr {
        let mut terms = UrrTerms {
            method: MeasurementMethod::ALL.bits(),
            triggers: ReportingTriggers::ALL.bits(),
            ..UrrTerms::NONE
        };
        change(&mut terms);
        let mut urr = Urr::new(7, terms, 0);
        urr.is_started = true;
        urr
    }

    /// Whatever comes when: time that counts is that of the envelopes, and no timer is left out.
    #[test]
    fn time_counts_while_an_envelope_is_open() {
        for (is_discrete, wanted) in [(true, [10, 20, 30, 40]), (false, [12, 25, 40, 60])] {
            let mut urr = urr(|terms| {
                (terms.is_discrete, terms.base_interval) = (is_discrete, Some(10));
            });
            for (at, wanted) in [0, 12, 25, 100].into_iter().zip(wanted) {
                while let Some(due) = urr.next_ns(at * S, CLOCK).filter(|due| *due < at * S) {
                    assert_eq!(urr.wake(due, CLOCK), UsageReportTrigger::ENVCL);
                }
                urr.count(true, 1, None, at * S);
                let next = [12, 25, 100, 200].into_iter().find(|next| *next > at);
                let mut later = urr;
                later.wake(next.unwrap_or(200) * S, CLOCK);
                let counted = later.usage.duration_ns / S;
                assert_eq!(counted, wanted, "{is_discrete} {at}");
            }
        }
    }

    /// There is no room for the report that the last of them asks for: it goes on to be asked for.
    #[test]
    fn events_behind_a_report_that_waits_are_said_to_be_untold() {
        let mut record = vec![0; Urr::LEN];
        urr(|terms| {
            terms.triggers = ReportingTriggers::EVEQU.bits();
            terms.event_quota = Some(12);
        })
        .store(&mut record);
        for at in 1..=11 {
            let counted = Urr::count_at(&mut record, (true, 1, Some(true)), at * S);
            let is_asked = counted.trigger == UsageReportTrigger::EVETH;
            assert_eq!((is_asked, counted.is_untold), (at >= 8, at > 8), "{at}");
        }
        // What is no event is none that is untold.
        let other = Urr::count_at(&mut record, (true, 1, Some(false)), 12 * S);
        assert!(!other.is_untold);
        let last = Urr::count_at(&mut record, (true, 1, Some(true)), 13 * S);
        let both = UsageReportTrigger::EVETH | UsageReportTrigger::EVEQU;
        assert_eq!((last.trigger, last.is_untold), (both, true));
        let mut urr = Urr::load(&record);
        let report = urr.report(both, 14 * S).next().unwrap();
        assert_eq!(report.events.as_slice(), [1, 2, 3, 4, 5, 6, 7, 8]);
    }

    /// There is room for the times of so many: the last of them is reason enough for a report.
    #[test]
    fn no_event_goes_untold() {
        let mut urr = urr(|terms| terms.triggers = 0);
        let mut told = 0;
        for at in 0..100 {
            let trigger = urr.count(true, 1, Some(true), at * S);
            if trigger != UsageReportTrigger::NONE {
                assert_eq!(trigger, UsageReportTrigger::EVETH);
                let report = urr.report(trigger, at * S).next().unwrap();
                let wanted: Vec<u32> = (told..=at as u32).collect();
                assert_eq!(report.events.as_slice(), wanted);
                told = at as u32 + 1;
            }
        }
        assert_eq!((told, urr.quota_events), (96, 100));
    }

    #[test]
    fn events_are_told_on_their_side_of_a_monitoring_time() {
        let mut urr = urr(|terms| {
            terms.monitoring_time = Some(CLOCK.seconds(0) + 60);
            terms.event_threshold = Some(3);
            terms.later_event_threshold = Some(2);
        });
        let mut count = |at: u64| {
            urr.wake(at * S, CLOCK);
            urr.count(true, 1, Some(true), at * S)
        };
        let eveth = UsageReportTrigger::EVETH;
        let told = [1, 2, 70, 80].map(|at| count(at) == eveth);
        assert_eq!(told, [false, false, false, true]);
        let reports: Vec<_> = urr.report(eveth, 80 * S).collect();
        let events: Vec<_> = reports.iter().map(|one| one.events.as_slice()).collect();
        assert_eq!(events, [&[1, 2], &[70, 80]]);
    }
}
