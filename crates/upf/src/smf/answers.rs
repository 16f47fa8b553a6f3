//! Messages that come from the UPF: compared with what the scenario expects, and answered.

use std::net::IpAddr;

use catena_wire::pfcp::value::address::{Allocation, FTeid};
use catena_wire::pfcp::value::flags::{
    AssociationReleaseRequest, ReportType, SessionReportRequestFlags, UsageReportTrigger,
};
use catena_wire::pfcp::{Cause, Full, Group, Header, IeType, MessageType, View, Writer, key};

use super::scenario::{Answer, Expect, FailedRule, RateStatus, Report, UsageReport};
use super::{Player, RECOVERY, monitoring, paths, requests};
use crate::node::message;

impl Player {
    pub(super) fn message(&mut self, bytes: &[u8]) -> Result<(), String> {
        let view = View::parse(bytes).map_err(|error| error.to_string())?;
        view.check()
            .map_err(|refusal| format!("{view}: {refusal}"))?;
        let header = *view.header();
        match header.message_type {
            MessageType::SESSION_REPORT_REQUEST => self.session_report(&view),
            MessageType::NODE_REPORT_REQUEST => self.node_report(&view),
            MessageType::ASSOCIATION_UPDATE_REQUEST => self.parting(&view),
            MessageType::HEARTBEAT_REQUEST => {
                let is_it = |one: &Expect| matches!(one, Expect::Message(1));
                let expected = self.expect(is_it, "a Heartbeat Request");
                if !self.answers_heartbeats {
                    expected?;
                }
                self.answer(&header, |writer| {
                    writer.put(key::RECOVERY_TIME_STAMP, &RECOVERY)
                })
            }
            _ if self.sequence.wrapping_sub(header.sequence) < self.asked_count => {
                let is_answer = |one: &Expect| match one {
                    Expect::Answer(_) => true,
                    Expect::Message(kind) => *kind == header.message_type.0,
                    _ => false,
                };
                match self.expect(is_answer, &view.to_string())? {
                    Expect::Answer(answer) => self.take_answer(&view, &answer),
                    _ => Ok(()),
                }
            }
            MessageType(kind) => {
                let is_it = |one: &Expect| matches!(one, Expect::Message(one) if *one == kind);
                self.expect(is_it, &view.to_string()).map(drop)
            }
        }
    }

    fn answer(
        &mut self,
        request: &Header,
        fill: impl FnOnce(&mut Writer<'_>) -> Result<(), Full>,
    ) -> Result<(), String> {
        let message_type = request.message_type.response().unwrap_or(MessageType(0));
        let cp_seid = request.seid.unwrap_or(0);
        let known = self.sessions.get(&cp_seid).copied().unwrap_or_default();
        let header = Header {
            message_type,
            seid: request.seid.map(|_| known.up_seid),
            ..*request
        };
        let bytes = message(&header, fill).map_err(|full| full.to_string())?;
        let frame = self.to_n4(&bytes);
        self.answers.push(frame);
        Ok(())
    }

    fn take_answer(&mut self, view: &View<&[u8]>, expected: &Answer) -> Result<(), String> {
        let ies = view.ies();
        let wrong = |error: catena_wire::pfcp::Refusal| format!("{view}: {error}");
        // A heartbeat is answered without a cause.
        let cause = ies.get(key::CAUSE).map_err(wrong)?;
        let cause = cause.unwrap_or(Cause::REQUEST_ACCEPTED);
        if cause.0 != expected.cause {
            return Err(format!(
                "cause {} instead of {}: {view}",
                cause.0, expected.cause
            ));
        }
        let offending = ies.get(key::OFFENDING_IE).map_err(wrong)?;
        let offending = offending.map(|found| found.0);
        if offending != expected.offending {
            return Err(format!(
                "offending IE {offending:?} instead of {:?}",
                expected.offending
            ));
        }
        let failed = ies.get(key::FAILED_RULE_ID).map_err(wrong)?;
        let is_it = |rule: &FailedRule| failed.is_some_and(|failed| rule.is(failed));
        if !expected.rule.as_ref().is_none_or(is_it) {
            return Err(format!(
                "failed rule {failed:?} instead of {:?}",
                expected.rule
            ));
        }
        let load = ies.group(IeType::LOAD_CONTROL_INFORMATION);
        let load = load.map(|load| load.require(key::METRIC)).transpose();
        let load = load.map_err(wrong)?;
        if load != expected.load {
            return Err(format!("a load of {load:?} instead of {:?}", expected.load));
        }
        // Of messages that nobody made for a session it is the one that they have named.
        let named = view.header().seid.filter(|_| cause.is_accepted());
        if let Some(session) = self.about.or(named) {
            self.learn(session, &ies).map_err(wrong)?;
        }
        let group = match view.header().message_type {
            MessageType::SESSION_DELETION_RESPONSE => IeType::USAGE_REPORT_DELETION,
            _ => IeType::USAGE_REPORT_MODIFICATION,
        };
        let reports: Vec<_> = ies.groups(group).collect();
        compare_reports(&reports, &expected.usage)?;
        monitoring::compare(&ies, &expected.monitoring)?;
        let found = rates(&ies).map_err(wrong)?;
        match found == expected.rates {
            true => Ok(()),
            false => Err(format!("{found:?} instead of {:?}", expected.rates)),
        }
    }

    /// Notes what the UPF chose.
    fn learn(&mut self, session: u64, ies: &Group<'_>) -> Result<(), catena_wire::pfcp::Refusal> {
        if let Some(f_seid) = ies.get(key::F_SEID)? {
            self.sessions.entry(session).or_default().up_seid = f_seid.seid;
        }
        let n9 = self.scenario.n9;
        let endpoints = ies.groups(IeType::CREATED_TRAFFIC_ENDPOINT);
        for created in endpoints.chain(ies.groups(IeType::CREATED_PDR)) {
            let known = self.sessions.entry(session).or_default();
            if let Some(FTeid::Given { teid, v4, v6 }) = created.get(key::F_TEID)? {
                let ends = [v4.map(IpAddr::V4), v6.map(IpAddr::V6)];
                match n9.is_some() && ends.contains(&n9) {
                    true => known.n9_teid = teid,
                    false => known.teid = teid,
                }
            }
            let address = created.get(key::UE_IP_ADDRESS)?.unwrap_or_default();
            if let Some(Allocation::Given(v4)) = address.v4 {
                known.ue = Some(v4);
            }
            if let Some(Allocation::Given(v6)) = address.v6 {
                known.prefix = Some(v6);
            }
        }
        Ok(())
    }

    fn node_report(&mut self, view: &View<&[u8]>) -> Result<(), String> {
        let ies = view.ies();
        let groups = [
            (IeType::USER_PLANE_PATH_FAILURE_REPORT, true),
            (IeType::USER_PLANE_PATH_RECOVERY_REPORT, false),
        ];
        let told = groups.into_iter().find_map(|(group, is_down)| {
            let remote = ies.group(group)?.get(key::REMOTE_GTP_U_PEER).ok()??;
            let v4 = remote.v4.map(IpAddr::V4);
            Some((v4.or(remote.v6.map(IpAddr::V6))?, is_down))
        });
        let delays = paths::reports(&ies).map_err(|refusal| refusal.to_string())?;
        let is_it = |one: &Expect| match one {
            Expect::Path { peer, is_down } => told == Some((*peer, *is_down)),
            Expect::PathQos(reports) => told.is_none() && *reports == delays,
            _ => false,
        };
        self.expect(is_it, &view.to_string())?;
        self.accept(view.header())
    }

    /// Accepts a request about the node.
    fn accept(&mut self, request: &Header) -> Result<(), String> {
        let node = requests::node_id(&self.scenario);
        self.answer(request, |writer| {
            writer.put(key::NODE_ID, &node)?;
            writer.put(key::CAUSE, &Cause::REQUEST_ACCEPTED)
        })
    }

    fn parting(&mut self, view: &View<&[u8]>) -> Result<(), String> {
        let wanted = view.ies().get(key::PFCP_ASSOCIATION_RELEASE_REQUEST);
        let wanted = wanted.map_err(|refusal| refusal.to_string())?;
        let has = |flag| wanted.is_some_and(|wanted| wanted.contains(flag));
        let found = [
            AssociationReleaseRequest::URSS,
            AssociationReleaseRequest::SARR,
        ]
        .map(has);
        let is_it = |one: &Expect| match one {
            Expect::Parting {
                said_all,
                is_wanted,
            } => [*said_all, *is_wanted] == found,
            _ => false,
        };
        self.expect(is_it, &view.to_string())?;
        self.accept(view.header())
    }

    fn session_report(&mut self, view: &View<&[u8]>) -> Result<(), String> {
        let ies = view.ies();
        let kind = ies.require(key::REPORT_TYPE);
        let kind = kind.map_err(|error| error.to_string())?;
        let names = [
            ReportType::DLDR,
            ReportType::USAR,
            ReportType::ERIR,
            ReportType::UPIR,
            ReportType::SESR,
        ];
        let mut named = names.into_iter().filter(|one| kind.contains(*one));
        let name = named
            .next()
            .map(|one| format!("{one:?}"))
            .unwrap_or_default();
        let is_it = |one: &Expect| matches!(one, Expect::Report(report) if report.kind == name);
        let expected = self.expect(is_it, &view.to_string())?;
        let Expect::Report(Report {
            pdr,
            is_last,
            cause,
            usage,
            monitoring: expected_delays,
            update_bars,
            ..
        }) = expected
        else {
            return Ok(());
        };
        self.answer(view.header(), |writer| {
            writer.put(key::CAUSE, &Cause(cause))?;
            update_bars.iter().try_for_each(|rule| {
                let group = IeType::UPDATE_BAR_REPORT_RESPONSE;
                writer.group(group, |writer| requests::bar(writer, rule))
            })
        })?;
        if let Some(pdr) = pdr {
            let group = ies.group(IeType::DOWNLINK_DATA_REPORT);
            let found = group.and_then(|group| group.get(key::PDR_ID).ok().flatten());
            if found.map(|found| found.0) != Some(pdr) {
                return Err(format!("a report of PDR {found:?} instead of {pdr}"));
            }
        }
        let flags = ies.get(key::PFCPSRREQ_FLAGS).ok().flatten();
        let ends = flags.is_some_and(|flags| flags.contains(SessionReportRequestFlags::PSDBU));
        if ends != is_last {
            return Err(format!("the session's end is told: {ends}: {view}"));
        }
        let reports: Vec<_> = ies.groups(IeType::USAGE_REPORT_REPORT).collect();
        compare_reports(&reports, &usage)?;
        monitoring::compare(&ies, &expected_delays)
    }
}

/// What an answer tells of packet rates.
fn rates(ies: &Group<'_>) -> Result<Vec<RateStatus>, catena_wire::pfcp::Refusal> {
    let deletion = ies.groups(IeType::PACKET_RATE_STATUS_REPORT);
    let all = deletion.chain(ies.groups(IeType::PACKET_RATE_STATUS_REPORT_MODIFICATION));
    let one = |group: Group<'_>| {
        let status = group.require(key::PACKET_RATE_STATUS)?;
        Ok(RateStatus {
            qer: group.require(key::QER_ID)?.0,
            ul: status.ul.map(|left| left.packets),
            dl: status.dl.map(|left| left.packets),
        })
    };
    all.map(one).collect()
}

fn compare_reports(found: &[Group<'_>], expected: &[UsageReport]) -> Result<(), String> {
    if found.len() != expected.len() {
        return Err(format!(
            "{} usage reports instead of {}",
            found.len(),
            expected.len()
        ));
    }
    for (group, expected) in found.iter().zip(expected) {
        compare_report(group, expected)
            .map_err(|what| format!("the usage report of URR {}: {what}", expected.urr))?;
    }
    Ok(())
}

fn compare_report(group: &Group<'_>, expected: &UsageReport) -> Result<(), String> {
    let wrong = |error: catena_wire::pfcp::Refusal| error.to_string();
    let urr = group.require(key::URR_ID).map_err(wrong)?.0;
    let trigger: UsageReportTrigger = group.require(key::USAGE_REPORT_TRIGGER).map_err(wrong)?;
    let trigger = format!("{trigger:?}");
    let has = |name: &String| trigger.split('|').any(|one| one == name);
    if urr != expected.urr || !expected.trigger.as_ref().is_none_or(has) {
        return Err(format!("it is of URR {urr}, by {trigger}"));
    }
    let volume = group
        .get(key::VOLUME_MEASUREMENT)
        .map_err(wrong)?
        .unwrap_or_default();
    let duration = group.get(key::DURATION_MEASUREMENT).map_err(wrong)?;
    let detected = group.group(IeType::APPLICATION_DETECTION_INFORMATION);
    let detected = detected.map(|group| group.require(key::APPLICATION_ID));
    let detected = detected.transpose().map_err(wrong)?;
    if detected != expected.application.as_ref().map(String::as_bytes) {
        return Err(format!("it is of application {detected:?}"));
    }
    let events = group.each(key::TIME_STAMP).count() as u64;
    let pairs = [
        ("ul", expected.ul, volume.ul),
        ("dl", expected.dl, volume.dl),
        ("packets", expected.packets, volume.total_packets),
        (
            "seconds",
            expected.seconds.map(u64::from),
            duration.map(|duration| duration.0.into()),
        ),
        ("events", expected.events, Some(events)),
    ];
    match pairs
        .iter()
        .find(|(_, want, got)| want.is_some() && want != got)
    {
        Some((name, want, got)) => Err(format!("{name} is {got:?} instead of {want:?}")),
        None => Ok(()),
    }
}
