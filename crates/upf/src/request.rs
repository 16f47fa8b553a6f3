//! Requests: from the IEs of a rule to the rule.
//!
//! On N4, before anything is changed. The codec has checked lengths, mandatory and conditional IEs;
//! here stands what needs the state of the UPF: names, allocation, and what this UPF does not do.
//! What it does not do is refused with Service not supported and the IE: nothing is accepted that
//! then is not done. One function reads a rule for its creation and for its update.

use catena_wire::pfcp::value::address::{Allocation, FTeid, UeIpAddress};
use catena_wire::pfcp::value::flags::{ApplyAction, MeasurementMethod, UsageReportTrigger};
use catena_wire::pfcp::value::forwarding::OuterHeaders;
use catena_wire::pfcp::value::node::FailedRuleId;
use catena_wire::pfcp::value::usage::Volume;
use catena_wire::pfcp::value::{BarId, FarId, PdrId, QerId, Seconds, UrrId};
use catena_wire::pfcp::{Cause, Change, Group, IeType, Refusal, key};

use crate::application;
use crate::draft::Draft;
use crate::model::{Detection, Fault};
use crate::routes::Route;
use crate::rules::{Bar, Far, Head, NONE, Pdr, Qer, Urr, UrrTerms, Volumes};
use crate::sdf::{Filter, parse_flow};
use crate::stored::List;
use crate::usage::known_triggers;

/// Service not supported, if one of these IEs is there.
pub(crate) fn refuse(group: &Group<'_>, unsupported: &[IeType]) -> Result<(), Refusal> {
    match unsupported.iter().find(|ie_type| group.has(**ie_type)) {
        Some(ie_type) => Err(Cause::SERVICE_NOT_SUPPORTED.because_of(*ie_type)),
        None => Ok(()),
    }
}

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
        // GTP-U of either version, and any; the rest are other kinds of tunnels.
        Change::Set(removal) if matches!(removal.description.0, 0 | 1 | 6) => {
            rule.removal = removal.description.0;
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
        read_pdi(&pdi, detection, head, draft)?;
    }
    Ok(())
}

fn read_pdi(
    pdi: &Group<'_>,
    detection: &mut Detection,
    head: &mut Head,
    draft: &mut Draft<'_>,
) -> Result<(), Fault> {
    refuse(
        pdi,
        &[
            IeType::LOCAL_INGRESS_TUNNEL,
            IeType::REDUNDANT_TRANSMISSION_PARAMETERS,
            IeType::ETHERNET_PDU_SESSION_INFORMATION,
            IeType::ETHERNET_PACKET_FILTER,
            IeType::IP_MULTICAST_ADDRESSING_INFO,
            IeType::DNS_QUERY_FILTER,
            IeType::MBS_SESSION_IDENTIFIER,
        ],
    )?;
    let rule = &mut detection.pdr;
    let failed = FailedRuleId::Pdr(PdrId(rule.id));
    let source = pdi.require(key::SOURCE_INTERFACE)?;
    if source.name().is_none() {
        return Err(Cause::MANDATORY_IE_INCORRECT
            .because_of(IeType::SOURCE_INTERFACE)
            .into());
    }
    rule.source_interface = source.0;
    rule.application = application::of_pdi(pdi, draft.applications, failed)?;
    rule.endpoint = read_endpoint(pdi, failed)?;
    rule.instance = NONE;
    if let Some(name) = pdi.get(key::NETWORK_INSTANCE)? {
        rule.instance = draft.settings.instance(name);
        if rule.instance == NONE {
            return Err(Fault::of_rule(failed, IeType::NETWORK_INSTANCE));
        }
    }
    (rule.ue_v4, rule.ue_v6) = (None, None);
    if let Some(address) = pdi.get(key::UE_IP_ADDRESS)? {
        read_ue_address(pdi, &address, rule, head, draft)?;
    }
    match pdi.get(key::F_TEID)? {
        Some(f_teid) => read_f_teid(&f_teid, rule, draft)?,
        None => (rule.teid, rule.is_teid_ours) = (0, false),
    }
    rule.qfis = read_qfis(pdi)?;
    detection.routes = read_routes(pdi, (rule.id, None), draft)?;
    detection.filters.clear();
    for filter in pdi.each(key::SDF_FILTER) {
        let filter = filter?;
        let mut read = match filter.flow_description {
            None => Filter::all(),
            Some(text) => {
                parse_flow(text).map_err(|_| Fault::of_rule(failed, IeType::SDF_FILTER))?
            }
        };
        read.traffic_class = filter.traffic_class.map(|class| [class.value, class.mask]);
        read.spi = filter.spi;
        read.flow_label = filter.flow_label;
        read.filter_id = filter.filter_id;
        detection.filters.push(read);
    }
    Ok(())
}

/// The Traffic Endpoint that a PDI names, which then says nothing itself of what an endpoint is.
fn read_endpoint(pdi: &Group<'_>, failed: FailedRuleId) -> Result<Option<u8>, Fault> {
    let mut named = pdi.each(key::TRAFFIC_ENDPOINT_ID);
    let Some(first) = named.next() else {
        return Ok(None);
    };
    if named.next().is_some() {
        let cause = Cause::SERVICE_NOT_SUPPORTED;
        return Err(cause.because_of(IeType::TRAFFIC_ENDPOINT_ID).into());
    }
    let others = [
        IeType::F_TEID,
        IeType::NETWORK_INSTANCE,
        IeType::UE_IP_ADDRESS,
        IeType::FRAMED_ROUTE,
        IeType::FRAMED_ROUTING,
        IeType::FRAMED_IPV6_ROUTE,
    ];
    match others.into_iter().find(|ie_type| pdi.has(*ie_type)) {
        Some(ie_type) => Err(Fault::of_rule(failed, ie_type)),
        None => Ok(Some(first?.0)),
    }
}

/// QFIs of a PDI or Traffic Endpoint, one bit each.
pub(crate) fn read_qfis(group: &Group<'_>) -> Result<u64, Refusal> {
    let mut qfis = group.each(key::QFI);
    qfis.try_fold(0, |all, qfi| Ok(all | 1 << (qfi?.0 & 0x3f)))
}

/// Framed routes of a PDI or Traffic Endpoint: of the PDR of this ID, or of this endpoint.
pub(crate) fn read_routes(
    pdi: &Group<'_>,
    (id, endpoint): (u16, Option<u8>),
    draft: &Draft<'_>,
) -> Result<Vec<Route>, Fault> {
    let mut routes = Vec::new();
    // What goes to a network behind a UE says nothing of its shard.
    if draft.settings.shard.1 > 1 {
        refuse(pdi, &[IeType::FRAMED_ROUTE, IeType::FRAMED_IPV6_ROUTE])?;
    }
    // Routing protocols with UEs are not spoken.
    if pdi.get(key::FRAMED_ROUTING)?.is_some_and(|kind| kind != 0) {
        refuse(pdi, &[IeType::FRAMED_ROUTING])?;
    }
    for (key, is_v6) in [(key::FRAMED_ROUTE, false), (key::FRAMED_IPV6_ROUTE, true)] {
        for text in pdi.each(key) {
            let fault = Fault::of_rule(FailedRuleId::Pdr(PdrId(id)), key.ie_type());
            let route = Route::parse(id, text?, is_v6).ok_or(fault)?;
            let route = Route { endpoint, ..route };
            if !routes.contains(&route) {
                routes.push(route);
            }
        }
    }
    Ok(routes)
}

/// Reads the F-TEID of a PDI or Traffic Endpoint into a PDR that knows its interface.
pub(crate) fn read_f_teid(
    f_teid: &FTeid,
    rule: &mut Pdr,
    draft: &mut Draft<'_>,
) -> Result<(), Fault> {
    let interface = draft
        .settings
        .interface_from(rule.source_interface, rule.instance);
    let failed = FailedRuleId::Pdr(PdrId(rule.id));
    let interface = interface.ok_or(Fault::of_rule(failed, IeType::F_TEID))?;
    match *f_teid {
        FTeid::Given { teid, v4, v6 } => {
            let is_ours = v4.is_none_or(|v4| interface.v4 == Some(v4))
                && v6.is_none_or(|v6| interface.v6 == Some(v6));
            if teid == 0 || !is_ours {
                return Err(Fault::of_rule(failed, IeType::F_TEID));
            }
            (rule.teid, rule.is_teid_ours) = (teid, false);
        }
        FTeid::Choose { v4, v6, choose_id } => {
            if v4 && interface.v4.is_none() || v6 && interface.v6.is_none() {
                return Err(Fault::of_rule(failed, IeType::F_TEID));
            }
            let teid = draft.teid(choose_id);
            rule.teid = teid.ok_or(Cause::NO_RESOURCES_AVAILABLE.because_of(IeType::F_TEID))?;
            rule.is_teid_ours = true;
        }
    }
    Ok(())
}

/// Reads the UE IP Address of a PDI or Traffic Endpoint into a PDR that knows its interface.
pub(crate) fn read_ue_address(
    pdi: &Group<'_>,
    address: &UeIpAddress,
    rule: &mut Pdr,
    head: &mut Head,
    draft: &mut Draft<'_>,
) -> Result<(), Fault> {
    let failed = FailedRuleId::Pdr(PdrId(rule.id));
    let delegates = address.prefix_delegation_bits.is_some_and(|bits| bits > 0);
    let is_long = address.prefix_len.is_some_and(|len| len != 64);
    if delegates || is_long {
        return Err(Cause::SERVICE_NOT_SUPPORTED
            .because_of(IeType::UE_IP_ADDRESS)
            .into());
    }
    let pool = pdi
        .get(key::UE_IP_ADDRESS_POOL_IDENTITY)?
        .map(|pool| pool.0);
    let is_occupied = Cause::ALL_DYNAMIC_ADDRESSES_ARE_OCCUPIED.because_of(IeType::UE_IP_ADDRESS);
    rule.ue_v4 = match (address.v4, head.ue_v4) {
        (None, _) => None,
        (Some(Allocation::Choose), Some(own)) => Some(own),
        (Some(Allocation::Choose), None) => {
            Some(draft.ue_v4(rule.instance, pool).ok_or(is_occupied)?)
        }
        (Some(Allocation::Given(given)), own) if own.is_none_or(|own| own == given) => Some(given),
        _ => return Err(Fault::of_rule(failed, IeType::UE_IP_ADDRESS)),
    };
    let prefix = |address: std::net::Ipv6Addr| address.to_bits() >> 64;
    rule.ue_v6 = match (address.v6, head.ue_v6) {
        (None, _) => None,
        (Some(Allocation::Choose), Some(own)) => Some(own),
        (Some(Allocation::Choose), None) => {
            Some(draft.ue_v6(rule.instance, pool).ok_or(is_occupied)?)
        }
        (Some(Allocation::Given(given)), own)
            if own.is_none_or(|own| prefix(own) == prefix(given)) =>
        {
            Some(std::net::Ipv6Addr::from_bits(prefix(given) << 64))
        }
        _ => return Err(Fault::of_rule(failed, IeType::UE_IP_ADDRESS)),
    };
    rule.ue_is_destination = address.is_destination;
    head.ue_v4 = head.ue_v4.or(rule.ue_v4);
    head.ue_v6 = head.ue_v6.or(rule.ue_v6);
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
        let ie_type = IeType::FORWARDING_PARAMETERS;
        return Err(Cause::CONDITIONAL_IE_MISSING.because_of(ie_type).into());
    }
    Ok(())
}

fn read_forwarding(group: &Group<'_>, rule: &mut Far, draft: &Draft<'_>) -> Result<(), Fault> {
    let failed = FailedRuleId::Far(FarId(rule.id));
    if group.has(IeType::FORWARDING_POLICY) {
        return Err(Cause::INVALID_FORWARDING_POLICY
            .because_of(IeType::FORWARDING_POLICY)
            .into());
    }
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
            let v4 = header.headers == OuterHeaders::GTP_U_UDP_IPV4;
            let v6 = header.headers == OuterHeaders::GTP_U_UDP_IPV6;
            if !v4 && !v6 {
                let ie_type = IeType::OUTER_HEADER_CREATION;
                return Err(Cause::SERVICE_NOT_SUPPORTED.because_of(ie_type).into());
            }
            rule.headers = header.headers.bits();
            rule.teid = header.teid.unwrap_or(0);
            (rule.v4, rule.v6) = (header.v4, header.v6);
        }
    }
    let marking = group.change(key::TRANSPORT_LEVEL_MARKING)?;
    match marking {
        Change::Keep => {}
        Change::Remove => rule.marking = None,
        Change::Set(class) => rule.marking = Some([class.value, class.mask]),
    }
    let interface = draft.settings.interface_to(rule.destination, rule.instance);
    rule.interface = interface.ok_or(Fault::of_rule(failed, IeType::DESTINATION_INTERFACE))?;
    let out = draft.settings.interfaces.get(usize::from(rule.interface));
    let can = out.is_some_and(|out| {
        (rule.v4.is_none() || out.v4.is_some()) && (rule.v6.is_none() || out.v6.is_some())
    });
    if !can {
        return Err(Fault::of_rule(failed, IeType::OUTER_HEADER_CREATION));
    }
    Ok(())
}

/// Reads Create QER or Update QER.
///
/// # Errors
/// Why the request is refused.
pub fn qer(group: &Group<'_>, rule: &mut Qer) -> Result<(), Fault> {
    refuse(
        group,
        &[
            IeType::PACKET_RATE,
            IeType::PACKET_RATE_STATUS,
            IeType::DL_FLOW_LEVEL_MARKING,
            IeType::QER_CONTROL_INDICATIONS,
            IeType::QER_INDICATIONS,
        ],
    )?;
    set(
        &mut rule.correlation,
        group.change(key::QER_CORRELATION_ID)?,
    );
    if let Change::Set(gates) = group.change(key::GATE_STATUS)? {
        (rule.ul_open, rule.dl_open) = (gates.ul_open, gates.dl_open);
    }
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
            IeType::EVENT_THRESHOLD,
            IeType::EVENT_QUOTA,
            IeType::SUBSEQUENT_EVENT_THRESHOLD,
            IeType::SUBSEQUENT_EVENT_QUOTA,
            IeType::TIME_QUOTA_MECHANISM,
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
        if method.contains(MeasurementMethod::EVENT) {
            return Err(unsupported(IeType::MEASUREMENT_METHOD).into());
        }
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
    ];
    Ok(granted.contains(&true))
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
