//! What was measured of a path: delays by marking, what is to be told of them, and when.
//!
//! Part of [`path_qos`](super): functions of delays and of time.

use catena_wire::pfcp::value::flags::QosReportTrigger;

use super::control::PathTerms;

/// Most delays that an event is judged by: the last ones.
pub(super) const RECENT_MAX: usize = 10;

/// Average, least and greatest delay, in microseconds.
pub(super) type Delays = [u64; 3];

/// Delays that were measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    count: u64,
    sum_us: u64,
    least_us: u64,
    greatest_us: u64,
}

impl Sums {
    fn add(&mut self, us: u64) {
        self.least_us = match self.count {
            0 => us,
            _ => self.least_us.min(us),
        };
        self.greatest_us = self.greatest_us.max(us);
        self.sum_us = self.sum_us.saturating_add(us);
        self.count += 1;
    }

    fn delays(&self) -> Option<Delays> {
        let average_us = self.sum_us.checked_div(self.count)?;
        Some([average_us, self.least_us, self.greatest_us])
    }
}

/// Packets with one DSCP.
#[derive(Debug)]
struct Marking {
    dscp: u8,
    /// Since the period began.
    period: Sums,
    /// The last delays since the last event, in microseconds.
    recent_us: Vec<u64>,
    /// When the last event was.
    event_ns: Option<u64>,
    /// It is to be told.
    event: Option<Delays>,
    /// Whether an immediate report has not been told.
    is_awaited: bool,
    /// The first delay, which is to be told.
    first_us: Option<u64>,
}

/// What is told of a path at once: why, when, since when, and delays by DSCP.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct News {
    pub(super) trigger: QosReportTrigger,
    pub(super) since_ns: Option<u64>,
    pub(super) delays: Vec<(u8, Delays)>,
}

/// A path as one association wants to know of it.
#[derive(Debug)]
pub(super) struct Monitor {
    terms: PathTerms,
    markings: Vec<Marking>,
    /// When what is told of the period began to be measured.
    since_ns: u64,
    /// When the last period ended.
    period_at_ns: u64,
    /// Whether its end is to be told.
    is_due: bool,
}

impl Monitor {
    pub(super) fn new(terms: PathTerms, dscps: &[u8], now_ns: u64) -> Self {
        let is_awaited = terms.tells(QosReportTrigger::IRE);
        let markings = dscps.iter().map(|dscp| Marking {
            dscp: *dscp,
            period: Sums::default(),
            recent_us: Vec::new(),
            event_ns: None,
            event: None,
            is_awaited,
            first_us: None,
        });
        Self {
            terms,
            markings: markings.collect(),
            since_ns: now_ns,
            period_at_ns: now_ns,
            is_due: false,
        }
    }

    /// Whether it is what these terms want.
    pub(super) fn is_of(&self, terms: &PathTerms, dscps: &[u8]) -> bool {
        let own = self.markings.iter().map(|one| &one.dscp);
        self.terms == *terms && own.eq(dscps)
    }

    /// Whether anything will come of another delay.
    pub(super) fn wants_more(&self) -> bool {
        self.terms
            .tells_any(QosReportTrigger::PER | QosReportTrigger::THR)
            || self.markings.iter().any(|one| one.is_awaited)
    }

    /// Takes a delay of packets with a DSCP; whether there is something new to tell.
    pub(super) fn take(&mut self, dscp: u8, us: u64, now_ns: u64) -> bool {
        let Some(marking) = self.markings.iter_mut().find(|one| one.dscp == dscp) else {
            return false;
        };
        marking.period.add(us);
        let mut has_news = false;
        if marking.is_awaited && marking.first_us.is_none() {
            marking.first_us = Some(us);
            has_news = true;
        }
        if self.terms.tells(QosReportTrigger::THR) {
            if marking.recent_us.len() == RECENT_MAX {
                marking.recent_us.remove(0);
            }
            marking.recent_us.push(us);
            has_news |= marking.judge(&self.terms, now_ns);
        }
        has_news
    }

    /// Time has passed: whether a period has ended of which there is something to tell.
    pub(super) fn wake(&mut self, now_ns: u64) -> bool {
        let passed_ns = now_ns.saturating_sub(self.period_at_ns);
        let Some(period_ns) = self.terms.period_ns().filter(|one| *one <= passed_ns) else {
            return false;
        };
        let whole_ns = passed_ns - passed_ns % period_ns;
        self.period_at_ns = self.period_at_ns.saturating_add(whole_ns);
        self.is_due = self.markings.iter().any(|one| one.period.count > 0);
        if !self.is_due {
            self.since_ns = self.period_at_ns;
        }
        self.is_due
    }

    /// When a period ends.
    pub(super) fn next_ns(&self) -> Option<u64> {
        let period_ns = self.terms.period_ns()?;
        Some(self.period_at_ns.saturating_add(period_ns))
    }

    /// All that there is to tell.
    pub(super) fn news(&self) -> Vec<News> {
        let of = |delays: &dyn Fn(&Marking) -> Option<Delays>| {
            let all = self.markings.iter();
            let all = all.filter_map(|one| Some((one.dscp, delays(one)?)));
            all.collect::<Vec<_>>()
        };
        let due = match self.is_due {
            true => of(&|one| one.period.delays()),
            false => Vec::new(),
        };
        let news = |trigger, since_ns, delays| News {
            trigger,
            since_ns,
            delays,
        };
        let all = [
            news(
                QosReportTrigger::IRE,
                None,
                of(&|one| one.first_us.map(|us| [us; 3])),
            ),
            news(QosReportTrigger::THR, None, of(&|one| one.event)),
            news(QosReportTrigger::PER, Some(self.since_ns), due),
        ];
        all.into_iter()
            .filter(|one| !one.delays.is_empty())
            .collect()
    }

    /// What there was to tell was told.
    pub(super) fn told(&mut self, now_ns: u64) {
        for marking in &mut self.markings {
            marking.event = None;
            if marking.first_us.take().is_some() {
                marking.is_awaited = false;
            }
            if self.is_due {
                marking.period = Sums::default();
            }
        }
        if std::mem::take(&mut self.is_due) {
            self.since_ns = now_ns;
        }
    }

    /// For `catena upf peers`: of each DSCP how many delays were measured since the period began,
    /// and their average in microseconds.
    pub(super) fn shown(&self) -> impl Iterator<Item = (u8, u64, Option<u64>)> + '_ {
        self.markings.iter().map(|one| {
            let average_us = one.period.delays().map(|[average_us, ..]| average_us);
            (one.dscp, one.period.count, average_us)
        })
    }
}

impl Marking {
    /// Whether its last delays are an event that is to be told.
    fn judge(&mut self, terms: &PathTerms, now_ns: u64) -> bool {
        let wait_ns = terms.wait_ns();
        let waits = |at_ns: u64| now_ns.saturating_sub(at_ns) < wait_ns;
        if self.event.is_some() || self.event_ns.is_some_and(waits) {
            return false;
        }
        let mut recent = Sums::default();
        self.recent_us.iter().for_each(|us| recent.add(*us));
        self.event = recent.delays().filter(|all| terms.is_exceeded(*all));
        let is_event = self.event.is_some();
        if is_event {
            self.event_ns = Some(now_ns);
            self.recent_us.clear();
        }
        is_event
    }
}
