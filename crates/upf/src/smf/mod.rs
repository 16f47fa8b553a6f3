//! A scripted SMF, gNB and data network: plays a scenario against a UPF.
//!
//! For tests and for users who try a UPF. [`Player`] takes frames and times and gives frames; it is
//! driven in simulated time by [`simulation`], and in a chain by the port [`port`]. What comes back
//! and was not expected, and what was expected and did not come, ends the scenario with a sentence.

pub mod port;
mod requests;
pub mod scenario;
pub mod simulation;
mod users;
pub(crate) mod wire;

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, Ipv6Addr};

use catena_wire::gtpu;
use catena_wire::pfcp::value::Time;
use catena_wire::pfcp::value::address::{Allocation, FTeid};
use catena_wire::pfcp::value::flags::{CpFunctionFeatures, ReportType, UsageReportTrigger};
use catena_wire::pfcp::{Cause, Full, Group, Header, IeType, MessageType, View, Writer, key};

use crate::headers::{Outer, outer};
use crate::node::message;
use crate::reassembly::{Part, Reassembly};
use scenario::{Act, Answer, Expect, Report, Rules, Scenario, UsageReport};

/// How long a step waits for what it expects.
const PATIENCE_NS: u64 = 10_000_000_000;
/// Most fragments of the UPF that wait for others.
const PARTS: usize = 1024;
/// The start of the scripted SMF, in seconds since 1900.
const RECOVERY: Time = Time(3_900_000_000);

/// What a player wants.
#[derive(Debug, PartialEq, Eq)]
pub enum Turn {
    /// These frames go to the UPF, now.
    Send(Vec<Vec<u8>>),
    /// It waits for frames, or for this instant.
    Wait(u64),
    /// The scenario was played to its end.
    Done,
    /// Something was not as expected.
    Failed(String),
}

/// What the SMF knows of a session.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    up_seid: u64,
    teid: u32,
    ue: Option<Ipv4Addr>,
    prefix: Option<Ipv6Addr>,
}

/// Plays a scenario.
#[derive(Debug)]
pub struct Player {
    scenario: Scenario,
    /// Step at hand, counted from 0; before its act, or behind it.
    step: usize,
    has_acted: bool,
    expected: VecDeque<Expect>,
    sequence: u32,
    /// Number of the next packet that a user or host sends.
    number: u32,
    /// The session that the last request was about.
    about: Option<u64>,
    last: Vec<u8>,
    sessions: BTreeMap<u64, Known>,
    /// Answers of the SMF to requests of the UPF.
    answers: Vec<Vec<u8>>,
    /// Fragments that came from the UPF.
    parts: Reassembly<Vec<u8>>,
    until_ns: u64,
    failure: Option<String>,
}

impl Player {
    /// A scenario that has not begun.
    pub fn new(scenario: Scenario) -> Self {
        Self {
            scenario,
            step: 0,
            has_acted: false,
            expected: VecDeque::new(),
            sequence: 0,
            number: 0,
            about: None,
            last: Vec::new(),
            sessions: BTreeMap::new(),
            answers: Vec::new(),
            parts: Reassembly::new(PARTS, PATIENCE_NS),
            until_ns: 0,
            failure: None,
        }
    }

    /// How many steps were played.
    pub const fn steps(&self) -> usize {
        self.step
    }

    /// What is to be done at an instant, once all frames that have come were given to it.
    pub fn turn(&mut self, now_ns: u64) -> Turn {
        if let Some(failure) = &self.failure {
            return Turn::Failed(failure.clone());
        }
        if !self.answers.is_empty() {
            return Turn::Send(std::mem::take(&mut self.answers));
        }
        loop {
            let Some(step) = self.scenario.steps.get(self.step) else {
                return Turn::Done;
            };
            if !self.has_acted {
                self.has_acted = true;
                self.expected = step.expect.clone().into();
                self.until_ns = now_ns.saturating_add(PATIENCE_NS);
                let act = step.act.clone();
                let frames = act.map(|act| self.act(&act, now_ns));
                match frames.unwrap_or(Ok(Vec::new())) {
                    Ok(frames) if frames.is_empty() => {}
                    Ok(frames) => return Turn::Send(frames),
                    Err(failure) => return self.fail(failure),
                }
            }
            let waits = matches!(self.scenario.steps[self.step].act, Some(Act::Wait(_)));
            if waits && now_ns < self.until_ns {
                return Turn::Wait(self.until_ns);
            }
            if !self.expected.is_empty() {
                if now_ns < self.until_ns {
                    return Turn::Wait(self.until_ns);
                }
                return self.fail(format!("this did not come: {:?}", self.expected[0]));
            }
            self.step += 1;
            self.has_acted = false;
        }
    }

    fn fail(&mut self, what: String) -> Turn {
        let failure = format!("step {}: {what}", self.step + 1);
        self.failure = Some(failure.clone());
        Turn::Failed(failure)
    }

    fn act(&mut self, act: &Act, now_ns: u64) -> Result<Vec<Vec<u8>>, String> {
        let smf = requests::node_id(&self.scenario);
        Ok(match act {
            Act::Associate => self.node_request(MessageType::ASSOCIATION_SETUP_REQUEST, |writer| {
                writer.put(key::NODE_ID, &smf)?;
                writer.put(key::RECOVERY_TIME_STAMP, &RECOVERY)?;
                writer.put(key::CP_FUNCTION_FEATURES, &CpFunctionFeatures::BUNDL)
            }),
            Act::Release => self.node_request(MessageType::ASSOCIATION_RELEASE_REQUEST, |writer| {
                writer.put(key::NODE_ID, &smf)
            }),
            Act::Heartbeat => self.node_request(MessageType::HEARTBEAT_REQUEST, |writer| {
                writer.put(key::RECOVERY_TIME_STAMP, &RECOVERY)
            }),
            Act::Establish(rules) => self.session_request(rules, true)?,
            Act::Modify(rules) => self.session_request(rules, false)?,
            Act::Delete(session) => {
                let seid = self.known(*session)?.up_seid;
                self.about = Some(*session);
                let message_type = MessageType::SESSION_DELETION_REQUEST;
                self.request(message_type, Some(seid), |_| Ok(()))?
            }
            Act::Repeat => vec![self.to_n4(&self.last)],
            Act::Raw(text) => {
                let bytes = catena_flow::efsm::hex(text);
                vec![self.to_n4(&bytes.ok_or("raw is no hexadecimal")?)]
            }
            Act::Uplink(packets) => self.uplink(packets)?,
            Act::Downlink(packets) => self.downlink(packets)?,
            Act::Solicit(session) => self.solicit(*session)?,
            Act::Echo => vec![wire::echo(&self.scenario)],
            Act::ErrorIndication(teid) => vec![wire::error_indication(&self.scenario, *teid)],
            Act::Wait(span) => {
                self.until_ns = now_ns.saturating_add(span.ns);
                Vec::new()
            }
        })
    }

    fn known(&self, session: u64) -> Result<Known, String> {
        let known = self.sessions.get(&session).copied();
        known.ok_or_else(|| format!("no session {session} was established"))
    }

    fn to_n4(&self, bytes: &[u8]) -> Vec<u8> {
        let Scenario { smf, n4, .. } = self.scenario;
        let port = catena_wire::pfcp::PORT;
        wire::datagram((smf, port), (n4, port), bytes)
    }

    fn node_request(
        &mut self,
        message_type: MessageType,
        fill: impl FnOnce(&mut Writer<'_>) -> Result<(), Full>,
    ) -> Vec<Vec<u8>> {
        self.request(message_type, None, fill).unwrap_or_default()
    }

    fn request(
        &mut self,
        message_type: MessageType,
        seid: Option<u64>,
        fill: impl FnOnce(&mut Writer<'_>) -> Result<(), Full>,
    ) -> Result<Vec<Vec<u8>>, String> {
        self.sequence += 1;
        let header = Header::new(message_type, seid, self.sequence);
        self.last = message(&header, fill).map_err(|full| full.to_string())?;
        Ok(vec![self.to_n4(&self.last)])
    }

    fn session_request(&mut self, rules: &Rules, is_new: bool) -> Result<Vec<Vec<u8>>, String> {
        for rule in rules.urrs.iter().chain(&rules.update_urrs) {
            let known = requests::triggers(&rule.triggers);
            known.ok_or_else(|| format!("no such trigger: {:?}", rule.triggers))?;
        }
        self.about = Some(rules.session);
        let scenario = self.scenario.clone();
        if is_new {
            let message_type = MessageType::SESSION_ESTABLISHMENT_REQUEST;
            return self.request(message_type, Some(0), |writer| {
                requests::establishment(writer, &scenario, rules)
            });
        }
        let seid = self
            .known(rules.session)
            .map_or(rules.session, |known| known.up_seid);
        let message_type = MessageType::SESSION_MODIFICATION_REQUEST;
        self.request(message_type, Some(seid), |writer| {
            requests::modification(writer, &scenario, rules)
        })
    }

    /// A frame that came from the UPF.
    pub fn frame(&mut self, frame: &[u8]) {
        if self.failure.is_some() {
            return;
        }
        let taken = match outer(frame) {
            Outer::Udp {
                dst,
                dst_port,
                from,
                to,
                ..
            } if dst == self.scenario.smf && dst_port == catena_wire::pfcp::PORT => {
                self.message(&frame[from..to])
            }
            Outer::Udp {
                dst,
                dst_port: gtpu::PORT,
                from,
                to,
                ..
            } if dst == self.scenario.ran => self.tunnelled(&frame[from..to]),
            Outer::Part { l3, .. } => match self.join(frame, l3, 0) {
                Some(whole) => return self.frame(&wire::framed(&whole)),
                None => Ok(()),
            },
            Outer::Udp { l3, .. } | Outer::Ip { l3, .. } => {
                self.user_packet(&frame[l3..], None, None)
            }
            other => Err(format!("a frame that is none: {other:?}")),
        };
        if let Err(what) = taken {
            self.fail(what);
        }
    }

    /// Takes the first expectation that `fits`; what it is.
    fn expect(&mut self, fits: impl Fn(&Expect) -> bool, what: &str) -> Result<Expect, String> {
        let at = self.expected.iter().position(fits);
        let expected = at.and_then(|at| self.expected.remove(at));
        expected.ok_or_else(|| format!("nobody expected {what}"))
    }

    fn message(&mut self, bytes: &[u8]) -> Result<(), String> {
        let view = View::parse(bytes).map_err(|error| error.to_string())?;
        view.check()
            .map_err(|refusal| format!("{view}: {refusal}"))?;
        let header = *view.header();
        match header.message_type {
            MessageType::SESSION_REPORT_REQUEST => self.session_report(&view),
            MessageType::HEARTBEAT_REQUEST => {
                self.expect(
                    |one| matches!(one, Expect::Message(1)),
                    "a Heartbeat Request",
                )?;
                self.answer(&header, |writer| {
                    writer.put(key::RECOVERY_TIME_STAMP, &RECOVERY)
                })
            }
            _ if header.sequence == self.sequence => {
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
        if let Some(offending) = expected.offending {
            let found = ies
                .get(key::OFFENDING_IE)
                .map_err(wrong)?
                .map(|found| found.0);
            if found != Some(offending) {
                return Err(format!("offending IE {found:?} instead of {offending}"));
            }
        }
        if let Some(session) = self.about {
            self.learn(session, &ies).map_err(wrong)?;
        }
        let group = match view.header().message_type {
            MessageType::SESSION_DELETION_RESPONSE => IeType::USAGE_REPORT_DELETION,
            _ => IeType::USAGE_REPORT_MODIFICATION,
        };
        let reports: Vec<_> = ies.groups(group).collect();
        compare_reports(&reports, &expected.usage)
    }

    /// Notes what the UPF chose.
    fn learn(&mut self, session: u64, ies: &Group<'_>) -> Result<(), catena_wire::pfcp::Refusal> {
        if let Some(f_seid) = ies.get(key::F_SEID)? {
            self.sessions.entry(session).or_default().up_seid = f_seid.seid;
        }
        for created in ies.groups(IeType::CREATED_PDR) {
            let known = self.sessions.entry(session).or_default();
            if let Some(FTeid::Given { teid, .. }) = created.get(key::F_TEID)? {
                known.teid = teid;
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

    fn session_report(&mut self, view: &View<&[u8]>) -> Result<(), String> {
        let ies = view.ies();
        let kind = ies.require(key::REPORT_TYPE);
        let kind = kind.map_err(|error| error.to_string())?;
        let names = [
            ReportType::DLDR,
            ReportType::USAR,
            ReportType::ERIR,
            ReportType::UPIR,
        ];
        let mut named = names.into_iter().filter(|one| kind.contains(*one));
        let name = named
            .next()
            .map(|one| format!("{one:?}"))
            .unwrap_or_default();
        let is_it = |one: &Expect| matches!(one, Expect::Report(report) if report.kind == name);
        let expected = self.expect(is_it, &view.to_string())?;
        self.answer(view.header(), |writer| {
            writer.put(key::CAUSE, &Cause::REQUEST_ACCEPTED)
        })?;
        let Expect::Report(Report { pdr, usage, .. }) = expected else {
            return Ok(());
        };
        if let Some(pdr) = pdr {
            let group = ies.group(IeType::DOWNLINK_DATA_REPORT);
            let found = group.and_then(|group| group.get(key::PDR_ID).ok().flatten());
            if found.map(|found| found.0) != Some(pdr) {
                return Err(format!("a report of PDR {found:?} instead of {pdr}"));
            }
        }
        let reports: Vec<_> = ies.groups(IeType::USAGE_REPORT_REPORT).collect();
        compare_reports(&reports, &usage)
    }

    fn tunnelled(&mut self, bytes: &[u8]) -> Result<(), String> {
        let view = gtpu::View::parse(bytes).map_err(|error| error.to_string())?;
        let message = view.message_type();
        if message == gtpu::MessageType::G_PDU {
            let container = view.extensions().pdu_session();
            let container = container.map_err(|error| error.to_string())?;
            let qfi = container.map(|container| container.qfi());
            let teid = Some(view.teid());
            if Part::of(view.payload(), 0, view.teid()).is_none() {
                return self.user_packet(view.payload(), teid, qfi);
            }
            return match self.join(view.payload(), 0, view.teid()) {
                Some(whole) => self.user_packet(&whole, teid, qfi),
                None => Ok(()),
            };
        }
        let about = gtpu::element::Elements::new(view.payload()).error_indication();
        let teid = about.map_or(view.teid(), |(teid, _)| teid);
        let fits = |one: &Expect| match one {
            Expect::Gtpu {
                message: kind,
                teid: of,
            } => *kind == message.0 && of.is_none_or(|of| of == teid),
            _ => false,
        };
        self.expect(fits, &format!("{message} of TEID {teid}"))
            .map(drop)
    }
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
    let pairs = [
        ("ul", expected.ul, volume.ul),
        ("dl", expected.dl, volume.dl),
        ("packets", expected.packets, volume.total_packets),
        (
            "seconds",
            expected.seconds.map(u64::from),
            duration.map(|duration| duration.0.into()),
        ),
    ];
    match pairs
        .iter()
        .find(|(_, want, got)| want.is_some() && want != got)
    {
        Some((name, want, got)) => Err(format!("{name} is {got:?} instead of {want:?}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
