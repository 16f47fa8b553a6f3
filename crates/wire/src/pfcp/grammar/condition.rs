// SPDX-License-Identifier: Apache-2.0
//! Conditions that a group itself decides: one IE of it demands another.
//!
//! Specification: the column "Condition" of TS 29.244 (R17), 7.4 and 7.5. Conditions that need the
//! state of the receiver, as those of updates, are not for a codec.

use super::{Group, Place};
use crate::pfcp::cause::Refusal;
use crate::pfcp::ie_type::IeType;
use crate::pfcp::value::flags::{ApplyAction, NodeReportType, ReportType, ReportingTriggers};
use crate::pfcp::{MessageType, key};

/// The first IE that is not there though another one demands it.
pub(super) fn missing(group: &Group<'_>) -> Result<Option<IeType>, Refusal> {
    match group.place() {
        Place::Group(IeType::CREATE_PDR) => Ok(create_pdr(group)),
        Place::Group(IeType::CREATE_FAR) => create_far(group),
        Place::Group(IeType::CREATE_URR) => create_urr(group),
        Place::Group(IeType::CREATE_MAR) => Ok(create_mar(group)),
        Place::Message(MessageType::SESSION_REPORT_REQUEST) => session_report(group),
        Place::Message(MessageType::NODE_REPORT_REQUEST) => node_report(group),
        _ => Ok(None),
    }
}

/// Those of `demands` whose condition holds and whose IE is not there.
fn first_missing(group: &Group<'_>, demands: &[(bool, IeType)]) -> Option<IeType> {
    demands
        .iter()
        .find(|(is_demanded, ie_type)| *is_demanded && !group.has(*ie_type))
        .map(|(_, ie_type)| *ie_type)
}

/// Table 7.5.2.2-1: a FAR, unless a predefined rule or a MAR brings one.
fn create_pdr(group: &Group<'_>) -> Option<IeType> {
    let has_other = group.has(IeType::ACTIVATE_PREDEFINED_RULES) || group.has(IeType::MAR_ID);
    first_missing(group, &[(!has_other, IeType::FAR_ID)])
}

/// Table 7.5.2.3-1.
fn create_far(group: &Group<'_>) -> Result<Option<IeType>, Refusal> {
    let Some(action) = group.get(key::APPLY_ACTION)? else {
        return Ok(None);
    };
    let does = |flag| action.contains(flag);
    Ok(first_missing(
        group,
        &[
            (does(ApplyAction::FORW), IeType::FORWARDING_PARAMETERS),
            (does(ApplyAction::DUPL), IeType::DUPLICATING_PARAMETERS),
            (
                does(ApplyAction::DFRT) && group.has(IeType::FORWARDING_PARAMETERS),
                IeType::REDUNDANT_TRANSMISSION_FORWARDING_PARAMETERS,
            ),
            (does(ApplyAction::FSSM), IeType::MBS_MULTICAST_PARAMETERS),
            (does(ApplyAction::MBSU), IeType::ADD_MBS_UNICAST_PARAMETERS),
        ],
    ))
}

/// Table 7.5.2.4-1: what a trigger needs to know when to report.
fn create_urr(group: &Group<'_>) -> Result<Option<IeType>, Refusal> {
    let Some(triggers) = group.get(key::REPORTING_TRIGGERS)? else {
        return Ok(None);
    };
    let by = |flag| triggers.contains(flag);
    Ok(first_missing(
        group,
        &[
            (by(ReportingTriggers::PERIO), IeType::MEASUREMENT_PERIOD),
            (by(ReportingTriggers::VOLTH), IeType::VOLUME_THRESHOLD),
            (by(ReportingTriggers::TIMTH), IeType::TIME_THRESHOLD),
            (by(ReportingTriggers::EVETH), IeType::EVENT_THRESHOLD),
            (by(ReportingTriggers::QUHTI), IeType::QUOTA_HOLDING_TIME),
            (by(ReportingTriggers::QUVTI), IeType::QUOTA_VALIDITY_TIME),
            (
                by(ReportingTriggers::DROTH),
                IeType::DROPPED_DL_TRAFFIC_THRESHOLD,
            ),
            (by(ReportingTriggers::LIUSA), IeType::LINKED_URR_ID),
        ],
    ))
}

/// Table 7.5.2.8-1: at least one access.
fn create_mar(group: &Group<'_>) -> Option<IeType> {
    let has_other = group.has(IeType::FORWARDING_ACTION_NON_3GPP);
    first_missing(group, &[(!has_other, IeType::FORWARDING_ACTION_3GPP)])
}

/// Table 7.5.8.1-1.
fn session_report(group: &Group<'_>) -> Result<Option<IeType>, Refusal> {
    let Some(reports) = group.get(key::REPORT_TYPE)? else {
        return Ok(None);
    };
    let is = |flag| reports.contains(flag);
    Ok(first_missing(
        group,
        &[
            (is(ReportType::DLDR), IeType::DOWNLINK_DATA_REPORT),
            (is(ReportType::USAR), IeType::USAGE_REPORT_REPORT),
            (is(ReportType::ERIR), IeType::ERROR_INDICATION_REPORT),
            (
                is(ReportType::TMIR),
                IeType::TSC_MANAGEMENT_INFORMATION_REPORT,
            ),
            (is(ReportType::SESR), IeType::SESSION_REPORT),
        ],
    ))
}

/// Table 7.4.5.1.1-1.
fn node_report(group: &Group<'_>) -> Result<Option<IeType>, Refusal> {
    let Some(reports) = group.get(key::NODE_REPORT_TYPE)? else {
        return Ok(None);
    };
    let is = |flag| reports.contains(flag);
    Ok(first_missing(
        group,
        &[
            (
                is(NodeReportType::UPFR),
                IeType::USER_PLANE_PATH_FAILURE_REPORT,
            ),
            (
                is(NodeReportType::UPRR),
                IeType::USER_PLANE_PATH_RECOVERY_REPORT,
            ),
            (is(NodeReportType::CKDR), IeType::CLOCK_DRIFT_REPORT),
            (is(NodeReportType::GPQR), IeType::GTP_U_PATH_QOS_REPORT),
            (is(NodeReportType::PURR), IeType::PEER_UP_RESTART_REPORT),
            (
                is(NodeReportType::VSR),
                IeType::VENDOR_SPECIFIC_NODE_REPORT_TYPE,
            ),
        ],
    ))
}
