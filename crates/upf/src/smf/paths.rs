//! GTP-U paths of the scripted SMF and gNB: what is wanted as IEs, answers that take their time,
//! reports compared.

use std::net::IpAddr;

use catena_wire::pfcp::value::flags::{GtpUPathInterfaceType, QosReportTrigger};
use catena_wire::pfcp::value::forwarding::TrafficClass;
use catena_wire::pfcp::value::node::Timer;
use catena_wire::pfcp::value::{Milliseconds, Seconds};
use catena_wire::pfcp::{Full, Group, IeType, MessageType, Refusal, Writer, key};

use super::scenario::PathTrigger;
use super::scenario::{EchoRule, Expect, PathDelays, PathInterface, PathReport, PathRule};
use super::{Player, RECOVERY, requests, wire};
use crate::echoes::remote_peer;

/// Writes what an SMF wants to know of paths: an IE of null length if that is nothing.
pub(super) fn controls(writer: &mut Writer<'_>, rules: &[PathRule]) -> Result<(), Full> {
    let group = IeType::GTP_U_PATH_QOS_CONTROL_INFORMATION;
    if rules.is_empty() {
        return writer.group(group, |_| Ok(()));
    }
    let mut rules = rules.iter();
    rules.try_for_each(|rule| writer.group(group, |writer| control(writer, rule)))
}

fn control(writer: &mut Writer<'_>, rule: &PathRule) -> Result<(), Full> {
    for peer in &rule.peers {
        writer.put(key::REMOTE_GTP_U_PEER, &remote_peer(*peer, None))?;
    }
    let interfaces = rule.interfaces.iter().map(|one| match one {
        PathInterface::N3 => GtpUPathInterfaceType::N3,
        PathInterface::N9 => GtpUPathInterfaceType::N9,
    });
    let interfaces = interfaces.reduce(|all, one| all | one);
    writer.put_some(key::GTP_U_PATH_INTERFACE_TYPE, interfaces.as_ref())?;
    let triggers = rule.tell.iter().map(|one| match one {
        PathTrigger::Per => QosReportTrigger::PER,
        PathTrigger::Thr => QosReportTrigger::THR,
        PathTrigger::Ire => QosReportTrigger::IRE,
    });
    let triggers = triggers.reduce(|all, one| all | one);
    writer.put_some(key::QOS_REPORT_TRIGGER, triggers.as_ref())?;
    for dscp in &rule.dscps {
        let marking = TrafficClass {
            value: dscp << 2,
            mask: 0xfc,
        };
        writer.put(key::TRANSPORT_LEVEL_MARKING, &marking)?;
    }
    writer.put_some(key::MEASUREMENT_PERIOD, rule.period.map(Seconds).as_ref())?;
    let limits = rule.thresholds.unwrap_or_default();
    let [average, minimum, maximum] =
        [limits.average, limits.minimum, limits.maximum].map(|one| one.map(Milliseconds));
    writer.put_some(key::AVERAGE_PACKET_DELAY, average.as_ref())?;
    writer.put_some(key::MINIMUM_PACKET_DELAY, minimum.as_ref())?;
    writer.put_some(key::MAXIMUM_PACKET_DELAY, maximum.as_ref())?;
    writer.put_some(key::TIMER, rule.wait.map(Timer::at_least).as_ref())
}

/// The GTP-U Path QoS Reports of a message.
pub(super) fn reports(ies: &Group<'_>) -> Result<Vec<PathReport>, Refusal> {
    let all = ies.groups(IeType::GTP_U_PATH_QOS_REPORT);
    all.map(|group| report(&group)).collect()
}

fn report(group: &Group<'_>) -> Result<PathReport, Refusal> {
    let peer = group.require(key::REMOTE_GTP_U_PEER)?;
    let v4 = peer.v4.map(IpAddr::V4);
    let at = group.require(key::TIME_STAMP)?.0;
    let since = group.get(key::START_TIME)?;
    let delays = group.groups(IeType::QOS_INFORMATION).map(|one| {
        Ok(PathDelays {
            average: Some(one.require(key::AVERAGE_PACKET_DELAY)?.0),
            minimum: one.get(key::MINIMUM_PACKET_DELAY)?.map(|one| one.0),
            maximum: one.get(key::MAXIMUM_PACKET_DELAY)?.map(|one| one.0),
            dscp: one
                .get(key::TRANSPORT_LEVEL_MARKING)?
                .map(TrafficClass::dscp),
        })
    });
    let is_n9 = GtpUPathInterfaceType::N9;
    Ok(PathReport {
        peer: v4.or(peer.v6.map(IpAddr::V6)).unwrap_or([0; 4].into()),
        interface: match group.require(key::GTP_U_PATH_INTERFACE_TYPE)? == is_n9 {
            true => PathInterface::N9,
            false => PathInterface::N3,
        },
        trigger: match group.require(key::QOS_REPORT_TRIGGER)? {
            QosReportTrigger::PER => PathTrigger::Per,
            QosReportTrigger::THR => PathTrigger::Thr,
            _ => PathTrigger::Ire,
        },
        delays: delays.collect::<Result<_, Refusal>>()?,
        seconds: since.map(|since| at.wrapping_sub(since.0)),
    })
}

impl Player {
    /// The gNB, or another UPF, is asked whether it is there: whether a step has it answer.
    pub(super) fn take_echo(&mut self, upf: Option<IpAddr>, dscp: u8, sequence: u16) -> bool {
        let fits = |one: &Expect| match one {
            Expect::Echo(rule) => rule.dscp.is_none_or(|of| of == dscp),
            _ => false,
        };
        let Ok(Expect::Echo(rule)) = self.expect(fits, "an Echo Request") else {
            return false;
        };
        if rule.count > 1 {
            let count = rule.count - 1;
            self.expected
                .push_front(Expect::Echo(EchoRule { count, ..rule }));
        }
        let answer = wire::echo_response(&self.scenario, upf, sequence);
        // Frames come in front of the turn that has their time.
        let after_ns = rule.after.map_or(0, |after| after.ns);
        self.asked.push((after_ns, answer));
        true
    }

    /// Has what was to come later and is due come with the next frames.
    pub(super) fn take_due(&mut self, now_ns: u64) {
        let asked = self.asked.drain(..);
        self.later
            .extend(asked.map(|(after_ns, frame)| (now_ns.saturating_add(after_ns), frame)));
        let due = self.later.extract_if(.., |(due_ns, _)| *due_ns <= now_ns);
        self.answers.extend(due.map(|(_, frame)| frame));
    }

    /// When the step at hand may go on, or something is due.
    pub(super) fn waits_until_ns(&self) -> u64 {
        let due = self.later.iter().map(|(due_ns, _)| *due_ns);
        due.fold(self.until_ns, u64::min)
    }

    /// An association's set-up or update with what is wanted of paths.
    pub(super) fn want_paths(&mut self, rules: &[PathRule], is_new: bool) -> Vec<Vec<u8>> {
        let smf = requests::node_id(&self.scenario);
        let (kind, recovery) = match is_new {
            true => (MessageType::ASSOCIATION_SETUP_REQUEST, Some(RECOVERY)),
            false => (MessageType::ASSOCIATION_UPDATE_REQUEST, None),
        };
        self.node_request(kind, |writer| {
            writer.put(key::NODE_ID, &smf)?;
            writer.put_some(key::RECOVERY_TIME_STAMP, recovery.as_ref())?;
            controls(writer, rules)
        })
    }
}
