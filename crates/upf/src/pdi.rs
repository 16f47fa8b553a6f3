//! PDIs: from what an SMF says of where packets come from to what they are compared with.
//!
//! On N4, part of reading a PDR (`request`) or a Traffic Endpoint (`endpoint`). Here TEIDs and UE
//! addresses are drawn.

use catena_wire::pfcp::value::PdrId;
use catena_wire::pfcp::value::address::{Allocation, FTeid, UeIpAddress};
use catena_wire::pfcp::value::detection::SdfFilter;
use catena_wire::pfcp::value::node::FailedRuleId;
use catena_wire::pfcp::{Cause, Change, Group, IeType, Refusal, key};

use crate::application;
use crate::draft::Draft;
use crate::ethernet::filter::read_filter;
use crate::group::FROM_GROUP;
use crate::model::{Detection, Fault, share_prefix};
use crate::routes::Route;
use crate::rules::{Head, NONE, Pdr};
use crate::sdf::{Filter, parse_flow};

/// Service not supported, if one of these IEs is there.
pub(crate) fn refuse(group: &Group<'_>, unsupported: &[IeType]) -> Result<(), Refusal> {
    match unsupported.iter().find(|ie_type| group.has(**ie_type)) {
        Some(ie_type) => Err(Cause::SERVICE_NOT_SUPPORTED.because_of(*ie_type)),
        None => Ok(()),
    }
}

/// Service not supported, if rules for frames of Ethernet are in a session of another kind.
pub(crate) fn refuse_frames(group: &Group<'_>, head: &Head) -> Result<(), Refusal> {
    let of_frames = [
        IeType::ETHERNET_PDU_SESSION_INFORMATION,
        IeType::ETHERNET_PACKET_FILTER,
    ];
    match head.is_ethernet {
        true => Ok(()),
        false => refuse(group, &of_frames),
    }
}

/// Mandatory IE incorrect, if what says where packets come to means nothing: an F-TEID without a
/// version, an address that is said and to be chosen.
///
/// Both are optional, and 7.6.8 would leave them out. Then a rule would be accepted that has no
/// tunnel, or more packets than the SMF says.
pub(crate) fn refuse_meaningless(group: &Group<'_>) -> Result<(), Refusal> {
    for ie in group.ies() {
        let ie = ie?;
        match ie.ie_type {
            // Of an update, one that is removed.
            _ if ie.value.is_empty() => {}
            IeType::F_TEID => drop(ie.read(key::F_TEID)?),
            IeType::UE_IP_ADDRESS => drop(ie.read(key::UE_IP_ADDRESS)?),
            _ => {}
        }
    }
    Ok(())
}

/// Whether the UPF is to choose something for this PDI or Traffic Endpoint.
pub(crate) fn is_chosen(group: &Group<'_>) -> bool {
    let teid = matches!(group.get(key::F_TEID), Ok(Some(FTeid::Choose { .. })));
    let address = matches!(group.get(key::UE_IP_ADDRESS), Ok(Some(address))
        if address.v4 == Some(Allocation::Choose) || address.v6 == Some(Allocation::Choose));
    teid || address
}

/// Reads a PDI.
///
/// # Errors
/// Why the request is refused.
pub(crate) fn read(
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
            IeType::IP_MULTICAST_ADDRESSING_INFO,
            IeType::DNS_QUERY_FILTER,
            IeType::MBS_SESSION_IDENTIFIER,
        ],
    )?;
    refuse_frames(pdi, head)?;
    refuse_meaningless(pdi)?;
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
    if source.0 == FROM_GROUP && !draft.settings.groups.contains(&rule.instance) {
        return Err(Fault::of_rule(failed, IeType::NETWORK_INSTANCE));
    }
    (rule.ue_v4, rule.ue_v6) = (None, None);
    let mut prefix = None;
    if let Some(address) = pdi.get(key::UE_IP_ADDRESS)? {
        prefix = prefix_route(&address, rule.id, draft)?;
        read_ue_address(pdi, &address, rule, head, draft)?;
    }
    match pdi.get(key::F_TEID)? {
        Some(f_teid) => read_f_teid(&f_teid, rule, draft)?,
        None => (rule.teid, rule.is_teid_ours) = (0, false),
    }
    rule.qfis = read_qfis(pdi)?;
    detection.routes = read_routes(pdi, (rule.id, None), draft)?;
    detection
        .routes
        .extend(prefix.filter(|prefix| !detection.routes.contains(prefix)));
    detection.frames.clear();
    for group in pdi.groups(IeType::ETHERNET_PACKET_FILTER) {
        // Frames are not looked into.
        refuse(&group, &[IeType::SDF_FILTER])?;
        read_filter(&group, rule.id, &mut detection.frames)?;
    }
    detection.filters.clear();
    for filter in pdi.each(key::SDF_FILTER) {
        let filter = filter?;
        // As one that means nothing: it would be all packets.
        if filter == SdfFilter::default() {
            return Err(Fault::of_rule(failed, IeType::SDF_FILTER));
        }
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
        // Removed, of an endpoint that has some.
        if matches!(pdi.change(key)?, Change::Remove) {
            continue;
        }
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

/// How long the UE's IPv6 prefix is, in bits: 64, or less where the SMF says so or has it delegate
/// more (IP6PL, IPv6D). None longer than 64, which a UE is given whole.
///
/// # Errors
/// Service not supported.
pub(crate) fn prefix_len(address: &UeIpAddress) -> Result<u8, Refusal> {
    let len = address.prefix_len.unwrap_or(64);
    let delegated = address.prefix_delegation_bits.unwrap_or(0);
    let len = len
        .checked_sub(delegated)
        .filter(|len| (1..=64).contains(len));
    let refused = Cause::SERVICE_NOT_SUPPORTED.because_of(IeType::UE_IP_ADDRESS);
    // Of a prefix that the UPF is to choose, there are those of 64 bits.
    let is_chosen = address.v6 == Some(Allocation::Choose);
    len.filter(|len| *len == 64 || !is_chosen).ok_or(refused)
}

/// The network of a UE's prefix that is shorter than 64 bits: as a route to its UE, beside its
/// first prefix of 64.
fn prefix_route(address: &UeIpAddress, id: u16, draft: &Draft<'_>) -> Result<Option<Route>, Fault> {
    let len = prefix_len(address)?;
    let Some(Allocation::Given(given)) = address.v6.filter(|_| len != 64) else {
        return Ok(None);
    };
    // What goes to the rest of it says nothing of its shard.
    if draft.settings.shard.1 > 1 {
        let cause = Cause::SERVICE_NOT_SUPPORTED;
        return Err(cause.because_of(IeType::UE_IP_ADDRESS).into());
    }
    Ok(Some(Route::of_prefix(id, given, len)))
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
    rule.ue_v6 = match (address.v6, head.ue_v6) {
        (None, _) => None,
        (Some(Allocation::Choose), Some(own)) => Some(own),
        (Some(Allocation::Choose), None) => {
            Some(draft.ue_v6(rule.instance, pool).ok_or(is_occupied)?)
        }
        // A session of IP has several prefixes where its UE has several homes (TS 23.501, 5.6.4.3).
        (Some(Allocation::Given(given)), own)
            if !head.is_unstructured || own.is_none_or(|own| share_prefix(own, given)) =>
        {
            Some(std::net::Ipv6Addr::from_bits(given.to_bits() >> 64 << 64))
        }
        _ => return Err(Fault::of_rule(failed, IeType::UE_IP_ADDRESS)),
    };
    rule.ue_is_destination = address.is_destination;
    head.ue_v4 = head.ue_v4.or(rule.ue_v4);
    head.ue_v6 = head.ue_v6.or(rule.ue_v6);
    Ok(())
}

#[cfg(test)]
mod tests;
