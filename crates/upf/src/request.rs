//! Requests: from the IEs of a rule to the rule.
//!
//! On N4, before anything is changed. The codec has checked lengths, mandatory and conditional IEs;
//! here stands what needs the state of the UPF: names, allocation, and what this UPF does not do.
//! What it does not do is refused with Service not supported and the IE: nothing is accepted that
//! then is not done. One function reads a rule for its creation and for its update.

use catena_wire::pfcp::value::flags::{
    ApplyAction, MeasurementMethod, QerControlIndications, ReportingTriggers, UsageReportTrigger,
};
use catena_wire::pfcp::value::forwarding::{OuterHeaderRemoval, OuterHeaders};
use catena_wire::pfcp::value::node::FailedRuleId;
use catena_wire::pfcp::value::qos::PacketRates;
use catena_wire::pfcp::value::usage::Volume;
use catena_wire::pfcp::value::{BarId, FarId, QerId, Seconds, UrrId};
use catena_wire::pfcp::{Cause, Change, Group, IeType, Place, Refusal, key};

use crate::draft::Draft;
use crate::frame;
use crate::group::TO_GROUP;
use crate::model::{Detection, Fault};
use crate::pdi::{self, refuse};
use crate::rates;
use crate::rules::{
    Bar, DELETES_CONTAINER, EVENTS_MAX, Far, Head, NONE, Qer, Urr, UrrTerms, Volumes,
};
use crate::settings::Interface;
use crate::steering;
use crate::stored::List;
use crate::switch;
use crate::usage::known_triggers;

/// Sets what a request names: removed is none.
fn set<T>(field: &mut Option<T>, change: Change<T>) {
    match change {
        Change::Keep => {}
        Change::Remove => *field = None,
        Change::Set(value) => *field = Some(value),
    }
}

fn ids<const N: usize>(
    group: &Group<'_>,
    ie_type: IeType,
    list: &mut List<u32, N>,
    each: impl Iterator<Item = Result<u32, Refusal>>,
) -> Result<(), Refusal> {
    if !group.has(ie_type) {
        return Ok(());
    }
    *list = List::default();
    // One of null length removes all of them.
    if group.find(ie_type).is_some_and(|ie| ie.value.is_empty()) {
        return Ok(());
    }
    for id in each {
        if !list.push(id?) {
            return Err(Cause::NO_RESOURCES_AVAILABLE.because_of(ie_type));
        }
    }
    Ok(())
}

/// Reads Create PDR or Update PDR.
///
/// # Errors
/// Why the request is refused.
pub fn pdr(
    group: &Group<'_>,
    detection: &mut Detection,
    head: &mut Head,
    draft: &mut Draft<'_>,
) -> Result<(), Fault> {
    refuse(
        group,
        &[
            IeType::ACTIVATE_PREDEFINED_RULES,
            IeType::DEACTIVATE_PREDEFINED_RULES,
            IeType::ACTIVATION_TIME,
            IeType::DEACTIVATION_TIME,
            IeType::MAR_ID,
            IeType::IP_MULTICAST_ADDRESSING_INFO,
            IeType::PACKET_REPLICATION_AND_DETECTION_CARRY_ON_INFORMATION,
            IeType::TRANSPORT_DELAY_REPORTING,
        ],
    )?;
    let rule = &mut detection.pdr;
    if let Change::Set(precedence) = group.change(key::PRECEDENCE)? {
        rule.precedence = precedence;
    }
    match group.change(key::OUTER_HEADER_REMOVAL)? {
        Change::Keep => {}
        Change::Remove => rule.removal = NONE,
        // Which sessions may have which is theirs to say.
        Change::Set(removal) if removal.description.name().is_some() => {
            let deletion = removal.extension_deletion.unwrap_or(0);
            let deletes = deletion & OuterHeaderRemoval::PDU_SESSION_CONTAINER != 0;
            let flag = if deletes { DELETES_CONTAINER } else { 0 };
            rule.removal = removal.description.0 | flag;
        }
        Change::Set(_) => {
            let cause = Cause::SERVICE_NOT_SUPPORTED;
            return Err(cause.because_of(IeType::OUTER_HEADER_REMOVAL).into());
        }
    }
    if let Change::Set(FarId(far_id)) = group.change(key::FAR_ID)? {
        rule.far_id = far_id;
    }
    let qers = group.each(key::QER_ID).map(|id| id.map(|QerId(id)| id));
    ids(group, IeType::QER_ID, &mut rule.qer_ids, qers)?;
    let urrs = group.each(key::URR_ID).map(|id| id.map(|UrrId(id)| id));
    ids(group, IeType::URR_ID, &mut rule.urr_ids, urrs)?;
    if let Some(pdi) = group.group(IeType::PDI) {
        pdi::read(&pdi, detection, head, draft)?;
    }
    Ok(())
}

/// Reads Create FAR or Update FAR.
///
/// # Errors
/// Why the request is refused.
pub fn far(group: &Group<'_>, rule: &mut Far, draft: &Draft<'_>) -> Result<(), Fault> {
    refuse(
        group,
        &[
            IeType::REDUNDANT_TRANSMISSION_FORWARDING_PARAMETERS,
            IeType::MBS_MULTICAST_PARAMETERS,
            IeType::ADD_MBS_UNICAST_PARAMETERS,
        ],
    )?;
    if let Change::Set(action) = group.change(key::APPLY_ACTION)? {
        let known = [
            ApplyAction::DROP,
            ApplyAction::FORW,
            ApplyAction::BUFF,
            ApplyAction::NOCP,
            ApplyAction::DUPL,
        ];
        let known = known
            .into_iter()
            .fold(ApplyAction::NONE, |all, one| all | one);
        if action.without(known) != ApplyAction::NONE {
            return Err(Cause::SERVICE_NOT_SUPPORTED
                .because_of(IeType::APPLY_ACTION)
                .into());
        }
        rule.action = action.bits();
    }
    match group.change(key::BAR_ID)? {
        Change::Keep => {}
        Change::Remove => rule.bar_id = None,
        Change::Set(BarId(id)) => rule.bar_id = Some(id),
    }
    let creation = group.group(IeType::FORWARDING_PARAMETERS);
    let update = group.group(IeType::UPDATE_FORWARDING_PARAMETERS);
    if let Some(parameters) = creation.or(update) {
        read_forwarding(&parameters, rule, draft)?;
    }
    let needs = rule.does(ApplyAction::FORW) && rule.interface == NONE;
    if needs {
        let ie_type = match group.place() {
            Place::Group(IeType::UPDATE_FAR) => IeType::UPDATE_FORWARDING_PARAMETERS,
            _ => IeType::FORWARDING_PARAMETERS,
        };
        return Err(Cause::CONDITIONAL_IE_MISSING.because_of(ie_type).into());
    }
    Ok(())
}

fn read_forwarding(group: &Group<'_>, rule: &mut Far, draft: &Draft<'_>) -> Result<(), Fault> {
    let failed = FailedRuleId::Far(FarId(rule.id));
    steering::read(group, &mut rule.policy, draft.settings)?;
    refuse(
        group,
        &[
            IeType::PROXYING,
            IeType::HEADER_ENRICHMENT,
            IeType::DATA_NETWORK_ACCESS_IDENTIFIER,
            IeType::IP_ADDRESS_AND_PORT_NUMBER_REPLACEMENT,
        ],
    )?;
    if let Change::Set(destination) = group.change(key::DESTINATION_INTERFACE)? {
        if destination.name().is_none() {
            let ie_type = IeType::DESTINATION_INTERFACE;
            return Err(Cause::MANDATORY_IE_INCORRECT.because_of(ie_type).into());
        }
        rule.destination = destination.0;
    }
    match group.change(key::NETWORK_INSTANCE)? {
        Change::Keep => {}
        Change::Remove => rule.instance = NONE,
        Change::Set(name) => {
            rule.instance = draft.settings.instance(name);
            if rule.instance == NONE {
                return Err(Fault::of_rule(failed, IeType::NETWORK_INSTANCE));
            }
        }
    }
    match group.change(key::OUTER_HEADER_CREATION)? {
        Change::Keep => {}
        Change::Remove => (rule.headers, rule.teid, rule.v4, rule.v6) = (0, 0, None, None),
        Change::Set(header) => {
            let known = [
                OuterHeaders::GTP_U_UDP_IPV4,
                OuterHeaders::GTP_U_UDP_IPV6,
                OuterHeaders::GTP_U_UDP_IPV4 | OuterHeaders::GTP_U_UDP_IPV6,
                OuterHeaders::UDP_IPV4,
                OuterHeaders::UDP_IPV6,
                OuterHeaders::IPV4,
                OuterHeaders::IPV6,
                OuterHeaders::C_TAG,
                OuterHeaders::S_TAG,
                OuterHeaders::C_TAG | OuterHeaders::S_TAG,
            ];
            if !known.contains(&header.headers) {
                let ie_type = IeType::OUTER_HEADER_CREATION;
                return Err(Cause::SERVICE_NOT_SUPPORTED.because_of(ie_type).into());
            }
            rule.headers = header.headers.bits();
            let [service, customer] = [header.s_tag, header.c_tag].map(frame::tag_control);
            let tags = u32::from(service) << 16 | u32::from(customer);
            rule.teid = header.teid.unwrap_or(tags);
            rule.port = header.port.unwrap_or(0);
            (rule.v4, rule.v6) = (header.v4, header.v6);
        }
    }
    let marking = group.change(key::TRANSPORT_LEVEL_MARKING)?;
    match marking {
        Change::Keep => {}
        Change::Remove => rule.marking = None,
        Change::Set(class) => rule.marking = Some([class.value, class.mask]),
    }
    let to = (rule.destination, rule.instance);
    let interface = steering::interface_to(rule.policy, to, draft.settings)?;
    if rule.destination == TO_GROUP {
        return switch::read(rule, draft.settings);
    }
    rule.interface = interface.ok_or(Fault::of_rule(failed, IeType::DESTINATION_INTERFACE))?;
    let out = draft.settings.interfaces.get(usize::from(rule.interface));
    choose_version(rule, out);
    // A datagram of an unstructured session has its UE's address.
    let can = rule.is_udp()
        || out.is_some_and(|out| {
            (rule.v4.is_none() || out.v4.is_some()) && (rule.v6.is_none() || out.v6.is_some())
        });
    if !can {
        return Err(Fault::of_rule(failed, IeType::OUTER_HEADER_CREATION));
    }
    Ok(())
}

/// Of a tunnel over both versions (8.2.56), one is taken: IPv4 where the interface has it.
fn choose_version(rule: &mut Far, out: Option<&Interface>) {
    if rule.v4.is_none() || rule.v6.is_none() {
        return;
    }
    let headers = match out.is_some_and(|out| out.v4.is_some()) {
        true => {
            rule.v6 = None;
            OuterHeaders::GTP_U_UDP_IPV4
        }
        false => {
            rule.v4 = None;
            OuterHeaders::GTP_U_UDP_IPV6
        }
    };
    rule.headers = headers.bits();
}

/// Reads Create QER or Update QER.
///
/// # Errors
/// Why the request is refused.
pub fn qer(group: &Group<'_>, rule: &mut Qer, draft: &Draft<'_>) -> Result<(), Fault> {
    refuse(
        group,
        &[IeType::DL_FLOW_LEVEL_MARKING, IeType::QER_INDICATIONS],
    )?;
    set(
        &mut rule.correlation,
        group.change(key::QER_CORRELATION_ID)?,
    );
    if let Change::Set(gates) = group.change(key::GATE_STATUS)? {
        (rule.ul_open, rule.dl_open) = (gates.ul_open, gates.dl_open);
    }
    let before_kbps = rule.mbr_kbps;
    for (key, field) in [
        (key::MBR, &mut rule.mbr_kbps),
        (key::GBR, &mut rule.gbr_kbps),
    ] {
        match group.change(key)? {
            Change::Keep => {}
            Change::Remove => *field = None,
            Change::Set(rates) => *field = Some([rates.ul_kbps, rates.dl_kbps]),
        }
    }
    match group.change(key::AVERAGING_WINDOW)? {
        Change::Keep => {}
        Change::Remove => rule.window_ms = None,
        Change::Set(window) => rule.window_ms = Some(window.0),
    }
    rule.go_on(before_kbps, draft.now_ns);
    read_packet_rate(group, rule)?;
    rates::read_status(group, rule, draft.now_ns, draft.clock)?;
    match group.change(key::QER_CONTROL_INDICATIONS)? {
        Change::Keep => {}
        Change::Remove => rule.tells_rate = false,
        Change::Set(flags) => rule.tells_rate = flags.contains(QerControlIndications::RCSR),
    }
    match group.change(key::QFI)? {
        Change::Keep => {}
        Change::Remove => rule.qfi = None,
        Change::Set(qfi) => rule.qfi = Some(qfi.0),
    }
    match group.change(key::RQI)? {
        Change::Keep => {}
        Change::Remove => rule.rqi = false,
        Change::Set(rqi) => rule.rqi = rqi.0 != 0,
    }
    match group.change(key::PAGING_POLICY_INDICATOR)? {
        Change::Keep => {}
        Change::Remove => rule.ppi = None,
        Change::Set(ppi) => rule.ppi = Some(ppi.0),
    }
    Ok(())
}

fn read_packet_rate(group: &Group<'_>, rule: &mut Qer) -> Result<(), Refusal> {
    let rates = match group.change(key::PACKET_RATE)? {
        Change::Keep => return Ok(()),
        Change::Remove => PacketRates::default(),
        Change::Set(rates) => rates,
    };
    // Nothing in a packet says that it is an exceptional report.
    if rates.additional.is_some() {
        return Err(Cause::SERVICE_NOT_SUPPORTED.because_of(IeType::PACKET_RATE));
    }
    rule.ul_packets.set(rates.ul);
    rule.dl_packets.set(rates.dl);
    rule.counts_packets = rates.ul.is_some() || rates.dl.is_some();
    Ok(())
}

fn set_volumes(field: &mut Volumes, change: Change<Volume>) -> bool {
    match change {
        Change::Keep => return false,
        Change::Remove => *field = Volumes::NONE,
        Change::Set(Volume { total, ul, dl }) => *field = Volumes { total, ul, dl },
    }
    true
}

fn set_seconds(field: &mut Option<u32>, change: Change<Seconds>) -> bool {
    match change {
        Change::Keep => return false,
        Change::Remove => *field = None,
        Change::Set(Seconds(seconds)) => *field = Some(seconds),
    }
    true
}

/// Reads Create URR or Update URR.
///
/// # Errors
/// Why the request is refused.
pub fn urr(group: &Group<'_>, rule: &mut Urr, now_ns: u64) -> Result<(), Fault> {
    refuse(
        group,
        &[
            IeType::AGGREGATED_URRS,
            IeType::ADDITIONAL_MONITORING_TIME,
            IeType::NUMBER_OF_REPORTS,
            IeType::ETHERNET_INACTIVITY_TIMER,
            IeType::USER_PLANE_INACTIVITY_TIMER,
            IeType::FAR_ID,
        ],
    )?;
    let linked = group
        .each(key::LINKED_URR_ID)
        .map(|id| id.map(|UrrId(id)| id));
    ids(group, IeType::LINKED_URR_ID, &mut rule.linked, linked)?;
    rule.settle(now_ns);
    let is_granted = read_terms(group, &mut rule.terms)?;
    if is_granted {
        rule.grant(now_ns);
    }
    if rule.terms.base_interval.is_none() {
        rule.envelope_ns = None;
    }
    rule.note_time_reached();
    if group.has(IeType::MEASUREMENT_PERIOD) {
        rule.period_at_ns = now_ns;
    }
    // What an earlier monitoring time has divided is told before another one divides it.
    if group.has(IeType::MONITORING_TIME) && rule.before.is_some() {
        rule.untold |= UsageReportTrigger::MONIT.bits();
    }
    Ok(())
}

/// Reads the terms of a URR; whether quotas are among them.
fn read_terms(group: &Group<'_>, terms: &mut UrrTerms) -> Result<bool, Fault> {
    let unsupported = |ie_type| Cause::SERVICE_NOT_SUPPORTED.because_of(ie_type);
    if let Change::Set(method) = group.change(key::MEASUREMENT_METHOD)? {
        terms.method = method.bits();
    }
    if let Change::Set(triggers) = group.change(key::REPORTING_TRIGGERS)? {
        if triggers.without(known_triggers()).count() > 0 {
            return Err(unsupported(IeType::REPORTING_TRIGGERS).into());
        }
        terms.triggers = triggers.bits();
    }
    match group.change(key::MEASUREMENT_INFORMATION)? {
        Change::Keep => {}
        Change::Remove => terms.information = 0,
        Change::Set(information) => terms.information = information.bits(),
    }
    set_volumes(
        &mut terms.volume_threshold,
        group.change(key::VOLUME_THRESHOLD)?,
    );
    set_volumes(
        &mut terms.later_volume_threshold,
        group.change(key::SUBSEQUENT_VOLUME_THRESHOLD)?,
    );
    set_volumes(
        &mut terms.later_volume_quota,
        group.change(key::SUBSEQUENT_VOLUME_QUOTA)?,
    );
    for (key, field) in [
        (key::TIME_THRESHOLD, &mut terms.time_threshold),
        (
            key::SUBSEQUENT_TIME_THRESHOLD,
            &mut terms.later_time_threshold,
        ),
        (key::SUBSEQUENT_TIME_QUOTA, &mut terms.later_time_quota),
        (key::MEASUREMENT_PERIOD, &mut terms.period),
        (key::QUOTA_HOLDING_TIME, &mut terms.holding),
        (key::INACTIVITY_DETECTION_TIME, &mut terms.inactivity),
    ] {
        set_seconds(field, group.change(key)?);
    }
    read_events(group, terms)?;
    read_mechanism(group, terms)?;
    match group.change(key::MONITORING_TIME)? {
        Change::Keep => {}
        Change::Remove => terms.monitoring_time = None,
        Change::Set(time) => terms.monitoring_time = Some(time.0),
    }
    match group.change(key::DROPPED_DL_TRAFFIC_THRESHOLD)? {
        Change::Keep => {}
        Change::Remove => (terms.dropped_packets, terms.dropped_octets) = (None, None),
        Change::Set(limit) => {
            (terms.dropped_packets, terms.dropped_octets) = (limit.packets, limit.octets);
        }
    }
    let granted = [
        set_volumes(&mut terms.volume_quota, group.change(key::VOLUME_QUOTA)?),
        set_seconds(&mut terms.time_quota, group.change(key::TIME_QUOTA)?),
        set_seconds(&mut terms.validity, group.change(key::QUOTA_VALIDITY_TIME)?),
        group.has(IeType::EVENT_QUOTA),
    ];
    // Envelopes are of time.
    if terms.base_interval.is_some() && !terms.measures(MeasurementMethod::DURAT) {
        return Err(unsupported(IeType::TIME_QUOTA_MECHANISM).into());
    }
    // Nothing would ever close.
    let closes = terms.wants(ReportingTriggers::ENVCL);
    if closes && terms.base_interval.is_none() {
        let ie_type = IeType::TIME_QUOTA_MECHANISM;
        return Err(Cause::CONDITIONAL_IE_MISSING.because_of(ie_type).into());
    }
    Ok(granted.contains(&true))
}

fn read_events(group: &Group<'_>, terms: &mut UrrTerms) -> Result<(), Refusal> {
    for (key, field) in [
        (key::EVENT_THRESHOLD, &mut terms.event_threshold),
        (key::EVENT_QUOTA, &mut terms.event_quota),
        (
            key::SUBSEQUENT_EVENT_THRESHOLD,
            &mut terms.later_event_threshold,
        ),
        (key::SUBSEQUENT_EVENT_QUOTA, &mut terms.later_event_quota),
    ] {
        set(field, group.change(key)?);
        // Each event is told with its time, of which there is room for so many.
        let is_limit = key.ie_type() == IeType::EVENT_THRESHOLD
            || key.ie_type() == IeType::SUBSEQUENT_EVENT_THRESHOLD;
        let most = u32::try_from(EVENTS_MAX).unwrap_or(u32::MAX);
        if is_limit && field.is_some_and(|count| count > most) {
            return Err(Cause::NO_RESOURCES_AVAILABLE.because_of(key.ie_type()));
        }
    }
    Ok(())
}

/// Time Quota Mechanism: how time is used, by which an envelope opens and closes.
fn read_mechanism(group: &Group<'_>, terms: &mut UrrTerms) -> Result<(), Refusal> {
    match group.change(key::TIME_QUOTA_MECHANISM)? {
        Change::Keep => {}
        Change::Remove => terms.base_interval = None,
        Change::Set(mechanism) => {
            if mechanism.interval_type > 1 || mechanism.interval == 0 {
                let cause = Cause::SERVICE_NOT_SUPPORTED;
                return Err(cause.because_of(IeType::TIME_QUOTA_MECHANISM));
            }
            terms.is_discrete = mechanism.interval_type == 1;
            terms.base_interval = Some(mechanism.interval);
        }
    }
    Ok(())
}

/// Reads Create BAR or Update BAR.
///
/// # Errors
/// Why the request is refused.
pub fn bar(group: &Group<'_>, rule: &mut Bar) -> Result<(), Fault> {
    refuse(group, &[IeType::MT_EDT_CONTROL_INFORMATION])?;
    match group.change(key::DOWNLINK_DATA_NOTIFICATION_DELAY)? {
        Change::Keep => {}
        Change::Remove => rule.delay = 0,
        Change::Set(delay) => rule.delay = delay.0,
    }
    set(
        &mut rule.suggested,
        group.change(key::SUGGESTED_BUFFERING_PACKETS_COUNT)?,
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;
    use crate::config::switch;

    #[test]
    fn of_a_tunnel_over_both_versions_the_interfaces_own_is_taken() {
        let both = Far {
            headers: (OuterHeaders::GTP_U_UDP_IPV4 | OuterHeaders::GTP_U_UDP_IPV6).bits(),
            v4: Some(Ipv4Addr::new(10, 3, 0, 9)),
            v6: Some(Ipv6Addr::LOCALHOST),
            ..Far::empty(1)
        };
        for (v4, headers) in [
            (
                Some(Ipv4Addr::new(10, 3, 0, 1)),
                OuterHeaders::GTP_U_UDP_IPV4,
            ),
            (None, OuterHeaders::GTP_U_UDP_IPV6),
        ] {
            let out = Interface { v4, ..switch() };
            let mut far = both;
            choose_version(&mut far, Some(&out));
            assert_eq!(far.headers, headers.bits());
            assert_eq!(
                (far.v4.is_some(), far.v6.is_some()),
                (v4.is_some(), v4.is_none())
            );
            let once = far;
            choose_version(&mut far, Some(&out));
            assert_eq!(far, once, "one of one version stays");
        }
    }
}
