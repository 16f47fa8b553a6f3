//! Session reporting rules: from the IEs of a request to what is monitored.
//!
//! On N4, before anything is changed. An SRR is the QoS flows that it names; what an update names
//! takes the place of all of them, and a flow of which it says nothing new goes on as it was.

use catena_wire::pfcp::value::SrrId;
use catena_wire::pfcp::value::flags::{ReportingFrequency, RequestedQosMonitoring};
use catena_wire::pfcp::value::node::FailedRuleId;
use catena_wire::pfcp::value::qos::PacketDelays;
use catena_wire::pfcp::{Cause, Group, IeType, Refusal, key};

use super::monitor::{Monitor, MonitorTerms};
use crate::model::{Fault, Session};
use crate::pdi::refuse;

const FLOWS: IeType = IeType::QOS_MONITORING_PER_QOS_FLOW_CONTROL_INFORMATION;

const fn failed(id: SrrId, offending: IeType) -> Fault {
    Fault::of_rule(FailedRuleId::Srr(id), offending)
}

/// Reads Remove SRR.
///
/// # Errors
/// One that is not there.
pub(crate) fn remove(ies: &Group<'_>, session: &mut Session) -> Result<(), Fault> {
    for group in ies.groups(IeType::REMOVE_SRR) {
        let id = group.require(key::SRR_ID)?;
        let before = session.monitors.len();
        session.monitors.retain(|one| one.srr_id != id.0);
        if session.monitors.len() == before {
            return Err(failed(id, IeType::SRR_ID));
        }
    }
    Ok(())
}

/// Reads Update SRR.
///
/// # Errors
/// Why the request is refused.
pub(crate) fn update(ies: &Group<'_>, session: &mut Session, now_ns: u64) -> Result<(), Fault> {
    for group in ies.groups(IeType::UPDATE_SRR) {
        let id = group.require(key::SRR_ID)?;
        let is_its = |one: &Monitor| one.srr_id == id.0;
        if !session.monitors.iter().any(is_its) {
            return Err(failed(id, IeType::SRR_ID));
        }
        refuse_others(&group)?;
        if !group.has(FLOWS) {
            continue;
        }
        let terms = flows(&group, id)?;
        let (own, mut others): (Vec<Monitor>, _) = std::mem::take(&mut session.monitors)
            .into_iter()
            .partition(is_its);
        others.extend(terms.into_iter().map(|terms| {
            let known = own.iter().find(|one| one.terms == terms);
            known.copied().unwrap_or(Monitor::new(id.0, terms, now_ns))
        }));
        session.monitors = others;
    }
    Ok(())
}

/// Reads Create SRR.
///
/// # Errors
/// Why the request is refused.
pub(crate) fn create(ies: &Group<'_>, session: &mut Session, now_ns: u64) -> Result<(), Fault> {
    for group in ies.groups(IeType::CREATE_SRR) {
        let id = group.require(key::SRR_ID)?;
        if session.monitors.iter().any(|one| one.srr_id == id.0) {
            return Err(failed(id, IeType::SRR_ID));
        }
        refuse_others(&group)?;
        if !group.has(FLOWS) {
            return Err(Cause::CONDITIONAL_IE_MISSING.because_of(FLOWS).into());
        }
        let terms = flows(&group, id)?.into_iter();
        let new = terms.map(|terms| Monitor::new(id.0, terms, now_ns));
        session.monitors.extend(new);
    }
    Ok(())
}

fn refuse_others(group: &Group<'_>) -> Result<(), Refusal> {
    refuse(
        group,
        &[
            IeType::ACCESS_AVAILABILITY_CONTROL_INFORMATION,
            IeType::DIRECT_REPORTING_INFORMATION,
        ],
    )
}

/// The flows of an SRR: one at least, each once.
fn flows(group: &Group<'_>, id: SrrId) -> Result<Vec<MonitorTerms>, Fault> {
    let mut all: Vec<MonitorTerms> = Vec::new();
    for group in group.groups(FLOWS) {
        let terms = terms(&group, id)?;
        for qfi in group.each(key::QFI) {
            let qfi = qfi?.0;
            if all.iter().any(|one| one.qfi == qfi) {
                return Err(failed(id, IeType::QFI));
            }
            all.push(MonitorTerms { qfi, ..terms });
        }
    }
    // One of null length names none, and removal is a request of its own.
    match all.is_empty() {
        true => Err(failed(id, FLOWS)),
        false => Ok(all),
    }
}

/// What is wanted of the flows of a group, without their QFIs.
fn terms(group: &Group<'_>, id: SrrId) -> Result<MonitorTerms, Fault> {
    let wanted = group.require(key::REQUESTED_QOS_MONITORING)?;
    if wanted.contains(RequestedQosMonitoring::GTPUPM) {
        let ie_type = IeType::REQUESTED_QOS_MONITORING;
        return Err(Cause::SERVICE_NOT_SUPPORTED.because_of(ie_type).into());
    }
    let frequency = group.require(key::REPORTING_FREQUENCY)?;
    let events = frequency.contains(ReportingFrequency::EVETT);
    let periods = frequency.contains(ReportingFrequency::PERIO);
    for (ie_type, is_used, is_needed) in [
        (IeType::PACKET_DELAY_THRESHOLDS, events, true),
        (IeType::MINIMUM_WAIT_TIME, events, false),
        (IeType::MEASUREMENT_PERIOD, periods, true),
    ] {
        match (group.has(ie_type), is_used) {
            // It would be accepted, and nothing would come of it.
            (true, false) => return Err(failed(id, ie_type)),
            (false, true) if is_needed => {
                return Err(Cause::CONDITIONAL_IE_MISSING.because_of(ie_type).into());
            }
            _ => {}
        }
    }
    let limits = group.get(key::PACKET_DELAY_THRESHOLDS)?;
    let PacketDelays {
        dl_ms,
        ul_ms,
        rp_ms,
    } = limits.unwrap_or_default().0;
    let period_s = group.get(key::MEASUREMENT_PERIOD)?.map(|one| one.0);
    if period_s == Some(0) {
        let ie_type = IeType::MEASUREMENT_PERIOD;
        return Err(Cause::MANDATORY_IE_INCORRECT.because_of(ie_type).into());
    }
    let terms = MonitorTerms {
        qfi: 0,
        wanted: wanted.bits(),
        frequency: frequency.bits(),
        thresholds_ms: [dl_ms, ul_ms, rp_ms],
        wait_s: group.get(key::MINIMUM_WAIT_TIME)?.map(|one| one.0),
        period_s,
    };
    // A limit of what is not asked for.
    let asked = terms.asked(terms.thresholds_ms).map(Option::flatten);
    match asked == terms.thresholds_ms {
        true => Ok(terms),
        false => Err(failed(id, IeType::PACKET_DELAY_THRESHOLDS)),
    }
}
