//! The end of an association, prepared: its SMF gets all usage first, and ends it then.
//!
//! On N4. Where both sides have EPFAR, and the SMF or the UPF's operator wants the end, sessions
//! end one after the other, those with usage with a last report (TEBUR, PSDBU); when all are
//! answered, the SMF is told so (URSS), and releases the association. Nothing is counted behind a
//! last report, and none is left to count behind all of them. An SMF without EPFAR is asked for the
//! release alone (SARR), as is each of a UPF with shards: all of these take no more sessions, and
//! the first one asks. Specification: TS 29.244 5.18, 6.2.7,
//! 8.2.77, 8.2.119, 8.2.120. Limit: as many at once as there are associations; sessions wait where
//! too many requests are outstanding.

use catena_wire::pfcp::value::flags::{
    AssociationReleaseRequest, AssociationUpdateRequestFlags, CpFunctionFeatures, ReportType,
    SessionReportRequestFlags, UpFunctionFeatures, UsageReportTrigger,
};
use catena_wire::pfcp::value::node::Timer;
use catena_wire::pfcp::{Cause, Group, IeType, MessageType, View, key};
use serde_json::{Value, json};

use crate::association::{ASSOCIATION_COUNT, shown};
use crate::model::Fault;
use crate::parting::{Parting, Stage};
use crate::reports::{self, cp_address};
use crate::settings::node_id_of;
use crate::transactions::{Ended, Peer, Subject};
use crate::upf::Upf;
use crate::usage::Report;

/// Slots that are looked at in a turn; one whose session ends counts as so many.
const SLOTS_AT_ONCE: u32 = 4096;
const SLOTS_OF_DONE: u32 = 16;
/// Longest Graceful Release Period that can be said, in seconds: 310 hours.
const WITHIN_S_MAX: u64 = 1_116_000;

/// What came of a session's last report.
enum Last {
    /// There is none.
    Nothing,
    /// It has nothing to say, and is gone.
    Ended,
    /// It was said in so many requests, and the session is gone.
    Said(u32),
    /// There is no room for its requests yet.
    NoRoom,
}

/// What there is to tell of a URR: usage of any kind.
fn has_usage(report: &Report) -> bool {
    let usage = &report.usage;
    usage.packets != [0; 2] || usage.duration_ns != 0 || !report.events.as_slice().is_empty()
}

/// Whether an update prepares the end of its association (PARPS).
///
/// # Errors
/// That its flags cannot be read.
pub(crate) fn is_prepared(ies: &Group<'_>) -> Result<bool, Fault> {
    let flags = ies.get(key::PFCPAUREQ_FLAGS)?;
    Ok(flags.is_some_and(|flags| flags.contains(AssociationUpdateRequestFlags::PARPS)))
}

impl Upf {
    /// Whether sessions of an association are no longer taken, since its end is prepared.
    pub(crate) fn is_parting(&self, association: u8) -> bool {
        let mut all = self.partings.iter();
        all.any(|one| one.association == association)
    }

    /// What is said of an association's state.
    pub(crate) fn shown_parting(&self, association: usize) -> &'static str {
        let mut all = self.partings.iter();
        match all.find(|one| usize::from(one.association) == association) {
            None => "associated",
            Some(one) if one.stage == Stage::Over => "to be released",
            Some(_) => "parting",
        }
    }

    /// Forgets what was prepared of an association, which has ended or begins anew.
    pub(crate) fn forget_parting(&mut self, association: usize) {
        let is_other = |one: &Parting| usize::from(one.association) != association;
        self.partings.retain(is_other);
    }

    /// An SMF prepares the end of its association.
    pub(crate) fn prepare_parting(&mut self, association: u8) {
        if self.is_enhanced(association) {
            self.begin_parting(association, false, Stage::REPORTING, 0);
        }
    }

    /// Whether both sides have EPFAR.
    fn is_enhanced(&self, association: u8) -> bool {
        let features = self.store.association(association.into()).features;
        self.features().contains(UpFunctionFeatures::EPFAR)
            && CpFunctionFeatures::from_bits(features).contains(CpFunctionFeatures::EPFAR)
    }

    /// Notes that one has begun, unless it has already; its ID.
    fn begin_parting(
        &mut self,
        association: u8,
        is_own: bool,
        stage: Stage,
        since_ns: u64,
    ) -> Option<u32> {
        let mut all = self.partings.iter_mut();
        if let Some(one) = all.find(|one| one.association == association) {
            one.is_own |= is_own;
            return None;
        }
        self.partings_begun = self.partings_begun.wrapping_add(1);
        let id = self.partings_begun;
        self.partings.push(Parting {
            id,
            association,
            is_own,
            stage,
            since_ns,
        });
        Some(id)
    }

    /// The operator wants SMFs to release their associations: that of one, by its Node ID or
    /// address, or all.
    ///
    /// # Errors
    /// That there is none, or no room to ask.
    pub(crate) fn ask_for_release(
        &mut self,
        request: &Value,
        now_ns: u64,
    ) -> Result<Value, String> {
        let whose = request["release"].as_str().unwrap_or_default();
        let within_s = match &request["within_s"] {
            Value::Null => None,
            text => {
                let seconds = text.as_u64().filter(|seconds| *seconds <= WITHIN_S_MAX);
                let seconds = seconds.and_then(|seconds| u32::try_from(seconds).ok());
                Some(seconds.ok_or("within_s is a number of seconds, 1116000 at most")?)
            }
        };
        let is_meant = |number: &usize| {
            let one = self.store.association(*number);
            let name = shown(one.name.as_slice());
            let address = one.peer().map(|peer| peer.to_string());
            one.is_some() && (whose == "all" || whose == name || Some(whose) == address.as_deref())
        };
        let meant: Vec<usize> = (0..ASSOCIATION_COUNT).filter(is_meant).collect();
        if self.settings.shard.0 > 0 {
            // The first one asks, and hears the answer, too.
            for number in meant {
                let association = u8::try_from(number).unwrap_or(u8::MAX);
                self.begin_parting(association, true, Stage::Told, now_ns);
            }
            return Ok(Value::Null);
        }
        // Of all there may be none.
        if meant.is_empty() && whose != "all" {
            return Err(format!("there is no association with {whose}"));
        }
        if self.transactions.room() < meant.len() {
            return Err("too many requests wait for answers of SMFs; ask again".to_owned());
        }
        let asked = meant.into_iter().map(|number| {
            self.ask_one(number, within_s, now_ns);
            let one = self.store.association(number);
            json!({
                "node_id": shown(one.name.as_slice()), "address": one.peer(),
                "state": self.shown_parting(number),
            })
        });
        let asked: Vec<Value> = asked.collect();
        Ok(json!({ "asked": asked }))
    }

    fn ask_one(&mut self, number: usize, within_s: Option<u32>, now_ns: u64) {
        let association = u8::try_from(number).unwrap_or(u8::MAX);
        let is_enhanced = self.is_enhanced(association);
        let Some(id) = self.begin_parting(association, true, Stage::Told, now_ns) else {
            return;
        };
        let flags = is_enhanced.then_some(AssociationUpdateRequestFlags::PARPS);
        let release = (!is_enhanced).then_some(AssociationReleaseRequest::SARR);
        let period = within_s.map(Timer::at_least);
        if !self.update_association(association, id, (flags, release, period), now_ns) {
            self.counters.unsent += 1;
            self.forget_parting(number);
        }
    }

    /// Sends an Association Update Request; false if it was not.
    fn update_association(
        &mut self,
        association: u8,
        id: u32,
        (flags, release, period): (
            Option<AssociationUpdateRequestFlags>,
            Option<AssociationReleaseRequest>,
            Option<Timer>,
        ),
        now_ns: u64,
    ) -> bool {
        let Some(peer) = self.store.association(association.into()).peer() else {
            return false;
        };
        let (name, own) = (self.settings.node_name.clone(), self.settings.node_address);
        let kind = MessageType::ASSOCIATION_UPDATE_REQUEST;
        let subject = Subject::Parting(id);
        self.request(peer, kind, None, subject, now_ns, |writer| {
            writer.put(key::NODE_ID, &node_id_of(&name, own))?;
            writer.put_some(key::PFCP_ASSOCIATION_RELEASE_REQUEST, release.as_ref())?;
            writer.put_some(key::GRACEFUL_RELEASE_PERIOD, period.as_ref())?;
            writer.put_some(key::PFCPAUREQ_FLAGS, flags.as_ref())
        })
    }

    /// An SMF has answered that its association is to end, or never has.
    pub(crate) fn heard_of_parting(&mut self, id: u32, answer: Option<&View<&[u8]>>) {
        let cause = answer.map(|view| view.ies().get(key::CAUSE).ok().flatten());
        let is_accepted = cause == Some(Some(Cause::REQUEST_ACCEPTED));
        let Some(at) = self.partings.iter().position(|one| one.id == id) else {
            return;
        };
        if !is_accepted {
            // It stays: whoever wants the end may ask again.
            self.partings.remove(at);
            return;
        }
        if self.partings[at].stage == Stage::Told {
            self.partings[at].stage = match self.is_enhanced(self.partings[at].association) {
                true => Stage::REPORTING,
                false => Stage::Over,
            };
        }
    }

    /// The answer to a request of the first shard has come here, too.
    pub(crate) fn overheard_parting(&mut self, view: &View<&[u8]>, from: Peer) {
        let mut its = self.partings.iter().filter(|one| {
            let association = self.store.association(one.association.into());
            one.stage == Stage::Told && association.speaks_from(from.address)
        });
        if let Some(id) = its.next().map(|one| one.id) {
            self.heard_of_parting(id, Some(view));
        }
    }

    /// A last report was answered. What an SMF does not take has nobody else to be told to, unless
    /// it sends it elsewhere.
    pub(crate) fn answered_farewell(
        &mut self,
        view: &View<&[u8]>,
        ended: Ended,
        id: u32,
        now_ns: u64,
    ) {
        let ies = view.ies();
        let cause = ies.get(key::CAUSE).ok().flatten();
        let goes_on =
            cause == Some(Cause::REDIRECTION_REQUESTED) && self.redirect_last(ended, &ies, now_ns);
        if goes_on {
            return;
        }
        self.counters.unanswered += u64::from(cause != Some(Cause::REQUEST_ACCEPTED));
        self.ended_farewell(id);
    }

    /// Nobody has answered a last report: another SMF of the set gets it, if there is one.
    pub(crate) fn lost_farewell(&mut self, ended: Ended, id: u32, now_ns: u64) {
        let mut all = self.partings.iter();
        let association = all.find(|one| one.id == id).map(|one| one.association);
        let goes_on = association.is_some_and(|one| self.ask_another_of(ended, one, now_ns));
        if !goes_on {
            self.ended_farewell(id);
        }
    }

    /// A last report was answered, or never will be.
    fn ended_farewell(&mut self, id: u32) {
        let mut all = self.partings.iter_mut();
        if let Some(one) = all.find(|one| one.id == id)
            && let Stage::Reporting { outstanding, .. } = &mut one.stage
        {
            *outstanding = outstanding.saturating_sub(1);
        }
    }

    /// Goes on with last reports for a turn; whether there is more to do at once.
    pub(crate) fn part(&mut self, now_ns: u64) -> bool {
        if self.partings.is_empty() {
            return false;
        }
        self.forget_unheard(now_ns);
        let mut left = SLOTS_AT_ONCE;
        let fresh = self.store.fresh();
        for at in 0..self.partings.len() {
            let one = self.partings[at];
            let Stage::Reporting {
                mut next,
                mut outstanding,
            } = one.stage
            else {
                continue;
            };
            while left > 0 && next < fresh {
                match self.last_report(one, next, now_ns) {
                    Last::Nothing => left -= 1,
                    Last::Ended => left = left.saturating_sub(SLOTS_OF_DONE),
                    Last::Said(requests) => {
                        outstanding += requests;
                        left = left.saturating_sub(SLOTS_OF_DONE);
                    }
                    Last::NoRoom => break,
                }
                next += 1;
            }
            let is_all = next >= fresh && outstanding == 0;
            self.partings[at].stage = match is_all && self.say_all_is_said(one, now_ns) {
                true => Stage::Over,
                false => Stage::Reporting { next, outstanding },
            };
        }
        left == 0
    }

    /// Of what the first shard asks, the others hear the answer, but not that none comes.
    fn forget_unheard(&mut self, now_ns: u64) {
        if self.settings.shard.0 == 0 {
            return;
        }
        let patience_ns = self.settings.t1_ns.saturating_mul(self.settings.n1.into());
        self.partings.retain(|one| {
            one.stage != Stage::Told || now_ns.saturating_sub(one.since_ns) <= patience_ns
        });
    }

    /// Tells an SMF that all usage was reported; false if there is no room yet.
    fn say_all_is_said(&mut self, one: Parting, now_ns: u64) -> bool {
        if !self.transactions.has_room() {
            return false;
        }
        // The SMF knows that it wants the release itself.
        let release = match one.is_own {
            true => AssociationReleaseRequest::SARR | AssociationReleaseRequest::URSS,
            false => AssociationReleaseRequest::URSS,
        };
        let said = (None, Some(release), None);
        self.update_association(one.association, one.id, said, now_ns)
    }

    /// Ends the session in a slot, if it is of the association: with a last report, if it has
    /// usage.
    fn last_report(&mut self, one: Parting, slot: u32, now_ns: u64) -> Last {
        let head = self.store.head(slot);
        if head.seid == 0 || head.association != one.association {
            return Last::Nothing;
        }
        if !self.transactions.has_room() {
            return Last::NoRoom;
        }
        let (Some(to), Some(session)) = (cp_address(&head), self.store.session(slot)) else {
            return Last::Nothing;
        };
        let mut urrs = session.urrs.into_iter();
        let trigger = UsageReportTrigger::TEBUR;
        let reports = urrs
            .by_ref()
            .flat_map(|mut urr| urr.report(trigger, now_ns));
        let reports: Vec<Report> = reports.filter(has_usage).collect();
        if reports.is_empty() {
            // What it would count from now on nobody would be told.
            self.counters.deleted += 1;
            self.end_session(slot, now_ns);
            return Last::Ended;
        }
        if self.transactions.room() < reports.len() {
            return Last::NoRoom;
        }
        let to = (to, head.cp_seid);
        let mut said = u32::from(self.say_farewell(one.id, to, &reports, true, now_ns));
        if said == 0 {
            // What one request has no room for goes in several.
            for (at, report) in reports.iter().enumerate() {
                let is_last = at + 1 == reports.len();
                let report = std::slice::from_ref(report);
                let is_said = self.say_farewell(one.id, to, report, is_last, now_ns);
                said += u32::from(is_said);
                self.counters.unsent += u64::from(!is_said);
            }
        }
        self.counters.deleted += 1;
        // At once: no packet may be counted behind the last report.
        self.end_session(slot, now_ns);
        Last::Said(said)
    }

    fn say_farewell(
        &mut self,
        id: u32,
        (to, cp_seid): (std::net::IpAddr, u64),
        reports: &[Report],
        is_last: bool,
        now_ns: u64,
    ) -> bool {
        let clock = self.clock;
        let kind = MessageType::SESSION_REPORT_REQUEST;
        let subject = Subject::Farewell(id);
        let is_said = self.request(to, kind, Some(cp_seid), subject, now_ns, |writer| {
            // For the reason that the flags below say (8.2.21).
            let kind = match is_last {
                true => ReportType::USAR | ReportType::UISR,
                false => ReportType::USAR,
            };
            writer.put(key::REPORT_TYPE, &kind)?;
            let group = IeType::USAGE_REPORT_REPORT;
            let mut all = reports.iter();
            all.try_for_each(|report| reports::put(writer, group, report, None, clock))?;
            let flags = is_last.then_some(SessionReportRequestFlags::PSDBU);
            writer.put_some(key::PFCPSRREQ_FLAGS, flags.as_ref())
        });
        self.counters.reports += u64::from(is_said);
        is_said
    }
}

#[cfg(test)]
mod tests;
