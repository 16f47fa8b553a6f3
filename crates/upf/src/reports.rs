//! Reports: what the UPF tells SMFs unasked.
//!
//! Behind a packet that reached a threshold, and by timers. A report is taken from its URR only if
//! a request can be sent; else usage and why it is to be told wait there, through a kill, too, and
//! go as soon as there is room. Specification: TS 29.244 7.5.8.

use std::collections::HashSet;
use std::net::IpAddr;

use catena_wire::pfcp::value::address::FTeid;
use catena_wire::pfcp::value::flags::{
    ApplyAction, ReportType, ReportingTriggers, SessionReportResponseFlags, UsageInformation,
    UsageReportTrigger,
};
use catena_wire::pfcp::value::node::DownlinkDataServiceInformation;
use catena_wire::pfcp::value::usage::VolumeMeasurement;
use catena_wire::pfcp::value::{PdrId, Seconds, Time, UrrId};
use catena_wire::pfcp::{Cause, Full, Group, IeType, MessageType, View, Writer, key};

use crate::delayed::Delayed;
use crate::model::Image;
use crate::request;
use crate::rules::{Bar, Head, Urr};
use crate::stored::Stored;
use crate::transactions::{Ended, Subject};
use crate::upf::{Release, Upf, Waiting};
use crate::usage::{Report, WallClock};

/// Writes a usage report as a group of this type; one of an application that has come or gone names
/// it.
pub(crate) fn put(
    writer: &mut Writer<'_>,
    group: IeType,
    report: &Report,
    application: Option<&[u8]>,
    clock: WallClock,
) -> Result<(), Full> {
    let Report { usage, tells, .. } = report;
    let [tells_volume, tells_time, tells_packets] = *tells;
    let time = |ns| Time(clock.seconds(ns));
    writer.group(group, |writer| {
        writer.put(key::URR_ID, &UrrId(report.urr_id))?;
        writer.put(key::UR_SEQN, &report.sequence)?;
        writer.put(key::USAGE_REPORT_TRIGGER, &report.trigger)?;
        writer.put(key::START_TIME, &time(usage.start_ns))?;
        writer.put(key::END_TIME, &time(report.end_ns))?;
        if tells_volume {
            let ([ul, dl], [ul_packets, dl_packets]) = (usage.octets, usage.packets);
            let packets = |count| tells_packets.then_some(count);
            let volume = VolumeMeasurement {
                total: Some(ul + dl),
                ul: Some(ul),
                dl: Some(dl),
                total_packets: packets(ul_packets + dl_packets),
                ul_packets: packets(ul_packets),
                dl_packets: packets(dl_packets),
            };
            writer.put(key::VOLUME_MEASUREMENT, &volume)?;
        }
        if tells_time {
            // The nearest second: timers are late by a tick, some by less than others.
            let rounded_ns = usage.duration_ns.saturating_add(500_000_000);
            let seconds = u32::try_from(rounded_ns / 1_000_000_000);
            let duration = Seconds(seconds.unwrap_or(u32::MAX));
            writer.put(key::DURATION_MEASUREMENT, &duration)?;
        }
        writer.put_some(key::TIME_OF_FIRST_PACKET, usage.first_ns.map(time).as_ref())?;
        writer.put_some(key::TIME_OF_LAST_PACKET, usage.last_ns.map(time).as_ref())?;
        let information = report.is_before.map(|is_before| match is_before {
            true => UsageInformation::BEF,
            false => UsageInformation::AFT,
        });
        writer.put_some(key::USAGE_INFORMATION, information.as_ref())?;
        for event in report.events.as_slice() {
            let event_ns = u64::from(*event) * 1_000_000_000;
            writer.put(key::TIME_STAMP, &time(event_ns))?;
        }
        application.map_or(Ok(()), |id| {
            writer.group(IeType::APPLICATION_DETECTION_INFORMATION, |writer| {
                writer.put(key::APPLICATION_ID, &id)
            })
        })
    })
}

/// Whether a report is of traffic that has come or gone.
fn begins_or_ends(trigger: UsageReportTrigger) -> bool {
    trigger.contains(UsageReportTrigger::START) || trigger.contains(UsageReportTrigger::STOPT)
}

/// The application whose packets the URR at a place counts.
fn application_of(image: &Image<'_>, urr: u8) -> Option<u64> {
    let pdrs = (0..image.pdr_count()).filter_map(|place| image.pdr(place));
    let mut its = pdrs.filter(|pdr| pdr.urrs_at.as_slice().contains(&urr));
    its.find_map(|pdr| (pdr.application != 0).then_some(pdr.application))
}

/// Where the SMF of a session is told of it.
pub(crate) fn cp_address(head: &Head) -> Option<IpAddr> {
    let v4 = head.cp_v4.map(IpAddr::V4);
    v4.or(head.cp_v6.map(IpAddr::V6))
}

impl Upf {
    /// Sends a Session Report Request; false if there is nobody to send it to, or no room, which is
    /// for the caller to count.
    pub(crate) fn report_request(
        &mut self,
        slot: u32,
        kind: ReportType,
        now_ns: u64,
        fill: impl FnOnce(&mut Writer<'_>) -> Result<(), Full>,
    ) -> bool {
        let head = self.store.head(slot);
        let Some(address) = cp_address(&head) else {
            return false;
        };
        if !self.transactions.has_room_for(head.seid) {
            return false;
        }
        let subject = Subject::Report(head.seid);
        let seid = Some(head.cp_seid);
        let message_type = MessageType::SESSION_REPORT_REQUEST;
        let is_sent = self.request(address, message_type, seid, subject, now_ns, |writer| {
            writer.put(key::REPORT_TYPE, &kind)?;
            fill(writer)
        });
        self.counters.reports += u64::from(is_sent);
        is_sent
    }

    /// There is something to report of the URR at a place, and of those that are linked to it.
    pub(crate) fn report_usage(
        &mut self,
        slot: u32,
        triggers: &[(u8, UsageReportTrigger)],
        now_ns: u64,
    ) {
        let waited = self.has_untold(slot);
        self.tell_or_note(slot, triggers, now_ns);
        if !waited && self.has_untold(slot) {
            self.note_untold(self.store.head(slot).seid);
        }
    }

    /// Reports, or has its URRs wait to; then the session is to be among those that do.
    fn tell_or_note(&mut self, slot: u32, triggers: &[(u8, UsageReportTrigger)], now_ns: u64) {
        if triggers.is_empty() {
            return;
        }
        if !self.has_room_for(slot) {
            self.wait_to_tell(slot, triggers);
            return;
        }
        let due = self.with_linked(slot, triggers);
        if !self.tell_usage(slot, &due, now_ns) {
            // What one request has no room for goes in several.
            for (place, trigger) in due {
                self.tell_one_or_note(slot, (place, trigger), now_ns);
            }
        }
        // A timer may have ended at a limit that was told only now: it is for what comes next.
        self.arm(slot, now_ns);
    }

    fn tell_one_or_note(&mut self, slot: u32, one: (u8, UsageReportTrigger), now_ns: u64) {
        if !self.has_room_for(slot) {
            self.wait_to_tell(slot, &[one]);
        } else if !self.tell_usage(slot, &[one], now_ns) {
            self.counters.unsent += 1;
            if let Some(mut image) = self.store.image(slot)
                && let Some(record) = image.record_mut::<Urr>(one.0)
            {
                Urr::forget_untold_at(record);
            }
        }
    }

    /// Whether another request about the session in a slot may be outstanding.
    pub(crate) fn has_room_for(&self, slot: u32) -> bool {
        let seid = self.store.head(slot).seid;
        self.transactions.has_room_for(seid)
    }

    fn has_untold(&mut self, slot: u32) -> bool {
        let image = self.store.image(slot);
        image.is_some_and(|image| image.has_untold())
    }

    /// What is due, and what is due of URRs that are linked to these.
    fn with_linked(
        &mut self,
        slot: u32,
        triggers: &[(u8, UsageReportTrigger)],
    ) -> Vec<(u8, UsageReportTrigger)> {
        let mut due = triggers.to_vec();
        let Some(image) = self.store.image(slot) else {
            return due;
        };
        let at_place = |(place, _): &(u8, UsageReportTrigger)| image.urr(*place);
        let ids: Vec<u32> = due.iter().filter_map(at_place).map(|urr| urr.id).collect();
        for place in 0..image.urr_count() {
            let Some(urr) = image.urr(place) else {
                continue;
            };
            let is_linked = urr.linked.as_slice().iter().any(|id| ids.contains(id));
            if is_linked && !ids.contains(&urr.id) && urr.terms.wants(ReportingTriggers::LIUSA) {
                due.push((place, UsageReportTrigger::LIUSA));
            }
        }
        due
    }

    /// Notes in its URRs what a session has to tell once there is room.
    fn wait_to_tell(&mut self, slot: u32, due: &[(u8, UsageReportTrigger)]) {
        let Some(mut image) = self.store.image(slot) else {
            return;
        };
        for (place, trigger) in due {
            if let Some(record) = image.record_mut::<Urr>(*place) {
                Urr::note_untold_at(record, *trigger);
            }
        }
    }

    /// A session's URRs have something to tell, and had not before.
    pub(crate) fn note_untold(&mut self, seid: u64) {
        // Those that ended meanwhile, or were told otherwise, are as many as others at most.
        if self.untold.len() / 2 >= self.store.slot_count() as usize {
            let (store, mut known) = (&self.store, HashSet::new());
            self.untold
                .retain(|seid| store.slot_of(*seid).is_some() && known.insert(*seid));
        }
        self.untold.push_back(seid);
    }

    /// Reports what the URRs of a session have to tell, which is theirs until a report takes it.
    fn tell_untold(&mut self, seid: u64, now_ns: u64) {
        let Some(slot) = self.store.slot_of(seid) else {
            return;
        };
        let Some(image) = self.store.image(slot) else {
            return;
        };
        let untold = (0..image.urr_count()).filter_map(|place| {
            let trigger = Urr::untold_at(image.record::<Urr>(place)?);
            (trigger != UsageReportTrigger::NONE).then_some((place, trigger))
        });
        let due: Vec<_> = untold.collect();
        self.tell_or_note(slot, &due, now_ns);
        if self.has_untold(slot) {
            self.note_untold(seid);
        }
    }

    /// Sends a report of the URRs at these places, which begin anew only once it is written; false
    /// if it was not.
    fn tell_usage(&mut self, slot: u32, due: &[(u8, UsageReportTrigger)], now_ns: u64) -> bool {
        let clock = self.clock;
        let Some(image) = self.store.image(slot) else {
            return false;
        };
        let (mut reports, mut told) = (Vec::new(), Vec::<(u8, Urr)>::new());
        for (place, trigger) in due {
            // One with two reasons has two reports, the second of what is left.
            let known = told.iter().find(|(known, _)| known == place);
            let Some(mut urr) = known.map(|(_, urr)| *urr).or_else(|| image.urr(*place)) else {
                continue;
            };
            let application = match begins_or_ends(*trigger) {
                true => application_of(&image, *place),
                false => None,
            };
            let of_it = urr.report(*trigger, now_ns);
            reports.extend(of_it.map(|report| (report, application)));
            told.retain(|(known, _)| known != place);
            told.push((*place, urr));
        }
        let named = reports.iter().map(|(report, application)| {
            let id = application.and_then(|number| self.application_id(number));
            (*report, id.map(<[u8]>::to_vec))
        });
        let named: Vec<_> = named.collect();
        let is_sent = self.report_request(slot, ReportType::USAR, now_ns, |writer| {
            let group = IeType::USAGE_REPORT_REPORT;
            let mut reports = named.iter();
            reports.try_for_each(|(report, id)| put(writer, group, report, id.as_deref(), clock))
        });
        if let Some(mut image) = self.store.image(slot).filter(|_| is_sent) {
            told.iter()
                .for_each(|(place, urr)| image.set_urr(*place, urr));
        }
        is_sent
    }

    /// The first packet of a PDR is held for a UE: its SMF is told, at once or after a delay in
    /// units of 50 ms.
    pub(crate) fn notify(
        &mut self,
        (slot, pdr_id, qfi): (u32, u16, Option<u8>),
        delay: u8,
        now_ns: u64,
    ) {
        if delay == 0 {
            self.report_downlink_data(slot, pdr_id, qfi, now_ns);
            return;
        }
        let seid = self.store.head(slot).seid;
        let one = Delayed {
            slot,
            seid,
            pdr_id,
            qfi,
        };
        self.delayed.enter(one, delay, now_ns);
    }

    /// Reports packets that are held still when their delay is over.
    pub(crate) fn notify_delayed(&mut self, now_ns: u64) {
        while let Some(one) = self.delayed.due(now_ns) {
            let is_there = self.store.slot_of(one.seid) == Some(one.slot);
            if is_there && self.is_to_be_paged(one.slot, one.pdr_id) {
                self.report_downlink_data(one.slot, one.pdr_id, one.qfi, now_ns);
            }
        }
    }

    /// Whether packets of a session are held, and its rules still want its SMF to know of those of
    /// a PDR.
    fn is_to_be_paged(&self, slot: u32, pdr_id: u16) -> bool {
        let session = self.store.session(slot);
        self.holding.contains(&slot)
            && session.is_some_and(|session| {
                let mut pdrs = session.pdrs.iter().map(|one| &one.pdr);
                let pdr = pdrs.find(|pdr| pdr.id == pdr_id);
                let mut fars = session.fars.iter();
                let far = pdr.and_then(|pdr| fars.find(|far| far.id == pdr.far_id));
                far.is_some_and(|far| far.does(ApplyAction::BUFF | ApplyAction::NOCP))
            })
    }

    /// No packet of a session is held any more.
    pub(crate) fn let_none_wait(&mut self, slot: u32) {
        self.holding.remove(&slot);
        self.delayed.forget(slot);
    }

    /// A downlink packet is held for a UE that is to be paged.
    pub(crate) fn report_downlink_data(
        &mut self,
        slot: u32,
        pdr_id: u16,
        qfi: Option<u8>,
        now_ns: u64,
    ) {
        if !self.has_room_for(slot) {
            self.wait_to_report(slot, Waiting::DownlinkData(pdr_id, qfi));
            return;
        }
        let is_sent = self.report_request(slot, ReportType::DLDR, now_ns, |writer| {
            writer.group(IeType::DOWNLINK_DATA_REPORT, |writer| {
                writer.put(key::PDR_ID, &PdrId(pdr_id))?;
                let information = qfi.map(|qfi| DownlinkDataServiceInformation {
                    paging_policy_indication: None,
                    qfi: Some(qfi),
                });
                writer.put_some(key::DOWNLINK_DATA_SERVICE_INFORMATION, information.as_ref())
            })
        });
        self.counters.unsent += u64::from(!is_sent);
    }

    /// A peer does not have the tunnel into which a session sends.
    pub(crate) fn report_error_indication(
        &mut self,
        slot: u32,
        teid: u32,
        peer: IpAddr,
        now_ns: u64,
    ) {
        let (v4, v6) = match peer {
            IpAddr::V4(address) => (Some(address), None),
            IpAddr::V6(address) => (None, Some(address)),
        };
        let is_sent = self.report_request(slot, ReportType::ERIR, now_ns, |writer| {
            writer.group(IeType::ERROR_INDICATION_REPORT, |writer| {
                writer.put(key::F_TEID, &FTeid::Given { teid, v4, v6 })
            })
        });
        self.counters.unsent += u64::from(!is_sent);
    }

    /// The timer of a session has come.
    pub(crate) fn wake_session(&mut self, slot: u32, now_ns: u64) {
        let clock = self.clock;
        let Some(mut image) = self.store.image(slot) else {
            return;
        };
        let mut triggers = Vec::new();
        for place in 0..image.urr_count() {
            let Some(mut urr) = image.urr(place) else {
                continue;
            };
            let trigger = urr.wake(now_ns, clock);
            image.set_urr(place, &urr);
            if trigger != UsageReportTrigger::NONE {
                triggers.push((place, trigger));
            }
        }
        let mut head = image.head();
        let idle_ns = head.inactivity_s.map(|s| u64::from(s) * 1_000_000_000);
        let idle = idle_ns.is_some_and(|idle_ns| {
            !head.is_inactive && now_ns.saturating_sub(head.last_packet_ns) >= idle_ns
        });
        if idle {
            head.is_inactive = true;
            image.set_head(&head);
        }
        if !triggers.is_empty() {
            self.report_usage(slot, &triggers, now_ns);
        }
        if idle {
            self.report_inactivity(slot, now_ns);
        }
        self.wake_monitors(slot, now_ns);
        self.arm(slot, now_ns);
    }

    fn report_inactivity(&mut self, slot: u32, now_ns: u64) {
        if !self.has_room_for(slot) {
            self.wait_to_report(slot, Waiting::Inactivity);
            return;
        }
        let is_sent = self.report_request(slot, ReportType::UPIR, now_ns, |_| Ok(()));
        self.counters.unsent += u64::from(!is_sent);
    }

    /// What is told once only waits for room.
    fn wait_to_report(&mut self, slot: u32, waiting: Waiting) {
        if self.unreported.len() < self.store.slot_count() as usize {
            let seid = self.store.head(slot).seid;
            self.unreported.push_back((seid, waiting));
        } else {
            self.counters.unsent += 1;
        }
    }

    /// Reports what waited for room, unless it is no longer so: usage and all else in turns.
    pub(crate) fn report_waiting(&mut self, now_ns: u64) {
        // A session that has its share of requests outstanding waits again: once around is enough.
        let turns = self.unreported.len() + self.untold.len();
        for _ in 0..turns {
            if !self.transactions.has_room() {
                return;
            }
            // Room comes one answer at a time: whose turn it is outlasts this call.
            let is_usage = match (self.unreported.is_empty(), self.untold.is_empty()) {
                (true, true) => return,
                (false, false) => self.is_usage_next,
                (is_usage, _) => is_usage,
            };
            let outstanding = self.transactions.pending();
            if is_usage {
                if let Some(seid) = self.untold.pop_front() {
                    self.tell_untold(seid, now_ns);
                }
            } else if let Some((seid, waiting)) = self.unreported.pop_front() {
                self.report_one(seid, waiting, now_ns);
            }
            // One that was told otherwise, or has ended, takes no turn.
            if self.transactions.pending() > outstanding {
                self.is_usage_next = !is_usage;
            }
        }
    }

    fn report_one(&mut self, seid: u64, waiting: Waiting, now_ns: u64) {
        let Some(slot) = self.store.slot_of(seid) else {
            return;
        };
        match waiting {
            Waiting::DownlinkData(pdr_id, qfi) if self.holding.contains(&slot) => {
                self.report_downlink_data(slot, pdr_id, qfi, now_ns);
            }
            Waiting::Inactivity if self.store.head(slot).is_inactive => {
                self.report_inactivity(slot, now_ns);
            }
            _ => {}
        }
    }

    /// Sets the timer of a session to when it is to be looked at next.
    pub(crate) fn arm(&mut self, slot: u32, now_ns: u64) {
        let clock = self.clock;
        let Some(image) = self.store.image(slot) else {
            return;
        };
        let head = image.head();
        let idle_s = head.inactivity_s.filter(|_| !head.is_inactive);
        let idle_ns = idle_s.map(|s| {
            let idle_ns = u64::from(s) * 1_000_000_000;
            head.last_packet_ns.saturating_add(idle_ns)
        });
        let urrs = (0..image.urr_count()).filter_map(|place| image.urr(place));
        let due = urrs.filter_map(|urr| urr.next_ns(now_ns, clock));
        let monitors = (0..image.monitor_count()).filter_map(|place| image.monitor(place));
        let monitors = monitors.filter_map(|one| one.next_ns(now_ns));
        let at_ns = due.chain(monitors).chain(idle_ns).min();
        self.timers.set(slot, at_ns, now_ns);
    }

    /// The answer to a usage report has come.
    pub(crate) fn reported(&mut self, view: &View<&[u8]>, ended: Ended, seid: u64, now_ns: u64) {
        let Some(slot) = self.store.slot_of(seid) else {
            return;
        };
        let ies = view.ies();
        let cause = ies.get(key::CAUSE).ok().flatten();
        if cause == Some(Cause::SESSION_CONTEXT_NOT_FOUND) {
            // Its SMF has forgotten it (TS 29.244, 7.5.9).
            self.counters.deleted += 1;
            self.end_session(slot, now_ns);
            return;
        }
        if cause == Some(Cause::REDIRECTION_REQUESTED) {
            let is_sent = self.redirect(ended, seid, &ies, now_ns);
            self.counters.unanswered += u64::from(!is_sent);
            return;
        }
        self.take_over(slot, &ies);
        self.update_bars(slot, &ies);
        let flags = ies.get(key::PFCPSRRSP_FLAGS).ok().flatten();
        let drops = flags.is_some_and(|flags| flags.contains(SessionReportResponseFlags::DROBU));
        if drops {
            self.released.push_back((slot, Release::Dropped));
        }
    }

    /// Another SMF of the set has answered, and says that the session is its own now.
    fn take_over(&mut self, slot: u32, ies: &Group<'_>) {
        let mut head = self.store.head(slot);
        if let Ok(Some(f_seid)) = ies.get(key::F_SEID)
            && let Some((v4, v6)) = self.settings.reached(f_seid.v4, f_seid.v6)
        {
            head.cp_seid = f_seid.seid;
            (head.cp_v4, head.cp_v6) = (v4, v6);
            // Its own association ends with it, not with the one before.
            let all = self.set_of(head.association.into());
            let next = self.association_at(all, v4, v6);
            head.association = next.unwrap_or(head.association);
        }
        let mut named = head;
        if crate::sets::name(ies, &mut named).is_ok() {
            head = named;
        }
        if let Some(mut image) = self.store.image(slot) {
            image.set_head(&head);
        }
    }

    /// Update BAR of a report's answer: it is for what is held next. What cannot be read says
    /// nothing, since answers are not refused; DL Buffering Duration is not advertised (DLBD).
    fn update_bars(&mut self, slot: u32, ies: &Group<'_>) {
        let Some(mut image) = self.store.image(slot) else {
            return;
        };
        for group in ies.groups(IeType::UPDATE_BAR_REPORT_RESPONSE) {
            let Ok(id) = group.require(key::BAR_ID) else {
                continue;
            };
            let its = (0..=u8::MAX).map_while(|place| Some((place, image.bar(place)?)));
            let found = its.into_iter().find(|(_, bar)| bar.id == id.0);
            let Some((place, mut bar)) = found else {
                continue;
            };
            if request::bar(&group, &mut bar).is_ok()
                && let Some(record) = image.record_mut::<Bar>(place)
            {
                bar.store(record);
            }
        }
    }
}

#[cfg(test)]
mod tests;
