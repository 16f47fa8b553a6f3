//! Requests of the scripted SMF: rules of a scenario as IEs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use catena_wire::pfcp::value::address::{Allocation, FSeid, FTeid, NodeId, UeIpAddress};
use catena_wire::pfcp::value::detection::{MacAddresses, SNssai, SdfFilter};
use catena_wire::pfcp::value::flags::{
    ApplyAction, EthernetFilterProperties, QerControlIndications, SessionModificationRequestFlags,
};
use catena_wire::pfcp::value::forwarding::{
    DestinationInterface, ForwardingPolicy, OuterHeaderCreation, OuterHeaderRemoval, OuterHeaders,
    RedirectInformation, RemovedHeader, SourceInterface, TrafficClass, VlanTag,
};
use catena_wire::pfcp::value::node::PdnType;
use catena_wire::pfcp::value::qos::{
    BitRates, GateStatus, PacketRateStatus, PacketRates, PagingPolicyIndicator, Qfi, Rate,
    Remaining, Rqi,
};
use catena_wire::pfcp::value::{
    BarId, FarId, Milliseconds, NotificationDelay, PdrId, QerId, Seconds, Time, TrafficEndpointId,
    UrrId,
};
use catena_wire::pfcp::{Full, IeType, Writer, key};

use super::monitoring;
use super::scenario::{
    Action, BarRule, EndpointRule, FarRule, FrameRule, PdrRule, QerRule, Rules, Scenario, Side,
};
use crate::group;

mod pfds;
mod urrs;

pub(super) use pfds::pfds;
pub(super) use urrs::triggers;

/// An address as one of two versions.
fn versions(address: IpAddr) -> (Option<Ipv4Addr>, Option<Ipv6Addr>) {
    match address {
        IpAddr::V4(address) => (Some(address), None),
        IpAddr::V6(address) => (None, Some(address)),
    }
}

/// The SMF's identity.
pub(super) fn node_id(scenario: &Scenario) -> NodeId<'static> {
    match scenario.smf {
        IpAddr::V4(address) => NodeId::V4(address),
        IpAddr::V6(address) => NodeId::V6(address),
    }
}

/// Writes the IEs of an establishment.
pub(super) fn establishment(
    writer: &mut Writer<'_>,
    scenario: &Scenario,
    rules: &Rules,
) -> Result<(), Full> {
    writer.put(key::NODE_ID, &node_id(scenario))?;
    let (v4, v6) = versions(scenario.smf);
    let f_seid = FSeid {
        seid: rules.session,
        v4,
        v6,
    };
    writer.put(key::F_SEID, &f_seid)?;
    let slice = rules.slice.map(|(sst, sd)| SNssai { sst, sd: Some(sd) });
    writer.put_some(key::S_NSSAI, slice.as_ref())?;
    let ethernet = rules.ethernet.then_some(PdnType::ETHERNET);
    let pdn_type = rules.unstructured.then_some(PdnType::NON_IP).or(ethernet);
    writer.put_some(key::PDN_TYPE, pdn_type.as_ref())?;
    modification(writer, scenario, rules)
}

/// Writes the IEs of a modification.
pub(super) fn modification(
    writer: &mut Writer<'_>,
    scenario: &Scenario,
    rules: &Rules,
) -> Result<(), Full> {
    for id in &rules.remove_pdrs {
        writer.group(IeType::REMOVE_PDR, |writer| {
            writer.put(key::PDR_ID, &PdrId(*id))
        })?;
    }
    for id in &rules.remove_fars {
        writer.group(IeType::REMOVE_FAR, |writer| {
            writer.put(key::FAR_ID, &FarId(*id))
        })?;
    }
    for id in &rules.remove_qers {
        writer.group(IeType::REMOVE_QER, |writer| {
            writer.put(key::QER_ID, &QerId(*id))
        })?;
    }
    for id in &rules.remove_endpoints {
        writer.group(IeType::REMOVE_TRAFFIC_ENDPOINT, |writer| {
            writer.put(key::TRAFFIC_ENDPOINT_ID, &TrafficEndpointId(*id))
        })?;
    }
    for (group, list) in [
        (IeType::CREATE_TRAFFIC_ENDPOINT, &rules.endpoints),
        (IeType::UPDATE_TRAFFIC_ENDPOINT, &rules.update_endpoints),
    ] {
        for rule in list {
            writer.group(group, |writer| endpoint(writer, scenario, rule))?;
        }
    }
    for (group, list) in [
        (IeType::CREATE_PDR, &rules.pdrs),
        (IeType::UPDATE_PDR, &rules.update_pdrs),
    ] {
        for rule in list {
            writer.group(group, |writer| pdr(writer, scenario, rule))?;
        }
    }
    for rule in &rules.fars {
        writer.group(IeType::CREATE_FAR, |writer| {
            far(writer, scenario, rule, IeType::FORWARDING_PARAMETERS)
        })?;
    }
    for rule in &rules.update_fars {
        writer.group(IeType::UPDATE_FAR, |writer| {
            far(writer, scenario, rule, IeType::UPDATE_FORWARDING_PARAMETERS)
        })?;
    }
    for (group, list) in [
        (IeType::CREATE_QER, &rules.qers),
        (IeType::UPDATE_QER, &rules.update_qers),
    ] {
        for rule in list {
            writer.group(group, |writer| qer(writer, rule))?;
        }
    }
    urrs::rules(writer, rules)?;
    for (group, list) in [
        (IeType::CREATE_BAR, &rules.bars),
        (IeType::UPDATE_BAR, &rules.update_bars),
    ] {
        for rule in list {
            writer.group(group, |writer| bar(writer, rule))?;
        }
    }
    for id in &rules.query_rates {
        writer.group(IeType::QUERY_PACKET_RATE_STATUS, |writer| {
            writer.put(key::QER_ID, &QerId(*id))
        })?;
    }
    monitoring::rules(writer, rules)?;
    let inactivity = rules.inactivity.map(Seconds);
    writer.put_some(key::USER_PLANE_INACTIVITY_TIMER, inactivity.as_ref())?;
    if rules.drop_buffered {
        writer.put(
            key::PFCPSMREQ_FLAGS,
            &SessionModificationRequestFlags::DROBU,
        )?;
    }
    Ok(())
}

/// The UPF's address of N9, or of N3.
fn tunnel_end(scenario: &Scenario, is_n9: bool) -> IpAddr {
    scenario.n9.filter(|_| is_n9).unwrap_or(scenario.n3)
}

fn choose_teid(scenario: &Scenario, is_n9: bool) -> FTeid {
    let end = tunnel_end(scenario, is_n9);
    FTeid::Choose {
        v4: end.is_ipv4(),
        v6: end.is_ipv6(),
        choose_id: Some(if is_n9 { 2 } else { 1 }),
    }
}

fn endpoint(writer: &mut Writer<'_>, scenario: &Scenario, rule: &EndpointRule) -> Result<(), Full> {
    writer.put(key::TRAFFIC_ENDPOINT_ID, &TrafficEndpointId(rule.id))?;
    let teid = rule.choose_teid.then(|| choose_teid(scenario, false));
    writer.put_some(key::F_TEID, teid.as_ref())?;
    let name = rule.network_instance.as_ref().map(|name| name.as_bytes());
    writer.put_some(key::NETWORK_INSTANCE, name.as_ref())?;
    let address = rule.choose_ue.then(|| UeIpAddress {
        v4: Some(Allocation::Choose),
        ..UeIpAddress::default()
    });
    writer.put_some(key::UE_IP_ADDRESS, address.as_ref())?;
    let mut routes = rule.framed_routes.iter();
    routes.try_for_each(|route| writer.put(key::FRAMED_ROUTE, &route.as_bytes()))?;
    let mut qfis = rule.qfis.iter();
    qfis.try_for_each(|qfi| writer.put(key::QFI, &Qfi(*qfi)))
}

fn pdr(writer: &mut Writer<'_>, scenario: &Scenario, rule: &PdrRule) -> Result<(), Full> {
    writer.put(key::PDR_ID, &PdrId(rule.id))?;
    writer.put_some(key::PRECEDENCE, rule.precedence.as_ref())?;
    if let Some(side) = rule.source {
        writer.group(IeType::PDI, |writer| pdi(writer, scenario, rule, side))?;
    }
    let removal = rule.removal.map(|description| OuterHeaderRemoval {
        description: RemovedHeader(description),
        extension_deletion: rule
            .deletes_container
            .then_some(OuterHeaderRemoval::PDU_SESSION_CONTAINER),
    });
    writer.put_some(key::OUTER_HEADER_REMOVAL, removal.as_ref())?;
    writer.put_some(key::FAR_ID, rule.far.map(FarId).as_ref())?;
    let mut urrs = rule.urrs.iter();
    urrs.try_for_each(|id| writer.put(key::URR_ID, &UrrId(*id)))?;
    let mut qers = rule.qers.iter();
    qers.try_for_each(|id| writer.put(key::QER_ID, &QerId(*id)))
}

fn pdi(
    writer: &mut Writer<'_>,
    scenario: &Scenario,
    rule: &PdrRule,
    side: Side,
) -> Result<(), Full> {
    let source = match side {
        Side::Access => SourceInterface::ACCESS,
        Side::Core => SourceInterface::CORE,
        Side::Group => SourceInterface(group::FROM_GROUP),
    };
    writer.put(key::SOURCE_INTERFACE, &source)?;
    let endpoint = rule.endpoint.map(TrafficEndpointId);
    writer.put_some(key::TRAFFIC_ENDPOINT_ID, endpoint.as_ref())?;
    if rule.choose_teid {
        writer.put(key::F_TEID, &choose_teid(scenario, rule.n9))?;
    }
    if let Some(teid) = rule.teid {
        let (v4, v6) = versions(tunnel_end(scenario, rule.n9));
        let given = FTeid::Given { teid, v4, v6 };
        writer.put(key::F_TEID, &given)?;
    }
    let name = rule.network_instance.as_ref().map(|name| name.as_bytes());
    writer.put_some(key::NETWORK_INSTANCE, name.as_ref())?;
    let choice = rule.choose_ue.then_some(Allocation::Choose);
    let v4 = rule.ue.map(Allocation::Given).or(choice);
    let choice = rule.choose_prefix.then_some(Allocation::Choose);
    let v6 = rule.prefix.map(Allocation::Given).or(choice);
    if v4.is_some() || v6.is_some() {
        let address = UeIpAddress {
            v4,
            v6,
            is_destination: side != Side::Access,
            prefix_len: rule.prefix_len,
            prefix_delegation_bits: rule.delegated,
        };
        writer.put(key::UE_IP_ADDRESS, &address)?;
    }
    for text in &rule.sdf {
        let filter = SdfFilter {
            flow_description: Some(text.as_bytes()),
            ..SdfFilter::default()
        };
        writer.put(key::SDF_FILTER, &filter)?;
    }
    for rule in &rule.frames {
        writer.group(IeType::ETHERNET_PACKET_FILTER, |writer| frame(writer, rule))?;
    }
    if rule.flow_label.is_some() {
        let filter = SdfFilter {
            flow_label: rule.flow_label,
            ..SdfFilter::default()
        };
        writer.put(key::SDF_FILTER, &filter)?;
    }
    let application = rule.application.as_ref().map(|id| id.as_bytes());
    writer.put_some(key::APPLICATION_ID, application.as_ref())?;
    for (key, routes) in [
        (key::FRAMED_ROUTE, &rule.framed_routes),
        (key::FRAMED_IPV6_ROUTE, &rule.framed_v6_routes),
    ] {
        let mut routes = routes.iter();
        routes.try_for_each(|route| writer.put(key, &route.as_bytes()))?;
    }
    let mut qfis = rule.qfis.iter();
    qfis.try_for_each(|qfi| writer.put(key::QFI, &Qfi(*qfi)))
}

fn frame(writer: &mut Writer<'_>, rule: &FrameRule) -> Result<(), Full> {
    writer.put_some(key::ETHERNET_FILTER_ID, rule.id.as_ref())?;
    if rule.both {
        let properties = EthernetFilterProperties::BIDE;
        writer.put(key::ETHERNET_FILTER_PROPERTIES, &properties)?;
    }
    let address = |text: &Option<String>| text.as_ref().and_then(|text| text.parse().ok());
    let (src, dst) = (address(&rule.src), address(&rule.dst));
    if src.is_some() || dst.is_some() {
        let addresses = MacAddresses {
            src,
            dst,
            ..MacAddresses::default()
        };
        writer.put(key::MAC_ADDRESS, &addresses)?;
    }
    writer.put_some(key::ETHERTYPE, rule.ether_type.as_ref())?;
    let tag = rule.vlan.map(|vid| VlanTag {
        pcp: None,
        dei: None,
        vid: Some(vid),
    });
    writer.put_some(key::C_TAG, tag.as_ref())
}

fn far(
    writer: &mut Writer<'_>,
    scenario: &Scenario,
    rule: &FarRule,
    parameters: IeType,
) -> Result<(), Full> {
    writer.put(key::FAR_ID, &FarId(rule.id))?;
    let action = rule.action.map(|action| match action {
        Action::Forward => ApplyAction::FORW,
        Action::Drop => ApplyAction::DROP,
        Action::Buffer => ApplyAction::BUFF,
        Action::BufferNotify => ApplyAction::BUFF | ApplyAction::NOCP,
        Action::ForwardDuplicate => ApplyAction::FORW | ApplyAction::DUPL,
        Action::DropDuplicate => ApplyAction::DROP | ApplyAction::DUPL,
    });
    writer.put_some(key::APPLY_ACTION, action.as_ref())?;
    writer.put_some(key::BAR_ID, rule.bar.map(BarId).as_ref())?;
    let side = rule.to.map(|side| match side {
        Side::Access => DestinationInterface::ACCESS,
        Side::Core => DestinationInterface::CORE,
        Side::Group => DestinationInterface(group::TO_GROUP),
    });
    let destination = rule.destination.map(DestinationInterface).or(side);
    copies(writer, scenario, rule, parameters)?;
    let has_tags = rule.s_tag.is_some() || rule.c_tag.is_some();
    let has_header = rule.ip.is_some() || has_tags;
    let has_more = rule.end_marker
        || rule.redirect.is_some()
        || rule.marking.is_some()
        || has_header
        || rule.policy.is_some();
    if destination.is_none() && rule.teid.is_none() && rule.udp.is_none() && !has_more {
        return Ok(());
    }
    writer.group(parameters, |writer| {
        writer.put_some(key::DESTINATION_INTERFACE, destination.as_ref())?;
        let name = rule.network_instance.as_ref().map(|name| name.as_bytes());
        writer.put_some(key::NETWORK_INSTANCE, name.as_ref())?;
        match rule.redirect.as_deref() {
            None => {}
            Some("") => writer.put_null(IeType::REDIRECT_INFORMATION)?,
            Some(to) => {
                let address_type = match to.parse::<Ipv4Addr>() {
                    Ok(_) => RedirectInformation::IPV4,
                    Err(_) => RedirectInformation::URL,
                };
                let information = RedirectInformation {
                    address_type,
                    address: to.as_bytes(),
                    other_address: None,
                    port: None,
                };
                writer.put(key::REDIRECT_INFORMATION, &information)?;
            }
        }
        match rule.policy.as_deref() {
            None => {}
            Some("") => writer.put_null(IeType::FORWARDING_POLICY)?,
            Some(name) => {
                writer.put(key::FORWARDING_POLICY, &ForwardingPolicy(name.as_bytes()))?;
            }
        }
        let end = rule.upf.unwrap_or(scenario.ran);
        let header = rule.teid.map(|teid| tunnel(end, teid));
        let header = header.or(rule.udp.map(|port| to_host(scenario, rule.host, port)));
        let header = header.or(has_header.then(|| around(rule)));
        writer.put_some(key::OUTER_HEADER_CREATION, header.as_ref())?;
        let marking = rule
            .marking
            .map(|[value, mask]| TrafficClass { value, mask });
        writer.put_some(key::TRANSPORT_LEVEL_MARKING, marking.as_ref())?;
        let endpoint = rule.endpoint.map(TrafficEndpointId);
        writer.put_some(key::TRAFFIC_ENDPOINT_ID, endpoint.as_ref())?;
        let flags = rule
            .end_marker
            .then_some(SessionModificationRequestFlags::SNDEM);
        writer.put_some(key::PFCPSMREQ_FLAGS, flags.as_ref())
    })
}

/// Outer Header Creation of a tunnel to the gNB, or to another UPF.
fn tunnel(end: IpAddr, teid: u32) -> OuterHeaderCreation {
    let (v4, v6) = versions(end);
    let headers = match end {
        IpAddr::V4(_) => OuterHeaders::GTP_U_UDP_IPV4,
        IpAddr::V6(_) => OuterHeaders::GTP_U_UDP_IPV6,
    };
    OuterHeaderCreation {
        headers,
        teid: Some(teid),
        v4,
        v6,
        ..OuterHeaderCreation::default()
    }
}

/// Outer Header Creation of IP, or of tags; of all that is said.
fn around(rule: &FarRule) -> OuterHeaderCreation {
    let (v4, v6) = rule.ip.map_or((None, None), versions);
    let tag = |[vid, pcp]: [u16; 2]| VlanTag {
        vid: Some(vid),
        pcp: Some(pcp as u8),
        dei: None,
    };
    let (s_tag, c_tag) = (rule.s_tag.map(tag), rule.c_tag.map(tag));
    let headers = [
        (v4.is_some(), OuterHeaders::IPV4),
        (v6.is_some(), OuterHeaders::IPV6),
        (s_tag.is_some(), OuterHeaders::S_TAG),
        (c_tag.is_some(), OuterHeaders::C_TAG),
    ];
    let there = headers.into_iter().filter(|(is_there, _)| *is_there);
    OuterHeaderCreation {
        headers: there.fold(OuterHeaders::NONE, |all, (_, one)| all | one),
        v4,
        v6,
        s_tag,
        c_tag,
        ..OuterHeaderCreation::default()
    }
}

/// Outer Header Creation of datagrams to a port of the host, over IPv6 if it has an address.
fn to_host(scenario: &Scenario, host: Option<Ipv6Addr>, port: u16) -> OuterHeaderCreation {
    let v6 = host.or(scenario.host_v6);
    let v4 = v6.is_none().then_some(scenario.host);
    OuterHeaderCreation {
        headers: match v4 {
            Some(_) => OuterHeaders::UDP_IPV4,
            None => OuterHeaders::UDP_IPV6,
        },
        v4,
        v6,
        port: Some(port),
        ..OuterHeaderCreation::default()
    }
}

fn copies(
    writer: &mut Writer<'_>,
    scenario: &Scenario,
    rule: &FarRule,
    parameters: IeType,
) -> Result<(), Full> {
    let ie_type = match parameters {
        IeType::FORWARDING_PARAMETERS => IeType::DUPLICATING_PARAMETERS,
        _ => IeType::UPDATE_DUPLICATING_PARAMETERS,
    };
    if rule.copies.as_ref().is_some_and(Vec::is_empty) {
        return writer.put_null(ie_type);
    }
    for copy in rule.copies.iter().flatten() {
        writer.group(ie_type, |writer| {
            let destination = copy.destination.map(DestinationInterface);
            writer.put_some(key::DESTINATION_INTERFACE, destination.as_ref())?;
            let header = copy.teid.map(|teid| tunnel(scenario.ran, teid));
            writer.put_some(key::OUTER_HEADER_CREATION, header.as_ref())?;
            let policy = copy
                .policy
                .as_ref()
                .map(|name| ForwardingPolicy(name.as_bytes()));
            writer.put_some(key::FORWARDING_POLICY, policy.as_ref())
        })?;
    }
    Ok(())
}

/// What a BAR says, also in the answer to a report.
pub(super) fn bar(writer: &mut Writer<'_>, rule: &BarRule) -> Result<(), Full> {
    writer.put(key::BAR_ID, &BarId(rule.id))?;
    let delay = rule.delay.map(NotificationDelay);
    writer.put_some(key::DOWNLINK_DATA_NOTIFICATION_DELAY, delay.as_ref())?;
    let packets = rule.packets.as_ref();
    writer.put_some(key::SUGGESTED_BUFFERING_PACKETS_COUNT, packets)
}

fn qer(writer: &mut Writer<'_>, rule: &QerRule) -> Result<(), Full> {
    writer.put(key::QER_ID, &QerId(rule.id))?;
    let gates = GateStatus {
        ul_open: rule.ul_open,
        dl_open: rule.dl_open,
    };
    writer.put(key::GATE_STATUS, &gates)?;
    for (key, rates) in [(key::MBR, rule.mbr_kbps), (key::GBR, rule.gbr_kbps)] {
        let rates = rates.map(|[ul_kbps, dl_kbps]| BitRates { ul_kbps, dl_kbps });
        writer.put_some(key, rates.as_ref())?;
    }
    let packets = rule.packet_rate.map(|rule| {
        let rate = |packets: Option<u16>| {
            let unit = rule.unit;
            packets.map(|packets| Rate { unit, packets })
        };
        PacketRates {
            ul: rate(rule.ul),
            dl: rate(rule.dl),
            additional: None,
        }
    });
    let window = rule.window_ms.map(Milliseconds);
    writer.put_some(key::AVERAGING_WINDOW, window.as_ref())?;
    writer.put_some(key::PACKET_RATE, packets.as_ref())?;
    let status = rule.rate_status.map(|rule| {
        let left = |packets: Option<u16>| {
            packets.map(|packets| Remaining {
                packets,
                additional: None,
            })
        };
        let until = u64::from(Time::from_unix_epoch(rule.until).0) << 32;
        PacketRateStatus {
            ul: left(rule.ul),
            dl: left(rule.dl),
            validity_time: Some(until),
        }
    });
    writer.put_some(key::PACKET_RATE_STATUS, status.as_ref())?;
    let flags = rule.tells_rate.then_some(QerControlIndications::RCSR);
    writer.put_some(key::QER_CONTROL_INDICATIONS, flags.as_ref())?;
    writer.put_some(key::QFI, rule.qfi.map(Qfi).as_ref())?;
    let rqi = rule.rqi.map(|rqi| Rqi(rqi.into()));
    writer.put_some(key::RQI, rqi.as_ref())?;
    let ppi = rule.ppi.map(PagingPolicyIndicator);
    writer.put_some(key::PAGING_POLICY_INDICATOR, ppi.as_ref())
}
